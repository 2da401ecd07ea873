"""What all displays share: matplotlib when it is needed, axes new or given, and one look."""

from __future__ import annotations

import abc
import importlib
from typing import Any, Self

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from regfactor.core.params import Array, install_hint

# Okabe & Ito's colors, told apart also without red or green; yellow is too pale for lines on white
BLUE = "#0072B2"
VERMILION = "#D55E00"
GREEN = "#009E73"
PINK = "#CC79A7"
ORANGE = "#E69F00"
SKY = "#56B4E9"
COLORS = (BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, "#000000")
# of words and marks beside the data, of lines behind them
INK = "0.25"
FAINT = "0.85"
PANEL = (6.0, 3.7)  # inches
MANY = 2000  # points from which on a scatter is one picture inside a vector file
BETWEEN = 0.12  # panels inside given axes, as a share of a panel


class Display(abc.ABC):
    """Holds what is drawn; `plot` draws it on axes that are given or new, and sets `ax_` and `figure_`."""

    ax_: Any
    figure_: Any

    @abc.abstractmethod
    def plot(self, ax: Any = None) -> Self:
        """Draw, and return self.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default in a new figure. A display of several panels takes an array of
            as many axes, or divides one.
        """

    def _panels(
        self,
        ax: Any,
        rows: int = 1,
        columns: int = 1,
        size: tuple[float, float] = PANEL,
        **new: Any,
    ) -> Array:
        """Return rows x columns axes, and set `ax_` (one, or all in a row) and `figure_`."""
        pyplot = pyplot_for(self)
        if ax is None:
            wide, high = size
            figure, axes = pyplot.subplots(
                rows,
                columns,
                figsize=(wide * columns, high * rows),
                layout="constrained",
                squeeze=False,
                **new,
            )
        else:
            axes = _given(self, ax, rows, columns)
            figure = axes[0, 0].figure
        self.figure_ = figure
        self.ax_ = axes[0, 0] if axes.size == 1 else axes.ravel()
        for axis in axes.flat:
            axis.spines[["top", "right"]].set_visible(False)
        return axes


def pyplot_for(display: Display | type[Display]) -> Any:
    """Return matplotlib.pyplot; one sentence where it is not installed."""
    try:
        return importlib.import_module("matplotlib.pyplot")
    except ModuleNotFoundError as missing:
        name = (display if isinstance(display, type) else type(display)).__name__
        raise ModuleNotFoundError(f"{name} needs matplotlib: {install_hint('plot')}.") from missing


def drawn_from(display: type[Display], estimator: Any, attribute: str, remedy: str) -> Any:
    """Return a fitted attribute that a display draws; raise for a model that is not fitted or has none."""
    pyplot_for(display)
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ValueError(
            f"{display.__name__}.from_estimator needs a fitted estimator, got {estimator!r}."
        )
    check_is_fitted(estimator)
    found = getattr(estimator, attribute, None)
    if found is None:
        if isinstance(estimator, Pipeline):
            remedy = "Give the step that has: pipeline[-1], or by its name."
        else:
            remedy = remedy
        raise ValueError(
            f"{display.__name__} draws {attribute}, and this {type(estimator).__name__} has none. {remedy}"
        )
    return found


def scatter(ax: Any, x: Array, y: Array, **look: Any) -> Any:
    """Draw points: the more there are, the smaller and fainter."""
    n = max(len(x), 1)
    default = {
        "s": float(np.clip(4000 / n, 4, 28)),
        "alpha": 0.85 if n < MANY else 0.4,
        "linewidths": 0,
    }
    return ax.scatter(x, y, rasterized=n > MANY, **default | look)


def color_of(k: int) -> str:
    """Return the color of group k; after seven they come again, and the label beside the points tells them apart."""
    return COLORS[k % len(COLORS)]


def word(ax: Any, x: float, y: float, text: str, **look: Any) -> Any:
    """Write beside data, readable on top of them."""
    effects = importlib.import_module("matplotlib.patheffects")
    halo = [effects.withStroke(linewidth=3.5, foreground="white")]
    return ax.annotate(
        text,
        (x, y),
        path_effects=halo,
        **{"textcoords": "offset points", "xytext": (0, 0)} | look,
    )


def name_group(ax: Any, x: Array, y: Array, text: str, k: int, **look: Any) -> Any:
    """Write the name of group k in the middle of its points."""
    box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
    look = {
        "color": color_of(k),
        "weight": "bold",
        "ha": "center",
        "va": "center",
        "bbox": box,
    } | look
    return word(ax, float(np.median(x)), float(np.median(y)), text, **look)


def position(column: Any, names: list[str]) -> int:
    """Return the position of a column that is given by position or by name."""
    if isinstance(column, int | np.integer) and 0 <= column < len(names):
        return int(column)
    if column in names:
        return names.index(column)
    raise ValueError(
        f"There is no column {column!r}; columns are {', '.join(names[:8])}{', ...' * (len(names) > 8)}."
    )


def _given(display: Display, ax: Any, rows: int, columns: int) -> Array:
    """Return axes that a user gave as rows x columns; one of them is divided where several are needed."""
    found = np.array(ax, dtype=object)
    wanted = rows * columns
    if found.size == wanted:
        return found.reshape(rows, columns)
    if found.size != 1:
        raise ValueError(
            f"{type(display).__name__} has {wanted} panels here; give as many axes, or one, got {found.size}."
        )
    (outer,) = found.ravel()
    outer.set_axis_off()
    high = 1 / (rows + BETWEEN * (rows - 1))
    wide = 1 / (columns + 2 * BETWEEN * (columns - 1))
    places = [
        (j * wide * (1 + 2 * BETWEEN), 1 - high - i * high * (1 + BETWEEN))
        for i in range(rows)
        for j in range(columns)
    ]
    return np.array(
        [outer.inset_axes([x, y, wide, high]) for x, y in places],
        dtype=object,
    ).reshape(rows, columns)
