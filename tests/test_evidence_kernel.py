"""Kernels with relevances: evidence, its gradient and Laplace's correction, exact leave-one-out."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, DotProduct

from regfactor.labels.semi_supervised.evidence_kernel import EvidenceKernel, KernelForm, TargetRows
from regfactor.labels.semi_supervised.kernel_posterior import exact_posterior, inducing_posterior

SHAPES = ("linear", "smooth", "mixed")
every_shape = pytest.mark.parametrize("shape", SHAPES)


def problem(shape, n=14, d=3, weighted=False, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    targets = rows[:, 0] + np.sin(rows[:, 1]) + 0.3 * rng.normal(size=n)
    weights = rng.uniform(0.5, 3.0, n) if weighted else np.ones(n)
    return EvidenceKernel(KernelForm(shape, 1.0), TargetRows(rows, targets, weights))


def parameters(kernel, seed=1):
    means, deviations = kernel.prior
    return means + 0.5 * deviations * np.random.default_rng(seed).normal(size=len(means))


@every_shape
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_is_that_of_the_objective(shape, weighted):
    kernel = problem(shape, weighted=weighted)
    theta = parameters(kernel)
    _, gradient = kernel.value_and_gradient(theta)
    for j, step in enumerate(1e-5 * np.eye(len(theta))):
        upper, _ = kernel.value_and_gradient(theta + step)
        lower, _ = kernel.value_and_gradient(theta - step)
        assert gradient[j] == pytest.approx((upper - lower) / 2e-5, abs=1e-6)


@every_shape
def test_the_evidence_is_that_of_reflected_targets(shape):
    """Householder's reflection of the offset to the first axis, which is then dropped."""
    kernel = problem(shape)
    theta = parameters(kernel)
    at = kernel.form.named(theta, 3)
    n = 14
    v = np.ones(n) / np.sqrt(n)
    u = v - np.eye(n)[0]
    reflection = np.eye(n) - 2 * np.outer(u, u) / (u @ u)
    C = at.kernel(kernel.data.rows, kernel.data.rows) + at.noise * np.eye(n)
    reflected = (reflection @ C @ reflection)[1:, 1:]
    y = (reflection @ kernel.data.targets)[1:]
    gram = kernel.gram(at)
    assert gram.log_determinant == pytest.approx(np.linalg.slogdet(reflected)[1], rel=1e-8)
    assert gram.quadratic == pytest.approx(y @ np.linalg.solve(reflected, y), rel=1e-8)


@every_shape
def test_a_flat_prior_of_the_offset_is_the_limit_of_a_wide_one(shape):
    kernel = problem(shape)
    theta = parameters(kernel)
    posterior = exact_posterior(kernel, theta)
    at = posterior.at
    rows = kernel.data.rows
    new = np.random.default_rng(3).normal(size=(5, 3))
    wide = 1e7
    C = at.kernel(rows, rows) + wide + at.noise * np.eye(14)
    k = at.kernel(new, rows) + wide
    mean, variance = posterior.mean_and_variance(new)
    np.testing.assert_allclose(k @ np.linalg.solve(C, kernel.data.targets), mean, atol=1e-4)
    np.testing.assert_allclose(posterior.mean(new), mean, rtol=1e-9)
    expected = at.diagonal(new) + wide - (k * np.linalg.solve(C, k.T).T).sum(axis=1) + at.noise
    np.testing.assert_allclose(variance / posterior.scale, expected, atol=1e-4)


@pytest.mark.parametrize("shape", ["linear", "smooth"])
def test_predictions_are_those_of_scikit_learn_at_the_same_parameters(shape):
    kernel = problem(shape)
    theta = parameters(kernel)
    at = kernel.form.named(theta, 3)
    posterior = exact_posterior(kernel, theta)
    rows = kernel.data.rows
    if shape == "smooth":
        peer_kernel = RBF(1 / np.sqrt(at.metric), "fixed")
        peer_rows, new = rows, rows[:4] + 0.1
    else:
        peer_kernel = DotProduct(0.0, "fixed")
        stretch = np.sqrt(at.relevances / 3)
        peer_rows, new = rows * stretch, (rows[:4] + 0.1) * stretch
    # what is left without the offset that the flat prior found
    targets = kernel.data.targets - posterior.offset
    peer = GaussianProcessRegressor(peer_kernel, alpha=at.noise, optimizer=None)
    peer.fit(peer_rows, targets)
    np.testing.assert_allclose(
        posterior.mean(rows[:4] + 0.1), peer.predict(new) + posterior.offset, atol=1e-6
    )


