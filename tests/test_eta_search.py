"""The search for eta: what moves it, what may mislead it, and the point that a weak view needs."""

from dataclasses import replace

import numpy as np
import pytest

from regfactor.core.factors import Factors
from regfactor.losses import Huber, Squared
from regfactor.penalties import Trace, TwoView
from regfactor.problems import Convex, Data
from regfactor.solvers import FactoredFista, solve
from regfactor.solvers.admm import Splitting
from regfactor.solvers.eta_search import _Bracket
from regfactor.solvers.factored_fista import Descent, Mix


def nearest(search, step, root, moves=12):
    """Return how near some moves come to the root, given the plain step at every logit."""
    distances = []
    for _ in range(moves):
        search.move(np.exp(search.logit + step(search.logit)), 1.0)
        distances.append(abs(search.logit - root))
    return min(distances)


@pytest.mark.parametrize("slope", [0.1, 0.9, 1.0, 1.5, 1.97, 2.5])
@pytest.mark.parametrize("root", [-3.0, 0.3, 6.0])
def test_steps_that_creep_or_swing_come_to_the_root(slope, root):
    assert nearest(_Bracket(), lambda x: slope * (root - x), root) < 1e-2


@pytest.mark.parametrize("root", [5.0, -5.0])
def test_an_end_set_by_mistake_is_given_up(root):
    search = _Bracket()
    search.low, search.high = sorted((-6 * root, root / 5))
    assert nearest(search, lambda x: root - x, root) < 1e-2
    assert search.patience < _Bracket().patience


def weak_view(seed):
    """A strong view of low rank next to a weak one of full rank, whose bound leaves it room: eta is near an end."""
    rng = np.random.default_rng(seed)
    strong = 30 * rng.normal(size=(40, 3)) @ rng.normal(size=(3, 12))
    X = np.hstack([strong, rng.normal(size=(40, 12))])
    problem = Convex(Data.of(X, Huber(1.0)), TwoView(12, (0.3, 5.0)), 1.0)
    return problem.at(0.1 * problem.alpha_max())


@pytest.mark.parametrize("seed", [1, 2])
def test_a_weak_view_of_full_rank_is_certified(seed):
    problem = weak_view(seed)
    found = solve(problem, tol=1e-6, max_iter=4000)
    F = found.point.factors
    assert found.relative_gap <= 1e-6
    assert found.objective == pytest.approx(problem.objective(F), rel=1e-12)
    assert problem.bound(found.point.dual).value <= found.objective


def test_the_loss_step_stands_for_a_point_that_misses_directions():
    problem = weak_view(1)
    inner = replace(problem, gauge=problem.gauge.at(0.9997, 24))
    split = Splitting(inner, inner.null, 1.6)
    for _ in range(12):
        split.advance(5)
        F, B, objective, bound = split.examine_both()
    assert split.use_loss_step
    assert F.rank > split.F.rank
    assert objective == pytest.approx(inner.objective(F, B), rel=1e-10)
    assert bound.value <= objective < split.examine()[2]


def test_all_directions_are_thresholded_alike_by_gram_and_by_decomposition():
    X = np.random.default_rng(0).normal(size=(30, 8))
    problem = Convex(Data.of(X, Squared()), Trace(), 0.5)
    descent = Descent(problem, None, FactoredFista())
    assert descent.block.shape == (8, 8)
    W = Mix((Factors(X, np.eye(8)),), (1.0,)) @ descent.block
    found, block = descent._threshold_all(W)
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    expected = (U * np.maximum(s - descent.tau * 0.5, 0)) @ Vt
    np.testing.assert_allclose(found.dense(), expected, atol=1e-10)
    np.testing.assert_allclose(block.T @ block, np.eye(8), atol=1e-12)
