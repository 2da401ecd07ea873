"""Arrays of three and more modes: the optimum by cvxpy, its bound, completion, new samples, clear errors."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from regfactor import TensorSubspace
from regfactor.losses import Huber, Poisson, Squared
from regfactor.solvers import solve
from regfactor.tables.consensus_admm import OverlappedTrace, canonical, fold, unfold

LOSSES = {"squared": Squared(), "huber": Huber(0.5)}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def small(missing=0.25):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3, 4, 3)) + np.einsum(
        "i,j,k->ijk", *(rng.normal(size=d) for d in (3, 4, 3))
    )
    return np.where(rng.random(X.shape) < missing, np.nan, X)


def low_rank(shape=(20, 8, 7), rank=2, noise=0.05, seed=1):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rank,) * len(shape))
    for mode, size in enumerate(shape):
        Z = np.moveaxis(np.tensordot(rng.normal(size=(size, rank)), Z, axes=(1, mode)), 0, mode)
    return Z + noise * rng.normal(size=shape)


def with_missing(X, share=0.4, seed=2):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def test_folding_is_the_inverse_of_unfolding():
    A = np.arange(120.0).reshape(2, 3, 4, 5)
    for mode in range(4):
        M = unfold(A, mode)
        np.testing.assert_array_equal(M[1], A.take(1, axis=mode).ravel())
        np.testing.assert_array_equal(fold(M, mode, A.shape), A)


@every_loss
@pytest.mark.parametrize("alpha", [0.1, 0.4])
@pytest.mark.parametrize("intercept", [False, True], ids=["without", "intercept"])
def test_the_optimum_is_that_of_cvxpy(loss, alpha, intercept):
    cp = pytest.importorskip("cvxpy")
    X = small()
    observed = ~np.isnan(X)
    z = cp.Variable(X.size)
    places = np.arange(X.size).reshape(X.shape)
    norms = 0
    for mode in range(3):
        index = unfold(places, mode)
        norms += cp.normNuc(cp.vstack([z[row] for row in index]))
    residual = z[places[observed]] - X[observed]
    if intercept:
        position = np.broadcast_to(np.arange(12).reshape(4, 3), X.shape)
        residual = residual + cp.Variable(12)[position[observed]]
    if isinstance(loss, Huber):
        fit = cp.sum(cp.huber(residual, loss.delta)) / 2
    else:
        fit = cp.sum_squares(residual) / 2
    expected = cp.Problem(cp.Minimize(fit + alpha * norms)).solve(solver="SCS", eps=1e-7)
    solution = solve(OverlappedTrace(X, loss, alpha, intercept), tol=1e-7, max_iter=20_000)
    assert solution.status.converged
    assert solution.objective == pytest.approx(expected, rel=1e-4)
    assert solution.bound <= solution.objective
    assert solution.bound <= expected * (1 + 1e-5)
    assert solution.bound == pytest.approx(expected, rel=1e-4)


@every_loss
@pytest.mark.parametrize("intercept", [False, True], ids=["without", "intercept"])
def test_every_bound_is_below_every_objective(loss, intercept):
    rng = np.random.default_rng(3)
    problem = OverlappedTrace(small(), loss, 0.3, intercept)
    optimum = solve(problem, tol=1e-9, max_iter=50_000).objective
    for _ in range(30):  # whatever the arrays that are made feasible
        duals = tuple(rng.exponential() * rng.normal(size=problem.X.shape) for _ in range(3))
        found = problem.bound(duals)
        assert found.value <= optimum + 1e-9
        total = sum(found.duals)
        np.testing.assert_allclose(total[~problem.observed], 0, atol=1e-12)
        if intercept:
            np.testing.assert_allclose(total.sum(axis=0), 0, atol=1e-12)
        for mode, dual in enumerate(found.duals):
            assert np.linalg.norm(unfold(dual, mode), 2) <= 0.3 * (1 + 1e-12)


@every_loss
def test_the_objective_is_that_of_the_published_array(loss):
    X = with_missing(low_rank())
    model = TensorSubspace(alpha=0.5, loss=loss).fit(X)
    Z = np.tensordot(model.codes_, model.components_, axes=1)
    observed = ~np.isnan(X)
    value = loss.value(Z[observed], (X - model.intercept_)[observed]).sum()
    norms = sum(np.linalg.norm(unfold(Z, mode), "nuc") for mode in range(3))
    assert model.objective_ == pytest.approx(value + 0.5 * norms, rel=1e-9)
    assert 0 <= model.relative_gap_ <= 1e-4 and model.certificate_.rigorous


def test_from_the_largest_strength_on_there_is_no_component():
    X = with_missing(low_rank())
    largest = TensorSubspace(alpha=1.0).fit(X).alpha_max_
    with pytest.warns(UserWarning, match="no component"):
        none = TensorSubspace(alpha=largest * (1 + 1e-9)).fit(X)
    assert none.codes_.shape == (20, 0) and abs(none.relative_gap_) <= 1e-9
    full = none.complete(X)
    missing = np.isnan(X)
    np.testing.assert_array_equal(full[missing], np.broadcast_to(none.intercept_, X.shape)[missing])


def test_the_tucker_form_is_that_of_the_components():
    model = TensorSubspace(alpha=1.0).fit(with_missing(low_rank()))
    first, second = model.mode_components_
    for U in (first, second):
        np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-9)
    np.testing.assert_allclose(
        np.einsum("rab,ja,kb->rjk", model.core_, first, second), model.components_, atol=1e-12
    )
    flat = unfold(model.components_, 0)
    np.testing.assert_allclose(flat @ flat.T, np.eye(len(flat)), atol=1e-7)
    gram = model.codes_.T @ model.codes_
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-7 * gram.max())


def test_the_canonical_form_keeps_the_array():
    point = solve(OverlappedTrace(small(), Squared(), 0.3)).point
    np.testing.assert_allclose(canonical(point).dense(), point.dense(), atol=1e-9)


@every_loss
@pytest.mark.parametrize("shape", [(20, 6, 5), (10, 4, 3, 2)], ids=["three", "four"])
def test_training_samples_have_the_codes_of_the_fit(loss, shape):
    X = with_missing(low_rank(shape), 0.2)
    model = TensorSubspace(alpha=0.5, loss=loss, tol=1e-6, max_iter=5000).fit(X)
    size = np.abs(model.codes_).max()
    np.testing.assert_allclose(model.transform(X), model.codes_, atol=1e-3 * size)
    np.testing.assert_allclose(model.transform(X[3:5]), model.transform(X)[3:5], atol=1e-9 * size)


def test_completion_keeps_what_was_observed_and_beats_the_means():
    truth = low_rank()
    X = with_missing(truth)
    before = X.copy()
    model = TensorSubspace(random_state=0).fit(X)
    full = model.complete(X)
    missing = np.isnan(X)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(full[~missing], X[~missing])
    assert np.isfinite(full).all()
    means = np.broadcast_to(np.nanmean(X, axis=0), X.shape)
    error = np.sqrt(np.mean((full - truth)[missing] ** 2))
    assert error < 0.2 * np.sqrt(np.mean((means - truth)[missing] ** 2))
    assert model.alpha_ in model.alphas_ and len(model.alphas_) == len(model.validation_loss_)
    assert model.alpha_ == model.alphas_[model.validation_loss_.argmin()]


def test_new_samples_are_completed():
    truth = low_rank((40, 8, 7))
    X = with_missing(truth)
    model = TensorSubspace(random_state=0).fit(X[:30])
    missing = np.isnan(X[30:])
    full = model.complete(X[30:])
    means = np.broadcast_to(np.nanmean(X[:30], axis=0), full.shape)
    error = np.linalg.norm((full - truth[30:])[missing])
    assert error < 0.3 * np.linalg.norm((means - truth[30:])[missing])


def test_the_huber_loss_withstands_gross_errors():
    truth = low_rank()
    X = with_missing(truth)
    wrong = np.random.default_rng(5).random(X.shape) < 0.05
    X = np.where(wrong, X + 40, X)
    missing = np.isnan(X)
    errors = {}
    for name, loss in {"squared": "squared", "huber": Huber(0.3)}.items():
        full = TensorSubspace(loss=loss, random_state=0).fit(X).complete(X)
        errors[name] = np.linalg.norm((full - truth)[missing])
    assert errors["huber"] < 0.5 * errors["squared"]


def test_results_follow_the_units():
    X = with_missing(low_rank((10, 5, 4)))
    one = TensorSubspace(random_state=0).fit(X)
    other = TensorSubspace(random_state=0).fit(1000 * X)
    np.testing.assert_allclose(other.complete(1000 * X), 1000 * one.complete(X), rtol=1e-5)
    assert other.alpha_ == pytest.approx(1000 * one.alpha_)


def test_without_an_intercept_there_is_no_offset():
    X = with_missing(low_rank()) + 3
    model = TensorSubspace(alpha=0.5, fit_intercept=False).fit(X)
    np.testing.assert_array_equal(model.intercept_, 0)


def test_samples_and_positions_without_an_entry_are_filled():
    X = with_missing(low_rank(), 0.2)
    X[4] = np.nan
    X[:, 2, 3] = np.nan
    model = TensorSubspace(alpha=0.5).fit(X)
    full = model.complete(X)
    assert np.isfinite(full).all()
    np.testing.assert_allclose(full[4], model.intercept_, atol=1e-3)


def test_an_array_without_variation_has_no_component():
    with pytest.warns(UserWarning, match="no component"):
        model = TensorSubspace().fit(np.full((4, 3, 2), 7.0))
    np.testing.assert_array_equal(model.complete(np.full((2, 3, 2), np.nan)), 7.0)


def test_float32_and_masked_arrays():
    X = with_missing(low_rank((10, 5, 4)))
    model = TensorSubspace(alpha=0.5).fit(X.astype(np.float32))
    assert model.transform(X.astype(np.float32)).dtype == np.float32
    assert model.complete(X.astype(np.float32)).dtype == np.float32
    masked = np.ma.masked_invalid(X)
    np.testing.assert_array_equal(
        TensorSubspace(alpha=0.5).fit(masked).codes_, TensorSubspace(alpha=0.5).fit(X).codes_
    )


def test_clones_and_pickles():
    X = with_missing(low_rank((10, 5, 4)))
    model = TensorSubspace(alpha=0.5).fit(X)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    with pytest.raises(NotFittedError):
        clone(model).transform(X)
    np.testing.assert_array_equal(clone(model).fit_transform(X), model.codes_)


def test_blocks_of_columns_change_nothing(monkeypatch):
    X = with_missing(low_rank())
    model = TensorSubspace(alpha=0.5).fit(X)
    codes = model.transform(X)
    monkeypatch.setattr("regfactor.tables.tensor_subspace.BLOCK_ELEMENTS", 100)
    np.testing.assert_allclose(model.transform(X), codes, atol=1e-9)


def test_a_search_that_the_time_limit_ends_says_so():
    X = with_missing(low_rank())
    with (
        pytest.warns(ConvergenceWarning, match="after 1 of 10 strengths"),
        pytest.warns(UserWarning, match="no component"),
    ):
        model = TensorSubspace(time_limit=0.0, random_state=0).fit(X)
    assert len(model.alphas_) == 1


def test_a_run_that_ends_early_says_so():
    X = with_missing(low_rank())
    with pytest.warns(ConvergenceWarning, match="Relative gap"):
        model = TensorSubspace(alpha=0.05, max_iter=5).fit(X)
    assert model.gap_ > 0


GOOD = np.arange(24.0).reshape(2, 3, 4)
BAD = {
    "table": (np.ones((3, 4)), "3 or more modes.*ConvexSubspace"),
    "missing": (np.full((2, 3, 4), np.nan), "no observed entry"),
    "words": (np.full((2, 3, 4), "a"), "must hold numbers"),
    "objects": (np.full((2, 3, 4), "a", object), "must hold numbers"),
    "complex": (GOOD * 1j, "must hold numbers"),
    "infinite": (np.where(GOOD == 5, np.inf, GOOD), r"infinity, first at \(0, 1, 1\)"),
    "empty": (np.ones((0, 3, 4)), "no entry"),
    "huge": (1e200 * GOOD, "whose squares"),
    "single": (np.where(GOOD == 5, GOOD, np.nan), "give a number"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_fitted_is_refused(name):
    X, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        TensorSubspace(fit_intercept=False).fit(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "'alpha' parameter"),
        ({"alpha": "noise"}, "'alpha' parameter"),
        ({"loss": "poisson"}, "'squared', 'huber'"),
        ({"loss": Poisson()}, "'squared', 'huber'"),
        ({"loss": "hubber"}, "huber"),
        ({"fit_intercept": "no"}, "'fit_intercept' parameter .* True or False"),
    ],
    ids=str,
)
def test_parameters_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        TensorSubspace(**options).fit(GOOD)


def test_samples_of_another_shape_are_refused():
    model = TensorSubspace(alpha=0.5).fit(with_missing(low_rank((10, 5, 4))))
    with pytest.raises(ValueError, match=r"samples of shape \(4, 5\)"):
        model.transform(np.ones((2, 4, 5)))
    with pytest.raises(ValueError, match="3 or more modes"):
        model.complete(np.ones((5, 4)))


def test_a_strength_whose_square_vanishes_is_refused():
    with pytest.raises(ValueError, match="alpha=1e-300 is too small"):
        TensorSubspace(alpha=1e-300).fit(small())


def test_intervals_cover_missing_entries():
    covered = []
    for seed in range(3):
        X = low_rank(noise=0.3, seed=seed)
        seen = with_missing(X, 0.3, seed)
        low, high = TensorSubspace(random_state=seed).fit(seen).complete_interval(seen, level=0.9)
        missing = np.isnan(seen)
        np.testing.assert_array_equal(low[~missing], X[~missing])
        covered.append(((low <= X) & (X <= high))[missing].mean())
    assert 0.85 <= np.mean(covered) <= 0.96


def test_intervals_need_held_out_entries():
    X = with_missing(low_rank())
    with pytest.raises(ValueError, match="alpha='auto'"):
        TensorSubspace(alpha=1.0).fit(X).complete_interval(X)
    with pytest.raises(ValueError, match="level"):
        TensorSubspace().fit(X).complete_interval(X, level=2.0)
