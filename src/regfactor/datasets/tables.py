"""Real tables: `name.csv.gz` in the directory REGFACTOR_DATA, or fetched by scikit-learn."""

from __future__ import annotations

import csv
import difflib
import gzip
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from regfactor.core.linalg import positive_or_one
from regfactor.core.params import Array

VARIABLE = "REGFACTOR_DATA"
SUFFIX = ".csv.gz"
COMPLETE = "_complete"
TARGET = "target"
TIME = "time"
TABLE_FORMAT = (
    f"one header row, commas, missing values empty, the last column `{TARGET}` "
    f"(time series: the first column `{TIME}`)"
)
VIEW_PREFIX = re.compile(r"v(\d+)_")


class DatasetNotFound(FileNotFoundError):
    """A data set is neither in the directory REGFACTOR_DATA nor available from scikit-learn."""


def names() -> list[str]:
    """Return the names of the available data sets."""
    folder = _folder()
    if folder is None:
        return []
    return sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}"))


def load(name: str) -> Bunch:
    """Return a data set as scikit-learn's loaders do.

    Parameters
    ----------
    name : str
        One of `names()`; with the suffix `_complete`, only the rows without missing entries
        (`wbc_complete`).

    Returns
    -------
    Bunch
        `data` (rows are samples; NaN where missing), `target` (None where there is none),
        `feature_names`, `DESCR`, `source`. Time series have `time`; data of several views have
        `views`, the blocks of columns in their order.

    Raises
    ------
    DatasetNotFound
        If neither the directory `REGFACTOR_DATA` nor scikit-learn has it.
    """
    table = name.removesuffix(COMPLETE)
    path = find(table)
    bunch = _from_file(path, table) if path else _fetched(table)
    if name.endswith(COMPLETE):
        return _complete(bunch)
    return bunch


def normalize_rows(X: Array) -> Array:
    """Center every row by its mean and divide it by its norm, as the papers on reverse prediction.

    A row whose entries are all equal becomes zero.
    """
    centered = X - X.mean(axis=1, keepdims=True)
    length = np.linalg.norm(centered, axis=1, keepdims=True)
    return centered / positive_or_one(length)


def find(name: str, kind: str = "") -> Path | None:
    """Return the file of a data set (or of its splits), None if there is no such file."""
    folder = _folder()
    if folder is None:
        return None
    path = folder / kind / f"{name}{SUFFIX}"
    return path if path.is_file() else None


def not_found(name: str, what: str = "Data set", layout: str = TABLE_FORMAT) -> DatasetNotFound:
    """Return the error that names the searched directory and the remedy."""
    folder = _folder()
    where = f"any directory, since {VARIABLE} is not set"
    if folder:
        where = f"the directory {str(folder)!r}"
    hint = ""
    near = difflib.get_close_matches(name, names(), n=1, cutoff=0.6)
    if near and near[0] != name:
        hint = f" Did you mean {near[0]!r}?"
    return DatasetNotFound(
        f"{what} {name!r} was not found in {where}.{hint} Set the environment variable {VARIABLE} "
        f"to a directory with {name}{SUFFIX}: {layout}."
    )


def read(path: Path) -> tuple[list[str], Array]:
    """Return the header and the cells, as text, of a compressed table."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    uneven = next((i for i, row in enumerate(rows, start=2) if len(row) != len(header)), None)
    if uneven or not rows:
        raise ValueError(
            f"{path.name}: line {uneven or 2} does not have the {len(header)} fields of the header."
        )
    return header, np.array(rows)


def _folder() -> Path | None:
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    return None


def _from_file(path: Path, name: str) -> Bunch:
    header, cells = read(path)
    bunch = Bunch(data=None, target=None, feature_names=header, source=path.name)
    if header[0] == TIME:
        bunch.time = cells[:, 0]
        bunch.feature_names = header[1:]
        cells = cells[:, 1:]
    if header[-1] == TARGET:
        bunch.target = _values(cells[:, -1:])[:, 0]
        bunch.feature_names = bunch.feature_names[:-1]
        cells = cells[:, :-1]
    bunch.data = _values(cells)
    views = [VIEW_PREFIX.match(feature) for feature in bunch.feature_names]
    if all(views):
        numbers = np.array([int(match.group(1)) for match in views if match])
        bunch.views = [bunch.data[:, numbers == v] for v in np.unique(numbers)]
    bunch.DESCR = _description(name, bunch)
    return bunch


def _values(cells: Array) -> Array:
    """Return text as floats, NaN where empty; with words in a column, as objects, None if empty."""
    try:
        return _floats(cells)
    except ValueError:
        columns = [_column(cells[:, j]) for j in range(cells.shape[1])]
        if len(columns) == 1:
            return columns[0][:, None]
        return np.stack([c.astype(object) for c in columns], axis=1)


def _column(cells: Array) -> Array:
    try:
        return _floats(cells)
    except ValueError:
        if np.all(cells != ""):
            return cells
        return np.array([word or None for word in cells.tolist()], dtype=object)


def _floats(cells: Array) -> Array:
    return np.where(cells == "", "nan", cells).astype(np.float64)


def _description(name: str, bunch: Bunch) -> str:
    n, d = bunch.data.shape
    if "time" in bunch:
        kind = "time series"
    elif "views" in bunch:
        kind = f"{len(bunch.views)} views"
    else:
        kind = "table"
    target = "" if bunch.target is None else " with a target"
    return f"{name}: {kind} of {n} rows and {d} columns{target}."


def _complete(bunch: Bunch) -> Bunch:
    """Return the rows without missing entries, in their order."""
    kept = ~_missing(bunch.data).any(axis=1)
    if bunch.target is not None:
        kept &= ~_missing(bunch.target)
    complete = Bunch(**bunch)
    for key in ("data", "target", "time"):
        if bunch.get(key) is not None:
            complete[key] = bunch[key][kept]
    if "views" in bunch:
        complete.views = [view[kept] for view in bunch.views]
    complete.DESCR = f"{bunch.DESCR} {kept.sum()} complete rows of them."
    return complete


def _missing(values: Array) -> Array:
    # elementwise; NaN does not equal itself
    return (values != values) | (values == None)  # noqa: E711


def _fetched(name: str) -> Bunch:
    if name not in FETCHERS:
        raise not_found(name)
    try:
        return FETCHERS[name]()
    except OSError as error:  # no connection, no permission to write the cache
        raise not_found(name) from error


def _california() -> Bunch:
    """Return totals, as in the original table, from scikit-learn's averages by household."""
    import sklearn.datasets

    fetched: Any = sklearn.datasets.fetch_california_housing()
    column = dict(zip(fetched.feature_names, fetched.data.T, strict=True))
    people = column["Population"]
    households = people / column["AveOccup"]
    columns = {
        "longitude": column["Longitude"],
        "latitude": column["Latitude"],
        "housing_median_age": column["HouseAge"],
        "total_rooms": np.round(column["AveRooms"] * households),
        "total_bedrooms": np.round(column["AveBedrms"] * households),
        "population": np.round(people),
        "households": np.round(households),
        "median_income": column["MedInc"],
    }
    bunch = Bunch(
        data=np.column_stack(list(columns.values())),
        target=np.round(fetched.target * 1e5),
        feature_names=list(columns),
        source="sklearn.datasets.fetch_california_housing",
    )
    bunch.DESCR = _description("calhousing", bunch)
    return bunch


FETCHERS: dict[str, Callable[[], Bunch]] = {"calhousing": _california}
