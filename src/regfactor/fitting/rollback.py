"""Attributes of an estimator are those of one whole fit: a failed one changes none of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from regfactor.core.params import is_number


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Remove what an earlier fit learned, and restore it if the block raises.

    Fits replace what they learned before and never write into it, so that the attributes alone need
    be kept.
    """
    for name in _flags(estimator.__class__):
        if name in vars(estimator):
            _check_flag(name, vars(estimator)[name])
    before = dict(vars(estimator))
    for name in before:
        if name.endswith("_") and not name.startswith("_"):  # this fit may not set all of them
            del vars(estimator)[name]
    try:
        yield
    except BaseException:  # an interrupt by the user too
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def _check_flag(name: str, value: Any) -> None:
    """Raise unless a parameter is a truth value, zero or one; a word such as "no" would be true."""
    if not (isinstance(value, bool | np.bool_) or (is_number(value) and value in (0, 1))):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


@cache
def _flags(kind: type) -> list[str]:
    """Return the parameters of an estimator that are truth values and nothing else."""
    return [
        name
        for name, p in inspect.signature(kind).parameters.items()
        if p.annotation in (bool, "bool")
    ]
