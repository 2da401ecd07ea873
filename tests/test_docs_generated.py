"""Generated pages hold what the code and its results say."""

import inspect
from pathlib import Path

import pytest
from sklearn.utils import get_tags

import regfactor
from catalogue import ESTIMATORS
from docs.generate import api, claims, docstrings, gallery
from docs.generate.benchmarks import write_benchmarks
from docs.generate.commands import write_commands
from docs.generate.first_report import CORRECTIONS, corrections
from docs.generate.links import dead_links
from experiments._runner import find

REPORT = """# toy-1: squares (Nobody 2000, table 1)

Some text.

## (a) numbers

| i | printed | here |
|---|---|---|
| 2 | 4 | 5 |

## What reproduces

- the square of 2 **does not hold**.

![toy-1](toy-1.png)

1 cell, 1 s in all.
"""
DOCSTRING = """|r| of f*, see `codes_` and codes_.

Parameters
----------
max_iter : int, default=10
alpha, beta : float or "auto"
    Strength of |Z|.

Returns
-------
ndarray of shape (n,)

Examples
--------
>>> 2 * 3 | 1
7
"""
EXAMPLE = """'''A toy: what is drawn?'''
import sys
from pathlib import Path
out = Path(sys.argv[2])
out.mkdir()
(out / "toy.png").write_bytes(b"a figure")
with open({runs!r}, "a") as file:
    file.write("x")
print("six")
"""


def test_claims_are_generated_from_results(tmp_path):
    results, generated = tmp_path / "results", tmp_path / "generated"
    results.mkdir()
    claims.write_claims(results, generated)
    assert "No experiment has been run" in (generated / "claims.md").read_text()
    (results / "toy-1.md").write_text(REPORT)
    (results / "toy-1.png").write_bytes(b"a figure")
    claims.write_claims(results, generated)
    told, page = (
        (generated / "claims.md").read_text(),
        (generated / "claims" / "toy-1.md").read_text(),
    )
    assert "| squares (Nobody 2000, table 1) | 0 hold, 0 not decided, 1 do not hold |" in told
    assert "- the square of 2 **does not hold**." in told.partition("## What does not hold")[2]
    assert "1 cell" not in told and "| 2 | 4 | 5 |" not in told
    assert page.index("**does not hold**") < page.index("| 2 | 4 | 5 |")  # verdicts come first
    assert page.endswith("![toy-1](toy-1.png)\n\n1 cell, 1 s in all.\n")
    assert (generated / "claims" / "toy-1.png").read_bytes() == b"a figure"
    (results / "toy-1.md").unlink()
    claims.write_claims(results, generated)
    assert not list((generated / "claims").glob("*.md"))


def test_no_word_of_a_report_is_lost():
    reports = [path.read_text(encoding="utf-8") for path in claims.RESULTS.glob("*.md")]
    for text in [REPORT, *reports]:
        assert sorted(claims.verdicts_first(text).split()) == sorted(text.split()), text.partition(
            "\n"
        )[0]


def test_benchmarks_are_generated_from_results(tmp_path):
    (tmp_path / "toy.md").write_text("# Toys\n\nnumpy 2.0, scikit-learn 1.6.\n")
    write_benchmarks(tmp_path, tmp_path / "generated")
    row = "| [Toys](_generated/benchmarks/toy.md) | `make bench-toy` | scikit-learn |"
    assert row in (tmp_path / "generated" / "benchmarks.md").read_text()


def test_every_command_is_listed_with_its_options(tmp_path):
    write_commands(tmp_path)
    told = (tmp_path / "commands.md").read_text()
    for name in (
        "label",
        "complete",
        "cluster",
        "embed",
        "denoise",
        "forecast",
        "score",
        "atlas",
        "reproduce",
    ):
        assert f"### `regfactor {name}" in told
    assert "| `--target TARGET` | required |" in told and "| `--horizon HORIZON` | `12` |" in told


def test_the_reference_has_every_public_name(tmp_path):
    api.write_api(tmp_path)
    pages = "".join(path.read_text() for path in (tmp_path / "api").glob("*.rst"))
    for name in regfactor.__all__:
        assert f":: regfactor.{name}\n" in pages
    assert {f"regfactor.{name}" for name in regfactor.PACKAGES} <= set(api.MODULES)
    for name in (
        "losses.Huber",
        "norms.Blocks",
        "constraints.region",
        "datasets.load",
        "baselines.timeseries.N4SID",
    ):
        assert f":: regfactor.{name}\n" in pages
    contents = (tmp_path / "api.rst").read_text()
    assert all(
        f"_generated/api/{path.stem}\n" in contents for path in (tmp_path / "api").glob("*.rst")
    )


def test_a_docstring_is_shown_as_it_is_meant():
    lines = docstrings.to_rst(DOCSTRING.split("\n"))
    assert lines[0] == r"\|r\| of f\*, see ``codes_`` and codes\_."
    assert ".. rubric:: Parameters" in lines and "----------" not in lines
    assert lines[lines.index("**max_iter** : int, default=10") + 1].strip() == "\\"
    assert lines[lines.index('**alpha, beta** : float or "auto"') + 1] == r"    Strength of \|Z\|."
    assert "ndarray of shape (n,)" in lines and ">>> 2 * 3 | 1" in lines


