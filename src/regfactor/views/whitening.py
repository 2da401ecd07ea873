"""Whiteners of a centered table: A with A'(X'X + ridge I)A = I."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from regfactor.core.linalg import gram
from regfactor.core.params import EPS, Array, frozen
from regfactor.views.centered import Centered, Shifted

# of a factor of a Gram matrix; beyond it squares lose too much precision to cancellation
MAX_CONDITION = 3e4
# ratio of the lengths of columns up to which a projection keeps its precision
MAX_LENGTH_RATIO = 1e6
NOISE_FACTOR = 8  # roundings of a datum that a direction of a table may be made of
# of scores of length one, by coefficients of least norm: up to here what was left out is null
MAX_SHIFT = 1e-4


@frozen
class Whitener:
    """A with A'(X'X + ridge I)A = I on the row space of X.

    `precise_gram` is whether X'X has kept the precision of X.
    """

    A: Array
    precise_gram: bool


def whitener(table: Centered, ridge: float) -> Whitener:
    """Return a whitener, by Cholesky where X'X is precise enough, else without null directions."""
    X = table.values
    n, p = X.shape
    if p <= n:
        A = cholesky_whitener(_gram(X), ridge, table.units.noise)
        if A is not None:
            return Whitener(A, True)
    if ridge == 0:
        return Whitener(_row_space(table), False)
    s, V = _right_vectors(X, np.zeros(p))
    return Whitener(V / np.sqrt(np.square(s) + ridge), False)


def cholesky_whitener(G: Array, ridge: float, noise: Array) -> Array | None:
    """Return A with A'(G + ridge I)A = I; None where the squares in G have lost too much precision.

    G is factored in units in which its columns have length one: then a small one is as good as a
    large one.
    """
    lengths = np.sqrt(np.maximum(G.diagonal(), 0) + ridge)
    if not lengths.all():
        return None
    scaled = G / lengths
    scaled /= lengths[:, None]
    scaled.flat[:: len(scaled) + 1] = 1.0
    L, failed = scipy.linalg.lapack.dpotrf(scaled.T, lower=True, overwrite_a=True)
    if failed:
        return None
    inverse, failed = scipy.linalg.lapack.dtrtri(L, lower=True, overwrite_c=True)
    limit = MAX_CONDITION
    if not ridge:
        limit = min(limit, 1 / (NOISE_FACTOR * np.sqrt(noise @ noise) + EPS))
    # rows of L have length one
    if failed or np.sqrt(len(G) * np.vdot(inverse, inverse)) >= limit:
        return None
    inverse /= lengths
    return inverse.T


def _row_space(table: Centered) -> Array:
    """Return A in the row space of X with A'X'XA = I; its rank is that of columns of length one.

    A column that may be all rounding is left out. Where the lengths of columns are so far apart
    that leaving that space is beyond rounding, or what was taken for null is not, it is the row
    space of columns of length one.
    """
    X = table.values
    noise = table.units.noise
    squares = _squares(X)
    lengths = np.where(squares > 0, np.sqrt(squares), 1.0)
    units = np.where(NOISE_FACTOR * noise < 1, lengths, np.inf)
    s, V = _right_vectors(_divided(X, units), noise)
    A = V / s / units[:, None]
    if A.shape[1] == len(A) or lengths.max() > MAX_LENGTH_RATIO * lengths.min():
        return A
    Q = np.linalg.qr(V * lengths[:, None])[0]
    shortest = Q @ (Q.T @ A)
    shift = np.linalg.norm(X @ (shortest - A), axis=0)
    if shift.max(initial=0.0) <= MAX_SHIFT:
        return shortest
    return A


def _right_vectors(X: Any, noise: Array) -> tuple[Array, Array]:
    """Return the singular values above rounding and noise, and their right singular vectors."""
    if isinstance(X, Shifted):
        s, V = right_vectors_by_gram(X)
    else:
        _, s, Vt = scipy.linalg.svd(X, full_matrices=False, check_finite=False)
        keep = s > max(X.shape) * EPS * s.max(initial=0.0)
        s = s[keep]
        V = Vt.T[:, keep]
    keep = s > NOISE_FACTOR * np.linalg.norm(noise[:, None] * V, axis=0)
    return s[keep], V[:, keep]


def right_vectors_by_gram(X: Shifted) -> tuple[Array, Array]:
    """Return singular values and right vectors of a sparse table, by the smaller Gram matrix."""
    n, p = X.shape
    wide = p > n
    G = X.T.gram() if wide else X.gram()
    squares, vectors = scipy.linalg.eigh(G, check_finite=False)
    squares = squares[::-1]
    vectors = vectors[:, ::-1]
    # rounding of a Gram matrix: that of all terms that were added and subtracted again
    entries = X.S.data
    total = np.vdot(entries, entries) + (X.u @ X.u) * (X.m @ X.m)
    keep = squares > NOISE_FACTOR * np.sqrt(max(n, p)) * EPS * total
    s = np.sqrt(np.maximum(squares, 0))[keep]
    vectors = vectors[:, keep]
    if wide:
        return s, (X.T @ vectors) / s
    return s, vectors


def _gram(X: Any) -> Array:
    if isinstance(X, Shifted):
        return X.gram()
    return gram(X)


def _squares(X: Any) -> Array:
    """Return the squared lengths of the columns."""
    if isinstance(X, Shifted):
        return X.squares()
    return np.einsum("ij,ij->j", X, X)


def _divided(X: Any, units: Array) -> Any:
    """Return a table with its columns divided by units."""
    if isinstance(X, Shifted):
        return X.over(units)
    return X / units
