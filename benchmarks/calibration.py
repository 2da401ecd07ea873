"""Honest uncertainty: calibration of probabilities, coverage of sets and intervals, with few labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks._peers import QUICK, cpu, table, versions
from regfactor import SemiSupervisedClassifier, SemiSupervisedRegressor
from regfactor.model_selection import Conformal

SEEDS = 2 if QUICK else 10
LEVEL = 0.9
PER_CLASS = (10, 20)  # labels
TARGETS = (20, 60)  # labels of a regression
MAX_ROWS = 1_000
N_BINS = 10
N_NOISE_DRAWS = 30  # of labels from the probabilities themselves
Data = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Measured:
    """Results of one method on the new rows of one draw."""

    score: float  # accuracy, or root mean squared error relative to that of predicting the mean
    covered: float
    size: float  # classes in a set, or width of an interval in deviations of the targets
    seconds: float
    confidence: np.ndarray
    correct: np.ndarray


def classification() -> dict[str, Data]:
    """Return the tables of classes: those that scikit-learn ships, and three that it draws."""
    options = {"n_samples": MAX_ROWS, "random_state": 0}
    return {
        "iris": datasets.load_iris(return_X_y=True),
        "wine": datasets.load_wine(return_X_y=True),
        "breast cancer": datasets.load_breast_cancer(return_X_y=True),
        "digits": datasets.load_digits(return_X_y=True),
        "moons": datasets.make_moons(noise=0.3, **options),
        "clusters": datasets.make_classification(
            n_features=20, n_informative=5, n_classes=3, **options
        ),
        "noisy labels": datasets.make_classification(n_features=10, flip_y=0.3, **options),
    }


def regression() -> dict[str, Data]:
    """Return the tables of numbers."""
    options = {"n_samples": MAX_ROWS, "random_state": 0}
    return {
        "diabetes": datasets.load_diabetes(return_X_y=True),
        "linear": datasets.make_regression(n_features=10, noise=50.0, **options),
        "friedman 1": datasets.make_friedman1(noise=1.0, **options),
        "friedman 2": datasets.make_friedman2(noise=100.0, **options),
        "friedman 3": datasets.make_friedman3(noise=0.1, **options),
    }


def drawn(data: Data, seed: int) -> Data:
    """Return the rows in random order, at most MAX_ROWS."""
    order = np.random.default_rng(seed).permutation(len(data[1]))[:MAX_ROWS]
    return data[0][order], data[1][order]


@dataclass(frozen=True)
class Bins:
    """Rows by the probability of their predicted class: their share, and what is claimed and true."""

    share: np.ndarray
    claimed: np.ndarray
    right: np.ndarray
    count: np.ndarray

    @staticmethod
    def of(confidence: np.ndarray, correct: np.ndarray) -> Bins:
        """Return the bins that hold a row."""
        bins = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
        count = np.bincount(bins, minlength=N_BINS)
        used = count > 0
        claimed = np.bincount(bins, confidence, N_BINS)[used] / count[used]
        right = np.bincount(bins, correct, N_BINS)[used] / count[used]
        return Bins(count[used] / count.sum(), claimed, right, count[used])


def calibration_error(confidence: np.ndarray, correct: np.ndarray) -> float:
    """Return the expected calibration error: |share right - mean probability| over bins, by rows."""
    bins = Bins.of(confidence, correct)
    return float(bins.share @ np.abs(bins.right - bins.claimed))


def error_if_exact(confidence: np.ndarray) -> float:
    """Return the expected calibration error of the same probabilities if they were true.

    The absolute value turns the noise of the share that is right in a bin of few rows into error:
    some .04 on 200 rows whose probabilities are exactly right. Labels are drawn from the
    probabilities, and the mean error of such draws is what an exact model would show.
    """
    rng = np.random.default_rng(0)
    drawn = [
        calibration_error(confidence, rng.random(len(confidence)) < confidence)
        for _ in range(N_NOISE_DRAWS)
    ]
    return float(np.mean(drawn))


def classified(model: Any, data: Data, n_labels: int, seed: int) -> Measured:
    """Fit labels of the first rows and the other rows of the first half; measure on the rest."""
    X, y = drawn(data, seed)
    half = len(y) // 2
    known = np.full(half, -1)
    for label in np.unique(y):
        rows = np.flatnonzero(y[:half] == label)[:n_labels]
        known[rows] = label
    seconds, _ = cpu(lambda: model.fit(X[:half], known))
    P = model.predict_proba(X[half:])
    sets = model.predict_set(X[half:], level=LEVEL)
    codes = np.searchsorted(model.classes_, y[half:])
    correct = P.argmax(axis=1) == codes
    return Measured(
        score=float(correct.mean()),
        covered=float(sets[np.arange(len(codes)), codes].mean()),
        size=float(sets.sum(axis=1).mean()),
        seconds=seconds,
        confidence=P.max(axis=1),
        correct=correct,
    )


def regressed(model: Any, data: Data, n_labels: int, seed: int) -> Measured:
    """Fit targets of the first rows and the other rows of the first half; measure on the rest."""
    X, y = drawn(data, seed)
    half = len(y) // 2
    known = np.where(np.arange(half) < n_labels, y[:half], np.nan)
    seconds, _ = cpu(lambda: model.fit(X[:half], known))
    mean = model.predict(X[half:])
    lower, upper = model.predict_interval(X[half:], level=LEVEL)
    truth = y[half:]
    deviation = truth.std()
    covered = (lower <= truth) & (truth <= upper)
    return Measured(
        score=float(np.sqrt(np.mean((mean - truth) ** 2)) / deviation),
        covered=float(covered.mean()),
        size=float(np.mean(upper - lower) / deviation),
        seconds=seconds,
        confidence=np.zeros(0),
        correct=np.zeros(0, bool),
    )


def logistic() -> Any:
    """Return logistic regression on standardized columns, with conformal sets."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return Conformal(model, LEVEL, unlabeled=-1, random_state=0)


