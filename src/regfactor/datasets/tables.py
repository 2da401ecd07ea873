"""Real tables: `name.csv.gz` in the directory that REGFACTOR_DATA names, or what scikit-learn can fetch."""

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

from regfactor.core.params import Array

VARIABLE = "REGFACTOR_DATA"
SUFFIX = ".csv.gz"
COMPLETE = "_complete"
TARGET = "target"
TIME = "time"
TABLE = f"one header row, commas, missing values empty, the last column `{TARGET}` (time series: the first column `{TIME}`)"
VIEW = re.compile(r"v(\d+)_")


class DatasetNotFound(FileNotFoundError):
    """A data set that is neither in the directory of REGFACTOR_DATA nor to be had from scikit-learn."""


def names() -> list[str]:
    """Return the names of the data sets that are here."""
    folder = _folder()
    if folder:
        here = {path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}")}
    else:
        here = set()
    return sorted(here)


def load(name: str) -> Bunch:
    """Return a data set as scikit-learn's loaders do.

    Parameters
    ----------
    name : str
        One of `names()`; with `_complete` at its end, only the rows in which nothing is missing
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
        Where neither the directory of `REGFACTOR_DATA` nor scikit-learn has it; the message says
        what to do.
    """
    table = name.removesuffix(COMPLETE)
    path = find(table)
    bunch = _from_file(path, table) if path else _fetched(table)
    if name.endswith(COMPLETE):
        return _complete(bunch)
    return bunch


def normalize_rows(X: Array) -> Array:
    """Center every row by its own mean and divide it by its own norm, as the papers on reverse prediction do.

    A row whose entries are all equal has no direction and becomes zero.
    """
    centered = X - X.mean(axis=1, keepdims=True)
    length = np.linalg.norm(centered, axis=1, keepdims=True)
    return np.asarray(centered / np.where(length > 0, length, 1))


def find(name: str, kind: str = "") -> Path | None:
    """Return the file of a data set (or of its splits), None where it is not here."""
    folder = _folder()
    path = folder / kind / f"{name}{SUFFIX}" if folder else None
    if path and path.is_file():
        return path
    return None


def not_found(name: str, what: str = "Data set", holds: str = TABLE) -> DatasetNotFound:
    """Return the error that says where was looked and what would help."""
    folder = _folder()
    near = difflib.get_close_matches(name, names(), n=1, cutoff=0.6)
    hint = f" Did you mean {near[0]!r}?" if near and near[0] != name else ""
    if folder:
        where = f"the directory {str(folder)!r}"
    else:
        where = f"any directory, since {VARIABLE} is not set"
    return DatasetNotFound(
        f"{what} {name!r} was not found in {where}.{hint} Set the environment variable {VARIABLE} to a directory with"
        f" {name}{SUFFIX}: {holds}."
    )


def read(path: Path) -> tuple[list[str], Array]:
    """Return the header and the cells, as text, of a compressed table."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    uneven = next((i for i, row in enumerate(rows, start=2) if len(row) != len(header)), None)
    if uneven or not rows:
        raise ValueError(
            f"{path.name}: line {uneven or 2} has not the {len(header)} fields of the header."
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
    views = [VIEW.match(feature) for feature in bunch.feature_names]
    if all(views):
        of = np.array([int(match.group(1)) for match in views if match])
        bunch.views = [bunch.data[:, of == v] for v in np.unique(of)]
    bunch.DESCR = _description(name, bunch)
    return bunch


def _values(cells: Array) -> Array:
    """Return text as floats, NaN where empty; where a column holds words, as objects with None where empty."""
    filled = np.where(cells == "", "nan", cells)
    try:
        return filled.astype(np.float64)
    except ValueError:
        columns = [_column(cells[:, j]) for j in range(cells.shape[1])]
        if len(columns) == 1:
            return columns[0][:, None]
        return np.stack([c.astype(object) for c in columns], axis=1)


def _column(cells: Array) -> Array:
    try:
        return np.where(cells == "", "nan", cells).astype(np.float64)
    except ValueError:
        if np.all(cells != ""):
            return cells
        return np.array([word or None for word in cells.tolist()], dtype=object)


def _description(name: str, bunch: Bunch) -> str:
    n, d = bunch.data.shape
    if "time" in bunch:
        kind = "time series"
    elif "views" in bunch:
        kind = f"{len(bunch.views)} views"
    else:
        kind = "table"
    return f"{name}: {kind} of {n} rows and {d} columns{'' if bunch.target is None else ' with a target'}."


def _complete(bunch: Bunch) -> Bunch:
    """Return the rows in which nothing is missing, in their order."""
    parts = [bunch.data] + ([] if bunch.target is None else [bunch.target[:, None]])
    missing = [_missing(part).any(axis=1) for part in parts]
    kept = ~np.any(missing, axis=0)
    rows = {
        key: bunch[key][kept] for key in ("data", "target", "time") if bunch.get(key) is not None
    }
    if "views" in bunch:
        views = {"views": [view[kept] for view in bunch.views]}
    else:
        views = {}
    return Bunch(
        **{**bunch, **rows, **views, "DESCR": f"{bunch.DESCR} {kept.sum()} complete rows of them."}
    )


def _missing(values: Array) -> Array:
    return np.asarray((values != values) | (values == None))  # noqa: E711 elementwise; NaN does not equal itself


def _fetched(name: str) -> Bunch:
    if name not in FETCHERS:
        raise not_found(name)
    try:
        return FETCHERS[name]()
    except OSError as error:  # no connection, no permission to write the cache
        raise not_found(name) from error


def _california() -> Bunch:
    """Undo scikit-learn's averages by household, since its table is the same one in other columns."""
    import sklearn.datasets

    fetched: Any = sklearn.datasets.fetch_california_housing()
    column = dict(zip(fetched.feature_names, fetched.data.T, strict=True))
    people = column["Population"]
    households = people / column["AveOccup"]
    totals = [column["AveRooms"] * households, column["AveBedrms"] * households, people, households]
    data = np.column_stack(
        [
            column["Longitude"],
            column["Latitude"],
            column["HouseAge"],
            *(np.round(t) for t in totals),
            column["MedInc"],
        ]
    )
    features = "longitude latitude housing_median_age total_rooms total_bedrooms population households median_income"
    bunch = Bunch(
        data=data,
        target=np.round(fetched.target * 1e5),
        feature_names=features.split(),
        source="sklearn.datasets.fetch_california_housing",
    )
    bunch.DESCR = _description("calhousing", bunch)
    return bunch


FETCHERS: dict[str, Callable[[], Bunch]] = {"calhousing": _california}
