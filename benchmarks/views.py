"""Two views: CPU in thin SVDs of the stacked table, random sweeps of hard and easy problems, and one large table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks._peers import QUICK, cpu, grown, in_fresh_process, table, versions
from regfactor.core.loop import Solution
from regfactor.datasets import make_two_view
from regfactor.losses import Huber, Logistic, Loss, Poisson, SmoothedL1, Squared, Stacked
from regfactor.penalties import TwoView
from regfactor.problems import Convex, Data
from regfactor.problems.convex import convex
from regfactor.solvers import solve
from regfactor.solvers.base import prepared

SIZES = ((20, 200),) if QUICK else ((20, 200), (100, 1000), (200, 2000))
TOLERANCES = (1e-4, 1e-6)
TRIALS = 20 if QUICK else 200
LARGE = (1000, 60) if QUICK else (20_000, 1000)  # rows, and columns of each view
REPEATS = 3
MOST = 4000  # iterations in a sweep


def smoothed(d: int, n: int) -> tuple[np.ndarray, Loss]:
    """Low rank with 5 % outliers, all entries observed (thesis, 5.4)."""
    views = make_two_view(n, (d, d), 5, random_state=0)
    return np.hstack([views.X1, views.X2]), SmoothedL1(0.1)


def squared(d: int, n: int) -> tuple[np.ndarray, Loss]:
    """Low rank with a tenth of a component's length in noise, 70 % observed."""
    views = make_two_view(n, (d, d), 5, outliers=0.0, noise=0.1, random_state=0)
    return masked(np.hstack([views.X1, views.X2])), Squared()


def logistic(d: int, n: int) -> tuple[np.ndarray, Loss]:
    """Binary answers of a low-rank model, 70 % observed."""
    views = make_two_view(n, (d, d), 5, outliers=0.0, random_state=0)
    Z = np.sqrt(d) * np.hstack([views.X1, views.X2])
    rng = np.random.default_rng(0)
    return masked((rng.random(Z.shape) < 1 / (1 + np.exp(-Z))).astype(float)), Logistic()


def masked(X: np.ndarray, share: float = 0.7) -> np.ndarray:
    """Return the table with some entries missing."""
    return np.where(np.random.default_rng(1).random(X.shape) < share, X, np.nan)


KINDS: dict[str, Callable[[int, int], tuple[np.ndarray, Loss]]] = {
    "smoothed_l1": smoothed,
    "squared, 70 % observed": squared,
    "logistic, 70 % observed": logistic,
}


def fitted(X: np.ndarray, loss: Loss, d: int, alpha: float, tol: float) -> Solution:
    """Solve from the table on, so that nothing computed of it before is used."""
    return solve(Convex(Data.of(X, loss), TwoView(d), alpha), tol=tol, max_iter=MOST)


def speed(kind: str, d: int, n: int) -> list[str]:
    """Solve to both tolerances at a tenth of the largest alpha.

    The unit is a thin SVD in the same process.
    """
    X, loss = KINDS[kind](d, n)
    unit = min(
        cpu(lambda: np.linalg.svd(np.nan_to_num(X), full_matrices=False))[0] for _ in range(REPEATS)
    )
    alpha = 0.1 * Convex(Data.of(X, loss), TwoView(d), 1.0).alpha_max()
    row = [f"{d}+{d} x {n}", kind, f"{1e3 * unit:.2g}"]
    for tol in TOLERANCES:
        fits = [cpu(partial(fitted, X, loss, d, alpha, tol)) for _ in range(2)]
        seconds, fit = min(fits, key=lambda pair: pair[0])
        row += [f"{seconds / unit:.3g}", f"{fit.relative_gap:.0e}", str(fit.n_iter)]
    return [*row, str(fit.point.factors.rank)]


def random_problem(seed: int, wide: bool) -> Convex:
    """A random small problem: sizes, ranks, masks, six losses, bounds, scales of the views and strength."""
    rng = np.random.default_rng([seed, wide])
    n, d1, d2 = int(rng.integers(10, 121)), int(rng.integers(2, 25)), int(rng.integers(2, 25))
    rank = int(rng.integers(1, min(d1, d2) + 1))
    Z = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d1 + d2)) / np.sqrt(rank)
    span, reach, least = (1.0, 2.0, 0.003) if wide else (np.log10(2), 0.7, 0.01)
    bounds = tuple(float(b) for b in 10 ** rng.uniform(-span, span, 2))
    scale = np.repeat(10 ** rng.uniform(-reach, reach, 2), [d1, d2])
    name = rng.choice(["squared", "huber", "smoothed_l1", "logistic", "poisson", "mixed"])
    noisy = Z + 0.3 * rng.normal(size=Z.shape)
    binary = (rng.random(Z.shape) < 1 / (1 + np.exp(-2 * Z))).astype(float)
    X, loss = {
        "squared": (noisy * scale, Squared()),
        "huber": (noisy * scale, Huber(1.0)),
        "smoothed_l1": (noisy * scale, SmoothedL1(0.1)),
        "logistic": (binary, Logistic()),
        "poisson": (rng.poisson(np.exp(np.clip(Z, -3, 3))).astype(float), Poisson()),
        "mixed": (
            np.where(np.arange(d1 + d2) < d1, noisy * scale, binary),
            Stacked(((slice(0, d1), Squared()), (slice(d1, None), Logistic()))),
        ),
    }[str(name)]
    if rng.random() < 0.5:
        X = np.where(rng.random(X.shape) < 0.7, X, np.nan)
        X[0] = np.where(np.isnan(X[0]), 1.0, X[0])
    problem = Convex(Data.of(X, loss), TwoView(d1, bounds), 1.0)
    return problem.at(problem.alpha_max() * 10 ** rng.uniform(np.log10(least), np.log10(0.8)))


