"""Do unlabeled rows help? An estimator against the same one fitted without them."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.base import clone, is_regressor
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing, indexable

from regfactor.core.params import Array, frozen, optional
from regfactor.fitting.inputs import weights_of_all_rows
from regfactor.model_selection.folds import LabeledKFold
from regfactor.model_selection.marked_labels import (
    MarkedLabels,
    holds_soft_labels,
    takes_unlabeled_rows,
)

CONFIDENCE = 0.95
NEGATIVE_PREFIX = "negative "
ARGUMENT_ORDER = "The order is compare_with_supervised(estimator, X, y)."
SELF_TRAINING_WARNING = "y contains no unlabeled samples"  # expected of a supervised twin


@frozen
class Comparison:
    """Scores on the labeled rows of each fold, without and with unlabeled rows in training."""

    supervised: Array
    semi_supervised: Array
    n_labeled: int
    n_unlabeled: int
    score: str = "score"

    @property
    def difference(self) -> Array:
        """Score of each fold with the unlabeled rows minus the score without them."""
        return self.semi_supervised - self.supervised

    @property
    def mean(self) -> float:
        """The mean difference over folds."""
        return round(float(self.difference.mean()), 12)  # smaller differences are rounding

    @property
    def standard_error(self) -> float:
        """The standard error of the mean difference, as if folds were independent."""
        return _standard_error(self.difference)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the mean difference, as if folds were independent."""
        n = len(self.difference)
        if n < 2:
            return float("nan"), float("nan")
        margin = float(student.ppf((1 + CONFIDENCE) / 2, n - 1)) * self.standard_error
        return self.mean - margin, self.mean + margin

    @property
    def verdict(self) -> str:
        """One sentence: helped, hurt, or undecided."""
        n = len(self.difference)
        change = self.mean
        score = self.score
        if score.startswith(NEGATIVE_PREFIX):
            # an error, of which less is better, is reported as such
            score = score.removeprefix(NEGATIVE_PREFIX)
            change = -change
        size = f"{change:+.3g} ± {self.standard_error:.2g}"
        if not self.difference.any():
            return f"The unlabeled rows made no difference to the {score} in any of {n} folds."
        low, high = self.interval
        if low > 0:
            return f"The unlabeled rows helped: the {score} changed by {size}."
        if high < 0:
            return f"The unlabeled rows hurt: the {score} changed by {size}."
        return (
            f"Whether the unlabeled rows help cannot be decided from {n} folds: "
            f"the {score} changed by {size}."
        )

    def to_frame(self) -> Any:
        """Return the folds as a pandas frame."""
        pd = optional("pandas", "Comparison.to_frame", "pip install pandas")
        columns = {"supervised": self.supervised, "semi_supervised": self.semi_supervised}
        columns["difference"] = self.difference
        folds = pd.RangeIndex(len(self.difference), name="fold")
        return pd.DataFrame(columns, index=folds)

    def __str__(self) -> str:
        columns = (self.supervised, self.semi_supervised, self.difference)
        rows = [(str(i), *fold) for i, fold in enumerate(zip(*columns, strict=True))]
        rows.append(("mean", *(column.mean() for column in columns)))
        errors = "".join(f"{_standard_error(column):>16.2g}" for column in columns)
        return "\n".join(
            [
                f"{self.score}; {self.n_labeled} labeled and {self.n_unlabeled} unlabeled rows",
                f"{'fold':<10}{'supervised':>16}{'semi-supervised':>16}{'difference':>16}",
                *(f"{name:<10}{a:>16.4g}{b:>16.4g}{d:>+16.4g}" for name, a, b, d in rows),
                f"{'std. error':<10}{errors}",
                self.verdict,
            ]
        )


