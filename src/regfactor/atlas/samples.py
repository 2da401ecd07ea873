"""Small random tables on which the rows of the atlas are compared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regfactor.core.params import Array

GROUPS = 3
ROWS_PER_GROUP = 14


@dataclass(frozen=True)
class Sample:
    """Tables of three well separated groups of rows, in which local search finds the optimum."""

    seed: int = 0

    @cached_property
    def y(self) -> Array:
        """The group of each row."""
        return np.repeat(np.arange(GROUPS), ROWS_PER_GROUP)

    @cached_property
    def X(self) -> Array:
        """Real numbers, about their mean."""
        rng = np.random.default_rng((self.seed, 1))
        centers = 6.0 * np.eye(GROUPS, 5)
        centers += rng.normal(size=(GROUPS, 5)) / 4
        X = centers[self.y]
        X += 0.7 * rng.normal(size=X.shape)
        return X - X.mean(axis=0)

    @cached_property
    def Y(self) -> Array:
        """A second view of the same rows, about its mean."""
        rng = np.random.default_rng((self.seed, 2))
        Y = self.X @ rng.normal(size=(5, 4)) / 4
        Y += rng.normal(size=Y.shape)
        return Y - Y.mean(axis=0)

    @cached_property
    def positive(self) -> Array:
        """Positive numbers of three profiles, without a zero."""
        rng = np.random.default_rng((self.seed, 3))
        profiles = np.ones((GROUPS, 6))
        profiles += 20.0 * np.eye(GROUPS, 6)
        profiles += 5.0 * np.eye(GROUPS, 6, 3)
        X = profiles[self.y]
        return X * rng.gamma(30.0, 1 / 30.0, size=X.shape)

    @cached_property
    def shares(self) -> Array:
        """Rows of positive numbers that sum to one."""
        return self.positive / self.positive.sum(axis=1, keepdims=True)

    @cached_property
    def signs(self) -> Array:
        """-1 and 1, by a model of rank two."""
        rng = np.random.default_rng((self.seed, 4))
        Z = _of_rank_two(rng, 24, 9)
        noise = rng.normal(size=Z.shape) / 2
        return np.where(Z + noise > 0, 1.0, -1.0)

    @cached_property
    def bits(self) -> Array:
        """The same as 0 and 1."""
        return (self.signs + 1) / 2

    @cached_property
    def parts(self) -> Array:
        """Rows that are nearly sums of two non-negative parts."""
        rng = np.random.default_rng((self.seed, 5))
        shapes = np.array([[4.0, 3.0, 2.0, 0.0, 0.0, 0.1], [0.0, 0.1, 0.0, 3.0, 5.0, 2.0]])
        codes = np.vstack([np.eye(2), rng.random((30, 2))])
        X = codes @ shapes
        return X * rng.gamma(400.0, 1 / 400.0, size=X.shape)

    @cached_property
    def sparse_parts(self) -> Array:
        """Rows in the span of two directions that use different columns, nearly."""
        rng = np.random.default_rng((self.seed, 6))
        C = np.array([[3.0, -2.0, 1.5, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0, 2.0, -2.0]])
        X = rng.normal(size=(40, 2)) @ C
        X += 0.1 * rng.normal(size=X.shape)
        return X - X.mean(axis=0)

    @cached_property
    def labels(self) -> Array:
        """The group of each row as an indicator."""
        return np.eye(GROUPS)[self.y]

    @cached_property
    def known_groups(self) -> Array:
        """The indicators of two rows of each group; NaN for the others."""
        known = np.full((len(self.y), GROUPS), np.nan)
        for group in range(GROUPS):
            rows = np.flatnonzero(self.y == group)[:2]
            known[rows] = self.labels[rows]
        return known

    @cached_property
    def incomplete(self) -> Array:
        """Real numbers of rank two with noise, a fifth of them missing."""
        rng = np.random.default_rng((self.seed, 7))
        Z = _of_rank_two(rng, 24, 9)
        Z += rng.normal(size=Z.shape) / 4
        return np.where(rng.random(Z.shape) < 0.2, np.nan, Z)

    @cached_property
    def corrupted(self) -> Array:
        """The product of two factors, a twentieth of its entries grossly wrong."""
        rng = np.random.default_rng((self.seed, 8))
        Z = _of_rank_two(rng, 30, 20)
        wrong = rng.random(Z.shape) < 0.05
        errors = rng.choice([-8.0, 8.0], Z.shape)
        return np.where(wrong, Z + errors, Z)

    @cached_property
    def labeled(self) -> Array:
        """Columns of numbers, then of indicators of groups, known for two rows of each group."""
        return np.hstack([self.X, self.known_groups])

    @cached_property
    def factors(self) -> Array:
        """Rows of two normal factors, with a noise of each of fifteen columns."""
        rng = np.random.default_rng((self.seed, 9))
        noise = rng.uniform(0.8, 1.5, 15)
        signal = _of_rank_two(rng, 300, 15)
        X = signal + noise * rng.normal(size=signal.shape)
        return X - X.mean(axis=0)

    @cached_property
    def array(self) -> Array:
        """An array of three modes, of rank two in each, with noise."""
        rng = np.random.default_rng((self.seed, 10))
        sides = (rng.normal(size=(size, 2)) for size in (8, 6, 5))
        X = np.einsum("ir,jr,kr->ijk", *sides)
        return X + rng.normal(size=X.shape) / 4


def _of_rank_two(rng: np.random.Generator, n: int, d: int) -> Array:
    """Return the product of two factors of normal numbers."""
    codes = rng.normal(size=(n, 2))
    return codes @ rng.normal(size=(2, d))
