"""Non-negative factorization with missing entries and weights: scikit-learn's NMF without them, exact codes, no row worse."""

import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from regfactor import FactorModel
from regfactor.core.factors import Factors
from regfactor.core.params import UnsupportedProblem
from regfactor.losses import KL, Poisson, Squared, Stacked
from regfactor.penalties import Lasso, NonNegative
from regfactor.problems import Data, Factored
from regfactor.solvers import solve
from regfactor.solvers.alternating import non_negative_sweep, sweep
from regfactor.solvers.nonnegative import KLArraySide, KLSide, improve, side_of_codes
from regfactor.solvers.starts import first_factors, leading_svd, svd_by_gram
from regfactor.solvers.updates import update_codes, update_components

EXACT = 1000  # more steps than a sweep takes: the updates then go to the minimum
both_losses = pytest.mark.parametrize("loss", [Squared(), KL()], ids=str)


def factored(data, rank, **known):
    return Factored(data, NonNegative(), NonNegative(), rank=rank, alpha=0.0, **known)


def model(loss, rank, **options):
    return FactorModel(
        loss, on_codes=NonNegative(), on_components=NonNegative(), rank=rank, alpha=0.0, **options
    )


def scikit_learn(loss, rank, **options):
    solver = (
        {"solver": "mu", "beta_loss": "kullback-leibler"}
        if isinstance(loss, KL)
        else {"solver": "cd"}
    )
    return NMF(rank, **solver, random_state=0, **options)


