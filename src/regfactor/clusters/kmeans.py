"""Hard clustering under Bregman divergences, on rows or in the feature space of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from regfactor.core.blas import one_thread
from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.params import Array, UnsupportedProblem, as_floats, choose, is_option, warn
from regfactor.fitting.clustering import (
    LocalSearch,
    best_run,
    check_count,
    check_domain,
    check_enough,
    count_of_starts,
    is_non_negative,
    publish_run,
    rows_of,
    warn_of_empty,
    weights_of,
)
from regfactor.fitting.factor_estimator import _check_limits
from regfactor.fitting.kernel_blocks import implicit_problem, labels_of
from regfactor.fitting.rollback import all_or_nothing
from regfactor.kernels import is_pairwise, takes_sparse
from regfactor.losses.distances import Mahalanobis, SquaredDistance
from regfactor.losses.divergences import as_divergence
from regfactor.problems.clusters import Clusters
from regfactor.solvers.kernel_lloyd import (
    NEGATIVE,
    KernelLloyd,
    one_hot,
    random_labels,
    spread_labels,
)
from regfactor.solvers.lloyd import Lloyd, at_centers
from regfactor.solvers.nearest import Centers
from regfactor.solvers.seeding import random_rows, spread_rows

STARTS = {"k-means++": spread_rows, "random": random_rows}
KERNEL_STARTS = {"k-means++": spread_labels, "random": random_labels}


class BregmanKMeans(
    LocalSearch,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    """min over labels z and centers m of sum_i w_i D(x_i, m_{z_i}): k-means under any Bregman divergence.

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
        Called with every `Iterate`; the run ends when it returns something true.

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
        the diagonal of a thousandth of the variances of the columns: it keeps S from growing for
        ever, and invertible.

    Notes
    -----
    Values on the boundary of a domain (zeros under "kl", 0 and 1 under "bernoulli") are
    legal. Where all rows of a cluster have such a value in a column, so has the center: their
    divergence is zero there, that of any other value x finite but huge, 708 x for "kl", in place of
    infinity. "exp" takes numbers below 700, in float32 below 85. An empty cluster is given the row
    farthest from its center. It stays empty only if all rows lie on centers, of which a warning
    tells. Sparse tables are read with absent entries as zeros.

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

    def __init__(
        self,
        n_clusters: int = 8,
        divergence: Any = "squared",
        init: Any = "k-means++",
        n_init: Any = "auto",
        max_iter: int = 300,
        kernel: Any = None,
        *,
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        tol: float = 1e-4,
        time_limit: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.divergence = divergence
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.time_limit = time_limit
        self.verbose = verbose
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the clusters of a table.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w stands for w equal rows.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            _check_limits(self)
            k = check_count(self, "n_clusters")
            divergence = as_divergence(self.divergence)
            n_init = self._n_init()
            if self.kernel is not None and not isinstance(divergence, SquaredDistance):
                raise UnsupportedProblem(
                    f"k-means in the feature space of a kernel needs divergence='squared', got {self.divergence!r}. To "
                    "cluster rows of the kernel matrix as features under it, leave kernel=None and fit on "
                    "as_kernel(kernel).resolved(X).gram(X).",
                )
            X = rows_of(self, X, divergence, reset=True)
            w = weights_of(X, sample_weight)
            check_enough(X, k, "n_clusters")
            random = check_random_state(self.random_state)
            with one_thread():
                if self.kernel is not None:
                    return self._fit_kernel(X, w, n_init, random)
                return self._fit_rows(Clusters(X, w, divergence, k), n_init, random)

    def _fit_rows(self, problem: Clusters, n_init: int, random: np.random.RandomState) -> Self:
        X = problem.X
        k = problem.n_clusters
        first = self._centers_first(problem, random)
        starts = (
            Lloyd(self.tol).iterates(problem, at_centers(problem, first())) for _ in range(n_init)
        )
        solution = best_run(self, starts)
        M = solution.point.factors.C
        covariance = solution.point.coefficients
        divergence = problem.started.at(covariance)
        self._centers: Any = Centers(divergence, M, problem.anchor, problem.far)
        self._placed: Array | None = M.astype(X.dtype)
        self.labels_ = solution.point.factors.Phi.indices
        extra = divergence.extra(problem.mass)
        self.inertia_ = self._centers.inertia(problem, self.labels_, solution.objective - extra)
        if covariance is not None:
            self.covariance_ = covariance.astype(X.dtype)
        self._n_features_out = k
        publish_run(self, solution, "Lloyd")
        self.objective_ = self.inertia_ + extra
        warn_of_empty(self.labels_, problem.weights, k)
        return self

    def _fit_kernel(
        self,
        X: Any,
        w: Array | None,
        n_init: int,
        random: np.random.RandomState,
    ) -> Self:
        k = int(self.n_clusters)
        implicit, problem = implicit_problem(
            X,
            w,
            k,
            (self.kernel, self.gamma, self.degree, self.coef0),
        )
        first: Callable[[], Array]
        if isinstance(self.init, str):
            start = choose(self.init, KERNEL_STARTS, "init")
            first = lambda: start(problem, random)  # noqa: E731
        else:
            first = lambda: labels_of(self._given(X, random), X.shape[0], k)  # noqa: E731
        points = (
            FactorPoint(Factors(one_hot(first(), k), np.zeros((k, 0)))) for _ in range(n_init)
        )
        solution = best_run(self, (KernelLloyd().iterates(problem, point) for point in points))
        # rounding
        self.labels_ = solution.point.factors.Phi.indices
        self.inertia_ = max(solution.objective, 0.0)
        if solution.objective < -NEGATIVE * float(problem.weights @ np.abs(problem.diagonal)):
            warn(
                f"The kernel is not positive semidefinite: squared distances from the centers sum to "
                f"{solution.objective:.3g}, and inertia_ is 0. Labels minimize that sum all the same.",
            )
        self._centers = implicit(problem.centers(self.labels_)[0])
        self._placed = None
        self._n_features_out = k
        publish_run(self, solution, "KernelLloyd")
        warn_of_empty(self.labels_, w, k)
        return self

    def _centers_first(
        self,
        problem: Clusters,
        random: np.random.RandomState,
    ) -> Callable[[], Array]:
        """Return how the first centers are found, checked where they are given."""
        if isinstance(self.init, str):
            start = choose(self.init, STARTS, "init")
            return lambda: start(problem, random)

        def given() -> Array:
            M = as_floats(self._given(problem.X, random), "init")
            k = problem.n_clusters
            d = problem.X.shape[1]
            if M.shape != (k, d):
                raise ValueError(
                    f"init must hold {k} centers of {d} features, got shape {M.shape}.",
                )
            if not np.isfinite(M).all():
                row, column = np.argwhere(~np.isfinite(M))[0]
                raise ValueError(
                    f"init must be finite: center {row} has {M[row, column]} in column {column}.",
                )
            check_domain(M, problem.divergence, what="init")
            return M

        return given

    def _given(self, X: Any, random: np.random.RandomState) -> Any:
        if callable(self.init):
            return self.init(X, self.n_clusters, random)
        return self.init

    def _n_init(self) -> int:
        """Return the number of starts; from given centers there is only one."""
        steady = is_option(self.init, "k-means++") and not isinstance(
            as_divergence(self.divergence),
            Mahalanobis,
        )
        n_init = count_of_starts(self, auto=1 if steady else 10)
        if isinstance(self.init, str) or callable(self.init):
            return n_init
        return 1

    @property
    def cluster_centers_(self) -> Array:
        """The centers, which have no coordinates in the feature space of a kernel."""
        check_is_fitted(self)
        if self._placed is None:
            raise AttributeError(
                "With a kernel, centers lie in its feature space and have no coordinates, so there is no "
                "cluster_centers_: transform(X) gives the divergences from them, predict(X) the nearest.",
            )
        return self._placed

    def predict(self, X: Any) -> Array:
        """Return the cluster of the nearest center of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = rows_of(self, X, as_divergence(self.divergence), reset=False)
        with one_thread():
            return self._centers.nearest(X)[0]

    def transform(self, X: Any) -> Array:
        """Return the divergence of every row from every center.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
        """
        return self._divergences(X)

    def _divergences(self, X: Any) -> Array:
        check_is_fitted(self)
        return self._centers.between(rows_of(self, X, as_divergence(self.divergence), reset=False))

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
        X = rows_of(self, X, as_divergence(self.divergence), reset=False)
        if isinstance(self._centers, Centers):
            least = self._centers.own(X, self._centers.nearest(X)[0])
        else:
            least = self._centers.between(X).min(axis=1).astype(np.float64)
        w = weights_of(least[:, None], sample_weight)
        return -float(least.sum() if w is None else w @ least)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that sparse tables are taken, and what a precomputed kernel is."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self.kernel)
        tags.input_tags.pairwise = is_pairwise(self.kernel)
        tags.input_tags.positive_only = is_non_negative(self.divergence)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
