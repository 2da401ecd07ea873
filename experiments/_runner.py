"""Run the cells of an experiment, keep each at once, go on after a kill.

An experiment is a file of this package with a variable EXPERIMENT. It names its cells, small JSON
descriptions; each is computed alone, in any process, and kept under its description. What was kept
is not computed again.
"""

from __future__ import annotations

import abc
import contextlib
import importlib
import importlib.metadata
import json
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

PACKAGE = "experiments"
QUICK_SPLITS = 2
CODE = ("src", PACKAGE, ":!*/results/*")  # what results depend on, as git's paths
CLOCK = "CPU"  # of the seconds of a cell; earlier runs, which do not say it, kept wall time
EVERY = 2.0  # seconds between two lines of progress
Cell = dict[str, Any]
Record = dict[str, Any]  # cell, seconds, run, and result or error


@dataclass(frozen=True)
class Plan:
    """How much is run; the rest is settled by the experiment."""

    splits: int | None = None
    quick: bool = False

    def n_splits(self, usual: int) -> int:
        """Return how many splits to run of a data set that usually has some number."""
        return self.splits or (min(QUICK_SPLITS, usual) if self.quick else usual)

    def folder(self, results: Path) -> Path:
        """Return where results are kept: those of a quick run apart."""
        return results / "quick" if self.quick else results


class Experiment(abc.ABC):
    """One table or figure of a paper."""

    title: str
    twins: Sequence[
        str
    ] = ()  # experiments in which a cell of the same description is the same computation

    @abc.abstractmethod
    def cells(self, done: dict[str, Record], plan: Plan) -> list[Cell]:
        """Return all cells that are wanted, given what is done: a second stage may build on the first."""

    @abc.abstractmethod
    def run(self, cell: Cell) -> Any:
        """Compute a cell; the result is written as JSON."""

    @abc.abstractmethod
    def summary(self, done: dict[str, Record], plan: Plan) -> list[dict[str, Any]]:
        """Return the rows of the table: ours (mean, standard error, n) next to the paper's."""

    @abc.abstractmethod
    def report(self, summary: list[dict[str, Any]]) -> str:
        """Return the rows as Markdown."""

    def draw(self, summary: list[dict[str, Any]], folder: Path) -> list[Path]:
        """Draw figures into the folder of the results and return their paths.

        Most experiments have none.
        """
        return []


def names(package: str = PACKAGE) -> list[str]:
    """Every file without a leading underscore is an experiment: aistats_1.py aistats-1, thesis_f5_1.py thesis-f5.1."""
    (folder,) = importlib.import_module(package).__path__
    return sorted(_name(path.stem) for path in Path(folder).glob("[!_]*.py"))


def find(name: str, package: str = PACKAGE) -> Experiment:
    """Return an experiment by its name; an unknown one is answered with the nearest."""
    if name not in names(package):
        # not above: what only runs cells starts faster without
        from regfactor.core.params import (
            choose,
        )

        choose(name, dict.fromkeys(names(package), ""), "experiment")
    module = name.replace("-", "_").replace(".", "_")
    return importlib.import_module(f"{package}.{module}").EXPERIMENT


def _name(stem: str) -> str:
    head, _, rest = stem.partition("_")
    return f"{head}-{rest.replace('_', '.')}" if rest else head


def key(cell: Cell) -> str:
    """Return the description under which a cell is kept."""
    return json.dumps(cell, sort_keys=True)


