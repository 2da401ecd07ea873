"""Do pooled intervals cover? 200 simulated regressions with 30 % of the entries missing at random.

Five normal inputs of two causes and one outcome, 200 rows. The first two columns are observed; the
larger the first, the likelier the others are missing. Each method draws 20 completed tables, each
gives least-squares coefficients, and Rubin's rules pool them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._peers import installed, versions
from regfactor import SubspaceImputer
from regfactor.inference import pool

N_SIMULATIONS = 200
N_ROWS = 200
N_DRAWS = 20
LOADINGS = np.array([[1.0, 0.8, 0.6, 0.2, -0.4], [0.0, 0.5, -0.7, 0.9, 0.6]])
COEFFICIENTS = np.array([0.0, 1.0, -0.5, 0.5, 0.0, 0.3])  # the intercept first
LEVEL = 0.95

Draws = Callable[[np.ndarray, int], list[np.ndarray]]


def simulated(seed: int) -> np.ndarray:
    """Return a table whose last column is the outcome, with NaN at missing entries."""
    random = np.random.default_rng(seed)
    causes = random.normal(size=(N_ROWS, 2))
    X = causes @ LOADINGS + 0.7 * random.normal(size=(N_ROWS, 5))
    y = X @ COEFFICIENTS[1:] + random.normal(size=N_ROWS)
    table = np.column_stack([X, y])
    missing = random.random((N_ROWS, 4)) < 0.9 / (1 + np.exp(-table[:, :1]))
    table[:, 2:][missing] = np.nan
    return table


def regression(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return least-squares coefficients of the last column, and their squared standard errors."""
    A = np.column_stack([np.ones(len(table)), table[:, :-1]])
    inverse = np.linalg.inv(A.T @ A)
    coefficients = inverse @ A.T @ table[:, -1]
    residuals = table[:, -1] - A @ coefficients
    variance = residuals @ residuals / (len(A) - A.shape[1])
    return coefficients, variance * np.diag(inverse)


def ours(table: np.ndarray, seed: int) -> list[np.ndarray]:
    """Draws of the subspace family."""
    return SubspaceImputer(random_state=seed).fit(table).sample(table, N_DRAWS, random_state=seed)


def iterative(table: np.ndarray, seed: int) -> list[np.ndarray]:
    """Draws of chained Bayesian regressions, each chain with a seed of its own."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    draws = []
    for draw in range(N_DRAWS):
        imputer = IterativeImputer(sample_posterior=True, random_state=1000 * seed + draw)
        draws.append(imputer.fit_transform(table))
    return draws


def miceforest_draws(table: np.ndarray, seed: int) -> list[np.ndarray]:
    """Draws of chained forests with predictive mean matching."""
    import miceforest
    import pandas as pd

    frame = pd.DataFrame(table, columns=[f"x{j}" for j in range(table.shape[1])])
    kernel = miceforest.ImputationKernel(frame, num_datasets=N_DRAWS, random_state=seed)
    kernel.mice(5, verbose=False)
    return [kernel.complete_data(k).to_numpy() for k in range(N_DRAWS)]


def complete_cases(table: np.ndarray, seed: int) -> list[np.ndarray]:
    """Rows without a missing entry, twice, so that nothing varies between draws."""
    whole = table[~np.isnan(table).any(axis=1)]
    return [whole, whole]


def methods() -> dict[str, Draws]:
    """Return the methods that can be run here."""
    found: dict[str, Draws] = {
        "SubspaceImputer().sample": ours,
        "IterativeImputer(sample_posterior=True)": iterative,
        "complete rows": complete_cases,
    }
    if installed("miceforest"):
        found["miceforest"] = miceforest_draws
    return found


def measured(draws: Draws) -> dict[str, Any]:
    """Return coverage, bias, width and CPU time of a method over all simulations."""
    covered = []
    errors = []
    widths = []
    started = time.process_time()
    for seed in range(N_SIMULATIONS):
        table = simulated(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # chains that did not converge in ten rounds
            completed = draws(table, seed)
        results = [regression(one) for one in completed]
        freedom = len(completed[0]) - len(COEFFICIENTS)
        pooled = pool([b for b, _ in results], [v for _, v in results], freedom)
        lower, upper = pooled.interval(LEVEL)
        covered.append((lower <= COEFFICIENTS) & (upper >= COEFFICIENTS))
        errors.append(pooled.estimate - COEFFICIENTS)
        widths.append(upper - lower)
    return {
        "coverage": np.mean(covered),
        "worst": np.mean(covered, axis=0).min(),
        "bias": np.abs(np.mean(errors, axis=0)).max(),
        "width": np.mean(widths),
        "cpu": time.process_time() - started,
    }


def main() -> str:
    """Return the table of all methods."""
    peers = ["miceforest"] if installed("miceforest") else []
    missing = np.mean([np.isnan(simulated(seed)).mean() for seed in range(N_SIMULATIONS)])
    lines = [
        "# Multiple imputation: coverage of pooled coefficients",
        "",
        f"{N_SIMULATIONS} simulated regressions of {N_ROWS} rows, {missing:.0%} of all entries missing at random, "
        f"{N_DRAWS} draws, {LEVEL:.0%} intervals of six coefficients. One thread. {versions('scikit-learn', *peers)}.",
        "",
        "| method | coverage | least of a coefficient | largest bias | mean width | CPU s |",
        "|---|---|---|---|---|---|",
    ]
    for name, draws in methods().items():
        found = measured(draws)
        lines.append(
            f"| {name} | {found['coverage']:.3f} | {found['worst']:.3f} | {found['bias']:.3f} | "
            f"{found['width']:.3f} | {found['cpu']:.0f} |"
        )
    return "\n".join(lines)
