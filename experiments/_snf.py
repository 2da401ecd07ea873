"""Semi-supervised regression on eleven tables (Grabocka et al. 2014), every method tuned on labels only.

A cell is one method on one draw of labels. Its settings, the same number for all methods, are
compared by cross-validation on the labeled rows, three folds, or one row at a time below nine
labels; the best is fitted to all labels and judged on the unlabeled rows. Every setting is judged
there, too, for the column of the best on the grid, which decides nothing else. Predictions of all
methods are held near the range of the given targets, by the same limits.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, ParameterGrid

from experiments._papers import Imputing
from experiments._runner import Cell, Experiment, Plan, Record, key
from experiments._snf_report import CONTROL, OURS, PAPERS, REFERENCE, TODAY, legend, report
from regfactor import (
    ConvexFactorRegressor,
    SemiSupervisedRegressor,
    SNFRegressor,
    SNFRegressorCV,
    datasets,
)
from regfactor.baselines import (
    HessianRegression,
    LaplacianRegression,
    LaplacianRLS,
    LeastSquaresSVM,
    LinearLatentReconstruction,
    ParallelFieldRegression,
)

BUDGET = 24  # settings of every method
MARGIN = 0.1  # of the range of the given targets, by which any prediction may leave it
EPOCHS = 1000  # at most, as in the paper
FOLDS, FEW = 3, 9
DRAWS = 10
TABLES = {  # as the paper calls them
    "A.Price": "autoprice",
    "B.ball": "baseball",
    "Bears": "bears",
    "B.Fat": "bodyfat",
    "F.Fires": "forestfires",
    "B.Hous.": "boston_housing",
    "M.Cpu": "machine_cpu",
    "Mpg": "autompg",
    "Pyrim": "pyrim",
    "Triaz.": "triazines",
    "WiscBC.": "wpbc",
}


class MeanOfLabels(BaseEstimator):
    """Predicts the mean of the given targets."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> MeanOfLabels:
        self.transduction_ = np.full(len(y), np.nanmean(y))
        return self


class OnLabels(BaseEstimator):
    """A supervised regressor on labeled rows.

    With `n_components`, on principal components of all rows.
    """

    def __init__(self, model: Any, n_components: float | None = None) -> None:
        self.model, self.n_components = model, n_components

    def fit(self, X: np.ndarray, y: np.ndarray) -> OnLabels:
        if self.n_components is not None:
            most = min(X.shape)
            X = PCA(
                min(max(1, round(self.n_components * X.shape[1])), most), random_state=0
            ).fit_transform(X)
        seen = ~np.isnan(y)
        shift = y[seen].mean()
        self.transduction_ = self.model.fit(X[seen], y[seen] - shift).predict(X) + shift
        return self


@dataclass(frozen=True)
class Tuned:
    """A method: how it is made, of how many inputs, from a setting.

    And the settings to draw from.
    """

    name: str
    make: Callable[..., Any]
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
    draws: int | None = None  # at most; for what takes long

    @functools.cached_property
    def settings(self) -> list[dict[str, Any]]:
        """Return BUDGET settings of the grid, or all where there are fewer.

        Drawn once and for all.
        """
        every = list(ParameterGrid(self.grid)) if self.grid else [{}]
        if len(every) <= BUDGET:
            return every
        order = np.random.default_rng(0).permutation(len(every))[:BUDGET]
        return [every[i] for i in np.sort(order)]


WIDTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # gamma times the number of inputs
POWERS = tuple(10.0**k for k in range(-6, 2))
RIDGES = {"lambda_x": POWERS, "lambda_y": POWERS, "lambda_z": POWERS}
SIZES = {"n_components": (0.5, 0.75)}
BACK_CONSTRAINED = {  # not the paper's
    **SIZES,
    "lambda_x": (0.01, 0.1, 1.0),
    "lambda_y": (0.01, 0.1, 1.0),
    "lambda_z": (0.01, 0.1, 1.0),
    "max_iter": (15, 60),
    "target_weight": (10.0, 100.0),
    "degree": (1, 2),
    "back_constraint": ("linear", "kernel"),
}


def _machine(d: int, ridge: float, width: float) -> Any:
    return LeastSquaresSVM(ridge, gamma=width / d)


def _kernel_ridge(d: int, alpha: float, width: float) -> Any:
    return OnLabels(KernelRidge(alpha=alpha, kernel="rbf", gamma=width / d))


def _components(d: int, alpha: float, n_components: float) -> Any:
    return OnLabels(Ridge(alpha), n_components)


def _laplacian_rls(d: int, width: float, **weights: float) -> Any:
    return LaplacianRLS(task="regression", fit_intercept=True, gamma=width / d, **weights)


def _reverse(d: int, kernel: str | None, **weights: float) -> Any:
    shape = {} if kernel is None else {"gamma": 0.3 / d}
    return Imputing(kernel=kernel, fit_intercept=True, **weights, **shape)


