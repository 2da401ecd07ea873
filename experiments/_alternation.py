"""Local alternation of the objective that RegularizedARMA solves globally: innovations and their effects by turns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from regfactor.problems import Convex

Array = np.ndarray


@dataclass(frozen=True)
class Turn:
    """The objective after a turn, and the CPU seconds so far."""

    objective: float
    seconds: float


def alternated(problem: Convex, rank: int, seed: int) -> Iterator[Turn]:
    """Minimize 1/2 |Y - D C - S(E B')|^2 + sum_i g_i |C_i|^2 / 2 + lam (|E|^2 + |B|^2) / 2, exactly in turns.

    Given E, the coefficients C and B are one ridge regression; given these, E solves a banded
    system. At a global optimum of sufficient rank this is the value of the convex problem; turns
    need not get there.
    """
    assert problem.design is not None
    started = time.process_time()
    Y, D, q, lam = problem.data.terms[0].x, problem.design.D, problem.map.q, float(problem.alpha)
    N, n = Y.shape
    E = np.random.default_rng(seed).normal(size=(N + q, rank))
    ridge = np.concatenate([problem.design.strengths, np.full(rank * (q + 1), lam)])
    while True:
        lagged = [E[q - j : q - j + N] for j in range(q + 1)]
        regressors = np.hstack([D, *lagged])
        coefficients = np.linalg.solve(regressors.T @ regressors + np.diag(ridge), regressors.T @ Y)
        C, B = (
            coefficients[: D.shape[1]],
            coefficients[D.shape[1] :].reshape(q + 1, rank, n).transpose(0, 2, 1),
        )
        R = Y - D @ C
        E = innovations(R, B, lam, problem)
        left = R - sum(E[q - j : q - j + N] @ B[j].T for j in range(q + 1))
        penalties = np.square(C).T @ problem.design.strengths
        sizes = np.vdot(left, left) + penalties.sum() + lam * (np.vdot(E, E) + np.vdot(B, B))
        yield Turn(float(sizes) / 2, time.process_time() - started)


def innovations(R: Array, B: Array, lam: float, problem: Convex) -> Array:
    """Return E of least |R - S(E B')|^2 + lam |E|^2, by a banded Cholesky factorization."""
    (blocks, _, k), N = B.shape, len(R)
    q = blocks - 1
    band = np.zeros((blocks * k, N + q, k))
    a, b = (index.ravel() for index in np.indices((k, k)))
    for late in range(blocks):
        for early in range(late + 1):  # rows r and r + late - early meet at time r - q + late
            offset = (late - early) * k + b - a
            lower, met = offset >= 0, slice(q - late, q - late + N)
            products = (B[late].T @ B[early])[a[lower], b[lower]]
            band[offset[lower], met, a[lower]] += products[:, None]
    band[0] += lam
    target = problem.map.adjoint(R) @ B.reshape(-1, k)
    return scipy.linalg.solveh_banded(
        band.reshape(blocks * k, -1), target.ravel(), lower=True
    ).reshape(N + q, k)
