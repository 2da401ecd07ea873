"""Textbook iterations that rows of the atlas are compared with, in plain numpy and scipy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize
from scipy.special import expit, logsumexp, softmax
from sklearn.decomposition import FactorAnalysis, dict_learning
from sklearn.exceptions import ConvergenceWarning

from regfactor.atlas.references import RANK, groups
from regfactor.core.linalg import soft
from regfactor.core.params import Array

STEPS = 5000
TIGHT: Any = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-10}


def shrunken(X: Array, t: float) -> Array:
    """Return X with its singular values less t, where they exceed it."""
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    return (U * np.maximum(s - t, 0)) @ Vt


def trace_norm(X: Array) -> float:
    """Return the sum of singular values."""
    return float(np.linalg.svd(X, compute_uv=False).sum())


def soft_impute(X: Array, alpha: float) -> Array:
    """Return the fixed point of filling missing entries and shrinking (Mazumder et al. 2010)."""
    seen = ~np.isnan(X)
    Z = np.zeros_like(X)
    for _ in range(STEPS):
        Z = shrunken(np.where(seen, X, Z), alpha)
    return Z


def principal_component_pursuit(X: Array, alpha: float) -> float:
    """Return min |X - Z|_1 + alpha |Z|_tr by ADMM (Candes et al. 2011), at feasible points."""
    mu = X.size / (4 * np.abs(X).sum())
    S = np.zeros_like(X)
    Y = np.zeros_like(X)
    Z = S
    for _ in range(STEPS):
        Z = shrunken(X - S + Y / mu, alpha / mu)
        rest = X - Z + Y / mu
        S = soft(rest, 1 / mu)
        Y = Y + mu * (X - Z - S)
    return float(np.abs(X - Z).sum()) + alpha * trace_norm(Z)


def dictionary(X: Array, alpha: float) -> float:
    """Return the objective of scikit-learn's dictionary learning."""
    _, _, errors = dict_learning(X, RANK, alpha=alpha, tol=1e-12, max_iter=2000, random_state=0)
    return float(errors[-1])


def shrunken_rows(X: Array, alpha: float) -> Array:
    """Return rows shortened by alpha: the solution of convex sparse coding (Zhang et al. 2011)."""
    size = np.linalg.norm(X, axis=1, keepdims=True)
    return X * np.maximum(1 - alpha / size, 0)


def two_views(X: Array, n_first: int, alpha: float) -> float:
    """Return max over eta of min over factors of a smooth objective, by L-BFGS inside of Brent.

    sum (x - z)^2/2 + (alpha/2)(|Phi|^2 + eta |C1|^2 + (1 - eta) |C2|^2) at full rank, whose value
    is concave in eta (thesis, theorem 7).
    """
    n, d = X.shape
    k = min(n, d)
    first = np.arange(d) < n_first
    start: Any = np.random.default_rng(0).normal(size=(n + d) * k)
    latest = [start]

    def least(eta: float) -> float:
        weights = np.where(first, eta, 1 - eta)

        def evaluate(theta: Array) -> tuple[float, Array]:
            Phi = theta[: n * k].reshape(n, k)
            C = theta[n * k :].reshape(k, d)
            G = Phi @ C - X
            weighted = weights * C
            sizes = np.vdot(Phi, Phi) + np.vdot(weighted, C)
            value = (np.vdot(G, G) + alpha * sizes) / 2
            on_codes = G @ C.T + alpha * Phi
            on_components = Phi.T @ G + alpha * weighted
            return float(value), _flat(on_codes, on_components)

        found = scipy.optimize.minimize(
            evaluate, latest[-1], jac=True, method="L-BFGS-B", options=TIGHT
        )
        latest.append(found.x + 1e-3 * start)
        return -float(found.fun)

    inner = scipy.optimize.minimize_scalar(
        least, bounds=(1e-6, 1 - 1e-6), method="bounded", options={"xatol": 1e-9}
    )
    return -float(inner.fun)


def semi_supervised_means(X: Array, known: Array) -> float:
    """Return the inertia of k-means in which rows of known group keep it."""
    held = ~np.isnan(known[:, 0])
    y = np.full(len(X), -1)
    y[held] = known[held].argmax(axis=1)
    centers = _means(X[held], y[held])
    for _ in range(100):
        distances = _squared_distances(X, centers)
        y[~held] = distances[~held].argmin(axis=1)
        centers = _means(X, y)
    residuals = X - centers[y]
    return float(np.square(residuals).sum())


def _flat(on_codes: Array, on_components: Array) -> Array:
    """Return two gradients as one vector."""
    return np.concatenate([on_codes.ravel(), on_components.ravel()])


def _means(X: Array, y: Array) -> Array:
    """Return the means of the groups."""
    return np.array([group.mean(axis=0) for group in groups(X, y)])


