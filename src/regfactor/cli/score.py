"""`regfactor score`: a saved model applied to new rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from regfactor.cli.cluster_report import with_distances, with_probabilities
from regfactor.cli.columns import NewRows, new_rows, read_cells
from regfactor.cli.complete import CellLimits, fill_missing, with_whole_numbers
from regfactor.cli.denoise import with_views
from regfactor.cli.embed import with_codes
from regfactor.cli.encode import plain, warn_of_unseen
from regfactor.cli.errors import BadInput, count
from regfactor.cli.forecast import table_of
from regfactor.cli.job import Job
from regfactor.cli.labeled import add_labels, predict_rows
from regfactor.cli.limit_cells import limit_frames
from regfactor.cli.report_sections import notes
from regfactor.cli.series_file import LongColumns, series_names
from regfactor.cli.tables import Table, add_columns, pandas
from regfactor.cli.times import parsed_times
from regfactor.clusters.auto_mixture import AutoMixture
from regfactor.report import Code, Page, Section, Text
from regfactor.saving import load

NEEDED = {
    "complete": {"columns", "whole", "level"},
    "cluster": {"columns"},
    "embed": {"columns", "dimensions"},
    "label": {"columns", "target", "task", "classes", "spelled"},
    "denoise": {"columns", "views"},
    "forecast": {"columns", "names", "horizon", "level", "time", "long", "inputs", "counted"},
}


def run(job: Job, model_path: Path, path: Path) -> None:
    """Score new rows, and write them with a report."""
    if not model_path.is_file():
        raise BadInput(
            f"There is no model {model_path}; `--save MODEL.skops` of another command writes one."
        )
    try:
        model = load(model_path)
    except OSError as error:
        raise BadInput(f"{model_path} cannot be read: {error.strerror or error}.") from error
    info: Any = getattr(model, "regfactor_info_", None)
    if not _is_complete(info):
        raise BadInput(
            f"{model_path.name} holds a {type(model).__name__} that no command has saved; in "
            "Python, regfactor.load opens it."
        )
    job.outputs.inputs.append(model_path)
    table = job.read(path, hint=str(info.get("decimal", "")))
    job.plan(table)
    new = new_rows(table, info["columns"], units=info.get("units"))
    for note in new.notes:
        job.console.note(note)
    out, result = _scored(model, info, table, new)
    rows = len(table.raw)
    command = info["command"]
    job.console.say(f"Read {table.name}: {count(rows, 'row')}.")
    job.console.say(result)
    job.console.record |= {"model": type(model).__name__, "fitted_by": command, "result": result}
    facts = [(f"{rows:,}", "rows scored"), (command, "the command that fitted the model")]
    sections = _sections(job, model_path, table, info["columns"])
    job.finish(out, Page(f"{table.name}, scored", result, facts, sections))


def _is_complete(info: Any) -> bool:
    """Return whether a command saved all that it needs to score new rows."""
    if not isinstance(info, dict):
        return False
    needed = NEEDED.get(str(info.get("command")))
    return needed is not None and needed <= set(info) and isinstance(info["columns"], dict)


def _sections(job: Job, model_path: Path, table: Table, columns: Iterable[str]) -> list[Section]:
    done = (
        f"The model in {model_path.name} was applied to every row of {table.name} alone; it did "
        "not move, and no row depends on the others."
    )
    data = (
        f"The columns {', '.join(columns)} were read as they were when the model was "
        "fitted; others were carried along."
    )
    trust = "As far as the report of the fit states, and only for rows like those it was fitted to."
    code = f"import regfactor\n\nmodel = regfactor.load({str(model_path)!r})"
    return [
        Section("What was done", [Text(done), *notes(job)]),
        Section("The data as understood", [Text(data)]),
        Section("How far to trust it", [Text(trust)]),
        Section(
            "Repeat it",
            [Code(job.command_line, "On the command line:"), Code(code, "In Python:")],
        ),
    ]


def _scored(model: Any, info: dict[str, Any], table: Table, new: NewRows) -> tuple[Any, str]:
    """Return the table with the results of the model, and a sentence."""
    X = new.frame
    command = info["command"]
    rows = count(len(X), "row")
    if command == "forecast":
        return _forecast(model, info, X, table)
    if command == "complete":
        missing = new.missing
        typed = with_whole_numbers(X, info["whole"])
        ends: dict[str, Any] = {}
        if new.limits:
            lower, upper = limit_frames(X, new.limits)
            ends = {"lower": lower, "upper": upper}
            missing |= lower.notna() | upper.notna()
        out = fill_missing(table, model.complete(typed, **ends), missing)
        if info["level"] is not None:
            limits = CellLimits.of(model, typed, info["level"], **ends)
            out = add_columns(out, limits.columns(table, missing))
        cells = count(int(missing.to_numpy().sum()), "missing cell")
        return out, f"{cells} filled in {rows}."
    if command == "denoise":
        views = [X[view].to_numpy() for view in info["views"]]
        clean = model.denoise(*views, keep=False)
        return with_views(table, info["views"], clean), f"{rows} cleaned by both views."
    if command == "embed":
        codes = model.transform(X)[:, : info["dimensions"]]
        return with_codes(table, codes), f"{rows} embedded."
    if command == "cluster" and isinstance(model, AutoMixture):
        out = with_probabilities(table, model.predict_proba(X))
        return out, f"{rows} put into clusters."
    encoded = plain(X)
    warn_of_unseen(model[0], encoded)
    if command == "label":
        return _label(model, info, encoded, table)
    distances = model.transform(encoded)
    out = with_distances(table, model.predict(encoded), distances)
    return out, f"{rows} put into clusters."


def _label(model: Any, info: dict[str, Any], rows: Any, table: Table) -> tuple[Any, str]:
    target = info["target"]
    out = table.raw.copy()
    if target in table.names:
        known = read_cells(table, target).cells.notna().to_numpy()
        column = out[target].astype(object)
    else:
        known = np.zeros(len(out), bool)
        column = pandas().Series([None] * len(out), dtype=object)
    predicted = predict_rows(model[-1], model[:-1].transform(rows))
    spelled = dict(zip(info["classes"], info["spelled"], strict=True))
    if info["task"] == "classification":
        names = [spelled[name] for name in predicted.values]
        labels = [str(v) if table.text else v for v in names]
    else:
        named = target if target in table.names else None
        labels = [table.cell(float(v), named) for v in predicted.values]
    # a last None keeps the array one-dimensional whatever the labels are
    column.iloc[np.flatnonzero(~known)] = np.array([*labels, None], dtype=object)[:-1][~known]
    out[target] = column.infer_objects()
    add_labels(out, target, known, predicted.details(spelled), table)
    return out, f"{count(int((~known).sum()), 'row')} labeled in {target!r}."


def _forecast(model: Any, info: dict[str, Any], X: Any, table: Table) -> tuple[Any, str]:
    """Let new rows pass through a model, and forecast what follows them.

    Rows at the end that hold inputs alone are those of the forecast.
    """
    time = info["time"]
    form = info.get("form")
    long = None
    if info["long"] is not None:
        long = LongColumns(*info["long"])
    rows = X
    if not info["counted"]:
        table.place(time, "time column")
        cells = pandas().Series([str(v).strip() for v in table.raw[time]], dtype=object)
        if not table.text:
            cells = table.raw[time]
        index, form = parsed_times(_as_whole_numbers(cells), time, form)
        rows = X.set_axis(index, axis=0)
    if long is None:
        series = rows[info["names"]]
    else:
        rows = rows.assign(**{long.series: series_names(table, long.series)})
        series = _pivoted(rows, long, info["names"])
    horizon = info["horizon"]
    inputs = None
    future = None
    if info["inputs"]:
        known = np.flatnonzero(series.notna().any(axis=1).to_numpy())
        n_known = 0
        if len(known):
            n_known = int(known[-1]) + 1
        every = rows[info["inputs"]].groupby(level=0).first()
        series = series.iloc[:n_known]
        inputs = every.iloc[:n_known]
        future = every.iloc[n_known:]
        horizon = len(future)
        if horizon == 0:
            raise BadInput(
                f"The model has the inputs {', '.join(info['inputs'])}; add rows with their values "
                "alone, one for each time to be forecast."
            )
    if len(series):
        model.update(series.astype(float), exog=inputs)
    ahead = model.forecast(horizon, exog=future, level=info["level"])
    return table_of(time, form, long, ahead, table), (
        f"{count(len(series), 'new row')} passed through the model; {count(horizon, 'step')} ahead "
        "of them are forecast."
    )


def _as_whole_numbers(cells: Any) -> Any:
    """Return cells as whole numbers where all are."""
    words = cells.astype(str)
    if words.str.fullmatch(r"\d+").all():
        return words.astype(int)
    return cells


def _pivoted(rows: Any, long: LongColumns, names: list[str]) -> Any:
    """Return a column for each series of a long table."""
    wide = rows.pivot(columns=long.series, values=long.value)
    unknown = [name for name in wide.columns if name not in names]
    if unknown:
        raise BadInput(f"Series {unknown[0]!r} was not in the fit; leave it out, or fit again.")
    return wide.reindex(columns=names)
