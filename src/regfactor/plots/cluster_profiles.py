"""What clusters hold: the table in their order, their means, and how sure rows are of them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.metrics import silhouette_samples

from regfactor.core.linalg import is_sparse, positive_or_one
from regfactor.core.params import Array
from regfactor.plots.base import FAINT, INK, Display, color_of, drawn_from

MAX_ROWS = 600  # of the table that are drawn, and of silhouettes
MAX_COLUMNS = 25
NAME_HEIGHT = 0.055  # of the axis, that the name of a cluster takes
MAX_NAME_LENGTH = 18
PROBABILITY = "probability of the cluster"
SILHOUETTE = "silhouette"


class ClusterProfileDisplay(Display):
    """Rows of a table in the order of clusters; means with deviations; how sure rows are.

    Three panels: the table, each column as shades of the ranks of its numbers; the mean of each
    cluster in each column, with a bar of one deviation to both sides, in units of the deviation of
    the column; and the probability of the cluster of each row, or its silhouette, sorted, with the
    sizes of the clusters.

    Parameters
    ----------
    values : array-like of shape (n_samples, n_features)
        NaN where entries are missing.
    labels : array-like of shape (n_samples,)
    certainty : array-like of shape (n_samples,)
    certainty_name : str
        What `certainty` is.
    names : list of str, optional
        Names of the columns.

    Attributes
    ----------
    ax_ : array of Axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import AutoMixture
    >>> from regfactor.plots import ClusterProfileDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 4)) + 5 * np.repeat([[0, 1, 0, 1], [1, 0, 0, 1]], 30, axis=0)
    >>> model = AutoMixture(2, random_state=0).fit(X)
    >>> display = ClusterProfileDisplay.from_estimator(model, X)
    """

    def __init__(
        self,
        values: Any,
        labels: Any,
        certainty: Any,
        certainty_name: str = PROBABILITY,
        names: Any = None,
    ) -> None:
        self.values = np.asarray(values, dtype=float)
        self.labels = np.asarray(labels)
        self.certainty = np.asarray(certainty, dtype=float)
        self.certainty_name = certainty_name
        n, d = self.values.shape
        if self.labels.shape != (n,) or self.certainty.shape != (n,):
            raise ValueError(
                "ClusterProfileDisplay needs a label and a certainty for each row, got "
                f"{len(self.labels)} labels and {len(self.certainty)} for {n} rows."
            )
        self.names = [f"column {j}" for j in range(d)]
        if names is not None:
            self.names = [str(name) for name in names]

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, ax: Any = None) -> Self:
        """Draw the clusters that a fitted estimator predicts.

        Parameters
        ----------
        estimator : fitted clustering with `predict`
            With `predict_proba` the third panel has probabilities, else silhouettes.
        X : table of numbers, or frame, of which the columns of numbers are drawn
        ax : array of three Axes, or one that is divided, optional

        Returns
        -------
        ClusterProfileDisplay
        """
        predict = drawn_from(cls, estimator, "predict", "Use a clustering, such as AutoMixture.")
        labels = np.asarray(predict(X))
        names = None
        numbers = X
        if hasattr(X, "select_dtypes"):
            numbers = X.select_dtypes("number")
            names = list(numbers.columns)
        if is_sparse(numbers):
            numbers = numbers.toarray()
        values = np.asarray(numbers, dtype=float)
        if hasattr(estimator, "predict_proba"):
            certainty = np.asarray(estimator.predict_proba(X)).max(axis=1)
            return cls(values, labels, certainty, PROBABILITY, names).plot(ax)
        some = np.linspace(0, len(values) - 1, min(len(values), MAX_ROWS)).astype(int)
        certainty = _silhouettes(values[some], labels[some])
        return cls(values[some], labels[some], certainty, SILHOUETTE, names).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : array of three Axes, or one that is divided, optional

        Returns
        -------
        ClusterProfileDisplay
        """
        table, means, sure = self._panels(ax, columns=3, size=(4.6, 4.2))[0]
        self._draw_table(table)
        self._draw_means(means)
        self._draw_certainty(sure)
        return self

    def _draw_table(self, ax: Any) -> None:
        order = ordered_by(self.labels, MAX_ROWS)
        ranks = column_ranks(self.values[order][:, :MAX_COLUMNS])
        ax.imshow(
            ranks,
            aspect="auto",
            cmap="Blues",
            interpolation="nearest",
            vmin=0,
            vmax=1,
        )
        found, first = np.unique(self.labels[order], return_index=True)
        ends = np.append(first[1:], len(order))
        for end in first[1:]:
            ax.axhline(end - 0.5, color="white", linewidth=2.5)
        middles = spread_apart((first + ends - 1) / 2, len(order))
        ax.set_yticks(middles, [str(group) for group in found])
        ax.set(ylabel="cluster", title="rows in the order of clusters, by ranks")
        self._name_columns(ax)

    def _draw_means(self, ax: Any) -> None:
        values = self.values[:, :MAX_COLUMNS]
        scale = np.nanstd(values, axis=0)
        scaled = (values - np.nanmean(values, axis=0)) / positive_or_one(scale)
        groups = np.unique(self.labels)
        ax.axhline(0, color=FAINT, zorder=0)
        for g, group in enumerate(groups):
            own = scaled[self.labels == group]
            shift = 0.5 * ((g + 0.5) / len(groups) - 0.5)
            ax.errorbar(
                np.arange(values.shape[1]) + shift,
                _mean(own),
                np.sqrt(_mean(np.square(own - _mean(own)))),
                fmt="o",
                markersize=4,
                linewidth=1,
                color=color_of(g),
                label=str(group),
            )
        ax.set(ylabel="deviations of the column", title="means and deviations")
        self._name_columns(ax)

    def _draw_certainty(self, ax: Any) -> None:
        start = 0
        middles = []
        names = []
        for g, group in enumerate(np.unique(self.labels)):
            own = np.sort(self.certainty[self.labels == group])
            places = np.arange(start, start + len(own))
            ax.fill_betweenx(places, 0, own, color=color_of(g), step="mid", linewidth=0)
            middles.append(start + len(own) / 2)
            names.append(f"{group}  ({len(own)})")
            start += len(own) + max(len(self.labels) // 60, 1)
        ax.set_yticks(spread_apart(np.array(middles), start), names)
        for g, name in enumerate(ax.get_yticklabels()):
            name.set_color(color_of(g))
        ax.invert_yaxis()
        ax.axvline(
            float(self.certainty.mean()),
            color=INK,
            linestyle=":",
            linewidth=1,
        )
        ax.set(xlabel=self.certainty_name, ylabel="cluster (rows)", title="how sure rows are")

    def _name_columns(self, ax: Any) -> None:
        names = [name[:MAX_NAME_LENGTH] for name in self.names[:MAX_COLUMNS]]
        ax.set_xticks(
            range(len(names)),
            names,
            rotation=60,
            ha="right",
            fontsize="small",
        )


def spread_apart(places: Array, length: float) -> Array:
    """Return increasing places on an axis, moved so that names at them do not overlap."""
    gap = min(NAME_HEIGHT, 1 / max(len(places), 1)) * length
    steps = gap * np.arange(len(places))
    forward = np.maximum.accumulate(places - steps) + steps
    return np.asarray(np.minimum(forward, length - 1 - steps[::-1]))


def ordered_by(labels: Array, most: int) -> Array:
    """Return places of rows in the order of labels, spread evenly if there are too many."""
    order = np.argsort(labels, kind="stable")
    if len(order) <= most:
        return order
    return order[np.linspace(0, len(order) - 1, most).astype(int)]


def column_ranks(values: Array) -> Array:
    """Return the ranks of numbers among those of their column, from 0 to 1; NaN where missing."""
    ranks = np.full(values.shape, np.nan)
    for j, column in enumerate(values.T):
        seen = np.flatnonzero(~np.isnan(column))
        order = np.unique(column[seen], return_inverse=True)[1]
        ranks[seen, j] = order / max(order.max(initial=0), 1)
    return ranks


def _mean(values: Array) -> Array:
    """Return means of observed entries, NaN where a column has none."""
    counts = (~np.isnan(values)).sum(axis=0)
    sums = np.nansum(values, axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _silhouettes(values: Array, labels: Array) -> Array:
    """Return silhouettes of rows whose missing entries are at the mean, zeros of one cluster."""
    filled = np.where(np.isnan(values), _mean(values), values)
    if not 1 < len(np.unique(labels)) < len(labels):
        return np.zeros(len(labels))
    return np.asarray(silhouette_samples(filled, labels))
