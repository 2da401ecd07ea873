"""Kernel ridge regression of leave-one-out residuals, one for each variable."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack
from scipy.spatial.distance import cdist

from regfactor.core.params import Array, frozen

RIDGES = (0.3, 3.0, 30.0)
MAX_DONORS = 500  # rows that a kernel compares with


@frozen
class KernelCorrection:
    """y - p = sum_i alpha_i exp(-|a - a_i|^2 / width): what a linear prediction p leaves.

    Attributes
    ----------
    donors : array of shape (n_donors, n_inputs)
    coefficients : array of shape (n_donors, n_outputs)
    width : float
    """

    donors: Array
    coefficients: Array
    width: float

    def predict(self, inputs: Array) -> Array:
        """Return the corrections of rows."""
        distances = cdist(inputs, self.donors, "sqeuclidean")
        return np.asarray(np.exp(-distances / self.width) @ self.coefficients)


@frozen
class FittedCorrection:
    """A correction, the ridge, and the corrections of the donors without themselves."""

    correction: KernelCorrection
    ridge: float
    left_out: Array


def fit_kernel(
    inputs: Array,
    residuals: Array,
    weights: Array,
    ridges: tuple[float, ...] = RIDGES,
) -> FittedCorrection:
    """Return the correction with the ridge of the smallest leave-one-out error.

    (K + ridge W^-1) alpha = residuals; left out, a residual is missed by alpha_i divided by the
    i-th diagonal entry of the inverse.
    """
    distances = cdist(inputs, inputs, "sqeuclidean")
    width = float(np.median(distances)) or 1.0
    kernel = np.exp(-distances / width)
    best: FittedCorrection | None = None
    least = np.inf
    for ridge in ridges:
        inverse = _inverse(kernel + np.diag(ridge / weights))
        coefficients = inverse @ residuals
        missed = coefficients / np.diag(inverse)[:, None]
        error = float(weights @ np.square(missed).sum(axis=1))
        if error < least:
            least = error
            correction = KernelCorrection(inputs, coefficients, width)
            best = FittedCorrection(correction, ridge, residuals - missed)
    assert best is not None
    return best


def _inverse(matrix: Array) -> Array:
    """Return the inverse of a positive definite matrix."""
    factor, failed = lapack.dpotrf(matrix, lower=1)
    if failed:
        raise np.linalg.LinAlgError("a kernel matrix is not positive definite.")
    inverse, _ = lapack.dpotri(factor, lower=1)
    lower = np.tril(inverse)
    return np.asarray(lower + np.tril(inverse, -1).T)
