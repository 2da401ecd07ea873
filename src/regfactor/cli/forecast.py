"""`regfactor forecast`: one or several series, with intervals that were tried on the past."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from regfactor.cli.columns import CATEGORY, NUMBER
from regfactor.cli.console import ProgressCallback
from regfactor.cli.errors import BadInput, count, listed
from regfactor.cli.forecast_report import (
    forecast_report,
    headline,
    naive_note,
    shipped,
    summary,
)
from regfactor.cli.job import Job, quiet
from regfactor.cli.series_file import LongColumns, SeriesFile, SeriesOptions, series_of
from regfactor.cli.tables import Table, free_name, pandas
from regfactor.cli.times import spelled
from regfactor.core.params import frozen
from regfactor.model_selection import Backtest, backtest
from regfactor.series import naive_forecast
from regfactor.series.backtest import SEASONAL_NAIVE
from regfactor.series.forecast import Forecast
from regfactor.series.forecaster import AutoForecaster
from regfactor.series.regular_times import is_dates

MIN_ROWS = 3
MIN_PAST_ROWS = 10  # of a series whose forecasts are tried on the past
N_ORIGINS = 5


@frozen
class ForecastOptions:
    """The options of the command."""

    horizon: int
    level: float
    season: int | None
    holidays: str | None
    series: SeriesOptions


def run(
    job: Job,
    path: Path,
    horizon: int,
    level: float,
    season: int | None,
    holidays: str | None,
    *of_series: Any,
) -> None:
    """Forecast a series, and write it with a report; `of_series` are its `SeriesOptions`."""
    options = ForecastOptions(horizon, level, season, holidays, SeriesOptions(*of_series))
    if not 0 < level < 1:
        raise BadInput(f"--level must lie between 0 and 1, not {level:g}.")
    table = job.read(path)
    job.plan(table)
    file = series_of(job, job.understand(table, show=False), options.series)
    _check_rows(file, options)
    model = _model(job, options)
    with job.console.progress("trying forecasts on the past") as report, quiet():
        tried = tried_on_the_past(model, file, options, report)
    if tried is not None and len(tried.names) < len(file.names):
        late = [name for name in file.names if name not in tried.names]
        job.console.note(f"Not tried on the past, since values begin late: {listed(late)}.")
    job.fit("fitting", model, file.frame, None, file.exog)
    if season is not None and season > 1 and model.season_ != season:
        job.console.note(
            f"{count(len(file.frame), 'row')} are too few to fit a season of {season} rows, so "
            "that none was used."
        )
    future = None
    if file.future is not None:
        future = file.future.iloc[:horizon]
    ahead = model.forecast(horizon, exog=future, level=level)
    if tried is not None and not tried.beats_naive:
        ahead = naive_ahead(file, tried, ahead)
        job.console.note(naive_note(tried))
    job.console.say(f"{headline(file, horizon)} {summary(tried, level)}")
    job.console.record |= {
        "series": file.names,
        "horizon": horizon,
        "level": level,
        "season": model.season_,
        "seasons": model.seasons_,
        "inputs": model.input_names_,
        "members": dict(zip(model.members_, model.weights_.mean(axis=1).tolist(), strict=True)),
        "tried": None if tried is None else _record(tried, level),
        "written": "AutoForecaster" if tried is None else shipped(tried),
    }
    page = forecast_report(job, file, model, ahead, tried)
    out = table_of(file.times.name, file.times.form, file.long, ahead, table)
    job.finish(out, page, model, _info(file, options))


def _check_rows(file: SeriesFile, options: ForecastOptions) -> None:
    table = file.seen.table
    n_rows = len(file.frame)
    if n_rows < MIN_ROWS:
        raise BadInput(f"{table.name} has {n_rows} rows; a forecast needs at least {MIN_ROWS}.")
    if options.horizon > 10 * n_rows:
        raise BadInput(
            f"--horizon is {options.horizon}, more than ten times the {n_rows} rows that are known."
        )
    if options.holidays is not None and not is_dates(file.frame.index):
        raise BadInput("--holidays needs dates; --time names the column that holds them.")
    if file.future is not None and len(file.future) < options.horizon:
        raise BadInput(
            f"--exog needs the inputs of the next {count(options.horizon, 'time')}, and "
            f"{table.name} has {count(len(file.future), 'row')} after the last value of the "
            "series. Add rows with the inputs alone, or choose a smaller --horizon."
        )


def _model(job: Job, options: ForecastOptions) -> AutoForecaster:
    calendar = None
    if options.holidays is not None:
        calendar = [f"holidays:{options.holidays}"]
    return AutoForecaster(
        "auto" if options.season is None else options.season,
        horizon=options.horizon,
        calendar=calendar,
        random_state=job.settings.seed,
    )


def tried_on_the_past(
    model: AutoForecaster,
    file: SeriesFile,
    options: ForecastOptions,
    report: ProgressCallback,
) -> Backtest | None:
    """Return the backtest of a model; None where the series is too short."""
    n_rows = len(file.frame)
    steps = min(options.horizon, n_rows // 5)
    if n_rows - steps < MIN_PAST_ROWS or steps < 1:
        return None
    first_half = file.frame.iloc[: n_rows // 2].notna().sum()
    early = [name for name in file.names if first_half[name] >= MIN_ROWS]
    if not early:
        return None
    return backtest(
        model,
        file.frame[early],
        steps,
        N_ORIGINS,
        exog=file.exog,
        level=options.level,
        season=options.season,
        callback=report.part,
    )


def naive_ahead(file: SeriesFile, tried: Backtest, ahead: Forecast) -> Forecast:
    """Return the better naive forecast, in place of that of a model which lost to it."""
    season = tried.season if tried.best_naive == SEASONAL_NAIVE else 1
    past = file.frame.to_numpy(dtype=float, na_value=np.nan)
    levels: Any = [ahead.level]
    made = naive_forecast(past, len(ahead), season, levels)
    lower: Any = made.lower
    upper: Any = made.upper
    return replace(ahead, mean=made.mean, lower=lower[0], upper=upper[0])


def _record(tried: Backtest, level: float) -> dict[str, Any]:
    ours = tried.scores(tried.best)
    written = shipped(tried)
    by_series = (0, 1)
    return {
        "origins": len(tried.origins),
        "steps": tried.horizon,
        "values": int(np.isfinite(tried.actual).sum()),
        "within": float(tried.scores(written)[f"coverage {level:.0%}"]),
        "verdict": tried.coverage_verdict(written, level),
        "mase": float(ours["MASE"]),
        "naive_mase": float(tried.scores(tried.best_naive)["MASE"]),
        "against": tried.best_naive,
        "beats_naive": tried.beats_naive,
        "mase_by_series": tried.scores(tried.best, by_series)["MASE"],
        "naive_mase_by_series": tried.scores(tried.best_naive, by_series)["MASE"],
    }


def _info(file: SeriesFile, options: ForecastOptions) -> dict[str, Any]:
    """Return what `score` needs to read new rows."""
    columns: dict[str, str] = {}
    long = None
    if file.long is None:
        columns |= dict.fromkeys(file.names, NUMBER)
    else:
        long = [file.long.series, file.long.value]
        columns |= {file.long.series: CATEGORY, file.long.value: NUMBER}
    inputs = list(options.series.exog)
    return {
        "columns": columns | dict.fromkeys(inputs, NUMBER),
        "names": file.names,
        "long": long,
        "inputs": inputs,
        "horizon": options.horizon,
        "level": options.level,
        "time": file.times.name,
        "form": file.times.form,
        "counted": file.times.is_counted,
    }


def table_of(
    time: str,
    form: str | None,
    long: LongColumns | None,
    ahead: Any,
    table: Table,
) -> Any:
    """Return forecasts as a table: the time, the means, the limits; long ones by series."""
    index = ahead.times.future(len(ahead))
    times = spelled(index, form) if table.text else index
    names = ahead.times.names
    parts = (("", ahead.mean), ("_lower", ahead.lower), ("_upper", ahead.upper))
    out: dict[str, Any] = {}
    if long is not None:
        out[long.series] = np.repeat(np.array(names, dtype=object), len(index))
        out[time] = list(times) * len(names)
        for end, values in parts:
            out[free_name(f"{long.value}{end}", list(out))] = table.column(values.T.ravel())
        return pandas().DataFrame(out)
    out[time] = times
    for j, name in enumerate(names):
        for end, values in parts:
            out[free_name(f"{name}{end}", list(out))] = table.column(values[:, j])
    return pandas().DataFrame(out)
