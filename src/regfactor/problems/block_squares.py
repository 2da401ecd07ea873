"""Squared loss and the trace norm on a table that is read by blocks of rows.

min over Phi, C, b of sum w/2 (phi_i c_j + b_j - x_ij)^2 + (alpha/2)(|Phi|^2 + |C|^2), whose least
value is that of sum w/2 (z_ij + b_j - x_ij)^2 + alpha |Z|_tr. Codes are minimized out block by
block, so that a pass over the table is a sum of functions of (block, C, b), and all that is kept
between passes has the size of the components or of a Gram matrix of the columns.

With outliers s_ij at a price beta, x_ij - s_ij takes the place of x_ij and beta |s_ij| is added:
the Huber loss, whose outliers are minimized out with the codes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.linalg

from regfactor.core.factors import Factors
from regfactor.core.linalg import is_below, is_sparse, positive_or_one
from regfactor.core.loop import Iterate
from regfactor.core.params import EPS, Array, UnsupportedProblem, frozen
from regfactor.engine.blocks import BlockTable, RowBlock
from regfactor.engine.kernels import Residuals, sums_of_columns
from regfactor.problems.base import Problem
from regfactor.problems.convex import Bound
from regfactor.problems.data import SUM_ROUNDING
from regfactor.problems.layout import MAX_GRAM_DENSITY, Pattern

MAX_ROBUST_STEPS = 30  # Newton steps of the codes of rows with outliers
ROBUST_TOL = 1e-9  # share of the cost of a block that ends them
COST_ROUNDING = 1e-12
FIRST_INFLATION = 1e-9  # of an eigenvalue, which a factorization then proves to be an upper bound
MAX_PROOFS = 6  # each tries a hundred times the inflation of the last


@dataclass(frozen=True, eq=False)
class ColumnStatistics:
    """Counts, means, sums of squared deviations and ranges of columns, over weighted rows."""

    count: Array
    mean: Array
    squares: Array
    low: Array
    high: Array
    two_valued: Array  # mask of the columns of at most two values
    entries: int
    empty_rows: int

    @staticmethod
    def of_block(block: RowBlock) -> ColumnStatistics:
        """Return the statistics of one block; raise for an infinite entry."""
        rows = _entries(block.load())
        w = np.ones(len(rows.x))
        if block.weights is not None:
            w = block.weights[rows.pattern.rows]
        width = rows.pattern.shape[1]
        columns = rows.pattern.indices
        if not np.isfinite(rows.x).all():
            j = int(columns[~np.isfinite(rows.x)][0])
            raise ValueError(f"Column {j} of the table holds an infinite number.")
        low = np.full(width, np.inf)
        np.minimum.at(low, columns, rows.x)
        high = np.full(width, -np.inf)
        np.maximum.at(high, columns, rows.x)
        count = np.bincount(columns, w, width)
        mean = np.bincount(columns, w * rows.x, width) / positive_or_one(count)
        deviations = rows.x - mean[columns]
        between = (rows.x != low[columns]) & (rows.x != high[columns])
        return ColumnStatistics(
            count,
            mean,
            np.bincount(columns, w * deviations * deviations, width),
            low,
            high,
            np.bincount(columns, between, width) == 0,
            len(rows.x),
            int((np.diff(rows.pattern.indptr) == 0).sum()),
        )

    def __add__(self, other: ColumnStatistics) -> ColumnStatistics:
        count = self.count + other.count
        share = other.count / positive_or_one(count)
        apart = other.mean - self.mean
        ends = np.stack([self.low, self.high, other.low, other.high])
        low = np.minimum(self.low, other.low)
        high = np.maximum(self.high, other.high)
        at_ends = ((ends == low) | (ends == high) | np.isinf(ends)).all(axis=0)
        return ColumnStatistics(
            count,
            self.mean + share * apart,
            self.squares + other.squares + self.count * share * apart * apart,
            low,
            high,
            self.two_valued & other.two_valued & at_ends,
            self.entries + other.entries,
            self.empty_rows + other.empty_rows,
        )


@frozen
class BlockEntries:
    """The observed entries of a block."""

    pattern: Pattern
    x: Array


def _entries(X: Any) -> BlockEntries:
    if is_sparse(X):
        return BlockEntries(Pattern.of(X), X.data.astype(np.float64, copy=False))
    observed = ~np.isnan(X)
    indptr = np.concatenate([[0], np.cumsum(observed.sum(axis=1))])
    columns = np.nonzero(observed)[1].astype(np.int32)
    return BlockEntries(Pattern(indptr, columns, X.shape), X[observed].astype(np.float64))


@frozen
class BlockTerms:
    """What a pass needs besides a block: components, offsets, units, and the strength."""

    C: Array
    b: Array
    unit: Array
    alpha: float
    price: float = np.inf


@dataclass(frozen=True, eq=False)
class BlockSums:
    """What a pass adds up, at the codes that are best for given components and offsets.

    g is the residual phi_i c_j + b_j - x_ij, at most the price of an outlier, x' the entry without
    its outlier, so that g = phi_i c_j + b_j - x'_ij; all sums are weighted.

    Attributes
    ----------
    loss : float
        sum g^2 / 2, and the prices of outliers.
    squares : float
        sum g^2.
    product : float
        sum g (x - b).
    size : float
        sum (x - b)^2.
    offsets : ndarray of shape (n_columns,)
        Sums of g over rows.
    gram : ndarray of shape (n_columns, n_columns)
        Gram matrix of g; its upper triangle counts.
    moments : ndarray of shape (rank, rank)
        Gram matrix of the codes.
    codes : ndarray of shape (rank,)
        Sums of the codes over rows.
    total : float
        Sum of the weights of rows.
    equations : ndarray of shape (n_columns, (rank + 1) (rank + 2) / 2)
        Gram matrices of codes and one over the observed rows of each column, upper triangles.
    right : ndarray of shape (n_columns, rank + 1)
        Products of x' - b with codes and one.
    """

    loss: float
    squares: float
    product: float
    size: float
    offsets: Array
    gram: Array
    moments: Array
    codes: Array
    total: float
    equations: Array
    right: Array

    def __add__(self, other: Self) -> Self:
        parts = [getattr(self, f.name) + getattr(other, f.name) for f in fields(self)]
        return type(self)(*parts)


def sums_of_block(block: RowBlock, terms: BlockTerms) -> BlockSums:
    """Return the sums of one block."""
    X = block.load()
    weights = np.ones(block.length)
    if block.weights is not None:
        weights = block.weights
    if is_sparse(X) or np.isnan(X).any() or np.isfinite(terms.price):
        return _sums_of_entries(_entries(X), weights, terms)
    return _sums_of_complete(X / terms.unit - terms.b, weights, terms)


def codes_of_complete(R: Array, C: Array, alpha: float) -> Array:
    """Return the codes of complete rows from which offsets were subtracted."""
    K = C @ C.T + alpha * np.eye(len(C))
    return scipy.linalg.solve(K, C @ R.T, assume_a="pos", check_finite=False).T


def _sums_of_complete(R: Array, weights: Array, terms: BlockTerms) -> BlockSums:
    codes = codes_of_complete(R, terms.C, terms.alpha)
    G = codes @ terms.C - R
    root = np.sqrt(weights)[:, None]
    scaled = G * root
    D = np.column_stack([codes, np.ones(len(R))])
    weighted = D * weights[:, None]
    upper = np.triu_indices(D.shape[1])
    equations = (D.T @ weighted)[upper]
    squares = float(np.vdot(scaled, scaled))
    return BlockSums(
        squares / 2,
        squares,
        float(np.vdot(G * weights[:, None], R)),
        float(np.vdot(R * weights[:, None], R)),
        weights @ G,
        scaled.T @ scaled,
        codes.T @ (codes * weights[:, None]),
        weights @ codes,
        float(weights.sum()),
        np.tile(equations, (R.shape[1], 1)),
        R.T @ weighted,
    )


def _sums_of_entries(rows: BlockEntries, weights: Array, terms: BlockTerms) -> BlockSums:
    pattern = rows.pattern
    columns = pattern.indices
    r = terms.unit[columns]
    np.divide(rows.x, r, out=r)
    r -= terms.b[columns]
    k = len(terms.C)
    codes = np.zeros((pattern.shape[0], k))
    g = -r
    if k:
        D = np.ascontiguousarray(terms.C.T)
        right = pattern.times(r, D)
        ridge = np.full(k, terms.alpha)
        codes = pattern.T.solve_columns(D, np.ones(len(r)), ridge, right.T).T
        if np.isfinite(terms.price):
            codes = robust_codes(pattern, r, codes, terms)
        g = pattern.entries(Factors(codes, terms.C))
        g -= r
    explained = r
    prices = 0.0
    if np.isfinite(terms.price):
        outliers = g - np.clip(g, -terms.price, terms.price)
        g = g - outliers
        explained = r + outliers
        prices = terms.price * float(np.vdot(weights[pattern.rows], np.abs(outliers)))
    D = np.column_stack([codes, np.ones(len(codes))])
    numbers = Residuals(g, r, explained)
    by_entries = pattern.density <= MAX_GRAM_DENSITY
    found = sums_of_columns(pattern.checked_rows, numbers, D, weights, by_entries)
    of_residuals = found.gram
    if of_residuals is None:
        of_residuals = pattern.gram(g * np.sqrt(weights)[pattern.rows])
    return BlockSums(
        found.squares / 2 + prices,
        found.squares,
        found.product,
        found.size,
        found.offsets,
        of_residuals,
        codes.T @ (codes * weights[:, None]),
        weights @ codes,
        float(weights.sum()),
        found.equations,
        found.right,
    )


def robust_codes(pattern: Pattern, r: Array, codes: Array, terms: BlockTerms) -> Array:
    """Return codes that minimize the Huber loss of rows, by Newton steps.

    A row in which a step does not lower the cost takes the regression without its outliers instead,
    which always does: the Huber loss is at most half the square of what they leave.
    """
    D = np.ascontiguousarray(terms.C.T)
    ridge = np.full(len(terms.C), terms.alpha)
    price = terms.price

    def residuals(codes: Array) -> Array:
        return pattern.entries(Factors(codes, terms.C)) - r

    def costs(g: Array, codes: Array) -> Array:
        inside = np.minimum(np.abs(g), price)
        penalties = terms.alpha / 2 * np.square(codes).sum(axis=1)
        return pattern.row_sums(inside * (np.abs(g) - inside / 2)) + penalties

    g = residuals(codes)
    cost = costs(g, codes)
    for _ in range(MAX_ROBUST_STEPS):
        clipped = np.clip(g, -price, price)
        gradient = pattern.times(clipped, D) + terms.alpha * codes
        inside = (np.abs(g) <= price).astype(np.float64)
        step = pattern.T.solve_columns(D, inside, ridge, gradient.T).T
        new = codes - step
        g_new = residuals(new)
        new_cost = costs(g_new, new)
        risen = new_cost > cost * (1 + COST_ROUNDING)
        if risen.any():
            safe = pattern.T.solve_columns(D, np.ones(len(r)), ridge, gradient.T).T
            new = np.where(risen[:, None], codes - safe, new)
            g_new = residuals(new)
            new_cost = costs(g_new, new)
        gained = float((cost - new_cost).sum())
        codes = new
        g = g_new
        cost = new_cost
        if gained <= ROBUST_TOL * float(cost.sum()):
            break
    return codes


@frozen
class BlockPoint:
    """Components, offsets, and the Gram matrix of the codes that are best for them."""

    C: Array
    b: Array
    moments: Array

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """The singular values of Z, falling, and its right singular vectors as rows."""
        if not len(self.C):
            return np.zeros(0), self.C
        values, Q = np.linalg.eigh(self.moments)
        root = np.sqrt(np.maximum(values, 0))[:, None] * Q.T
        _, s, Vt = np.linalg.svd(root @ self.C, full_matrices=False)
        return s, Vt


@dataclass(frozen=True, eq=False)
class BlockSquares(Problem[BlockPoint]):
    """sum w/2 (z_ij + b_j - x_ij / u_j)^2 over observed entries + alpha |Z|_tr, by blocks."""

    table: BlockTable
    unit: Array
    center: Array  # offsets of Z = 0
    count: Array  # weights of the observed entries of each column
    alpha: float
    total: float  # weight of all rows
    fit_intercept: bool = True
    price: float = np.inf  # of a unit of an outlier, of which the loss is the Huber loss
    solvers = ("regfactor.solvers.block_sweeps:BlockSweeps",)

    def check(self) -> None:
        """Raise, before any work, for an invalid strength."""
        if not 0 < self.alpha < np.inf:
            raise ValueError(f"alpha must be a positive finite number, got {self.alpha!r}.")
        if np.isfinite(self.price) and self.fit_intercept:
            raise UnsupportedProblem("Blocks of rows with outliers are fitted without offsets.")

    def sums(self, C: Array, b: Array) -> BlockSums:
        """Return the sums of one pass over the table."""
        terms = BlockTerms(C, b, self.unit, self.alpha, self.price)
        sums: BlockSums = self.table.reduce(sums_of_block, terms)
        return sums

    @cached_property
    def null_sums(self) -> BlockSums:
        """The sums at Z = 0."""
        return self.sums(np.zeros((0, len(self.center))), self.center)

    @cached_property
    def density(self) -> float:
        """The share of the table that is observed, by weight."""
        return float(self.count.sum()) / (self.total * len(self.count))

    def alpha_max(self) -> float:
        """Return the strength from which on Z = 0 is optimal."""
        return self._norm(self.null_sums)

    @property
    def floor(self) -> float:
        """A share of the objective of Z = 0."""
        return 1e-3 * self.null_sums.loss

    def first_iterates(self) -> tuple[Iterate[BlockPoint]]:
        """Return Z = 0 with its certificate."""
        C = np.zeros((0, len(self.center)))
        return (self.iterate(C, self.center, self.null_sums, steps=0),)

    def iterate(
        self,
        C: Array,
        b: Array,
        sums: BlockSums,
        **more: Any,
    ) -> Iterate[BlockPoint]:
        """Return the point of a pass, with its objective and the bound that it proves."""
        point = BlockPoint(C, b, sums.moments)
        objective = sums.loss + self.alpha * float(point.spectrum[0].sum())
        bound = self.bound(sums)
        more["info"] = {"rank": len(C)}
        return Iterate(point, objective, bound.value, bound.rigorous, **more)

    def bound(self, sums: BlockSums) -> Bound:
        """Return the greatest dual value of s Y over feasible scales s, Y the corrected residuals.

        Y = g - m_j with the column means m of g sums to zero in every column, as free offsets
        require. Its norm is at most that of g plus the Euclidean norm of what was subtracted.
        """
        norm = self._norm(sums)
        squares = sums.squares
        if self.fit_intercept:
            count = positive_or_one(self.count)
            subtracted = float((np.square(sums.offsets) / count).sum())
            squares -= subtracted
            norm += np.sqrt(subtracted)
        longest = 1.0
        if norm > 0:
            longest = self.alpha / norm
        if np.isfinite(self.price):
            longest = min(longest, 1.0)  # up to which s g is at most the price
        # the means of g change no sum with x - b beyond their own
        product = sums.product
        if self.fit_intercept:
            product -= float((sums.offsets * self._residual_means(sums)).sum())
        best = longest
        if squares > 0:
            best = min(max(-product / squares, 0.0), longest)
        value = -best * product - best * best * squares / 2
        size = best * np.sqrt(sums.squares * sums.size) + best * best * sums.squares
        summands = SUM_ROUNDING * np.sqrt(self.table.shape[0] * len(self.center))
        return Bound(float(value - summands * size), True)

    def _residual_means(self, sums: BlockSums) -> Array:
        """Return the weighted means of x - b in each column."""
        return sums.right[:, -1] / positive_or_one(self.count)

    def _norm(self, sums: BlockSums) -> float:
        """Return a proven upper bound of the largest singular value of the residuals."""
        gram = np.triu(sums.gram)
        top = float(np.linalg.eigvalsh(gram, UPLO="U")[-1])
        largest = np.sqrt(max(top, 0.0))
        if largest == 0.0:
            return float(np.sqrt(max(sums.squares, 0.0)))
        inflation = FIRST_INFLATION
        for _ in range(MAX_PROOFS):
            level = float(largest * (1 + inflation))
            if is_below(gram, level, self._summands):
                return level
            inflation *= 100
        return float(np.sqrt(sums.squares) * (1 + self._summands * EPS))

    @property
    def _summands(self) -> int:
        """Return the length of the sums in a Gram matrix."""
        return int(self.table.shape[0])
