"""Exponentials and logarithms of exponentials that stay finite for any exponent."""

from __future__ import annotations

import numpy as np

from regfactor.core.params import Array

# exp of a larger exponent would overflow once squared
MAX_EXPONENT = 300.0
MAX_EXPONENT_SINGLE = 40.0
# by bytes of a number: exp of a larger exponent would overflow once added up over some rows
MAX_FINITE_EXPONENT = {8: 700.0, 4: 85.0}


def bounded_exp(z: Array, out: Array | None = None) -> Array:
    """Return exp(z) for z up to a bound beyond which only the order of magnitude matters."""
    return np.exp(clip_exponent(z, out=out), out=out)


def clip_exponent(z: Array, out: Array | None = None) -> Array:
    """Return min(z, the largest exponent of its precision); z itself where nothing is clipped."""
    z = np.asarray(z)
    bound = MAX_EXPONENT_SINGLE if z.dtype == np.float32 else MAX_EXPONENT
    if z.max(initial=-np.inf) <= bound:
        return z
    return np.minimum(z, bound, out=out)


def exp_with_tangent(z: Array) -> Array:
    """Return exp(z), continued by its tangent beyond the bound, which exceeds any multiple of z."""
    clipped = clip_exponent(z)
    if clipped is z:
        return np.exp(z)
    return np.exp(clipped) * (1 + (clip_to_root_of_max(z) - clipped))


def clip_to_root_of_max(z: Array) -> Array:
    """Return z up to where that tangent, and any multiple of z, is still finite."""
    return np.minimum(z, np.sqrt(np.finfo(np.asarray(z).dtype).max))


def finite_exp(z: Array) -> Array:
    """Return exp(z) in the precision of z, clipped at the largest exponent that is finite there."""
    powers = np.minimum(z, z.dtype.type(MAX_FINITE_EXPONENT[z.dtype.itemsize]))
    return np.exp(powers, out=powers)


def softplus(z: Array) -> Array:
    """Return log(1 + exp(z)) without overflow."""
    return np.logaddexp(np.zeros((), z.dtype), z)


def expand_sigmoid(z: Array, value: Array, first: Array, second: Array) -> None:
    """Write log(1 + e^z) = max(z, 0) + log(1 + e^-|z|), p = sigmoid(z) and p (1 - p) = q r.

    Here q = 1 / (1 + e^-|z|) and r = 1 - q. p = r + (q - r) [z >= 0] loses no precision and has no
    branch on z, which would be mispredicted half of the time.
    """
    np.negative(np.abs(z, out=second), out=second)
    np.exp(second, out=second)
    np.log1p(second, out=value)
    value += np.maximum(z, 0)
    likelier = np.add(second, 1)
    np.reciprocal(likelier, out=likelier)
    second *= likelier
    np.subtract(likelier, second, out=first)
    first *= z >= 0
    first += second
    second *= likelier
