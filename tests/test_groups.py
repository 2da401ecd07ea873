"""Hard codes with any loss that has a best number for a group: medians and means, with missing entries and weights."""

import numpy as np
import pytest

from regfactor import FactorModel
from regfactor.losses import KL, Absolute, Gamma, Squared
from regfactor.penalties import OneHot


def table(seed=0, missing=0.2):
    rng = np.random.default_rng(seed)
    centers = 1.0 + 9.0 * np.eye(3, 6) + 4.0 * np.eye(3, 6, 3)
    X = centers[np.repeat(np.arange(3), 20)] * rng.gamma(20.0, 1 / 20.0, size=(60, 6))
    weights = rng.integers(1, 4, size=X.shape).astype(float)
    return np.where(rng.random(X.shape) < missing, np.nan, X), weights


@pytest.mark.parametrize("loss", [Absolute(), Squared(), KL(), Gamma()], ids=str)
def test_no_other_number_is_better_for_a_group(loss):
    X, weights = table()
    model = FactorModel(loss, on_codes=OneHot(), rank=3, random_state=0, tol=1e-12).fit(
        X, entry_weight=weights
    )
    labels, seen = model.codes_.argmax(axis=1), ~np.isnan(X)
    for j in range(3):
        for c in range(X.shape[1]):
            at = seen[:, c] & (labels == j)
            x, w, best = X[at, c], weights[at, c], model.components_[j, c]

            def cost(z, x=x, w=w):
                return float(w @ loss.value(np.full(len(x), z), x))

            assert all(cost(best) <= cost(best * f) + 1e-9 for f in (0.9, 0.999, 1.001, 1.1))


def test_k_medians_are_those_of_their_groups():
    X, _ = table(missing=0.0)
    model = FactorModel("absolute", on_codes=OneHot(), rank=3, random_state=0, tol=1e-12).fit(X)
    labels = model.codes_.argmax(axis=1)
    costs = [
        np.abs(X[labels == j] - np.median(X[labels == j], axis=0)).sum() for j in np.unique(labels)
    ]
    np.testing.assert_allclose(model.objective_, sum(costs))


def test_a_group_without_an_observed_entry_keeps_a_finite_number():
    X, _ = table(missing=0.0)
    X[:20, 2] = np.nan
    model = FactorModel("absolute", on_codes=OneHot(), rank=3, random_state=0).fit(X)
    assert np.isfinite(model.components_).all() and np.isfinite(model.complete(X)).all()
