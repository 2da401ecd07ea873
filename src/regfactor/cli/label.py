"""`regfactor label`: fill missing classes or numbers, with probabilities or intervals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from regfactor.cli import label_report
from regfactor.cli.columns import Understood
from regfactor.cli.complete import fill
from regfactor.cli.encode import encoder, features, plain, rows_of, varied
from regfactor.cli.job import Job
from regfactor.cli.labeled import (
    LEVEL,
    HeldOutLabels,
    Labeled,
    add_labels,
    predict_rows,
)
from regfactor.cli.statements import Statement, constraints, parse
from regfactor.cli.targets import Target, target_of
from regfactor.core.params import Array
from regfactor.model_selection.candidates import (
    Candidate,
    LabeledTask,
    contest,
    contest_of_two,
    default_candidates,
    sample_rows,
)
from regfactor.model_selection.conformal import Conformal

# rows that the final model is fitted to; every row is labeled
MAX_FITTED_LABELED = 20_000
MAX_FITTED_UNLABELED = 20_000


def run(
    job: Job,
    path: Path,
    name: str,
    task: str | None,
    unlabeled: str | None,
    stated: tuple[str, ...],
    classes: str | None,
) -> None:
    """Label a table, and write it with a report."""
    statements = [parse(text) for text in stated]
    table = job.read(path)
    job.plan(table)
    seen = job.understand(table, name, show=False)
    named = [c.strip() for c in (classes or "").split(",") if c.strip()]
    stated_labels = [s.label for s in statements]
    target = target_of(seen, name, task, unlabeled, named, stated_labels)
    job.show_columns(seen, target.sentence())
    seen = varied(seen)
    seen.require(1, "label")
    done = _labeled(job, seen, target, statements)
    label_report.say(job, done)
    info = {
        "columns": seen.kinds,
        "target": name,
        "task": target.task,
        "classes": target.classes,
        "level": LEVEL,
        "spelled": [_as_python(label) for label in spellings(table.raw[name], target)],
    }
    model = make_pipeline(done.encoder, done.model)
    job.finish(_written(done), label_report.page(job, done), model, info)


def _labeled(job: Job, seen: Understood, target: Target, statements: list[Statement]) -> Labeled:
    """Compare models on held-out labels, fit one, and predict every row."""
    seed = job.settings.seed
    encode = encoder(seen)
    X = rows_of(encode.fit_transform(plain(seen.data)))
    candidates = default_candidates(target, seed)
    with job.console.progress("comparing models on held-out labels"):
        if statements:
            stated = _expectation(statements, target, features(encode), seed)
            result = contest_of_two(stated, candidates.supervised, X, target, seed)
        else:
            result = contest(candidates, X, target, random_state=seed)
    rows = sample_rows(target, seed, MAX_FITTED_LABELED, MAX_FITTED_UNLABELED)
    if len(rows) < len(target.y):
        job.console.note(
            f"The model was fitted to {len(rows):,} of {len(target.y):,} rows, drawn at random; "
            "every row was labeled."
        )
    fitted_task = target.of_rows(rows)
    calibrate = result.comparison is not None
    model = _fitted(job, result.winner, X[rows], fitted_task, calibrate)
    held_out = None
    if calibrate:
        y = fitted_task.y[result.winner.rows(fitted_task)]
        held_out = HeldOutLabels.of(model, y)
    if held_out is not None and statements:
        _warn_of_statements(job, held_out, result.candidates[-1], X[rows], fitted_task)
    predicted = predict_rows(model, X)
    if target.is_classification:
        _warn_of_one_class(job, predicted.values[~target.labeled], target)
    return Labeled(
        seen=seen,
        target=target,
        statements=statements,
        contest=result,
        encoder=encode,
        model=model,
        predicted=predicted,
        held_out=held_out,
        learned=rows,
    )


def _expectation(
    statements: list[Statement],
    target: Target,
    places: dict[str, int],
    seed: int,
) -> Candidate:
    from regfactor.labels.expectation.estimator import ExpectationSVC

    model = ExpectationSVC(
        constraints(statements, places),
        classes=target.classes,
        random_state=seed,
    )
    return Candidate(
        "expectations",
        model,
        unlabeled=True,
        code=f"ExpectationSVC(constraints, classes={target.classes!r}, random_state={seed})",
    )


def _warn_of_statements(
    job: Job,
    stated: HeldOutLabels,
    supervised: Candidate,
    X: Any,
    task: LabeledTask,
) -> None:
    """Note if labels are predicted better without the statements, which are followed anyway."""
    with_them = stated.correct.mean()
    calibrated = _calibrated(supervised, X, task)
    without = HeldOutLabels.of(calibrated, task.y[supervised.rows(task)]).correct.mean()
    if without > with_them:
        job.console.note(
            f"On held-out labels {supervised.name} without the statements is right in "
            f"{without:.0%}, with them in {with_them:.0%}. They were followed, as they were given: "
            "check their shares, or leave --constraint out."
        )


def _warn_of_one_class(job: Job, predicted: Array, target: Target) -> None:
    """Note if all rows are put in one class though several are known."""
    if len(predicted) < 2 or len(target.classes) < 2:
        return
    if len(set(predicted)) == 1:
        job.console.note(
            f"All {len(predicted):,} rows were labeled {predicted[0]!r}: the "
            "columns and the labels given do not separate the classes. Label some more rows of "
            "the others before you use this."
        )


def _fitted(
    job: Job,
    winner: Candidate,
    X: Any,
    task: LabeledTask,
    calibrate: bool,
) -> Any:
    """Return the final model; whether it converged decides the exit code."""
    iterates = "callback" in winner.model.get_params()
    with job.console.progress(f"fitting {winner.name}") as report:
        if iterates:
            winner = replace(winner, model=clone(winner.model).set_params(callback=report))
        if calibrate:
            model = _calibrated(winner, X, task)
            parts = [model.estimator, model.estimator_, *model.estimators_]
        else:
            model = winner.fit(X, task)
            parts = [model]
    if iterates:
        job.converged &= parts[int(calibrate)].status_.converged
        for part in parts:
            part.set_params(callback=None)
    return model


def _calibrated(candidate: Candidate, X: Any, task: LabeledTask) -> Conformal:
    """Return a candidate with sets or intervals by cross-validation over the labels."""
    model = Conformal(
        candidate.model,
        LEVEL,
        n_folds=task.n_folds,
        unlabeled=float("nan"),
        random_state=0,
    )
    rows = candidate.rows(task)
    return model.fit(X[rows], task.y[rows])


def _written(done: Labeled) -> Any:
    """Return the user's table with the target filled, and columns of probabilities or limits."""
    target = done.target
    table = done.seen.table
    out = table.raw.copy()
    at = np.flatnonzero(~target.labeled)
    spelled: dict[str, Any] = {}
    if target.is_classification:
        spelled = dict(zip(target.classes, spellings(table.raw[target.name], target), strict=True))
        labels = [spelled[name] for name in done.predicted.values[at]]
        column = out[target.name].astype(object)
        # a last None keeps the array one-dimensional whatever the labels are
        column.iloc[at] = np.array([*labels, None], dtype=object)[:-1]
        if hasattr(out[target.name].dtype, "categories"):
            column = column.infer_objects()
        out[target.name] = column
    else:
        fill(out, target.name, at, done.predicted.values[at], table)
    add_labels(out, target.name, target.labeled, done.predicted.details(spelled), table)
    return out


def _as_python(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return value


def spellings(raw: Any, target: Target) -> list[Any]:
    """Return each class as the table writes it, or as the user did if it has no label."""
    first: dict[str, Any] = {}
    for value, label in zip(raw, target.y, strict=True):
        if label is not None:
            first.setdefault(label, value)
    return [first.get(name, name) for name in target.classes]
