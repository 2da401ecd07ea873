"""The closed-form two-view recovery against the thesis' boosting, which shares no line with it."""

import numpy as np
import pytest
from boosting import boost, two_view_value

from catalogue import rng
from regfactor.penalties import TwoView

# rows, first view, second view, rank, bounds: eta lies inside (0, 1) in each, as boosting needs
PROBLEMS = [
    (10, 3, 4, 4, (1.0, 1.0)),
    (8, 3, 3, 5, (0.5, 2.0)),
    (12, 4, 4, 6, (1.0, 1.0)),
    (6, 2, 3, 5, (1.0, 1.0)),
    (6, 1, 1, 2, (1.0, 1.0)),
    (6, 1, 1, 2, (2.0, 0.5)),
]
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=str)


def matrix(problem):
    rows, first, second, rank, bounds = problem
    random = rng(rows + rank)
    Z = random.normal(size=(rows, rank)) @ random.normal(size=(rank, first + second))
    return Z * np.repeat(bounds, [first, second]), first, bounds


@every_problem
def test_boosting_factors_exactly_at_the_price_of_the_norm(problem):
    Z, n_first, bounds = matrix(problem)
    value, eta = two_view_value(Z, n_first, bounds)
    assert 1e-3 < eta < 1 - 1e-3
    Phi, C = boost(Z, n_first, bounds)
    np.testing.assert_allclose(Phi @ C, Z, atol=1e-8 * np.abs(Z).max())
    assert np.linalg.norm(Phi, axis=0).sum() == pytest.approx(value, rel=1e-8)
    assert np.linalg.norm(C[:, :n_first], axis=1).max() <= bounds[0] * (1 + 1e-8)
    assert np.linalg.norm(C[:, n_first:], axis=1).max() <= bounds[1] * (1 + 1e-8)


@every_problem
def test_the_closed_form_pays_what_boosting_pays_with_fewer_atoms(problem):
    Z, n_first, bounds = matrix(problem)
    Phi, C = boost(Z, n_first, bounds)
    gauge = TwoView(n_first, bounds)
    factors = gauge.recover(Z)
    np.testing.assert_allclose(factors.dense(), Phi @ C, atol=1e-8 * np.abs(Z).max())
    assert gauge.cost(factors) == pytest.approx(np.linalg.norm(Phi, axis=0).sum(), rel=1e-8)
    assert factors.rank == problem[3] <= len(C)


@every_problem
def test_value_and_weight_agree_with_a_plain_search(problem):
    Z, n_first, bounds = matrix(problem)
    value, eta = two_view_value(Z, n_first, bounds)
    gauge = TwoView(n_first, bounds)
    assert gauge.value(Z) == pytest.approx(value, rel=1e-10)
    assert gauge.eta(Z) == pytest.approx(eta, abs=1e-6)
