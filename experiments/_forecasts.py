"""A table of forecasters: series across, methods down, cumulative squared error by horizon relative to the mean's."""

from __future__ import annotations

import collections
import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.stats

from experiments._runner import Cell, Experiment, Plan, Record, key
from experiments._series import METHODS, OURS, Array, Forecaster, Outcome, Search, legend
from experiments._verdicts import FAILS, HOLDS, OPEN, SURE, judged

BASE = "MEAN"
STABLE = 1.01  # spectral radius up to which the thesis calls a model stable
FAR = (
    10.0  # times the largest training value: beyond it a forecast without roots is called unstable
)
HEAVY = 2.0  # times the median from which on a mean needs it next to it
CAPPED = " + roots scaled"
LEVEL = 0.05
RARMA = "RARMA, tuned"  # which is what is printed
PAIRS = (
    (RARMA, "ridge VAR, tuned"),
    ("RARMA, BIC", "ridge VAR, BIC"),
    ("RARMA, BIC", "AR(BIC)"),
    (OURS, RARMA),
    (OURS, "AR(BIC)"),
)
PRINTED_LEGEND = (
    "A printed difference is one of more than twice its standard error. Each is decided here by "
    "Wilcoxon's signed-rank test, at 5 % in two tails, of the two methods' errors over all "
    "horizons on the same trials (their logarithms). In brackets: the error of the first relative "
    "to that of the second, geometric mean over trials, and the share of wins."
)
READING = (
    "Numbers are the mean squared error of forecasts 1, ..., h over that of the training mean, "
    "each summed over the variables and over n trials (generated series, patches or origins); ± "
    "is the standard error by the jackknife over trials. Where few trials decide a ratio, the "
    "median of the trials' own ratios stands next to it. Stable: the share with a spectral radius "
    f"below {STABLE}; without roots (HSE-HMM, AutoForecaster), with forecasts below {FAR:.0f} times "
    "the largest training value."
)


@dataclass(frozen=True, eq=False)
class Case:
    """A past, what came, and, where it is known, the autoregression behind it."""

    past: Array
    future: Array
    ar: Array | None = None


@dataclass(frozen=True)
class Source:
    """Series of one kind: `draw(i)` is its i-th; horizons are kept, columns are shown."""

    name: str
    draw: Callable[[int], Case]
    protocol: str
    horizons: Sequence[int]
    columns: Sequence[int]
    splits: int
    search: Search = Search()
    independent: bool = True
    without: tuple[str, ...] = ()  # methods that are too slow here


