"""Bregman k-means against scikit-learn's KMeans: complete fits from the same centers, and the memory they take."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from benchmarks._peers import QUICK, cpu, in_fresh_process, table, traced, versions
from regfactor import BregmanKMeans

ROWS = 20_000 if QUICK else 200_000
REPEATS = 3 if QUICK else 7
ITERATIONS = 10
GOALS = {"float64": 1.05, "float32": 1.1}
DIVERGENCES = (
    "squared",
    "kl",
    "itakura_saito",
    "bernoulli",
    "sigmoid",
    "softmax",
    "exp",
    "cube",
    "relaxed_sigmoid",
    "mahalanobis",
)
SHAPES = ((50, 5), (50, 100), (50, 300), (10, 20), (10, 5), (200, 20))


def draw(divergence: str, d: int, k: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of k overlapping groups in the domain of a divergence, and first centers."""
    random = np.random.default_rng(0)
    n = ROWS if d < 100 else ROWS // 4
    Z = 0.6 * random.normal(size=(k, d))[random.integers(k, size=n)] + 0.75 * random.normal(
        size=(n, d)
    )
    X = {
        "kl": lambda: random.poisson(np.exp(Z)).astype(float),
        "itakura_saito": lambda: np.exp(Z),
        "bernoulli": lambda: (Z > 0).astype(float),
    }.get(divergence, lambda: Z)()
    X = np.ascontiguousarray(X, dtype)
    return X, (X[:k] + 3 * X.mean(axis=0)) / 4


def ours(X: np.ndarray, M: np.ndarray, divergence: str, w: Any = None) -> BregmanKMeans:
    """Fit ours."""
    return BregmanKMeans(len(M), divergence, init=M, max_iter=ITERATIONS, tol=0.0).fit(
        X, sample_weight=w
    )


def theirs(X: np.ndarray, M: np.ndarray, w: Any = None) -> KMeans:
    """Fit scikit-learn's."""
    return KMeans(len(M), init=M, n_init=1, max_iter=ITERATIONS, tol=0.0, algorithm="lloyd").fit(
        X, sample_weight=w
    )


def interleaved(*calls: Callable[[], Any]) -> list[tuple[float, int]]:
    """Return the median CPU seconds of fits that take turns, each warmed up once, and their iterations."""
    times: list[list[float]] = [[] for _ in calls]
    iterations = [call().n_iter_ for call in calls]
    for _ in range(REPEATS):
        for seconds, call in zip(times, calls, strict=True):
            seconds.append(cpu(call)[0])
    return [(float(np.median(seconds)), n) for seconds, n in zip(times, iterations, strict=True)]


def compared(divergence: str, d: int, k: int, dtype: str, weighted: bool = False) -> list[str]:
    """Return one row: both CPU times and their ratio."""
    X, M = draw(divergence, d, k, dtype)
    w = np.random.default_rng(1).gamma(2.0, size=len(X)).astype(dtype) if weighted else None
    peer, own = interleaved(lambda: theirs(X, M, w), lambda: ours(X, M, divergence, w))
    name = f"{divergence}, weighted" if weighted else divergence
    shown = [f"{seconds * 1e3:.0f} ms / {n}" for seconds, n in (peer, own)]
    return [
        name,
        f"{len(X)} x {d}, k = {k}",
        dtype,
        *shown,
        f"**{own[0] / peer[0]:.2f}**",
        f"{GOALS[dtype]}",
    ]


def agreement(dtype: str, weighted: bool) -> list[str]:
    """Return how far the results for the squared divergence are from scikit-learn's."""
    X, M = draw("squared", 50, 20, dtype)
    w = np.random.default_rng(1).gamma(2.0, size=len(X)).astype(dtype) if weighted else None
    a, b = ours(X, M, "squared", w), theirs(X, M, w)
    exact = ours(X.astype(float), M.astype(float), "squared", w)
    return [
        dtype,
        "yes" if weighted else "no",
        f"{(a.labels_ == b.labels_).mean():.4%}",
        f"{np.abs(a.cluster_centers_ - b.cluster_centers_).max():.1e}",
        f"{(a.labels_ == exact.labels_).mean():.4%} / {(b.labels_ == exact.labels_).mean():.4%}",
    ]


def memory(which: str, divergence: str, dtype: str) -> float:
    """Return the MB that a fit allocates at its peak beyond the data; for a fresh process."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, M = draw(divergence, 50, 20, dtype)
    fit = (
        (lambda rows: ours(rows, M, divergence))
        if which == "ours"
        else (lambda rows: theirs(rows, M))
    )
    fit(X[:1000].copy())
    return traced(lambda: fit(X))


def main() -> str:
    """Run all parts and return the tables."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    cases = [(name, 50, 20, dtype, False) for dtype in GOALS for name in DIVERGENCES]
    cases += [(name, 50, 20, dtype, True) for dtype in GOALS for name in ("squared", "kl")]
    cases += [("squared", d, k, dtype, False) for d, k in SHAPES for dtype in GOALS]
    head = (
        "divergence | table | precision | KMeans CPU / iterations | ours CPU / iterations | ratio "
        "| goal"
    )
    held = [
        [
            dtype,
            name,
            *(
                f"{in_fresh_process(memory, which, name, dtype):.1f} MB"
                for which in ("ours", "theirs")
            ),
        ]
        for dtype in GOALS
        for name in ("squared", "kl")
    ]
    lines = [
        "# Clusters",
        "",
        f"Complete fits of {ITERATIONS} iterations from the same centers, validation and objective "
        f"included; one thread, medians of {REPEATS} turns; {versions('scikit-learn')}. "
        "`KMeans(algorithm='lloyd')` clusters the same rows under the squared distance, whatever "
        "divergence ours is given.",
        "",
        *table(head, [compared(*case) for case in cases]),
        "",
        "Results for the squared divergence; the last column compares both with our fit in "
        "float64.",
        "",
        *table(
            "precision | weighted | equal labels | centers differ by | ours / KMeans equal to "
            "float64",
            [agreement(dtype, weighted) for dtype in GOALS for weighted in (False, True)],
        ),
        "",
        "Peak of traced allocations beyond the data, each in a fresh process. Goal: 10 MB.",
        "",
        *table("precision | divergence | ours | KMeans", held),
    ]
    return "\n".join(lines) + "\n"
