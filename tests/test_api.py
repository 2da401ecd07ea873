"""The public names of the library: constructors with their defaults, the strings they take, what a fit tells."""

import inspect

import numpy as np
import pytest

import regfactor
from regfactor import baselines, constraints, model_selection, penalties
from regfactor.baselines import timeseries

RUN = {
    "max_iter": 1000,
    "tol": 1e-4,
    "time_limit": None,
    "verbose": 0,
    "random_state": None,
    "callback": None,
}
BOUNDS = (1.0, 1.0)
SUBSPACE = {
    "loss": "squared",
    "alpha": "auto",
    "fit_intercept": True,
    "scale": True,
    "debias": False,
    "max_rank": None,
}
LABELS = {
    "alpha_share": "auto",
    "reconstruction_weight": "auto",
    "loss": "logistic",
    "reconstruction_loss": "squared",
}
CONSTRUCTORS = {
    "FactorModel": {
        "loss": "squared",
        "gauge": None,
        "on_codes": None,
        "on_components": None,
        "rank": None,
        "alpha": 1.0,
        "fit_intercept": False,
        "known_codes": None,
        "map": None,
        "require": None,
    },
    "FactorAnalysis": {"n_components": "auto", "noise": "columns"},
    "ConvexSubspace": SUBSPACE,
    "TensorSubspace": {"alpha": "auto", "loss": "squared"},
    "SubspaceImputer": {"loss": "auto", "alpha": "auto", "debias": "prior"},
    "RobustSubspace": {"alpha": "noise", "beta": "auto", "loss": "squared"},
    "ConvexSparseCoding": {"loss": "squared", "alpha": "auto", "q": 2},
    "ExponentialFamilyPCA": {
        "n_components": 2,
        "family": "gaussian",
        "alpha": 1.0,
        "kernel": None,
        "fit_intercept": True,
        "row_offset": None,
    },
    "BregmanKMeans": {
        "n_clusters": 8,
        "divergence": "squared",
        "init": "k-means++",
        "n_init": "auto",
        "max_iter": 300,
        "kernel": None,
    },
    "AutoImputer": {"members": "auto"},
    "AutoMixture": {"n_components": "auto", "max_components": 20},
    "BregmanMixture": {"n_components": 8, "divergence": "squared", "sharpness": "auto"},
    "BregmanNormalizedCut": {
        "n_clusters": 8,
        "affinity": "rbf",
        "gamma": "median",
        "divergence": "squared",
    },
    "CanonicalCorrelation": {"n_components": 2, "ridge": 0.0},
    "ReducedRankRegression": {"rank": "auto", "alpha": "auto"},
    "BregmanRegressor": {"transfer": "identity", "alpha": 0.1, "kernel": None},
    "TwoViewSubspace": {
        "alpha": "noise",
        "bounds": BOUNDS,
        "loss": "auto",
        "n_first": None,
        "scale": True,
        "regression": "auto",
    },
    "MultiViewSubspace": {"alpha": "noise", "loss": "auto", "scale": True, "private": True},
    "ReverseClassifier": {
        "transfer": "identity",
        "assignment": "hard",
        "unlabeled_weight": "balanced",
        "sharpness": "auto",
        "kernel": None,
        "normalized_cut": False,
        "classes": None,
    },
    "ReverseRegressor": {
        "transfer": "identity",
        "unlabeled_weight": 0.1,
        "alpha": "auto",
        "kernel": None,
        "fit_intercept": True,
    },
    "ConvexFactorClassifier": {**LABELS, "bounds": BOUNDS},
    "ConvexFactorRegressor": {**LABELS, "loss": "squared", "bounds": BOUNDS},
    "SemiSupervisedRegressor": {"members": "auto", "n_draws": 0},
    "SNFRegressor": {
        "n_components": 0.5,
        "kernel": "poly",
        "degree": 1,
        "back_constraint": "linear",
        "lambda_x": 0.1,
        "lambda_y": 0.1,
        "lambda_z": 0.1,
        "target_weight": 10.0,
        "max_iter": 60,
        "clip": 0.1,
        "scale": True,
        "solver": "lbfgs",
    },
    "ExpectationSVC": {
        "constraints": (),
        "C": "auto",
        "C_unlabeled": "auto",
        "loss": "squared_hinge",
        "kernel": "linear",
        "gamma": "neighbors",
        "penalty": 1e3,
        "classes": None,
        "match_balance": False,
    },
    "AutoForecaster": {"season": "auto", "log": "auto", "horizon": None},
    "RegularizedARMA": {
        "p": "bic",
        "q": "auto",
        "d": "auto",
        "season": "auto",
        "shrinkage": "auto",
        "ridge": "minnesota",
        "loss": "squared",
        "intercept": True,
        "exog_lags": 0,
        "max_radius": 1.0,
        "standardize": True,
    },
}
CLOSED = (
    "CanonicalCorrelation",
    "ReducedRankRegression",
)  # in closed form, so that there is no run to limit
# whose run ends with the last member
POOLS = ("SemiSupervisedRegressor", "AutoForecaster", "AutoImputer", "AutoMixture")
ALSO = {
    "rule": (
        "FactorModel",
        "ConvexSubspace",
        "SubspaceImputer",
        "RobustSubspace",
        "ConvexSparseCoding",
        "ExponentialFamilyPCA",
        "TwoViewSubspace",
        "MultiViewSubspace",
        "ConvexFactorClassifier",
        "ConvexFactorRegressor",
    ),
    "unlabeled": ("ReverseClassifier", "ConvexFactorClassifier", "ExpectationSVC"),
}
SPARSE = {
    "missing": (
        "FactorModel",
        "ConvexSubspace",
        "SubspaceImputer",
        "RobustSubspace",
        "TwoViewSubspace",
        "MultiViewSubspace",
    ),
    "observed": (
        "AutoImputer",
        "ConvexSparseCoding",
        "ExponentialFamilyPCA",
        "ConvexFactorClassifier",
        "ConvexFactorRegressor",
    ),
}
BASELINES = (
    "LaplacianRLS",
    "LaplacianSVM",
    "TransductiveRegression",
    "LeastSquaresSVM",
    "HessianRegression",
    "ParallelFieldRegression",
    "LinearLatentReconstruction",
    "SingleViewSubspace",
    "LocalTwoView",
    "AlternatingLabels",
    "StagedLabels",
    "MatrixCompletionLabels",
    "MultiViewRelaxation",
)


