"""What users are told: a warning points at their own line, an error names their columns and parameters."""

import warnings

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from regfactor import (
    BregmanKMeans,
    BregmanMixture,
    CanonicalCorrelation,
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
