"""Sums over the columns of every row: of a potential, in forms of few logarithms or exponentials, and of x log x."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.losses import potentials
from regfactor.losses.exponentials import MAX_FINITE_EXPONENT, finite_exp
from regfactor.losses.potentials import Potential

SEVERAL = 16  # rows that are taken together
FAR = 60.0  # of exponents: one shift serves all rows whose powers are numbers beside each other


def apply_to_rows(of: Callable[[Array], Array], X: Any) -> Array:
    """Return a function of every row that is a sum over columns; of sparse rows, by its numbers at what is stored."""
    if not is_sparse(X):
        return np.asarray(of(X))
    at_zero = float(of(np.zeros((1, 1)))[0])
    return X.shape[1] * at_zero + row_sums(
        X,
        of(X.data.astype(np.float64, copy=False)[:, None]) - at_zero,
    )


def row_sums(X: Any, entries: Array) -> Array:
    """Sum numbers at the stored entries of a sparse table over its rows."""
    return np.bincount(
        np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)),
        entries,
        minlength=X.shape[0],
    )


def subtract_row(X: Array, row: Array) -> Array:
    """Return X - row; of short rows several at a time, since numpy begins anew with each."""
    n = len(X) - len(X) % SEVERAL
    if not X.flags.c_contiguous or not n:
        return X - row
    out = np.empty_like(X)
    np.subtract(
        X[:n].reshape(n // SEVERAL, -1),
        np.tile(row, SEVERAL),
        out=out[:n].reshape(n // SEVERAL, -1),
    )
    np.subtract(X[n:], row, out=out[n:])
    return out


@singledispatch
def row_values(potential: Potential, X: Array) -> Array:
    """F of every row; the forms of some potentials take one logarithm or exponential of a number, or none."""
    return _sum(potential.value(X))


@row_values.register
def _(potential: potentials.Exp, X: Array) -> Array:
    return _sum(finite_exp(X))


@row_values.register
def _(potential: potentials.Cube, X: Array) -> Array:
    squares = X * X
    return np.asarray(np.einsum("...j,...j->...", squares, squares) / 4)


@row_values.register
def _(potential: potentials.Burg, X: Array) -> Array:
    a = potential.shape
    return X.shape[-1] * (a * float(np.log(a)) - a) - a * _sum(np.log(X))


@row_values.register
def _(potential: potentials.Sigmoid, X: Array) -> Array:
    if X.max(initial=0) > MAX_FINITE_EXPONENT[X.dtype.itemsize]:
        return _sum(potential.value(X))
    powers = np.exp(X)
    powers += 1
    np.log(powers, out=powers)
    return _sum(powers)


@row_values.register
def _(potential: potentials.Softmax, X: Array) -> Array:
    highest = X.max(initial=-np.inf)
    if highest - X.min(initial=np.inf) > FAR:
        highest = X.max(axis=-1, keepdims=True)
    powers = X - highest
    np.exp(powers, out=powers)
    return np.asarray(np.reshape(highest, np.shape(highest)[:-1]) + np.log(_sum(powers)))


@row_values.register(potentials.Entropy)
@row_values.register(potentials.MultinomialEntropy)
def _(potential: Potential, X: Array) -> Array:
    value = x_log_x(X)
    if isinstance(potential, potentials.Entropy):
        return value - _sum(X)
    return value


@row_values.register
def _(potential: potentials.BinomialEntropy, X: Array) -> Array:
    share = X / X.dtype.type(potential.trials)
    if np.all((share == 0) | (share == 1)):  # F is zero at the ends, where binary data lie
        return np.zeros(X.shape[:-1], X.dtype)
    return np.asarray(potential.trials * (x_log_x(share) + x_log_x(1 - share)))


@row_values.register
def _(potential: potentials.RelaxedSigmoid, X: Array) -> Array:
    size = np.abs(X)
    ratio = size / X.dtype.type(potential.theta)
    ratio += 1
    slope = np.log(ratio)
    return np.asarray(potential.theta * np.einsum("...j,...j->...", ratio, slope) - _sum(size))


def x_log_x(X: Array) -> Array:
    """Sum of x log x over every row, zero at zero."""
    powers = X + np.finfo(X.dtype).tiny  # 0 log 0 = 0
    np.log(powers, out=powers)
    return np.asarray(np.einsum("...j,...j->...", X, powers))


def _sum(X: Array) -> Array:
    return np.asarray(X @ np.ones(X.shape[-1], X.dtype))  # faster over short rows than a reduction
