"""A kernel machine that learns from expectations of labels: margins, statements and objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.special import entr, expit, log_expit, logsumexp, softmax

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, frozen
from regfactor.losses import Hinge, Logistic, Loss, SmoothedHinge, Squared, SquaredHinge
from regfactor.problems.base import Problem

HINGE_WIDTH = 0.1  # share of the margin over which a hinge is smoothed
START_ABOVE_CRITICAL = 1.5  # times the critical temperature, where annealing starts
START_WITHOUT_CURVATURE = 10.0  # times C', for a loss that has no critical temperature


class MarginWeights(NamedTuple):
    """The weights of L(f) and of L(-f), for every row and column of f."""

    plus: Array
    minus: Array

    def column(self, c: int) -> MarginWeights:
        """Return the weights of one column."""
        plus = np.ascontiguousarray(self.plus[:, c])
        return MarginWeights(plus, np.ascontiguousarray(self.minus[:, c]))


@dataclass(frozen=True)
class MarginLoss:
    """L(m) of the margin m = f under the label +, m = -f under the label -."""

    loss: Loss
    minus: float = -1.0  # the two labels as the loss knows them
    plus: float = 1.0
    factor: float = 1.0

    @staticmethod
    def of(loss: Loss) -> MarginLoss:
        """Return a loss as one of margins; a hinge is smoothed."""
        if isinstance(loss, Hinge):
            return MarginLoss(loss.smoothed(HINGE_WIDTH))
        if isinstance(loss, SquaredHinge | SmoothedHinge):
            return MarginLoss(loss)
        if isinstance(loss, Logistic):
            return MarginLoss(loss, minus=0.0)
        if isinstance(loss, Squared):  # (1 - m)^2, equal to the squared hinge for |f| < 1
            return MarginLoss(loss, factor=2.0)
        raise ValueError(
            f"{loss} is no loss of margins for ExpectationSVC; use 'squared_hinge', 'logistic', "
            "'squared' or 'hinge'."
        )

    def value(self, f: Array, plus: Array, minus: Array) -> Array:
        """Return plus L(f) + minus L(-f), entry by entry."""
        return self._both(self.loss.value, f, plus, minus)

    def gradient(self, f: Array, plus: Array, minus: Array) -> Array:
        """Return its derivative in f."""
        return self._both(self.loss.gradient, f, plus, minus)

    def hessian(self, f: Array, plus: Array, minus: Array) -> Array:
        """Return its second derivative in f."""
        return self._both(self.loss.hessian, f, plus, minus)

    def advantage(self, f: Array) -> Array:
        """Return L(-f) - L(f), by which the label + is cheaper; increasing in f."""
        return self._both(self.loss.value, f, -1.0, 1.0)

    def _both(
        self,
        function: Callable[[Array, Array], Array],
        f: Array,
        plus: Array | float,
        minus: Array | float,
    ) -> Array:
        under = plus * function(f, np.array(self.plus)) + minus * function(f, np.array(self.minus))
        return self.factor * under

    @property
    def first_temperature(self) -> float:
        """The first temperature over C' for two classes.

        It lies above L'(0)^2 / L''(0), where p = r is stable.
        """
        zero = np.zeros(1)
        one = np.ones(1)
        gradient = float(self.gradient(zero, one, zero)[0])
        curvature = float(self.hessian(zero, one, zero)[0])
        if curvature > 0:
            return START_ABOVE_CRITICAL * gradient**2 / curvature
        return START_WITHOUT_CURVATURE


@frozen
class Statements:
    """sum_j v_j a_jk p_jc = target +- tolerance; missing it by delta costs (strength/2) delta^2.

    `features` holds a: one column for each feature of the unlabeled rows, divided by its total;
    `feature` and `column` are the feature and the column of scores of each statement. Two classes
    have one column of scores, that of the second.
    """

    features: Any
    feature: Array
    column: Array
    target: Array
    tolerance: Array
    strength: Array

    @staticmethod
    def none(rows: int) -> Statements:
        """Return no statements about a number of rows."""
        zero = np.zeros(0)
        return Statements(
            np.zeros((rows, 0)),
            np.zeros(0, int),
            np.zeros(0, int),
            zero,
            zero,
            zero,
        )

    def __len__(self) -> int:
        return len(self.target)

    def shifts(self, multipliers: Array, columns: int) -> Array:
        """Return sum_k gamma_k a_jk in the column of statement k."""
        table = np.zeros((self.features.shape[1], columns))
        np.add.at(table, (self.feature, self.column), multipliers)
        return self.features @ table

    def expected(self, p: Array, weights: Array) -> Array:
        """Return sum_j v_j a_jk p_j of every statement."""
        return np.asarray(self.features.T @ (weights[:, None] * p))[self.feature, self.column]

    def excess(self, expected: Array) -> Array:
        """Return by how much expectations lie outside their tolerances, with a sign."""
        difference = expected - self.target
        return np.sign(difference) * np.maximum(np.abs(difference) - self.tolerance, 0)

    @cached_property
    def sizes(self) -> Array:
        """The scale of each expectation: one for a share among rows of weight one."""
        return np.asarray(abs(self.features).sum(axis=0)).ravel()[self.feature]

    def hessian(self, p: Array, weights: Array) -> Array:
        """Return the derivative of expectations in the shifts: A diag(p) A' - B B' in the spec."""
        H = np.zeros((len(self), len(self)))
        columns = np.unique(self.column)
        for c in columns:
            for e in columns:
                response = p[:, c] * ((c == e) - p[:, e])
                gram = _weighted_gram(self.features, weights * response)
                i = np.flatnonzero(self.column == c)
                j = np.flatnonzero(self.column == e)
                H[np.ix_(i, j)] = gram[np.ix_(self.feature[i], self.feature[j])]
        return H


def _weighted_gram(A: Any, w: Array) -> Array:
    if is_sparse(A):
        return (A.T @ (scipy.sparse.diags_array(w) @ A)).toarray()
    return A.T @ (w[:, None] * A)


def probabilities(scores: Array) -> Array:
    """Return the softmax of each row.

    A single column is the second of two classes, of which the first has score 0.
    """
    if scores.shape[1] == 1:
        return expit(scores)
    return softmax(scores, axis=1)


def log_partition(scores: Array) -> Array:
    """Return the log of the sum of exponentials of each row, with the score 0 of a first class."""
    if scores.shape[1] == 1:
        return -log_expit(-scores[:, 0])
    return logsumexp(scores, axis=1)


def entropies(p: Array) -> Array:
    """Return the entropy of each row in nats."""
    if p.shape[1] == 1:
        return entr(p[:, 0]) + entr(1 - p[:, 0])
    return entr(p).sum(axis=1)


def by_class(p: Array) -> Array:
    """Return probabilities with a column for each class."""
    if p.shape[1] == 1:
        return np.hstack([1 - p, p])
    return p


@frozen
class ExpectationPoint:
    """f = X W + b, its values on all rows, and the distribution of the labels of unlabeled rows."""

    coefficients: Array
    offsets: Array
    values: Array
    labels: Array
    multipliers: Array  # of the statements


@frozen
class Expectation(Problem[ExpectationPoint]):
    """1/2 |f|^2 + C sum_L L(y f) + C' sum_U E_p L(y f) - T sum_U H(p) + penalties of statements.

    f = (X - mean) w + b in every column: one for two classes, else one for each class against the
    rest. `weights` act as repetition counts of rows. `free` are the unlabeled rows, to
    which `statements` refer; p has a row for each of them.
    """

    X: Any  # features, an array or a CSR array
    mean: Array  # of the features, zero for an array
    codes: Array
    weights: Array
    n_classes: int
    margin: MarginLoss
    C: float
    C_unlabeled: float
    statements: Statements
    solvers = ("regfactor.labels.expectation.annealing:Annealing",)

    @cached_property
    def free(self) -> Array:
        """The unlabeled rows."""
        return np.flatnonzero(self.codes < 0)

    @property
    def columns(self) -> int:
        """The number of columns of f."""
        if self.n_classes == 2:
            return 1
        return self.n_classes

    @cached_property
    def free_weights(self) -> Array:
        """Weights of the unlabeled rows."""
        return self.weights[self.free]

    @property
    def uses_unlabeled(self) -> bool:
        """Whether any unlabeled row counts."""
        return len(self.free) > 0 and self.C_unlabeled > 0

    @property
    def first_temperature(self) -> float:
        """The temperature at which annealing starts.

        With one column for each class the response of p to f is at most twice that of two classes:
        diag(p) - pp' has norm up to 1/2, p (1 - p) only 1/4.
        """
        two_classes = self.margin.first_temperature * self.C_unlabeled
        if self.columns == 1:
            return two_classes
        return 2 * two_classes

    @cached_property
    def _labeled_weights(self) -> MarginWeights:
        """The weights of L(f) and L(-f) from labels alone."""
        positive = np.ones(1) if self.columns == 1 else np.arange(self.columns)
        signs = self.codes[:, None] == positive
        known = (self.C * self.weights * (self.codes >= 0))[:, None]
        return MarginWeights(known * signs, known * ~signs)

    def margin_weights(self, p: Array) -> MarginWeights:
        """Return the weights of L(f) and of L(-f) for every row and column."""
        plus = self._labeled_weights.plus.copy()
        minus = self._labeled_weights.minus.copy()
        v = (self.C_unlabeled * self.free_weights)[:, None]
        plus[self.free] = v * p
        minus[self.free] = v * (1 - p)
        return MarginWeights(plus, minus)

    def gains(self, F: Array) -> Array:
        """Return -g = C' (L(-f) - L(f)) of every unlabeled row."""
        return self.C_unlabeled * self.margin.advantage(F[self.free])

    def objective(self, point: ExpectationPoint, weights: MarginWeights, heat: float) -> float:
        """Return the objective; `weights` are those of the labels, `heat` is T sum_U H(p)."""
        W = point.coefficients
        losses = self.margin.value(point.values, *weights).sum()
        stated = self.statements
        excess = stated.excess(stated.expected(point.labels, self.free_weights))
        missed = excess != 0  # a strength may be infinite
        penalty = stated.strength[missed] @ np.square(excess[missed])
        return float((np.vdot(W, W) + penalty) / 2 + losses - heat)
