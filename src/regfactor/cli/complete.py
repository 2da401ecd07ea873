"""`regfactor complete`: fill missing cells, flag gross outliers, evaluate both on hidden cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from regfactor.cli.columns import FLAG, Understood
from regfactor.cli.errors import BadInput, count
from regfactor.cli.job import Job
from regfactor.cli.limit_cells import limit_frames, limits_code
from regfactor.cli.outliers import (
    TableOutliers,
    find_outliers,
    fitted_rows,
    flagged_cells,
    outlier_code,
    search_code,
)
from regfactor.cli.report_sections import Report, members_section, typed_code
from regfactor.cli.rows_to_see import completed_rows, rows_grid
from regfactor.cli.tables import Table, add_columns
from regfactor.core.params import Array, frozen
from regfactor.model_selection.hidden_cells import HiddenCells, held_out_cells
from regfactor.report import Figure, Grid, Text, number
from regfactor.report.figures import bars
from regfactor.tables.auto_imputer.estimator import AutoImputer
from regfactor.tables.outliers import HEAVY_TAILED_SHARE, MAX_FITTED_ROWS

WHOLE = "A whole table needs no model; --save MODEL.skops fits and keeps one, for new rows."

MAX_LISTED_OUTLIERS = 200
SHOWN_LEVEL = 0.9  # of the limits in a report, where none is given
MAX_WHOLE = 2.0**53  # up to which floats hold all whole numbers


@frozen
class Filled:
    """A completed table: the typed frame, its missing cells, outliers, and predicted cells."""

    frame: Any
    missing: Any
    outliers: TableOutliers
    expected: Any
    n_limits: int = 0

    @property
    def n_missing(self) -> int:
        """Number of cells that were filled."""
        return int(self.missing.to_numpy().sum())

    @property
    def flagged(self) -> list[tuple[int, str]]:
        """Row and column of the gross outliers."""
        return flagged_cells(self.outliers.flagged)

    @property
    def lead(self) -> str:
        """The result in a sentence."""
        first = "Nothing was missing"
        if self.n_missing:
            first = f"{count(self.n_missing, 'missing cell')} filled"
        if self.n_limits:
            first += f", {self.n_limits:,} of them within the limits that the cells state"
        second = "no gross outliers found"
        if self.flagged:
            second = f"{count(len(self.flagged), 'gross outlier')} flagged"
        return f"{first}, {second}."


def run(job: Job, path: Path, level: float | None = None) -> None:
    """Complete a table, and write it with a report."""
    if level is not None and not 0 < level < 1:
        raise BadInput(f"--level is a share between 0 and 1, such as 0.9, not {level:g}.")
    table = job.read(path)
    job.plan(table)
    seen = job.understand(table)
    seen.require(2, "complete")
    X = seen.data
    ends: dict[str, Any] = {}
    missing = seen.missing
    if seen.limits:
        lower, upper = limit_frames(X, seen.limits)
        ends = {"lower": lower, "upper": upper}
        missing |= lower.notna() | upper.notna()
    if X.isna().to_numpy().all():
        raise BadInput(f"{table.name} has no observed cell.")
    found = find_outliers(job, seen)
    if not missing.to_numpy().any() and job.settings.save is None:
        _finish_whole(job, seen, found)
        return
    whole = [n for n in whole_numbers(X.mask(found.flagged)) if n not in seen.limits]
    clean = with_whole_numbers(X.mask(found.flagged), whole)
    model = AutoImputer(random_state=job.settings.seed)
    rows = fitted_rows(job, X)
    fitted_ends = {side: frame.iloc[rows] for side, frame in ends.items()}
    job.fit("filling missing cells", model, clean.iloc[rows], **fitted_ends)
    with job.console.progress("filling missing cells"):
        predicted = model.complete(clean, **ends)
        limits = CellLimits.of(model, clean, SHOWN_LEVEL if level is None else level, **ends)
    n_limits = sum(len(cells) for cells in seen.limits.values())
    filled = Filled(predicted, missing, found, predicted, n_limits)
    hidden = held_out_cells(model)
    _print(job, filled, hidden, model)
    size = missing.to_numpy().size
    report = Report(
        title=", completed",
        lead=f"{filled.lead} {hidden.sentence}",
        facts=[
            (
                f"{filled.n_missing:,}",
                f"missing cells filled ({filled.n_missing / size:.1%} of the cells)",
            ),
            (f"{len(filled.flagged):,}", "gross outliers flagged"),
            (f"{hidden.n_cells:,}", "known cells hidden, to weigh models and to set limits"),
        ],
        story=[Text(_story(filled))],
        result=[*completed_rows(seen, filled, limits), *_result(seen, filled)],
        trust=[*_trust(hidden), *_how_sure(limits, filled, hidden)],
        imports=["from regfactor import AutoImputer"],
        code=_code(job, seen, filled, rows, whole, level),
        after_result=members_section(model.explain()),
    )
    info = {"columns": seen.kinds, "whole": whole, "level": level}
    out = written(seen.table, filled)
    if level is not None:
        out = add_columns(out, limits.columns(table, missing))
    job.finish(out, report.page(job, seen), model, info)


def _finish_whole(job: Job, seen: Understood, found: TableOutliers) -> None:
    """Write a table without missing cells, which needs no model, with its outliers named."""
    filled = Filled(seen.data, seen.missing, found, found.expected)
    _print(job, filled)
    job.console.say(WHOLE)
    looked = "There are too few numbers to find outliers by."
    if found.judged:
        looked = (
            f"Cells of {count(len(found.judged), 'column')} of numbers were compared with a robust "
            "fit to all of them."
        )
    imports, code = search_code(job, seen, found)
    report = Report(
        title=", completed",
        lead=filled.lead,
        facts=[("0", "missing cells"), (f"{len(filled.flagged):,}", "gross outliers flagged")],
        story=[Text(f"{WHOLE} {looked}")],
        result=[*_result(seen, filled), *_outlier_list(seen, filled)],
        trust=[],
        imports=imports,
        code=code,
    )
    job.finish(written(seen.table, filled), report.page(job, seen))


def whole_numbers(X: Any) -> list[str]:
    """Return the columns of numbers whose observed cells are all whole."""
    found = []
    for name in X.columns:
        if X[name].dtype.kind != "f":
            continue
        values = X[name].dropna().to_numpy()
        if len(values) and np.all(values == np.rint(values)) and np.all(np.abs(values) < MAX_WHOLE):
            found.append(str(name))
    return found


def with_whole_numbers(X: Any, names: list[str]) -> Any:
    """Return a table whose columns of whole numbers have that type, which the imputer keeps."""
    kept = set(whole_numbers(X)) | {name for name in names if X[name].isna().all()}
    return X.astype({name: "Int64" for name in names if name in kept})


@frozen
class CellLimits:
    """Limits, sets and probabilities of the cells of a table, at a level."""

    level: float
    lower: Any
    upper: Any
    sets: dict[str, Array]
    shares: dict[str, Array]
    categories: dict[str, list[Any]]

    @staticmethod
    def of(model: AutoImputer, X: Any, level: float, **ends: Any) -> CellLimits:
        """Return the limits of the cells of a table under a fitted model, some known by limits."""
        lower, upper = model.complete_interval(X, level, **ends)
        sets = model.complete_set(X, level)
        shares = model.complete_proba(X)
        # numbers of two values have limits like others
        labels = {name for name in sets if X[name].dtype.kind not in "fi"}
        return CellLimits(
            level,
            lower,
            upper,
            {str(name): sets[name] for name in labels},
            {str(name): shares[name] for name in labels},
            {str(name): model.categories_[name] for name in labels},
        )

    def columns(self, table: Table, missing: Any) -> dict[str, Any]:
        """Return new columns of each column with missing cells, empty at observed cells."""
        out: dict[str, Any] = {}
        for name in missing.columns:
            at = missing[name].to_numpy()
            if not at.any():
                continue
            if name in self.sets:
                out[f"{name}_set"] = self._set_cells(table, name, at)
                likely = np.where(at, self.shares[name].max(axis=1), np.nan)
                out[f"{name}_probability"] = _cells(table, likely)
            elif self.lower[name].dtype.kind in "fi":
                for end, side in (("lower", self.lower), ("upper", self.upper)):
                    values = side[name].to_numpy(dtype=float, na_value=np.nan)
                    out[f"{name}_{end}"] = _cells(table, np.where(at, values, np.nan), name)
        return out

    def _set_cells(self, table: Table, name: str, at: Array) -> list[str]:
        """Return the levels of each set as text, empty where a cell was observed."""
        levels = [str(table.cell(level, name)) for level in self.categories[name]]
        cells = []
        for is_missing, chosen in zip(at.tolist(), self.sets[name], strict=True):
            held = [level for level, there in zip(levels, chosen, strict=True) if there]
            cells.append("; ".join(held) if is_missing else "")
        return cells


def _cells(table: Table, values: Array, name: str | None = None) -> Any:
    """Return numbers as the table holds its own, or those of a column, empty for NaN."""
    if not table.text:
        return values
    return ["" if np.isnan(v) else table.cell(float(v), name) for v in values]


def written(table: Table, filled: Filled) -> Any:
    """Return the user's table with missing cells filled, other cells unchanged, and flags."""
    out = fill_missing(table, filled.frame, filled.missing)
    flagged = filled.outliers.flagged
    names = np.array(flagged.columns, dtype=object)
    return add_columns(out, {"flagged": ["; ".join(names[row]) for row in flagged.to_numpy()]})


