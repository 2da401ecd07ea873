"""Ridge regressions on latent rows, their weights eliminated: values, gradients, predictions."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import lapack
from sklearn.utils import gen_batches

from regfactor.core.params import Array, frozen
from regfactor.labels.latent.features import (
    Features,
    LatentGaussian,
    LatentKernel,
    LatentPolynomial,
    Monomials,
    Waves,
    n_monomials,
)

CACHED_NUMBERS = 2**16  # in a block of features, which should stay in the processor's cache
HELD_NUMBERS = 2**22  # in products of coefficients and latent rows, of some targets at a time
# explicit features are used where there are fewer of them than this share of the rows
PRIMAL_SHARE = 0.6
MAX_KERNEL_ROWS = 3000  # up to which a kernel matrix is formed
MAX_FEATURES = 3000
# shares of the trace that are added to a matrix that rounding keeps from being positive definite
JITTERS = (0.0, 1e-12, 1e-9, 1e-6)


@frozen
class FeatureRegression:
    """g(z) = phi(z) V + b."""

    features: Features
    V: Array  # scaled: it multiplies the values
    b: Array

    def __call__(self, Z: Array) -> Array:
        """Return g of every row."""
        out = np.empty((len(Z), len(self.b)))
        for rows in gen_batches(len(Z), block_rows(self.features.size)):
            values = self.features.values(np.ascontiguousarray(Z[rows].T))
            out[rows] = values.T @ self.V + self.b
        return out

    def derivatives(self, Z: Array) -> Array:
        """dg_q/dz of every row, (rows, targets, dimensions)."""
        n_targets = len(self.b)
        out = np.empty((len(Z), n_targets, Z.shape[1]))
        for rows in gen_batches(len(Z), block_rows(self.features.size * n_targets)):
            block = np.repeat(Z[rows].T, n_targets, axis=1)  # every row once for each target
            values = self.features.values(block)
            weights = np.tile(self.V, block.shape[1] // n_targets)
            slopes = self.features.adjoint(block, values, weights)
            out[rows] = slopes.T.reshape(-1, n_targets, Z.shape[1])
        return out


@frozen
class KernelRegression:
    """g(z) = k(z, Z) alpha + b."""

    kernel: LatentKernel
    references: Array
    alpha: Array
    b: Array

    def __call__(self, Z: Array) -> Array:
        """Return g of every row."""
        out = np.empty((len(Z), len(self.b)))
        for rows in gen_batches(len(Z), MAX_KERNEL_ROWS):
            out[rows] = self.kernel.gram(Z[rows], self.references)[0] @ self.alpha + self.b
        return out

    def derivatives(self, Z: Array) -> Array:
        """dg_q/dz of every row, (rows, targets, dimensions)."""
        out = np.empty((len(Z), len(self.b), Z.shape[1]))
        for rows in gen_batches(len(Z), MAX_KERNEL_ROWS):
            tangent = self.kernel.gram(Z[rows], self.references)[1]  # one for all targets
            for some in gen_batches(len(self.b), max(HELD_NUMBERS // self.references.size, 1)):
                alpha = self.alpha[:, some]
                out[rows, some] = self.kernel.derivatives(
                    tangent,
                    alpha,
                    Z[rows],
                    self.references,
                )
        return out


@dataclass(eq=False)
class DeferredRegression:
    """A regression that is fitted when it is first used."""

    view: RidgeView
    rows: Array

    @cached_property
    def fitted(self) -> FeatureRegression | KernelRegression:
        """The regression itself."""
        found = self.view.fitted(self.rows)
        assert not isinstance(found, DeferredRegression)
        return found

    def __call__(self, Z: Array) -> Array:
        """Return g of every row."""
        return self.fitted(Z)

    def derivatives(self, Z: Array) -> Array:
        """dg_q/dz of every row, (rows, targets, dimensions)."""
        return self.fitted.derivatives(Z)


Regression = FeatureRegression | KernelRegression | DeferredRegression


class Form(abc.ABC):
    """min over V, b of sum_i w_i |t_i - phi(z_i) V - b|^2 + ridge |V|^2, primal or dual."""

    @abc.abstractmethod
    def fitted(self, Z: Array, view: RidgeView) -> Regression:
        """Return the regression that attains the minimum."""

    @abc.abstractmethod
    def gram(self, Z: Array) -> Array:
        """Return phi(z)'phi(y) of all pairs of latent rows, a new array."""

    @abc.abstractmethod
    def value_and_gradient(self, Z: Array, view: RidgeView) -> tuple[float, Array]:
        """Return the minimum and its derivative in Z: V and b are held (envelope theorem)."""


