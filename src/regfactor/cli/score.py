"""`regfactor score`: a saved model applied to new rows."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from regfactor.cli.columns import forced
from regfactor.cli.complete import fill, within_range
from regfactor.cli.encode import plain, warn_of_unseen
from regfactor.cli.errors import BadInput, count
from regfactor.cli.forecast import frame_of
from regfactor.cli.job import Job, free_name, pandas
from regfactor.cli.report_sections import notes
from regfactor.cli.tables import Table
from regfactor.cli.times import Clock, parsed_times
from regfactor.report import Code, Page, Section, Text
from regfactor.saving import UntrustedModel, load
from regfactor.series.backtest import widened

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
    "label": {"columns", "target", "task", "classes", "center", "scale", "half_width", "spelled"},
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
    info = getattr(model, "regfactor_info_", None)
    info = info if isinstance(info, dict) else {}
    command = str(info.get("command"))
    if (
        command not in NEEDED
        or not NEEDED[command] <= set(info)
        or not isinstance(info["columns"], dict)
    ):
        raise BadInput(
            f"{model_path.name} holds a {type(model).__name__} that no command has saved; in "
            "Python, regfactor.load opens it."
        )
    job.outputs.inputs.append(model_path)
    table = job.read(path)
    out, said = _scored(command, model, info, table)
    job.console.say(f"Read {path.name}: {count(len(table.raw), 'row')}.")
    job.console.say(said)
    job.console.record |= {"model": type(model).__name__, "fitted_by": command, "result": said}
    job.finish(out, _page(job, (model_path, path), command, info, (said, len(table.raw))))


def _page(
    job: Job, paths: tuple[Path, Path], command: str, info: dict[str, Any], result: tuple[str, int]
) -> Page:
    (model_path, path) = paths
    (said, rows) = result
    done = (
        f"The model in {model_path.name} was applied to every row of {path.name} alone; it did not "
        "move, and no row depends on the others."
    )
    data = (
        f"The columns {', '.join(info['columns'])} were read as they were when the model was "
        "fitted; others were carried along."
    )
    trust = "As far as the report of the fit states, and only for rows like those it was fitted to."
    code = f"import regfactor\n\nmodel = regfactor.load({str(model_path)!r})"
    sections = [
        Section("What was done", [Text(done), *notes(job)]),
        Section("The data as understood", [Text(data)]),
        Section("How far to trust it", [Text(trust)]),
        Section(
            "Repeat it", [Code(job.command_line, "On the command line:"), Code(code, "In Python:")]
        ),
    ]
    facts = [(f"{rows:,}", "rows scored"), (command, "the command that fitted the model")]
    return Page(f"{path.name}, scored", said, facts, sections)


def _scored(command: str, model: Any, info: dict[str, Any], table: Table) -> tuple[Any, str]:
    """Return the table with the results of the model, and a sentence."""
    if command == "forecast":
        return _forecast(model, info, table)
    X = forced(table, info["columns"])
    out = table.raw.copy()
    names = list(out.columns)
    if command == "complete":
        return _complete(model, info, X, out, table)
    if command == "label":
        return _label(model, info, X, out, table)
    if command == "denoise":
        first, second = info["views"]
        for columns, Z in zip(
            (first, second), model.denoise(X[first].to_numpy(), X[second].to_numpy()), strict=True
        ):
            for name, column in zip(columns, Z.T, strict=True):
                out[name] = out[name] if table.text else out[name].astype(float)
                fill(out, name, np.arange(len(column)), column, table)
        return out, f"{count(len(out), 'row')} cleaned by both views."
    if command == "embed":
        codes = np.asarray(model.transform(X))[:, : info["dimensions"]]
        for j, column in enumerate(codes.T):
            out[free_name(f"code_{j + 1}", names)] = table.column(column)
        return out, f"{count(len(out), 'row')} embedded."
    rows = plain(X)
    warn_of_unseen(model[0], rows)
    labels = model.predict(rows)
    distances = np.asarray(model.transform(rows))
    out[free_name("cluster", names)] = labels + 1
    out[free_name("cluster_distance", names)] = table.column(distances[np.arange(len(out)), labels])
    return out, f"{count(len(out), 'row')} put into clusters."


def _complete(model: Any, info: dict[str, Any], X: Any, out: Any, table: Table) -> tuple[Any, str]:
    missing = X.isna()
    completed, _ = within_range(model.complete(X), missing, info["ranges"])
    for name in X.columns:
        at = np.flatnonzero(missing[name].to_numpy())
        if len(at):
            fill(out, name, at, completed[name].iloc[at], table)
    return out, (
        f"{count(int(missing.to_numpy().sum()), 'missing cell')} filled in "
        f"{count(len(out), 'row')}."
    )


def _label(model: Any, info: dict[str, Any], X: Any, out: Any, table: Table) -> tuple[Any, str]:
    target = info["target"]
    rows = plain(X)
    warn_of_unseen(model[0], rows)
    if target in out.columns:
        known = _known(out[target], table)
    else:
        known = np.zeros(len(out), bool)
    if target in out.columns:
        column = out[target].astype(object)
    else:
        column = pandas().Series([None] * len(out), dtype=object)
    extra: dict[str, Any] = {}
    if info["task"] == "classification":
        P = model.predict_proba(rows)
        spelled = dict(zip(info["classes"], info["spelled"], strict=True))
        names = [spelled[str(model.classes_[j])] for j in P.argmax(axis=1)]
        said = np.array([str(v) if table.text else v for v in names] + [None], dtype=object)[:-1]
        extra["probability"] = P.max(axis=1)
    else:
        values = model.predict(rows) * info["scale"] + info["center"]
        said = np.array([table.cell(float(v)) for v in values], dtype=object)
        if info["half_width"] is not None:
            extra |= {"lower": values - info["half_width"], "upper": values + info["half_width"]}
    column.iloc[np.flatnonzero(~known)] = said[~known]
    out[target] = column.infer_objects()
    names = list(out.columns)
    out[free_name(f"{target}_given", names)] = known
    for end, values in extra.items():
        out[free_name(f"{target}_{end}", names)] = [
            None if k else table.cell(float(v)) for v, k in zip(values, known, strict=True)
        ]
    return out, f"{count(int((~known).sum()), 'row')} labeled in {target!r}."


def _known(column: Any, table: Table) -> Any:
    """Return a mask of the cells of a column that hold a value."""
    if not table.text:
        return column.notna().to_numpy()
    return np.array(
        [str(v).strip().lower() not in table.reading.markers for v in column], dtype=bool
    )


def _forecast(model: Any, info: dict[str, Any], table: Table) -> tuple[Any, str]:
    pd = pandas()
    X = forced(table, info["columns"])
    time = info["time"]
    rows = len(X)
    if time in table.names and info["freq"] is not None:
        parsed, form = parsed_times(
            pd.Series([str(v).strip() for v in table.raw[time]], dtype=object),
            time,
            info.get("form"),
        )
        last = parsed[-1:]
        if isinstance(last, pd.PeriodIndex):
            index = last
        else:
            index = pd.DatetimeIndex(last, freq=info["freq"])
    else:
        form = None
        index = pd.RangeIndex(info["rows"] + 1, info["rows"] + rows + 1)
    model.update(X.to_numpy(dtype=float))
    ahead = widened(model.forecast(info["horizon"], level=info["level"]), info.get("widening", 1.0))
    out = frame_of(Clock(time, index, np.arange(rows), form), list(info["columns"]), ahead, table)
    return (
        out,
        f"{count(rows, 'new row')} passed through the model; {count(info['horizon'], 'step')} "
        "ahead of them are forecast.",
    )
