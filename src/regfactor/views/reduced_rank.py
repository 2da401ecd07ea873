"""Regression of one table on another by coefficients of limited rank or of small trace norm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.utils._param_validation import StrOptions

from regfactor.core.linalg import is_sparse, thin_svd
from regfactor.core.loop import Iterate, Solution
from regfactor.core.params import Array, UnsupportedProblem, frozen
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.parameters import AUTO, COUNT, NON_NEGATIVE, parametrized
from regfactor.fitting.selection import Validation, select_alpha
from regfactor.losses import LOSSES, Loss, Squared, as_loss
from regfactor.maps import LeftProduct
from regfactor.penalties import Trace
from regfactor.problems import Convex, Data, Design
from regfactor.problems.base import Problem
from regfactor.solvers.base import Solver
from regfactor.views.centered import Centered
from regfactor.views.pair import TablePair
from regfactor.views.smoothers import Directions, SmoothedTable
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
        targets = SmoothedTable(y.values, root, 1.0, center)
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


@dataclass(frozen=True)
class TraceUnits:
    """Means of X and units of both tables in which the trace norm is taken."""

    x_mean: Array
    x_deviation: Array
    y_deviation: Array


def target_deviations(Y: Array) -> Array:
    """Return the deviations of the observed targets of each column, one where they are constant."""
    with np.errstate(invalid="ignore"):
        deviations = np.sqrt(np.nanmean(np.square(Y - np.nanmean(Y, axis=0)), axis=0))
    return np.where(deviations > 0, deviations, 1.0)


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

    With `rank=None` the rank is found by a trace norm, under any loss and with targets missing:

        min over B, b of sum over observed y_ij of f((X B + 1 b')_ij; y_ij) + alpha |B|_tr,

    which is convex, solved to its global optimum, and has a certificate (`gap_`).

    Parameters
    ----------
    rank : int, "auto" or None, default="auto"
        Most rank of the coefficients. "auto" shrinks the singular values of the fit; None leaves
        it to the trace norm.
    alpha : float or "auto", default="auto"
        Multiplies the squared norm of the coefficients, or with `rank=None` their trace norm. With
        0, coefficients of a table without full column rank are those of least norm. "auto" is
        chosen by leave-one-out; with `rank=None` by a tenth of the targets, held out, between
        columns of X (and of squared targets) in units of their deviations.
    fit_intercept : bool, default=True
        Whether there are offsets b, which are not penalized.
    loss : str or Loss, default="squared"
        Loss of the targets; others than "squared" need `rank=None`. `predict` returns means:
        probabilities under "logistic", expected counts under "poisson".
    max_iter : int, default=1000
        Most iterations with `rank=None`.
    tol : float, default=1e-4
        Relative duality gap at which a fit with `rank=None` stops.
    random_state : int, optional
        Seed of the targets that are held out.

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
    alpha_, alpha_max_ : float
        With `rank=None`: the strength, and the least strength at which coefficients are zero.
    alphas_, validation_loss_, validation_error_ : array
        With `rank=None` and `alpha="auto"`: what was tried, and the loss of held-out targets.

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

    Labels of which half are missing, with a certificate:

    >>> labels = np.where(rng.random(Y.shape) < 0.5, np.nan, Y > 0)
    >>> model = ReducedRankRegression(rank=None, alpha=5.0, loss="logistic").fit(X, labels)
    >>> bool(model.relative_gap_ <= 1e-4)
    True
    """

    _parameter_constraints = {
        "rank": [COUNT, AUTO, None],
        "alpha": [NON_NEGATIVE, AUTO],
        "fit_intercept": ["boolean"],
        "loss": [StrOptions({*LOSSES}), Loss],
        "max_iter": [COUNT],
        "tol": [NON_NEGATIVE],
        "random_state": ["random_state"],
    }

    rank: int | str | None = "auto"
    alpha: float | str = "auto"
    _: KW_ONLY
    fit_intercept: bool = True
    loss: Any = "squared"
    max_iter: int = 1000
    tol: float = 1e-4
    random_state: Any = None

    def _read(self, X: Any, y: Any, sample_weight: Any) -> TablePair:
        if self.rank is None:
            return self._read_incomplete(X, y, sample_weight)
        return self._read_tables(X, y, sample_weight)

    def _state(self, inputs: TablePair) -> ReducedRank | StackedRank | Convex:
        if self.rank is None:
            return self._state_convex(inputs)
        if not isinstance(as_loss(self.loss), Squared):
            raise UnsupportedProblem(
                f"loss={self.loss!r} has no closed form at a given rank: use rank=None, which "
                "penalizes the trace norm of the coefficients."
            )
        if not isinstance(self.rank, str) and not isinstance(self.alpha, str):
            return ReducedRank(inputs, self.rank, self.alpha, self.fit_intercept)
        rank = None if isinstance(self.rank, str) else self.rank
        alpha = None
        if not isinstance(self.alpha, str):
            alpha = float(self.alpha)
        return StackedRank(inputs, rank, alpha, self.fit_intercept)

    def _state_convex(self, inputs: TablePair) -> Convex:
        """Return the problem of the trace norm, in the units of the fit."""
        loss = as_loss(self.loss)
        X = inputs.X
        if is_sparse(X):
            X = X.toarray()
        Y = inputs.Y
        d = X.shape[1]
        weights = inputs.weights
        mean = np.zeros(d, X.dtype)
        if self.fit_intercept:
            mean = np.average(X, axis=0, weights=weights).astype(X.dtype)
        deviation = np.ones(d, X.dtype)
        y_deviation = np.ones(Y.shape[1], X.dtype)
        if isinstance(self.alpha, str):
            variance = np.average(np.square(X - mean), axis=0, weights=weights)
            deviation = np.sqrt(np.where(variance > 0, variance, 1)).astype(X.dtype)
            if isinstance(loss, Squared):
                y_deviation = target_deviations(Y).astype(X.dtype)
        self._units = TraceUnits(mean, deviation, y_deviation)
        data = Data.of((Y / y_deviation).astype(X.dtype), loss)
        if weights is not None:
            data = data.weighted(weights.astype(X.dtype))
        design = None
        if self.fit_intercept:
            design = Design.intercept(len(X), X.dtype)
        alpha = 1.0
        if not isinstance(self.alpha, str):
            alpha = float(self.alpha)
        return Convex(data, Trace(), alpha, LeftProduct((X - mean) / deviation), design)

    def _choose(self, problem: Any, inputs: TablePair, run: Run) -> Choice[Any]:
        """Return the problem at the strength that held-out targets choose, where it is "auto"."""
        if not isinstance(problem, Convex) or not isinstance(self.alpha, str):
            return Choice(problem)
        if not problem.alpha_max() > 0:
            return Choice(problem)
        validation = Validation(None, np.random.default_rng(run.seed()), run.clock.half())
        chosen = select_alpha(problem, "min", False, validation)
        return Choice(problem.at(chosen.best.value), chosen)

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[Any],
        inputs: TablePair,
        run: Run,
    ) -> Solution[Any]:
        if isinstance(choice.problem, Convex):
            return self._publish_convex(choice, solution, inputs)
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

    def _publish_convex(
        self,
        choice: Choice[Any],
        solution: Solution[Any],
        inputs: TablePair,
    ) -> Solution[Any]:
        """Set the coefficients of a trace norm in the units of the tables."""
        problem = choice.problem
        units = self._units
        B = solution.point.factors.dense() * units.y_deviation / units.x_deviation[:, None]
        U, s, Vt = thin_svd(B, RANK_CUT)
        offsets = np.zeros(B.shape[1], B.dtype)
        if solution.point.coefficients is not None:
            offsets = solution.point.coefficients[0] * units.y_deviation
        offsets = offsets - units.x_mean @ B
        self._mean = units.x_mean
        self.rank_ = len(s)
        self.x_rotations_ = U * s
        self.components_ = Vt
        self.alpha_ = float(problem.alpha)
        self.alpha_max_ = float(problem.alpha_max())
        self.coef_ = B.T
        self.intercept_ = offsets
        if self._one_target:
            self.coef_ = B[:, 0]
            self.intercept_ = float(offsets[0])
        if choice.selection is not None:
            trials = choice.selection.trials
            self.alphas_ = np.array([trial.value for trial in trials])
            self.validation_loss_ = np.array([trial.loss for trial in trials])
            self.validation_error_ = np.array([trial.error for trial in trials])
        return solution

    def predict(self, X: Any) -> Array:
        """Predict the second table, by the means of its distributions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_targets), or (n_samples,) where y was one column
        without a second dimension
        """
        predictors = super().predict(X)
        loss = as_loss(self.loss)
        if isinstance(loss, Squared):
            return predictors
        return np.asarray(loss.predict(predictors), predictors.dtype)

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
