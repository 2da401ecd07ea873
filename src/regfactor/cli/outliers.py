"""Gross outliers: cells that lie far off a robust fit to all numbers of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regfactor.cli.columns import NUMBER, Understood
from regfactor.cli.errors import count
from regfactor.cli.job import Work, fit_with_choice, quiet
from regfactor.cli.report_sections import reading_code
from regfactor.core.params import Array
from regfactor.tables.subspace import ConvexSubspace

MOST_ROWS = 20_000  # from which patterns are learned; every row is filled
# an outlier: robust deviations of a residual, and of the column, beyond which it lies
GROSS = 6.0
WIDE = 1.0
HEAVY = 0.05  # share of flagged cells from which a column has heavy tails, and no outliers
# columns and rows without which an outlier cannot be told
LEAST_NUMBERS = 3
LEAST_ROWS = 20


@dataclass(frozen=True, eq=False)
class Outliers:
    """Flagged cells, columns with tails too heavy to tell, and what the fit expects in the `names` it looked at."""

    flagged: Any
    heavy: list[str]
    expected: Any
    names: list[str]


def learned_rows(work: Work, X: Any) -> Array:
    """Return the rows from which patterns are learned: all with a value, or as many as are needed."""
    rows = np.flatnonzero(X.notna().to_numpy().any(axis=1))
    if len(rows) <= MOST_ROWS:
        return np.arange(len(X))
    work.talk.note(
        f"The patterns were learned from {MOST_ROWS:,} of {len(X):,} rows, drawn at random; every row was used.",
    )
    return np.sort(np.random.default_rng(work.settings.seed).choice(rows, MOST_ROWS, replace=False))


def outliers(work: Work, seen: Understood) -> Outliers:
    """Return which cells lie grossly off a robust fit to all numbers."""
    X = seen.data
    flagged = X.isna() & False
    expected = X.copy()
    names = seen.of_kind(NUMBER)
    if len(names) < LEAST_NUMBERS or len(X) < LEAST_ROWS:
        return Outliers(flagged, [], expected, [])
    values = X[names].to_numpy(dtype=float)
    varies = np.nanmax(values, axis=0) > np.nanmin(values, axis=0)
    if varies.sum() < LEAST_NUMBERS:
        return Outliers(flagged, [], expected, [])
    names = [n for n, v in zip(names, varies, strict=True) if v]
    values = values[:, varies]
    middle = np.nanmedian(values, axis=0)
    spread = _spread(values)
    S = (values - middle) / spread
    model = ConvexSubspace(loss="huber", alpha="auto", random_state=work.settings.seed)
    rows = learned_rows(work, X[names])
    with work.talk.progress("looking for outliers") as told, quiet():
        fit_with_choice(model.set_params(callback=told), S[rows])
        Z = np.asarray(model.inverse_transform(model.transform(S)))
        R = np.abs(S - Z)
        sigma = 1.4826 * np.nanmedian(R, axis=0)
    found = (sigma * GROSS < R) & (WIDE < R)
    shares = found.mean(axis=0)
    heavy = [name for name, share in zip(names, shares, strict=True) if share > HEAVY]
    for name, column, share in zip(names, found.T, shares, strict=True):
        flagged[name] = column if share <= HEAVY else False
    expected[names] = middle + spread * Z
    return Outliers(flagged, heavy, expected, names)


def without_outliers(work: Work, seen: Understood) -> tuple[Any, list[tuple[int, str]]]:
    """Return the inputs with gross outliers taken for missing, and which these are: one wrong cell bends all others."""
    flagged = outliers(work, seen).flagged
    found = cells_of(flagged)
    if found:
        work.talk.note(
            f"{count(len(found), 'gross outlier')} among the numbers {'was' if len(found) == 1 else 'were'} "
            "taken for missing; `regfactor complete` names them.",
        )
    return seen.data.mask(flagged), found


def outlier_code(cells: list[tuple[int, str]], frame: str) -> list[str]:
    """Return the lines that set outliers aside in Python; none where there are none."""
    if not cells:
        return []
    return [
        "",
        f"# {count(len(cells), 'gross outlier')}, set aside",
        f"for row, column in {cells!r}:",
        f"    {frame}.loc[row, column] = np.nan",
    ]


def search_code(work: Work, seen: Understood, found: Outliers) -> str:
    """Return the Python code that finds the same outliers; where none can be told, that reads the table."""
    if not found.names:
        return f"import numpy as np\nimport pandas as pd\n\n{reading_code(seen)}"
    learned = "S"
    if len(seen.frame) > MOST_ROWS:
        learned = (
            f"S.iloc[np.sort(np.random.default_rng({work.settings.seed}).choice(len(S), {MOST_ROWS}, "
            "replace=False))]"
        )
    return "\n".join(
        [
            "import numpy as np",
            "import pandas as pd",
            "from regfactor import ConvexSubspace",
            "",
            reading_code(seen),
            f"values = frame[{found.names!r}].astype(float)",
            "spread = (values.quantile(0.75) - values.quantile(0.25)) / 1.349",
            "S = (values - values.median()) / spread.where(spread > 0, values.std(ddof=0))",
            f'model = ConvexSubspace(loss="huber", alpha="auto", random_state={work.settings.seed}).fit({learned})',
            "R = (S - model.inverse_transform(model.transform(S))).abs()",
            f"flagged = ({GROSS} * 1.4826 * R.median() < R) & ({WIDE} < R)",
            f"flagged.loc[:, flagged.mean() > {HEAVY}] = False",
            "print(flagged.sum())",
        ],
    )


def cells_of(flagged: Any) -> list[tuple[int, str]]:
    """Return the row, counted from zero, and the column of every flagged cell."""
    rows, columns = np.nonzero(flagged.to_numpy())
    return [(int(i), str(flagged.columns[j])) for i, j in zip(rows, columns, strict=True)]


def _spread(values: Array) -> Array:
    """Return the interquartile range of each column in units of a standard deviation, or that where it is zero."""
    low, high = np.nanquantile(values, (0.25, 0.75), axis=0)
    spread = (high - low) / 1.349
    spread = np.where(spread > 0, spread, np.nanstd(values, axis=0))
    return np.where(spread > 0, spread, 1.0)
