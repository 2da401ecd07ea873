"""Predictions of a kernel with known parameters: exact, or by inducing rows where targets are many.

The mean at a row s is k'dual + offset, and the variance of the function there

    scale (k(s, s) - k'Q k - 2 h'k + g),    k = kernel of s with the rows that are kept.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from regfactor.core.params import SMALLEST_NORMAL, Array, frozen
from regfactor.labels.semi_supervised.evidence_kernel import (
    SMALLEST_LEFT,
    EvidenceKernel,
    Hyperparameters,
    Mode,
    TargetRows,
)

MAX_EXACT_ROWS = 400  # with targets; of more, this many are inducing rows
INDUCING_JITTER = 1e-8  # share of the mean variance that is added to that of inducing rows


@frozen
class LeftOut:
    """Each row with a target as predicted from the others, at fixed parameters of the kernel.

    Attributes
    ----------
    means, variances : array of shape (n_targets,)
        Of the target, with its noise.
    log_densities : array of shape (n_targets,)
        Log density of the target given the others, up to a constant that kernels share.
    """

    means: Array
    variances: Array
    log_densities: Array


@frozen
class KernelPosterior:
    """A Gaussian process given targets.

    Attributes
    ----------
    at : Hyperparameters
    rows : array of shape (n_kept, D)
        Rows with targets, or inducing rows.
    dual, offset : array of shape (n_kept,), float
    quadratic, linear, constant : array of shape (n_kept, n_kept), array of shape (n_kept,), float
        Q, h and g.
    scale : float
        Variance of the function and of the noise in units of the kernel.
    left_out : LeftOut
    """

    at: Hyperparameters
    rows: Array
    dual: Array
    offset: float
    quadratic: Array
    linear: Array
    constant: float
    scale: float
    left_out: LeftOut

    def mean(self, rows: Array) -> Array:
        """Return the mean of the function at rows."""
        if self.at.share == 0:
            weights = self.at.relevances / len(self.at.relevances)
            return rows @ (weights * (self.dual @ self.rows)) + self.offset
        return self.at.kernel(rows, self.rows) @ self.dual + self.offset

    def mean_and_variance(self, rows: Array) -> tuple[Array, Array]:
        """Return the mean of the function at rows, and the variance of a target there."""
        K = self.at.kernel(rows, self.rows)
        variance = self.at.diagonal(rows) + self.constant - 2 * (K @ self.linear)
        variance -= ((K @ self.quadratic) * K).sum(axis=1)
        noisy = np.maximum(variance, 0.0) + self.at.noise
        return K @ self.dual + self.offset, self.scale * noisy


def exact_posterior(
    kernel: EvidenceKernel,
    theta: Array,
    mode: Mode | None = None,
) -> KernelPosterior:
    """Return the posterior of all rows with targets.

    With the mode that the parameters are, left-out predictions are those of parameters to which the
    left-out target did not contribute either, in first order (the infinitesimal jackknife).
    """
    data = kernel.data
    gram = kernel.gram(kernel.form.named(theta, kernel.width))
    roots = data.roots
    dual = roots * gram.dual
    fitted = gram.at.kernel(data.rows, data.rows) @ dual
    offset = float(np.average(data.targets - fitted, weights=data.weights))
    diagonal = np.maximum(gram.precision.diagonal(), SMALLEST_NORMAL)
    residuals = gram.dual / diagonal
    variances = 1 / diagonal
    held_out = left_out(data, residuals, variances, gram.quadratic, gram.noise)
    if mode is not None:
        moved = residuals + (mode.slopes.residuals * mode.steps).sum(axis=0)
        widened = np.exp((mode.slopes.log_variances * mode.steps).sum(axis=0))
        held_out = LeftOut(
            data.targets - moved / roots,
            held_out.variances * widened,
            held_out.log_densities,
        )
    return KernelPosterior(
        gram.at,
        data.rows,
        dual,
        offset,
        roots[:, None] * gram.precision * roots,
        roots * gram.toward,
        1 / gram.offset_precision,
        gram.quadratic / max(data.degrees, 1.0),
        held_out,
    )


def left_out(
    data: TargetRows,
    residuals: Array,
    variances: Array,
    quadratic: float,
    noise: float,
) -> LeftOut:
    """Return the left-out predictions of rows scaled by sqrt(w), from residuals and variances.

    Without row i, y'P y falls by the square of its residual over its variance, and M by w_i.
    """
    weights = data.weights
    degrees = data.degrees - weights
    without = quadratic - np.square(residuals) / variances
    without = np.maximum(without, SMALLEST_LEFT * quadratic)
    scales = without / np.maximum(degrees, 1.0)
    densities = -np.log(variances) - data.degrees * np.log(quadratic)
    densities += degrees * np.log(without) - (weights - 1) * np.log(noise)
    return LeftOut(
        data.targets - residuals / data.roots,
        scales * variances / weights,
        0.5 * densities,
    )


def inducing_posterior(at: Hyperparameters, data: TargetRows, inducing: Array) -> KernelPosterior:
    """Return the posterior of all rows with targets by inducing rows (Nystroem features).

    The function is phi b with phi = L^-1 k and K = L L' the kernel of the inducing rows; what phi
    does not explain of k(s, s) is added to the variance, not to the noise.
    """
    K = at.kernel(inducing, inducing)
    K.flat[:: len(K) + 1] += INDUCING_JITTER * max(K.trace() / len(K), 0.01)
    L = scipy.linalg.cholesky(K, lower=True, check_finite=False)
    features = scipy.linalg.solve_triangular(L, at.kernel(inducing, data.rows), lower=True).T
    design = np.column_stack([features, np.ones(len(features))])
    moments = (design * data.weights[:, None]).T @ design
    moments.flat[: -1 : len(moments) + 1] += at.noise
    covariance = np.linalg.inv(moments)
    coefficients = covariance @ (design.T @ (data.weights * data.targets))
    b = coefficients[:-1]
    residuals = data.targets - design @ coefficients
    quadratic = (float(data.weights @ np.square(residuals)) + at.noise * float(b @ b)) / at.noise
    unexplained = at.diagonal(data.rows) - np.square(features).sum(axis=1)
    leverage = data.weights * ((design @ covariance) * design).sum(axis=1)
    kept = np.maximum(1 - leverage, 1e-10)
    # in rows scaled by sqrt(w), as in the exact posterior
    held_out = left_out(
        data,
        data.roots * residuals / kept,
        at.noise / kept + data.weights * np.maximum(unexplained, 0.0),
        quadratic,
        at.noise,
    )
    to_dual = scipy.linalg.solve_triangular(
        L,
        np.eye(len(L)),
        lower=True,
        check_finite=False,
    )
    inner = np.eye(len(L)) - at.noise * covariance[:-1, :-1]
    return KernelPosterior(
        at,
        inducing,
        to_dual.T @ b,
        float(coefficients[-1]),
        to_dual.T @ inner @ to_dual,
        -at.noise * (to_dual.T @ covariance[:-1, -1]),
        at.noise * float(covariance[-1, -1]),
        quadratic / max(data.degrees, 1.0),
        held_out,
    )
