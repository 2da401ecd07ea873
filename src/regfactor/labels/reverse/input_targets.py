"""Targets from which inputs are best reconstructed, where that is not linear in the inputs."""

from __future__ import annotations

import numpy as np

from regfactor.core.params import Array, frozen
from regfactor.labels.reverse.problem import Reverse
from regfactor.labels.reverse.reconstruction import ColumnTask
from regfactor.losses.potentials import Potential


@frozen
class TargetsOfInputs:
    """z(x) = argmin_z D_F*(z U || f(x)), within a range of the given targets.

    A row of zeros under "kl" is reconstructed best by an infinite z, hence the range: one more on
    either side of the given targets.

    Attributes
    ----------
    components : array of shape (n_targets, n_features), or with one row more, the offset
    """

    components: Array
    potential: Potential
    intercept: bool
    mean: Array
    low: Array
    high: Array

    @staticmethod
    def of(problem: Reverse, components: Array) -> TargetsOfInputs:
        """Return the targets for fitted components."""
        given = problem.Y[problem.labeled]
        smallest = np.nanmin(given, axis=0)
        largest = np.nanmax(given, axis=0)
        return TargetsOfInputs(
            components,
            problem.potential,
            problem.intercept,
            np.nanmean(given, axis=0),
            2 * smallest - largest,
            2 * largest - smallest,
        )

    def __call__(self, X: Array) -> Array:
        """Return z(x) of every row."""
        unknown = np.full((len(X), len(self.mean)), np.nan)
        problem = Reverse(
            X,
            unknown,
            np.ones(len(X)),
            self.potential,
            self.intercept,
        )
        task = ColumnTask.of_targets(
            problem,
            self.components,
            np.ones(len(X), bool),
            None,
        )
        start = np.repeat(self.mean[:, None], len(X), axis=1)
        found = task.minimized(task.best_start(start, self.mean))
        return np.clip(found.T, self.low, self.high)
