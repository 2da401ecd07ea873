"""Ways to fill a target, each with unlabeled rows and without, compared on labeled rows that were held out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import mean_absolute_error

from regfactor.cli.job import quiet
from regfactor.cli.targets import CLASSIFICATION, Target
from regfactor.core.params import Array
from regfactor.labels.convex.estimator import ConvexFactorClassifier, ConvexFactorRegressor
from regfactor.labels.reverse.classifier import ReverseClassifier
from regfactor.labels.reverse.regressor import ReverseRegressor
from regfactor.model_selection import Comparison, LabeledKFold, compare_with_supervised

FOLDS = 5
MOST_DENSE = 500  # encoded columns up to which the convex model, which holds them densely, is tried
# rows of the comparison
MOST_LABELED = 2_000
MOST_UNLABELED = 5_000
NEGATIVE_ERROR = "negative mean absolute error"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model, whether it sees unlabeled rows, its code, and its scores in folds where they were taken."""

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

    def fit(self, E: Any, y: Array, labeled: Array) -> Any:
        """Return a fitted clone: on all rows, or on those with a label alone."""
        rows = np.arange(len(y)) if self.unlabeled else np.flatnonzero(labeled)
        given = y[rows]
        if given.dtype == object and all(v is not None for v in given):
            given = given.astype(str)
        return clone(self.model).fit(E[rows], given)


@dataclass(frozen=True, eq=False)
class Contest:
    """All candidates, the best one, what unlabeled rows did for the best of those that see them, and which that is."""

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
        """Say whether unlabeled rows helped, and which model: it is no law of the data."""
        if self.comparison is None:
            return self.why_not
        return f"{self.comparison.verdict} This was tried with {self.compared}."


def candidates_of(target: Target, width: int, seed: int) -> tuple[list[Candidate], Candidate]:
    """Return the semi-supervised candidates of a task, and the supervised one beside them."""
    if target.task == CLASSIFICATION:
        all_seen = set(target.classes) <= set(target.y[target.labeled])
        classes = (
            None if all_seen else target.classes
        )  # of those without a label it finds the clusters
        semi = [
            Candidate(
                "reverse prediction",
                ReverseClassifier(classes=classes, random_state=seed),
                True,
                f"ReverseClassifier(classes={classes!r}, random_state={seed})",
            ),
            Candidate(
                "convex factors",
                ConvexFactorClassifier(bounds=(1.0, 3.0), random_state=seed),
                True,
                f"ConvexFactorClassifier(bounds=(1.0, 3.0), random_state={seed})",
            ),
        ]
        rest = Candidate(
            "logistic regression",
            LogisticRegression(max_iter=1000),
            False,
            "LogisticRegression(max_iter=1000)",
        )
    else:
        semi = [
            Candidate(
                "reverse prediction",
                ReverseRegressor(fit_intercept=True),
                True,
                "ReverseRegressor(fit_intercept=True)",
            ),
            Candidate(
                "convex factors",
                ConvexFactorRegressor(bounds=(1.0, 3.0), random_state=seed),
                True,
                f"ConvexFactorRegressor(bounds=(1.0, 3.0), random_state={seed})",
            ),
        ]
        rest = Candidate(
            "ridge regression",
            RidgeCV(np.logspace(-3, 3, 13)),
            False,
            "RidgeCV(np.logspace(-3, 3, 13))",
        )
    return (semi if width <= MOST_DENSE else semi[:1]), rest


def contest(
    semi: list[Candidate],
    rest: Candidate,
    E: Any,
    y: Array,
    target: Target,
    *,
    seed: int,
    scale: float,
) -> Contest:
    """Compare candidates on held-out labels; where there are too few, say so and take the first."""
    few = too_few(target)
    if few:
        return Contest([*semi, rest], 0, None, few)
    rows = _sampled(target, seed)
    E = E[rows]
    y = y[rows]
    labeled = target.labeled[rows]
    all_ = []
    comparisons = []
    scoring = None if target.task == CLASSIFICATION else negative_error
    with quiet():
        for candidate in semi:
            result = compare_with_supervised(
                candidate.model,
                E,
                y,
                cv=n_folds(target),
                scoring=scoring,
            )
            comparisons.append(_in_units(result, target, scale))
            all_ += [
                replace(candidate, folds=result.semi_supervised),
                replace(
                    candidate,
                    name=f"{candidate.name} (labels only)",
                    unlabeled=False,
                    folds=result.supervised,
                ),
            ]
        all_.append(replace(rest, folds=_scores(rest, E, y, labeled, target)))
    # of equals, one that needs no unlabeled row
    chosen = max(
        range(len(all_)),
        key=lambda i: (round(all_[i].mean, 12), not all_[i].unlabeled, i),
    )
    if all_[chosen].unlabeled:
        best = chosen // 2
    else:
        best = max(range(len(semi)), key=lambda i: all_[2 * i].mean)
    return Contest(all_, chosen, comparisons[best], compared=semi[best].name)


