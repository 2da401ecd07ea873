"""Textbook formulas that rows of the atlas are compared with where scikit-learn has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from scipy.special import xlogy
from sklearn.cross_decomposition import CCA, PLSSVD
from sklearn.decomposition import NMF, PCA, dict_learning
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from regfactor.core.params import Array
from regfactor.losses import Loss

RANK = 2  # components that are compared


def centered(K: Array) -> Array:
    """J K J, J = I - 11'/n."""
    K = K - K.mean(axis=0)
    return K - K.mean(axis=1, keepdims=True)


def gram(T: Array) -> Array:
    """T T', which does not depend on signs."""
    return T @ T.T


def projector(A: Array) -> Array:
    """Return the orthogonal projector on the columns of A."""
    return gram(np.linalg.qr(A)[0])


def basis(X: Array) -> Array:
    """Return an orthonormal basis of the columns."""
    return np.linalg.qr(X)[0]


def smoothest(L: Array) -> Array:
    """Return the projector on the smoothest eigenvectors of a Laplacian, without the constant."""
    _, vectors = scipy.linalg.eigh(L, subset_by_index=[1, RANK])
    return gram(vectors)


def correlations(X: Array, Y: Array) -> Array:
    """Return the canonical correlations by scikit-learn."""
    model = CCA(RANK, scale=False, tol=1e-12, max_iter=10_000).fit(X, Y)
    a, b = model.transform(X, Y)
    between = np.corrcoef(a, b, rowvar=False)[:RANK, RANK:]
    return np.diag(between)


def covariances(X: Array, Y: Array) -> Array:
    """Return the part of X'Y in the leading pairs of directions, by scikit-learn."""
    model = PLSSVD(RANK, scale=False).fit(X, Y)
    sizes = np.diag(model.x_weights_.T @ X.T @ Y @ model.y_weights_)
    return (model.x_weights_ * sizes) @ model.y_weights_.T


def of_reduced_rank(X: Array, Y: Array) -> Array:
    """Return least-squares predictions, projected on their principal directions."""
    coefficients = np.linalg.lstsq(X, Y, rcond=None)[0]
    fitted = X @ coefficients
    _, _, Vt = np.linalg.svd(fitted, full_matrices=False)
    V = Vt[:RANK]
    return fitted @ V.T @ V


def discriminant(X: Array, y: Array) -> Array:
    """Return the projector on the first direction of Fisher's discriminant, by scikit-learn."""
    model = LinearDiscriminantAnalysis(solver="eigen", n_components=1).fit(X, y)
    return projector(model.scalings_[:, :1])


def root_of_within(X: Array, y: Array) -> Array:
    """W^(-1/2) for the covariance W within groups."""
    W = np.zeros((X.shape[1], X.shape[1]))
    for group in groups(X, y):
        W += len(group) / len(X) * np.cov(group.T, bias=True)
    values, V = np.linalg.eigh(W)
    return (V / np.sqrt(values)) @ V.T


def weighted_means(X: Array, y: Array) -> Array:
    """Return the means of the groups, each times the root of its size."""
    means = []
    for group in groups(X, y):
        means.append(group.mean(axis=0) * np.sqrt(len(group)))
    return np.array(means)


def groups(X: Array, y: Array) -> list[Array]:
    """Return the rows of each group."""
    return [X[y == c] for c in np.unique(y)]


def total_spread(X: Array, y: Array, spread: Any) -> float:
    """Return the sum over groups of a measure of their spread."""
    return float(sum(spread(group) for group in groups(X, y)))


def within(K: Array, y: Array) -> float:
    """Return the inertia of groups in feature space: sum K_ii - sum of means within groups."""
    inertia = float(np.trace(K))
    for c in np.unique(y):
        own = y == c
        inertia -= float(K[np.ix_(own, own)].sum()) / own.sum()
    return inertia


def cut(K: Array, y: Array, sizes: Array) -> float:
    """Return the sum over groups of the affinity to the others, over the size of the group."""
    total = 0.0
    for c in np.unique(y):
        own = y == c
        across = K[np.ix_(own, ~own)].sum()
        total += float(across / sizes[own].sum())
    return total


def lost_information(P: Array, y: Array) -> float:
    """Return n times the mutual information of rows and columns lost by merging rows to groups."""

    def information(Q: Array) -> float:
        Q = Q / Q.sum()
        independent = Q.sum(axis=1, keepdims=True) * Q.sum(axis=0)
        return float(xlogy(Q, Q / independent).sum())

    merged = np.array([group.sum(axis=0) for group in groups(P, y)])
    return len(P) * (information(P) - information(merged))


def bregman_information(X: Array) -> float:
    """Return sum F(x) - n F(mean), F(x) = x log x - x: the least divergence to one center."""

    def potential(x: Array) -> float:
        return float((xlogy(x, x) - x).sum())

    return potential(X) - len(X) * potential(X.mean(axis=0))


def itakura_saito(X: Array) -> float:
    """Return sum x/m - log(x/m) - 1 for the mean m."""
    ratio = X / X.mean(axis=0)
    return float((ratio - np.log(ratio) - 1).sum())


def non_negative(X: Array, divergence: str) -> Array:
    """Return X as reconstructed by scikit-learn's NMF."""
    solver = "cd" if divergence == "frobenius" else "mu"
    model = NMF(
        RANK,
        beta_loss=divergence,
        solver=solver,
        tol=1e-12,
        max_iter=20_000,
        random_state=0,
    )
    return model.fit_transform(X) @ model.components_


def sparse_components(X: Array, alpha: float) -> float:
    """Return the objective of scikit-learn's dictionary learning on X', which is its SparsePCA."""
    _, _, errors = dict_learning(
        X.T,
        RANK,
        alpha=alpha,
        tol=1e-12,
        max_iter=2000,
        random_state=0,
    )
    return float(errors[-1])


def by_factors(X: Array, loss: Loss, alpha: float, rank: int) -> float:
    """Return min over Phi, C of loss + (alpha/2)(|Phi|^2 + |C|^2), by L-BFGS on both factors."""
    n, d = X.shape

    def evaluate(theta: Array) -> tuple[float, Array]:
        Phi = theta[: n * rank].reshape(n, rank)
        C = theta[n * rank :].reshape(rank, d)
        Z = Phi @ C
        G = loss.gradient(Z, X)
        on_codes = (G @ C.T).ravel()
        on_components = (Phi.T @ G).ravel()
        slopes = np.concatenate([on_codes, on_components])
        value = loss.value(Z, X).sum() + alpha / 2 * theta @ theta
        return float(value), slopes + alpha * theta

    start = np.random.default_rng(0).normal(size=(n + d) * rank)
    options: Any = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9}
    found = scipy.optimize.minimize(evaluate, start, jac=True, method="L-BFGS-B", options=options)
    return float(found.fun)


def posterior_means(X: Array) -> Array:
    """Return E[W z | x] = W (W'W + s2 I)^-1 W' x of probabilistic PCA, by scikit-learn."""
    model = PCA(RANK).fit(X)
    share = (len(X) - 1) / len(X)
    noise = share * model.noise_variance_
    signal = share * model.explained_variance_ - noise
    W = model.components_.T * np.sqrt(signal)
    precision = W.T @ W + noise * np.eye(RANK)
    return X @ W @ np.linalg.solve(precision, W.T)


def noise_and_signal(X: Array) -> tuple[float, Array]:
    """Return the maximum likelihood noise s2 and variances l_i - s2 of probabilistic PCA."""
    singular_values = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    variances = np.square(singular_values) / len(X)
    noise = float(variances[RANK:].mean())
    return noise, variances[:RANK] - noise
