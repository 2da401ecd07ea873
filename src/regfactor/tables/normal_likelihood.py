"""Likelihood of rows of few normal factors, at the observed entries, and its ascent by L-BFGS.

    x = phi C + b + e,    phi ~ N(0, I),    e_j ~ N(0, v_j)

Of a row with observed entries O the precision of the codes is M = I + sum_O c_j c_j' / v_j, which
depends on O alone: one decomposition for each pattern of missing entries (Roweis and Ghahramani
1999, thesis 8.1.1). The gradient of the log likelihood is that of the expected complete one, so
that an evaluation costs as much as a step of EM.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.optimize
from scipy.sparse.linalg import LinearOperator, minres

from regfactor.core.linalg import positive_or_one, top_eigenpairs
from regfactor.core.loop import Iterate
from regfactor.core.params import Array, frozen
from regfactor.problems.base import Problem
from regfactor.solvers.base import Solver
from regfactor.tables.normal_factors import NormalFactors

LOG_TAU = float(np.log(2 * np.pi))
SMALLEST_NOISE = 1e-6  # of the variance of a column (the mean one, of one noise for all)
NEWTON_STEPS = 3  # at the end, which rounding in the likelihood does not stop
PRODUCTS_PER_STEP = 30  # of the Hessian with a vector
DIFFERENCE = 1e-6  # relative step of a product
FIRST_NOISE_SHARE = 0.1  # of the variance of a column, the smallest noise to start from


@frozen
class PatternRows:
    """Rows as the likelihood needs them: those of one pattern are a mean and a root of scatter.

    From row i `offset_share[i]` times b is to be taken; pattern p has `pattern_counts[p]` rows.
    """

    rows: Array  # zero at missing entries
    offset_share: Array
    pattern: Array
    patterns: Array  # one and zero: observed and missing
    pattern_counts: Array

    @staticmethod
    def of(X: Array, row_weights: Array) -> PatternRows:
        """Return the rows of a table, fewer where many have the same entries observed."""
        observed = ~np.isnan(X)
        bits = np.packbits(observed, axis=1)
        _, first, pattern = np.unique(bits, axis=0, return_index=True, return_inverse=True)
        pattern = pattern.ravel()
        filled = np.where(observed, X, 0.0)
        root = np.sqrt(row_weights)
        members = np.bincount(pattern)
        n_observed = observed[first].sum(axis=1)
        alone = members[pattern] <= n_observed[pattern] + 1
        rows = [filled[alone] * root[alone, None]]
        shares = [root[alone]]
        places = [pattern[alone]]
        for p in np.unique(pattern[~alone]):
            own = pattern == p
            weights = row_weights[own]
            mean = weights @ filled[own] / weights.sum()
            centered = (filled[own] - mean) * root[own, None]
            triangle = np.linalg.qr(centered, mode="r")
            total = np.sqrt(weights.sum())
            rows.append(triangle)
            rows.append(total * mean[None])
            shares.append(np.zeros(len(triangle)))
            shares.append(np.array([total]))
            places.append(np.full(len(triangle) + 1, p))
        return PatternRows(
            np.vstack(rows),
            np.concatenate(shares),
            np.concatenate(places),
            observed[first].astype(float),
            np.bincount(pattern, row_weights),
        )


@frozen
class NormalTable(Problem[NormalFactors]):
    """-log p(observed entries) over components, offsets and noise variances; NaN is missing.

    The noise has one variance for each column, or one for all (`shared_noise`, probabilistic PCA).
    """

    X: Array
    n_factors: int
    shared_noise: bool = False
    row_weights: Array | None = None
    first: NormalFactors | None = None  # where to start, if known
    solvers = ("regfactor.tables.normal_likelihood:LikelihoodAscent",)

    @cached_property
    def weights(self) -> Array:
        """The weights of the rows."""
        if self.row_weights is None:
            return np.ones(len(self.X))
        return self.row_weights

    @cached_property
    def rows(self) -> PatternRows:
        """The rows by patterns of missing entries."""
        return PatternRows.of(self.X, self.weights)

    @cached_property
    def counts(self) -> Array:
        """The number of observed entries of each column."""
        return self.rows.pattern_counts @ self.rows.patterns

    @cached_property
    def variances(self) -> Array:
        """The variances of the observed entries of the columns, or their mean."""
        counts = np.maximum(self.counts, np.finfo(float).tiny)
        observed = ~np.isnan(self.X)
        filled = np.where(observed, self.X, 0.0)
        means = self.weights @ filled / counts
        centered = np.where(observed, self.X - means, 0.0)
        squares = self.weights @ np.square(centered)
        if self.shared_noise:
            total = float(squares.sum() / self.counts.sum())
            if not total > 0:
                total = 1.0
            return np.full(self.X.shape[1], total)
        variances = squares / counts
        return positive_or_one(variances)

    def objective(self, model: NormalFactors) -> float:
        """Return the negative log likelihood."""
        return self.value_and_gradient(model)[0]

    def value_and_gradient(self, model: NormalFactors) -> tuple[float, NormalFactors]:
        """Return the negative log likelihood and its derivatives, by log variances of the noise."""
        table = self.rows
        C = model.components
        k, d = C.shape
        w = 1 / model.noise
        posterior = Precisions.of(C, w, table.patterns)
        observed = table.patterns[table.pattern]
        R = table.rows - table.offset_share[:, None] * observed * model.offsets
        H = (R * w) @ C.T
        means = posterior.means(H, table.pattern)
        E = R - observed * (means @ C)
        spread = np.square(R).sum(axis=0) @ w - np.vdot(H, means)
        logs = table.patterns @ (LOG_TAU + np.log(model.noise))
        logs += posterior.log_determinants
        value = (table.pattern_counts @ logs + spread) / 2
        weighted = table.patterns * table.pattern_counts[:, None]
        covariances = weighted.T @ posterior.covariances.reshape(-1, k * k)
        covariances = covariances.reshape(d, k, k)
        inflated = np.einsum("jkl,lj->kj", covariances, C)
        on_components = w * (inflated - means.T @ E)
        on_offsets = -w * (table.offset_share @ E)
        squares = np.square(E).sum(axis=0) + (C * inflated).sum(axis=0)
        on_noise = (self.counts - w * squares) / 2
        return float(value), NormalFactors(on_components, on_offsets, on_noise)

    def start(self) -> NormalFactors:
        """Return principal components of the table with its missing entries at the mean.

        On a complete table with one noise for all this is the optimum (Tipping and Bishop 1999).
        """
        X = self.X
        observed = ~np.isnan(X)
        total = self.weights.sum()
        sums = self.weights @ np.where(observed, X, 0.0)
        means = sums / np.maximum(self.counts, 1e-300)
        unit = np.sqrt(self.variances)
        centered = np.where(observed, (X - means) / unit, 0.0)
        centered = centered * np.sqrt(self.weights)[:, None]
        share = self.counts.sum() / (total * X.shape[1])
        covariance = centered.T @ centered / (total * share)
        k = self.n_factors
        values, vectors = top_eigenpairs(covariance, k)
        left = np.trace(covariance) - values.sum()
        rest = max(float(left) / max(X.shape[1] - k, 1), SMALLEST_NOISE)
        squares = np.maximum(values - rest, rest / 10)
        C = np.sqrt(squares)[:, None] * vectors.T
        if self.shared_noise:
            noise = np.full(X.shape[1], rest)
        else:
            noise = np.maximum(1 - np.square(C).sum(axis=0), FIRST_NOISE_SHARE)
        return NormalFactors(C * unit, means, noise * self.variances)


@frozen
class Precisions:
    """Posterior covariances of the codes of each pattern, and log det of their inverses."""

    covariances: Array
    log_determinants: Array

    @staticmethod
    def of(C: Array, w: Array, patterns: Array) -> Precisions:
        """Return those of components C and precisions w of the noise."""
        k, d = C.shape
        pairs = np.einsum("kj,lj->jkl", C * w, C).reshape(d, k * k)
        sums = (patterns @ pairs).reshape(len(patterns), k, k)
        M = sums + np.eye(k)
        return Precisions(np.linalg.inv(M), np.linalg.slogdet(M).logabsdet)

    def means(self, H: Array, pattern: Array) -> Array:
        """Return the posterior means of codes; `pattern` is that of each row."""
        if len(self.covariances) == 1:
            return H @ self.covariances[0]
        return np.matmul(self.covariances[pattern], H[:, :, None])[:, :, 0]


@frozen
class Posterior:
    """Codes of rows given their observed entries, and the log likelihood of these entries."""

    means: Array
    precisions: Precisions
    pattern: Array
    log_likelihoods: Array

    @staticmethod
    def of(model: NormalFactors, X: Array) -> Posterior:
        """Return those of the rows of a table; a row without an observed entry has the prior."""
        observed = ~np.isnan(X)
        bits = np.packbits(observed, axis=1)
        _, first, pattern = np.unique(bits, axis=0, return_index=True, return_inverse=True)
        pattern = pattern.ravel()
        patterns = observed[first].astype(float)
        w = 1 / model.noise
        precisions = Precisions.of(model.components, w, patterns)
        R = np.where(observed, X - model.offsets, 0.0)
        H = (R * w) @ model.components.T
        means = precisions.means(H, pattern)
        squares = np.square(R) @ w - (H * means).sum(axis=1)
        logs = patterns @ (LOG_TAU + np.log(model.noise))
        logs += precisions.log_determinants
        log_likelihoods = -(logs[pattern] + squares) / 2
        return Posterior(means, precisions, pattern, log_likelihoods)

    def variances(self, C: Array) -> Array:
        """Return the posterior variances of phi C, entry by entry."""
        by_pattern = np.einsum("kj,pkl,lj->pj", C, self.precisions.covariances, C, optimize=True)
        return by_pattern[self.pattern]


@dataclass
class LikelihoodAscent(Solver):
    """scipy's L-BFGS-B on components, offsets and log variances, in stretches.

    Log variances are bounded from below: where few factors explain a column exactly (a Heywood
    case), its noise tends to zero.
    """

    stretch: int = 100
    memory: int = 20

    solves = NormalTable

    def iterates(
        self,
        problem: NormalTable,
        start: NormalFactors | None,
    ) -> Iterator[Iterate[NormalFactors]]:
        """Yield after every stretch, until no step raises the likelihood."""
        model = start or problem.first or problem.start()
        units = ParameterVector(problem)
        packed = units.pack(model)
        yield Iterate(model, problem.objective(model))
        while True:
            found = scipy.optimize.minimize(
                units.value_and_gradient,
                packed,
                jac=True,
                method="L-BFGS-B",
                bounds=units.bounds,
                options={
                    "maxiter": self.stretch,
                    "maxcor": self.memory,
                    "ftol": 1e-15,
                    "gtol": 1e-10,
                },
            )
            settled = found.nit < self.stretch
            packed = found.x
            if settled:
                packed = units.polished(packed)
            model = units.unpack(packed)
            steps = max(int(found.nit), 1)
            yield Iterate(
                model,
                problem.objective(model),
                settled=settled,
                steps=steps,
                scale=1.0,  # a likelihood is compared by differences
            )


class ParameterVector:
    """Parameters as one vector, in deviations of the columns; the likelihood of a mean row."""

    def __init__(self, problem: NormalTable) -> None:
        self.problem = problem
        self.unit = np.sqrt(problem.variances)
        self.center = problem.start().offsets
        self.total = float(problem.weights.sum())
        k = problem.n_factors
        d = problem.X.shape[1]
        self.shape = (k, d)
        n_noises = d
        if problem.shared_noise:
            n_noises = 1
        free = [(None, None)] * ((k + 1) * d)
        lowest = np.log(SMALLEST_NOISE)
        self.bounds = free + [(lowest, None)] * n_noises

    def pack(self, model: NormalFactors) -> Array:
        """Return the vector of a model."""
        logs = np.log(model.noise / self.problem.variances)
        if self.problem.shared_noise:
            logs = logs[:1]
        C = model.components / self.unit
        b = (model.offsets - self.center) / self.unit
        return np.concatenate([C.ravel(), b, logs])

    def unpack(self, packed: Array) -> NormalFactors:
        """Return the model of a vector."""
        k, d = self.shape
        C = packed[: k * d].reshape(k, d) * self.unit
        b = packed[k * d : (k + 1) * d] * self.unit + self.center
        noise = np.exp(packed[(k + 1) * d :]) * self.problem.variances
        return NormalFactors(C, b, noise)

    def value_and_gradient(self, packed: Array) -> tuple[float, Any]:
        """Return the objective of a vector and its derivative."""
        value, slope = self.problem.value_and_gradient(self.unpack(packed))
        noise = slope.noise
        if self.problem.shared_noise:
            noise = noise.sum(keepdims=True)
        on_components = slope.components * self.unit
        on_offsets = slope.offsets * self.unit
        gradient = np.concatenate([on_components.ravel(), on_offsets, noise])
        return value / self.total, gradient / self.total

    def polished(self, packed: Array) -> Array:
        """Return a vector after Newton steps on the gradient alone, as long as these shorten it.

        A likelihood in double precision does not tell apart points whose variances agree in six
        digits; its gradient does.
        """
        lowest = np.array([-np.inf if low is None else low for low, _ in self.bounds])
        slope = self.value_and_gradient(packed)[1]
        for _ in range(NEWTON_STEPS):
            inside = packed > lowest
            size = np.linalg.norm(slope[inside])

            def product(v: Array, at: Array = packed, free: Array = inside) -> Array:
                step = DIFFERENCE / max(float(np.abs(v).max()), np.finfo(float).tiny)
                moved = free * v * step
                ahead = self.value_and_gradient(at + moved)[1]
                behind = self.value_and_gradient(at - moved)[1]
                return free * (ahead - behind) / (2 * step)

            n = len(packed)
            hessian: Any = LinearOperator((n, n), matvec=product, dtype=np.float64)
            move = minres(hessian, -slope * inside, rtol=1e-4, maxiter=PRODUCTS_PER_STEP)[0]
            trial = np.maximum(packed + inside * move, lowest)
            new = self.value_and_gradient(trial)[1]
            if not np.linalg.norm(new[inside]) < size / 2:
                break
            packed = trial
            slope = new
        return packed