def stated_contest(
    stated: Candidate,
    rest: Candidate,
    E: Any,
    y: Array,
    target: Target,
    seed: int,
) -> Contest:
    """Compare a model of the user's statements with labels alone; it is taken in any case, as it was asked for."""
    few = too_few(target)
    if few:
        return Contest([stated, rest], 0, None, few)
    rows = _sampled(target, seed)
    with quiet():
        result = compare_with_supervised(
            stated.model,
            E[rows],
            y[rows],
            cv=n_folds(target),
            supervised=rest.model,
        )
    both = [replace(stated, folds=result.semi_supervised), replace(rest, folds=result.supervised)]
    return Contest(both, 0, result, compared=stated.name)


def _in_units(result: Comparison, target: Target, scale: float) -> Comparison:
    """Return a comparison in the units of the target."""
    if target.task == CLASSIFICATION:
        return result
    return replace(
        result,
        score=NEGATIVE_ERROR,
        supervised=result.supervised * scale,
        semi_supervised=result.semi_supervised * scale,
    )


def too_few(target: Target) -> str:
    """Return why candidates cannot be compared; nothing where they can."""
    given = target.y[target.labeled]
    if target.task == CLASSIFICATION:
        counts = {name: int(np.sum(given == name)) for name in target.classes}
        least = min(counts, key=lambda name: counts[name])
        if counts[least] < 2:
            return (
                f"Whether the unlabeled rows help cannot be told: class {least!r} has {counts[least]} labeled "
                f"row{'' if counts[least] == 1 else 's'}, and a comparison needs two of each."
            )
    elif len(given) < 4:
        return f"Whether the unlabeled rows help cannot be told from {len(given)} labeled rows; a comparison needs four."
    return ""


def n_folds(target: Target) -> int:
    """Return the number of folds that the labels allow."""
    n = int(target.labeled.sum())
    return min(FOLDS, n if target.task == CLASSIFICATION else n // 2)


def folds(y: Array, target: Target) -> Iterator[tuple[Array, Array]]:
    """Yield the folds of the comparison: rows of training, unlabeled ones among them, and of test."""
    marker = float("nan") if target.task != CLASSIFICATION else None
    yield from LabeledKFold(n_folds(target), shuffle=True, random_state=0, unlabeled=marker).split(
        y,
        y,
    )


def negative_error(model: Any, X: Any, y: Array) -> float:
    """Return minus the mean absolute error: greater is better."""
    return -float(mean_absolute_error(y, model.predict(X)))


def _scores(candidate: Candidate, E: Any, y: Array, labeled: Array, target: Target) -> Array:
    """Return the score of a supervised model in each fold."""
    scores = []
    for train, test in folds(y, target):
        model = candidate.fit(E[train], y[train], labeled[train])
        if target.task != CLASSIFICATION:
            right = y[test]
        else:
            right = y[test].astype(str)
        if target.task != CLASSIFICATION:
            score = negative_error(model, E[test], right)
        else:
            score = model.score(E[test], right)
        scores.append(float(score))
    return np.array(scores)


def _sampled(target: Target, seed: int) -> Array:
    """Return the rows of the comparison: all, or as many as tell the difference."""
    return learned_rows(target, seed, MOST_LABELED, MOST_UNLABELED)


def learned_rows(target: Target, seed: int, most_labeled: int, most_unlabeled: int) -> Array:
    """Return some rows with a label and some without, in their order; each class keeps its share."""
    random = np.random.default_rng(seed)
    kept = []
    for rows, most in (
        (np.flatnonzero(target.labeled), most_labeled),
        (np.flatnonzero(~target.labeled), most_unlabeled),
    ):
        if len(rows) > most:
            rows = random.choice(rows, most, replace=False)
        kept.append(rows)
    rows = np.concatenate(kept)
    if target.task == CLASSIFICATION and len(kept[0]) < int(target.labeled.sum()):
        for name in target.classes:  # a rare class must not be lost by chance
            own = np.flatnonzero(target.y == name)
            rows = np.concatenate([rows, own[:2]])
    return np.unique(rows)
