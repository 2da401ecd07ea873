"""The convex problem of a vector ARMA series, and the model that its solution describes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from regfactor.core.factors import FactorPoint
from regfactor.core.params import Array, frozen
from regfactor.losses import Loss, Squared
from regfactor.maps import Lags
from regfactor.norms import L2
from regfactor.penalties import Rows, Trace
from regfactor.problems import Convex, Data, Design
from regfactor.series.arma.model import MovingAverage, Past, Series, Varma, radius, regressors

GAUSSIAN_MAD = 0.6744897501960817  # median absolute deviation of a standard Gaussian


@dataclass(frozen=True)
class MinnesotaRidge:
    """A prior of deviation `tightness` / i for lag i, and of 1 for inputs and waves.

    It is around a random walk (x_t = x_{t-1}) or around zero; `noise` is the variance of errors
    relative to that of the series. Own lags and those of other series have the same prior, which
    leaves one factorization for all series (Kadiyala and Karlsson 1997).
    """

    tightness: float
    walk: bool
    noise: float

    def strengths(self, p: int, n_series: int, n_inputs: int) -> Array:
        """Return the ridge of each row of the coefficients but the intercept."""
        lags = np.repeat(np.arange(1, p + 1), n_series)
        return np.concatenate(
            [self.noise * np.square(lags / self.tightness), np.full(n_inputs, self.noise)]
        )


@dataclass(frozen=True)
class Specification:
    """Orders, loss and ridge of a model.

    A ridge that is a number is a share of the mean squared length of regressors.
    """

    p: int
    q: int
    d: int = 0
    season: int = 1
    n_waves: int = 0  # the last inputs
    exog_lags: int = 0
    loss: Loss = field(default_factory=Squared)
    ridge: float | MinnesotaRidge = 1e-3
    intercept: bool = True
    standardize: bool = True
    shocks: bool = False

    @property
    def walk(self) -> bool:
        """Whether coefficients are those of x_t - x_{t-1}, and so shrunk to a random walk."""
        return isinstance(self.ridge, MinnesotaRidge) and self.ridge.walk and self.p > 0


@frozen
class ArmaUnits:
    """Center and spread of each column, which make columns comparable."""

    center: Array
    spread: Array

    @staticmethod
    def of(X: Array, specification: Specification, robust: bool = False) -> ArmaUnits:
        """Return mean and standard deviation, or median and scaled median absolute deviation.

        Without an intercept, which would take up the center, deviations are those from zero.
        """
        center = np.zeros(X.shape[1])
        if not specification.standardize:
            return ArmaUnits(center, np.ones(X.shape[1]))
        if specification.intercept:
            center = X.mean(axis=0)
        spread = np.sqrt(np.square(X - center).mean(axis=0))
        if robust:
            if specification.intercept:
                center = np.median(X, axis=0)
            deviation = np.median(np.abs(X - center), axis=0) / GAUSSIAN_MAD
            spread = np.where(deviation > 0, deviation, spread)
        return ArmaUnits(center, np.where(spread > 0, spread, 1.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class ArmaProblem(Convex):
    """L(Y; D B + S(W)) + (ridge/2) |B|^2 + alpha |||W|||, with the series it was stated for.

    D holds past rows, inputs and ones; columns of the series and of the inputs are in their units.
    The predictor has the units of the series, or none under a link.
    """

    series: Series
    specification: Specification
    units: ArmaUnits
    input_units: ArmaUnits
    predictor_units: ArmaUnits

    @staticmethod
    def of(series: Series, specification: Specification) -> ArmaProblem:
        """Return the problem of a series at alpha = 1."""
        loss = specification.loss
        robust = loss.of_residual and not isinstance(loss, Squared)
        units = ArmaUnits.of(series.X, specification, robust)
        input_units = ArmaUnits.of(series.U, specification)
        X = (series.X - units.center) / units.spread
        U = (series.U - input_units.center) / input_units.spread
        lags = specification.exog_lags
        n_waves = specification.n_waves
        D = regressors(X, U, specification.p, lags, specification.intercept, n_waves)
        Y = X
        predictor_units = units
        if specification.walk:
            Y = np.diff(X, axis=0)
        if not loss.of_residual:
            Y = series.X
            predictor_units = ArmaUnits(np.zeros_like(units.center), np.ones_like(units.spread))
        design = None
        if D.shape[1]:
            held = D.shape[1] - specification.intercept
            ridge = np.zeros(D.shape[1])
            if isinstance(specification.ridge, MinnesotaRidge):
                n_inputs = held - specification.p * X.shape[1]
                ridge[:held] = specification.ridge.strengths(specification.p, X.shape[1], n_inputs)
            else:
                ridge[:held] = specification.ridge * np.square(D[:, :held]).sum() / max(held, 1)
            design = Design(D, ridge)
        return ArmaProblem(
            data=Data.of(np.ascontiguousarray(Y[len(Y) - len(D) :]), loss),
            gauge=Rows(L2()) if specification.shocks else Trace(),
            alpha=1.0,
            map=Lags(specification.q),
            design=design,
            series=series,
            specification=specification,
            units=units,
            input_units=input_units,
            predictor_units=predictor_units,
        )

    def shrunk(self, shrinkage: float) -> ArmaProblem:
        """Return the problem at alpha = shrinkage * alpha_max; without lags W = 0 is wanted."""
        if self.specification.q == 0:
            shrinkage = max(shrinkage, 1.0)
        return self.at(shrinkage * self.alpha_max() or 1.0)

    def smoothed(self, point: FactorPoint) -> Array:
        """Return the predictor with all innovations, in the units of the data."""
        units = self.predictor_units
        predictor = self.predictor(point.factors, point.coefficients) * units.spread
        if self.specification.walk:
            X = self.series.X
            return predictor + X[len(X) - len(predictor) - 1 : -1]
        return predictor + units.center

    def model(self, B: Array | None, kappa: Array) -> Varma:
        """Return the model with coefficients B and lag sums kappa, in the units of the data."""
        specification = self.specification
        n = self.data.shape[1]
        p = specification.p
        if B is None:
            B = np.zeros((0, n))
        center = self.predictor_units.center
        spread = self.predictor_units.spread
        out = spread[:, None]
        ar = B[: p * n].reshape(p, n, n).mT * out / self.units.spread
        if specification.walk:
            ar[0] += np.eye(n)
        exog = self._input_coefficients(B[p * n :]) * out / self.input_units.spread
        intercept = np.zeros(n)
        if specification.intercept:
            intercept = B[-1] * spread + center
            intercept = intercept - ar.sum(axis=0) @ self.units.center
            intercept = intercept - exog.sum(axis=0) @ self.input_units.center
        errors = MovingAverage(kappa / self.alpha * out * spread)
        return Varma(
            ar=ar,
            exog=exog,
            intercept=intercept,
            errors=errors,
            loss=specification.loss,
            spread=spread,
            start=max(p, specification.exog_lags),
            d=specification.d,
        )

    def _input_coefficients(self, B: Array) -> Array:
        """Return the coefficients of inputs and waves, zero for lags of waves."""
        specification = self.specification
        n = self.data.shape[1]
        k = self.series.U.shape[1]
        n_inputs = k - specification.n_waves
        n_lags = specification.exog_lags + 1
        found = np.zeros((n_lags, n, k))
        lagged = B[: n_lags * n_inputs]
        found[:, :, :n_inputs] = lagged.reshape(n_lags, n_inputs, n).mT
        found[0, :, n_inputs:] = B[len(lagged) : len(lagged) + specification.n_waves].T
        return found


def lag_sums(W: Array, q: int) -> Array:
    """Return kappa_d = sum over l - j = d of the blocks (l, j) of (W'W)^1/2, d = 0..q.

    They are unique where W is not.
    """
    n = W.shape[1] // (q + 1)
    _, s, Vt = np.linalg.svd(W, full_matrices=False)
    K = ((Vt.T * s) @ Vt).reshape(
        q + 1,
        n,
        q + 1,
        n,
    )
    kappa = np.zeros((q + 1, n, n))
    for d in range(q + 1):
        for j in range(q + 1 - d):
            kappa[d] += K[j + d, :, j]
    return kappa


@frozen
class FittedModel:
    """A model, its one-step predictions of all rows with history, and the past after the last.

    Predictions are the means at the predictors.
    """

    model: Varma
    kappa: Array
    predicted: Array
    predictors: Array
    past: Past
    estimated_radius: float
    scaled: bool  # whether the autoregression was scaled to a smaller spectral radius

    @staticmethod
    def of(problem: ArmaProblem, point: FactorPoint, max_radius: float | None) -> FittedModel:
        """Return the model of a solution, stabilized if its spectral radius is too large."""
        series = problem.series
        specification = problem.specification
        of_residual = specification.loss.of_residual
        kappa = lag_sums(point.factors.dense(), specification.q)
        if specification.shocks:  # which leave no moving average
            kappa = np.zeros_like(kappa)
        model = problem.model(point.coefficients, kappa)
        estimated = radius(model.ar)
        limit = max_radius if max_radius is not None and of_residual else np.inf
        scaled = estimated > limit
        if scaled:
            model = stabilized(model, problem, limit / estimated)
        predictors, past = model.begin(series, problem.smoothed(point))
        if not of_residual:
            model = replace(model, shift=unbiased_shift(model, predictors, series.X))
        return FittedModel(
            model, kappa, model.mean(predictors), predictors, past, estimated, scaled
        )


def stabilized(model: Varma, problem: ArmaProblem, factor: float) -> Varma:
    """Return the model with all companion eigenvalues multiplied by a factor.

    That multiplies ar_i by its i-th power; the intercept takes up what that does to the mean.
    """
    powers = factor ** np.arange(1, len(model.ar) + 1)
    damped = replace(model, ar=model.ar * powers[:, None, None])
    if not problem.specification.intercept:
        return damped
    X = problem.series.X
    U = problem.series.U
    moved = model.linear(X, U) - damped.linear(X, U)
    return replace(damped, intercept=model.intercept + moved.mean(axis=0))


def unbiased_shift(model: Varma, predictors: Array, X: Array) -> Array:
    """Return the best addition to predictors under a link.

    The mean over innovations to come is not the prediction at an innovation of zero.
    """
    seen = np.ascontiguousarray(X[model.start :])
    data = Data.of(seen, model.loss, offset=predictors)
    offsets = Convex(data, Trace(), 1.0, design=Design.intercept(len(seen))).null.coefficients
    assert offsets is not None
    return np.asarray(offsets[0])
