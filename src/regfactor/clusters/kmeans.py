"""Hard clustering under Bregman divergences, on rows or in the feature space of a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from regfactor.clusters.block_fit import BlockClusterInputs, labels_of, read_cluster_blocks
from regfactor.core.blas import one_thread
from regfactor.core.loop import Solution
from regfactor.core.params import Array, UnsupportedProblem, as_floats, frozen, is_option, warn
from regfactor.engine.blocks import BlockTable
from regfactor.fitting.base import Choice, Run, Transformer
from regfactor.fitting.clustering import (
    ClusterEstimator,
    check_domain,
    check_enough,
    has_missing,
    is_non_negative,
    rows_of,
    takes_missing,
    warn_of_empty,
    weights_of,
)
from regfactor.fitting.kernel_blocks import KernelRows, check_labels, kernel_rows, origin_of
from regfactor.fitting.parameters import AUTO, COUNT, RUN_CONSTRAINTS, parametrized
from regfactor.kernels import as_kernel, tag_kernel
from regfactor.losses.distances import Divergence, Mahalanobis, SquaredDistance
from regfactor.losses.divergences import as_divergence
from regfactor.problems.block_clusters import BlockClusters
from regfactor.problems.clusters import ClusterPoint, Clusters
from regfactor.problems.kernel_clusters import KernelClusters
from regfactor.problems.observed_clusters import ObservedCenters, ObservedClusters
from regfactor.solvers.base import solve_from, solve_within
from regfactor.solvers.kernel_steps import MAX_NEGATIVE
from regfactor.solvers.nearest import Centers
from regfactor.solvers.seeding import (
    random_labels,
    random_observed_rows,
    random_rows,
    spread_labels,
    spread_observed_rows,
    spread_rows,
)

ROW_STARTS = {"k-means++": spread_rows, "random": random_rows}
OBSERVED_STARTS = {"k-means++": spread_observed_rows, "random": random_observed_rows}
KERNEL_STARTS = {"k-means++": spread_labels, "random": random_labels}


ClusterProblem = Clusters | KernelClusters | ObservedClusters


@frozen
class ClusterInputs:
    """Rows as they were read: legal under the divergence, in feature space with a kernel."""

    X: Any
    weights: Array | None
    divergence: Divergence
    kernel: KernelRows | None = None

    def problem(self, n_clusters: int) -> ClusterProblem:
        """Return the problem of labels of these rows."""
        if self.kernel is not None:
            ones = np.ones(self.X.shape[0])
            weights = ones if self.weights is None else self.weights
            kernel = self.kernel
            return KernelClusters(kernel.rows, kernel.diagonal, weights, ones, n_clusters)
        if has_missing(self.X):
            return ObservedClusters(self.X, self.weights, self.divergence, n_clusters)
        return Clusters(self.X, self.weights, self.divergence, n_clusters)


@parametrized
class BregmanKMeans(
    ClassNamePrefixFeaturesOutMixin,
    Transformer,
    ClusterMixin,
    ClusterEstimator,
):
    """min over labels z and centers m of sum_i w_i D(x_i, m_{z_i}): k-means under a divergence.

    Parameters
    ----------
    n_clusters : int, default=8
    divergence : str or Potential, default="squared"
        "squared" (half the squared distance), "mahalanobis" (with the covariance within clusters
        fitted too), "kl" (counts, x >= 0), "itakura_saito" (x > 0), "bernoulli" (x in [0, 1]),
        "sigmoid", "softmax", "exp", "cube", "relaxed_sigmoid" (real x; the potentials of transfer
        functions), "absolute" (k-medians), or a potential such as
        `losses.potentials.Burg(shape=2)`.
    init : {"k-means++", "random"}, callable or array-like, default="k-means++"
        k-means++ draws rows by the divergence itself. A callable is given (X, n_clusters,
        random_state). An array holds the first centers; with a kernel, the first label of every
        row.
    n_init : int or "auto", default="auto"
        Starts of which the best is kept; "auto" is 10 for "random", callables and "mahalanobis",
        whose fits depend most on where they begin, else 1.
    max_iter : int, default=300
    kernel : str, callable or Kernel, optional
        k-means in the feature space of a kernel, which is never formed: "linear", "rbf", "poly",
        "precomputed", ... It needs the squared divergence. To cluster rows of a kernel matrix as
        features, which is another model, fit on `as_kernel("rbf").resolved(X).gram(X)` under any
        divergence, without `kernel`.
    gamma, degree, coef0 : default="scale", 3, 1.0
        Parameters of "rbf" and "poly".
    tol : float, default=1e-4
        The squared moves of all centers, as a share of the mean variance of the columns, at which
        the fit stops.
    time_limit : float, optional
    verbose : int, default=0
    random_state : int, RandomState instance or None, default=None
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns a true value.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Not there with a kernel, whose centers have no coordinates.
    labels_ : ndarray of shape (n_samples,)
    inertia_ : float
        Sum of the (weighted) divergences of rows from their centers; half of scikit-learn's for
        "squared".
    covariance_ : ndarray of shape (n_features, n_features)
        With "mahalanobis".
    objective_ : float
        What was minimized: `inertia_`, for "mahalanobis" plus W/2 (log det S + tr V S^-1), with V
        the diagonal of a thousandth of the variances of the columns, which keeps S invertible.
        Under `Mahalanobis(covariance=S)` S is kept, and the objective is `inertia_` plus
        W/2 log det S.

    See Also
    --------
    BregmanMixture : The same clusters with shares of every row in each.
    BregmanNormalizedCut : Clusters by affinities between rows.

    Notes
    -----
    Values on the boundary of a domain (zeros under "kl", 0 and 1 under "bernoulli") are
    legal. Where all rows of a cluster have such a value in a column, so has the center: their
    divergence is zero there, that of any other value x finite but huge, 708 x for "kl", in place of
    infinity. "exp" takes numbers below 700, in float32 below 85. An empty cluster is given the row
    farthest from its center. It stays empty only if all rows lie on centers, which gives a
    warning. Sparse tables are read with absent entries as zeros.

    NaN in an array is a missing entry, in `fit` and `predict`: divergences and centers are sums
    over observed entries. "mahalanobis", "softmax" and kernels compare whole rows and refuse NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import BregmanKMeans
    >>> X = np.array([[9.0, 0.0], [8.0, 1.0], [0.0, 7.0], [1.0, 9.0]])
    >>> model = BregmanKMeans(2, divergence="kl", random_state=0).fit(X)
    >>> bool(model.labels_[0] == model.labels_[1] != model.labels_[2] == model.labels_[3])
    True
    >>> model.cluster_centers_[model.labels_[0]]
    array([8.5, 0.5])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [COUNT],
        "init": [StrOptions(set(ROW_STARTS)), callable, "array-like"],
        "n_init": [COUNT, AUTO],
        **RUN_CONSTRAINTS,
    }

    n_clusters: int = 8
    divergence: Any = "squared"
    init: Any = "k-means++"
    n_init: Any = "auto"
    max_iter: int = 300
    kernel: Any = None
    _: KW_ONLY
    gamma: Any = "scale"
    degree: int = 3
    coef0: float = 1.0
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the clusters of a table.

        Parameters
        ----------
        X : {array-like, sparse matrix, BlockTable} of shape (n_samples, n_features)
            NaN in an array where an entry is missing. Of a `BlockTable` the first centers are those
            of 20,000 rows; its `labels_` are not kept: `predict` has them.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weights act as repetition counts.

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight)

    def _read(self, X: Any, sample_weight: Any) -> ClusterInputs | BlockClusterInputs:
        if isinstance(X, BlockTable):
            return read_cluster_blocks(self, X, sample_weight)
        divergence = as_divergence(self.divergence)
        if self.kernel is not None and not isinstance(divergence, SquaredDistance):
            raise UnsupportedProblem(
                "k-means in the feature space of a kernel needs divergence='squared', got "
                f"{self.divergence!r}. To cluster rows of the kernel matrix as features under it, "
                "leave kernel=None and fit on as_kernel(kernel).resolved(X).gram(X)."
            )
        X = self._rows(X, reset=True)
        w = weights_of(X, sample_weight)
        check_enough(X, self.n_clusters, "n_clusters")
        inputs = ClusterInputs(X, w, divergence)
        if self.kernel is None:
            return inputs
        with one_thread():
            kernel = as_kernel(self.kernel, self.gamma, self.degree, self.coef0).resolved(X)
            return replace(inputs, kernel=kernel_rows(kernel, X, origin_of(kernel, X, w)))

    def _rows(self, X: Any, reset: bool) -> Any:
        """Return checked rows, with NaN where entries are missing if the divergence allows it."""
        missing = takes_missing(self.divergence, self.kernel)
        return rows_of(self, X, as_divergence(self.divergence), reset=reset, missing=missing)

    def _state(self, inputs: ClusterInputs | BlockClusterInputs) -> ClusterProblem | BlockClusters:
        return inputs.problem(self.n_clusters)

    def _solve(self, problem: Any, inputs: Any, run: Run) -> Solution[Any]:
        if isinstance(inputs, BlockClusterInputs):
            start = ClusterPoint(inputs.fitted.cluster_centers_.astype(np.float64))
            return solve_within(problem, run.remaining(), start)
        return solve_from(problem, run.remaining(), self._starts(problem, inputs, run))

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[Any],
        inputs: Any,
        run: Run,
    ) -> Solution[Any]:
        self._n_features_out = self.n_clusters
        if isinstance(inputs, BlockClusterInputs):
            self._publish_blocks(solution, inputs)
            return solution
        self.labels_ = solution.point.labels
        if isinstance(choice.problem, ObservedClusters):
            self._publish_observed(choice.problem, solution)
        elif inputs.kernel is None:
            solution = self._publish_rows(choice.problem, solution)
        else:
            solution = self._publish_kernel(choice.problem, solution, inputs.kernel)
        warn_of_empty(self.labels_, inputs.weights, self.n_clusters)
        return solution

    def _publish_rows(self, problem: Clusters, solution: Solution[Any]) -> Solution[Any]:
        point = solution.point
        dtype = problem.X.dtype
        centers = Centers.of(problem, point)
        cost = centers.divergence.parameter_cost(problem.mass)
        self._centers: Any = centers
        self._placed: Array | None = point.centers.astype(dtype)
        self.inertia_ = centers.inertia(problem, point.labels, solution.objective - cost)
        if point.covariance is not None:
            self.covariance_ = point.covariance.astype(dtype)
        return replace(solution, objective=self.inertia_ + cost)

    def _publish_blocks(self, solution: Solution[Any], inputs: BlockClusterInputs) -> None:
        centers = solution.point.centers
        self._centers = inputs.centers(centers)
        self._placed = centers
        self.inertia_ = solution.objective - inputs.divergence.parameter_cost(inputs.mass)

    def _publish_observed(self, problem: ObservedClusters, solution: Solution[Any]) -> None:
        centers = solution.point.centers
        self._centers = ObservedCenters(problem.divergence, centers)
        self._placed = centers.astype(problem.X.dtype)
        self.inertia_ = solution.objective

    def _publish_kernel(
        self,
        problem: KernelClusters,
        solution: Solution[Any],
        kernel: KernelRows,
    ) -> Solution[Any]:
        objective = solution.objective
        if objective < -MAX_NEGATIVE * float(problem.weights @ np.abs(problem.diagonal)):
            warn(
                "The kernel is not positive semidefinite: squared distances from the centers sum "
                f"to {objective:.3g}, and inertia_ is 0. Labels minimize that sum all the same."
            )
        centers, _ = problem.centers_of(self.labels_)
        self._centers = kernel.scoring(centers.compact())
        self._placed = None
        self.inertia_ = max(objective, 0.0)
        return solution

    def _starts(
        self,
        problem: ClusterProblem,
        inputs: ClusterInputs,
        run: Run,
    ) -> Iterator[ClusterPoint]:
        """Yield the first centers or labels, checked where they are given."""
        for _ in range(self._count_starts()):
            if isinstance(problem, KernelClusters):
                if isinstance(self.init, str):
                    labels = KERNEL_STARTS[self.init](problem, run.random)
                else:
                    given = self._given(inputs.X, run)
                    labels = check_labels(given, inputs.X.shape[0], self.n_clusters)
                yield ClusterPoint(labels=labels)
            elif not isinstance(self.init, str):
                yield ClusterPoint(self._checked_centers(problem, self._given(problem.X, run)))
            elif isinstance(problem, ObservedClusters):
                yield ClusterPoint(OBSERVED_STARTS[self.init](problem, run.random))
            else:
                yield ClusterPoint(ROW_STARTS[self.init](problem, run.random))

    def _checked_centers(self, problem: Clusters | ObservedClusters, given: Any) -> Array:
        M = as_floats(given, "init")
        k = problem.n_clusters
        d = problem.X.shape[1]
        if M.shape != (k, d):
            raise ValueError(f"init must hold {k} centers of {d} features, got shape {M.shape}.")
        if not np.isfinite(M).all():
            row, column = np.argwhere(~np.isfinite(M))[0]
            raise ValueError(
                f"init must be finite: center {row} has {M[row, column]} in column {column}."
            )
        check_domain(M, problem.divergence, what="init")
        return M

    def _given(self, X: Any, run: Run) -> Any:
        if callable(self.init):
            return self.init(X, self.n_clusters, run.random)
        return self.init

    def _count_starts(self) -> int:
        """Return the number of starts; from given centers there is only one."""
        if not isinstance(self.init, str) and not callable(self.init):
            return 1
        if not is_option(self.n_init, "auto"):
            return int(self.n_init)
        adaptive = isinstance(as_divergence(self.divergence), Mahalanobis)
        if is_option(self.init, "k-means++") and not adaptive:
            return 1
        return 10

    @property
    def cluster_centers_(self) -> Array:
        """The centers, which have no coordinates in the feature space of a kernel."""
        check_is_fitted(self)
        if self._placed is None:
            raise AttributeError(
                "With a kernel, centers lie in its feature space and have no coordinates, so there "
                "is no cluster_centers_: transform(X) gives the divergences from them, predict(X) "
                "the nearest."
            )
        return self._placed

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, and return the cluster of each row."""
        self.fit(X, sample_weight=sample_weight)
        if isinstance(X, BlockTable):
            return self.predict(X)
        return np.asarray(self.labels_)

    def predict(self, X: Any) -> Array:
        """Return the cluster of the nearest center of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, BlockTable} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        if isinstance(X, BlockTable):
            return labels_of(self, X)
        X = self._rows(X, reset=False)
        with one_thread():
            return np.asarray(self._centers_for(X).nearest(X)[0])

    def _centers_for(self, X: Any) -> Any:
        """Return what compares rows with the centers, over observed entries if some are missing."""
        if isinstance(self._centers, Centers) and has_missing(X):
            return ObservedCenters(self._centers.divergence, self._centers.M)
        return self._centers

    def transform(self, X: Any) -> Any:
        """Return the divergence of every row from every center.

        Parameters
        ----------
        X : {array-like, sparse matrix, BlockTable} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
            Of a `BlockTable`, a `BlockTable` whose blocks are computed when they are read.
        """
        check_is_fitted(self)
        if isinstance(X, BlockTable):
            return X.map(self.transform, self.n_clusters)
        X = self._rows(X, reset=False)
        return np.asarray(self._centers_for(X).between(X))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the sum of the divergences of rows from their centers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        float
        """
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        centers = self._centers_for(X)
        if isinstance(centers, Centers):
            least = centers.own(X, centers.nearest(X)[0])
        else:
            least = centers.between(X).min(axis=1).astype(np.float64)
        w = weights_of(least[:, None], sample_weight)
        if w is None:
            return -float(least.sum())
        return -float(w @ least)

    def __sklearn_tags__(self) -> Tags:
        """Return tags: sparse tables, a precomputed kernel, numbers that are not negative."""
        tags = super().__sklearn_tags__()
        tag_kernel(tags, self.kernel)
        tags.input_tags.positive_only = is_non_negative(self.divergence)
        tags.input_tags.allow_nan = takes_missing(self.divergence, self.kernel)
        return tags
