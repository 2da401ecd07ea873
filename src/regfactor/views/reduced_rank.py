"""Regression of one table on another by coefficients of limited rank, in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.linalg

from regfactor.core.linalg import thin_svd
from regfactor.core.loop import Iterate, Solution
from regfactor.core.params import Array, frozen
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.parameters import AUTO, COUNT, NON_NEGATIVE, parametrized
from regfactor.problems.base import Problem
from regfactor.solvers.base import Solver
from regfactor.views.centered import Centered
from regfactor.views.pair import TablePair
from regfactor.views.smoothers import Directions, Targets
from regfactor.views.stacked_ridge import linear_stack
from regfactor.views.two_tables import TwoTableEstimator, standardized
from regfactor.views.whitening import whitener

RANK_CUT = 1e-10  # share of the largest singular value of a fit, below which it is rounding


@frozen
class ReducedRankPoint:
    """Coefficients B = rotations @ components, and the means that the tables are taken about."""

    coef: Array
    rotations: Array
    components: Array
    x_mean: Array
    y_mean: Array
    weights: dict[str, float]
    loo_error: float


@frozen
class ReducedRank(Problem[ReducedRankPoint]):
    """min over B of rank at most `rank` and b of |Y - X B - 1 b'|_F^2 / 2 + (alpha/2) |B|_F^2."""

    solvers = ("regfactor.views.reduced_rank:TruncatedRidge",)

    tables: TablePair
    rank: int
    alpha: float
    fit_intercept: bool


@dataclass
class TruncatedRidge(Solver):
    """The ridge regression, projected on the leading right singular vectors of its fit.

    B = A U s V' with A'X'Y = U s V' and a whitener A of X, of which `rank` terms are kept.
    """

    solves = ReducedRank

    def iterates(
        self,
        problem: ReducedRank,
        start: ReducedRankPoint | None,
    ) -> Iterator[Iterate[ReducedRankPoint]]:
        """Yield the optimum."""
        tables = problem.tables
        x = Centered.of(tables.X, tables.weights, center=problem.fit_intercept)
        y = Centered.of(tables.Y, tables.weights, center=problem.fit_intercept)
        X = x.values
        Y = y.values
        found = whitener(x, problem.alpha)
        if found.precise_gram:
            cross = found.A.T @ (X.T @ Y)
        else:
            cross = (X @ found.A).T @ Y
        U, s, Vt = thin_svd(cross)
        k = min(problem.rank, len(s))
        rotations = found.A @ (U[:, :k] * s[:k])
        components = Vt[:k]
        coef = rotations @ components
        residual = Y - X @ coef
        penalty = problem.alpha * np.vdot(coef, coef)
        objective = float(np.vdot(residual, residual) + penalty) / 2
        point = ReducedRankPoint(
            coef, rotations, components, x.units.mean, y.units.mean, {}, np.nan
        )
        yield Iterate(point, objective)


@frozen
class StackedRank(Problem[ReducedRankPoint]):
    """The linear regression of Y on X whose strength, rank or both leave-one-out chooses.

    `rank` and `alpha` are None where they are chosen.
    """

    solvers = ("regfactor.views.reduced_rank:StackedRegression",)

    tables: TablePair
    rank: int | None
    alpha: float | None
    fit_intercept: bool


@dataclass
class StackedRegression(Solver):
    """The average of ridge regressions of three spectral powers, by leave-one-out, and shrunk.

    With a given alpha it is one ridge regression. Columns are in units of their deviations where
    the strength is chosen.
    """

    solves = StackedRank

    def iterates(
        self,
        problem: StackedRank,
        start: ReducedRankPoint | None,
    ) -> Iterator[Iterate[ReducedRankPoint]]:
        """Yield the regression."""
        tables = problem.tables
        scale = problem.alpha is None
        center = problem.fit_intercept
        x = Centered.of(tables.X, tables.weights, center=center, scale=scale)
        y = Centered.of(tables.Y, tables.weights, center=center, scale=scale)
        root = np.ones(y.values.shape[0])
        if tables.weights is not None:
            root = np.sqrt(tables.weights)
        targets = Targets(y.values, root, 1.0, center)
        directions = Directions.of(x.values, targets)
        stack = linear_stack(directions, targets, problem.alpha, shrink=problem.rank is None)
        B = stack.shrinkage(stack.coefficients)
        # singular vectors of the fit X B = U diag(s) V'B
        fit = directions.s[:, None] * (directions.V.T @ B)
        _, s, Qt = thin_svd(fit, RANK_CUT)
        if problem.rank is not None:
            Qt = Qt[: problem.rank]
        B = (B @ Qt.T) @ Qt
        coef = B * y.units.deviation / x.units.deviation[:, None]
        components = scipy.linalg.qr(y.units.deviation[:, None] * Qt.T, mode="economic")[0].T
        left_out = (stack.left_out(targets) @ Qt.T) @ Qt
        residuals = (y.values - x.values @ B) * y.units.deviation
        penalty = 0.0
        if problem.alpha is not None:
            penalty = problem.alpha * float(np.vdot(coef, coef))
        weights = {}
        for one, weight in zip(stack.smoothers, stack.weights, strict=True):
            weights[one.name] = float(weight)
        point = ReducedRankPoint(
            coef,
            coef @ components.T,
            components,
            x.units.mean,
            y.units.mean,
            weights,
            _mean_square((y.values - left_out) * y.units.deviation, root),
        )
        yield Iterate(point, (float(np.vdot(residuals, residuals)) + penalty) / 2)


