"""Every part of the library, one line each: the laws in the other files run over these tables.

A part that is added to the library is added here; a missing line fails the architecture test.
"""

import numpy as np
import pytest
from sklearn.metrics.pairwise import laplacian_kernel

import regfactor
from regfactor import kernels, losses, maps, norms, penalties
from regfactor.losses import distances, divergences, potentials

LOSSES = {
    "squared": losses.Squared(),
    "huber": losses.Huber(delta=0.8),
    "smoothed_l1": losses.SmoothedL1(sigma=0.3),
    "absolute": losses.Absolute(),
    "logistic": losses.Logistic(),
    "poisson": losses.Poisson(),
    "gamma_log": losses.GammaLog(),
    "gamma": losses.Gamma(),
    "binomial": losses.Binomial(trials=4),
    "multinomial": losses.Multinomial(),
    "softmax": losses.Softmax(),
    "hinge": losses.Hinge(),
    "smoothed_hinge": losses.SmoothedHinge(gamma=0.6),
    "squared_hinge": losses.SquaredHinge(),
    "ordinal": losses.Ordinal(levels=5),
    "kl": losses.KL(),
    "robust_squared": losses.Robust(losses.Squared(), beta=0.7),
    "robust_logistic": losses.Robust(losses.Logistic(), beta=0.3),
    "robust_poisson": losses.Robust(losses.Poisson(), beta=0.9),
    "stacked": losses.Stacked(((slice(0, 2), losses.Squared()), (slice(2, 4), losses.Logistic()))),
}
COMPOSITE = ("stacked",)  # never evaluated themselves, only through their parts

POTENTIALS = {
    "identity": potentials.Identity(),
    "sigmoid": potentials.Sigmoid(),
    "softmax": potentials.Softmax(),
    "exp": potentials.Exp(),
    "cube": potentials.Cube(),
    "relaxed_sigmoid": potentials.RelaxedSigmoid(theta=0.5),
    "entropy": potentials.Entropy(),
    "burg": potentials.Burg(shape=2.5),
    "binomial_entropy": potentials.BinomialEntropy(trials=3.0),
    "multinomial_entropy": potentials.MultinomialEntropy(),
    "steps": potentials.Steps(levels=4),
    "dual_exp": potentials.Dual(potentials.Exp()),
    "dual_burg": potentials.Dual(potentials.Burg()),
}

# On rows of four numbers.
_COVARIANCE = np.eye(4) + 0.5
DIVERGENCES = {
    "squared": distances.SquaredDistance(),
    "scaled": distances.ScaledDistance(np.linspace(0.5, 2.0, 4)),
    "mahalanobis": distances.Mahalanobis(covariance=_COVARIANCE),
    "fitted_mahalanobis": distances.FittedMahalanobis(covariance=_COVARIANCE),
    "absolute": distances.Manhattan(),
    **{name: divergences.BregmanDivergence(part) for name, part in POTENTIALS.items()},
}

# Blocks split 2 + 3 of the SHAPE[1] = 5 columns on which the laws of norms and gauges are tried.
SHAPE = (7, 5)
NORMS = {
    "l1": norms.L1(),
    "l2": norms.L2(),
    "linf": norms.LInf(),
    "l1.5": norms.Lp(1.5),
    "l3": norms.Lp(3.0),
    "blocks": norms.Blocks(2),
    "blocks_l1_l2": norms.Blocks(2, norms.L1(), norms.L2(), (0.5, 2.0)),
    "blocks_l2_linf": norms.Blocks(2, norms.L2(), norms.LInf(), (1.5, 1.0)),
    "blocks_lp": norms.Blocks(2, norms.Lp(1.5), norms.Lp(3.0)),
}

# On a SHAPE[1] x SHAPE[1] factor.
PENALTIES = {
    "free": penalties.Free(),
    "squared_l2": penalties.SquaredL2(),
    "non_negative": penalties.NonNegative(),
    "simplex": penalties.Simplex(),
    "one_hot": penalties.OneHot(),
    "lasso": penalties.Lasso(),
    "power_1": penalties.PowerPenalty(1.0, np.linspace(0.5, 2.0, SHAPE[1])),
    "power_2": penalties.PowerPenalty(2.0, np.linspace(0.5, 2.0, SHAPE[1])),
    "power_3": penalties.PowerPenalty(3.0, np.linspace(0.5, 2.0, SHAPE[1])),
    "atom_norms_l1": penalties.AtomNorms(norms.L1()),
    "atom_norms_l2": penalties.AtomNorms(norms.L2()),
    "unit_ball_l1": penalties.UnitBall(norms.L1()),
    "unit_ball_l2": penalties.UnitBall(norms.L2()),
    "unit_ball_linf": penalties.UnitBall(norms.LInf()),
    "unit_ball_blocks": penalties.UnitBall(norms.Blocks(2, bounds=(0.5, 2.0))),
}

