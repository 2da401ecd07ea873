"""Numbers as text: a few digits, thousands with commas, powers of ten only where needed."""

from __future__ import annotations

import math

# sizes between which a number is written out
SMALLEST_PLAIN = 1e-4
LARGEST_PLAIN = 1e12
SMALLEST_GAP_SHOWN = 1e-6  # share below which gaps are not distinguished


def number(value: float, digits: int = 3) -> str:
    """Return 34,300 for 34312 and 0.0172 for 0.01719; a dash for what is no number."""
    if not math.isfinite(value):
        return "–"
    rounded = float(f"{value:.{digits}g}")
    if rounded and not SMALLEST_PLAIN <= abs(rounded) < LARGEST_PLAIN:
        return f"{rounded:.{digits}g}"
    places = 0
    if rounded:
        places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:,.{places}f}"
    if "." in text:
        return text.rstrip("0").rstrip(".")
    return text


def at_most(share: float) -> str:
    """Return a small share as a per cent that is not below it, with two digits.

    The least one is 0.0001%.
    """
    percents = 100 * max(share, SMALLEST_GAP_SHOWN)
    unit = 10.0 ** (math.floor(math.log10(percents)) - 1)
    return f"{number(math.ceil(percents / unit * (1 - 1e-12)) * unit, 2)}%"
