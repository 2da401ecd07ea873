"""Soft clustering: mixtures of exponential families through their Bregman divergences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from regfactor.clusters.block_fit import BlockClusterInputs, labels_of, read_cluster_blocks
from regfactor.clusters.kmeans import ClusterInputs, ClusterProblem
from regfactor.core.blas import one_thread
from regfactor.core.loop import Limits, Solution
from regfactor.core.params import Array, UnsupportedProblem, frozen, is_option, warn
from regfactor.engine.blocks import BlockTable
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.clustering import (
    ClusterEstimator,
    check_enough,
    count_distinct,
    has_missing,
    is_non_negative,
    rows_of,
    takes_missing,
    weights_of,
)
from regfactor.fitting.kernel_blocks import ImplicitCenters, kernel_rows, origin_of
from regfactor.fitting.parameters import AUTO, COUNT, POSITIVE, RUN_CONSTRAINTS, parametrized
from regfactor.kernels import as_kernel, is_pairwise
from regfactor.losses.distances import SquaredDistance
from regfactor.losses.divergences import as_divergence
from regfactor.problems.block_clusters import BlockClusters
from regfactor.problems.clusters import ClusterPoint, Clusters
from regfactor.problems.kernel_clusters import KernelCenters, KernelClusters, slices_of
from regfactor.problems.observed_clusters import ObservedCenters, ObservedClusters
from regfactor.solvers.base import solve_from, solve_within
from regfactor.solvers.em import soft_start
from regfactor.solvers.nearest import Centers
from regfactor.solvers.seeding import spread_labels, spread_observed_rows, spread_rows
from regfactor.solvers.steps import log_joint

HARD_ITERATIONS = 10  # before the soft ones
# share of the mean divergence from a single center below which rows lie on theirs
ON_CENTERS = 1e-9
MERGED = 0.02  # sharpness times divergence, a mean log odds, below which components are one
UNITS = "Use sharpness='auto', which has no units, or scale the columns up."


@parametrized
class BregmanMixture(DensityMixin, ClusterEstimator):
    """min over p, m of -sum_i w_i log sum_j p_j exp(-sharpness D(x_i, m_j)): mixtures by EM.

    With sharpness 1 it is the maximum likelihood of a mixture of the exponential family of the
    divergence, up to terms that depend on the data alone: "squared" Gaussian of variance one,
    "mahalanobis" Gaussian with a common covariance, "kl" Poisson, "itakura_saito" exponential,
    "bernoulli" Bernoulli, "absolute" Laplace. As the sharpness grows it becomes hard clustering.

    Parameters
    ----------
    n_components : int, default=8
    divergence : str or Potential, default="squared"
        As in `BregmanKMeans`.
    sharpness : float or "auto", default="auto"
        "auto" is (d/2) (1 - k/n) over the mean divergence within clusters of a hard clustering,
        that is one over the variance of an entry under "squared", and has no units; 1 under
        "mahalanobis", whose covariance is fitted. At a number, data in other units are other data,
        and small ones may all lie in one component, with a warning.
    n_init : int, default=10
        Starts of which the best is kept: k-means++, then a few hard iterations.
    max_iter : int, default=1000
    kernel : str, callable or Kernel, optional
        A mixture of spheres in the feature space of a kernel, which is never formed: "linear",
        "rbf", "poly", "precomputed", ... It needs the squared divergence. With "auto", d is then
        the effective number of features, (tr K)^2 / |K|^2 of the centered kernel matrix.
    gamma, degree, coef0 : default="scale", 3, 1.0
        Parameters of "rbf" and "poly".
    tol : float, default=1e-4
        Change of the objective, relative to it or per unit of weight if that is more, at which the
        fit stops.
    time_limit : float, optional
    verbose : int, default=0
    random_state : int, RandomState instance or None, default=None
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns a true value.

    Attributes
    ----------
    means_ : ndarray of shape (n_components, n_features)
        Not there with a kernel, whose centers have no coordinates.
    weights_ : ndarray of shape (n_components,)
    covariance_ : ndarray of shape (n_features, n_features)
        With "mahalanobis".
    sharpness_ : float
    objective_ : float
        The sum above; for "mahalanobis" plus sharpness W/2 (log det S + tr V S^-1), as in
        `BregmanKMeans`.
    converged_ : bool

    See Also
    --------
    BregmanKMeans : Every row in one cluster.
    ExponentialFamilyPCA : Codes of rows under the same families.

    Notes
    -----
    Sparse tables are not accepted: scikit-learn's checks of sparse tables take an estimator with
    `predict_proba` for a classifier. Give `X.toarray()`, by parts of the rows in `predict` where
    that is too large, or use `BregmanKMeans`, which takes them.

    NaN is a missing entry, in `fit` and `predict`: a row has the likelihood of its observed
    entries. "mahalanobis", "softmax" and kernels compare whole rows and refuse NaN. A fit of which
    one component holds all rows gives a warning, and so does one with more components than distinct
    rows.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import BregmanMixture
    >>> X = np.array([[9.0, 0.0], [8.0, 1.0], [0.0, 7.0], [1.0, 9.0]])
    >>> model = BregmanMixture(2, divergence="kl", random_state=0).fit(X)
    >>> model.weights_.round(2)
    array([0.5, 0.5])
    >>> bool(model.predict_proba(X).max(axis=1).min() > 0.99)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [COUNT],
        "sharpness": [POSITIVE, AUTO],
        "n_init": [COUNT],
        **RUN_CONSTRAINTS,
    }

    n_components: int = 8
    divergence: Any = "squared"
    sharpness: Any = "auto"
    _: KW_ONLY
    n_init: int = 10
    max_iter: int = 1000
    kernel: Any = None
    gamma: Any = "scale"
    degree: int = 3
    coef0: float = 1.0
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the mixture to a table.

        Parameters
        ----------
        X : {array-like, BlockTable} of shape (n_samples, n_features)
            Of a `BlockTable` the start and the sharpness are those of 20,000 rows.
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
                "A mixture in the feature space of a kernel needs divergence='squared', got "
                f"{self.divergence!r}."
            )
        X = self._rows(X, reset=True)
        w = weights_of(X, sample_weight)
        check_enough(X, self.n_components, "n_components")
        inputs = ClusterInputs(X, w, divergence)
        if self.kernel is None:
            return inputs
        with one_thread():
            kernel = as_kernel(self.kernel, self.gamma, self.degree, self.coef0).resolved(X)
            return replace(inputs, kernel=kernel_rows(kernel, X, origin_of(kernel, X, w)))

    def _rows(self, X: Any, reset: bool) -> Any:
        """Return checked rows, with NaN where entries are missing if the divergence allows it."""
        divergence = as_divergence(self.divergence)
        missing = takes_missing(self.divergence, self.kernel)
        return rows_of(self, X, divergence, reset=reset, sparse=False, missing=missing)

    def _state(self, inputs: ClusterInputs | BlockClusterInputs) -> ClusterProblem | BlockClusters:
        return inputs.problem(self.n_components)

    def _solve(
        self,
        problem: Any,
        inputs: Any,
        run: Run,
    ) -> Solution[Any]:
        if isinstance(inputs, BlockClusterInputs):
            chosen = inputs.fitted
            start = ClusterPoint(chosen.means_.astype(np.float64), shares=chosen.weights_)
            sharpness = chosen.sharpness_
            soft_problem = replace(problem, sharpness=sharpness, factor=sharpness)
            return solve_within(soft_problem, run.remaining(), start)
        starts = (_hard(problem, run) for _ in range(self.n_init))
        sharpness, hard = self._find_sharpness(problem, starts)
        if isinstance(problem, KernelClusters):
            kernel_problem = replace(problem, sharpness=sharpness, factor=sharpness)
            memberships = (_softened_labels(problem, found.point) for found in hard)
            return solve_from(kernel_problem, run.remaining(), memberships)
        soft = problem.softened(sharpness, factor=sharpness)
        points = (soft_start(problem, solution.point) for solution in hard)
        return solve_from(soft, run.remaining(), points)

    def _find_sharpness(
        self,
        problem: ClusterProblem,
        hard: Iterable[Solution[ClusterPoint]],
    ) -> tuple[float, Iterable[Solution[ClusterPoint]]]:
        """Return the sharpness and the hard clusterings, all found at once where it needs them."""
        if not is_option(self.sharpness, "auto"):
            return float(self.sharpness), hard
        # a covariance, fitted or given, leaves D without units
        if isinstance(problem, Clusters):
            if problem.divergence.adaptive or problem.divergence.covariance is not None:
                return 1.0, hard
        solutions = list(hard)
        size = _size(problem)
        least = min(solution.objective for solution in solutions)
        mean = max(least / size.mass, ON_CENTERS * size.scale)
        if mean > 0:
            # of a normal family E D = d/2 per unit of sharpness; k centers take k of n rows
            free = max(1 - problem.n_clusters / size.mass, 1 / size.mass)
            return size.dimension / 2 * free / mean, solutions
        return 1.0, solutions

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[Any],
        inputs: Any,
        run: Run,
    ) -> Solution[Any]:
        point = solution.point
        self.sharpness_ = point.sharpness
        self.converged_ = solution.status.converged
        if isinstance(inputs, BlockClusterInputs):
            self.weights_ = point.shares
            self.means_ = point.centers
            self._centers: Any = inputs.centers(point.centers)
            return solution
        dtype = inputs.X.dtype
        self.weights_ = point.shares.astype(dtype)
        problem = choice.problem
        if isinstance(problem, KernelClusters):
            assert inputs.kernel is not None
            centers, _ = problem.centers(point.memberships)
            self._centers = inputs.kernel.scoring(centers)
            between = _between_kernel_centers(problem, centers)
        else:
            self.means_ = point.centers.astype(dtype)
            if isinstance(problem, ObservedClusters):
                self._centers = ObservedCenters(problem.divergence, point.centers)
            else:
                self._centers = Centers.of(problem, point)
            between = self._centers.between(point.centers)
        if point.covariance is not None:
            self.covariance_ = point.covariance.astype(dtype)
        if self.n_components > 1 and _varies(problem):
            self._warn_if_collapsed(between, inputs)
            self._warn_if_few_rows_differ(between, inputs)
        return solution

    def _warn_if_few_rows_differ(self, between: Array, inputs: ClusterInputs) -> None:
        """Warn if means coincide because fewer rows differ than there are components."""
        k = len(between)
        # counting rows takes a sort of them, which is left out where all means differ
        apart = self.sharpness_ * between[~np.eye(k, dtype=bool)] > MERGED
        if apart.all():
            return
        distinct = count_distinct(inputs.X)
        if distinct < k:
            warn(
                f"X has only {distinct} distinct rows, fewer than n_components={k}: components "
                "coincide. Lower n_components.",
                ConvergenceWarning,
            )

    def _warn_if_collapsed(self, between: Array, inputs: ClusterInputs) -> None:
        """Warn if all means coincide, or if one component is the most probable one of all rows."""
        k = len(between)
        merged = self.sharpness_ * float(between.max()) < MERGED
        if merged:
            what = f"The means of all {k} components coincide"
        elif len(np.unique(self._relative_joint(inputs.X).argmax(axis=1))) == 1:
            what = f"One of {k} components is the most probable one of all rows"
        else:
            return
        if is_option(self.sharpness, "auto"):
            remedy = (
                f"The rows may have no clusters; give sharpness={2 * self.sharpness_:.3g} to part "
                "them all the same, or fewer components."
            )
        elif as_divergence(self.divergence).covariance is None and not hasattr(self, "covariance_"):
            remedy = UNITS
        else:
            remedy = "Give a larger one."
        warn(
            f"{what}: at sharpness={self.sharpness_:.3g} rows are as good as one cluster. {remedy}"
        )

    def score_samples(self, X: Any) -> Array:
        """Return log sum_j p_j exp(-sharpness D(x, m_j)): log likelihoods up to a term of x alone.

        For "mahalanobis" it includes -(sharpness/2) log det S, by which densities of different S
        compare.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return logsumexp(self._joint(X), axis=1)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean of `score_samples`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        float
        """
        return float(self.score_samples(X).mean())

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each component for each row.

        Parameters
        ----------
        X : {array-like, BlockTable} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Of a `BlockTable`, a `BlockTable` whose blocks are computed when they are read.
        """
        if isinstance(X, BlockTable):
            check_is_fitted(self)
            return X.map(self.predict_proba, self.n_components)
        joint = self._relative_joint(self._new_rows(X))
        shares = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        return np.asarray(shares, self.weights_.dtype)

    def predict(self, X: Any) -> Array:
        """Return the most probable component of each row.

        Parameters
        ----------
        X : {array-like, BlockTable} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        if isinstance(X, BlockTable):
            check_is_fitted(self)
            return labels_of(self, X)
        return self._relative_joint(self._new_rows(X)).argmax(axis=1)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, and return the most probable component of each row."""
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def _new_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._rows(X, reset=False)

    def _joint(self, X: Any) -> Array:
        """Return log p_j - sharpness D(x_i, m_j) of new rows."""
        X = self._new_rows(X)
        D = self._centers_for(X).between(X).astype(np.float64)
        joint = log_joint(D, self.weights_.astype(np.float64), self.sharpness_)
        if isinstance(self._centers, Centers):
            joint -= self.sharpness_ * self._centers.divergence.log_normalizer
        return joint

    def _relative_joint(self, X: Any) -> Array:
        """Return the same of checked rows up to a term of each row alone."""
        centers = self._centers_for(X)
        if isinstance(centers, ImplicitCenters):
            D = centers.relative(X)
        else:
            D = centers.between(X).astype(np.float64)
        return log_joint(D, self.weights_.astype(np.float64), self.sharpness_)

    def _centers_for(self, X: Any) -> Any:
        """Return what compares rows with the means, over observed entries if some are missing."""
        if isinstance(self._centers, Centers) and has_missing(X):
            return ObservedCenters(self._centers.divergence, self._centers.M)
        return self._centers

    def __sklearn_tags__(self) -> Tags:
        """Return tags: numbers that are not negative, missing entries, a precomputed kernel."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = is_non_negative(self.divergence)
        tags.input_tags.allow_nan = takes_missing(self.divergence, self.kernel)
        tags.input_tags.pairwise = is_pairwise(self.kernel)
        return tags