@every_shape
@pytest.mark.parametrize("weighted", [False, True])
def test_left_out_targets_are_those_of_refits(shape, weighted):
    kernel = problem(shape, weighted=weighted)
    theta = parameters(kernel)
    data = kernel.data
    left_out = exact_posterior(kernel, theta).left_out
    value = kernel.gram(kernel.form.named(theta, 3))
    log_density = -0.5 * (value.log_determinant + data.degrees * np.log(value.quadratic))
    shifts = []
    for i in range(len(data.rows)):
        rest = np.arange(len(data.rows)) != i
        part = TargetRows(data.rows[rest], data.targets[rest], data.weights[rest])
        other = EvidenceKernel(kernel.form, part)
        posterior = exact_posterior(other, theta)
        mean, variance = posterior.mean_and_variance(data.rows[i : i + 1])
        assert left_out.means[i] == pytest.approx(mean[0], rel=1e-6, abs=1e-8)
        noise = posterior.scale * posterior.at.noise
        own = variance[0] - noise + noise / data.weights[i]
        assert left_out.variances[i] == pytest.approx(own, rel=1e-6)
        gram = other.gram(posterior.at)
        without = -0.5 * (gram.log_determinant + part.degrees * np.log(gram.quadratic))
        shifts.append(log_density - without - left_out.log_densities[i])
    if not weighted:  # up to a constant
        np.testing.assert_allclose(shifts, shifts[0], atol=1e-6)


@every_shape
def test_weights_act_as_repetition_counts(shape):
    rng = np.random.default_rng(4)
    kernel = problem(shape)
    data = kernel.data
    counts = rng.integers(1, 4, len(data.rows))
    theta = parameters(kernel)
    weighted = EvidenceKernel(
        kernel.form, TargetRows(data.rows, data.targets, counts.astype(float))
    )
    repeated = EvidenceKernel(
        kernel.form,
        TargetRows(
            np.repeat(data.rows, counts, axis=0),
            np.repeat(data.targets, counts),
            np.ones(counts.sum()),
        ),
    )
    offset = 0.0
    for at in (theta, kernel.prior[0]):  # equal up to a constant
        difference = weighted.value_and_gradient(at)[0] - repeated.value_and_gradient(at)[0]
        offset = offset or difference
        assert difference == pytest.approx(offset, abs=1e-6)
    np.testing.assert_allclose(
        weighted.curvature(theta).information(),
        repeated.curvature(theta).information(),
        rtol=1e-5,
        atol=1e-7,
    )
    rows = rng.normal(size=(5, 3))
    np.testing.assert_allclose(
        exact_posterior(weighted, theta).mean(rows),
        exact_posterior(repeated, theta).mean(rows),
        rtol=1e-6,
    )


@every_shape
def test_the_information_is_the_expected_curvature(shape):
    """The mean of the second derivatives over targets that are drawn from the model itself."""
    kernel = problem(shape, n=10, d=2)
    theta = parameters(kernel)
    data = kernel.data
    at = kernel.form.named(theta, 2)
    C = at.kernel(data.rows, data.rows) + at.noise * np.eye(10)
    draws = np.random.default_rng(5).multivariate_normal(np.zeros(10), C, 1000)
    own = kernel.prior.shape[1]
    prior = np.diag(kernel._prior_curvature((theta - kernel.prior[0]) / kernel.prior[1]))
    scores = []
    for y in draws:
        drawn = EvidenceKernel(kernel.form, TargetRows(data.rows, y, data.weights))
        _, gradient = drawn.value_and_gradient(theta)
        scores.append(gradient)
    assert prior.shape == (own, own)
    expected = np.cov(np.transpose(scores))
    # y'P y is not independent of itself: the profiled score has M / (M + 2) of the variance
    information = kernel.curvature(theta).information() * 9 / (9 + 2)
    np.testing.assert_allclose(expected, information, atol=0.2 * np.abs(information).max())


