"""The README's Python runs from top to bottom, and what it promises comes out."""

import re
from pathlib import Path

import pytest

from docs.generate import quality

README = Path(__file__).parents[1] / "README.md"
FIRST_SCREEN = 60  # lines until the first result is printed and shown
WIDTH = 100
ROUNDING = 2.0  # of the numbers that are shown: they may move with the linear algebra


def text_of_readme():
    return README.read_text(encoding="utf-8")


def python_blocks():
    return re.findall(r"```python\n(.*?)```", text_of_readme(), flags=re.DOTALL)


def test_the_code_of_the_readme_runs(capsys):
    pytest.importorskip("pandas")
    blocks = python_blocks()
    assert len(blocks) >= 7
    exec(compile("\n".join(blocks), str(README), "exec"), {})
    printed = capsys.readouterr().out
    assert "global optimum" in printed and "Admm" in printed
    shown = re.search(r"```text\n(.*?)```", text_of_readme(), flags=re.DOTALL)[1]
    found = printed.splitlines()[: len(shown.splitlines())]
    for line, expected in zip(found, shown.splitlines(), strict=True):
        for word, other in zip(line.split(), expected.split(), strict=True):
            same = word == other
            assert same or float(word) == pytest.approx(float(other), abs=ROUNDING), expected


def test_the_first_result_is_on_the_first_screen():
    first = text_of_readme().splitlines()[:FIRST_SCREEN]
    assert "```python" in first and "```text" in first


def test_lines_are_short():
    long = [line for line in text_of_readme().splitlines() if len(line) > WIDTH]
    assert not long


def test_the_scores_are_those_that_are_kept():
    kept = quality.read_page(quality.PAGE.read_text(encoding="utf-8"))
    text = text_of_readme()
    assert quality.with_table(text, quality.short_table(kept)) == text


REPORT = """# Quality suite, regfactor 0.1.0

## labels: few labels

| dataset | setting | LR | **Ours** | verdict | best peer |
|---|---|---|---|---|---|
| crabs | 2 | 0.5 | 0.6 | win | LR |

| mean of | LR | SVC | Ours | Other | best peer of each row |
|---|---|---|---|---|---|
| transductive accuracy | 0.636 | 0.700* | 0.695 | 0.539 | 0.682 |
| total CPU seconds | 1.1 | 9.2 | 6.0 | 0.7 |  |

Ours: 32/31/15 wins/ties/losses of 78 rows

Other: 5/11/62 wins/ties/losses of 78 rows
"""


def test_scores_are_read_from_a_report_and_written_once():
    tasks = quality.read_tasks(REPORT)
    page = quality.page(tasks, "abc1234")
    assert "commit abc1234" in page and "| **Ours** | 0.695 | 6.0 |" in page
    assert quality.read_page(page) == tasks
    table = quality.short_table(tasks)
    assert "| **few labels**: `Ours` | 32 won, 31 tied, 15 lost | | |" in table
    # a method that was not run everywhere is not the best
    assert "| accuracy, unlabeled rows | 0.695 | 0.636 LR | 0.682 |" in table
    marked = f"before\n{quality.BEGIN}old\n{quality.END}after\n"
    assert quality.with_table(marked, table).startswith("before\n<!--")
    assert "old" not in quality.with_table(marked, table)


def test_the_commands_of_the_readme_are_those_of_the_page_that_makes_their_tables():
    commands = re.findall(r"^regfactor [^#\n]*[^#\n ]", text_of_readme(), flags=re.MULTILINE)
    page = (README.parent / "docs" / "cli.md").read_text(
        encoding="utf-8"
    )  # whose commands are run by its own test
    assert len(commands) >= 3
    assert [command for command in commands if command not in page] == []


def test_the_readme_names_every_command():
    pytest.importorskip("typer")
    from regfactor.cli.app import app

    section = text_of_readme().split("## From the command line")[1].split("\n## ")[0]
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        assert re.search(rf"regfactor {name}\b|`{name}`", section), name


RESULTS = README.parent / "benchmarks" / "results"
MOVED = 0.15  # share by which a ratio may differ from the README's before that is called stale


def result(name):
    return (RESULTS / f"{name}.md").read_text(encoding="utf-8")


def found_in(name, pattern):
    """The numbers that a pattern with one group finds in a table of results."""
    found = [float(n) for n in re.findall(pattern, result(name), flags=re.MULTILINE)]
    assert found, pattern
    return found


def ratios_of_results():
    """Row of the README's table of CPU time, and the ratios that its results hold."""
    with_kmeans = r"^\| \w+(?:, weighted)? \| .*\| {} \| .*\*\*([\d.]+)\*\* \| [\d.]+ \|$"
    robust = r"^\| ours / pyrpca \| ([\d.]+) \| [\d.]+ \| [\d.]+ \|$"
    most = r"^\| ours / pyrpca \| [\d.]+ \| [\d.]+ \| ([\d.]+) \|$"
    varmax = r"^\| \d \| [\d.]+ s \| .*?\*\*(\d+)\*\*"
    epca = r"^\| \w+ \| \d \| ours, alpha=1.*\| 1/([\d.]+) \|"
    digits = r"^\| digits \| {} \| ours, [^|]*\| \d+ \| \d+ \| [\d.]+ \| ([\d.]+) \|"
    cca = r"\| \*\*1/(\d+)\*\*, 1/\d+ \|"
    million = result("ratings").split("## A tenth of")[1].split("\n## ")[0]
    ratings = re.findall(r"ConvexSubspace\(max_rank=40\).*? s \| ([\d.]+) \|", million)
    estimator = r"^\| \d \| [\d.]+ s \| [\d.e-]+ \| .*proven \| .*? \| \*\*([\d.]+)\*\* \|"
    return {
        "completion, 1,000 x 500": found_in("completion", estimator),
        "exact principal component pursuit": found_in("robust", robust) + found_in("robust", most),
        "exponential-family PCA": [1 / n for n in found_in("epca", epca)],
        "k-means, 200,000": found_in("clusters", with_kmeans.format("float64")),
        "the same, float32": found_in("clusters", with_kmeans.format("float32")),
        "canonical correlation": [1 / n for n in found_in("cca", cca)],
        "VARMA(1, 1)": [1 / n for n in found_in("arma", varmax)],
        "999,142 generated ratings": [float(n) for n in ratings],
        "non-negative factors": found_in("nmf", digits.format("squared")),
        "the same under KL": found_in("nmf", digits.format("kl")),
    }


@pytest.mark.parametrize("row", sorted(ratios_of_results()))
def test_the_ratios_of_cpu_time_are_those_of_the_results(row):
    found = ratios_of_results()[row]
    line = next(line for line in text_of_readme().splitlines() if line.startswith(f"| {row}"))
    shown = [float(n) for n in re.findall(r"\d*\.\d+", line.rsplit("|", 2)[1])]
    assert shown == pytest.approx([min(found), max(found)], rel=MOVED), (line, found)
