"""Laws of divergences between rows and centers: signs, centers, pairs and sparse rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from regfactor.core.params import Array
from regfactor.losses.distances import Divergence
from regfactor.testing import draws
from regfactor.testing.laws import (
    Law,
    check_laws,
    frozen,
    is_cloned,
    require,
    require_at_most,
    require_close,
    require_part,
    rng,
)

N_ROWS = 15


@dataclass(frozen=True)
class DivergenceCase:
    """A divergence and the rows on which it is tried: drawn from its domain, or given ones."""

    divergence: Divergence
    data: Any = None
    seed: int = 0

    def rows(self, number: int, n: int = N_ROWS) -> Array:
        """Return n rows in the domain."""
        if self.data is None:
            return draws.draw_rows(self.divergence, self.seed + number, n)
        table = np.asarray(self.data, np.float64)
        return draws.resampled(table, rng(self.seed + number), (n, table.shape[1]), True)

    def cost(self, X: Array, m: Array, weights: Array) -> float:
        """Return the weighted sum of the divergences of rows from one center."""
        return float(weights @ self.divergence.paired(X, np.broadcast_to(m, X.shape)))


def rows_are_legal(case: DivergenceCase) -> None:
    """Rows are in `domain`."""
    require(
        bool(case.divergence.domain.contains(case.rows(0)).all()), "rows are outside of `domain`"
    )


def divergence_is_not_negative(case: DivergenceCase) -> None:
    """D(x, m) >= 0, and zero of a row from itself."""
    divergence = case.divergence
    X = case.rows(1)
    require_at_most(-divergence.paired(X, case.rows(2)), 1e-12, "-D(x, m)", x=X)
    own = divergence.paired(X, X)
    require_close(own, np.zeros_like(own), "D(x, x)", 0, 1e-9, x=X)


def both_methods_agree(case: DivergenceCase) -> None:
    """`between` gives for each pair what `paired` gives."""
    divergence = case.divergence
    X = case.rows(3)
    M = case.rows(4, 5)
    anchor = X.mean(axis=0)
    D = divergence.between(X, M, anchor)
    require(D.shape == (len(X), len(M)), f"between gives the shape {D.shape}")
    for j, m in enumerate(M):
        expected = divergence.paired(X, np.broadcast_to(m, X.shape))
        require_close(D[:, j], expected, f"between, center {j}", 1e-9, 1e-9, x=X)


def center_is_minimal_and_legal(case: DivergenceCase) -> None:
    """`center` minimizes the weighted sum of divergences, and lies in `domain`."""
    divergence = case.divergence
    X = case.rows(0)
    n, d = X.shape
    random = rng(case.seed)
    counts = random.integers(0, 4, n) + np.eye(n)[0]
    for w in (None, counts):
        weights: Array = np.ones(n)
        if w is not None:
            weights = w
        center = divergence.center(X, w)
        require(center.shape == (d,), f"center gives the shape {center.shape}, expected ({d},)")
        legal = divergence.domain.contains(center).all()
        require(bool(legal), f"center is outside of `domain`: {center}")
        least = case.cost(X, center, weights)
        shares = 10.0 ** random.uniform(-6, 0, size=(n, 1))
        others = list((1 - shares) * center + shares * X)  # between legal rows
        domain = divergence.domain
        if not np.isfinite([domain.low, domain.high]).any():
            others += list(center + shares * random.normal(size=(n, d)))
        best = min(case.cost(X, m, weights) for m in others)
        require_at_most(least, best + 1e-9 * (1 + abs(least)), "sum of divergences at the center")


def center_takes_sparse_rows(case: DivergenceCase) -> None:
    """`center` takes a scipy sparse array."""
    divergence = case.divergence
    X = case.rows(0)
    for w in (None, rng(1).integers(1, 4, len(X)).astype(float)):
        found = divergence.center(scipy.sparse.csr_array(X), w)
        require_close(found, divergence.center(X, w), "center of sparse rows", 1e-12, 1e-14)


def centers_are_those_of_each_weight(case: DivergenceCase) -> None:
    """`centers` gives the center under each column of weights."""
    divergence = case.divergence
    X = case.rows(5, 20)
    weights = rng(1).random((20, 3))
    each = np.stack([divergence.center(X, w) for w in weights.T])
    require_close(divergence.centers(X, weights), each, "centers", 1e-12)


def nothing_is_mutated(case: DivergenceCase) -> None:
    """No method writes to its arguments."""
    divergence = case.divergence
    X = frozen(case.rows(6))
    M = frozen(case.rows(7))
    divergence.center(X)
    divergence.between(X, M, frozen(X.mean(axis=0)))
    divergence.paired(X, M)


def divergence_is_cloned(case: DivergenceCase) -> None:
    """`clone` gives an equal divergence."""
    is_cloned(case.divergence)


LAWS: tuple[Law, ...] = (
    rows_are_legal,
    divergence_is_not_negative,
    both_methods_agree,
    center_is_minimal_and_legal,
    center_takes_sparse_rows,
    centers_are_those_of_each_weight,
    nothing_is_mutated,
    divergence_is_cloned,
)


def check_divergence(divergence: Divergence, data: Any = None) -> None:
    """Raise BrokenLaw unless a divergence keeps the laws that clusterings rely on.

    Parameters
    ----------
    divergence : Divergence
    data : array-like of shape (n_rows, n_columns), optional
        Legal rows; by default four numbers from `divergence.domain`.

    Raises
    ------
    TypeError
        If a method is missing, with its name and what it has to return.
    BrokenLaw
        With all laws that do not hold, and where each fails.

    Examples
    --------
    >>> from regfactor.losses.distances import SquaredDistance
    >>> from regfactor.testing import check_divergence
    >>> check_divergence(SquaredDistance())
    """
    require_part(divergence, Divergence, "check_divergence")
    check_laws(divergence, LAWS, DivergenceCase(divergence, data))
