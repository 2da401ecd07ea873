"""Compiled loops over sparse tables agree with numpy, and refuse what they cannot index."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import regfactor
from regfactor import versions
from regfactor.engine import kernels
from regfactor.engine.kernels import SparseRows
from regfactor.problems.layout import Pattern

compiled = pytest.mark.skipif(
    kernels.KERNELS.module is None,
    reason=f"no compiled kernels: {kernels.KERNELS.reason}",
)
TOLERANCE = {np.float32: 2e-4, np.float64: 1e-11}


@st.composite
def tables(draw):
    """A sparse table with empty rows and unsorted columns, factors of any rank, weights."""
    n = draw(st.integers(0, 9))
    d = draw(st.integers(1, 80))
    rank = draw(st.integers(0, 35))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    counts = rng.integers(0, d + 1, size=n) * rng.integers(0, 2, size=n)
    columns = [rng.permutation(d)[:count] for count in counts]
    offsets = draw(st.sampled_from([np.int32, np.int64]))
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(offsets)
    indices = np.concatenate([*columns, np.zeros(0, int)])
    table = SparseRows.of(indptr, indices, (n, d))
    codes = rng.normal(size=(n, rank)).astype(dtype)
    components = rng.normal(size=(d, rank)).astype(dtype)
    weights = rng.exponential(size=len(indices)).astype(dtype)
    return table, codes, components, weights


@compiled
@settings(max_examples=80)
@given(tables())
def test_entries_of_a_product_agree_with_numpy(drawn):
    table, codes, components, _ = drawn
    found = kernels.predict_entries(table, codes, components)
    expected = kernels.predict_entries_numpy(table, codes, components)
    assert found.dtype == codes.dtype
    tolerance = TOLERANCE[codes.dtype.type]
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=10 * tolerance)


@compiled
@settings(max_examples=80)
@given(tables())
def test_regressions_of_rows_agree_with_numpy(drawn):
    table, codes, D, weights = drawn
    ridge = np.full(D.shape[1], 0.5, D.dtype)
    found = kernels.solve_rows(table, weights, D, ridge, codes)
    expected = kernels.solve_rows_numpy(table, weights, D, ridge, codes)
    assert found.dtype == codes.dtype
    tolerance = TOLERANCE[codes.dtype.type]
    np.testing.assert_allclose(found, expected, rtol=100 * tolerance, atol=10 * tolerance)


@st.composite
def models(draw):
    """Quadratic models of columns: some without curvature, with a target of zero, or at zero."""
    rank = draw(st.integers(0, 21))
    n = draw(st.integers(0, 70))
    shared = draw(st.booleans())
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    D = rng.normal(size=(1 if shared else n, rank + 3, rank))
    H = np.einsum("nei,nej->ijn", D, D)
    flat = rng.random(rank) < 0.1
    H[flat] = 0
    H[:, flat] = 0
    target = rng.normal(size=(rank, n)) * (rng.random((rank, n)) < 0.8)
    target[flat] = 0
    B = rng.exponential(size=(rank, n)) * (rng.random((rank, n)) < 0.6)
    return H.astype(dtype), target.astype(dtype), B.astype(dtype)


@compiled
@settings(max_examples=120)
@given(models(), st.integers(0, 5))
def test_coordinate_passes_agree_with_numpy(drawn, passes):
    H, target, B = drawn
    given_values = B.copy()
    found = kernels.coordinate_passes(H, target, B, passes)
    expected = kernels.coordinate_passes_numpy(H, target, B, passes)
    assert found.dtype == B.dtype
    tolerance = TOLERANCE[B.dtype.type]
    np.testing.assert_allclose(found, expected, rtol=100 * tolerance, atol=100 * tolerance)
    np.testing.assert_array_equal(B, given_values)


@compiled
@settings(max_examples=80)
@given(models(), st.integers(0, 5))
def test_steps_of_models_agree_with_numpy(drawn, passes):
    H, gradient, B = drawn
    rank, n = B.shape
    H = np.broadcast_to(H, (rank, rank, n))
    sums = H[np.triu_indices(rank)]
    given_values = B.copy()
    found = kernels.model_steps(sums, gradient, B, passes)
    expected = kernels.model_steps_numpy(sums, gradient, B, passes)
    np.testing.assert_array_equal(kernels.square_of(sums, rank), H)
    assert found.step.dtype == B.dtype
    tolerance = 100 * TOLERANCE[B.dtype.type]
    for name in ("step", "promise", "curvature"):
        own = getattr(found, name)
        other = getattr(expected, name)
        size = 1 + np.abs(other).max(initial=0)
        np.testing.assert_allclose(own, other, rtol=tolerance, atol=tolerance * size, err_msg=name)
    np.testing.assert_array_equal(B, given_values)


def test_steps_refuse_models_that_do_not_fit():
    with pytest.raises(ValueError, match=r"need sums of shape \(3, 4\)"):
        kernels.model_steps(np.ones((4, 4)), np.ones((2, 4)), np.ones((2, 4)), 1)


@settings(max_examples=40)
@given(models())
def test_every_pass_over_coordinates_lowers_the_model(drawn):
    H, target, B = (part.astype(float) for part in drawn)

    def values(B):
        return np.einsum("in,ijn,jn->n", B, np.broadcast_to(H, (*H.shape[:2], B.shape[1])), B) / 2

    before = values(B) - (target * B).sum(axis=0)
    for _ in range(3):
        B = kernels.coordinate_passes(H, target, B, 1)
        after = values(B) - (target * B).sum(axis=0)
        assert np.all(B >= 0)
        assert np.all(after <= before + 1e-9 * (1 + np.abs(before)))
        before = after


def test_passes_refuse_models_that_do_not_fit():
    with pytest.raises(ValueError, match=r"need H of shape \(2, 2, 1\) or \(2, 2, 3\)"):
        kernels.coordinate_passes(np.ones((2, 2, 2)), np.ones((2, 3)), np.ones((2, 3)), 1)
    with pytest.raises(ValueError, match="as many targets"):
        kernels.coordinate_passes(np.ones((2, 2, 1)), np.ones((2, 4)), np.ones((2, 3)), 1)


@compiled
@settings(max_examples=80)
@given(tables())
def test_gram_matrices_agree_with_numpy(drawn):
    table, _, _, weights = drawn
    found = np.triu(kernels.gram_of_rows(table, weights))
    expected = np.triu(kernels.gram_of_rows_numpy(table, weights))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@compiled
@settings(max_examples=80)
@given(tables(), st.booleans())
def test_sums_of_columns_agree_with_numpy(drawn, with_gram):
    table, codes, _, numbers = drawn
    entries = kernels.Residuals(numbers - 1, 2 - numbers, numbers[::-1])
    weights = np.exp(codes[:, :1].sum(axis=1))
    found = kernels.sums_of_columns(table, entries, codes, weights, with_gram)
    expected = kernels.sums_of_columns_numpy(table, entries, codes, weights, with_gram)
    tolerance = TOLERANCE[codes.dtype.type]
    for name in ("squares", "product", "size", "offsets", "equations", "right"):
        own = getattr(found, name)
        other = getattr(expected, name)
        np.testing.assert_allclose(own, other, rtol=tolerance, atol=tolerance, err_msg=name)
    if not with_gram:
        assert found.gram is None
        assert expected.gram is None
        return
    own = np.triu(found.gram)
    np.testing.assert_allclose(own, np.triu(expected.gram), rtol=tolerance, atol=tolerance)


def test_sums_of_columns_are_those_of_the_dense_table():
    rng = np.random.default_rng(0)
    seen = rng.random((7, 5)) < 0.6
    table = SparseRows.of(
        np.concatenate([[0], seen.sum(axis=1).cumsum()]), np.nonzero(seen)[1], (7, 5)
    )
    g, r, x = (np.where(seen, rng.normal(size=(7, 5)), 0) for _ in range(3))
    D = rng.normal(size=(7, 3))
    w = rng.exponential(size=7)
    entries = kernels.Residuals(g[seen], r[seen], x[seen])
    found = kernels.sums_of_columns(table, entries, D, w, True)
    assert found.squares == pytest.approx((w[:, None] * g * g).sum())
    assert found.product == pytest.approx((w[:, None] * g * r).sum())
    assert found.size == pytest.approx((w[:, None] * r * r).sum())
    np.testing.assert_allclose(found.offsets, w @ g)
    np.testing.assert_allclose(np.triu(found.gram), np.triu(g.T @ (w[:, None] * g)))
    np.testing.assert_allclose(found.right, (w[:, None] * x).T @ D)
    for j in range(5):
        square = D.T @ ((w * seen[:, j])[:, None] * D)
        np.testing.assert_allclose(found.equations[j], square[np.triu_indices(3)])


def test_sums_of_columns_refuse_numbers_that_do_not_fit():
    table = SparseRows.of(np.array([0, 2]), np.array([0, 1]), (1, 2))
    numbers = np.ones(2)
    entries = kernels.Residuals(numbers, numbers, numbers)
    with pytest.raises(ValueError, match="2 entries need as many numbers"):
        short = kernels.Residuals(numbers, numbers[:1], numbers)
        kernels.sums_of_columns(table, short, np.ones((1, 2)), np.ones(1), False)
    with pytest.raises(ValueError, match="1 rows needs as many"):
        kernels.sums_of_columns(table, entries, np.ones((2, 2)), np.ones(1), False)


@compiled
def test_the_equations_of_rows_and_columns_are_those_of_the_dense_table():
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((30, 20), density=0.2, rng=rng, format="csr")
    pattern = Pattern.of(X)
    ridge = np.array([0.1, 0.2, 0.3])
    dense = X.toarray()
    for layout, weights in ((pattern, dense), (pattern.T, dense.T)):
        D = rng.normal(size=(len(weights), 3))
        right = rng.normal(size=(3, weights.shape[1]))
        step = layout.solve_columns(D, X.data, ridge, right)
        for j in range(weights.shape[1]):
            H = (D.T * weights[:, j]) @ D + np.diag(ridge)
            np.testing.assert_allclose(H @ step[:, j], right[:, j], atol=1e-10)


@compiled
def test_missing_weights_spoil_only_their_own_row():
    table = SparseRows.of(np.array([0, 2, 4]), np.array([0, 1, 0, 2]), (2, 3))
    weights = np.array([1.0, np.nan, 1.0, 1.0])
    D = np.random.default_rng(1).normal(size=(3, 2))
    found = kernels.solve_rows(table, weights, D, np.ones(2), np.ones((2, 2)))
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


@compiled
def test_an_indefinite_row_is_solved_as_numpy_does():
    table = SparseRows.of(np.array([0, 1, 2]), np.array([0, 1]), (2, 2))
    weights = np.array([-3.0, 1.0])
    D = np.random.default_rng(1).normal(size=(2, 2))
    right = np.ones((2, 2))
    found = kernels.solve_rows(table, weights, D, np.ones(2), right)
    expected = kernels.solve_rows_numpy(table, weights, D, np.ones(2), right)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("indptr", "columns", "message"),
    [
        ([0, 1], [0], "needs 3 offsets"),
        ([1, 1, 1], [0], "from 0"),
        ([0, 1, 3], [0, 1], "from 0 to the number of its entries"),
        ([0, 2, 1], [0], "must not fall"),
        ([0, 1, 2], [0, 5], "lie in 0 to 4"),
        ([0, 1, 2], [-1, 2], "lie in 0 to 4"),
    ],
)
def test_offsets_and_columns_out_of_range_are_refused(indptr, columns, message):
    with pytest.raises(ValueError, match=message):
        SparseRows.of(np.array(indptr), np.array(columns), (2, 5))


def test_factors_and_weights_of_other_lengths_are_refused():
    table = SparseRows.of(np.array([0, 1, 2]), np.array([0, 4]), (2, 5))
    with pytest.raises(ValueError, match="codes must have 2 rows"):
        kernels.predict_entries(table, np.ones((3, 2)), np.ones((5, 2)))
    with pytest.raises(ValueError, match="components must have 5 rows"):
        kernels.predict_entries(table, np.ones((2, 2)), np.ones((4, 2)))
    with pytest.raises(ValueError, match="codes have 2 columns and components 3"):
        kernels.predict_entries(table, np.ones((2, 2)), np.ones((5, 3)))
    with pytest.raises(ValueError, match="as many values"):
        kernels.gram_of_rows(table, np.ones(3))
    with pytest.raises(ValueError, match="as many weights"):
        kernels.solve_rows(table, np.ones(3), np.ones((5, 2)), np.ones(2), np.ones((2, 2)))


def test_the_environment_turns_kernels_off():
    code = "from regfactor.engine.kernels import KERNELS; print(KERNELS.module, KERNELS.reason)"
    environment = {**os.environ, "REGFACTOR_KERNELS": "0"}
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "None REGFACTOR_KERNELS is 0"


def test_versions_name_the_kernels_and_packages_that_are_not_installed(monkeypatch, capsys):
    monkeypatch.setattr(versions, "PACKAGES", ("numpy", "no-such-package"))
    monkeypatch.setattr(versions, "KERNELS", kernels.Kernels(None, "there is no compiler"))
    regfactor.show_versions()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("python: ")
    assert lines[1:] == [
        f"numpy: {np.__version__}",
        "no-such-package: not installed",
        "kernels: numpy, since there is no compiler",
    ]