class Store:
    """Finished cells: NAME.json, and while a run lasts NAME.partial.jsonl, one line for each cell that came since."""

    def __init__(self, folder: Path, name: str) -> None:
        self.whole, self.partial = folder / f"{name}.json", folder / f"{name}.partial.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        self.records: dict[str, Record] = {}
        self.runs: list[dict[str, Any]] = []
        if self.whole.exists():
            kept = json.loads(self.whole.read_text(encoding="utf-8"))
            self.runs, self.records = (
                kept["runs"],
                {key(record["cell"]): record for record in kept["cells"]},
            )
        since = self.partial.read_text(encoding="utf-8") if self.partial.exists() else ""
        for line in since.splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # a line that a kill cut off
                self._take(json.loads(line))
        if since and not since.endswith("\n"):
            self._append("\n")

    def _take(self, entry: dict[str, Any]) -> None:
        if "cell" in entry:
            self.records[key(entry["cell"])] = entry
        else:
            self.runs.append(entry)

    def add(self, entry: dict[str, Any]) -> None:
        """Keep a run or a record, at once."""
        self._take(entry)
        self._append(json.dumps(entry) + "\n")

    def borrow(self, other: Store, cells: list[Cell]) -> None:
        """Take over what another experiment has of some cells, with the runs that computed it."""
        places: dict[int, int] = {}
        for record in [
            other.records[key(cell)]
            for cell in cells
            if "result" in other.records.get(key(cell), {})
        ]:
            if record["run"] not in places:
                places[record["run"]] = len(self.runs)
                self.add(other.runs[record["run"]])
            self.add({**record, "run": places[record["run"]]})

    def _append(self, text: str) -> None:
        with self.partial.open("a", encoding="utf-8") as file:
            file.write(text)

    def finish(self, **head: Any) -> None:
        """Write everything into one file, whole or not at all, one line for each cell."""
        lines = [
            f"{json.dumps(name)}: {json.dumps(value)}"
            for name, value in {**head, "runs": self.runs}.items()
        ]
        cells = ",\n".join(json.dumps(self.records[k]) for k in sorted(self.records))
        replace_text(self.whole, "{\n" + ",\n".join([*lines, f'"cells": [\n{cells}\n]']) + "\n}\n")
        self.partial.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)


def run(
    name: str,
    plan: Plan,
    folder: Path,
    *,
    jobs: int = 1,
    redo: str | None = None,
    only: str | None = None,
    package: str = PACKAGE,
) -> tuple[Path, int]:
    """Compute what is missing of an experiment, or only cells in whose description a text occurs.

    Return the path of its Markdown and the number of failed cells. The Markdown is written when no
    cell is missing any more.
    """
    experiment = find(name, package)
    folder = plan.folder(folder)
    store = Store(folder, name)
    number, tried = None, set[str]()
    while pending := _selected(_pending(experiment, store, plan, folder, tried, redo), only):
        if number is None:  # a run that has something to do
            number = len(store.runs)
            started = time.strftime("%Y-%m-%d %H:%M")
            store.add(
                {
                    "started": started,
                    "jobs": jobs,
                    "plan": asdict(plan),
                    "versions": versions(),
                    "commit": commit(),
                    "clock": CLOCK,
                }
            )
        with progress(name, len(pending)) as tick:
            for record in computed(name, pending, jobs, package):
                store.add({**record, "run": number})
                tick(record)
        tried |= {key(cell) for cell in pending}
    report = folder / f"{name}.md"
    keys = [key(cell) for cell in experiment.cells(store.records, plan)]
    if missing := sum(k not in store.records for k in keys):
        print(f"{name}: {missing} of {len(keys)} cells are missing yet", file=sys.stderr)
        return report, 0
    wanted = {k: store.records[k] for k in keys}
    summary = experiment.summary(wanted, plan)
    store.finish(id=name, title=experiment.title, summary=summary)
    failures = [record for record in wanted.values() if "error" in record]
    figures = [f"![{path.stem}]({path.name})" for path in experiment.draw(summary, folder)]
    tables = experiment.report(summary)
    markdown = [
        f"# {name}: {experiment.title}",
        tables,
        *figures,
        *_failed(failures),
        _footer(store, wanted),
    ]
    replace_text(report, "\n\n".join(markdown) + "\n")
    return report, len(failures)


