"""Clusters of rows: k-means and mixtures under a divergence, some of the clusters known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from regfactor.core.linalg import is_sparse
from regfactor.core.loop import Limits
from regfactor.core.params import SMALLEST_NORMAL, Array, frozen
from regfactor.losses.distances import Affine, Divergence, check_covariance
from regfactor.problems.base import Problem

LLOYD = "regfactor.solvers.lloyd:Lloyd"
EM = "regfactor.solvers.em:EM"
FREE = -1  # the code of a row whose cluster is not known
UNCOPIED_ROWS = 4096  # of a block that is read as it is
BLOCK_ENTRIES = 2**17  # of a block of which copies are made, in float64 or dense
SAMPLED_ROWS = 5000  # from which the variance of the data is estimated
MAX_SCREENED_COLUMNS = 4096  # up to which scores in float32 decide for most rows
MIN_SCREENED_CENTERS = 8  # from which on the conversion of rows to float32 pays
# Mean over standard deviation from which on blocks are centered first, and up to which float32
# adds up some thousand rows as precisely as it holds them.
FAR_MEAN = 16.0
NEAR_MEAN = 4.0


@frozen
class ClusterPoint:
    """Centers with the labels of rows, or with what mixes them.

    Attributes
    ----------
    centers : ndarray of shape (n_clusters, n_features) or None
        None in the feature space of a kernel, where they have no coordinates.
    labels : ndarray of shape (n_samples,), optional
    shares : ndarray of shape (n_clusters,), optional
        The proportions p of a mixture.
    memberships : ndarray of shape (n_samples, n_clusters), optional
        Of which centers in feature space are means.
    covariance : ndarray, optional
        The fitted parameter of the divergence.
    sharpness : float
        Of a mixture; infinite for labels.
    """

    centers: Array | None = None
    labels: Array | None = None
    shares: Array | None = None
    memberships: Array | None = None
    covariance: Array | None = None
    sharpness: float = np.inf


class Clustering(Problem[ClusterPoint]):
    """The role of clusters of rows and of clusters in feature space, for Lloyd and EM.

    Attributes
    ----------
    n_clusters : int
    codes : ndarray of shape (n_samples,) or None
        Known clusters of rows, -1 where they are free; None if all are.
    sharpness : float or None
        None for labels, that is min_j D_ij; a number rho for the mixture, in which
        -1/rho log sum_j p_j exp(-rho D_ij) takes its place.
    factor : float
        By which the sum over rows is multiplied.
    """

    solvers: ClassVar[tuple[str, ...]] = (LLOYD, EM)
    n_clusters: int
    codes: Array | None
    sharpness: float | None
    factor: float

    def candidates(self, limits: Limits) -> tuple[str, ...]:
        """Return the one solver: of labels, or of a mixture."""
        if self.sharpness is None:
            return (LLOYD,)
        return (EM,)

    def check_codes(self, n_samples: int) -> None:
        """Raise if there are too few rows, or known clusters are invalid."""
        k = self.n_clusters
        if n_samples < k:
            raise ValueError(
                f"n_samples={n_samples} should be >= n_clusters={k}; lower n_clusters."
            )
        codes = self.codes
        if codes is None:
            return
        if codes.shape != (n_samples,) or codes.min() < FREE or codes.max() >= k:
            raise ValueError(
                f"codes must hold a cluster from 0 to {k - 1}, or {FREE}, for each of "
                f"{n_samples} rows."
            )

    @cached_property
    def free(self) -> Array | None:
        """Whether the cluster of each row is free; None where that of every row is."""
        if self.codes is None:
            return None
        return self.codes == FREE

    def restrict(self, log_weights: Array, at: slice) -> Array:
        """Return log weights of clusters, -inf where a known cluster excludes them."""
        if self.codes is None:
            return log_weights
        codes = self.codes[at, None]
        excluded = (codes != FREE) & (codes != np.arange(self.n_clusters))
        return np.where(excluded, -np.inf, log_weights)


@dataclass(frozen=True)
class Spread:
    """The mean variance of columns, and whether rows are far from the origin or near it.

    `far` rows are centered before products are taken; of `near` ones float32 adds up some thousand
    without losing precision.
    """

    variance: float
    far: bool
    near: bool


@frozen
class Clusters(Clustering):
    """min over labels z and centers m of factor sum_i w_i D(x_i, m_{z_i}) + parameter cost.

    With a sharpness rho, min over shares p and centers m of
    -factor/rho sum_i w_i log sum_j p_j exp(-rho D(x_i, m_j)) + parameter cost.
    """

    X: Any
    weights: Array | None
    divergence: Divergence
    n_clusters: int
    codes: Array | None = None
    sharpness: float | None = None
    factor: float = 1.0

    def check(self) -> None:
        n, d = self.X.shape
        self.check_codes(n)
        if self.divergence.covariance is not None:
            check_covariance(self.divergence.covariance, d)

    def softened(self, sharpness: float, factor: float | None = None) -> Clusters:
        """Return the mixture of some sharpness on the same rows; sums that were found stay."""
        if factor is None:
            factor = self.factor
        soft = replace(self, sharpness=sharpness, factor=factor)
        given = vars(soft).copy()
        vars(soft).update(vars(self))
        vars(soft).update(given)
        return soft

    @cached_property
    def row_weights(self) -> Array:
        """The weight of each row, ones where none are given."""
        if self.weights is None:
            return np.ones(self.X.shape[0])
        return self.weights

    @cached_property
    def mass(self) -> float:
        """The total weight."""
        return float(self.row_weights.sum())

    @cached_property
    def anchor(self) -> Array:
        """The mean of the rows."""
        total = np.zeros(self.X.shape[1])
        for at, X in row_blocks(self.X, UNCOPIED_ROWS, keep_sparse=True):
            total += self.row_weights[at] @ X
        return total / self.mass

    @cached_property
    def spread(self) -> Spread:
        """The spread of columns around their means, by a sample of the rows if there are many."""
        some = slice(None, None, -(-self.X.shape[0] // SAMPLED_ROWS))
        w = self.row_weights[some]
        if is_sparse(self.X):
            squares = _sparse_squares(self.X[some], w, self.anchor)
        else:
            squares = w @ np.square(self.X[some] - self.anchor)
        variances = squares / max(float(w.sum()), SMALLEST_NORMAL)
        means = np.abs(self.anchor)
        scale = np.sqrt(self.divergence.spread(variances))
        return Spread(
            float(variances.mean()),
            bool((means > FAR_MEAN * scale).any()),
            bool((means <= NEAR_MEAN * np.sqrt(variances)).all()),
        )

    @cached_property
    def sizes(self) -> Array | None:
        """|x| of every row where scores in float32 may decide for rows in float64; else None."""
        X = self.X
        affine = isinstance(self.divergence, Affine) and not is_sparse(X) and not self.spread.far
        many = self.n_clusters >= MIN_SCREENED_CENTERS and X.shape[1] <= MAX_SCREENED_COLUMNS
        if not affine or not many or X.dtype != np.float64:
            return None
        squares = [np.einsum("ij,ij->i", block, block) for _, block in row_blocks(X)]
        with np.errstate(over="ignore"):  # there float64 decides
            return np.sqrt(np.concatenate(squares)).astype(np.float32)

    def base(self, divergence: Divergence) -> Array | None:
        """D(x_i || a) of every row, found once if nothing is fitted; None if not affine."""
        if divergence is self.divergence:
            return self._fixed_base
        return self._base(divergence)

    @cached_property
    def _fixed_base(self) -> Array | None:
        return self._base(self.divergence)

    def _base(self, divergence: Divergence) -> Array | None:
        if not isinstance(divergence, Affine):
            return None
        blocks = row_blocks(self.X, keep_sparse=divergence.additive)
        return np.concatenate([divergence.base(X, self.anchor) for _, X in blocks])

    @cached_property
    def statistics(self) -> Array:
        """The sums over rows that the objective needs of the data besides the labels."""
        total = np.zeros(())
        if isinstance(self.divergence, Affine):
            for at, X in row_blocks(self.X, keep_sparse=self.divergence.additive):
                w = None if self.weights is None else self.weights[at]
                total = total + self.divergence.statistics(X, w, self.anchor, self.spread.far)
        eps = float(np.finfo(self.X.dtype).eps)
        return self.divergence.without_rounding(total, self.anchor, self.mass, eps)

    @cached_property
    def started(self) -> Divergence:
        """The divergence with its parameter fitted to a single cluster."""
        zero = np.zeros((1, self.X.shape[1]))
        return self.divergence.refitted(self.statistics, zero, np.array([self.mass]))

    def divergence_at(self, point: ClusterPoint) -> Divergence:
        """Return the divergence with the parameter of a point, or else of a single cluster."""
        if point.covariance is None:
            return self.started
        return self.started.at(point.covariance)

    @property
    def scale(self) -> float:
        """The mean divergence from the anchor, relative to which rounding is judged."""
        return self.started.total(self.statistics) / self.mass

    def objective(self, divergence: Divergence, gain: float) -> float:
        """Return the objective of labels that gain so much over a single cluster at the anchor."""
        cost = divergence.total(self.statistics) - gain + divergence.parameter_cost(self.mass)
        return self.factor * cost

    def masses(self, labels: Array) -> Array:
        """Return the total weight of each label."""
        return np.bincount(labels, self.weights, minlength=self.n_clusters).astype(np.float64)


def row_blocks(
    X: Any,
    rows: int | None = None,
    among: Array | None = None,
    keep_sparse: bool = False,
) -> Iterator[tuple[Any, Any]]:
    """Yield blocks of rows, dense unless `keep_sparse`, with their slices or places.

    Without a number of rows, blocks are such that copies of them may be made. `among` are places of
    rows to which the blocks are limited.
    """
    n = X.shape[0] if among is None else len(among)
    keep_sparse = keep_sparse and is_sparse(X)
    if rows is None:
        if keep_sparse:
            rows = UNCOPIED_ROWS
        else:
            rows = max(BLOCK_ENTRIES // X.shape[1], 16)
    for start in range(0, n, rows):
        at: Any = slice(start, min(start + rows, n))
        if among is not None:
            at = among[at]
        block = X[at]
        if is_sparse(X) and not keep_sparse:
            block = block.toarray()
        yield at, block


def _sparse_squares(X: Any, w: Array, anchor: Array) -> Array:
    """Return the sums of w (x - a)^2 over the rows, absent entries as zeros."""
    d = X.shape[1]
    stored = np.repeat(w, np.diff(X.indptr))
    absent = np.maximum(w.sum() - np.bincount(X.indices, stored, minlength=d), 0)
    squares = stored * np.square(X.data - anchor[X.indices])
    own = np.bincount(X.indices, squares, minlength=d)
    return own + absent * np.square(anchor)
