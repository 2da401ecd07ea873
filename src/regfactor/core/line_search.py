"""Backtracking: shorten a step until it is accepted, for one step or for many independent ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from regfactor.core.params import Array

SUFFICIENT_DECREASE = 1e-4  # share of the decrease that the gradient predicts (Armijo 1966)
MAX_ATTEMPTS = 60
T = TypeVar("T")


def backtrack(
    attempt: Callable[[float], T | None],
    length: float = 1.0,
    *,
    factor: float = 0.5,
    max_attempts: int = MAX_ATTEMPTS,
) -> T | None:
    """Return the first result of attempt(length factor^i), i = 0, 1, ..., that is not None.

    `attempt` returns None to reject a length. None is returned if every length is rejected. With a
    factor above one the length is a curvature, the inverse of a step.
    """
    for _ in range(max_attempts):
        found = attempt(length)
        if found is not None:
            return found
        length *= factor
    return None


def backtrack_each(
    accepts: Callable[[Array, Array], Array],
    lengths: Array,
    *,
    factor: float = 0.5,
    max_attempts: int = MAX_ATTEMPTS,
) -> tuple[Array, Array]:
    """Return an accepted length for each of several steps, and the places of steps without one.

    `accepts(open, lengths)` gets the places of the steps that are still searched and their
    lengths, and returns which of them it accepts; the others are multiplied by `factor`.
    """
    lengths = lengths.copy()
    still_open = np.arange(len(lengths))
    for _ in range(max_attempts):
        accepted = accepts(still_open, lengths[still_open])
        still_open = still_open[~accepted]
        if not len(still_open):
            break
        lengths[still_open] *= factor
    return lengths, still_open
