"""Normal rows of few factors: x = phi C + b + e, phi ~ N(0, I), e_j ~ N(0, v_j), by EM.

Missing entries are left out of all sums; rows have weights, as those of a bootstrap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regfactor.core.params import Array
from regfactor.tables.truncation import truncated_draw

SMALLEST_NOISE_SHARE = 1e-3  # of the variance of a column, below which its noise does not fall
SMALL_FACTOR = 0.3  # size of a factor that is added, in deviations of the noise
RIDGE_SHARE = 1e-6  # of the second moments of codes, against components that nothing determines


@dataclass(frozen=True)
class NormalFactors:
    """Components in units of deviation one of their codes, offsets, and noise variances."""

    components: Array
    offsets: Array
    noise: Array

    def posterior(self, X: Array) -> tuple[Array, Array]:
        """Return means and covariances of the codes of rows given their observed entries."""
        C = self.components
        k, d = C.shape
        observed = ~np.isnan(X)
        weights = observed / self.noise
        centered = np.where(observed, X - self.offsets, 0)
        pairs = np.einsum("kj,lj->jkl", C, C).reshape(d, k * k)
        precisions = (weights @ pairs).reshape(len(X), k, k) + np.eye(k)
        covariances = np.linalg.inv(precisions)
        means = np.einsum("ikl,il->ik", covariances, (weights * centered) @ C.T)
        return means, covariances

    def improved(self, X: Array, rows: Array, variances: Array) -> NormalFactors:
        """Return the model after a step of EM; `variances` are those of the columns."""
        means, covariances = self.posterior(X)
        n, k = means.shape
        d = X.shape[1]
        observed = (~np.isnan(X)).astype(float) * rows[:, None]
        filled = np.nan_to_num(X)
        moments = covariances + np.einsum("ik,il->ikl", means, means)
        seconds = (observed.T @ moments.reshape(n, k * k)).reshape(d, k, k)
        firsts = observed.T @ means
        counts = np.maximum(observed.sum(axis=0), np.finfo(float).tiny)
        system = np.empty((d, k + 1, k + 1))
        system[:, :k, :k] = seconds + RIDGE_SHARE * counts[:, None, None] * np.eye(k)
        system[:, :k, k] = firsts
        system[:, k, :k] = firsts
        system[:, k, k] = counts
        target = np.column_stack([(observed * filled).T @ means, (observed * filled).sum(axis=0)])
        found = np.linalg.solve(system, target[:, :, None])[:, :, 0]
        squares = (observed * np.square(filled)).sum(axis=0)
        explained = np.einsum("jk,jk->j", found, target)
        noise = np.maximum((squares - explained) / counts, SMALLEST_NOISE_SHARE * variances)
        return NormalFactors(found[:, :k].T, found[:, k], noise)

    def fitted(self, X: Array, rows: Array, steps: int) -> NormalFactors:
        """Return the model after some steps of EM."""
        model = self
        center = np.nanmean(X, axis=0)
        variances = np.maximum(np.nanmean(np.square(X - center), axis=0), np.finfo(float).tiny)
        moved = NormalFactors(model.components, model.offsets - center, model.noise)
        for _ in range(steps):
            moved = moved.improved(X - center, rows, variances)
        return NormalFactors(moved.components, moved.offsets + center, moved.noise)

    def extended(self, n_factors: int, random: np.random.Generator) -> NormalFactors:
        """Return the model with small random factors added, for EM to grow or to leave."""
        missing = n_factors - len(self.components)
        if missing <= 0:
            return self
        directions = random.normal(size=(missing, len(self.noise)))
        added = SMALL_FACTOR * np.sqrt(self.noise / missing) * directions
        return NormalFactors(np.vstack([self.components, added]), self.offsets, self.noise)

    def draw(
        self,
        X: Array,
        random: np.random.Generator,
        bounds: Array | None = None,
    ) -> Array:
        """Return a table of draws given the observed entries of each row, for all of its cells."""
        means, covariances = self.posterior(X)
        roots = np.linalg.cholesky(covariances)
        normal = random.normal(size=means.shape)
        codes = means + np.einsum("ikl,il->ik", roots, normal)
        predicted = np.asarray(codes @ self.components + self.offsets)
        return truncated_draw(predicted, np.sqrt(self.noise), bounds, random)
