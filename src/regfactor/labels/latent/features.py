"""Functions of latent rows and their derivatives: explicit features, and kernels between rows.

Features hold rows as columns, (size, rows), so that each one is contiguous in memory.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from functools import cached_property
from math import comb, factorial
from typing import Any

import numpy as np

from regfactor.core.params import Array, frozen


class Features(abc.ABC):
    """phi(z) = scales * values(z), up to a constant that a free offset takes."""

    @property
    @abc.abstractmethod
    def scales(self) -> Array:
        """The factor of each value; kept apart, since it can be moved to the coefficients."""

    @abc.abstractmethod
    def values(self, Z: Array) -> Array:
        """Return the values (size, rows) at latent rows Z (dimensions, rows)."""

    @abc.abstractmethod
    def adjoint(self, Z: Array, values: Array, T: Array) -> Array:
        """sum_r T_r d values_r / dz for every row, as Z is held; T is scratch and is written."""

    @property
    def size(self) -> int:
        """Number of features."""
        return len(self.scales)


def n_monomials(dimensions: int, degree: int) -> int:
    """Return the number of monomials of degree 1 to `degree`."""
    return comb(dimensions + degree, degree) - 1


@dataclass(frozen=True)
class Product:
    """A block of monomials: the products of a variable with a block of earlier ones."""

    variable: int
    factors: slice
    block: slice


@frozen
class Monomials(Features):
    """phi(z).phi(y) = (z'y + 1)^degree - 1.

    Monomials with exponents e are weighted by sqrt(d! / (prod e_i! (d - |e|)!)).
    """

    dimensions: int
    degree: int

    @cached_property
    def _products(self) -> list[Product]:
        """Monomials of degree 2, 3, ... as products of a variable with those of one degree less.

        Within a degree monomials are sorted by their first variable, so that the factors, those in
        variables i, i + 1, ..., are the end of their degree.
        """
        products = []
        firsts = np.arange(self.dimensions)
        start = 0
        for _ in range(self.degree - 1):
            end = start + len(firsts)
            place = end
            heads = []
            for i in range(self.dimensions):
                factors = slice(start + int(np.searchsorted(firsts, i)), end)
                count = end - factors.start
                products.append(Product(i, factors, slice(place, place + count)))
                heads.append(np.full(count, i))
                place += count
            start = end
            firsts = np.concatenate(heads)
        return products

    @cached_property
    def scales(self) -> Array:
        exponents = np.zeros((n_monomials(self.dimensions, self.degree), self.dimensions), int)
        exponents[: self.dimensions] = np.eye(self.dimensions, dtype=int)
        for product in self._products:
            exponents[product.block] = exponents[product.factors]
            exponents[product.block, product.variable] += 1
        factorials = np.array([factorial(k) for k in range(self.degree + 1)], float)
        left = self.degree - exponents.sum(axis=1)
        divisors = factorials[exponents].prod(axis=1) * factorials[left]
        return np.sqrt(factorials[self.degree] / divisors)

    def values(self, Z: Array) -> Array:
        out = np.empty((self.size, Z.shape[1]))
        out[: self.dimensions] = Z
        for product in self._products:
            np.multiply(Z[product.variable], out[product.factors], out=out[product.block])
        return out

    def adjoint(self, Z: Array, values: Array, T: Array) -> Array:
        out = np.zeros_like(Z)
        for product in reversed(self._products):
            i = product.variable
            weights = T[product.block]
            out[i] += np.einsum("rc,rc->c", weights, values[product.factors])
            T[product.factors] += Z[i] * weights
        out += T[: self.dimensions]
        return out


@frozen
class Waves(Features):
    """phi(z).phi(y) ~ exp(-gamma |z - y|^2): random Fourier features (Rahimi & Recht 2007)."""

    frequencies: Array  # (size, dimensions)
    phases: Array

    @staticmethod
    def drawn(dimensions: int, size: int, gamma: float, random: Any) -> Waves:
        """Return cosines with frequencies drawn from the kernel's spectrum."""
        frequencies = np.sqrt(2 * gamma) * random.normal(size=(size, dimensions))
        return Waves(frequencies, random.uniform(0, 2 * np.pi, size))

    @cached_property
    def scales(self) -> Array:
        return np.full(len(self.phases), np.sqrt(2 / len(self.phases)))

    def values(self, Z: Array) -> Array:
        return np.cos(self.frequencies @ Z + self.phases[:, None])

    def adjoint(self, Z: Array, values: Array, T: Array) -> Array:
        T *= np.sin(self.frequencies @ Z + self.phases[:, None])
        return -self.frequencies.T @ T


class LatentKernel(abc.ABC):
    """k(z, y) with its derivative in z."""

    @abc.abstractmethod
    def gram(self, Z: Array, Y: Array) -> tuple[Array, Array | None]:
        """Return k of all pairs of rows, and what `adjoint` needs of it."""

    @abc.abstractmethod
    def adjoint(
        self,
        tangent: Array | None,
        T: Array,
        Z: Array,
        Y: Array,
    ) -> Array:
        """sum_j T_ij d k(z_i, y_j) / dz_i for every row i."""

    @abc.abstractmethod
    def derivatives(
        self,
        tangent: Array | None,
        A: Array,
        Z: Array,
        Y: Array,
    ) -> Array:
        """sum_j A_jq d k(z_i, y_j) / dz_i, of shape (rows i, columns q, dimensions)."""


@dataclass(frozen=True)
class LatentPolynomial(LatentKernel):
    """(z'y + 1)^degree."""

    degree: int

    def gram(self, Z: Array, Y: Array) -> tuple[Array, Array | None]:
        S = Z @ Y.T
        S += 1
        if self.degree == 1:
            return S, None
        power = S
        if self.degree > 2:
            power = S ** (self.degree - 1)
        return power * S, self.degree * power

    def adjoint(
        self,
        tangent: Array | None,
        T: Array,
        Z: Array,
        Y: Array,
    ) -> Array:
        if tangent is not None:
            T = T * tangent
        return T @ Y

    def derivatives(
        self,
        tangent: Array | None,
        A: Array,
        Z: Array,
        Y: Array,
    ) -> Array:
        if tangent is None:
            return np.broadcast_to(A.T @ Y, (len(Z), A.shape[1], Z.shape[1]))
        return _moments(tangent, A, Y)


@dataclass(frozen=True)
class LatentGaussian(LatentKernel):
    """exp(-gamma |z - y|^2)."""

    gamma: float

    def gram(self, Z: Array, Y: Array) -> tuple[Array, Array | None]:
        K = _squared_distances(Z, Y)
        K *= -self.gamma
        np.exp(K, out=K)
        return K, K

    def adjoint(
        self,
        tangent: Array | None,
        T: Array,
        Z: Array,
        Y: Array,
    ) -> Array:
        H = T * tangent
        return -2 * self.gamma * (H.sum(axis=1, keepdims=True) * Z - H @ Y)

    def derivatives(
        self,
        tangent: Array | None,
        A: Array,
        Z: Array,
        Y: Array,
    ) -> Array:
        assert tangent is not None
        own = (tangent @ A)[:, :, None] * Z[:, None, :]
        return -2 * self.gamma * (own - _moments(tangent, A, Y))


def _squared_distances(Z: Array, Y: Array) -> Array:
    """|z - y|^2 of all pairs of rows; for small tables scikit-learn's checks would take longer."""
    out = -2 * (Z @ Y.T)
    out += np.einsum("ij,ij->i", Z, Z)[:, None]
    out += np.einsum("ij,ij->i", Y, Y)
    np.maximum(out, 0, out=out)
    if Z is Y:
        np.fill_diagonal(out, 0)
    return out


def _moments(W: Array, A: Array, Y: Array) -> Array:
    """sum_j W_ij A_jq y_j for every row i and column q, by one product of matrices."""
    products = (A[:, :, None] * Y[:, None, :]).reshape(len(Y), -1)
    return (W @ products).reshape(len(W), A.shape[1], Y.shape[1])
