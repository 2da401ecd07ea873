"""Gaussian processes with a relevance for each input, and their evidence.

The kernels of two rows s and s' of D numbers, with relevances r_j = exp rho_j, are

    linear  sum_j r_j s_j s'_j / D,
    smooth  exp(-sum_j r_j (s_j - s'_j)^2 / (2 c D)),
    mixed   (1 - a) linear + a smooth.

Targets are an offset with a flat prior, plus a function with this kernel, plus noise of variance
lambda, all in units of a scale that is integrated out under its Jeffreys prior. Weights act as
repetition counts: a row of weight w has noise lambda / w.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import Bounds, minimize

from regfactor.core.params import SMALLEST_NORMAL, Array, frozen

MAX_STEPS = 40  # of L-BFGS, for one kernel
FUNCTION_TOL = 1e-5
LINEAR = "linear"
SMOOTH = "smooth"
MIXED = "mixed"
# means and deviations of the priors of log lambda, logit a and log c
NOISE_PRIOR = (np.log(0.3), 2.0)
SHARE_PRIOR = (0.0, 1.5)
WIDTH_PRIOR = (np.log(3.0), 1.0)
# The prior of log lambda is Student's, whose tails allow targets without noise, or without signal.
NOISE_DEGREES = 3.0
MAX_DISTANCE = 12.0  # of a parameter from its prior mean: logarithms, so that nothing overflows
NOISE_BOUNDS = (np.log(1e-6), np.log(1e4))
SMALLEST_QUADRATIC = 1e-30  # y'P y of constant targets
MAX_LEFT_OUT_STEP = 1.0  # of parameters without a target, in deviations of their priors
SMALLEST_LEFT = 1e-10  # share of y'P y that is left without a target
JITTER = 1e-10  # share of the mean variance of a row that is always noise, against rounding


@frozen
class TargetRows:
    """Rows s_i of D numbers, their targets y_i of about unit variance, and their weights w_i."""

    rows: Array
    targets: Array
    weights: Array

    @cached_property
    def roots(self) -> Array:
        """sqrt(w)."""
        return np.sqrt(self.weights)

    @cached_property
    def scaled_targets(self) -> Array:
        """sqrt(w) y."""
        return self.roots * self.targets

    @cached_property
    def squares(self) -> Array:
        """The squares of the rows."""
        return np.square(self.rows)

    @cached_property
    def is_weighted(self) -> bool:
        """Whether some weight is not one."""
        return bool((self.weights != 1).any())

    @cached_property
    def extra(self) -> float:
        """sum_i (w_i - 1): the number of rows that the weights add."""
        return float(self.weights.sum()) - len(self.rows)

    @cached_property
    def degrees(self) -> float:
        """sum_i w_i - 1: the degrees of freedom M of the targets around their offset."""
        return max(float(self.weights.sum()) - 1.0, 0.0)


@dataclass(frozen=True)
class KernelForm:
    """The shape of a kernel, and tau, the prior deviation of the rho_j.

    The parameters are (rho_1, ..., rho_D, log lambda), then logit a of a mixed kernel, then log c
    of a mixed or smooth one. With a small tau all inputs count alike, and what rows without targets
    made of them decides; with a large one the targets choose among them.
    """

    shape: str
    relevance_deviation: float

    @property
    def is_smooth(self) -> bool:
        """Whether the kernel has a smooth part, and so a width c."""
        return self.shape != LINEAR

    @property
    def is_mixed(self) -> bool:
        """Whether the kernel has both parts, and so a share a."""
        return self.shape == MIXED

    def prior(self, width: int) -> Array:
        """Return the prior means of the parameters, and below their deviations."""
        others = [NOISE_PRIOR]
        if self.is_mixed:
            others.append(SHARE_PRIOR)
        if self.is_smooth:
            others.append(WIDTH_PRIOR)
        relevances = np.tile([[0.0], [self.relevance_deviation]], width)
        return np.hstack([relevances, np.transpose(others)])

    def named(self, theta: Array, width: int) -> Hyperparameters:
        """Return the parameters by name."""
        share = 0.0
        length = 1.0
        if self.is_smooth:
            share = 1.0
            length = float(np.exp(theta[-1]))
        if self.is_mixed:
            share = float(1 / (1 + np.exp(-theta[width + 1])))
        return Hyperparameters(
            np.exp(theta[:width]),
            float(np.exp(theta[width])),
            share,
            length,
        )


@frozen
class Hyperparameters:
    """Relevances r, noise lambda, share a of the smooth part, width c of it."""

    relevances: Array
    noise: float
    share: float
    length: float

    @property
    def metric(self) -> Array:
        """r_j / (c D): the exponents of the smooth part are distances under it."""
        return self.relevances / (self.length * len(self.relevances))

    def kernel(self, A: Array, B: Array) -> Array:
        """Return the kernel of the rows of A with those of B."""
        metric = self.metric
        scaled = A * metric
        inner = scaled @ B.T
        if self.share == 0:
            inner *= self.length
            return inner
        smooth = smooth_part(inner, (scaled * A).sum(axis=1), np.square(B) @ metric)
        if self.share < 1:
            smooth *= self.share
            inner *= (1 - self.share) * self.length
            smooth += inner
        return smooth

    def diagonal(self, A: Array) -> Array:
        """Return the kernel of each row with itself."""
        linear = np.square(A) @ (self.relevances / len(self.relevances))
        return self.share + (1 - self.share) * linear


def smooth_part(inner: Array, left: Array, right: Array) -> Array:
    """exp(inner - left / 2 - right / 2), for squared lengths left of rows and right of columns."""
    out = inner - 0.5 * left[:, None]
    out -= 0.5 * right
    return np.exp(out, out=out)


@frozen
class Gram:
    """The covariance C = K + lambda W^-1 of targets, in rows and columns scaled by sqrt(w).

    Attributes
    ----------
    at : Hyperparameters
    noise : float
        lambda, and what is added against rounding.
    inner, smooth : array
        Inner products under the metric, and the smooth part of the kernel.
    toward : array
        C^-1 v / v'C^-1 v for v = sqrt(w).
    offset_precision : float
        v'C^-1 v.
    precision : array
        P = C^-1 - C^-1 v v'C^-1 / v'C^-1 v: C reflected so that v is the first axis, without its
        first row and column, inverted and reflected back.
    dual : array
        P y.
    quadratic : float
        y'P y.
    log_determinant : float
        That of the reflected C.
    """

    at: Hyperparameters
    noise: float
    inner: Array
    smooth: Array
    toward: Array
    offset_precision: float
    precision: Array
    dual: Array
    quadratic: float
    log_determinant: float


@frozen
class Curvature:
    """Derivatives of the covariance of targets by the parameters, times P.

    Attributes
    ----------
    data : TargetRows
    gram : Gram
    moved : array of shape (n_parameters, n_targets, n_targets)
        C_j P with C_j = dC / dtheta_j.
    """

    data: TargetRows
    gram: Gram
    moved: Array

    @property
    def _noise_place(self) -> int:
        """The position of log lambda among the parameters."""
        return int(self.data.rows.shape[1])

    @property
    def _noise_share(self) -> float:
        """The share of lambda in what is on the diagonal of C."""
        return self.gram.at.noise / self.gram.noise

    def information(self) -> Array:
        """F_jk = 1/2 [tr(P C_j P C_k) - tr(P C_j) tr(P C_k) / M]."""
        moved = self.moved
        extra = self.data.extra
        place = self._noise_place
        flat = moved.reshape(len(moved), -1)
        transposed = moved.transpose(0, 2, 1).reshape(len(moved), -1)
        information = flat @ transposed.T
        traces = moved.trace(axis1=1, axis2=2)
        information[place, place] += extra * self._noise_share**2
        traces[place] += extra * self._noise_share
        information -= traces[:, None] * (traces / max(self.data.degrees, SMALLEST_NORMAL))
        return 0.5 * information

    def left_out_slopes(self) -> LeftOutSlopes:
        """Return how the predictions of left-out targets depend on the parameters."""
        gram = self.gram
        diagonal = np.maximum(gram.precision.diagonal(), SMALLEST_NORMAL)
        pulled = self.moved @ self.data.scaled_targets
        dual_slopes = -(pulled @ gram.precision)
        diagonal_slopes = -(self.moved * gram.precision).sum(axis=1)
        quadratic_slopes = -(pulled @ gram.dual)[:, None]
        residuals = gram.dual / diagonal
        relative = diagonal_slopes / diagonal
        slopes = dual_slopes / diagonal - residuals * relative
        fall = gram.dual * residuals
        without = np.maximum(gram.quadratic - fall, SMALLEST_LEFT * gram.quadratic)
        without_slopes = quadratic_slopes - 2 * residuals * dual_slopes + fall * relative
        degrees = self.data.degrees
        densities = 0.5 * relative - (0.5 * degrees / gram.quadratic) * quadratic_slopes
        densities += 0.5 * (degrees - self.data.weights) / without * without_slopes
        densities[self._noise_place] -= 0.5 * (self.data.weights - 1) * self._noise_share
        return LeftOutSlopes(slopes, -relative, densities)


@frozen
class LeftOutSlopes:
    """Derivatives by each parameter, a row each, of what is predicted of left-out targets.

    Attributes
    ----------
    residuals, log_variances, log_densities : array of shape (n_parameters, n_targets)
        Of the residuals and variances of rows scaled by sqrt(w), and of the log densities.
    """

    residuals: Array
    log_variances: Array
    log_densities: Array


@frozen
class Mode:
    """The parameters of greatest posterior density, and Laplace's evidence around them.

    `precision` is F + S^-2: the inverse covariance of the parameters around the mode. `steps` are
    displacements of the mode when each target is left out, a column each.
    """

    theta: Array
    log_evidence: float
    precision: Array
    slopes: LeftOutSlopes
    steps: Array


@frozen
class EvidenceKernel:
    """min over theta of 1/2 log|C~| + M/2 log y'P y - log prior(theta), for a form of kernel."""

    form: KernelForm
    data: TargetRows

    @property
    def width(self) -> int:
        """D."""
        return int(self.data.rows.shape[1])

    @cached_property
    def prior(self) -> Array:
        """Prior means of the parameters, and below their deviations."""
        return self.form.prior(self.width)

    @cached_property
    def bounds(self) -> Bounds:
        """The interval of each parameter outside of which nothing is searched."""
        means = self.prior[0]
        low = means - MAX_DISTANCE
        high = means + MAX_DISTANCE
        low[self.width], high[self.width] = NOISE_BOUNDS
        return Bounds(low, high)

    def within_bounds(self, theta: Array) -> Array:
        """Return the nearest parameters within the bounds."""
        return np.clip(theta, self.bounds.lb, self.bounds.ub)

    def gram(self, at: Hyperparameters) -> Gram:
        """Return the covariance of the targets and its inverse without the offset."""
        data = self.data
        roots = data.roots
        scaled = data.rows * np.sqrt(at.metric)
        inner = scaled @ scaled.T
        smooth = inner
        C = inner * (at.length * (1 - at.share))
        if at.share > 0:
            squares = inner.diagonal()
            smooth = smooth_part(inner, squares, squares)
            C += at.share * smooth
        if data.is_weighted:
            C *= roots
            C *= roots[:, None]
        noise = at.noise + JITTER * float(C.trace()) / (data.degrees + 1)
        C.flat[:: len(C) + 1] += noise
        inverse, log_determinant = inverse_and_log_determinant(C)
        toward = inverse @ roots
        offset_precision = float(roots @ toward)
        precision = inverse - toward[:, None] * (toward / offset_precision)
        dual = precision @ data.scaled_targets
        quadratic = max(float(dual @ data.scaled_targets), SMALLEST_QUADRATIC)
        log_determinant += np.log(offset_precision / (data.degrees + 1))
        log_determinant += data.extra * np.log(noise)
        return Gram(
            at,
            noise,
            inner,
            smooth,
            toward / offset_precision,
            offset_precision,
            precision,
            dual,
            quadratic,
            log_determinant,
        )

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Return the objective, without constants, and its gradient."""
        data = self.data
        width = self.width
        at = self.form.named(theta, width)
        gram = self.gram(at)
        value = 0.5 * (gram.log_determinant + data.degrees * np.log(gram.quadratic))
        means, deviations = self.prior
        z = (theta - means) / deviations
        gradient = self._prior_curvature(z) * z / deviations
        z_noise = float(z[width])
        value += 0.5 * (float(z @ z) - z_noise**2)
        value += 0.5 * (NOISE_DEGREES + 1) * np.log1p(z_noise**2 / NOISE_DEGREES)
        # with G = P - (M / y'Py) Py y'P the objective moves by tr(G dC) / 2
        G = gram.precision - gram.dual[:, None] * (gram.dual * (data.degrees / gram.quadratic))
        gradient[width] += 0.5 * at.noise * (float(G.trace()) + data.extra / gram.noise)
        if data.is_weighted:
            G *= data.roots
            G *= data.roots[:, None]
        self._add_kernel_gradient(gradient, gram, G)
        return value, gradient

    def _prior_curvature(self, z: Array) -> Array:
        """Return the weights with which a Gaussian prior has the gradient of ours at z."""
        curvature = np.ones(len(z))
        z_noise = float(z[self.width])
        curvature[self.width] = (NOISE_DEGREES + 1) / (NOISE_DEGREES + z_noise**2)
        return curvature

    def _add_kernel_gradient(self, gradient: Array, gram: Gram, G: Array) -> None:
        """Add tr(G dK) / 2 for the parameters rho, logit a and log c."""
        at = gram.at
        rows = self.data.rows
        width = self.width
        metric = at.metric
        if at.share < 1:
            forms = (rows * (G @ rows)).sum(axis=0)
            gradient[:width] += (0.5 * at.length * (1 - at.share)) * metric * forms
        if at.share > 0:
            B = G * gram.smooth
            # sum_ik B_ik (s_ij - s_kj)^2 / 2
            spreads = B.sum(axis=1) @ self.data.squares - (rows * (B @ rows)).sum(axis=0)
            spreads *= -0.5 * at.share * metric
            gradient[:width] += spreads
            gradient[-1] -= spreads.sum()
        if self.form.is_mixed:
            difference = float(B.sum()) - at.length * float((G * gram.inner).sum())
            gradient[width + 1] += 0.5 * at.share * (1 - at.share) * difference

    def curvature(self, theta: Array) -> Curvature:
        """Return derivatives at some parameters, from which evidence and left-out rows follow."""
        gram = self.gram(self.form.named(theta, self.width))
        return Curvature(self.data, gram, self._derivatives(gram, len(theta)) @ gram.precision)

    def _derivatives(self, gram: Gram, count: int) -> Array:
        """Return dC / dtheta_j, a matrix for each parameter."""
        at = gram.at
        data = self.data
        n, width = data.rows.shape
        columns = data.rows.T
        metric = at.metric[:, None, None]
        out = np.zeros((count, n, n))
        products = columns[:, :, None] * columns[:, None, :]
        if at.share < 1:
            np.multiply(products, at.length * (1 - at.share) * metric, out=out[:width])
        if at.share > 0:
            halves = 0.5 * data.squares.T
            products -= halves[:, :, None]
            products -= halves[:, None, :]
            products *= (at.share * gram.smooth) * metric
            out[:width] += products
            out[-1] = -products.sum(axis=0)
        if self.form.is_mixed:
            difference = gram.smooth - at.length * gram.inner
            out[width + 1] = at.share * (1 - at.share) * difference
        if data.is_weighted:
            out *= data.roots[:, None] * data.roots
        out[width].flat[:: n + 1] = at.noise
        return out

    def mode(self) -> Mode:
        """Return the minimum from the prior means, and -minimum - 1/2 log det(I + S F S)."""
        means, deviations = self.prior
        found = minimize(
            self.value_and_gradient,
            means,
            jac=True,
            method="L-BFGS-B",
            bounds=self.bounds,
            options={"maxiter": MAX_STEPS, "ftol": FUNCTION_TOL},
        )
        curvature = self.curvature(found.x)
        precision = curvature.information()
        prior_curvature = self._prior_curvature((found.x - means) / deviations)
        precision.flat[:: len(precision) + 1] += prior_curvature / np.square(deviations)
        log_determinant = np.linalg.slogdet(precision)[1] + 2 * np.log(deviations).sum()
        slopes = curvature.left_out_slopes()
        return Mode(
            found.x,
            -float(found.fun) - 0.5 * float(log_determinant),
            precision,
            slopes,
            self._steps_without_targets(precision, slopes),
        )

    def _steps_without_targets(self, precision: Array, slopes: LeftOutSlopes) -> Array:
        """Return a Newton step of the mode for each target that is left out.

        Without target i the objective is greater by its log density: the step is that of Newton's
        method, shortened to the deviations of the prior, beyond which it means nothing.
        """
        steps = -np.linalg.solve(precision, slopes.log_densities)
        lengths = np.abs(steps / self.prior[1][:, None]).max(axis=0)
        return steps / np.maximum(lengths / MAX_LEFT_OUT_STEP, 1.0)


def inverse_and_log_determinant(C: Array) -> tuple[Array, float]:
    """Return the inverse of a positive definite matrix, and its log determinant."""
    # LAPACK directly: the checks of scipy cost more than these small factorizations
    factor, failed = lapack.dpotrf(C, lower=0, clean=1)
    if failed:
        raise np.linalg.LinAlgError("The covariance of the targets is not positive definite.")
    log_determinant = 2 * float(np.log(factor.diagonal()).sum())
    inverse, _ = lapack.dpotri(factor, lower=0, overwrite_c=1)
    inverse += inverse.T
    inverse.flat[:: len(C) + 1] *= 0.5
    return inverse, log_determinant
