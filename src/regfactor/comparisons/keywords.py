"""Voting by labeled words: predictions by the statements alone, without learning from the rows."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from regfactor.constraints import Constraint, LabeledFeature, Region
from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.fitting.base import all_or_nothing
from regfactor.fitting.inputs import validated
from regfactor.fitting.labels import encode_labels
from regfactor.fitting.parameters import parametrized
from regfactor.labels.expectation.statements import as_constraints, check_labels


@parametrized
class KeywordVote(ClassifierMixin, BaseEstimator):
    """argmax_c sum over stated words w in x of (share of c in rows with w, less 1/n_classes).

    A baseline for learning from labeled words: it takes the same statements and learns
    nothing. Rows in which no stated word occurs go to the class with the largest share among the
    labels given to `fit`, without labels to the first class.

    Parameters
    ----------
    constraints : list of Constraint
        Labeled features; regions given by a function vote likewise. Others are passed over.
    classes : array-like, optional
        All classes; otherwise those of the constraints and of the labels.
    unlabeled : optional
        The marker of unlabeled rows in y, as in `ExpectationSVC`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    transduction_ : ndarray of shape (n_samples,)
        The class of every training row, given ones kept.

    See Also
    --------
    ExpectationSVC : Learns from the same statements, and from the words that go with them.

    Examples
    --------
    >>> from regfactor.baselines import KeywordVote
    >>> from regfactor.constraints import labeled_feature
    >>> goal = labeled_feature(0, {"sport": 0.9, "news": 0.1})
    >>> vote = labeled_feature(1, {"sport": 0.2, "news": 0.8})
    >>> KeywordVote([goal, vote]).fit([[1, 0], [0, 2], [1, 1]], ["", "", ""]).transduction_
    array(['sport', 'news', 'sport'], dtype='<U5')
    """

    constraints: Any = ()
    classes: Any = None
    _: KW_ONLY
    unlabeled: Any = None

    def fit(self, X: Any, y: Any) -> Self:
        """Store the votes; labels only decide where no word does.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            With unlabeled rows marked.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            stated = [c for c in as_constraints(self.constraints) if _votes(c)]
            if not stated:
                raise ValueError(
                    "KeywordVote needs a labeled feature, or a region given by a function, among "
                    "constraints."
                )
            table = self._table(X, reset=True)
            classes = self.classes
            if classes is None:
                named = {label for constraint in stated for label in constraint.targets}
                found = encode_labels(y, self.unlabeled).classes.tolist()
                classes = sorted(named | set(found))
            labels = encode_labels(y, self.unlabeled, classes)
            check_labels(tuple(stated), labels.classes)
            self.classes_ = labels.classes
            self._stated = stated
            self._shares = np.array([_shares(c, labels.classes.tolist()) for c in stated])
            counts = labels.one_hot().sum(axis=0)
            self._otherwise = 1e-6 * counts / max(counts.sum(), 1)  # less than any vote
            voted = self._votes(table).argmax(axis=1)
            self.transduction_ = labels.classes[np.where(labels.labeled, labels.codes, voted)]
        return self

    def _votes(self, X: Any) -> Array:
        names = getattr(self, "feature_names_in_", None)
        present = np.column_stack([c.features(X, names) for c in self._stated])
        return present @ (self._shares - 1 / len(self.classes_)) + self._otherwise

    def _table(self, X: Any, reset: bool) -> Any:
        X = validated(self, X, accept_sparse="csr", reset=reset)
        if is_sparse(X):
            return scipy.sparse.csr_array(X)
        return X

    def decision_function(self, X: Any) -> Array:
        """Return the votes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
        """
        check_is_fitted(self)
        V = self._votes(self._table(X, reset=False))
        if V.shape[1] == 2:
            return V[:, 1] - V[:, 0]
        return V

    def predict(self, X: Any) -> Array:
        """Return the class with most votes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return self.classes_[self._votes(self._table(X, reset=False)).argmax(axis=1)]

    def __sklearn_tags__(self) -> Tags:
        """Return the tags: sparse tables are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _votes(constraint: Constraint) -> bool:
    return isinstance(constraint, LabeledFeature) or (
        isinstance(constraint, Region) and callable(constraint.mask)
    )


def _shares(constraint: Constraint, classes: list[Any]) -> list[float]:
    """Return the shares of all classes.

    What is not stated is spread evenly over those not named.
    """
    targets = constraint.targets
    rest = (1 - sum(targets.values())) / max(len(classes) - len(targets), 1)
    return [targets.get(label, rest) for label in classes]
