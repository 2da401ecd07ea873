"""What is said of a labeled table, on the terminal and in the report."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.cli.conformal import LEVEL, right
from regfactor.cli.encode import encoder_code, encoder_imports
from regfactor.cli.errors import count
from regfactor.cli.job import Work
from regfactor.cli.labeled import Labeled
from regfactor.cli.report_sections import (
    certificate_section,
    data_section,
    notes,
    reading_code,
    repeat_section,
)
from regfactor.cli.targets import CLASSIFICATION
from regfactor.report import Figure, Grid, Note, Page, Section, Text, number
from regfactor.report.figures import bars, histogram, scores

FEW = 30  # labels below which all that is said of errors is rough
SURE = 0.9


def say(work: Work, done: Labeled) -> None:
    """Say the result, on the terminal and in the record."""
    talk = work.talk
    model = done.model[-1]
    talk.say(lead(done))
    talk.say(done.contest.verdict)
    report = getattr(model, "constraint_report_", None)
    if report is not None:
        talk.say(str(report))
    talk.record |= {
        "target": done.target.name,
        "task": done.target.task,
        "labeled": int(done.target.labeled.sum()),
        "filled": int((~done.target.labeled).sum()),
        "classes": done.target.classes or None,
        "model": type(model).__name__,
        "verdict": done.contest.verdict,
        "scores": {
            c.name: None if c.folds is None else c.folds * _unit(done)
            for c in done.contest.candidates
        },
        "certificate": str(model.certificate_) if hasattr(model, "certificate_") else None,
        "trust": trust(done),
    }


def lead(done: Labeled) -> str:
    """What was done and how well it does, in a sentence or two."""
    new = int((~done.target.labeled).sum())
    old = int(done.target.labeled.sum())
    winner = done.contest.winner
    how = f" {_skill(done)}" if done.crossed is not None else ""
    return f"{count(new, 'row')} labeled from {count(old, 'label')} in {done.target.name!r} by {winner.name}.{how}"


def _skill(done: Labeled) -> str:
    t = trust(done)
    if done.target.task == CLASSIFICATION:
        return (
            f"On labeled rows that it had not seen, {t['accuracy']:.0%} were right; always saying the commonest "
            f"class gives {t['commonest']:.0%}."
        )
    return (
        f"On labeled rows that it had not seen, it was off by {number(t['error'])} on average; always saying the "
        f"median gives {number(t['simple_error'])}."
    )


def trust(done: Labeled) -> dict[str, Any]:
    """Return what labeled rows that the model had not seen say about it."""
    if done.crossed is None:
        return {}
    rows = done.crossed.rows
    said = done.crossed.predictions
    target = done.target
    y = _learned(done)
    if target.task == CLASSIFICATION:
        hits = right(done.crossed, y, target)
        sure = said.max(axis=1) >= SURE
        common = max(np.mean(y[rows] == name) for name in target.classes)
        return {
            "labels": len(rows),
            "accuracy": float(hits.mean()),
            "commonest": float(common),
            "sure": int(sure.sum()),
            "sure_right": float(hits[sure].mean()) if sure.any() else None,
        }
    errors = np.abs(y[rows] - (said * done.scale + done.center))
    simple = np.abs(y[rows] - np.median(y[rows]))
    return {
        "labels": len(rows),
        "error": float(errors.mean()),
        "simple_error": float(simple.mean()),
        "interval": None
        if done.limits is None
        else float(np.median(done.limits[1] - done.limits[0])),
    }


def _learned(done: Labeled) -> Any:
    return done.target.y[done.learned]


def half_width(done: Labeled) -> float | None:
    """Return the error that a share LEVEL of labeled rows did not exceed, for intervals of new rows."""
    if done.target.task == CLASSIFICATION or done.crossed is None:
        return None
    errors = np.sort(
        np.abs(
            _learned(done)[done.crossed.rows]
            - (done.crossed.predictions * done.scale + done.center),
        ),
    )
    k = int(np.ceil(LEVEL * (len(errors) + 1)))
    if k <= len(errors):
        return float(errors[k - 1])
    return None


def _unit(done: Labeled) -> float:
    if done.target.task != CLASSIFICATION:
        return done.scale
    return 1.0


def page(work: Work, done: Labeled) -> Page:
    """Return the report."""
    target = done.target
    contest = done.contest
    t = trust(done)
    facts = [
        (f"{int((~target.labeled).sum()):,}", "rows labeled"),
        (f"{int(target.labeled.sum()):,}", "labels given"),
    ]
    if t and target.task == CLASSIFICATION:
        facts += [
            (f"{t['accuracy']:.0%}", "right on unseen labels"),
            (f"{t['commonest']:.0%}", "by always saying the commonest class"),
        ]
    elif t:
        facts += [
            (number(t["error"]), "mean error on unseen labels"),
            (number(t["simple_error"]), "by always saying the median"),
        ]
    sections = [
        Section("What was done", [Text(_story(done)), *notes(work)]),
        data_section(done.seen, f"The target is {target.sentence()}."),
        Section("The result", _result(done)),
        _statements(done),
        certificate_section(done.model[-1]),
        Section("How far to trust it", _trust(done)),
        repeat_section(work, _code(work, done)),
    ]
    title = f"{done.seen.table.path.name}: {target.name} labeled"
    return Page(
        title,
        f"{lead(done)} {contest.verdict}",
        facts,
        [s for s in sections if s is not None],
    )


def _story(done: Labeled) -> str:
    winner = done.contest.winner
    contest = done.contest
    if contest.comparison is None:
        return f"The target was filled by {winner.name} ({type(winner.model).__name__}), without a comparison."
    n = len(contest.comparison.difference)
    if not done.statements:
        best = "The best on average"
    else:
        best = "The best of those that follow the statements"
    return (
        f"{len(contest.candidates)} models, some of which learn from rows without a label too, were each fitted "
        f"{n} times without a part of the labels, and tried on that part. {best}, {winner.name} "
        f"({type(winner.model).__name__}), then filled the target from all labels."
    )


def _result(done: Labeled) -> list[Any]:
    new = ~done.target.labeled
    target = done.target
    blocks: list[Any] = []
    if target.task == CLASSIFICATION:
        shares = [float(np.mean(done.values[new] == j)) for j in range(len(target.classes))]
        given = [
            float(np.mean(target.y[target.labeled] == c)) if target.labeled.any() else 0.0
            for c in target.classes
        ]
        svg = bars(
            target.classes,
            shares,
            "share of the rows",
            marks=given if target.labeled.any() else None,
            mark_label="among the labels given",
            value_label="among the rows labeled",
            percent=True,
        )
        blocks.append(Figure(svg, "How often each class was said."))
        assert done.sure is not None
        svg = histogram(done.sure[new], "probability of the class that was said", span=(0.0, 1.0))
        blocks.append(
            Figure(
                svg,
                f"How sure the model is. {np.mean(done.sure[new] >= SURE):.0%} of the rows are "
                f"labeled with a probability of {SURE:.0%} or more; look at the others "
                "first.",
            ),
        )
    else:
        blocks.append(Figure(histogram(done.values[new], target.name), "What was filled in."))
        if done.limits is not None:
            width = np.median((done.limits[1] - done.limits[0])[new])
            blocks.append(
                Text(
                    f"Every filled row has a {LEVEL:.0%} interval; the median width is {number(width)}.",
                ),
            )
        else:
            blocks.append(
                Note(
                    f"There are too few labels for {LEVEL:.0%} intervals: at least 10 are needed."
                ),
            )
    if done.contest.comparison is not None:
        blocks.append(_scores(done))
    return blocks


def _scores(done: Labeled) -> Figure:
    contest = done.contest
    if done.target.task == CLASSIFICATION:
        label = "share right"
    else:
        label = "mean absolute error"
    sign = 1 if done.target.task == CLASSIFICATION else -_unit(done)
    values = [sign * c.folds for c in contest.candidates if c.folds is not None]
    svg = scores(
        [c.name for c in contest.candidates],
        values,
        contest.chosen,
        label,
        percent=sign == 1,
    )
    if done.target.task == CLASSIFICATION:
        better = "further right"
    else:
        better = "further left"
    return Figure(
        svg,
        f"Each dot is a part of the labels on which a model was tried, each bar the mean; {better} is better.",
    )


def _statements(done: Labeled) -> Section | None:
    report = getattr(done.model[-1], "constraint_report_", None)
    if report is None or not done.statements:
        return None
    lines = [
        (
            line.constraint,
            str(line.label),
            f"{line.target:.3g} ± {line.tolerance:.3g}",
            f"{line.expected:.3g}",
            f"{line.predicted:.3g}",
            str(line.n_rows),
        )
        for line in report
    ]
    head = ("statement about", "class", "stated", "expected", "predicted", "rows")
    return Section(
        "What was stated, and what came out",
        [
            Grid(head, lines),
            Text(
                "A wrong share is the main risk: the model follows what it is told. 'expected' is the mean probability, "
                "'predicted' the share of rows with that label.",
            ),
        ],
    )


def _trust(done: Labeled) -> list[Any]:
    t = trust(done)
    target = done.target
    if not t:
        return [
            Note(
                f"{done.contest.why_not} Nothing is known about errors; look at some rows by hand.",
            ),
        ]
    blocks: list[Any] = [Text(_skill(done))]
    if target.task == CLASSIFICATION and t["sure"]:
        blocks.append(
            Text(
                f"Where it claimed a probability of {SURE:.0%} or more ({count(t['sure'], 'row')}), "
                f"{t['sure_right']:.0%} were right.",
            ),
        )
    if target.task != CLASSIFICATION and done.limits is not None:
        blocks.append(
            Text(
                f"Intervals are made of errors on unseen labels (CV+): about {LEVEL:.0%} of rows like the "
                f"labeled ones lie within, and at least {2 * LEVEL - 1:.0%} are guaranteed "
                "to.",
            ),
        )
    if t["labels"] < FEW:
        blocks.append(
            Note(
                f"All this rests on {count(t['labels'], 'label')}; with so few, numbers are rough.",
            ),
        )
    blocks.append(
        Text(
            "It holds for rows like those with a label. If labels were given to special rows (the easy "
            "ones, the recent ones), the others may fare worse, and this report cannot see it. The model "
            "was chosen by the same folds, so the numbers are a little too good.",
        ),
    )
    return blocks


def _code(work: Work, done: Labeled) -> str:
    """Return Python code that fits the same model."""
    target = done.target
    seen = done.seen
    winner = done.contest.winner
    if type(winner.model).__module__.startswith("sklearn"):
        module = "sklearn.linear_model"
    else:
        module = "regfactor"
    lines = [
        "import numpy as np",
        "import pandas as pd",
        encoder_imports(seen),
        f"from {module} import {type(winner.model).__name__}",
    ]
    if done.statements:
        lines.append("from regfactor.constraints import class_balance, labeled_feature")
    lines += ["", reading_code(seen), encoder_code(seen), f"y = frame[{target.name!r}]"]
    if target.task == CLASSIFICATION:
        lines += [
            "y = y.astype(object).where(y.notna(), None).to_numpy()",
            "labeled = np.array([v is not None for v in y])",
        ]
    else:
        lines += [
            f"y = ((y - {done.center!r}) / {done.scale!r}).to_numpy()",
            "labeled = ~np.isnan(y)",
        ]
    if done.statements:
        lines += [f"constraints = {_constraint_code(done)}"]
    if len(done.learned) < len(target.y):
        lines.append(f"# the command fitted {len(done.learned)} rows, drawn at random, for speed")
    rows = "E, y" if winner.unlabeled else "E[labeled], y[labeled]"
    if target.task == CLASSIFICATION:
        back = ""
    else:
        back = f" * {done.scale!r} + {done.center!r}"
    lines += ["", f"model = {winner.code}.fit({rows})", f"filled = model.predict(E){back}"]
    return "\n".join(lines)


def _constraint_code(done: Labeled) -> str:
    parts = []
    for c in done.model[-1].constraints_:
        column = getattr(c, "column", None)
        if column is None:
            place = "class_balance("
        else:
            place = f"labeled_feature({column}, "
        parts.append(f"{place}{c.targets!r}, {c.tolerance!r})")
    return "[" + ", ".join(parts) + "]"
