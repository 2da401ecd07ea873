"""Parameters of estimators, declared once in scikit-learn's notation and checked with hints.

An estimator states what its parameters may be in `_parameter_constraints`, a dict of lists in
scikit-learn's notation: types, `Interval`, `StrOptions`, `None`, "boolean", "random_state", ...
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Iterator
from functools import cache
from numbers import Integral, Real
from typing import Any, TypeVar, dataclass_transform

import numpy as np
from sklearn.utils._param_validation import (
    Interval,
    InvalidParameterError,
    Options,
    StrOptions,
    _Booleans,
    _InstancesOf,
    make_constraint,
)

from regfactor.core.params import is_number, nearest

T = TypeVar("T")


@dataclass_transform(eq_default=False)
def parametrized(cls: type[T]) -> type[T]:
    """Make the annotated names of an estimator the parameters that its `__init__` stores."""
    dataclasses.dataclass(eq=False, repr=False)(cls)
    # a subclass names all of its own parameters, in its own order
    delattr(cls, "__dataclass_fields__")
    return cls


class NumberInterval(Interval):
    """An interval of numbers without the truth values, which Python counts among integers."""

    def is_satisfied_by(self, val: Any) -> bool:
        """Return whether a value is a number in the interval."""
        return not isinstance(val, bool) and bool(super().is_satisfied_by(val))


POSITIVE = NumberInterval(Real, 0, None, closed="neither")
NON_NEGATIVE = NumberInterval(Real, 0, None, closed="left")
FINITE_POSITIVE = NumberInterval(Real, 0, np.inf, closed="neither")
FINITE_NON_NEGATIVE = NumberInterval(Real, 0, np.inf, closed="left")
COUNT = NumberInterval(Integral, 1, None, closed="left")
AUTO = StrOptions({"auto"})
NOISE_OPTION = StrOptions({"noise"})

# of every estimator that is solved by iteration
RUN_CONSTRAINTS: dict[str, list[Any]] = {
    "max_iter": [COUNT],
    "tol": [NON_NEGATIVE],
    "time_limit": [NON_NEGATIVE, None],
    "verbose": ["verbose"],
    "random_state": ["random_state"],
    "callback": [callable, None],
    "n_jobs": [COUNT, Options(Integral, {-1}), None],
}


def check_parameters(estimator: Any) -> None:
    """Raise InvalidParameterError, a ValueError, for the first parameter that is not allowed."""
    kind: Any = type(estimator)
    for name, allowed in _constraints(kind).items():
        try:
            value = getattr(estimator, name)
        except AttributeError:
            raise AttributeError(
                f"{kind.__name__} has no parameter {name!r}, which its _parameter_constraints "
                f"declare: add it to __init__, or fix it by an attribute of the class, {name} = ..."
            ) from None
        for constraint in allowed:
            if constraint.is_satisfied_by(value):
                break
        else:
            raise InvalidParameterError(_message(kind, name, value, allowed))


@cache
def _constraints(kind: Any) -> dict[str, list[Any]]:
    declared: dict[str, list[Any]] = getattr(kind, "_parameter_constraints", {})
    return {name: [make_constraint(c) for c in allowed] for name, allowed in declared.items()}


def _message(kind: type, name: str, value: Any, allowed: list[Any]) -> str:
    """Return scikit-learn's message, and what was probably meant."""
    *others, last = [_described(constraint) for constraint in allowed if not constraint.hidden]
    options = last
    if others:
        options = f"{', '.join(others)} or {last}"
    return (
        f"The {name!r} parameter of {kind.__name__} must be {options}. "
        f"Got {reprlib.repr(value)} instead.{_hint(value, allowed)}"
    )


def _described(constraint: Any) -> str:
    """Return what a constraint allows, in scikit-learn's words where they are plain."""
    if isinstance(constraint, _Booleans):
        return "True or False"
    if isinstance(constraint, _InstancesOf):
        return f"a {constraint.type.__name__}"
    if isinstance(constraint, StrOptions):
        return " or ".join(map(repr, sorted(constraint.options)))
    return str(constraint)


def _hint(value: Any, allowed: list[Any]) -> str:
    """Return a sentence on what was probably meant: an instance of a class, or a similar option."""
    parts = [constraint.type for constraint in allowed if isinstance(constraint, _InstancesOf)]
    if isinstance(value, type):
        if any(issubclass(value, part) for part in parts):
            return f" Give an instance: {value.__name__}()."
        return ""
    if callable(value) and any(part.__name__ == "Loss" for part in parts):
        return (
            " A loss of your own is a class that states its derivatives too: subclass "
            "regfactor.losses.robust.Residual, as the guide 'Parts of your own' shows."
        )
    if not isinstance(value, str):
        return ""
    word = nearest(value, _options(allowed))
    if word is not None:
        return f" Did you mean {word!r}?"
    classes = [own.__name__ for part in parts for own in _subclasses(part)]
    name = nearest(value, classes)
    if name is not None:
        return f" Did you mean {name}()?"
    return ""


def _options(allowed: list[Any]) -> Iterator[str]:
    """Yield the strings that constraints allow."""
    for constraint in allowed:
        if isinstance(constraint, StrOptions):
            yield from constraint.options


def _subclasses(part: Any) -> Iterator[Any]:
    """Yield the subclasses of a part in this library."""
    for own in part.__subclasses__():
        if own.__module__.startswith("regfactor."):
            yield own
            yield from _subclasses(own)


def require_at_least(name: str, value: object, least: int) -> None:
    """Raise unless a value is a whole number that is large enough."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}.")


def check_level(level: object) -> None:
    """Raise unless a level is a number between 0 and 1."""
    if not (is_number(level) and 0 < level < 1):
        raise ValueError(f"level must lie between 0 and 1, such as 0.9; got {level!r}.")
