"""The rows of the atlas."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csgraph
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA, KernelPCA
from sklearn.manifold import Isomap as IsomapEmbedding
from sklearn.manifold import LocallyLinearEmbedding
from sklearn.neighbors import kneighbors_graph

from regfactor import kernels
from regfactor.atlas import references as textbook
from regfactor.atlas.models import (
    exact_model,
    free_factors,
    hard_codes,
    objective,
    reconstructed,
    squares,
)
from regfactor.atlas.row import Row, Stranger
from regfactor.atlas.samples import GROUPS, Sample
from regfactor.atlas.wider_members import WIDER
from regfactor.core.params import Array
from regfactor.losses import Logistic, SmoothedHinge
from regfactor.penalties import (
    Lasso,
    NonNegative,
    PowerPenalty,
    SquaredL2,
    Trace,
    UnitBall,
)
from regfactor.tables.factor_model import FactorModel

RANK = textbook.RANK
KERNEL_WIDTH = 0.02
N_NEIGHBORS = 20


def _span(model: FactorModel, _: Sample) -> Array:
    return textbook.projector(model.codes_)


def _gaussian(s: Sample) -> Array:
    return kernels.Gaussian(KERNEL_WIDTH).gram(s.X)


def _affinities(s: Sample) -> Array:
    K = _gaussian(s)
    return K - np.diag(np.diag(K))


def _laplacian(s: Sample) -> Array:
    A = _affinities(s)
    return np.diag(A.sum(axis=1)) - A


def _features(K: Array) -> Array:
    return kernels.Precomputed().features(K)


def _balanced(s: Sample) -> Array:
    """Points phi(x_i) / d_i, whose means under weights d_i are those of the normalized cut."""
    return _features(_gaussian(s)) / _degrees(s)[:, None]


def _degrees(s: Sample) -> Array:
    return _gaussian(s).sum(axis=1)


def _normalized_cut(model: FactorModel, s: Sample) -> float:
    K = _gaussian(s)
    d = _degrees(s)
    return squares(model, s) - float((np.diag(K) / d).sum()) + GROUPS


def _neighbor_laplacian(s: Sample) -> Array:
    A = kneighbors_graph(s.X, N_NEIGHBORS)
    L: Any = csgraph.laplacian(A.maximum(A.T))
    return L.toarray()


def _discriminant(model: FactorModel, s: Sample) -> Array:
    return textbook.projector(textbook.root_of_within(s.X, s.y) @ model.components_.T)


def _noise_prior(s: Sample) -> dict[str, Any]:
    noise, signal = textbook.noise_and_signal(s.X)
    return {"alpha": noise, "on_codes": PowerPenalty(2.0, 1 / signal)}


LINEAR = (
    Row(
        "PCA",
        "X",
        lambda s: s.X,
        free_factors(),
        "low-rank table",
        reconstructed,
        "sklearn PCA",
        lambda s: PCA(RANK).fit(s.X).inverse_transform(PCA(RANK).fit_transform(s.X)),
        note="The nearest table of this rank; codes and components are determined up to an "
        "invertible matrix.",
    ),
    Row(
        "probabilistic PCA",
        "X",
        lambda s: s.X,
        exact_model(on_codes=PowerPenalty(), on_components=UnitBall(), rank=RANK),
        "posterior mean of the table",
        reconstructed,
        "sklearn PCA's likelihood",
        lambda s: textbook.posterior_means(s.X),
        found=_noise_prior,
        note="alpha is the noise variance s2, and code i on unit components has the prior variance "
        "l_i - s2, l_i the i-th eigenvalue of the covariance: (1/2)|x - phi C|^2 + (s2/2) sum_i "
        "phi_i^2 / (l_i - s2). The singular value S_i of X becomes S_i - n s2 / S_i. A trace norm "
        "subtracts the same alpha from all of them: it agrees where alpha = n s2 / S_i, and is the "
        "model in which components have a prior as well.",
    ),
    Row(
        "kernel PCA",
        "centered K, rbf",
        lambda s: textbook.centered(_gaussian(s)),
        free_factors(),
        "low-rank Gram matrix",
        reconstructed,
        "sklearn KernelPCA",
        lambda s: textbook.gram(
            KernelPCA(RANK, kernel="rbf", gamma=KERNEL_WIDTH).fit_transform(s.X)
        ),
    ),
    Row(
        "exponential-family PCA",
        "0 and 1",
        lambda s: s.bits,
        exact_model("logistic", on_codes=SquaredL2(), on_components=SquaredL2(), rank=RANK),
        "objective",
        objective,
        "L-BFGS on both factors",
        lambda s: textbook.by_factors(s.bits, Logistic(), 1.0, RANK),
        note="The divergence is D_F*(Phi C || f(X)), not f^-1(X). `ExponentialFamilyPCA` adds "
        "offsets and exposure.",
    ),
    Row(
        "sparse PCA",
        "X'",
        lambda s: s.sparse_parts.T,
        exact_model(on_codes=Lasso(), on_components=UnitBall(), rank=RANK),
        "objective",
        objective,
        "sklearn SparsePCA (dict_learning on X')",
        lambda s: textbook.sparse_components(s.sparse_parts, 1.0),
        note="The sparse loadings are the codes of the transposed table.",
    ),
    Row(
        "CCA = orthonormal PLS",
        "[Q1 Q2], bases of the views",
        lambda s: np.hstack([textbook.basis(s.X), textbook.basis(s.Y)]),
        free_factors(),
        "canonical correlations",
        lambda m, s: np.linalg.svd(reconstructed(m, s), compute_uv=False)[:RANK] ** 2 - 1,
        "sklearn CCA",
        lambda s: textbook.correlations(s.X, s.Y),
        note="Whitening has the exponent -1/2; squared singular values are 1 + correlation.",
    ),
    Row(
        "PLS",
        "X'Y",
        lambda s: s.X.T @ s.Y,
        free_factors(),
        "low-rank covariance",
        reconstructed,
        "sklearn PLSSVD",
        lambda s: textbook.covariances(s.X, s.Y),
        note="Not the deflating PLSRegression.",
    ),
    Row(
        "reduced-rank regression",
        "Q'Y, Q a basis of X",
        lambda s: textbook.basis(s.X).T @ s.Y,
        free_factors(),
        "predictions",
        lambda m, s: textbook.basis(s.X) @ reconstructed(m, s),
        "closed form",
        lambda s: textbook.of_reduced_rank(s.X, s.Y),
    ),
    Row(
        "LDA",
        "group means, whitened within groups",
        lambda s: textbook.weighted_means(s.X, s.y) @ textbook.root_of_within(s.X, s.y),
        free_factors(1),
        "first direction",
        _discriminant,
        "sklearn LinearDiscriminantAnalysis",
        lambda s: textbook.discriminant(s.X, s.y),
        note="The same as CCA of the table with the groups.",
    ),
    Row(
        "NMF",
        "X >= 0",
        lambda s: s.parts,
        exact_model(on_codes=NonNegative(), on_components=NonNegative(), rank=RANK),
        "low-rank table",
        reconstructed,
        "sklearn NMF",
        lambda s: textbook.non_negative(s.parts, "frobenius"),
    ),
    Row(
        "pLSI",
        "counts",
        lambda s: s.parts,
        exact_model("kl", on_codes=NonNegative(), on_components=NonNegative(), rank=RANK),
        "low-rank table",
        reconstructed,
        "sklearn NMF, Kullback-Leibler",
        lambda s: textbook.non_negative(s.parts, "kullback-leibler"),
        note="Under KL, not the squared loss.",
    ),
    Row(
        "maximum-margin matrix factorization",
        "-1 and 1",
        lambda s: s.signs,
        exact_model("smoothed_hinge", gauge=Trace()),
        "objective",
        objective,
        "L-BFGS on factors of full rank (fast MMMF)",
        lambda s: textbook.by_factors(s.signs, SmoothedHinge(), 1.0, s.signs.shape[1]),
        note="The trace norm is the least (|Phi|^2 + |C|^2)/2, so both problems have one value; "
        "ours is certified.",
    ),
)

GRAPHS = (
    Row(
        "classical (metric) MDS",
        "-J D^2 J/2",
        lambda s: kernels.ClassicalMDS().gram(s.X),
        free_factors(),
        "low-rank Gram matrix",
        reconstructed,
        "sklearn PCA",
        lambda s: textbook.gram(PCA(RANK).fit_transform(s.X)),
        note="Classical scaling; stress by SMACOF is another objective.",
    ),
    Row(
        "Isomap",
        "-J G^2 J/2, G path lengths",
        lambda s: kernels.Isomap(N_NEIGHBORS).gram(s.X),
        free_factors(),
        "low-rank Gram matrix",
        reconstructed,
        "sklearn Isomap",
        lambda s: textbook.gram(
            IsomapEmbedding(n_neighbors=N_NEIGHBORS, n_components=RANK).fit_transform(s.X)
        ),
        note="G^2 contains squared lengths.",
    ),
    Row(
        "locally linear embedding",
        "((I-W)'(I-W))^+",
        lambda s: kernels.LocallyLinear(N_NEIGHBORS).gram(s.X),
        free_factors(),
        "subspace",
        _span,
        "sklearn LocallyLinearEmbedding",
        lambda s: textbook.projector(
            LocallyLinearEmbedding(
                n_neighbors=N_NEIGHBORS,
                n_components=RANK,
                eigen_solver="dense",
            ).fit_transform(s.X)
        ),
    ),
    Row(
        "Laplacian eigenmaps",
        "(D - A)^+",
        lambda s: kernels.Laplacian(None, KERNEL_WIDTH).gram(s.X),
        free_factors(),
        "subspace",
        _span,
        "eigenvectors of D - A",
        lambda s: textbook.smoothest(_laplacian(s)),
        note="The Laplacian is not normalized; sklearn's SpectralEmbedding normalizes it.",
    ),
    Row(
        "ratio cut (relaxed)",
        "(D - A)^+, A 0 and 1",
        lambda s: kernels.Laplacian(N_NEIGHBORS).gram(s.X),
        free_factors(),
        "subspace",
        _span,
        "eigenvectors of D - A",
        lambda s: textbook.smoothest(_neighbor_laplacian(s)),
        note="With hard codes on R, R R' = t I - L, the inertia is the ratio cut itself + "
        "trace(R R') - t k.",
    ),
)

CLUSTERS = (
    Row(
        "k-means",
        "X",
        lambda s: s.X,
        hard_codes(),
        "inertia",
        squares,
        "sklearn KMeans",
        lambda s: KMeans(GROUPS, n_init=10, random_state=0).fit(s.X).inertia_,
    ),
    Row(
        "kernel k-means",
        "R with R R' = K, rbf",
        lambda s: kernels.Gaussian(KERNEL_WIDTH).features(s.X),
        hard_codes(),
        "inertia",
        squares,
        "closed form in K",
        lambda s: textbook.within(_gaussian(s), s.y),
        note="`BregmanKMeans(kernel=...)` never forms R. Rows of K as the table are another model.",
    ),
    Row(
        "k-medians",
        "X",
        lambda s: s.X,
        hard_codes("absolute"),
        "sum of distances",
        objective,
        "medians of the groups",
        lambda s: textbook.total_spread(s.X, s.y, lambda A: np.abs(A - np.median(A, axis=0)).sum()),
    ),
    Row(
        "Bregman clustering",
        "X > 0",
        lambda s: s.positive,
        hard_codes("kl"),
        "divergence",
        objective,
        "Bregman information",
        lambda s: textbook.total_spread(s.positive, s.y, textbook.bregman_information),
        note="A nonlinear transfer only renames the centers: f(m) instead of m.",
    ),
    Row(
        "Linde-Buzo-Gray",
        "X > 0",
        lambda s: s.positive,
        hard_codes("gamma_log"),
        "Itakura-Saito divergence",
        lambda m, s: m.objective_ - (1 + np.log(s.positive)).sum(),
        "sum over groups",
        lambda s: textbook.total_spread(s.positive, s.y, textbook.itakura_saito),
        note="Components are log means.",
    ),
    Row(
        "information-theoretic clustering",
        "rows of shares",
        lambda s: s.shares,
        hard_codes("kl"),
        "divergence",
        objective,
        "lost mutual information",
        lambda s: textbook.lost_information(s.shares, s.y),
        note="Its soft form is the information bottleneck: `BregmanMixture(divergence='kl')`.",
    ),
    Row(
        "normalized cut",
        "R / d, rows weighted by d",
        _balanced,
        hard_codes(),
        "normalized cut",
        _normalized_cut,
        "sum of cut / volume",
        lambda s: textbook.cut(_gaussian(s), s.y, _degrees(s)),
        weights=_degrees,
        note="Exact with points scaled by 1/d and weights d = K 1; the inertia is the cut + "
        "sum K_ii/d_i - k.",
    ),
)

MEMBERS = LINEAR + GRAPHS + CLUSTERS + WIDER

STRANGERS = (
    Stranger(
        "ICA",
        "seeks independent codes; a second transfer is applied to the codes, x = g(phi) C, which "
        "is no factor model in phi.",
    ),
    Stranger(
        "locality preserving projections (LPP)",
        "a generalized eigenproblem X'L X v = l X'D X v: a trace with a constraint on linear codes "
        "X v, not a loss of a table; its kernel form is Laplacian eigenmaps.",
    ),
    Stranger(
        "neighborhood preserving projections (NPP)",
        "likewise the linear restriction of locally linear embedding; its kernel form is that.",
    ),
)
