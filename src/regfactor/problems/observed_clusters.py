"""Clusters of rows with missing entries: divergences and centers are sums over observed entries."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from regfactor.core.params import Array, UnsupportedProblem, frozen
from regfactor.losses.distances import Divergence
from regfactor.problems.clusters import Clustering


@frozen
class ObservedClusters(Clustering):
    """min over labels z and centers m of factor sum_i w_i sum_c o_ic D(x_ic, m_{z_i c}).

    o_ic is one where x_ic is observed. A center has the mean of its observed entries, where it has
    none that of the column. With a sharpness it is a mixture, as `Clusters` states it, of the
    densities of observed entries. With nothing missing it is `Clusters`.
    """

    X: Array  # NaN where entries are missing
    weights: Array | None
    divergence: Divergence
    n_clusters: int
    codes: Array | None = None
    sharpness: float | None = None
    factor: float = 1.0

    def check(self) -> None:
        self.check_codes(len(self.X))
        if not self.divergence.separable:
            raise UnsupportedProblem(
                f"{self.divergence} compares whole rows; complete missing entries first."
            )

    def softened(self, sharpness: float, factor: float) -> ObservedClusters:
        """Return the mixture of some sharpness on the same rows."""
        return replace(self, sharpness=sharpness, factor=factor)

    @cached_property
    def row_weights(self) -> Array:
        """The weight of each row, ones where none are given."""
        if self.weights is None:
            return np.ones(len(self.X))
        return self.weights

    @cached_property
    def mass(self) -> float:
        """The total weight."""
        return float(self.row_weights.sum())

    @cached_property
    def observed(self) -> Array:
        """One where an entry is observed, else zero."""
        return (~np.isnan(self.X)).astype(np.float64)

    @cached_property
    def anchor(self) -> Array:
        """The center of all rows."""
        X = np.where(np.isnan(self.X), _any_observed(self.X), self.X).astype(np.float64)
        return self.divergence.centers_observed(X, self.observed, self.row_weights[:, None])[0]

    @cached_property
    def filled(self) -> Array:
        """Rows with the numbers of the anchor where entries are missing."""
        return np.where(np.isnan(self.X), self.anchor, self.X).astype(np.float64)

    @cached_property
    def scale(self) -> float:
        """The mean divergence from the anchor."""
        return float(self.row_weights @ self.distances(self.anchor[None])[:, 0]) / self.mass

    @cached_property
    def variance(self) -> float:
        """The mean variance of observed entries."""
        squares = self.observed * np.square(self.filled - self.anchor)
        entries = max(float(self.row_weights @ self.observed.sum(axis=1)), 1e-300)
        return float(self.row_weights @ squares.sum(axis=1)) / entries

    @property
    def n_entries(self) -> float:
        """The mean number of observed entries of a row."""
        return float(self.row_weights @ self.observed.sum(axis=1)) / self.mass

    def distances(self, M: Array) -> Array:
        """Return D of all rows from all centers, over observed entries."""
        return self.divergence.between_observed(self.filled, self.observed, M)

    def centers(self, memberships: Array) -> Array:
        """Return the best centers of memberships, of weights included."""
        M = self.divergence.centers_observed(self.filled, self.observed, memberships)
        return np.where(np.isnan(M), self.anchor, M)

    def masses(self, labels: Array) -> Array:
        """Return the total weight of each label."""
        return np.bincount(labels, self.weights, minlength=self.n_clusters).astype(np.float64)


@frozen
class ObservedCenters:
    """Centers by which rows are compared over their observed entries."""

    divergence: Divergence
    M: Array

    def between(self, X: Array) -> Array:
        """D(x_i, m_j) of all rows and centers, over observed entries."""
        missing = np.isnan(X)
        filled = np.where(missing, self.M[0], X).astype(np.float64)
        D = self.divergence.between_observed(filled, (~missing).astype(np.float64), self.M)
        return D.astype(X.dtype)

    def nearest(self, X: Array) -> tuple[Array, None]:
        """Return the label of every row."""
        return self.between(X).argmin(axis=1).astype(np.int32), None

    def own(self, X: Array, labels: Array) -> Array:
        """D(x_i, m_{z_i}) of every row and its own center."""
        D = self.between(X).astype(np.float64)
        return np.take_along_axis(D, labels[:, None].astype(np.intp), 1)[:, 0]


def _any_observed(X: Array) -> Array:
    """Return an observed number of each column."""
    first = (~np.isnan(X)).argmax(axis=0)
    return X[first, np.arange(X.shape[1])]
