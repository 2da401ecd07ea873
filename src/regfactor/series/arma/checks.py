"""What a vector ARMA model is asked for, checked before anything is computed."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from regfactor.core.params import Array, is_number, is_option, require_not_negative, warn
from regfactor.fitting.factor_estimator import _check_limits
from regfactor.losses import Loss, as_loss
from regfactor.series.arma.fit import (
    Fitted,
    Plan,
    Series,
    choose_order,
    interpolated,
    largest_order,
)


def require_whole(name: str, value: object, least: int) -> None:
    """Raise unless a value is a whole number that is large enough."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}.")


def checked_loss(estimator: Any) -> Loss:
    """Return the loss, after a look at every parameter of the constructor."""
    _check_limits(estimator)
    for name, word in (("p", "bic"), ("q", "auto")):
        value = getattr(estimator, name)
        if not (isinstance(value, str) and value == word):
            if isinstance(value, str):
                raise ValueError(f"{name} must be a whole number >= 0 or {word!r}, got {value!r}.")
            require_whole(name, value, 0)
    require_whole("d", estimator.d, 0)
    require_whole("exog_lags", estimator.exog_lags, 0)
    require_not_negative(estimator, ridge=estimator.ridge)
    shrinkage = estimator.shrinkage
    if not is_option(shrinkage, "auto") and not (is_number(shrinkage) and 0 < shrinkage < np.inf):
        raise ValueError(f"shrinkage must be a positive number or 'auto', got {shrinkage!r}.")
    if estimator.max_radius is not None and not (
        is_number(estimator.max_radius) and estimator.max_radius > 0
    ):
        raise ValueError(
            f"max_radius must be a positive number or None, got {estimator.max_radius!r}.",
        )
    loss = as_loss(estimator.loss)
    if len(loss.parts(1)) != 1 or loss.rowwise or not loss.smooth or not loss.unbounded:
        raise ValueError(
            f"RegularizedARMA needs one smooth elementwise loss on the whole line, got {loss}. Use "
            "'squared', 'huber', 'smoothed_l1', 'poisson' or 'logistic'.",
        )
    if not loss.of_residual and estimator.d:
        raise ValueError(f"Differences of a series are not in the domain of {loss}; use d=0.")
    return loss


def checked_plan(estimator: Any, levels: Array, U: Array, loss: Loss) -> Plan:
    """Return the plan with its orders chosen, or say why the series is too short for them."""
    rows, n = levels.shape
    holes = np.isnan(levels)
    if holes.any() and not loss.of_residual:
        raise ValueError(f"X has missing values, which {loss} does not take here; fill them first.")
    if holes.all(axis=0).any():
        raise ValueError(
            f"Column {int(holes.all(axis=0).argmax())} of X has no observed value; leave it out.",
        )
    lags = int(estimator.exog_lags) if U.shape[1] else 0
    usable = rows - estimator.d
    p = estimator.p
    if isinstance(p, str):
        if usable > lags:
            most = largest_order(usable, n, (lags + 1) * U.shape[1], lags)
        else:
            most = 0
        series = Series.of(interpolated(levels), U, estimator.d)
        if usable > lags + 1:
            p = choose_order(series, lags, estimator.intercept, most)
        else:
            p = 0
    q = min(p, 2) if isinstance(estimator.q, str) else estimator.q
    if usable - max(p, lags) < 2:
        raise ValueError(
            f"X has {rows} rows (n_samples={rows}); with p={p}, d={estimator.d} and exog_lags={lags} at "
            f"least {max(p, lags) + estimator.d + 2} are needed. Lower the orders.",
        )
    return Plan(
        int(p),
        int(q),
        int(estimator.d),
        lags,
        bool(estimator.intercept),
        float(estimator.ridge),
        loss,
        bool(estimator.shocks),
        bool(estimator.standardize),
        estimator.max_radius,
    )


def checked_inputs(exog: Any, rows: int, expected: int | None) -> Array:
    """Return inputs for so many rows; `expected` is how many the fitted model has."""
    if exog is None:
        if expected:
            raise ValueError(
                f"The model was fitted with {expected} inputs; give their values for {rows} rows as exog.",
            )
        return np.zeros((rows, 0))
    if expected == 0:
        raise ValueError("The model was fitted without inputs; leave exog out.")
    U = np.asarray(exog, dtype=float) if np.ndim(exog) == 1 else exog
    U = check_array(U.reshape(-1, 1) if np.ndim(U) == 1 else U, dtype=np.float64, input_name="exog")
    if len(U) != rows or (expected is not None and U.shape[1] != expected):
        wanted = (rows, "any number of" if expected is None else expected)
        raise ValueError(
            f"exog has shape {U.shape}; it needs {wanted[0]} rows and {wanted[1]} columns.",
        )
    return np.asarray(U)


def warn_of(estimator: Any, fit: Fitted) -> None:
    """Warn of roots that were scaled, and of a run that ended before the tolerance."""
    if fit.scaled:
        warn(
            f"The autoregression has spectral radius {fit.radius:.4g} > max_radius={estimator.max_radius:g}, so that "
            "forecasts would grow without end; its roots were scaled. Difference the series (d=1), raise max_radius, "
            "or set it to None.",
        )
    if not fit.solution.status.converged:
        warn(
            f"{type(estimator).__name__} did not converge: {fit.solution.status.message}. Relative gap "
            f"{fit.solution.relative_gap:.2g}, tol {estimator.tol:g}.",
            ConvergenceWarning,
        )
