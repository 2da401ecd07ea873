"""Scoring rows with the components held fixed: each row alone, missing entries allowed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.linalg import is_sparse, positive_or_one
from regfactor.core.loop import Clock
from regfactor.core.params import Array
from regfactor.losses import Loss
from regfactor.penalties import Constraint, OneHot, Penalty, PowerPenalty, SquaredL2
from regfactor.problems import Data
from regfactor.solvers.rows import minimize_rows
from regfactor.solvers.updates import update_codes

MAX_STEPS = 20_000  # more than enough: the iteration ends by itself when nothing moves
SMOOTHINGS = 10.0 ** -np.arange(10)  # a loss with kinks is approached by smooth ones
TINY_RIDGE = 1e-8  # the penalty that is left when codes are debiased


@dataclass(frozen=True)
class Scoring:
    """min over a row phi of sum_j w f((phi C + intercept)_j; x_j) + alpha penalty(phi / scale)."""

    loss: Loss
    penalty: Penalty
    alpha: float
    weight: Any = 1.0  # of all entries, or of each column
    scale: Any = 1.0  # of all codes, or of each component

    def __call__(
        self,
        X: Any,
        C: Array,
        intercept: Array,
        entries: Any = None,
        start: Array | None = None,
        clock: Clock | None = None,
        limits: Array | None = None,
    ) -> Array:
        """Return the codes of the rows of X, those of least penalty where no entry is observed.

        Intercepts are those of columns, or of all entries. When the time of a clock is up, rows
        keep the best codes found so far.
        """
        codes = np.zeros((X.shape[0], len(C)), C.dtype)
        if isinstance(self.penalty, Constraint):
            codes = self.penalty.project(codes)
        seen = self.seen(X, entries, limits)
        if not len(C) or not seen.any():
            return codes
        weights = None if entries is None else entries[seen]
        if intercept.ndim == 2:
            intercept = intercept[seen]
        if limits is not None:
            limits = limits[:, seen]
        data = self._data(X[seen], weights, intercept, limits)
        # a ridge has one minimum wherever the search begins; for other penalties only the same
        # start gives the same codes
        begin = codes
        if start is not None and self.penalty.ridge is not None:
            begin = start
        codes[seen] = self.of_data(
            data,
            C,
            begin[seen].astype(C.dtype),
            clock,
        )
        return codes

    def of_data(
        self,
        data: Data,
        C: Array,
        start: Array,
        clock: Clock | None = None,
    ) -> Array:
        """Return the codes of the rows of data that hold loss, weights and intercepts."""
        scale = np.asarray(self.scale, C.dtype)
        scaled = C * (scale[:, None] if scale.ndim else scale)
        codes = start / positive_or_one(scale)
        if not data.unbounded:
            # zero may lie outside the domain of the loss; a mixture of all components never does
            codes = codes + 1 / len(C)
        if data.smooth or isinstance(self.penalty, OneHot):
            codes = update_codes(data, codes, scaled, self.penalty, self.alpha, MAX_STEPS, clock)
        elif self.penalty.ridge is not None:
            strengths = 2 * self.alpha * self.penalty.rows(np.eye(len(C)))
            codes = minimize_rows(data, codes, scaled, strengths, clock)
        else:
            codes = self._of_smoothed(data, codes, scaled, clock)
        return np.asarray(codes * scale, C.dtype)

    def seen(self, X: Any, entries: Any, limits: Array | None) -> Array:
        """Return the mask of rows that have an observed entry."""
        if is_sparse(X):
            if entries is None:
                return np.diff(X.indptr) > 0
            return np.asarray((entries != 0).sum(axis=1)).ravel() > 0
        missing = np.isnan(X)
        if limits is not None:
            missing &= ~np.isfinite(limits).any(axis=0)
        if entries is not None:
            missing |= entries == 0
        return ~missing.all(axis=1)

    def _data(self, X: Any, entries: Any, intercept: Array, limits: Array | None) -> Data:
        if is_sparse(X):
            data = Data.of(X, self.loss, self._stored_weights(X, entries))
            return data.shifted(np.ones((X.shape[0], 1), X.dtype), intercept[None])
        weights = entries
        if np.ndim(self.weight) or self.weight != 1:
            weights = np.broadcast_to(np.asarray(self.weight, X.dtype), X.shape)
            if entries is not None:
                weights = weights * entries
        offset = intercept if intercept.any() else None
        return Data.of(X, self.loss, weights, offset, limits)

    def _stored_weights(self, X: Any, entries: Any) -> Any:
        """Return the weights of the stored entries of a sparse table."""
        if np.ndim(self.weight) == 0 and self.weight == 1:
            return entries
        weights = np.broadcast_to(np.asarray(self.weight, X.dtype), X.shape[1])[X.indices]
        if entries is not None:
            weights = weights * entries.data
        return scipy.sparse.csr_array((weights, X.indices, X.indptr), shape=X.shape)

    def strengths(self, width: int) -> Array:
        """Return the ridge of each code, zero where the penalty is none."""
        if self.penalty.ridge is None:
            return np.zeros(width)
        scale = np.broadcast_to(np.asarray(self.scale, np.float64), width)
        scaled = 2 * self.alpha * self.penalty.rows(np.eye(width))
        return scaled / np.square(positive_or_one(scale))

    def debiased(self) -> Scoring:
        """Return the same scoring with almost no penalty."""
        return replace(self, penalty=SquaredL2(), alpha=TINY_RIDGE)

    def with_prior(self, deviations: Array, strength: float, n_free: int = 0) -> Scoring:
        """Return the same scoring under a normal prior: strength sum_i phi_i^2 / (2 deviation_i^2).

        In codes of deviation one this is a ridge, however much the deviations differ. The first
        `n_free` codes have no prior.
        """
        if not n_free:
            return replace(self, penalty=SquaredL2(), alpha=strength, scale=deviations)
        scale = positive_or_one(deviations)
        weights = np.ones(len(deviations), deviations.dtype)
        weights[:n_free] = 0
        return replace(self, penalty=PowerPenalty(2.0, weights), alpha=strength, scale=scale)

    def _of_smoothed(
        self,
        data: Data,
        codes: Array,
        C: Array,
        clock: Clock | None,
    ) -> Array:
        """Return the codes under a loss with kinks."""
        for share in SMOOTHINGS:
            near = data.smoothed(share)
            codes = update_codes(near, codes, C, self.penalty, self.alpha, MAX_STEPS, clock)
            if clock is not None and clock.expired:
                break
        return codes