@frozen
class RidgeView:
    """Targets that are regressed on some of the latent rows, and their weight in the objective."""

    targets: Array
    samples: Array  # weights of these rows
    ridge: float
    weight: float
    form: Form
    rows: Array | None = None  # None: all
    columns: Array | None = None  # of the table of targets

    def of_rows(self, Z: Array) -> Array:
        """Return the latent rows of this view."""
        if self.rows is None:
            return Z
        return Z[self.rows]

    def fitted(self, Z: Array) -> Regression:
        """Return the regression of the targets on the latent rows of this view, out of all."""
        return self.form.fitted(self.of_rows(Z), self)

    def left_out(self, K: Array, ridge: float) -> Array:
        """Return what the regression predicts for each row when that row is left out.

        With (K + ridge/w) alpha + 1 b = T and 1'alpha = 0, alpha = P T, the prediction misses T_i
        by alpha_i / P_ii: an exact identity, so that one regression serves for all rows. K is the
        Gram matrix of the rows of this view.
        """
        n = len(K)
        inverse = solve_ridge(K.copy(), ridge / self.samples, np.eye(n))
        sums = inverse.sum(axis=0)
        P = inverse - np.outer(sums, sums / sums.sum())
        return self.targets - P @ self.targets / P.diagonal()[:, None]

    @cached_property
    def mean(self) -> Array:
        """The weighted mean of the targets."""
        return self.samples @ self.targets / self.samples.sum()

    @cached_property
    def centered(self) -> Array:
        """The targets less their mean, (targets, rows)."""
        return np.ascontiguousarray((self.targets - self.mean).T)

    @cached_property
    def equal(self) -> bool:
        """Whether all rows weigh one."""
        return bool(np.all(self.samples == 1))


@frozen
class Primal(Form):
    """By explicit features in blocks of rows: O(n R^2 + n R M), without an n x R matrix."""

    features: Features

    def fitted(self, Z: Array, view: RidgeView) -> FeatureRegression:
        return self._solved(np.ascontiguousarray(Z.T), view)

    def gram(self, Z: Array) -> Array:
        values = self.features.values(np.ascontiguousarray(Z.T)) * self.features.scales[:, None]
        return values.T @ values

    def value_and_gradient(self, Z: Array, view: RidgeView) -> tuple[float, Array]:
        Z = np.ascontiguousarray(Z.T)
        model = self._solved(Z, view)
        shift = (model.b - view.mean)[:, None]
        value = view.ridge * float(np.square(model.V / self.features.scales[:, None]).sum())
        gradient = np.empty_like(Z)
        for rows in self._blocks(Z):
            block = Z[:, rows]
            values = self.features.values(block)
            E = view.centered[:, rows] - model.V.T @ values
            E -= shift
            weighted = E if view.equal else E * view.samples[rows]
            value += float(np.vdot(E, weighted))
            gradient[:, rows] = self.features.adjoint(block, values, model.V @ weighted)
        return value, -2 * gradient.T

    def _blocks(self, Z: Array) -> Any:
        return gen_batches(Z.shape[1], block_rows(self.features.size))

    def _solved(self, Z: Array, view: RidgeView) -> FeatureRegression:
        R = self.features.size
        q = len(view.centered)
        G = np.zeros((R, R))
        H = np.zeros((R, q))
        sums = np.zeros(R)
        for rows in self._blocks(Z):
            values = self.features.values(Z[:, rows])
            weighted = values if view.equal else values * view.samples[rows]
            G += values @ weighted.T
            H += weighted @ view.centered[:, rows].T
            sums += weighted.sum(axis=1)
        total = view.samples.sum()
        scales = self.features.scales
        G -= np.outer(sums, sums / total)
        G *= scales[:, None] * scales
        V = scales[:, None] * solve_ridge(G, view.ridge, scales[:, None] * H)
        return FeatureRegression(self.features, V, view.mean - sums @ V / total)


