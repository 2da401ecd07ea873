"""Sets of classes and intervals of targets that cover a stated share of new rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing, check_random_state, get_tags, indexable
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, check_is_fitted

from regfactor.core.params import Array, frozen, warn
from regfactor.fitting.conformal import (
    PredictionInterval,
    labels_needed,
    too_few_labels_message,
)
from regfactor.fitting.inputs import weights_of_all_rows
from regfactor.fitting.labels import encode_labels, labels_of_rows, require_same_rows
from regfactor.fitting.parameters import (
    AUTO,
    COUNT,
    FINITE_NON_NEGATIVE,
    NumberInterval,
    check_level,
    check_parameters,
    parametrized,
)
from regfactor.model_selection.folds import LabeledKFold
from regfactor.model_selection.held_out import ClassScores, ResidualScores, coverage_of, weights_of
from regfactor.model_selection.marked_labels import (
    MarkedLabels,
    holds_soft_labels,
    takes_unlabeled_rows,
)

SPLIT = "split"
CROSS = "cross"
JACKKNIFE = "jackknife+"
MIN_TRAINING_LABELS = 2
MAX_SEED = np.iinfo(np.int32).max


def _has_probabilities(model: Conformal) -> bool:
    return hasattr(model.estimator, "predict_proba")


def _has_score(model: Conformal) -> bool:
    return hasattr(model.estimator, "score")


def _is_classifier(model: Conformal) -> bool:
    return bool(is_classifier(model.estimator))


def _is_regressor(model: Conformal) -> bool:
    return bool(is_regressor(model.estimator))


@frozen
class Training:
    """Rows from which an estimator is fitted, without some of them each time."""

    estimator: Any
    X: Any
    labels: MarkedLabels
    fit_params: dict[str, Any]

    def fit(self, rows: Array) -> Any:
        """Return a clone of the estimator fitted to some rows."""
        params = _check_method_params(self.X, self.fit_params, rows)
        return clone(self.estimator).fit(
            _safe_indexing(self.X, rows),
            self.labels.of_rows(rows),
            **params,
        )

    def fit_folds(self, trainings: Sequence[Array], n_jobs: int | None) -> list[Any]:
        """Return a fit to each of several sets of rows, in threads.

        Warnings are ignored: the fit to all rows gives them already.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parallel = Parallel(n_jobs=n_jobs, prefer="threads")
            return list(parallel(delayed(self.fit)(rows) for rows in trainings))


