"""Long tables as those of Nixtla's libraries: `forecast(df, h)` with unique_id, ds and y."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from regfactor.core.params import frozen, optional
from regfactor.fitting.parameters import require_at_least
from regfactor.series.forecaster import AutoForecaster
from regfactor.series.known_inputs import listed
from regfactor.series.times import LongLayout

NAME = "AutoForecaster"


@frozen
class LongTable:
    """A long table of pandas, and which of its columns are inputs."""

    frame: Any
    layout: LongLayout
    inputs: list[str]

    @property
    def common_inputs(self) -> bool:
        """Whether the inputs of all series are the same at each time."""
        if not self.inputs:
            return True
        by_time = self.frame.groupby(self.layout.time)[self.inputs]
        return bool((by_time.nunique(dropna=False) <= 1).to_numpy().all())

    def groups(self) -> Iterator[list[Any]]:
        """Yield series that are forecast together: those that end at the same time.

        With inputs that differ between series, each is alone.
        """
        names = list(dict.fromkeys(self.frame[self.layout.series]))
        if not self.common_inputs:
            yield from ([name] for name in names)
            return
        ends = self.frame.groupby(self.layout.series)[self.layout.time].max()
        for end in ends.unique():
            yield [name for name in names if ends[name] == end]

    def rows_of(self, names: list[Any]) -> Any:
        """Return the rows of some series."""
        return self.frame[self.frame[self.layout.series].isin(names)]


def forecast(
    df: Any,
    h: int,
    *,
    X_df: Any = None,
    level: Sequence[float] | None = None,
    season: Any = "auto",
    log: Any = "auto",
    calendar: Any = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_col: str = "y",
) -> Any:
    """Forecast the series of a long table by AutoForecaster, each from its own last time.

    Parameters
    ----------
    df : frame of pandas or polars
        A row for each series and time; columns besides the three named below are inputs.
    h : int
        Steps ahead.
    X_df : frame, optional
        Inputs of the next `h` times of each series; required if `df` has inputs.
    level : sequence of float, optional
        Percent of values that intervals hold, such as [80, 95].
    season, log, calendar
        As those of `AutoForecaster`.
    id_col, time_col, target_col : str
        Names of the columns.

    Returns
    -------
    frame
        Of the same kind, with columns AutoForecaster, AutoForecaster-lo-80, AutoForecaster-hi-80.

    Notes
    -----
    Series that end at the same time are forecast together, and learn from each other. Forecasts of
    parts do not sum to those of their total unless the total is their sum: leave totals out, and
    sum the forecasts.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from regfactor.nixtla import forecast
    >>> months = pd.date_range("2020-01-01", periods=40, freq="MS")
    >>> df = pd.DataFrame({"unique_id": "shop", "ds": months, "y": np.arange(40.0)})
    >>> forecast(df, 2, level=[80])["AutoForecaster"].round(1).tolist()
    [40.0, 41.0]
    """
    require_at_least("h", h, 1)
    pandas = optional("pandas", "regfactor.nixtla", "pip install pandas")
    shares = _shares(level)
    layout = LongLayout(id_col, time_col, target_col)
    table = _long_table(df, layout)
    future = None
    if table.inputs:
        future = _future_inputs(X_df, table)
    elif X_df is not None:
        raise ValueError(
            "df has no columns of inputs, so X_df has nothing to follow; leave it out."
        )
    model = AutoForecaster(season, log, h, calendar=calendar)
    made = []
    for names in table.groups():
        made.append(_group_forecast(model, table, names, future, shares))
    found = pandas.concat(made, ignore_index=True)
    order = {name: place for place, name in enumerate(dict.fromkeys(table.frame[id_col]))}
    found = found.sort_values(
        [id_col, time_col], key=lambda c: c.map(order) if c.name == id_col else c
    )
    found = found.reset_index(drop=True)
    if hasattr(df, "iloc"):
        return found
    return _as_polars(found, df.schema[time_col], time_col)


def _shares(level: Sequence[float] | None) -> list[float]:
    """Return levels in percent as shares."""
    shares = [single / 100 for single in level or ()]
    for share, percent in zip(shares, level or (), strict=True):
        if not 0.01 <= share < 1:
            raise ValueError(f"level holds percent between 1 and 100, such as 95, got {percent!r}.")
    return shares


def _long_table(df: Any, layout: LongLayout) -> LongTable:
    missing = [
        name for name in (layout.series, layout.time, layout.value) if name not in df.columns
    ]
    if missing:
        raise ValueError(
            f"df has no column {listed(missing)}; it has {listed(list(df.columns))}. Name them by "
            "id_col, time_col and target_col."
        )
    inputs = [name for name in df.columns if name not in (layout.series, layout.time, layout.value)]
    frame = _as_pandas(df, layout.time)
    return LongTable(frame, layout, inputs)


def _future_inputs(X_df: Any, table: LongTable) -> Any:
    wanted = [table.layout.series, table.layout.time, *table.inputs]
    if X_df is None:
        raise ValueError(
            f"df has the inputs {listed(table.inputs)}; give their values of the next times as "
            "X_df, or leave the columns out."
        )
    missing = [name for name in wanted if name not in X_df.columns]
    if missing:
        raise ValueError(f"X_df has no column {listed(missing)}, which df has.")
    return _as_pandas(X_df, table.layout.time)[wanted]


def _group_forecast(
    model: AutoForecaster,
    table: LongTable,
    names: list[Any],
    future: Any,
    shares: list[float],
) -> Any:
    """Return the long forecast of some series."""
    layout = table.layout
    rows = table.rows_of(names)
    series = rows[[layout.series, layout.time, layout.value]].rename(
        columns={layout.series: "unique_id", layout.time: "ds", layout.value: "y"}
    )
    past = None
    ahead = None
    if table.inputs:
        past = _by_time(rows, layout, table.inputs)
        ahead = _by_time(future[future[layout.series].isin(names)], layout, table.inputs)
    model.fit(series, exog=past)
    made = model.forecast(exog=ahead, level=shares or None).to_frame()
    renamed = {"unique_id": layout.series, "ds": layout.time, "y": NAME}
    for share in shares:
        percent = f"{100 * share:g}"
        renamed[f"y_lower_{percent}"] = f"{NAME}-lo-{percent}"
        renamed[f"y_upper_{percent}"] = f"{NAME}-hi-{percent}"
    return made.rename(columns=renamed)


def _by_time(rows: Any, layout: LongLayout, inputs: list[str]) -> Any:
    """Return the inputs of a long table with a row for each time."""
    found = rows.drop_duplicates(layout.time).set_index(layout.time)
    return found[inputs].sort_index()


def _as_pandas(df: Any, time: str) -> Any:
    pandas = importlib.import_module("pandas")
    frame = df
    if not hasattr(df, "iloc"):
        frame = pandas.DataFrame(df.to_dict(as_series=False))
    if frame[time].dtype.kind in "iuM" or str(frame[time].dtype).startswith(("period", "datetime")):
        return frame
    return frame.assign(**{time: pandas.to_datetime(frame[time])})


def _as_polars(found: Any, kind: Any, time: str) -> Any:
    polars = importlib.import_module("polars")
    columns = {}
    for name in found.columns:
        values = found[name].tolist()
        if found[name].dtype.kind == "f":
            values = np.asarray(values)
        columns[name] = values
    return polars.DataFrame(columns).with_columns(polars.col(time).cast(kind))
