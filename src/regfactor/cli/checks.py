"""Checks for numbers that no model can use, and for numbers that may mark missing cells."""

from __future__ import annotations

import numpy as np

from regfactor.cli.errors import BadInput
from regfactor.core.params import Array

LARGEST_NUMBER = 1e100  # larger ones have no square
# interquartile ranges from the median of a column, beyond which the others lose all precision
MAX_DISTANCE = 1e10
MIN_MARKS = 3  # times that a number occurs in a column, from which on it may mark missing cells


def check_finite(name: str, values: Array) -> None:
    """Raise for infinite numbers, and for numbers whose square is infinite."""
    numbers = np.asarray(values, dtype=float)
    wrong = np.flatnonzero(np.abs(numbers) > LARGEST_NUMBER)
    if len(wrong):
        raise BadInput(
            f"Column {name!r} holds {numbers[wrong[0]]:g} in row {wrong[0] + 1}, which no model "
            "can square. Rescale the column, leave the cell empty, or leave the column out by "
            f"--ignore {name!r}."
        )


def check_spread(name: str, values: Array) -> None:
    """Raise for a number so far from the others that their differences lose all precision."""
    numbers = values[~np.isnan(values)]
    if len(numbers):
        low, middle, high = np.quantile(numbers, (0.25, 0.5, 0.75))
    else:
        low, middle, high = (0.0, 0.0, 0.0)
    far = np.abs(values - middle) > MAX_DISTANCE * (high - low)
    if high > low and far.any():
        row = int(far.argmax())
        raise BadInput(
            f"Column {name!r} holds {values[row]:g} in row {row + 1}, where others differ by about "
            f"{high - low:.3g}: that is surely no measurement. Correct it, leave the cell empty, "
            f"or leave the column out by --ignore {name!r}."
        )


def mark_of_missing(values: Array) -> tuple[int, int] | None:
    """Return a number of nines far from all others, such as -99, that may mark missing cells."""
    seen = values[~np.isnan(values)]
    for end in np.unique(seen)[[0, -1]] if len(seen) else ():
        others = seen[seen != end]
        count = int(np.count_nonzero(seen == end))
        if (
            float(end).is_integer()
            and set(f"{abs(end):.0f}") == {"9"}
            and count >= MIN_MARKS
            and len(others)
        ):
            gap = np.abs(others - end).min()
            if gap > np.ptp(others):
                return int(end), count
    return None
