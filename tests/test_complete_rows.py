"""Rows completed by a principal component model of the observed entries."""

import numpy as np
import pytest
import scipy.linalg

from regfactor.fitting.complete_rows import RowCompletion, _first_loadings


def low_rank(n=80, d=8, rank=2, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d))
    return X + noise * rng.normal(size=(n, d))


def with_gaps(X, share=0.2, seed=1):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def completed(X, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    return RowCompletion.fit(X, weights).complete(X)


def test_observed_entries_stay_and_missing_ones_are_found():
    X = low_rank(noise=0.05)
    table = with_gaps(X)
    filled = completed(table)
    gaps = np.isnan(table)
    np.testing.assert_array_equal(filled[~gaps], X[~gaps])
    assert np.isnan(table).any() and not np.isnan(filled).any()
    assert np.square(filled - X)[gaps].mean() < 0.05 * np.square(X)[gaps].mean()


def test_the_mean_given_the_rest_is_that_of_the_gaussian_model():
    model = RowCompletion.fit(with_gaps(low_rank(noise=0.3)), np.ones(80))
    x = np.array([0.3, -1.0, np.nan, 0.5, np.nan, 2.0, 0.1, -0.4])
    gaps = np.isnan(x)
    z = (x - model.mean) / model.scale
    covariance = model.loadings @ model.loadings.T + model.noise * np.eye(8)
    solved = np.linalg.solve(covariance[np.ix_(~gaps, ~gaps)], z[~gaps])
    expected = model.mean[gaps] + model.scale[gaps] * (covariance[np.ix_(gaps, ~gaps)] @ solved)
    np.testing.assert_allclose(model.complete(x[None])[0, gaps], expected)


def test_units_of_columns_do_not_matter():
    table = with_gaps(low_rank(noise=0.2))
    units = 10.0 ** np.arange(-4, 4)
    shift = np.arange(8.0)
    np.testing.assert_allclose(
        completed(table * units + shift), completed(table) * units + shift, rtol=1e-6, atol=1e-9
    )


def test_many_columns_need_no_square_matrix_of_them(monkeypatch):
    eigh = scipy.linalg.eigh
    sizes = []

    def measured(matrix, **options):
        sizes.append(len(matrix))
        return eigh(matrix, **options)

    monkeypatch.setattr(scipy.linalg, "eigh", measured)
    X = low_rank(n=40, d=300, noise=0.05)
    table = with_gaps(X)
    filled = completed(table)
    assert max(sizes) == 40
    gaps = np.isnan(table)
    assert np.square(filled - X)[gaps].mean() < 0.05 * np.square(X)[gaps].mean()
    # the loadings are those of the covariance
    rows = np.random.default_rng(0).normal(size=(6, 9))
    weights = np.arange(1.0, 7.0)
    loadings = _first_loadings(rows, weights, 3)
    values, vectors = np.linalg.eigh((rows.T * weights) @ rows / weights.sum())
    expected = vectors[:, -3:] * values[-3:] @ vectors[:, -3:].T
    np.testing.assert_allclose(loadings @ loadings.T, expected, atol=1e-12)


def test_weights_act_as_repetition_counts():
    table = with_gaps(low_rank(n=30, noise=0.2))
    counts = np.random.default_rng(2).integers(1, 4, 30)
    weighted = RowCompletion.fit(table, counts.astype(float))
    repeated = RowCompletion.fit(np.repeat(table, counts, axis=0), np.ones(counts.sum()))
    np.testing.assert_allclose(weighted.complete(table), repeated.complete(table), rtol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (3, 1), (40, 2)])
def test_small_tables_and_empty_rows_and_columns_are_completed(shape):
    X = np.random.default_rng(3).normal(size=shape) + 5
    X[0] = np.nan
    filled = completed(X)
    assert np.isfinite(filled).all()
    if shape[0] > 1:
        np.testing.assert_allclose(filled[0], np.nanmean(X, axis=0))
