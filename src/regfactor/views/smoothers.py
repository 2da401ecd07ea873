"""Ridge smoothers of a table, judged by exact leave-one-out, and their average.

A smoother fits Y by U diag(e / (e + strength)) U'Y, with U and e the eigenvectors and eigenvalues
of the inner products of rows of X, or of features of these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from sklearn.utils.extmath import randomized_svd

from regfactor.core.linalg import svd_above
from regfactor.core.params import Array, frozen
from regfactor.views.centered import Shifted
from regfactor.views.whitening import right_vectors_by_gram

# strengths, as shares of the mean eigenvalue; the search takes every COARSE_STEP-th first
STRENGTHS = np.geomspace(1e-5, 1e3, 25)
COARSE_STEP = 3
MAX_LANDMARKS = 300  # rows at which functions of a kernel are centered
RANK_CUT = 1e-6  # share of the largest singular value, below which directions are rounding
KERNEL_RANK_CUT = 1e-10  # the same of eigenvalues of a kernel at its landmarks
SMALLEST_LEFT = 1e-12  # of one minus a leverage; below it a fit passes through the row
# share of the mean square of residuals that is added where smoothers are too much alike to weigh
STACKING_RIDGE = 1e-8
MAX_EXACT_DIRECTIONS = 5000  # of a table with more rows and columns, fewer directions are used
N_RANDOM_DIRECTIONS = 1000
# shares tau of the largest singular value in the factors (1 - (tau s1 / s)^2)_+ of a fit
SHRINKAGES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.25, 0.4)
N_FOLDS = 5


@frozen
class SmoothedTable:
    """A table that is smoothed: rows times the roots of their weights, and what was observed.

    Attributes
    ----------
    values : array of shape (n_samples, n_targets)
        Complete, about the column means where `centered`.
    root : array of shape (n_samples,)
        Roots of the weights of the rows.
    observed : array of shape (n_samples, n_targets), or one number
        Entries that count in errors.
    """

    values: Array
    root: Array
    observed: Array | float
    centered: bool

    def squared_error(self, residuals: Array) -> float:
        """Return the sum of squares of residuals of weighted rows at observed entries."""
        return float(np.square(residuals * self.observed).sum())


@frozen
class Directions:
    """Orthonormal U = X V / s of the weighted rows of a table X, its singular values s, and U'Y.

    `remainder` is what of Y is orthogonal to U, and `leverage_left` one minus the leverages of the
    rows when nothing is shrunk.
    """

    U: Array
    s: Array
    V: Array
    projected: Array
    remainder: Array
    leverage_left: Array

    @classmethod
    def of(cls, X: Any, targets: SmoothedTable) -> Directions:
        """Return the directions of a table of weighted rows, dense or sparse."""
        U, s, V = _thin_svd(X)
        projected = U.T @ targets.values
        remainder = targets.values - U @ projected
        leverage = np.square(U).sum(axis=1)
        most = len(U)
        if targets.centered:
            leverage += np.square(targets.root) / np.square(targets.root).sum()
            most -= 1
        left = 1 - leverage
        left[left < SMALLEST_LEFT] = 0.0
        if len(s) >= most:  # all of Y is reached; differences would be rounding
            remainder = np.zeros_like(remainder)
            left = np.zeros_like(left)
        return cls(U, s, V, projected, remainder, left)

    def left_out(self, shrunk: Array) -> Array:
        """Return the residual of each weighted row under the fit without that row.

        `shrunk` is 1 - f, f the share of each direction that is fitted. Residual and leverage are
        both written in it, so that their ratio keeps its precision where a fit passes through all
        rows.
        """
        residuals = self.remainder + self.U @ (shrunk[:, None] * self.projected)
        left = self.leverage_left + np.square(self.U) @ shrunk
        return residuals / np.maximum(left, SMALLEST_LEFT)[:, None]

    def coefficients(self, shrunk: Array) -> Array:
        """Return B with X B the fit."""
        return self.V @ (((1 - shrunk) / self.s)[:, None] * self.projected)


def _thin_svd(X: Any) -> tuple[Array, Array, Array]:
    """Return U, s and V, by fewer random directions where a table is large both ways."""
    if isinstance(X, Shifted):
        s, V = right_vectors_by_gram(X)
        return (X @ V) / s, s, V
    if min(X.shape) > MAX_EXACT_DIRECTIONS:
        U, s, Vt = randomized_svd(X, N_RANDOM_DIRECTIONS, random_state=0)
        kept = s > RANK_CUT * s[0]
        return U[:, kept], s[kept], Vt[kept].T
    largest = float(np.sqrt(np.square(X).sum()))
    U, s, Vt = svd_above(X, RANK_CUT * largest)
    return U, s, Vt.T


@frozen
class Smoother:
    """A fit by directions at the best of its strengths, and the leave-one-out residuals."""

    name: str
    directions: Directions
    strength: float
    shrunk: Array
    residuals: Array

    @property
    def coefficients(self) -> Array:
        """B, with the table of the directions times B the fit."""
        return self.directions.coefficients(self.shrunk)


def smoother(
    name: str,
    directions: Directions,
    power: float,
    targets: SmoothedTable,
    strength: float | None = None,
) -> Smoother:
    """Return the smoother of eigenvalues s1^2 (s / s1)^(2 power), power 1 being the ridge.

    Its strength is the one of least leave-one-out error, unless it is given.
    """
    s = directions.s
    if not len(s):
        nothing = np.zeros(0)
        return Smoother(name, directions, 0.0, nothing, directions.left_out(nothing))
    eigenvalues = s[0] ** 2 * (s / s[0]) ** (2 * power)
    mean = float(eigenvalues.mean())
    tried: dict[int, float] = {}

    def error(position: int) -> float:
        if position not in tried:
            here = STRENGTHS[position] * mean
            residuals = directions.left_out(here / (eigenvalues + here))
            tried[position] = targets.squared_error(residuals)
        return tried[position]

    if strength is None:
        best = min(range(0, len(STRENGTHS), COARSE_STEP), key=error)
        around = range(best - COARSE_STEP + 1, best + COARSE_STEP)
        best = min((k for k in around if 0 <= k < len(STRENGTHS)), key=error)
        strength = float(STRENGTHS[best] * mean)
    shrunk = strength / (eigenvalues + strength)
    return Smoother(name, directions, strength, shrunk, directions.left_out(shrunk))


@frozen
class LandmarkFeatures:
    """F(x) = exp(-gamma |x - landmark|^2) projection - mean: a kernel as inner products."""

    landmarks: Array
    gamma: float
    projection: Array
    mean: Array

    @classmethod
    def of(cls, X: Array, width: float, weights: Array) -> LandmarkFeatures:
        """Return features of exp(-width |x - x'|^2 / median squared distance)."""
        places = np.linspace(0, len(X) - 1, min(len(X), MAX_LANDMARKS)).astype(int)
        landmarks = X[places]
        distances = squared_distances(landmarks, landmarks)
        median = float(np.median(distances[np.triu_indices(len(landmarks), 1)]))
        gamma = width / median if median > 0 else width
        values, vectors = scipy.linalg.eigh(np.exp(-gamma * distances), check_finite=False)
        kept = values > KERNEL_RANK_CUT * values[-1]
        projection = vectors[:, kept] / np.sqrt(values[kept])
        plain = cls(landmarks, gamma, projection, np.zeros(projection.shape[1]))
        mean = weights @ plain(X) / weights.sum()
        return cls(landmarks, gamma, projection, mean)

    def __call__(self, X: Array) -> Array:
        """Return the features of rows."""
        kernel = np.exp(-self.gamma * squared_distances(X, self.landmarks))
        return kernel @ self.projection - self.mean


def squared_distances(X: Array, Y: Array) -> Array:
    """Return the squared distances of rows of X from rows of Y."""
    squares = np.square(X).sum(axis=1)[:, None] + np.square(Y).sum(axis=1)
    squares -= 2 * X @ Y.T
    return np.maximum(squares, 0.0)


def stacking_weights(smoothers: Sequence[Smoother], targets: SmoothedTable) -> Array:
    """Return the weights w >= 0 of sum one under which leave-one-out residuals are least.

    They are v / sum(v) for the v >= 0 that minimizes v'Gv/2 - sum(v), G being the products of the
    residuals: a least-squares problem after a Cholesky factorization of G.
    """
    columns = [np.ravel(one.residuals * targets.observed) for one in smoothers]
    G = np.array([[float(a @ b) for a in columns] for b in columns])
    size = float(np.trace(G)) / len(G)
    if not size > 0:
        return np.full(len(G), 1 / len(G))
    L = np.linalg.cholesky(G / size + STACKING_RIDGE * np.eye(len(G)))
    right = scipy.linalg.solve_triangular(L, np.ones(len(G)), lower=True)
    v, _ = scipy.optimize.nnls(L.T, right)
    return np.asarray(v / v.sum())


@frozen
class Shrinkage:
    """Directions of the targets, and what predictions along each are multiplied by.

    Along a right singular vector of a fit, of singular value s, that is (1 - (tau s1 / s)^2)_+;
    tau = 0 changes nothing and has no directions.
    """

    tau: float
    vectors: Array
    factors: Array

    @classmethod
    def of(cls, fit: Array, tau: float) -> Shrinkage:
        """Return the shrinkage of a fit."""
        return cls.of_each(fit, (tau,))[0]

    @classmethod
    def of_each(cls, fit: Array, taus: Sequence[float]) -> list[Shrinkage]:
        """Return the shrinkages of a fit by several tau, from one decomposition."""
        s = np.zeros(0)
        Vt = np.zeros((0, fit.shape[1]))
        positive = [tau for tau in taus if tau > 0]
        if positive:
            # at most the largest singular value, so that no direction is lost
            size = np.linalg.norm(fit) / np.sqrt(min(fit.shape))
            _, s, Vt = svd_above(fit, min(positive) * float(size))
        found = []
        for tau in taus:
            kept = np.zeros(len(s), bool)
            if tau > 0 and len(s):
                kept = s > tau * s[0]
            factors = 1 - np.square(tau * s[:1] / s[kept])
            found.append(cls(tau, Vt[kept].T, factors))
        return found

    def __call__(self, Y: Array) -> Array:
        """Return shrunk predictions."""
        if self.tau == 0:
            return Y
        return ((Y @ self.vectors) * self.factors) @ self.vectors.T


def best_shrinkage(residuals: Array, targets: SmoothedTable) -> float:
    """Return the tau that predicts best by folds; zero unless another gains one standard error.

    Leave-one-out predictions take the place of predictions by fits to the other folds: singular
    vectors are those of the rows of the other folds.
    """
    n, q = targets.values.shape
    if n < 2 * N_FOLDS or q < 2:
        return 0.0
    predicted = targets.values - residuals
    fold = np.arange(n) % N_FOLDS
    errors = np.empty((len(SHRINKAGES), n))
    for k in range(N_FOLDS):
        out = fold == k
        observed = targets.observed
        if np.ndim(observed):
            observed = np.asarray(observed)[out]
        for i, shrinkage in enumerate(Shrinkage.of_each(predicted[~out], SHRINKAGES)):
            shrunk = shrinkage(predicted[out])
            differences = (targets.values[out] - shrunk) * observed
            errors[i, out] = np.square(differences).sum(axis=1)
    best = int(errors.sum(axis=1).argmin())
    gains = errors[0] - errors[best]
    if gains.sum() > np.sqrt(n) * gains.std(ddof=1):
        return SHRINKAGES[best]
    return 0.0
