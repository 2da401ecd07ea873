"""Did the unlabeled rows help? An estimator against its twin that never saw them."""

from __future__ import annotations

import numbers
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.base import clone, is_regressor
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing, indexable

from regfactor.core.params import Array, optional
from regfactor.fitting.labels import as_labels, as_targets, is_labeled
from regfactor.model_selection.folds import LabeledKFold

CONFIDENCE = 0.95
NEGATIVE = "negative "
ORDER = "The order is compare_with_supervised(estimator, X, y)."


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scores on the labeled rows of each fold, without and with unlabeled rows in training; `str` is the table."""

    supervised: Array
    semi_supervised: Array
    n_labeled: int
    n_unlabeled: int
    score: str = "score"

    @property
    def difference(self) -> Array:
        """By how much the score of each fold rose with the unlabeled rows."""
        return self.semi_supervised - self.supervised

    @property
    def mean(self) -> float:
        """The mean difference over folds."""
        return round(
            float(self.difference.mean()),
            12,
        )  # scores are counts: what is less is rounding

    @property
    def standard_error(self) -> float:
        """The standard error of the mean difference, as if folds were independent."""
        return _error(self.difference)

    @property
    def verdict(self) -> str:
        """One sentence: helped, hurt, or not to be told."""
        n = len(self.difference)
        sign = -1 if self.score.startswith(NEGATIVE) else 1
        score = self.score.removeprefix(NEGATIVE)  # an error, where less is better, is told as one
        size = f"{sign * self.mean:+.3g} ± {self.standard_error:.2g}"
        if not self.difference.any():
            return f"The unlabeled rows made no difference to the {score} in any of {n} folds."
        margin = float(student.ppf((1 + CONFIDENCE) / 2, n - 1)) * self.standard_error
        if abs(self.mean) <= margin:
            return f"Whether the unlabeled rows help cannot be told from {n} folds: the {score} changed by {size}."
        return f"The unlabeled rows {'helped' if self.mean > 0 else 'hurt'}: the {score} changed by {size}."

    def to_frame(self) -> Any:
        """Return the folds as a pandas frame."""
        pd = optional("pandas", "Comparison.to_frame", "pip install pandas")
        columns = {"supervised": self.supervised, "semi_supervised": self.semi_supervised}
        return pd.DataFrame(
            {**columns, "difference": self.difference},
            index=pd.RangeIndex(len(self.difference), name="fold"),
        )

    def __str__(self) -> str:
        columns = [self.supervised, self.semi_supervised, self.difference]
        rows = [(str(i), *fold) for i, fold in enumerate(zip(*columns, strict=True))]
        rows += [
            ("mean", *(c.mean() for c in columns)),
            ("std. error", *(_error(c) for c in columns)),
        ]
        lines = [f"{'fold':<10}{'supervised':>16}{'semi-supervised':>16}{'difference':>16}"]
        lines += [f"{name:<10}{a:>16.4g}{b:>16.4g}{d:>+16.4g}" for name, a, b, d in rows[:-1]]
        lines += [f"{rows[-1][0]:<10}" + "".join(f"{e:>16.2g}" for e in rows[-1][1:])]
        sizes = f"{self.score}; {self.n_labeled} labeled and {self.n_unlabeled} unlabeled rows"
        return "\n".join([sizes, *lines, self.verdict])


def compare_with_supervised(
    estimator: Any,
    X: Any,
    y: Any,
    cv: Any = 5,
    supervised: Any = None,
    scoring: Any = None,
) -> Comparison:
    """Score an estimator on held-out labeled rows, with and without the unlabeled rows in training.

    Parameters
    ----------
    estimator : estimator
        Any semi-supervised classifier or regressor whose `fit` takes unlabeled rows marked in y.
    X, y : table and labels
        Unlabeled rows carry the marker in y that the estimator understands (-1, NaN, None, "", or
        its `unlabeled`).
    cv : int or splitter, default=5
        A number stands for `LabeledKFold(cv, shuffle=True, random_state=0)`.
    supervised : estimator, default=None
        The twin, fitted to labeled rows alone; by default a clone of the estimator.
    scoring : str or callable, default=None
        As in scikit-learn; by default the estimator's own `score`. Greater is better.

    Returns
    -------
    Comparison
        `print` it; `to_frame()` for pandas. Folds share training rows, so that the standard error
        is rather too small.

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
                f"{name} must be an estimator with fit, got {type(model).__name__}. {ORDER}"
            )
    if not isinstance(cv, numbers.Integral) and (
        isinstance(cv, str) or not hasattr(cv, "split")
    ):  # a str splits too
        raise ValueError(
            f"cv must be a whole number >= 2 or a splitter such as LabeledKFold(5), got {cv!r}."
        )
    X, labels = indexable(X, as_targets(y) if is_regressor(estimator) else as_labels(y))
    marker = getattr(estimator, "unlabeled", None)
    if marker is None and is_regressor(estimator):
        marker = float("nan")  # any number, -1 too, is a target
    known = is_labeled(labels, marker)
    labeled = known if known.ndim == 1 else np.asarray(known.any(axis=1))
    if isinstance(cv, numbers.Integral):
        folds = LabeledKFold(int(cv), shuffle=True, random_state=0, unlabeled=marker)
    else:
        folds = cv
    twin = estimator if supervised is None else supervised
    score = check_scoring(estimator, scoring=scoring)
    scores = []
    for fold, (train, test) in enumerate(folds.split(X, labels)):
        known_rows = train[labeled[train]]
        pair = []
        for model, rows, role in (
            (twin, known_rows, "supervised twin"),
            (estimator, train, "estimator"),
        ):
            fitted = _fitted(
                clone(model),
                _safe_indexing(X, rows),
                labels[rows],
                f"the {role} on fold {fold}",
            )
            pair.append(float(score(fitted, _safe_indexing(X, test), labels[test])))
        scores.append(pair)
    without, with_ = np.array(scores).T
    return Comparison(
        without,
        with_,
        int(labeled.sum()),
        int((~labeled).sum()),
        _name(estimator, scoring),
    )


def _fitted(model: Any, X: Any, y: Any, what: str) -> Any:
    try:
        with warnings.catch_warnings():
            # what a twin is: scikit-learn's self-training says so
            warnings.filterwarnings("ignore", message="y contains no unlabeled samples")
            return model.fit(X, _plain(y))
    except Exception as error:
        error.add_note(
            f"While fitting {what}, {len(y)} rows. Another twin can be given as supervised=."
        )
        raise


def _plain(y: Array) -> Array:
    """Return labels of one kind without the detour by objects that missing ones needed."""
    if y.dtype == object and not any(v is None or v != v for v in y.ravel()):
        return np.array(y.tolist())
    return y


def _name(estimator: Any, scoring: Any) -> str:
    if scoring is None:
        if is_regressor(estimator):
            return "R^2"
        return "accuracy"
    if isinstance(scoring, str):
        return scoring
    return getattr(scoring, "__name__", "score")


def _error(values: Array) -> float:
    if len(values) > 1:
        return float(values.std(ddof=1) / np.sqrt(len(values)))
    return float("nan")
