"""What stands between a regressor and its forward problem: targets, their range, coordinates, coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.utils.validation import check_consistent_length

from regfactor.core.linalg import thin_svd
from regfactor.core.params import Array
from regfactor.fitting.labels import as_targets
from regfactor.losses import potentials
from regfactor.losses.potentials import Potential
from regfactor.losses.transfers import TRANSFERS
from regfactor.problems.forward import Forward
from regfactor.solvers.glm_newton import EPS, polished, without_minimum


@dataclass(frozen=True, eq=False)
class Targets:
    """Targets as a float64 table, NaN where they are free, with how the user knows them."""

    table: Array
    names: list[str]
    shape: tuple[int, ...]
    dtype: Any

    @staticmethod
    def of(y: Any, X: Array) -> Targets:
        """Return the targets of the rows of X."""
        if y is None:
            raise ValueError("This regressor requires y to be passed, but the target y is None.")
        shape = np.asarray(y).shape
        Y = as_targets(y)
        check_consistent_length(X, Y)
        table = Y[:, None] if Y.ndim == 1 else Y
        if hasattr(y, "columns"):
            names = [repr(name) for name in y.columns]
        else:
            name = getattr(y, "name", None)
            if name is not None:
                names = [repr(name)]
            else:
                names = [str(j) for j in range(table.shape[1])]
        return Targets(table.astype(np.float64), names, shape, Y.dtype)

    @property
    def flat(self) -> bool:
        """Whether y is a vector."""
        return len(self.shape) == 1


@dataclass(frozen=True, eq=False)
class Linear:
    """x W + b with its objective."""

    coef: Array
    intercept: Array
    objective: float

    def dual(self, G: Array) -> Linear:
        """Return the A with K A = G W, for K = G G' and orthogonal columns of G."""
        return Linear(
            G @ (self.coef / np.square(G).sum(axis=0)[:, None]),
            self.intercept,
            self.objective,
        )


@dataclass(frozen=True, eq=False)
class Task:
    """A forward problem in coordinates that suit it: centered inputs, and their span where that is smaller."""

    features: Array
    Y: Array
    weights: Array
    potential: Potential
    alpha: float
    intercept: bool = True

    @cached_property
    def mean(self) -> Array:
        """What is taken off the features, so that a free offset is left to itself."""
        if not self.intercept:
            return np.zeros(self.features.shape[1])
        return np.asarray(np.average(self.features, axis=0, weights=self.weights))

    @cached_property
    def _coordinates(self) -> tuple[Array, Array | None]:
        """Return the features to fit and, where they are coordinates in a smaller span, its basis."""
        X = self.features - self.mean if self.intercept else self.features
        if X.shape[0] >= X.shape[1] and self.alpha > 0:
            return X, None
        U, s, basis = thin_svd(
            X,
            cut=max(X.shape) * EPS,
        )  # holds W, or the shortest W where many fit
        return U * s, basis

    @cached_property
    def problem(self) -> Forward:
        """What is solved."""
        X = self._coordinates[0]
        ridge = np.full(X.shape[1], float(self.alpha))
        if self.intercept:
            X = np.column_stack([X, np.ones(len(X))])
            ridge = np.append(ridge, 0.0)
        return Forward.of(X, self.Y, self.weights, self.potential, np.diag(ridge))

    def check(self, names: list[str]) -> None:
        """Raise where the objective falls for ever, by the columns that no ridge holds."""
        if self.alpha == 0:
            free = self.problem.X
        else:
            free = self.problem.X[:, np.diag(self.problem.ridge) == 0]
        if (
            not np.isfinite([self.potential.range.low, self.potential.range.high]).any()
            or not free.shape[1]
        ):
            return
        counted = self.weights > 0
        lost = without_minimum(free[counted], self.Y[counted], self.potential)
        if not lost.any():
            return
        name = names[int(np.argmax(lost))]
        if self.alpha == 0:
            raise ValueError(
                f"Target {name}: values at the ends {self.potential.range} of the range can be separated from the rest "
                "by the inputs, so that the loss has no minimum. Use alpha > 0.",
            )
        raise ValueError(
            f"Target {name}: all values lie at one end of the range {self.potential.range}, so that no finite "
            "intercept is best. Leave the target out, or use fit_intercept=False.",
        )

    def model(self, W: Array) -> Linear:
        """Return the coefficients of the features from those of the problem, settled to the last digits."""
        W = polished(self.problem, W)
        basis = self._coordinates[1]
        if self.intercept:
            coef, free = (W[:-1], W[-1])
        else:
            coef, free = (W, np.zeros(W.shape[1]))
        coef = coef if basis is None else basis.T @ coef
        return Linear(coef, free - self.mean @ coef, self.problem.value(W)[0])


def positive_features(K: Array) -> Array:
    """Return G with orthogonal columns and G G' = K, up to directions of non-positive eigenvalue."""
    values, vectors = scipy.linalg.eigh(K, check_finite=False)
    keep = values > len(K) * EPS * np.abs(values).max(initial=0.0)
    return np.asarray(vectors[:, keep] * np.sqrt(values[keep]))


def check_range(targets: Targets, potential: Potential, positive: bool = False) -> None:
    """Raise, with the name of the column, for targets that the transfer cannot give; NaN is none."""
    Y = targets.table
    names = targets.names
    legal = potential.range.contains(Y) & ((Y != 0) | (not positive)) | np.isnan(Y)
    name = "transfer=" + next(
        (repr(n) for n, p in TRANSFERS.items() if p == potential),
        str(potential),
    )
    if not legal.all():
        j = int(np.argmin(legal.all(axis=0)))
        value = Y[np.argmin(legal[:, j]), j]
        raise ValueError(
            f"Target column {names[j]} holds {value:g}, outside the range {potential.range} of {name}"
            f"{', in which zero is only a limit' if positive and value == 0 else ''}. Shift or scale this target, or "
            "choose a transfer with a range that holds it: 'identity', 'cube' and 'relaxed_sigmoid' take all numbers.",
        )
    if isinstance(potential, potentials.Softmax):
        whole = np.isnan(Y).all(axis=1)
        odd = ~whole & ~(np.abs(Y.sum(axis=1) - 1) <= 1e-6)
        if Y.shape[1] < 2 or odd.any():
            raise ValueError(
                f"{name} needs at least two target columns whose rows sum to one, all given or all missing"
                + (f"; row {int(np.argmax(odd))} does not." if odd.any() else "."),
            )