def fill_missing(table: Table, values: Any, missing: Any) -> Any:
    """Return the user's table with its missing cells filled, and other cells unchanged."""
    out = table.raw.copy()
    for name in missing.columns:
        at = np.flatnonzero(missing[name].to_numpy())
        if len(at):
            fill(out, name, at, values[name].iloc[at], table)
    return out


def fill(
    out: Any,
    name: str,
    at: Array,
    values: Any,
    table: Table,
) -> None:
    """Write values into some cells of a column, as the table spells them or in their type."""
    column = out[name].astype(object)
    column.iloc[at] = np.array([table.cell(v, name) for v in values], dtype=object)
    if table.text:
        out[name] = column
    else:
        out[name] = column.astype(out[name].dtype)


def _print(job: Job, filled: Filled, hidden: HiddenCells | None = None, model: Any = None) -> None:
    job.console.say(filled.lead)
    record = {
        "filled": filled.n_missing,
        "flagged": len(filled.flagged),
        "flagged_cells": filled.flagged,
        "model": None,
        "members": {},
        "hidden": None,
    }
    if hidden is not None:
        record["model"] = type(model).__name__
        record["members"] = {r.member: r.weight for r in model.explain().members}
        record["hidden"] = _hidden_record(hidden)
        job.console.say(hidden.sentence)
    for name in filled.outliers.heavy_tailed:
        remedy = ""
        if filled.frame[name].min() > 0:
            remedy = "; its logarithm may suit better"
        job.console.note(
            f"Column {name!r} has heavy tails: more than {HEAVY_TAILED_SHARE:.0%} of its cells lie "
            f"far off, so none of them is flagged{remedy}."
        )
    job.console.record |= record


