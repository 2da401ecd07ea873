"""Soft clustering: mixtures of exponential families through their Bregman divergences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import DensityMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from regfactor.core.loop import Limits, Solution
from regfactor.core.params import Array, is_option, warn
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.clustering import (
    ClusterEstimator,
    check_enough,
    is_non_negative,
    rows_of,
    weights_of,
)
from regfactor.fitting.parameters import AUTO, COUNT, POSITIVE, RUN_CONSTRAINTS
from regfactor.losses.divergences import as_divergence
from regfactor.problems.clusters import ClusterPoint, Clusters
from regfactor.solvers.base import solve_from, solve_within
from regfactor.solvers.em import soft_start
from regfactor.solvers.nearest import Centers
from regfactor.solvers.seeding import spread_rows
from regfactor.solvers.steps import log_joint

HARD_ITERATIONS = 10  # before the soft ones
# share of the mean divergence from a single center below which rows lie on theirs
ON_CENTERS = 1e-9
MERGED = 0.02  # sharpness times divergence, a mean log odds, below which components are one
UNITS = "Use sharpness='auto', which has no units, or scale the columns up."


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

    def __init__(
        self,
        n_components: int = 8,
        divergence: Any = "squared",
        sharpness: Any = "auto",
        *,
        n_init: int = 10,
        max_iter: int = 1000,
        tol: float = 1e-4,
        time_limit: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        self.n_components = n_components
        self.divergence = divergence
        self.sharpness = sharpness
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.time_limit = time_limit
        self.verbose = verbose
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the mixture to a table.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weights act as repetition counts.

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight)

    def _read(self, X: Any, sample_weight: Any) -> Clusters:
        divergence = as_divergence(self.divergence)
        X = rows_of(self, X, divergence, reset=True, sparse=False)
        w = weights_of(X, sample_weight)
        check_enough(X, self.n_components, "n_components")
        return Clusters(X, w, divergence, self.n_components)

    def _state(self, inputs: Clusters) -> Clusters:
        return inputs

    def _solve(self, problem: Clusters, inputs: Clusters, run: Run) -> Solution[Any]:
        starts = (_hard(problem, run) for _ in range(self.n_init))
        sharpness, hard = self._find_sharpness(problem, starts)
        soft = problem.softened(sharpness, factor=sharpness)
        points = (soft_start(problem, solution.point) for solution in hard)
        return solve_from(soft, run.remaining(), points)

    def _find_sharpness(
        self,
        problem: Clusters,
        hard: Iterable[Solution[ClusterPoint]],
    ) -> tuple[float, Iterable[Solution[ClusterPoint]]]:
        """Return the sharpness and the hard clusterings, all found at once where it needs them."""
        if not is_option(self.sharpness, "auto"):
            return float(self.sharpness), hard
        # a covariance, fitted or given, leaves D without units
        if problem.divergence.adaptive or problem.divergence.covariance is not None:
            return 1.0, hard
        solutions = list(hard)
        least = min(solution.objective for solution in solutions)
        mean = max(least / problem.mass, ON_CENTERS * problem.scale)
        if mean > 0:
            # of a normal family E D = d/2 per unit of sharpness; k centers take k of n rows
            free = max(1 - problem.n_clusters / problem.mass, 1 / problem.mass)
            return problem.X.shape[1] / 2 * free / mean, solutions
        return 1.0, solutions

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[Any],
        inputs: Clusters,
        run: Run,
    ) -> Solution[Any]:
        point = solution.point
        dtype = inputs.X.dtype
        self._centers = Centers.of(inputs, point)
        self.means_ = point.centers.astype(dtype)
        self.weights_ = point.shares.astype(dtype)
        self.sharpness_ = point.sharpness
        if point.covariance is not None:
            self.covariance_ = point.covariance.astype(dtype)
        self.converged_ = solution.status.converged
        if self.n_components > 1 and inputs.spread.variance > 0:
            self._warn_if_merged(point.centers)
        return solution

    def _warn_if_merged(self, M: Array) -> None:
        """Warn if all means coincide: under this sharpness, rows lie in one place."""
        if self.sharpness_ * float(self._centers.between(M).max()) >= MERGED:
            return
        if is_option(self.sharpness, "auto"):
            remedy = (
                f"The rows may have no clusters; give sharpness={2 * self.sharpness_:.3g} to part "
                "them all the same, or fewer components."
            )
        elif self._centers.divergence.covariance is None:
            remedy = UNITS
        else:
            remedy = "Give a larger one."
        warn(
            f"The means of all {len(M)} components coincide: at sharpness={self.sharpness_:.3g} "
            f"rows are as good as one cluster. {remedy}"
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

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each component for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        joint = self._joint(X)
        shares = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        return np.asarray(shares, self.means_.dtype)

    def predict(self, X: Any) -> Array:
        """Return the most probable component of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._joint(X).argmax(axis=1)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, and return the most probable component of each row."""
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def _joint(self, X: Any) -> Array:
        check_is_fitted(self)
        X = rows_of(self, X, as_divergence(self.divergence), reset=False, sparse=False)
        D = self._centers.between(X).astype(np.float64)
        normalizer = self.sharpness_ * self._centers.divergence.log_normalizer
        return log_joint(D, self.weights_.astype(np.float64), self.sharpness_) - normalizer

    def __sklearn_tags__(self) -> Tags:
        """Return tags: numbers that are not negative."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = is_non_negative(self.divergence)
        return tags


def _hard(problem: Clusters, run: Run) -> Solution[ClusterPoint]:
    """Return a hard clustering after a few iterations."""
    limits = Limits(max_iter=HARD_ITERATIONS, time_limit=run.clock.left)
    return solve_within(problem, limits, ClusterPoint(spread_rows(problem, run.random)))
