"""Rows as centered features of unit mean square: inputs, or a kernel through landmarks; and scores of new rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from sklearn.utils import check_random_state, gen_batches

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, is_option
from regfactor.fitting.kernel_blocks import check_symmetric
from regfactor.kernels import Kernel, Linear, Precomputed

MOST_ROWS = 2000  # up to so many rows all are landmarks
LANDMARKS = 1000  # beyond
BLOCK = 4096  # rows of a kernel that are held at once
CUT = 1e-10  # of the largest eigenvalue: what is below has lost its digits


@dataclass(frozen=True, eq=False)
class Scale:
    """What is taken off features, and by what they are divided: then the mean of k(x, x) is one (spec B4)."""

    mean: Array
    length: float

    @staticmethod
    def of(R: Any, weights: Array) -> Scale:
        """Return the weighted mean of the rows and their root mean square distance from it."""
        total = float(weights.sum())
        mean = np.asarray(weights @ R) / total
        if is_sparse(R):
            squares = float(weights @ R.multiply(R).sum(axis=1)) / total - float(mean @ mean)
            noise = R.shape[1] * np.finfo(float).eps * float(mean @ mean)
        else:
            squares = float(weights @ np.square(R - mean).sum(axis=1)) / total
            noise = 0.0
        return Scale(mean, float(np.sqrt(squares)) if squares > noise else 1.0)

    def applied(self, R: Any) -> tuple[Any, Array]:
        """Return scaled features and the mean that is still to be taken off: sparse ones stay uncentered."""
        if is_sparse(R):
            return R / self.length, self.mean / self.length
        return np.ascontiguousarray((R - self.mean) / self.length), np.zeros(R.shape[1])

    def undone(self, W: Array, b: Array, R: Any) -> tuple[Array, Array]:
        """Return coefficients and offset of features as they were before."""
        coef = W / self.length
        return coef, b if is_sparse(R) else b - self.mean @ coef


@dataclass(frozen=True, eq=False)
class Landmarks:
    """k(x, z) for the rows z that stand for all; features are k(x, z) @ back (Williams & Seeger 2001)."""

    kernel: Kernel
    references: Any
    prepared: Any
    columns: Array | None  # of a precomputed kernel
    back: Array

    def times(self, X: Any, coef: Array) -> Array:
        """k(x, z) @ coef of every row, by blocks of rows."""
        out = np.empty((X.shape[0], coef.shape[1]))
        for rows in gen_batches(X.shape[0], BLOCK):
            block = X[rows] if self.columns is None else X[rows][:, self.columns]
            out[rows] = (
                np.asarray(self.kernel.gram(block, self.references, self.prepared), np.float64)
                @ coef
            )
        return out


def features_of(
    X: Any,
    kernel: Kernel,
    landmarks: Any,
    random_state: Any,
) -> tuple[Any, Landmarks | None]:
    """Return features of the rows, and how new rows get theirs; None for inputs as they are."""
    if isinstance(kernel, Linear):
        return X.astype(np.float64, copy=False), None
    n = X.shape[0]
    m = _count(landmarks, n)
    if m >= n:
        places = np.arange(n)
    else:
        places = np.sort(check_random_state(random_state).permutation(n)[:m])
    precomputed = isinstance(kernel, Precomputed)
    chosen = X[places][:, places] if precomputed else X[places]
    K = np.asarray(kernel.gram(chosen), np.float64)
    check_symmetric(kernel, K)
    values, vectors = scipy.linalg.eigh(K, check_finite=False)
    keep = values > CUT * max(values[-1], 0.0)
    if not keep.any():
        raise ValueError(
            f"The kernel {kernel} has no positive eigenvalue on these rows: it is no inner product.",
        )
    root = np.sqrt(values[keep])
    held = np.empty((len(places), 0)) if precomputed else chosen
    marks = Landmarks(
        kernel,
        held,
        kernel.prepare(chosen),
        places if precomputed else None,
        vectors[:, keep] / root,
    )
    return vectors[:, keep] * root if m >= n else marks.times(X, marks.back), marks


def _count(landmarks: Any, n: int) -> int:
    if landmarks is None:
        return n
    if is_option(landmarks, "auto"):
        if n <= MOST_ROWS:
            return n
        return LANDMARKS
    if (
        isinstance(landmarks, int | np.integer)
        and not isinstance(landmarks, bool)
        and landmarks >= 1
    ):
        return int(landmarks)
    raise ValueError(f"landmarks must be a whole number >= 1, 'auto' or None, got {landmarks!r}.")
