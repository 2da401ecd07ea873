"""The number gamma of a kernel, given or found on training rows by a rule with a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.neighbors import NearestNeighbors

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, choose, require_positive
from regfactor.kernels.base import about_mean

MOST_ROWS = 1000  # a median is taken over so many rows, always the same ones
NEIGHBOR = 10


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
    rows = X[_some(X)]
    return _of_squares(pdist(rows.toarray() if is_sparse(rows) else rows, "sqeuclidean"))


def neighbors(X: Any) -> float:
    """1/(2 s), s the median squared distance to the tenth neighbor, or to the farthest of fewer rows."""
    k = min(NEIGHBOR, X.shape[0] - 1)
    if k == 0:
        return 1.0
    X, _ = about_mean(X)
    # one more than asked: a row is found as its own neighbor
    distances, _ = NearestNeighbors(n_neighbors=k + 1).fit(X).kneighbors(X[_some(X)])
    return _of_squares(np.square(distances[:, k], dtype=np.float64))


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
            f"gamma={gamma!r} finds no width: the rows are too {size} to be squared. Scale the columns."
        )
    return number


def _some(X: Any) -> Array:
    """At most MOST_ROWS rows, the same for every table of this length."""
    n = X.shape[0]
    if n <= MOST_ROWS:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).permutation(n)[:MOST_ROWS])


def _of_squares(squares: Array) -> float:
    """1/(2 median) of the squares that are not zero, since equal rows say nothing of a width; 1 without any."""
    squares = squares[squares > 0]
    if len(squares):
        return float(1 / (2 * np.median(squares)))
    return 1.0