def sweep(wide: bool) -> list[str]:
    """Solve fresh random problems to 1e-6."""
    fits = [solve(random_problem(seed, wide), tol=1e-6, max_iter=MOST) for seed in range(TRIALS)]
    gaps, steps = np.array([f.relative_gap for f in fits]), np.array([f.n_iter for f in fits])
    shares = [f"{100 * np.mean(gaps <= level):.1f} %" for level in (1e-6, 1e-5, 1e-3)]
    counts = [f"{np.median(steps):.0f} / {np.quantile(steps, 0.9):.0f}", f"{gaps.max():.0e}"]
    return ["wide" if wide else "moderate", str(TRIALS), *shares, *counts]


def large() -> list[str]:
    """Rank 10, 20 % observed, squared, to 1e-3: CPU in dense thin SVDs, timed on a quarter of the rows."""
    n, d = LARGE
    rng = np.random.default_rng(0)
    codes, C = rng.normal(size=(n, 10)), rng.normal(size=(10, 2 * d))
    unit = 4 * cpu(partial(np.linalg.svd, codes[: n // 4] @ C, full_matrices=False))[0]
    rows = [np.sort(rng.choice(2 * d, 2 * d // 5, replace=False)) for _ in range(n)]
    indptr = np.arange(n + 1) * (2 * d // 5)
    indices = np.concatenate(rows)
    values = np.concatenate([codes[i] @ C[:, row] for i, row in enumerate(rows)])
    X = scipy.sparse.csr_array(
        (values + 0.5 * rng.normal(size=len(values)), indices, indptr), shape=(n, 2 * d)
    )
    # twice the norm of the noise
    strength = 2 * 0.5 * np.sqrt(0.2) * (np.sqrt(n) + np.sqrt(2 * d)) * np.sqrt(2)
    del rows, values

    def fit() -> Any:
        problem = prepared(convex(X, Squared(), TwoView(d), float(strength)))
        return solve(problem, tol=1e-3)

    (memory, (seconds, found)) = grown(lambda: cpu(fit))
    kind = "proven" if found.rigorous else "numerical"
    size = f"{n} x ({d} + {d})"
    return [
        size,
        f"{unit:.3g}",
        f"{seconds / unit:.3g}",
        f"{found.relative_gap:.0e} {kind}",
        str(found.point.factors.rank),
        f"{memory:.0f}",
    ]


def main() -> str:
    """Run everything and return the tables."""
    solve(random_problem(0, False), tol=1e-4)
    speeds = [speed(kind, d, n) for d, n in SIZES for kind in KINDS]
    sweeps = [sweep(wide) for wide in (False, True)]
    return "\n".join(
        [
            "# Two views",
            "",
            f"{versions()}. CPU time on one thread; the unit is a thin SVD of the stacked table in "
            "the same process.",
            "",
            "## Time to a relative gap, at a tenth of the largest alpha",
            "",
            "smoothed_l1 has sigma 0.1 and 5 % outliers. Tables are those of `make_two_view` with "
            "rank 5.",
            "",
            *table(
                "table | loss | SVD, ms | to 1e-4, SVDs | gap | steps | to 1e-6, SVDs | gap | "
                "steps | rank",
                speeds,
            ),
            "",
            f"## Random problems to 1e-6, at most {MOST} steps",
            "",
            "Six losses, n <= 120, d <= 48, half of them with missing entries. Moderate: bounds in [.5, 2], "
            "views scaled by",
            "10^[-.7, .7], alpha from .01 to .8 of the largest. Wide: [.1, 10], 10^[-2, 2], from "
            ".003. Gaps are those",
            "of the returned factors.",
            "",
            *table(
                "sweep | problems | <= 1e-6 | <= 1e-5 | <= 1e-3 | steps, median / 90 % | worst gap",
                sweeps,
            ),
            "",
            "## A large table: rank 10, 20 % observed, squared, to 1e-3",
            "",
            "The SVD is timed on a quarter of the rows and multiplied by four.",
            "",
            *table(
                "table | dense SVD, s | ours, SVDs | gap | rank | memory growth, MB",
                [in_fresh_process(large)],
            ),
        ]
    )
