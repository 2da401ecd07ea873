"""A kernel machine whose unlabeled rows are told by expectations: losses under both labels, statements, objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import entr, expit, log_expit, logsumexp, softmax

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.losses import Hinge, Logistic, Loss, SmoothedHinge, Squared, SquaredHinge

HINGE_WIDTH = 0.1  # a hinge is smoothed over so much of the margin
ABOVE = 1.5  # times the critical temperature, where annealing starts
FLAT = 10.0  # times C', where a loss without curvature at zero has no critical temperature


@dataclass(frozen=True)
class Margin:
    """L(m) of the margin m = f under the label +, m = -f under the label -."""

    loss: Loss
    minus: float = -1.0  # what the loss calls the two labels
    plus: float = 1.0
    factor: float = 1.0

    @staticmethod
    def of(loss: Loss) -> Margin:
        """Return a loss as one of margins; a hinge is smoothed."""
        if isinstance(loss, Hinge):
            return Margin(loss.smoothed(HINGE_WIDTH))
        if isinstance(loss, SquaredHinge | SmoothedHinge):
            return Margin(loss)
        if isinstance(loss, Logistic):
            return Margin(loss, minus=0.0)
        if isinstance(loss, Squared):  # (1 - m)^2, equal to the squared hinge for |f| < 1 (spec B3)
            return Margin(loss, factor=2.0)
        raise ValueError(
            f"{loss} is no loss of margins for ExpectationSVC; use 'squared_hinge', 'logistic', 'squared' or 'hinge'.",
        )

    def value(self, f: Array, plus: Array, minus: Array) -> Array:
        """plus L(f) + minus L(-f), entry by entry."""
        return self._both(self.loss.value, f, plus, minus)

    def slope(self, f: Array, plus: Array, minus: Array) -> Array:
        """Return its derivative in f."""
        return self._both(self.loss.gradient, f, plus, minus)

    def curvature(self, f: Array, plus: Array, minus: Array) -> Array:
        """Return its second derivative in f."""
        return self._both(self.loss.hessian, f, plus, minus)

    def advantage(self, f: Array) -> Array:
        """L(-f) - L(f): how much the label + is cheaper; increasing in f."""
        return self._both(self.loss.value, f, -1.0, 1.0)

    def _both(
        self,
        function: Callable[[Array, Array], Array],
        f: Array,
        plus: Array | float,
        minus: Array | float,
    ) -> Array:
        under = plus * function(f, np.array(self.plus)) + minus * function(f, np.array(self.minus))
        return np.asarray(self.factor * under)

    @property
    def start(self) -> float:
        """Return the first temperature over C' for two classes, above L'(0)^2 / L''(0), where p = r is stable (B3)."""
        zero = np.zeros(1)
        one = np.ones(1)
        slope = float(self.slope(zero, one, 0 * one)[0])
        bend = float(self.curvature(zero, one, 0 * one)[0])
        if bend > 0:
            return ABOVE * slope**2 / bend
        return FLAT


@dataclass(frozen=True, eq=False)
class Statements:
    """Expectations sum_j v_j a_jk p_jc = target +- tolerance; missing by delta costs (strength/2) delta^2.

    `features` holds a: one column for each feature of the unlabeled rows, divided by its total;
    `at` and `of` name the feature and the column of scores of each statement. Two classes have one
    column of scores, that of the second.
    """

    features: Any
    at: Array
    of: Array
    target: Array
    tolerance: Array
    strength: Array

    @staticmethod
    def none(rows: int) -> Statements:
        """Nothing is stated."""
        zero = np.zeros(0)
        return Statements(np.zeros((rows, 0)), np.zeros(0, int), np.zeros(0, int), zero, zero, zero)

    def __len__(self) -> int:
        return len(self.target)

    def shifts(self, gamma: Array, columns: int) -> Array:
        """sum_k gamma_k a_jk in the column of statement k."""
        table = np.zeros((self.features.shape[1], columns))
        np.add.at(table, (self.at, self.of), gamma)
        return np.asarray(self.features @ table)

    def expected(self, p: Array, weights: Array) -> Array:
        """sum_j v_j a_jk p_j of every statement."""
        return np.asarray(self.features.T @ (weights[:, None] * p))[self.at, self.of]

    def excess(self, expected: Array) -> Array:
        """By how much expectations lie outside their bands, with a sign."""
        off = expected - self.target
        return np.asarray(np.sign(off) * np.maximum(np.abs(off) - self.tolerance, 0))

    @cached_property
    def sizes(self) -> Array:
        """What an expectation is large against: one for a share among rows of weight one."""
        return np.asarray(abs(self.features).sum(axis=0)).ravel()[self.at]

    def hessian(self, p: Array, weights: Array) -> Array:
        """Return the derivative of expectations in the shifts, summed over rows: A diag(p) A' - B B' in the spec."""
        H = np.zeros((len(self), len(self)))
        for c in np.unique(self.of):
            for e in np.unique(self.of):
                both = p[:, c] * ((c == e) - p[:, e])
                gram = _weighted_gram(self.features, weights * both)
                i = np.flatnonzero(self.of == c)
                j = np.flatnonzero(self.of == e)
                H[np.ix_(i, j)] = gram[np.ix_(self.at[i], self.at[j])]
        return H


def _weighted_gram(A: Any, w: Array) -> Array:
    if is_sparse(A):
        return np.asarray((A.T @ (scipy.sparse.diags_array(w) @ A)).toarray())
    return np.asarray(A.T @ (w[:, None] * A))


def probabilities(scores: Array) -> Array:
    """Return softmax of each row; one column is the second of two classes, the first having score 0."""
    return np.asarray(expit(scores) if scores.shape[1] == 1 else softmax(scores, axis=1))


def log_partition(scores: Array) -> Array:
    """Return the log of the sum of exponentials of each row, the score 0 of a first class included."""
    return np.asarray(
        -log_expit(-scores[:, 0]) if scores.shape[1] == 1 else logsumexp(scores, axis=1),
    )


def entropies(p: Array) -> Array:
    """Return the entropy of each row in nats."""
    H = entr(p).sum(axis=1)
    return np.asarray(H + entr(1 - p[:, 0]) if p.shape[1] == 1 else H)


@dataclass(frozen=True, eq=False)
class Expectation:
    """1/2 |f|^2 + C sum_L L(y f) + C' sum_U E_p L(y f) - T sum_U H(p) + penalties of statements (spec B1).

    f = (X - mean) w + b in every column: one for two classes, else one for each class against the
    rest. Rows of weight v count v times. `free` are the unlabeled rows, to which `statements`
    refer; p has a row for each of them.
    """

    X: Any  # features, an array or a CSR array
    mean: Array  # of the features, that of an array being zero
    codes: Array
    weights: Array
    n_classes: int
    margin: Margin
    C: float
    C_unlabeled: float
    statements: Statements

    @cached_property
    def free(self) -> Array:
        """The unlabeled rows."""
        return np.flatnonzero(self.codes < 0)

    @property
    def columns(self) -> int:
        """How many columns f has."""
        if self.n_classes == 2:
            return 1
        return self.n_classes

    @cached_property
    def free_weights(self) -> Array:
        """Weights of the unlabeled rows."""
        return np.asarray(self.weights[self.free])

    @property
    def first_temperature(self) -> float:
        """Return where annealing starts.

        With one column for each class the response of p to f is at most twice that of two classes:
        diag(p) - pp' has norm up to 1/2, p (1 - p) only 1/4.
        """
        return self.margin.start * self.C_unlabeled * (1 if self.columns == 1 else 2)

    @cached_property
    def _labeled(self) -> tuple[Array, Array]:
        """Weights of L(f) and L(-f) from labels alone."""
        signs = self.codes[:, None] == (
            np.ones(1) if self.columns == 1 else np.arange(self.columns)
        )
        known = (self.C * self.weights * (self.codes >= 0))[:, None]
        return known * signs, known * ~signs

    def pulls(self, p: Array) -> tuple[Array, Array]:
        """Return the weights of L(f) and of L(-f) for every row and column."""
        plus, minus = (a.copy() for a in self._labeled)
        v = (self.C_unlabeled * self.free_weights)[:, None]
        plus[self.free] = v * p
        minus[self.free] = v * (1 - p)
        return plus, minus

    def gains(self, F: Array) -> Array:
        """-g = C' (L(-f) - L(f)) of every unlabeled row (spec B1)."""
        return self.C_unlabeled * self.margin.advantage(F[self.free])

    def objective(
        self,
        F: Array,
        W: Array,
        p: Array,
        pulls: tuple[Array, Array],
        disorder: float,
    ) -> float:
        """Return the objective at decision values F = (X - mean) W + b, `pulls(p)`, and T times the entropy of p."""
        stated = self.statements
        excess = stated.excess(stated.expected(p, self.free_weights))
        missed = float(stated.strength[excess != 0] @ np.square(excess[excess != 0])) / 2
        return (
            float(np.vdot(W, W)) / 2 + float(self.margin.value(F, *pulls).sum()) - disorder + missed
        )

    def mean_over(self, values: Array) -> float:
        """Return the weighted mean over unlabeled rows."""
        return float(self.free_weights @ values / self.free_weights.sum())
