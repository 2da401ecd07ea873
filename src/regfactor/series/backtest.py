"""Forecasts from times in the past: which model foresees best, and how well it does on rows that had no say in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from regfactor.cli.errors import count
from regfactor.cli.job import quiet
from regfactor.core.params import Array
from regfactor.series.arma.estimator import RegularizedARMA
from regfactor.series.arma.fit import interpolated
from regfactor.series.arma.forecast import Forecast

LEAST = 10  # rows that a model is fitted to
ORIGINS = 3  # at the end of the series, from which the model that is taken is tried
EARLIER = 8  # before them, from which candidates are compared
LAST = 2000  # rows that a model of the past is fitted to, so that a long series takes no longer
SEASONS = 3  # that a series holds before lags of a season are compared; two of them are fitted
STEPS = ("values", "changes from row to row", "changes of changes")


class Orders(NamedTuple):
    """What the user said of the model; None where it is left to be found."""

    lags: int | None = None
    difference: int | None = None
    season: int | None = None


class Candidate(NamedTuple):
    """A model of given lags, or of lags by BIC, of values or of their changes; `season` where the lags span one."""

    lags: int | None
    difference: int = 0
    season: int = 0

    def model(self) -> RegularizedARMA:
        """Return the model, to be fitted."""
        return RegularizedARMA(p="bic" if self.lags is None else self.lags, d=self.difference)

    @property
    def least(self) -> int:
        """How many rows it is fitted to at least."""
        return max(LEAST, (SEASONS - 1) * self.season + 2, (self.lags or 0) + self.difference + 2)

    def __str__(self) -> str:
        step = STEPS[self.difference]
        if self.lags is None:
            return f"lags of {step}, as many as BIC chooses"
        if self.season:
            span = f", a season of {self.season} and one more"
        else:
            span = ""
        return f"{count(self.lags, 'lag')} of {step}{span}"


class Compared(NamedTuple):
    """The candidate to take, errors of all in standard deviations of the series, and how much wider limits must be."""

    best: Candidate
    errors: dict[Candidate, float]  # none where nothing was compared
    ends: list[int]  # the times from which it is to be tried
    widening: float = 1.0


class Tried(NamedTuple):
    """Forecasts from the past: how many, the share within intervals, errors by series, and of a simple forecast."""

    cells: int
    within: float
    error: Array
    simple: Array
    against: str  # which simple forecast, in words


def candidates(orders: Orders, season: int | None, shape: tuple[int, ...]) -> list[Candidate]:
    """Return lags by BIC and lags of a season, each of values and of changes, where the user said nothing else."""
    steps = (0, 1) if orders.difference is None else (orders.difference,)
    if orders.lags is not None:
        return [Candidate(orders.lags, d) for d in steps]
    found: list[int | None] = [None]
    rows, n = shape
    lags = (
        season or 1
    ) + 1  # one more than a season, which shows what changed since this time of the last one
    if season is not None and season > 1 and rows >= max(SEASONS * season, lags + lags * n):
        found.append(lags)
    return [Candidate(p, d, 0 if p is None else lags - 1) for p in found for d in steps]


@quiet()
def compare(found: Sequence[Candidate], X: Array, horizon: int, level: float) -> Compared:
    """Return the candidate that foresaw best, on rows before those on which it will be tried."""
    found, ends = _split(found, len(X), horizon)
    X = X[: min(ends, default=0)][-LAST:]
    h = _steps(len(X), horizon)
    first = max(len(X) // 2, *(c.least for c in found))
    if first > len(X) - h or not _moves(X[:first]):
        return Compared(found[0], {}, ends)
    origins = np.unique(np.linspace(first, len(X) - h, EARLIER).astype(int))
    truth = _following(X, origins, h)
    spread = np.nanstd(X, axis=0)
    said = {c: _made(c, X, origins, h, level) for c in found}
    errors = {
        c: float(np.nan_to_num(np.nanmean(np.abs(truth - f.mean) / spread), nan=np.inf))
        for c, f in said.items()
    }
    best = min(found, key=lambda c: errors[c])
    return Compared(
        best,
        errors if len(found) > 1 else {},
        ends,
        _widening(truth, said[best], level),
    )


def _widening(truth: Array, said: Forecast, level: float) -> float:
    """Return by which factor limits would have held the share `level` of what came; 1 where they did."""
    half = said.upper - said.mean
    there = ~np.isnan(truth) & (half > 0)
    if there.any():
        return max(1.0, float(np.quantile(np.abs(truth - said.mean)[there] / half[there], level)))
    return 1.0


def widened(said: Forecast, factor: float) -> Forecast:
    """Return a forecast with its limits further from the mean by a factor."""
    half = factor * (said.upper - said.mean)
    return replace(said, lower=said.mean - half, upper=said.mean + half)


@quiet()
def try_past(
    compared: Compared,
    X: Array,
    horizon: int,
    level: float,
    season: int | None,
) -> Tried | None:
    """Forecast from some times at the end, with models of the rows before them, and compare with what came."""
    taken = compared.best
    h = _steps(len(X), horizon)
    origins = [o for o in compared.ends if o >= taken.least and _moves(X[:o][-LAST:])]
    if origins:
        truth = _following(X, origins, h)
    else:
        truth = np.full_like(X[:1], np.nan)
    there = ~np.isnan(truth)
    if not there.any():
        return None
    said = widened(_made(taken, X, origins, h, level), compared.widening)
    simple = {"the last value repeated": _repeated(X, origins, h, 1)}
    if season is not None and 1 < season <= min(origins):
        simple["the last season repeated"] = _repeated(X, origins, h, season)
    errors = {name: np.nanmean(np.abs(truth - values), axis=0) for name, values in simple.items()}
    against = min(errors, key=lambda name: np.nanmean(errors[name] / np.nanstd(X, axis=0)))
    within = ((truth >= said.lower) & (truth <= said.upper))[there]
    error = np.nanmean(np.abs(truth - said.mean), axis=0)
    return Tried(len(within), float(within.mean()), error, errors[against], against)


def _split(
    found: Sequence[Candidate],
    rows: int,
    horizon: int,
) -> tuple[Sequence[Candidate], list[int]]:
    """Return what can be compared, and the times at the end from which one is tried: fewer where a season needs rows.

    The first half of the rows is left to fits.
    """
    h = _steps(rows, horizon)
    ends = [rows - i * h for i in range(1, ORIGINS + 1) if h and rows - i * h >= rows // 2]
    for kept in (ends[:k] for k in range(len(ends), 0, -1)):
        if all(c.least <= kept[-1] - _steps(kept[-1], horizon) for c in found):
            return found, kept
    return [c for c in found if ends and c.least <= ends[-1] - _steps(ends[-1], horizon)] or found[
        :1
    ], ends


def _steps(rows: int, horizon: int) -> int:
    """Return how far ahead forecasts of so many rows are tried."""
    return min(horizon, rows // 5)


def _moves(past: Array) -> bool:
    """Whether every series has values that differ."""
    return not np.isnan(past).all(axis=0).any() and bool(np.nanstd(past, axis=0).all())


def _made(
    candidate: Candidate,
    X: Array,
    origins: Sequence[int] | Array,
    h: int,
    level: float,
) -> Forecast:
    """Return forecasts from each origin by a model of the rows before it, one block after the other."""
    said = [candidate.model().fit(X[:o][-LAST:]).forecast(h, level=level) for o in origins]
    mean, lower, upper = (
        np.concatenate([getattr(f, end) for f in said]) for end in ("mean", "lower", "upper")
    )
    return Forecast(mean, lower, upper, level)


def _following(X: Array, origins: Sequence[int] | Array, h: int) -> Array:
    """Return the rows that came after each origin, one block after the other."""
    return np.concatenate([X[o : o + h] for o in origins])


def _repeated(X: Array, origins: Sequence[int], h: int, rows: int) -> Array:
    """Return the last rows before each origin, over and over; holes are filled on straight lines."""
    return np.concatenate(
        [np.resize(interpolated(X[:o])[-rows:], (h, X.shape[1])) for o in origins],
    )
