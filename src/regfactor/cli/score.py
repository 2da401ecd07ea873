"""`regfactor score`: a saved model applied to new rows."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from regfactor.cli.cluster import with_clusters
from regfactor.cli.columns import forced
from regfactor.cli.complete import fill_missing, within_range
from regfactor.cli.denoise import with_views
from regfactor.cli.embed import with_codes
from regfactor.cli.encode import plain, warn_of_unseen
from regfactor.cli.errors import BadInput, count
from regfactor.cli.forecast import frame_of
from regfactor.cli.job import Job
from regfactor.cli.labeled import add_labels, predict_rows
from regfactor.cli.report_sections import notes
from regfactor.cli.tables import Table, pandas
from regfactor.cli.times import Clock, parsed_times
from regfactor.report import Code, Page, Section, Text
from regfactor.saving import UntrustedModel, load
from regfactor.series.order_selection import widened

# what reading bytes that are damaged, or made to do harm, can raise
DAMAGED = (
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)

NEEDED = {
    "complete": {"columns", "ranges"},
    "cluster": {"columns"},
    "embed": {"columns", "dimensions"},
    "label": {"columns", "target", "task", "classes", "spelled"},
    "denoise": {"columns", "views"},
    "forecast": {"columns", "horizon", "level", "time", "freq", "rows"},
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
    except UntrustedModel:
        raise
    except DAMAGED as error:
        raise BadInput(
            f"{model_path} is not a complete model file: {' '.join(str(error).split())}."
        ) from error
    info: Any = getattr(model, "regfactor_info_", None)
    if not _is_complete(info):
        raise BadInput(
            f"{model_path.name} holds a {type(model).__name__} that no command has saved; in "
            "Python, regfactor.load opens it."
        )
    job.outputs.inputs.append(model_path)
    table = job.read(path)
    job.plan(table)
    out, result = _scored(model, info, table)
    rows = len(table.raw)
    command = info["command"]
    job.console.say(f"Read {path.name}: {count(rows, 'row')}.")
    job.console.say(result)
    job.console.record |= {"model": type(model).__name__, "fitted_by": command, "result": result}
    facts = [(f"{rows:,}", "rows scored"), (command, "the command that fitted the model")]
    sections = _sections(job, model_path, path, info["columns"])
    job.finish(out, Page(f"{path.name}, scored", result, facts, sections))


def _is_complete(info: Any) -> bool:
    """Return whether a command saved all that it needs to score new rows."""
    if not isinstance(info, dict):
        return False
    needed = NEEDED.get(str(info.get("command")))
    return needed is not None and needed <= set(info) and isinstance(info["columns"], dict)


def _sections(job: Job, model_path: Path, path: Path, columns: Iterable[str]) -> list[Section]:
    done = (
        f"The model in {model_path.name} was applied to every row of {path.name} alone; it did not "
        "move, and no row depends on the others."
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


def _scored(model: Any, info: dict[str, Any], table: Table) -> tuple[Any, str]:
    """Return the table with the results of the model, and a sentence."""
    X = forced(table, info["columns"])
    command = info["command"]
    rows = count(len(X), "row")
    if command == "forecast":
        return _forecast(model, info, X, table)
    if command == "complete":
        missing = X.isna()
        completed, _ = within_range(model.complete(X), missing, info["ranges"])
        cells = count(int(missing.to_numpy().sum()), "missing cell")
        return fill_missing(table, completed, missing), f"{cells} filled in {rows}."
    if command == "denoise":
        views = [X[view].to_numpy() for view in info["views"]]
        clean = model.denoise(*views, keep=False)
        return with_views(table, info["views"], clean), f"{rows} cleaned by both views."
    if command == "embed":
        codes = model.transform(X)[:, : info["dimensions"]]
        return with_codes(table, codes), f"{rows} embedded."
    encoded = plain(X)
    warn_of_unseen(model[0], encoded)
    if command == "label":
        return _label(model, info, encoded, table)
    distances = model.transform(encoded)
    out = with_clusters(table, model.predict(encoded), distances)
    return out, f"{rows} put into clusters."


def _label(model: Any, info: dict[str, Any], rows: Any, table: Table) -> tuple[Any, str]:
    target = info["target"]
    out = table.raw.copy()
    if target in table.names:
        known = _known(out[target], table)
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
        labels = [table.cell(float(v)) for v in predicted.values]
    # a last None keeps the array one-dimensional whatever the labels are
    column.iloc[np.flatnonzero(~known)] = np.array([*labels, None], dtype=object)[:-1][~known]
    out[target] = column.infer_objects()
    add_labels(out, target, known, predicted.details(spelled), table)
    return out, f"{count(int((~known).sum()), 'row')} labeled in {target!r}."


def _known(column: Any, table: Table) -> Any:
    """Return a mask of the cells of a column that hold a value."""
    if not table.text:
        return column.notna().to_numpy()
    markers = table.reading.markers
    return np.array([str(v).strip().lower() not in markers for v in column], dtype=bool)


def _forecast(model: Any, info: dict[str, Any], X: Any, table: Table) -> tuple[Any, str]:
    pd = pandas()
    time = info["time"]
    rows = len(X)
    form = None
    if time in table.names and info["freq"] is not None:
        cells = pd.Series([str(v).strip() for v in table.raw[time]], dtype=object)
        times, form = parsed_times(cells, time, info.get("form"))
        index = times[-1:]
        if not isinstance(index, pd.PeriodIndex):
            index = pd.DatetimeIndex(index, freq=info["freq"])
    else:
        index = pd.RangeIndex(info["rows"] + 1, info["rows"] + rows + 1)
    model.update(X.to_numpy(dtype=float))
    horizon = info["horizon"]
    ahead = widened(model.forecast(horizon, level=info["level"]), info.get("widening", 1.0))
    clock = Clock(time, index, np.arange(rows), form)
    return frame_of(clock, list(info["columns"]), ahead, table), (
        f"{count(rows, 'new row')} passed through the model; {count(horizon, 'step')} ahead of "
        "them are forecast."
    )
