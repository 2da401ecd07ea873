"""Statements about classes without labels: shares in all rows, in rows with a feature, in a region.

A constraint is a statement about the unlabeled rows among those given to `fit`: masks and features
have an entry for every row given there, and expectations are taken over the unlabeled ones. It
holds within its tolerance, or as nearly as the others and the penalty allow.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, Params, choose, is_number

ROUNDING = 1e-9  # by which shares may miss a sum of one


class Constraint(Params, abc.ABC):
    """sum_j phi(x_j) P(y_j = label) / total: expectations of a feature, a target for each label."""

    tolerance: float

    @abc.abstractmethod
    def features(self, X: Any, names: Any = None) -> Array:
        """Return phi of every row of X, whose columns may have names."""

    @property
    @abc.abstractmethod
    def targets(self) -> dict[Any, float]:
        """The expectation that is stated for each label."""

    @property
    def relative(self) -> bool:
        """Whether the total is the sum of phi (targets are then shares) or the number of rows."""
        return True

    @abc.abstractmethod
    def moved(self, label: Any, by: float) -> Self:
        """Return the statement with another target for a label, kept within its range."""


class Shares(Constraint):
    """A constraint whose targets are shares of classes."""

    shares: Mapping[Any, float]

    def __post_init__(self) -> None:
        _check_tolerance(self)
        _check_shares(self.shares)

    @property
    def targets(self) -> dict[Any, float]:
        return {_plain(label): float(share) for label, share in self.shares.items()}

    def moved(self, label: Any, by: float) -> Self:
        """Return the statement with one share moved; the others change in proportion."""
        shares = self.targets
        total = sum(shares.values())
        largest = min(total, 1.0) if len(shares) > 1 else 1.0
        new = float(np.clip(shares[label] + by, 0.0, largest))
        rest = total - shares[label]
        moved = {}
        for name, share in shares.items():
            if rest > 0:
                moved[name] = share * (total - new) / rest
            else:
                moved[name] = (total - new) / max(len(shares) - 1, 1)
        moved[label] = new
        other = copy.copy(self)
        other.shares = moved
        return other


@dataclass(eq=False)
class ClassBalance(Shares):
    """The shares of classes among all unlabeled rows."""

    shares: Mapping[Any, float]
    tolerance: float = 0.02

    def features(self, X: Any, names: Any = None) -> Array:
        return np.ones(X.shape[0])

    def __str__(self) -> str:
        return "all rows"


@dataclass(eq=False)
class LabeledFeature(Shares):
    """The shares of classes among the rows in which a column, that of a `word`, is not zero."""

    column: Any
    shares: Mapping[Any, float]
    tolerance: float = 0.05
    word: Any = None

    def features(self, X: Any, names: Any = None) -> Array:
        j = _position(self.column, X.shape[1], names)
        if is_sparse(X):
            column = X[:, [j]].toarray()[:, 0]
        else:
            column = np.asarray(X)[:, j]
        return (column != 0).astype(np.float64)

    def __str__(self) -> str:
        if self.word is None:
            return f"rows with {self.column}"
        return f"rows with {self.word!r}"


@dataclass(eq=False)
class Region(Shares):
    """The shares of classes among the rows of a mask, or where a function of the table is true."""

    mask: Any
    shares: Mapping[Any, float]
    tolerance: float = 0.05
    name: str | None = None

    def features(self, X: Any, names: Any = None) -> Array:
        found = _evaluated(self.mask, X)
        if found.shape != (X.shape[0],):
            raise ValueError(
                f"The mask of a region has shape {found.shape}; it needs one truth value for each "
                f"of the {X.shape[0]} rows given to fit, labeled ones too."
            )
        legal = np.isin(found, (0, 1))
        if not legal.all():
            raise ValueError(
                f"The mask of a region must hold truth values, got {found[~legal][0]!r}; row "
                "numbers become a mask by numpy.isin(numpy.arange(n), rows)."
            )
        return found.astype(np.float64)

    def __str__(self) -> str:
        return self.name or f"region {getattr(self.mask, '__name__', 'given as a mask')}"


@dataclass(eq=False)
class Expected(Constraint):
    """The mean over unlabeled rows of a feature where the label is `label`, and zero elsewhere."""

    values: Any
    target: float
    tolerance: float
    label: Any

    def __post_init__(self) -> None:
        if not (is_number(self.target) and np.isfinite(self.target)):
            raise ValueError(
                f"expectation needs a finite number as its target, got {self.target!r}."
            )
        _check_tolerance(self)

    def features(self, X: Any, names: Any = None) -> Array:
        values = _evaluated(self.values, X)
        numeric = values.dtype.kind in "biuf" and np.isfinite(values).all()
        if not numeric or values.shape != (X.shape[0],):
            raise ValueError(
                f"The features of an expectation have shape {values.shape} and type "
                f"{values.dtype}; they must be finite numbers, one for each of the {X.shape[0]} "
                "rows given to fit."
            )
        return values.astype(np.float64)

    @property
    def targets(self) -> dict[Any, float]:
        return {_plain(self.label): float(self.target)}

    @property
    def relative(self) -> bool:
        return False

    def moved(self, label: Any, by: float) -> Self:
        """Return the statement with its target moved by a share of itself."""
        return replace(self, target=self.target * (1 + by))

    def __str__(self) -> str:
        return f"mean of {getattr(self.values, '__name__', 'a feature')}"


def class_balance(shares: Mapping[Any, float], tolerance: float = 0.02) -> Constraint:
    """State the shares of classes among all unlabeled rows.

    Parameters
    ----------
    shares : dict of label to share
        All classes, which then sum to one, or some.
    tolerance : float, default=0.02
        By which the shares may differ.

    Returns
    -------
    Constraint

    Examples
    --------
    >>> from regfactor.constraints import class_balance
    >>> class_balance({"spam": 0.3}).targets
    {'spam': 0.3}
    """
    return ClassBalance(shares, tolerance)


def labeled_feature(
    column: Any,
    shares: Mapping[Any, float],
    tolerance: float = 0.05,
    *,
    vocabulary: Any = None,
) -> Constraint:
    """State the shares of classes among the unlabeled rows in which a column is not zero.

    Parameters
    ----------
    column : int or str
        Position or name of a column of the table given to `fit`, or a word of `vocabulary`.
    shares : dict of label to share
    tolerance : float, default=0.05
    vocabulary : optional
        The column of each word: a fitted vectorizer, its `vocabulary_`, or a list of the words by
        columns.

    Returns
    -------
    Constraint

    Examples
    --------
    >>> from regfactor.constraints import labeled_feature
    >>> str(labeled_feature("goal", {"sport": 0.9}, vocabulary=["election", "goal"]))
    "rows with 'goal'"
    """
    if vocabulary is None:
        return LabeledFeature(column, shares, tolerance)
    words = getattr(vocabulary, "vocabulary_", vocabulary)
    if not isinstance(words, Mapping):
        words = {word: j for j, word in enumerate(np.asarray(words).tolist())}
    return LabeledFeature(int(choose(column, words, "word")), shares, tolerance, column)


def region(
    mask_or_callable: Any,
    shares: Mapping[Any, float],
    tolerance: float = 0.05,
    *,
    name: str | None = None,
) -> Constraint:
    """State the shares of classes among the unlabeled rows of a region.

    Parameters
    ----------
    mask_or_callable : array-like of bool, or callable
        One truth value for each row given to `fit`, labeled ones too; or a function of the table
        given there.
    shares : dict of label to share
    tolerance : float, default=0.05
    name : str, optional
        The name of the region in reports.

    Returns
    -------
    Constraint

    Examples
    --------
    >>> from regfactor.constraints import region
    >>> str(region(lambda X: X[:, 1] > 0.6, {0: 1.0}, name="above"))
    'above'
    """
    return Region(mask_or_callable, shares, tolerance, name)


def expectation(features: Any, target: float, tolerance: float, label: Any) -> Constraint:
    """State the mean over unlabeled rows of phi(x) 1[y = label].

    Parameters
    ----------
    features : array-like of float, or callable
        phi: a number for each row given to `fit`, or a function of the table given there.
    target : float
    tolerance : float
        In the unit of phi.
    label
        The class.

    Returns
    -------
    Constraint

    Examples
    --------
    >>> from regfactor.constraints import expectation
    >>> expectation([1.0, 2.0, 4.0], target=1.5, tolerance=0.1, label="buys").targets
    {'buys': 1.5}
    """
    return Expected(features, target, tolerance, label)


def _plain(label: Any) -> Any:
    if isinstance(label, np.generic):
        return label.item()
    return label


def _evaluated(given: Any, X: Any) -> Array:
    """Return an array, or what a function of the table returns."""
    if callable(given):
        given = given(X)
    return np.asarray(given)


def _check_tolerance(part: Constraint) -> None:
    if not (is_number(part.tolerance) and 0 <= part.tolerance < np.inf):
        raise ValueError(
            f"The tolerance of a constraint must be a finite number >= 0, got {part.tolerance!r}."
        )


def _check_shares(shares: Any) -> None:
    if not isinstance(shares, Mapping) or not shares:
        raise ValueError(
            f"shares must be a dict of label to share, such as {{'yes': 0.7}}, got {shares!r}."
        )
    for label, share in shares.items():
        if not (is_number(share) and 0 <= share <= 1):
            raise ValueError(f"The share of {label!r} must lie between 0 and 1, got {share!r}.")
    total = sum(shares.values())
    if total > 1 + ROUNDING:
        raise ValueError(
            f"Shares of classes cannot sum to more than one; {dict(shares)} sums to {total:g}."
        )


def _position(column: Any, width: int, names: Any) -> int:
    """Return the position of a column given by position or name."""
    if isinstance(column, str):
        if names is None:
            raise ValueError(
                f"A labeled feature names the column {column!r}, and the table has no column "
                "names; fit a pandas frame, give the position, or give the columns of words: "
                "labeled_feature(word, shares, vocabulary=vectorizer)."
            )
        return int(choose(column, {str(name): j for j, name in enumerate(names)}, "column"))
    if not isinstance(column, Integral) or isinstance(column, bool):
        raise ValueError(
            f"A labeled feature is named by the position or name of a column, got {column!r}."
        )
    position = int(column)
    if not -width <= position < width:
        raise ValueError(
            f"A labeled feature is in column {position}; the table has {width} columns."
        )
    return position % width


__all__ = [
    "ClassBalance",
    "Constraint",
    "Expected",
    "LabeledFeature",
    "Region",
    "class_balance",
    "expectation",
    "labeled_feature",
    "region",
]