@dataclass(frozen=True)
class Estimate:
    """What a run would compute."""

    cells: int
    seconds: float | None  # of one core; None where no cell of the experiment was ever timed

    def __str__(self) -> str:
        if not self.cells:
            return "nothing to compute"
        if self.seconds is None:
            return f"{self.cells} cells, never timed"
        return f"{self.cells} cells, about {self.seconds / 3600:.2f} CPU hours"


def estimate(
    name: str,
    plan: Plan,
    folder: Path,
    *,
    redo: str | None = None,
    only: str | None = None,
    package: str = PACKAGE,
) -> Estimate:
    """Return how many cells are missing, and what they take, by the time of the kept ones.

    A cell takes what those of the same data and method took in the mean, or else what all took. A
    second stage that builds on the first is not foreseen.
    """
    experiment = find(name, package)
    folder = plan.folder(folder)
    store = Store(folder, name)
    cells = experiment.cells(store.records, plan)
    pending = _selected([cell for cell in cells if _open(cell, store, set(), redo)], only)
    if redo is None:
        twins = [Store(folder, twin).records for twin in experiment.twins]
        pending = [cell for cell in pending if not any(key(cell) in kept for kept in twins)]
    timed: dict[str, list[float]] = {}
    for record in store.records.values():
        for group in ("", _kind(record["cell"])):
            timed.setdefault(group, []).append(record["seconds"])
    if not timed:
        return Estimate(len(pending), None)
    means = {group: sum(seconds) / len(seconds) for group, seconds in timed.items()}
    seconds = sum(means.get(_kind(cell), means[""]) for cell in pending)
    return Estimate(len(pending), seconds)


def _kind(cell: Cell) -> str:
    """Return what cells have in common that take about the same time: all texts of the description."""
    return json.dumps({k: v for k, v in cell.items() if isinstance(v, str)}, sort_keys=True)


def _pending(
    experiment: Experiment,
    store: Store,
    plan: Plan,
    folder: Path,
    tried: set[str],
    redo: str | None,
) -> list[Cell]:
    """Return the cells to compute, after what a twin has computed is taken over."""
    while pending := [
        c for c in experiment.cells(store.records, plan) if _open(c, store, tried, redo)
    ]:
        known = len(store.records)
        for twin in experiment.twins if redo is None else ():
            store.borrow(Store(folder, twin), [c for c in pending if key(c) not in store.records])
        if len(store.records) == known:
            break
    return pending


def _selected(cells: list[Cell], only: str | None) -> list[Cell]:
    """Return the cells in whose description a text occurs."""
    return [cell for cell in cells if only is None or only in key(cell)]


def _open(cell: Cell, store: Store, tried: set[str], redo: str | None) -> bool:
    """Whether a cell is still to be computed: failed ones are tried again, but once in a run."""
    k = key(cell)
    if k in tried:
        return False
    return k not in store.records or "error" in store.records[k] or (redo is not None and redo in k)


def computed(name: str, cells: list[Cell], jobs: int, package: str = PACKAGE) -> Iterator[Record]:
    """Yield the record of each cell as it is finished, from this process or from several."""
    if jobs == 1:
        with threadpool_limits(1):
            yield from (compute(name, cell, package) for cell in cells)
        return
    spawn = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, spawn, initializer=_begin)
    try:
        waiting = [pool.submit(compute, name, cell, package) for cell in cells]
        yield from (future.result() for future in as_completed(waiting))
    except (
        BaseException
    ):  # interrupted, or a worker died: what is running is given up, what is finished is kept
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def compute(name: str, cell: Cell, package: str = PACKAGE) -> Record:
    """Compute one cell; an exception becomes part of the record, and of the report."""
    started = time.process_time()  # not that of the clock: other programs may run, too
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            outcome = {"result": find(name, package).run(cell)}
            json.dumps(outcome, allow_nan=False)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            outcome = {"error": f"{type(error).__name__}: {error} ({where})"}
    record = {"cell": cell, "seconds": round(time.process_time() - started, 3), **outcome}
    counts = Counter(warning.category.__name__ for warning in seen)
    return {**record, "warnings": dict(counts)} if counts else record


