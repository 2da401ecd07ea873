"""The target column: labeled rows, classes or numbers, and how labels are written."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.cli.checks import check_finite
from regfactor.cli.columns import FLAG, MOST_LEVELS, NUMBER, Understood
from regfactor.cli.errors import BadInput, listed, nearest
from regfactor.cli.tables import is_number
from regfactor.core.params import Array, frozen
from regfactor.model_selection.candidates import LabeledTask

CLASSIFICATION = "classification"
REGRESSION = "regression"
MOST_CLASSES = 10  # different whole numbers up to which a target of numbers is one of classes


@frozen
class Target(LabeledTask):
    """The target column of a table: its labels, its name, and why it was read as it was."""

    name: str
    why: str

    @property
    def task(self) -> str:
        """The kind of the task, classification or regression."""
        if self.is_classification:
            return CLASSIFICATION
        return REGRESSION

    @property
    def n_labeled(self) -> int:
        """Number of rows with a label."""
        return int(self.labeled.sum())

    @property
    def n_unlabeled(self) -> int:
        """Number of rows without one."""
        return len(self.labeled) - self.n_labeled

    def sentence(self) -> str:
        """Return how many labels there are, and how they are read."""
        why = f" ({self.why})" if self.why else ""
        if not self.is_classification:
            return f"{self.name}: {self.n_labeled} numbers, {self.n_unlabeled} missing{why}"
        classes = f"{len(self.classes)} classes ({listed(self.classes, 5)})"
        return f"{self.name}: {self.n_labeled} labels of {classes}, {self.n_unlabeled} missing{why}"


def target_of(
    seen: Understood,
    name: str,
    task: str | None,
    unlabeled: str | None,
    named: list[str],
    stated: list[str],
) -> Target:
    """Return the target of a table; raise if there is nothing to learn from, or nothing to fill.

    `named` are all classes, where the user gave them; `stated` those of which something is said
    without labels.
    """
    if task not in (None, CLASSIFICATION, REGRESSION):
        raise BadInput(f"--task is {CLASSIFICATION} or {REGRESSION}, not {task!r}.")
    column = next(c for c in seen.columns if c.name == name)
    cells = seen.frame[name]
    spelled = np.array(
        [None if _is_missing(v) else _exact(v) for v in cells.astype(object)],
        dtype=object,
    )
    if unlabeled is not None:
        spelled[[v is not None and _same(v, unlabeled) for v in spelled]] = None
    given = [v for v in spelled if v is not None]
    if not given and not stated:
        raise BadInput(
            f"The target {name!r} has no label in any of {len(cells)} rows: there is nothing to "
            "learn from. Label some rows, or say what is known of them by --constraint."
        )
    if len(given) == len(spelled):
        raise BadInput(
            f"Nothing is missing: all {len(given)} rows have a label in {name!r}. If a value such "
            "as -1 marks rows without one, name it: --unlabeled -1."
        )
    task, why = _task(task, column.kind, given, bool(stated))
    if task == REGRESSION and stated:
        raise BadInput("--constraint speaks of classes; leave out --task regression.")
    if task == REGRESSION:
        return Target(_numbers(name, spelled), [], name, why)
    _check_stated(stated, given, named)
    classes = sorted({*given, *named, *stated}, key=_order)
    _check_classes(name, given, classes, named)
    return Target(spelled, classes, name, why)


def _task(task: str | None, kind: str, given: list[str], stated: bool) -> tuple[str, str]:
    if task is not None:
        return task, "as you said"
    if stated or kind not in (NUMBER, FLAG):
        return CLASSIFICATION, ""
    values = np.array(given, dtype=float)
    different = len(np.unique(values))
    if np.all(values == np.rint(values)) and different <= min(
        MOST_CLASSES,
        max(2, len(values) / 2),
    ):
        return (
            CLASSIFICATION,
            "few different whole numbers; --task regression would read them as amounts",
        )
    return REGRESSION, ""


def _numbers(name: str, spelled: Array) -> Array:
    try:
        y = np.array([np.nan if v is None else float(v) for v in spelled])
    except ValueError as error:
        at, odd = next((i, v) for i, v in enumerate(spelled) if v is not None and not is_number(v))
        raise BadInput(
            f"A regression needs numbers, and the target {name!r} holds {odd!r} in row {at + 1}. "
            "Correct it, or take the labels for classes: --task classification."
        ) from error
    check_finite(name, y)
    if len(np.unique(y[~np.isnan(y)])) < 2:
        raise BadInput(
            f"The target {name!r} is {y[~np.isnan(y)][0]:g} in every labeled row: there is nothing "
            "to learn."
        )
    return y


def _check_stated(stated: list[str], given: list[str], named: list[str]) -> None:
    """Raise if a statement names an unknown class.

    Where no row is labeled, statements tell the classes.
    """
    known = {*given, *named}
    strange = [label for label in stated if given and label not in known]
    if strange:
        raise BadInput(
            f"--constraint speaks of the label {strange[0]!r}, which no row has"
            f"{nearest(strange[0], sorted(known))} If it is a class, name all of them by "
            "--classes."
        )


def _check_classes(name: str, given: list[str], classes: list[str], named: list[str]) -> None:
    if len(classes) < 2:
        raise BadInput(
            f"The target {name!r} has one class only, {classes[0]!r}, in {len(given)} labeled "
            'rows; at least two are needed. If others have no label, name all: --classes "a,b".'
        )
    strange = []
    if named:
        strange = sorted(set(classes) - set(named))
    if strange:
        raise BadInput(
            f"The target {name!r} has the labels {listed(strange)}, which --classes does not name."
        )
    different = len(set(given))
    unrepeated = different > max(2, len(given) / 2) and len(given) > 4
    if len(classes) > MOST_LEVELS or unrepeated:
        raise BadInput(
            f"The target {name!r} has {different} different labels in {len(given)} labeled "
            "rows: too many to learn them as classes."
        )


def _is_missing(value: Any) -> bool:
    # NA has no truth value
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def _exact(value: Any) -> str:
    """Return a label as a string that loses nothing."""
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, float | np.floating):
        if float(value).is_integer() and abs(float(value)) < 1e15:
            return str(int(value))
        return repr(float(value))
    return str(value)


def _same(value: str, marker: str) -> bool:
    if value == marker.strip():
        return True
    return is_number(value) and is_number(marker) and float(value) == float(marker)


def _order(label: str) -> tuple[float, str]:
    if is_number(label):
        return (float(label), "")
    return (np.inf, label)
