"""`regfactor complete`: fill missing cells, flag gross outliers, evaluate both on hidden cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regfactor.cli.columns import CATEGORY, FLAG, NUMBER, Understood
from regfactor.cli.errors import BadInput, count
from regfactor.cli.job import Job, free_name
from regfactor.cli.outliers import (
    TableOutliers,
    find_outliers,
    fitted_rows,
    flagged_cells,
    outlier_code,
    search_code,
)
from regfactor.cli.report_sections import (
    certificate_section,
    data_section,
    gap_fact,
    notes,
    reading_code,
    repeat_section,
)
from regfactor.cli.tables import Table
from regfactor.core.params import Array
from regfactor.model_selection.hidden_cells import HiddenCells, hide_and_fill
from regfactor.report import Figure, Grid, Page, Section, Text, number
from regfactor.report.figures import bars
from regfactor.tables.imputer import SubspaceImputer
from regfactor.tables.outliers import HEAVY_TAILED_SHARE, MAX_FITTED_ROWS

WHOLE = "A whole table needs no model; --save MODEL.skops fits and keeps one, for new rows."


@dataclass(frozen=True, eq=False)
class Filled:
    """A completed table: the typed frame, which cells were missing, which were flagged."""

    frame: Any
    missing: Any
    flagged: Any
    clipped: int
    heavy: list[str]
    expected: Any


def run(job: Job, path: Path) -> None:
    """Complete a table, and write it with a report."""
    table = job.read(path)
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
        loss="auto", alpha="auto", debias="prior", random_state=job.settings.seed
    )
    rows = fitted_rows(job, X)
    job.fit("filling missing cells", model, clean.iloc[rows])
    with job.console.progress("filling missing cells"):
        ranges = ranges_of(clean)
        predicted, clipped = within_range(model.complete(clean), missing, ranges)
    filled = Filled(
        predicted.where(missing, X), missing, found.flagged, clipped, found.heavy_tailed, predicted
    )
    with job.console.progress("trying it on hidden cells"):
        hidden = hide_and_fill(clean.iloc[rows], model, job.settings.seed)
    _say(job, filled, hidden, model)
    page = _page(job, seen, filled, hidden, model, rows)
    job.finish(written(seen, filled), page, model, {"columns": seen.kinds, "ranges": ranges})


def _finish_whole(job: Job, seen: Understood, found: TableOutliers) -> None:
    """Write a table without missing cells, which needs no model, with its outliers named."""
    filled = Filled(
        seen.data, seen.data.isna(), found.flagged, 0, found.heavy_tailed, found.expected
    )
    _say(job, filled)
    job.console.say(WHOLE)
    if found.judged:
        looked = (
            f"Cells of {count(len(found.judged), 'column')} of numbers were compared with a robust "
            "fit to all of them."
        )
    else:
        looked = "There are too few numbers to tell outliers by."
    sections = [
        Section("What was done", [Text(f"{WHOLE} {looked}"), *notes(job)]),
        data_section(seen),
        Section("The result", _result(seen, filled)),
        repeat_section(job, search_code(job, seen, found)),
    ]
    facts = [
        ("0", "missing cells"),
        (f"{len(flagged_cells(found.flagged)):,}", ("gross outliers flagged")),
    ]
    page = Page(f"{seen.table.path.name}, completed", _lead(filled), facts, sections)
    job.finish(written(seen, filled), page)


def ranges_of(X: Any) -> dict[str, tuple[float, float, bool]]:
    """Return smallest and largest value of each numeric column, and whether all are integers."""
    found = {}
    for name in X.columns:
        if X[name].dtype.kind == "f":
            seen = X[name].dropna().to_numpy()
            found[str(name)] = (
                float(seen.min()),
                float(seen.max()),
                bool(np.all(seen == np.rint(seen))),
            )
    return found


def within_range(
    predicted: Any, missing: Any, ranges: Mapping[str, tuple[float, float, bool]]
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


def written(seen: Understood, filled: Filled) -> Any:
    """Return the user's table with missing cells filled, other cells unchanged, and flags."""
    out = seen.table.raw.copy()
    for name in filled.missing.columns:
        at = np.flatnonzero(filled.missing[name].to_numpy())
        if len(at):
            fill(out, name, at, filled.frame[name].iloc[at], seen.table)
    names = np.array(filled.flagged.columns, dtype=object)
    cells = ["; ".join(names[row]) for row in filled.flagged.to_numpy()]
    out[free_name("flagged", list(out.columns))] = cells
    return out


def fill(out: Any, name: str, at: Array, values: Any, table: Table) -> None:
    """Write values into some cells of a column, as the table spells them or in their type."""
    column = out[name].astype(object)
    column.iloc[at] = np.array([table.cell(v) for v in values], dtype=object)
    out[name] = column if table.text else column.astype(out[name].dtype)


