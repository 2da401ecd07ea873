"""Canonical correlation: complete fits against scikit-learn's CCA and cca-zoo's, with correlations recomputed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from cca_zoo.linear import CCA as ZooCCA
from sklearn.cross_decomposition import CCA

from benchmarks._peers import QUICK, cpu, table, versions
from regfactor.estimators.views.correlation import CanonicalCorrelation

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


def row(kind: str, seed: int) -> list[str]:
    """Return CPU of all, in turns, and how far their correlations are from those by QR."""
    X, Y = draw(STRENGTHS[kind], seed)
    truth, errors = exact(X, Y), {}
    for name, fit in FITS.items():
        model = fit(X, Y)
        scores = model.transform([X, Y]) if name == "cca-zoo" else model.transform(X, Y)
        errors[name] = np.abs(correlations(scores) - truth).max()
    times: dict[str, list[float]] = {name: [] for name in FITS}
    for turn in range(REPEATS):
        for name, fit in FITS.items():
            if turn == 0 or name != TIGHT:
                times[name].append(cpu(lambda fit=fit: fit(X, Y))[0])
    ours, theirs, zoo, tight = (float(np.median(each)) for each in times.values())
    return [
        kind,
        str(seed),
        f"{truth[0]:.3f} to {truth[-1]:.3f}",
        f"{1000 * ours:.0f} ms",
        f"{theirs:.2f} s",
        f"{tight:.2f} s",
        f"{1000 * zoo:.0f} ms",
        f"**1/{theirs / ours:.0f}**, 1/{tight / ours:.0f}",
        f"**{ours / zoo:.2f}**",
        *(f"{errors[name]:.0e}" for name in ("ours", "scikit-learn", TIGHT, "cca-zoo")),
    ]


def main() -> str:
    """Run the workload and return the table."""
    head = (
        "shared factors | seed | correlations | ours CPU | scikit-learn CPU | with tol=1e-12 | cca-zoo CPU | "
        "ours / scikit-learn | ours / cca-zoo | error ours | scikit-learn | with tol=1e-12 | cca-zoo"
    )
    lines = [
        "# Canonical correlation",
        "",
        f"One thread, CPU of complete fits, medians; {versions('scikit-learn', 'cca-zoo')}.",
        "",
        f"{N} rows, {P} + {Q} columns, {COMPONENTS} components, all with default parameters, scikit-learn also with a "
        f"tolerance at which its correlations are the same; {SHARED} shared factors whose strengths lie apart or are "
        "equal. The error is the largest difference of the correlations of the training scores from the cosines "
        "between the column spaces, which are found by QR. Goals: 1/50 of scikit-learn's CPU and at most that of "
        "cca-zoo, at the same correlations.",
        "",
        *table(head, [row(kind, seed) for kind in STRENGTHS for seed in SEEDS]),
    ]
    return "\n".join(lines) + "\n"
