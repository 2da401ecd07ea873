"""`regfactor complete`: holes filled, gross outliers flagged, both tried on cells that were hidden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regfactor._params import Array
from regfactor.cli.columns import CATEGORY, FLAG, NUMBER, Understood
from regfactor.cli.errors import BadInput
from regfactor.cli.holdout import Hidden, hide_and_fill
from regfactor.cli.tables import Table
from regfactor.cli.words import certificate_section, count, data_section, gap_fact, notes, reading_code, repeat_section
from regfactor.cli.work import Work, fit_with_choice, free_name, quiet
from regfactor.estimators import ConvexSubspace, SubspaceImputer
from regfactor.report import Figure, Grid, Page, Section, Text, number
from regfactor.report.figures import bars

MOST_ROWS = 20_000  # from which patterns are learned; every row is filled
GROSS, WIDE = 6.0, 1.0  # an outlier: robust deviations of a residual, and of the column, beyond which it lies
HEAVY = 0.05  # share of flagged cells from which a column has heavy tails, and no outliers
LEAST_NUMBERS, LEAST_ROWS = 3, 20  # columns and rows without which an outlier cannot be told


@dataclass(frozen=True, eq=False)
class Filled:
    """A completed table: the typed frame, the cells that were holes, those that were flagged."""

    frame: Any
    holes: Any
    flagged: Any
    clipped: int
    heavy: list[str]
    expected: Any


def run(work: Work, path: Path) -> None:
    """Complete a table, and write it with a report."""
    table = work.read(path)
    seen = work.understand(table)
    seen.require(2, "complete")
    X = seen.data
    holes = X.isna()
    if holes.to_numpy().all():
        raise BadInput(f"{path.name} has no observed cell.")
    flagged, heavy = outliers(work, seen)
    clean = X.mask(flagged)
    model = SubspaceImputer(loss="auto", alpha="auto", debias="prior", random_state=work.settings.seed)
    rows = learned_rows(work, X)
    work.fit("filling holes", model, clean.iloc[rows])
    with work.talk.progress("filling holes"):
        ranges = ranges_of(clean)
        predicted, clipped = within_range(model.complete(clean), holes, ranges)
    filled = Filled(predicted.where(holes, X), holes, flagged, clipped, heavy, predicted)
    with work.talk.progress("trying it on hidden cells"):
        hidden = hide_and_fill(clean.iloc[rows], model, work.settings.seed)
    _say(work, filled, hidden, model)
    page = _page(work, seen, filled, hidden, model, rows)
    work.finish(written(seen, filled), page, model, {"columns": seen.kinds, "ranges": ranges})


def learned_rows(work: Work, X: Any) -> Array:
    """Return the rows from which patterns are learned: all with a value, or as many as are needed."""
    rows = np.flatnonzero(X.notna().to_numpy().any(axis=1))
    if len(rows) <= MOST_ROWS:
        return np.arange(len(X))
    work.talk.note(
        f"The patterns were learned from {MOST_ROWS:,} of {len(X):,} rows, drawn at random; every row was used."
    )
    return np.sort(np.random.default_rng(work.settings.seed).choice(rows, MOST_ROWS, replace=False))


def outliers(work: Work, seen: Understood) -> tuple[Any, list[str]]:
    """Return which cells lie grossly off a robust fit to all numbers, and columns with tails too heavy to tell."""
    X = seen.data
    flagged = X.isna() & False
    names = seen.of_kind(NUMBER)
    if len(names) < LEAST_NUMBERS or len(X) < LEAST_ROWS:
        return flagged, []
    values = X[names].to_numpy(dtype=float)
    spread = _spread(values)
    S = (values - np.nanmedian(values, axis=0)) / spread
    S = S[:, np.nanstd(S, axis=0) > 0]
    if S.shape[1] < LEAST_NUMBERS:
        return flagged, []
    names = [n for n, v in zip(names, np.nanstd(values, axis=0), strict=True) if v > 0]
    model = ConvexSubspace(loss="huber", alpha="auto", random_state=work.settings.seed)
    rows = learned_rows(work, X[names])
    with work.talk.progress("looking for outliers") as told, quiet():
        fit_with_choice(model.set_params(callback=told), S[rows])
        R = np.abs(S - model.inverse_transform(model.transform(S)))
        sigma = 1.4826 * np.nanmedian(R, axis=0)
    found = (sigma * GROSS < R) & (WIDE < R)
    shares = found.mean(axis=0)
    heavy = [name for name, share in zip(names, shares, strict=True) if share > HEAVY]
    for name, column, share in zip(names, found.T, shares, strict=True):
        flagged[name] = column if share <= HEAVY else False
    return flagged, heavy


def without_outliers(work: Work, seen: Understood) -> tuple[Any, list[tuple[int, str]]]:
    """Return the inputs with gross outliers taken for missing, and which these are: one wrong cell bends all others."""
    flagged, _ = outliers(work, seen)
    found = cells_of(flagged)
    if found:
        work.talk.note(f"{count(len(found), 'gross outlier')} among the numbers {'was' if len(found) == 1 else 'were'} "
                       "taken for missing; `regfactor complete` names them.")  # fmt: skip
    return seen.data.mask(flagged), found


def outlier_code(cells: list[tuple[int, str]], frame: str) -> list[str]:
    """Return the lines that set outliers aside in Python; none where there are none."""
    if not cells:
        return []
    return ["", f"# {count(len(cells), 'gross outlier')}, set aside", f"for row, column in {cells!r}:",
            f"    {frame}.loc[row, column] = np.nan"]  # fmt: skip


def _spread(values: Array) -> Array:
    """Return the interquartile range of each column in units of a standard deviation, or that where it is zero."""
    low, high = np.nanquantile(values, (0.25, 0.75), axis=0)
    spread = (high - low) / 1.349
    spread = np.where(spread > 0, spread, np.nanstd(values, axis=0))
    return np.where(spread > 0, spread, 1.0)


def ranges_of(X: Any) -> dict[str, tuple[float, float, bool]]:
    """Return, for each column of numbers, the least and the largest that was observed, and whether all are whole."""
    found = {}
    for name in X.columns:
        if X[name].dtype.kind == "f":
            seen = X[name].dropna().to_numpy()
            found[str(name)] = float(seen.min()), float(seen.max()), bool(np.all(seen == np.rint(seen)))
    return found


def within_range(predicted: Any, holes: Any, ranges: Mapping[str, tuple[float, float, bool]]) -> tuple[Any, int]:
    """Return predictions for holes within the range of what was observed, whole where all were; and how many moved."""
    moved, out = 0, predicted.copy()
    for name, (low, high, whole) in ranges.items():
        at = holes[name].to_numpy()
        values = out[name].to_numpy(dtype=float, copy=True)
        kept = np.clip(values[at], low, high)
        moved += int((kept != values[at]).sum())
        values[at] = np.rint(kept) if whole else kept
        out[name] = values
    return out, moved


def written(seen: Understood, filled: Filled) -> Any:
    """Return the user's table with its holes filled, all other cells to the letter, and the names of flagged cells."""
    out = seen.table.raw.copy()
    for name in filled.holes.columns:
        at = np.flatnonzero(filled.holes[name].to_numpy())
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


