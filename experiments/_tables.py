"""A table of the papers: data sets across, methods down, mean errors of unlabeled rows over splits.

Every method is tuned twice: as in the papers, by the setting whose mean error *on the unlabeled
rows themselves* is lowest, and honestly, by cross-validation on the labeled rows of each split. The
first is an oracle, kinder to methods with many settings; on generated data what it selected is
therefore computed again on fresh seeds.
"""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid

from experiments._runner import Cell, Experiment, Plan, Record, key
from experiments._verdicts import Claim, section
from regfactor.model_selection import LabeledKFold

HEAVY = 2.0  # times the median from which on a mean needs it next to it
FRESH = 1_000_000  # seeds from here on are never used for tuning
LEGEND = (
    "Mean ± standard error over n splits. *Best on the grid* is the one setting with the lowest "
    "mean error on the unlabeled rows themselves, so many settings are an advantage; *tuned on "
    "labels* chooses in every split by cross-validation on its labeled rows."
)
Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
MEAN_ERRORS = {
    "paper": "best on the grid, as in the paper",
    "fresh": "the same setting, fresh seeds",
    "honest": "tuned on labels only",
}


@dataclass(frozen=True, eq=False)
class Draw:
    """One split: the rows that are learned from, all their targets, and which of these a method may see."""

    X: np.ndarray
    y: np.ndarray  # floats for regression, codes 0, 1, ... for classes
    labeled: np.ndarray
    unlabeled: np.ndarray

    def marked(self, labeled: np.ndarray) -> np.ndarray:
        """Return y with all but some rows marked as unlabeled."""
        y = np.full_like(self.y, np.nan if self.y.dtype.kind == "f" else -1)
        y[labeled] = self.y[labeled]
        return y


@dataclass(frozen=True)
class Source:
    """A data set: `draw(i)` is its split i, and `protocol` says how it is drawn, theirs and ours."""

    name: str
    draw: Callable[[int], Draw]
    protocol: str
    splits: int | None = None  # how many there are; None: seeds, as many as wanted


@dataclass(frozen=True)
class Method:
    """An estimator and the settings to try; a supervised one sees labeled rows only."""

    name: str
    make: Callable[..., Any]
    grid: Grid = field(default_factory=dict)
    supervised: bool = False

    @property
    def settings(self) -> list[dict[str, Any]]:
        """All combinations, in a fixed order."""
        return list(ParameterGrid(self.grid)) if self.grid else [{}]

    def predicted(self, draw: Draw, labeled: np.ndarray, setting: dict[str, Any]) -> np.ndarray:
        """Return predictions of all rows from the labels of some."""
        model = self.make(**setting)
        if self.supervised:
            return model.fit(draw.X[labeled], draw.y[labeled]).predict(draw.X)
        return model.fit(draw.X, draw.marked(labeled)).transduction_


def squared_error(y: np.ndarray, predicted: np.ndarray) -> float:
    """Return the mean over rows and targets."""
    return float(np.mean(np.square(y - predicted.reshape(y.shape))))


def misclassified(y: np.ndarray, predicted: np.ndarray) -> float:
    """Return the share of rows with a wrong label."""
    return float(np.mean(y != predicted))


