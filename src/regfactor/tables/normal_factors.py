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
EM_TOL = 1e-7  # change of the variances of a column, relative to them, at which EM ends
RIDGE_SHARE = 1e-6  # of the second moments of codes, against components that nothing determines


@dataclass(frozen=True)
class NormalFactors:
    """Components in units of deviation one of their codes, offsets, and noise variances."""

    components: Array
    offsets: Array
    noise: Array

    @property
    def explained(self) -> Array:
        """The variances of columns that codes explain."""
        return np.square(self.components).sum(axis=0)

    def posterior(self, X: Array) -> tuple[Array, Array]:
        """Return means and covariances of the codes of rows given their observed entries."""
        C = self.components
        k, d = C.shape
        observed = ~np.isnan(X)
        weights = observed / self.noise
        centered = np.where(observed, X - self.offsets, 0)
        pairs = np.einsum("kj,lj->jkl", C, C).reshape(d, k * k)
        information = (weights @ pairs).reshape(len(X), k, k)
        covariances = np.linalg.inv(information + np.eye(k))
        sums = (weights * centered) @ C.T
        means = np.einsum("ikl,il->ik", covariances, sums)
        return means, covariances

    def improved(self, X: Array, rows: Array, variances: Array) -> NormalFactors:
        """Return the model after a step of EM; `variances` are those of the columns."""
        means, covariances = self.posterior(X)
        n, k = means.shape
        d = X.shape[1]
        observed = (~np.isnan(X)).astype(float) * rows[:, None]
        filled = np.nan_to_num(X)
        weighted = observed * filled
        moments = covariances + np.einsum("ik,il->ikl", means, means)
        seconds = observed.T @ moments.reshape(n, k * k)
        seconds = seconds.reshape(d, k, k)
        firsts = observed.T @ means
        counts = np.maximum(observed.sum(axis=0), np.finfo(float).tiny)
        system = np.empty((d, k + 1, k + 1))
        ridge = RIDGE_SHARE * counts[:, None, None]
        system[:, :k, :k] = seconds + ridge * np.eye(k)
        system[:, :k, k] = firsts
        system[:, k, :k] = firsts
        system[:, k, k] = counts
        target = np.column_stack([weighted.T @ means, weighted.sum(axis=0)])
        found = np.linalg.solve(system, target[:, :, None])[:, :, 0]
        squares = (observed * np.square(filled)).sum(axis=0)
        explained = np.einsum("jk,jk->j", found, target)
        unexplained = (squares - explained) / counts
        noise = np.maximum(unexplained, SMALLEST_NOISE_SHARE * variances)
        # expanded parameters: codes of a free mean and covariance R = L L', in whose units they are
        # standard normal again, converge in far fewer steps (Liu, Rubin and Wu 1998)
        shares = rows / rows.sum()
        middle = shares @ means
        spread = np.tensordot(shares, moments, axes=1) - np.outer(middle, middle)
        root = np.linalg.cholesky(spread)
        components = found[:, :k].T
        return NormalFactors(root.T @ components, found[:, k] + middle @ components, noise)

    def fitted(self, X: Array, rows: Array, steps: int) -> NormalFactors:
        """Return the model after EM has converged, or after some steps."""
        model = self
        center = np.nanmean(X, axis=0)
        centered = X - center
        variances = np.nanmean(np.square(centered), axis=0)
        variances = np.maximum(variances, np.finfo(float).tiny)
        moved = NormalFactors(model.components, model.offsets - center, model.noise)
        for _ in range(steps):
            last = moved
            moved = last.improved(centered, rows, variances)
            change = np.abs(moved.noise - last.noise) + np.abs(moved.explained - last.explained)
            if np.all(change <= EM_TOL * variances):
                break
        return NormalFactors(moved.components, moved.offsets + center, moved.noise)

    def extended(self, n_factors: int, random: np.random.Generator) -> NormalFactors:
        """Return the model with small random factors added, for EM to grow or to leave."""
        missing = n_factors - len(self.components)
        if missing <= 0:
            return self
        directions = random.normal(size=(missing, len(self.noise)))
        sizes = SMALL_FACTOR * np.sqrt(self.noise / missing)
        components = np.vstack([self.components, sizes * directions])
        return NormalFactors(components, self.offsets, self.noise)

    def parameter_counts(self, X: Array, rows: Array) -> Array:
        """Return the effective number of coefficients, offset included, of each column.

        That of its regression on codes, p_j = tr((M_j + V_j)^-1 M_j): M_j are the second moments of
        their means, and V_j the sum of their covariances, over the observed entries. A factor of
        which rows tell little counts little.
        """
        means, covariances = self.posterior(X)
        n, k = means.shape
        d = X.shape[1]
        observed = (~np.isnan(X)).astype(float) * rows[:, None]
        ones = np.column_stack([means, np.ones(n)])
        products = np.einsum("ik,il->ikl", ones, ones).reshape(n, (k + 1) ** 2)
        of_means = (observed.T @ products).reshape(d, k + 1, k + 1)
        system = of_means.copy()
        system[:, :k, :k] += (observed.T @ covariances.reshape(n, k * k)).reshape(d, k, k)
        counts = np.maximum(observed.sum(axis=0), np.finfo(float).tiny)
        system += RIDGE_SHARE * counts[:, None, None] * np.eye(k + 1)
        return np.trace(np.linalg.solve(system, of_means), axis1=1, axis2=2)

    def draw(
        self,
        X: Array,
        random: np.random.Generator,
        bounds: Array | None = None,
        widening: Array | float = 1.0,
    ) -> Array:
        """Return a table of draws given the observed entries of each row, for all of its cells.

        Variances about the conditional means are multiplied by `widening`, a number for each
        column.
        """
        means, covariances = self.posterior(X)
        roots = np.linalg.cholesky(covariances)
        normal = random.normal(size=means.shape)
        moved = np.einsum("ikl,il->ik", roots, normal)
        factor = np.sqrt(widening)
        predicted = means @ self.components + self.offsets + factor * (moved @ self.components)
        deviations = factor * np.sqrt(self.noise)
        return truncated_draw(predicted, deviations, bounds, random)
