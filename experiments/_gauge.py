"""RARMA under the gauge of White's theorem 10, max_j |B_j|_F in place of the sum, for one lag of innovations."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from experiments._series import Array
from regfactor.maps import Lags
from regfactor.series.arma.model import Past, Series, Varma, radius
from regfactor.series.arma.problem import ArmaProblem, Specification, stabilized
from regfactor.solvers import solve

LEAST_ETA = 1e-3
ETA_TOL = 1e-5


@dataclass
class WeightedLags(Lags):
    """S(M E)_t = sum_j M[time t - j, block j] / sqrt(eta_j): theorem 10 at a fixed eta, M = W E^-1."""

    q: int = 1
    eta: float = 0.5  # of block 0; block 1 has the rest

    def __post_init__(self) -> None:
        super().__post_init__()
        self.blocks = 1 / np.sqrt([self.eta, 1 - self.eta])
        self.norm2 = float(np.square(self.blocks).sum())

    def scales(self, d: int) -> Array:
        """Return the factor of each column."""
        return np.repeat(self.blocks, d // 2)

    def __call__(self, Z: Array) -> Array:
        return super().__call__(Z * self.scales(Z.shape[1]))

    def adjoint(self, G: Array) -> Array:
        W = super().adjoint(G)
        return W * self.scales(W.shape[1])


@dataclass(frozen=True, eq=False)
class Balanced:
    """The optimum under max_j |B_j|_F: W, K = B B' in blocks, coefficients, and the best eta.

    W is one of the minimizers at the best eta, which fix lag sums of K and so forecasts, but need not have parts of equal size; `objective` is theirs at that eta.
    """

    problem: ArmaProblem
    W: Array
    K: Array
    coefficients: Array
    eta: float
    objective: float

    def forecast(self, horizon: int) -> Array:
        """Return forecasts, the roots of the autoregression capped at 1."""
        model, past = self._model()
        n = len(model.intercept)
        return model.paths(past, np.zeros((horizon, 0)), np.zeros((1, horizon, n)))[0]

    def _model(self) -> tuple[Varma, Past]:
        problem = self.problem
        n = problem.data.shape[1]
        blocks = self.K.reshape(2, n, 2, n)
        kappa = np.array([blocks[0, :, 0] + blocks[1, :, 1], blocks[1, :, 0]])
        model = problem.model(self.coefficients, kappa)
        estimated = radius(model.ar)
        if estimated > 1:
            model = stabilized(model, problem, 1 / estimated)
        assert problem.design is not None
        predictor = problem.map(self.W) + problem.design.D @ self.coefficients
        smoothed = predictor * problem.predictor_units.spread + problem.predictor_units.center
        _, past = model.begin(problem.series, smoothed)
        return model, past


def stated(X: Array, p: int = 1, standardize: bool = True) -> ArmaProblem:
    """Return the problem of RARMA(p, 1) at ridge 1e-3 under the trace norm."""
    specification = Specification(p, 1, standardize=standardize)
    return ArmaProblem.of(Series.of(X, np.zeros((len(X), 0))), specification)


def balanced(problem: ArmaProblem, tol: float = 1e-6) -> Balanced:
    """Solve max over eta of min over W of L(S(W)) + alpha |W E^-1|_tr: concave in eta, convex in W.

    `problem` is that of the trace norm, whose solution at alpha is this one at sqrt(2) alpha where
    the best eta is 1/2.
    """

    def at(eta: float) -> ArmaProblem:
        return replace(problem, map=WeightedLags(1, eta))

    found = minimize_scalar(
        lambda eta: -solve(at(eta), tol=tol).objective,
        bounds=(LEAST_ETA, 1 - LEAST_ETA),
        method="bounded",
        options={"xatol": ETA_TOL},
    )
    eta = float(found.x)
    inner = at(eta)
    solution = solve(inner, tol=tol)
    M = solution.point.factors.dense()
    scales = inner.map.scales(M.shape[1])
    _, s, Vt = np.linalg.svd(M, full_matrices=False)
    W = M * scales
    K = ((Vt.T * s) @ Vt) * np.outer(scales, scales)
    assert solution.point.coefficients is not None
    return Balanced(problem, W, K, solution.point.coefficients, eta, float(solution.objective))