def defaults_of(function):
    return {name: p.default for name, p in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_parameters_and_their_defaults_are_as_promised(name):
    estimator = getattr(regfactor, name)
    found, promised = defaults_of(estimator), CONSTRUCTORS[name]
    run = {} if name in CLOSED else dict(RUN)
    if name in POOLS:
        del run["max_iter"], run["tol"]
    expected = {**run, **promised}
    assert {key: found.get(key, "absent") for key in expected} == expected
    assert list(found)[: len(promised)] == list(promised)
    assert estimator().get_params() == found


@pytest.mark.parametrize("parameter", ALSO)
def test_parameters_that_several_share_are_there(parameter):
    for name in ALSO[parameter]:
        assert parameter in defaults_of(getattr(regfactor, name)), name


@pytest.mark.parametrize("meaning", SPARSE)
def test_absent_entries_mean_what_was_promised(meaning):
    for name in SPARSE[meaning]:
        assert defaults_of(getattr(regfactor, name))["sparse_zeros"] == meaning, name


def test_every_estimator_constructs_without_an_argument():
    regfactor.SNFRegressorCV()
    for name in BASELINES:
        getattr(baselines, name)()
    for name in ("HannanRissanen", "EMKalman", "N4SID", "HSEHMM"):
        getattr(timeseries, name)()


def test_functions_have_the_promised_parameters():
    assert defaults_of(constraints.class_balance)["tolerance"] == 0.02
    assert defaults_of(constraints.labeled_feature)["tolerance"] == 0.05
    assert defaults_of(constraints.region)["tolerance"] == 0.05
    assert list(defaults_of(constraints.expectation)) == [
        "features",
        "target",
        "tolerance",
        "label",
    ]
    compared = defaults_of(model_selection.compare_with_supervised)
    assert list(compared)[:5] == ["estimator", "X", "y", "cv", "supervised"]
    assert (compared["cv"], compared["supervised"]) == (5, None)
    for name in (
        "atlas",
        "solve",
        "path",
        "save",
        "load",
        "losses",
        "penalties",
        "norms",
        "kernels",
    ):
        assert hasattr(regfactor, name), name


# What every string is tried on: 24 rows and 5 columns of real numbers, and what other numbers are made of them.
rng = np.random.default_rng(0)
REAL = rng.normal(size=(24, 2)) @ rng.normal(size=(2, 5)) + 0.1 * rng.normal(size=(24, 5))
BINARY, POSITIVE = (REAL > 0).astype(float), np.exp(REAL / 2)
COUNTS, SIGNS, STEPS = (
    np.floor(POSITIVE),
    np.where(REAL > 0, 1.0, -1.0),
    np.clip(np.round(REAL + 2), 0, 4),
)
CHOICES = np.eye(5)[rng.permutation(np.arange(24) % 5)]
CLASSES = np.where(np.arange(24) < 10, REAL[:, 0] > 0, -1).astype(int)
TARGETS = np.where(np.arange(24) < 12, REAL[:, 0], np.nan)

LOSSES = {
    "squared": REAL,
    "huber": REAL,
    "smoothed_l1": REAL,
    "absolute": REAL,
    "quantile": REAL,
    "logistic": BINARY,
    "poisson": COUNTS,
    "negative_binomial": COUNTS,
    "gamma_log": POSITIVE,
    "exponential": POSITIVE,
    "weibull": POSITIVE,
    "binomial": BINARY,
    "multinomial": COUNTS + 1,
    "softmax": CHOICES,
    "hinge": SIGNS,
    "smoothed_hinge": SIGNS,
    "squared_hinge": SIGNS,
    "ordinal": STEPS,
    "kl": POSITIVE,
}
FAMILIES = {
    "gaussian": REAL,
    "bernoulli": BINARY,
    "binomial": BINARY,
    "poisson": COUNTS,
    "negative_binomial": COUNTS,
    "gamma": POSITIVE,
    "multinomial": COUNTS + 1,
}
DIVERGENCES = {
    "squared": REAL,
    "mahalanobis": REAL,
    "kl": COUNTS,
    "itakura_saito": POSITIVE,
    "bernoulli": BINARY,
    "sigmoid": REAL,
    "softmax": REAL,
    "exp": REAL,
    "cube": REAL,
    "relaxed_sigmoid": REAL,
    "absolute": REAL,
}
SHARES = np.exp(REAL[:, :3]) / np.exp(REAL[:, :3]).sum(axis=1, keepdims=True)
TRANSFERS = {
    "identity": REAL[:, 0],
    "mahalanobis": REAL[:, 0],
    "sigmoid": 1 / (1 + np.exp(-REAL[:, 0])),
    "softmax": SHARES,
    "exp": POSITIVE[:, 0],
    "cube": REAL[:, 0],
    "relaxed_sigmoid": REAL[:, 0],
    "kl": REAL[:, 0],
}
WIDTHS = (0.3, "scale", "median", "neighbors")
KERNELS = [
    ("linear", {}),
    ("poly", {"degree": 2, "coef0": 1.0}),
    *(("rbf", {"gamma": width}) for width in WIDTHS),
]


def test_the_strings_are_all_of_the_promised_ones():
    from regfactor.losses import LOSSES as losses
    from regfactor.losses.divergences import DIVERGENCES as divergences
    from regfactor.losses.transfers import TRANSFERS as transfers
    from regfactor.tables.epca.families import FAMILIES as families

    tried = {
        "LOSSES": (set(LOSSES), set(losses)),
        "FAMILIES": (set(FAMILIES), set(families)),
        "DIVERGENCES": (set(DIVERGENCES), set(divergences)),
        "TRANSFERS": (set(TRANSFERS) - {"mahalanobis"}, set(transfers)),
    }
    for table, (here, registered) in tried.items():
        wrong = sorted(here ^ registered)
        assert not wrong, f"{table} of tests/test_api.py needs a line for each string: {wrong}"


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_is_taken_by_a_subspace(loss):
    X = LOSSES[loss]
    if loss == "kl":  # no gauge keeps predictors positive
        part = penalties.NonNegative()
        model = regfactor.FactorModel(
            loss, on_codes=part, on_components=part, rank=2, random_state=0
        ).fit(X)
    else:
        model = regfactor.ConvexSubspace(loss, alpha=1.0).fit(X)
        assert model.relative_gap_ <= 1e-4
    assert np.isfinite(model.inverse_transform(model.codes_)).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_taken(family):
    model = regfactor.ExponentialFamilyPCA(family=family, random_state=0).fit(FAMILIES[family])
    assert np.isfinite(model.score(FAMILIES[family]))
    assert 0 < model.deviance_explained_ <= 1


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_every_divergence_is_taken_by_every_clustering(divergence):
    X = DIVERGENCES[divergence]
    assert np.isfinite(
        regfactor.BregmanKMeans(3, divergence, random_state=0).fit(X).cluster_centers_
    ).all()
    assert np.isfinite(
        regfactor.BregmanMixture(3, divergence, random_state=0).fit(X).score_samples(X)
    ).all()
    assert set(
        regfactor.BregmanNormalizedCut(3, divergence=divergence, random_state=0).fit_predict(X)
    ) <= {0, 1, 2}


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_every_transfer_is_taken_in_both_directions(transfer):
    y = TRANSFERS[transfer]
    X = POSITIVE if transfer == "kl" else REAL
    seen = np.where((np.arange(24) < 12).reshape((-1,) + (1,) * (y.ndim - 1)), y, np.nan)
    assert np.isfinite(regfactor.ReverseRegressor(transfer).fit(X, seen).predict(X)).all()
    assert set(regfactor.ReverseClassifier(transfer).fit(X, CLASSES).predict(X)) <= {0, 1}
    # a metric of inputs, and inputs >= 0, which forward prediction does not rebuild
    if transfer not in ("mahalanobis", "kl"):
        assert np.isfinite(regfactor.BregmanRegressor(transfer).fit(X, y).predict(X)).all()


@pytest.mark.parametrize(("kernel", "options"), KERNELS)
def test_every_kernel_and_width_is_taken(kernel, options):
    fitted = [
        regfactor.ExponentialFamilyPCA(kernel=kernel, **options).fit(REAL).codes_,
        regfactor.BregmanKMeans(3, kernel=kernel, random_state=0, **options)
        .fit(REAL)
        .transform(REAL),
        regfactor.BregmanRegressor(kernel=kernel, **options).fit(REAL, REAL[:, 0]).predict(REAL),
        regfactor.ReverseRegressor(kernel=kernel, **options).fit(REAL, TARGETS).predict(REAL),
        regfactor.ReverseClassifier(kernel=kernel, **options)
        .fit(REAL, CLASSES)
        .predict_proba(REAL),
        regfactor.ExpectationSVC(kernel=kernel, **options).fit(REAL, CLASSES).predict_proba(REAL),
    ]
    assert all(np.isfinite(out).all() for out in fitted)


LOCAL = {
    "FactorModel": (regfactor.FactorModel(rank=2), ()),
    "ExponentialFamilyPCA": (regfactor.ExponentialFamilyPCA(), ()),
    "BregmanKMeans": (regfactor.BregmanKMeans(2), ()),
    "AutoImputer": (regfactor.AutoImputer(), ()),
    "AutoMixture": (regfactor.AutoMixture(2), ()),
    "BregmanMixture": (regfactor.BregmanMixture(2), ()),
    "BregmanNormalizedCut": (regfactor.BregmanNormalizedCut(2), ()),
    "CanonicalCorrelation": (regfactor.CanonicalCorrelation(), (REAL[:, :2] ** 2,)),
    "ReducedRankRegression": (regfactor.ReducedRankRegression(), (REAL[:, :2] ** 2,)),
    "BregmanRegressor": (regfactor.BregmanRegressor(), (REAL[:, 0],)),
    "ReverseClassifier": (regfactor.ReverseClassifier(), (CLASSES,)),
    "ReverseRegressor": (regfactor.ReverseRegressor(), (TARGETS,)),
    "SNFRegressor": (regfactor.SNFRegressor(), (TARGETS,)),
    "SemiSupervisedRegressor": (regfactor.SemiSupervisedRegressor(), (TARGETS,)),
    "ExpectationSVC": (regfactor.ExpectationSVC(), (CLASSES,)),
}


@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.parametrize("attribute", ["gap_", "relative_gap_", "certificate_"])
def test_a_model_without_a_certificate_says_why(name, attribute):
    model, rest = LOCAL[name]
    with pytest.raises(AttributeError, match="no duality gap"):
        getattr(model.fit(REAL, *rest), attribute)


@pytest.mark.parametrize("name", [name for name in LOCAL if name not in CLOSED])
def test_every_run_tells_how_it_went(name):
    model, rest = LOCAL[name]
    model.fit(REAL, *rest)
    assert np.isfinite(model.objective_)
    assert (
        model.status_.message
        and model.n_iter_ >= 1
        and len(model.history_)
        and isinstance(model.solver_, str)
    )


def test_one_random_state_gives_one_future():
    model = regfactor.RegularizedARMA(p=1, q=1, random_state=3).fit(REAL)
    assert np.array_equal(model.simulate(4), model.simulate(4, random_state=3))


@pytest.mark.parametrize("name", ALSO["rule"])
def test_an_unknown_rule_is_an_error_also_where_alpha_is_given(name):
    rest = {"ConvexFactorClassifier": (CLASSES,), "ConvexFactorRegressor": (TARGETS,)}.get(name, ())
    with pytest.raises(ValueError, match="'rule' parameter .* Got 'best'"):
        getattr(regfactor, name)(rule="best").fit(REAL, *rest)


@pytest.mark.parametrize("home", [regfactor, baselines, timeseries], ids=lambda home: home.__name__)
def test_every_flag_is_declared_as_a_truth_value(home):
    """A word such as "no" would be true; what is declared is refused before a fit."""
    for name in home.__all__:
        kind = getattr(home, name)
        if not isinstance(kind, type):
            continue
        declared = getattr(kind, "_parameter_constraints", {})
        for flag, parameter in inspect.signature(kind).parameters.items():
            if parameter.annotation in (bool, "bool"):
                assert "boolean" in declared[flag], (name, flag)