def planted(n=60, d=20, rank=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.gamma(0.7, size=(n, rank)) @ rng.gamma(0.7, size=(rank, d)), rng


def counts(n=40, d=15, rank=3, seed=0):
    Z, rng = planted(n, d, rank, seed)
    return rng.poisson(4 * Z).astype(float), rng


def with_missing(X, rng, share=0.3):
    missing = rng.random(X.shape) < share
    missing[np.arange(len(X)), np.arange(len(X)) % X.shape[1]] = (
        False  # something is seen in every row
    )
    return np.where(missing, np.nan, X)


def scored(data, C):
    """The best codes for given components, from a start that any loss can take."""
    return update_codes(
        data, np.full((data.shape[0], len(C)), 1 / len(C), C.dtype), C, NonNegative(), 0.0, EXACT
    )


def optimality(data, Phi, C):
    """The largest violation of the conditions of optimality of codes, relative to the size of what has to cancel."""
    slope, size = data.gradient(Phi @ C) @ C.T, data.hessian(Phi @ C) * (Phi @ C + 1e-300) + 1
    return np.max(
        np.where(Phi > 0, np.abs(slope), np.maximum(-slope, 0)) / (np.abs(size) @ C.T + 1e-300)
    )


# equal to scikit-learn, and to closed forms


TABLES = {  # on which starts that differ a little lead to the same local minimum
    "digits": (lambda: load_digits().data[:600], 4),
    "planted": (lambda: planted()[0], 3),
    "counts": (lambda: counts()[0], 3),
    "fewer rows than columns": (lambda: counts(15, 40, 4)[0], 4),
}


@both_losses
@pytest.mark.parametrize("table", TABLES)
def test_objective_is_as_low_as_scikit_learns(loss, table):
    X, rank = TABLES[table][0](), TABLES[table][1]
    problem = factored(Data.of(X, loss), rank)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer = scikit_learn(
            loss, rank, tol=1e-6, max_iter=1000 if isinstance(loss, Squared) else 300
        )
        theirs = problem.objective(Factors(peer.fit_transform(X), peer.components_))
    ours = model(loss, rank, tol=1e-6).fit(X).objective_
    assert (
        ours <= (1 + 1e-3) * theirs + 1e-4 * problem.floor
    )  # a table of exact rank has no loss to compare


def test_where_scikit_learn_stands_still_so_do_sweeps():
    X = load_digits().data[:300]
    problem = factored(Data.of(X, Squared()), 5)
    peer = scikit_learn(Squared(), 5, tol=1e-7, max_iter=5000)
    F = Factors(peer.fit_transform(X), peer.components_)
    theirs = problem.objective(F)
    for _ in range(20):
        F = sweep(problem, F)
    assert problem.objective(F) == pytest.approx(theirs, rel=1e-6)


def test_one_atom_is_the_leading_singular_pair():
    X, _ = counts()
    U, s, Vt = np.linalg.svd(X)
    found = model("squared", 1, tol=1e-12).fit(X)
    np.testing.assert_allclose(
        found.codes_ @ found.components_, s[0] * np.outer(U[:, 0], Vt[0]), atol=1e-5
    )


def test_one_atom_under_kl_is_the_table_of_independence():
    X, _ = counts()
    found = model("kl", 1, tol=1e-12).fit(X)
    np.testing.assert_allclose(
        found.codes_ @ found.components_, np.outer(X.sum(1), X.sum(0)) / X.sum(), rtol=1e-8
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_squared_codes_are_non_negative_least_squares(weighted, share):
    X, rng = counts(50, 20, 6)
    C = rng.gamma(0.5, size=(6, 20))
    X = with_missing(X - 1, rng, share)  # negative data are legal
    w = rng.uniform(0.2, 3, X.shape) if weighted else np.ones(X.shape)
    Phi = scored(Data.of(X, Squared(), w), C)
    for x, root, phi in zip(X, np.sqrt(w), Phi, strict=True):
        seen = ~np.isnan(x)
        np.testing.assert_allclose(phi, nnls((root * C).T[seen], (root * x)[seen])[0], atol=1e-8)


def test_kl_codes_are_no_worse_than_scikit_learns():
    X, _ = counts(80, 20, 5)
    peer = scikit_learn(KL(), 5, tol=1e-4, max_iter=2000).fit(X)
    new, _ = counts(30, 20, 5, seed=1)
    data = Data.of(new, KL())
    ours, theirs = scored(data, peer.components_), peer.transform(new)
    assert np.all(
        data.row_values(ours @ peer.components_)
        <= data.row_values(theirs @ peer.components_) + 1e-9
    )
    assert optimality(data, ours, peer.components_) < 1e-10


# missing entries and weights


@both_losses
def test_missing_are_entries_of_weight_zero_whatever_they_hold(loss):
    X, rng = counts()
    missing = rng.random(X.shape) < 0.3
    found = model(loss, 3).fit(np.where(missing, np.nan, X))
    weights = np.where(missing, 0.0, 1.0)
    for filler in (0.0, 7.0, 1e6):
        other = model(loss, 3).fit(np.where(missing, filler, X), entry_weight=weights)
        np.testing.assert_array_equal(other.codes_, found.codes_)
        np.testing.assert_array_equal(other.components_, found.components_)


@both_losses
def test_missing_of_a_planted_table_are_recovered(loss):
    X, rng = planted(80, 30)
    table = with_missing(X, rng)
    full = model(loss, 3, tol=1e-9).fit(table).complete(table)
    missing = np.isnan(table)
    assert np.linalg.norm((full - X)[missing]) < 1e-2 * np.linalg.norm(X[missing])


@both_losses
def test_a_row_of_weight_two_is_two_rows(loss):
    X, rng = counts()
    X = with_missing(X, rng)
    times = rng.integers(1, 4, len(X))
    rows = np.repeat(np.arange(len(X)), times)
    one = factored(Data.of(X, loss), 3, row_weights=times.astype(float))
    other = factored(Data.of(X[rows], loss), 3)
    F = first_factors(one, rng)
    G = Factors(F.codes[rows], F.C)
    for _ in range(5):
        F, G = sweep(one, F), sweep(other, G)
    np.testing.assert_allclose(G.C, F.C, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(G.codes, F.codes[rows], rtol=1e-7, atol=1e-9)
    assert one.objective(F) == pytest.approx(other.objective(G))


@both_losses
def test_an_entry_of_weight_two_is_two_entries(loss):
    X, rng = counts()
    times = rng.integers(1, 3, X.shape[1])
    columns = np.repeat(np.arange(X.shape[1]), times)
    C = rng.gamma(1.0, size=(3, X.shape[1]))
    weighted = scored(Data.of(X, loss, np.broadcast_to(times.astype(float), X.shape)), C)
    np.testing.assert_allclose(
        weighted, scored(Data.of(X[:, columns], loss), C[:, columns]), atol=1e-8
    )


# what updates promise


@both_losses
@pytest.mark.parametrize("kind", ["complete", "missing", "weights"])
def test_no_update_makes_any_row_worse(loss, kind):
    X, rng = counts()
    X = with_missing(X, rng) if kind == "missing" else X
    data = Data.of(X, loss, rng.uniform(0, 3, X.shape) if kind == "weights" else None)
    Phi, C = rng.gamma(1.0, size=(len(X), 4)), rng.gamma(1.0, size=(4, X.shape[1]))
    for _ in range(8):
        rows = data.row_values(Phi @ C)
        Phi = update_codes(data, Phi, C, NonNegative(), 0.0)
        assert np.all(data.row_values(Phi @ C) <= rows * (1 + 1e-12)) and Phi.min() >= 0
        columns = data.column_values(Phi @ C)
        C = update_components(data, Phi, C, NonNegative(), 0.0)
        assert np.all(data.column_values(Phi @ C) <= columns * (1 + 1e-12)) and C.min() >= 0


@both_losses
def test_objective_falls_in_every_sweep(loss):
    X, rng = counts()
    solution = solve(factored(Data.of(with_missing(X, rng), loss), 3), tol=1e-9, max_iter=300)
    objectives = np.array([record.objective for record in solution.history])
    assert np.all(np.diff(objectives) <= 1e-12 * objectives[1:])


@both_losses
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_a_sweep_returns_the_objective_of_its_factors(loss, dtype, noise):
    """A table without noise leaves no digits of the difference of sums that others use."""
    Z, rng = planted()
    X = (Z + noise * rng.random(Z.shape)).astype(dtype)
    problem = factored(Data.of(X, loss), 3)
    F = first_factors(problem, rng)
    for _ in range(60):
        swept = non_negative_sweep(problem, F)
        F = swept.factors
        exact = problem.objective(F)
        assert swept.objective == pytest.approx(exact, rel=1e-10)


def test_the_loss_of_a_model_is_not_a_difference_without_digits():
    Z, rng = planted()
    C = rng.gamma(0.7, size=(3, Z.shape[1]))
    codes = rng.gamma(0.7, size=(len(Z), 3))
    rough = side_of_codes(Data.of(Z + rng.random(Z.shape), Squared()), C)
    assert rough.loss(codes.T) == pytest.approx(
        factored(rough.data, 3).objective(Factors(codes, C)), rel=1e-12
    )
    exact = side_of_codes(Data.of(codes @ C, Squared()), C)
    assert exact.loss(codes.T) is None
    incomplete = with_missing(Z, rng)
    assert side_of_codes(Data.of(incomplete, Squared()), C).loss(codes.T) is None


@both_losses
def test_repeated_updates_come_to_the_minimum(loss):
    X, rng = counts()
    data, C = Data.of(with_missing(X, rng), loss), rng.gamma(1.0, size=(3, X.shape[1]))
    side, B = side_of_codes(data, C), np.ones((3, len(X)))
    for _ in range(300):
        B = improve(side, B)
    np.testing.assert_allclose(B.T, scored(data, C), atol=1e-6)


@both_losses
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_transform_repeats_the_codes_of_the_fit_and_scores_rows_alone(loss, share):
    X, rng = counts()
    X = with_missing(X, rng, share)
    found = model(loss, 3).fit(X)
    np.testing.assert_allclose(found.transform(X), found.codes_, atol=1e-8)
    np.testing.assert_allclose(found.transform(X[5:6]), found.codes_[5:6], atol=1e-8)


def test_components_that_are_alike_do_not_keep_codes_from_their_minimum():
    rng = np.random.default_rng(0)
    C = 1 + 1e-3 * rng.random((5, 20))
    X = rng.poisson(5 * rng.random((30, 5)) @ C).astype(float)
    for loss in (Squared(), KL()):
        assert optimality(Data.of(X, loss), scored(Data.of(X, loss), C), C) < 1e-9


# edges


def test_kl_takes_rows_and_columns_of_zeros():
    X, _ = counts()
    X[3], X[:, 2] = 0, 0
    found = model("kl", 3).fit(X)
    assert (
        np.isfinite(found.objective_)
        and not found.codes_[3].any()
        and not found.components_[:, 2].any()
    )


def test_kl_scores_rows_with_data_that_no_component_predicts():
    X, rng = counts()
    C = rng.gamma(1.0, size=(3, X.shape[1]))
    C[:, 0] = 0
    with np.errstate(all="raise"):
        Phi = scored(Data.of(X, KL()), C)
    np.testing.assert_allclose(Phi, scored(Data.of(X[:, 1:], KL()), C[:, 1:]), atol=1e-10)


def test_kl_finds_its_scale():
    X, rng = counts()
    C = rng.gamma(1.0, size=(3, X.shape[1]))
    plain = scored(Data.of(X, KL()), C)
    for scale in (1e-8, 1e8):
        np.testing.assert_allclose(
            scored(Data.of(X * scale, KL()), C), plain * scale, rtol=1e-6, atol=1e-7 * scale
        )


@both_losses
def test_float32_stays_float32(loss):
    X, rng = counts()
    X = with_missing(X, rng)
    found = model(loss, 3).fit(X.astype(np.float32))
    assert (
        found.codes_.dtype
        == found.components_.dtype
        == found.transform(X.astype(np.float32)).dtype
        == np.float32
    )
    assert found.objective_ == pytest.approx(model(loss, 3).fit(X).objective_, rel=1e-2)


@both_losses
def test_columns_of_different_losses_are_updated(loss):
    X, _ = counts()
    stacked = Stacked(((slice(0, 8), loss), (slice(8, None), Squared())))
    solution = solve(factored(Data.of(X, stacked), 3), max_iter=30)
    objectives = np.array([record.objective for record in solution.history])
    assert np.all(np.diff(objectives) <= 1e-9 * objectives[1:])


def test_other_losses_keep_their_proximal_steps():
    X, rng = counts()
    assert side_of_codes(Data.of(X, Poisson()), rng.random((3, X.shape[1]))) is None
    assert (
        side_of_codes(Data.of(X, KL()), rng.normal(size=(3, X.shape[1]))) is None
    )  # predictors may become negative


# sparse tables


def sparse_and_dense(share=0.5):
    X, rng = counts(50, 30)
    seen = rng.random(X.shape) < share
    rows, columns = np.nonzero(seen)  # stored zeros are observed
    sparse = scipy.sparse.csr_array((X[seen], (rows, columns)), shape=X.shape)
    return sparse, np.where(seen, X, np.nan), rng


@both_losses
@pytest.mark.parametrize("share", [0.04, 0.5])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_sparse_table_is_a_dense_one_with_missing(loss, share, weighted):
    X, missing, rng = sparse_and_dense(share)
    weights = rng.uniform(0.5, 2, len(missing)) if weighted else None
    sparse, dense = (
        factored(Data.of_sparse(X, loss, weights), 3),
        factored(Data.of(missing, loss, weights), 3),
    )
    F = G = Factors(rng.gamma(1.0, size=(50, 3)), rng.gamma(1.0, size=(3, 30)))
    for _ in range(4):
        F, G = sweep(sparse, F), sweep(dense, G)
        np.testing.assert_allclose(F.dense(), G.dense(), rtol=1e-7, atol=1e-9)
    values = [dense.data.row_values(scored(p.data, F.C) @ F.C) for p in (sparse, dense)]
    np.testing.assert_allclose(*values, rtol=1e-9, atol=1e-9)


@both_losses
def test_a_sparse_table_is_solved_like_a_dense_one(loss):
    X, missing, _ = sparse_and_dense()
    sparse, dense = (
        solve(factored(data, 3), tol=1e-8)
        for data in (Data.of_sparse(X, loss), Data.of(missing, loss))
    )
    assert sparse.objective == pytest.approx(dense.objective, rel=1e-6)


def test_what_cannot_be_swept_sparse_is_said():
    X, _, _ = sparse_and_dense()
    with pytest.raises(UnsupportedProblem, match="sparse table"):
        solve(Factored(Data.of_sparse(X, Squared()), NonNegative(), Lasso(), rank=2))


@both_losses
def test_a_sparse_table_starts_like_a_dense_one(loss, monkeypatch):
    X, missing, rng = sparse_and_dense()
    dense = first_factors(factored(Data.of(missing, loss), 3), rng)
    sparse = first_factors(factored(Data.of_sparse(X, loss), 3), rng)
    np.testing.assert_allclose(sparse.dense(), dense.dense(), rtol=1e-8)
    monkeypatch.setattr("regfactor.solvers.starts.FULL_SVD_SIZE", 10)  # the leading triplets alone
    np.testing.assert_allclose(
        first_factors(factored(Data.of_sparse(X, loss), 3), rng).dense(), dense.dense(), rtol=1e-6
    )


@pytest.mark.parametrize("shape", [(40, 12), (12, 40), (9, 9)])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_triplets_by_a_gram_matrix_are_those_of_the_svd(shape, k):
    X = np.random.default_rng(0).random(shape)
    U, s, Vt = svd_by_gram(X, k)
    expected = np.linalg.svd(X, full_matrices=False)
    best = (expected[0][:, :k] * expected[1][:k]) @ expected[2][:k]
    np.testing.assert_allclose((U * s) @ Vt, best, atol=1e-7)
    np.testing.assert_allclose(s, expected[1][:k], rtol=1e-7)


def test_triplets_of_a_table_without_numbers():
    _, s, _ = svd_by_gram(np.zeros((6, 4)), 2)
    assert not s.any()


def test_leading_triplets_of_centered_and_empty_tables(monkeypatch):
    monkeypatch.setattr("regfactor.solvers.starts.FULL_SVD_SIZE", 10)
    X = np.random.default_rng(0).normal(size=(20, 60))
    X -= X.mean(axis=0)
    U, s, Vt = leading_svd(X, 3)
    np.testing.assert_allclose(s, np.linalg.svd(X, compute_uv=False)[:3])
    np.testing.assert_allclose(U * s, X @ Vt.T, atol=1e-9)
    assert not leading_svd(0 * X, 3)[1].any()


# anything goes


@st.composite
def problems(draw):
    n, d, k = draw(st.integers(1, 6)), draw(st.integers(1, 6)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    X = rng.poisson(draw(st.sampled_from([0.1, 1.0, 30.0])), (n, d)) * 10.0 ** draw(
        st.integers(-4, 4)
    )
    w = rng.choice(draw(st.sampled_from([[1.0], [0.0, 1.0], [0.0, 0.5, 3.0]])), (n, d))
    w[0, 0] = 1.0
    C = rng.gamma(draw(st.sampled_from([0.2, 1.0])), size=(k, d)) + 1e-6
    if draw(st.booleans()):
        C[rng.random(C.shape) < 0.4] = 0
    if draw(st.booleans()):
        C[-1] = C[0]
    return X, w, rng.gamma(1.0, size=(n, k)) + 1e-3, C


@both_losses
@given(problem=problems())
def test_any_table_with_any_weights_is_scored(loss, problem):
    X, w, Phi, C = problem
    w = w * (
        C.any(axis=0) | isinstance(loss, Squared)
    )  # elsewhere KL is infinite, whatever the codes
    w[0, 0] = w[0, 0] or not w.any()
    C[:, 0] += 1e-3
    data = Data.of(X, loss, w)
    scale = 1e-12 * (np.abs(w * X * (X if isinstance(loss, Squared) else 1)).sum(axis=1) + 1e-12)
    with np.errstate(all="raise", under="ignore"):
        best = scored(data, C)
        assert np.all(np.isfinite(best)) and best.min() >= 0
        least = data.row_values(best @ C)
        for _ in range(3):
            before = data.row_values(Phi @ C)
            Phi = update_codes(data, Phi, C, NonNegative(), 0.0)
            after = data.row_values(Phi @ C)
            assert Phi.min() >= 0 and np.all(after <= before + 1e-12 * before + scale)
            assert np.all(least <= after + 1e-9 * after + 100 * scale)


@pytest.mark.parametrize(
    ("codes", "components"), [(None, None), (NonNegative(), None), (None, NonNegative())]
)
def test_kl_is_refused_where_predictors_can_be_negative(codes, components):
    X = np.random.default_rng(0).gamma(2.0, size=(12, 5))
    with pytest.raises(UnsupportedProblem, match=r"predictors >= 0 only.*on_codes=NonNegative\(\)"):
        FactorModel("kl", on_codes=codes, on_components=components, rank=2).fit(X)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("share", [0, 0.3])
@pytest.mark.parametrize("n", [7, 1100])
def test_kl_steps_in_stretches_are_those_of_the_whole_table(turned, share, n):
    # 1100 rows are three stretches, with rows of zeros and a predictor of zero among them
    X, rng = counts(n=n)
    X[3] = 0
    if share:
        X = with_missing(X, rng, share)
    data = Data.of(X, KL())
    D = rng.exponential(size=(15 if turned else n, 4))
    D[5] = 0
    B = rng.exponential(size=(4, n if turned else 15)) * rng.integers(0, 2, size=4)[:, None]
    whole = KLSide(data, D, turned)
    found = KLArraySide(data, D, turned).improve(B)
    np.testing.assert_allclose(found, whole.improve(B), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("share", [0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_of_a_kl_side_is_the_loss(share, weighted):
    X, rng = counts()
    if share:
        X = with_missing(X, rng, share)
    weights = rng.exponential(size=X.shape) if weighted else None
    data = Data.of(X, KL(), weights)
    F = Factors(rng.exponential(size=(len(X), 3)), rng.exponential(size=(3, 15)))
    side = side_of_codes(data, F.C)
    assert side.loss(F.codes.T) == pytest.approx(data.value(F), rel=1e-12)
    F.codes[:] = 0
    assert side.loss(F.codes.T) == np.inf
    X[:] = 0
    nothing = side_of_codes(Data.of(X, KL()), F.C)
    # the loss is zero: no difference of sums would show it
    assert nothing.loss(F.codes.T) in (None, 0.0)
