"""Views of the same rows: agreement of their codes, explained variance, predicted entries."""

from __future__ import annotations

import importlib
from typing import Any, Self

import numpy as np
import scipy.sparse

from regfactor.core.linalg import is_sparse, positive_or_one
from regfactor.core.params import Array
from regfactor.plots.base import BLUE, FAINT, INK, SKY, Display, drawn_from, scatter, word

MAX_COMPONENTS = 15  # whose agreement is drawn
MAX_WRITTEN_SHARES = 16  # components up to which shares are written into a heat map
MIN_SHADED_SHARE = 0.05  # at which the darkest color of a heat map stands at least


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
    >>> X1 = shared @ random.normal(size=(1, 5)) + 0.5 * random.normal(size=(50, 5))
    >>> X2 = shared @ random.normal(size=(1, 5)) + 0.5 * random.normal(size=(50, 5))
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
        scatter(
            left,
            self.first[:, c],
            self.second[:, c],
            color=BLUE,
        )
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


class ExplainedVarianceDisplay(Display):
    """A heat map of the share of the variance of each view that each component explains.

    Parameters
    ----------
    shares : array-like of shape (n_views, n_components)
        The last column may be the private parts of the views.
    views : list, optional
        Names of the views.
    components : list, optional
        Names of the components.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import MultiViewSubspace
    >>> from regfactor.plots import ExplainedVarianceDisplay
    >>> random = np.random.default_rng(0)
    >>> shared = random.normal(size=(80, 2))
    >>> views = {name: shared @ random.normal(size=(2, 6)) for name in ("genes", "proteins")}
    >>> display = ExplainedVarianceDisplay.from_estimator(MultiViewSubspace().fit(views))
    """

    def __init__(self, shares: Any, views: Any = None, components: Any = None) -> None:
        self.shares = np.asarray(shares, float)
        if self.shares.ndim != 2 or not self.shares.size:
            raise ValueError(
                "ExplainedVarianceDisplay draws a row for each view and a column for each "
                f"component, got an array of shape {self.shares.shape}."
            )
        n_views, n_components = self.shares.shape
        self.views = list(map(str, range(n_views) if views is None else views))
        names = range(n_components) if components is None else components
        self.components = list(map(str, names))
        if (len(self.views), len(self.components)) != self.shares.shape:
            raise ValueError(
                f"{len(self.views)} views and {len(self.components)} components are named, of "
                f"{n_views} and {n_components}."
            )

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the explained variance of a fitted model of several views.

        Parameters
        ----------
        estimator : fitted MultiViewSubspace
        ax : Axes, optional

        Returns
        -------
        ExplainedVarianceDisplay
        """
        shares = drawn_from(cls, estimator, "explained_", "Use MultiViewSubspace.")
        table = estimator.explain()
        return cls(shares, table.views, table.names).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional

        Returns
        -------
        ExplainedVarianceDisplay
        """
        width = float(np.clip(0.55 * len(self.components) + 2.0, 4.0, 12.0))
        height = 0.5 * len(self.views) + 1.4
        axis = self._panels(ax, size=(width, height))[0, 0]
        highest = max(float(np.nanmax(self.shares)), MIN_SHADED_SHARE)
        image = axis.imshow(
            self.shares,
            cmap="Blues",
            vmin=0,
            vmax=highest,
            aspect="auto",
        )
        axis.set_xticks(range(len(self.components)), self.components)
        axis.set_yticks(range(len(self.views)), self.views)
        axis.spines[:].set_visible(False)
        axis.tick_params(length=0)
        label = "component"
        if self.components[-1] == "private":
            label = "shared component, and the private part"
        axis.set(xlabel=label, ylabel="view")
        if len(self.components) <= MAX_WRITTEN_SHARES:
            for (v, k), share in np.ndenumerate(self.shares):
                color = "white" if share > 0.6 * highest else INK
                axis.text(
                    k,
                    v,
                    f"{share:.0%}",
                    ha="center",
                    va="center",
                    color=color,
                    fontsize=8,
                )
        else:
            axis.xaxis.set_major_locator(_every_few(len(self.components)))
        self.figure_.colorbar(
            image, ax=axis, format=lambda share, _: f"{share:.0%}", label="variance explained"
        )
        return self