GAUGES = {
    "trace": penalties.Trace(),
    "trace_scaled": penalties.Trace(scale=2.0),
    "trace_columns": penalties.Trace(scale=np.linspace(0.5, 2.0, SHAPE[1])),
    "rows_l1": penalties.Rows(norms.L1()),
    "rows_l2": penalties.Rows(norms.L2()),
    "rows_linf": penalties.Rows(norms.LInf()),
    "rows_l3": penalties.Rows(norms.Lp(3.0)),
    "rows_blocks": penalties.Rows(norms.Blocks(2, bounds=(0.5, 2.0))),
    "rows_blocks_mixed": penalties.Rows(norms.Blocks(2, norms.L1(), norms.LInf())),
    "columns_l1": penalties.Columns(norms.L1()),
    "columns_l2": penalties.Columns(norms.L2()),
    "columns_linf": penalties.Columns(norms.LInf()),
    "columns_l1.5": penalties.Columns(norms.Lp(1.5)),
    "two_view": penalties.TwoView(2),
    "two_view_bounds": penalties.TwoView(2, bounds=(0.5, 2.0)),
}

MAPS = {
    "row_scale": maps.RowScale(np.linspace(0.5, 2.0, 6)),
    "identity": maps.Identity(),
    "lags_0": maps.Lags(q=0),
    "lags_1": maps.Lags(q=1),
    "lags_3": maps.Lags(q=3),
}

_ROW_POTENTIALS = potentials.Softmax | potentials.MultinomialEntropy


def rng(seed=0):
    return np.random.default_rng(seed)


def frozen(array):
    """A read-only copy: a part that writes to it raises."""
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


def draw(loss, seed=0, shape=(40, 4)):
    """Legal random (z, x) for a loss: x in its domain, z in the interior of its link domain."""
    return draw_link(loss, rng(seed), shape), draw_data(loss, rng(seed + 1), shape)


def draw_link(loss, random, shape):
    if loss.link_domain.low == 0:
        return random.uniform(0.3, 3.0, shape)
    if loss.link_domain.high == 0:
        return -random.uniform(0.3, 3.0, shape)
    return random.normal(scale=2.0, size=shape)


def draw_data(loss, random, shape):
    match loss:
        case losses.Robust():
            return draw_data(loss.loss, random, shape)
        case losses.Hinge() | losses.SmoothedHinge() | losses.SquaredHinge():
            return random.choice([-1.0, 1.0], shape)
        case losses.Ordinal():
            return random.integers(0, loss.levels, shape).astype(float)
        case losses.Binomial():
            return random.integers(0, loss.trials + 1, shape).astype(float)
        case losses.Poisson():
            return random.poisson(2.0, shape).astype(float)
        case losses.Softmax():
            return np.eye(shape[-1])[random.integers(0, shape[-1], shape[:-1])]
        case losses.Multinomial():
            return random.multinomial(6, np.full(shape[-1], 1 / shape[-1]), shape[:-1]).astype(
                float
            )
    low, high = loss.domain.low, loss.domain.high
    if np.isfinite(low) and np.isfinite(high):  # both ends belong to the domain and are drawn
        return np.where(
            random.random(shape) < 0.5,
            random.uniform(low, high, shape),
            random.choice([low, high], shape),
        )
    if low == 0:  # zero itself where it is legal
        return random.uniform(0.3, 4.0, shape) * (
            random.random(shape) < (0.8 if loss.domain.low_closed else 1.0)
        )
    return random.normal(scale=2.0, size=shape)


def is_rowwise(potential):
    return isinstance(potential, _ROW_POTENTIALS)


def draw_potential(potential, seed=0, shape=(40, 4)):
    """Points in the interior of the domain of a potential."""
    random = rng(seed)
    if isinstance(potential, potentials.MultinomialEntropy):
        return random.dirichlet(np.full(shape[-1], 2.0), shape[:-1])
    low, high = potential.domain.low, potential.domain.high
    if np.isfinite(low) and np.isfinite(high):
        return random.uniform(low + 0.02 * (high - low), high - 0.02 * (high - low), shape)
    if low == 0:
        return random.uniform(0.2, 4.0, shape)
    if high == 0:
        return -random.uniform(0.2, 4.0, shape)
    return random.normal(scale=1.5, size=shape)


