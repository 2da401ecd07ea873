"""The report of a forecast: first the fan chart, accuracy against naive, and the coverage found."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.cli.errors import count
from regfactor.cli.job import Job
from regfactor.cli.report_sections import Report
from regfactor.cli.rows_to_see import MAX_ROWS, filled_cell, spelled_limits
from regfactor.cli.series_file import SeriesFile
from regfactor.cli.times import spelled
from regfactor.model_selection import Backtest
from regfactor.report import Figure, Grid, GridCell, Note, Page, Section, Text, number
from regfactor.report.figures import fan
from regfactor.series.backtest import NAIVE_WORDS, SEASONAL_NAIVE

MAX_DRAWN_SERIES = 6
MAX_LISTED_SERIES = 30
MAX_SHOWN_SERIES = 8  # whose forecasts are in the report in numbers
TOO_SHORT = "The series are too short to try forecasts on their past."


def headline(file: SeriesFile, horizon: int) -> str:
    """Return what was forecast."""
    return (
        f"{len(file.names):,} series forecast {count(horizon, 'step')} ahead, from "
        f"{count(len(file.frame), 'row')}."
    )


def shipped(tried: Backtest) -> str:
    """Return the name of the forecast that is written: a naive one if it did better."""
    if tried.beats_naive:
        return tried.best
    return tried.best_naive


def naive_note(tried: Backtest) -> str:
    """Return what was written in place of a model that lost to naive forecasts, and why."""
    naive = NAIVE_WORDS[tried.best_naive]
    return (
        f"Written is {naive}: on the past nothing beat it. Look for inputs that explain the "
        "changes (--exog), or forecast sums over longer times."
    )


def summary(tried: Backtest | None, level: float) -> str:
    """Return how forecasts of the past did, in a sentence or two."""
    if tried is None:
        return TOO_SHORT
    name = shipped(tried)
    naive = NAIVE_WORDS[tried.best_naive]
    ours = float(tried.scores(tried.best)["MASE"])
    theirs = float(tried.scores(tried.best_naive)["MASE"])
    share = float(tried.scores(name)[f"coverage {level:.0%}"])
    inside = tried.covered(name, level)
    n_values = 0
    if inside is not None:
        n_values = int(np.isfinite(inside).sum())
    told = f"Tried from {count(len(tried.origins), 'earlier time')}, "
    if not tried.beats_naive:
        told += f"errors of the models were no smaller than those of {naive}"
    elif f"{ours / theirs:.0%}" == "100%":
        told += f"errors were as large as those of {naive}"
    else:
        told += f"errors were {1 - ours / theirs:.0%} smaller than those of {naive}"
    return (
        f"{told} (MASE {number(ours)} against {number(theirs)}), and {share:.0%} of {n_values} "
        f"values lay within the {level:.0%} intervals, {tried.coverage_verdict(name, level)}."
    )


def forecast_report(
    job: Job,
    file: SeriesFile,
    model: Any,
    ahead: Any,
    tried: Backtest | None,
) -> Page:
    """Return the page."""
    figures = _figures(file, ahead)
    first: list[Any] = figures[:1]
    facts = [(str(len(ahead)), "steps ahead"), (_seasons(model), "rows of a season")]
    if tried is None:
        first.append(Note(TOO_SHORT))
    else:
        facts += _facts(tried, ahead.level)
        first.append(_accuracy(tried))
        if not tried.beats_naive:
            first.append(Note(naive_note(tried)))
    report = Report(
        title=", forecast",
        lead=f"{headline(file, len(ahead))} {summary(tried, ahead.level)}",
        facts=facts,
        story=_story(file, model),
        result=[_values(file, ahead), *figures[1:], Text(_rest(file))],
        trust=_trust(tried, ahead.level),
        imports=[
            "from regfactor import AutoForecaster",
            "from regfactor.series import regular_rows",
        ],
        code=_code(file, model, ahead, tried),
        first=Section("The forecast, and how it did on the past", first),
    )
    return report.page(job, file.seen)


def _seasons(model: Any) -> str:
    if model.season_ == 1:
        return "no"
    return " and ".join(map(str, model.seasons_))


def _facts(tried: Backtest, level: float) -> list[tuple[str, str]]:
    ours = tried.scores(tried.best)["MASE"]
    ratio = float(ours / tried.scores(tried.best_naive)["MASE"])
    share = float(tried.scores(shipped(tried))[f"coverage {level:.0%}"])
    return [
        (f"{ratio:.2f}", f"of the error of {NAIVE_WORDS[tried.best_naive]}"),
        (f"{share:.0%}", f"of past values within {level:.0%} intervals"),
    ]


def _accuracy(tried: Backtest) -> Grid:
    """Return the scores of the model and of naive forecasts."""
    columns = list(tried.scores(tried.best))
    lines = []
    for name in tried.forecasts:
        shown = NAIVE_WORDS.get(name, "this forecast")
        cells = [
            f"{value:.0%}" if column.startswith("coverage") else number(float(value))
            for column, value in tried.scores(name).items()
        ]
        lines.append((shown, *cells))
    caption = (
        f"From {count(len(tried.origins), 'earlier time')}, {count(tried.horizon, 'step')} ahead. "
        "MASE, RMSSE and pinball loss are errors in units of the usual change; smaller is better."
    )
    return Grid(("forecast", *columns), lines, caption)


def _figures(file: SeriesFile, ahead: Any) -> list[Any]:
    """Return a figure for each of the first series: its last values and its forecasts."""
    horizon = len(ahead)
    n_past = max(4 * horizon, 40)
    last = file.frame.index[-n_past:]
    future = ahead.times.future(horizon)
    if hasattr(last, "to_timestamp") and hasattr(last, "start_time"):
        last = last.to_timestamp()
        future = future.to_timestamp()
    found: list[Any] = []
    for j, name in enumerate(file.names[:MAX_DRAWN_SERIES]):
        observed = (last, file.frame.iloc[-n_past:, j].to_numpy())
        expected = (future, ahead.mean[:, j], ahead.lower[:, j], ahead.upper[:, j])
        svg = fan(observed, expected, name, ahead.level)
        found.append(Figure(svg, f"{name}: observed and forecast."))
    return found


def _values(file: SeriesFile, ahead: Any) -> Grid:
    """Return the forecasts of the first series, with their limits on demand."""
    horizon = min(len(ahead), MAX_ROWS)
    table = file.seen.table
    times = spelled(ahead.times.future(len(ahead)), file.times.form)
    names = file.names[:MAX_SHOWN_SERIES]
    lines = []
    for t in range(horizon):
        cells: list[str | GridCell] = [GridCell(str(times[t]), key=float(t))]
        for j in range(len(names)):
            value = float(ahead.mean[t, j])
            limits = spelled_limits(table, float(ahead.lower[t, j]), float(ahead.upper[t, j]))
            detail = f"{ahead.level:.0%}: {limits}"
            cells.append(filled_cell(str(table.cell(value)), detail, value))
        lines.append(cells)
    caption = "Forecasts; point at one, or go to it by the keyboard, for its limits."
    if len(ahead) > horizon or len(file.names) > len(names):
        caption += f" The first {horizon} times of {len(names)} series; the table holds all."
    return Grid((file.times.name, *names), lines, caption, looked_up=True)


def _rest(file: SeriesFile) -> str:
    more = len(file.names) - MAX_DRAWN_SERIES
    if more > 0:
        return f"{more} more series are in the table only."
    return "The table holds the same forecasts and limits in numbers."


def _story(file: SeriesFile, model: Any) -> list[Any]:
    """Return what was fitted, and what carried it."""
    explained = model.explain()
    missing = int(file.frame.isna().to_numpy().sum())
    gaps = ""
    if missing:
        gaps = (
            f" {count(missing, 'value')} of the past were missing; they were bridged by the models,"
            " not filled by guesses, and intervals are wider after them."
        )
    inputs = ""
    if model.input_names_:
        inputs = f" Inputs: {', '.join(model.input_names_)}."
    text = (
        "Many small models of exponential smoothing and autoregression were fitted to all series, "
        "weighed by how well each explained the past and forecast it, and averaged. Intervals are "
        f"calibrated on forecasts of the past.{inputs}{gaps}"
    )
    lines = [
        (report.member, f"{report.weight:.2f}", number(report.score), report.assumes)
        for report in explained.members
    ]
    head = ("models", "weight", "error of the past / naive", "what they assume")
    return [Text(text), Grid(head, lines), *(Text(told) for told in explained.sentences)]


def _trust(tried: Backtest | None, level: float) -> list[Any]:
    beyond = Text(
        "A forecast goes on as the past did: it knows nothing of a change of rules, and nothing of "
        "inputs that it was not given."
    )
    if tried is None:
        return [Note(TOO_SHORT), beyond]
    name = tried.best
    blocks: list[Any] = []
    written = shipped(tried)
    doubtful = tried.coverage_verdict(written, level) == "fewer than promised"
    told = " ".join(tried.sentences)
    blocks.append(Note(told) if doubtful or not tried.beats_naive else Text(told))
    if len(tried.names) > 1:
        ours = tried.scores(name, (0, 1))["MASE"]
        naive = tried.scores(tried.best_naive, (0, 1))["MASE"]
        rows = list(zip(tried.names, ours, naive, strict=True))[:MAX_LISTED_SERIES]
        lines = [(series, number(float(a)), number(float(b))) for series, a, b in rows]
        head = ("series", "MASE", f"of {NAIVE_WORDS[tried.best_naive]}")
        blocks.append(Grid(head, lines))
    return [*blocks, beyond]


def _code(file: SeriesFile, model: Any, ahead: Any, tried: Backtest | None) -> list[str]:
    """Return the lines of Python that give the same forecast."""
    season = repr(model.season)
    options = "" if model.calendar is None else f", calendar={model.calendar!r}"
    lines = [*_series_code(file)]
    fitted = ""
    later = ""
    if file.exog is not None:
        names = list(file.exog.columns)
        lines += [
            f"inputs = regular_rows(rows[{names!r}].groupby(level=0).first())",
            "series = series[: series.notna().any(axis=1).to_numpy().nonzero()[0][-1] + 1]",
        ]
        fitted = ", exog=inputs"
        later = ", exog=inputs"
    lines += [
        f"model = AutoForecaster({season}, horizon={len(ahead)}{options})",
        f"model.fit(series{fitted})",
        f"print(model.forecast(level={ahead.level}{later}).to_frame())",
        "print(model.explain())",
    ]
    if tried is not None and not tried.beats_naive:
        period = tried.season if tried.best_naive == SEASONAL_NAIVE else 1
        made = f"naive_forecast(series.to_numpy(float), {len(ahead)}, {period}, [{ahead.level}])"
        lines += ["from regfactor.series import naive_forecast", f"print({made}.mean)  # written"]
    return lines


def _series_code(file: SeriesFile) -> list[str]:
    """Return the lines that take the series from the frame, at regular times."""
    times = file.times
    names = file.names
    if times.is_counted:
        return [f"series = frame[{names!r}].astype(float)"]
    column = f"frame[{times.name!r}]"
    if type(file.frame.index).__name__ == "PeriodIndex":
        index = f"pd.PeriodIndex({column}.str.replace('-', ''), freq='Q')"
    elif type(file.frame.index).__name__ == "DatetimeIndex":
        form = "" if times.form is None else f", format={times.form!r}"
        index = f"pd.DatetimeIndex(pd.to_datetime({column}{form}))"
    else:
        index = f"pd.Index({column})"
    lines = [f"rows = frame.set_axis({index}, axis=0)"]
    if file.long is None:
        return [*lines, f"series = regular_rows(rows[{names!r}].astype(float))"]
    by = file.long.series
    value = file.long.value
    return [
        *lines,
        f"wide = rows.pivot(columns={by!r}, values={value!r})",
        f"series = regular_rows(wide[{names!r}])",
    ]
