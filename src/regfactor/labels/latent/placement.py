"""Latent rows of inputs: by an encoder, or by the best reconstruction under fixed weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import gen_batches

from regfactor.core.params import EPS, Array, frozen
from regfactor.kernels import Gaussian
from regfactor.labels.latent.ridge import Regression

MAX_LANDMARKS = 200
# Smaller eigenvalues add noise to new rows, and can hardly be reached by descent.
SMALLEST_EIGENVALUE = 1e-8
MAX_COMPLETIONS = 200
COMPLETION_TOL = 1e-9
N_NEIGHBORS = 3
MAX_NEWTON_STEPS = 60
FIRST_DAMPING = 1e-3
MAX_DAMPING = 1e8  # from which on a row is left where it is
BLOCK_NUMBERS = 2_000_000  # in the derivatives that are held at once


@frozen
class LinearBasis:
    """P = x - mean."""

    mean: Array

    def __call__(self, X: Array) -> Array:
        """Return P of every row."""
        return X - self.mean


@frozen
class KernelBasis:
    """P = [x - mean, psi(x) - mean psi], with Gaussian features psi at landmarks (Nystrom)."""

    mean: Array
    kernel: Gaussian
    landmarks: Array
    whitening: Array
    center: Array

    def __call__(self, X: Array) -> Array:
        """Return P of every row."""
        features = self.kernel.gram(X, self.landmarks) @ self.whitening
        return np.hstack([X - self.mean, features - self.center])

    @staticmethod
    def of(X: Array, samples: Array, random: Any) -> KernelBasis:
        """Return the basis of training rows; some of them, drawn at random, are landmarks."""
        kernel = Gaussian("median").resolved(X)
        landmarks = X[np.sort(random.permutation(len(X))[:MAX_LANDMARKS])]
        values, vectors = scipy.linalg.eigh(kernel.gram(landmarks), check_finite=False)
        kept = values > SMALLEST_EIGENVALUE * values[-1]
        whitening = vectors[:, kept] / np.sqrt(values[kept])
        shares = samples / samples.sum()
        center = shares @ (kernel.gram(X, landmarks) @ whitening)
        return KernelBasis(shares @ X, kernel, landmarks, whitening, center)


@frozen
class Encoder:
    """z = P(x) E; missing entries of x are completed by what z reconstructs, until both agree."""

    basis: LinearBasis | KernelBasis
    E: Array
    inputs: Regression
    # between which missing entries are completed
    low: Array
    high: Array

    def __call__(self, X: Array) -> Array:
        """Return the latent row of every row."""
        missing = np.isnan(X)
        X = np.where(missing, self.basis.mean, X)
        Z = self.basis(X) @ self.E
        rows = np.flatnonzero(missing.any(axis=1))
        if len(rows):
            Z[rows] = self._completed(X[rows], missing[rows], Z[rows])
        return Z

    def _completed(self, X: Array, missing: Array, Z: Array) -> Array:
        """Return latent rows whose reconstructions complete X; each row stops by itself."""
        active = np.arange(len(X))
        for _ in range(MAX_COMPLETIONS):
            reconstructed = np.clip(self.inputs(Z[active]), self.low, self.high)
            # half steps, since whole ones may oscillate indefinitely
            step = np.where(missing[active], reconstructed - X[active], 0) / 2
            X[active] += step
            Z[active] = self.basis(X[active]) @ self.E
            active = active[np.abs(step).max(axis=1) > COMPLETION_TOL]
            if not len(active):
                break
        return Z


@frozen
class Reconstruction:
    """z = argmin |x - g(z)|^2 + lambda_z |z|^2 over observed entries of x, weights fixed.

    It starts at the best of the latent rows of the nearest training rows and takes
    damped Gauss-Newton steps, for every row by itself. At a stationary point of the objective each
    training row without targets is reproduced.
    """

    inputs: Regression
    lambda_z: float
    X: Array
    Z: Array

    def __call__(self, X: Array) -> Array:
        """Return the latent row of every row."""
        out = np.empty((len(X), self.Z.shape[1]))
        block = max(BLOCK_NUMBERS // (self.X.shape[1] * self.Z.shape[1]), 1)
        for rows in gen_batches(len(X), block):
            seen = ~np.isnan(X[rows])
            filled = np.where(seen, X[rows], self.X.mean(axis=0))
            out[rows] = self._minimized(filled, seen, self._start(filled, seen))
        return out

    def costs(self, X: Array, seen: Array, Z: Array) -> tuple[Array, Array]:
        """Return the objective of every row, and the residuals."""
        R = np.where(seen, X - self.inputs(Z), 0)
        return np.square(R).sum(axis=1) + self.lambda_z * np.square(Z).sum(axis=1), R

    def _start(self, X: Array, seen: Array) -> Array:
        neighbors = NearestNeighbors(n_neighbors=min(N_NEIGHBORS, len(self.X))).fit(self.X)
        near = neighbors.kneighbors(X, return_distance=False)
        costs = np.column_stack([self.costs(X, seen, self.Z[column])[0] for column in near.T])
        return self.Z[near[np.arange(len(X)), costs.argmin(axis=1)]]

    def _minimized(self, X: Array, seen: Array, Z: Array) -> Array:
        values, R = self.costs(X, seen, Z)
        slopes, curvatures = self._quadratic(seen, Z, R)
        damping = np.full(len(X), FIRST_DAMPING)
        active = np.arange(len(X))
        eye = np.eye(Z.shape[1])
        for _ in range(MAX_NEWTON_STEPS):
            H = curvatures[active]
            slope = slopes[active]
            sizes = np.trace(H, axis1=1, axis2=2)[:, None, None] / len(eye)
            H += (damping[active][:, None, None] + EPS) * sizes * eye
            step = np.linalg.solve(H, slope[:, :, None])[:, :, 0]
            trial = Z[active] - step
            new, residuals = self.costs(X[active], seen[active], trial)
            predicted_decrease = np.abs((slope * step).sum(axis=1))
            lower = new < values[active]
            accepted = active[lower]
            Z[accepted] = trial[lower]
            values[accepted] = new[lower]
            damping[accepted] /= 8
            damping[active[~lower]] *= 8
            converged = predicted_decrease <= 4 * EPS * (values[active] + EPS)
            left = ~converged & (damping[active] < MAX_DAMPING)
            moved = active[lower & left]
            active = active[left]
            if not len(active):
                break
            if len(moved):  # others try a shorter step in the same quadratic
                quadratic = self._quadratic(seen[moved], Z[moved], residuals[lower & left])
                slopes[moved], curvatures[moved] = quadratic
        return Z

    def _quadratic(self, seen: Array, Z: Array, R: Array) -> tuple[Array, Array]:
        """Return half the gradient and half the Gauss-Newton matrix of every row."""
        J = self.inputs.derivatives(Z) * seen[:, :, None]
        slopes = self.lambda_z * Z - (R[:, None, :] @ J)[:, 0]
        return slopes, J.transpose(0, 2, 1) @ J + self.lambda_z * np.eye(Z.shape[1])


@frozen
class LatentModel:
    """Latent rows, the regressions of inputs and targets on them, and the placement of new rows."""

    Z: Array
    inputs: Regression
    targets: list[Regression]
    columns: list[Array]  # of the targets, by regression
    place: Encoder | Reconstruction

    def predict(self, Z: Array) -> Array:
        """Return the targets of latent rows."""
        out = np.empty((len(Z), sum(map(len, self.columns))))
        for regression, columns in zip(self.targets, self.columns, strict=True):
            out[:, columns] = regression(Z)
        return out
