"""Linear regressions with a Gaussian prior: coefficients and evidence in closed form."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regfactor.core.params import Array, frozen

PRIOR_WEIGHT = 1.0  # of one innovation of the size of a unit


@frozen
class RidgePosterior:
    """Solutions of min over w of |y - D S w|^2 + |w|^2, one for each leading index and outcome.

    Attributes
    ----------
    coefficients : array of shape (..., n_regressors, n_outcomes)
        S w.
    squares : array of shape (..., n_outcomes)
        The minima.
    log_determinant : array of shape (...)
        Of S D'D S + I.
    """

    coefficients: Array
    squares: Array
    log_determinant: Array

    @staticmethod
    def of(gram: Array, cross: Array, squares: Array, deviations: Array) -> RidgePosterior:
        """Solve from D'D, D'y, |y|^2 and the prior deviations S; a deviation of 0 leaves out."""
        scaled = gram * deviations[..., :, None] * deviations[..., None, :]
        diagonal = np.arange(scaled.shape[-1])
        scaled[..., diagonal, diagonal] += 1
        right = deviations[..., None] * cross
        roots = np.linalg.cholesky(scaled)
        log_determinant = 2 * np.log(roots[..., diagonal, diagonal]).sum(axis=-1)
        shape = (*np.broadcast_shapes(scaled.shape[:-2], right.shape[:-2]), *right.shape[-2:])
        solved = solved_by_roots(roots, np.broadcast_to(right, shape))
        left = squares - np.einsum("...ij,...ij->...j", right, solved)
        return RidgePosterior(
            deviations[..., None] * solved,
            np.maximum(left, 0),
            log_determinant,
        )

    @staticmethod
    def joined(parts: Sequence[RidgePosterior], axis: int) -> RidgePosterior:
        """Return the posteriors of several arrays of problems as one."""
        if len(parts) == 1:
            return parts[0]
        return RidgePosterior(
            np.concatenate([part.coefficients for part in parts], axis=axis),
            np.concatenate([part.squares for part in parts], axis=axis),
            np.concatenate([part.log_determinant for part in parts], axis=axis),
        )

    def log_evidence(self, n_rows: Array | int, log_scales: Array) -> Array:
        """Return the log density of outcomes, innovations of unknown size integrated out.

        Up to a constant it is -log|A|/2 - (N + nu)/2 log(SSE + nu) - N log(scale).
        """
        rows = n_rows + PRIOR_WEIGHT
        fit = -rows / 2 * np.log(self.squares + PRIOR_WEIGHT)
        return fit - self.log_determinant[..., None] / 2 - n_rows * log_scales

    def variances(self, n_rows: Array | int) -> Array:
        """Return the variances of innovations."""
        return (self.squares + PRIOR_WEIGHT) / (n_rows + PRIOR_WEIGHT)


def solved_by_roots(roots: Array, right: Array) -> Array:
    """Return X with L L' X = B for many lower triangular L, one row of all systems at a time.

    Parameters
    ----------
    roots : array that broadcasts to shape (..., n, n)
    right : array of shape (..., n, n_outcomes)
    """
    found = right.copy()
    n = roots.shape[-1]
    for row in range(n):
        if row:
            before = roots[..., row, :row]
            found[..., row, :] -= np.einsum("...i,...ij->...j", before, found[..., :row, :])
        found[..., row, :] /= roots[..., row, row, None]
    for row in range(n - 1, -1, -1):
        found[..., row, :] /= roots[..., row, row, None]
        if row:
            found[..., :row, :] -= roots[..., row, :row, None] * found[..., row, None, :]
    return found


def posterior_roots(gram: Array, deviations: Array) -> Array:
    """Return R with R R' = S (S D'D S + I)^-1 S, the posterior covariance.

    It is in variances of innovations.
    """
    scaled = gram * deviations[..., :, None] * deviations[..., None, :]
    diagonal = np.arange(scaled.shape[-1])
    scaled[..., diagonal, diagonal] += 1
    inverse = np.linalg.inv(np.linalg.cholesky(scaled))
    return np.asarray(deviations[..., :, None] * np.swapaxes(inverse, -1, -2))
