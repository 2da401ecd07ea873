"""Sections that every report has: the data as understood, the certificate, how to repeat it."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np

from regfactor.cli.code import wrapped
from regfactor.cli.columns import CATEGORY, FLAG, NUMBER, TIMES, Understood
from regfactor.cli.errors import count
from regfactor.cli.job import Job
from regfactor.cli.reading import is_plain, read_table_code
from regfactor.core.params import frozen
from regfactor.fitting.explanation import Explanation
from regfactor.report import Code, Figure, Grid, Note, Page, Section, Text, at_most, number
from regfactor.report.figures import convergence

MOST_COLUMNS = 40
DTYPES = {FLAG: "boolean", CATEGORY: "category", NUMBER: "float"}


@frozen
class Report:
    """The parts of a report that differ from command to command.

    `model` is None where none was fitted; `code` are the lines of Python after those that read the
    table, and `imports` the lines before them.
    """

    title: str
    lead: str
    facts: list[tuple[str, str]]
    story: list[Any]
    result: list[Any]
    trust: list[Any]
    imports: list[str]
    code: list[str]
    model: Any = None
    about_data: str = ""
    after_result: Section | None = None
    first: Section | None = None

    def page(self, job: Job, seen: Understood) -> Page:
        """Return the page, with the sections that all reports share."""
        sections = [] if self.first is None else [self.first]
        sections += [
            Section("What was done", [*self.story, *notes(job)]),
            data_section(seen, self.about_data),
            Section("The result", self.result),
        ]
        if self.after_result is not None:
            sections.append(self.after_result)
        if self.trust:
            sections.append(Section("How far to trust it", self.trust))
        if self.model is not None:
            sections.append(certificate_section(self.model))
        sections.append(repeat_section(job, python_code(seen, self.imports, self.code)))
        return Page(f"{seen.table.name}{self.title}", self.lead, self.facts, sections)


def members_section(explanation: Explanation) -> Section:
    """Return which members carried an average, and what was found on the way."""
    lines = [
        (report.member, f"{report.weight:.0%}", number(report.score), report.assumes)
        for report in explanation.members
    ]
    head = ("model", "weight", "score", "what it assumes")
    text = f"The score is the {explanation.score_name}. {' '.join(explanation.sentences)}"
    return Section("Which models carried the result", [Grid(head, lines), Text(text)])


def python_code(seen: Understood, imports: list[str], lines: list[str]) -> str:
    """Return a program that imports what it needs, reads the table and goes on with some lines."""
    start = ["import numpy as np", "import pandas as pd", *imports, ""]
    return "\n".join([*start, reading_code(seen), *lines])


def typed_code(seen: Understood, variable: str) -> str:
    """Return the line that takes the inputs from the frame in their types."""
    dtypes = {name: DTYPES[kind] for name, kind in seen.kinds.items()}
    return f"{variable} = frame[{list(dtypes)!r}].astype({dtypes!r})"


def data_section(seen: Understood, more: str = "") -> Section:
    """Return how the table was read, column by column."""
    rows = len(seen.frame)
    lines = [
        (
            c.name,
            c.kind if c.used else c.why if c.why == TIMES else f"ignored: {c.why}",
            f"{c.missing / rows:.0%}" if c.missing else "–",
        )
        for c in seen.columns
        if c.name != seen.target
    ]
    text = f"{seen.table.name} has {count(rows, 'row')} and {count(len(seen.columns), 'column')}."
    blocks: list[Any] = [
        Text(f"{text} {more}".strip()),
        Grid(("column", "read as", "missing"), lines[:MOST_COLUMNS]),
    ]
    if len(lines) > MOST_COLUMNS:
        blocks.append(Text(f"{len(lines) - MOST_COLUMNS} more columns are not listed."))
    if seen.table.text:
        blocks.append(Text("Another reading? --ignore, --use and --missing change it."))
    return Section("The data as understood", blocks)


def certificate_section(model: Any) -> Section:
    """Return what is proven of a fit, in plain words."""
    certificate = getattr(model, "certificate_", None)
    if certificate is None:
        return Section("Is it the best fit?", [Text(_without_certificate(model))])
    blocks: list[Any] = [
        Text(plain_certificate(model)),
        Text(
            "That is a proof about the optimization, not about the world: it does not say that "
            "the model suits the data. For that, see how far to trust it."
        ),
        Text(f"In numbers: {certificate}"),
    ]
    gaps = [
        (r.n_iter, (r.objective - r.bound) / max(abs(r.objective), certificate.floor, 1e-300))
        for r in model.history_
        if np.isfinite(r.bound)
    ]
    gaps = [(n, g) for n, g in gaps if g > 0]
    if len(gaps) > 2:
        blocks.append(
            Figure(
                convergence(*zip(*gaps, strict=True)),
                "How the gap to the global optimum closed.",
            )
        )
    return Section("Is it the best fit?", blocks)


def _without_certificate(model: Any) -> str:
    name = type(model).__name__
    if type(model).__module__.startswith("sklearn."):
        return (
            f"{name} is a convex problem, which scikit-learn solves to its own tolerance: no other "
            "start would give another result. It comes without a certificate."
        )
    return (
        f"{name} is solved by local search: there is no proof that no better solution of the same "
        "problem exists. Other seeds (--seed) show how much hangs on the start."
    )


def plain_certificate(model: Any) -> str:
    """Return the certificate as a sentence for people."""
    share = max(float(model.relative_gap_), 0.0)
    if model.certificate_.rigorous:
        proof = "proven by a matrix factorization"
    else:
        proof = "by an iterative, inflated bound"
    best = (
        "no other solution of the same problem, of any rank, can be better by more than "
        f"{at_most(share)} of its cost ({proof})."
    )
    if not model.status_.converged:
        return f"Not quite: {model.status_.message}. Still, {best}"
    return f"Yes: {best}"


def gap_fact(model: Any) -> tuple[str, str]:
    """Return how far a fit is from the best one, as a key number of a report."""
    return f"≤ {at_most(float(model.relative_gap_))}", "from the best possible fit"


def repeat_section(job: Job, code: str) -> Section:
    """Return the command and the Python code that give the same result."""
    return Section(
        "Repeat it",
        [
            Code(job.command_line, "On the command line:"),
            Code(wrapped(code.strip()), "In Python:"),
            Text(
                f"With regfactor {version('regfactor')} and scikit-learn "
                f"{version('scikit-learn')}, seed {job.settings.seed}."
            ),
        ],
    )


def notes(job: Job) -> list[Any]:
    """Return the notes of the run."""
    return [Note(text) for text in job.console.notes]


def reading_code(seen: Understood) -> str:
    """Return the lines that read the table in Python."""
    path = seen.table.path
    lower = path.name.lower()
    if lower.endswith(".parquet"):
        return f"frame = pd.read_parquet({str(path)!r})"
    if lower.endswith(".feather"):
        return f"frame = pd.read_feather({str(path)!r})"
    if lower.endswith(".npz") and seen.table.reading.absent is None:
        return (
            f"with np.load({str(path)!r}) as arrays:\n    X = arrays['X' if 'X' in arrays else "
            "arrays.files[0]]\n    frame = pd.DataFrame(X, columns=[f'x{j}' for j in "
            "range(X.shape[1])])\n    frame = "
            "frame.assign(**{k: v for k, v in arrays.items() if v.shape == (len(X),)})"
        )
    if not seen.table.text or not is_plain(seen):
        return read_table_code(seen)
    reading = seen.table.reading
    options = ""
    options += f", sep={seen.table.separator!r}" if seen.table.separator != "," else ""
    options += ", decimal=','" if seen.table.decimal == "," else ""
    options += "" if reading.header else ", header=None, names=" + repr(seen.table.names)
    options += f", na_values={['?', *reading.missing]!r}"
    return f"frame = pd.read_csv({str(path)!r}{options}, skipinitialspace=True)"
