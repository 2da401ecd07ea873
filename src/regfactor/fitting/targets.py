"""Targets of a regression, and the linear models x W + b that predict them through a transfer."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from regfactor.core.linalg import thin_svd
from regfactor.core.params import EPS, Array, frozen
from regfactor.fitting.inputs import LARGEST, SMALLEST
from regfactor.fitting.labels import as_targets, require_same_rows
from regfactor.losses import potentials
from regfactor.losses.potentials import Potential
from regfactor.losses.transfers import TRANSFERS
from regfactor.problems.forward import Forward
from regfactor.solvers.glm_newton import polished, unbounded_targets

SUM_TOLERANCE = 1e-6  # by which shares of a row may miss a sum of one


@frozen
class Targets:
    """Targets as a float64 table, NaN where they are free, with the shape and names of y."""

    table: Array
    names: list[str]
    shape: tuple[int, ...]
    dtype: Any

    @staticmethod
    def of(y: Any, X: Array) -> Targets:
        """Return the targets of the rows of X."""
        if y is None:
            raise ValueError("This regressor requires y to be passed, but the target y is None.")
        Y = as_targets(y)
        require_same_rows(X, Y)
        table = Y.reshape(len(Y), -1).astype(np.float64)
        names = _column_names(y, table.shape[1])
        _check_sizes(table, names)
        return Targets(
            table,
            names,
            np.asarray(y).shape,
            Y.dtype,
        )

    @property
    def flat(self) -> bool:
        """Whether y is a vector."""
        return len(self.shape) == 1

    def check_given(self, counted: Array) -> None:
        """Raise, naming the column, for a target that no row that counts has."""
        given = ~np.isnan(self.table[counted]).all(axis=0)
        if not given.all():
            raise ValueError(
                "Input y contains NaN in every row of positive weight of target column "
                f"{self.names[int(np.argmin(given))]}: there is nothing to learn it from. Give at "
                "least one value, or leave the column out."
            )

    def completed(self, predicted: Array, dtype: Any) -> Array:
        """Return y with predicted targets in place of missing ones, at least of this precision."""
        table = np.where(np.isnan(self.table), predicted, self.table)
        return table.astype(np.result_type(self.dtype, dtype)).reshape(self.shape)


def _check_sizes(table: Array, names: list[str]) -> None:
    """Raise, naming the column, for targets too large or small to be squared."""
    sizes = np.fmax.reduce(np.abs(table), axis=0, initial=0.0)
    illegal = (sizes > LARGEST[8]) | ((sizes > 0) & (sizes < SMALLEST[8]))
    if illegal.any():
        j = int(illegal.argmax())
        raise ValueError(
            f"Target column {names[j]} holds values of size {sizes[j]:.3g}, whose squares float64 "
            "cannot hold; scale it, for instance by its standard deviation."
        )


def _column_names(y: Any, count: int) -> list[str]:
    """Return the names of the target columns as errors quote them; positions where y has none."""
    if hasattr(y, "columns"):
        return [repr(name) for name in y.columns]
    name = getattr(y, "name", None)
    if name is not None:
        return [repr(name)]
    return [str(j) for j in range(count)]


@frozen
class LinearModel:
    """x W + b with its objective."""

    coef: Array
    intercept: Array
    objective: float

    def dual(self, G: Array) -> LinearModel:
        """Return the A with K A = G W, for K = G G' and orthogonal columns of G."""
        coef = G @ (self.coef / np.square(G).sum(axis=0)[:, None])
        return LinearModel(coef, self.intercept, self.objective)


