"""`regfactor complete`: fill missing cells, flag gross outliers, evaluate both on hidden cells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from regfactor.cli.columns import FLAG, NUMBER, Understood
from regfactor.cli.errors import BadInput, count
from regfactor.cli.job import Job
from regfactor.cli.outliers import (
    TableOutliers,
    find_outliers,
    fitted_rows,
    flagged_cells,
    outlier_code,
    search_code,
)
from regfactor.cli.report_sections import Report, gap_fact, typed_code
from regfactor.cli.tables import Table, add_columns
from regfactor.core.params import Array, frozen
from regfactor.model_selection.hidden_cells import HiddenCells, hide_and_fill
from regfactor.report import Figure, Grid, Text, number
from regfactor.report.figures import bars
from regfactor.tables.imputer import SubspaceImputer
from regfactor.tables.outliers import HEAVY_TAILED_SHARE, MAX_FITTED_ROWS

WHOLE = "A whole table needs no model; --save MODEL.skops fits and keeps one, for new rows."

MAX_LISTED_OUTLIERS = 20


@frozen
class Filled:
    """A completed table: the typed frame, its missing cells, outliers, and predicted cells."""

    frame: Any
    missing: Any
    outliers: TableOutliers
    expected: Any
    clipped: int = 0

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
        second = "no gross outliers found"
        if self.flagged:
            second = f"{count(len(self.flagged), 'gross outlier')} flagged"
        return f"{first}, {second}."


def run(job: Job, path: Path) -> None:
    """Complete a table, and write it with a report."""
    table = job.read(path)
    job.plan(table)
    seen = job.understand(table)
    seen.require(2, "complete")
    X = seen.data
    missing = X.isna()
    if missing.to_numpy().all():
        raise BadInput(f"{path.name} has no observed cell.")
    found = find_outliers(job, seen)
    if not missing.to_numpy().any() and job.settings.save is None:
        _finish_whole(job, seen, found)
        return
    clean = X.mask(found.flagged)
    model = SubspaceImputer(
        loss="auto",
        alpha="auto",
        debias="prior",
        random_state=job.settings.seed,
    )
    rows = fitted_rows(job, X)
    job.fit("filling missing cells", model, clean.iloc[rows])
    with job.console.progress("filling missing cells"):
        ranges = ranges_of(clean)
        predicted, clipped = within_range(model.complete(clean), missing, ranges)
    filled = Filled(predicted.where(missing, X), missing, found, predicted, clipped)
    with job.console.progress("trying it on hidden cells"):
        hidden = hide_and_fill(clean.iloc[rows], model, job.settings.seed)
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
            (str(model.codes_.shape[1]), "patterns found"),
            gap_fact(model),
        ],
        story=[Text(_story(filled, model))],
        result=_result(seen, filled),
        trust=_trust(hidden),
        imports=["from regfactor import SubspaceImputer"],
        code=_code(job, seen, filled, rows),
        model=model,
    )
    info = {"columns": seen.kinds, "ranges": ranges}
    job.finish(written(seen.table, filled), report.page(job, seen), model, info)


def _finish_whole(job: Job, seen: Understood, found: TableOutliers) -> None:
    """Write a table without missing cells, which needs no model, with its outliers named."""
    filled = Filled(seen.data, seen.data.isna(), found, found.expected)
    _print(job, filled)
    job.console.say(WHOLE)
    looked = "There are too few numbers to tell outliers by."
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
        result=_result(seen, filled),
        trust=[],
        imports=imports,
        code=code,
    )
    job.finish(written(seen.table, filled), report.page(job, seen))


def ranges_of(X: Any) -> dict[str, tuple[float, float, bool]]:
    """Return smallest and largest value of each numeric column, and whether all are integers."""
    found = {}
    for name in X.columns:
        if X[name].dtype.kind == "f":
            values = X[name].dropna().to_numpy()
            whole = bool(np.all(values == np.rint(values)))
            found[str(name)] = (float(values.min()), float(values.max()), whole)
    return found


def within_range(
    predicted: Any,
    missing: Any,
    ranges: Mapping[str, tuple[float, float, bool]],
) -> tuple[Any, int]:
    """Return predictions clipped to the observed range, rounded where all values are integers.

    And how many moved.
    """
    moved = 0
    out = predicted.copy()
    for name, (low, high, whole) in ranges.items():
        at = missing[name].to_numpy()
        values = out[name].to_numpy(dtype=float, copy=True)
        kept = np.clip(values[at], low, high)
        moved += int((kept != values[at]).sum())
        values[at] = np.rint(kept) if whole else kept
        out[name] = values
    return out, moved


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


def fill(out: Any, name: str, at: Array, values: Any, table: Table) -> None:
    """Write values into some cells of a column, as the table spells them or in their type."""
    column = out[name].astype(object)
    column.iloc[at] = np.array([table.cell(v) for v in values], dtype=object)
    out[name] = column if table.text else column.astype(out[name].dtype)


def _print(job: Job, filled: Filled, hidden: HiddenCells | None = None, model: Any = None) -> None:
    job.console.say(filled.lead)
    record = {
        "filled": filled.n_missing,
        "flagged": len(filled.flagged),
        "flagged_cells": filled.flagged,
        "certificate": None,
        "relative_gap": None,
        "hidden": None,
    }
    if hidden is not None:
        record["certificate"] = str(model.certificate_)
        record["relative_gap"] = model.relative_gap_
        record["hidden"] = _hidden_record(hidden)
        job.console.say(hidden.sentence)
        job.console.say(str(model.certificate_))
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


def _story(filled: Filled, model: Any) -> str:
    parts = [
        f"Every row is described by {count(model.codes_.shape[1], 'pattern')} that the table's "
        "columns share, and each missing cell is predicted from the observed cells of its row "
        "through them. Numbers, flags and categories are each fitted in their own way. The "
        f"strength of the smoothing (alpha = {model.alpha_:.4g}) was chosen by cells held out."
    ]
    if filled.flagged:
        parts.append(
            f"{count(len(filled.flagged), 'cell')} disagreed grossly with all others in their "
            "rows. They are kept in the table, named in its last column, and were set aside when "
            "missing cells were filled."
        )
    if filled.clipped:
        parts.append(
            f"{count(filled.clipped, 'prediction')} beyond the range of the observed values "
            "went to its end."
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
    cells = filled.flagged
    if cells:
        lines = []
        for i, name in cells[:MAX_LISTED_OUTLIERS]:
            value = number(seen.data[name].iloc[i], 6)
            expected = number(filled.expected[name].iloc[i], 4)
            lines.append((str(i + 1), name, value, expected))
        caption = "Gross outliers."
        if len(cells) > MAX_LISTED_OUTLIERS:
            caption = f"The first {MAX_LISTED_OUTLIERS} of {len(cells)} gross outliers."
        blocks.append(Grid(("row", "column", "value", "expected"), lines, caption))
    return blocks


def _code(job: Job, seen: Understood, filled: Filled, rows: Array) -> list[str]:
    """Return Python code that produces the written table, except for the names of flagged cells."""
    lines = [typed_code(seen, "observed"), "X = observed.copy()"]
    lines += outlier_code(filled.flagged, "X")
    learned = "X"
    if len(rows) < len(seen.frame):
        lines += [
            "",
            "usable = np.flatnonzero(X.notna().any(axis=1))",
            f"rows = np.sort(np.random.default_rng({job.settings.seed}).choice(usable, "
            f"{MAX_FITTED_ROWS}, replace=False))",
        ]
        learned = "X.iloc[rows]"
    lines += [
        "",
        'model = SubspaceImputer(loss="auto", alpha="auto", debias="prior", '
        f"random_state={job.settings.seed}).fit({learned})",
        "completed = model.complete(X)",
        "print(model.certificate_)",
    ]
    if filled.clipped:
        lines += [
            "",
            "# no further than what was observed",
            f"numbers = {seen.of_kind(NUMBER)!r}",
            "completed[numbers] = completed[numbers].clip(X[numbers].min(), X[numbers].max(), "
            "axis=1)",
        ]
    ranges = ranges_of(seen.data.mask(filled.outliers.flagged))
    whole = [
        name for name, (_, _, is_whole) in ranges.items() if is_whole and filled.missing[name].any()
    ]
    if whole:
        lines += [
            "",
            "# whole, as what was observed",
            f"whole = {whole!r}",
            "completed[whole] = completed[whole].round()",
        ]
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
