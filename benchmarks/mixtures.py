"""AutoMixture next to k-means and Gaussian mixtures of scikit-learn: agreement with known classes, and CPU seconds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from benchmarks._peers import QUICK, cpu, table, versions
from regfactor import AutoMixture

SEEDS = 1 if QUICK else 3
TIMED = ((2_000, 30), (20_000, 10))
Rows = tuple[np.ndarray, np.ndarray]


def growth(random: np.random.Generator) -> Rows:
    """Sizes that grow by a factor from stage to stage."""
    y = random.integers(0, 4, 250)
    sizes = np.exp(1.0 * y)[:, None] * random.lognormal(0, 0.18, (250, 1))
    return sizes * random.lognormal(0, 1, (1, 5)) * random.lognormal(0, 0.15, (250, 5)), y


def own_covariances(random: np.random.Generator) -> Rows:
    """Normal clusters, each with its own covariance."""
    y = random.integers(0, 3, 300)
    means = random.normal(0, 1.5, (3, 4))
    roots = random.normal(size=(3, 4, 4)) / 2 + 0.3 * np.eye(4)
    return means[y] + np.einsum("nd,ndc->nc", random.normal(size=(300, 4)), roots[y]), y


def word_counts(random: np.random.Generator) -> Rows:
    """Counts whose proportions tell classes apart, of texts of any length."""
    y = random.integers(0, 4, 300)
    proportions = random.dirichlet(np.full(30, 0.4), 4)[y]
    rates = proportions * random.gamma(2, 30, (300, 1)) * random.gamma(2, 0.5, (300, 30))
    return random.poisson(rates).astype(float), y


def categories(random: np.random.Generator) -> Rows:
    """Twelve questions of three answers, as columns of 0 and 1."""
    y = random.integers(0, 4, 400)
    columns = []
    for _ in range(12):
        shares = random.dirichlet(np.ones(3), 4).cumsum(axis=1)[y]
        answer = (random.random((400, 1)) > shares[:, :2]).sum(axis=1)
        columns.append(np.eye(3)[answer])
    return np.hstack(columns), y


def bundled(load: Callable[..., Any]) -> Callable[[np.random.Generator], Rows]:
    """Return a set of scikit-learn as it is."""
    return lambda random: load(return_X_y=True)


TABLES: dict[str, Callable[[np.random.Generator], Rows]] = {
    "iris": bundled(datasets.load_iris),
    "wine": bundled(datasets.load_wine),
    "breast cancer": bundled(datasets.load_breast_cancer),
    "digits": bundled(datasets.load_digits),
    "growth (generated)": growth,
    "own covariances (generated)": own_covariances,
    "word counts (generated)": word_counts,
    "categories (generated)": categories,
}


def standardized(X: np.ndarray) -> np.ndarray:
    """Return columns in units of their deviations."""
    return StandardScaler().fit_transform(X)


def gaussian(X: np.ndarray, k: int, seed: int, covariance: str) -> np.ndarray:
    """Return clusters of a Gaussian mixture on standardized columns."""
    model = GaussianMixture(k, covariance_type=covariance, n_init=3, reg_covar=1e-3)
    return model.set_params(random_state=seed).fit_predict(standardized(X))


MODELS: dict[str, Callable[[np.ndarray, int, int], np.ndarray]] = {
    "AutoMixture": lambda X, k, seed: AutoMixture(k, random_state=seed).fit_predict(X),
    "KMeans": lambda X, k, seed: KMeans(k, n_init=10, random_state=seed).fit_predict(X),
    "KMeans, standardized": lambda X, k, seed: KMeans(k, n_init=10, random_state=seed).fit_predict(
        standardized(X)
    ),
    "GMM diag": lambda X, k, seed: gaussian(X, k, seed, "diag"),
    "GMM full": lambda X, k, seed: gaussian(X, k, seed, "full"),
}


def agreement() -> list[str]:
    """Return a table of adjusted Rand indices, the number of clusters given."""
    lines = []
    all_scores = []
    for name, draw in TABLES.items():
        scores = np.zeros(len(MODELS))
        for seed in range(SEEDS):
            X, y = draw(np.random.default_rng(seed))
            k = len(np.unique(y))
            found = [adjusted_rand_score(y, model(X, k, seed)) for model in MODELS.values()]
            scores += np.array(found) / SEEDS
        all_scores.append(scores)
        lines.append([name, *(f"{score:.2f}" for score in scores)])
    lines.append(["mean", *(f"{score:.2f}" for score in np.mean(all_scores, axis=0))])
    return table(f"table | {' | '.join(MODELS)}", lines)


def seconds() -> list[str]:
    """Return a table of CPU seconds, and of their ratio to k-means of ten starts."""
    lines = []
    for n, d in TIMED:
        for kind in ("real", "positive", "counts"):
            random = np.random.default_rng(0)
            y = random.integers(0, 5, n)
            X = 0.6 * random.normal(size=(5, d))[y] + random.normal(size=(n, d))
            if kind == "positive":
                X = np.exp(X / 2)
            elif kind == "counts":
                X = random.poisson(np.exp(X / 2 + 1)).astype(float)
            peer = cpu(lambda X=X: KMeans(5, n_init=10, random_state=0).fit(X))[0]
            own, model = cpu(lambda X=X: AutoMixture(5, random_state=0).fit(X))
            ratio = f"{own / peer:.1f}"
            lines.append([f"{n:,} x {d}", kind, f"{own:.2f}", f"{peer:.2f}", ratio, model.member_])
    return table("rows | numbers | AutoMixture | KMeans | ratio | member", lines)


def main() -> str:
    """Return the tables in Markdown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines = [
            "# Mixtures",
            "",
            f"Adjusted Rand index with known classes, their number given, mean of {SEEDS} draws or "
            f"seeds; {versions('scikit-learn')}.",
            "",
            *agreement(),
            "",
            "CPU seconds of a fit, five clusters given; KMeans(n_init=10).",
            "",
            *seconds(),
        ]
    return "\n".join(lines)
