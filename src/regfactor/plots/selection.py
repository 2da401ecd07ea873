"""The held-out loss of all candidates for a strength, a rank or a shrinkage, and the choice."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from regfactor.core.params import Array
from regfactor.plots.base import BLUE, FAINT, INK, VERMILION, Display, drawn_from, word


class _Kind(NamedTuple):
    """Attributes of the candidates and of the choice, the label of the axis, and its scale."""

    candidates: str
    chosen: str
    label: str
    log: bool


KINDS = (
    _Kind("alphas_", "alpha_", "alpha (strength of the penalty)", True),
    _Kind(
        "shrinkages_",
        "shrinkage_",
        "shrinkage (share of the least lam without a moving average)",
        True,
    ),
    _Kind("ranks_", "components_", "number of components", False),
)


class PathDisplay(Display):
    """The loss of held-out data over all candidates, the best candidate, and the chosen one.

    Parameters
    ----------
    candidates : array-like of shape (n_candidates,)
        In the order in which they were tried.
    validation_loss : array-like of shape (n_candidates,)
        Mean loss of a held-out entry.
    chosen : float
        The chosen candidate.
    standard_error : array-like of shape (n_candidates,), optional
        Standard errors of the losses; draws a band, and the limit of `rule="1se"`.
    label : str
        Label of the horizontal axis.
    log : bool, default=True
        Whether candidates are spaced by ratios.

    Attributes
    ----------
    best : float
        The candidate of least loss.
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ConvexSubspace
    >>> from regfactor.plots import PathDisplay
    >>> X = np.random.default_rng(0).normal(size=(40, 8))
    >>> model = ConvexSubspace(alpha="auto", random_state=0).fit(X)
    >>> display = PathDisplay.from_estimator(model)
    """

    def __init__(
        self,
        candidates: Any,
        validation_loss: Any,
        chosen: float,
        standard_error: Any = None,
        label: str = KINDS[0].label,
        log: bool = True,
    ) -> None:
        self.candidates = np.asarray(candidates, float)
        self.validation_loss = np.asarray(validation_loss, float)
        self.chosen = float(chosen)
        self.label = label
        self.log = log
        self.standard_error: Array | None = None
        if standard_error is not None:
            self.standard_error = np.asarray(standard_error, float)
        self.best = float(self.candidates[self.validation_loss.argmin()])

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the candidates that a fitted estimator tried.

        Parameters
        ----------
        estimator : fitted estimator
            With alpha="auto", shrinkage="auto" or a rank chosen by held-out entries.
        ax : Axes, optional

        Returns
        -------
        PathDisplay
        """
        remedy = 'Leave a choice to held-out data: alpha="auto", rank="auto", shrinkage="auto".'
        losses = drawn_from(cls, estimator, "validation_loss_", remedy)
        # the first one: the strength, where a rank was chosen too
        kind = next(k for k in KINDS if hasattr(estimator, k.candidates))
        candidates = getattr(estimator, kind.candidates)
        chosen = getattr(estimator, kind.chosen)
        if kind.chosen == "components_":
            chosen = len(chosen)
        errors = getattr(estimator, "validation_error_", None)
        return cls(candidates, losses, chosen, errors, kind.label, kind.log).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional

        Returns
        -------
        PathDisplay
        """
        ax = self._panels(ax)[0, 0]
        order = np.argsort(self.candidates)
        x = self.candidates[order]
        y = self.validation_loss[order]
        if self.standard_error is not None:
            e = self.standard_error[order]
            ax.fill_between(
                x,
                y - e,
                y + e,
                color=BLUE,
                alpha=0.15,
                linewidth=0,
            )
            at = self.validation_loss.argmin()
            limit = self.validation_loss[at] + self.standard_error[at]
            ax.axhline(limit, color=FAINT, zorder=0)
            word(
                ax,
                1,
                limit,
                "best + 1 standard error",
                color="0.5",
                ha="right",
                xytext=(-3, 3),
                xycoords=ax.get_yaxis_transform(),
            )
        ax.plot(x, y, "o-", color=BLUE, markersize=4, label="held-out loss")
        if self.log and (x > 0).all():
            ax.set_xscale("log")
        self._mark(ax)
        ax.set(xlabel=self.label, ylabel="mean loss of a held-out entry")
        ax.margins(y=0.15)
        return self

    def _mark(self, ax: Any) -> None:
        """Mark the best candidate and the chosen one."""
        where = int(np.abs(self.candidates - self.chosen).argmin())
        ax.axvline(self.chosen, color=VERMILION, linewidth=1, label="chosen")
        text = f"chosen: {self.chosen:.3g}"
        if not np.isclose(self.chosen, self.best):
            text += " (1se)"
            self._mark_best(ax)
        above = ax.get_xaxis_transform()
        word(
            ax,
            self.chosen,
            1,
            text,
            color=VERMILION,
            xycoords=above,
            xytext=(4, -10),
        )
        x = self.candidates[where]
        ax.plot(x, self.validation_loss[where], "o", color=VERMILION, markersize=8)

    def _mark_best(self, ax: Any) -> None:
        low = self.validation_loss.min()
        ax.plot(self.best, low, "o", color=INK, markersize=6, label="best")
        sides = {self.candidates.min(): "left", self.candidates.max(): "right"}
        side = sides.get(self.best, "center")
        word(
            ax,
            self.best,
            low,
            f"best: {self.best:.3g}",
            color=INK,
            ha=side,
            xytext=(0, -14),
        )
