"""Conditional normal distributions and their exact leave-one-out, against brute force."""

import numpy as np
import pytest

from regfactor.tables.auto_imputer.conditioning import DenseNormal, FactoredNormal

D = 7
BLOCKS = [np.array([2]), np.array([4, 5, 6])]


def factored():
    rng = np.random.default_rng(0)
    return FactoredNormal(rng.normal(size=D), rng.normal(size=(3, D)), rng.uniform(0.2, 1, D))


def table():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, D))
    X[rng.random(X.shape) < 0.4] = np.nan
    block = rng.random(40) < 0.3
    X[:, 4:7] = np.where(block[:, None], np.nan, rng.normal(size=(40, 3)))
    X[0] = np.nan
    X[1] = rng.normal(size=D)
    return X


def brute(normal, row):
    """The conditional mean of all entries given the observed of one row, and the covariance."""
    dense = normal.dense()
    S = dense.covariance
    o = ~np.isnan(row)
    if not o.any():
        return dense.mean.copy(), S.copy()
    G = S[:, o] @ np.linalg.inv(S[np.ix_(o, o)])
    return dense.mean + G @ (row[o] - dense.mean[o]), S - G @ S[o]


FORMS = pytest.mark.parametrize("form", ["dense", "factored"])


def conditioned(form):
    normal = factored()
    given = normal.dense() if form == "dense" else normal
    return normal, given.condition(table())


@FORMS
def test_missing_entries_are_conditional_means(form):
    normal, found = conditioned(form)
    X = table()
    for i, row in enumerate(X):
        expected, _ = brute(normal, row)
        missing = np.isnan(row)
        np.testing.assert_allclose(found.filled[i, missing], expected[missing], atol=1e-10)
        np.testing.assert_array_equal(found.filled[i, ~missing], row[~missing])


@FORMS
@pytest.mark.parametrize("columns", BLOCKS, ids=["one", "block"])
def test_leave_one_out_is_that_of_a_row_without_the_variable(form, columns):
    normal, found = conditioned(form)
    X = table()
    left = found.leave_out(columns)
    fills = found.filled_without(columns, left.residual)
    variances = found.variances(columns)
    for i, row in enumerate(X):
        without = row.copy()
        without[columns] = np.nan
        expected, covariance = brute(normal, without)
        np.testing.assert_allclose(left.predicted[i], expected[columns], atol=1e-9)
        np.testing.assert_allclose(variances[i], np.diag(covariance)[columns], atol=1e-9)
        others = np.isnan(row)
        others[columns] = False
        np.testing.assert_allclose(fills[i, others], expected[others], atol=1e-9)
        if not np.isnan(row[columns]).any():
            np.testing.assert_allclose(left.residual[i], (row - expected)[columns], atol=1e-9)


def test_both_forms_state_one_covariance():
    normal = factored()
    columns = np.array([1, 5])
    dense = normal.dense().cross_covariance(columns)
    np.testing.assert_allclose(normal.cross_covariance(columns), dense)


def test_covariances_of_missing_entries():
    normal = factored().dense()
    X = table()
    observed = ~np.isnan(X)
    seen = 0
    for batch in normal.row_batches(observed, normal.precision):
        for b, i in enumerate(batch.rows):
            valid = batch.valid[b]
            m = batch.missing[b][valid]
            _, covariance = brute(factored(), X[i])
            found = batch.covariance[b][np.ix_(valid, valid)]
            np.testing.assert_allclose(found, covariance[np.ix_(m, m)], atol=1e-9)
            seen += 1
    assert seen == (~observed).any(axis=1).sum()


def test_a_complete_table_has_nothing_to_fill():
    X = np.random.default_rng(2).normal(size=(5, D))
    found = factored().dense().condition(X)
    np.testing.assert_array_equal(found.filled, X)
    assert found.batches == []
    assert isinstance(factored().dense(), DenseNormal)