@frozen
class ForwardModel:
    """A forward problem on centered features, or on coordinates in a smaller span of them."""

    features: Array
    Y: Array
    weights: Array
    potential: Potential
    alpha: float
    intercept: bool = True

    @cached_property
    def mean(self) -> Array:
        """The mean of the features, subtracted so that the intercept is apart from them."""
        if not self.intercept:
            return np.zeros(self.features.shape[1])
        return np.average(self.features, axis=0, weights=self.weights)

    @cached_property
    def _coordinates(self) -> tuple[Array, Array | None]:
        """The features to fit and, where they are coordinates in a smaller span, its basis."""
        X = self.features
        if self.intercept:
            X = X - self.mean
        if X.shape[0] >= X.shape[1] and self.alpha > 0:
            return X, None
        # the span holds W, or the shortest W where several fit equally well
        U, s, basis = thin_svd(X, cut=max(X.shape) * EPS)
        return U * s, basis

    @cached_property
    def problem(self) -> Forward:
        """The problem in these coordinates, the intercept last."""
        X, _ = self._coordinates
        ridge = np.full(X.shape[1], float(self.alpha))
        if self.intercept:
            X = np.column_stack([X, np.ones(len(X))])
            ridge = np.append(ridge, 0.0)
        return Forward.of(
            X,
            self.Y,
            self.weights,
            self.potential,
            np.diag(ridge),
        )

    def check(self, names: list[str]) -> None:
        """Raise where the objective has no minimum along the columns that no ridge penalizes."""
        allowed = self.potential.range
        free = self.problem.X
        if self.alpha > 0:
            free = free[:, np.diag(self.problem.ridge) == 0]
        if not np.isfinite([allowed.low, allowed.high]).any() or not free.shape[1]:
            return
        counted = self.weights > 0
        unbounded = unbounded_targets(free[counted], self.Y[counted], self.potential)
        if not unbounded.any():
            return
        name = names[int(np.argmax(unbounded))]
        if self.alpha == 0:
            raise ValueError(
                f"Target {name}: values at the ends {allowed} of the range can be separated from "
                "the rest by the inputs, so that the loss has no minimum. Use alpha > 0."
            )
        raise ValueError(
            f"Target {name}: all values lie at one end of the range {allowed}, so that no finite "
            "intercept is best. Leave the target out, or use fit_intercept=False."
        )

    def linear(self, W: Array) -> LinearModel:
        """Return the model of the features from a solution of the problem, refined first."""
        W = polished(self.problem, W)
        objective = self.problem.value(W).objective
        coef = W
        intercept = np.zeros(W.shape[1])
        if self.intercept:
            coef = W[:-1]
            intercept = W[-1]
        _, basis = self._coordinates
        if basis is not None:
            coef = basis.T @ coef
        return LinearModel(coef, intercept - self.mean @ coef, objective)


def positive_features(K: Array) -> Array:
    """Return G with orthogonal columns and G G' = K, up to directions of eigenvalue <= 0."""
    values, vectors = scipy.linalg.eigh(K, check_finite=False)
    keep = values > len(K) * EPS * np.abs(values).max(initial=0.0)
    return vectors[:, keep] * np.sqrt(values[keep])


def check_range(targets: Targets, potential: Potential, positive: bool = False) -> None:
    """Raise, naming the column, for targets outside the range of a transfer; NaN is allowed.

    With `positive` zero is refused too.
    """
    Y = targets.table
    legal = potential.range.contains(Y)
    if positive:
        legal &= Y != 0
    legal |= np.isnan(Y)
    if not legal.all():
        j = int(np.argmin(legal.all(axis=0)))
        value = Y[np.argmin(legal[:, j]), j]
        limit = ""
        if positive and value == 0:
            limit = ", in which zero is only a limit"
        raise ValueError(
            f"Target column {targets.names[j]} holds {value:g}, outside the range "
            f"{potential.range} of {_described(potential)}{limit}. Shift or scale this target, or "
            "choose a transfer with a range that holds it: 'identity', 'cube' and "
            "'relaxed_sigmoid' take all numbers."
        )
    if isinstance(potential, potentials.Softmax):
        _check_shares(Y, potential)


def _check_shares(Y: Array, potential: Potential) -> None:
    """Raise unless every row of targets is missing, or sums to one."""
    needed = (
        f"{_described(potential)} needs at least two target columns whose rows sum to one, all "
        "given or all missing"
    )
    if Y.shape[1] < 2:
        raise ValueError(f"{needed}.")
    missing = np.isnan(Y).all(axis=1)
    whole = np.abs(Y.sum(axis=1) - 1) <= SUM_TOLERANCE
    if not (missing | whole).all():
        raise ValueError(f"{needed}; row {int(np.argmin(missing | whole))} does not.")


def _described(potential: Potential) -> str:
    """Return the parameter that names a transfer, as users write it."""
    for name, known in TRANSFERS.items():
        if known == potential:
            return f"transfer={name!r}"
    return f"transfer={potential}"
