"""Criteria by which the numbers of lags of vector autoregressions compare."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Criterion = Callable[[float, int, int, int], float]


def bic(log_det: float, N: int, n: int, m: int) -> float:
    """Return N log|Sigma| + log(N) m n for N rows, n series and m coefficients in each equation."""
    return N * log_det + np.log(N) * m * n


def aicc(log_det: float, N: int, n: int, m: int) -> float:
    """Return the corrected AIC of vector autoregressions (Hurvich & Tsai 1993).

    Infinite where N is too small.
    """
    left = N - (m + n + 1)
    if left > 0:
        return N * (log_det + n) + 2 * N / left * (m * n + n * (n + 1) / 2)
    return np.inf


CRITERIA: dict[str, Criterion] = {"bic": bic, "aicc": aicc}
