"""Stated expectations against what holds, and the effect of unlabeled rows on scores."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from regfactor.core.params import Array
from regfactor.labels.expectation.statements import Reported
from regfactor.model_selection import compare_with_supervised
from regfactor.model_selection.compare import Comparison
from regfactor.plots.base import BLUE, FAINT, INK, VERMILION, Display, drawn_from, pyplot_for, word

LINE_HEIGHT = 0.34  # inches
MAX_NAME_LENGTH = 34
UNMARKED_VIOLATION = 0.1  # share of the tolerance: penalties are soft


class ConstraintDisplay(Display):
    """A line for each stated expectation: stated with tolerance, expected, and predicted.

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
        report = drawn_from(cls, estimator, "constraint_report_", "Use ExpectationSVC.")
        return cls(report).plot(ax)

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
        ax = self._panels(ax, size=(6.6, 1.3 + LINE_HEIGHT * n))[0, 0]
        y = np.arange(n)
        target = self._numbers("target")
        tolerance = self._numbers("tolerance")
        expected = self._numbers("expected")
        low = target - tolerance
        high = target + tolerance
        stated = ax.barh(
            y,
            high - low,
            left=low,
            height=0.6,
            color=FAINT,
            label="stated",
        )
        ax.plot(target, y, "|", color="0.55", markersize=12, markeredgewidth=1.5)
        missed = self._numbers("violation") > UNMARKED_VIOLATION * tolerance
        edge = np.clip(expected, low, high)
        ax.hlines(
            y[missed],
            edge[missed],
            expected[missed],
            color=VERMILION,
            linewidth=2,
        )
        colors = np.where(missed, VERMILION, BLUE)
        dots = ax.scatter(
            expected,
            y,
            color=colors,
            s=34,
            zorder=3,
            label="expected",
        )
        look = {"markerfacecolor": "none", "color": INK, "markersize": 7}
        (diamonds,) = ax.plot(
            self._numbers("predicted"),
            y,
            "D",
            label="predicted",
            **look,
        )
        self._name(ax, y)
        extremes = np.concatenate([low, high, expected])
        if np.nanmin(extremes) >= -0.1 and np.nanmax(extremes) <= 1.1:
            ax.set_xlabel("share of these unlabeled rows")
            ax.set_xlim(-0.03, 1.03)
        else:
            ax.set_xlabel("expectation over unlabeled rows")
        ax.legend(
            [stated, dots, diamonds],
            ["stated, with tolerance", "expected", "predicted"],
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=3,
            frameon=False,
        )
        return self

    def _numbers(self, name: str) -> Array:
        """Return a field of all lines of the report."""
        return np.array([getattr(line, name) for line in self.report], float)

    def _name(self, ax: Any, y: Any) -> None:
        """Write the label and the rows of each line, and the number of these rows."""
        names = [f"{line.label} among {line.constraint}" for line in self.report]
        ax.set_yticks(y, [textwrap.shorten(n, MAX_NAME_LENGTH, placeholder=" ...") for n in names])
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
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)


class EvidenceDisplay(Display):
    """Change of the score of every fold by the unlabeled rows, its mean with an interval.

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
    >>> without = np.array([0.7, 0.8, 0.6])
    >>> with_unlabeled = np.array([0.8, 0.85, 0.8])
    >>> result = Comparison(without, with_unlabeled, 30, 200, "accuracy")
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
        """Fit an estimator with and without the unlabeled rows on every fold, and draw the change.

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
        comparison = compare_with_supervised(estimator, X, y, cv, supervised, scoring)
        return cls(comparison).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional

        Returns
        -------
        EvidenceDisplay
        """
        comparison = self.comparison
        difference = comparison.difference
        n = len(difference)
        ax = self._panels(ax, size=(6.0, 1.7 + 0.24 * (n + 1)))[0, 0]
        y = np.arange(n)
        colors = np.select([difference > 0, difference < 0], [BLUE, VERMILION], "0.5")
        ax.axvline(0, color=INK, linewidth=0.8)
        ax.hlines(y, 0, difference, color=colors, linewidth=1.5)
        ax.scatter(difference, y, color=colors, s=30, zorder=3, label="folds")
        ax.axhline(n - 0.4, color=FAINT, linewidth=0.8)
        ax.hlines(n + 0.2, *self.interval, color=INK, linewidth=2.5)
        ax.plot(
            comparison.mean,
            n + 0.2,
            "D",
            color=INK,
            markersize=8,
            label="mean",
        )
        ax.set_yticks([*y, n + 0.2], [*(f"fold {i}" for i in y), "mean, 95 %"])
        ax.set_ylim(n + 0.9, -0.6)
        ax.set_xlabel(f"change of the {comparison.score} by the unlabeled rows")
        look = {"xycoords": ax.get_xaxis_transform(), "fontsize": 9}
        word(ax, 0, 1, "they help", color=BLUE, xytext=(5, 2), **look)
        word(
            ax,
            0,
            1,
            "they hurt",
            color=VERMILION,
            ha="right",
            xytext=(-5, 2),
            **look,
        )
        ax.set_title(
            textwrap.fill(comparison.verdict, 62),
            loc="left",
            fontsize=10,
            pad=18,
        )
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        low, high = ax.get_xlim()
        reach = max(abs(low), abs(high), 1e-3)
        ax.set_xlim(min(low, -0.15 * reach), max(high, 0.15 * reach))
        return self
