"""`regfactor denoise`: two views of the same rows, cleaned by what they share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regfactor.cli.columns import FLAG, NUMBER, Understood
from regfactor.cli.complete import fill
from regfactor.cli.encode import FAMILY_LOSSES
from regfactor.cli.errors import BadInput, count, listed, nearest
from regfactor.cli.job import Job, quiet
from regfactor.cli.outliers import outlier_code, without_outliers
from regfactor.cli.report_sections import Report, gap_fact
from regfactor.cli.tables import Table
from regfactor.core.linalg import positive_or_one, quotient
from regfactor.core.params import Array
from regfactor.report import Figure, Text
from regfactor.report.figures import bars
from regfactor.views.two_view import TwoViewSubspace

SPAN = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*$")
HIDDEN_SHARE = 0.1  # of the cells, hidden to measure errors
STRONG_SHARE = 0.9  # of the strength of all patterns, which the strongest ones carry
RESULT = (
    "Every cell of the views was replaced by its reconstruction, missing cells included; other "
    "columns are as they were."
)
TRUST = (
    "A column that is changed by nearly one standard deviation is one that the others say nothing "
    "about: it was shrunk to its mean. Structure that one view alone has counts as noise in part."
)


def run(job: Job, path: Path, spans: str, family: str) -> None:
    """Denoise a table, and write it with a report."""
    losses = _losses(family)
    table = job.read(path)
    job.plan(table)
    views = _views(spans, table.names)
    names = [*views[0], *views[1]]
    seen = job.understand(table)
    _require_numbers(seen, names)
    seen = seen.without({c.name: "in no view" for c in seen.inputs if c.name not in names})
    kept, wrong = without_outliers(job, seen)
    frame = seen.frame.assign(**kept)
    empty = [name for name in names if frame[name].isna().all()]
    if empty:
        raise BadInput(f"Column {empty[0]!r} has no value in any row; leave it out of --views.")
    tables = [frame[view].to_numpy(dtype=float, na_value=np.nan) for view in views]
    if not any(np.nanstd(X, axis=0).any() for X in tables):
        raise BadInput(
            "Nothing differs between the rows of either view; there is nothing to denoise."
        )
    model = TwoViewSubspace(loss=losses, random_state=job.settings.seed)
    job.fit("fitting two views", model, *tables)
    clean = model.denoise(tables[0], tables[1], keep=False)
    with job.console.progress("trying it on hidden cells"), quiet():
        gain = _gain(tables, losses, job.settings.seed)
    rank = model.codes_.shape[1]
    certificate = str(model.certificate_)
    lead = (
        f"{count(len(tables[0]), 'row')} of two views ({len(views[0])} and {len(views[1])} columns)"
        f" cleaned by {count(rank, 'shared pattern')}{_strongest(model)}. {_sentence(gain)}"
    )
    job.console.say(lead)
    job.console.record |= {
        "patterns": rank,
        "view_weight": model.view_weight_,
        "gain": gain,
        "certificate": certificate,
    }
    imposed = "" if losses == ("auto", "auto") else f"loss={losses!r}, "
    missing = sum(int(np.isnan(X).sum()) for X in tables)
    story = (
        f"Both views (columns {listed(views[0], 3)} and {listed(views[1], 3)}) were reconstructed "
        "from one set of patterns; what they cannot express is treated as noise and left out. Each "
        "view has its own bound, so that neither can drown the other. The strength (alpha = "
        f"{model.alpha_:.4g}) is the one at which noise alone would leave no pattern."
    )
    report = Report(
        title=", denoised",
        lead=lead,
        facts=[
            (str(rank), "shared patterns"),
            (f"{missing:,}", "missing cells filled"),
            (f"{model.view_weight_[0]:.0%}", "weight of the first view"),
            gap_fact(model),
        ],
        story=[Text(story)],
        result=[Text(RESULT), _changes(names, np.hstack(tables), np.hstack(clean))],
        trust=[Text(_sentence(gain)), Text(TRUST)],
        imports=["from regfactor import TwoViewSubspace"],
        code=[
            *outlier_code(wrong, "frame"),
            f"first, second = frame[{views[0]!r}], frame[{views[1]!r}]",
            f"model = TwoViewSubspace({imposed}random_state={job.settings.seed})",
            "model.fit(first, second)",
            "clean_first, clean_second = model.denoise(first, second, keep=False)",
            "print(model.certificate_)",
        ],
        model=model,
    )
    info = {"views": list(views), "columns": dict.fromkeys(names, NUMBER)}
    job.finish(
        with_views(table, views, clean),
        report.page(job, seen),
        model,
        info,
    )


def with_views(table: Table, views: Sequence[list[str]], clean: Sequence[Any]) -> Any:
    """Return the user's table with the columns of both views replaced."""
    out = table.raw.copy()
    for names, X in zip(views, clean, strict=True):
        for name, column in zip(names, np.asarray(X).T, strict=True):
            if not table.text:
                out[name] = out[name].astype(float)
            fill(out, name, np.arange(len(column)), column, table)
    return out


