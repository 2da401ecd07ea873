"""Labels and classes of ExpectationSVC, and whether anything distinguishes the classes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from regfactor.constraints import Constraint, class_balance
from regfactor.core.params import Array
from regfactor.fitting.labels import Labels, encode_labels, is_labeled
from regfactor.labels.expectation.annealing import first_labels
from regfactor.labels.expectation.problem import Expectation, by_class

LABEL_BALANCE_TOLERANCE = 0.1  # of the balance of few labels
SAME = 1e-9  # difference up to which probabilities count as equal


def known_labels(
    y: Array,
    unlabeled: Any,
    classes: Any,
    constraints: tuple[Constraint, ...],
) -> Labels:
    """Return the labels; classes are those given, or those of y and of the constraints."""
    named = {label for constraint in constraints for label in constraint.targets}
    if classes is None and named and y.ndim == 1:
        classes = _ordered(named | set(y[is_labeled(y, unlabeled)].tolist()))
    labels = encode_labels(y, unlabeled, classes)
    if not len(labels.classes):
        raise ValueError(
            "No row has a label, and no class is named. State what is expected of classes: "
            "constraints=[...]."
        )
    if len(labels.classes) < 2:
        raise ValueError(
            f"A classifier needs at least two classes, got 1 class, {labels.classes.tolist()[0]!r};"
            " name all: classes=[...]."
        )
    return labels


def _ordered(labels: set[Any]) -> list[Any]:
    if len({isinstance(label, str) for label in labels}) > 1:
        raise ValueError(
            "Labels of y and of the constraints mix strings and numbers: "
            f"{sorted(map(str, labels))}."
        )
    return sorted(labels)


def label_shares(labels: Labels, weights: Array) -> Array:
    """Return (n_c + 1)/(n + k), the balance of labels, shrunk towards equal shares."""
    counts = weights @ labels.one_hot()
    return (counts + 1) / (counts.sum() + len(counts))


def balance_of_labels(labels: Labels, weights: Array) -> Constraint:
    """Return the constraint on unlabeled rows that is used where none is given."""
    shares = label_shares(labels, weights).tolist()
    balance = dict(zip(labels.classes.tolist(), shares, strict=True))
    return class_balance(balance, LABEL_BALANCE_TOLERANCE)


def check_stated_classes(
    labels: Labels,
    counted: Array,
    constraints: tuple[Constraint, ...],
) -> None:
    """Raise if nothing is known of a class: no row has its label, and no constraint names it.

    One class that no constraint names is what remains where others are stated.
    """
    counts = np.bincount(labels.codes[counted] + 1, minlength=len(labels.classes) + 1)[1:]
    names = labels.classes.tolist()
    named = {label for constraint in constraints for label in constraint.targets}
    unnamed = [label for label in names if label not in named]
    unknown = [label for label in unnamed if not counts[names.index(label)]]
    if not unknown or (constraints and len(unnamed) == 1):
        return
    stated = ", ".join(map(str, constraints)) or "none"
    raise ValueError(
        f"Classes {unknown} have no labeled row of positive weight, and the constraints "
        f"({stated}) do not name them: label a row of each, leave them out of classes, or state "
        "what is expected of them. ReverseClassifier finds classes without a label."
    )


def check_symmetry(
    problem: Expectation,
    classes: Array,
    constraints: tuple[Constraint, ...],
) -> None:
    """Raise where two classes have no label, and the same constraints in every row."""
    known = np.unique(problem.codes[problem.codes >= 0])
    if not problem.uses_unlabeled and len(known) < 2:
        raise ValueError(
            f"Rows of positive weight have labels of {len(known)} class, and no unlabeled row "
            "counts: at least two are needed."
        )
    silent = np.setdiff1d(np.arange(problem.n_classes), known)
    if len(silent) < 2:
        return
    P = by_class(first_labels(problem).p)
    for a, b in itertools.combinations(silent, 2):
        if problem.uses_unlabeled and np.ptp(P[:, b] / (P[:, a] + P[:, b])) >= SAME:
            continue
        names = sorted(classes[[a, b]].tolist(), key=str)
        stated = ", ".join(map(str, constraints)) or "none"
        raise ValueError(
            f"Nothing distinguishes the classes {names}: no row of theirs has a label, and the "
            f"constraints ({stated}) are the same for every row. Label some rows, or state a "
            "region or a labeled feature whose shares differ from those of all rows by more than "
            "its tolerance."
        )
