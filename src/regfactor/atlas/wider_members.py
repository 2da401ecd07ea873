"""Rows of the atlas with known factors, gross errors, noise, views, soft codes and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

from regfactor import kernels
from regfactor.atlas import iterations
from regfactor.atlas import references as textbook
from regfactor.atlas.models import (
    RANK,
    exact_model,
    hard_codes,
    objective,
    reconstructed,
    squares,
)
from regfactor.atlas.row import Row
from regfactor.atlas.samples import GROUPS, Sample
from regfactor.clusters.mixture import BregmanMixture
from regfactor.core.params import Array
from regfactor.losses import Logistic
from regfactor.norms import L1
from regfactor.penalties import (
    AtomNorms,
    Free,
    Lasso,
    OneHot,
    SquaredL2,
    Trace,
    TwoView,
    UnitBall,
)
from regfactor.tables.tensor_subspace import TensorSubspace

WIDTH = 0.02
BETA = 30.0
ALPHA = 1.0
PURSUIT_ALPHA = float(np.sqrt(30))
N_INPUTS = 5
N_FIRST = 3
SOFT = (
    "the loss of soft codes is sum_k phi_k D(x, c_k), the mean of the losses of the centers, and "
    "not L(phi C; x), the loss of their mean; both are the same for hard codes only"
)


def _gaussian(s: Sample) -> Array:
    return kernels.Gaussian(WIDTH).gram(s.X)


def _degrees(s: Sample) -> Array:
    return _gaussian(s).sum(axis=1)


def _shares(s: Sample) -> Array:
    return _gaussian(s) / _degrees(s)[:, None]


def _entropy(x: Array) -> Array:
    return xlogy(x, x) - x


def _noise(s: Sample) -> Array:
    return np.sqrt(iterations.complete_factor_analysis(s.factors).noise_variance_)


def _components(s: Sample) -> dict[str, Any]:
    model = iterations.complete_factor_analysis(s.factors)
    return {"known_components": model.components_ / np.sqrt(model.noise_variance_)}


def _forward(model: Any, s: Sample) -> Array:
    """W = (X'X)^-1 U' Y'Y: the forward model of a reverse one (White and Schuurmans 2012)."""
    reverse = model.components_
    coefficients = np.linalg.solve(s.X.T @ s.X, reverse.T @ s.labels.T @ s.labels)
    return np.asarray(s.X @ coefficients)


def _mixture(divergence: str, sharpness: float) -> BregmanMixture:
    return BregmanMixture(GROUPS, divergence, sharpness, tol=1e-14, max_iter=20_000, random_state=0)


PENALIZED = (
    Row(
        "kernel exponential-family PCA",
        "K, rbf",
        _gaussian,
        exact_model("logistic", on_codes=SquaredL2(), on_components=SquaredL2(), rank=RANK),
        "objective",
        objective,
        "L-BFGS on both factors",
        lambda s: textbook.by_factors(_gaussian(s), Logistic(), ALPHA, RANK),
        note="Rows of K are the features, whose numbers must be in the domain of the loss; under "
        "the squared loss on the centered K, without penalties, it is kernel PCA.",
    ),
    Row(
        "matrix completion (soft impute)",
        "X with missing entries",
        lambda s: s.incomplete,
        exact_model(gauge=Trace()),
        "low-rank table",
        reconstructed,
        "filling and shrinking, iterated",
        lambda s: iterations.soft_impute(s.incomplete, ALPHA),
    ),
    Row(
        "robust PCA (principal component pursuit)",
        "X with gross errors",
        lambda s: s.corrupted,
        exact_model("absolute", tol=1e-8, gauge=Trace(), alpha=PURSUIT_ALPHA),
        "objective",
        objective,
        "ADMM",
        lambda s: iterations.principal_component_pursuit(s.corrupted, PURSUIT_ALPHA),
        note="|X - Z|_1 + alpha |Z|_tr, alpha = sqrt(max(n, d)): the errors are S = X - Z. With "
        "dense noise too, |Z + S - X|^2/2 + beta |S|_1 is the Huber loss of Z (corollary 4).",
    ),
    Row(
        "sparse coding (dictionary learning)",
        "X",
        lambda s: s.sparse_parts.T,
        exact_model(on_codes=Lasso(), on_components=UnitBall(), rank=RANK),
        "objective",
        objective,
        "sklearn dict_learning",
        lambda s: iterations.dictionary(s.sparse_parts.T, ALPHA),
    ),
    Row(
        "convex sparse coding",
        "X",
        lambda s: s.X,
        exact_model(on_codes=AtomNorms(L1()), on_components=UnitBall()),
        "table",
        reconstructed,
        "rows shortened by alpha",
        lambda s: iterations.shrunken_rows(s.X, ALPHA),
        note="With the number of atoms left free, the optimum memorizes rows: vector quantization "
        "(thesis, section 5.1).",
    ),
    Row(
        "two-view subspace",
        "[X1 X2]",
        lambda s: s.X,
        exact_model(gauge=TwoView(N_FIRST)),
        "objective",
        objective,
        "Brent over eta of L-BFGS on factors",
        lambda s: iterations.two_views(s.X, N_FIRST, ALPHA),
    ),
    Row(
        "factor analysis",
        "X / deviations of the noise",
        lambda s: s.factors / _noise(s),
        exact_model(on_codes=SquaredL2()),
        "posterior means of codes",
        lambda m, s: m.codes_,
        "sklearn FactorAnalysis",
        lambda s: iterations.complete_factor_analysis(s.factors).transform(s.factors),
        found=_components,
        note="Codes given components and noise; `FactorAnalysis` learns both by maximum "
        "likelihood, also with missing entries.",
    ),
)

KNOWN = (
    Row(
        "ridge regression",
        "Y, codes X known",
        lambda s: s.Y,
        exact_model(on_components=SquaredL2()),
        "coefficients",
        lambda m, s: m.components_,
        "sklearn Ridge",
        lambda s: Ridge(ALPHA, fit_intercept=False).fit(s.X, s.Y).coef_.T,
        found=lambda s: {"known_codes": s.X},
        note="Supervised learning: the codes are the inputs, the components the coefficients.",
    ),
    Row(
        "logistic regression",
        "0 and 1, codes X known",
        lambda s: s.labels[:, :1],
        exact_model("logistic", on_components=SquaredL2()),
        "objective",
        objective,
        "sklearn LogisticRegression",
        lambda s: _logistic(s.X, s.labels[:, 0]),
        found=lambda s: {"known_codes": s.X},
    ),
    Row(
        "least squares, in reverse",
        "X, codes Y known",
        lambda s: s.X,
        exact_model(on_components=Free(), alpha=0.0),
        "forward predictions",
        _forward,
        "sklearn LinearRegression",
        lambda s: LinearRegression(fit_intercept=False).fit(s.X, s.labels).predict(s.X),
        found=lambda s: {"known_codes": s.labels},
        note="The reverse model X = Y U determines the forward one: (X'X) W = U' (Y'Y).",
    ),
    Row(
        "semi-supervised k-means",
        "X, codes of some rows known",
        lambda s: s.X,
        exact_model(on_codes=OneHot(), rank=GROUPS),
        "inertia",
        squares,
        "k-means that keeps the known groups",
        lambda s: iterations.semi_supervised_means(s.X, s.known_groups),
        found=lambda s: {"known_codes": s.known_groups},
        note="`ReverseClassifier` weighs labeled against unlabeled rows.",
    ),
    Row(
        "transductive matrix completion",
        "[X Y], Y missing for some rows",
        lambda s: s.labeled,
        exact_model(
            [(slice(0, N_INPUTS), "squared"), (slice(N_INPUTS, N_INPUTS + GROUPS), "logistic")],
            gauge=Trace(),
        ),
        "objective",
        objective,
        "L-BFGS on factors of full rank",
        lambda s: iterations.transductive_completion(s.labeled, N_INPUTS, ALPHA),
        note="Semi-supervised: labels are missing entries (Goldberg et al. 2010). "
        "`ConvexFactorClassifier` uses the two-view norm.",
    ),
)

SOFT_CODES = (
    Row(
        "Bregman normalized cut",
        "rows of K / degrees, weighted by degrees",
        _shares,
        hard_codes("kl"),
        "divergence",
        objective,
        "sum over groups",
        lambda s: iterations.weighted_spread(_shares(s), s.y, _degrees(s), _entropy),
        weights=_degrees,
        note="With weights of degrees and a divergence of any transfer; the squared one on scaled "
        "points is the normalized cut itself.",
    ),
    Row(
        "mixture of Gaussians",
        "X",
        lambda s: s.X,
        _mixture("squared", 1.0),
        "negative log likelihood, less a constant",
        objective,
        "EM",
        lambda s: iterations.gaussian_mixture(s.X, s.y),
        why=SOFT,
    ),
    Row(
        "information bottleneck",
        "rows of shares",
        lambda s: s.shares,
        _mixture("kl", BETA),
        "p(t), p(y|t)",
        lambda m, s: iterations.by_profile(np.column_stack([m.weights_, m.means_])),
        "self-consistent equations",
        lambda s: iterations.by_profile(iterations.information_bottleneck(s.shares, s.y, BETA)),
        note="The sharpness is the trade-off beta.",
        why=SOFT,
    ),
)

ARRAYS = (
    Row(
        "low-rank array (overlapped trace norm)",
        "array of three modes",
        lambda s: s.array,
        TensorSubspace(alpha=0.5, fit_intercept=False, tol=1e-9, max_iter=20_000),
        "objective",
        objective,
        "ADMM",
        lambda s: iterations.overlapped_trace(s.array, 0.5),
        why="a table has two sides, an array as many as modes; of one unfolding alone it is "
        "FactorModel(gauge=Trace())",
    ),
)

WIDER = PENALIZED + KNOWN + SOFT_CODES + ARRAYS


def _logistic(X: Array, y: Array) -> float:
    """Return the objective of scikit-learn's coefficients."""
    model = LogisticRegression(C=1 / ALPHA, fit_intercept=False, tol=1e-12, max_iter=10_000)
    w = model.fit(X, y).coef_[0]
    z = X @ w
    return float((np.logaddexp(0, z) - y * z).sum() + ALPHA * w @ w / 2)
