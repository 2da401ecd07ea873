"""Normalized cuts as weighted clustering in the feature space of an affinity."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from regfactor.clusters.spectral import spectral_labels
from regfactor.core.blas import one_thread
from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.params import Array, UnsupportedProblem, choose, is_option
from regfactor.fitting.clustering import (
    LocalSearch,
    best_run,
    check_count,
    check_enough,
    count_of_starts,
    is_non_negative,
    publish_run,
    rows_of,
    warn_of_empty,
    weights_of,
)
from regfactor.fitting.factor_estimator import _check_limits
from regfactor.fitting.kernel_blocks import Implicit, kernel_rows, labels_of
from regfactor.fitting.rollback import all_or_nothing
from regfactor.kernels import Precomputed, as_kernel, is_pairwise, takes_sparse
from regfactor.losses.distances import Divergence, SquaredDistance
from regfactor.losses.divergences import as_divergence
from regfactor.problems.clusters import Clusters
from regfactor.solvers.kernel_lloyd import (
    KernelCenters,
    KernelClusters,
    KernelLloyd,
    one_hot,
    random_labels,
    slices_of,
    spread_labels,
)
from regfactor.solvers.lloyd import Lloyd, at_centers
from regfactor.solvers.nearest import Centers
from regfactor.solvers.seeding import random_rows, spread_rows

STARTS = {"spectral": spectral_labels, "k-means++": spread_labels, "random": random_labels}
ROW_STARTS = {"spectral": spread_rows, "k-means++": spread_rows, "random": random_rows}


class BregmanNormalizedCut(LocalSearch, ClusterMixin, BaseEstimator):
    """min over clusters of sum_j cut(j, rest) / volume(j), with affinities K >= 0 and degrees d = K 1.

    Up to a constant that is k-means on points phi(x_i)/d_i of weight d_i, where <phi(x), phi(y)> =
    K(x, y): sum_i d_i
    |phi_i/d_i - m_{z_i}|^2 = cut + sum_i K_ii/d_i - k, for any partition. With a divergence other than "squared" points
    are the rows themselves, unscaled, and sum_i d_i D(x_i, m_{z_i}) is minimized: Bregman
    clustering in which crowded rows count more, which is not the normalized cut.

    Parameters
    ----------
    n_clusters : int, default=8
    affinity : str, callable or Kernel, default="rbf"
        "rbf", "precomputed" (X is the matrix of affinities, which may be sparse, with or without a
        diagonal), any other kernel that is nowhere negative, or a function of two tables.
    gamma : float or str, default="median"
        Of "rbf": a number, "scale", "median" (1 / twice the median squared distance) or
        "neighbors".
    divergence : str or Potential, default="squared"
    init : {"spectral", "k-means++", "random"} or array-like, default="spectral"
        Labels by the leading eigenvectors of the normalized affinities, which are then improved on
        the cut itself; or rows drawn in feature space; or the first label of each row. With another
        divergence "spectral" is k-means++.
    n_init : int or "auto", default="auto"
        Starts of which the best is kept; "auto" is 1 for "spectral" under "squared", else 10.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Used with other divergences, as in `BregmanKMeans`; cuts are improved until no label
        changes.
    time_limit : float, optional
    verbose : int, default=0
    random_state : int, RandomState instance or None, default=None
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
    objective_ : float
        The normalized cut, between 0 and n_clusters - 1 at its best; with another divergence the
        sum above.
    degrees_ : ndarray of shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import BregmanNormalizedCut
    >>> X = np.array([[0.0], [0.2], [0.1], [5.0], [5.3], [5.1]])
    >>> model = BregmanNormalizedCut(2, random_state=0).fit(X)
    >>> bool(model.labels_[0] == model.labels_[2] != model.labels_[3] == model.labels_[5])
    True
    >>> bool(model.predict([[0.4]])[0] == model.labels_[0])
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        affinity: Any = "rbf",
        gamma: Any = "median",
        divergence: Any = "squared",
        *,
        init: Any = "spectral",
        n_init: Any = "auto",
        max_iter: int = 1000,
        tol: float = 1e-4,
        time_limit: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.affinity = affinity
        self.gamma = gamma
        self.divergence = divergence
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.time_limit = time_limit
        self.verbose = verbose
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the clusters of a table, or of a matrix of affinities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples, n_samples) for "precomputed"
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w stands for w equal rows, once gamma is a number: rules for it count
            every row once.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            _check_limits(self)
            k = check_count(self, "n_clusters")
            divergence = as_divergence(self.divergence)
            n_init = self._n_init()
            part = as_kernel(self.affinity, self.gamma, what="affinity")
            exact = isinstance(divergence, SquaredDistance)
            if isinstance(part, Precomputed) and not exact:
                raise UnsupportedProblem(
                    f"With affinity='precomputed' there are no rows to compare under divergence={self.divergence!r}; "
                    "use divergence='squared', or give the rows and a kernel.",
                )
            X = rows_of(self, X, divergence, reset=True)
            w = weights_of(X, sample_weight)
            check_enough(X, k, "n_clusters")
            random = check_random_state(self.random_state)
            with one_thread():
                kernel = part.resolved(X)
                rows, own, prepared = kernel_rows(kernel, X)
                weights = np.ones(X.shape[0]) if w is None else w
                degrees = degrees_of(rows, weights)
                check_mass(weights, degrees, np.float64 if exact else X.dtype)
                if exact:
                    offset = k - float((weights * own / degrees).sum())
                    problem = KernelClusters(rows, own, weights, 1 / degrees, k, 2.0, offset)
                    return self._fit_cut(
                        problem,
                        partial(Implicit, kernel, X, prepared, cut=True),
                        n_init,
                        random,
                    )
                return self._fit_rows(
                    Clusters(X, weights * degrees, divergence, k),
                    degrees,
                    n_init,
                    random,
                )

    def _fit_cut(
        self,
        problem: KernelClusters,
        implicit: Callable[[KernelCenters], Implicit],
        n_init: int,
        random: Any,
    ) -> Self:
        k = problem.n_clusters
        if isinstance(self.init, str):
            start = choose(self.init, STARTS, "init")
            first = (start(problem, random) for _ in range(n_init))
        else:
            first = (labels_of(self.init, len(problem.weights), k) for _ in range(1))
        points = (FactorPoint(Factors(one_hot(labels, k), np.zeros((k, 0)))) for labels in first)
        solution = best_run(self, (KernelLloyd().iterates(problem, point) for point in points))
        self.labels_ = solution.point.factors.Phi.indices
        self.degrees_ = 1 / problem.scale
        self._centers: Any = implicit(problem.centers(self.labels_)[0])
        publish_run(self, solution, "KernelLloyd")
        self.objective_ = max(solution.objective, 0.0)  # rounding
        warn_of_empty(self.labels_, problem.weights, k)
        return self

    def _fit_rows(self, problem: Clusters, degrees: Array, n_init: int, random: Any) -> Self:
        if not isinstance(self.init, str):
            raise ValueError(
                "With a divergence other than 'squared' init must be 'k-means++' or 'random'.",
            )
        start = choose(self.init, ROW_STARTS, "init")
        points = (at_centers(problem, start(problem, random)) for _ in range(n_init))
        solution = best_run(self, (Lloyd(self.tol).iterates(problem, point) for point in points))
        divergence: Divergence = problem.started.at(solution.point.coefficients)
        self.labels_ = solution.point.factors.Phi.indices
        self.degrees_ = degrees
        self._centers = Centers(divergence, solution.point.factors.C, problem.anchor, problem.far)
        publish_run(self, solution, "Lloyd")
        warn_of_empty(self.labels_, problem.weights, problem.n_clusters)
        return self

    def _n_init(self) -> int:
        exact = isinstance(as_divergence(self.divergence), SquaredDistance)
        return count_of_starts(self, auto=1 if is_option(self.init, "spectral") and exact else 10)

    def predict(self, X: Any) -> Array:
        """Return the cluster of each row, by its affinities to the training rows.

        Training rows are placed as new ones, which for affinities without a diagonal can differ
        from `labels_`. With a divergence other than "squared", by the nearest center.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples, n_training) affinities for "precomputed"

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = rows_of(self, X, as_divergence(self.divergence), reset=False)
        if is_pairwise(self.affinity):
            check_affinities(X)
        with one_thread():
            return self._centers.nearest(X)[0]

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what rows are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_pairwise(self.affinity)
        tags.input_tags.sparse = takes_sparse(self.affinity)
        tags.input_tags.positive_only = is_non_negative(self.divergence)
        return tags


def check_mass(weights: Array, degrees: Array, dtype: Any) -> None:
    """Raise for weights whose product with the degrees, which are sums of them, is no number any more."""
    with np.errstate(over="ignore"):
        mass = float((weights * degrees).sum())
    if not np.finfo(dtype).tiny <= mass <= np.finfo(dtype).max:
        raise ValueError(
            f"Sample weights from {weights.min():g} to {weights.max():g} times the degrees of rows leave the range of "
            f"{np.dtype(dtype)}; divide the weights by their mean, on which clusters do not depend.",
        )


def check_affinities(K: Any, first: int = 0) -> None:
    """Raise where an affinity is negative; `first` is the number of the first row."""
    if K.min() < 0:
        i, j = np.unravel_index(int(K.argmin()), K.shape)
        raise ValueError(
            f"Affinities must not be negative; that of rows {first + int(i)} and {int(j)} is {K.min():g}. Use 'rbf', "
            "or 'poly' of an even degree; a linear kernel is not an affinity.",
        )


def degrees_of(rows: Any, weights: Array) -> Array:
    """Return K w; raise where an affinity is negative or a row has none."""
    n = len(weights)
    degrees = np.empty(n)
    for at in slices_of(rows, n):
        K = rows(at)
        check_affinities(K, at.start)
        degrees[at] = K @ weights
    if not (degrees > 0).all():
        lonely = int(np.argmin(degrees))
        raise ValueError(
            f"Row {lonely} has no affinity to any row, so it has no degree; remove it, or lower gamma.",
        )
    return degrees
