"""Certificates of regressions under a trace norm, of arrays, and of norms without a formula."""

from __future__ import annotations

import time

import numpy as np

from regfactor.losses import Huber, Logistic, Loss, Poisson, Squared
from regfactor.maps import LeftProduct
from regfactor.norms import L2, LInf
from regfactor.penalties import Trace
from regfactor.penalties.numerical import InducedNorm
from regfactor.problems import Convex, Data, Design
from regfactor.problems.base import Problem
from regfactor.solvers import solve
from regfactor.tables.consensus_admm import OverlappedTrace

SEED, TOL, MAX_ITER = 2027, 1e-4, 2000
COUNTS = {"trace-norm regression": 100, "arrays of three modes": 40, "norms without a formula": 60}


def regression(rng: np.random.Generator) -> Problem:
    """Many targets under one of four losses, a third of them missing at times, with intercepts."""
    n, p, d = int(rng.integers(20, 100)), int(rng.integers(2, 20)), int(rng.integers(2, 15))
    A = rng.normal(size=(n, p))
    rank = int(rng.integers(1, min(p, d) + 1))
    Z = A @ rng.normal(size=(p, rank)) @ rng.normal(size=(rank, d)) / np.sqrt(p * rank)
    loss, Y = _targets(Z, rng)
    if rng.random() < 0.5:
        Y = np.where(rng.random(Y.shape) < 0.3, np.nan, Y)
    data = Data.of(Y, loss)
    problem = Convex(data, Trace(), 1.0, map=LeftProduct(A), design=Design.intercept(n))
    return problem.at(_strength(problem.alpha_max(), rng))


def array(rng: np.random.Generator) -> Problem:
    """An array of low rank in all modes, with noise, under the squared or the Huber loss."""
    shape = tuple(int(size) for size in rng.integers(3, 20, 3))
    Z = np.einsum("ir,jr,kr->ijk", *(rng.normal(size=(size, 2)) for size in shape))
    X = Z + 0.3 * rng.normal(size=shape)
    if rng.random() < 0.7:
        X = np.where(rng.random(shape) < rng.uniform(0.1, 0.6), np.nan, X)
    loss = Squared() if rng.random() < 0.5 else Huber(0.5)
    problem = OverlappedTrace(X, loss, 1.0, bool(rng.random() < 0.5))
    return OverlappedTrace(X, loss, _strength(problem.alpha_max, rng), problem.intercept)


def hard_norm(rng: np.random.Generator) -> Problem:
    """A small table under a pair of norms whose dual norm is found by search."""
    n, d = int(rng.integers(8, 25)), int(rng.integers(4, 12))
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.3 * rng.normal(size=(n, d))
    pairs = ((L2(), LInf()), (LInf(), L2()), (LInf(), LInf()))
    gauge = InducedNorm(*pairs[int(rng.integers(3))])
    problem = Convex(Data.of(X, Squared()), gauge, 1.0)
    return problem.at(problem.alpha_max() * rng.uniform(0.2, 0.8))


def _targets(Z: np.ndarray, rng: np.random.Generator) -> tuple[Loss, np.ndarray]:
    match int(rng.integers(4)):
        case 0:
            return Squared(), Z + 0.3 * rng.normal(size=Z.shape)
        case 1:
            return Huber(0.5), Z + 0.3 * rng.standard_t(2, Z.shape)
        case 2:
            return Logistic(), (rng.random(Z.shape) < 1 / (1 + np.exp(-Z))).astype(float)
        case _:
            return Poisson(), rng.poisson(np.exp(np.clip(Z, -3, 2))).astype(float)


def _strength(largest: float, rng: np.random.Generator) -> float:
    return float(largest * np.exp(rng.uniform(np.log(0.01), np.log(0.8))))


KINDS = {
    "trace-norm regression": regression,
    "arrays of three modes": array,
    "norms without a formula": hard_norm,
}


def table() -> list[str]:
    """Solve all problems; return lines of Markdown."""
    lines = [
        "",
        "## Regressions, arrays, and norms without a formula",
        "",
        f"Seed {SEED}, tol {TOL:g}, at most {MAX_ITER} iterations. Certificates of norms without a formula rest "
        "on a local search for the dual norm and are labeled numerical; tests/test_numerical_norms.py "
        "compares them with brute force.",
        "",
        "| problems | count | gap <= 1e-4 | worst gap | lowest gap | CPU s |",
        "|---|---|---|---|---|---|",
    ]
    for kind, draw in KINDS.items():
        rng = np.random.default_rng(SEED)
        gaps = []
        started = time.process_time()
        for _ in range(COUNTS[kind]):
            solution = solve(draw(rng), tol=TOL, max_iter=MAX_ITER)
            gaps.append(solution.relative_gap)
        seconds = time.process_time() - started
        reached = 100 * np.mean(np.array(gaps) <= TOL)
        lines.append(
            f"| {kind} | {COUNTS[kind]} | {reached:.1f} % | {max(gaps):.1e} | {min(gaps):.1e} | {seconds:.0f} |"
        )
    return lines


def main() -> str:
    """Return the table under a title of its own."""
    return "\n".join(
        ["# Certificates of regressions, arrays, and norms without a formula", *table()[2:]]
    )