def _begin() -> None:
    """Make a process of the pool a good worker: one BLAS thread, the parent handles Ctrl-C, and none outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(1)
    parent = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


@contextlib.contextmanager
def progress(name: str, total: int) -> Iterator[Any]:
    """Say now and then on stderr how far it is."""
    started, said, count = time.monotonic(), [time.monotonic()], [0]

    def tick(record: Record) -> None:
        count[0] += 1
        now = time.monotonic()
        if now - said[0] > EVERY:
            left = (now - started) / count[0] * (total - count[0])
            print(f"{name}: {count[0]} of {total} cells, about {left:.0f} s left", file=sys.stderr)
            said[0] = now

    yield tick


def versions() -> dict[str, str]:
    """Return what the numbers were computed with."""
    packages = ("regfactor", "numpy", "scipy", "scikit-learn")
    return {
        "python": platform.python_version(),
        **{p: importlib.metadata.version(p) for p in packages},
    }


def commit() -> str | None:
    """Return the commit of the checkout, with "+" where files differ from it; None outside git."""
    head = _git("rev-parse", "--short=12", "HEAD")
    if head is None:
        return None
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", *CODE)
    return f"{head}+" if changed else head


def computed_with(known: str | None) -> str:
    """Return a sentence on the commit of a result, and on the code since then."""
    if known is None:
        return "computed before commits were kept"
    whole = known.rstrip("+")
    names = _git("diff", "--name-only", whole, "--", *CODE)
    if names is None:
        return f"computed with commit {known}, which is not in this checkout"
    if names:
        number = len(names.splitlines())
        return f"computed with commit {known}; {number} files of code have changed since"
    if known != whole:
        return f"computed with changes that were not in commit {whole}"
    return f"computed with commit {known}, this code"


def standing(name: str, folder: Path) -> str:
    """Return what is kept of an experiment, and whether the code has changed since."""
    store = Store(folder, name)
    if not store.records:
        return "not computed"
    used = sorted({record["run"] for record in store.records.values()})
    commits = dict.fromkeys(store.runs[i].get("commit") for i in used)
    return "; ".join(computed_with(known) for known in commits)


def _git(*words: str) -> str | None:
    """Return what git prints of the checkout; None where there is no git or no such commit."""
    checkout = Path(__file__).parents[1]
    try:
        done = subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _failed(records: list[Record]) -> list[str]:
    if not records:
        return []
    lines = [f"- `{key(record['cell'])}`: {record['error']}" for record in records[:20]]
    more = [f"- and {len(records) - 20} more"] if len(records) > 20 else []
    return [f"**{len(records)} cells failed:**", "\n".join([*lines, *more])]


def _footer(store: Store, wanted: dict[str, Record]) -> str:
    used = sorted({record["run"] for record in wanted.values()})
    stacks = dict.fromkeys(
        ", ".join(f"{k} {v}" for k, v in store.runs[i]["versions"].items()) for i in used
    )
    seconds = sum(record["seconds"] for record in wanted.values())
    total = sum((Counter(record.get("warnings", {})) for record in wanted.values()), Counter())
    noted = "; ".join(f"{count} {name}" for name, count in sorted(total.items()))
    commits = dict.fromkeys(store.runs[i].get("commit") or "not kept" for i in used)
    if all(store.runs[i].get("clock") == CLOCK for i in used):
        unit = "CPU seconds"
    else:
        unit = "s"
    sentences = [
        f"{len(wanted)} cells, {seconds:.0f} {unit} in all, one thread each.",
        f"{'; '.join(stacks)}.",
        f"Commit: {', '.join(commits)}.",
    ]
    if noted:
        sentences.append(f"Warnings: {noted}.")
    return " ".join(sentences)
