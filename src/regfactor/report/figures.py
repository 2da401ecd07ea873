"""Figures of reports: SVG by matplotlib, with the colors of the page for light and dark."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from regfactor.core.params import Array
from regfactor.plots.cluster_profiles import column_ranks, ordered_by, spread_apart
from regfactor.report.numbers import number

# Colors that no figure has by accident; the page gives each variable its color.
INK = "#0a0101"
MUTED = "#0a0202"
GRID = "#0a0303"
SERIES = ("#0a1101", "#0a1202", "#0a1303", "#0a1404", "#0a1505", "#0a1606")
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    **{c: f"--c{i + 1}" for i, c in enumerate(SERIES)},
}
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "regfactor",
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "text.parse_math": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.unicode_minus": True,
}
# inches: of a figure, and of a bar in it
FIGURE_WIDTH = 4.1
ROW_HEIGHT = 0.24
MOST_BARS = 20
MAX_NAME_LENGTH = 24
MOST_ROWS = 400  # of a table that is drawn
MOST_POINTS = 3000  # drawn of a cloud: a page should open at once


@contextmanager
def _drawing(height: float) -> Iterator[tuple[Any, Any]]:
    """Return a figure and its axes in the style of reports."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(FIGURE_WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        yield figure, figure.add_subplot()


def _svg(figure: Any) -> str:
    """Return the SVG without the header of a file."""
    buffer = io.StringIO()
    unwanted = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=unwanted)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for size in ("width", "height"):
        text = re.sub(rf'(<svg[^>]*?) {size}="[^"]*"', r"\1", text, count=1)
    for color, variable in VARIABLES.items():
        text = text.replace(color, f"var({variable})")
    return text.strip()


def bars(
    names: Sequence[str],
    values: Any,
    label: str,
    *,
    marks: Any = None,
    mark_label: str = "",
    value_label: str = "",
    percent: bool = False,
) -> str:
    """Draw a bar for each name, the first at the top, each with its number.

    `marks` are what to compare them with.
    """
    names = list(names)[:MOST_BARS]
    sizes = np.asarray(values, float)[:MOST_BARS]
    others = None
    if marks is not None:
        others = np.asarray(marks, float)[:MOST_BARS]
    y = np.arange(len(names))[::-1]
    height = 0.75 + ROW_HEIGHT * len(names)
    if others is not None:
        height += 0.25
    with _drawing(height) as (figure, axes):
        axes.barh(y, sizes, color=SERIES[0], height=0.62, label=value_label)
        ends = np.maximum(sizes, 0)
        if others is not None:
            axes.scatter(
                others,
                y,
                marker="|",
                s=120,
                color=SERIES[1],
                linewidths=2.2,
                label=mark_label,
                zorder=3,
            )
            figure.legend(loc="outside upper left", ncols=2, fontsize=8.5)
            ends = np.maximum(ends, others)
        reach = max(float(ends.max(initial=0.0)), 1e-12)
        look = {"va": "center", "fontsize": 8, "color": MUTED}
        for at, value, end in zip(y, sizes, ends, strict=True):
            axes.text(end + 0.02 * reach, at, _written(value, percent), **look)
        axes.set_xlim(min(float(sizes.min(initial=0)), 0), reach * 1.13)
        axes.locator_params(axis="x", nbins=6, steps=[1, 2, 5, 10])
        _name_lines(axes, y, [short(name) for name in names], label, percent)
        return _svg(figure)


def _written(value: float, percent: bool) -> str:
    return f"{value:.0%}" if percent else number(value)


def _name_lines(
    axes: Any,
    y: Array,
    names: Sequence[str],
    label: str,
    percent: bool,
) -> None:
    """Name the lines at places y, and label the axis of their values."""
    axes.set_yticks(y, names)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.grid(axis="y", visible=False)
    if percent:
        axes.xaxis.set_major_formatter(lambda v, _: f"{v:.0%}")
    axes.set_xlabel(label)


def scores(
    names: Sequence[str],
    folds: Sequence[Array],
    chosen: int,
    label: str,
    percent: bool = False,
) -> str:
    """Draw the score of every fold as a dot, and means as bars across; the chosen one in color."""
    y = np.arange(len(names))[::-1]
    with _drawing(0.75 + 0.36 * len(names)) as (figure, axes):
        for i, (at, values) in enumerate(zip(y, folds, strict=True)):
            color = SERIES[0] if i == chosen else SERIES[5]
            places = np.full(len(values), at)
            axes.scatter(values, places, s=18, color=color, alpha=0.55, linewidths=0)
            mean = values.mean()
            axes.scatter(
                [mean],
                [at],
                marker="|",
                s=260,
                color=color,
                linewidths=2.5,
            )
            axes.annotate(
                _written(mean, percent),
                (mean, at),
                xytext=(0, 9),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color=INK if i == chosen else MUTED,
            )
        _name_lines(axes, y, names, label, percent)
        axes.set_ylim(-0.6, len(names) - 0.3)
        axes.margins(x=0.08)
        return _svg(figure)


