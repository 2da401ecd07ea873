"""Forecasters of vector series behind one call: ours, the thesis' comparators, and those of statsmodels."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regfactor import AutoForecaster, RegularizedARMA
from regfactor.baselines.timeseries import HSEHMM, N4SID, HannanRissanen
from regfactor.series.arma.criteria import aicc
from regfactor.series.arma.model import Series, radius
from regfactor.series.arma.problem import ArmaProblem, FittedModel, Specification
from regfactor.solvers import solve

Array = np.ndarray
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1)
# with a small lam a strong ridge leaves nothing of the autoregression (spec rarma 8)
WITH_MA = (
    1e-4,
    1e-3,
    1e-2,
)
SHRINKAGES = (0.5, 0.2, 0.1, 0.05, 0.02)
OURS = "AutoForecaster(), ours"
LAST = 0.1  # of the training rows, on which settings are compared, as in the thesis
EM_STEPS = 200
EM_TOL = 1e-6  # relative change of the log likelihood
# of a standardized series: as many principal components as series leave no noise to start with,
# and EM would stay there
EM_START_NOISE = 0.1


@dataclass(frozen=True)
class Search:
    """Orders that are tried: of autoregressions, of moving averages.

    The lags of EM-Kalman's factors are given.
    """

    orders: tuple[int, ...] = (1, 2, 3, 4, 6)
    lags: tuple[int, ...] = (1, 2, 4)
    factor_lags: int = 1


@dataclass(frozen=True, eq=False)
class Outcome:
    """A forecast, the spectral radius of what was iterated, what was chosen, and the forecast with roots scaled."""

    forecast: Array
    radius: float | None = None
    chosen: dict[str, Any] = field(default_factory=dict)
    capped: Array | None = None


Forecaster = Callable[[Array, int, Search], Outcome]


def statsmodels(module: str) -> Any:
    """Import a module of statsmodels, which experiments need and the library does not."""
    try:
        return importlib.import_module(f"statsmodels.{module}")
    except ImportError as error:
        raise ImportError(
            "This row is computed by statsmodels, which is not installed: pip install statsmodels."
        ) from (error)


def mean(X: Array, horizon: int, search: Search) -> Outcome:
    """Forecast the mean of the past."""
    return Outcome(np.tile(X.mean(axis=0), (horizon, 1)), 0.0)


def subspace(X: Array, horizon: int, search: Search) -> Outcome:
    """N4SID, its order by BIC."""
    model = N4SID().fit(X)
    return Outcome(model.forecast(horizon), model.radius_, {"order": model.order_})


def embedded_chain(X: Array, horizon: int, search: Search) -> Outcome:
    """HSE-HMM; it has no roots."""
    return Outcome(HSEHMM().fit(X).forecast(horizon))


def em_kalman(X: Array, horizon: int, search: Search) -> Outcome:
    """EM for x = L f + noise, f being one vector autoregression of given order in as many factors as series."""
    fitted = factor_autoregression(X, search.factor_lags, EM_STEPS)
    roots = np.linalg.eigvals(fitted.filter_results.transition[..., 0])
    steps = {"steps": int(fitted.mle_retvals["iter"])}
    return Outcome(np.asarray(fitted.forecast(horizon)), float(np.abs(roots).max()), steps)


def factor_autoregression(X: Array, order: int, steps: int) -> Any:
    """Return the fit by EM of one block of factors, where a number of factors would be single ones.

    From the components that statsmodels starts from, but with noise.
    """
    model = statsmodels("tsa.statespace.dynamic_factor_mq").DynamicFactorMQ(
        X,
        factors=1,
        factor_multiplicities=X.shape[1],
        factor_orders=order,
        idiosyncratic_ar1=False,
    )
    start = np.array(model.start_params)
    noises = [i for i, name in enumerate(model.param_names) if name.startswith("sigma2")]
    start[noises] = np.maximum(start[noises], EM_START_NOISE)
    return model.fit(start, maxiter=steps, tolerance=EM_TOL, disp=False)


def autoregression(criterion: str) -> Forecaster:
    """statsmodels' VAR with an intercept.

    BIC is its own, AICc follows from its AIC by the formula.
    """

    def forecaster(X: Array, horizon: int, search: Search) -> Outcome:
        model, n, largest = statsmodels("tsa.api").VAR(X), X.shape[1], max(search.orders)
        while largest > 1 and len(X) - largest < (largest + 1) * n + 2:
            largest -= 1
        found = model.select_order(largest, trend="c").ics
        rows, orders = len(X) - largest, np.arange(1, largest + 1)
        scores = np.array(found["bic"])[-largest:]
        if criterion == "aicc":
            sizes = np.array(found["aic"])[-largest:] - 2 / rows * (orders * n**2 + n)
            scores = np.array(
                [aicc(size, rows, n, p * n + 1) for size, p in zip(sizes, orders, strict=True)]
            )
        p = int(orders[np.argmin(scores)])
        fitted = model.fit(p, trend="c")
        return Outcome(fitted.forecast(X[-p:], horizon), radius(fitted.coefs), {"p": p})

    return forecaster


def varmax(X: Array, horizon: int, search: Search) -> Outcome:
    """statsmodels' VARMAX(1, 1) by maximum likelihood, at most 50 iterations."""
    model = statsmodels("tsa.statespace.varmax").VARMAX(X, order=(1, 1), trend="c")
    fitted = model.fit(maxiter=50, disp=False)
    return Outcome(np.asarray(fitted.forecast(horizon)), radius(fitted.coefficient_matrices_var))