def _say(work: Work, filled: Filled, hidden: Hidden, model: Any) -> None:
    holes, flags = int(filled.holes.to_numpy().sum()), int(filled.flagged.to_numpy().sum())
    work.talk.say(_lead(filled))
    work.talk.say(hidden.sentence)
    work.talk.say(str(model.certificate_))
    for name in filled.heavy:
        remedy = "; its logarithm may suit better" if filled.frame[name].min() > 0 else ""
        work.talk.note(f"Column {name!r} has heavy tails: more than {HEAVY:.0%} of its cells lie far off, so none of "
                       f"them is flagged{remedy}.")  # fmt: skip
    work.talk.record |= {
        "filled": holes, "flagged": flags, "flagged_cells": cells_of(filled.flagged),
        "certificate": str(model.certificate_), "relative_gap": model.relative_gap_,
        "hidden": {"cells": hidden.cells, "columns": hidden.table},
    }  # fmt: skip


def cells_of(flagged: Any) -> list[tuple[int, str]]:
    """Return the row, counted from zero, and the column of every flagged cell."""
    rows, columns = np.nonzero(flagged.to_numpy())
    return [(int(i), str(flagged.columns[j])) for i, j in zip(rows, columns, strict=True)]


def _lead(filled: Filled) -> str:
    holes, flags = int(filled.holes.to_numpy().sum()), int(filled.flagged.to_numpy().sum())
    first = f"{count(holes, 'hole')} filled" if holes else "Nothing was missing"
    second = f"{count(flags, 'gross outlier')} flagged" if flags else "no gross outliers found"
    return f"{first}, {second}."


def _page(work: Work, seen: Understood, filled: Filled, hidden: Hidden, model: Any, rows: Array) -> Page:
    holes, flags = int(filled.holes.to_numpy().sum()), int(filled.flagged.to_numpy().sum())
    size = filled.holes.to_numpy().size
    facts = [
        (f"{holes:,}", f"holes filled ({holes / size:.1%} of the cells)"), (f"{flags:,}", "gross outliers flagged"),
        (str(model.codes_.shape[1]), "patterns found"),
        gap_fact(model),
    ]  # fmt: skip
    sections = [
        Section("What was done", [Text(_story(filled, model, rows)), *notes(work)]),
        data_section(seen),
        Section("The result", _result(seen, filled)),
        certificate_section(model),
        hidden.section(),
        repeat_section(work, _code(work, seen, filled, model, rows)),
    ]
    return Page(f"{seen.table.path.name}, completed", f"{_lead(filled)} {hidden.sentence}", facts, sections)


