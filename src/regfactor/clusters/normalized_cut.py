"""Normalized cuts as weighted clustering in the feature space of an affinity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from regfactor.clusters.spectral import spectral_labels
from regfactor.core.blas import one_thread
from regfactor.core.loop import Solution
from regfactor.core.params import Array, UnsupportedProblem, frozen, is_option
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.clustering import (
    ClusterEstimator,
    check_enough,
    is_non_negative,
    rows_of,
    warn_of_empty,
    weights_of,
)
from regfactor.fitting.kernel_blocks import (
    KernelRows,
    check_affinities,
    check_labels,
    degrees_of,
    kernel_rows,
)
from regfactor.fitting.parameters import AUTO, COUNT, RUN_CONSTRAINTS, parametrized
from regfactor.kernels import Precomputed, as_kernel, is_pairwise, tag_kernel
from regfactor.losses.distances import Divergence, SquaredDistance
from regfactor.losses.divergences import as_divergence
from regfactor.problems.clusters import ClusterPoint, Clusters
from regfactor.problems.kernel_clusters import KernelClusters
from regfactor.solvers.base import solve_from
from regfactor.solvers.nearest import Centers
from regfactor.solvers.seeding import random_labels, random_rows, spread_labels, spread_rows

KERNEL_STARTS = {"spectral": spectral_labels, "k-means++": spread_labels, "random": random_labels}
ROW_STARTS = {"spectral": spread_rows, "k-means++": spread_rows, "random": random_rows}


@frozen
class CutInputs:
    """Rows, weights, affinities and degrees; `exact` if the cut itself is minimized."""

    X: Any
    weights: Array
    divergence: Divergence
    affinity: KernelRows
    degrees: Array
    exact: bool


@parametrized
class BregmanNormalizedCut(ClusterMixin, ClusterEstimator):
    """min over clusters of sum_j cut(j, rest) / volume(j), with affinities K >= 0, degrees d = K 1.

    Up to a constant that is k-means on points phi(x_i)/d_i of weight d_i, where <phi(x), phi(y)> =
    K(x, y): sum_i d_i |phi_i/d_i - m_{z_i}|^2 = cut + sum_i K_ii/d_i - k, for any partition. With a
    divergence other than "squared" points are the rows themselves, unscaled, and
    sum_i d_i D(x_i, m_{z_i}) is minimized: Bregman clustering in which crowded rows count more,
    which is not the normalized cut.

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
        Called with every `Iterate`; the run ends when it returns a true value.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
    objective_ : float
        The normalized cut, between 0 and n_clusters - 1 at its best; with another divergence the
        sum above.
    degrees_ : ndarray of shape (n_samples,)

    See Also
    --------
    BregmanKMeans : Clusters by distances from centers.
    sklearn.cluster.SpectralClustering : The relaxation alone.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [COUNT],
        "init": [StrOptions(set(KERNEL_STARTS)), "array-like"],
        "n_init": [COUNT, AUTO],
        **RUN_CONSTRAINTS,
    }

    n_clusters: int = 8
    affinity: Any = "rbf"
    gamma: Any = "median"
    divergence: Any = "squared"
    _: KW_ONLY
    init: Any = "spectral"
    n_init: Any = "auto"
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the clusters of a table, or of a matrix of affinities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples, n_samples) for "precomputed"
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weights act as repetition counts, once gamma is a number: rules for it count every row
            once.

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight)

    def _read(self, X: Any, sample_weight: Any) -> CutInputs:
        divergence = as_divergence(self.divergence)
        affinity = as_kernel(self.affinity, self.gamma, what="affinity")
        exact = isinstance(divergence, SquaredDistance)
        if isinstance(affinity, Precomputed) and not exact:
            raise UnsupportedProblem(
                "With affinity='precomputed' there are no rows to compare under "
                f"divergence={self.divergence!r}; use divergence='squared', or give the rows and a "
                "kernel."
            )
        if not exact and not isinstance(self.init, str):
            raise ValueError(
                "With a divergence other than 'squared' init must be 'k-means++' or 'random'."
            )
        X = rows_of(self, X, divergence, reset=True)
        w = weights_of(X, sample_weight)
        check_enough(X, self.n_clusters, "n_clusters")
        with one_thread():
            rows = kernel_rows(affinity.resolved(X), X)
            if w is None:
                weights = np.ones(X.shape[0])
            else:
                weights = w
            degrees = degrees_of(rows.rows, weights)
        check_mass(weights, degrees, np.float64 if exact else X.dtype)
        return CutInputs(X, weights, divergence, rows, degrees, exact)

    def _state(self, inputs: CutInputs) -> Clusters | KernelClusters:
        k = self.n_clusters
        weights = inputs.weights
        degrees = inputs.degrees
        if not inputs.exact:
            return Clusters(inputs.X, weights * degrees, inputs.divergence, k)
        own = inputs.affinity.diagonal
        return KernelClusters(
            inputs.affinity.rows,
            own,
            weights,
            1 / degrees,
            k,
            factor=2.0,
            offset=k - float((weights * own / degrees).sum()),
        )

    def _solve(self, problem: Any, inputs: CutInputs, run: Run) -> Solution[Any]:
        return solve_from(problem, run.remaining(), self._starts(problem, run))

    def _starts(self, problem: Clusters | KernelClusters, run: Run) -> Iterator[ClusterPoint]:
        """Yield the first centers or labels."""
        for _ in range(self._count_starts(isinstance(problem, KernelClusters))):
            if isinstance(problem, Clusters):
                yield ClusterPoint(ROW_STARTS[self.init](problem, run.random))
            elif isinstance(self.init, str):
                yield ClusterPoint(labels=KERNEL_STARTS[self.init](problem, run.random))
            else:
                n = len(problem.weights)
                yield ClusterPoint(labels=check_labels(self.init, n, self.n_clusters))

    def _count_starts(self, exact: bool) -> int:
        """Return the number of starts; from given labels there is only one."""
        if not isinstance(self.init, str):
            return 1
        if not is_option(self.n_init, "auto"):
            return int(self.n_init)
        if exact and is_option(self.init, "spectral"):
            return 1
        return 10

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[Any],
        inputs: CutInputs,
        run: Run,
    ) -> Solution[Any]:
        problem = choice.problem
        point = solution.point
        self.labels_ = point.labels
        self.degrees_ = inputs.degrees
        self._centers: Any
        if isinstance(problem, KernelClusters):
            centers, _ = problem.centers_of(point.labels)
            self._centers = inputs.affinity.scoring(centers.compact(), cut=True)
            solution = replace(solution, objective=max(solution.objective, 0.0))  # rounding
        else:
            self._centers = Centers.of(problem, point)
        warn_of_empty(self.labels_, problem.weights, self.n_clusters)
        return solution

    def predict(self, X: Any) -> Array:
        """Return the cluster of each row, by its affinities to the training rows.

        Training rows are placed as new ones, which for affinities without a diagonal can differ
        from `labels_`. With a divergence other than "squared", by the nearest center.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            With "precomputed", affinities of shape (n_samples, n_training).

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
        """Return tags: sparse or square tables, numbers that are not negative."""
        tags = super().__sklearn_tags__()
        tag_kernel(tags, self.affinity)
        tags.input_tags.positive_only = is_non_negative(self.divergence)
        return tags


def check_mass(weights: Array, degrees: Array, dtype: Any) -> None:
    """Raise if weights times degrees, which are sums of them, are not finite or vanish."""
    with np.errstate(over="ignore"):
        mass = float((weights * degrees).sum())
    if not np.finfo(dtype).tiny <= mass <= np.finfo(dtype).max:
        raise ValueError(
            f"Sample weights from {weights.min():g} to {weights.max():g} times the degrees of rows "
            f"leave the range of {np.dtype(dtype)}; divide the weights by their mean, on which "
            "clusters do not depend."
        )
