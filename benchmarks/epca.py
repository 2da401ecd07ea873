"""Exponential-family PCA of binary tables and of counts: glmpca next to ours, then many seeds and missing entries."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from glmpca.glmpca import glmpca
from scipy.special import expit

from benchmarks._peers import QUICK, cpu, table, versions
from regfactor import ExponentialFamilyPCA
from regfactor.losses import Logistic, Poisson

SEEDS, REPEATS = (range(1), 1) if QUICK else (range(3), 7)
MANY = range(5) if QUICK else range(50)
SHARE_MISSING = 0.3
CAP = 5.0  # largest natural parameter of the counts


@dataclass(frozen=True)
class Workload:
    """A family with its name at the peer, and how its tables are drawn."""

    family: str
    peer: str
    shape: tuple[int, int]
    rank: int
    scale: float

    def draw(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return a table and its true natural parameters: scale N N' and column offsets 0.5 N."""
        rng = np.random.default_rng(seed)
        (n, d), k = self.shape, self.rank
        theta = self.scale * rng.normal(size=(n, k)) @ rng.normal(size=(k, d)) + 0.5 * rng.normal(
            size=d
        )
        if self.family == "bernoulli":
            return (rng.random((n, d)) < expit(theta)).astype(float), theta
        theta = np.minimum(theta, CAP)
        return rng.poisson(np.exp(theta)).astype(float), theta

    def divergence(self, theta: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the Kullback-Leibler divergence of the fit from the truth in each entry."""
        loss = Logistic() if self.family == "bernoulli" else Poisson()
        mean = loss.predict(theta)
        return np.asarray(loss.value(z, mean) - loss.value(theta, mean))


WORKLOADS = [
    Workload("bernoulli", "bern", (2000, 200), 5, 1.0),
    Workload("poisson", "poi", (2000, 500), 10, 0.35),
]


def ours(work: Workload, X: np.ndarray, **options: Any) -> np.ndarray:
    """Return the natural parameters that we fit."""
    model = ExponentialFamilyPCA(work.rank, work.family, random_state=0, **options).fit(X)
    return np.asarray(model.codes_ @ model.components_ + model.intercept_, float)


def theirs(work: Workload, X: np.ndarray) -> np.ndarray:
    """Return those of glmpca with its defaults.

    Size factors of one, since there are no exposures.
    """
    np.random.seed(0)  # noqa: NPY002  the peer draws its start from the global generator
    fit = glmpca(X.T, work.rank, fam=work.peer, penalty=1, sz=np.ones(len(X)))
    return np.asarray((fit["loadings"] @ fit["factors"].T + fit["coefX"]).T)


def compared(work: Workload, seed: int) -> list[list[str]]:
    """Run all fits of a table in turn, several times.

    Medians of CPU, and their ratio to the peer's.
    """
    X, theta = work.draw(seed)
    single = X.astype(np.float32)
    fits: dict[str, Callable[[], np.ndarray]] = {
        "glmpca, penalty 1": lambda: theirs(work, X),
        "ours, alpha=1": lambda: ours(work, X),
        "ours, alpha=1, float32": lambda: ours(work, single),
        'ours, alpha="auto"': lambda: ours(work, X, alpha="auto"),
    }
    runs = [{name: cpu(fit) for name, fit in fits.items()} for _ in range(REPEATS)]
    seconds = {name: statistics.median(run[name][0] for run in runs) for name in fits}
    unit = seconds["glmpca, penalty 1"]
    return [
        [
            work.family,
            str(seed),
            name,
            f"{seconds[name]:.3f}",
            f"1/{unit / seconds[name]:.1f}",
            f"{work.divergence(theta, runs[0][name][1]).mean():.5f}",
        ]
        for name in fits
    ]


def many(work: Workload, share: float) -> list[str]:
    """Fit many tables, with missing entries or without.

    The divergence is that of the hidden entries where there are any.
    """
    finite, sizes, misses = 0, [], []
    for seed in MANY:
        X, theta = work.draw(seed)
        hidden = np.random.default_rng(seed).random(X.shape) < share
        z = ours(work, np.where(hidden, np.nan, X))
        finite += bool(np.isfinite(z).all())
        sizes.append(np.abs(z).max())
        misses.append(work.divergence(theta, z)[hidden if share else ...].mean())
    return [
        work.family,
        f"{share:.0%}",
        f"{finite} of {len(MANY)}",
        f"{max(sizes):.1f}",
        f"{min(misses):.4f} - {max(misses):.4f}",
    ]


def main() -> str:
    """Run all workloads and return the tables."""
    # imports and caches are paid before anything is measured
    ours(WORKLOADS[0], WORKLOADS[0].draw(0)[0])
    rows = [row for work in WORKLOADS for seed in SEEDS for row in compared(work, seed)]
    lines = [
        "# Exponential-family PCA",
        "",
        "Binary tables of 2000 x 200 (5 components), counts of 2000 x 500 (10 components). KL is "
        f"the mean divergence of the fit from the truth. CPU is the median of {REPEATS} runs in "
        "turn, on one thread, whole fits.",
        f"{versions('scikit-learn', 'glmpca')}.",
        "",
        *table("family | seed | fit | CPU s | to glmpca | KL", rows),
        "",
        f"## {len(MANY)} seeds, alpha=1",
        "",
        *table(
            "family | hidden | finite | largest natural parameter | KL (of the hidden entries, if "
            "any)",
            [many(work, share) for work in WORKLOADS for share in (0.0, SHARE_MISSING)],
        ),
    ]
    return "\n".join(lines) + "\n"
