"""Normal distributions of rows: missing entries given the observed, and exact leave-one-out.

Let S be the covariance, K = S_oo^-1 for the observed entries o of a row, and u = K (x - mu)_o. The
columns c of one variable, left out of the row, are predicted by p_c = x_c - e with

    e = (K_cc)^-1 u_c,

of covariance (K_cc)^-1, and the prediction of a missing entry m without them is that with them less
B_mc e, where B = S_mo K are the coefficients of m on the observed entries. So nothing is solved
again for the rows or variables that are left out.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator

import numpy as np

from regfactor.core.params import Array, frozen

PADDED_TO = 4  # rows are solved together if their numbers of missing entries round up to the same
BATCH_ELEMENTS = 4_000_000  # numbers that are held at once


@frozen
class LeftOutColumns:
    """Columns of one variable, predicted from the rest of each row.

    Attributes
    ----------
    predicted : array of shape (n_rows, n_columns)
        Where the variable is missing, its conditional mean.
    residual : array of shape (n_rows, n_columns)
        Zero where the variable is missing.
    """

    predicted: Array
    residual: Array


class Conditioned(abc.ABC):
    """Rows given their observed entries.

    Attributes
    ----------
    filled : array of shape (n_rows, n_features)
        Missing entries are replaced by their conditional means.
    """

    filled: Array

    @abc.abstractmethod
    def variances(self, columns: Array) -> Array:
        """Return the variances of columns given the observed entries other than the columns."""

    @abc.abstractmethod
    def leave_out(self, columns: Array) -> LeftOutColumns:
        """Return the columns of one variable as the rest of each row predicts them."""

    @abc.abstractmethod
    def filled_without(self, columns: Array, residual: Array) -> Array:
        """Return `filled` as it is when one variable is left out, whose residuals are given."""

    @abc.abstractmethod
    def draw(self, random: np.random.Generator) -> Array:
        """Return standard normal numbers, in each row correlated like its missing entries."""


class Normal(abc.ABC):
    """A normal distribution of rows."""

    mean: Array

    @abc.abstractmethod
    def condition(self, X: Array) -> Conditioned:
        """Return rows given their observed entries; NaN where an entry is missing."""

    @abc.abstractmethod
    def cross_covariance(self, columns: Array) -> Array:
        """Return the covariances of some columns with all."""


@frozen
class RowBatch:
    """Rows of nearly equally many missing entries.

    Attributes
    ----------
    rows : array of shape (n_batch,)
    missing : array of shape (n_batch, m)
        Columns of the missing entries, padded by any column.
    valid : array of bool of shape (n_batch, m)
        False where padded.
    covariance : array of shape (n_batch, m, m)
        Of the missing entries given the observed, the identity where padded.
    coefficients : array of shape (n_batch, m, n_features)
        Of missing on observed entries, zero in missing columns and where padded.
    """

    rows: Array
    missing: Array
    valid: Array
    covariance: Array
    coefficients: Array


@frozen
class DenseConditioned(Conditioned):
    """Rows given their observed entries, under a full covariance."""

    filled: Array
    observed: Array
    precision: Array
    dual: Array  # u, zero at missing entries
    batches: list[RowBatch]

    def leave_out(self, columns: Array) -> LeftOutColumns:
        """Return the columns of one variable as the rest of each row predicts them."""
        inner = self._inner_precision(columns)
        residual = solve_each(inner, self.dual[:, columns])
        residual *= self.observed[:, columns]
        return LeftOutColumns(self.filled[:, columns] - residual, residual)

    def variances(self, columns: Array) -> Array:
        """Return the variances of columns given the observed entries other than the columns."""
        inner = self._inner_precision(columns)
        out = diagonals(np.linalg.inv(inner))
        for batch in self.batches:
            at_column = batch.missing[:, :, None] == columns
            at_column &= batch.valid[:, :, None]
            own = np.einsum("bmm->bm", batch.covariance)
            given = np.einsum("bmc,bm->bc", at_column, own)
            is_missing = at_column.any(axis=1)
            out[batch.rows] = np.where(is_missing, given, out[batch.rows])
        return out

    def filled_without(self, columns: Array, residual: Array) -> Array:
        """Return `filled` as it is when one variable is left out, whose residuals are given."""
        out = self.filled.copy()
        for batch in self.batches:
            own = batch.coefficients[:, :, columns]
            change = np.einsum("bmc,bc->bm", own, residual[batch.rows])
            np.subtract.at(out, (batch.rows[:, None], batch.missing), change)
        return out

    def draw(self, random: np.random.Generator) -> Array:
        """Return standard normal numbers, in each row correlated like its missing entries."""
        out = np.zeros(self.filled.shape)
        for batch in self.batches:
            factor = np.linalg.cholesky(batch.covariance)
            numbers = random.standard_normal(batch.missing.shape)
            drawn = np.einsum("bmk,bk->bm", factor, numbers)
            variances = np.einsum("bmm->bm", batch.covariance)
            drawn /= np.sqrt(variances)
            np.add.at(out, (batch.rows[:, None], batch.missing), drawn * batch.valid)
        return out

    def _inner_precision(self, columns: Array) -> Array:
        """K_cc of each row; where the variable is missing, of no meaning but invertible."""
        n_rows = len(self.filled)
        own = self.precision[np.ix_(columns, columns)]
        inner = np.broadcast_to(own, (n_rows, *own.shape)).copy()
        for batch in self.batches:
            cross = self.precision[batch.missing][:, :, columns]
            cross = cross * batch.valid[:, :, None]
            coefficients = batch.coefficients[:, :, columns]
            inner[batch.rows] += np.einsum("bmc,bmk->bck", cross, coefficients)
        absent = ~self.observed[:, columns].all(axis=1)
        inner[absent] = np.eye(len(columns))
        return inner


@frozen
class DenseNormal(Normal):
    """A normal distribution with any covariance."""

    mean: Array
    covariance: Array

    @property
    def precision(self) -> Array:
        """The inverse of the covariance."""
        inverse = np.linalg.inv(self.covariance)
        return (inverse + inverse.T) / 2

    def cross_covariance(self, columns: Array) -> Array:
        """Return the covariances of some columns with all."""
        return self.covariance[columns]

    def condition(self, X: Array) -> DenseConditioned:
        """Return rows given their observed entries."""
        precision = self.precision
        observed = ~np.isnan(X)
        centered = np.where(observed, X - self.mean, 0.0)
        batches = list(self.row_batches(observed, precision))
        for batch in batches:
            means = np.einsum("bmd,bd->bm", batch.coefficients, centered[batch.rows])
            np.add.at(centered, (batch.rows[:, None], batch.missing), means)
        dual = (centered @ precision) * observed
        filled = np.where(observed, X, centered + self.mean)
        return DenseConditioned(filled, observed, precision, dual, batches)

    def row_batches(self, observed: Array, precision: Array) -> Iterator[RowBatch]:
        """Yield rows with missing entries, those of like numbers of them together.

        In terms of the precision L = S^-1, the covariance of the missing entries is L_mm^-1 and
        their coefficients are -L_mm^-1 L_mo: the work is that of the missing entries, which are
        fewer than the observed in most tables.
        """
        n_missing = (~observed).sum(axis=1)
        padded = -(-n_missing // PADDED_TO) * PADDED_TO
        for width in np.unique(padded[n_missing > 0]).tolist():
            rows = np.flatnonzero(padded == width)
            n_together = max(BATCH_ELEMENTS // (width * observed.shape[1]), 1)
            for first in range(0, len(rows), n_together):
                together = rows[first : first + n_together]
                yield _batch(together, width, observed, precision)


def _batch(rows: Array, width: int, observed: Array, precision: Array) -> RowBatch:
    seen = observed[rows]
    # missing columns first, in their order
    missing = np.argsort(seen, axis=1, kind="stable")[:, :width]
    valid = ~np.take_along_axis(seen, missing, axis=1)
    both = valid[:, :, None] & valid[:, None, :]
    inner = precision[missing[:, :, None], missing[:, None, :]] * both
    padded = np.arange(missing.shape[1])
    inner[:, padded, padded] += ~valid
    covariance = np.linalg.inv(inner)
    outer = precision[missing]
    outer *= valid[:, :, None]
    outer *= seen[:, None, :]
    coefficients = -covariance @ outer
    return RowBatch(rows, missing, valid, covariance, coefficients)


@frozen
class FactoredConditioned(Conditioned):
    """Rows given their observed entries, under factors and independent noise."""

    filled: Array
    observed: Array
    loadings: Array
    noise: Array
    dual: Array
    posterior: Array  # covariance of the factors of each row, (n_rows, n_factors, n_factors)

    def leave_out(self, columns: Array) -> LeftOutColumns:
        """Return the columns of one variable as the rest of each row predicts them."""
        scaled = self.loadings[:, columns] / self.noise[columns]
        inner = -np.einsum("fc,bfg,gk->bck", scaled, self.posterior, scaled, optimize=True)
        inner += np.diag(1 / self.noise[columns])
        absent = ~self.observed[:, columns].all(axis=1)
        inner[absent] = np.eye(len(columns))
        residual = solve_each(inner, self.dual[:, columns])
        residual *= self.observed[:, columns]
        return LeftOutColumns(self.filled[:, columns] - residual, residual)

    def variances(self, columns: Array) -> Array:
        """Return the variances of columns given the observed entries other than the columns."""
        own = self.loadings[:, columns]
        spread = np.einsum("fc,bfg,gc->bc", own, self.posterior, own, optimize=True)
        given = self.noise[columns] + spread
        scaled = own / self.noise[columns]
        inner = -np.einsum("fc,bfg,gk->bck", scaled, self.posterior, scaled, optimize=True)
        inner += np.diag(1 / self.noise[columns])
        left_out = diagonals(np.linalg.inv(inner))
        return np.where(self.observed[:, columns], left_out, given)

    def filled_without(self, columns: Array, residual: Array) -> Array:
        """Return `filled` as it is when one variable is left out, whose residuals are given."""
        scaled = self.loadings[:, columns] / self.noise[columns]
        change = np.einsum("bfg,gc,bc->bf", self.posterior, scaled, residual, optimize=True)
        return self.filled - (change @ self.loadings) * ~self.observed

    def draw(self, random: np.random.Generator) -> Array:
        """Return standard normal numbers, in each row correlated like its missing entries."""
        factor = np.linalg.cholesky(self.posterior)
        numbers = random.standard_normal(factor.shape[:2])
        codes = np.einsum("bfg,bg->bf", factor, numbers)
        noise = np.sqrt(self.noise) * random.standard_normal(self.filled.shape)
        spread = np.einsum(
            "fd,bfg,gd->bd", self.loadings, self.posterior, self.loadings, optimize=True
        )
        drawn = (codes @ self.loadings + noise) / np.sqrt(spread + self.noise)
        return drawn * ~self.observed


@frozen
class FactoredNormal(Normal):
    """A normal distribution of covariance L'L + diag(noise), for more columns than are solved for.

    By Woodbury's identity K = N^-1 - N^-1 L' M^-1 L N^-1 with M = I + L N^-1 L', L and the noise N
    those of the observed entries; M^-1 is the covariance of the factors of a row.
    """

    mean: Array
    loadings: Array
    noise: Array

    def dense(self) -> DenseNormal:
        """Return the same distribution with its covariance formed."""
        covariance = self.loadings.T @ self.loadings + np.diag(self.noise)
        return DenseNormal(self.mean, covariance)

    def cross_covariance(self, columns: Array) -> Array:
        """Return the covariances of some columns with all."""
        out = self.loadings[:, columns].T @ self.loadings
        out[np.arange(len(columns)), columns] += self.noise[columns]
        return out

    def condition(self, X: Array) -> FactoredConditioned:
        """Return rows given their observed entries."""
        observed = ~np.isnan(X)
        centered = np.where(observed, X - self.mean, 0.0)
        n_factors = len(self.loadings)
        scaled = self.loadings / self.noise
        squares = np.einsum("fd,gd->dfg", scaled, self.loadings)
        flat = squares.reshape(len(self.mean), n_factors**2)
        inner = (observed @ flat).reshape(len(X), n_factors, n_factors)
        inner += np.eye(n_factors)
        posterior = np.linalg.inv(inner)
        codes = np.einsum("bfg,bg->bf", posterior, centered @ scaled.T)
        predicted = codes @ self.loadings
        dual = (centered - predicted) / self.noise * observed
        filled = np.where(observed, X, predicted + self.mean)
        return FactoredConditioned(filled, observed, self.loadings, self.noise, dual, posterior)


def solve_each(inner: Array, right: Array) -> Array:
    """Return the solution of a small system for each row."""
    if inner.shape[1] == 1:
        return right / inner[:, 0]
    return np.asarray(np.linalg.solve(inner, right[:, :, None])[:, :, 0])


def diagonals(matrices: Array) -> Array:
    """Return the diagonal of each matrix."""
    return np.einsum("bcc->bc", matrices).copy()
