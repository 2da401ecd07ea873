"""What users are told: a warning points at their own line, an error names their columns and parameters."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from regfactor import (
    BregmanKMeans,
    BregmanMixture,
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
HOLES = np.where(np.arange(60)[:, None] == 3, np.nan, X)
PIECES = np.vstack([X[:20], X[:20] + 100])
SHORT = {"max_iter": 1, "tol": 0}
exposed = ExponentialFamilyPCA(1, "bernoulli").fit(BITS, offset=np.zeros(30))
WARNINGS = {
    "mixture": lambda: BregmanMixture(3, random_state=0, **SHORT).fit(X),
    "k-means": lambda: BregmanKMeans(3, random_state=0, **SHORT).fit(X),
    "folds": lambda: cross_val_score(BregmanKMeans(3, random_state=0, **SHORT), X, cv=2),
    "unbounded": lambda: ExponentialFamilyPCA(3, "bernoulli", alpha=0.0, max_iter=2).fit(BITS),
    "empty row": lambda: ExponentialFamilyPCA(1).fit(HOLES),
    "fit_transform": lambda: ExponentialFamilyPCA(1, "bernoulli", max_iter=1).fit_transform(BITS),
    "wrapped transform": lambda: exposed.transform(BITS),
    "score": lambda: exposed.score(BITS),
    "factor model": lambda: FactorModel("huber", **SHORT).fit(X),
    "empty row of a factor model": lambda: FactorModel().fit(HOLES),
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
    "losses by place": ConvexSubspace([([0, 1, 2], "squared"), ([3], "poisson")]),
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
        ConvexSubspace([([0, 1, 2], "squared"), ([3], "poisson")]).fit(BAD.to_numpy())


@pytest.mark.parametrize(
    "model", [ConvexSubspace("logistic"), ExponentialFamilyPCA(1, "bernoulli"), BregmanKMeans(2, "bernoulli")]
)
def test_answers_coded_one_and_two_are_no_counts(model):
    with pytest.raises(ValueError, match="two values, 1 and 2: code them 0 and 1"):
        model.fit(BITS + 1)


def test_more_levels_than_an_ordinal_loss_has_are_counted():
    with pytest.raises(ValueError, match=r"Ordinal\(levels=8\)"):
        ConvexSubspace("ordinal").fit(np.arange(40).reshape(10, 4) % 8)
