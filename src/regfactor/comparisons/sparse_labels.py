"""Sparse codes of all rows, then a classifier on those of the labeled ones (Lee et al. 2009)."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.decomposition import DictionaryLearning
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from regfactor.comparisons.targets import labels_of
from regfactor.core.params import Array
from regfactor.fitting.base import all_or_nothing
from regfactor.fitting.inputs import validated
from regfactor.fitting.parameters import COUNT, FINITE_POSITIVE, parametrized


def _gives_probabilities(estimator: Any) -> bool:
    classifier = getattr(estimator, "classifier_", estimator.classifier)
    if classifier is None or hasattr(classifier, "predict_proba"):
        return True
    raise AttributeError(f"classifier={classifier!r} has no predict_proba; use one that has.")


@parametrized
class SparseCodingLabels(ClassifierMixin, TransformerMixin, BaseEstimator):
    """min over Phi, C of |Phi C - X|^2 / 2 + alpha sum |phi|, |c_i| <= 1; then a classifier (LEE).

    Lee et al. (2009) in two stages: codes are learned from all rows without looking at labels, by
    scikit-learn's dictionary learning, and predict afterwards. Not convex, so that it has no
    certificate.

    Parameters
    ----------
    n_components : int, default=10
        Number of components.
    alpha : float, default=1.0
        Strength of the l1 norm of the codes.
    classifier : classifier, optional
        What is fitted to the codes of labeled rows; by default scikit-learn's
        `LogisticRegression()`.
    unlabeled : optional
        The marker of unlabeled rows in y; by default -1, NaN and None, for strings None, NaN and
        "".
    max_iter : int, default=100
        Of dictionary learning.
    tol : float, default=1e-4
        Relative change of its objective at which it stops.
    random_state : int, optional

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    codes_ : ndarray of shape (n_samples, n_components)
    components_ : ndarray of shape (n_components, n_features)
    classifier_ : classifier
        Fitted to the codes of labeled rows.
    transduction_ : ndarray of shape (n_samples,)
        The class of every training row, given ones kept.
    n_iter_ : int

    See Also
    --------
    ConvexFactorClassifier : Codes of inputs and labels at the global optimum.

    Examples
    --------
    >>> from regfactor.baselines import SparseCodingLabels
    >>> from regfactor.datasets import make_low_rank_labels
    >>> X, y, y_partial, _ = make_low_rank_labels(100, 10, random_state=0)
    >>> bool(SparseCodingLabels(random_state=0).fit(X, y_partial).score(X, y) > 0.5)
    True
    """

    _parameter_constraints = {
        "n_components": [COUNT],
        "max_iter": [COUNT],
        "alpha": [FINITE_POSITIVE],
        "tol": [FINITE_POSITIVE],
    }

    n_components: int = 10
    alpha: float = 1.0
    classifier: Any = None
    _: KW_ONLY
    unlabeled: Any = None
    max_iter: int = 100
    tol: float = 1e-4
    random_state: Any = None

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows of which some have a label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Numbers or strings; -1, NaN, None or "" (or `unlabeled`) where the class is not known.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            if y is None:
                raise ValueError(
                    f"{type(self).__name__} requires y to be passed, but the target y is None."
                )
            X = validated(self, X, dtype=np.float64)
            labels = labels_of(y, X, self.unlabeled)
            learned = DictionaryLearning(
                self.n_components,
                alpha=self.alpha,
                max_iter=self.max_iter,
                tol=self.tol,
                fit_algorithm="cd",
                transform_algorithm="lasso_cd",
                random_state=self.random_state,
            ).fit(X)
            self._learned = learned
            self.components_ = learned.components_
            self.n_iter_ = learned.n_iter_
            self.codes_ = learned.transform(X)
            self.classes_ = labels.classes
            known = labels.labeled
            classifier = LogisticRegression()
            if self.classifier is not None:
                classifier = clone(self.classifier)
            self.classifier_ = classifier.fit(self.codes_[known], labels.codes[known])
            found = np.where(known, labels.codes, self.classifier_.predict(self.codes_))
            self.transduction_ = labels.classes[found]
        return self

    def transform(self, X: Any) -> Array:
        """Return the sparse codes of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        X = validated(self, X, dtype=np.float64, reset=False)
        return np.asarray(self._learned.transform(X))

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit, and return the codes of the training rows."""
        return self.fit(X, y, **fit_params).codes_

    def predict(self, X: Any) -> Array:
        """Return the class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        codes = self.transform(X)
        return self.classes_[self.classifier_.predict(codes)]

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        codes = self.transform(X)
        return self.classifier_.predict_proba(codes)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
