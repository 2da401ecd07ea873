"""Codes under a normal prior of their own second moments: the posterior mean of probabilistic PCA and its like."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from regfactor import ConvexSubspace, SubspaceImputer
from regfactor.core.params import UnsupportedProblem
from regfactor.fitting.scoring import Scoring
from regfactor.fitting.selection import with_prior
from regfactor.losses import Logistic, Softmax, Squared
from regfactor.penalties import SquaredL2, Trace
from regfactor.problems import Design
from regfactor.problems.convex import convex
from regfactor.solvers import solve


def low_rank(n=80, d=15, rank=3, noise=0.3, unobserved=0.3, seed=0):
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d)) + rng.normal(size=d)
    missing = rng.random(M.shape) < unobserved
    return np.where(missing, np.nan, M + noise * rng.normal(size=M.shape)), M, missing


def conditional_means(X, C, mean, variances, noise):
    """E[z | observed entries] for z = mean + phi C, phi ~ N(0, variances), x = z + N(0, noise by columns)."""
    signal, out = C.T @ (variances[:, None] * C), np.empty(X.shape)
    for row, x in enumerate(X):
        seen = ~np.isnan(x)
        total = signal[np.ix_(seen, seen)] + np.diag(noise[seen])
        out[row] = mean + signal[:, seen] @ np.linalg.solve(total, (x - mean)[seen])
    return out


def test_scored_rows_are_conditional_gaussian_means():
    X, _, _ = low_rank()
    rng = np.random.default_rng(1)
    C, mean, deviations = (
        rng.normal(size=(6, 15)),
        rng.normal(size=15),
        10.0 ** rng.uniform(-4, 2, 6),
    )
    weights, t = rng.uniform(0.2, 3, 15), 0.4
    codes = Scoring(Squared(), SquaredL2(), 1.0, weights).with_prior(deviations, t)(X, C, mean)
    expected = conditional_means(
        X, C, mean, deviations**2, t / weights
    )  # a weight divides the variance of the noise
    np.testing.assert_allclose(codes @ C + mean, expected, atol=1e-8)


def test_components_that_no_code_used_are_not_used():
    X, _, _ = low_rank()
    C = np.random.default_rng(1).normal(size=(3, 15))
    score = Scoring(Squared(), SquaredL2(), 1.0)
    codes = score.with_prior(np.array([1.0, 0.0, 2.0]), 0.1)(X, C, np.zeros(15))
    np.testing.assert_array_equal(codes[:, 1], 0)
    alone = score.with_prior(np.array([1.0, 2.0]), 0.1)(X, C[[0, 2]], np.zeros(15))
    np.testing.assert_allclose(codes[:, [0, 2]], alone, atol=1e-10)


@pytest.mark.parametrize("alpha", ["auto", 3.0])
def test_a_fit_predicts_the_means_of_the_gaussian_that_it_states(alpha):
    X, M, missing = low_rank()
    model = ConvexSubspace(alpha=alpha, debias="prior", random_state=0, scale=False).fit(X)
    variances, noise = model.singular_values_**2 / len(X), np.full(X.shape[1], model.prior_)
    expected = conditional_means(X, model.components_, model.intercept_, variances, noise)
    np.testing.assert_allclose(model.inverse_transform(model.codes_), expected, atol=1e-8)
    np.testing.assert_allclose(model.complete(X)[missing], expected[missing], atol=1e-8)
    np.testing.assert_allclose(model.transform(X), model.codes_, atol=1e-10)


def test_the_certificate_is_that_of_the_penalized_fit():
    X, _, _ = low_rank()
    plain, prior = (
        ConvexSubspace(alpha=3.0, debias=d, random_state=0).fit(X) for d in (False, "prior")
    )
    assert prior.objective_ == plain.objective_ and prior.gap_ == plain.gap_
    np.testing.assert_array_equal(prior.components_, plain.components_)
    np.testing.assert_array_equal(prior.singular_values_, plain.singular_values_)


def test_unobserved_are_filled_better_than_by_shrunk_codes():
    X, M, missing = low_rank(150, 30, rank=4, noise=0.5)
    error = {}
    for debias in (False, "prior"):
        model = ConvexSubspace(alpha="auto", debias=debias, random_state=0).fit(X)
        error[debias] = np.sqrt(np.mean((model.complete(X) - M)[missing] ** 2))
        assert model.alpha_ == model.alphas_[np.argmin(model.validation_loss_)]
    assert error["prior"] < 0.85 * error[False]


def test_with_many_components_the_prior_keeps_what_a_free_refit_loses():
    X, M, missing = low_rank(150, 30, rank=4, noise=0.5)
    error = {}
    for debias in (True, "prior"):
        model = ConvexSubspace(alpha=1.0, debias=debias, random_state=0).fit(X)
        error[debias] = np.sqrt(np.mean((model.complete(X) - M)[missing] ** 2))
    assert error["prior"] < 0.5 * error[True]


LOSSES = {
    "logistic": ("logistic", lambda X: np.where(np.isnan(X), np.nan, X > 0)),
    "huber": ("huber", lambda X: X),
    "absolute": ("absolute", lambda X: X),
    "poisson": (
        "poisson",
        lambda X: np.where(np.isnan(X), np.nan, np.rint(np.exp(np.minimum(X, 3) / 2))),
    ),
    "two": ([(slice(0, 8), "squared"), (slice(8, 15), "huber")], lambda X: X),
}


@pytest.mark.parametrize(("loss", "of"), LOSSES.values(), ids=LOSSES)
def test_training_rows_get_their_codes_again(loss, of):
    X = of(low_rank()[0])
    model = ConvexSubspace(loss, alpha=2.0, debias="prior", random_state=0).fit(X)
    size = np.abs(model.codes_).max()
    np.testing.assert_allclose(model.transform(X), model.codes_, atol=1e-6 * size)
    np.testing.assert_allclose(model.transform(X[5:9]), model.codes_[5:9], atol=1e-5 * size)


def test_codes_minimize_the_loss_with_the_prior():
    X = LOSSES["logistic"][1](low_rank()[0])
    model = ConvexSubspace("logistic", alpha=2.0, debias="prior", random_state=0).fit(X)
    slope = (
        np.where(np.isnan(X), 0, model.inverse_transform(model.codes_) - np.nan_to_num(X))
        @ model.components_.T
    )
    slope += model.prior_ * model.codes_ * len(X) / model.singular_values_**2
    np.testing.assert_allclose(slope, 0, atol=1e-6)


def test_frames_with_categories_are_scored_and_filled():
    X, _, missing = low_rank(120, 6, rank=2)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["d"] = pd.Categorical.from_codes(
        np.where(missing[:, 3], -1, np.digitize(np.nan_to_num(X[:, 3]), [-1, 0, 1])),
        list("SMLX"),
        ordered=True,
    )
    frame["e"] = pd.array(np.where(missing[:, 4], None, X[:, 4] > 0), dtype="boolean")
    model = SubspaceImputer("auto", alpha="auto", debias="prior", random_state=0).fit(frame)
    completed = model.transform(frame)
    assert not completed.isna().any().any()
    pd.testing.assert_series_equal(completed.dtypes, frame.dtypes)
    codes = ConvexSubspace.transform(model, frame)
    np.testing.assert_allclose(codes, model.codes_, atol=1e-6 * np.abs(codes).max())


def test_the_unit_of_the_strength_is_that_of_the_loss():
    X, _, _ = low_rank()
    one = ConvexSubspace(alpha=3.0, debias="prior", tol=1e-8, random_state=0, scale=False).fit(X)
    ten = ConvexSubspace(alpha=30.0, debias="prior", tol=1e-8, random_state=0, scale=False).fit(
        10 * X
    )
    assert ten.prior_ == pytest.approx(100 * one.prior_, rel=1e-6)
    np.testing.assert_allclose(ten.complete(10 * X), 10 * one.complete(X), atol=1e-3)


def test_single_precision_stays_and_agrees():
    X, _, _ = low_rank()
    double = ConvexSubspace(alpha=0.5, debias="prior", random_state=0).fit(X)
    single = ConvexSubspace(alpha=0.5, debias="prior", random_state=0).fit(X.astype(np.float32))
    assert single.codes_.dtype == single.transform(X.astype(np.float32)).dtype == np.float32
    assert single.prior_ == pytest.approx(double.prior_, rel=1e-3)
    np.testing.assert_allclose(single.complete(X.astype(np.float32)), double.complete(X), atol=2e-2)


def test_sparse_tables_are_scored_like_tables_with_unobserved():
    X, _, missing = low_rank(unobserved=0.5)
    seen = scipy.sparse.csr_array((X[~missing], np.nonzero(~missing)), shape=X.shape)
    sparse = ConvexSubspace(alpha=2.0, debias="prior", tol=1e-7, random_state=0, scale=False).fit(
        seen
    )
    np.testing.assert_allclose(sparse.transform(seen), sparse.codes_, atol=1e-7)
    variances, noise = sparse.singular_values_**2 / len(X), np.full(X.shape[1], sparse.prior_)
    expected = conditional_means(X, sparse.components_, sparse.intercept_, variances, noise)
    np.testing.assert_allclose(sparse.complete(seen)[missing], expected[missing], atol=1e-6)
    auto = ConvexSubspace(alpha="auto", debias="prior", random_state=0, scale=False).fit(seen)
    assert auto.prior_ > 0 and len(auto.alphas_) > 3


def test_a_weighted_row_counts_as_equal_rows():
    X, _, _ = low_rank()
    weights = np.random.default_rng(2).integers(1, 4, len(X)).astype(float)
    model = ConvexSubspace(alpha=3.0, debias="prior", scale=False, random_state=0).fit(
        X, sample_weight=weights
    )
    variances, noise = model.singular_values_**2 / weights.sum(), np.full(X.shape[1], model.prior_)
    expected = conditional_means(X, model.components_, model.intercept_, variances, noise)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), expected, atol=1e-8)
    np.testing.assert_allclose(model.transform(X), model.codes_, atol=1e-8)


def test_the_search_scores_weighted_rows_like_equal_rows():
    X, _, _ = low_rank()
    weights = np.random.default_rng(3).integers(1, 4, len(X))
    repeated = np.repeat(X, weights, axis=0)
    predicted = []
    for table, rows in ((X, weights.astype(float)), (repeated, None)):
        problem = convex(table, Squared(), Trace(), 3.0, rows, None, Design.intercept(len(table)))
        scored = with_prior(problem, solve(problem, tol=1e-10, max_iter=20_000).point, 0.2)
        predicted.append(problem.predictor(scored.factors, scored.coefficients))
    np.testing.assert_allclose(np.repeat(predicted[0], weights, axis=0), predicted[1], atol=1e-4)


def test_entries_without_weight_are_not_looked_at():
    X, _, missing = low_rank()
    other = np.where(missing, 1e3, X)
    a, b = (
        ConvexSubspace(alpha=3.0, debias="prior", random_state=0).fit(
            table, entry_weight=(~missing).astype(float)
        )
        for table in (X, other)
    )
    np.testing.assert_allclose(a.codes_, b.codes_, atol=1e-6)


def test_rows_of_unobserved_get_the_mean():
    X, _, _ = low_rank()
    model = ConvexSubspace(alpha=3.0, debias="prior", random_state=0).fit(X)
    row = np.full((1, X.shape[1]), np.nan)
    np.testing.assert_array_equal(model.transform(row), 0)
    np.testing.assert_allclose(model.complete(row)[0], model.intercept_)


@pytest.mark.filterwarnings("ignore:.*has no component")
def test_nothing_left_by_the_penalty_is_no_harm():
    X, _, _ = low_rank()
    model = ConvexSubspace(alpha=1e6, debias="prior", random_state=0).fit(X)
    assert model.codes_.shape == (len(X), 0) == model.transform(X).shape
    np.testing.assert_allclose(
        model.complete(X)[np.isnan(X)], np.tile(model.intercept_, (len(X), 1))[np.isnan(X)]
    )


def test_the_seed_decides_the_strength():
    X, _, _ = low_rank()
    one, same = (ConvexSubspace(alpha=3.0, debias="prior", random_state=4).fit(X) for _ in range(2))
    assert one.prior_ == same.prior_
    np.testing.assert_array_equal(one.codes_, same.codes_)


@pytest.mark.parametrize("debias", ["posterior", "", None, 1, 0.5, ["prior"]])
@pytest.mark.parametrize("model", [ConvexSubspace, SubspaceImputer])
def test_other_values_are_refused_before_any_work(model, debias):
    with pytest.raises(ValueError, match="'debias' parameter .* must be True or False or 'prior'"):
        model(debias=debias).fit("not even a table")


@pytest.mark.parametrize("alpha", ["auto", 0.1])
def test_too_few_entries_to_hold_out_are_said(alpha):
    model = ConvexSubspace(alpha=alpha, fit_intercept=False, debias="prior", random_state=0)
    with pytest.raises(ValueError, match="too few observed entries"):
        model.fit([[1.0, np.nan], [np.nan, np.nan]])
    model.set_params(fit_intercept=True).fit([[1.0, 2.0], [3.0, 7.0], [2.0, np.nan]])


def test_losses_of_whole_rows_are_refused_with_a_remedy():
    with pytest.raises(UnsupportedProblem, match="whole rows.*True or False"):
        ConvexSubspace(Softmax(), alpha=0.1, debias="prior").fit(np.eye(4))
    assert (
        ConvexSubspace(Logistic(), alpha=0.1, debias="prior", random_state=0).fit(np.eye(12)).prior_
        > 0
    )