@dataclass(frozen=True)
class Table(Experiment):
    """Methods x data sets; `paper[data set][method]` is the printed number, as it is printed."""

    title: str
    sources: Sequence[Source]
    methods: Sequence[Method]
    paper: Mapping[str, Mapping[str, str]]
    error: Callable[[np.ndarray, np.ndarray], float]
    splits: int = 20
    folds: int = 3
    notes: str = ""
    claims: Sequence[Claim] = ()
    twins: Sequence[str] = ()

    def cells(self, done: dict[str, Record], plan: Plan) -> list[Cell]:
        pairs = [(source, method) for source in self.sources for method in self.methods]
        cells = [c for pair in pairs for c in self._tuned(*pair, plan)]
        if all(key(cell) in done for cell in cells):
            cells += [c for pair in pairs for c in self._fresh(*pair, done, plan)]
        return cells

    def run(self, cell: Cell) -> dict[str, Any]:
        source, method = self._named(cell)
        draw = source.draw(cell["split"])
        if "setting" in cell:
            return {
                "error": self._error(draw, method, draw.labeled, draw.unlabeled, cell["setting"])
            }
        outcomes = [self._outcome(draw, method, setting) for setting in method.settings]
        failures = {str(i): o for i, o in enumerate(outcomes) if isinstance(o, str)}
        pairs = [(None, None) if isinstance(o, str) else o for o in outcomes]
        errors, validation = (
            [v if v is None else float(f"{v:.8g}") for v in column]
            for column in zip(*pairs, strict=True)
        )
        return {"errors": errors, "validation": validation, "failures": failures}

    def summary(self, done: dict[str, Record], plan: Plan) -> list[dict[str, Any]]:
        rows = []
        for source in self.sources:
            ours = {method.name: method for method in self.methods}
            for name in dict.fromkeys([*self.paper.get(source.name, {}), *ours]):
                row: dict[str, Any] = {
                    "dataset": source.name,
                    "protocol": source.protocol,
                    "method": name,
                }
                row["printed"] = self.paper.get(source.name, {}).get(name)
                rows.append(
                    row | self._ours(source, ours[name], done, plan) if name in ours else row
                )
        return rows

    def report(self, summary: list[dict[str, Any]]) -> str:
        parts = [LEGEND, *([self.notes] if self.notes else [])]
        for source in self.sources:
            rows = [row for row in summary if row["dataset"] == source.name]
            with_fresh = any("fresh" in row for row in rows)
            columns = [c for c in MEAN_ERRORS if c != "fresh" or with_fresh]
            head = [
                "method",
                "printed",
                *(MEAN_ERRORS[c] for c in columns),
                "n",
                "setting that was best",
                "failed fits",
            ]
            lines = [
                f"| {' | '.join(head)} |",
                "|---" * len(head) + "|",
                *(_line(row, columns) for row in rows),
            ]
            parts.append(f"## {source.name}\n\n{source.protocol}\n\n" + "\n".join(lines))
        parts.append(section(self.claims, summary))
        return "\n\n".join(parts)

    def _tuned(self, source: Source, method: Method, plan: Plan) -> list[Cell]:
        settings = json.dumps(method.settings, sort_keys=True)
        grid = hashlib.sha256(f"{settings} {self.folds}".encode()).hexdigest()[:8]
        cell = {"dataset": source.name, "method": method.name, "grid": grid}
        return [{**cell, "split": i} for i in range(self._n_splits(source, plan))]

    def _fresh(
        self, source: Source, method: Method, done: dict[str, Record], plan: Plan
    ) -> list[Cell]:
        errors = self._collected(source, method, done, plan)[0]
        best = _best(errors)
        if source.splits is not None or best is None:
            return []
        cell = {"dataset": source.name, "method": method.name, "setting": method.settings[best]}
        return [{**cell, "split": FRESH + i} for i in range(self._n_splits(source, plan))]

    def _n_splits(self, source: Source, plan: Plan) -> int:
        wanted = plan.n_splits(self.splits)
        return wanted if source.splits is None else min(wanted, source.splits)

    def _named(self, cell: Cell) -> tuple[Source, Method]:
        source = next(s for s in self.sources if s.name == cell["dataset"])
        return source, next(m for m in self.methods if m.name == cell["method"])

    def _error(
        self, draw: Draw, method: Method, labeled: np.ndarray, scored: np.ndarray, setting: Any
    ) -> float:
        error = self.error(draw.y[scored], method.predicted(draw, labeled, setting)[scored])
        if not np.isfinite(error):
            raise FloatingPointError("the error is not finite")
        return error

    def _outcome(
        self, draw: Draw, method: Method, setting: dict[str, Any]
    ) -> tuple[float, float] | str:
        """Return the error on unlabeled rows and the one by cross-validation on labels, or why there is none."""
        try:
            errors, folds = (
                [],
                LabeledKFold(self.folds, shuffle=True, random_state=0, unlabeled=np.nan),
            )
            for train, held in folds.split(None, draw.y[draw.labeled]):
                kept = draw.labeled[train]
                errors.append(
                    self._error(draw, method, kept, draw.labeled[held], setting) * len(held)
                )
            error = self._error(draw, method, draw.labeled, draw.unlabeled, setting)
            return error, float(np.sum(errors) / len(draw.labeled))
        except (
            ValueError,
            ArithmeticError,
            np.linalg.LinAlgError,
        ) as reason:  # this setting cannot do this split
            return f"{type(reason).__name__}: {reason}"

    def _collected(
        self, source: Source, method: Method, done: Any, plan: Plan
    ) -> tuple[Any, Any, list[str]]:
        """Return errors and validation errors, splits x settings with NaN where a fit failed, and why fits failed."""
        records = [done[key(cell)] for cell in self._tuned(source, method, plan)]
        good = [record["result"] for record in records if "result" in record]
        shape = len(good), len(method.settings)
        errors, validation = (
            np.array([r[k] for r in good], float).reshape(shape) for k in ("errors", "validation")
        )
        reasons = [reason for result in good for reason in result["failures"].values()]
        return (
            errors,
            validation,
            reasons + [record["error"] for record in records if "error" in record],
        )

    def _ours(
        self, source: Source, method: Method, done: dict[str, Record], plan: Plan
    ) -> dict[str, Any]:
        errors, validation, reasons = self._collected(source, method, done, plan)
        row: dict[str, Any] = {
            "n": len(errors),
            "failed": len(reasons),
            "reason": reasons[0] if reasons else None,
        }
        best = _best(errors)
        if best is not None:
            row |= {"paper": _mean(errors[:, best]), "setting": method.settings[best]}
            fresh = [
                done.get(key(cell), {}).get("result")
                for cell in self._fresh(source, method, done, plan)
            ]
            if fresh and all(fresh):
                row["fresh"] = _mean(np.array([result["error"] for result in fresh]))
        if len(errors) and np.isfinite(validation).any(axis=1).all():
            chosen = np.nanargmin(validation, axis=1)
            row["honest"] = _mean(errors[np.arange(len(errors)), chosen])
        return row


