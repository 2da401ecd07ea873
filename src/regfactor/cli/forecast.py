"""`regfactor forecast`: several series together, with intervals that were evaluated on the past."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from regfactor.cli.columns import CATEGORY, FLAG, NUMBER, TEXT, TIMES, Understood
from regfactor.cli.errors import BadInput, count, listed
from regfactor.cli.job import Job
from regfactor.cli.report_sections import Report, gap_fact
from regfactor.cli.tables import Table, free_name, pandas
from regfactor.cli.times import Clock, clock_of
from regfactor.core.params import Array
from regfactor.report import Figure, Grid, Note, Text, number
from regfactor.report.figures import fan
from regfactor.series.order_selection import (
    MIN_FITTED_ROWS,
    BacktestChoice,
    Evaluation,
    Orders,
    arma_candidates,
    choose_candidate,
    evaluate_candidate,
    widened,
)

MAX_DRAWN_SERIES = 6


def run(
    job: Job,
    path: Path,
    horizon: int,
    level: float,
    time: str | None,
    *given: int | None,
) -> None:
    """Forecast a series, and write it with a report; `given` are its `Orders`."""
    if not 0 < level < 1:
        raise BadInput(f"--level must lie between 0 and 1, not {level:g}.")
    table = job.read(path)
    job.plan(table)
    seen = job.understand(table, show=False)
    clock = clock_of(job, seen, time)
    others = {n: "no number" for n in seen.of_kind(CATEGORY, TEXT)}
    seen = seen.without({**others, clock.name: TIMES})
    job.show_columns(seen)
    names, X = _values(job, seen, clock)
    if len(X) < MIN_FITTED_ROWS:
        raise BadInput(
            f"{path.name} has {len(X)} rows; a forecast needs at least {MIN_FITTED_ROWS}."
        )
    if horizon > 10 * len(X):
        raise BadInput(
            f"--horizon is {horizon}, more than ten times the {len(X)} rows that are known."
        )
    orders = Orders(*given)
    season = clock.season if orders.season is None else orders.season
    with job.console.progress("comparing models on the past"):
        compared = _compared(job, orders, season, X, horizon, level)
        tried = evaluate_candidate(compared, X, horizon, level, season)
    model = _fitted(job, compared, X)
    ahead = widened(model.forecast(horizon, level=level), compared.widening)
    evaluation = _sentence(tried, level, names)
    lead = (
        f"{len(names)} series forecast {count(horizon, 'step')} ahead, from {count(len(X), 'row')}."
        f" {evaluation}"
    )
    certificate = str(model.certificate_)
    chosen = _chosen(compared, model)
    job.console.say(lead)
    job.console.say(chosen)
    job.console.say(certificate)
    job.console.record |= {
        "series": names,
        "horizon": horizon,
        "level": level,
        "p": model.p_,
        "q": model.q_,
        "d": model.d_,
        "season": season,
        "radius": model.radius_,
        "certificate": certificate,
        "widening": compared.widening,
        "compared": {str(c): error for c, error in compared.errors.items()},
        "tried": None if tried is None else _record(tried),
    }
    facts = [
        (str(horizon), "steps ahead"),
        (f"{model.p_} and {model.q_}", "lags of values and of shocks"),
    ]
    if tried is not None:
        facts.append((f"{tried.coverage:.0%}", f"of past values within {level:.0%} intervals"))
    report = Report(
        title=", forecast",
        lead=lead,
        facts=[*facts, gap_fact(model)],
        story=[Text(_story(model, chosen, compared.widening, X)), *_choice(compared)],
        result=_result(clock, names, X, ahead),
        trust=_trust(tried, evaluation, names, model.p_, level),
        imports=["from regfactor import RegularizedARMA"],
        code=[
            *_sorting_code(clock, seen.table),
            f"model = RegularizedARMA(p={model.p_}, d={model.d_}, season=1, shrinkage=0.1, "
            "ridge=1e-3)",
            f"model.fit(frame[{names!r}].to_numpy(dtype=float))",
            f"ahead = model.forecast({horizon}, level={level})",
            f"half = {compared.widening!r} * (ahead.upper - ahead.mean)",
            "print(ahead.mean, ahead.mean - half, ahead.mean + half)",
            "print(model.certificate_)",
        ],
        model=model,
    )
    info = {
        "columns": dict.fromkeys(names, NUMBER),
        "horizon": horizon,
        "level": level,
        "time": clock.name,
        "form": clock.form,
        "freq": getattr(clock.index, "freqstr", None),
        "rows": len(X),
        "widening": compared.widening,
    }
    job.finish(frame_of(clock, names, ahead, seen.table), report.page(job, seen), model, info)


def _record(tried: Evaluation) -> dict[str, Any]:
    return {
        "cells": tried.n_values,
        "within": tried.coverage,
        "error": tried.errors,
        "simple": tried.naive_errors,
        "against": tried.naive,
    }


def _values(job: Job, seen: Understood, clock: Clock) -> tuple[list[str], Array]:
    """Return the names and the values of the series at each time."""
    names = [n for n in seen.of_kind(NUMBER, FLAG) if n != clock.name]
    still = [n for n in names if seen.frame[n].nunique() < 2]
    if still:
        job.console.note(f"Left out, since they never change: {', '.join(still)}.")
    names = [n for n in names if n not in still]
    if not names:
        raise BadInput(
            f"{seen.table.path.name} has no column of numbers that changes, so there is nothing to "
            "forecast."
        )
    values = seen.frame[names].to_numpy(dtype=float, na_value=np.nan)
    X = values[clock.order]
    X[np.asarray(clock.order) < 0] = np.nan
    return names, X


def _compared(
    job: Job,
    orders: Orders,
    season: int | None,
    X: Array,
    horizon: int,
    level: float,
) -> BacktestChoice:
    """Choose the orders that were not given by backtests; note what cannot be fitted."""
    most = len(X) // 2
    if orders.lags is not None and orders.lags > most:
        raise BadInput(f"--lags is {orders.lags}; {count(len(X), 'row')} allow {most} at most.")
    compared = choose_candidate(arma_candidates(orders, season, X.shape), X, horizon, level)
    open_ = orders.lags is None and orders.season is not None and orders.season > 1
    if open_ and not any(c.season for c in compared.errors):
        job.console.note(
            f"{count(len(X), 'row')} of {X.shape[1]} series are too few to fit a season of "
            f"{orders.season} rows, so that none was compared."
        )
    return compared


def _fitted(job: Job, compared: BacktestChoice, X: Array) -> Any:
    """Return the model that was taken, fitted to all rows.

    Note in terms of this command where it was damped.
    """
    model = compared.best.model()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The autoregression has spectral radius")
        job.fit("fitting", model, X)
    if model.scaled_:
        remedy = ""
        if not compared.errors and not model.d_:
            remedy = " --difference 1 forecasts changes in place of values."
        job.console.note(f"Undamped, the model would grow without bound, so it was damped.{remedy}")
    return model


def _chosen(compared: BacktestChoice, model: Any) -> str:
    """Return which model was chosen, and among how many."""
    found = f" ({model.p_})" if compared.best.lags is None else ""
    among = ""
    if compared.errors:
        among = f", the lowest backtest error of {len(compared.errors)} models on earlier rows"
    return f"Taken: {compared.best}{found}{among}."


def _sentence(tried: Evaluation | None, level: float, names: list[str]) -> str:
    if tried is None:
        return "The series is too short to try forecasts on its past."
    gain = 1 - float(np.mean(tried.errors / np.maximum(tried.naive_errors, 1e-300)))
    better = f"{gain:.0%} smaller than" if gain > 0 else f"{-gain:.0%} larger than"
    average = ", on average over the series" if len(names) > 1 else ""
    promised = ", fewer than promised" if tried.coverage < level else ""
    return (
        f"Tried on the end of the series, {tried.coverage:.0%} of {tried.n_values} values lay "
        f"within the {level:.0%} intervals{promised}, and errors were {better} those of "
        f"{tried.naive}{average}.{_worse(tried, names)}"
    )


def _worse(tried: Evaluation, names: list[str]) -> str:
    """Return the series of several that the naive forecast predicts as well or better."""
    worse = [
        f"{name} ({number(a)} against {number(b)})"
        for name, a, b in zip(names, tried.errors, tried.naive_errors, strict=True)
        if a >= b
    ]
    if worse and len(names) > 1:
        return f" They were no smaller for {listed(worse, 5)}."
    return ""


def frame_of(clock: Clock, names: list[str], ahead: Any, table: Table) -> Any:
    """Return forecasts as a table: the time, the means, the limits."""
    index = clock.ahead(len(ahead))
    out: dict[str, Any] = {clock.name: _spelled(index, clock.form) if table.text else index}
    for j, name in enumerate(names):
        for end, values in (("", ahead.mean), ("_lower", ahead.lower), ("_upper", ahead.upper)):
            out[free_name(f"{name}{end}", list(out))] = table.column(values[:, j])
    return pandas().DataFrame(out)


def _spelled(index: Any, form: str | None) -> list[str]:
    """Return times as text, in the form of the table; days without their midnight."""
    if form is not None and hasattr(index, "strftime"):
        return list(index.strftime(form))
    words = [str(t) for t in index]
    if all(w.endswith(" 00:00:00") for w in words):
        return [w.removesuffix(" 00:00:00") for w in words]
    return words


def _story(model: Any, chosen: str, widening: float, X: Array) -> str:
    wider = ""
    if widening > 1:
        wider = f", and by a factor of {number(widening)} more, as errors on earlier rows asked for"
    missing = int(np.isnan(X).sum())
    filled = ""
    if missing:
        filled = f" Filled on the way: {count(missing, 'missing value')} of the past."
    return (
        "All series were forecast together, each from the past of all, by a vector autoregression "
        f"with a moving average of {count(model.q_, 'lag')}, solved as one convex problem. "
        f"{chosen} Intervals are those of Gaussian shocks, widened for what is not known of the "
        f"coefficients{wider}.{filled}"
    )


def _result(clock: Clock, names: list[str], X: Array, ahead: Any) -> list[Any]:
    """Return a figure for each of the first series: its last values and its forecasts."""
    blocks: list[Any] = []
    horizon = len(ahead)
    last = clock.index[-max(4 * horizon, 40) :]
    future = clock.ahead(horizon)
    if isinstance(last, pandas().PeriodIndex):
        last = last.to_timestamp()
        future = future.to_timestamp()
    for j, name in enumerate(names[:MAX_DRAWN_SERIES]):
        observed = (last, X[-len(last) :, j])
        expected = (future, ahead.mean[:, j], ahead.lower[:, j], ahead.upper[:, j])
        svg = fan(observed, expected, name, ahead.level)
        blocks.append(Figure(svg, f"{name}: observed and forecast."))
    if len(names) > MAX_DRAWN_SERIES:
        blocks.append(Text(f"{len(names) - MAX_DRAWN_SERIES} more series are in the table only."))
    return blocks


def _trust(
    tried: Evaluation | None,
    evaluation: str,
    names: list[str],
    lags: int,
    level: float,
) -> list[Any]:
    horizon = Text(
        "A forecast goes on as the past did: it knows nothing of a change of rules. It looks "
        f"back {count(lags, 'step')}, and sees no season that is longer."
    )
    if tried is None:
        return [Text(evaluation), horizon]
    doubtful = tried.coverage < level or bool(np.any(tried.errors >= tried.naive_errors))
    lines = [
        (n, number(a), number(b))
        for n, a, b in zip(names[:30], tried.errors, tried.naive_errors, strict=False)
    ]
    errors = Grid(("series", "mean error", f"of {tried.naive}"), lines)
    return [Note(evaluation) if doubtful else Text(evaluation), errors, horizon]


def _choice(compared: BacktestChoice) -> list[Any]:
    """Return the errors of all models that were compared, the smallest first."""
    if not compared.errors:
        return []
    errors = compared.errors
    lines = [(str(c), number(errors[c])) for c in sorted(errors, key=lambda c: errors[c])]
    return [
        Text(
            "Models were compared by forecasts from earlier times, before the end of the series "
            "on which the one taken was tried. Errors are in standard deviations of the series."
        ),
        Grid(("model", "mean error on earlier rows"), lines),
    ]


def _sorting_code(clock: Clock, table: Table) -> list[str]:
    """Return the line that puts rows in the order of their times, where a column holds them."""
    if clock.name not in table.names:
        return []
    key = ""
    # quarters are in order as they are spelled
    if clock.form is not None and "%q" not in clock.form:
        key = f", key=lambda t: pd.to_datetime(t, format={clock.form!r})"
    return [f"frame = frame.sort_values({clock.name!r}{key})"]