def test_dead_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">x</a><a href="https://example.org/">x</a><p id="there">'
    )
    (tmp_path / "b.html").write_text(
        '<p id="here"><a href="a.html#there">x</a><img src="no.png"><a href="a.html#no">x</a><a href="#here">x</a>'
    )
    assert dead_links(tmp_path) == ["b.html: a.html#no", "b.html: no.png"]


def test_the_gallery_runs_every_example_once(tmp_path):
    examples, generated, runs = tmp_path / "examples", tmp_path / "generated", tmp_path / "runs"
    examples.mkdir()
    example = examples / "toy_one.py"
    example.write_text(EXAMPLE.format(runs=str(runs)))
    for _ in range(2):
        gallery.write_gallery(examples, generated, tmp_path / "sources")
    assert runs.read_text() == "x"
    page = (generated / "gallery" / "toy_one.md").read_text()
    assert page.startswith("# Toy one\n\nA toy: what is drawn?\n\n![Toy one](toy_one/toy.png)")
    assert "````text\nsix\n````" in page and "out.mkdir()" in page and "'''A toy" not in page
    assert "  A toy: what is drawn?" in (generated / "gallery.md").read_text()
    example.write_text("raise SystemExit('no luck')")
    with pytest.raises(RuntimeError, match=r"toy_one.py ended with code 1:\nno luck"):
        gallery.write_gallery(examples, generated, tmp_path / "sources")
    example.unlink()
    gallery.write_gallery(examples, generated, tmp_path / "sources")
    assert not list((generated / "gallery").iterdir())


def test_an_example_may_leave_a_report_in_place_of_a_figure(tmp_path):
    examples, generated = tmp_path / "examples", tmp_path / "generated"
    examples.mkdir()
    example, text = examples / "toy_one.py", EXAMPLE.format(runs=str(tmp_path / "runs"))
    example.write_text(text.replace("toy.png", "toy.html"))
    gallery.write_gallery(examples, generated, tmp_path / "sources")
    page = (generated / "gallery" / "toy_one.md").read_text()
    assert "The report {download}`toy.html <toy_one/toy.html>`" in page and "![" not in page
    assert (
        "- [Toy one](_generated/gallery/toy_one.md)\n\n  A toy"
        in (generated / "gallery.md").read_text()
    )
    example.write_text(text.replace("toy.png", "toy.txt"))
    with pytest.raises(RuntimeError, match="left no figure or report"):
        gallery.write_gallery(examples, generated, tmp_path / "sources")


def test_the_table_of_what_estimators_accept_holds_their_tags():
    page = Path(__file__).parents[1] / "docs" / "choose.md"
    section = page.read_text(encoding="utf-8").split("## What each estimator accepts")[1]
    rows = {}
    for line in section.split("\n## ")[0].splitlines():
        if line.startswith("| `"):
            name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            rows[name.strip("`")] = cells
    expected = {}
    for name, estimator in ESTIMATORS.items():
        tags = get_tags(estimator).input_tags
        takes_weights = "sample_weight" in inspect.signature(estimator.fit).parameters
        methods = [
            f"`{method}`"
            for method in ("predict", "transform", "complete")
            if hasattr(type(estimator), method)
        ]
        accepted = [tags.allow_nan, tags.sparse, takes_weights]
        expected[name] = [*("yes" if item else "no" for item in accepted), ", ".join(methods)]
    assert rows == expected


def test_first_verdicts_stand_next_to_those_of_today():
    line = "- puma8nm, sup-kernel is better than semi Euc, forward: tuned on labels **holds** (by 2).\n"
    other = "- calhousing, trans-reg is better than semi Euc, forward: **not decided** (by 1).\n"
    head = "# aistats-1: regression\n\n## What reproduces\n\n"
    old = f"{head}{line}{other}\n2 cells, 1 s in all, one thread each. numpy 2.0.\n"
    mixed = old.replace("numpy 2.0.", "numpy 2.0. Commit: 0123abc, not kept.")
    new = old.replace("numpy 2.0.", "numpy 2.0. Commit: 0123abc.")
    assert corrections({"thesis-f5.1": new}) == ""
    for text in (old, mixed):
        table = corrections({"aistats-1": text})
        assert "tuned on labels holds (by 11 ± 1.5) | not run again yet |" in table
    table = corrections({"aistats-1": new})
    assert "semi Euc, forward: tuned on labels **holds** (by 2) |" in table
    with pytest.raises(ValueError, match="no line that begins"):
        corrections({"aistats-1": new.replace("puma8nm", "puma")})


def test_claims_that_are_corrected_are_those_of_the_experiments():
    for each in CORRECTIONS:
        experiment = find(each.experiment)
        claims_of_table = [f"{c.dataset}, {c.text}" for c in getattr(experiment, "claims", ())]
        assert not claims_of_table or each.claim in claims_of_table
