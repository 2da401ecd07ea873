"""Three or more views: a convex relaxation, since the induced norm has no known closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NoReturn, Self

import numpy as np

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.linalg import spectral_norm
from regfactor.core.loop import Iterate, Limits, Solution
from regfactor.core.params import Array, UnsupportedProblem
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.factor_estimator import TABLE_CONSTRAINTS, FactorEstimator, TableInputs
from regfactor.fitting.parameters import POSITIVE, parametrized
from regfactor.fitting.side_by_side import with_missing_as_nan
from regfactor.penalties import Gauge, Penalty, PowerPenalty, Trace
from regfactor.penalties.gauges import Polar
from regfactor.problems import Convex
from regfactor.solvers.admm import Splitting
from regfactor.solvers.base import Solver

STEPS = 50  # of the fixed point for the weights of views
SMALLEST_CHANGE = 1e-10
SMALLEST_WEIGHT = 1e-12  # weight of a view that is left at least


@dataclass
class ManyViews(Gauge):
    """max over eta in the simplex of |[sqrt(eta_v) Z_v / b_v]_v|_tr.

    A lower bound of the norm that views induce. It is that norm for one and two views; from three
    on it can be smaller, so a solution is one of a relaxed problem. Components satisfy
    max_v sum_i |c_vi|^2 / b_v^2 <= sum_i |phi_i|^2, a bound on all atoms together.
    """

    sizes: tuple[int, ...] = (1, 1, 1)
    bounds: tuple[float, ...] = (1.0, 1.0, 1.0)
    proximable = False

    def __post_init__(self) -> None:
        positive = min(self.sizes) >= 1 and min(self.bounds) > 0
        if len(self.sizes) != len(self.bounds) or not positive:
            raise ValueError(
                f"ManyViews needs a positive size and bound for each view, got {self}."
            )

    @property
    def equal_weights(self) -> Array:
        """The same eta for all views."""
        return np.full(len(self.sizes), 1 / len(self.sizes))

    def at(self, eta: Array) -> Trace:
        """Return the trace norm at fixed weights: a lower bound, tight at the best weights."""
        scales = np.array(self.bounds) / np.sqrt(np.maximum(eta, SMALLEST_WEIGHT))
        return Trace(np.repeat(scales, self.sizes))

    def shares(self, Z: Array | Factors, eta: Array) -> tuple[float, Array]:
        """Return the trace norm at eta, and how much of it lies in each view."""
        if isinstance(Z, Factors):
            Z = np.linalg.qr(Z.codes, mode="r") @ Z.C
        _, s, Vt = np.linalg.svd(Z / self.at(eta).scale, full_matrices=False)
        squares = s @ np.square(Vt)
        starts = np.cumsum((0, *self.sizes[:-1]))
        return float(s.sum()), np.add.reduceat(squares, starts)

    def eta(self, Z: Array | Factors, start: Array | None = None) -> Array:
        """Return the maximizing weights, by the fixed point eta_v = share of view v."""
        eta = self.equal_weights if start is None else start
        for _ in range(STEPS):
            total, shares = self.shares(Z, eta)
            if total == 0:
                return eta
            new = shares / total
            still = np.abs(new - eta).max() <= SMALLEST_CHANGE
            eta = new
            if still:
                break
        return eta

    def value(self, Z: Array | Factors) -> float:
        return self.shares(Z, self.eta(Z))[0]

    def cost(self, F: Factors) -> float:
        """|Phi|_F max_v |C_v|_F / b_v of balanced factors: an upper bound."""
        sizes = [np.linalg.norm(C) for C in self.split(F.C)]
        largest = np.max(np.divide(sizes, self.bounds))
        return float(np.linalg.norm(F.codes) * largest)

    def split(self, Z: Array) -> list[Array]:
        """Return the columns of each view."""
        return np.split(Z, np.cumsum(self.sizes[:-1]), axis=1)

    def recover(self, Z: Array) -> Factors:
        return self.recover_at(Z, self.eta(Z))

    def recover_at(self, Z: Array, eta: Array) -> Factors:
        """Return factors U S^1/2 and S^1/2 V' E, whose cost is the norm at the best weights."""
        U, s, _ = np.linalg.svd(Z / self.at(eta).scale, full_matrices=False)
        kept = s > np.finfo(float).eps * s.max(initial=0)
        root = np.sqrt(s[kept])
        codes = U[:, kept] * root
        C = (U[:, kept] / root).T @ Z
        return Factors(codes.astype(Z.dtype), C.astype(Z.dtype))

    def prox(self, W: Array, t: float | Array) -> NoReturn:
        raise UnsupportedProblem("ManyViews has no closed prox; use MultiViewRelaxation.")

    def polar(self, G: Array, k: int = 1) -> Polar:
        """Return an upper bound of the dual norm by the weights b_v |G_v|, and no atom."""
        parts = np.multiply(self.bounds, [spectral_norm(part) for part in self.split(G)])
        nothing = Factors.zeros(*G.shape)
        if not parts.any():
            return Polar(0.0, nothing)
        trial = parts / parts.sum()
        values = [
            spectral_norm(G * self.at(eta / eta.sum()).scale)
            for eta in (trial, trial**2, np.ones_like(trial))
        ]
        return Polar(min(values), nothing)

    def per_row(self, codes: Array) -> Penalty:
        return PowerPenalty(2.0, np.ones(codes.shape[1]))

    def factored(self) -> NoReturn:
        raise UnsupportedProblem(
            "ManyViews is a relaxation: no two penalties on the factors induce it."
        )

    def check(self, d: int) -> None:
        if sum(self.sizes) != d:
            raise ValueError(f"Views of {self.sizes} columns do not fit a table of {d} columns.")


