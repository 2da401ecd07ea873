"""The report: one file that needs nothing from outside."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import numpy as np
from console import cells, command, table  # noqa: F401

from regfactor.cli.code import MAX_LINE_LENGTH, wrapped
from regfactor.cli.rows_to_see import spelled_limits
from regfactor.cli.tables import read
from regfactor.report import (
    Code,
    Figure,
    Grid,
    GridCell,
    Note,
    Page,
    Section,
    Text,
    at_most,
    figures,
    number,
)

VOID = {"meta", "link", "br", "img"}


class Outline(HTMLParser):
    """What a page is made of: its tags in balance, its ids, what it points to, its text."""

    def __init__(self, page):
        super().__init__()
        self.open, self.ids, self.links, self.tags, self.text = [], [], [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.ids += [v for k, v in attrs if k == "id"]
        self.links += [v for k, v in attrs if k in ("src", "href", "xlink:href", "data", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_data(self, data):
        self.text += data


def page():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 40))
    drawn = [
        figures.bars(
            ["a", "a name that is far too long for the margin"], [0.2, 0.5], "share", percent=True
        ),
        figures.bars(
            ["a", "b"], [0.2, -0.5], "gain", marks=[0.3, 0.1], mark_label="m", value_label="v"
        ),
        figures.scores(["one", "two"], [x[:5], y[:5]], 0, "score"),
        figures.cloud(x, y),
        figures.cloud(x, y, np.arange(40) % 8, ("code 1", "code 2")),
        figures.histogram(x, "value"),
        figures.convergence([1, 2, 3], [1.0, 1e-2, 1e-5]),
        figures.fan(
            (np.arange(9), x[:9]), (np.arange(9, 12), y[:3], y[:3] - 1, y[:3] + 1), "sales", 0.9
        ),
    ]
    blocks = [
        Text("a < b & c"),
        Note("<script>alert(1)</script>"),
        Code("print('<x>')", "run"),
        Grid(("name", "n"), [("<b>", "1"), ("c", "2.5e-3")], "caption"),
        *(Figure(svg, 'a "figure" <here>') for svg in drawn),
    ]
    return Page(
        "<title>",
        "lead & more",
        [("3", "<things>")],
        [Section("all", blocks), Section("left out", [])],
    )


def test_a_page_is_whole_and_needs_nothing():
    text = page().html()
    outline = Outline(text)
    assert outline.open == [] and outline.tags.count("script") == 1
    assert len(outline.ids) == len(set(outline.ids)) > 10
    own = {f"#{name}" for name in outline.ids} | {"data:,"}
    assert set(outline.links) <= own
    assert set(re.findall(r"url\((.*?)\)", text)) <= own
    assert "@import" not in text and "left out" not in outline.text
    for said in (
        "a < b & c",
        "<script>alert(1)</script>",
        "lead & more",
        "<things>",
        "print('<x>')",
    ):
        assert said in outline.text


def test_figures_take_their_colors_from_the_page():
    text = page().html()
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", text))
    light, dark, paper = (
        set(re.findall(r"(--[a-z0-9-]+):", block))
        for block in re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    )
    assert {"--ink", "--grid", "--c1", "--c2"} <= used <= light == dark and used - {
        "--accent"
    } <= paper | light
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        colors = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", svg))
        assert not colors & set(figures.VARIABLES), colors
        assert colors <= {"#000000"}  # what matplotlib leaves unsaid


def test_only_the_script_of_the_page_may_run():
    text = page().html()
    script = re.search(r"<script>(.*)</script>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)[1]
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy
    assert "</script" not in script and "http" not in script


def test_what_is_shown_on_demand_is_in_the_page():
    rows = [["1", GridCell("<i>", "90%: 1 & 2", "filled", 1.5)], ["2", "plain"]]
    text = Page(
        "t", "l", [], [Section("s", [Grid(("row", "x"), rows, "all", looked_up=True)])]
    ).html()
    outline = Outline(text)
    assert outline.open == [] and "<i>" in outline.text and "90%: 1 & 2" in outline.text
    cell = re.search(r"<td[^>]*filled[^>]*>", text)[0]
    assert 'tabindex="0"' in cell and 'data-key="1.5"' in cell
    assert (
        text.partition("<script>")[0].count('tabindex="0"') == 2
    )  # the cell, and the frame that scrolls
    assert 'aria-labelledby="rows-' in text and 'scope="col"' in text


def test_rows_to_look_at_hold_their_limits(table):  # noqa: F811
    assert command("complete", table).code == 0
    page = table.with_name("people.complete.html").read_text(encoding="utf-8")
    out = cells(table.with_name("people.complete.csv"))
    given = cells(table)
    text = Outline(page).text
    filled = (out[given.columns] != given).any(axis=1)
    listed = re.search(r"<table class=\"looked-up\">.*?</table>", page, re.DOTALL)[0]
    numbers = re.findall(r"<tr><td class=\"number\">(\d+)</td>", listed)
    flagged = out["flagged"] != ""
    assert sorted(int(n) - 1 for n in numbers) == np.flatnonzero(filled | flagged).tolist()
    assert int(numbers[0]) - 1 in np.flatnonzero(flagged)  # outliers come first
    assert "840.0 expected about" in text
    row = int(np.flatnonzero(filled & (given["height"] == ""))[0])
    value = re.escape(out["height"][row])
    found = re.search(rf">{value}</span> <span[^>]*>90%: ([\d.]+) to ([\d.]+)<", page)
    assert float(found[1]) <= float(out["height"][row]) <= float(found[2])


def test_limits_are_rounded_outward(tmp_path):
    (tmp_path / "t.csv").write_text("x;y\n1,5;2\n2,5;3\n")
    seen = read(tmp_path / "t.csv")
    assert spelled_limits(seen, 154.0831, 155.3749, "x") == "154 to 155,4"
    assert spelled_limits(seen, 84223.3, 87504.9, "x") == "84200 to 87600"
    assert spelled_limits(seen, -0.01234, 0.0, "x") == "-0,013 to 0"
    assert spelled_limits(seen, 3.0, 3.0, "x") == "3 to 3"


def test_numbers_of_six_digits_are_written_without_a_point_at_their_end(tmp_path):
    (tmp_path / "t.csv").write_text("x,flag\n125891.18,yes\n,no\n101757.20,yes\n")
    seen = read(tmp_path / "t.csv")
    assert seen.cell(101756.9, "x") == "101757"
    assert seen.cell(-101756.9, "x") == "-101757"
    assert seen.cell(10175.69, "x") == "10175.7"


def test_the_same_page_twice_is_the_same():
    first, second = (re.sub(r"on \d{4}-.*?\. This", "", page().html()) for _ in range(2))
    assert first == second


def test_every_report_answers_the_same_questions(table):  # noqa: F811
    assert command("embed", table).code == 0
    text = Outline(table.with_name("people.embed.html").read_text(encoding="utf-8")).text
    for heading in (
        "What was done",
        "The data as understood",
        "The result",
        "Is it the best fit?",
        "How far to trust it",
        "Repeat it",
        "regfactor embed",
    ):
        assert heading in text


def test_numbers_are_written_for_people():
    values = (34312.0, 0.01719, 17.0, -3.9e6, 999.7, 0.0, 1e-9, 1e13, np.nan, np.inf)
    assert [number(v) for v in values] == [
        "34,300",
        "0.0172",
        "17",
        "-3,900,000",
        "1,000",
        "0",
        "1e-09",
        "1e+13",
        "–",
        "–",
    ]
    assert [at_most(v) for v in (9.8e-5, 1.01e-4, 0.0, -1e-9, 0.01)] == [
        "0.0098%",
        "0.011%",
        "0.0001%",
        "0.0001%",
        "1%",
    ]


def test_long_code_is_broken_and_means_the_same():
    names = [f"column, number {j}" for j in range(20)]
    code = f"x = dict(a={names!r}, b=[1, 2])\nfor row, column in {[(j, 'name') for j in range(30)]!r}:\n    y = row"
    lines = wrapped(code).split("\n")
    assert len(lines) > 5 and max(map(len, lines)) <= MAX_LINE_LENGTH
    before, after = {}, {}
    exec(code, before)
    exec(wrapped(code), after)
    assert after["x"] == before["x"] and after["y"] == before["y"]
    for line in ("short = [1, 2]", f"x = '{'long, ' * 30}'", "# a comment" + 30 * ", long"):
        assert wrapped(line) == line  # nothing to break, or nowhere
