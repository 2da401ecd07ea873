"""The joint criterion of reverse prediction (White's thesis, eq. 6.2) and the fits that minimize it."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from regfactor import ReverseRegressor
from regfactor.labels.reverse.joint_criterion import JointReverse
from regfactor.labels.reverse.joint_descent import JointDescent
from regfactor.labels.reverse.problem import Reverse
from regfactor.losses.transfers import as_transfer
from regfactor.model_selection import labeled_loss
from regfactor.solvers import solve

ONTO = ["identity", "cube", "relaxed_sigmoid", "kl"]  # transfers whose range is all numbers


def drawn(transfer, seed=0, n=40, labels=12, k=2, d=5):
    """Rows about the span of a model, their targets, and the model."""
    random = np.random.default_rng(seed)
    Y = random.normal(size=(n, k))
    U = random.normal(size=(k, d))
    X = Y @ U + 0.3 * random.normal(size=(n, d))
    if transfer == "kl":
        X = np.exp(0.5 * X)
    seen = Y.copy()
    seen[labels:] = np.nan
    return X, Y, seen, U


def problem_of(transfer, intercept=False, weights=None, **more):
    X, Y, seen, U = drawn(transfer, **more)
    weights = np.ones(len(X)) if weights is None else weights
    return JointReverse(Reverse(X, seen, weights, as_transfer(transfer), intercept)), U


@pytest.mark.parametrize("transfer", ONTO)
def test_the_criterion_is_the_estimate_of_the_loss_at_fixed_components(transfer):
    """mean_labeled(A) + mean_all(B), as `labeled_loss` finds it by projecting every row."""
    problem, U = problem_of(transfer)
    X, Y, _, _ = drawn(transfer)
    expected = labeled_loss((transfer, U), X[:12], Y[:12], X[12:]).plain.value
    assert problem.value_and_gradient(U)[0] == pytest.approx(expected, rel=1e-6)


def test_under_the_identity_the_parts_are_distances_in_the_span_and_from_it():
    problem, U = problem_of("identity", seed=3)
    projector = np.linalg.pinv(U) @ U
    X = problem.model.X
    Y = problem.model.Y[:12]
    within = np.square(Y @ U - X[:12] @ projector).sum() / 2 / 12
    outside = np.square(X - X @ projector).sum() / 2 / len(X)
    assert problem.value_and_gradient(U)[0] == pytest.approx(within + outside, rel=1e-12)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("transfer", ONTO)
def test_the_gradient_is_the_slope(transfer, intercept):
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 40)
    problem, U = problem_of(transfer, intercept, weights)
    if intercept:
        U = np.vstack([U, 0.1 * np.ones(U.shape[1])])

    def value(flat):
        return problem.value_and_gradient(flat.reshape(U.shape))[0]

    slope = approx_fprime(U.ravel(), value, 1e-6)
    found = problem.value_and_gradient(U)[1].ravel()
    np.testing.assert_allclose(found, slope, rtol=2e-4, atol=2e-5 * np.abs(slope).max())


@pytest.mark.parametrize("transfer", ONTO)
def test_with_all_rows_labeled_it_is_the_supervised_loss(transfer):
    X, Y, _, _ = drawn(transfer, labels=40)
    joint = ReverseRegressor(transfer, criterion="joint", tol=1e-12).fit(X, Y)
    reverse = ReverseRegressor(transfer, tol=1e-12).fit(X, Y)
    assert joint.objective_ == pytest.approx(reverse.objective_, rel=1e-8)
    np.testing.assert_allclose(joint.components_, reverse.components_, atol=1e-4)
    np.testing.assert_allclose(joint.predict(X), reverse.predict(X), atol=1e-4)


@pytest.mark.parametrize("transfer", ONTO)
def test_descent_ends_where_the_gradient_is_zero(transfer):
    problem, _ = problem_of(transfer, intercept=True)
    solution = solve(problem, tol=1e-14, max_iter=2000)
    assert solution.solver == JointDescent.__name__
    values = [record.objective for record in solution.history]
    assert values == sorted(values, reverse=True)
    value, gradient = problem.value_and_gradient(solution.point.components)
    assert solution.objective == pytest.approx(value, rel=1e-9)
    start = problem.value_and_gradient(problem.supervised.components)[1]
    assert np.abs(gradient).max() < 1e-4 * np.abs(start).max()


def test_unlabeled_rows_lower_the_loss_on_new_rows():
    """With few labels, over draws: the loss of new rows is below that of the supervised model."""
    losses = []
    for seed in range(12):
        X, Y, seen, _ = drawn("identity", seed=seed, n=600, labels=8)
        X_new, Y_new = X[400:], Y[400:]
        found = []
        for rows in (np.arange(400), np.arange(8)):
            model = ReverseRegressor(criterion="joint").fit(X[rows], seen[rows])
            residuals = X_new - Y_new @ model.components_ - model.offset_
            found.append(np.square(residuals).sum(axis=1).mean())
        losses.append(found)
    joint, supervised = np.mean(losses, axis=0)
    assert joint < supervised


def test_targets_completed_by_the_joint_criterion_are_projections():
    X, _, seen, _ = drawn("identity")
    model = ReverseRegressor(criterion="joint").fit(X, seen)
    hidden = np.isnan(seen[:, 0])
    expected = (X[hidden] - model.offset_) @ np.linalg.pinv(model.components_)
    np.testing.assert_allclose(model.imputed_[hidden], expected, atol=1e-8)
    np.testing.assert_array_equal(model.imputed_[~hidden], seen[~hidden])


@pytest.mark.parametrize("transfer", ["sigmoid", "exp", "softmax", "mahalanobis"])
def test_transfers_that_do_not_reach_all_numbers_are_refused(transfer):
    X, Y, _, _ = drawn("identity")
    shares = np.exp(Y) / np.exp(Y).sum(axis=1, keepdims=True)
    with pytest.raises(ValueError, match="criterion='reverse'"):
        ReverseRegressor(transfer, criterion="joint").fit(X, shares)


def test_rows_with_some_targets_are_refused_with_their_number():
    X, _, seen, _ = drawn("identity")
    seen[3, 1] = np.nan
    with pytest.raises(ValueError, match="row 3"):
        ReverseRegressor(criterion="joint").fit(X, seen)
