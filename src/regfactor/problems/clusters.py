"""The problem of k-means and its relatives: rows, weights, a divergence, and how many centers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.losses.distances import Affine, Divergence

BLOCK = 4096  # rows added up together
ENTRIES = 2**17  # numbers of a block that is turned to float64, or made dense
SAMPLE = 5000  # rows from which the variance of the data is judged
WIDE = 4096  # columns up to which scores in float32 decide about most rows
SEVERAL = 8  # centers from which on rows are worth being turned to float32
FAR = 16.0  # mean over standard deviation from which on blocks are centered first
# mean over standard deviation up to which float32 adds up some thousand rows as well as it holds
# them
NEAR = 4.0


def blocks(X: Any, rows: int) -> Iterator[tuple[slice, Array]]:
    """Yield slices of rows with the dense rows."""
    for start in range(0, X.shape[0], rows):
        at = slice(start, min(start + rows, X.shape[0]))
        yield at, (X[at].toarray() if is_sparse(X) else X[at])


def small_blocks(X: Any) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of which copies may be made."""
    return blocks(X, max(ENTRIES // X.shape[1], 16))


def readable_blocks(X: Any, divergence: Divergence) -> Iterator[tuple[slice, Any]]:
    """Yield blocks of rows as a divergence reads them: sparse where it can, else dense and small."""
    if not (is_sparse(X) and divergence.additive):
        yield from small_blocks(X)
        return
    for start in range(0, X.shape[0], BLOCK):
        at = slice(start, min(start + BLOCK, X.shape[0]))
        yield at, X[at]


@dataclass(frozen=True, eq=False)
class Clusters:
    """min over labels z and centers m of sum_i w_i D(x_i, m_{z_i}) (+ what the divergence's own parameters cost)."""

    X: Any
    weights: Array | None
    divergence: Divergence
    n_clusters: int

    @cached_property
    def mass(self) -> float:
        """The total weight."""
        return float(self.X.shape[0] if self.weights is None else self.weights.sum())

    @cached_property
    def anchor(self) -> Array:
        """The mean of the rows."""
        n = self.X.shape[0]
        w = self.weights
        total = np.zeros(self.X.shape[1])
        for start in range(0, n, BLOCK):
            at = slice(start, min(start + BLOCK, n))
            total += (np.ones(at.stop - start) if w is None else w[at]) @ self.X[at]
        return total / self.mass

    @cached_property
    def _spread(self) -> tuple[float, bool, bool]:
        n = self.X.shape[0]
        step = -(-n // SAMPLE)
        X = self.X[::step]
        if self.weights is None:
            w = np.ones(X.shape[0])
        else:
            w = self.weights[::step]
        variance = _squares(X, w, self.anchor) / max(float(w.sum()), np.finfo(np.float64).tiny)
        spread = np.sqrt(self.divergence.spread(variance))
        far = bool((np.abs(self.anchor) > FAR * spread).any())
        return (
            float(variance.mean()),
            far,
            bool((np.abs(self.anchor) <= NEAR * np.sqrt(variance)).all()),
        )

    @property
    def variance(self) -> float:
        """The mean variance of the columns, by a sample of the rows where there are many."""
        return self._spread[0]

    @property
    def far(self) -> bool:
        """Whether the data lie so far from the origin that products must be taken from their mean."""
        return self._spread[1]

    @property
    def near(self) -> bool:
        """Whether columns vary so much beside their means that float32 adds up some rows without losing digits."""
        return self._spread[2]

    @cached_property
    def sizes(self) -> Array | None:
        """|x| of every row, where scores in float32 may decide for rows in float64; else None."""
        plain = isinstance(self.divergence, Affine) and not is_sparse(self.X) and not self.far
        X = self.X
        if not plain or X.dtype != np.float64 or X.shape[1] > WIDE or self.n_clusters < SEVERAL:
            return None
        squares = np.concatenate(
            [np.einsum("ij,ij->i", block, block) for _, block in small_blocks(X)],
        )
        with np.errstate(over="ignore"):  # there float64 decides
            return np.sqrt(squares).astype(np.float32)

    def base(self, divergence: Divergence) -> Array | None:
        """D(x_i || a) of every row; None where the divergence is not affine. Found once if nothing in it is fitted."""
        if divergence is self.divergence:
            return self._fixed_base
        return self._base(divergence)

    @cached_property
    def _fixed_base(self) -> Array | None:
        return self._base(self.divergence)

    def _base(self, divergence: Divergence) -> Array | None:
        if not isinstance(divergence, Affine):
            return None
        return np.concatenate(
            [divergence.base(X, self.anchor) for _, X in readable_blocks(self.X, divergence)],
        )

    @cached_property
    def tally(self) -> Array:
        """What the objective needs of the data besides the labels."""
        w = self.weights
        total = np.zeros(())
        if isinstance(self.divergence, Affine):
            for at, X in readable_blocks(self.X, self.divergence):
                total = total + self.divergence.tally(
                    X,
                    None if w is None else w[at],
                    self.anchor,
                    self.far,
                )
        return self.divergence.without_rounding(
            total,
            self.anchor,
            self.mass,
            float(np.finfo(self.X.dtype).eps),
        )

    @cached_property
    def started(self) -> Divergence:
        """The divergence with its own parameters fitted to a single cluster."""
        return self.divergence.refitted(
            self.tally,
            np.zeros((1, self.X.shape[1])),
            np.array([self.mass]),
        )

    @property
    def scale(self) -> float:
        """The mean divergence from the anchor, against which rounding is judged."""
        return self.started.total(self.tally) / self.mass

    def objective(self, divergence: Divergence, gain: float) -> float:
        """Return the objective at labels that gain so much over a single cluster at the anchor."""
        return divergence.total(self.tally) - gain + divergence.extra(self.mass)


def _squares(X: Any, w: Array, anchor: Array) -> Array:
    """Return the sums of w (x - a)^2 over the rows, of absent entries too, which are zeros."""
    if not is_sparse(X):
        return np.asarray(w @ np.square(X - anchor))
    stored = np.repeat(w, np.diff(X.indptr))
    d = X.shape[1]
    absent = np.maximum(w.sum() - np.bincount(X.indices, stored, minlength=d), 0)
    own = np.bincount(X.indices, stored * np.square(X.data - anchor[X.indices]), minlength=d)
    return np.asarray(own + absent * np.square(anchor))
