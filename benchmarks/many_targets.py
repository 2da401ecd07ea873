"""Regression of many targets: ReducedRankRegression next to Ridge and MultiTaskLasso of scikit-learn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_digits, load_linnerud
from sklearn.linear_model import MultiTaskLassoCV, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from regfactor import ReducedRankRegression, datasets

SEEDS = 5
STRENGTHS = np.geomspace(1e-3, 1e5, 25)
Table = tuple[np.ndarray, np.ndarray, int]  # inputs, targets, rows to learn from


def tables() -> dict[str, Table]:
    """Real tables with several targets."""
    images = load_digits().data
    linnerud = load_linnerud()
    found: dict[str, Table] = {
        "lower half of digits from the upper, 100 rows": (images[:, :32], images[:, 32:], 100),
        "the same, 500 rows": (images[:, :32], images[:, 32:], 500),
        "linnerud: body from exercise, 14 rows": (linnerud.data, linnerud.target, 14),
    }
    for name, rows in (("canada_macro", 40), ("lutkepohl_e1", 40), ("exchange_rate", 200)):
        series = np.asarray(datasets.load(name).data, float)
        series = series[~np.isnan(series).any(axis=1)]
        if (series > 0).all():
            series = np.log(series)
        changes = np.diff(series, axis=0)
        pairs = np.hstack([changes[1:-1], changes[:-2]])
        found[f"{name}: next change of all series from two, {rows} rows"] = (
            pairs,
            changes[2:],
            rows,
        )
    return found


METHODS: dict[str, Callable[[], object]] = {
    "reduced rank, auto": ReducedRankRegression,
    "trace norm, certified": lambda: ReducedRankRegression(rank=None),
    "Ridge": lambda: make_pipeline(StandardScaler(), RidgeCV(STRENGTHS)),
    "Ridge, one strength each": lambda: make_pipeline(
        StandardScaler(), RidgeCV(STRENGTHS, alpha_per_target=True)
    ),
    "MultiTaskLasso": lambda: make_pipeline(StandardScaler(), MultiTaskLassoCV(max_iter=5000)),
}


def main() -> str:
    """Fit on random rows, predict the others, and return the table."""
    warnings.simplefilter("ignore")
    lines = [
        "# Regression of many targets",
        "",
        f"Mean over {SEEDS} draws of training rows: squared error of the other rows over that of the training "
        "mean, each target in units of its deviation, and CPU seconds of a fit with its choice of strength "
        "(ReducedRankRegression by leave-one-out or held-out targets, RidgeCV by leave-one-out over 25 "
        "strengths, MultiTaskLassoCV by 5 folds, both on standardized inputs). Below one is better than the mean.",
        "",
        f"| table (inputs, targets) | {' | '.join(METHODS)} |",
        "|---" * (len(METHODS) + 1) + "|",
    ]
    for name, (X, Y, rows) in tables().items():
        errors: dict[str, list[float]] = {method: [] for method in METHODS}
        seconds: dict[str, list[float]] = {method: [] for method in METHODS}
        varies = Y.std(axis=0) > 0.1 * Y.std()
        Y = Y[:, varies]
        for seed in range(SEEDS):
            X_train, X_test, Y_train, Y_test = train_test_split(
                X, Y, train_size=rows, random_state=seed
            )
            unit = Y.std(axis=0)
            null = np.square((Y_test - Y_train.mean(axis=0)) / unit).mean()
            for method, make in METHODS.items():
                model = make()
                started = time.process_time()
                model.fit(X_train, Y_train / unit)
                seconds[method].append(time.process_time() - started)
                error = np.square(model.predict(X_test) - Y_test / unit).mean()
                errors[method].append(error / null)
        cells = [
            f"{np.mean(errors[method]):.3f} ({np.mean(seconds[method]):.2f} s)"
            for method in METHODS
        ]
        lines.append(f"| {name} ({X.shape[1]}, {Y.shape[1]}) | {' | '.join(cells)} |")
    return "\n".join(lines)
