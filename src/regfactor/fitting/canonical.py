"""Factors in the form that is published: ordered, merged, signed, without solver noise."""

from __future__ import annotations

import numpy as np

from regfactor.core.factors import Factors
from regfactor.core.params import Array

SAME_COMPONENT = 10  # decimals in which equal components agree
TINY_ATOM = 1e-7  # atoms whose codes are this much smaller than the largest are solver noise


def with_unit_rows(F: Factors) -> Factors:
    """Return the same Z with components of length one, their sizes in the codes."""
    size = np.linalg.norm(F.C, axis=1)
    return Factors(F.codes * size, F.C / size[:, None])


def canonical_factors(F: Factors, power: float) -> Factors:
    """Return the atoms by falling size, the largest entry of each component positive.

    Sizes are those of the norm of a power on the codes, the Euclidean where it has none; atoms that
    are solver noise are left out.
    """
    codes, C = _merged(F.codes, F.C)
    if np.isnan(power):
        power = 2.0
    size = np.linalg.norm(codes, ord=power, axis=0) * np.linalg.norm(C, axis=1)
    order = np.argsort(-size, kind="stable")
    order = order[size[order] > TINY_ATOM * size.max(initial=0)]
    codes = codes[:, order]
    C = C[order]
    sign = np.sign(np.take_along_axis(C, np.abs(C).argmax(axis=1)[:, None], axis=1))
    return Factors(np.ascontiguousarray(codes * sign[:, 0]), np.ascontiguousarray(C * sign))


def _merged(codes: Array, C: Array) -> tuple[Array, Array]:
    """Return the factors with equal components, as equal rows of a table have, merged into one."""
    directions = C / np.abs(C).max(axis=1, keepdims=True)
    rounded = directions.round(SAME_COMPONENT)
    _, first, group = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    if len(first) == len(C):
        return codes, C
    joined = np.zeros((len(codes), len(first)), codes.dtype)
    np.add.at(joined.T, group.ravel(), codes.T)
    order = np.argsort(first)
    return joined[:, order], C[first[order]]
