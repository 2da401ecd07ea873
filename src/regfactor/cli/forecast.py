"""`regfactor forecast`: several series together, with intervals that were evaluated on the past."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from regfactor.cli.columns import CATEGORY, FLAG, NUMBER, TEXT, TIMES, Understood
from regfactor.cli.errors import BadInput, count, listed
from regfactor.cli.job import Job, free_name, pandas
from regfactor.cli.report_sections import (
    certificate_section,
    data_section,
    gap_fact,
    notes,
    reading_code,
    repeat_section,
)
from regfactor.cli.tables import Table
from regfactor.cli.times import Clock, clock_of
from regfactor.core.params import Array
from regfactor.report import Figure, Grid, Note, Page, Section, Text, number
from regfactor.report.figures import fan
from regfactor.series.backtest import (
    MIN_FITTED_ROWS,
    BacktestChoice,
    Evaluation,
    Orders,
    arma_candidates,
    choose_candidate,
    evaluate_candidate,
    widened,
)

SHOWN = 6  # series that are drawn


def run(
    job: Job,
    path: Path,
    horizon: int,
    level: float,
    time: str | None,
    given: tuple[int | None, ...],
) -> None:
    """Forecast a series, and write it with a report."""
    if not 0 < level < 1:
        raise BadInput(f"--level must lie between 0 and 1, not {level:g}.")
    seen = job.understand(job.read(path), tell=False)
    clock = clock_of(job, seen, time)
    others = {n: "no number" for n in seen.of_kind(CATEGORY, TEXT)}
    seen = seen.without({**others, clock.name: TIMES})
    job.tell(seen)
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
        compared = _compared(job, orders, season, X, (horizon, level))
        tried = evaluate_candidate(compared, X, horizon, level, season)
    model = _fitted(job, compared, X)
    ahead = widened(model.forecast(horizon, level=level), compared.widening)
    ahead_of = (
        f"{len(names)} series forecast {count(horizon, 'step')} ahead, from {count(len(X), 'row')}."
    )
    lead = f"{ahead_of} {_sentence(tried, level, names)}"
    job.console.say(lead)
    job.console.say(_taken(compared, model))
    job.console.say(str(model.certificate_))
    job.console.record |= {
        "series": names,
        "horizon": horizon,
        "level": level,
        "p": model.p_,
        "q": model.q_,
        "d": model.d,
        "season": season,
        "radius": model.radius_,
        "certificate": str(model.certificate_),
        "widening": compared.widening,
        "compared": {str(c): error for c, error in compared.errors.items()},
        "tried": None if tried is None else _record(tried),
    }
    out = frame_of(clock, names, ahead, seen.table)
    page = _page(job, seen, (model, compared), clock, (names, X, ahead), (lead, tried, level))
    freq = getattr(clock.index, "freqstr", None)
    info = {
        "columns": {n: NUMBER for n in names},
        "horizon": horizon,
        "level": level,
        "time": clock.name,
        "form": clock.form,
        "freq": freq,
        "rows": len(X),
        "widening": compared.widening,
    }
    job.finish(out, page, model, info)


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
    job: Job, orders: Orders, season: int | None, X: Array, asked: tuple[int, float]
) -> BacktestChoice:
    """Choose the orders that were not given by backtests; note what cannot be fitted."""
    most = len(X) // 2
    if orders.lags is not None and orders.lags > most:
        raise BadInput(f"--lags is {orders.lags}; {count(len(X), 'row')} allow {most} at most.")
    compared = choose_candidate(arma_candidates(orders, season, X.shape), X, *asked)
    open_ = orders.lags is None and orders.season is not None and orders.season > 1
    if open_ and not any(c.season for c in compared.errors):
        job.console.note(
            f"{count(len(X), 'row')} of {X.shape[1]} series are too few to fit a season of "
            f"{orders.season} rows, so that none was compared."
        )
    return compared


def _fitted(job: Job, compared: BacktestChoice, X: Array) -> Any:
    """Return the model that was taken, fitted to all rows.

    Say in terms of this command where it was damped.
    """
    model = compared.best.model()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The autoregression has spectral radius")
        job.fit("fitting", model, X)
    if model.scaled_:
        if compared.errors or model.d:
            remedy = ""
        else:
            remedy = " --difference 1 forecasts changes in place of values."
        job.console.note(f"Undamped, the model would grow without bound, so it was damped.{remedy}")
    return model


def _taken(compared: BacktestChoice, model: Any) -> str:
    """Return which model was chosen, and among how many."""
    found = f" ({model.p_})" if compared.best.lags is None else ""
    if compared.errors:
        among = f", the lowest backtest error of {len(compared.errors)} models on earlier rows"
    else:
        among = ""
    return f"Taken: {compared.best}{found}{among}."


def _gain(tried: Evaluation) -> float:
    """Return by which share errors are smaller than those of the simple forecast."""
    return 1 - float(np.mean(tried.errors / np.maximum(tried.naive_errors, 1e-300)))


def _sentence(tried: Evaluation | None, level: float, names: list[str]) -> str:
    if tried is None:
        return "The series is too short to try forecasts on its past."
    gain = _gain(tried)
    if gain > 0:
        better = f"{gain:.0%} smaller than"
    else:
        better = f"{-gain:.0%} larger than"
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


def _doubtful(tried: Evaluation, level: float) -> bool:
    """Return whether intervals covered too little, or errors were not below the naive ones."""
    return tried.coverage < level or bool(np.any(tried.errors >= tried.naive_errors))


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


def _page(
    job: Job,
    seen: Understood,
    taken: tuple[Any, BacktestChoice],
    clock: Clock,
    what: tuple[list[str], Array, Any],
    said: tuple[str, Evaluation | None, float],
) -> Page:
    (model, compared) = taken
    (names, X, ahead) = what
    (lead, tried, level) = said
    facts = [
        (str(len(ahead)), "steps ahead"),
        (f"{model.p_} and {model.q_}", "lags of values and of shocks"),
    ]
    if tried is not None:
        facts.append((f"{tried.coverage:.0%}", f"of past values within {level:.0%} intervals"))
    facts.append(gap_fact(model))
    story = (
        "All series were forecast together, each from the past of all, by a vector autoregression "
        f"with a moving average of {count(model.q_, 'lag')}, solved as one convex problem. "
        f"{_taken(compared, model)} Intervals are those of Gaussian shocks, widened for what is "
        f"not known of the coefficients{_wider(compared)}."
    )
    if np.isnan(X).any():
        story += (
            f" Filled on the way: {count(int(np.isnan(X).sum()), 'missing value')} of the past."
        )
    result: list[Any] = [
        Figure(_drawn(clock, X[:, j], ahead, j, name, level), f"{name}: observed and forecast.")
        for j, name in enumerate(names[:SHOWN])
    ]
    if len(names) > SHOWN:
        result.append(Text(f"{len(names) - SHOWN} more series are in the table only."))
    trust: list[Any] = [
        (Note if tried is not None and _doubtful(tried, level) else Text)(
            _sentence(tried, level, names)
        )
    ]
    if tried is not None:
        lines = [
            (n, number(a), number(b))
            for n, a, b in zip(names[:30], tried.errors, tried.naive_errors, strict=False)
        ]
        trust.append(Grid(("series", "mean error", f"of {tried.naive}"), lines))
    trust.append(
        Text(
            "A forecast goes on as the past did: it knows nothing of a change of rules. It looks "
            f"back {count(model.p_, 'step')}, and sees no season that is longer."
        )
    )
    sections = [
        Section("What was done", [Text(story), *_choice(compared), *notes(job)]),
        data_section(seen),
        Section("The result", result),
        certificate_section(model),
        Section("How far to trust it", trust),
        repeat_section(job, _code(seen, names, (model, ahead, compared.widening), clock)),
    ]
    return Page(f"{seen.table.path.name}, forecast", lead, facts, sections)


def _wider(compared: BacktestChoice) -> str:
    """Return by how much intervals were widened after errors on earlier rows.

    Nothing where they held enough.
    """
    factor = compared.widening
    if factor > 1:
        return f", and by a factor of {number(factor)} more, as errors on earlier rows asked for"
    return ""


def _choice(compared: BacktestChoice) -> list[Any]:
    """Return the errors of all models that were compared, the smallest first."""
    if not compared.errors:
        return []
    lines = [
        (str(c), number(e)) for c, e in sorted(compared.errors.items(), key=lambda item: item[1])
    ]
    return [
        Text(
            "Models were compared by forecasts from earlier times, before the end of the series "
            "on which the one taken was tried. Errors are in standard deviations of the series."
        ),
        Grid(("model", "mean error on earlier rows"), lines),
    ]


def _drawn(clock: Clock, seen: Array, ahead: Any, j: int, name: str, level: float) -> str:
    pd = pandas()
    h = len(ahead)
    last = clock.index[-max(4 * h, 40) :]
    future = clock.ahead(h)
    if isinstance(last, pd.PeriodIndex):
        last = last.to_timestamp()
        future = future.to_timestamp()
    return fan(
        (last, seen[-len(last) :]),
        (future, ahead.mean[:, j], ahead.lower[:, j], ahead.upper[:, j]),
        name,
        level,
    )


def _code(seen: Understood, names: list[str], made: tuple[Any, Any, float], clock: Clock) -> str:
    model, ahead, widening = made
    lines = [
        "import numpy as np",
        "import pandas as pd",
        "from regfactor import RegularizedARMA",
        "",
        reading_code(seen),
    ]
    if clock.name in seen.table.names:
        # quarters are in order as they are spelled
        dated = clock.form is not None and "%q" not in clock.form
        if dated:
            key = f", key=lambda t: pd.to_datetime(t, format={clock.form!r})"
        else:
            key = ""
        lines.append(f"frame = frame.sort_values({clock.name!r}{key})")
    return "\n".join(
        [
            *lines,
            f"model = RegularizedARMA(p={model.p_}, d={model.d})",
            f"model.fit(frame[{names!r}].to_numpy(dtype=float))",
            f"ahead = model.forecast({len(ahead)}, level={ahead.level})",
            f"half = {widening!r} * (ahead.upper - ahead.mean)",
            "print(ahead.mean, ahead.mean - half, ahead.mean + half)",
            "print(model.certificate_)",
        ]
    )