def _say(job: Job, filled: Filled, hidden: HiddenCells | None = None, model: Any = None) -> None:
    missing = int(filled.missing.to_numpy().sum())
    flags = int(filled.flagged.to_numpy().sum())
    job.console.say(_lead(filled))
    certificate = None if model is None else str(model.certificate_)
    if hidden is not None and certificate is not None:
        job.console.say(hidden.sentence)
        job.console.say(certificate)
    for name in filled.heavy:
        if filled.frame[name].min() > 0:
            remedy = "; its logarithm may suit better"
        else:
            remedy = ""
        job.console.note(
            f"Column {name!r} has heavy tails: more than {HEAVY_TAILED_SHARE:.0%} of its cells lie "
            f"far off, so none of them is flagged{remedy}."
        )
    job.console.record |= {
        "filled": missing,
        "flagged": flags,
        "flagged_cells": flagged_cells(filled.flagged),
        "certificate": certificate,
        "relative_gap": None if model is None else model.relative_gap_,
        "hidden": None if hidden is None else _hidden_record(hidden),
    }


def _lead(filled: Filled) -> str:
    missing = int(filled.missing.to_numpy().sum())
    flags = int(filled.flagged.to_numpy().sum())
    if missing:
        first = f"{count(missing, 'missing cell')} filled"
    else:
        first = "Nothing was missing"
    if flags:
        second = f"{count(flags, 'gross outlier')} flagged"
    else:
        second = "no gross outliers found"
    return f"{first}, {second}."


def _page(
    job: Job, seen: Understood, filled: Filled, hidden: HiddenCells, model: Any, rows: Array
) -> Page:
    missing = int(filled.missing.to_numpy().sum())
    flags = int(filled.flagged.to_numpy().sum())
    size = filled.missing.to_numpy().size
    facts = [
        (f"{missing:,}", f"missing cells filled ({missing / size:.1%} of the cells)"),
        (f"{flags:,}", "gross outliers flagged"),
        (str(model.codes_.shape[1]), "patterns found"),
        gap_fact(model),
    ]
    sections = [
        Section("What was done", [Text(_story(filled, model, rows)), *notes(job)]),
        data_section(seen),
        Section("The result", _result(seen, filled)),
        certificate_section(model),
        _hidden_section(hidden),
        repeat_section(job, _code(job, seen, filled, model, rows)),
    ]
    return Page(
        f"{seen.table.path.name}, completed", f"{_lead(filled)} {hidden.sentence}", facts, sections
    )


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


def _hidden_section(hidden: HiddenCells) -> Section:
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
    return Section("How far to trust it", blocks)


def _story(filled: Filled, model: Any, rows: Array) -> str:
    flags = int(filled.flagged.to_numpy().sum())
    parts = [
        f"Every row is described by {count(model.codes_.shape[1], 'pattern')} that the table's "
        "columns share, and each missing cell is predicted from the observed cells of its row "
        "through them. Numbers, flags and categories are each fitted in their own way. The "
        f"strength of the smoothing (alpha = {model.alpha_:.4g}) was chosen by cells held out."
    ]
    if flags:
        parts.append(
            f"{count(flags, 'cell')} disagreed grossly with all others in their rows. They are "
            "kept in the table, named in its last column, and were set aside when missing cells "
            "were filled."
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
        svg = bars(
            list(missing.index),
            missing.to_numpy(),
            "share of the cells that were missing",
            percent=True,
        )
        blocks.append(Figure(svg, "Where cells were missing."))
    cells = flagged_cells(filled.flagged)
    if cells:
        lines = [
            (
                str(i + 1),
                name,
                number(seen.data[name].iloc[i], 6),
                number(filled.expected[name].iloc[i], 4),
            )
            for i, name in cells[:20]
        ]
        blocks.append(Grid(("row", "column", "value", "expected"), lines, _more(cells)))
    return blocks


def _more(cells: list[Any]) -> str:
    if len(cells) > 20:
        return f"The first 20 of {len(cells)} gross outliers."
    return "Gross outliers."


def _code(job: Job, seen: Understood, filled: Filled, model: Any, rows: Array) -> str:
    """Return Python code that produces the written table, except for the names of flagged cells."""
    kinds = {
        name: {FLAG: "boolean", CATEGORY: "category", NUMBER: "float"}[kind]
        for name, kind in seen.kinds.items()
    }
    lines = [
        "import numpy as np",
        "import pandas as pd",
        "from regfactor import SubspaceImputer",
        "",
        reading_code(seen),
    ]
    lines += [f"observed = frame[{list(kinds)!r}].astype({kinds!r})", "X = observed.copy()"]
    lines += outlier_code(flagged_cells(filled.flagged), "X")
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
        names = seen.of_kind(NUMBER)
        lines += [
            "",
            "# no further than what was observed",
            f"numbers = {names!r}",
            "completed[numbers] = completed[numbers].clip(X[numbers].min(), X[numbers].max(), "
            "axis=1)",
        ]
    return "\n".join([*lines, *_ending_code(seen, filled)])


def _ending_code(seen: Understood, filled: Filled) -> list[str]:
    """Return the lines that put predictions into missing cells only, written as the column is."""
    ranges = ranges_of(seen.data.mask(filled.flagged))
    whole = [
        name for name, (_, _, is_whole) in ranges.items() if is_whole and filled.missing[name].any()
    ]
    flags = seen.of_kind(FLAG)
    lines = []
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
    if flags:
        lines += [
            f"flags = {flags!r}",
            "completed[flags] = completed[flags].astype(frame[flags].dtypes)",
        ]
    return [*lines, "completed = frame.assign(**completed)"]