@frozen
class DualRidge(Form):
    """By the kernel of all pairs: (K + ridge/w) alpha + 1 b = T with 1'alpha = 0."""

    kernel: LatentKernel

    def fitted(self, Z: Array, view: RidgeView) -> KernelRegression:
        return self._solved(Z, view)[0]

    def gram(self, Z: Array) -> Array:
        return np.array(self.kernel.gram(Z, Z)[0])

    def value_and_gradient(self, Z: Array, view: RidgeView) -> tuple[float, Array]:
        model, tangent = self._solved(Z, view)
        value = view.ridge * float(np.vdot(view.centered.T, model.alpha))
        G = model.alpha @ model.alpha.T
        return value, -2 * view.ridge * self.kernel.adjoint(tangent, G, Z, Z)

    def _solved(self, Z: Array, view: RidgeView) -> tuple[KernelRegression, Array | None]:
        K, tangent = self.kernel.gram(Z, Z)
        sides = np.column_stack([view.centered.T, np.ones(len(Z))])
        # a copy, since `tangent` may be the kernel matrix itself
        solved = solve_ridge(np.array(K), view.ridge / view.samples, sides)
        e = solved[:, -1]
        b = solved[:, :-1].sum(axis=0) / e.sum()
        alpha = solved[:, :-1] - np.outer(e, b)
        return KernelRegression(self.kernel, Z, alpha, view.mean + b), tangent


def polynomial_form(n: int, dimensions: int, degree: int) -> Form:
    """Return the form that is cheaper for n rows; both are exact."""
    size = n_monomials(dimensions, degree)
    if size < PRIMAL_SHARE * n or (n > MAX_KERNEL_ROWS and size <= MAX_FEATURES):
        return Primal(Monomials(dimensions, degree))
    if n > MAX_KERNEL_ROWS:
        raise ValueError(
            f"A polynomial of degree {degree} in {dimensions} latent dimensions has {size} terms, "
            f"more than the {MAX_FEATURES} that are held for more than {MAX_KERNEL_ROWS} rows. "
            "Lower degree or n_components."
        )
    return DualRidge(LatentPolynomial(degree))


def gaussian_form(
    n: int,
    dimensions: int,
    gamma: float,
    size: int,
    random: Any,
) -> Form:
    """Return the exact form for a moderate number of rows, random features for more."""
    if n <= MAX_KERNEL_ROWS:
        return DualRidge(LatentGaussian(gamma))
    return Primal(Waves.drawn(dimensions, size, gamma, random))


def solve_ridge(A: Array, ridge: Any, B: Array) -> Array:
    """Return (A + diag(ridge))^-1 B by Cholesky, with jitter if rounding requires it.

    A is overwritten.
    """
    A[np.diag_indices(len(A))] += ridge
    size = np.trace(A) / max(len(A), 1)
    for jitter in JITTERS:
        lifted = A
        if jitter:
            lifted = A + jitter * size * np.eye(len(A))
        factor, failed = lapack.dpotrf(lifted, lower=True)
        if not failed:
            return lapack.dpotrs(factor, B, lower=True)[0]
    return scipy.linalg.lstsq(A, B)[0]


def block_rows(size: int) -> int:
    """Return the number of rows whose features fit in the processor's cache."""
    return max(CACHED_NUMBERS // size, 64)