def compare_with_supervised(
    estimator: Any,
    X: Any,
    y: Any,
    cv: Any = 5,
    supervised: Any = None,
    scoring: Any = None,
    sample_weight: Any = None,
) -> Comparison:
    """Score an estimator on held-out labeled rows, with and without the unlabeled rows in training.

    Parameters
    ----------
    estimator : estimator
        Any semi-supervised classifier or regressor whose `fit` takes unlabeled rows marked in y.
    X, y : table and labels
        Unlabeled rows carry the marker in y that the estimator understands (-1, NaN, None, "", or
        its `unlabeled`). For a classifier that takes soft labels y may be the matrix of the shares
        of classes, zeros or NaN in rows without a label; the score is then the mean share of the
        predicted class.
    cv : int or splitter, default=5
        A number means `LabeledKFold(cv, shuffle=True, random_state=0)`.
    supervised : estimator, default=None
        The twin, fitted to labeled rows alone; by default a clone of the estimator.
    scoring : str or callable, default=None
        As in scikit-learn; by default the estimator's own `score`. Greater is better.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of rows in the fits and in the scores of held-out ones.

    Returns
    -------
    Comparison
        `print` it; `to_frame()` for pandas. Folds share training rows, so the standard error is
        somewhat too small.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.semi_supervised import LabelSpreading
    >>> X, y = make_moons(400, noise=0.1, random_state=2)
    >>> y[50:] = -1
    >>> result = compare_with_supervised(LabelSpreading(gamma=50, alpha=0.9, max_iter=1000), X, y)
    >>> print(result.verdict)
    The unlabeled rows helped: the accuracy changed by +0.08 ± 0.02.
    """
    for name, model in {"estimator": estimator, "supervised": supervised}.items():
        if not hasattr(model, "fit") and (name == "estimator" or model is not None):
            raise ValueError(
                f"{name} must be an estimator with fit, got {type(model).__name__}. "
                f"{ARGUMENT_ORDER}"
            )
    # a str has a method split too
    is_splitter = hasattr(cv, "split") and not isinstance(cv, str)
    if not isinstance(cv, numbers.Integral) and not is_splitter:
        raise ValueError(
            f"cv must be a whole number >= 2 or a splitter such as LabeledKFold(5), got {cv!r}."
        )
    is_soft = holds_soft_labels(y, estimator)
    if is_soft and scoring is not None:
        raise ValueError("scoring must be None for soft labels, which have a score of their own.")
    if is_soft:
        labels = MarkedLabels.soft(y)
    else:
        labels = MarkedLabels.of(y, estimator)
    X, _ = indexable(X, labels.y)
    weights = None
    if sample_weight is not None:
        weights = weights_of_all_rows(labels.y, sample_weight)
    plain = labels.for_folds
    folds = cv
    if isinstance(cv, numbers.Integral):
        folds = LabeledKFold(int(cv), shuffle=True, random_state=0, unlabeled=plain.marker)
    twin = estimator if supervised is None else supervised
    known = labels.labeled
    if supervised is not None and not takes_unlabeled_rows(supervised):
        known = labels.complete  # of several targets none may be missing
    score = share_of_predicted if is_soft else check_scoring(estimator, scoring=scoring)

    def weighted(rows: Array) -> dict[str, Array]:
        return {} if weights is None else {"sample_weight": weights[rows]}

    def tested(model: Any, rows: Array, test: Array, what: str) -> float:
        training = _safe_indexing(X, rows)
        fitted = _fitted(clone(model), training, labels.of_rows(rows), weighted(rows), what)
        new = _safe_indexing(X, test)
        return float(score(fitted, new, labels.of_rows(test), **weighted(test)))

    without = []
    with_unlabeled = []
    for fold, (train, test) in enumerate(folds.split(X, plain.y)):
        known_rows = train[known[train]]
        without.append(tested(twin, known_rows, test, f"the supervised twin on fold {fold}"))
        with_unlabeled.append(tested(estimator, train, test, f"the estimator on fold {fold}"))
    return Comparison(
        np.array(without),
        np.array(with_unlabeled),
        int(labels.labeled.sum()),
        int((~labels.labeled).sum()),
        _score_name(estimator, scoring),
    )


def share_of_predicted(
    model: Any,
    X: Any,
    shares: Array,
    sample_weight: Array | None = None,
) -> float:
    """Return the mean share that soft labels give to the predicted class: expected accuracy."""
    places = {name: place for place, name in enumerate(model.classes_.tolist())}
    codes = [places[name] for name in np.asarray(model.predict(X)).tolist()]
    return float(np.average(shares[np.arange(len(codes)), codes], weights=sample_weight))


def _fitted(
    model: Any,
    X: Any,
    y: Any,
    weights: dict[str, Array],
    what: str,
) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=SELF_TRAINING_WARNING)
            return model.fit(X, y, **weights)
    except Exception as error:
        error.add_note(
            f"While fitting {what}, {len(y)} rows. Another twin can be given as supervised=."
        )
        raise


def _score_name(estimator: Any, scoring: Any) -> str:
    if scoring is None:
        if is_regressor(estimator):
            return "R^2"
        return "accuracy"
    if isinstance(scoring, str):
        return scoring
    return getattr(scoring, "__name__", "score")


def _standard_error(values: Array) -> float:
    if len(values) > 1:
        return float(values.std(ddof=1) / np.sqrt(len(values)))
    return float("nan")