def _every_few(n: int) -> Any:
    """Return a locator of ticks at every few of n columns, the last among them."""
    ticker = importlib.import_module("matplotlib.ticker")
    step = int(np.ceil(n / MAX_WRITTEN_SHARES))
    places = [*range(0, n - step, step), n - 1]
    return ticker.FixedLocator(places)


class PredictedViewDisplay(Display):
    """Entries of a view as predicted from others against those observed, and errors by column.

    Parameters
    ----------
    predicted, observed : array-like of shape (n_samples, n_features)
        NaN where an entry was not observed.
    columns : list, optional
        Names of the columns.

    Attributes
    ----------
    r2 : ndarray of shape (n_features,)
        Share of the variance of each column that predictions explain.
    ax_ : array of two Axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import TwoViewSubspace
    >>> from regfactor.plots import PredictedViewDisplay
    >>> random = np.random.default_rng(0)
    >>> X1 = random.normal(size=(90, 3))
    >>> X2 = X1 @ random.normal(size=(3, 4)) + random.normal(size=(90, 4))
    >>> model = TwoViewSubspace().fit(X1[:60], X2[:60])
    >>> display = PredictedViewDisplay(model.predict_view(X1=X1[60:]), X2[60:]).plot()
    """

    def __init__(self, predicted: Any, observed: Any, columns: Any = None) -> None:
        self.predicted = np.asarray(predicted, float)
        self.observed = np.asarray(observed, float)
        if self.predicted.ndim != 2 or self.predicted.shape != self.observed.shape:
            raise ValueError(
                "Predicted and observed entries need the same rows and columns, got shapes "
                f"{self.predicted.shape} and {self.observed.shape}."
            )
        d = self.observed.shape[1]
        self.columns = list(map(str, range(d) if columns is None else columns))
        if len(self.columns) != d:
            raise ValueError(f"{len(self.columns)} columns are named, of {d}.")
        self.r2 = _explained(self.predicted, self.observed)

    def plot(self, ax: Any = None) -> Self:
        """Draw; columns are in units of their deviations, about their means.

        Parameters
        ----------
        ax : array of two Axes, or one, optional
            One is divided.

        Returns
        -------
        PredictedViewDisplay
        """
        left, right = self._panels(ax, columns=2, size=(4.2, 3.8))[0]
        mean = np.nanmean(self.observed, axis=0)
        deviation = np.nanstd(self.observed, axis=0)
        deviation = positive_or_one(deviation)
        known = ~np.isnan(self.observed)
        x = ((self.predicted - mean) / deviation)[known]
        y = ((self.observed - mean) / deviation)[known]
        scatter(left, x, y, color=BLUE)
        left.axline((0, 0), slope=1, color=FAINT, zorder=0)
        left.set(xlabel="predicted, in deviations", ylabel="observed, in deviations")
        order = np.argsort(-self.r2, kind="stable")[:MAX_COMPONENTS]
        shown = self.r2[order]
        places = np.arange(len(order))
        right.barh(places, shown, color=SKY, height=0.6)
        right.axvline(0, color=INK, linewidth=0.8)
        right.set_yticks(places, [self.columns[j] for j in order])
        title = "variance explained"
        if len(order) < len(self.r2):
            title = f"variance explained, best {len(order)} of {len(self.r2)} columns"
        right.set(xlabel=title, ylabel="column", xlim=(min(1.1 * shown.min(), 0), 1.0))
        right.set_ylim(max(len(shown), 5) - 0.4, -0.6)
        return self


def _explained(predicted: Array, observed: Array) -> Array:
    """Return 1 - error / variance of each column, zero where it does not vary."""
    errors = np.nansum(np.square(observed - predicted), axis=0)
    spreads = np.nansum(np.square(observed - np.nanmean(observed, axis=0)), axis=0)
    explained = 1 - errors / positive_or_one(spreads)
    return np.where(spreads > 0, explained, 0.0)


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
    return np.divide(
        (A * B).sum(axis=0),
        norms,
        out=unknown,
        where=norms > 0,
    )
