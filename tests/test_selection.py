"""Strength and rank chosen by entries held out, and the path that leads there."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from regfactor import (
    ConvexSparseCoding,
    ConvexSubspace,
    FactorModel,
    RobustSubspace,
    SubspaceImputer,
    path,
    solve,
)
from regfactor.core.params import UnsupportedProblem
from regfactor.fitting.selection import StrengthSearch, Trial
from regfactor.losses import Absolute, Huber, Logistic, Softmax, Squared, Stacked
from regfactor.penalties import NonNegative, OneHot, Trace
from regfactor.problems import Convex, Data, Design


def low_rank(n=120, d=40, rank=3, noise=0.3, unobserved=0.4, seed=0):
    """A table with missing entries, the truth behind it, and where the missing entries are."""
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d)) + rng.normal(size=d)
    missing = rng.random(M.shape) < unobserved
    return np.where(missing, np.nan, M + noise * rng.normal(size=M.shape)), M, missing


@pytest.mark.parametrize("loss", [Squared(), Huber(0.5), Absolute()], ids=str)
def test_a_path_is_what_each_strength_alone_gives(loss):
    X, _, _ = low_rank(40, 15)
    problem = Convex(Data.of(X, loss), Trace(), 1.0, design=Design.intercept(len(X)))
    alphas = np.geomspace(0.9, 0.05, 5) * problem.alpha_max()
    solutions = path(problem, alphas, tol=1e-6, max_iter=20_000)
    for alpha, solution in zip(alphas, solutions, strict=True):
        alone = solve(problem.at(alpha), tol=1e-6, max_iter=20_000)
        assert solution.relative_gap <= 1e-6
        assert solution.objective == pytest.approx(alone.objective, rel=2e-6)


def test_starts_along_a_path_save_steps():
    X, _, _ = low_rank(300, 60)
    problem = Convex(Data.of(X, Squared()), Trace(), 1.0)
    alphas = np.geomspace(0.3, 0.1, 8) * problem.alpha_max()
    warm = sum(s.n_iter for s in path(problem, alphas, tol=1e-5))
    cold = sum(solve(problem.at(alpha), tol=1e-5).n_iter for alpha in alphas)
    assert warm < cold


def test_a_split_parts_the_entries():
    X, _, _ = low_rank()
    for data in (Data.of(X, Squared()), Data.of(X, Squared()).compacted()):
        first, second = data.split(0.1, np.random.default_rng(0))
        Z = np.zeros(X.shape) if not data.layout.sparse else None
        at = [np.zeros(len(part.terms[0].x)) if Z is None else Z for part in (data, first, second)]
        values = [part.value(z) for part, z in zip((data, first, second), at, strict=True)]
        assert values[0] == pytest.approx(values[1] + values[2])
        counts = [len(part.losses(z)) for part, z in zip((data, first, second), at, strict=True)]
        assert counts[0] == counts[1] + counts[2]
        assert 0.05 < counts[2] / counts[0] < 0.15


def test_what_stands_for_one_cell_is_held_out_together():
    X, _, _ = low_rank(unobserved=0.0)
    groups = np.repeat(np.arange(10), 4)
    for data in (
        Data.of(X, Squared()),
        Data.of(np.where(np.arange(40) < 8, np.nan, X), Squared()).compacted(),
    ):
        _, held = data.split(0.2, np.random.default_rng(0), groups)
        ones = np.ones(len(held.terms[0].x)) if data.layout.sparse else held.observed.astype(float)
        kept = held.layout.matrix(ones)
        kept = kept.toarray() if data.layout.sparse else kept
        cells = kept.reshape(len(X), 10, 4).sum(axis=2)
        assert set(np.unique(cells)) == {0.0, 4.0}


def test_auto_predicts_what_is_missing_better_than_strengths_that_are_far_off():
    X, M, missing = low_rank()
    auto = ConvexSubspace(alpha="auto", random_state=0).fit(X)
    error = {
        a: np.sqrt(np.mean((ConvexSubspace(alpha=a).fit(X).complete(X) - M)[missing] ** 2))
        for a in (auto.alpha_, auto.alpha_ * 8, auto.alpha_ / 8)
    }
    assert error[auto.alpha_] == min(error.values())
    assert len(auto.alphas_) == len(auto.validation_loss_)
    assert auto.alpha_ == auto.alphas_[np.argmin(auto.validation_loss_)]
    steps = np.diff(np.log(auto.alphas_)) / (np.log(1e-3) / 19)
    np.testing.assert_allclose(steps, steps.round(), atol=1e-6)
    assert steps.min() > 0.5
    assert steps.max() < 3.5
    assert auto.relative_gap_ <= auto.tol


def searched(losses):
    """The search of the least of some losses, one for each strength."""
    search = StrengthSearch(len(losses))
    for place in search.places():
        search.add(place, [Trial(float(len(losses) - place), losses[place], 0.01)])
    return search


@pytest.mark.parametrize("least", range(20))
def test_the_search_of_a_strength_finds_the_least_of_a_valley_in_fewer_steps(least):
    search = searched(np.square(np.arange(20) - least) / 400)
    assert search.best == least
    assert len(search.trials) <= 11
    values = [trial.value for trial in search.ordered]
    assert values == sorted(values, reverse=True)


def test_of_strengths_that_are_as_good_the_largest_is_taken():
    losses = np.concatenate([np.linspace(1.0, 0.5, 10), np.full(10, 0.5 - 1e-6)])
    assert searched(losses).best == 9


def test_a_strength_within_one_standard_error_is_the_largest():
    search = searched(np.square(np.arange(20) - 9) / 400)
    assert search.choice("min") == 9
    assert search.choice("1se") < 9


def test_a_path_of_the_squared_loss_ends_at_full_rank():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) @ rng.normal(size=(5, 5)) + 0.01 * rng.normal(size=(400, 5))
    X[rng.random(X.shape) < 0.2] = np.nan
    model = ConvexSubspace(random_state=0).fit(X)
    assert len(model.components_) <= 5
    full = [
        a for a in model.alphas_ if len(ConvexSubspace(alpha=a, tol=1e-2).fit(X).components_) == 5
    ]
    assert len(full) <= 3


def test_one_standard_error_is_never_weaker():
    X, _, _ = low_rank()
    best, simple = (
        ConvexSubspace(alpha="auto", rule=rule, random_state=0).fit(X) for rule in ("min", "1se")
    )
    assert simple.alpha_ >= best.alpha_
    assert simple.components_.shape[0] <= best.components_.shape[0]


def test_the_seed_decides_what_is_held_out():
    X, _, _ = low_rank()
    one, same, other = (
        ConvexSubspace(alpha="auto", random_state=seed).fit(X) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.validation_loss_, same.validation_loss_)
    assert one.validation_loss_[0] != other.validation_loss_[0]


def test_debiased_the_true_rank_is_found_and_the_error_falls():
    X, M, missing = low_rank(200, 80, rank=4, noise=0.2)
    plain, debiased = (
        ConvexSubspace(alpha="auto", debias=d, random_state=0, scale=False).fit(X)
        for d in (False, True)
    )
    assert (
        debiased.components_.shape[0]
        == debiased.codes_.shape[1]
        == len(debiased.singular_values_)
        == 4
    )
    error = [np.sqrt(np.mean((m.complete(X) - M)[missing] ** 2)) for m in (plain, debiased)]
    assert error[1] < 0.8 * error[0]
    np.testing.assert_allclose(debiased.transform(X), debiased.codes_, atol=1e-6)
    assert debiased.relative_gap_ <= debiased.tol  # of the penalized fit
    np.testing.assert_allclose(np.linalg.norm(debiased.components_, axis=1), 1.0)


def mixed_frame(n=200):
    """Numbers, a count, flags and categories that two factors make, with missing entries; and the frame without them."""
    rng = np.random.default_rng(7)
    a, b = rng.normal(size=(2, n))
    full = pd.DataFrame(
        {
            "income": 3000 * np.exp(0.4 * a),
            "age": 45 + 10 * b + rng.normal(size=n),
            "visits": pd.array(rng.poisson(np.exp(1 + 0.6 * a)), dtype="Int64"),
            "owner": pd.array(a + 0.3 * rng.normal(size=n) > 0, dtype="boolean"),
            "grade": pd.Categorical(
                pd.cut(b, [-9, -0.6, 0.6, 9], labels=["low", "mid", "high"]), ordered=True
            ),
            "note": np.array(["x", "y"])[(b > 0).astype(int)],
        }
    )
    return full.mask(rng.random(full.shape) < 0.12), full


def test_debiased_no_component_is_kept_that_held_out_entries_speak_against():
    frame, full = mixed_frame()
    with pytest.warns(UserWarning, match=r"penalized fit.*debias='prior'"):
        model = SubspaceImputer("auto", alpha="auto", debias=True, random_state=0).fit(frame)
    completed = model.complete(frame)
    for name in ("income", "age", "visits"):
        unobserved = frame[name].isna()
        error, simple = (
            np.sqrt(np.mean((guess - full[name][unobserved].astype(float)) ** 2))
            for guess in (completed[name][unobserved].astype(float), frame[name].mean())
        )
        assert error < 1.1 * simple, name


def test_debiasing_that_helps_is_not_warned_of():
    X, _, _ = low_rank(200, 80, rank=4, noise=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ConvexSubspace(alpha="auto", debias=True, random_state=0).fit(X)


@pytest.mark.parametrize(
    "model",
    [
        ConvexSubspace("huber", alpha="auto"),
        ConvexSubspace([(slice(0, 20), "squared"), (slice(20, 40), "huber")], alpha="auto"),
        RobustSubspace(alpha="auto", beta=0.5),
        FactorModel("squared", gauge=Trace(), alpha="auto"),
        ConvexSparseCoding(alpha="auto"),
    ],
    ids=lambda m: type(m).__name__,
)
def test_every_convex_model_takes_auto(model):
    X, _, _ = low_rank(60, 40)
    model.fit(X)
    assert 0 < model.alpha_ <= model.alpha_max_ * 1.2
    assert len(model.alphas_) >= 2


def test_entries_of_whole_rows_cannot_be_held_out():
    with pytest.raises(UnsupportedProblem, match="whole rows"):
        ConvexSubspace(Softmax(), alpha="auto").fit(np.eye(4))


def test_a_table_of_constants_needs_no_strength():
    model = ConvexSubspace(alpha="auto", random_state=0).fit(np.tile([1.0, 2.0, 3.0], (40, 1)))
    assert model.alpha_max_ == 0 and not len(model.components_) and not hasattr(model, "alphas_")
    np.testing.assert_allclose(model.complete(np.full((1, 3), np.nan)), [[1.0, 2.0, 3.0]])


def test_the_rank_of_a_local_model_is_chosen():
    X, _, _ = low_rank(120, 40, rank=3, noise=0.1, unobserved=0.2)
    model = FactorModel(rank="auto", alpha=0.1, random_state=0).fit(X)
    assert 3 <= model.rank_ <= 5  # the intercepts of the table are one more
    assert model.ranks_[0] == 1 and len(model.ranks_) == len(model.validation_loss_)


def test_the_number_of_clusters_is_chosen():
    rng = np.random.default_rng(0)
    centers = 10 * rng.normal(size=(4, 12))
    X = centers[rng.integers(4, size=200)] + rng.normal(size=(200, 12))
    model = FactorModel(on_codes=OneHot(), rank="auto", random_state=0).fit(X)
    assert model.rank_ >= 3
    assert (
        FactorModel(on_codes=NonNegative(), on_components=NonNegative(), rank="auto", alpha=0.0)
        .fit(np.abs(X[:40]))
        .rank_
        >= 1
    )


def test_a_limited_rank_keeps_its_promise():
    X, _, _ = low_rank(150, 80, rank=6)
    with_limit = ConvexSubspace(alpha=2.0, max_rank=3).fit(X)
    without = ConvexSubspace(alpha=2.0).fit(X)
    assert with_limit.components_.shape[0] == 3 < without.components_.shape[0]
    assert with_limit.objective_ > without.objective_ >= with_limit.certificate_.bound
    assert with_limit.relative_gap_ > with_limit.tol
    np.testing.assert_allclose(with_limit.transform(X), with_limit.codes_, atol=1e-8)
    loose = ConvexSubspace(alpha=2.0, max_rank=60).fit(X)
    assert loose.objective_ == pytest.approx(without.objective_, rel=2e-4)


def test_mixed_losses_are_split_too():
    X, _, _ = low_rank(50, 6)
    X[:, 5] = np.where(np.isnan(X[:, 5]), np.nan, X[:, 5] > 0)
    loss = Stacked(((slice(0, 5), Squared()), ([5], Logistic())))
    first, second = Data.of(X, loss).split(0.2, np.random.default_rng(1))
    both = np.concatenate([part.losses(np.zeros(X.shape)) for part in (first, second)])
    assert len(both) == np.count_nonzero(~np.isnan(X))


def with_gross_errors(X, share, seed=1):
    """A table in which some entries are 10,000 times what they should be."""
    wrong = np.random.default_rng(seed).random(X.shape) < share
    return np.where(wrong, 1e4 * X, X)


@pytest.mark.parametrize("share", [0.02, 0.05])
@pytest.mark.parametrize(
    "model",
    [
        RobustSubspace(alpha="auto", beta=0.6),
        ConvexSubspace(loss="huber", random_state=0),
        ConvexSubspace(loss="absolute", random_state=0),
        SubspaceImputer(loss="huber", random_state=0),
    ],
    ids=["robust", "huber", "absolute", "prior"],
)
def test_gross_errors_do_not_choose_the_strength_under_robust_losses(model, share):
    X, truth, missing = low_rank(160, 15, noise=0.3, unobserved=0.2)
    dirty = with_gross_errors(X, share)

    def error(alpha):
        found = model.set_params(alpha=alpha).fit(dirty).complete(dirty)
        return np.sqrt(np.mean((found - truth)[missing] ** 2))

    # they stay in the fit, as noise of bounded influence, which calls for a greater strength
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = error("auto")
    assert chosen < 0.35 * truth.std()
    others = [error(factor * model.alpha_) for factor in (0.4, 2.0, 4.0)]
    assert chosen < 1.25 * min(others)


def test_gross_errors_of_sparse_tables_do_not_choose_either():
    X, truth, missing = low_rank(160, 30, noise=0.2, unobserved=0.3)
    dirty = with_gross_errors(X, 0.03)
    stored = scipy.sparse.csr_array(np.where(np.isnan(dirty), 0, dirty))
    model = RobustSubspace(alpha="auto", beta=0.5).fit(stored)
    dense = RobustSubspace(alpha="auto", beta=0.5).fit(dirty)
    for fitted in (model, dense):
        Z = fitted.inverse_transform(fitted.codes_)
        error = np.sqrt(np.mean((Z - truth)[missing] ** 2))
        assert error < 0.3 * truth.std()


def test_other_columns_are_left_as_they_are():
    X, _, _ = low_rank(60, 6)
    dirty = X.copy()
    dirty[0, :2] = 1e5
    frame = pd.DataFrame(dirty, columns=list("abcdef"))
    mixed = ConvexSubspace(loss={"a": "huber"}, random_state=0)
    inputs = mixed._read(frame)
    assert inputs.far[0, 0] and inputs.far.sum() == 1
    assert ConvexSubspace(random_state=0)._read(dirty).far is None
    assert ConvexSubspace(loss="huber", alpha=1.0)._read(dirty).far is None
