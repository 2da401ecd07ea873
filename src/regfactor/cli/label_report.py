"""Terminal output and report of a labeled table."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.cli.encode import encoder_code, encoder_imports
from regfactor.cli.errors import count
from regfactor.cli.job import Job
from regfactor.cli.labeled import Labeled
from regfactor.cli.report_sections import Report
from regfactor.core.params import Array
from regfactor.model_selection.cross_conformal import LEVEL, CrossFit, correct_rows
from regfactor.report import Figure, Grid, Note, Page, Section, Text, number
from regfactor.report.figures import bars, histogram, scores

FEW_LABELS = 30  # below which all that is reported of errors is rough
HIGH_PROBABILITY = 0.9


def say(job: Job, done: Labeled) -> None:
    """Print the result, and add it to the record."""
    console = job.console
    model = done.model[-1]
    console.say(lead(done))
    console.say(done.contest.verdict)
    report = getattr(model, "constraint_report_", None)
    if report is not None:
        console.say(str(report))
    console.record |= {
        "target": done.target.name,
        "task": done.target.task,
        "labeled": done.target.n_labeled,
        "filled": done.target.n_unlabeled,
        "classes": done.target.classes or None,
        "model": type(model).__name__,
        "verdict": done.contest.verdict,
        "scores": {
            c.name: None if c.folds is None else c.folds * done.unit.scale
            for c in done.contest.candidates
        },
        "certificate": str(model.certificate_) if hasattr(model, "certificate_") else None,
        "trust": trust(done),
    }


def lead(done: Labeled) -> str:
    """Return what was done and how well it does, in a sentence or two."""
    target = done.target
    how = f" {_skill(done)}" if done.crossed is not None else ""
    return (
        f"{count(target.n_unlabeled, 'row')} labeled from {count(target.n_labeled, 'label')} in "
        f"{target.name!r} by {done.contest.winner.name}.{how}"
    )


def _skill(done: Labeled) -> str:
    t = trust(done)
    if done.target.is_classification:
        return (
            f"On labeled rows that it had not seen, {t['accuracy']:.0%} were right; always saying "
            f"the most frequent class gives {t['commonest']:.0%}."
        )
    return (
        f"On labeled rows that it had not seen, it was off by {number(t['error'])} on average; "
        f"always predicting the median gives {number(t['simple_error'])}."
    )


def trust(done: Labeled) -> dict[str, Any]:
    """Return the errors on labeled rows that were held out."""
    if done.crossed is None:
        return {}
    rows = done.crossed.rows
    target = done.target
    y = target.y[done.learned][rows]
    if target.is_classification:
        hits = correct_rows(done.crossed, target.of_rows(done.learned))
        sure = done.crossed.predictions.max(axis=1) >= HIGH_PROBABILITY
        common = max(np.mean(y == name) for name in target.classes)
        return {
            "labels": len(rows),
            "accuracy": float(hits.mean()),
            "commonest": float(common),
            "sure": int(sure.sum()),
            "sure_right": float(hits[sure].mean()) if sure.any() else None,
        }
    errors = _held_out_errors(done, done.crossed)
    simple = np.abs(y - np.median(y))
    limits = done.predicted.limits
    return {
        "labels": len(rows),
        "error": float(errors.mean()),
        "simple_error": float(simple.mean()),
        "interval": None if limits is None else float(np.median(limits.upper - limits.lower)),
    }


def _held_out_errors(done: Labeled, crossed: CrossFit) -> Array:
    """Return the absolute errors of a regression on held-out labels, in units of the table."""
    y = done.target.y[done.learned]
    return np.abs(y[crossed.rows] - done.unit.restore(crossed.predictions))


def half_width(done: Labeled) -> float | None:
    """Return the LEVEL quantile of the errors on held-out labels, for intervals of new rows."""
    if done.target.is_classification or done.crossed is None:
        return None
    errors = np.sort(_held_out_errors(done, done.crossed))
    k = int(np.ceil(LEVEL * (len(errors) + 1)))
    if k <= len(errors):
        return float(errors[k - 1])
    return None


def page(job: Job, done: Labeled) -> Page:
    """Return the report."""
    target = done.target
    t = trust(done)
    facts = [(f"{target.n_unlabeled:,}", "rows labeled"), (f"{target.n_labeled:,}", "labels given")]
    if t and target.is_classification:
        facts += [
            (f"{t['accuracy']:.0%}", "right on unseen labels"),
            (f"{t['commonest']:.0%}", "by always predicting the most frequent class"),
        ]
    elif t:
        facts += [
            (number(t["error"]), "mean error on unseen labels"),
            (number(t["simple_error"]), "by always predicting the median"),
        ]
    report = Report(
        title=f": {target.name} labeled",
        lead=f"{lead(done)} {done.contest.verdict}",
        facts=facts,
        story=[Text(_story(done))],
        result=_result(done),
        trust=_trust(done),
        imports=_imports(done),
        code=_code(done),
        model=done.model[-1],
        about_data=f"The target is {target.sentence()}.",
        after_result=_statements(done),
    )
    return report.page(job, done.seen)


def _story(done: Labeled) -> str:
    winner = done.contest.winner
    contest = done.contest
    if contest.comparison is None:
        return (
            f"The target was filled by {winner.name} ({type(winner.model).__name__}), without a "
            "comparison."
        )
    n = len(contest.comparison.difference)
    if not done.statements:
        best = "The best on average"
    else:
        best = "The best of those that follow the statements"
    return (
        f"{len(contest.candidates)} models, some of which learn from rows without a label too, "
        f"were each fitted {n} times without a part of the labels, and tried on that part. {best}, "
        f"{winner.name} ({type(winner.model).__name__}), then filled the target from all labels."
    )


def _result(done: Labeled) -> list[Any]:
    new = ~done.target.labeled
    target = done.target
    blocks: list[Any] = []
    if target.is_classification:
        shares = [
            float(np.mean(done.predicted.values[new] == j)) for j in range(len(target.classes))
        ]
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
        assert done.predicted.probabilities is not None
        svg = histogram(
            done.predicted.probabilities[new],
            "probability of the class that was said",
            span=(0.0, 1.0),
        )
        blocks.append(
            Figure(
                svg,
                "How sure the model is. "
                f"{np.mean(done.predicted.probabilities[new] >= HIGH_PROBABILITY):.0%} of the rows "
                f"are labeled with a probability of {HIGH_PROBABILITY:.0%} or more; look at the "
                "others first.",
            ),
        )
    else:
        blocks.append(
            Figure(histogram(done.predicted.values[new], target.name), "What was filled in."),
        )
        if done.predicted.limits is not None:
            width = np.median((done.predicted.limits.upper - done.predicted.limits.lower)[new])
            blocks.append(
                Text(
                    f"Every filled row has a {LEVEL:.0%} interval; the median width is "
                    f"{number(width)}.",
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
    if done.target.is_classification:
        label = "share right"
        better = "further right"
        sign = 1.0
    else:
        label = "mean absolute error"
        better = "further left"
        sign = -done.unit.scale
    names = [c.name for c in contest.candidates]
    values = [sign * c.folds for c in contest.candidates if c.folds is not None]
    return Figure(
        scores(names, values, contest.chosen, label, percent=sign == 1),
        f"Each dot is a part of the labels on which a model was tried, each bar the mean; {better} "
        "is better.",
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
                "A wrong share is the main risk: the model follows what is stated. 'expected' is "
                "the mean probability, 'predicted' the share of rows with that label.",
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
    if target.is_classification and t["sure"]:
        blocks.append(
            Text(
                f"Where it claimed a probability of {HIGH_PROBABILITY:.0%} or more "
                f"({count(t['sure'], 'row')}), {t['sure_right']:.0%} were right.",
            ),
        )
    if not target.is_classification and done.predicted.limits is not None:
        blocks.append(
            Text(
                f"Intervals are made of errors on unseen labels (CV+): about {LEVEL:.0%} of rows "
                f"like the labeled ones lie within, and at least {2 * LEVEL - 1:.0%} are "
                "guaranteed to.",
            ),
        )
    if t["labels"] < FEW_LABELS:
        blocks.append(
            Note(
                f"All this rests on {count(t['labels'], 'label')}; with so few, numbers are rough.",
            ),
        )
    blocks.append(
        Text(
            "It holds for rows like those with a label. If labels were given to special rows (the "
            "easy ones, the recent ones), the others may fare worse, and this report cannot see "
            "it. The model was chosen by the same folds, so the numbers are a little too good.",
        ),
    )
    return blocks


def _imports(done: Labeled) -> list[str]:
    model = type(done.contest.winner.model)
    module = "sklearn.linear_model" if model.__module__.startswith("sklearn") else "regfactor"
    imports = [encoder_imports(done.seen), f"from {module} import {model.__name__}"]
    if done.statements:
        imports.append("from regfactor.constraints import class_balance, labeled_feature")
    return imports


def _code(done: Labeled) -> list[str]:
    """Return Python code that fits the same model."""
    target = done.target
    winner = done.contest.winner
    back = ""
    lines = [encoder_code(done.seen), f"y = frame[{target.name!r}]"]
    if target.is_classification:
        lines += [
            "y = y.astype(object).where(y.notna(), None).to_numpy()",
            "labeled = np.array([v is not None for v in y])",
        ]
    else:
        lines += [
            f"y = ((y - {done.unit.center!r}) / {done.unit.scale!r}).to_numpy()",
            "labeled = ~np.isnan(y)",
        ]
        back = f" * {done.unit.scale!r} + {done.unit.center!r}"
    if done.statements:
        lines += [f"constraints = {_constraint_code(done)}"]
    if len(done.learned) < len(target.y):
        lines.append(f"# the command fitted {len(done.learned)} rows, drawn at random, for speed")
    rows = "E, y" if winner.unlabeled else "E[labeled], y[labeled]"
    return [*lines, "", f"model = {winner.code}.fit({rows})", f"filled = model.predict(E){back}"]


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
