"""Parameters of estimators, declared once as scikit-learn declares them and checked once, with hints.

An estimator states what its parameters may be in `_parameter_constraints`, a dict of lists in
scikit-learn's notation: types, `Interval`, `StrOptions`, `None`, "boolean", "random_state", ...
"""

from __future__ import annotations

from functools import cache
from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import (
    Interval,
    InvalidParameterError,
    StrOptions,
    _Booleans,
    make_constraint,
)

from regfactor.core.params import nearest

POSITIVE = Interval(Real, 0, None, closed="neither")
NON_NEGATIVE = Interval(Real, 0, None, closed="left")
COUNT = Interval(Integral, 1, None, closed="left")
AUTO = StrOptions({"auto"})

# of every estimator that is solved by iteration
RUN_CONSTRAINTS: dict[str, list[Any]] = {
    "max_iter": [COUNT],
    "tol": [NON_NEGATIVE],
    "time_limit": [NON_NEGATIVE, None],
    "verbose": ["verbose"],
    "random_state": ["random_state"],
    "callback": [callable, None],
}


def check_parameters(estimator: Any) -> None:
    """Raise InvalidParameterError, a ValueError, for the first parameter that is not allowed."""
    kind: Any = type(estimator)
    for name, allowed in _constraints(kind).items():
        value = getattr(estimator, name)
        if not any(constraint.is_satisfied_by(value) for constraint in allowed):
            raise InvalidParameterError(_message(estimator, name, value, allowed))


@cache
def _constraints(kind: Any) -> dict[str, list[Any]]:
    declared: dict[str, list[Any]] = kind._parameter_constraints
    return {name: [make_constraint(c) for c in allowed] for name, allowed in declared.items()}


def _described(constraint: Any) -> str:
    """Return what a constraint allows, in scikit-learn's words but for booleans."""
    if isinstance(constraint, _Booleans):
        return "True or False"
    return str(constraint)


def _message(estimator: Any, name: str, value: Any, allowed: list[Any]) -> str:
    """Return scikit-learn's message, with the option that was probably meant."""
    *others, last = [_described(constraint) for constraint in allowed if not constraint.hidden]
    options = f"{', '.join(others)} or {last}" if others else last
    message = (
        f"The {name!r} parameter of {type(estimator).__name__} must be {options}. "
        f"Got {value!r} instead."
    )
    words = {
        word
        for constraint in allowed
        if isinstance(constraint, StrOptions)
        for word in constraint.options
    }
    meant = nearest(value, words) if isinstance(value, str) else None
    if meant is None:
        return message
    return f"{message} Did you mean {meant!r}?"