@frozen
class ProblemSize:
    """The total weight of rows, their mean divergence from one center, and how many numbers vary.

    `dimension` is that of rows; with missing entries the mean number of observed ones; in feature
    space (tr K)^2 / |K|^2 of the centered kernel matrix, the effective number of its features.
    """

    mass: float
    scale: float
    dimension: float


def _size(problem: ClusterProblem) -> ProblemSize:
    """Return the size of a problem."""
    if isinstance(problem, Clusters):
        return ProblemSize(problem.mass, problem.scale, problem.X.shape[1])
    if isinstance(problem, ObservedClusters):
        return ProblemSize(problem.mass, problem.scale, problem.n_entries)
    w = problem.weights / problem.weights.sum()
    means = problem.products(w[:, None])[:, 0]
    overall = float(w @ means)
    trace = max(float(w @ problem.diagonal) - overall, 0.0)
    squares = 0.0
    for at in slices_of(problem.rows, len(w)):
        centered = problem.dense_rows(at) - means[at, None] - means + overall
        squares += float(w[at] @ np.square(centered) @ w)
    dimension = 1.0
    if squares > 0:
        dimension = max(trace**2 / squares, 1.0)
    return ProblemSize(float(problem.weights.sum()), trace / 2, dimension)


def _varies(problem: ClusterProblem) -> bool:
    """Return whether rows differ."""
    if isinstance(problem, Clusters):
        return problem.spread.variance > 0
    if isinstance(problem, ObservedClusters):
        return problem.variance > 0
    return _size(problem).scale > 0


def _hard(problem: ClusterProblem, run: Run) -> Solution[ClusterPoint]:
    """Return a hard clustering after a few iterations."""
    limits = Limits(max_iter=HARD_ITERATIONS, time_limit=run.clock.left)
    if isinstance(problem, KernelClusters):
        start = ClusterPoint(labels=spread_labels(problem, run.random))
    elif isinstance(problem, ObservedClusters):
        start = ClusterPoint(spread_observed_rows(problem, run.random))
    else:
        start = ClusterPoint(spread_rows(problem, run.random))
    return solve_within(problem, limits, start)


def _softened_labels(problem: KernelClusters, hard: ClusterPoint) -> ClusterPoint:
    """Return labels as memberships, from which a mixture in feature space starts."""
    assert hard.labels is not None
    return ClusterPoint(memberships=problem.memberships(hard.labels))


def _between_kernel_centers(problem: KernelClusters, centers: KernelCenters) -> Array:
    """Return half of the squared distances between centers in feature space."""
    inner = centers.shares.T @ problem.products(centers.shares)
    return np.maximum((centers.squares[:, None] + centers.squares) / 2 - inner, 0)