def ridge() -> Any:
    """Return Bayesian ridge regression on standardized columns, with conformal intervals."""
    return Conformal(make_pipeline(StandardScaler(), BayesianRidge()), LEVEL, random_state=0)


CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "SemiSupervisedClassifier": lambda: SemiSupervisedClassifier(random_state=0),
    "Conformal(SemiSupervisedClassifier)": lambda: Conformal(
        SemiSupervisedClassifier(random_state=0), LEVEL, random_state=0
    ),
    "Conformal(LogisticRegression)": logistic,
}
REGRESSORS: dict[str, Callable[[], Any]] = {
    "SemiSupervisedRegressor": lambda: SemiSupervisedRegressor(random_state=0),
    "Conformal(SemiSupervisedRegressor)": lambda: Conformal(
        SemiSupervisedRegressor(random_state=0), LEVEL, random_state=0
    ),
    "Conformal(BayesianRidge)": ridge,
}


def errors(runs: list[Measured]) -> list[str]:
    """Return calibration errors: of draws, if exact, the difference, and that of pooled rows."""
    plain = np.mean([calibration_error(run.confidence, run.correct) for run in runs])
    exact = np.mean([error_if_exact(run.confidence) for run in runs])
    confidence = np.concatenate([run.confidence for run in runs])
    correct = np.concatenate([run.correct for run in runs])
    found = [plain, exact, plain - exact, calibration_error(confidence, correct)]
    return [f"{error:.3f}" for error in found]


def cells(runs: list[Measured]) -> list[str]:
    """Return score, calibration errors, coverage, its extremes over draws, size and CPU of a method."""
    covered = [run.covered for run in runs]
    error = errors(runs) if len(runs[0].correct) else []
    return [
        f"{np.mean([run.score for run in runs]):.3f}",
        *error,
        f"{np.mean(covered):.3f}",
        f"{min(covered):.2f} to {max(covered):.2f}",
        f"{np.mean([run.size for run in runs]):.2f}",
        f"{1000 * np.mean([run.seconds for run in runs]):.0f} ms",
    ]


def compared(
    methods: dict[str, Callable[[], Any]],
    tables: dict[str, Data],
    n_labels: int,
    measure: Callable[[Any, Data, int, int], Measured],
) -> list[list[str]]:
    """Return a row for each table and method, and last the means of each method over the tables."""
    rows: list[list[str]] = []
    found: dict[str, list[list[Measured]]] = {name: [] for name in methods}
    for place, data in tables.items():
        for name, make in methods.items():
            runs = [measure(make(), data, n_labels, seed) for seed in range(SEEDS)]
            found[name].append(runs)
            rows.append([place, name, *cells(runs)])
    for name, runs_of in found.items():
        per_table = [[float(cell.split()[0]) for cell in cells(runs)] for runs in runs_of]
        means = np.mean(per_table, axis=0)
        covered = [run.covered for runs in runs_of for run in runs]
        *shown, _, size, seconds = means
        ends = f"{min(covered):.2f} to {max(covered):.2f}"
        numbers = [f"**{value:.3f}**" for value in shown]
        rows.append(["**mean**", name, *numbers, ends, f"{size:.2f}", f"{seconds:.0f} ms"])
    return rows


def main() -> str:
    """Compare probabilities, sets and intervals on new rows."""
    lines = [
        "# Calibration",
        "",
        f"{SEEDS} draws of each table; half of the rows are in the fit, few of them labeled, and all is measured on the other half; at most {MAX_ROWS} rows; one thread; {versions('scikit-learn')}. "
        f"The calibration error is the expected one, {N_BINS} bins: in the mean over draws; what it would be if the probabilities were exactly right, by {N_NOISE_DRAWS} draws of labels from them, "
        f"since few rows in a bin look like an error; debiased, which is the difference; and over the rows of all draws pooled. Sets and intervals are asked to cover {LEVEL:.0%}; `covered` is the mean over draws, next to the least and the most of a draw.",
    ]
    head = "table | method | {} covered | in a draw | {} | CPU of a fit"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n_labels in PER_CLASS:
            rows = compared(CLASSIFIERS, classification(), n_labels, classified)
            title = head.format(
                "accuracy | calibration error | if exact | debiased | pooled |", "classes in a set"
            )
            lines += ["", f"## Classes, {n_labels} labels of each", "", *table(title, rows)]
        for n_labels in TARGETS:
            rows = compared(REGRESSORS, regression(), n_labels, regressed)
            title = head.format("error relative to the mean |", "width in deviations of the target")
            lines += ["", f"## Numbers, {n_labels} targets", "", *table(title, rows)]
    return "\n".join(lines) + "\n"
