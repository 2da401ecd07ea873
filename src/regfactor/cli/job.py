"""The frame of every command: shared options, planned files, collected warnings, exit codes."""

from __future__ import annotations

import contextlib
import io
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regfactor.cli.checks import mark_of_missing
from regfactor.cli.columns import NUMBER, Understood, Wishes, understand
from regfactor.cli.console import DEFAULT_TOL, Console, is_piped
from regfactor.cli.errors import (
    BAD_INPUT,
    DONE,
    INTERRUPTED,
    NOT_CONVERGED,
    NOT_WRITTEN,
    BadInput,
    NotWritten,
    count,
    listed,
)
from regfactor.cli.number_formats import parse_cell
from regfactor.cli.outputs import RENAMED, Outputs
from regfactor.cli.tables import STDIN, Reading, Table, pandas, read
from regfactor.fitting.fallback import fit_or_default
from regfactor.report.page import Page
from regfactor.saving import DamagedModel, UntrustedModel, save

# a warning that counts rows from zero; notes count them from one
EMPTY_ROWS = r"\d+ rows? ha(s|ve) no observed entry"
READS_TEXT = ("label", "cluster")
READS_TIMES = ("forecast",)
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # first signs that spreadsheets take for formulas


@dataclass(frozen=True)
class Settings:
    """The options that all commands share."""

    out: Path | None = None
    force: bool = False
    json: bool = False
    verbose: bool = False
    save: Path | None = None
    ignore: tuple[str, ...] = ()
    use: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    encoding: str | None = None
    header: bool = True
    header_rows: int | None = None
    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    skip: int = 0
    skip_last: int | None = None
    sheet: str | None = None
    absent: str | None = None
    format: str | None = None
    seed: int = 0

    def reading(self, hint: str = "") -> Reading:
        """Return the options of reading a file."""
        return Reading(
            encoding=self.encoding,
            header=self.header,
            missing=self.missing,
            present=self.present,
            decimal=self.decimal,
            thousands=self.thousands,
            delimiter=self.delimiter,
            header_rows=self.header_rows,
            skip=self.skip,
            skip_last=self.skip_last,
            sheet=self.sheet,
            absent=self.absent,
            hint=hint,
        )


