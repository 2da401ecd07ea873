"""Terminal output and report of a labeled table."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.cli.encode import encoder_code, encoder_imports
from regfactor.cli.errors import count
from regfactor.cli.job import Job
from regfactor.cli.labeled import LEVEL, Labeled
from regfactor.cli.report_sections import Report, members_section
from regfactor.cli.rows_to_see import MAX_ROWS, filled_cell, rows_grid, spelled_limits
from regfactor.fitting.conformal import too_few_labels_message
from regfactor.fitting.explanation import Explanation
from regfactor.report import Figure, Grid, GridCell, Note, Page, Section, Text, number
from regfactor.report.figures import bars, histogram, scores

FEW_LABELS = 30  # below which all that is reported of errors is rough
HIGH_PROBABILITY = 0.9


def say(job: Job, done: Labeled) -> None:
    """Print the result, and add it to the record."""
    console = job.console
    model = done.winner
    console.say(lead(done))
    console.say(done.contest.verdict)
    report = getattr(model, "constraint_report_", None)
    if report is not None:
        console.say(str(report))
    explanation = done.explanation
    if explanation is not None:
        console.say(" ".join(explanation.sentences))
    console.record |= {
        "target": done.target.name,
        "task": done.target.task,
        "labeled": done.target.n_labeled,
        "filled": done.target.n_unlabeled,
        "classes": done.target.classes or None,
        "model": type(model).__name__,
        "members": _weights(explanation),
        "verdict": done.contest.verdict,
        "scores": {c.name: c.folds for c in done.contest.candidates},
        "certificate": str(model.certificate_) if hasattr(model, "certificate_") else None,
        "trust": trust(done),
    }


def _weights(explanation: Explanation | None) -> dict[str, float] | None:
    """Return the weights of the members of an average by their names."""
    if explanation is None:
        return None
    return {report.member: report.weight for report in explanation.members}


def lead(done: Labeled) -> str:
    """Return what was done and how well it does, in a sentence or two."""
    target = done.target
    how = f" {_skill(done)}" if done.held_out is not None else ""
    return (
        f"{count(target.n_unlabeled, 'row')} labeled from {count(target.n_labeled, 'label')} in "
        f"{target.name!r} by {done.contest.winner.name}.{how}"
    )


def _skill(done: Labeled) -> str:
    t = trust(done)
    if done.target.is_classification:
        return (
            f"On labeled rows that it had not seen, {t['accuracy']:.0%} were right; always saying "
            f"the most frequent class gives {t['most_frequent']:.0%}."
        )
    return (
        f"On labeled rows that it had not seen, it was off by {number(t['error'])} on average; "
        f"always predicting the median gives {number(t['simple_error'])}."
    )


def trust(done: Labeled) -> dict[str, Any]:
    """Return the errors on labeled rows that were held out."""
    held_out = done.held_out
    if held_out is None:
        return {}
    y = held_out.y
    if done.target.is_classification:
        hits = held_out.correct
        sure = held_out.predictions.max(axis=1) >= HIGH_PROBABILITY
        common = max(np.mean(y == name) for name in done.target.classes)
        sets = done.predicted.sets
        return {
            "labels": len(y),
            "accuracy": float(hits.mean()),
            "most_frequent": float(common),
            "sure": int(sure.sum()),
            "sure_right": float(hits[sure].mean()) if sure.any() else None,
            "set_size": None if sets is None else float(np.mean([len(own) for own in sets])),
        }
    simple = np.abs(y - np.median(y))
    limits = done.predicted.limits
    return {
        "labels": len(y),
        "error": float(held_out.errors.mean()),
        "simple_error": float(simple.mean()),
        "interval": None if limits is None else float(np.median(limits.upper - limits.lower)),
    }


def page(job: Job, done: Labeled) -> Page:
    """Return the report."""
    target = done.target
    t = trust(done)
    facts = [(f"{target.n_unlabeled:,}", "rows labeled"), (f"{target.n_labeled:,}", "labels given")]
    if t and target.is_classification:
        facts += [
            (f"{t['accuracy']:.0%}", "right on unseen labels"),
            (f"{t['most_frequent']:.0%}", "by always predicting the most frequent class"),
        ]
    elif t:
        facts += [
            (number(t["error"]), "mean error on unseen labels"),
            (number(t["simple_error"]), "by always predicting the median"),
        ]
    carried = None
    if done.explanation is not None:
        carried = members_section(done.explanation)
    report = Report(
        title=f": {target.name} labeled",
        lead=f"{lead(done)} {done.contest.verdict}",
        facts=facts,
        story=[Text(_story(done))],
        result=_result(done),
        trust=_trust(done),
        imports=_imports(done),
        code=_code(done),
        model=done.winner,
        about_data=f"The target is {target.sentence()}.",
        after_result=_statements(done) or carried,
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
    best = "The first"
    if done.statements:
        best = "The one that follows the statements"
    return (
        f"{len(contest.candidates)} models, with and without the rows that have no label, were "
        f"each fitted {n} times without a part of the labels, and tried on that part. {best}, "
        f"{winner.name} ({type(winner.model).__name__}), then filled the target from all labels."
    )


def _result(done: Labeled) -> list[Any]:
    if done.target.is_classification:
        blocks = _classes_result(done)
    else:
        blocks = _numbers_result(done)
    if done.target.n_unlabeled:
        blocks.append(_rows_to_see(done))
    if done.contest.comparison is not None:
        blocks.append(_scores(done))
    return blocks


def _rows_to_see(done: Labeled) -> Grid:
    """Return the rows that were labeled, the least sure first."""
    predicted = done.predicted
    new = np.flatnonzero(~done.target.labeled)
    if predicted.probabilities is not None:
        order = new[np.argsort(predicted.probabilities[new], kind="stable")]
        first = "the lowest probabilities first"
    elif predicted.limits is not None:
        widths = predicted.limits.upper - predicted.limits.lower
        order = new[np.argsort(-widths[new], kind="stable")]
        first = "the widest limits first"
    else:
        order = new
        first = "in their order"
    order = order[:MAX_ROWS]
    lines = [(int(i), _cells_of_row(done, int(i))) for i in order]
    head = [done.target.name]
    if predicted.probabilities is not None:
        head.append("probability")
    shown = f"{len(order):,} of {len(new):,} rows that were labeled"
    if len(order) == len(new):
        shown = f"The {count(len(new), 'row')} labeled"
    return rows_grid(done.seen, head, lines, f"{shown}, {first}.")


def _cells_of_row(done: Labeled, i: int) -> list[str | GridCell]:
    """Return the label of a row with the classes or the limits that it may have."""
    predicted = done.predicted
    table = done.seen.table
    if predicted.probabilities is not None:
        detail = ""
        if predicted.sets is not None:
            detail = f"{LEVEL:.0%}: {' or '.join(predicted.sets[i])}"
        probability = float(predicted.probabilities[i])
        shown = GridCell(f"{probability:.0%}", key=probability)
        return [filled_cell(str(predicted.values[i]), detail), shown]
    name = done.target.name
    value = float(predicted.values[i])
    detail = ""
    if predicted.limits is not None:
        lower = float(predicted.limits.lower[i])
        upper = float(predicted.limits.upper[i])
        detail = f"{LEVEL:.0%}: {spelled_limits(table, lower, upper, name)}"
    return [filled_cell(str(table.cell(value, name)), detail, value)]


def _classes_result(done: Labeled) -> list[Any]:
    target = done.target
    new = ~target.labeled
    shares = [float(np.mean(done.predicted.values[new] == name)) for name in target.classes]
    marks = None
    if target.labeled.any():
        given = target.y[target.labeled]
        marks = [float(np.mean(given == name)) for name in target.classes]
    shown = bars(
        target.classes,
        shares,
        "share of the rows",
        marks=marks,
        mark_label="among the labels given",
        value_label="among the rows labeled",
        percent=True,
    )
    assert done.predicted.probabilities is not None
    probabilities = done.predicted.probabilities[new]
    sure = np.mean(probabilities >= HIGH_PROBABILITY)
    caption = (
        f"How sure the model is. {sure:.0%} of the rows are labeled with a probability of "
        f"{HIGH_PROBABILITY:.0%} or more; look at the others first."
    )
    axis = "probability of the predicted class"
    blocks: list[Any] = [
        Figure(shown, "How often each class was predicted."),
        Figure(histogram(probabilities, axis, span=(0.0, 1.0)), caption),
    ]
    if done.predicted.sets is not None:
        sizes = np.array([len(names) for names in done.predicted.sets])[new]
        blocks.append(
            Text(
                f"Every filled row has a set of classes that holds its own in {LEVEL:.0%} of the "
                f"rows; {np.mean(sizes == 1):.0%} of the sets are a single class."
            )
        )
    elif done.why_no_limits:
        blocks.append(Note(done.why_no_limits))
    return blocks


def _numbers_result(done: Labeled) -> list[Any]:
    new = ~done.target.labeled
    shown = histogram(done.predicted.values[new], done.target.name)
    blocks: list[Any] = [Figure(shown, "What was filled in.")]
    if done.predicted.limits is not None:
        lower, upper = done.predicted.limits
        width = np.median((upper - lower)[new])
        blocks.append(
            Text(
                f"Every filled row has a {LEVEL:.0%} interval; the median width is {number(width)}."
            )
        )
    elif done.why_no_limits:
        blocks.append(Note(done.why_no_limits))
    else:
        blocks.append(Note(too_few_labels_message("An interval", done.target.n_labeled, LEVEL)))
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
        sign = -1.0
    names = [c.name for c in contest.candidates]
    values = [sign * c.folds for c in contest.candidates if c.folds is not None]
    return Figure(
        scores(names, values, contest.chosen, label, percent=sign == 1),
        f"Each dot is a part of the labels on which a model was tried, each bar the mean; {better} "
        "is better.",
    )


def _statements(done: Labeled) -> Section | None:
    report = getattr(done.winner, "constraint_report_", None)
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
                "the mean probability, 'predicted' the share of rows with that label."
            ),
        ],
    )


def _trust(done: Labeled) -> list[Any]:
    t = trust(done)
    target = done.target
    if not t:
        return [
            Note(
                f"{done.contest.why_not} Nothing is known about errors; look at some rows by hand."
            )
        ]
    blocks: list[Any] = [Text(_skill(done))]
    if target.is_classification and t["sure"]:
        blocks.append(
            Text(
                f"Where it claimed a probability of {HIGH_PROBABILITY:.0%} or more "
                f"({count(t['sure'], 'row')}), {t['sure_right']:.0%} were right."
            )
        )
    if done.predicted.limits is not None or done.predicted.sets is not None:
        what = "Sets" if target.is_classification else "Intervals"
        blocks.append(
            Text(
                f"{what} are made of errors on unseen labels (CV+), for rows like the labeled "
                f"ones. {done.model.coverage_}"
            )
        )
    if t["labels"] < FEW_LABELS:
        blocks.append(
            Note(
                f"All this rests on {count(t['labels'], 'label')}; with so few, numbers are rough."
            )
        )
    blocks.append(
        Text(
            "It holds for rows like those with a label. If labels were given to special rows (the "
            "easy ones, the recent ones), the others may fare worse, and this report cannot see "
            "it."
        )
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
    lines = [encoder_code(done.seen), f"y = frame[{target.name!r}]"]
    if target.is_classification:
        lines += [
            "y = y.astype(object).where(y.notna(), None).to_numpy()",
            "labeled = np.array([v is not None for v in y])",
        ]
    else:
        lines += ["y = y.to_numpy()", "labeled = ~np.isnan(y)"]
    if done.statements:
        lines += [f"constraints = {_constraint_code(done)}"]
    if len(done.learned) < len(target.y):
        lines.append(f"# the command fitted {len(done.learned)} rows, drawn at random, for speed")
    rows = "E, y" if winner.unlabeled else "E[labeled], y[labeled]"
    return [*lines, "", f"model = {winner.code}.fit({rows})", "filled = model.predict(E)"]


def _constraint_code(done: Labeled) -> str:
    parts = []
    for c in done.winner.constraints_:
        column = getattr(c, "column", None)
        if column is None:
            place = "class_balance("
        else:
            place = f"labeled_feature({column}, "
        parts.append(f"{place}{c.targets!r}, {c.tolerance!r})")
    return "[" + ", ".join(parts) + "]"
