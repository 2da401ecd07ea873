"""Limits of filled cells: how many hidden cells they cover, and how wide they are, next to peers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from benchmarks._peers import QUICK, installed, table, versions
from benchmarks.mixed import NUMERIC, TABLES, kind_of, load
from regfactor import AutoImputer

LEVELS = (0.8, 0.9, 0.95)
HIDDEN = 0.2  # of the cells
SEEDS = range(1) if QUICK else range(3)  # draws of hidden cells
CALIBRATING = 0.2  # of the observed cells, by which split-conformal limits are set
MAX_ROWS = 300
N_DRAWS = 10  # of miceforest
N_ROUNDS = 2
OWN_VALUE = "boston_housing"  # where cells are hidden by what they hold, too


@dataclass(frozen=True)
class Hidden:
    """A table, and which of its cells are hidden."""

    truth: pd.DataFrame
    mask: np.ndarray

    @property
    def seen(self) -> pd.DataFrame:
        """The table without the hidden cells."""
        return self.truth.mask(self.mask)

    def numbers(self) -> list[str]:
        """Return the columns of numbers."""
        return [name for name in self.truth if kind_of(self.truth[name]) == NUMERIC]


@dataclass
class Result:
    """By level: whether each hidden cell is covered, and widths of numbers in deviations."""

    covered: dict[float, np.ndarray]
    widths: dict[float, np.ndarray]
    seconds: float


def hide(frame: pd.DataFrame, seed: int, by_value: bool = False) -> Hidden:
    """Hide cells at random, or large numbers three times as often as small ones."""
    rng = np.random.default_rng(seed)
    if len(frame) > MAX_ROWS:
        rows = np.sort(rng.choice(len(frame), MAX_ROWS, replace=False))
        frame = frame.iloc[rows].reset_index(drop=True)
    rates = np.full(frame.shape, HIDDEN)
    if by_value:
        for j, name in enumerate(frame):
            if kind_of(frame[name]) == NUMERIC:
                rates[:, j] = np.where(frame[name].rank(pct=True) > 0.5, 0.3, 0.1)
    mask = (rng.random(frame.shape) < rates) & frame.notna().to_numpy()
    return Hidden(frame, mask)


def of_limits(hidden: Hidden, limits: Callable[[float], Any], seconds: float) -> Result:
    """Judge limits of numbers."""
    covered = {}
    widths = {}
    for level in LEVELS:
        lower, upper = limits(level)
        inside = []
        wide = []
        for name in hidden.numbers():
            at = hidden.mask[:, hidden.truth.columns.get_loc(name)]
            truth = hidden.truth[name].to_numpy(float)[at]
            low = np.asarray(lower[name], float)[at]
            high = np.asarray(upper[name], float)[at]
            inside.append((low <= truth) & (truth <= high))
            wide.append((high - low) / (hidden.seen[name].std() or 1.0))
        covered[level] = np.concatenate([np.empty(0, bool), *inside])
        widths[level] = np.concatenate([np.empty(0), *wide])
    return Result(covered, widths, seconds)


def auto_imputer(hidden: Hidden, seed: int) -> tuple[Result, dict[float, np.ndarray]]:
    """Return limits of numbers, and whether the sets of other columns hold the truth."""
    start = time.process_time()
    seen = hidden.seen
    model = AutoImputer(random_state=seed).fit(seen)
    found = {level: model.complete_interval(seen, level) for level in LEVELS}
    seconds = time.process_time() - start
    sets: dict[float, np.ndarray] = {}
    for level in LEVELS:
        held = []
        for name, chosen in model.complete_set(seen, level).items():
            at = hidden.mask[:, hidden.truth.columns.get_loc(name)]
            if kind_of(hidden.truth[name]) == NUMERIC:
                continue
            places = {level: k for k, level in enumerate(model.categories_[name])}
            known = [places.get(value, -1) for value in hidden.truth[name][at].astype(object)]
            rows = chosen[at][np.arange(at.sum()), known]
            held.append(rows & (np.array(known) >= 0))
        sets[level] = np.concatenate([np.empty(0, bool), *held])
    return of_limits(hidden, lambda level: found[level], seconds), sets


def split_conformal(hidden: Hidden, seed: int) -> Result:
    """Return limits of equal width in a column, by cells that IterativeImputer was not given."""
    start = time.process_time()
    rng = np.random.default_rng((seed, 1))  # not the one that hid cells
    names = hidden.numbers()
    X = encoded(hidden.seen)
    calibrating = ~np.isnan(X) & (rng.random(X.shape) < CALIBRATING)
    model = IterativeImputer(random_state=seed, max_iter=10)
    filled = model.fit_transform(np.where(calibrating, np.nan, X))

    def limits(level: float) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        lower = {}
        upper = {}
        for j, name in enumerate(names):
            scores = np.sort(np.abs(X - filled)[calibrating[:, j], j])
            rank = int(np.ceil((len(scores) + 1) * level))
            width = scores[rank - 1] if rank <= len(scores) else np.inf
            lower[name] = filled[:, j] - width
            upper[name] = filled[:, j] + width
        return lower, upper

    return of_limits(hidden, limits, time.process_time() - start)


def encoded(frame: pd.DataFrame) -> np.ndarray:
    """Return numbers first, then other columns as 0 and 1 for each level."""
    numbers = [name for name in frame if kind_of(frame[name]) == NUMERIC]
    parts = [frame[numbers].to_numpy(float)]
    for name in frame:
        if name not in numbers:
            levels = pd.get_dummies(frame[name].astype(object), dtype=float).to_numpy(copy=True)
            levels[frame[name].isna().to_numpy()] = np.nan
            parts.append(levels)
    return np.hstack(parts)


def mice_forest(hidden: Hidden, seed: int) -> Result:
    """Return normal limits by the mean and the deviation of draws of miceforest."""
    import miceforest

    start = time.process_time()
    seen = hidden.seen.copy()
    for name in seen:
        if seen[name].dtype == "boolean":
            seen[name] = seen[name].astype(object).astype("category")
    seen.columns = [f"c{j}" for j in range(seen.shape[1])]
    # labels by their probabilities: matching by log odds ends in an error where one is 0 or 1
    labels = {
        f"c{j}": "fast" for j, name in enumerate(hidden.truth) if name not in hidden.numbers()
    }
    kernel = miceforest.ImputationKernel(
        seen, num_datasets=N_DRAWS, mean_match_strategy=labels, random_state=seed
    )
    kernel.mice(N_ROUNDS, num_threads=1, verbosity=-1)
    places = {name: f"c{hidden.truth.columns.get_loc(name)}" for name in hidden.numbers()}
    draws = {name: [] for name in places}
    for k in range(N_DRAWS):
        filled = kernel.complete_data(k)
        for name, place in places.items():
            draws[name].append(filled[place].to_numpy(float))

    def limits(level: float) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        factor = ndtri((1 + level) / 2)
        lower = {}
        upper = {}
        for name, values in draws.items():
            center = np.mean(values, axis=0)
            half = factor * np.std(values, axis=0, ddof=1) * np.sqrt(1 + 1 / N_DRAWS)
            lower[name] = center - half
            upper[name] = center + half
        return lower, upper

    return of_limits(hidden, limits, time.process_time() - start)


@dataclass
class Totals:
    """Sums over tables."""

    gaps: list[float]
    narrower: int = 0


def shown(result: Result, level: float) -> list[str]:
    """Return coverage and mean width, where there are numbers."""
    if not len(result.covered[level]):
        return ["–", "–"]
    return [f"{result.covered[level].mean():.1%}", f"{result.widths[level].mean():.2f}"]


def combined(results: list[Result]) -> Result:
    """Return the results of several draws as those of one; CPU is that of a draw."""
    covered = {}
    widths = {}
    for level in LEVELS:
        covered[level] = np.concatenate([result.covered[level] for result in results])
        widths[level] = np.concatenate([result.widths[level] for result in results])
    return Result(covered, widths, float(np.mean([result.seconds for result in results])))


def rows_of(
    name: str,
    hidden: list[Hidden],
    totals: dict[float, Totals],
) -> list[list[str]]:
    """Return the lines of one table, of which cells were hidden several times."""
    found = [auto_imputer(draw, seed) for seed, draw in enumerate(hidden)]
    ours = combined([result for result, _ in found])
    sets = {}
    for level in LEVELS:
        sets[level] = np.concatenate([held[level] for _, held in found])
    conformal = [split_conformal(draw, seed) for seed, draw in enumerate(hidden)]
    methods = {"AutoImputer": ours, "split-conformal, IterativeImputer": combined(conformal)}
    if installed("miceforest") and not QUICK:
        methods["draws of miceforest"] = mice_forest(hidden[0], 0)
    rows = []
    for method, result in methods.items():
        line = [name, method]
        for level in LEVELS:
            line += shown(result, level)
        if method == "AutoImputer":
            held = [f"{sets[level].mean():.1%}" if len(sets[level]) else "–" for level in LEVELS]
            line.append(" / ".join(held))
        else:
            line.append("–")
        rows.append([*line, f"{result.seconds:.1f} s"])
    peer = methods["split-conformal, IterativeImputer"]
    for level in LEVELS:
        if len(ours.widths[level]):
            totals[level].gaps.append(float(ours.covered[level].mean()) - level)
            totals[level].narrower += bool(ours.widths[level].mean() < peer.widths[level].mean())
    return rows


def summary(totals: dict[float, Totals]) -> list[str]:
    """Return how far coverage is from its level, and how often limits are narrower."""
    lines = []
    for level, found in totals.items():
        gaps = np.array(found.gaps)
        lines.append(
            f"- {level:.0%}: covered {level + gaps.mean():.1%} on average over {len(gaps)} tables, "
            f"{level + gaps.min():.1%} to {level + gaps.max():.1%}; within 5 points in "
            f"{int((np.abs(gaps) <= 0.05).sum())}; narrower than split-conformal limits in "
            f"{found.narrower}."
        )
    return lines


def peers() -> str:
    """Return what the peers do."""
    text = (
        f"The peer: limits by the residuals of {CALIBRATING:.0%} of the observed cells, which "
        "IterativeImputer was not given"
    )
    if installed("miceforest") and not QUICK:
        text += f"; and mean and deviation of {N_DRAWS} draws of miceforest"
    return f"{text}."


def main() -> str:
    """Compare limits at three levels on hidden cells of public tables."""
    names = list(TABLES)[:4] if QUICK else list(TABLES)
    totals = {level: Totals([]) for level in LEVELS}
    head = "table | method"
    for level in LEVELS:
        head += f" | {level:.0%}: covered | width"
    head += " | sets hold (80 / 90 / 95 %) | CPU"
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            rows += rows_of(name, [hide(load(name), seed) for seed in SEEDS], totals)
        other = {level: Totals([]) for level in LEVELS}
        masked = [hide(load(OWN_VALUE), seed, by_value=True) for seed in SEEDS]
        by_value = rows_of(OWN_VALUE, masked, other)
    return "\n".join(
        [
            "# Limits of filled cells",
            "",
            f"{HIDDEN:.0%} of the cells hidden at random, {len(SEEDS)} draws, at most {MAX_ROWS} rows of each table; one thread; {versions('scikit-learn')}. "
            "`covered` is the share of hidden numbers within their limits, `width` the mean width in deviations of the column; `sets hold` is the share of hidden categories "
            f"and truth values in their sets. {peers()}",
            "",
            *table(head, rows),
            "",
            "## Numbers in all, by AutoImputer",
            "",
            *summary(totals),
            "",
            "## Hidden by what they hold",
            "",
            f"{OWN_VALUE}: numbers above the median of their column are hidden three times as often as others, which no table shows.",
            "",
            *table(head, by_value),
        ]
    )