def _story(filled: Filled, model: Any, rows: Array) -> str:
    flags = int(filled.flagged.to_numpy().sum())
    parts = [
        f"Every row is described by {count(model.codes_.shape[1], 'pattern')} that the table's columns share, and "
        "each hole is filled by what the observed cells of its row say through them. Numbers, flags and categories "
        f"are each fitted in their own way. The strength of the smoothing (alpha = {model.alpha_:.4g}) was chosen by "
        "cells held out."
    ]
    if flags:
        parts.append(f"{count(flags, 'cell')} disagreed grossly with all others in their rows. They are kept in the "
                     "table, named in its last column, and were set aside when holes were filled.")  # fmt: skip
    if filled.clipped:
        parts.append(f"{count(filled.clipped, 'prediction')} beyond the range of the observed values "
                     "went to its end.")  # fmt: skip
    return " ".join(parts)


def _result(seen: Understood, filled: Filled) -> list[Any]:
    missing = filled.holes.mean().sort_values(ascending=False)
    missing = missing[missing > 0]
    blocks: list[Any] = [Text("Observed cells are as they were, to the letter; only empty ones changed.")]
    if len(missing):
        svg = bars(list(missing.index), missing.to_numpy(), "share of the cells that were missing", percent=True)
        blocks.append(Figure(svg, "Where the holes were."))
    cells = cells_of(filled.flagged)
    if cells:
        lines = [(str(i + 1), name, number(seen.data[name].iloc[i], 6), number(filled.expected[name].iloc[i], 4))
                 for i, name in cells[:20]]  # fmt: skip
        blocks.append(Grid(("row", "column", "value", "expected"), lines, _more(cells)))
    return blocks


def _more(cells: list[Any]) -> str:
    return f"The first 20 of {len(cells)} gross outliers." if len(cells) > 20 else "Gross outliers."


def _code(work: Work, seen: Understood, filled: Filled, model: Any, rows: Array) -> str:
    """Return Python code that gives the table that was written, but for the names of flagged cells."""
    kinds = {name: {FLAG: "boolean", CATEGORY: "category", NUMBER: "float"}[kind] for name, kind in seen.kinds.items()}
    lines = [
        "import numpy as np",
        "import pandas as pd",
        "from regfactor import SubspaceImputer",
        "",
        reading_code(seen),
    ]
    lines += [f"observed = frame[{list(kinds)!r}].astype({kinds!r})", "X = observed.copy()"]
    lines += outlier_code(cells_of(filled.flagged), "X")
    learned = "X"
    if len(rows) < len(seen.frame):
        lines += ["", "usable = np.flatnonzero(X.notna().any(axis=1))",
                  f"rows = np.sort(np.random.default_rng({work.settings.seed}).choice(usable, {MOST_ROWS}, "
                  "replace=False))"]  # fmt: skip
        learned = "X.iloc[rows]"
    lines += ["", 'model = SubspaceImputer(loss="auto", alpha="auto", debias="prior", '
              f"random_state={work.settings.seed}).fit({learned})", "completed = model.complete(X)",
              "print(model.certificate_)"]  # fmt: skip
    if filled.clipped:
        names = seen.of_kind(NUMBER)
        lines += ["", "# no further than what was observed", f"numbers = {names!r}",
                  "completed[numbers] = completed[numbers].clip(X[numbers].min(), X[numbers].max(), "
                  "axis=1)"]  # fmt: skip
    return "\n".join([*lines, *_ending_code(seen, filled)])


def _ending_code(seen: Understood, filled: Filled) -> list[str]:
    """Return the lines that put predictions into holes only, spelled as the column is."""
    ranges = ranges_of(seen.data.mask(filled.flagged))
    whole = [name for name, (_, _, is_whole) in ranges.items() if is_whole and filled.holes[name].any()]
    flags = seen.of_kind(FLAG)
    lines = []
    if whole:
        lines += ["", "# whole, as what was observed", f"whole = {whole!r}",
                  "completed[whole] = completed[whole].round()"]  # fmt: skip
    lines += [
        "",
        "# observed cells as they were, outliers too",
        "completed = completed.where(observed.isna(), observed)",
    ]
    if flags:
        lines += [f"flags = {flags!r}", "completed[flags] = completed[flags].astype(frame[flags].dtypes)"]
    return [*lines, "completed = frame.assign(**completed)"]
