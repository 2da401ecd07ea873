"""What is asked of the parameters and tables of supervised nonlinear factorization, and the units it works in."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler

from regfactor.core.params import (
    Array,
    choose,
    is_number,
    require_count,
    require_not_negative,
    require_positive,
)
from regfactor.fitting.factor_estimator import _check_limits
from regfactor.fitting.targets import Targets
from regfactor.kernels import widths
from regfactor.labels.latent.fit import Settings

KERNELS = {"poly": False, "linear": False, "rbf": True}
CONSTRAINTS = {"linear": "linear", "kernel": "kernel"}
SOLVERS = {"lbfgs": False, "paper": True}


def check_parameters(model: Any) -> None:
    """Raise for parameters that are none."""
    require_positive(
        model,
        lambda_x=model.lambda_x,
        lambda_y=model.lambda_y,
        lambda_z=model.lambda_z,
        learning_rate=model.learning_rate,
    )
    require_not_negative(model, target_weight=model.target_weight)
    require_count(model, degree=model.degree, n_random_features=model.n_random_features)
    if model.clip is not None:
        require_not_negative(model, clip=model.clip)
    if not isinstance(model.kernel, str):
        raise ValueError(
            f"kernel must be 'poly', 'rbf' or 'linear', since latent rows move; got {model.kernel!r}.",
        )
    choose(model.kernel, KERNELS, "kernel")
    if model.back_constraint is not None:
        choose(model.back_constraint, CONSTRAINTS, "back_constraint")
    if choose(model.solver, SOLVERS, "solver") and model.back_constraint is not None:
        raise ValueError("solver='paper' moves latent rows freely; it needs back_constraint=None.")
    widths.check(model, model.gamma)
    if not isinstance(model.max_iter, int | np.integer) or model.max_iter < 0:
        raise ValueError(f"max_iter must be a whole number >= 0, got {model.max_iter!r}.")
    _check_limits(_Limits(model))


class _Limits:
    """The limits of a run with at least one iteration, since none is legal here."""

    def __init__(self, model: Any) -> None:
        self.max_iter = max(model.max_iter, 1)
        self.tol = model.tol
        self.time_limit = model.time_limit
        self.callback = model.callback


def settings_of(model: Any, n_features: int) -> Settings:
    """Return the numbers that a fit needs."""
    return Settings(
        n_dimensions(model.n_components, n_features),
        choose(model.kernel, KERNELS, "kernel"),
        1 if model.kernel == "linear" else int(model.degree),
        model.back_constraint,
        model.lambda_x,
        model.lambda_y,
        model.lambda_z,
        model.target_weight,
        int(model.max_iter),
        model.gamma,
        model.n_random_features,
        model.learning_rate if model.solver == "paper" else None,
        model.tol,
    )


def n_dimensions(n_components: float | int, n_features: int) -> int:
    """Return the number of latent dimensions; raise for a share or number that is none."""
    if (
        is_number(n_components)
        and isinstance(n_components, float | np.floating)
        and 0 < n_components <= 1
    ):
        return max(1, round(float(n_components) * n_features))
    if (
        isinstance(n_components, int | np.integer)
        and 1 <= n_components <= n_features
        and is_number(n_components)
    ):
        return int(n_components)
    raise ValueError(
        f"n_components must be a share in (0, 1] or a whole number from 1 to the {n_features} inputs, "
        f"got {n_components!r}.",
    )


def check_targets(targets: Targets, counted: Array) -> None:
    """Raise where a target has no value to learn from."""
    given = ~np.isnan(targets.table[counted]).all(axis=0)
    if not given.all():
        raise ValueError(
            f"Input y contains NaN in every row of positive weight of target column "
            f"{targets.names[int(np.argmin(given))]}: there is nothing to learn it from. Give at least one value, or "
            "leave the column out.",
        )


def check_columns(X: Array) -> None:
    """Raise where an input was never seen."""
    empty = np.isnan(X).all(axis=0)
    if empty.any():
        raise ValueError(
            f"Input column {int(np.argmax(empty))} of X has no value in any row; leave it out.",
        )


def scalers(scale: bool, X: Array, Y: Array) -> tuple[Any, Any]:
    """Return what brings inputs and targets to [-1, 1], or leaves them; arrays whatever `transform_output` says."""
    kind = MinMaxScaler((-1, 1)) if scale else FunctionTransformer()
    return tuple(clone(kind).set_output(transform="default").fit(table) for table in (X, Y))


def limits(Y: Array, clip: float | None) -> tuple[Array, Array]:
    """Return between what predictions are held."""
    low = np.nanmin(Y, axis=0)
    high = np.nanmax(Y, axis=0)
    if clip is None:
        return np.full_like(low, -np.inf), np.full_like(high, np.inf)
    return low - clip * (high - low), high + clip * (high - low)
