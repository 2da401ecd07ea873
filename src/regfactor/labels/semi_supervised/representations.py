"""Numbers that describe a row, learned from all rows, with targets or without.

    constant        zero
    columns         the columns, standardized
    ranks           normal scores of the columns
    factors p       principal scores of the columns times (v_k / v_1 + eps)^(p/2)
    rank factors p  the same of the ranks

v_k are the principal variances: p = 0 are the scores themselves, p > 0 stresses the directions in
which rows differ most, p = -1 makes all directions alike. Columns and ranks have mean square 1,
factors have it on average. A sparse table has factors only, of columns divided by their greatest
size, so that rare columns stay small.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.special import ndtri

from regfactor.core.linalg import is_sparse, orthonormal
from regfactor.core.params import SMALLEST_NORMAL, Array, frozen
from regfactor.fitting.complete_rows import RowCompletion

MAX_KNOTS = 1000  # of the normal scores of a column
MAX_RANKED_ROWS = 20_000  # rows from which ranks are learned; of more, every second, third, ...
MAX_FACTORS = 60
MAX_COLUMNS = 100  # above, factors of p = 0 take the place of columns and of ranks
MAX_COVARIANCE = 2000  # columns up to which principal directions are found from the covariance
N_OVERSAMPLED = 10  # random directions beyond the factors, of large tables
N_POWER_STEPS = 2
SMALLEST_RATIO = 1e-6  # eps for p >= 0
SMALLEST_WHITENED_RATIO = 1e-3  # eps for p < 0
CONSTANT_SPREAD = 1e-10  # deviation of a column, relative to its size, up to which it is constant
BLOCK_ELEMENTS = 2**19  # numbers of a block of rows
CONSTANT = "constant"
COLUMNS = "columns"
RANKS = "ranks"
FACTORS = "factors"
RANK_FACTORS = "rank factors"


@dataclass(frozen=True)
class Representation:
    """A kind of numbers, and the power p of factors."""

    kind: str
    power: float = 0.0

    @property
    def name(self) -> str:
        """The name as it is reported."""
        if self.kind not in (FACTORS, RANK_FACTORS):
            return self.kind
        return f"{self.kind} {self.power:g}"

    @property
    def of_ranks(self) -> bool:
        """Whether the numbers are made of ranks."""
        return self.kind in (RANKS, RANK_FACTORS)


def row_blocks(n_rows: int, width: int) -> Iterator[slice]:
    """Yield slices of rows that hold about `BLOCK_ELEMENTS` numbers each."""
    step = max(1, BLOCK_ELEMENTS // max(width, 1))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


@frozen
class NormalScores:
    """Phi^-1 of the rank of each entry in its column, as a share, between knots linear in x."""

    knots: list[Array]
    scores: list[Array]

    @staticmethod
    def of(X: Array, weights: Array) -> NormalScores:
        """Return the scores of the columns of X, in units of their deviation."""
        knots = []
        scores = []
        for column in X.T:
            own_knots, own_scores = _normal_scores(column, weights)
            knots.append(own_knots)
            scores.append(own_scores)
        return NormalScores(knots, scores)

    def __call__(self, X: Array) -> Array:
        """Return the scores of rows; outside of the range of a column they are constant."""
        out = np.empty(X.shape)
        for j, knots in enumerate(self.knots):
            out[:, j] = np.interp(X[:, j], knots, self.scores[j])
        return out


def _normal_scores(column: Array, weights: Array) -> tuple[Array, Array]:
    """Return the distinct values of a column, thinned where they are many, and their scores."""
    order = np.argsort(column)
    values = column[order]
    mass = np.cumsum(weights[order])
    last_of_value = np.flatnonzero(np.append(values[1:] > values[:-1], True))
    knots = values[last_of_value]
    upto = mass[last_of_value] / mass[-1]
    shares = np.diff(upto, prepend=0.0)
    scores = ndtri(np.clip(upto - 0.5 * shares, SMALLEST_NORMAL, 1.0))
    # two equal halves of the greatest score would be infinite by rounding
    scores = np.minimum(scores, -scores[0] if len(scores) > 1 else 0.0)
    deviation = np.sqrt(shares @ np.square(scores))
    if deviation > 0:
        scores = scores / deviation
    if len(knots) > MAX_KNOTS:
        chosen = np.searchsorted(upto, np.linspace(0.0, 1.0, MAX_KNOTS))
        chosen = np.unique(np.minimum(chosen, len(knots) - 1))
        knots = knots[chosen]
        scores = scores[chosen]
    return knots, scores


@frozen
class PrincipalAxes:
    """Principal directions of columns, and the variances of the scores along them."""

    vectors: Array
    variances: Array

    @staticmethod
    def of_covariance(covariance: Array) -> PrincipalAxes:
        """Return the directions of the greatest variances."""
        width = len(covariance)
        rank = min(MAX_FACTORS, width)
        values, vectors = scipy.linalg.eigh(
            covariance,
            subset_by_index=[width - rank, width - 1],
            check_finite=False,
        )
        return PrincipalAxes(vectors[:, ::-1], np.maximum(values[::-1], 0.0))

    def sizes(self, power: float) -> Array:
        """Return the numbers by which scores are multiplied to be factors of a power."""
        eps = SMALLEST_RATIO if power >= 0 else SMALLEST_WHITENED_RATIO
        greatest = max(float(self.variances[0]), SMALLEST_NORMAL)
        sizes = (self.variances / greatest + eps) ** (power / 2)
        mean_square = float(np.mean(self.variances * np.square(sizes)))
        if mean_square > 0:
            sizes = sizes / np.sqrt(mean_square)
        return sizes


@frozen
class Representations:
    """What all rows taught about a table: it turns rows, old and new, into representations.

    Attributes
    ----------
    completion : RowCompletion or None
        Fills missing entries, where the table has some.
    kept : array of int
        Columns that vary.
    mean, factor : array
        Of these columns: (x - mean) factor is standardized.
    scores : NormalScores or None
    axes, rank_axes : PrincipalAxes or None
        Where some representation needs them.
    is_wide : bool
        Whether factors of p = 0 take the place of columns and of ranks.
    """

    completion: RowCompletion | None
    kept: Array
    mean: Array
    factor: Array
    scores: NormalScores | None
    axes: PrincipalAxes | None
    rank_axes: PrincipalAxes | None
    is_wide: bool

    @staticmethod
    def fit(X: Any, weights: Array, wanted: Collection[Representation]) -> Representations:
        """Return what the rows of X teach, weighted by repetition counts.

        Parameters
        ----------
        X : array of shape (n_samples, n_columns) with NaN where entries are missing, or CSR array
        weights : array of shape (n_samples,)
            All positive.
        wanted : collection of Representation
        """
        if is_sparse(X):
            return _of_sparse(X, weights)
        completion = None
        if np.isnan(X).any():
            completion = RowCompletion.fit(X, weights)
            X = completion.complete(X)
        total = float(weights.sum())
        mean = weights @ X / total
        deviation = np.sqrt(weights @ np.square(X - mean) / total)
        kept = np.flatnonzero(deviation > CONSTANT_SPREAD * np.abs(X).max(axis=0))
        if not len(kept):
            kept = np.zeros(1, int)
        scales = deviation[kept]
        factor = np.divide(
            1.0,
            scales,
            out=np.zeros(len(kept)),
            where=scales > 0,
        )
        X = X[:, kept]
        mean = mean[kept]
        is_wide = len(kept) > MAX_COLUMNS
        scores = None
        rank_axes = None
        if any(representation.of_ranks for representation in wanted):
            step = -(-len(X) // MAX_RANKED_ROWS)
            scores = NormalScores.of(X[::step], weights[::step])
            if is_wide or any(r.kind == RANK_FACTORS for r in wanted):
                rank_axes = _principal_axes(X[::step], weights[::step], scores)
        axes = None
        if is_wide or any(representation.kind == FACTORS for representation in wanted):
            axes = _principal_axes(X, weights, _Standardized(mean, factor))
        return Representations(completion, kept, mean, factor, scores, axes, rank_axes, is_wide)

    def of(self, X: Any, wanted: Collection[Representation]) -> dict[Representation, Array]:
        """Return the wanted representations of rows."""
        if is_sparse(X):
            return self._of_sparse_rows(X, wanted)
        if self.completion is not None or np.isnan(X).any():
            X = self._completed(X)
        X = X[:, self.kept]
        found: dict[Representation, Array] = {}
        of_columns = [representation for representation in wanted if not representation.of_ranks]
        if of_columns:
            self._add(found, (X - self.mean) * self.factor, of_columns)
        of_ranks = [representation for representation in wanted if representation.of_ranks]
        if of_ranks and self.scores is not None:
            self._add(found, self.scores(X), of_ranks)
        return found

    def _add(
        self,
        found: dict[Representation, Array],
        table: Array,
        wanted: Sequence[Representation],
    ) -> None:
        """Add the representations that are made of one table, of columns or of ranks."""
        principal = None
        for representation in wanted:
            axes = self._axes_of(representation)
            if representation.kind == CONSTANT:
                found[representation] = np.zeros((len(table), 1))
            elif axes is None:
                found[representation] = table
            else:
                if principal is None:
                    principal = table @ axes.vectors
                found[representation] = principal * axes.sizes(representation.power)

    def _axes_of(self, representation: Representation) -> PrincipalAxes | None:
        """Return the axes of factors; None for columns and ranks."""
        is_factors = representation.kind in (FACTORS, RANK_FACTORS)
        if not is_factors and not self.is_wide:
            return None
        if representation.of_ranks:
            return self.rank_axes
        return self.axes

    def column_shares(self, representation: Representation, relevances: Array) -> Array:
        """Return the share of each column in the squared lengths of represented rows, of sum one.

        Relevances are those of the numbers of the representation.
        """
        if representation.kind == CONSTANT:
            return np.zeros(len(self.kept))
        axes = self._axes_of(representation)
        shares = relevances
        if axes is not None:
            sizes = axes.sizes(representation.power)
            shares = np.square(axes.vectors) @ (np.square(sizes) * relevances)
        return shares / max(float(shares.sum()), SMALLEST_NORMAL)

    def _completed(self, X: Array) -> Array:
        """Return rows without missing entries; at the mean where fitted rows had none."""
        if self.completion is not None:
            return self.completion.complete(X)
        mean = np.zeros(X.shape[1])
        mean[self.kept] = self.mean
        return np.where(np.isnan(X), mean, X)

    def _of_sparse_rows(
        self,
        X: Any,
        wanted: Collection[Representation],
    ) -> dict[Representation, Array]:
        axes = self.axes
        assert axes is not None
        directions = self.factor[:, None] * axes.vectors
        principal = X[:, self.kept] @ directions - self.mean @ directions
        found = {}
        for representation in wanted:
            found[representation] = principal * axes.sizes(representation.power)
            if representation.kind == CONSTANT:
                found[representation] = np.zeros((X.shape[0], 1))
        return found


@frozen
class _Standardized:
    """(x - mean) factor."""

    mean: Array
    factor: Array

    def __call__(self, X: Array) -> Array:
        return (X - self.mean) * self.factor


def _principal_axes(X: Array, weights: Array, prepared: Any) -> PrincipalAxes:
    """Return the principal axes of the rows of X, prepared block by block; their mean is zero."""
    n_rows, width = X.shape
    shares = weights / weights.sum()
    if width > MAX_COVARIANCE:
        table = prepared(X) * np.sqrt(shares)[:, None]
        return _randomized_axes(table.__matmul__, table.T.__matmul__, width)
    covariance = np.zeros((width, width))
    for block in row_blocks(n_rows, width):
        table = prepared(X[block])
        covariance += (table * shares[block, None]).T @ table
    return PrincipalAxes.of_covariance(covariance)


def _of_sparse(X: Any, weights: Array) -> Representations:
    """Return the factors of a sparse table, which stays sparse: its mean is subtracted apart."""
    sizes = abs(X).max(axis=0).toarray().ravel()
    kept = np.flatnonzero(sizes > 0)
    if not len(kept):
        kept = np.zeros(1, int)
    factor = np.divide(
        1.0,
        sizes[kept],
        out=np.zeros(len(kept)),
        where=sizes[kept] > 0,
    )
    shares = weights / weights.sum()
    scaled = X[:, kept] @ scipy.sparse.diags_array(factor)
    mean = scaled.T @ shares
    roots = np.sqrt(shares)[:, None]

    def apply(directions: Array) -> Array:
        return roots * (scaled @ directions - mean @ directions)

    def adjoint(rows: Array) -> Array:
        weighted = roots * rows
        return scaled.T @ weighted - np.outer(mean, weighted.sum(axis=0))

    axes = _randomized_axes(apply, adjoint, len(kept))
    means = np.divide(
        mean,
        factor,
        out=np.zeros(len(kept)),
        where=factor > 0,
    )
    return Representations(None, kept, means, factor, None, axes, None, True)


def _randomized_axes(apply: Any, adjoint: Any, width: int) -> PrincipalAxes:
    """Return principal axes by power steps from random directions (Halko et al. 2011)."""
    count = min(MAX_FACTORS + N_OVERSAMPLED, width)
    directions = np.random.default_rng(0).normal(size=(width, count))
    directions = orthonormal(adjoint(apply(directions)))
    for _ in range(N_POWER_STEPS - 1):
        directions = orthonormal(adjoint(apply(directions)))
    image = apply(directions)
    axes = PrincipalAxes.of_covariance(image.T @ image)
    return PrincipalAxes(directions @ axes.vectors, axes.variances)
