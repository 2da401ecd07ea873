"""Reference optima of min sum w f(Z + 1b'; X) + alpha gauge(Z): by a conic solver, and by plain numpy certificates.

Nothing here uses the library. Each problem is small, drawn from a seed, and named by what it combines.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import cvxpy as cp
import numpy as np
from scipy.special import expit, xlogy

HUBER, SIGMA = 0.7, 0.2
N_FIRST = 3


@dataclass(frozen=True)
class Problem:
    """A loss, a gauge, a strength and what the table looks like."""

    loss: str
    gauge: str
    alpha: float
    missing: bool = False
    weighted: bool = False
    intercept: bool = False
    shape: tuple[int, int] = (9, 6)
    bounds: tuple[float, float] = (1.0, 1.0)
    seed: int = 0

    def __str__(self):
        words = (
            ["missing"] * self.missing
            + ["weighted"] * self.weighted
            + ["intercept"] * self.intercept
        )
        return "-".join([self.loss, self.gauge, *words])

    @cached_property
    def X(self):
        """A noisy rank-two table in the units of the loss, with missing entries where they are asked for."""
        random = np.random.default_rng(self.seed)
        n, d = self.shape
        signal = random.normal(size=(n, 2)) @ random.normal(size=(2, d)) + 0.3 * random.normal(
            size=(n, d)
        )
        match self.loss:
            case "logistic":
                X = (random.random((n, d)) < expit(2 * signal)).astype(float)
                X[0], X[1] = 0.0, 1.0  # both classes in each column: an intercept stays finite
            case "poisson":
                X = random.poisson(np.exp(0.6 * signal)).astype(float)
                X[0] = 2.0
            case "mixed":
                X = signal.copy()
                X[:, N_FIRST:] = random.random((n, d - N_FIRST)) < expit(2 * signal[:, N_FIRST:])
                X[0, N_FIRST:], X[1, N_FIRST:] = 0.0, 1.0
            case _:
                X = signal + 0.5 + 4.0 * (random.random((n, d)) < 0.06)
        if self.missing:
            hidden = random.random((n, d)) < 0.25
            hidden[:2] = False
            X[hidden] = np.nan
        return X

    @cached_property
    def weights(self):
        """One weight per entry, zero among them, or None."""
        if not self.weighted:
            return None
        random = np.random.default_rng(self.seed + 1)
        W = random.uniform(0.3, 2.0, self.shape)
        W[2, 1] = 0.0
        return W

    @property
    def entry_weights(self):
        """The weights of observed entries, zero at missing entries."""
        return np.where(np.isnan(self.X), 0.0, 1.0 if self.weights is None else self.weights)

    @property
    def filled(self):
        """The table with ones at missing entries, where no weight sees them."""
        return np.where(np.isnan(self.X), 1.0, self.X)

    @property
    def null_scale(self):
        """The size of the loss at Z = 0, b = 0: what a small difference is measured against."""
        return max(1.0, abs(loss_value(self, np.zeros(self.shape))))


def loss_value(problem, P):
    """The loss of a predictor, entry by entry from its formula; "mixed" is squared, then logistic from N_FIRST on."""
    X, r = problem.filled, P - problem.filled
    match problem.loss:
        case "squared":
            f = r**2 / 2
        case "huber":
            f = np.where(np.abs(r) <= HUBER, r**2 / 2, HUBER * np.abs(r) - HUBER**2 / 2)
        case "smoothed_l1":
            f = np.where(np.abs(r) <= SIGMA, r**2 / (2 * SIGMA), np.abs(r) - SIGMA / 2)
        case "absolute":
            f = np.abs(r)
        case "logistic":
            f = np.logaddexp(0, P) - X * P
        case "poisson":
            f = np.exp(P) - X * P
        case "mixed":
            f = np.where(np.arange(P.shape[1]) < N_FIRST, r**2 / 2, np.logaddexp(0, P) - X * P)
    return float((problem.entry_weights * f).sum())


def loss_gradient(problem, P):
    """Its derivative."""
    X, r = problem.filled, P - problem.filled
    match problem.loss:
        case "squared":
            g = r
        case "huber":
            g = np.clip(r, -HUBER, HUBER)
        case "smoothed_l1":
            g = np.clip(r / SIGMA, -1, 1)
        case "absolute":
            g = np.sign(r)
        case "logistic":
            g = expit(P) - X
        case "poisson":
            g = np.exp(P) - X
        case "mixed":
            g = np.where(np.arange(P.shape[1]) < N_FIRST, r, expit(P) - X)
    return problem.entry_weights * g


def loss_conjugate(problem, Y):
    """Its conjugate at a Y that is zero at missing entries; infinite outside the domain past rounding."""
    w, X = problem.entry_weights, problem.filled
    y = np.divide(Y, w, out=np.zeros_like(Y), where=w > 0)
    p, slack = y + X, 1e-12
    match problem.loss:
        case "squared":
            f, inside = y**2 / 2 + X * y, True
        case "huber":
            f, inside = y**2 / 2 + X * y, np.abs(y) <= HUBER + slack
        case "smoothed_l1":
            f, inside = SIGMA * y**2 / 2 + X * y, np.abs(y) <= 1 + slack
        case "logistic":
            inside = (p >= -slack) & (p <= 1 + slack)
            p = np.clip(p, 0, 1)
            f = xlogy(p, p) + xlogy(1 - p, 1 - p)
        case "poisson":
            inside = p >= -slack
            p = np.maximum(p, 0)
            f = xlogy(p, p) - p
    return float(np.where(w > 0, w * np.where(inside, f, np.inf), 0).sum())


def trace_certificate(problem, Z, b):
    """Objective and dual bound of a trace-norm problem from one point: a full SVD and formulas, nothing else."""
    P = Z + b
    objective = loss_value(problem, P) + problem.alpha * np.linalg.svd(Z, compute_uv=False).sum()
    Y = loss_gradient(problem, P)
    if (
        problem.intercept
    ):  # column sums must vanish: move where the loss is curved, so that Y stays in its domain
        h = np.maximum(1e-6, np.abs(Y - loss_gradient(problem, P + 1e-3)) / 1e-3) * (
            problem.entry_weights > 0
        )
        Y = Y - h * (Y.sum(axis=0) / h.sum(axis=0))
    scale = min(1.0, problem.alpha / np.linalg.svd(Y, compute_uv=False)[0])
    return objective, -loss_conjugate(problem, scale * Y)


def conic_gauge(problem, Z):
    """The gauge as a convex expression, with the constraints it needs; the two-view norm by its SDP."""
    n, d = problem.shape
    match problem.gauge:
        case "trace":
            return cp.normNuc(Z), []
        case "rows_2":
            return cp.sum(cp.norm(Z, 2, axis=1)), []
        case "rows_inf":
            return cp.sum(cp.norm(Z, "inf", axis=1)), []
        case "rows_1":
            return cp.sum(cp.abs(Z)), []
        case "columns_2":
            return cp.sum(cp.norm(Z, 2, axis=0)), []
        case "two_view":
            whole, s = cp.Variable((n + d, n + d), symmetric=True), cp.Variable()
            first = sum(whole[n + j, n + j] for j in range(N_FIRST)) / problem.bounds[0] ** 2
            second = sum(whole[n + j, n + j] for j in range(N_FIRST, d)) / problem.bounds[1] ** 2
            constraints = [whole >> 0, whole[:n, n:] == Z, first <= s, second <= s]
            return (cp.trace(whole[:n, :n]) + s) / 2, constraints


def conic_loss(problem, P):
    """The loss as a convex expression."""
    X, W = problem.filled, problem.entry_weights
    match problem.loss:
        case "squared":
            f = cp.square(P - X) / 2
        case "huber":
            f = cp.huber(P - X, HUBER) / 2
        case "smoothed_l1":
            f = cp.huber(P - X, SIGMA) / (2 * SIGMA)
        case "absolute":
            f = cp.abs(P - X)
        case "logistic":
            f = cp.logistic(P) - cp.multiply(X, P)
        case "poisson":
            f = cp.exp(P) - cp.multiply(X, P)
        case "mixed":
            real, binary = P[:, :N_FIRST], P[:, N_FIRST:]
            f = cp.hstack(
                [
                    cp.square(real - X[:, :N_FIRST]) / 2,
                    cp.logistic(binary) - cp.multiply(X[:, N_FIRST:], binary),
                ]
            )
    return cp.sum(cp.multiply(W, f))


@cache
def optimum(problem):
    """The optimal value, the minimizing Z and offsets b, by the conic solver Clarabel."""
    n, d = problem.shape
    Z, b = cp.Variable((n, d)), cp.Variable((1, d))
    offset = np.ones((n, 1)) @ b if problem.intercept else np.zeros((n, d))
    gauge, constraints = conic_gauge(problem, Z)
    program = cp.Problem(
        cp.Minimize(conic_loss(problem, Z + offset) + problem.alpha * gauge), constraints
    )
    program.solve(
        solver=cp.CLARABEL, max_step_fraction=0.9
    )  # longer steps fail on some Poisson tables
    return float(program.value), Z.value, b.value if problem.intercept else np.zeros((1, d))
