"""`regfactor denoise`: two views of the same rows, cleaned by what they share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from regfactor.cli.columns import FLAG, NUMBER, Understood
from regfactor.cli.complete import fill
from regfactor.cli.errors import BadInput, count, listed, nearest
from regfactor.cli.job import Job, quiet
from regfactor.cli.outliers import outlier_code, without_outliers
from regfactor.cli.report_sections import (
    certificate_section,
    data_section,
    gap_fact,
    notes,
    reading_code,
    repeat_section,
)
from regfactor.core.params import Array
from regfactor.report import Figure, Page, Section, Text
from regfactor.report.figures import bars
from regfactor.views.two_view import TwoViewSubspace

SPAN = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*$")
HIDDEN = 0.1
MOST = 0.9  # share of the strength that the strongest patterns carry


def run(job: Job, path: Path, views: str) -> None:
    """Denoise a table, and write it with a report."""
    table = job.read(path)
    first, second = _views(views, table.names)
    seen = job.understand(table)
    _require_numbers(seen, [*first, *second])
    seen = seen.without(
        {c.name: "in no view" for c in seen.inputs if c.name not in (*first, *second)}
    )
    kept, wrong = without_outliers(job, seen)
    frame = seen.frame.assign(**kept)
    tables = [frame[names].to_numpy(dtype=float, na_value=np.nan) for names in (first, second)]
    for names, X in zip((first, second), tables, strict=True):
        empty = np.isnan(X).all(axis=0)
        if empty.any():
            raise BadInput(
                f"Column {names[int(empty.argmax())]!r} has no value in any row; leave it out of "
                "--views."
            )
    if not any(np.nanstd(X, axis=0).any() for X in tables):
        raise BadInput(
            "Nothing differs between the rows of either view; there is nothing to denoise."
        )
    model = TwoViewSubspace(alpha="auto", random_state=job.settings.seed)
    job.fit("fitting two views", model, *tables)
    clean = model.denoise(*tables)
    with job.console.progress("trying it on hidden cells"), quiet():
        gain = _gain(model, tables, job.settings.seed)
    lead = (
        f"{count(len(tables[0]), 'row')} of two views ({len(first)} and {len(second)} columns) "
        f"cleaned by {count(model.codes_.shape[1], 'shared pattern')}{_strongest(model)}. "
        f"{_sentence(gain)}"
    )
    job.console.say(lead)
    job.console.say(str(model.certificate_))
    job.console.record |= {
        "patterns": model.codes_.shape[1],
        "view_weight": model.view_weight_,
        "gain": gain,
        "certificate": str(model.certificate_),
    }
    out = table.raw.copy()
    for names, X in zip((first, second), clean, strict=True):
        for name, column in zip(names, np.asarray(X).T, strict=True):
            if not table.text:
                out[name] = out[name].astype(float)
            fill(out, name, np.arange(len(column)), column, table)
    page = _page(job, seen, model, (first, second), tables, clean, (lead, gain, wrong))
    job.finish(
        out,
        page,
        model,
        {"views": [first, second], "columns": {n: NUMBER for n in [*first, *second]}},
    )


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


def _gain(model: Any, tables: list[Array], seed: int) -> float | None:
    """Return by how much errors in hidden cells are smaller than those of the column means."""
    random = np.random.default_rng(seed)
    hidden = [~np.isnan(X) & (random.random(X.shape) < HIDDEN) for X in tables]
    masked = [np.where(h, np.nan, X) for X, h in zip(tables, hidden, strict=True)]
    if any(np.isnan(X).all(axis=0).any() for X in masked) or not any(h.any() for h in hidden):
        return None
    again = TwoViewSubspace(alpha=model.alpha_, random_state=seed).fit(*masked)
    guesses = again.denoise(*masked)
    ratios = []
    for X, h, guess, kept in zip(tables, hidden, guesses, masked, strict=True):
        scale = np.nanstd(X, axis=0)
        scale = np.where(scale > 0, scale, 1)
        errors = [np.square(((X - g) / scale)[h]).sum() for g in (guess, np.nanmean(kept, axis=0))]
        ratios.append(errors)
    ours, means = np.sum(ratios, axis=0)
    if means > 0:
        return float(1 - np.sqrt(ours / means))
    return None


def _strongest(model: Any) -> str:
    """Return a sentence on how few patterns carry most of the strength, if the others are weak."""
    squares = np.sort(np.square(model.codes_).sum(axis=0))[::-1]
    few = int(np.searchsorted(np.cumsum(squares), MOST * squares.sum())) + 1
    if few >= len(squares):
        return ""
    return f", of which {'one carries' if few == 1 else f'{few} carry'} {MOST:.0%} of the strength"


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


def _page(
    job: Job,
    seen: Understood,
    model: Any,
    names: tuple[list[str], list[str]],
    tables: list[Array],
    clean: Any,
    said: tuple[str, float | None, list[tuple[int, str]]],
) -> Page:
    lead, gain, wrong = said
    moved: dict[str, float] = {}
    for columns, X, Z in zip(names, tables, clean, strict=True):
        spread = np.nanstd(X, axis=0)
        change = np.sqrt(np.nanmean(np.square(X - Z), axis=0))
        moved |= dict(
            zip(
                columns,
                np.where(spread > 0, change / np.where(spread > 0, spread, 1), 0).tolist(),
                strict=True,
            )
        )
    ordered = sorted(moved, key=lambda name: -moved[name])
    missing = int(sum(np.isnan(X).sum() for X in tables))
    facts = [
        (str(model.codes_.shape[1]), "shared patterns"),
        (f"{missing:,}", "missing cells filled"),
        (f"{model.view_weight_[0]:.0%}", "weight of the first view"),
        gap_fact(model),
    ]
    story = (
        f"Both views (columns {listed(names[0], 3)} and {listed(names[1], 3)}) were rebuilt from "
        "one set of patterns; what they cannot express is treated as noise and left out. Each "
        "view has its own bound, so that neither can drown the other. The strength (alpha = "
        f"{model.alpha_:.4g}) was chosen by cells held out."
    )
    svg = bars(ordered, [moved[n] for n in ordered], "change, in standard deviations of the column")
    sections = [
        Section("What was done", [Text(story), *notes(job)]),
        data_section(seen),
        Section(
            "The result",
            [
                Text(
                    "Every cell of the views was replaced by its reconstruction, missing cells "
                    "included; other columns are as they were."
                ),
                Figure(svg, "How much each column was changed (root mean square)."),
            ],
        ),
        certificate_section(model),
        Section(
            "How far to trust it",
            [
                Text(_sentence(gain)),
                Text(
                    "A column that is changed by nearly one standard deviation is one that the "
                    "others say nothing about: it was shrunk to its mean. Structure that one view "
                    "alone has counts as noise in part."
                ),
            ],
        ),
        repeat_section(job, _code(job, seen, names, wrong)),
    ]
    return Page(f"{seen.table.path.name}, denoised", lead, facts, sections)


def _code(
    job: Job, seen: Understood, names: tuple[list[str], list[str]], wrong: list[tuple[int, str]]
) -> str:
    return "\n".join(
        [
            "import numpy as np",
            "import pandas as pd",
            "from regfactor import TwoViewSubspace",
            "",
            reading_code(seen),
            *outlier_code(wrong, "frame"),
            f"first, second = frame[{names[0]!r}], frame[{names[1]!r}]",
            f'model = TwoViewSubspace(alpha="auto", random_state={job.settings.seed})',
            "model.fit(first, second)",
            "clean_first, clean_second = model.denoise(first, second)",
            "print(model.certificate_)",
        ]
    )
