"""Exponentials and logarithms of them that stay numbers, however large the exponent."""

from __future__ import annotations

import numpy as np

from regfactor.core.params import Array

MAX_EXPONENT = 300.0  # exp of more would overflow once squared
MAX_EXPONENT_SINGLE = 40.0  # the same in float32
LAST_EXPONENT = {
    8: 700.0,
    4: 85.0,
}  # by bytes of a number: exp of more would overflow once added up over some rows


def bounded_exp(z: Array, out: Array | None = None) -> Array:
    """Return exp(z) for z up to a bound beyond which only the order of magnitude matters."""
    return np.exp(bounded(z, out=out), out=out)


def bounded(z: Array, out: Array | None = None) -> Array:
    """Return z up to the bound of exponents in its precision: itself, where that holds, which is soon seen."""
    if (z := np.asarray(z)).dtype == np.float32:
        most = MAX_EXPONENT_SINGLE
    else:
        most = MAX_EXPONENT
    if z.max(initial=-np.inf) <= most:
        return z
    return np.minimum(z, most, out=out)


def rising_exp(z: Array) -> Array:
    """Return exp(z), and beyond the bound of exponents its tangent there, which outweighs any multiple of z."""
    inner = bounded(z)
    if inner is z:
        return np.exp(z)
    return np.asarray(np.exp(inner) * (1 + (tamed(z) - inner)))


def tamed(z: Array) -> Array:
    """Return z up to where that tangent, and any multiple of z, is still a number."""
    return np.minimum(z, np.sqrt(np.finfo(np.asarray(z).dtype).max))


def wide_exp(z: Array) -> Array:
    """Return exp(z) in the precision of z, for z up to the last that is a number there."""
    powers = np.minimum(z, z.dtype.type(LAST_EXPONENT[z.dtype.itemsize]))
    return np.asarray(np.exp(powers, out=powers))


def softplus(z: Array) -> Array:
    """Return log(1 + exp(z)) without overflow."""
    return np.logaddexp(np.zeros((), z.dtype), z)
