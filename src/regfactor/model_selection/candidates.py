"""Ways to fill a target, each with unlabeled rows and without, compared on held-out labels."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import mean_absolute_error

from regfactor.core.params import Array, frozen
from regfactor.labels.reverse.classifier import ReverseClassifier
from regfactor.labels.semi_supervised.classifier import SemiSupervisedClassifier
from regfactor.labels.semi_supervised.regressor import SemiSupervisedRegressor
from regfactor.model_selection.compare import Comparison, compare_with_supervised
from regfactor.model_selection.folds import LabeledKFold

MAX_FOLDS = 5
MAX_COMPARED_LABELED = 2_000
MAX_COMPARED_UNLABELED = 5_000
AUTOMATIC = "an average of label models"
NEGATIVE_ERROR = "negative mean absolute error"


@frozen
class LabeledTask:
    """Targets of all rows: strings with None, or numbers with NaN, where a row has none.

    `classes` lists all classes of a classification; it is empty for a regression.
    """

    y: Array
    classes: list[str]

    @property
    def is_classification(self) -> bool:
        """Whether the targets are classes."""
        return bool(self.classes)

    @property
    def labeled(self) -> Array:
        """Mask of the rows with a target."""
        if self.is_classification:
            return np.array([value is not None for value in self.y], dtype=bool)
        return ~np.isnan(self.y)

    @property
    def n_folds(self) -> int:
        """Number of folds that the labels allow."""
        n_labeled = int(self.labeled.sum())
        if self.is_classification:
            return min(MAX_FOLDS, n_labeled)
        return min(MAX_FOLDS, n_labeled // 2)

    def folds(self) -> Iterator[tuple[Array, Array]]:
        """Yield training rows, unlabeled ones among them, and test rows."""
        marker = None if self.is_classification else float("nan")
        folds = LabeledKFold(self.n_folds, shuffle=True, random_state=0, unlabeled=marker)
        yield from folds.split(self.y, self.y)

    def of_rows(self, rows: Array) -> LabeledTask:
        """Return the task of some rows."""
        return LabeledTask(self.y[rows], self.classes)


@frozen
class Candidate:
    """A model, whether it uses unlabeled rows, its code, and its scores in folds if it has any."""

    name: str
    model: Any
    unlabeled: bool
    code: str
    folds: Array | None = None

    @property
    def mean(self) -> float:
        """The mean score over folds."""
        if self.folds is None:
            return float("nan")
        return float(self.folds.mean())

    def rows(self, task: LabeledTask) -> Array:
        """Return the rows that the model is fitted to: all, or the labeled ones alone."""
        if self.unlabeled:
            return np.arange(len(task.y))
        return np.flatnonzero(task.labeled)

    def fit(self, X: Any, task: LabeledTask) -> Any:
        """Return a fitted clone."""
        rows = self.rows(task)
        y = task.y[rows]
        if y.dtype == object and all(value is not None for value in y):
            y = y.astype(str)
        return clone(self.model).fit(X[rows], y)


@frozen
class Contest:
    """All candidates, the one chosen, and whether unlabeled rows helped the best that uses them."""

    candidates: list[Candidate]
    chosen: int
    comparison: Comparison | None
    why_not: str = ""
    compared: str = ""

    @property
    def winner(self) -> Candidate:
        """The candidate that fills the target."""
        return self.candidates[self.chosen]

    @property
    def verdict(self) -> str:
        """Whether unlabeled rows helped, and with which model this was tried."""
        if self.comparison is None:
            return self.why_not
        return f"{self.comparison.verdict} This was tried with {self.compared}."


@frozen
class Candidates:
    """Semi-supervised candidates of a task, and the supervised one they are compared with.

    With `take_first` the first candidate is taken whatever the scores are: an average of models
    that are weighted by the labels already is not improved by a choice on the same labels.
    """

    semi_supervised: list[Candidate]
    supervised: Candidate
    take_first: bool = False


def default_candidates(task: LabeledTask, random_state: int) -> Candidates:
    """Return the automatic estimator of a task, and the supervised model it is compared with."""
    if task.is_classification:
        return _classifiers(task, random_state)
    return _regressors(random_state)


def _classifiers(task: LabeledTask, random_state: int) -> Candidates:
    supervised = Candidate(
        "logistic regression",
        LogisticRegression(max_iter=1000),
        unlabeled=False,
        code="LogisticRegression(max_iter=1000)",
    )
    if set(task.classes) <= set(task.y[task.labeled]):
        first = Candidate(
            AUTOMATIC,
            SemiSupervisedClassifier(random_state=random_state),
            unlabeled=True,
            code=f"SemiSupervisedClassifier(random_state={random_state})",
        )
    else:
        # reverse prediction finds clusters for classes without a label
        first = Candidate(
            "reverse prediction",
            ReverseClassifier(classes=task.classes, random_state=random_state),
            unlabeled=True,
            code=f"ReverseClassifier(classes={task.classes!r}, random_state={random_state})",
        )
    return Candidates([first], supervised, take_first=True)


def _regressors(random_state: int) -> Candidates:
    first = Candidate(
        AUTOMATIC,
        SemiSupervisedRegressor(random_state=random_state),
        unlabeled=True,
        code=f"SemiSupervisedRegressor(random_state={random_state})",
    )
    supervised = Candidate(
        "ridge regression",
        RidgeCV(np.logspace(-3, 3, 13)),
        unlabeled=False,
        code="RidgeCV(np.logspace(-3, 3, 13))",
    )
    return Candidates([first], supervised, take_first=True)


def contest(
    candidates: Candidates,
    X: Any,
    task: LabeledTask,
    *,
    random_state: int,
) -> Contest:
    """Compare candidates on held-out labels; with too few of them, take the first."""
    semi = candidates.semi_supervised
    why_not = too_few_labels(task)
    if why_not:
        return Contest([*semi, candidates.supervised], 0, None, why_not)
    rows = sample_rows(task, random_state, MAX_COMPARED_LABELED, MAX_COMPARED_UNLABELED)
    X = X[rows]
    task = task.of_rows(rows)
    scoring = None if task.is_classification else negative_error
    tried: list[Candidate] = []
    comparisons: list[Comparison] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of trial fits; the final one reports its own
        for candidate in semi:
            result = compare_with_supervised(
                candidate.model,
                X,
                task.y,
                cv=task.n_folds,
                scoring=scoring,
            )
            if not task.is_classification:
                result = replace(result, score=NEGATIVE_ERROR)
            comparisons.append(result)
            tried.append(replace(candidate, folds=result.semi_supervised))
            name = f"{candidate.name} (labels only)"
            tried.append(replace(candidate, name=name, unlabeled=False, folds=result.supervised))
        scores = _scores(candidates.supervised, X, task)
        tried.append(replace(candidates.supervised, folds=scores))
    chosen = 0
    if not candidates.take_first:
        chosen = max(range(len(tried)), key=lambda i: _preference(tried[i], i))
    if tried[chosen].unlabeled:
        best = chosen // 2
    else:
        best = max(range(len(semi)), key=lambda i: tried[2 * i].mean)
    return Contest(tried, chosen, comparisons[best], compared=semi[best].name)


def _preference(candidate: Candidate, position: int) -> tuple[float, bool, int]:
    """Return a sorting key: of equal scores, the candidate that needs no unlabeled rows wins."""
    return round(candidate.mean, 12), not candidate.unlabeled, position


def contest_of_two(
    stated: Candidate,
    supervised: Candidate,
    X: Any,
    task: LabeledTask,
    random_state: int,
) -> Contest:
    """Compare a model that the user asked for, which is taken in any case, with labels alone."""
    why_not = too_few_labels(task)
    if why_not:
        return Contest([stated, supervised], 0, None, why_not)
    rows = sample_rows(task, random_state, MAX_COMPARED_LABELED, MAX_COMPARED_UNLABELED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = compare_with_supervised(
            stated.model,
            X[rows],
            task.y[rows],
            cv=task.n_folds,
            supervised=supervised.model,
        )
    both = [
        replace(stated, folds=result.semi_supervised),
        replace(supervised, folds=result.supervised),
    ]
    return Contest(both, 0, result, compared=stated.name)


def too_few_labels(task: LabeledTask) -> str:
    """Return why candidates cannot be compared; empty if they can."""
    given = task.y[task.labeled]
    if not task.is_classification:
        if len(given) >= 4:
            return ""
        return (
            f"Whether the unlabeled rows help cannot be decided from {len(given)} labeled rows; a "
            "comparison needs four."
        )
    counts = {name: int(np.sum(given == name)) for name in task.classes}
    rarest = min(counts, key=lambda name: counts[name])
    if counts[rarest] >= 2:
        return ""
    rows = "row" if counts[rarest] == 1 else "rows"
    return (
        f"Whether the unlabeled rows help cannot be decided: class {rarest!r} has "
        f"{counts[rarest]} labeled {rows}, and a comparison needs two of each."
    )


def negative_error(model: Any, X: Any, y: Array) -> float:
    """Return minus the mean absolute error: greater is better."""
    return -float(mean_absolute_error(y, model.predict(X)))


def _scores(candidate: Candidate, X: Any, task: LabeledTask) -> Array:
    """Return the score of a supervised model in each fold."""
    scores = []
    for train, test in task.folds():
        model = candidate.fit(X[train], task.of_rows(train))
        if task.is_classification:
            score = model.score(X[test], task.y[test].astype(str))
        else:
            score = negative_error(model, X[test], task.y[test])
        scores.append(float(score))
    return np.array(scores)


def sample_rows(
    task: LabeledTask,
    random_state: int,
    max_labeled: int,
    max_unlabeled: int,
) -> Array:
    """Return some rows with a label and some without, in their order; no class is lost."""
    random = np.random.default_rng(random_state)
    labeled = _sample(np.flatnonzero(task.labeled), max_labeled, random)
    unlabeled = _sample(np.flatnonzero(~task.labeled), max_unlabeled, random)
    rows = np.concatenate([labeled, unlabeled])
    if task.is_classification and len(labeled) < int(task.labeled.sum()):
        for name in task.classes:  # a rare class must not be lost by chance
            own = np.flatnonzero(task.y == name)
            rows = np.concatenate([rows, own[:2]])
    return np.unique(rows)


def _sample(rows: Array, most: int, random: np.random.Generator) -> Array:
    if len(rows) <= most:
        return rows
    return random.choice(rows, most, replace=False)
