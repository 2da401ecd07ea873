"""What the rows of the atlas are compared with where scikit-learn has no function for it: textbook formulas."""

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

FEW = 2  # components that are compared


def centered(K: Array) -> Array:
    """J K J, J = I - 11'/n."""
    K = K - K.mean(axis=0)
    return np.asarray(K - K.mean(axis=1, keepdims=True))


def gram(T: Array) -> Array:
    """T T', which does not depend on signs."""
    return np.asarray(T @ T.T)


def projector(A: Array) -> Array:
    """Return the orthogonal projector on the columns of A."""
    return gram(np.linalg.qr(A)[0])


def basis(X: Array) -> Array:
    """Return an orthonormal basis of the columns."""
    return np.linalg.qr(X)[0]


def smoothest(L: Array) -> Array:
    """Return the projector on the eigenvectors of the smallest eigenvalues of a Laplacian, but for the constant."""
    return gram(scipy.linalg.eigh(L, subset_by_index=[1, FEW])[1])


def correlations(X: Array, Y: Array) -> Array:
    """Return the canonical correlations by scikit-learn."""
    a, b = CCA(FEW, scale=False, tol=1e-12, max_iter=10_000).fit(X, Y).transform(X, Y)
    return np.array([np.corrcoef(a[:, j], b[:, j])[0, 1] for j in range(FEW)])


def covariances(X: Array, Y: Array) -> Array:
    """Return X'Y as far as the leading pairs of directions explain it, by scikit-learn."""
    model = PLSSVD(FEW, scale=False).fit(X, Y)
    sizes = np.diag(model.x_weights_.T @ X.T @ Y @ model.y_weights_)
    return np.asarray((model.x_weights_ * sizes) @ model.y_weights_.T)


def of_reduced_rank(X: Array, Y: Array) -> Array:
    """Return the least-squares predictions of reduced rank: those of full rank on their principal directions."""
    fitted = X @ np.linalg.lstsq(X, Y, rcond=None)[0]
    V = np.linalg.svd(fitted, full_matrices=False)[2][:FEW]
    return np.asarray(fitted @ V.T @ V)


def discriminant(X: Array, y: Array) -> Array:
    """Return the projector on the first direction of Fisher's discriminant, by scikit-learn."""
    direction = (
        LinearDiscriminantAnalysis(solver="eigen", n_components=1).fit(X, y).scalings_[:, :1]
    )
    return projector(direction)


def root_of_within(X: Array, y: Array) -> Array:
    """W^(-1/2) for the covariance W within groups."""
    W = sum(np.cov(X[y == c].T, bias=True) * (y == c).mean() for c in np.unique(y))
    values, V = np.linalg.eigh(W)
    return np.asarray((V / np.sqrt(values)) @ V.T)


def weighted_means(X: Array, y: Array) -> Array:
    """Return the means of the groups, each times the root of its size."""
    return np.array([X[y == c].mean(axis=0) * np.sqrt((y == c).sum()) for c in np.unique(y)])


def of_groups(X: Array, y: Array, spread: Any) -> float:
    """Return the sum over groups of a measure of their spread."""
    return float(sum(spread(X[y == c]) for c in np.unique(y)))


def within(K: Array, y: Array) -> float:
    """Return the squared distances to the means of groups in feature space: sum K_ii - sum of means within groups."""
    return float(
        np.trace(K) - sum(K[np.ix_(y == c, y == c)].sum() / (y == c).sum() for c in np.unique(y))
    )


def cut(K: Array, y: Array, sizes: Array) -> float:
    """Return the sum over groups of the affinity to the others, over the size of the group."""
    return float(sum(K[np.ix_(y == c, y != c)].sum() / sizes[y == c].sum() for c in np.unique(y)))


def lost_information(P: Array, y: Array) -> float:
    """Return n times the mutual information of rows and columns that is lost when rows stand together in groups."""

    def information(Q: Array) -> float:
        Q = Q / Q.sum()
        return float(xlogy(Q, Q / (Q.sum(axis=1, keepdims=True) * Q.sum(axis=0))).sum())

    together = np.array([P[y == c].sum(axis=0) for c in np.unique(y)])
    return len(P) * (information(P) - information(together))


def bregman_information(X: Array) -> float:
    """Return sum F(x) - n F(mean), F(x) = x log x - x: the least Kullback-Leibler divergence to one center."""
    return float((xlogy(X, X) - X).sum() - len(X) * (xlogy(m := X.mean(axis=0), m) - m).sum())


def itakura_saito(X: Array) -> float:
    """Return sum x/m - log(x/m) - 1 for the mean m."""
    ratio = X / X.mean(axis=0)
    return float((ratio - np.log(ratio) - 1).sum())


def non_negative(X: Array, divergence: str) -> Array:
    """Return X as scikit-learn's NMF rebuilds it."""
    solver = "cd" if divergence == "frobenius" else "mu"
    model = NMF(
        FEW,
        beta_loss=divergence,
        solver=solver,
        tol=1e-12,
        max_iter=20_000,
        random_state=0,
    )
    return np.asarray(model.fit_transform(X) @ model.components_)


def sparse_components(X: Array, alpha: float) -> float:
    """Return the objective of scikit-learn's dictionary learning on X', which is its SparsePCA."""
    found = dict_learning(X.T, FEW, alpha=alpha, tol=1e-12, max_iter=2000, random_state=0)
    return float(found[2][-1])


def by_factors(X: Array, loss: Loss, alpha: float, rank: int) -> float:
    """Return min over Phi, C of the loss + (alpha/2)(|Phi|^2 + |C|^2), by L-BFGS on both factors at once."""
    n, d = X.shape

    def evaluate(theta: Array) -> tuple[float, Array]:
        Phi = theta[: n * rank].reshape(n, rank)
        C = theta[n * rank :].reshape(rank, d)
        G = loss.gradient(Phi @ C, X)
        gradient = np.concatenate([(G @ C.T).ravel(), (Phi.T @ G).ravel()]) + alpha * theta
        return float(loss.value(Phi @ C, X).sum() + alpha / 2 * theta @ theta), gradient

    start = np.random.default_rng(0).normal(size=(n + d) * rank)
    options: Any = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9}
    return float(
        scipy.optimize.minimize(evaluate, start, jac=True, method="L-BFGS-B", options=options).fun
    )


def posterior_means(X: Array) -> Array:
    """Return E[W z] given x under probabilistic PCA, W (W'W + s2 I)^-1 W' x, with scikit-learn's estimates."""
    model = PCA(FEW).fit(X)
    n = len(X)
    noise = model.noise_variance_
    spread = model.explained_variance_ * (n - 1) / n, noise * (n - 1) / n
    W = model.components_.T * np.sqrt(spread[0] - spread[1])
    return np.asarray(X @ W @ np.linalg.solve(W.T @ W + spread[1] * np.eye(FEW), W.T))


def noise_and_signal(X: Array) -> tuple[float, Array]:
    """Return the noise s2 and the variances l_i - s2 that maximize the likelihood of probabilistic PCA."""
    variances = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2 / len(X)
    noise = float(variances[FEW:].mean())
    return noise, variances[:FEW] - noise