def _hidden_record(hidden: HiddenCells) -> dict[str, Any]:
    columns = {
        name: {
            "error": column.error,
            "simple_error": column.simple_error,
            "gain": column.gain,
            "cells": column.n_cells,
        }
        for name, column in hidden.columns.items()
    }
    return {"cells": hidden.n_cells, "columns": columns}


def _trust(hidden: HiddenCells) -> list[Any]:
    """Return how far to trust the filled cells, with a bar for each column."""
    blocks: list[Any] = [Text(hidden.sentence)]
    if hidden.columns:
        ordered = sorted(hidden.columns, key=lambda name: -hidden.columns[name].gain)
        gains = [max(hidden.columns[name].gain, 0) for name in ordered]
        svg = bars(ordered, gains, "smaller errors than without a model", percent=True)
        caption = (
            f"Reduction of errors on {count(hidden.n_cells, 'hidden cell')}: root mean squared "
            "errors of numbers relative to those of the mean, shares of wrong flags and categories "
            "relative to those of the most frequent value. At 0% the other columns carry no "
            "information about a column, and its filled cells are no better than its mean."
        )
        warning = (
            "The cells were hidden at random. Where values are missing because of what they are "
            "(the sick skip the visit), filled cells are worse than this, and no method can find "
            "out from the table alone."
        )
        blocks += [Figure(svg, caption), Text(warning)]
    return blocks


