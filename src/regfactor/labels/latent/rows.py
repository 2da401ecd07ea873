"""Latent rows of inputs, seen in training or new: by an encoder, or by the best reconstruction under fixed weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import gen_batches

from regfactor.core.params import Array
from regfactor.kernels import Gaussian
from regfactor.labels.latent.ridge_forms import Regression

LANDMARKS = 200
REFILLS = 200
REFILL_TOL = 1e-9
NEAREST = 3
STEPS = 60
# damping at which a row is given up, and with which it begins
STUCK = 1e8
FIRST = 1e-3
BLOCK = 2_000_000  # numbers in the derivatives that are held at once
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class LinearBasis:
    """P = x - mean."""

    mean: Array

    def __call__(self, X: Array) -> Array:
        """Return P of every row."""
        return np.asarray(X - self.mean)


@dataclass(frozen=True, eq=False)
class KernelBasis:
    """P = [x - mean, psi(x) - mean psi]: linear, and bent by Gaussian features at landmarks (Nystrom)."""

    mean: Array
    kernel: Gaussian
    landmarks: Array
    back: Array
    center: Array

    def __call__(self, X: Array) -> Array:
        """Return P of every row."""
        return np.hstack(
            [X - self.mean, self.kernel.gram(X, self.landmarks) @ self.back - self.center],
        )

    @staticmethod
    def of(X: Array, samples: Array, gamma: float | str, random: Any) -> KernelBasis:
        """Return the basis of training rows; some of them, drawn at random, are landmarks."""
        mean = samples @ X / samples.sum()
        kernel = Gaussian(gamma).resolved(X)
        landmarks = X[np.sort(random.permutation(len(X))[:LANDMARKS])]
        values, vectors = scipy.linalg.eigh(kernel.gram(landmarks), check_finite=False)
        keep = (
            values > 1e-8 * values[-1]
        )  # smaller ones add noise to new rows, and can hardly be reached by descent
        back = vectors[:, keep] / np.sqrt(values[keep])
        return KernelBasis(
            mean,
            kernel,
            landmarks,
            back,
            samples @ (kernel.gram(X, landmarks) @ back) / samples.sum(),
        )


@dataclass(frozen=True, eq=False)
class Encoder:
    """z = P(x) E; holes of x are filled by what z rebuilds, until both agree."""

    basis: LinearBasis | KernelBasis
    E: Array
    inputs: Regression
    span: tuple[Array, Array]  # within which holes are filled

    def __call__(self, X: Array) -> Array:
        """Return the latent row of every row."""
        holes = np.isnan(X)
        Z = self.basis(np.where(holes, self.basis.mean, X)) @ self.E
        rows = np.flatnonzero(holes.any(axis=1))
        if len(rows):
            Z[rows] = self._refilled(X[rows], holes[rows], Z[rows])
        return Z

    def _refilled(self, X: Array, holes: Array, Z: Array) -> Array:
        """Return latent rows whose reconstructions fill the holes; each row stops by itself."""
        open_ = np.arange(len(X))
        filled = np.where(holes, self.basis.mean, X)
        for _ in range(REFILLS):
            rebuilt = np.clip(self.inputs(Z[open_]), *self.span)
            step = (
                np.where(holes[open_], rebuilt - filled[open_], 0) / 2
            )  # whole steps may swing for ever
            filled[open_] += step
            Z[open_] = self.basis(filled[open_]) @ self.E
            open_ = open_[np.abs(step).max(axis=1) > REFILL_TOL]
            if not len(open_):
                break
        return Z


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """z = argmin |x - g(z)|^2 + lambda_z |z|^2 over what is seen of x, weights held (spec A4 (a)).

    From the best of the latent rows of the nearest training rows, by damped Gauss-Newton steps,
    every row by itself. At a stationary point of the objective each training row without targets is
    found again.
    """

    inputs: Regression
    lambda_z: float
    X: Array
    Z: Array

    def __call__(self, X: Array) -> Array:
        """Return the latent row of every row."""
        out = np.empty((len(X), self.Z.shape[1]))
        for rows in gen_batches(len(X), max(BLOCK // (self.X.shape[1] * self.Z.shape[1]), 1)):
            seen = ~np.isnan(X[rows])
            filled = np.where(seen, X[rows], self.X.mean(axis=0))
            out[rows] = self._minimized(filled, seen, self._started(filled, seen))
        return out

    def costs(self, X: Array, seen: Array, Z: Array) -> tuple[Array, Array]:
        """Return what is minimized for every row, and the residuals."""
        R = np.where(seen, X - self.inputs(Z), 0)
        return np.square(R).sum(axis=1) + self.lambda_z * np.square(Z).sum(axis=1), R

    def _started(self, X: Array, seen: Array) -> Array:
        near = (
            NearestNeighbors(n_neighbors=min(NEAREST, len(self.X)))
            .fit(self.X)
            .kneighbors(X, return_distance=False)
        )
        costs = np.column_stack([self.costs(X, seen, self.Z[column])[0] for column in near.T])
        return self.Z[near[np.arange(len(X)), costs.argmin(axis=1)]]

    def _minimized(self, X: Array, seen: Array, Z: Array) -> Array:
        values, R = self.costs(X, seen, Z)
        slopes, curvatures = self._quadratic(seen, Z, R)
        damping = np.full(len(X), FIRST)
        open_ = np.arange(len(X))
        eye = np.eye(Z.shape[1])
        for _ in range(STEPS):
            H = curvatures[open_]
            slope = slopes[open_]
            sizes = np.trace(H, axis1=1, axis2=2)[:, None, None] / len(eye)
            H += (damping[open_][:, None, None] * sizes + EPS * sizes) * eye
            step = np.linalg.solve(H, slope[:, :, None])[:, :, 0]
            trial = Z[open_] - step
            new, residuals = self.costs(X[open_], seen[open_], trial)
            promise = np.abs((slope * step).sum(axis=1))
            good = new < values[open_]
            taken = open_[good]
            refused = open_[~good]
            Z[taken] = trial[good]
            values[taken] = new[good]
            damping[taken] /= 8
            damping[refused] *= 8
            flat = promise <= 4 * EPS * (values[open_] + EPS)
            left = ~flat & (damping[open_] < STUCK)
            moved = open_[good & left]
            open_ = open_[left]
            if not len(open_):
                break
            if len(moved):  # others try a shorter step in the same quadratic
                slopes[moved], curvatures[moved] = self._quadratic(
                    seen[moved],
                    Z[moved],
                    residuals[good & left],
                )
        return Z

    def _quadratic(self, seen: Array, Z: Array, R: Array) -> tuple[Array, Array]:
        """Return half the gradient and half the Gauss-Newton matrix of what is minimized, for every row."""
        J = self.inputs.derivatives(Z) * seen[:, :, None]
        slopes = self.lambda_z * Z - (R[:, None, :] @ J)[:, 0]
        return slopes, J.transpose(0, 2, 1) @ J + self.lambda_z * np.eye(Z.shape[1])
