"""A fit that fails leaves its estimator as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Take back what was set on an estimator if what follows raises: an old model stays whole, a new one unfitted.

    Fits replace what they learned before and never write into it, so that the attributes alone need be kept.
    """
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:  # an interrupt by the user too
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
