"""Scoring rows with the components held fixed: each row alone, holes allowed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.losses import Loss
from regfactor.penalties import Constraint, OneHot, Penalty, SquaredL2
from regfactor.problems import Data
from regfactor.problems.data import data_of
from regfactor.solvers.rows import minimize_rows
from regfactor.solvers.updates import is_ridge, update_codes

STEPS = 20_000  # more than enough: the iteration ends by itself when nothing moves
SMOOTHINGS = 10.0 ** -np.arange(10)  # a loss with kinks is approached by smooth ones
TINY_RIDGE = 1e-8  # what is left of the penalty when codes are debiased


@dataclass(frozen=True)
class Scoring:
    """min over a row phi of sum_j w f((phi C)_j + intercept_j; x_j) + alpha penalty(phi / scale)."""

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
    ) -> Array:
        """Return the codes of the rows of X; a row without an observed entry gets the codes of least penalty."""
        codes = np.zeros((X.shape[0], len(C)), C.dtype)
        if isinstance(self.penalty, Constraint):
            codes = self.penalty.project(codes)
        seen = self._seen(X, entries)
        if len(C) and seen.any():
            data = self._data(X[seen], None if entries is None else entries[seen], intercept)
            # a ridge has one minimum wherever the search begins; elsewhere only the same start
            # gives the same codes
            begin = start if start is not None and is_ridge(self.penalty) else codes
            codes[seen] = self.of_data(data, C, begin[seen].astype(C.dtype))
        return codes

    def of_data(self, data: Data, C: Array, start: Array) -> Array:
        """Return the codes of the rows of data that hold loss, weights and intercepts; found in units of the scale."""
        scale = np.asarray(self.scale, C.dtype)
        scaled = C * scale if scale.ndim == 0 else C * scale[:, None]
        return np.asarray(
            self._fit(data, scaled, start / np.where(scale > 0, scale, 1)) * scale,
            C.dtype,
        )

    def _seen(self, X: Any, entries: Any) -> Array:
        """Tell which rows have an observed entry."""
        if is_sparse(X):
            if entries is None:
                return np.diff(X.indptr) > 0
            return np.asarray((entries != 0).sum(axis=1)).ravel() > 0
        if entries is None:
            missing = np.isnan(X)
        else:
            missing = np.isnan(X) | (entries == 0)
        return np.asarray(~missing.all(axis=1))

    def _data(self, X: Any, entries: Any, intercept: Array) -> Data:
        if is_sparse(X):
            data = data_of(X, self.loss, self._stored_weights(X, entries))
            return data.shifted(np.ones((X.shape[0], 1), X.dtype), intercept[None])
        weights = np.broadcast_to(np.asarray(self.weight, X.dtype), X.shape)
        return Data.of(X, self.loss, weights if entries is None else weights * entries, intercept)

    def _stored_weights(self, X: Any, entries: Any) -> Any:
        """Return the weights of the stored entries of a sparse table."""
        if np.ndim(self.weight) == 0 and self.weight == 1:
            return entries
        columns = np.broadcast_to(np.asarray(self.weight, X.dtype), X.shape[1])[X.indices]
        values = columns if entries is None else columns * entries.data
        return scipy.sparse.csr_array((values, X.indices, X.indptr), shape=X.shape)

    def debiased(self) -> Scoring:
        """Return the same scoring with next to no penalty."""
        return replace(self, penalty=SquaredL2(), alpha=TINY_RIDGE)

    def with_prior(self, deviations: Array, strength: float) -> Scoring:
        """Return the same scoring under a normal prior of the codes: strength sum_i phi_i^2 / (2 deviation_i^2).

        In codes of deviation one this is a ridge, however much the deviations differ.
        """
        return replace(self, penalty=SquaredL2(), alpha=strength, scale=deviations)

    def _fit(self, data: Data, C: Array, codes: Array) -> Array:
        if (
            not data.unbounded
        ):  # zero may lie outside the domain of the loss, a mixture of all components never does
            codes = codes + 1 / len(C)
        if data.smooth or isinstance(self.penalty, OneHot):
            return update_codes(data, codes, C, self.penalty, self.alpha, STEPS)
        if is_ridge(self.penalty):
            strengths = 2 * self.alpha * self.penalty.rows(np.eye(len(C)))
            return minimize_rows(data, codes, C, strengths)
        for share in SMOOTHINGS:
            codes = update_codes(data.smoothed(share), codes, C, self.penalty, self.alpha, STEPS)
        return codes
