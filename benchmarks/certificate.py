"""How often a certificate is reached: random small problems over losses, masks, weights, gauges and free terms."""

from __future__ import annotations

import time
from collections import Counter, defaultdict

import numpy as np

from benchmarks.certificate_structures import table as structured_problems
from regfactor.losses import (
    Censored,
    Huber,
    Logistic,
    Loss,
    NegativeBinomial,
    Poisson,
    Quantile,
    SmoothedL1,
    Squared,
    Stacked,
)
from regfactor.norms import L2, LInf
from regfactor.norms import Blocks as BlockNorm
from regfactor.penalties import Columns, Gauge, Rows, Trace, TraceModulo, TwoView
from regfactor.problems import Convex, Data, Design
from regfactor.solvers import solve

PROBLEMS, SEED = 1000, 2026
LOSSES = (
    "squared",
    "huber",
    "smoothed_l1",
    "logistic",
    "poisson",
    "squared+logistic",
    "censored",
    "negative_binomial",
    "quantile",
)
GAUGES = ("trace", "columns", "rows", "rows_blocks", "two_view", "row_effects")
FREE_TERMS = ("none", "intercepts", "covariates")
LEVELS = (1e-4, 1e-6)
EXPLAINED = 1e-9  # alpha_max of a table that its free terms explain, which is drawn again


def random_problem(rng: np.random.Generator) -> tuple[str, str, str, Convex]:
    """A problem with n <= 120, d <= 48, alpha between 1 and 80 percent of alpha_max."""
    n, d = int(rng.integers(5, 121)), int(rng.integers(4, 49))
    rank = int(rng.integers(1, min(n, d, 10) + 1))
    first = int(rng.integers(1, d))
    name, kind = str(rng.choice(LOSSES)), str(rng.choice(GAUGES))
    bounds = tuple(float(b) for b in rng.uniform(0.5, 2.0, 2))
    views = np.repeat([1.0, 10 ** rng.uniform(-0.7, 0.7)], [first, d - first])
    Z = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d)) / np.sqrt(rank) * views
    loss, X = _data(name, Z, first, rng)
    if rng.random() < 0.5:
        X[rng.random(X.shape) < rng.uniform(0.1, 0.6)] = np.nan
    limits = None
    if name == "censored":
        X, limits = _behind_limits(X)
    weights = rng.uniform(0.2, 3.0, X.shape) if rng.random() < 0.4 else None
    free = str(rng.choice(FREE_TERMS))
    design = None
    if free == "intercepts":
        design = Design.intercept(n)
    elif free == "covariates":
        design = Design(np.column_stack([np.ones(n), rng.normal(size=(n, 2))]))
    gauge = TraceModulo(np.ones(d)) if kind == "row_effects" else _gauge(kind, first, bounds)
    problem = Convex(Data.of(X, loss, weights, limits=limits), gauge, 1.0, design=design)
    largest = problem.alpha_max()
    if largest <= EXPLAINED:
        return random_problem(rng)
    alpha = largest * np.exp(rng.uniform(np.log(0.01), np.log(0.8)))
    return name, kind, free, problem.at(alpha)


def _behind_limits(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a table with the lowest 30 % of each column missing, and its limits."""
    limit = np.nanquantile(X, 0.3, axis=0)
    below = limit > X
    upper = np.where(below, limit, np.inf)
    return np.where(below, np.nan, X), np.stack([np.full(X.shape, -np.inf), upper])


def _data(
    name: str, Z: np.ndarray, first: int, rng: np.random.Generator
) -> tuple[Loss, np.ndarray]:
    noise = Z + 0.1 * rng.normal(size=Z.shape)
    noise = np.where(rng.random(Z.shape) < 0.05, noise + rng.uniform(-5, 5, Z.shape), noise)
    binary = (rng.random(Z.shape) < 1 / (1 + np.exp(-Z))).astype(float)
    match name:
        case "squared":
            return Squared(), noise
        case "huber":
            return Huber(0.5), noise
        case "smoothed_l1":
            return SmoothedL1(0.1), noise
        case "logistic":
            return Logistic(), binary
        case "censored":
            return Censored(Squared(), scale=0.3), noise
        case "quantile":
            return Quantile(0.7), noise
        case "negative_binomial":
            means = np.exp(np.clip(Z, -4, 3)) * rng.gamma(2.0, 0.5, Z.shape)
            return NegativeBinomial(2.0), rng.poisson(means).astype(float)
        case "poisson":
            return Poisson(), rng.poisson(np.exp(np.clip(Z, -4, 3))).astype(float)
        case _:
            loss = Stacked(((slice(0, first), Squared()), (slice(first, None), Logistic())))
            return loss, np.hstack([noise[:, :first], binary[:, first:]])


def _gauge(kind: str, first: int, bounds: tuple[float, ...]) -> Gauge:
    match kind:
        case "trace":
            return Trace()
        case "columns":
            return Columns(L2())
        case "rows":
            return Rows(L2())
        case "rows_blocks":
            return Rows(BlockNorm(first, L2(), LInf(), (bounds[0], bounds[1])))
        case _:
            return TwoView(first, (bounds[0], bounds[1]))


def main() -> str:
    """Solve every problem and return the table."""
    rng = np.random.default_rng(SEED)
    total, reached, worst = Counter(), defaultdict(Counter), defaultdict(float)
    iterations, seconds, lowest = [], 0.0, np.inf
    for _ in range(PROBLEMS):
        name, kind, free, problem = random_problem(rng)
        started = time.process_time()
        solution = solve(problem, tol=1e-6, max_iter=4000)
        seconds += time.process_time() - started
        gap = solution.relative_gap
        lowest = min(lowest, gap)
        iterations.append(solution.n_iter)
        for key in ("all", f"loss {name}", f"gauge {kind}", f"free {free}"):
            total[key] += 1
            worst[key] = max(worst[key], gap)
            for level in LEVELS:
                reached[key][level] += gap <= level
    lines = [
        "# Certificates on random problems",
        "",
        f"{PROBLEMS} problems, seed {SEED}, tol 1e-6, at most 4000 iterations; {seconds:.0f} CPU s "
        "in all.",
        f"Iterations: median {np.median(iterations):.0f}, 90 % {np.quantile(iterations, 0.9):.0f}. "
        f"Lowest relative gap {lowest:.1e} (a negative one would disprove a bound).",
        "",
        "| problems | count | gap <= 1e-4 | gap <= 1e-6 | worst gap |",
        "|---|---|---|---|---|",
    ]
    for key in sorted(total):
        shares = " | ".join(f"{100 * reached[key][level] / total[key]:.1f} %" for level in LEVELS)
        lines.append(f"| {key} | {total[key]} | {shares} | {worst[key]:.1e} |")
    return "\n".join([*lines, *structured_problems()]) + "\n"
