"""Canonical correlation: complete fits against scikit-learn's CCA and cca-zoo's, with correlations recomputed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from cca_zoo.linear import CCA as ZooCCA
from sklearn.cross_decomposition import CCA

from benchmarks._peers import QUICK, cpu, table, versions
from regfactor import CanonicalCorrelation

N, P, Q = (1000, 40, 30) if QUICK else (5000, 100, 80)
COMPONENTS, SHARED, SEEDS, REPEATS = 5, 8, range(3), 15
STRENGTHS = {"apart": np.geomspace(1.0, 0.1, SHARED), "close": np.full(SHARED, 0.3)}


def draw(strengths: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two tables with shared factors of these strengths and standard normal noise, in columns of any scale."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(N, SHARED)) * strengths
    tables = [shared @ rng.normal(size=(SHARED, d)) + rng.normal(size=(N, d)) for d in (P, Q)]
    return tuple(T * rng.uniform(0.1, 10, T.shape[1]) + rng.normal(size=T.shape[1]) for T in tables)


def exact(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """The canonical correlations as cosines between the column spaces, by QR."""
    bases = [np.linalg.qr(T - T.mean(axis=0))[0] for T in (X, Y)]
    return np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)[:COMPONENTS]


def correlations(scores: Any) -> np.ndarray:
    """Correlations of the two tables' scores, from the scores themselves."""
    return np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(*(s.T for s in scores), strict=True)])


TIGHT = "scikit-learn, tol=1e-12"  # at which it has the same correlations
FITS: dict[str, Callable[[Any, Any], Any]] = {
    "ours": lambda X, Y: CanonicalCorrelation(COMPONENTS).fit(X, Y),
    "scikit-learn": lambda X, Y: CCA(COMPONENTS).fit(X, Y),
    "cca-zoo": lambda X, Y: ZooCCA(COMPONENTS).fit([X, Y]),
    TIGHT: lambda X, Y: CCA(COMPONENTS, tol=1e-12, max_iter=10_000).fit(X, Y),
}


def measured(
    kind: str, seed: int
) -> tuple[str, str, np.ndarray, dict[str, float], dict[str, float]]:
    """Return a draw, its correlations, CPU of all, in turns, and how far their correlations are from those by QR."""
    X, Y = draw(STRENGTHS[kind], seed)
    truth, errors = exact(X, Y), {}
    for name, fit in FITS.items():
        model = fit(X, Y)
        scores = model.transform([X, Y]) if name == "cca-zoo" else model.transform(X, Y)
        errors[name] = float(np.abs(correlations(scores) - truth).max())
    times: dict[str, list[float]] = {name: [] for name in FITS}
    for turn in range(REPEATS):
        for name, fit in FITS.items():
            if turn == 0 or name != TIGHT:
                times[name].append(cpu(lambda fit=fit: fit(X, Y))[0])
    return (
        kind,
        str(seed),
        truth,
        {name: float(np.median(each)) for name, each in times.items()},
        errors,
    )


def row(
    kind: str, seed: str, truth: np.ndarray, cpus: dict[str, float], errors: dict[str, float]
) -> list[str]:
    """Return the cells of a draw, or of all of them together."""
    ours, theirs, zoo, tight = cpus.values()
    return [
        kind,
        seed,
        f"{truth.max():.3f} to {truth.min():.3f}",
        f"{1000 * ours:.1f} ms",
        f"{theirs:.2f} s",
        f"{tight:.2f} s",
        f"{1000 * zoo:.0f} ms",
        f"**1/{theirs / ours:.0f}**, 1/{tight / ours:.0f}",
        f"**{ours / zoo:.2f}**",
        *(f"{errors[name]:.0e}" for name in ("ours", "scikit-learn", TIGHT, "cca-zoo")),
    ]


def rows() -> list[list[str]]:
    """Return a row for each draw, and one with the sums of CPU and the largest errors."""
    draws = [measured(kind, seed) for kind in STRENGTHS for seed in SEEDS]
    _, _, truths, cpus, errors = zip(*draws, strict=True)
    total = {name: sum(each[name] for each in cpus) for name in FITS}
    worst = {name: max(each[name] for each in errors) for name in FITS}
    return [*(row(*each) for each in draws), row("all", "", np.concatenate(truths), total, worst)]


def main() -> str:
    """Run the workload and return the table."""
    head = (
        "shared factors | seed | correlations | ours CPU | scikit-learn CPU | with tol=1e-12 | "
        "cca-zoo CPU | ours / scikit-learn | ours / cca-zoo | error ours | scikit-learn | with "
        "tol=1e-12 | cca-zoo"
    )
    lines = [
        "# Canonical correlation",
        "",
        f"One thread, CPU of complete fits, medians; {versions('scikit-learn', 'cca-zoo')}.",
        "",
        f"{N} rows, {P} + {Q} columns, {COMPONENTS} components, all with default parameters, "
        f"scikit-learn also with a tolerance at which its correlations are the same; {SHARED} "
        "shared factors whose strengths lie apart or are equal. The error is the largest "
        "difference of the correlations of the training scores from the cosines between the "
        "column spaces, which are found by QR. Of the two ratios to scikit-learn the first is at "
        "its default tolerance, the second where the correlations are the same. The last row has "
        "sums of CPU. Goals: 1/50 of scikit-learn's CPU and at most that of cca-zoo, at the same "
        "correlations.",
        "",
        *table(head, rows()),
    ]
    return "\n".join(lines) + "\n"