def test_the_log_evidence_integrates_the_parameters():
    """Laplace's method against a grid, for a kernel of one input."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(25, 1))
    targets = rows[:, 0] + 0.5 * rng.normal(size=25)
    kernel = EvidenceKernel(KernelForm("linear", 1.0), TargetRows(rows, targets, np.ones(25)))
    mode = kernel.mode()
    means, deviations = kernel.prior
    grid = np.linspace(-6, 6, 61)
    values = np.empty((61, 61))
    for i, a in enumerate(grid):
        for j, b in enumerate(grid):
            values[i, j] = kernel.value_and_gradient(means + deviations * np.array([a, b]))[0]
    cell = (grid[1] - grid[0]) ** 2
    total = np.logaddexp.reduce(-values.ravel()) + np.log(cell / (2 * np.pi))
    assert mode.log_evidence == pytest.approx(total, abs=0.3)
    _, gradient = kernel.value_and_gradient(mode.theta)
    assert np.abs(gradient).max() < 1e-2


def test_a_kernel_that_is_zero_has_the_evidence_of_a_constant():
    data = problem("linear").data
    constant = EvidenceKernel(
        KernelForm("linear", 1.0), TargetRows(np.zeros((14, 1)), data.targets, data.weights)
    )
    deviations = data.targets - data.targets.mean()
    # the second term is the curvature of Student's prior at its mean
    expected = -0.5 * 13 * np.log(deviations @ deviations) - 0.5 * np.log(4 / 3)
    assert constant.mode().log_evidence == pytest.approx(expected, abs=1e-6)
    left_out = exact_posterior(constant, constant.prior[0]).left_out
    np.testing.assert_allclose(data.targets - left_out.means, deviations * 14 / 13)


@every_shape
def test_all_rows_as_inducing_rows_give_the_exact_posterior(shape):
    kernel = problem(shape, weighted=True)
    theta = parameters(kernel)
    exact = exact_posterior(kernel, theta)
    induced = inducing_posterior(exact.at, kernel.data, kernel.data.rows)
    new = np.random.default_rng(7).normal(size=(6, 3))
    for found, expected in zip(
        induced.mean_and_variance(new), exact.mean_and_variance(new), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert induced.scale == pytest.approx(exact.scale, rel=1e-3)
    np.testing.assert_allclose(induced.left_out.means, exact.left_out.means, atol=1e-3)
    np.testing.assert_allclose(induced.left_out.variances, exact.left_out.variances, rtol=2e-3)
    np.testing.assert_allclose(
        induced.left_out.log_densities - exact.left_out.log_densities, 0.0, atol=5e-3
    )


@every_shape
@pytest.mark.parametrize("weighted", [False, True])
def test_slopes_of_left_out_targets_are_their_derivatives(shape, weighted):
    kernel = problem(shape, weighted=weighted)
    theta = parameters(kernel)
    slopes = kernel.curvature(theta).left_out_slopes()
    roots = kernel.data.roots
    for j, step in enumerate(1e-5 * np.eye(len(theta))):
        upper = exact_posterior(kernel, theta + step).left_out
        lower = exact_posterior(kernel, theta - step).left_out
        means = roots * (lower.means - upper.means) / 2e-5
        np.testing.assert_allclose(slopes.residuals[j], means, atol=1e-5)
        densities = (upper.log_densities - lower.log_densities) / 2e-5
        np.testing.assert_allclose(slopes.log_densities[j], densities, atol=1e-5)


def refitted_means(kernel):
    """Each target as predicted by a kernel whose parameters were fitted without it."""
    data = kernel.data
    means = []
    for i in range(len(data.rows)):
        rest = np.arange(len(data.rows)) != i
        part = TargetRows(data.rows[rest], data.targets[rest], data.weights[rest])
        other = EvidenceKernel(kernel.form, part)
        posterior = exact_posterior(other, other.mode().theta)
        means.append(posterior.mean(data.rows[i : i + 1])[0])
    return np.array(means)


@every_shape
def test_left_out_targets_do_not_reach_the_parameters_either(shape):
    fixed = 0.0
    moved = 0.0
    for seed in range(4):
        data = problem(shape, n=16, d=5, seed=seed).data
        kernel = EvidenceKernel(KernelForm(shape, 2.0), data)
        mode = kernel.mode()
        refitted = refitted_means(kernel)
        own = exact_posterior(kernel, mode.theta).left_out.means
        fixed += np.square(data.targets - own).mean() - np.square(data.targets - refitted).mean()
        own = exact_posterior(kernel, mode.theta, mode).left_out.means
        moved += np.square(data.targets - own).mean() - np.square(data.targets - refitted).mean()
    assert fixed < -0.05  # too small an error, since the parameters have seen the target
    assert abs(moved) < 0.6 * abs(fixed)
