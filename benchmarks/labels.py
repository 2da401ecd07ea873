"""Few labels, many rows: ReverseClassifier against QN-S3VM and self-training, and against KMeans at a million rows."""

from __future__ import annotations

import builtins
import importlib.util
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from benchmarks._peers import QUICK, cpu, grown, in_fresh_process, installed, table, versions
from regfactor import ReverseClassifier
from regfactor.model_selection import compare_with_supervised

ROWS, COLUMNS = (1000 if QUICK else 5000), 50
SEEDS = 1 if QUICK else 3
PER_CLASS = 10  # labels
MANY, CLASSES, LABELS = (50_000 if QUICK else 1_000_000), 10, 100
ITERATIONS, TURNS = 20, 3
APART = 2.6
# numpy 2 exports these, numpy 1 did not
SHIFTED_BY_NUMPY = (
    "min",
    "max",
    "round",
    "pow",
    "abs",
    "bool",
)
Draw = tuple[np.ndarray, np.ndarray, np.ndarray, float]


def qn_s3vm() -> Any:
    """Return the module of QN-S3VM, made to run with numpy 2; the package around it wants torch."""
    package = importlib.util.find_spec("semisupervised")
    assert package is not None and package.origin is not None, "semisupervised is not installed"
    spec = importlib.util.spec_from_file_location(
        "qns3vm", Path(package.origin).with_name("qns3vm.py")
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():  # it turns warnings into errors for everyone
        spec.loader.exec_module(module)
    for name in SHIFTED_BY_NUMPY:
        setattr(module, name, getattr(builtins, name))
    module.mat = np.asmatrix
    return module


def marked(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the classes with all but a few rows of each marked by -1."""
    out = np.full(len(y), -1)
    for j in np.unique(y):
        some = rng.permutation(np.flatnonzero(y == j))[:PER_CLASS]
        out[some] = j
    return out


def unit(rng: np.random.Generator) -> np.ndarray:
    """Return a random direction."""
    u = rng.normal(size=COLUMNS)
    return u / np.linalg.norm(u)


def gaussians(seed: int, apart: float) -> Draw:
    """Return two Gaussians whose means are apart along a random direction, scales of columns in .5 to 1.5."""
    rng = np.random.default_rng(seed)
    u, scales, y = unit(rng), rng.uniform(0.5, 1.5, COLUMNS), rng.integers(2, size=ROWS)
    X = scales * rng.normal(size=(ROWS, COLUMNS)) + (y - 0.5)[:, None] * apart * u
    best = float(norm.cdf(apart / 2 * np.linalg.norm(u / scales)))
    return X, y, marked(y, rng), best


def interleaved(seed: int) -> Draw:
    """Return classes of two clusters each, 0 1 0 1 along a random direction, 6 standard deviations between clusters."""
    rng = np.random.default_rng(seed)
    u, cluster = unit(rng), rng.integers(4, size=ROWS)
    X = rng.normal(size=(ROWS, COLUMNS)) + 6.0 * (cluster - 1.5)[:, None] * u
    y = cluster % 2
    return X, y, marked(y, rng), float(1 - 1.5 * norm.sf(3.0))


def ours(*parameters: Any) -> Callable[[Draw], np.ndarray]:
    """Return how our transduction is found."""
    return lambda draw: ReverseClassifier(*parameters).fit(draw[0], draw[2]).transduction_


def labels_only(draw: Draw) -> np.ndarray:
    """Predict by the nearest mean of the labeled rows alone."""
    X, _, y, _ = draw
    return ReverseClassifier().fit(X[y >= 0], y[y >= 0]).predict(X)


def self_trained(draw: Draw) -> np.ndarray:
    """Predict by self-training."""
    return (
        SelfTrainingClassifier(LogisticRegression(max_iter=1000))
        .fit(draw[0], draw[2])
        .predict(draw[0])
    )


def spread(draw: Draw) -> np.ndarray:
    """Predict by label spreading on nearest neighbors."""
    model = LabelSpreading("knn", n_neighbors=10, max_iter=200)
    return model.fit(draw[0], draw[2]).transduction_


def qn(draw: Draw) -> np.ndarray:
    """Predict by QN-S3VM, linear, at its default parameters."""
    X, _, y, _ = draw
    known = y >= 0
    model = qn_s3vm().QN_S3VM(X[known], 2 * y[known] - 1, X[~known], random.Random(0))
    model.train()
    out = y.copy()
    out[~known] = np.asarray(model.getPredictions(X[~known])) > 0
    return out


METHODS: dict[str, Callable[[Draw], np.ndarray]] = {
    "ours, labels alone": labels_only,
    "ours, identity": ours("identity"),
    "ours, mahalanobis": ours("mahalanobis"),
    "ours, mahalanobis, soft": ours("mahalanobis", "soft"),
    "SelfTrainingClassifier(LogisticRegression)": self_trained,
    "LabelSpreading(knn)": spread,
    **({"QN-S3VM": qn} if installed("semisupervised") else {}),
}


def compared(draws: list[Draw]) -> list[list[str]]:
    """Return one row for each method: accuracy on unlabeled rows, and the CPU of a fit against the slowest S3VM's."""
    measured: dict[str, tuple[list[float], list[float]]] = {}
    for name, predicted in METHODS.items():
        seconds, accuracy = [], []
        for draw in draws:
            spent, labels = cpu(lambda draw=draw, predicted=predicted: predicted(draw))
            seconds.append(spent)
            accuracy.append(float(np.mean((labels == draw[1])[draw[2] < 0])))
        measured[name] = seconds, accuracy
    reference = float(
        np.mean(measured.get("QN-S3VM", measured["SelfTrainingClassifier(LogisticRegression)"])[0])
    )
    rows = [["best possible", f"{np.mean([draw[3] for draw in draws]):.3f}", "", "", ""]]
    for name, (seconds, accuracy) in measured.items():
        each = " ".join(f"{a:.3f}" for a in accuracy)
        ratio = f"1/{reference / np.mean(seconds):.0f}" if np.mean(seconds) < reference else "1"
        rows.append(
            [name, f"**{np.mean(accuracy):.3f}**", each, f"{np.mean(seconds):.2f} s", ratio]
        )
    return rows


def many() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return many rows in overlapping groups, a few labels, and the means of the labeled rows."""
    rng = np.random.default_rng(0)
    centers = 0.2 * rng.normal(size=(CLASSES, COLUMNS)).astype(np.float32)
    X = rng.standard_normal((MANY, COLUMNS), np.float32)
    y = rng.integers(CLASSES, size=MANY)
    for start in range(0, MANY, 10_000):
        X[start : start + 10_000] += centers[y[start : start + 10_000]]
    codes = np.full(MANY, -1)
    for j in range(CLASSES):
        codes[np.flatnonzero(y == j)[: LABELS // CLASSES]] = j
    return X, codes, np.array([X[codes == j].mean(axis=0) for j in range(CLASSES)])


def fit_many(X: np.ndarray, codes: np.ndarray) -> ReverseClassifier:
    """Fit ours for a fixed number of iterations."""
    return ReverseClassifier(max_iter=ITERATIONS, tol=0.0).fit(X, codes)


def kmeans_many(X: np.ndarray, M: np.ndarray) -> KMeans:
    """Fit scikit-learn's from the same centers."""
    return KMeans(CLASSES, init=M, n_init=1, max_iter=ITERATIONS, tol=0.0, algorithm="lloyd").fit(X)


def large() -> tuple[list[float], list[float], int, int, float]:
    """Return CPU seconds of both in turns, their iterations, and how much memory ours took at first."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, codes, M = many()
    # imports and buffers
    fit_many(X[:2000].copy(), codes[np.flatnonzero(codes >= 0)[np.arange(2000) % LABELS]])
    memory, model = grown(lambda: fit_many(X, codes))
    mine, theirs = [], []
    for _ in range(TURNS):
        seconds, peer = cpu(lambda: kmeans_many(X, M))
        theirs.append(seconds)
        seconds, model = cpu(lambda: fit_many(X, codes))
        mine.append(seconds)
    return mine, theirs, model.n_iter_, peer.n_iter_, memory


def main() -> str:
    """Run all parts and return the tables."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    head = (
        "method | mean accuracy on unlabeled rows | each seed | CPU of a fit | share of the "
        "S3VM's CPU"
    )
    wide = APART * 4 / 3
    counter = [interleaved(seed) for seed in range(SEEDS)]
    verdict = compare_with_supervised(
        ReverseClassifier(), counter[0][0], counter[0][2], cv=5
    ).verdict
    mine, theirs, n, m, memory = in_fresh_process(large)
    ratio = (np.median(mine) / n) / (np.median(theirs) / m)
    lines = [
        "# Labels",
        "",
        f"{ROWS} x {COLUMNS}, two Gaussians, {PER_CLASS} labels per class; one thread; {SEEDS} "
        f"seeds; {versions('scikit-learn')}. `best possible` is the accuracy of the true densities.",
        "",
        f"## Means {APART} apart, scales of columns uniform in .5-1.5",
        "",
        "The stated workload. Its goal of .97 is out of reach: the true densities themselves are "
        "not that accurate. Goal: CPU below 1/10 of QN-S3VM's.",
        "",
        *table(head, compared([gaussians(seed, APART) for seed in range(SEEDS)])),
        "",
        f"## Means {wide:.2f} apart, all else the same",
        "",
        "This distance was chosen after the fact, as the one at which the accuracies stated with "
        "the goal (.978, and .952 by Euclid) nearly come out. Goal: mahalanobis at least .97, at "
        "less than 1/10 of the CPU of QN-S3VM.",
        "",
        *table(head, compared([gaussians(seed, wide) for seed in range(SEEDS)])),
        "",
        "## The counter-case: each class two clusters, interleaved",
        "",
        "Clusters lie 0 1 0 1 along a random direction, 6 standard deviations from one to the "
        "next. One center for each class cannot describe them, with unlabeled rows or without: "
        "ours is the wrong model here. `compare_with_supervised` on the labels of the first seed "
        f"says: {verdict}",
        "",
        *table(head, compared(counter)),
        "",
        f"## {MANY} x {COLUMNS} float32, {CLASSES} classes, {LABELS} labels",
        "",
        f"Complete fits, validation and transduction included, medians of {TURNS} turns, tol=0, at "
        f"most {ITERATIONS} iterations; KMeans(n_init=1) begins at the means of the labeled rows, "
        "as ours does. Goal: 1.5 times its CPU, 500 MB.",
        "",
        *table(
            "ours CPU / iterations | KMeans CPU / iterations | ratio per iteration | memory "
            "growth of ours",
            [
                [
                    f"{np.median(mine):.2f} s / {n}",
                    f"{np.median(theirs):.2f} s / {m}",
                    f"**{ratio:.2f}**",
                    f"{memory:.0f} MB",
                ]
            ],
        ),
    ]
    return "\n".join(lines) + "\n"