def plain(kind: Callable[..., Any], **fixed: Any) -> Callable[..., Any]:
    """Return how an estimator is made that need not know the number of inputs."""
    return lambda d, **setting: kind(**fixed, **setting)


METHODS = [
    Tuned(REFERENCE, _machine, {"ridge": (1e-4, 1e-2, 0.1, 1.0), "width": WIDTHS}),
    Tuned(
        "Laplacian",
        plain(LaplacianRegression),
        {
            "penalty": (1e-3, 1e-2, 0.1, 1.0),
            "n_neighbors": (3, 5, 10),
            "graph_gamma": (None, "median"),
        },
    ),
    Tuned(
        "Hessian",
        plain(HessianRegression),
        [
            {"penalty": (1e-5, 1e-3, 0.1, 10.0), "n_neighbors": (10, 20), "dimension": (1, 2)},
            {"penalty": (1e-5, 1e-3, 0.1, 10.0), "n_neighbors": (20, 30), "dimension": (3,)},
        ],
    ),
    Tuned(
        "PFR",
        plain(ParallelFieldRegression),
        {
            "field_penalty": (0.1, 1.0, 10.0),
            "parallel_penalty": (0.01, 0.1),
            "n_neighbors": (5, 15),
            "dimension": (2, 4),
        },
    ),
    Tuned(
        "LLR",
        plain(LinearLatentReconstruction, target_weight=1.0, max_iter=EPOCHS, clip=MARGIN),
        {**SIZES, **RIDGES},
    ),
    Tuned(
        PAPERS,
        plain(
            SNFRegressor,
            back_constraint=None,
            target_weight=1.0,
            max_iter=EPOCHS,
            clip=MARGIN,
        ),
        {**SIZES, **RIDGES, "degree": (1, 2, 3, 4)},
    ),
    Tuned(
        "SNF, algorithm 1",
        plain(
            SNFRegressor,
            solver="paper",
            back_constraint=None,
            target_weight=1.0,
            degree=2,
            max_iter=100,
            clip=MARGIN,
        ),
        {"learning_rate": (1e-3, 1e-2)},
        draws=1,
    ),
    Tuned("SNF, back-constrained", plain(SNFRegressor, clip=MARGIN), BACK_CONSTRAINED),
    Tuned(OURS, plain(SNFRegressorCV, random_state=0), {}),
    Tuned(TODAY, plain(SemiSupervisedRegressor), {}),
    Tuned(
        "LapRLS",
        _laplacian_rls,
        {"width": (0.1, 0.3, 1.0), "gamma_A": (1e-4, 1e-2), "gamma_I": (0.01, 0.1, 1.0, 10.0)},
    ),
    Tuned(
        "ReverseRegressor",
        _reverse,
        {
            "kernel": (None, "rbf"),
            "unlabeled_weight": (1e-3, 1e-2, 0.1, 1.0),
            "alpha": (1e-3, 0.1, 1.0),
        },
    ),
    Tuned("ConvexFactorRegressor", plain(ConvexFactorRegressor), {}),
    Tuned("kernel ridge", _kernel_ridge, {"alpha": (1e-4, 1e-2, 0.1, 1.0), "width": WIDTHS}),
    Tuned(
        "PCA + ridge",
        _components,
        {"alpha": (1e-4, 1e-2, 0.1, 1.0, 10.0, 100.0), "n_components": (0.25, 0.5, 0.75, 1.0)},
    ),
    Tuned(CONTROL, plain(MeanOfLabels), {}),
]


@functools.cache
def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and target of a table, both scaled to [-1, 1]."""
    loaded = datasets.load(TABLES[name])
    X = np.where(np.isnan(loaded.data), np.nanmean(loaded.data, axis=0), loaded.data)
    low, width = X.min(axis=0), np.ptp(X, axis=0)
    y = loaded.target
    return 2 * (X - low) / np.where(width > 0, width, 1) - 1, 2 * (y - y.min()) / np.ptp(y) - 1


def labels(name: str, share: float, draw: int) -> np.ndarray:
    """Return the labeled rows of a draw, at least three."""
    n = len(table(name)[1])
    order = np.random.default_rng([draw, list(TABLES).index(name)]).permutation(n)
    return np.sort(order[: max(3, round(share * n))])


def fitted(method: Tuned, name: str, rows: np.ndarray, setting: dict[str, Any]) -> Any:
    """Return the model of a setting, fitted to the targets of some rows."""
    X, y = table(name)
    seen = np.full(len(y), np.nan)
    seen[rows] = y[rows]
    return method.make(X.shape[1], **setting).fit(X, seen)


def held(found: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Return predictions within the range of the given targets, widened by a share of it."""
    margin = MARGIN * np.ptp(given)
    return np.clip(found, given.min() - margin, given.max() + margin)


def predicted(method: Tuned, name: str, rows: np.ndarray, setting: dict[str, Any]) -> np.ndarray:
    """Return predictions of all rows from the targets of some, near the range of these."""
    model = fitted(method, name, rows, setting)
    return held(np.asarray(model.transduction_), table(name)[1][rows])


