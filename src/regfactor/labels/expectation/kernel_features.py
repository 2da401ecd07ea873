"""Rows as features: the inputs themselves, or a kernel through landmarks; centered and scaled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.utils import check_random_state, gen_batches

from regfactor.core.linalg import is_sparse
from regfactor.core.params import EPS, Array, frozen
from regfactor.fitting.kernel_blocks import check_symmetric
from regfactor.kernels import Kernel, Linear, Precomputed

MAX_EXACT_ROWS = 2000  # rows up to which landmarks="auto" takes all
AUTO_LANDMARKS = 1000  # landmarks beyond
BLOCK_ROWS = 4096  # rows of a kernel that are held at once
EIGENVALUE_CUT = 1e-10  # share of the largest, below which an eigenvalue has no precision left


@frozen
class Landmarks:
    """k(x, z) for landmark rows z; features are k(x, z) @ back (Williams & Seeger 2001)."""

    kernel: Kernel
    references: Any
    prepared: Any
    columns: Array | None  # of a precomputed kernel
    back: Array

    def times(self, X: Any, coef: Array) -> Array:
        """Return k(x, z) @ coef of every row, by blocks of rows."""
        out = np.empty((X.shape[0], coef.shape[1]))
        for rows in gen_batches(X.shape[0], BLOCK_ROWS):
            block = X[rows]
            if self.columns is not None:
                block = block[:, self.columns]
            K = self.kernel.gram(block, self.references, self.prepared)
            out[rows] = np.asarray(K, np.float64) @ coef
        return out


@frozen
class KernelExpansion:
    """Features R of rows, and the landmarks by which other rows get theirs.

    Without landmarks the features are the inputs. With the mean subtracted and divided by `length`
    the mean of k(x, x) is one.
    """

    R: Any
    mean: Array
    length: float
    landmarks: Landmarks | None

    @staticmethod
    def of(
        table: Any,
        rows: Array,
        weights: Array,
        kernel: Kernel,
        landmarks: Any,
        random_state: Any,
    ) -> KernelExpansion:
        """Return the features of some rows of a table, which have weights."""
        precomputed = isinstance(kernel, Precomputed)
        if precomputed and table.shape[0] != table.shape[1]:
            raise ValueError(
                "A precomputed kernel needs the square matrix of the training rows, got shape "
                f"{table.shape}."
            )
        X = table
        if len(rows) < table.shape[0]:
            X = table[rows]
            if precomputed:
                X = X[:, rows]
        R, marks = _features(X, kernel.resolved(X), landmarks, random_state)
        if marks is not None and marks.columns is not None:
            marks = replace(marks, columns=rows[marks.columns])
        mean = np.asarray(weights @ R) / weights.sum()
        return KernelExpansion(R, mean, _mean_length(R, mean, weights), marks)

    def scaled(self) -> tuple[Any, Array]:
        """Return scaled features and the mean still to be subtracted, zero for dense ones."""
        if is_sparse(self.R):
            return self.R / self.length, self.mean / self.length
        scaled = (self.R - self.mean) / self.length
        return np.ascontiguousarray(scaled), np.zeros(len(self.mean))

    def unscaled(self, W: Array, b: Array) -> tuple[Array, Array]:
        """Return coefficients of the inputs, or of the landmarks, and offsets."""
        coef = W / self.length
        if not is_sparse(self.R):
            b = b - self.mean @ coef
        if self.landmarks is not None:
            coef = self.landmarks.back @ coef
        return coef, b


def _mean_length(R: Any, mean: Array, weights: Array) -> float:
    """Return the root mean square distance of the rows from their mean; one where it is zero."""
    subtracted = 0.0
    if is_sparse(R):
        subtracted = float(mean @ mean)
        squares = R.multiply(R).sum(axis=1)
    else:
        squares = np.square(R - mean).sum(axis=1)
    square = weights @ squares / weights.sum() - subtracted
    if square > R.shape[1] * EPS * subtracted:
        return float(np.sqrt(square))
    return 1.0


def _features(
    X: Any,
    kernel: Kernel,
    landmarks: int | str | None,
    random_state: Any,
) -> tuple[Any, Landmarks | None]:
    """Return features of the rows and their landmarks; None for inputs as they are."""
    if isinstance(kernel, Linear):
        return X.astype(np.float64, copy=False), None
    n = X.shape[0]
    count = _landmark_count(landmarks, n)
    places = np.arange(n)
    if count < n:
        places = np.sort(check_random_state(random_state).permutation(n)[:count])
    chosen = X[places]
    references = chosen
    columns = None
    if isinstance(kernel, Precomputed):
        chosen = chosen[:, places]
        references = np.empty((len(places), 0))
        columns = places
    K = np.asarray(kernel.gram(chosen), np.float64)
    check_symmetric(kernel, K)
    values, vectors = scipy.linalg.eigh(K, check_finite=False)
    keep = values > EIGENVALUE_CUT * max(values[-1], 0.0)
    if not keep.any():
        raise ValueError(
            f"The kernel {kernel} has no positive eigenvalue on these rows: it is no inner product."
        )
    root = np.sqrt(values[keep])
    vectors = vectors[:, keep]
    marks = Landmarks(kernel, references, kernel.prepare(chosen), columns, vectors / root)
    if count < n:
        return marks.times(X, marks.back), marks
    return vectors * root, marks


def _landmark_count(landmarks: int | str | None, n: int) -> int:
    if landmarks is None:
        return n
    if isinstance(landmarks, str):
        return n if n <= MAX_EXACT_ROWS else AUTO_LANDMARKS
    return min(int(landmarks), n)