def cases(table, *names, without=()):
    """The (id, instance) pairs of a table as pytest parameters; all of them, or the named ones."""
    chosen = [name for name in (names or table) if name not in without]
    return [pytest.param(table[name], id=name) for name in chosen]


ESTIMATORS = {
    "FactorModel": regfactor.FactorModel(),
    "ConvexSubspace": regfactor.ConvexSubspace(),
    "SubspaceImputer": regfactor.SubspaceImputer(),
    "RobustSubspace": regfactor.RobustSubspace(),
    "ConvexSparseCoding": regfactor.ConvexSparseCoding(),
    "ExponentialFamilyPCA": regfactor.ExponentialFamilyPCA(),
    "BregmanKMeans": regfactor.BregmanKMeans(),
    "BregmanMixture": regfactor.BregmanMixture(),
    "BregmanNormalizedCut": regfactor.BregmanNormalizedCut(),
    "CanonicalCorrelation": regfactor.CanonicalCorrelation(),
    "ReducedRankRegression": regfactor.ReducedRankRegression(),
    "KernelSubspace": regfactor.KernelSubspace(),
    "BregmanRegressor": regfactor.BregmanRegressor(),
    "RegularizedARMA": regfactor.RegularizedARMA(),
    "TwoViewSubspace": regfactor.TwoViewSubspace(),
    "ConvexFactorClassifier": regfactor.ConvexFactorClassifier(),
    "ConvexFactorRegressor": regfactor.ConvexFactorRegressor(),
    "ReverseClassifier": regfactor.ReverseClassifier(),
    "ReverseRegressor": regfactor.ReverseRegressor(),
    "SNFRegressor": regfactor.SNFRegressor(),
    "SNFRegressorCV": regfactor.SNFRegressorCV(
        [
            {"max_iter": (0, 15)},
            {"kernel": "rbf", "n_components": 1.0, "gamma": 0.1, "max_iter": 0},
        ],
        ridges=(1e-3, 0.1),
    ),
    "ExpectationSVC": regfactor.ExpectationSVC(),
}

# checks of scikit-learn that cannot hold, by estimator
RANDOM_START = {
    f"check_sample_weight_equivalence_on_{kind}_data": "a random start decides, as for scikit-learn's KMeans"
    for kind in ("dense", "sparse")
}
ROUNDING = {
    f"check_sample_weight_equivalence_on_{kind}_data": "a descent of 60 steps carries rounding past 1e-9; 1e-6 holds"
    for kind in ("dense", "sparse")
}
FOLDS = {
    f"check_sample_weight_equivalence_on_{kind}_data": "a row of weight 2 is in one fold, two equal rows may be in two"
    for kind in ("dense", "sparse")
}
NO_ITERATION = {
    check: "the best candidate may be principal components as they are, without an iteration"
    for check in ("check_non_transformer_estimators_n_iter", "check_transformer_n_iter")
}
MARKER = {
    "check_classifiers_classes": "it has a class -1, which marks unlabeled rows; with unlabeled=nan it holds"
}
UNCHECKED = (
    "RegularizedARMA",
)  # rows are times, not samples; it passes the checks of parameters, clones and pickles
EXEMPT = dict.fromkeys(
    ["BregmanKMeans", "BregmanMixture", "BregmanNormalizedCut"], RANDOM_START
) | {
    "ReverseClassifier": MARKER,
    "ConvexFactorClassifier": MARKER,
    "ExpectationSVC": MARKER,
    "SNFRegressor": ROUNDING,
    "SNFRegressorCV": FOLDS | NO_ITERATION,
}

KERNELS = {
    "linear": kernels.Linear(),
    "gaussian": kernels.Gaussian(gamma=0.5),
    "gaussian_median": kernels.Gaussian(gamma="median"),
    "polynomial": kernels.Polynomial(degree=2, coef0=0.5, gamma="scale"),
    "precomputed": kernels.Precomputed(),
    "custom": kernels.Custom(laplacian_kernel),
    "mds": kernels.ClassicalMDS(),
    "mds_cityblock": kernels.ClassicalMDS("cityblock"),
    "isomap": kernels.Isomap(n_neighbors=6),
    "locally_linear": kernels.LocallyLinear(n_neighbors=6),
    "laplacian": kernels.Laplacian(n_neighbors=6),
    "laplacian_weighted": kernels.Laplacian(n_neighbors=6, gamma="median"),
    "laplacian_full": kernels.Laplacian(n_neighbors=None, gamma="neighbors"),
}