def _best(errors: np.ndarray) -> int | None:
    """Return the setting of the lowest mean error among those that never failed."""
    means = errors.mean(axis=0) if len(errors) else np.array([np.nan])
    return int(np.nanargmin(means)) if np.isfinite(means).any() else None


def _mean(errors: np.ndarray) -> dict[str, float]:
    spread = float(errors.std(ddof=1) / np.sqrt(len(errors))) if len(errors) > 1 else None
    mean, median = float(errors.mean()), float(np.median(errors))
    kept = [float(f"{e:.6g}") for e in errors]
    return {
        "mean": mean,
        "standard_error": spread,
        "median": median,
        "n": len(errors),
        "errors": kept,
    }


def _line(row: dict[str, Any], columns: list[str]) -> str:
    cells = [row["method"], row["printed"] or "-"]
    cells += [
        _number(row[c]) if c in row else "failed" if row.get("reason") else "-" for c in columns
    ]
    setting = ", ".join(f"{k}={v}" for k, v in row.get("setting", {}).items())
    failed = f"{row['failed']}: {textwrap.shorten(row['reason'], 90)}" if row.get("reason") else "-"
    cells += [str(row.get("n", "-")), setting or "-", failed]
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"


def _number(mean: dict[str, Any]) -> str:
    spread = "" if mean["standard_error"] is None else f" ± {mean['standard_error']:.2g}"
    tail = mean["mean"] > HEAVY * mean["median"]  # a few splits decide the mean
    return f"{mean['mean']:.3g}{spread}" + (f" (median {mean['median']:.3g})" if tail else "")