def hannan_rissanen(criterion: str) -> Forecaster:
    """Hannan-Rissanen with orders up to 4 by a criterion; nothing keeps it stable."""

    def forecaster(X: Array, horizon: int, search: Search) -> Outcome:
        model = HannanRissanen(criterion=criterion).fit(X)
        return Outcome(model.forecast(horizon), model.radius_, {"p": model.p_, "q": model.q_})

    return forecaster


def stated_arma(p: int | str = "bic", q: int | str = "auto", **given: Any) -> RegularizedARMA:
    """Return the model of the thesis: no differences, no season, fixed shrinkage and ridge."""
    fixed = {"d": 0, "season": 1, "shrinkage": 0.1, "ridge": 1e-3}
    return RegularizedARMA(p, q, **(fixed | given))


def fitted_arma(X: Array, p: int, q: int, strength: float, tol: float = 1e-4) -> FittedModel:
    """RARMA(p, q) of the thesis at alpha = strength * alpha_max, roots capped at 1.

    With q = 0, too, innovations of the same time stay; at strength 1 there are none.
    """
    problem = ArmaProblem.of(Series.of(X, np.zeros((len(X), 0))), Specification(p, q))
    problem = problem.at(strength * problem.alpha_max())
    return FittedModel.of(problem, solve(problem, tol=tol).point, 1.0)


def iterated(fitted: FittedModel, horizon: int) -> Array:
    """Return the forecasts of a fitted model."""
    n = len(fitted.model.intercept)
    innovations = np.zeros((1, horizon, n))
    return fitted.model.paths(fitted.past, np.zeros((horizon, 0)), innovations)[0]


def shipped(**given: Any) -> Forecaster:
    """RegularizedARMA as stated there, but for what is given."""

    def forecaster(X: Array, horizon: int, search: Search) -> Outcome:
        model = stated_arma(**given).fit(X)
        chosen = {"p": model.p_, "q": model.q_, "shrinkage": model.shrinkage_}
        return Outcome(model.forecast(horizon).mean, model.radius_, chosen)

    return forecaster


def our_default(X: Array, horizon: int, search: Search) -> Outcome:
    """AutoForecaster with nothing set; it has no roots."""
    return Outcome(AutoForecaster().fit(X).forecast(horizon).mean)


def our_arma(X: Array, horizon: int, search: Search) -> Outcome:
    """RegularizedARMA with nothing set: differences, season, ridge and shrinkage are chosen."""
    model = RegularizedARMA().fit(X)
    chosen = {"p": model.p_, "q": model.q_, "d": model.d_, "season": model.season_}
    return Outcome(model.forecast(horizon).mean, model.radius_, chosen)


def tuned_ridge(X: Array, horizon: int, search: Search) -> Outcome:
    """Ridge VAR, order and ridge by the last tenth of the past."""
    return final(best(X, ridge_settings(search)), X, horizon)