def cloud(
    x: Array,
    y: Array,
    groups: Sequence[Any] | None = None,
    labels: tuple[str, str] = ("", ""),
    seed: int = 0,
) -> str:
    """Draw rows as points of a plane; the five largest groups have colors of their own."""
    keep = _sample(len(x), MOST_POINTS, seed)
    x = np.asarray(x)[keep]
    y = np.asarray(y)[keep]
    with _drawing(3.6) as (figure, axes):
        if groups is None:
            axes.scatter(
                x,
                y,
                s=10,
                color=SERIES[0],
                alpha=0.6,
                linewidths=0,
            )
        else:
            names = np.array([str(g) for g in groups], dtype=object)
            _groups(axes, x, y, names[keep])
            figure.legend(loc="outside upper left", ncols=3, fontsize=8.5, markerscale=1.8)
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        return _svg(figure)


def ordered_rows(values: Array, groups: Array, names: Sequence[str]) -> str:
    """Draw a table with its rows in the order of groups, each column by ranks, as shades."""
    keep = ordered_by(groups, MOST_ROWS)
    ranks = column_ranks(np.asarray(values, float)[keep, :MOST_BARS])
    with _drawing(3.8) as (figure, axes):
        axes.imshow(
            ranks,
            aspect="auto",
            cmap="Blues",
            interpolation="nearest",
            vmin=0,
            vmax=1,
        )
        axes.grid(visible=False)
        own = groups[keep]
        found, first = np.unique(own, return_index=True)
        ends = np.append(first[1:], len(own))
        for end in first[1:]:
            axes.axhline(end - 0.5, color=SERIES[1], linewidth=1.4)
        middles = spread_apart((first + ends - 1) / 2, len(own))
        axes.set_yticks(middles, [f"cluster {g}" for g in found])
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        columns = [short(name) for name in names[:MOST_BARS]]
        axes.set_xticks(
            range(len(columns)),
            columns,
            rotation=60,
            ha="right",
            fontsize=8,
        )
        return _svg(figure)


def _groups(axes: Any, x: Array, y: Array, groups: Array) -> None:
    names, counts = np.unique(groups, return_counts=True)
    largest = names[np.argsort(-counts, kind="stable")][: len(SERIES) - 1]
    look = {"s": 10, "linewidths": 0}
    for color, name in zip(SERIES, sorted(largest, key=_order), strict=False):
        own = groups == name
        axes.scatter(
            x[own],
            y[own],
            color=color,
            alpha=0.65,
            label=short(name),
            **look,
        )
    rest = ~np.isin(groups, largest)
    if rest.any():
        left = names[~np.isin(names, largest)]
        axes.scatter(
            x[rest],
            y[rest],
            color=SERIES[5],
            alpha=0.5,
            label=short(left[0]) if len(left) == 1 else "others",
            **look,
        )


def _order(name: str) -> tuple[float, str]:
    """Return the key by which numbers stand in their order, before words."""
    if re.fullmatch(r"-?\d+(\.\d+)?", name):
        return (float(name), "")
    return (np.inf, name)


def histogram(
    values: Array,
    label: str,
    bins: int = 20,
    span: tuple[float, float] | None = None,
) -> str:
    """Draw how many rows have which value."""
    with _drawing(2.3) as (figure, axes):
        axes.hist(values, bins=bins, range=span, color=SERIES[0], rwidth=0.92)
        axes.grid(axis="x", visible=False)
        axes.set_xlabel(label)
        axes.set_ylabel("rows")
        axes.yaxis.get_major_locator().set_params(integer=True)
        return _svg(figure)


def fan(
    past: tuple[Any, Array],
    future: tuple[Any, Array, Array, Array],
    name: str,
    level: float,
) -> str:
    """Draw the end of a series, its forecast, and the limits of level `level`."""
    times, seen = past
    ahead, mean, lower, upper = future
    with _drawing(2.5) as (figure, axes):
        axes.plot(times, seen, color=INK, linewidth=1.2, label="observed")
        axes.fill_between(
            ahead,
            lower,
            upper,
            color=SERIES[0],
            alpha=0.22,
            linewidth=0,
            label=f"{level:.0%} interval",
        )
        axes.plot(ahead, mean, color=SERIES[0], linewidth=1.6, label="forecast")
        figure.legend(loc="outside upper left", ncols=3, fontsize=8.5)
        axes.set_ylabel(short(name))
        axes.yaxis.set_major_formatter(lambda v, _: number(v, 6))
        if np.asarray(times).dtype.kind == "M":
            figure.autofmt_xdate(rotation=30)
        return _svg(figure)


def convergence(steps: Sequence[int], gaps: Sequence[float]) -> str:
    """Draw how the relative gap fell, on a logarithmic scale."""
    with _drawing(2.0) as (figure, axes):
        axes.plot(
            steps,
            gaps,
            color=SERIES[0],
            linewidth=1.6,
            marker="o",
            markersize=3,
        )
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda v, _: f"{v:.0e}")
        axes.minorticks_off()
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("iteration")
        axes.set_ylabel("relative gap")
        return _svg(figure)


def short(name: Any) -> str:
    """Return a name that fits next to a figure."""
    text = str(name)
    if len(text) <= MAX_NAME_LENGTH:
        return text
    return text[: MAX_NAME_LENGTH - 1] + "…"


def _sample(n: int, most: int, seed: int) -> Array:
    """Return the rows that are drawn: all, or as many as a page can show."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
