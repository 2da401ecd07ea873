"""Sums over the columns of every row: of potentials, with few logarithms, and of x log x."""

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

ROWS_PER_SUBTRACTION = 16
MAX_COMMON_SPREAD = 60.0  # of exponents in a table, up to which one shift serves all rows


def apply_to_rows(function: Callable[[Array], Array], X: Any) -> Array:
    """Return a function of every row that is a sum over columns; X dense or sparse."""
    if not is_sparse(X):
        return function(X)
    at_zero = float(function(np.zeros((1, 1)))[0])
    stored = function(X.data.astype(np.float64, copy=False)[:, None])
    return X.shape[1] * at_zero + row_sums(X, stored - at_zero)


def row_sums(X: Any, entries: Array) -> Array:
    """Return sums over rows of numbers given for the stored entries of a sparse table."""
    n = X.shape[0]
    row_of_entry = np.repeat(np.arange(n), np.diff(X.indptr))
    return np.bincount(row_of_entry, entries, minlength=n)


def subtract_row(X: Array, row: Array) -> Array:
    """Return X - row, several rows at a time: numpy's loop is slow to start on short rows."""
    blocks = len(X) // ROWS_PER_SUBTRACTION
    if not X.flags.c_contiguous or not blocks:
        return X - row
    n = blocks * ROWS_PER_SUBTRACTION
    out = np.empty_like(X)
    tiled = np.tile(row, ROWS_PER_SUBTRACTION)
    tiles = X[:n].reshape(blocks, -1)
    np.subtract(tiles, tiled, out=out[:n].reshape(blocks, -1))
    np.subtract(X[n:], row, out=out[n:])
    return out


@singledispatch
def row_values(potential: Potential, X: Array) -> Array:
    """F of every row; the forms below take one logarithm or exponential of an entry, or none."""
    return _sum(potential.value(X))


@row_values.register
def _(potential: potentials.Exp, X: Array) -> Array:
    return _sum(finite_exp(X))


@row_values.register
def _(potential: potentials.Cube, X: Array) -> Array:
    squares = X * X
    return np.einsum("...j,...j->...", squares, squares) / 4


@row_values.register
def _(potential: potentials.Burg, X: Array) -> Array:
    a = potential.shape
    constant = a * float(np.log(a)) - a
    return X.shape[-1] * constant - a * _sum(np.log(X))


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
    if highest - X.min(initial=np.inf) > MAX_COMMON_SPREAD:
        highest = X.max(axis=-1, keepdims=True)
    powers = X - highest
    np.exp(powers, out=powers)
    return np.reshape(highest, np.shape(highest)[:-1]) + np.log(_sum(powers))


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
    # F is zero at the ends, where binary data lie
    if np.all((share == 0) | (share == 1)):
        return np.zeros(X.shape[:-1], X.dtype)
    return potential.trials * (x_log_x(share) + x_log_x(1 - share))


@row_values.register
def _(potential: potentials.RelaxedSigmoid, X: Array) -> Array:
    size = np.abs(X)
    ratio = size / X.dtype.type(potential.theta)
    ratio += 1
    products = np.einsum("...j,...j->...", ratio, np.log(ratio))
    return potential.theta * products - _sum(size)


def x_log_x(X: Array) -> Array:
    """Return the sum of x log x over every row, with 0 log 0 = 0."""
    logarithms = X + np.finfo(X.dtype).tiny
    np.log(logarithms, out=logarithms)
    return np.einsum("...j,...j->...", X, logarithms)


def _sum(X: Array) -> Array:
    # faster over short rows than a reduction
    return X @ np.ones(X.shape[-1], X.dtype)