def error_of(method: Tuned, name: str, rows: np.ndarray, setting: dict[str, Any]) -> float | None:
    """Return the mean squared error of the unlabeled rows; None where the setting cannot be fitted."""
    try:
        found = predicted(method, name, rows, setting)
    except (ValueError, np.linalg.LinAlgError):
        return None
    error = np.delete(np.square(found - table(name)[1]), rows).mean()
    return float(f"{error:.6g}")


def chosen(method: Tuned, name: str, rows: np.ndarray) -> dict[str, Any]:
    """Return the setting of the lowest error on held-out labels.

    One that cannot be fitted is passed over.
    """
    if len(method.settings) == 1:
        return method.settings[0]
    y, count = table(name)[1], len(rows) if len(rows) < FEW else FOLDS
    folds = [(rows[a], rows[b]) for a, b in KFold(count, shuffle=True, random_state=0).split(rows)]
    errors = np.full(len(method.settings), np.inf)
    for i, setting in enumerate(method.settings):
        try:
            wrong = [
                np.square(predicted(method, name, kept, setting)[left_out] - y[left_out])
                for kept, left_out in folds
            ]
        except (ValueError, np.linalg.LinAlgError):
            continue
        errors[i] = np.concatenate(wrong).mean()
    if not np.isfinite(errors).any():
        raise ValueError("no setting could be fitted")
    return method.settings[int(errors.argmin())]


class LabelsOnly(Experiment):
    """Methods x tables at some shares of labels; `printed[table][method]` is the paper's number."""

    def __init__(
        self,
        title: str,
        shares: Sequence[float],
        printed: Mapping[str, Mapping[str, str]],
        names: Sequence[str],
        twins: Sequence[str] = (),
    ) -> None:
        self.title, self.shares, self.printed, self.names, self.twins = (
            title,
            shares,
            printed,
            names,
            twins,
        )

    def cells(self, done: dict[str, Record], plan: Plan) -> list[Cell]:
        return [
            {
                "table": name,
                "method": method.name,
                "settings": _mark(method),
                "share": share,
                "draw": draw,
            }
            for share in self.shares
            for name in self.names
            for method in METHODS
            for draw in range(_draws(method, plan))
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        method = next(m for m in METHODS if m.name == cell["method"])
        rows = labels(cell["table"], cell["share"], cell["draw"])
        name = cell["table"]
        setting = chosen(method, name, rows)
        errors = [error_of(method, name, rows, each) for each in method.settings]
        error = errors[method.settings.index(setting)]
        if error is None:
            raise ValueError("the chosen setting cannot be fitted to all labels")
        result = {"error": error, "errors": errors, "setting": setting, "labels": len(rows)}
        if method.name == OURS:
            result["descended"] = _descended(fitted(method, name, rows, setting))
        return result

    def summary(self, done: dict[str, Record], plan: Plan) -> list[dict[str, Any]]:
        out = []
        for share in self.shares:
            for name in self.names:
                for method in METHODS:
                    cells = [
                        c
                        for c in self.cells(done, plan)
                        if (c["share"], c["table"], c["method"]) == (share, name, method.name)
                    ]
                    records = [done.get(key(c), {}).get("result") for c in cells]
                    errors = [r["error"] if r else None for r in records]
                    count = next((r["labels"] for r in records if r), None)
                    row = {
                        "share": share,
                        "table": name,
                        "method": method.name,
                        "errors": errors,
                        "labels": count,
                        "printed": self.printed.get(name, {}).get(method.name),
                    }
                    if len(method.settings) > 1 and all(records):
                        row |= _best_on_grid(method, [r["errors"] for r in records])
                    if method.name == OURS:
                        row["descended"] = [r["descended"] for r in records if r]
                    out.append(row)
        return out

    def report(self, summary: list[dict[str, Any]]) -> str:
        return report(summary, legend(BUDGET, FOLDS, FEW))


def _draws(method: Tuned, plan: Plan) -> int:
    count = plan.n_splits(DRAWS)
    return count if method.draws is None else min(count, method.draws)


def _best_on_grid(method: Tuned, errors: list[list[float | None]]) -> dict[str, Any]:
    """Return the setting of the lowest mean error on the unlabeled rows, and its errors."""
    found = np.array(errors, dtype=float)
    means = found.mean(axis=0)
    if np.isnan(means).all():
        return {}
    best = int(np.nanargmin(means))
    return {"best": found[:, best].tolist(), "best setting": method.settings[best]}


def _descended(model: SNFRegressorCV) -> int:
    """Return how many of the averaged candidates descended; the others are machines."""
    averaged = model.cv_results_[: model.n_averaged]
    return sum(result["params"]["max_iter"] > 0 for result in averaged)


def _mark(method: Tuned) -> str:
    """Return a short name for the settings, so that cells of other settings are other cells."""
    text = json.dumps(method.settings, sort_keys=True) + f" {FOLDS}"
    return hashlib.sha256(text.encode()).hexdigest()[:8]