@dataclass
class Job:
    """One run of a command."""

    command: str
    settings: Settings
    console: Console
    outputs: Outputs
    converged: bool = True
    separator: str = ","  # of a text file that is written
    files: dict[str, Path] = field(default_factory=dict)
    table: Table | None = None  # the one that was read
    units: dict[str, str] = field(default_factory=dict)  # of its columns

    def read(self, path: Path, hint: str = "") -> Table:
        """Read the table of the command; `hint` is the decimal mark of an earlier file."""
        table = read(path, self.settings.reading(hint))
        self.table = table
        if path != STDIN:
            self.outputs.inputs.append(path)
        for note in table.notes:
            self.console.note(note)
        self.console.record |= {"command": self.command, "input": str(path), "rows": len(table.raw)}
        return table

    def plan(self, table: Table) -> None:
        """Plan the files of `finish`; raise, before any work, if one cannot be written."""
        s = self.settings
        ending = s.format or ("parquet" if table.columnar else "csv")
        if ending not in ("csv", "parquet"):
            raise BadInput(f"--format is csv or parquet, not {ending!r}.")
        self.separator = table.separator
        folder = table.path.parent if s.out is None else s.out
        to_stdout = s.out == STDIN or (s.out is None and table.path == STDIN)
        # with a folder for the files, a program that reads along wants the sentences
        piped = s.out is None and is_piped()
        self.console.for_table = not s.json and (to_stdout or piped)
        if not to_stdout:
            stem = f"{table.stem}.{self.command}"
            self.files["table"] = self.outputs.plan(folder / f"{stem}.{ending}")
            self.files["report"] = self.outputs.plan(folder / f"{stem}.html")
        if s.save is not None:
            self.files["model"] = self.outputs.plan(s.save, RENAMED)

    def understand(self, table: Table, target: str | None = None, show: bool = True) -> Understood:
        """Determine the kinds of the columns, and print them."""
        s = self.settings
        reads = self.command in READS_TEXT, self.command in READS_TIMES
        seen = understand(table, Wishes(target, s.text, s.ignore, s.use, *reads))
        if show:
            self.show_columns(seen)
        return seen

    def show_columns(self, seen: Understood, target: str | None = None) -> None:
        """Print the kinds of the columns, and the target."""
        rows = len(seen.frame)
        table = seen.table
        self.console.say(
            f"Read {table.name}{table.spelled_out}: {count(rows, 'row')}, "
            f"{count(len(table.names), 'column')}."
        )
        for note in seen.notes():
            self.console.note(note)
        self.units = {name: column.unit for name, column in seen.read.items() if column.unit}
        lines = seen.lines()
        if target:
            lines.append(("target", target))
        self.console.lines(lines)
        for name in seen.of_kind(NUMBER):
            mark = mark_of_missing(seen.frame[name].to_numpy())
            if mark is not None:
                self.console.note(
                    f"{mark[0]} occurs {mark[1]} times in column {name!r}, far from all its other "
                    f"numbers; if it marks missing cells, add --missing {mark[0]}."
                )
        self.console.record["columns"] = {
            c.name: {"kind": c.kind, "missing": c.missing, "ignored": c.why or None}
            for c in seen.columns
        }

    def finish(
        self,
        frame: Any,
        page: Page,
        model: Any = None,
        info: dict[str, Any] | None = None,
    ) -> None:
        """Write the table, the report and the model, all or none, and print where they are."""
        if "table" in self.files:
            table = self.files["table"]
            is_parquet = table.suffix == ".parquet"
            if not is_parquet:
                self._note_formulas(frame)
            self.outputs.write(
                table,
                lambda p: write_frame(frame, p, is_parquet, self.separator),
            )
        if "report" in self.files:
            text = page.html()
            self.outputs.write(
                self.files["report"],
                lambda path: path.write_text(text, encoding="utf-8"),
            )
        if "model" in self.files and model is not None:
            model.regfactor_info_ = {
                "command": self.command,
                "decimal": "" if self.table is None else self.table.decimal,
                "units": self.units,
                **(info or {}),
            }
            self.outputs.write(self.files["model"], lambda p: save(model, p))
        self.outputs.commit()
        self.console.record["outputs"] = {name: str(path) for name, path in self.files.items()}
        if self.console.for_table:
            spelled = io.StringIO()
            write_frame(frame, spelled, False, self.separator)
            self.console.out(spelled.getvalue())
        for path in self.files.values():
            self.console.say(f"Wrote {path}")

    def _note_formulas(self, frame: Any) -> None:
        """Report cells of text that a spreadsheet would take for formulas."""
        n_cells = 0
        for name in frame.columns:
            if frame[name].dtype.kind == "O":
                starts = {v for v in frame[name] if isinstance(v, str) and v[:1] in FORMULA}
                risky = {v for v in starts if len(v) > 1 and parse_cell(v) is None}
                n_cells += sum(v in risky for v in frame[name]) if risky else 0
        if n_cells:
            self.console.note(
                f"{count(n_cells, 'cell')} of text begin with =, +, - or @, and were copied as "
                "they are: a spreadsheet that opens the CSV file may run them as formulas."
            )

    def fit(self, what: str, model: Any, *data: Any, **known: Any) -> Any:
        """Fit a model under a progress bar; whether it converged decides the exit code."""
        # rows of a series are times, not the file's
        empty = [] if self.command in READS_TIMES else _empty_rows(data)
        if empty:
            if len(empty) == 1:
                held = f"Row {empty[0]} holds"
            else:
                held = f"{len(empty):,} rows hold"
            which = "" if len(empty) == 1 else f" ({listed(empty, 5)})"
            self.console.note(f"{held} no value{which}; nothing can be learned there.")
        tol = getattr(model, "tol", DEFAULT_TOL)
        with self.console.progress(what, tol) as report, warnings.catch_warnings():
            warnings.filterwarnings("ignore", EMPTY_ROWS)
            why = fit_or_default(model.set_params(callback=report), *data, **known)
        if why:
            self.console.note(f"{why} to choose the strength of the smoothing by; it was set to 1.")
        model.set_params(callback=None)
        self.converged &= model.status_.converged
        certificate = getattr(model, "certificate_", None)
        if certificate is not None:
            self.console.detail(f"Certificate: {certificate}")
        return model

    @property
    def command_line(self) -> str:
        """The command as it was typed."""
        if self.command in sys.argv[1:]:
            return "regfactor " + shlex.join(sys.argv[1:])
        return f"regfactor {self.command}"


