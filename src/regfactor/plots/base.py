"""The base of all displays: matplotlib imported when needed, new or given axes, one style."""

from __future__ import annotations

import abc
import importlib
from typing import Any, Self

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from regfactor.core.params import Array, install_hint, optional

# Okabe & Ito's colors, safe for color blindness; yellow is too pale for lines on white
BLUE = "#0072B2"
VERMILION = "#D55E00"
GREEN = "#009E73"
PINK = "#CC79A7"
ORANGE = "#E69F00"
SKY = "#56B4E9"
COLORS = (BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, "#000000")
INK = "0.25"  # text and marks next to the data
FAINT = "0.85"  # lines behind the data
PANEL_SIZE = (6.0, 3.7)  # inches
RASTERIZED_POINTS = 2000  # a larger scatter is one picture inside a vector file
PANEL_SPACE = 0.12  # between panels inside given axes, as a share of a panel


class Display(abc.ABC):
    """The data of a figure; `plot` draws on given or new axes and sets `ax_` and `figure_`."""

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
        size: tuple[float, float] = PANEL_SIZE,
        **new: Any,
    ) -> Array:
        """Return rows x columns axes, and set `ax_` (one, or all in a row) and `figure_`."""
        pyplot = pyplot_for(type(self))
        if ax is None:
            width, height = size
            self.figure_, axes = pyplot.subplots(
                rows,
                columns,
                figsize=(width * columns, height * rows),
                layout="constrained",
                squeeze=False,
                **new,
            )
        else:
            axes = _given_axes(self, ax, rows, columns)
            self.figure_ = axes[0, 0].figure
        if axes.size == 1:
            self.ax_ = axes[0, 0]
        else:
            self.ax_ = axes.ravel()
        for axis in axes.flat:
            axis.spines[["top", "right"]].set_visible(False)
        return axes


def pyplot_for(display: type[Display]) -> Any:
    """Return matplotlib.pyplot; raise with the remedy if it is not installed."""
    return optional("matplotlib.pyplot", display.__name__, install_hint("plot"))


def drawn_from(display: type[Display], estimator: Any, attribute: str, remedy: str) -> Any:
    """Return the fitted attribute that a display draws; raise if there is none."""
    pyplot_for(display)
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ValueError(
            f"{display.__name__}.from_estimator needs a fitted estimator, got {estimator!r}."
        )
    check_is_fitted(estimator)
    found = getattr(estimator, attribute, None)
    if found is not None:
        return found
    if isinstance(estimator, Pipeline):
        remedy = "Give the step that has: pipeline[-1], or by its name."
    raise ValueError(
        f"{display.__name__} draws {attribute}, and this {type(estimator).__name__} has none. "
        f"{remedy}"
    )


def scatter(ax: Any, x: Array, y: Array, **look: Any) -> Any:
    """Draw points: the more there are, the smaller and fainter."""
    n = len(x)
    default = {"s": point_size(n), "alpha": 0.85 if n < RASTERIZED_POINTS else 0.4, "linewidths": 0}
    return ax.scatter(x, y, rasterized=n > RASTERIZED_POINTS, **default | look)


def point_size(n: int) -> float:
    """Return the size of the points of a scatter of n points."""
    return float(np.clip(4000 / max(n, 1), 4, 28))


def color_of(k: int) -> str:
    """Return the color of group k; colors repeat after seven groups, which are labeled too."""
    return COLORS[k % len(COLORS)]


def word(ax: Any, x: float, y: float, text: str, **look: Any) -> Any:
    """Write text next to data, readable on top of them."""
    effects = importlib.import_module("matplotlib.patheffects")
    halo = [effects.withStroke(linewidth=3.5, foreground="white")]
    look = {"textcoords": "offset points", "xytext": (0, 0), "path_effects": halo} | look
    return ax.annotate(text, (x, y), **look)


def name_group(
    ax: Any,
    x: Array,
    y: Array,
    text: str,
    k: int,
    **look: Any,
) -> Any:
    """Write the name of group k in the middle of its points."""
    box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
    look = {
        "color": color_of(k),
        "weight": "bold",
        "ha": "center",
        "va": "center",
        "bbox": box,
    } | look
    x_middle = float(np.median(x))
    y_middle = float(np.median(y))
    return word(ax, x_middle, y_middle, text, **look)


def position(column: Any, names: list[str]) -> int:
    """Return the position of a column that is given by position or by name."""
    if isinstance(column, int | np.integer) and 0 <= column < len(names):
        return int(column)
    if column in names:
        return names.index(column)
    shown = names[:8]
    if len(names) > 8:
        shown = [*shown, "..."]
    raise ValueError(f"There is no column {column!r}; columns are {', '.join(shown)}.")


def _given_axes(display: Display, ax: Any, rows: int, columns: int) -> Array:
    """Return the given axes as rows x columns; a single one is divided into as many panels."""
    found = np.array(ax, dtype=object)
    wanted = rows * columns
    if found.size == wanted:
        return found.reshape(rows, columns)
    if found.size != 1:
        raise ValueError(
            f"{type(display).__name__} has {wanted} panels here; give as many axes, or one, "
            f"got {found.size}."
        )
    outer = found.item()
    outer.set_axis_off()
    height = 1 / (rows + PANEL_SPACE * (rows - 1))
    width = 1 / (columns + 2 * PANEL_SPACE * (columns - 1))
    axes = np.empty((rows, columns), dtype=object)
    for i, j in np.ndindex(rows, columns):
        left = j * width * (1 + 2 * PANEL_SPACE)
        bottom = 1 - height - i * height * (1 + PANEL_SPACE)
        axes[i, j] = outer.inset_axes([left, bottom, width, height])
    return axes
