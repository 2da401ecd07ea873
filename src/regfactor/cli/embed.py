"""`regfactor embed`: a few numbers for every row, missing cells allowed, from a certified fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from regfactor.cli.columns import CATEGORY, FLAG, NUMBER, Understood
from regfactor.cli.encode import FAMILY_LOSSES, varied
from regfactor.cli.errors import BadInput, count, listed
from regfactor.cli.job import Job
from regfactor.cli.outliers import fitted_rows, outlier_code, without_outliers
from regfactor.cli.report_sections import Report, gap_fact, typed_code
from regfactor.cli.tables import Table
from regfactor.cli.weak_spots import of_patterns
from regfactor.core.params import Array
from regfactor.report import Figure, Grid, Note, Text
from regfactor.report.figures import bars, cloud
from regfactor.tables.subspace import ConvexSubspace

TRUST = (
    "Codes are shrunk toward zero, the more the fewer cells a row has. Patterns of similar "
    "strength can turn into each other when rows are added; their plane is steadier than each "
    "of them."
)


def run(job: Job, path: Path, dimensions: int, family: str) -> None:
    """Embed the rows of a table, and write them with a report."""
    if family not in FAMILY_LOSSES:
        raise BadInput(f"--family {family!r} must be one of {listed(list(FAMILY_LOSSES))}.")
    loss = FAMILY_LOSSES[family]
    table = job.read(path)
    job.plan(table)
    seen = job.understand(table)
    seen.require(2, "embed")
    X = seen.data
    if X.isna().to_numpy().all():
        raise BadInput(f"{table.name} has no observed cell.")
    if not varied(seen).inputs:
        raise BadInput(
            f"All columns of {table.name} are constant: there is nothing to embed rows by."
        )
    _require_family(seen, family)
    X, wrong = without_outliers(job, seen)
    rows = fitted_rows(job, X)
    model = ConvexSubspace(loss=loss, alpha="auto", random_state=job.settings.seed)
    job.fit("finding patterns", model, X.iloc[rows])
    codes = model.transform(X)[:, :dimensions]
    rank = model.codes_.shape[1]
    shares = _shares(model)
    if rank:
        lead = (
            f"Each of {count(len(X), 'row')} has {codes.shape[1]} of {count(rank, 'pattern')}, "
            f"with {shares[:dimensions].sum():.0%} of the strength of all."
        )
        lacking = (
            f"The columns share {count(rank, 'pattern')} only, so that each row has {rank} "
            f"numbers, not {dimensions}."
        )
    else:
        lead = "The columns share no pattern beyond noise."
        lacking = "The columns share no pattern beyond noise: there is nothing to embed rows by."
    if rank < dimensions:
        job.console.note(lacking)
    certificate = str(model.certificate_)
    doubts = of_patterns(seen, model, codes)
    job.console.say(lead)
    job.console.say(f"Where it may be wrong: {doubts.text}")
    job.console.record |= {
        "patterns": rank,
        "shares": shares,
        "certificate": certificate,
        **doubts.record,
    }
    report = Report(
        title=", embedded",
        lead=lead,
        facts=[(str(rank), "patterns found"), gap_fact(model)],
        story=[Text(_story(model))],
        result=_result(seen, model, codes),
        trust=[Text(TRUST)],
        imports=["from regfactor import ConvexSubspace"],
        code=[
            typed_code(seen, "X"),
            *outlier_code(wrong, "X"),
            f'model = ConvexSubspace("{loss}", "auto", random_state={job.settings.seed}).fit(X)',
            "codes = model.transform(X)",
            "print(model.certificate_)",
        ],
        model=model,
        after_result=doubts.section,
    )
    info = {"columns": seen.kinds, "dimensions": dimensions}
    job.finish(
        with_codes(seen.table, codes),
        report.page(job, seen),
        model,
        info,
    )


def _require_family(seen: Understood, family: str) -> None:
    """Raise if a family of numbers is imposed on columns that hold none."""
    others = [c.name for c in seen.inputs if c.kind not in (NUMBER, FLAG)]
    if family != "auto" and others:
        raise BadInput(
            f"--family {family} is for numbers, and {listed(others)} of {seen.table.name} hold "
            "categories: leave them out by --ignore, or --family auto."
        )


def _shares(model: Any) -> Array:
    """Return the squared strength of each pattern as a share of that of all."""
    squares = np.square(model.singular_values_)
    if squares.sum() > 0:
        return squares / squares.sum()
    return squares


def with_codes(table: Table, codes: Array) -> Any:
    """Return the user's table with the codes of its rows."""
    return table.with_columns(
        {f"code_{j}": table.column(column) for j, column in enumerate(codes.T, 1)}
    )


def _story(model: Any) -> str:
    return (
        "The table was approximated by as few shared patterns as its cells bear out; their number "
        f"({model.codes_.shape[1]}) and the strength of the smoothing (alpha = {model.alpha_:.4g}) "
        "were found by cells held out. A row's codes say how much of each pattern it has. "
        "Missing cells need no filling: a row is scored by the cells it has."
    )


def _result(seen: Understood, model: Any, codes: Array) -> list[Any]:
    blocks: list[Any] = []
    if codes.shape[1] > 1:
        groups = _groups(seen)
        color = f"; colors are {groups}" if groups else ""
        if groups is None:
            colors = None
        else:
            colors = seen.frame[groups].astype(object).fillna("missing")
        svg = cloud(
            codes[:, 0],
            codes[:, 1],
            colors,
            ("code 1", "code 2"),
        )
        blocks.append(
            Figure(svg, f"Rows by their first two codes{color}. Rows that lie together are alike.")
        )
    shares = _shares(model)
    if not len(shares):
        text = "No pattern was found that predicts cells better than the means of the columns do."
        return [*blocks, Note(text)]
    names = [f"pattern {j + 1}" for j in range(len(shares))]
    svg = bars(names, shares, "share of the strength", percent=True)
    return [*blocks, Figure(svg, "How strong the patterns are."), _loadings(model)]


def _groups(seen: Understood) -> str | None:
    """Return a column by which points are colored: the first of few categories."""
    return next(
        (c.name for c in seen.inputs if c.kind == FLAG or (c.kind == CATEGORY and c.levels <= 6)),
        None,
    )


def _loadings(model: Any) -> Grid:
    """Return the columns with the largest weights in a pattern."""
    if model._schema is not None:
        names = model._schema.feature_names
    else:
        names = list(model.feature_names_in_)
    lines = []
    for j, row in enumerate(model.components_[:5] / model.scale_):
        top = np.argsort(-np.abs(row))[:4]
        lines.append((f"pattern {j + 1}", ", ".join(f"{names[i]} ({row[i]:+.2f})" for i in top)))
    return Grid(("pattern", "made of"), lines, "The columns that weigh most in each pattern.")
