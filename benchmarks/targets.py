"""Few labels or targets: cost of the automatic estimators on small, large and sparse tables."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.datasets import load_diabetes, load_digits
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from benchmarks._peers import QUICK, cpu, grown, in_fresh_process, table, versions
from regfactor import SemiSupervisedClassifier, SemiSupervisedRegressor

MANY = 5_000 if QUICK else 100_000
COLUMNS = 60
SPARSE_COLUMNS = 1_000 if QUICK else 10_000
ENTRIES_OF_ROW = 30  # of a sparse table
N_LABELS = 60
N_SPARSE_LABELS = 50
TURNS = 1 if QUICK else 5
DIGITS = 900
PER_CLASS = 10
WIDTHS = (4.0, 20.0)  # of LabelSpreading, relative to the median squared distance
CLAMPINGS = (0.2, 0.8)


@dataclass(frozen=True)
class Cost:
    """CPU seconds and growth of memory, in MB, of a fit with the predictions of its rows."""

    seconds: float
    memory: float


def rows_with_signal(sparse: bool) -> tuple[Any, np.ndarray]:
    """Return many rows, and a number for each that depends on some columns."""
    rng = np.random.default_rng(0)
    if not sparse:
        X = rng.normal(size=(MANY, COLUMNS))
        return X, X[:, :5].sum(axis=1) + rng.normal(size=MANY)
    columns = np.minimum(rng.zipf(1.3, size=(MANY, ENTRIES_OF_ROW)) - 1, SPARSE_COLUMNS - 1)
    starts = np.arange(0, MANY * ENTRIES_OF_ROW + 1, ENTRIES_OF_ROW)
    X = scipy.sparse.csr_array(
        (np.ones(MANY * ENTRIES_OF_ROW), columns.ravel(), starts),
        shape=(MANY, SPARSE_COLUMNS),
    )
    X.sum_duplicates()
    effects = rng.normal(size=SPARSE_COLUMNS)
    return X, X @ effects / np.sqrt(ENTRIES_OF_ROW) + rng.normal(size=MANY)


def large(task: str, sparse: bool) -> Cost:
    """Return the cost of a fit of many rows of which few have a label or a target."""
    X, score = rows_with_signal(sparse)
    n_labels = N_SPARSE_LABELS if sparse else N_LABELS
    known = np.arange(MANY) < n_labels
    model: Any
    if task == "labels":
        model = SemiSupervisedClassifier(random_state=0)
        y = np.where(known, score > np.median(score), -1)
    else:
        model = SemiSupervisedRegressor(random_state=0)
        y = np.where(known, score, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        memory, (seconds, _) = grown(lambda: cpu(lambda: model.fit(X, y)))
    return Cost(seconds, memory)


def marked_digits(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return standardized rows of digits, and their classes with all but a few marked by -1."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))[:DIGITS]
    X = StandardScaler().fit_transform(X[order])
    y = y[order]
    known = np.full(len(y), -1)
    for label in range(10):
        known[np.flatnonzero(y == label)[:PER_CLASS]] = label
    return X, known


def tuned_spreading(X: np.ndarray, y: np.ndarray) -> LabelSpreading:
    """Return LabelSpreading with graph and clamping chosen by two folds of the labels."""
    labeled = np.flatnonzero(y >= 0)
    some = X[:400]
    width = np.median(np.square(some[:, None] - some).sum(axis=2))
    options: list[dict[str, Any]] = []
    for alpha in CLAMPINGS:
        options.append({"kernel": "knn", "n_neighbors": 7, "alpha": alpha})
        options += [{"kernel": "rbf", "gamma": w / width, "alpha": alpha} for w in WIDTHS]
    scores = []
    for option in options:
        right = 0
        for hidden in (labeled[::2], labeled[1::2]):
            partial = y.copy()
            partial[hidden] = -1
            model = LabelSpreading(max_iter=30, **option).fit(X, partial)
            right += int(np.sum(model.transduction_[hidden] == y[hidden]))
        scores.append(right)
    best = options[int(np.argmax(scores))]
    return LabelSpreading(max_iter=30, **best).fit(X, y)


def tuned_ridge(X: np.ndarray, y: np.ndarray) -> Any:
    """Return kernel ridge regression by grid search over width and ridge."""
    known = ~np.isnan(y)
    grid = {"alpha": np.logspace(-3, 1, 5), "gamma": np.logspace(-3, 0, 4) / X.shape[1] * 3}
    return GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=5).fit(X[known], y[known])


def marked_diabetes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return standardized rows, and their targets of which 40 are known."""
    X, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    return (
        StandardScaler().fit_transform(X[order]),
        np.where(np.arange(len(y)) < 40, y[order], np.nan),
    )


def small(
    draw: Callable[[int], tuple[np.ndarray, np.ndarray]],
    methods: dict[str, Callable[[np.ndarray, np.ndarray], Any]],
) -> list[list[str]]:
    """Return the median CPU of each method, methods in turn, and its share of the second one's."""
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for seed in range(TURNS):
        X, y = draw(seed)
        for name, fit in methods.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                spent, _ = cpu(lambda fit=fit, X=X, y=y: fit(X, y))
            seconds[name].append(spent)
    medians = {name: float(np.median(spent)) for name, spent in seconds.items()}
    reference = list(medians.values())[1]
    return [
        [name, f"{1000 * median:.0f} ms", f"**{median / reference:.2f}**"]
        for name, median in medians.items()
    ]


def main() -> str:
    """Measure small fits against tuned peers, and large ones alone."""
    rows = []
    for task, goal in (("labels", ""), ("targets", "3 s, 400 MB")):
        for sparse in (False, True):
            cost = in_fresh_process(large, task, sparse)
            width = SPARSE_COLUMNS if sparse else COLUMNS
            shape = f"{MANY} x {width}" + (", sparse" if sparse else "")
            n_labels = N_SPARSE_LABELS if sparse else N_LABELS
            shown = "20 s" if sparse else goal
            cells = [f"**{cost.seconds:.1f} s**", f"{cost.memory:.0f} MB", shown]
            rows.append([task, shape, str(n_labels), *cells])
    classifiers = {
        "SemiSupervisedClassifier": lambda X, y: SemiSupervisedClassifier(random_state=0).fit(X, y),
        "LabelSpreading, tuned": tuned_spreading,
    }
    regressors = {
        "SemiSupervisedRegressor": lambda X, y: SemiSupervisedRegressor(random_state=0).fit(X, y),
        "KernelRidge, grid search": tuned_ridge,
        "BayesianRidge": lambda X, y: BayesianRidge().fit(X[~np.isnan(y)], y[~np.isnan(y)]),
    }
    head = "method | CPU of a fit | share of the tuned peer's"
    lines = [
        "# Targets",
        "",
        f"Cost of the automatic estimators with few labels or targets; one thread, CPU time; {versions('scikit-learn')}.",
        "",
        "## Large tables",
        "",
        f"A fit with the predictions of all its rows, each in a process of its own; sparse rows have at most {ENTRIES_OF_ROW} entries. Memory is its growth at the peak.",
        "",
        *table("task | rows x columns | labels | CPU | memory | goal", rows),
        "",
        f"## {DIGITS} digits, {PER_CLASS} labels of each",
        "",
        f"Medians of {TURNS} draws, methods in turn. Goal: less than LabelSpreading tuned (six settings, two folds).",
        "",
        *table(head, small(marked_digits, classifiers)),
        "",
        "## Diabetes, 40 targets",
        "",
        *table(head, small(marked_diabetes, regressors)),
    ]
    return "\n".join(lines) + "\n"
