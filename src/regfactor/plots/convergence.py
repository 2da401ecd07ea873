"""The convergence of a solver: the objective, its lower bound, and the gap between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from regfactor.core.loop import Record, relative
from regfactor.plots.base import BLUE, FAINT, INK, VERMILION, Display, drawn_from, word

LOG_SCALE_RATIO = 30.0  # of the largest objective to the last, above which the scale is logarithmic
AXIS_LABELS = {"iterations": "iterations", "seconds": "seconds of the solver"}


class ConvergenceDisplay(Display):
    """Objective and lower bound over iterations or seconds, and below them the relative gap.

    Parameters
    ----------
    n_iter, seconds : array-like of shape (n_records,)
        Iterations and time of each record.
    objective : array-like of shape (n_records,)
        Objective of each iterate.
    bound : array-like of shape (n_records,)
        The best lower bound so far, -inf without a bound. Without any bound only the objective is
        drawn.
    floor : float, default=0.0
        Lower bound of the scale by which a gap is divided.
    tol : float, optional
        The relative gap at which the run was to stop.

    Attributes
    ----------
    relative_gap : ndarray of shape (n_records,)
        Of the best objective so far.
    ax_ : Axes, or array of two
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ConvexSubspace
    >>> from regfactor.plots import ConvergenceDisplay
    >>> model = ConvexSubspace().fit(np.random.default_rng(0).normal(size=(30, 8)))
    >>> display = ConvergenceDisplay.from_estimator(model)
    """

    def __init__(
        self,
        n_iter: Any,
        seconds: Any,
        objective: Any,
        bound: Any,
        floor: float = 0.0,
        tol: float | None = None,
    ) -> None:
        self.n_iter = np.asarray(n_iter)
        self.seconds = np.asarray(seconds, float)
        self.objective = np.asarray(objective, float)
        self.bound = np.asarray(bound, float)
        self.floor = floor
        self.tol = tol
        best = np.minimum.accumulate(self.objective)
        gaps = [relative(o - b, o, floor) for o, b in zip(best, self.bound, strict=True)]
        self.relative_gap = np.maximum(gaps, 0.0)  # below zero is rounding

    @classmethod
    def from_estimator(cls, estimator: Any, *, over: str = "iterations", ax: Any = None) -> Self:
        """Draw the history of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator with `history_`
        over : {"iterations", "seconds"}, default="iterations"
        ax : Axes or array of two, optional

        Returns
        -------
        ConvergenceDisplay
        """
        remedy = "It was solved in closed form, or is none of regfactor's iterative models."
        history: Sequence[Record] = drawn_from(cls, estimator, "history_", remedy)
        if not len(history):
            raise ValueError(
                f"The history_ of this {type(estimator).__name__} is empty: "
                "there was nothing to solve."
            )
        floor = 0.0
        tol = None
        if np.isfinite(history[-1].bound):
            floor = estimator.certificate_.floor
            tol = estimator.tol
        display = cls(
            [record.n_iter for record in history],
            [record.seconds for record in history],
            [record.objective for record in history],
            [record.bound for record in history],
            floor,
            tol,
        )
        return display.plot(ax, over=over)

    def plot(self, ax: Any = None, *, over: str = "iterations") -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes or array of two, optional
            One is divided; a run without a bound needs only one.
        over : {"iterations", "seconds"}, default="iterations"

        Returns
        -------
        ConvergenceDisplay
        """
        if over not in AXIS_LABELS:
            raise ValueError(f"over must be one of {', '.join(AXIS_LABELS)}, got {over!r}.")
        x = self.n_iter if over == "iterations" else self.seconds
        if np.isfinite(self.bound).any():
            axes = self._panels(ax, rows=2, size=(6.0, 2.4), sharex=True)[:, 0]
            self._draw_gap(axes[1], x)
            axes[0].tick_params(labelbottom=False)
        else:
            axes = self._panels(ax, size=(6.0, 3.4))[:, 0]
        self._draw_objective(axes[0], x)
        axes[-1].set_xlabel(AXIS_LABELS[over])
        axes[-1].locator_params(axis="x", integer=over == "iterations")
        return self

    def _draw_objective(self, ax: Any, x: Any) -> None:
        marker = "o" if len(x) < 3 else ""
        ax.plot(x, self.objective, color=BLUE, marker=marker, label="objective")
        last = self.objective[-1]
        first = self.objective.max()
        ends = [("objective", last, BLUE, 6)]
        lowest = self.objective.min()
        if np.isfinite(self.bound).any():
            ax.plot(x, self.bound, color=VERMILION, marker=marker, label="bound")
            ax.fill_between(
                x,
                self.bound,
                self.objective,
                color=FAINT,
                linewidth=0,
                where=np.isfinite(self.bound),
            )
            ends.append(("lower bound", self.bound[-1], VERMILION, -14))
            lowest = self.bound[-1]
        if lowest > 0 and first > LOG_SCALE_RATIO * last:
            ax.set_yscale("log")
            ax.set_ylim(lowest * (lowest / first) ** 0.15, first * (first / lowest) ** 0.08)
        else:
            height = (first - lowest) or abs(first) or 1.0
            ax.set_ylim(lowest - 0.25 * height, first + 0.08 * height)
        for name, value, color, up in ends:
            word(
                ax,
                x[-1],
                value,
                name,
                color=color,
                ha="right",
                xytext=(0, up),
            )
        ax.set_ylabel("objective")

    def _draw_gap(self, ax: Any, x: Any) -> None:
        seen = np.where(np.isfinite(self.relative_gap), self.relative_gap, np.nan)
        marker = "o" if len(x) < 3 else ""
        ax.plot(x, seen, color=INK, marker=marker, label="relative gap")
        ax.set_yscale("log", nonpositive="mask")
        end = self.relative_gap[-1]
        if end > 0:
            word(
                ax,
                x[-1],
                end,
                f"{end:.1e}",
                color=INK,
                ha="right",
                va="top",
                xytext=(-6, -1),
            )
        if self.tol:
            ax.axhline(self.tol, color=FAINT, zorder=0)
            across = ax.get_yaxis_transform()
            word(
                ax,
                0,
                self.tol,
                "tol",
                color="0.5",
                xycoords=across,
                xytext=(3, 3),
            )
        ax.set_ylabel("relative gap")
        ax.margins(y=0.25)
