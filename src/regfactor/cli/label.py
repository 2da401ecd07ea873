"""`regfactor label`: missing classes or numbers of a column filled, each with how sure it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

from regfactor.cli import label_report
from regfactor.cli.candidates import Candidate, candidates_of, contest, learned_rows, stated_contest
from regfactor.cli.columns import Understood
from regfactor.cli.complete import fill
from regfactor.cli.conformal import LEVEL, CrossFit, cross_fit, intervals, probabilities, right
from regfactor.cli.encode import encoder, features, plain, rows_of, varied
from regfactor.cli.job import Work, free_name
from regfactor.cli.labeled import Labeled
from regfactor.cli.statements import Statement, constraints, parse
from regfactor.cli.targets import CLASSIFICATION, Target, target_of
from regfactor.core.params import Array

# rows that the final model is fitted to; every row is labeled
MOST_LABELED = 20_000
MOST_UNLABELED = 20_000


def run(
    work: Work,
    path: Path,
    name: str,
    task: str | None,
    unlabeled: str | None,
    stated: tuple[str, ...],
    classes: str | None,
) -> None:
    """Label a table, and write it with a report."""
    statements = [parse(text) for text in stated]
    table = work.read(path)
    seen = work.understand(table, name, tell=False)
    named = [c.strip() for c in (classes or "").split(",") if c.strip()]
    stated_labels = [s.label for s in statements]
    target = target_of(seen, name, task, unlabeled, named, stated_labels)
    work.tell(seen, target.sentence())
    seen = varied(seen)
    seen.require(1, "label")
    done = _labeled(work, seen, target, statements)
    label_report.say(work, done)
    half = label_report.half_width(done)
    info = {
        "columns": seen.kinds,
        "target": name,
        "task": target.task,
        "classes": target.classes,
        "center": done.center,
        "scale": done.scale,
        "half_width": half,
        "level": LEVEL,
        "spelled": [_plain(v) for v in spellings(table.raw[name], target)],
    }
    work.finish(_written(done), label_report.page(work, done), done.model, info)


def _labeled(work: Work, seen: Understood, target: Target, statements: list[Statement]) -> Labeled:
    seed = work.settings.seed
    encode = encoder(seen)
    X = plain(seen.data)
    E = rows_of(encode.fit_transform(X))
    y, center, scale = _standardized(target)
    semi, rest = candidates_of(target, E.shape[1], seed)
    with work.talk.progress("comparing models on held-out labels"):
        if not statements:
            result = contest(semi, rest, E, y, target, seed=seed, scale=scale)
        else:
            stated = _expectation(statements, target, features(encode), seed)
            result = stated_contest(stated, rest, E, y, target, seed)
    rows = learned_rows(target, seed, MOST_LABELED, MOST_UNLABELED)
    if len(rows) < len(y):
        work.talk.note(
            f"The model was fitted to {len(rows):,} of {len(y):,} rows, drawn at random; every row was labeled.",
        )
    model = _fitted(work, result.winner, E[rows], y[rows], target.labeled[rows])
    crossed = None
    if result.comparison is not None:
        with work.talk.progress("trying it on rows that it has not seen"):
            crossed = cross_fit(result.winner, E[rows], y[rows], target.labeled[rows], target)
            if statements:
                _doubt(
                    work,
                    crossed,
                    result.candidates[-1],
                    (E[rows], y[rows], target.labeled[rows]),
                    target,
                )
    values, sure, limits = _said(model, E, y[rows], target, crossed, (center, scale))
    if target.task == CLASSIFICATION:
        _doubt_one_class(work, values[~target.labeled], target)
    return Labeled(
        seen,
        target,
        statements,
        result,
        make_pipeline(encode, model),
        values,
        sure,
        limits,
        crossed,
        rows,
        center,
        scale,
    )


def _standardized(target: Target) -> tuple[Array, float, float]:
    """Return targets of mean zero and deviation one, where they are numbers."""
    if target.task == CLASSIFICATION:
        return target.y, 0.0, 1.0
    given = target.y[target.labeled]
    center = float(given.mean())
    scale = float(given.std()) or 1.0
    return (target.y - center) / scale, center, scale


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
        True,
        f"ExpectationSVC(constraints, classes={target.classes!r}, random_state={seed})",
    )


def _doubt(
    work: Work,
    stated: CrossFit,
    rest: Candidate,
    learned: tuple[Any, Array, Array],
    target: Target,
) -> None:
    """Say so where labels are better without the statements, which are followed all the same."""
    _, y, _ = learned
    ours, others = (right(c, y, target).mean() for c in (stated, cross_fit(rest, *learned, target)))
    if others > ours:
        work.talk.note(
            f"On held-out labels {rest.name} without the statements is right in {others:.0%}, with them in {ours:.0%}. "
            "They were followed, as they were given: check their shares, or leave --constraint out.",
        )


def _doubt_one_class(work: Work, said: Array, target: Target) -> None:
    """Say so where all rows are put in one class though several are known."""
    if len(said) > 1 and len(target.classes) > 1 and len(np.unique(said)) == 1:
        work.talk.note(
            f"All {len(said):,} rows were labeled {target.classes[said[0]]!r}: the columns and the labels given do not "
            "tell the classes apart. Label some more rows of the others before you use this.",
        )


def _fitted(work: Work, winner: Candidate, E: Any, y: Array, labeled: Array) -> Any:
    """Return the final model; whether it converged decides the exit code."""
    with work.talk.progress(f"fitting {winner.name}") as told:
        reports = "callback" in winner.model.get_params()
        model = replace(
            winner,
            model=winner.model.set_params(callback=told) if reports else winner.model,
        ).fit(E, y, labeled)
    if reports:
        model.set_params(callback=None)
        winner.model.set_params(callback=None)
        work.converged &= model.status_.converged
    return model


def _said(
    model: Any,
    E: Any,
    y: Array,
    target: Target,
    crossed: CrossFit | None,
    unit: tuple[float, float],
) -> tuple[Array, Array | None, tuple[Array, Array] | None]:
    """Return what the model says of every row: classes and how probable they are, or numbers and their limits."""
    if target.task == CLASSIFICATION:
        P = probabilities(model, E, target)
        return P.argmax(axis=1), P.max(axis=1), None
    center, scale = unit
    limits = None if crossed is None else intervals(crossed, y, E)
    if limits is not None:
        limits = limits[0] * scale + center, limits[1] * scale + center
    return np.asarray(model.predict(E)) * scale + center, None, limits


def _written(done: Labeled) -> Any:
    """Return the user's table with the target filled, and columns that say which cells are new and how sure."""
    target = done.target
    table = done.seen.table
    out = table.raw.copy()
    at = np.flatnonzero(~target.labeled)
    if target.task == CLASSIFICATION:
        spelled = spellings(table.raw[target.name], target)
        new = [spelled[j] for j in done.values[at]]
        fill_classes(out, target.name, at, new)
    else:
        fill(out, target.name, at, done.values[at], table)
    names = list(out.columns)
    out[free_name(f"{target.name}_given", names)] = target.labeled
    extra = {"probability": done.sure} if done.sure is not None else {}
    if done.limits is not None:
        extra |= {"lower": done.limits[0], "upper": done.limits[1]}
    for end, values in extra.items():
        assert values is not None
        cells = [
            None if given else table.cell(float(v))
            for v, given in zip(values, target.labeled, strict=True)
        ]
        out[free_name(f"{target.name}_{end}", names)] = cells
    return out


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return value


def fill_classes(out: Any, name: str, at: Array, new: list[Any]) -> None:
    """Write labels into some cells, in the type of the column where it can hold them."""
    column = out[name].astype(object)
    column.iloc[at] = np.array([*new, None], dtype=object)[:-1]
    if hasattr(out[name].dtype, "categories"):
        out[name] = column.infer_objects()
    else:
        out[name] = column


def spellings(raw: Any, target: Target) -> list[Any]:
    """Return each class as the table spells it; one without a label as the user did."""
    first: dict[str, Any] = {}
    for value, label in zip(raw, target.y, strict=True):
        if label is not None:
            first.setdefault(label, value)
    return [first.get(name, name) for name in target.classes]
