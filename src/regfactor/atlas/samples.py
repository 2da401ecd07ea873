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
        centers = 6.0 * np.eye(GROUPS, 5) + rng.normal(size=(GROUPS, 5)) / 4
        X = centers[self.y] + 0.7 * rng.normal(size=(len(self.y), 5))
        return X - X.mean(axis=0)

    @cached_property
    def Y(self) -> Array:
        """A second view of the same rows, about its mean."""
        rng = np.random.default_rng((self.seed, 2))
        mixed = self.X @ rng.normal(size=(5, 4)) / 4
        Y = mixed + rng.normal(size=(len(self.y), 4))
        return Y - Y.mean(axis=0)

    @cached_property
    def positive(self) -> Array:
        """Positive numbers of three profiles, without a zero."""
        rng = np.random.default_rng((self.seed, 3))
        profiles = 1.0 + 20.0 * np.eye(GROUPS, 6) + 5.0 * np.eye(GROUPS, 6, 3)
        return profiles[self.y] * rng.gamma(30.0, 1 / 30.0, size=(len(self.y), 6))

    @cached_property
    def shares(self) -> Array:
        """Rows of positive numbers that sum to one."""
        return self.positive / self.positive.sum(axis=1, keepdims=True)

    @cached_property
    def signs(self) -> Array:
        """-1 and 1, by a model of rank two."""
        rng = np.random.default_rng((self.seed, 4))
        Z = rng.normal(size=(24, 2)) @ rng.normal(size=(2, 9))
        return np.where(Z + rng.normal(size=Z.shape) / 2 > 0, 1.0, -1.0)

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
        return codes @ shapes * rng.gamma(400.0, 1 / 400.0, size=(32, 6))

    @cached_property
    def sparse_parts(self) -> Array:
        """Rows in the span of two directions that use different columns, nearly."""
        rng = np.random.default_rng((self.seed, 6))
        C = np.array([[3.0, -2.0, 1.5, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0, 2.0, -2.0]])
        X = rng.normal(size=(40, 2)) @ C + 0.1 * rng.normal(size=(40, 6))
        return X - X.mean(axis=0)
