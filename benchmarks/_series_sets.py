"""Public series that the workloads on forecasts share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from statsmodels import datasets

from regfactor.datasets import tables

Array = np.ndarray


@dataclass(frozen=True)
class SeriesSet:
    """Series of one source, the season that peers are told, and the steps that are forecast."""

    values: Array
    season: int
    horizon: int


def frame(name: str) -> pd.DataFrame:
    """Return a data set of statsmodels."""
    return getattr(datasets, name).load_pandas().data


def shared(name: str, n_series: int) -> Array:
    """Return some complete columns of a file of REGFACTOR_DATA; the first is the time."""
    path = tables.find(name)
    if path is None:
        raise tables.not_found(name)
    columns = pd.read_csv(path).iloc[:, 1:].dropna(axis=1)
    places = np.linspace(0, columns.shape[1] - 1, min(n_series, columns.shape[1])).astype(int)
    return columns.iloc[:, places].to_numpy(float)


def co2_by_month() -> Array:
    """Return the carbon dioxide of Mauna Loa, means of months."""
    weekly = frame("co2")["co2"]
    return weekly.resample("MS").mean().interpolate().to_numpy()[:, None]


def elnino_by_month() -> Array:
    """Return the sea surface temperatures of statsmodels, month by month."""
    return frame("elnino").iloc[:, 1:].to_numpy(float).reshape(-1, 1)


def us_quarters() -> Array:
    """Return logs of gross domestic product, consumption and prices, and unemployment."""
    macro = frame("macrodata")
    logs = np.log(macro[["realgdp", "realcons", "cpi"]].to_numpy())
    return np.column_stack([100 * logs, macro["unemp"]])
