"""The agreement of codes by two views of the same rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.plots.base import BLUE, FAINT, INK, SKY, Display, drawn_from, scatter, word

MAX_COMPONENTS = 15  # whose agreement is drawn


class TwoViewDisplay(Display):
    """A code by the first view against the same code by the second, and correlations of all codes.

    Parameters
    ----------
    first, second : array-like of shape (n_samples, n_components)
        Codes of the same rows, by each view alone.
    component : int, default=0
        The component to draw.

    Attributes
    ----------
    correlations : ndarray of shape (n_components,)
        Correlations of the two codes of each component; NaN if one of them is constant.
    ax_ : array of two Axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import TwoViewSubspace
    >>> from regfactor.plots import TwoViewDisplay
    >>> random = np.random.default_rng(0)
    >>> shared = random.normal(size=(50, 1))
    >>> X1 = shared @ random.normal(size=(1, 5)) + random.normal(size=(50, 5))
    >>> X2 = shared @ random.normal(size=(1, 5)) + random.normal(size=(50, 5))
    >>> display = TwoViewDisplay.from_estimator(TwoViewSubspace().fit(X1, X2), X1, X2)
    """

    def __init__(self, first: Any, second: Any, component: int = 0) -> None:
        self.first = np.asarray(first)
        self.second = np.asarray(second)
        self.component = component
        if self.first.ndim != 2 or self.first.shape != self.second.shape:
            raise ValueError(
                "Both views need codes of the same rows and components, got shapes "
                f"{self.first.shape} and {self.second.shape}."
            )
        k = self.first.shape[1]
        if not k:
            raise ValueError(f"component={component}, and the model has 0; lower alpha.")
        if not 0 <= component < k:
            raise ValueError(f"component={component}, and the model has {k}, from 0 on.")
        self.correlations = _correlations(self.first, self.second)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X1: Any,
        X2: Any,
        *,
        component: int = 0,
        ax: Any = None,
    ) -> Self:
        """Draw the codes by each view alone of rows of which both views are known.

        Parameters
        ----------
        estimator : fitted TwoViewSubspace or CanonicalCorrelation
        X1, X2 : tables
            The two views of the same rows; rows of which a view is missing are left out.
        component : int, default=0
        ax : array of two Axes, or one, optional

        Returns
        -------
        TwoViewDisplay
        """
        remedy = "Use TwoViewSubspace or CanonicalCorrelation."
        if hasattr(estimator, "y_rotations_"):
            first, second = drawn_from(cls, estimator, "transform", remedy)(X1, X2)
        else:
            views = drawn_from(cls, estimator, "view_components_", remedy)
            if not hasattr(estimator, "predict_view"):
                raise ValueError(f"{type(estimator).__name__} has one view and labels. {remedy}")
            # a model of one stacked table takes both views, with NaN for a missing one
            if estimator.n_features_in_ == sum(part.shape[1] for part in views):
                first = estimator.transform(X1, np.full(np.shape(X2), np.nan))
                second = estimator.transform(np.full(np.shape(X1), np.nan), X2)
            else:
                first = estimator.transform(X1, None)
                second = estimator.transform(None, X2)
        known = _observed_rows(X1) & _observed_rows(X2)
        return cls(first[known], second[known], component).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : array of two Axes, or one, optional
            One is divided.

        Returns
        -------
        TwoViewDisplay
        """
        left, right = self._panels(ax, columns=2, size=(4.0, 3.6))[0]
        c = self.component
        scatter(left, self.first[:, c], self.second[:, c], color=BLUE)
        left.axline((0, 0), slope=1, color=FAINT, zorder=0)
        left.set(xlabel=f"code {c} by the first view", ylabel=f"code {c} by the second view")
        left.set_aspect("equal", adjustable="datalim")
        self._draw_correlations(right)
        return self

    def _draw_correlations(self, ax: Any) -> None:
        shown = self.correlations[:MAX_COMPONENTS]
        places = np.arange(len(shown))
        colors = np.where(places == self.component, BLUE, SKY)
        ax.barh(places, shown, color=colors, height=0.6)
        look = {"color": INK, "va": "center", "xytext": (4, 0), "fontsize": 9}
        for i, r in enumerate(shown):
            if np.isfinite(r):
                word(ax, max(r, 0), i, f"{r:.2f}", **look)
            else:
                word(ax, 0, i, "constant", **look)
        ax.axvline(0, color=INK, linewidth=0.8)
        ax.set(xlabel="correlation of the two codes", ylabel="component", yticks=places)
        left = 1.1 * np.nanmin([*shown, 0])
        ax.set_xlim(left, 1.15)
        ax.set_xticks([tick for tick in (-1, -0.5, 0, 0.5, 1) if tick >= left])
        ax.set_ylim(max(len(shown), 5) - 0.4, -0.6)


def _observed_rows(X: Any) -> Array:
    """Return a mask of the rows with at least one entry."""
    if is_sparse(X):
        return np.diff(scipy.sparse.csr_array(X).indptr) > 0
    values = np.asarray(X, float)
    return ~np.isnan(values.reshape(len(values), -1)).all(axis=1)


def _correlations(A: Array, B: Array) -> Array:
    """Return the correlation of every column of A with that of B."""
    A = A - A.mean(axis=0)
    B = B - B.mean(axis=0)
    norms = np.linalg.norm(A, axis=0) * np.linalg.norm(B, axis=0)
    unknown = np.full(A.shape[1], np.nan)
    return np.divide((A * B).sum(axis=0), norms, out=unknown, where=norms > 0)