@contextlib.contextmanager
def running(command: str, settings: Settings) -> Iterator[Job]:
    """Run a command; every way in which it can end has its exit code, raised as SystemExit."""
    console = Console(settings.json, settings.verbose)
    outputs = Outputs(settings.force)
    job = Job(command, settings, console, outputs)
    code = DONE
    try:
        with _warnings_as_notes(job), _signals_as_exceptions():
            yield job
        code = DONE if job.converged else NOT_CONVERGED
        console.finish(code)
        if console.lost and console.lost != "closed":
            code = NOT_WRITTEN
            console.error(
                f"standard output cannot be written ({console.lost}); {_what(outputs)}.", code
            )
    except (KeyboardInterrupt, Stopped) as stop:
        code = getattr(stop, "code", INTERRUPTED)
        console.error(f"interrupted; {_what(outputs)}.", code)
    except (BadInput, UntrustedModel, DamagedModel) as error:
        code = BAD_INPUT
        console.error(str(error), code)
    except NotWritten as error:
        code = NOT_WRITTEN
        console.error(str(error), code)
    except OSError as error:
        if outputs.committed:
            raise
        code = NOT_WRITTEN
        where = "" if error.filename is None else f" ({error.filename})"
        console.error(f"{error.strerror or error}{where}; nothing was written.", code)
    except MemoryError:
        code = BAD_INPUT
        console.error("the table is too large for the memory of this computer.", code)
    except ValueError as error:  # an estimator's own words: what was wrong, where, and what to do
        if not _of_an_estimator(error):
            raise
        code = BAD_INPUT
        console.error(" ".join(str(error).split()), code)
    finally:
        outputs.discard()
    raise SystemExit(code)


class Stopped(BaseException):
    """A signal asked the process to end."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@contextlib.contextmanager
def _signals_as_exceptions() -> Iterator[None]:
    """Let signals that end a process raise, so that temporary files go first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise Stopped(128 + number)

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), stop) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _what(outputs: Outputs) -> str:
    """Return what became of the files."""
    if outputs.committed:
        return "all files were written"
    return "nothing was written"


def _of_an_estimator(error: BaseException) -> bool:
    """Return whether an error was raised by a check of this package, not by a dependency."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
    else:
        module = ""
    return module.startswith("regfactor.") and not module.startswith(
        ("regfactor.cli", "regfactor.report")
    )


@contextlib.contextmanager
def _warnings_as_notes(job: Job) -> Iterator[None]:
    """Turn warnings into notes."""

    def show(message: Any, category: Any, *args: Any, **kwargs: Any) -> None:
        if issubclass(category, UserWarning):  # scikit-learn's ConvergenceWarning is one
            job.console.note(" ".join(str(message).split()))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield


def write_frame(frame: Any, path: Any, parquet: bool, separator: str = ",") -> None:
    """Write a table whose missing cells are empty."""
    if parquet:
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, sep=separator, index=False, encoding="utf-8", lineterminator="\n")


def _empty_rows(data: Sequence[Any]) -> list[int]:
    """Return the rows that hold no value in any of the tables, counted from one as in the file."""
    tables = [pandas().DataFrame(X) for X in data if not hasattr(X, "tocsr")]
    empty = [X.index[X.isna().to_numpy().all(axis=1)] for X in tables]
    if empty:
        return sorted(int(i) + 1 for i in set(empty[0]).intersection(*empty[1:]))
    return []


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Ignore warnings of trial fits; those of the final fit are shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
