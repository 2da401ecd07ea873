"""The parameter gamma of a kernel, given as a number or by a named rule on training rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.neighbors import NearestNeighbors

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, choose, require_positive
from regfactor.kernels.base import about_mean

MAX_MEDIAN_ROWS = 1000  # a median is taken over at most so many rows, always the same ones
NEIGHBOR_RANK = 10


def scale(X: Any) -> float:
    """1/(n_features Var(X)), the variance of all entries: the rule of scikit-learn's SVC."""
    if is_sparse(X):
        variance = X.multiply(X).mean() - X.mean() ** 2
    else:
        variance = np.var(X, dtype=np.float64)
    if variance > 0:
        return 1 / (X.shape[1] * float(variance))
    return 1.0


def median(X: Any) -> float:
    """1/(2 s), s the median squared distance between two rows."""
    rows = X[_subsample(X)]
    if is_sparse(rows):
        rows = rows.toarray()
    return _from_squares(pdist(rows, "sqeuclidean"))


def neighbors(X: Any) -> float:
    """1/(2 s), s the median squared distance to the tenth neighbor, or to the farthest row."""
    k = min(NEIGHBOR_RANK, X.shape[0] - 1)
    if k == 0:
        return 1.0
    X, _ = about_mean(X)
    # k + 1, because a row is its own first neighbor
    distances, _ = NearestNeighbors(n_neighbors=k + 1).fit(X).kneighbors(X[_subsample(X)])
    return _from_squares(np.square(distances[:, k], dtype=np.float64))


RULES: dict[str, Callable[[Any], float]] = {
    "scale": scale,
    "median": median,
    "neighbors": neighbors,
}


def check(part: object, gamma: float | str) -> None:
    """Raise unless gamma is a positive number or the name of a rule."""
    if isinstance(gamma, str):
        choose(gamma, RULES, "gamma")
    else:
        require_positive(part, gamma=gamma)


def found(gamma: float | str, X: Any) -> float:
    """Return gamma as a number."""
    if not isinstance(gamma, str):
        return float(gamma)
    with np.errstate(over="ignore"):
        number = choose(gamma, RULES, "gamma")(X)
    if not 0 < number < np.inf:
        size = "small" if number > 0 else "large"
        raise ValueError(
            f"gamma={gamma!r} gives no finite width: the entries are too {size} to be squared. "
            "Scale the columns."
        )
    return number


def _subsample(X: Any) -> Array:
    """Return at most MAX_MEDIAN_ROWS positions, the same for all tables of this length."""
    n = X.shape[0]
    if n <= MAX_MEDIAN_ROWS:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).permutation(n)[:MAX_MEDIAN_ROWS])


def _from_squares(squares: Array) -> float:
    """1/(2 median) of the nonzero squares, as equal rows do not determine a width; 1 if none."""
    squares = squares[squares > 0]
    if len(squares):
        return float(1 / (2 * np.median(squares)))
    return 1.0