def _losses(family: str) -> tuple[str, str]:
    """Return the losses of both views."""
    names = [name.strip() for name in family.split(",")]
    unknown = [name for name in names if name not in FAMILY_LOSSES]
    if unknown or len(names) > 2:
        raise BadInput(
            f"--family {family!r} must be one of {listed(list(FAMILY_LOSSES))}, or two of them for "
            "the two views, such as auto,bernoulli."
        )
    return FAMILY_LOSSES[names[0]], FAMILY_LOSSES[names[-1]]


def _views(text: str, names: list[str]) -> tuple[list[str], list[str]]:
    """Return the columns of both views."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2:
        raise BadInput(
            f"--views {text!r} must name two spans of columns, counted from 0, such as 0:20,20:40, "
            "or by the names of the first and the last of each, such as height:waist,pressure:age."
        )
    first, second = (_span(text, part, names) for part in parts)
    if set(first) & set(second):
        raise BadInput(f"--views {text!r}: the views share columns.")
    return [names[j] for j in first], [names[j] for j in second]


def _span(text: str, part: str, names: list[str]) -> range:
    """Return the columns of one view, given by numbers without the end or by names with it."""
    numbers = SPAN.match(part)
    if numbers is not None:
        span = range(int(numbers[1]), int(numbers[2]))
    else:
        ends = [part] if part in names else part.split(":")
        ends = [end.strip() for end in (ends if len(ends) == 2 else ends * 2)]
        unknown = [end for end in ends if end not in names]
        if unknown or len(ends) != 2:
            wrong = unknown[0] if unknown else part
            raise BadInput(
                f"--views {text!r}: there is no column {wrong!r}{nearest(wrong, names)} Name two "
                "spans, such as height:waist,pressure:age, or 0:20,20:40 counted from 0."
            )
        span = range(names.index(ends[0]), names.index(ends[1]) + 1)
    if not len(span) or span.stop > len(names):
        raise BadInput(
            f"--views {text!r}: {part} is no span of the {len(names)} columns of the table."
        )
    return span


def _require_numbers(seen: Understood, names: list[str]) -> None:
    kinds = {c.name: c for c in seen.columns}
    wrong = [
        f"{name!r} ({kinds[name].kind})"
        for name in names
        if seen.frame[name].dtype.kind not in "biuf" and kinds[name].kind not in (NUMBER, FLAG)
    ]
    if wrong:
        raise BadInput(
            f"Views hold numbers only, and these columns do not: {listed(wrong)}. Numbers in "
            "--views count from 0."
        )


def _gain(tables: list[Array], losses: tuple[str, str], seed: int) -> float | None:
    """Return by how much errors in hidden cells are smaller than those of the column means."""
    random = np.random.default_rng(seed)
    hidden = [~np.isnan(X) & (random.random(X.shape) < HIDDEN_SHARE) for X in tables]
    masked = [np.where(h, np.nan, X) for X, h in zip(tables, hidden, strict=True)]
    emptied = any(np.isnan(X).all(axis=0).any() for X in masked)
    if emptied or not any(h.any() for h in hidden):
        return None
    again = TwoViewSubspace(loss=losses, random_state=seed).fit(*masked)
    guesses = again.denoise(masked[0], masked[1], keep=False)
    errors = []
    for X, h, guess, kept in zip(tables, hidden, guesses, masked, strict=True):
        scale = np.nanstd(X, axis=0)
        scale = positive_or_one(scale)
        means = np.nanmean(kept, axis=0)
        errors.append([np.square(((X - g) / scale)[h]).sum() for g in (guess, means)])
    ours, simple = np.sum(errors, axis=0)
    if simple > 0:
        return float(1 - np.sqrt(ours / simple))
    return None


def _strongest(model: Any) -> str:
    """Return a sentence on how few patterns carry most of the strength, if the others are weak."""
    squares = np.sort(np.square(model.codes_).sum(axis=0))[::-1]
    few = int(np.searchsorted(np.cumsum(squares), STRONG_SHARE * squares.sum())) + 1
    if few >= len(squares):
        return ""
    carry = "one carries" if few == 1 else f"{few} carry"
    return f", of which {carry} {STRONG_SHARE:.0%} of the strength"


def _sentence(gain: float | None) -> str:
    if gain is None:
        return "There were too few cells to hide some and see how well they come back."
    if gain <= 0:
        return (
            "Hidden cells came back no better than by the means of their columns: the views share "
            "little."
        )
    return (
        f"Hidden cells came back with errors {gain:.0%} smaller than by the means of their columns."
    )


def _changes(names: list[str], X: Array, clean: Array) -> Figure:
    """Return a bar for each column: its root mean square change relative to its spread."""
    spread = np.nanstd(X, axis=0)
    change = np.sqrt(np.nanmean(np.square(X - clean), axis=0))
    moved = quotient(change, spread)
    order = np.argsort(-moved, kind="stable")
    ordered = [names[j] for j in order]
    svg = bars(ordered, moved[order].tolist(), "change, in standard deviations of the column")
    return Figure(svg, "How much each column was changed (root mean square).")
