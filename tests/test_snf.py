"""The profiled objective of supervised nonlinear factorization against its oracles."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize

from regfactor.labels.latent import ridge
from regfactor.labels.latent.features import (
    LatentGaussian,
    LatentPolynomial,
    Monomials,
    Waves,
    n_monomials,
)
from regfactor.labels.latent.problem import SNF, views_of
from regfactor.labels.latent.ridge import (
    DualRidge,
    Primal,
    RidgeView,
    gaussian_form,
    polynomial_form,
)

RNG = np.random.default_rng
FORMS = {
    "poly1 primal": Primal(Monomials(3, 1)),
    "poly2 primal": Primal(Monomials(3, 2)),
    "poly4 primal": Primal(Monomials(3, 4)),
    "poly1 dual": DualRidge(LatentPolynomial(1)),
    "poly2 dual": DualRidge(LatentPolynomial(2)),
    "poly3 dual": DualRidge(LatentPolynomial(3)),
    "rbf dual": DualRidge(LatentGaussian(0.4)),
    "rbf waves": Primal(Waves.drawn(3, 20, 0.4, RNG(7))),
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def problem(form, n=30, M=5, D=3, labels=8, weighted=False, seed=0):
    rng = RNG(seed)
    X = rng.normal(size=(n, M))
    Y = np.full((n, 2), np.nan)
    Y[:labels] = X[:labels, :2] + rng.normal(size=(labels, 2))
    Y[labels - 2, 1] = np.nan  # single targets may be missing
    samples = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)
    return SNF(views_of(X, Y, samples, (0.3, 0.2), 5.0, lambda m: form), 0.1, samples, D)


def unprofiled(problem, Z):
    """F from the regressions that attain it: eq. 5 of the paper at its optimal weights."""
    total = problem.lambda_z * float(problem.samples @ np.square(Z).sum(axis=1))
    for view, model in zip(problem.views, problem.regressions(Z), strict=True):
        rows = slice(None) if view.rows is None else view.rows
        loss = view.samples @ np.square(view.targets - model(Z[rows])).sum(axis=1)
        if isinstance(view.form, Primal):
            size = np.square(model.V / view.form.features.scales[:, None]).sum()
        else:
            K = view.form.kernel.gram(Z[rows], Z[rows])[0]
            size = np.vdot(model.alpha, K @ model.alpha)
        total += view.weight * (loss + view.ridge * size)
    return total


@every_form
@pytest.mark.parametrize("weighted", [False, True])
def test_the_value_is_that_of_the_regressions_it_eliminates(form, weighted):
    p = problem(form, weighted=weighted)
    Z = RNG(1).normal(size=(30, 3))
    assert p.value_and_gradient(Z.ravel())[0] == pytest.approx(unprofiled(p, Z), rel=1e-11)


@every_form
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_is_a_finite_difference(form, weighted):
    p = problem(form, weighted=weighted)
    theta = 0.5 * RNG(1).normal(size=90)
    gradient = p.value_and_gradient(theta)[1]
    for direction in RNG(2).normal(size=(5, 90)):
        ahead, behind = (p.value_and_gradient(theta + s * 1e-5 * direction)[0] for s in (1, -1))
        assert gradient @ direction == pytest.approx((ahead - behind) / 2e-5, rel=1e-6, abs=1e-6)


@every_form
def test_a_regression_knows_its_derivative(form):
    p = problem(form)
    model, Z, T = (
        p.regressions(0.5 * RNG(1).normal(size=(30, 3)))[0],
        RNG(2).normal(size=(4, 3)),
        RNG(3).normal(size=(4, 5)),
    )
    step = RNG(4).normal(size=(4, 3))
    change = ((model(Z + 1e-6 * step) - model(Z - 1e-6 * step)) / 2e-6 * T).sum(axis=1)
    np.testing.assert_allclose(
        np.einsum("iqd,iq,id->i", model.derivatives(Z), T, step), change, rtol=1e-6, atol=1e-7
    )


@every_form
def test_derivatives_of_some_rows_and_targets_at_a_time_are_those_of_all(form, monkeypatch):
    model, Z = (
        problem(form).regressions(0.5 * RNG(1).normal(size=(30, 3)))[0],
        RNG(2).normal(size=(200, 3)),
    )
    whole = model.derivatives(Z)
    assert whole.shape == (200, 5, 3)
    for name, size in (("MAX_KERNEL_ROWS", 7), ("HELD_NUMBERS", 1), ("CACHED_NUMBERS", 1)):
        monkeypatch.setattr(ridge, name, size)
    np.testing.assert_allclose(model.derivatives(Z), whole, atol=1e-12)


def test_squared_distances_are_those_of_all_pairs():
    Z, Y = RNG(0).normal(size=(20, 3)), RNG(1).normal(size=(30, 3))
    expected = np.exp(-0.4 * np.square(Z[:, None] - Y[None]).sum(axis=2))
    np.testing.assert_allclose(LatentGaussian(0.4).gram(Z, Y)[0], expected, atol=1e-14)
    assert np.all(np.diag(LatentGaussian(0.4).gram(1e3 * Z, 1e3 * Z)[0]) <= 1)


@pytest.mark.parametrize(
    ("D", "degree"), [(3, 1), (3, 2), (3, 3), (9, 1), (6, 2), (4, 3), (2, 5), (1, 4)]
)
def test_monomials_have_the_products_of_the_kernel(D, degree):
    Z = RNG(0).normal(size=(20, D))
    features = Monomials(D, degree)
    Phi = features.scales[:, None] * features.values(np.ascontiguousarray(Z.T))
    assert features.size == n_monomials(D, degree) == len(Phi)
    np.testing.assert_allclose(Phi.T @ Phi + 1, (Z @ Z.T + 1) ** degree, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("D", "degree"), [(3, 1), (3, 2), (3, 3), (9, 1), (6, 2), (4, 3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_primal_and_dual_agree(D, degree, weighted):
    theta = RNG(1).normal(size=30 * D)
    primal, dual = (
        problem(form, D=D, weighted=weighted).value_and_gradient(theta)
        for form in (Primal(Monomials(D, degree)), DualRidge(LatentPolynomial(degree)))
    )
    assert primal[0] == pytest.approx(dual[0], rel=1e-11)
    np.testing.assert_allclose(primal[1], dual[1], rtol=1e-7, atol=1e-9 * np.abs(dual[1]).max())


def test_many_waves_are_near_the_gaussian_kernel():
    theta = RNG(1).normal(size=90)
    exact = problem(DualRidge(LatentGaussian(0.4))).value_and_gradient(theta)[0]
    few, many = (
        abs(
            problem(Primal(Waves.drawn(3, size, 0.4, RNG(0)))).value_and_gradient(theta)[0] / exact
            - 1
        )
        for size in (50, 5000)
    )
    assert many < 0.01 and many < few


def test_residuals_are_ridge_times_duals_and_duals_sum_to_zero():
    p = problem(DualRidge(LatentPolynomial(2)), weighted=True)
    Z = RNG(1).normal(size=(30, 3))
    model, view = p.regressions(Z)[0], p.views[0]
    np.testing.assert_allclose(model.alpha.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(
        view.samples[:, None] * (view.targets - model(Z)), view.ridge * model.alpha, atol=1e-12
    )


@every_form
def test_latent_rows_are_free_up_to_a_rotation(form):
    if isinstance(form, Primal) and isinstance(form.features, Waves):
        pytest.skip("frequencies that were drawn prefer directions")
    p, Z = problem(form), RNG(1).normal(size=(30, 3))
    Q = np.linalg.qr(RNG(2).normal(size=(3, 3)))[0]
    assert p.value_and_gradient((Z @ Q).ravel())[0] == pytest.approx(
        p.value_and_gradient(Z.ravel())[0], rel=1e-11
    )


def test_a_weight_counts_as_equal_rows():
    form, rng = Primal(Monomials(2, 2)), RNG(0)
    X, Z, Y, w = (
        rng.normal(size=(12, 4)),
        rng.normal(size=(12, 2)),
        rng.normal(size=(12, 1)),
        rng.integers(1, 4, 12),
    )
    Y[5:] = np.nan
    one = SNF(
        views_of(X, Y, w.astype(float), (0.1, 0.1), 3.0, lambda m: form), 0.2, w.astype(float), 2
    )
    X, Y, repeated = np.repeat(X, w, axis=0), np.repeat(Y, w, axis=0), np.repeat(Z, w, axis=0)
    ones = np.ones(len(X))
    many = SNF(views_of(X, Y, ones, (0.1, 0.1), 3.0, lambda m: form), 0.2, ones, 2)
    assert one.value_and_gradient(Z.ravel())[0] == pytest.approx(
        many.value_and_gradient(repeated.ravel())[0]
    )


def minimized(p, start):
    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 0, "gtol": 1e-10}
    return scipy.optimize.minimize(
        p.value_and_gradient, start, jac=True, method="L-BFGS-B", options=options
    )


def linear_optimum(X, D, lambda_v, lambda_z):
    """The global minimum of degree 1 without labels, by singular values."""
    t, s = np.sqrt(lambda_v * lambda_z), np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    kept = np.where(s > t, 2 * t * s - t**2, s**2)
    return kept[:D].sum() + np.square(s[D:]).sum()


@pytest.mark.parametrize("D", [2, 4])
@pytest.mark.parametrize("form", [Primal, DualRidge])
def test_degree_one_without_labels_reaches_its_closed_form(D, form):
    X = RNG(0).normal(size=(40, 6)) @ RNG(1).normal(size=(6, 6))
    kind = Primal(Monomials(D, 1)) if form is Primal else DualRidge(LatentPolynomial(1))
    ones = np.ones(40)
    p = SNF((RidgeView(X, ones, 0.7, 1.0, kind),), 1.3, ones, D)
    found = minimized(p, RNG(2).normal(size=40 * D))
    assert found.fun == pytest.approx(linear_optimum(X, D, 0.7, 1.3), rel=1e-8)


def test_with_all_rows_labeled_a_target_is_one_more_column():
    X, y, ones = RNG(0).normal(size=(40, 4)), RNG(1).normal(size=(40, 1)), np.ones(40)
    views = views_of(X, y, ones, (0.5, 0.5), 1.0, lambda m: Primal(Monomials(2, 1)))
    found = minimized(SNF(views, 0.8, ones, 2), RNG(2).normal(size=80))
    assert found.fun == pytest.approx(linear_optimum(np.hstack([X, y]), 2, 0.5, 0.8), rel=1e-8)


def test_a_back_constraint_has_the_gradient_of_what_it_holds():
    p, P = problem(Primal(Monomials(3, 2))), RNG(3).normal(size=(30, 4))
    held, E = replace(p, basis=lambda X: P), RNG(4).normal(size=(4, 3))
    assert held.value_and_gradient(E.ravel())[0] == p.value_and_gradient((P @ E).ravel())[0]
    d = RNG(5).normal(size=12)
    ahead, behind = (held.value_and_gradient(E.ravel() + s * 1e-6 * d)[0] for s in (1, -1))
    assert held.value_and_gradient(E.ravel())[1] @ d == pytest.approx(
        (ahead - behind) / 2e-6, rel=1e-6
    )


def test_the_cheaper_exact_form_is_taken():
    assert isinstance(polynomial_form(100, 3, 2), Primal) and isinstance(
        polynomial_form(10, 3, 2), DualRidge
    )
    assert isinstance(gaussian_form(3000, 3, 1.0, 10, None), DualRidge)
    waves = gaussian_form(3001, 3, 1.0, 10, RNG(0))
    assert (
        isinstance(waves, Primal)
        and isinstance(waves.features, Waves)
        and waves.features.size == 10
    )
    with pytest.raises(ValueError, match="Lower degree or n_components"):
        polynomial_form(4000, 30, 4)


def test_equal_latent_rows_are_no_obstacle():
    p = problem(DualRidge(LatentPolynomial(2)))
    value, gradient = p.value_and_gradient(np.ones(90))
    assert np.isfinite(value) and np.isfinite(gradient).all()