@parametrized
class Conformal(MetaEstimatorMixin, BaseEstimator):
    """Sets {k : s(x, k) <= q} or intervals m(x) -+ q w(x), q from the scores of held-out labels.

    Wraps any classifier or regressor, supervised or semi-supervised. Unlabeled rows marked in y
    are never held out: they are in every fit of an estimator that learns from them, and left out
    of the fits of one that does not.

    Parameters
    ----------
    estimator : classifier or regressor
        A classifier needs `predict_proba`. Of a regressor whose `predict` has `return_std`,
        residuals are divided by the predicted deviation; intervals are then wider where it is.
    level : float, default=0.9
        Share of new rows to cover. The methods take another one as an argument.
    method : {"cross", "jackknife+", "split"}, default="cross"
        "cross" fits the estimator once without each of `n_folds` folds of the labeled rows (CV+),
        "jackknife+" once without each labeled row, and both once to all rows, for `predict`.
        "split" fits it once, without `calibration_share` of the labeled rows, which only
        calibrate: cheap and exact, but labels are spent.
    n_folds : int, default=5
        Number of folds of "cross", at most that of the labels.
    calibration_share : float, default=1/3
        Share of the labeled rows that "split" holds out; more where `level` needs them and enough
        are left. 1 for a `FrozenEstimator`, which is fitted already.
    randomized : bool, default=False
        Whether scores of classes are randomized. Sets then cover `level` exactly, at the cost of
        being random, and sometimes empty.
    penalty : float, default=0.0
        Added to the score of a class for each more probable one beyond `n_free`; keeps sets small
        where there are many classes.
    n_free : int, default=1
        Number of classes without a penalty.
    semi_supervised : bool or "auto", default="auto"
        Whether unlabeled rows are given to the estimator. "auto" is true for the estimators of
        this library and of `sklearn.semi_supervised`, and for those with a parameter `unlabeled`.
    unlabeled : object, default=None
        The marker of unlabeled rows in y; by default the estimator's `unlabeled` or, where it has
        none, -1, NaN, None or "" for classes and NaN for targets.
    random_state : int, RandomState or None, default=None
        Determines folds and random scores.
    n_jobs : int, default=None
        Number of threads, each of which fits a fold at a time.

    Attributes
    ----------
    estimator_ : estimator
        The estimator fitted to all rows, or by "split" to those that do not calibrate.
    coverage_ : Coverage
        What `level` means with these labels; print it.
    folds_ : list of HeldOut
        Estimators, held-out rows, predictions and scores, fold by fold.
    estimators_ : list of estimators
        The estimator of each fold.
    held_out_rows_ : array of shape (n_labels,)
        Labeled rows in the order of the folds.
    held_out_predictions_ : array of shape (n_labels, ...)
        Their probabilities, or means, by the estimator that was not fitted to them.
    held_out_scores_ : array of shape (n_labels, ...)
        Their scores.
    classes_ : array
        The classes, in the order of the columns of `predict_set`; only of a classifier.

    See Also
    --------
    LabeledKFold : Folds over labeled rows.
    compare_with_supervised : Whether unlabeled rows help.

    Notes
    -----
    The score of a class is the probability of all classes that are more probable (Romano, Sesia
    and Candes 2020), so that the most probable class is in every set unless `randomized`; a
    classifier that is right more often than `level` covers more than `level`. The score of a target
    is |y - m(x)| / w(x). For rows that are exchangeable with the labeled ones "split" covers at
    least `level`, "jackknife+" at least 2 level - 1 and in practice about `level` (Barber et al.
    2021). Nothing of this holds for rows unlike the labeled ones, nor for each class or group of
    rows alone: `coverage_.by_class` shows how classes differ.

    A level needs at least level / (1 - level) held-out labels: 9 for 0.9, 19 for 0.95. With fewer,
    `predict_set` and `predict_interval` raise an error; `why_not` returns its message.

    A soft label is one label of each class, counted by its share: sets then cover a class that is
    drawn with these shares. Its row is in `held_out_rows_` once for each class with a share.

    Arguments of `fit` are passed to the estimator. A held-out label counts as often as its
    `sample_weight`: weights act as repetition counts.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = Conformal(LogisticRegression(max_iter=1000), level=0.95, random_state=0)
    >>> model = model.fit(X[::3], y[::3])
    >>> model.predict_set(X[[0, 70, 133]])
    array([[ True, False, False],
           [False,  True,  True],
           [False,  True,  True]])

    With 6 labels no set can be given at this level.

    >>> model.fit(X[::25], y[::25]).why_not()
    'A set cannot be given with 6 labels: at level 0.95 at least 19 are needed.'
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit"])],
        "level": [NumberInterval(Real, 0, 1, closed="neither")],
        "method": [StrOptions({SPLIT, CROSS, JACKKNIFE})],
        "n_folds": [NumberInterval(Integral, 2, None, closed="left")],
        "calibration_share": [NumberInterval(Real, 0, 1, closed="right")],
        "randomized": ["boolean"],
        "penalty": [FINITE_NON_NEGATIVE],
        "n_free": [COUNT],
        "semi_supervised": ["boolean", AUTO],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    estimator: Any
    level: float = 0.9
    method: str = CROSS
    _: KW_ONLY
    n_folds: int = 5
    calibration_share: float = 1 / 3
    randomized: bool = False
    penalty: float = 0.0
    n_free: int = 1
    semi_supervised: bool | str = "auto"
    unlabeled: Any = None
    random_state: Any = None
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit the estimator, and again without the rows that are held out.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : labels or targets
            Unlabeled rows are marked. For a classifier that takes soft labels, as
            `SemiSupervisedClassifier`, y may be the matrix of the shares of classes.
        **fit_params : dict
            Arguments of the estimator's `fit`; those with a value for each row, such as
            `sample_weight`, are split like the rows.
        """
        check_parameters(self)
        self._check_kind()
        labels = self._labels(X, y)
        X, _ = indexable(X, labels.y)
        weights = np.ones(len(labels.y))
        if fit_params.get("sample_weight") is not None:
            weights = weights_of_all_rows(labels.y, fit_params["sample_weight"])
        held_out = self._held_out_rows(X, labels)
        _check_shares_left(labels, held_out)
        rows = np.arange(len(labels.y))
        if not self._takes_unlabeled_rows():
            self._warn_of_marker(labels)
            rows = np.flatnonzero(labels.complete)
        training = Training(self.estimator, X, labels, fit_params)
        if self.method == SPLIT:
            final = training.fit(np.setdiff1d(rows, held_out[0]))
            models = [final]
        else:
            final = training.fit(rows)
            trainings = [np.setdiff1d(rows, test) for test in held_out]
            models = training.fit_folds(trainings, self.n_jobs)
        scoring = self._scoring(labels, final)
        random = check_random_state(self.random_state)
        *seeds, prediction_seed = random.randint(MAX_SEED, size=len(models) + 1).tolist()
        folds = []
        for model, test, seed in zip(models, held_out, seeds, strict=True):
            part = _safe_indexing(X, test)
            folds.append(scoring.held_out(model, part, labels, weights, test, seed))
        # nothing is published before all is computed: a fit that fails leaves the last one
        self.estimator_ = final
        self.scoring_ = scoring
        self.folds_ = folds
        self._prediction_seed = prediction_seed
        self._one_target = labels.y.ndim == 1
        self._copy_attribute("n_features_in_", final)
        self._copy_attribute("feature_names_in_", final)
        self._copy_attribute("classes_", scoring, "classes")
        self.coverage_ = coverage_of(scoring, folds, self.level, self.why_not())
        return self

    def _copy_attribute(self, name: str, source: Any, source_name: str | None = None) -> None:
        """Set an attribute as another object has it, and remove it if that has none."""
        self.__dict__.pop(name, None)
        value = getattr(source, source_name or name, None)
        if value is not None:
            setattr(self, name, value)

    def predict(self, X: Any) -> Array:
        """Return the predictions of `estimator_`."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of `estimator_`, a column for each of `classes_`."""
        check_is_fitted(self)
        return self.scoring_.probabilities(self.estimator_, X)

    @available_if(_has_score)  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any) -> float:
        """Return the score of `estimator_`."""
        check_is_fitted(self)
        return float(self.estimator_.score(X, y))

    @available_if(_is_classifier)  # type: ignore[untyped-decorator]
    def predict_set(self, X: Any, level: float | None = None) -> Array:
        """Return for each row and class whether the class is in the set of the row.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
        level : float, default=None
            Share of rows to cover; by default that of the estimator.

        Returns
        -------
        bool array of shape (n_rows, n_classes), columns in the order of `classes_`
        """
        level = self._checked_level(level)
        return self.scoring_.sets(self.folds_, X, level, self._prediction_seed)

    @available_if(_is_regressor)  # type: ignore[untyped-decorator]
    def predict_interval(self, X: Any, level: float | None = None) -> PredictionInterval:
        """Return lower and upper limits: `lower, upper = model.predict_interval(X)`.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
        level : float, default=None
            Share of rows to cover, for each target; by default that of the estimator.

        Returns
        -------
        PredictionInterval
            The arrays `lower` and `upper`, each of the shape of `predict(X)`.
        """
        level = self._checked_level(level)
        limits = self.scoring_.interval(self.folds_, X, level)
        if not self._one_target:
            return limits
        return PredictionInterval(limits.lower[:, 0], limits.upper[:, 0])

    def why_not(self, level: float | None = None) -> str:
        """Return why sets or intervals cannot be given at a level; empty if they can."""
        check_is_fitted(self)
        level = self.level if level is None else level
        check_level(level)
        what = "A set" if is_classifier(self.estimator) else "An interval"
        message = too_few_labels_message(what, float(weights_of(self.folds_).sum()), level)
        if message and self.method == SPLIT:
            return f"{message} method='cross' makes use of all labels."
        return message

    @property
    def estimators_(self) -> list[Any]:
        """The estimator of each fold."""
        return [fold.estimator for fold in self.folds_]

    @property
    def held_out_rows_(self) -> Array:
        """Labeled rows in the order of the folds."""
        return np.concatenate([fold.rows for fold in self.folds_])

    @property
    def held_out_predictions_(self) -> Array:
        """Probabilities, or means, of the held-out rows."""
        return np.concatenate([fold.predictions for fold in self.folds_])

    @property
    def held_out_scores_(self) -> Array:
        """Scores of the held-out rows."""
        return np.concatenate([fold.scores for fold in self.folds_])

    def _check_kind(self) -> None:
        """Raise if the estimator has no probabilities, or is no classifier or regressor."""
        name = type(self.estimator).__name__
        if is_regressor(self.estimator):
            return
        if not is_classifier(self.estimator):
            raise ValueError(f"estimator must be a classifier or a regressor, got {name}.")
        if not hasattr(self.estimator, "predict_proba"):
            raise ValueError(
                f"Sets of classes are made of probabilities, and {name} has no predict_proba. Wrap "
                "it in sklearn.calibration.CalibratedClassifierCV."
            )

    def _takes_unlabeled_rows(self) -> bool:
        if self.semi_supervised == "auto":
            return takes_unlabeled_rows(self.estimator)
        return bool(self.semi_supervised)

    def _warn_of_marker(self, labels: MarkedLabels) -> None:
        """Warn if rows of -1 are left out of the fits of an estimator that does not declare it."""
        if labels.marker is not None or labels.complete.all():
            return
        if np.any(labels.y[~labels.complete] == -1):
            warn(
                f"{type(self.estimator).__name__} is fitted without the rows whose label is -1, "
                "which marks unlabeled rows. If -1 is a class, set unlabeled=float('nan'); if it "
                "is the marker, unlabeled=-1 confirms it."
            )

    def _labels(self, X: Any, y: Any) -> MarkedLabels:
        """Return the labels of the rows of X; raise if there are not two."""
        if y is None:
            raise ValueError("Conformal requires y to be passed, but the target y is None.")
        if holds_soft_labels(y, self.estimator):
            labels = MarkedLabels.soft(y)
        elif is_classifier(self.estimator):
            y = labels_of_rows(y, X, self)
            labels = MarkedLabels.of(y, self.estimator, self.unlabeled)
            encode_labels(labels.y, labels.marker)  # raises where classes and markers are unclear
        else:
            labels = MarkedLabels.of(y, self.estimator, self.unlabeled)
        require_same_rows(X, labels.y)
        n_labels = int(labels.complete.sum())
        if n_labels < MIN_TRAINING_LABELS:
            raise ValueError(
                f"Conformal needs at least {MIN_TRAINING_LABELS} labeled rows, of which it holds "
                f"some out; labeled n_samples = {n_labels}."
            )
        return labels

    def _held_out_rows(self, X: Any, labels: MarkedLabels) -> list[Array]:
        """Return the labeled rows that each fit is not given."""
        rows = np.flatnonzero(labels.complete)
        if self.method == SPLIT:
            random = check_random_state(self.random_state)
            return [np.sort(random.permutation(rows)[: self._n_calibration(len(rows))])]
        n_folds = len(rows)
        if self.method == CROSS:
            n_folds = min(self.n_folds, n_folds)
        folds = LabeledKFold(
            n_folds,
            shuffle=True,
            random_state=self.random_state,
            unlabeled=labels.for_folds.marker,
        )
        return [test for _, test in folds.split(X, labels.for_folds.y)]

    def _n_calibration(self, n_labels: int) -> int:
        """Return the number of labels that calibrate: a share, and what the level needs."""
        if self.calibration_share == 1:
            if not isinstance(self.estimator, FrozenEstimator):
                raise ValueError(
                    "calibration_share=1 leaves no label to fit the estimator; it is for a fitted "
                    "one, given as sklearn.frozen.FrozenEstimator(estimator)."
                )
            return n_labels
        most = n_labels - MIN_TRAINING_LABELS
        share = max(1, min(round(self.calibration_share * n_labels), most))
        needed = labels_needed(self.level)
        if share < needed <= most:
            return needed
        return share

    def _scoring(self, labels: MarkedLabels, final: Any) -> Any:
        """Return how held-out rows are scored, by classes or by targets."""
        if is_regressor(self.estimator):
            return ResidualScores.of(labels)
        if labels.is_soft:
            return ClassScores(final.classes_, self.penalty, self.n_free, self.randomized)
        given = encode_labels(labels.y, labels.marker).classes
        classes = np.union1d(given, final.classes_)
        return ClassScores(classes, self.penalty, self.n_free, self.randomized)

    def _checked_level(self, level: float | None) -> float:
        message = self.why_not(level)
        if message:
            raise ValueError(message)
        return self.level if level is None else level

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = get_tags(self.estimator)
        tags.estimator_type = own.estimator_type
        tags.classifier_tags = own.classifier_tags
        tags.regressor_tags = own.regressor_tags
        tags.target_tags = own.target_tags
        tags.input_tags = own.input_tags
        return tags


def _check_shares_left(labels: MarkedLabels, held_out: Sequence[Array]) -> None:
    """Raise if a fit would be given no share of a class that soft labels hold."""
    if not labels.is_soft:
        return
    totals = labels.y.sum(axis=0)
    for test in held_out:
        left = np.delete(labels.y, test, axis=0).sum(axis=0)
        lost = np.flatnonzero((totals > 0) & (left <= 0))
        if len(lost):
            raise ValueError(
                f"Column {lost[0]} of y has a share in held-out rows alone, so that a fit without "
                "them would not know the class. Give soft labels a share of it in more rows."
            )
