"""How far to trust: what became of stated expectations, and whether unlabeled rows helped."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from regfactor.labels.expectation.statements import Reported
from regfactor.model_selection import compare_with_supervised
from regfactor.model_selection.compare import Comparison
from regfactor.plots.base import BLUE, FAINT, INK, VERMILION, Display, drawn_from, pyplot_for, word

LINE = 0.34  # inches for a line of the list
LETTERS = 34  # of the name of a statement
SLIGHT = (
    0.1  # share of the tolerance by which a statement may be missed unmarked: penalties are soft
)


class ConstraintDisplay(Display):
    """Every stated expectation as a line: what was stated with its tolerance, what holds, and what is predicted.

    Parameters
    ----------
    report : ConstraintReport, or sequence of Reported

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ExpectationSVC
    >>> from regfactor.constraints import class_balance
    >>> from regfactor.plots import ConstraintDisplay
    >>> X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0.0], [4.0]], 20, axis=0)
    >>> y = np.full(40, -1)
    >>> y[[0, 20]] = 0, 1
    >>> model = ExpectationSVC(class_balance({1: 0.5})).fit(X, y)
    >>> display = ConstraintDisplay.from_estimator(model)
    """

    def __init__(self, report: Sequence[Reported]) -> None:
        self.report = tuple(report)
        if not self.report:
            raise ValueError(
                "There is no statement to draw: the model was fitted without constraints."
            )

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the report of a fitted ExpectationSVC.

        Parameters
        ----------
        estimator : fitted ExpectationSVC
        ax : Axes, optional

        Returns
        -------
        ConstraintDisplay
        """
        return cls(drawn_from(cls, estimator, "constraint_report_", "Use ExpectationSVC.")).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional

        Returns
        -------
        ConstraintDisplay
        """
        n = len(self.report)
        ax = self._panels(ax, size=(6.6, 1.3 + LINE * n))[0, 0]
        y = np.arange(n)
        target, tolerance, expected, predicted = (
            np.array([getattr(line, name) for line in self.report], float)
            for name in ("target", "tolerance", "expected", "predicted")
        )
        stated = ax.barh(
            y,
            2 * tolerance,
            left=target - tolerance,
            height=0.6,
            color=FAINT,
            label="stated",
        )
        ax.plot(target, y, "|", color="0.55", markersize=12, markeredgewidth=1.5)
        missed = np.array([line.violation for line in self.report]) > SLIGHT * tolerance
        edge = np.clip(expected, target - tolerance, target + tolerance)
        ax.hlines(y[missed], edge[missed], expected[missed], color=VERMILION, linewidth=2)
        dots = ax.scatter(
            expected,
            y,
            color=np.where(missed, VERMILION, BLUE),
            s=34,
            zorder=3,
            label="expected",
        )
        (hard,) = ax.plot(
            predicted,
            y,
            "D",
            markerfacecolor="none",
            color=INK,
            markersize=7,
            label="predicted",
        )
        self._name(ax, y)
        names = ["stated, with tolerance", "expected", "predicted"]
        ax.legend(
            [stated, dots, hard],
            names,
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=3,
            frameon=False,
        )
        return self

    def _name(self, ax: Any, y: Any) -> None:
        """Write which label of which rows a line is about, and how many rows these are."""
        names = [
            textwrap.shorten(f"{r.label} among {r.constraint}", LETTERS, placeholder=" ...")
            for r in self.report
        ]
        ax.set_yticks(y, names)
        ax.set_ylim(len(y) - 0.4, -0.6)
        for i, line in enumerate(self.report):
            rows = f"{line.n_rows} rows" if line.n_rows else "no such row"
            word(
                ax,
                1,
                i,
                rows,
                color="0.45",
                fontsize=8,
                va="center",
                xycoords=ax.get_yaxis_transform(),
                xytext=(5, 0),
                annotation_clip=False,
            )
        ends = [
            v
            for r in self.report
            for v in (r.target - r.tolerance, r.target + r.tolerance, r.expected)
        ]
        shares = 0 <= np.nanmin(ends) + 0.1 and np.nanmax(ends) <= 1.1
        ax.set_xlabel(
            "share of these unlabeled rows" if shares else "expectation over unlabeled rows"
        )
        if shares:
            ax.set_xlim(-0.03, 1.03)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)


class EvidenceDisplay(Display):
    """By how much the score of every fold changed with the unlabeled rows, their mean with its interval, the verdict.

    Parameters
    ----------
    comparison : Comparison
        The result of `model_selection.compare_with_supervised`.

    Attributes
    ----------
    interval : tuple of float
        95 % confidence interval of the mean, as if folds were independent.
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor.model_selection.compare import Comparison
    >>> from regfactor.plots import EvidenceDisplay
    >>> result = Comparison(np.array([0.7, 0.8, 0.6]), np.array([0.8, 0.85, 0.8]), 30, 200, "accuracy")
    >>> [round(end, 3) for end in EvidenceDisplay(result).interval]
    [-0.073, 0.306]
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.interval = comparison.interval

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        cv: Any = 5,
        supervised: Any = None,
        scoring: Any = None,
        ax: Any = None,
    ) -> Self:
        """Fit an estimator with and without the unlabeled rows on every fold, and draw what they changed.

        Parameters
        ----------
        estimator, X, y, cv, supervised, scoring
            As in `compare_with_supervised`; the estimator need not be fitted.
        ax : Axes, optional

        Returns
        -------
        EvidenceDisplay
        """
        pyplot_for(cls)
        if isinstance(estimator, type) or not hasattr(estimator, "predict"):
            raise ValueError(
                f"EvidenceDisplay needs a classifier or a regressor, got {estimator!r}."
            )
        return cls(compare_with_supervised(estimator, X, y, cv, supervised, scoring)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional

        Returns
        -------
        EvidenceDisplay
        """
        found = self.comparison
        difference = found.difference
        n = len(difference)
        ax = self._panels(ax, size=(6.0, 1.7 + 0.24 * (n + 1)))[0, 0]
        y = np.arange(n)
        colors = [BLUE if d > 0 else VERMILION if d < 0 else "0.5" for d in difference]
        ax.axvline(0, color=INK, linewidth=0.8)
        ax.hlines(y, 0, difference, color=colors, linewidth=1.5)
        ax.scatter(difference, y, color=colors, s=30, zorder=3, label="folds")
        ax.axhline(n - 0.4, color=FAINT, linewidth=0.8)
        ax.hlines(n + 0.2, *self.interval, color=INK, linewidth=2.5)
        ax.plot(found.mean, n + 0.2, "D", color=INK, markersize=8, label="mean")
        ax.set_yticks([*y, n + 0.2], [*(f"fold {i}" for i in y), "mean, 95 %"])
        ax.set_ylim(n + 0.9, -0.6)
        ax.set_xlabel(f"change of the {found.score} by the unlabeled rows")
        word(
            ax,
            0,
            1,
            "they help",
            color=BLUE,
            xycoords=ax.get_xaxis_transform(),
            xytext=(5, 2),
            fontsize=9,
        )
        word(
            ax,
            0,
            1,
            "they hurt",
            color=VERMILION,
            ha="right",
            xycoords=ax.get_xaxis_transform(),
            xytext=(-5, 2),
            fontsize=9,
        )
        ax.set_title(textwrap.fill(found.verdict, 62), loc="left", fontsize=10, pad=18)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        low, high = ax.get_xlim()
        reach = max(abs(low), abs(high), 1e-3)
        ax.set_xlim(min(low, -0.15 * reach), max(high, 0.15 * reach))
        return self