@dataclass
class SimplexSearch(Solver):
    """max over eta of min over Z of L(Z) + alpha |Z E^-1|_tr, by a fixed point around ADMM."""

    every: int = 5
    patience: float = 0.25

    solves = Convex

    def check(self, problem: Convex) -> None:
        if not isinstance(problem.gauge, ManyViews):
            raise UnsupportedProblem(
                f"SimplexSearch is for the gauge ManyViews, got {problem.gauge}."
            )

    def iterates(
        self,
        problem: Convex,
        start: FactorPoint | None,
    ) -> Iterator[Iterate[FactorPoint]]:
        """Yield every few inner steps."""
        gauge = problem.gauge
        assert isinstance(gauge, ManyViews)
        eta = gauge.equal_weights
        split = Splitting(replace(problem, gauge=gauge.at(eta)), start or problem.null, 1.6)
        while True:
            split.advance(self.every)
            F, B, inner, bound = split.examine()
            best = gauge.eta(F, eta)
            F = gauge.recover_at(F.dense(), best).astype(problem.data.dtype)
            objective = problem.objective(F, B)
            point = FactorPoint(F, B, split.dual)
            yield Iterate(point, objective, bound.value, bound.rigorous, steps=self.every)
            if inner - bound.value <= self.patience * (objective - inner):
                total, shares = gauge.shares(split.Z, eta)
                if total > 0:
                    eta = np.maximum(shares / total, SMALLEST_WEIGHT)
                split.rescale(replace(problem, gauge=gauge.at(eta / eta.sum())))


@parametrized
class MultiViewRelaxation(FactorEstimator):
    """min over Z, b of L(Z + b; X) + alpha max_eta |[sqrt(eta_v) Z_v / b_v]_v|_tr.

    A relaxation for three views and more. The norm is a lower bound of the one that the bounds
    |c_v| <= b_v on components induce, and can be smaller: with three views of one column, b = 1 and
    G'G = 3I - 11', the dual norms squared are 8 and 9. The certificate is that of the relaxed
    problem, and components need not satisfy the bounds atom by atom.

    Parameters
    ----------
    alpha : float, default=1.0
    sizes : tuple of int, optional
        Columns of each view, in order; by default three views as equal as can be.
    bounds : tuple of float, optional
        b_v; one by default.
    loss : str or Loss, default="squared"
    fit_intercept : bool, default=True
    max_iter, tol, time_limit, verbose, random_state, callback
        As in `TwoViewSubspace`. Views are not scaled.

    Attributes
    ----------
    codes_, components_, intercept_, objective_, gap_, relative_gap_, certificate_
        As in `TwoViewSubspace`.
    view_weight_ : ndarray of shape (n_views,)
        The weights eta.

    See Also
    --------
    TwoViewSubspace : Two views, for which the relaxation is exact.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor.baselines import MultiViewRelaxation
    >>> X = np.random.default_rng(0).normal(size=(30, 6))
    >>> model = MultiViewRelaxation(sizes=(2, 2, 2)).fit(X)
    >>> bool(model.relative_gap_ <= 1e-4)
    True
    """

    _parameter_constraints = {
        **TABLE_CONSTRAINTS,
        "alpha": [POSITIVE],
        "sizes": ["array-like", None],
        "bounds": ["array-like", None],
        "fit_intercept": ["boolean"],
    }
    rule = "min"

    alpha: float = 1.0
    sizes: Any = None
    bounds: Any = None
    loss: Any = "squared"
    _: KW_ONLY
    fit_intercept: bool = True
    sparse_zeros: str = "missing"
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to a table of all views side by side; NaN marks a missing entry.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight)

    def _gauge(self, d: int) -> ManyViews:
        if self.sizes is None:
            views = min(3, d)
            sizes = tuple(len(part) for part in np.array_split(np.arange(d), views))
        else:
            sizes = tuple(int(size) for size in self.sizes)
        if self.bounds is None:
            bounds = (1.0,) * len(sizes)
        else:
            bounds = tuple(float(b) for b in self.bounds)
        return ManyViews(sizes, bounds)

    def _state(self, inputs: TableInputs) -> Convex:
        whole = replace(inputs, learned=with_missing_as_nan(inputs.learned))
        return self._convex(whole, self._gauge(whole.table.shape[1]))

    def _solver(self, limits: Limits) -> SimplexSearch:
        return SimplexSearch()

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[FactorPoint],
        inputs: TableInputs,
        run: Run,
    ) -> Solution[FactorPoint]:
        published = super()._publish(choice, solution, inputs, run)
        self.view_weight_ = choice.problem.gauge.eta(Factors(self.codes_, self.components_))
        return published
