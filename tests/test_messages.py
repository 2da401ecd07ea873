"""What users are told: a warning points at their own line, an error names their columns and parameters."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from regfactor import (
    BregmanKMeans,
    BregmanMixture,
    BregmanNormalizedCut,
    CanonicalCorrelation,
    ConvexSubspace,
    ExponentialFamilyPCA,
    FactorModel,
    KernelSubspace,
    ReverseClassifier,
    RobustSubspace,
    SubspaceImputer,
    kernels,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
BITS = (rng.random((30, 6)) < 0.5) * 1.0
LABELS = np.r_[0, 1, np.full(58, -1)]
ROW_MISSING = np.where(np.arange(60)[:, None] == 3, np.nan, X)
PIECES = np.vstack([X[:20], X[:20] + 100])
SHORT = {"max_iter": 1, "tol": 0}
exposed = ExponentialFamilyPCA(1, "bernoulli").fit(BITS, offset=np.zeros(30))
WARNINGS = {
    "mixture": lambda: BregmanMixture(3, random_state=0, **SHORT).fit(X),
    "k-means": lambda: BregmanKMeans(3, random_state=0, **SHORT).fit(X),
    "folds": lambda: cross_val_score(BregmanKMeans(3, random_state=0, **SHORT), X, cv=2),
    "unbounded": lambda: ExponentialFamilyPCA(3, "bernoulli", alpha=0.0, max_iter=2).fit(BITS),
    "empty row": lambda: ExponentialFamilyPCA(1).fit(ROW_MISSING),
    "fit_transform": lambda: ExponentialFamilyPCA(1, "bernoulli", max_iter=1).fit_transform(BITS),
    "wrapped transform": lambda: exposed.transform(BITS),
    "score": lambda: exposed.score(BITS),
    "factor model": lambda: FactorModel("huber", **SHORT).fit(X),
    "empty row of a factor model": lambda: FactorModel().fit(ROW_MISSING),
    "imputer": lambda: SubspaceImputer("huber", **SHORT).fit(X),
    "robust": lambda: RobustSubspace(**SHORT).fit(X),
    "isomap": lambda: KernelSubspace(kernels.Isomap(2)).fit(PIECES),
    "gram": lambda: kernels.Isomap(2).gram(PIECES),
    "laplacian": lambda: KernelSubspace(kernels.Laplacian(2)).fit_transform(PIECES),
    "correlation": lambda: CanonicalCorrelation(1).fit(np.ones((20, 2)), X[:20]),
    "classes": lambda: ReverseClassifier(**SHORT).fit(X, LABELS),
}


@pytest.mark.parametrize("call", WARNINGS.values(), ids=WARNINGS)
def test_a_warning_points_at_the_line_of_the_user(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert caught
    assert {(w.filename, w.lineno) for w in caught} == {(__file__, call.__code__.co_firstlineno)}


FRAME = pd.DataFrame(np.abs(X), columns=["age", "cost", "stay", "visits"]).round(1)
BAD = FRAME.assign(visits=X[:, 3])
LEGAL = {
    "divergence": BregmanKMeans(2, "kl"),
    "family": ExponentialFamilyPCA(1, "poisson"),
    "loss": ConvexSubspace("poisson"),
    "losses by place": ConvexSubspace(
        [([0, 1, 2], "squared"), ([3], "poisson")], alpha=1.0, scale=False
    ),
    "losses by name": ConvexSubspace({"visits": "poisson"}),
}


@pytest.mark.parametrize("model", LEGAL.values(), ids=LEGAL)
def test_illegal_values_are_told_by_the_name_of_their_column(model):
    expected = f"column 'visits': {(BAD['visits'] < 0).sum()} of 60 values"
    for call in (clone(model).fit, clone(model).fit(FRAME).transform):
        with pytest.raises(ValueError, match=expected) as raised:
            call(BAD)
        assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_illegal_values_without_a_name_are_told_by_their_place_in_the_table():
    with pytest.raises(ValueError, match="column 3: "):
        ConvexSubspace([([0, 1, 2], "squared"), ([3], "poisson")], alpha=1.0, scale=False).fit(
            BAD.to_numpy()
        )


@pytest.mark.parametrize(
    "model",
    [
        ConvexSubspace("logistic"),
        ExponentialFamilyPCA(1, "bernoulli"),
        BregmanKMeans(2, "bernoulli"),
    ],
)
def test_answers_coded_one_and_two_are_no_counts(model):
    with pytest.raises(ValueError, match="two values, 1 and 2: code them 0 and 1"):
        model.fit(BITS + 1)


def test_more_levels_than_an_ordinal_loss_has_are_counted():
    with pytest.raises(ValueError, match=r"Ordinal\(levels=8\)"):
        ConvexSubspace("ordinal").fit(np.arange(40).reshape(10, 4) % 8)


DATED = pd.DataFrame({name: pd.date_range("2024-01-31", periods=20) for name in ("start", "end")})
MESSAGES = {
    "weights": (
        lambda: FactorModel().fit(X, entry_weight=-np.ones_like(X)),
        "entry_weight must be finite and not neg",
    ),
    "no weights": (
        lambda: ExponentialFamilyPCA(1).fit(X, entry_weight=0 * X),
        "entry_weight must not be zero at every",
    ),
    "affinity": (lambda: BregmanNormalizedCut(2, affinity="foo").fit(X), "Unknown affinity 'foo'"),
    "no string": (
        lambda: KernelSubspace("isomap").fit(X),
        r"write kernel=regfactor.kernels.Isomap\(\)",
    ),
    "large": (
        lambda: KernelSubspace().fit(1e200 * X),
        "Column 0 of X holds values of size",
    ),
    "widths": (
        lambda: kernels.Gaussian(1.0).gram(X, X[:, :2]),
        "Rows have 4 columns and the reference rows 2",
    ),
    "masked": (
        lambda: KernelSubspace().fit(np.ma.masked_less(X, 0)),
        "Input X contains NaN, and KernelSubspace",
    ),
    "dates": (
        lambda: BregmanKMeans(2).fit(DATED),
        "Column 'start' of X holds 2024-01-31.*such as days since",
    ),
    "dates of polars": (
        lambda: KernelSubspace().fit(pl.from_pandas(DATED)),
        "Column 'start' of X holds 2024-01-31",
    ),
    "dates in an array": (
        lambda: ExponentialFamilyPCA(1).fit(DATED.to_numpy()),
        "Column 0 of X holds 2024-01-31",
    ),
}


@pytest.mark.parametrize(("call", "told"), MESSAGES.values(), ids=MESSAGES)
def test_an_error_names_what_the_user_gave(call, told):
    with pytest.raises(ValueError, match=told):
        call()


def test_affinities_to_training_rows_are_refused_like_those_among_them():
    K = kernels.Gaussian(1.0).gram(X)
    model = BregmanNormalizedCut(2, affinity="precomputed", random_state=0).fit(K)
    assert set(model.predict(K[:5])) <= {0, 1}
    for table in (-K[:5], scipy.sparse.csr_array(-K[:5])):
        with pytest.raises(ValueError, match="Affinities must not be negative"):
            model.predict(table)


def test_centers_in_a_feature_space_have_no_coordinates():
    model = BregmanKMeans(2, kernel="rbf", random_state=0).fit(X)
    assert not hasattr(model, "cluster_centers_") and not hasattr(
        BregmanKMeans(), "cluster_centers_"
    )
    with pytest.raises(AttributeError, match="feature space"):
        print(model.cluster_centers_)


@pytest.mark.parametrize("loss", ["squared", "auto"])
@pytest.mark.parametrize("dtype", [float, np.float32, int])
def test_what_is_masked_is_missing(loss, dtype):
    values = (10 * X).astype(dtype)
    masked = np.ma.masked_array(values, rng.random(X.shape) < 0.2)
    unobserved = np.where(masked.mask, np.nan, values)
    one, two = (
        SubspaceImputer(loss, alpha=1.0, debias=False, scale=False).fit(table)
        for table in (masked, unobserved)
    )
    np.testing.assert_array_equal(one.codes_, two.codes_)
    np.testing.assert_array_equal(one.transform(masked), two.transform(unobserved))


@pytest.mark.parametrize("estimator", [BregmanKMeans, BregmanMixture])
def test_clusters_take_masked_entries_as_missing(estimator):
    masked = np.ma.masked_less(X, -1)
    missing = np.where(masked.mask, np.nan, X)
    one = estimator(2, random_state=0).fit(masked)
    two = estimator(2, random_state=0).fit(missing)
    np.testing.assert_array_equal(one.predict(masked), two.predict(missing))
