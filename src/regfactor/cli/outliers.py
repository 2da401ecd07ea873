"""Gross outliers of a table in a file: found, set aside, and named in notes and in code."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.cli.columns import NUMBER, Understood
from regfactor.cli.errors import count
from regfactor.cli.job import Job, quiet
from regfactor.core.params import Array, frozen
from regfactor.tables.outliers import MAX_FITTED_ROWS, gross_outliers


@frozen
class TableOutliers:
    """Outliers of a frame: flagged cells, heavy-tailed columns, expected values, judged columns."""

    flagged: Any
    heavy_tailed: list[str]
    expected: Any
    judged: list[str]


def fitted_rows(job: Job, X: Any) -> Array:
    """Return the rows from which patterns are learned: all, or as many as are needed."""
    rows = np.flatnonzero(X.notna().to_numpy().any(axis=1))
    if len(rows) <= MAX_FITTED_ROWS:
        return np.arange(len(X))
    job.console.note(
        f"The patterns were learned from {MAX_FITTED_ROWS:,} of {len(X):,} rows, drawn at random; "
        "every row was used."
    )
    random = np.random.default_rng(job.settings.seed)
    return np.sort(random.choice(rows, MAX_FITTED_ROWS, replace=False))


def find_outliers(job: Job, seen: Understood) -> TableOutliers:
    """Return which cells lie grossly off a robust fit to all numbers of a table."""
    X = seen.data
    flagged = X.isna() & False
    expected = X.copy()
    names = seen.of_kind(NUMBER)
    if not names:
        return TableOutliers(flagged, [], expected, [])
    values = X[names].to_numpy(dtype=float)
    with job.console.progress("looking for outliers") as report, quiet():
        rows = fitted_rows(job, X[names])
        found = gross_outliers(values, job.settings.seed, rows, callback=report)
    flagged[names] = found.flagged
    expected[names] = found.expected
    columns = np.array(names, dtype=object)
    return TableOutliers(
        flagged,
        columns[found.heavy_tailed].tolist(),
        expected,
        columns[found.judged].tolist(),
    )


def without_outliers(job: Job, seen: Understood) -> tuple[Any, list[tuple[int, str]]]:
    """Return the inputs with gross outliers as missing cells, and a list of these cells."""
    flagged = find_outliers(job, seen).flagged
    cells = flagged_cells(flagged)
    if cells:
        were = "was" if len(cells) == 1 else "were"
        job.console.note(
            f"{count(len(cells), 'gross outlier')} among the numbers {were} treated as missing; "
            "`regfactor complete` names them."
        )
    return seen.data.mask(flagged), cells


def outlier_code(cells: list[tuple[int, str]], frame: str) -> list[str]:
    """Return the lines of Python that set outliers aside; empty if there are none."""
    if not cells:
        return []
    return [
        "",
        f"# {count(len(cells), 'gross outlier')}, set aside",
        f"for row, column in {cells!r}:",
        f"    {frame}.loc[row, column] = np.nan",
    ]


def search_code(job: Job, seen: Understood, found: TableOutliers) -> tuple[list[str], list[str]]:
    """Return the imports and the lines of Python that find the same outliers, empty without any."""
    if not found.judged:
        return [], []
    rows = ""
    if len(seen.frame) > MAX_FITTED_ROWS:
        rows = (
            f", rows=np.sort(np.random.default_rng({job.settings.seed}).choice("
            f"len(values), {MAX_FITTED_ROWS}, replace=False))"
        )
    imports = ["from regfactor.tables.outliers import gross_outliers"]
    lines = [
        f"values = frame[{found.judged!r}].astype(float)",
        f"found = gross_outliers(values, random_state={job.settings.seed}{rows})",
        "print(found.flagged.sum(axis=0))",
    ]
    return imports, lines


def flagged_cells(flagged: Any) -> list[tuple[int, str]]:
    """Return the row, counted from zero, and the column of every flagged cell."""
    rows, columns = np.nonzero(flagged.to_numpy())
    return [(int(i), str(flagged.columns[j])) for i, j in zip(rows, columns, strict=True)]