def tuned_arma(X: Array, horizon: int, search: Search) -> Outcome:
    """RegularizedARMA by the last tenth: the best ridge VAR, or moving averages with its order or half of it."""
    first = best(X, ridge_settings(search))
    orders = sorted({first["p"], (first["p"] + 1) // 2})
    grid = itertools.product(orders, search.lags, WITH_MA, SHRINKAGES)
    others = ({"p": p, "q": q, "ridge": ridge, "shrinkage": share} for p, q, ridge, share in grid)
    return final(best(X, [first, *others]), X, horizon)


def ridge_settings(search: Search) -> list[dict[str, Any]]:
    """All ridge VARs that are tried."""
    return [
        {"p": p, "q": 0, "ridge": ridge, "shrinkage": 1.0}
        for p in search.orders
        for ridge in RIDGES
    ]


def best(X: Array, settings: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the setting that, fitted to the first nine tenths, forecasts the last one best from its start."""
    cut = len(X) - max(int(LAST * len(X)), 1)

    def error(setting: dict[str, Any]) -> float:
        model = stated_arma(**setting, max_radius=None, tol=1e-3).fit(X[:cut])
        with np.errstate(over="ignore", invalid="ignore"):  # an unstable one loses
            size = np.square(model.forecast(len(X) - cut).mean - X[cut:]).mean()
        return float(size) if np.isfinite(size) else np.inf

    return min(settings, key=error)


def final(setting: dict[str, Any], X: Array, horizon: int) -> Outcome:
    """Fit a chosen setting to all rows, with the roots as they are and, where they exceed one, scaled."""
    model = stated_arma(**setting, max_radius=None).fit(X)
    forecast = model.forecast(horizon).mean
    capped = (
        stated_arma(**setting, max_radius=1.0).fit(X).forecast(horizon).mean
        if model.radius_ > 1
        else forecast
    )
    return Outcome(forecast, model.radius_, setting, capped)


METHODS: dict[str, Forecaster] = {
    "MEAN": mean,
    "N4SID": subspace,
    "EM-Kalman": em_kalman,
    "HSE-HMM": embedded_chain,
    "AR(AICc)": autoregression("aicc"),
    "AR(BIC)": autoregression("bic"),
    "HR(AICc)": hannan_rissanen("aicc"),
    "HR(BIC)": hannan_rissanen("bic"),
    "ridge VAR, tuned": tuned_ridge,
    "RARMA, tuned": tuned_arma,
    "ridge VAR, BIC": shipped(shrinkage=1.0),
    "RARMA, BIC": shipped(),
    "RARMA, BIC, auto": shipped(shrinkage="auto"),
    "RegularizedARMA(), ours": our_arma,
    OURS: our_default,
}
WORDS = {  # what is said of rows, where they are in the table
    "RARMA, tuned": (
        "*Tuned* rows choose by one forecast of the last tenth of the training rows, as the "
        "thesis does: orders and ridge of the ridge VAR; then RARMA takes that ridge VAR or "
        "any of a grid of moving averages (its order or half of it). Their roots stay as they "
        "are; *+ roots scaled* is the same fit with its spectral radius capped at 1."
    ),
    "RARMA, BIC": (
        "*BIC* rows have the order by BIC, q = min(p, 2), roots capped, ridge 1e-3; with shrinkage "
        "1 (ridge VAR), 0.1 (RARMA) or chosen by one-step errors on the last quarter (auto)."
    ),
    OURS: (
        "Rows marked *ours* are this library's defaults of today, with nothing set, and not the "
        "thesis': `AutoForecaster()`, an average of many models, and `RegularizedARMA()`, which "
        "chooses differences, season, orders, ridge and shrinkage."
    ),
    "EM-Kalman": (
        "EM-Kalman is statsmodels' DynamicFactorMQ: as many factors as series, which are one "
        f"vector autoregression, and at most {EM_STEPS} steps of EM, to a relative change of the "
        f"log likelihood of {EM_TOL:g}, from statsmodels' start but with noise of a tenth of the "
        "variance: its own start has none when there are as many factors as series, and EM stays "
        "there (on five series 24 to 109 below in log likelihood, after 500 steps of each)."
    ),
    "AR(BIC)": "AR is statsmodels' VAR with an intercept, of order 1 at least.",
    "N4SID": "N4SID, HSE-HMM and HR are `regfactor.baselines.timeseries`.",
}


def legend(names: Iterable[str]) -> str:
    """Return what there is to say of the rows of a table."""
    return " ".join(words for name, words in WORDS.items() if name in set(names))