def _squared_distances(X: Array, centers: Array) -> Array:
    """Return |x_i - m_j|^2."""
    differences = X[:, None] - centers
    return np.square(differences).sum(axis=2)


def transductive_completion(X: Array, n_inputs: int, alpha: float) -> float:
    """Return min of squares on inputs + logistic loss on labels + alpha |Z|_tr, by L-BFGS.

    On factors of full rank; labels are 0, 1 and NaN (Goldberg et al. 2010).
    """
    n, d = X.shape
    k = min(n, d)
    seen = ~np.isnan(X)
    filled = np.nan_to_num(X)
    labels = np.arange(d) >= n_inputs

    def evaluate(theta: Array) -> tuple[float, Array]:
        Phi = theta[: n * k].reshape(n, k)
        C = theta[n * k :].reshape(k, d)
        Z = Phi @ C
        squared = np.square(Z - filled) / 2
        logistic = np.logaddexp(0, Z) - filled * Z
        losses = np.where(labels, logistic, squared)
        predicted = np.where(labels, expit(Z), Z)
        G = np.where(seen, predicted - filled, 0.0)
        value = losses[seen].sum() + alpha / 2 * theta @ theta
        gradient = _flat(G @ C.T, Phi.T @ G)
        return float(value), gradient + alpha * theta

    start: Any = np.random.default_rng(0).normal(size=(n + d) * k)
    found = scipy.optimize.minimize(evaluate, start, jac=True, method="L-BFGS-B", options=TIGHT)
    return float(found.fun)


def complete_factor_analysis(X: Array) -> FactorAnalysis:
    """Return scikit-learn's factor analysis, iterated until nothing changes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return FactorAnalysis(RANK, tol=0.0, max_iter=3000, svd_method="lapack").fit(X)


def gaussian_mixture(X: Array, y: Array) -> float:
    """Return -log likelihood of Gaussians of variance one by EM from the groups, less a constant.

    The constant is n (d/2) log 2 pi.
    """
    means = _means(X, y)
    logs = np.log(np.bincount(y) / len(y))
    total = 0.0
    for _ in range(STEPS):
        joint = logs - _squared_distances(X, means) / 2
        total = float(-logsumexp(joint, axis=1).sum())
        shares = softmax(joint, axis=1)
        logs = np.log(shares.mean(axis=0))
        totals = shares.sum(axis=0)
        means = (shares.T @ X) / totals[:, None]
    return total


def information_bottleneck(P: Array, y: Array, beta: float) -> Array:
    """Return p(t) and p(y|t) of the self-consistent equations (Tishby et al. 1999), from groups.

    p(t|x) is proportional to p(t) exp(-beta KL(p(y|x) | p(y|t))), and p(x) uniform.
    """
    centers = _means(P, y)
    shares = np.bincount(y) / len(y)
    for _ in range(STEPS):
        logs = np.log(P[:, None] / centers)
        divergence = (P[:, None] * logs).sum(axis=2)
        posterior = softmax(np.log(shares) - beta * divergence, axis=1)
        shares = posterior.mean(axis=0)
        totals = posterior.sum(axis=0)
        centers = (posterior.T @ P) / totals[:, None]
    return np.column_stack([shares, centers])


def by_profile(table: Array) -> Array:
    """Return rows in the order of their last column."""
    return table[np.argsort(table[:, -1])]


def weighted_spread(X: Array, y: Array, w: Array, potential: Callable[[Array], Array]) -> float:
    """Return sum w F(x) - sum over groups W F(mean): divergences to weighted means."""
    total = float(w @ potential(X).sum(axis=1))
    for c in np.unique(y):
        own = y == c
        mean = w[own] @ X[own] / w[own].sum()
        total -= float(w[own].sum() * potential(mean).sum())
    return total


def overlapped_trace(X: Array, alpha: float) -> float:
    """Return min |Z - X|^2/2 + alpha sum_k |Z_(k)|_tr, by ADMM with a copy for each mode."""
    shape = X.shape
    copies = [X.copy() for _ in shape]
    duals = [np.zeros_like(X) for _ in shape]
    rho = 1.0
    Z = X
    for _ in range(STEPS):
        for mode in range(len(shape)):
            moved = np.moveaxis(Z + duals[mode], mode, 0)
            low = shrunken(moved.reshape(shape[mode], -1), alpha / rho)
            copies[mode] = np.moveaxis(low.reshape(moved.shape), 0, mode)
        Z = X.copy()
        for copy, dual in zip(copies, duals, strict=True):
            Z += rho * (copy - dual)
        Z /= 1 + rho * X.ndim
        for mode in range(len(shape)):
            duals[mode] = duals[mode] + Z - copies[mode]
    norms = 0.0
    for mode in range(X.ndim):
        unfolded = np.moveaxis(Z, mode, 0).reshape(shape[mode], -1)
        norms += trace_norm(unfolded)
    return float(np.square(Z - X).sum() / 2 + alpha * norms)