def _mean_square(residuals: Array, root: Array) -> float:
    """Return the mean square of residuals of weighted rows."""
    return float(np.vdot(residuals, residuals)) / (float(root @ root) * residuals.shape[1])


@parametrized
class ReducedRankRegression(TwoTableEstimator):
    """min over B of rank at most `rank` and b of |Y - X B - 1 b'|_F^2 / 2 + (alpha/2) |B|_F^2.

    In closed form: the ridge regression projected on the leading right singular vectors of its fit.
    By default leave-one-out chooses rank and strength, as in `TwoViewSubspace.predict_view` with
    `regression="linear"`: between tables in units of the deviations of their columns, coefficients
    are an average of ridge regressions whose penalties are powers 1, 1/2 and 2 of the singular
    values of X, each of the strength of least error, and singular values s of the fit are
    multiplied by (1 - (tau s_1 / s)^2)_+ where a tau above zero predicts better. With rank at
    least the number of targets it is least squares, or ridge regression as in
    scikit-learn. A sparse X, absent entries zeros, is centered without being made dense, but a fit
    holds up to six dense arrays of n_features x min(n_samples, n_features) numbers; of its
    directions, in columns of length one, those count as null whose singular value is less than
    about 1e-6 of the largest. So do, in any table, those that rounding made.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Most rank of the coefficients. "auto" shrinks the singular values of the fit.
    alpha : float or "auto", default="auto"
        Multiplies the squared norm of the coefficients. With 0, coefficients of a table without
        full column rank are those of least norm. "auto" is chosen by leave-one-out.
    fit_intercept : bool, default=True
        Whether there are offsets b, which are not penalized.

    Attributes
    ----------
    coef_ : array of shape (n_targets, n_features), or (n_features,) for one target
        B', which is components_' x_rotations_'.
    intercept_ : array of shape (n_targets,), or a float
        b.
    x_rotations_ : array of shape (n_features, rank)
        Codes are X, about its mean, times these.
    components_ : array of shape (rank, n_targets)
        Orthonormal rows: predictions are codes times these, plus the mean of y.
    rank_ : int
    weights_ : dict
        With "auto": the regressions that were averaged, and their weights.
    loo_error_ : float
        With "auto": mean squared error of the targets of each row by the fit to the others.
    objective_ : float
        The objective at the solution; half the sum of squared residuals with `alpha="auto"`.

    See Also
    --------
    CanonicalCorrelation : Directions in which two views correlate most.
    TwoViewSubspace : Shared codes that reconstruct both views.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ReducedRankRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> Y = X @ np.outer([1.0, 0.0, -1.0, 0.5], [1.0, 2.0, 0.0]) + 0.1 * rng.normal(size=(200, 3))
    >>> ReducedRankRegression().fit(X, Y).predict([[1.0, 0.0, 0.0, 0.0]]).round(1) + 0.0
    array([[1., 2., 0.]])
    >>> model = ReducedRankRegression(rank=1, alpha=0.0).fit(X, Y)
    >>> model.coef_[1].round(1) + 0.0
    array([ 2.,  0., -2.,  1.])
    >>> int(np.linalg.matrix_rank(model.coef_))
    1
    """

    _parameter_constraints = {
        "rank": [COUNT, AUTO],
        "alpha": [NON_NEGATIVE, AUTO],
        "fit_intercept": ["boolean"],
    }

    rank: int | str = "auto"
    alpha: float | str = "auto"
    _: KW_ONLY
    fit_intercept: bool = True

    def _read(self, X: Any, y: Any, sample_weight: Any) -> TablePair:
        return self._read_tables(X, y, sample_weight)

    def _state(self, inputs: TablePair) -> ReducedRank | StackedRank:
        if not isinstance(self.rank, str) and not isinstance(self.alpha, str):
            return ReducedRank(inputs, self.rank, self.alpha, self.fit_intercept)
        rank = None if isinstance(self.rank, str) else self.rank
        alpha = None if isinstance(self.alpha, str) else float(self.alpha)
        return StackedRank(inputs, rank, alpha, self.fit_intercept)

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[ReducedRankPoint],
        inputs: TablePair,
        run: Run,
    ) -> Solution[ReducedRankPoint]:
        point = solution.point
        dtype = inputs.X.dtype
        coef = point.coef
        offsets = point.y_mean - point.x_mean @ coef
        self._mean = point.x_mean.astype(dtype)
        self.rank_ = len(point.components)
        if point.weights:
            self.weights_ = point.weights
            self.loo_error_ = point.loo_error
        self.x_rotations_ = point.rotations.astype(dtype)
        self.components_ = point.components.astype(dtype)
        if self._one_target:
            self.coef_ = coef[:, 0].astype(dtype)
            self.intercept_ = float(offsets[0])
        else:
            self.coef_ = coef.T.astype(dtype)
            self.intercept_ = offsets.astype(dtype)
        return solution

    def transform(self, X: Any) -> Array:
        """Return the codes, which predict the targets by `components_`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, rank)
        """
        X = self._rows(X)
        return np.asarray(standardized(X, self._mean, 1.0, self.x_rotations_), X.dtype)
