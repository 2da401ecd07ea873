"""Soft clustering: mixtures of exponential families through their Bregman divergences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from regfactor.core.blas import one_thread
from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Iterate, Solution, run
from regfactor.core.params import Array, is_number, is_option, warn
from regfactor.fitting.clustering import (
    LocalSearch,
    best_run,
    check_count,
    check_enough,
    is_non_negative,
    publish_run,
    rows_of,
    weights_of,
)
from regfactor.fitting.factor_estimator import _check_limits
from regfactor.fitting.rollback import all_or_nothing
from regfactor.losses.divergences import as_divergence
from regfactor.problems.clusters import Clusters
from regfactor.solvers.em import Mixture, log_joint
from regfactor.solvers.lloyd import Lloyd, at_centers
from regfactor.solvers.nearest import Centers
from regfactor.solvers.seeding import spread_rows

FIRST = 10  # hard iterations before the soft ones
NOTHING = 1e-9  # share of the mean divergence from a single center below which rows lie on theirs
MERGED = 0.02  # sharpness times divergence, a mean log odds, below which components are one
UNITS = "Use sharpness='auto', which has no units (and names a larger one where it is too low), or scale the columns up."


class BregmanMixture(LocalSearch, DensityMixin, BaseEstimator):
    """min over p, m of -sum_i w_i log sum_j p_j exp(-sharpness D(x_i, m_j)): a mixture model by EM.

    With sharpness 1 it is the maximum likelihood of a mixture of the exponential family of the
    divergence, up to terms that depend on the data alone: "squared" Gaussian of variance one,
    "mahalanobis" Gaussian with a common covariance, "kl" Poisson, "itakura_saito" exponential,
    "bernoulli" Bernoulli, "absolute" Laplace. As the sharpness grows it becomes hard clustering.

    Parameters
    ----------
    n_components : int, default=8
    divergence : str or Potential, default="squared"
        As in `BregmanKMeans`.
    sharpness : float or "auto", default=1.0
        "auto" is one over the mean divergence within clusters of a hard clustering, which has no
        units; it judges a row as one number, so that with many columns clusters merge (told, with a
        number that parts them). At a number, data in other units are other data, and small ones may
        all lie in one component.
    n_init : int, default=1
        Starts of which the best is kept: k-means++, then a few hard iterations.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Change of the objective, relative to it or per unit of weight if that is more, at which the
        fit stops.
    time_limit : float, optional
    verbose : int, default=0
    random_state : int, RandomState instance or None, default=None
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.

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

    Notes
    -----
    Sparse tables are not taken: scikit-learn's checks of sparse tables hold what has
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

    def __init__(
        self,
        n_components: int = 8,
        divergence: Any = "squared",
        sharpness: Any = 1.0,
        *,
        n_init: int = 1,
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
            A row of weight w stands for w equal rows.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            _check_limits(self)
            k = check_count(self, "n_components")
            n_init = check_count(self, "n_init")
            divergence = as_divergence(self.divergence)
            auto = is_option(self.sharpness, "auto")
            if not (auto or (is_number(self.sharpness) and 0 < self.sharpness < np.inf)):
                raise ValueError(
                    f"sharpness must be a positive number or 'auto', got {self.sharpness!r}.",
                )
            X = rows_of(self, X, divergence, reset=True, sparse=False)
            w = weights_of(X, sample_weight)
            check_enough(X, k, "n_components")
            problem = Clusters(X, w, divergence, k)
            random = check_random_state(self.random_state)
            with one_thread():
                starts = (_hard(problem, random) for _ in range(n_init))
                sharpness, hard = self._found_sharpness(problem, starts)
                solution = best_run(
                    self,
                    _soft(problem, hard, sharpness),
                    tol=self.tol,
                    floor=problem.mass,
                )
            M = solution.point.factors.C
            (p,) = solution.point.factors.codes
            self._centers = Centers(
                problem.started.at(solution.point.coefficients),
                M,
                problem.anchor,
                problem.far,
            )
            self.means_ = M.astype(X.dtype)
            self.weights_ = p.astype(X.dtype)
            self.sharpness_ = sharpness
            if solution.point.coefficients is not None:
                self.covariance_ = solution.point.coefficients.astype(X.dtype)
            self.converged_ = solution.status.converged
            publish_run(self, solution, "Mixture")
            if k > 1 and problem.variance > 0:
                self._warn_if_merged(M)
        return self

    def _warn_if_merged(self, M: Array) -> None:
        """Warn where all means coincide: as seen by this sharpness, rows lie in one place."""
        if self.sharpness_ * float(self._centers.between(M).max()) < MERGED:
            if self._centers.divergence.parameters is None:
                remedy = UNITS
            else:
                remedy = "Give a larger one."
            if is_option(
                self.sharpness,
                "auto",
            ):  # which judges a row as one number, by its mean divergence
                d = M.shape[1]
                remedy = f"Give sharpness={self.sharpness_ * max(d / 2, 2):.3g}, that of {d} columns instead of one row."
            warn(
                f"The means of all {len(M)} components coincide: at sharpness={self.sharpness_:.3g} rows are as good "
                f"as one cluster. {remedy}",
            )

    def _found_sharpness(
        self,
        problem: Clusters,
        hard: Iterable[Solution[Any]],
    ) -> tuple[float, Iterable[Solution[Any]]]:
        """Return the sharpness, and the hard clusterings, all found beforehand only where it depends on them."""
        if not is_option(self.sharpness, "auto"):
            return float(self.sharpness), hard
        if (
            problem.started.parameters is not None
        ):  # D has no units, and its mean is d/2 by the fit of S
            return 2.0 / problem.X.shape[1], hard
        hard = list(hard)
        mean = max(
            min(solution.objective for solution in hard) / problem.mass,
            NOTHING * problem.scale,
        )
        return 1 / mean if mean > 0 else 1.0, hard

    def score_samples(self, X: Any) -> Array:
        """Return log sum_j p_j exp(-sharpness D(x, m_j)) of each row: its log likelihood up to a term of x alone.

        For "mahalanobis" it includes -(sharpness/2) log det S, by which densities of different S
        compare.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.asarray(logsumexp(self._joint(X), axis=1))

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
        return np.asarray(
            np.exp(joint - logsumexp(joint, axis=1, keepdims=True)),
            self.means_.dtype,
        )

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
        volume = self.sharpness_ * self._centers.divergence.volume
        return log_joint(D, self.weights_.astype(np.float64), self.sharpness_) - volume

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what rows are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = is_non_negative(self.divergence)
        return tags


def _hard(problem: Clusters, random: np.random.RandomState) -> Solution[Any]:
    """Return a hard clustering after a few iterations."""
    start = at_centers(problem, spread_rows(problem, random))
    return run(Lloyd().iterates(problem, start), tol=0.0, max_iter=FIRST)


def _soft(
    problem: Clusters,
    hard: Iterable[Solution[Any]],
    sharpness: float,
) -> Iterator[Iterator[Iterate[Any]]]:
    """Yield the soft iterations from each hard clustering, with its shares as first proportions."""
    for solution in hard:
        F = solution.point.factors
        masses = np.bincount(F.Phi.indices, problem.weights, minlength=problem.n_clusters)
        p = (masses + 1 / problem.n_clusters) / (
            masses.sum() + 1
        )  # an empty cluster keeps a chance
        yield Mixture(sharpness).iterates(
            problem,
            FactorPoint(Factors(p[None], F.C), solution.point.coefficients),
        )
