"""A fit that fails leaves its estimator as it was; one that succeeds leaves nothing of an earlier one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Fit anew, and take all back if what follows raises: an old model stays whole, a new one unfitted.

    Fits replace what they learned before and never write into it, so that the attributes alone need be kept.
    """
    before = dict(vars(estimator))
    for name in [n for n in before if n.endswith("_") and not n.startswith("_")]:  # this fit may not set all of them
        del vars(estimator)[name]
    try:
        yield
    except BaseException:  # an interrupt by the user too
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
