"""Single series: AutoForecaster next to AutoARIMA, AutoETS and AutoTheta of statsforecast, and their median."""

from __future__ import annotations

import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from statsforecast.models import AutoARIMA, AutoETS, AutoTheta

from benchmarks._peers import QUICK, table, versions
from benchmarks._series_sets import Array, co2_by_month, elnino_by_month, frame, shared, us_quarters
from regfactor import AutoForecaster

MAX_ROWS = 200
N_PER_SET = 2 if QUICK else 4
N_DRAWS = 2 if QUICK else 4
MANY = 50 if QUICK else 1000
MANY_OF_PEERS = 5 if QUICK else 20
LEVEL = 0.95
OURS = "AutoForecaster"
ENSEMBLE = "their median"


@dataclass(frozen=True)
class Case:
    """A series, its season, and how many of its last rows are forecast."""

    family: str
    values: Array
    season: int
    horizon: int

    @property
    def past(self) -> Array:
        """The rows that are seen."""
        return self.values[: -self.horizon]

    @property
    def future(self) -> Array:
        """The rows that are forecast."""
        return self.values[-self.horizon :]

    @property
    def unit(self) -> float:
        """The mean absolute error of the last season repeated, in the past."""
        return float(np.abs(self.past[self.season :] - self.past[: -self.season]).mean())


@dataclass(frozen=True)
class Answer:
    """Means, limits, and the CPU seconds that they took."""

    mean: Array
    lower: Array
    upper: Array
    seconds: float


def real_cases() -> Iterator[Case]:
    """Yield single series of public sets, the last 200 rows of each."""
    sources: dict[str, tuple[Array, int, int]] = {
        "canada_macro": (shared("canada_macro", N_PER_SET), 4, 8),
        "lutkepohl_e1": (shared("lutkepohl_e1", N_PER_SET), 4, 8),
        "us_macro": (shared("us_macro", N_PER_SET), 4, 8),
        "exchange_rate, every 21st": (shared("exchange_rate", N_PER_SET)[::21], 1, 10),
        "sst_atlantic_cobe2": (shared("sst_atlantic_cobe2", N_PER_SET), 12, 12),
        "sst_pacific_cobe2": (shared("sst_pacific_cobe2", N_PER_SET), 12, 12),
        "sst_pacific_cac_anom": (shared("sst_pacific_cac_anom", N_PER_SET), 12, 12),
        "macrodata": (us_quarters(), 4, 8),
        "co2": (co2_by_month(), 12, 12),
        "elnino": (elnino_by_month(), 12, 12),
        "nile": (frame("nile")[["volume"]].to_numpy(float), 1, 6),
        "sunspots": (frame("sunspots")[["SUNACTIVITY"]].to_numpy(float), 1, 6),
    }
    for name, (values, season, horizon) in sources.items():
        for column in values[-MAX_ROWS:].T:
            yield Case(name, np.ascontiguousarray(column), season, horizon)


def autoregression(phi: list[float], rng: np.random.Generator, n: int) -> Array:
    """Return an autoregression with standard normal innovations."""
    x = np.zeros(n)
    e = rng.normal(size=n)
    for t in range(len(phi), n):
        x[t] = np.dot(phi, x[t - len(phi) : t][::-1]) + e[t]
    return x


def walk(rng: np.random.Generator, n: int) -> Array:
    """Return a random walk."""
    return np.cumsum(rng.normal(size=n))


def evolving_season(rng: np.random.Generator, n: int) -> Array:
    """Return a season of 12 whose every phase is a random walk."""
    phases = 3 * rng.normal(size=12)
    values = np.zeros(n)
    for t in range(n):
        phases[t % 12] += 0.4 * rng.normal()
        values[t] = phases[t % 12]
    return values


def generated_cases() -> Iterator[Case]:
    """Yield series of known families."""
    for seed in range(N_DRAWS):
        rng = np.random.default_rng(seed)
        n = 120
        t = np.arange(n)
        months = 3 * rng.normal(size=12)[t % 12]
        trend = np.cumsum(np.cumsum(0.1 * rng.normal(size=n)) + rng.normal(size=n))
        spikes = np.where(rng.random(n) < 0.05, 15 * rng.normal(size=n), 0)
        families = {
            "noise": (rng.normal(size=n), 1),
            "random walk": (walk(rng, n), 1),
            "AR(1), .8": (autoregression([0.8], rng, n), 1),
            "AR(2), cycle": (autoregression([1.6, -0.9], rng, n), 1),
            "local linear trend": (trend, 1),
            "season and walk": (months + 0.3 * walk(rng, n) + rng.normal(size=n), 12),
            "evolving season": (evolving_season(rng, n) + 0.2 * walk(rng, n), 12),
            "growth": (np.exp(0.01 * t + 0.1 * months + 0.03 * walk(rng, n)), 12),
            "walk with spikes": (0.5 * walk(rng, n) + spikes, 1),
            "yearly growth": (100 * np.exp(0.03 * t[:36] + 0.02 * walk(rng, 36)), 1),
        }
        for name, (values, season) in families.items():
            yield Case(name, values, season, 12 if season > 1 else 8 if len(values) > 50 else 6)