def _how_sure(limits: CellLimits, filled: Filled, hidden: HiddenCells) -> list[Any]:
    """Return how wide limits are, and how large sets, by column."""
    lines = []
    for name in filled.missing.columns:
        at = filled.missing[name].to_numpy()
        if not at.any():
            continue
        error = "–"
        if name in hidden.columns:
            error = number(hidden.columns[name].error, 3)
        if name in limits.sets:
            sizes = limits.sets[name][at].sum(axis=1)
            shown = f"{number(float(sizes.mean()), 3)} of {limits.sets[name].shape[1]} categories"
        elif limits.lower[name].dtype.kind in "fi":
            low = limits.lower[name][at].to_numpy(dtype=float, na_value=np.nan)
            high = limits.upper[name][at].to_numpy(dtype=float, na_value=np.nan)
            half = float(np.mean(high - low)) / 2
            shown = f"± {number(half, 3)}" if np.isfinite(half) else "too few cells to estimate it"
        else:
            continue
        lines.append((name, f"{int(at.sum()):,}", error, shown))
    if not lines:
        return []
    head = ("column", "filled", "error when hidden", f"{limits.level:.0%} limits, on average")
    caption = (
        f"How sure filled cells are: {limits.level:.0%} of the hidden cells lay within limits that "
        "were set in the same way; each cell has its own (--level writes them)."
    )
    return [Grid(head, lines, caption)]


def _story(filled: Filled) -> str:
    parts = [
        "Each missing cell is predicted from the observed cells of its row, by models from few "
        "patterns that all columns share to trees for each column, and averaged by how well each "
        "of them predicted known cells that were hidden from it. Numbers, flags and categories are "
        "each filled in their own way."
    ]
    if filled.flagged:
        parts.append(
            f"{count(len(filled.flagged), 'cell')} disagreed grossly with all others in their "
            "rows. They are kept in the table, named in its last column, and were set aside when "
            "missing cells were filled."
        )
    return " ".join(parts)


def _result(seen: Understood, filled: Filled) -> list[Any]:
    missing = filled.missing.mean().sort_values(ascending=False)
    missing = missing[missing > 0]
    blocks: list[Any] = [
        Text("Observed cells are as they were, to the letter; only empty ones changed.")
    ]
    if len(missing):
        axis = "share of the cells that were missing"
        svg = bars(list(missing.index), missing.to_numpy(), axis, percent=True)
        blocks.append(Figure(svg, "Where cells were missing."))
    return blocks


def _outlier_list(seen: Understood, filled: Filled) -> list[Any]:
    """Return the gross outliers as a table, with the values that were expected."""
    cells = filled.flagged
    if not cells:
        return []
    lines = []
    for i, name in cells[:MAX_LISTED_OUTLIERS]:
        value = number(seen.data[name].iloc[i], 6)
        expected = number(filled.expected[name].iloc[i], 4)
        lines.append((i, [name, value, expected]))
    caption = "Gross outliers."
    if len(cells) > MAX_LISTED_OUTLIERS:
        caption = f"The first {MAX_LISTED_OUTLIERS} of {len(cells)} gross outliers."
    return [rows_grid(seen, ("column", "value", "expected"), lines, caption)]


def _code(
    job: Job,
    seen: Understood,
    filled: Filled,
    rows: Array,
    whole: list[str],
    level: float | None,
) -> list[str]:
    """Return Python code that produces the written table, except for the names of flagged cells."""
    lines = [typed_code(seen, "observed"), "X = observed.copy()"]
    lines += outlier_code(filled.flagged, "X")
    if whole:
        lines += ["", f"whole = {whole!r}", 'X[whole] = X[whole].astype("Int64")']
    learned = "X"
    if len(rows) < len(seen.frame):
        lines += [
            "",
            "usable = np.flatnonzero(X.notna().any(axis=1))",
            f"rows = np.sort(np.random.default_rng({job.settings.seed}).choice(usable, "
            f"{MAX_FITTED_ROWS}, replace=False))",
        ]
        learned = "X.iloc[rows]"
    ends = ""
    fitted_ends = ""
    if seen.limits:
        ends = ", lower=lower, upper=upper"
        at = learned.removeprefix("X")
        fitted_ends = f", lower=lower{at}, upper=upper{at}"
    lines += [
        "",
        *limits_code(seen.limits),
        f"model = AutoImputer(random_state={job.settings.seed}).fit({learned}{fitted_ends})",
        f"completed = model.complete(X{ends})",
        "print(model.explain())",
    ]
    if level is not None:
        lines += [
            f"low, high = model.complete_interval(X, level={level!r}{ends})",
            f"sets = model.complete_set(X, level={level!r})",
        ]
    if whole:
        lines.append("completed[whole] = completed[whole].astype(float)")
    lines += [
        "",
        "# observed cells as they were, outliers too",
        "completed = completed.where(observed.isna(), observed)",
    ]
    flags = seen.of_kind(FLAG)
    if flags:
        lines += [
            f"flags = {flags!r}",
            "completed[flags] = completed[flags].astype(frame[flags].dtypes)",
        ]
    return [*lines, "completed = frame.assign(**completed)"]