@dataclass(frozen=True)
class Forecasts(Experiment):
    """Methods x sources; `printed[source][method]` is (MSE, its standard error, stable rate) as printed."""

    title: str
    sources: Sequence[Source]
    methods: Mapping[str, Forecaster] = field(default_factory=lambda: METHODS)
    printed: Mapping[str, Mapping[str, tuple[float, float, float]]] = field(default_factory=dict)
    notes: str = ""
    pairs: Sequence[tuple[str, str]] = PAIRS
    oracle: str | None = None  # a row that knows the autoregression

    def cells(self, done: dict[str, Record], plan: Plan) -> list[Cell]:
        return [
            self._cell(s, m, i)
            for s in self.sources
            for i in trials(s, plan)
            for m in self._names(s)
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        source = next(s for s in self.sources if s.name == cell["dataset"])
        case, horizon = source.draw(cell["split"]), max(source.horizons)
        if cell["method"] == self.oracle:
            outcome = iterated(case, horizon)
        else:
            outcome = self.methods[cell["method"]](case.past, horizon, source.search)
        result = {
            "mse": errors(outcome.forecast, case.future, source.horizons),
            "chosen": outcome.chosen,
        }
        result |= {"stable": bool(is_stable(outcome, case)), "radius": rounded(outcome.radius)}
        return (
            result
            if outcome.capped is None
            else {**result, "capped": errors(outcome.capped, case.future, source.horizons)}
        )

    def summary(self, done: dict[str, Record], plan: Plan) -> list[dict[str, Any]]:
        rows = []
        for source in self.sources:
            found = self._collected(source, done, plan)
            rows += [self._row(source, name, found) for name in found]
            rows += [
                pair(source, ours, other, found)
                for ours, other in self.pairs
                if {ours, other} <= set(found)
            ]
            rows += printed_differences(source, self.printed.get(source.name, {}), found)
        return rows

    def report(self, summary: list[dict[str, Any]]) -> str:
        parts = [READING, legend(self.methods), *([self.notes] if self.notes else [])]
        for source in self.sources:
            rows = [row for row in summary if row["dataset"] == source.name and "method" in row]
            head = ["method", *(["printed [stable]"] if source.name in self.printed else [])]
            head += [*(f"h = {h}" for h in source.columns), "stable", "n", "chosen most often"]
            lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
            lines += [line(row, source.name in self.printed) for row in rows]
            parts.append(f"## {source.name}\n\n{source.protocol}\n\n" + "\n".join(lines))
        pairs = [row for row in summary if "pair" in row]
        claims = [row for row in summary if "printed_pair" in row]
        parts += ["## Verdicts", *([reproduced(claims)] if claims else [])]
        return "\n\n".join([*parts, verdicts(pairs, self.sources)])

    def _names(self, source: Source) -> list[str]:
        names = [*self.methods, *([self.oracle] if self.oracle else [])]
        return [name for name in names if name not in source.without]

    def _cell(self, source: Source, method: str, split: int) -> Cell:
        return {
            "dataset": source.name,
            "method": method,
            "split": split,
            "horizon": max(source.horizons),
        }

    def _collected(
        self, source: Source, done: dict[str, Record], plan: Plan
    ) -> dict[str, dict[str, Any]]:
        """Return for every row of the table its errors (series x horizons, inf where not finite) and the rest."""
        found: dict[str, dict[str, Any]] = {}
        splits = trials(source, plan)
        for name in self._names(source):
            records = {i: done[key(self._cell(source, name, i))] for i in splits}
            good = {i: record["result"] for i, record in records.items() if "result" in record}
            kinds = {"mse": name, "capped": name + CAPPED}
            for kind, label in kinds.items():
                if any(kind in result for result in good.values()):
                    found[label] = {
                        "errors": {i: numbers(r[kind]) for i, r in good.items()},
                        "results": [*good.values()],
                    }
        return found

    def _row(self, source: Source, name: str, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
        mine, base = found[name]["errors"], found[BASE]["errors"]
        both = [i for i in mine if i in base]
        places = [list(source.horizons).index(h) for h in source.columns]
        row: dict[str, Any] = {"dataset": source.name, "method": name, "n": len(both)}
        row["ratios"] = [
            ratio(*(np.array([e[i][k] for i in both]) for e in (mine, base))) for k in places
        ]
        results = found[name]["results"]
        row["stable"] = (
            1.0 if name.endswith(CAPPED) else statistics.fmean(r["stable"] for r in results)
        )
        row["chosen"] = None if name.endswith(CAPPED) else favorite([r["chosen"] for r in results])
        numbers_printed = self.printed.get(source.name, {})
        if name in numbers_printed:
            (mse, _, stable), (mean_mse, _, _) = numbers_printed[name], numbers_printed[BASE]
            row["printed"] = f"{mse / mean_mse:.3g} [{stable:.2f}]"
        return row


def trials(source: Source, plan: Plan) -> range:
    """Return the numbers of the trials, of which a source has only so many."""
    return range(min(plan.n_splits(source.splits), source.splits))


def iterated(case: Case, horizon: int) -> Outcome:
    """Iterate the true autoregression, without innovations."""
    assert case.ar is not None
    X = list(case.past[len(case.past) - len(case.ar) :])
    for _ in range(horizon):
        X.append(sum(A @ X[-i] for i, A in enumerate(case.ar, start=1)))
    return Outcome(np.array(X[len(case.ar) :]), 0.0)


def errors(forecast: Array, future: Array, horizons: Sequence[int]) -> list[float | None]:
    """Return the mean over the first h rows of the squared length of the error, for each h.

    None where not finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.square(forecast - future[: len(forecast)]).sum(axis=1)
        curve = np.cumsum(steps) / np.arange(1, len(steps) + 1)
    return [rounded(curve[h - 1]) for h in horizons]


def numbers(values: list[float | None]) -> Array:
    """Return kept errors as floats."""
    return np.array([np.inf if v is None else v for v in values])


def rounded(value: Any) -> float | None:
    """Return six digits, None for what JSON has no number for."""
    return float(f"{value:.6g}") if value is not None and np.isfinite(value) else None


def is_stable(outcome: Outcome, case: Case) -> bool:
    """Whether roots lie inside the thesis' circle or, without roots, forecasts stay near the training values."""
    if outcome.radius is not None:
        return outcome.radius < STABLE
    return bool(
        np.isfinite(outcome.forecast).all()
        and np.abs(outcome.forecast).max() < FAR * np.abs(case.past).max()
    )


def ratio(mine: Array, base: Array) -> dict[str, Any]:
    """Return the ratio of sums with its jackknife error, and the median of ratios."""
    total, n = mine.sum() / base.sum(), len(mine)
    spread = None
    if n > 1 and np.isfinite(total):
        left_out = (mine.sum() - mine) / (base.sum() - base)
        spread = rounded(np.sqrt((n - 1) / n * np.square(left_out - left_out.mean()).sum()))
    return {
        "mean": rounded(total),
        "standard_error": spread,
        "median": rounded(np.median(mine / base)),
    }


def favorite(chosen: list[dict[str, Any]]) -> str | None:
    """Return what was chosen most often, and how often."""
    counts = collections.Counter(", ".join(f"{k}={v:g}" for k, v in c.items()) for c in chosen if c)
    return (
        f"{counts.most_common(1)[0][0]} ({counts.most_common(1)[0][1]} of {len(chosen)})"
        if counts
        else None
    )


def pair(source: Source, ours: str, other: str, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Compare two methods on the same trials: mean of the log ratio of errors, share of wins, paired t test."""
    a, b = found[ours]["errors"], found[other]["errors"]
    both = [i for i in a if i in b]
    row: dict[str, Any] = {"dataset": source.name, "pair": [ours, other], "tests": []}
    for h in source.columns:
        k = list(source.horizons).index(h)
        x, y = (np.array([e[i][k] for i in both]) for e in (a, b))
        logs = np.log(x / y)[np.isfinite(x) & np.isfinite(y)]
        moved = logs[logs != 0]
        p = (
            float(scipy.stats.ttest_1samp(logs, 0.0).pvalue)
            if len(logs) > 2 and moved.size > 1
            else None
        )
        size = rounded(logs.mean()) if len(logs) else None
        row["tests"].append(
            {"h": h, "log_ratio": size, "wins": float((logs < 0).mean()), "p": rounded(p)}
        )
    return row


def printed_differences(
    source: Source,
    printed: Mapping[str, tuple[float, float, float]],
    found: dict[str, dict[str, Any]],
) -> list[dict[str, Any]]:
    """Decide every printed difference by the errors at the last horizon on the same trials."""
    rows = []
    for one, other in itertools.combinations([m for m in printed if m in found], 2):
        better, worse = sorted((one, other), key=lambda m: printed[m][0])
        error = np.hypot(printed[better][1], printed[worse][1])
        if printed[worse][0] - printed[better][0] <= SURE * error:
            continue
        low = found[better]["errors"]
        high = found[worse]["errors"]
        both = [i for i in low if i in high]
        logs = np.array([log_error(high[i][-1]) - log_error(low[i][-1]) for i in both])
        row: dict[str, Any] = {"dataset": source.name, "printed_pair": [better, worse]}
        row["printed_means"] = [printed[better][0], printed[worse][0]]
        row |= {"verdict": judged(logs), "log_ratio": rounded(-logs.mean())}
        rows.append(row | {"wins": float((logs > 0).mean()), "n": len(both)})
    return rows


def log_error(error: float) -> float:
    """Return the logarithm, of one that is not finite that of the largest number."""
    return float(np.log(min(error, np.finfo(float).max)))


def reproduced(rows: list[dict[str, Any]]) -> str:
    """Say which printed differences of RARMA hold, and how many of all."""
    lines = []
    for row in rows:
        if RARMA not in row["printed_pair"]:
            continue
        better, worse = row["printed_pair"]
        low, high = row["printed_means"]
        size = f"{100 * np.expm1(row['log_ratio']):+.1f} %"
        if row["log_ratio"] < np.log(1e-3):
            size = "below a thousandth"
        lines.append(
            f"- {row['dataset']}, {better} has a lower error than {worse} (printed {low:g} and "
            f"{high:g}): **{row['verdict']}** ({size}, wins {row['wins']:.0%}, n = {row['n']})"
        )
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        counts = collections.Counter(row["verdict"] for row in rows if row["dataset"] == dataset)
        lines.append(
            f"- {dataset}: of {sum(counts.values())} printed differences between two methods "
            f"{counts[HOLDS]} hold, {counts[OPEN]} are not decided, {counts[FAILS]} are reversed."
        )
    return PRINTED_LEGEND + "\n\n" + "\n".join(lines)


def line(row: dict[str, Any], with_printed: bool) -> str:
    """Return a row in Markdown."""
    cells = [row["method"], *([row.get("printed", "-")] if with_printed else [])]
    cells += [
        *(shown(r) for r in row["ratios"]),
        f"{row['stable']:.2f}",
        str(row["n"]),
        row["chosen"] or "-",
    ]
    return f"| {' | '.join(cells)} |"


def shown(value: dict[str, Any]) -> str:
    """Return ratio ± standard error, with the median where the mean hangs on few."""
    middle = "not finite" if value["median"] is None else f"{value['median']:.3g}"
    if value["mean"] is None:
        return f"not finite (median {middle})"
    spread = "" if value["standard_error"] is None else f" ± {value['standard_error']:.2g}"
    heavy = value["median"] is not None and value["mean"] > HEAVY * value["median"]
    return f"{value['mean']:.3g}{spread}" + (f" (median {middle})" if heavy else "")


def verdicts(rows: list[dict[str, Any]], sources: Sequence[Source]) -> str:
    """Say for every pair where it helps, where it hurts and where there is no telling, from the tests alone."""
    free = {s.name for s in sources if s.independent}
    overlap = (
        ""
        if all(row["dataset"] in free for row in rows)
        else (
            " Origins of one series overlap, so that their p are too small; they are called "
            "'seemingly'."
        )
    )
    lines = [
        "Computed from paired t tests of log errors on the same trials; 'lower' and 'higher' mean "
        f"p < {LEVEL} / the number of tests of that pair (Bonferroni). In brackets: errors in "
        f"percent, geometric mean over trials, and the share of wins.{overlap}\n",
    ]
    for ours, other in dict.fromkeys(tuple(row["pair"]) for row in rows):
        mine = [row for row in rows if tuple(row["pair"]) == (ours, other)]
        count = tests_of(mine)
        lines.append(f"- **{ours}** against {other} ({count} tests):")
        for row in mine:
            words = "; ".join(told(test, count, row["dataset"] in free) for test in row["tests"])
            lines.append(f"  - {row['dataset']}: {words}")
    return "\n".join([*lines, "", tally(rows)])


def tests_of(rows: list[dict[str, Any]]) -> int:
    return sum(len(row["tests"]) for row in rows)


def told(test: dict[str, Any], count: int, independent: bool) -> str:
    """Return one test in words."""
    if test["log_ratio"] is None:
        return f"h = {test['h']} not finite"
    size = f"({100 * np.expm1(test['log_ratio']):+.1f} %, wins {test['wins']:.0%})"
    if test["p"] is None or test["p"] >= LEVEL / count:
        return f"h = {test['h']} no difference shown {size}"
    way = "lower" if test["log_ratio"] < 0 else "higher"
    return f"h = {test['h']} {'' if independent else 'seemingly '}**{way}** {size}"


def tally(rows: list[dict[str, Any]]) -> str:
    """Return how often the moving-average part lowered, raised or did not change errors, by horizon."""
    counts = collections.Counter(tuple(row["pair"]) for row in rows for _ in row["tests"])
    found: dict[int, list[int]] = {}
    for row in rows:
        for test in row["tests"] if row["pair"][1].startswith("ridge VAR") else []:
            place = found.setdefault(test["h"], [0, 0, 0])
            sure = test["p"] is not None and test["p"] < LEVEL / counts[tuple(row["pair"])]
            place[2 if not sure else 0 if test["log_ratio"] < 0 else 1] += 1
    words = [
        f"h = {h}: lower in {low}, higher in {high}, no difference shown in {same}"
        for h, (low, high, same) in sorted(found.items())
    ]
    return "The moving-average part, against ridge VARs, by horizon: " + "; ".join(words) + "."
