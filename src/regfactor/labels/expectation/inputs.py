"""What ExpectationSVC is given: numbers, labels and classes, and whether anything tells the classes apart."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d

from regfactor.constraints import Constraint, class_balance
from regfactor.core.params import Array, is_number, is_option, require_positive
from regfactor.fitting.factor_estimator import _check_limits
from regfactor.fitting.labels import Labels, as_labels, encode_labels, is_labeled
from regfactor.labels.expectation.annealing import first_labels
from regfactor.labels.expectation.problem import Expectation

AUTO = 0.05  # C' for a kernel whose diagonal has mean one
TOLERANCE = 0.1  # of the balance of few labels
SAME = 1e-9  # difference of probabilities that is none


def weights_of_losses(estimator: Any) -> tuple[float, float]:
    """Return C and C'; raise for parameters that are none."""
    _check_limits(estimator)
    require_positive(estimator, penalty=estimator.penalty)
    own = estimator.C_unlabeled
    if is_option(own, "auto"):
        own = AUTO
    if not (is_number(own) and 0 <= own < np.inf):
        raise ValueError(
            f"C_unlabeled must be a number >= 0 or 'auto', got {estimator.C_unlabeled!r}.",
        )
    C = own if estimator.C is None else estimator.C
    if not (is_number(C) and 0 < C < np.inf):
        raise ValueError(
            f"C must be a number > 0, or None for C_unlabeled where that is > 0; got {estimator.C!r}.",
        )
    for name in ("match_balance", "annealing"):
        if not isinstance(getattr(estimator, name), bool | np.bool_):
            raise ValueError(f"{name} must be True or False, got {getattr(estimator, name)!r}.")
    return float(C), float(own)


def known_labels(estimator: Any, table: Any, y: Any, given: tuple[Constraint, ...]) -> Labels:
    """Return the labels; classes are those named, or those of y and of the constraints."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None.",
        )
    y = as_labels(column_or_1d(y, warn=True) if np.asarray(y).ndim == 2 else y)
    check_consistent_length(table, y)
    classes = estimator.classes
    named = {label for constraint in given for label in constraint.targets}
    if classes is None and named and y.ndim == 1:
        classes = _ordered(named | set(y[is_labeled(y, estimator.unlabeled)].tolist()))
    labels = encode_labels(y, estimator.unlabeled, classes)
    if not len(labels.classes):
        raise ValueError(
            "No row has a label, and no class is named. State what is expected of classes: constraints=[...].",
        )
    if len(labels.classes) < 2:
        only = labels.classes.tolist()[0]
        raise ValueError(
            f"A classifier needs at least two classes, got 1 class, {only!r}; name all: classes=[...].",
        )
    return labels


def _ordered(labels: set[Any]) -> list[Any]:
    if len({isinstance(label, str) for label in labels}) > 1:
        raise ValueError(
            f"Labels of y and of the constraints mix strings and numbers: {sorted(map(str, labels))}.",
        )
    return sorted(labels)


def label_shares(labels: Labels, weights: Array) -> Array:
    """(n_c + 1)/(n + k): the balance of labels, drawn a little towards equal shares."""
    counts = weights @ labels.one_hot()
    return np.asarray((counts + 1) / (counts.sum() + len(counts)))


def balance_of_labels(labels: Labels, weights: Array) -> tuple[Constraint, ...]:
    """Return what is expected of unlabeled rows where nothing is stated."""
    shares = label_shares(labels, weights).tolist()
    return (class_balance(dict(zip(labels.classes.tolist(), shares, strict=True)), TOLERANCE),)


def check_symmetry(task: Expectation, labels: Labels, constraints: tuple[Constraint, ...]) -> None:
    """Raise where two classes have no label and the statements say the same of both in every row."""
    known = np.unique(task.codes[task.codes >= 0])
    silent = np.setdiff1d(np.arange(task.n_classes), known)
    alone = not len(task.free) or task.C_unlabeled == 0
    if alone and len(known) < 2:
        raise ValueError(
            f"Rows of positive weight have labels of {len(known)} class, and no unlabeled row counts: at least two "
            "are needed.",
        )
    pairs = list(itertools.combinations(silent, 2))
    if not alone and pairs:
        p = first_labels(task)[0]
        P = np.hstack([1 - p, p]) if p.shape[1] == 1 else p
        pairs = [(a, b) for a, b in pairs if np.ptp(P[:, b] / (P[:, a] + P[:, b])) < SAME]
    if pairs:
        names = sorted(labels.classes[list(pairs[0])].tolist(), key=str)
        said = ", ".join(map(str, constraints)) or "none"
        raise ValueError(
            f"Nothing tells the classes {names} apart: no row of theirs has a label, and the constraints ({said}) say "
            "the same of every row. Label some rows, or state a region or a labeled feature whose shares differ from "
            "those of all rows by more than its tolerance.",
        )