def ours(case: Case) -> Answer:
    """Return the forecasts of AutoForecaster, which is told nothing."""
    start = time.process_time()
    found = AutoForecaster().fit(case.past).forecast(case.horizon, level=LEVEL)
    seconds = time.process_time() - start
    assert found.lower is not None and found.upper is not None
    return Answer(found.mean[:, 0], found.lower[:, 0], found.upper[:, 0], seconds)


def of_statsforecast(make: Callable[[int], Any]) -> Callable[[Case], Answer]:
    """Return the forecasts of a model that is told the season."""

    def answer(case: Case) -> Answer:
        start = time.process_time()
        found = make(case.season).forecast(case.past, case.horizon, level=[int(100 * LEVEL)])
        seconds = time.process_time() - start
        return Answer(found["mean"], found["lo-95"], found["hi-95"], seconds)

    return answer


PEERS: dict[str, Callable[[Case], Answer]] = {
    "AutoARIMA": of_statsforecast(lambda season: AutoARIMA(season_length=season)),
    "AutoETS": of_statsforecast(lambda season: AutoETS(season_length=season)),
    "AutoTheta": of_statsforecast(lambda season: AutoTheta(season_length=season)),
}


def answers(case: Case) -> dict[str, Answer]:
    """Return the answers of all, the median of the peers last."""
    found = {OURS: ours(case), **{name: peer(case) for name, peer in PEERS.items()}}
    peers = [found[name] for name in PEERS]

    def median(attribute: str) -> Array:
        return np.median([getattr(peer, attribute) for peer in peers], axis=0)

    seconds = sum(peer.seconds for peer in peers)
    found[ENSEMBLE] = Answer(median("mean"), median("lower"), median("upper"), seconds)
    return found


def compared() -> list[str]:
    """Return the tables of errors, ranks, coverage and CPU seconds."""
    errors: dict[str, list[list[float]]] = defaultdict(list)
    hits: dict[str, list[list[float]]] = defaultdict(list)
    seconds: dict[str, list[list[float]]] = defaultdict(list)
    kinds = {"public": list(real_cases()), "generated": list(generated_cases())}
    names = [OURS, *PEERS, ENSEMBLE]
    lines = []
    for kind, cases in kinds.items():
        for case in cases:
            found = answers(case)
            inside = {
                name: (one.lower <= case.future) & (case.future <= one.upper)
                for name, one in found.items()
            }
            for family in (kind, case.family):
                errors[family].append(
                    [float(np.abs(found[n].mean - case.future).mean() / case.unit) for n in names]
                )
                hits[family].append([float(inside[n].mean()) for n in names])
                seconds[family].append([found[n].seconds for n in names])
    for kind, cases in kinds.items():
        mase = np.array(errors[kind])
        ranks = np.argsort(np.argsort(mase, axis=1), axis=1) + 1
        rows = []
        for k, name in enumerate(names):
            rows.append(
                [
                    name,
                    f"{mase[:, k].mean():.3f}",
                    f"{np.median(mase[:, k]):.3f}",
                    f"{ranks[:, k].mean():.2f}",
                    f"{np.mean(hits[kind], axis=0)[k]:.3f}",
                    f"{1000 * np.mean(seconds[kind], axis=0)[k]:.0f}",
                ]
            )
        head = "method | mean MASE | median MASE | mean rank | in 95 % intervals | CPU ms a series"
        lines += ["", f"## {len(cases)} {kind} series", "", *table(head, rows), ""]
        families = list(dict.fromkeys(case.family for case in cases))
        rows = [
            [family, f"{len(errors[family])}"]
            + [f"{value:.3f}" for value in np.mean(errors[family], axis=0)]
            for family in families
        ]
        lines += table("mean MASE of | series | " + " | ".join(names), rows)
    return lines


def many() -> list[str]:
    """Return CPU seconds of many series of 200 rows."""
    rng = np.random.default_rng(0)
    n = 200
    t = np.arange(n + 12)
    cases = []
    for _ in range(MANY):
        season = 2 * rng.normal(size=12)[t % 12]
        values = season + 0.5 * walk(rng, n + 12) + rng.normal(size=n + 12)
        cases.append(Case("many", values, 12, 12))
    rows = [[OURS, f"{MANY:,}", f"{1000 * np.mean([ours(c).seconds for c in cases]):.0f}"]]
    for name, peer in PEERS.items():
        taken = [peer(case).seconds for case in cases[:MANY_OF_PEERS]]
        rows.append([name, f"{MANY_OF_PEERS:,}", f"{1000 * np.mean(taken):.0f}"])
    return [
        "",
        f"## {MANY:,} series of {n} rows, a season of 12, each alone",
        "",
        *table("method | series | CPU ms a series", rows),
    ]


def main() -> str:
    """Return all tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):  # compilation is not measured
            for peer in PEERS.values():
                peer(Case("first", np.random.default_rng(0).normal(size=60), 12, 6))
        lines = [*compared(), *many()]
    return "\n".join(
        [
            "# Forecasts of single series",
            "",
            f"Last rows of at most {MAX_ROWS}; MASE is relative to the last season repeated (the last value without one). The models of statsforecast are told the season, ours is told",
            "nothing. " + versions("statsforecast") + ".",
            *lines,
        ]
    )
