"""Held-out labels: how they are scored, and the share of new rows that their scores cover."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from regfactor.core.params import Array, frozen
from regfactor.fitting.conformal import (
    ROUNDING,
    PredictionInterval,
    adaptive_scores,
    adaptive_sets,
    conformal_quantile,
    coverage_range,
    cross_interval,
    cross_sets,
    expected_coverage,
    normalized_residuals,
    split_interval,
    weight_below,
)
from regfactor.fitting.labels import encode_labels
from regfactor.model_selection.marked_labels import MarkedLabels

MIN_WIDTH = 1e-6  # of a predicted deviation, relative to the deviation of the targets


@frozen
class HeldOut:
    """A fitted estimator, the labeled rows it was not fitted to, its predictions and scores there.

    Predictions are probabilities of all classes, or means; `widths` are predicted deviations, and
    `weights` act as repetition counts of the rows. `codes` are the places of the classes. A soft
    label is several entries, one for each class with a share, whose weights are the shares.
    """

    estimator: Any
    rows: Array
    predictions: Array
    scores: Array
    weights: Array
    widths: Array | None = None
    codes: Array | None = None


@frozen
class ClassScores:
    """Adaptive scores of classes, with uniform numbers by a seed where they are randomized."""

    classes: Array
    penalty: float = 0.0
    n_free: int = 1
    randomized: bool = False

    def probabilities(self, model: Any, X: Any) -> Array:
        """Return a column for each class, zero for classes that the model does not know."""
        found = np.asarray(model.predict_proba(X), dtype=np.float64)
        P = np.zeros((len(found), len(self.classes)))
        places = self.classes.tolist()
        P[:, [places.index(name) for name in model.classes_.tolist()]] = found
        return P

    def held_out(
        self,
        model: Any,
        X: Any,
        labels: MarkedLabels,
        weights: Array,
        rows: Array,
        seed: int,
    ) -> HeldOut:
        """Return the scores of labeled rows; X holds these rows, `weights` are of all."""
        P = self.probabilities(model, X)
        scores = adaptive_scores(P, **self._options(len(P), seed))
        if labels.is_soft:
            places, codes = np.nonzero(labels.y[rows])
            counts = labels.y[rows[places], codes]
        else:
            places = np.arange(len(rows))
            codes = encode_labels(labels.of_rows(rows), labels.marker, self.classes).codes
            counts = np.ones(len(rows))
        rows = rows[places]
        counts = counts * weights[rows]
        return HeldOut(model, rows, P[places], scores[places, codes], counts, codes=codes)

    def sets(
        self,
        folds: Sequence[HeldOut],
        X: Any,
        level: float,
        seed: int,
    ) -> Array:
        """Return the sets of new rows."""
        new = []
        for fold in folds:
            P = self.probabilities(fold.estimator, X)
            new.append(adaptive_scores(P, **self._options(len(P), seed)))
        weights = [fold.weights for fold in folds]
        return cross_sets([fold.scores for fold in folds], new, level, weights)

    def mean_size(self, folds: Sequence[HeldOut], level: float) -> float:
        """Return the mean number of classes in the sets of the held-out rows."""
        P = np.concatenate([fold.predictions for fold in folds])
        weights = weights_of(folds)
        scores = np.concatenate([fold.scores for fold in folds])
        quantile = conformal_quantile(scores, level, weights)
        sets = adaptive_sets(P, quantile, penalty=self.penalty, n_free=self.n_free)
        return float(np.average(sets.sum(axis=1), weights=weights))

    def by_class(self, covered: Array, folds: Sequence[HeldOut]) -> dict[Any, float]:
        """Return the share of the labels of each class that are covered."""
        codes = np.concatenate([fold.codes for fold in folds if fold.codes is not None])
        weights = weights_of(folds)
        shares = {}
        for code, name in enumerate(self.classes.tolist()):
            counts = weights * (codes == code)
            if counts.any():
                shares[name] = float(np.average(covered, weights=counts))
        return shares

    def _options(self, n_rows: int, seed: int) -> dict[str, Any]:
        uniform = None
        if self.randomized:
            uniform = np.random.RandomState(seed).uniform(size=n_rows)
        return {"uniform": uniform, "penalty": self.penalty, "n_free": self.n_free}


@frozen
class PredictedTargets:
    """Means and, where the model predicts them, deviations: a column for each target."""

    mean: Array
    width: Array | None


@frozen
class ResidualScores:
    """Residuals in units of the predicted deviation, which is at least `min_width`."""

    min_width: Array

    @staticmethod
    def of(labels: MarkedLabels) -> ResidualScores:
        """Return the scores of targets, with a smallest deviation in their units."""
        given = labels.y[labels.complete].astype(np.float64)
        deviation = np.atleast_1d(given.std(axis=0))
        return ResidualScores(np.where(deviation > 0, MIN_WIDTH * deviation, 1.0))

    def predicted(self, model: Any, X: Any) -> PredictedTargets:
        """Return the predictions of a model."""
        if not returns_deviation(model):
            return PredictedTargets(_as_columns(model.predict(X)), None)
        mean, deviation = model.predict(X, return_std=True)
        mean = _as_columns(mean)
        width = np.maximum(_as_columns(deviation), self.min_width)
        # one deviation may serve all targets
        return PredictedTargets(mean, np.broadcast_to(width, mean.shape))

    def held_out(
        self,
        model: Any,
        X: Any,
        labels: MarkedLabels,
        weights: Array,
        rows: Array,
        seed: int,
    ) -> HeldOut:
        """Return the scores of labeled rows; X holds these rows, `weights` are of all."""
        found = self.predicted(model, X)
        y = _as_columns(labels.y[rows])
        scores = normalized_residuals(y, found.mean, found.width)
        return HeldOut(model, rows, found.mean, scores, weights[rows], found.width)

    def interval(self, folds: Sequence[HeldOut], X: Any, level: float) -> PredictionInterval:
        """Return the limits of new rows, a column for each target."""
        predicted = [self.predicted(fold.estimator, X) for fold in folds]
        means = np.stack([own.mean for own in predicted], axis=1)
        widths = [own.width for own in predicted if own.width is not None]
        weights = [fold.weights for fold in folds]
        limits = []
        for target in range(means.shape[2]):
            residuals = [fold.scores[:, target] for fold in folds]
            width = None
            if widths:
                width = np.column_stack([own[:, target] for own in widths])
            limits.append(_limits(residuals, weights, means[:, :, target], width, level))
        lower = np.column_stack([own.lower for own in limits])
        upper = np.column_stack([own.upper for own in limits])
        return PredictionInterval(lower, upper)

    def mean_size(self, folds: Sequence[HeldOut], level: float) -> float:
        """Return the mean width of the intervals of the held-out rows, over all targets."""
        scores = np.concatenate([fold.scores for fold in folds])
        weights = weights_of(folds)
        quantiles = np.array([conformal_quantile(column, level, weights) for column in scores.T])
        if folds[0].widths is None:
            return 2 * float(quantiles.mean())
        widths = np.concatenate([fold.widths for fold in folds if fold.widths is not None])
        return 2 * float(np.average(quantiles * widths, axis=0, weights=weights).mean())


def weights_of(folds: Sequence[HeldOut]) -> Array:
    """Return the weights of the held-out rows, in the order of the folds."""
    return np.concatenate([fold.weights for fold in folds])


def _limits(
    residuals: list[Array],
    weights: list[Array],
    means: Array,
    widths: Array | None,
    level: float,
) -> PredictionInterval:
    """Return the limits of one target; `means` and `widths` have a column for each fold."""
    if len(residuals) > 1:
        return cross_interval(residuals, means, level, widths, weights)
    width = None if widths is None else widths[:, 0]
    quantile = conformal_quantile(residuals[0], level, weights[0])
    return split_interval(means[:, 0], quantile, width)


def returns_deviation(model: Any) -> bool:
    """Return whether `predict` of a model, or of the last step of a pipeline, has `return_std`."""
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return "return_std" in inspect.signature(model.predict).parameters


def _as_columns(values: Any) -> Array:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim == 1:
        return values[:, None]
    return values


@frozen
class Coverage:
    """The share of new rows that sets or intervals cover: expected, guaranteed, and measured.

    Parameters
    ----------
    level : float
        The share that was asked for.
    n_labels : float
        Number of held-out labels, or the sum of their weights.
    expected : float
        ceil((n + 1) level) / (n + 1): the mean over samples of n labels, for scores without ties.
    low, high : float
        Limits within which the coverage of 90 % of such samples lies: with few labels a single one
        may cover much less, or more, than the mean.
    guaranteed : float
        The lower bound that is proved for exchangeable rows.
    held_out : float
        Share of the held-out labels that are covered by the scores of the others.
    by_class : dict
        The same for the labels of each class; empty for a regression.
    size : float
        Mean number of classes in the sets of the held-out rows, or mean width of their intervals.
    message : str
        Why no sets or intervals can be given; empty if they can.
    """

    level: float
    n_labels: float
    expected: float
    low: float
    high: float
    guaranteed: float
    held_out: float
    by_class: dict[Any, float]
    size: float
    message: str = ""

    def __str__(self) -> str:
        if self.message:
            return self.message
        return (
            f"At level {self.level:g}, from {self.n_labels:g} labels: {self.expected:.0%} of new "
            f"rows are covered on average, {self.low:.0%} to {self.high:.0%} by most samples of "
            f"so many labels, and at least {self.guaranteed:.0%} in theory; {self.held_out:.0%} "
            "of the held-out labels were."
        )


def covered_by_others(scores: Array, level: float, weights: Array) -> Array:
    """Return whether each score is at most the conformal quantile of the others."""
    return weight_below(scores, weights, scores) < weights.sum() * level - ROUNDING


def guaranteed_coverage(n_labels: float, n_folds: int, level: float) -> float:
    """Return the bound of Barber et al. (2021) on the coverage of CV+, and of jackknife+.

    1 - 2 a - min(2 (1 - 1/K) / (n/K + 1), (1 - K/n) / (K + 1)), a = 1 - level, for K folds of n
    labels. One model, whose scores are of rows that it was not fitted to, covers `level`.
    """
    if n_folds == 1:
        return level
    share = 1 / n_folds
    loss = min(
        2 * (1 - share) / (n_labels * share + 1),
        (1 - min(n_folds / n_labels, 1)) / (n_folds + 1),
    )
    return max(2 * level - 1 - loss, 0.0)


def coverage_of(
    scores: ClassScores | ResidualScores,
    folds: Sequence[HeldOut],
    level: float,
    message: str,
) -> Coverage:
    """Return the coverage at a level by the scores of held-out labels."""
    columns = _as_columns(np.concatenate([fold.scores for fold in folds]))
    weights = weights_of(folds)
    n_labels = float(weights.sum())
    covered = np.column_stack([covered_by_others(column, level, weights) for column in columns.T])
    by_class = {}
    if isinstance(scores, ClassScores):
        by_class = scores.by_class(covered[:, 0], folds)
    low, high = coverage_range(n_labels, level)
    return Coverage(
        level=level,
        n_labels=n_labels,
        expected=expected_coverage(n_labels, level),
        low=low,
        high=high,
        guaranteed=guaranteed_coverage(n_labels, len(folds), level),
        held_out=float(np.average(covered, axis=0, weights=weights).mean()),
        by_class=by_class,
        size=scores.mean_size(folds, level),
        message=message,
    )
