"""Scoring rows with the components held fixed: each row alone, holes allowed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from regfactor._params import Array
from regfactor.losses import Loss
from regfactor.penalties import Constraint, OneHot, Penalty, SquaredL2
from regfactor.problems import Data
from regfactor.solvers.updates import is_ridge, split_rows, update_codes

STEPS = 20_000  # more than enough: the iteration ends by itself when nothing moves
SMOOTHINGS = 10.0 ** -np.arange(10)  # a loss with kinks is approached by smooth ones
TINY_RIDGE = 1e-8  # what is left of the penalty when codes are debiased


@dataclass(frozen=True)
class Scoring:
    """min over a row phi of sum_j w f((phi C)_j + intercept_j; x_j) + alpha penalty(phi)."""

    loss: Loss
    penalty: Penalty
    alpha: float
    weight: float = 1.0

    def __call__(
        self, X: Array, C: Array, intercept: Array, entries: Array | None = None, start: Array | None = None
    ) -> Array:
        """Return the codes of the rows of X; a row without an observed entry gets the codes of least penalty."""
        weights = np.full(X.shape, self.weight) if entries is None else self.weight * entries
        seen = ~(np.isnan(X) | (weights == 0)).all(axis=1)
        codes = np.zeros((len(X), len(C)), C.dtype)
        if isinstance(self.penalty, Constraint):
            codes = self.penalty.project(codes)
        if len(C) and seen.any():
            data = Data.of(X[seen], self.loss, weights[seen], intercept)
            # a ridge has one minimum wherever the search begins; elsewhere only the same start gives the same codes
            begin = start if start is not None and is_ridge(self.penalty) else codes
            codes[seen] = self._fit(data, C, begin[seen].astype(C.dtype))
        return codes

    def debiased(self) -> Scoring:
        """Return the same scoring with next to no penalty."""
        return replace(self, penalty=SquaredL2(), alpha=TINY_RIDGE)

    def _fit(self, data: Data, C: Array, codes: Array) -> Array:
        if not data.unbounded:  # zero may lie outside the domain of the loss, a mixture of all components never does
            codes = codes + 1 / len(C)
        if data.smooth or isinstance(self.penalty, OneHot):
            return update_codes(data, codes, C, self.penalty, self.alpha, STEPS)
        shares = SMOOTHINGS
        if is_ridge(self.penalty):  # splitting comes near in few steps; what is left are the last digits
            codes, shares = split_rows(data, codes, C, self.penalty, self.alpha), SMOOTHINGS[7:]
        for share in shares:
            codes = update_codes(data.smoothed(share), codes, C, self.penalty, self.alpha, STEPS)
        return codes
