"""Laws of kernels, equivalence of spectral kernels with embeddings, and scoring of new rows."""

import copy
import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn import manifold
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_swiss_roll
from sklearn.decomposition import PCA, KernelPCA
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier, kneighbors_graph
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from catalogue import KERNELS, WIDTHS, cases
from regfactor.clusters.kmeans import BregmanKMeans
from regfactor.clusters.normalized_cut import BregmanNormalizedCut
from regfactor.kernels import (
    ClassicalMDS,
    Custom,
    Gaussian,
    Isomap,
    Laplacian,
    Linear,
    LocallyLinear,
    Polynomial,
    Precomputed,
    as_kernel,
)
from regfactor.labels.reverse.classifier import ReverseClassifier
from regfactor.tables.kernel_subspace import KernelSubspace
from regfactor.testing.laws import frozen

INDEFINITE = ("isomap", "mds_cityblock")  # distances that fit into no Euclidean space
OF_ALL_ROWS = (
    "isomap",
    "mds",
    "mds_cityblock",
    "locally_linear",
    "laplacian",
    "laplacian_weighted",
    "laplacian_full",
)
every_kernel = pytest.mark.parametrize("kernel", cases(KERNELS, without=("precomputed",)))


def rows(n=60, d=3, seed=0):
    return frozen(np.random.default_rng(seed).normal(size=(n, d)))


def roll(n=300, seed=0):
    return frozen(make_swiss_roll(n, random_state=seed)[0])


def close(actual, desired, tol=1e-10):
    np.testing.assert_allclose(actual, desired, atol=tol * np.abs(desired).max(), rtol=0)


def same_up_to_signs(A, B, tol=1e-6):
    close(A * np.sign((A * B).sum(axis=0)), B, tol)


# --- laws -----------------------------------------------------------------------------------------


@every_kernel
def test_gram_is_symmetric(kernel):
    K = kernel.gram(rows())
    assert K.shape == (60, 60)
    close(K, K.T, 1e-12)


@pytest.mark.parametrize("kernel", cases(KERNELS, without=("precomputed", *INDEFINITE)))
def test_gram_has_no_negative_eigenvalue_and_features_have_its_inner_products(kernel):
    K, R = kernel.gram(rows()), kernel.features(rows())
    values = np.linalg.eigvalsh(K)
    assert values[0] >= -1e-12 * values[-1]
    assert R.shape[1] <= 60
    close(R @ R.T, K)


@pytest.mark.parametrize("kernel", cases(KERNELS, *INDEFINITE))
def test_features_leave_out_directions_of_negative_eigenvalue(kernel):
    values, vectors = np.linalg.eigh(kernel.gram(rows()))
    assert values[0] < -0.01 * values[-1]
    R = kernel.features(rows())
    close(R @ R.T, (vectors * np.maximum(values, 0)) @ vectors.T)


@pytest.mark.parametrize("kernel", cases(KERNELS, without=("precomputed", *OF_ALL_ROWS)))
def test_pointwise_kernels_know_only_two_rows(kernel):
    X, Y = rows(20), rows(30, seed=1)
    kernel = kernel.resolved(Y)
    K = kernel.gram(X, Y)
    close(K, kernel.gram(Y, X).T, 1e-13)
    close(K, kernel.gram(np.vstack([X, Y]))[:20, 20:], 1e-13)


@every_kernel
def test_new_rows_are_scored_alone_and_the_prepared_part_changes_nothing(kernel):
    X, Y = rows(20), rows(60, seed=1)
    K = kernel.gram(X, Y)
    assert K.shape == (20, 60)
    close(kernel.gram(X, Y, kernel.prepare(Y)), K, 1e-13)
    close(kernel.gram(X[[3, 7]], Y), K[[3, 7]], 1e-12)


@every_kernel
def test_resolving_is_idempotent_and_changes_no_kernel_of_the_training_rows(kernel):
    X, before = rows(), copy.deepcopy(kernel)
    once = kernel.resolved(X)
    assert once.resolved(rows(seed=5)) == once
    assert not isinstance(once.get_params().get("gamma"), str)
    assert kernel == before
    close(once.gram(X), kernel.gram(X), 1e-14)


@every_kernel
def test_float32_stays_float32(kernel):
    X = rows().astype(np.float32)
    for K in (kernel.gram(X), kernel.gram(X[:5], X), kernel.features(X)):
        assert K.dtype == np.float32
    close(kernel.gram(X), kernel.gram(X.astype(np.float64)), 1e-4)


@pytest.mark.parametrize(
    "kernel", [Linear(), Gaussian(), Gaussian("median"), Gaussian("neighbors"), Polynomial()]
)
def test_sparse_tables_are_taken_by_pointwise_kernels(kernel):
    X = scipy.sparse.random_array((30, 8), density=0.3, rng=0, format="csr")
    close(kernel.gram(X), kernel.gram(X.toarray()), 1e-12)
    R = kernel.features(X)
    close(R @ R.T, kernel.gram(X.toarray()), 1e-10)


@pytest.mark.parametrize("d", [3, 20])  # neighbors are found by trees, or by inner products
@pytest.mark.parametrize("kernel", cases(KERNELS, "gaussian", *OF_ALL_ROWS))
def test_kernels_of_distances_keep_their_digits_far_from_the_origin(kernel, d):
    far = rows(d=d) + 1e8
    near, new = far - 1e8, rows(9, d, seed=1)
    close(kernel.gram(far), kernel.gram(near), 1e-12)
    close(kernel.gram(new + 1e8, far), kernel.gram(new + 1e8 - 1e8, near), 1e-12)


@pytest.mark.parametrize("gamma", ["scale", "median", "neighbors"])
@pytest.mark.parametrize("d", [3, 20])
def test_widths_are_those_of_rows_near_the_origin(gamma, d):
    far = rows(d=d) + 1e8
    assert Gaussian(gamma).resolved(far).gamma == pytest.approx(
        Gaussian(gamma).resolved(far - 1e8).gamma, rel=1e-12
    )


# --- widths ---------------------------------------------------------------------------------------


def test_widths_are_those_of_their_rules():
    X = rows(80)
    squares = squareform(pdist(X, "sqeuclidean"))
    tenth = np.sort(squares, axis=1)[:, 10]
    assert Gaussian("median").resolved(X).gamma == pytest.approx(
        1 / (2 * np.median(pdist(X, "sqeuclidean")))
    )
    assert Gaussian("neighbors").resolved(X).gamma == pytest.approx(1 / (2 * np.median(tenth)))
    y = X[:, 0] > 0
    assert Gaussian("scale").resolved(X).gamma == pytest.approx(SVC(gamma="scale").fit(X, y)._gamma)


@pytest.mark.parametrize("gamma", ["median", "neighbors"])
def test_widths_of_long_tables_come_from_the_same_rows_each_time(gamma):
    X = rows(5000)
    found = Gaussian(gamma).resolved(X).gamma
    assert Gaussian(gamma).resolved(X).gamma == found
    squares = np.sort(cdist(X[:500], X, "sqeuclidean"), axis=1)
    of_all = squares[:, 10] if gamma == "neighbors" else squares[:, 1:]
    assert found == pytest.approx(1 / (2 * np.median(of_all)), rel=0.1)


@pytest.mark.parametrize("gamma", ["scale", "median", "neighbors"])
@pytest.mark.parametrize(
    "X", [np.ones((1, 2)), np.ones((30, 2)), np.vstack([np.zeros((29, 2)), np.ones((1, 2))])]
)
def test_equal_rows_give_a_finite_width(gamma, X):
    assert 0 < Gaussian(gamma).resolved(X).gamma < np.inf


# --- strings and errors ---------------------------------------------------------------------------


def test_strings_functions_and_parts_become_kernels():
    assert as_kernel("linear") == Linear()
    assert as_kernel("rbf", gamma="median") == Gaussian("median")
    assert as_kernel("poly", gamma=0.5, degree=2, coef0=0.0) == Polynomial(2, 0.0, 0.5)
    assert as_kernel("precomputed") == Precomputed()
    assert as_kernel(laplacian_kernel) == Custom(laplacian_kernel)
    part = Isomap(7)
    assert as_kernel(part) is part


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: as_kernel("rfb"), "Did you mean 'rbf'"),
        (lambda: as_kernel("rbf", gamma="skale"), "Did you mean 'scale'"),
        (lambda: as_kernel("rbf", gamma=-1.0), "Gaussian needs gamma > 0"),
        (lambda: as_kernel(Gaussian), r"write Gaussian\(\)"),
        (lambda: as_kernel(3), "a function of two tables"),
        (lambda: Polynomial(degree=0), "whole degree >= 1"),
        (lambda: Polynomial(degree=1.5), "whole degree >= 1"),
        (lambda: Polynomial(coef0=-1.0), "coef0 >= 0"),
        (lambda: Custom("linear"), "function of two tables"),
        (lambda: Isomap(0), "whole n_neighbors >= 1"),
        (lambda: LocallyLinear(reg=0.0), "reg > 0"),
        (lambda: Laplacian(None), "n_neighbors, gamma, or both"),
        (lambda: Gaussian().set_params(gamma="x"), "Unknown gamma"),
        (lambda: Isomap(20).gram(rows(20)), "lower n_neighbors"),
        (lambda: LocallyLinear(20).gram(rows(3), rows(19)), "lower n_neighbors"),
        (lambda: Precomputed().gram(rows(4, 3)), "one column for each of the 4"),
        (lambda: Precomputed().gram(rows(4, 3), rows(5)), "one column for each of the 5"),
        (lambda: Custom(lambda x, y: 1.0).gram(rows(4)), "all pairs of rows"),
    ],
)
def test_what_is_wrong_is_said_with_its_remedy(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- distances ------------------------------------------------------------------------------------


def test_classical_scaling_of_euclidean_distances_is_the_linear_kernel_about_the_mean():
    X, new = rows(), rows(7, seed=1)
    mean = X.mean(axis=0)
    close(ClassicalMDS().gram(X), (X - mean) @ (X - mean).T)
    close(ClassicalMDS().gram(new, X), (new - mean) @ (X - mean).T)


@pytest.mark.parametrize("metric", ["cityblock", "chebyshev"])
def test_classical_scaling_doubly_centers_squared_distances(metric):
    X = rows()
    J = np.eye(60) - 1 / 60
    close(ClassicalMDS(metric).gram(X), -J @ squareform(pdist(X, metric)) ** 2 @ J / 2)
    D = squareform(pdist(X, metric))
    close(ClassicalMDS("precomputed").gram(D[:9], D), ClassicalMDS(metric).gram(X[:9], X))


@pytest.mark.parametrize("kernel", [ClassicalMDS(), ClassicalMDS("cityblock"), Isomap(8)])
def test_a_reference_taken_as_a_new_row_gets_its_own_row(kernel):
    X = roll()
    close(kernel.gram(X, X), kernel.gram(X), 1e-12)
    close(kernel.gram(X[5:9], X), kernel.gram(X)[5:9], 1e-12)


def test_what_is_prepared_of_distances_has_the_means_of_their_squares():
    D, means = ClassicalMDS("cityblock").prepare(rows())
    close(D, squareform(pdist(rows(), "cityblock")))
    close(means, np.square(D).mean(axis=0))


@pytest.mark.parametrize(
    "model", [BregmanKMeans(3, kernel=Isomap(8)), ReverseClassifier(kernel=Isomap(8))], ids=repr
)
def test_the_structure_of_training_rows_is_built_once(model, monkeypatch):
    X, built, distances = roll(), [], Isomap.distances
    monkeypatch.setattr(
        Isomap, "distances", lambda kernel, Y: built.append(len(Y)) or distances(kernel, Y)
    )
    fit = clone(model).fit(X, np.arange(300) % 2)
    labels = fit.predict(X)
    np.testing.assert_array_equal([fit.predict(row[None])[0] for row in X[:20]], labels[:20])
    assert built == [300]


def test_isomap_is_that_of_scikit_learn_on_training_and_new_rows():
    X, new = roll(), roll(50, seed=1)
    theirs = manifold.Isomap(n_neighbors=8, n_components=3).fit(X)
    ours = KernelSubspace(Isomap(8), n_components=3).fit(X)
    same_up_to_signs(ours.codes_, theirs.embedding_)
    same_up_to_signs(ours.transform(new), theirs.transform(new))


def test_isomap_joins_components_as_scikit_learn_does_and_warns():
    X = make_blobs(90, centers=[[0, 0], [9, 0], [0, 20]], random_state=0)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = manifold.Isomap(n_neighbors=5).fit(X)
    with pytest.warns(UserWarning, match="has 3 components"):
        ours = Isomap(5).distances(X)
    close(ours, theirs.dist_matrix_)


def test_isomap_walks_through_equal_rows():
    X = np.repeat(np.arange(6.0), 3)[
        :, None
    ]  # neighbors at distance zero, and pieces of equal rows
    with pytest.warns(UserWarning, match="components"):
        G = Isomap(2).distances(X)
    close(G, np.abs(X - X.T))


# --- graphs ---------------------------------------------------------------------------------------


def test_locally_linear_kernel_holds_the_embedding_of_scikit_learn():
    X, new = roll(), roll(40, seed=1)
    theirs = manifold.LocallyLinearEmbedding(
        n_neighbors=10, n_components=2, eigen_solver="dense"
    ).fit(X)
    ours = KernelSubspace(LocallyLinear(10), n_components=2).fit(X)
    scale = np.sqrt(ours.eigenvalues_)
    same_up_to_signs(ours.codes_ / scale, theirs.embedding_, 1e-5)
    same_up_to_signs(ours.transform(new) / scale, theirs.transform(new), 1e-5)


def test_a_row_on_its_neighbors_plane_is_rebuilt_from_them():
    Y = rows(40, 2)
    weights = LocallyLinear(5, reg=1e-10).weights(Y[:6] + 0.01, Y)
    close(weights @ Y, Y[:6] + 0.01, 1e-6)
    close(weights.sum(axis=1), np.ones(6), 1e-12)


def affinities(kernel, X):
    """The affinities by their definition, pair by pair."""
    squares = squareform(pdist(X, "sqeuclidean"))
    A = (
        np.ones_like(squares)
        if kernel.gamma is None
        else np.exp(-kernel.resolved(X).gamma * squares)
    )
    if kernel.n_neighbors is not None:
        near = kneighbors_graph(X, kernel.n_neighbors).toarray()
        A *= np.maximum(near, near.T)
    np.fill_diagonal(A, 0)
    return A


@pytest.mark.parametrize(
    "kernel", cases(KERNELS, "laplacian", "laplacian_weighted", "laplacian_full")
)
def test_laplacian_kernel_has_the_last_eigenvectors_of_the_laplacian_first(kernel):
    X = rows(80)
    A = affinities(kernel, X)
    L = np.diag(A.sum(axis=1)) - A
    values, vectors = np.linalg.eigh(L)
    assert values[1] > 1e-8  # one piece
    ours = KernelSubspace(kernel, n_components=3).fit(X)
    close(ours.eigenvalues_, 1 / values[1:4], 1e-9)
    same_up_to_signs(ours.codes_ / np.sqrt(ours.eigenvalues_), vectors[:, 1:4])


def test_laplacian_kernel_of_a_circle_is_known():
    angle = 2 * np.pi * np.arange(50) / 50
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    waves = np.arange(1, 50)
    first_row = (np.cos(np.outer(angle, waves)) / (2 - 2 * np.cos(2 * np.pi * waves / 50))).sum(
        axis=1
    ) / 50
    close(Laplacian(2).gram(circle), scipy.linalg.circulant(first_row))


@pytest.mark.filterwarnings("ignore:The graph of neighbors has")
def test_laplacian_kernel_of_pieces_is_that_of_each_piece():
    X = np.vstack([rows(30), rows(30, seed=1) + 100])
    K = Laplacian(5).gram(X)
    assert np.abs(K[:30, 30:]).max() <= 1e-12 * np.abs(K).max()
    close(K[:30, :30], Laplacian(5).gram(X[:30]))


@pytest.mark.parametrize("kernel", [Laplacian(5), Laplacian(5, 0.7), Laplacian(None, 0.7)])
def test_a_new_row_of_a_laplacian_is_the_mean_of_its_neighbors(kernel):
    X, new = rows(50), rows(6, seed=1)
    squares = cdist(new, X, "sqeuclidean")
    A = np.ones_like(squares) if kernel.gamma is None else np.exp(-kernel.gamma * squares)
    if kernel.n_neighbors is not None:
        A *= squares <= np.sort(squares, axis=1)[:, [kernel.n_neighbors - 1]]
    close(kernel.gram(new, X), A / A.sum(axis=1, keepdims=True) @ kernel.gram(X))
    far = kernel.gram(X[:1] + 1e3, X)  # whose affinities all vanish in floating point
    assert np.isfinite(far).all()


@pytest.mark.parametrize("kernel", [LocallyLinear(3, reg=1e-10), Laplacian(5, 1e4)])
def test_a_reference_keeps_its_own_place_as_far_as_its_weight_is_on_itself(kernel):
    close(kernel.weights(rows(), rows()).toarray(), np.eye(60), 1e-6)


# --- the estimator --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "peer"),
    [
        ({"kernel": "rbf", "gamma": 0.3}, {"kernel": "rbf", "gamma": 0.3}),
        (
            {"kernel": "poly", "gamma": 0.2, "degree": 2},
            {"kernel": "poly", "gamma": 0.2, "degree": 2, "coef0": 1},
        ),
        ({"kernel": "linear"}, {"kernel": "linear"}),
    ],
)
@pytest.mark.parametrize("n", [60, 700])
def test_kernel_subspace_is_kernel_pca(params, peer, n):
    X, new = rows(n), rows(9, seed=1)
    theirs = KernelPCA(3, eigen_solver="dense", **peer).fit(X)
    ours = KernelSubspace(n_components=3, **params).fit(X)
    close(ours.eigenvalues_, theirs.eigenvalues_, 1e-9)
    same_up_to_signs(ours.codes_, theirs.transform(X))
    same_up_to_signs(ours.transform(new), theirs.transform(new))


def test_kernel_subspace_of_a_linear_kernel_is_pca():
    X = rows(50, 4)
    same_up_to_signs(KernelSubspace("linear").fit_transform(X), PCA(2).fit_transform(X), 1e-9)


@pytest.mark.parametrize(
    ("dtype", "shift", "tol"), [(np.float32, 1e4, 2e-2), (np.float64, 1e8, 1e-6)]
)
def test_a_linear_kernel_keeps_its_digits_far_from_the_origin(dtype, shift, tol):
    X = rows(80, 3) + 0.0
    near, far = (
        KernelSubspace("linear").fit(X),
        KernelSubspace("linear").fit((X + shift).astype(dtype)),
    )
    np.testing.assert_allclose(far.eigenvalues_, near.eigenvalues_, rtol=tol)
    np.testing.assert_allclose(
        far.transform((X[:5] + shift).astype(dtype)), far.codes_[:5], atol=1e-5
    )


@pytest.mark.parametrize("kernel", [ClassicalMDS("cityblock"), Isomap(8), Gaussian(0.2)])
def test_transform_reproduces_the_codes_and_the_objective_is_the_rest(kernel):
    X = roll(120)
    model = KernelSubspace(kernel, n_components=3).fit(X)
    close(model.transform(X), model.codes_, 1e-9)
    J = np.eye(120) - 1 / 120
    rest = J @ kernel.gram(X) @ J - model.codes_ @ model.codes_.T
    assert model.objective_ == pytest.approx(np.vdot(rest, rest))


def test_no_other_codes_come_nearer_to_the_kernel():
    X, rng = rows(30), np.random.default_rng(0)
    model = KernelSubspace(ClassicalMDS("cityblock")).fit(X)
    K = ClassicalMDS("cityblock").gram(X)
    for size in (1e-3, 1e-1, 1.0):
        other = model.codes_ + size * rng.normal(size=model.codes_.shape)
        assert np.linalg.norm(K - other @ other.T) ** 2 > model.objective_


def test_there_are_no_more_components_than_positive_eigenvalues():
    assert KernelSubspace("linear", n_components=5).fit_transform(rows(20, 2)).shape == (20, 2)
    with pytest.warns(UserWarning, match="all rows are equal"):
        assert KernelSubspace("linear").fit_transform(np.ones((5, 2))).shape == (5, 0)


def test_precomputed_kernels_and_distances_are_cut_by_rows_and_columns_in_folds():
    X = np.vstack([rows(40), rows(40, seed=1) + 3])
    y = np.repeat([0, 1], 40)
    classifier = KNeighborsClassifier()
    direct = cross_val_score(make_pipeline(KernelSubspace("rbf", gamma=0.1), classifier), X, y)
    K = Gaussian(0.1).gram(X)
    np.testing.assert_allclose(
        cross_val_score(make_pipeline(KernelSubspace("precomputed"), classifier), K, y), direct
    )
    D = squareform(pdist(X))
    scaling = KernelSubspace(ClassicalMDS("precomputed"))
    np.testing.assert_allclose(
        cross_val_score(make_pipeline(scaling, classifier), D, y),
        cross_val_score(make_pipeline(KernelSubspace("linear"), classifier), X, y),
    )


def test_embeddings_unroll_a_roll_and_place_held_out_rows():
    X, position = make_swiss_roll(800, random_state=0)
    model = KernelSubspace(Isomap(8), n_components=1).fit(X[:600])
    geodesic = shortest_path(kneighbors_graph(X, 8, mode="distance"), directed=False)
    assert np.isfinite(geodesic).all()
    assert abs(np.corrcoef(model.transform(X[600:])[:, 0], position[600:])[0, 1]) > 0.95


@pytest.mark.parametrize(
    "kernel",
    [LocallyLinear(6), Laplacian(8), Laplacian(8, 0.2), Isomap(6), ClassicalMDS(), Gaussian(0.3)],
)
def test_fit_transform_returns_the_codes(kernel):
    X = roll(90)
    model = KernelSubspace(kernel)
    np.testing.assert_array_equal(model.fit_transform(X), model.codes_)
    np.testing.assert_allclose(
        model.transform(X), model.codes_, atol=1e-9 * np.abs(model.codes_).max()
    )


@pytest.mark.filterwarnings("ignore:The graph of neighbors has")
@pytest.mark.filterwarnings("ignore:.*so all are neighbors")  # of few rows
@parametrize_with_checks([KernelSubspace(Laplacian())], expected_failed_checks=lambda _: WIDTHS)
def test_scikit_learn_checks_pass_on_a_laplacian(estimator, check):
    check(estimator)


def test_of_few_rows_all_are_neighbors_of_a_laplacian():
    X = rows(6)
    with pytest.warns(UserWarning, match="only 5 other rows.*lower n_neighbors"):
        K = Laplacian(10, 0.3).gram(X)
    close(K, Laplacian(5, 0.3).gram(X))
    close(
        Laplacian(10, 0.3).weights(rows(3, seed=1), X).toarray(),
        Laplacian(6, 0.3).weights(rows(3, seed=1), X).toarray(),
    )


def test_a_kernel_that_is_not_symmetric_is_refused():
    K = np.triu(np.ones((5, 5)))
    for model, X in (
        (KernelSubspace(lambda X, Y: X[:, :1] + 0 * Y[:, 0]), rows(5)),
        (KernelSubspace("precomputed"), K),
        (KernelSubspace(ClassicalMDS("precomputed")), K - np.eye(5)),
    ):
        with pytest.raises(ValueError, match="not symmetric"):
            model.fit(X)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_kernel_subspace_takes_sparse_tables_with_absent_entries_zero(kernel):
    X = np.maximum(rows(60, 5), 0)
    table = scipy.sparse.csr_array(X)
    dense, sparse = KernelSubspace(kernel).fit(X), KernelSubspace(kernel).fit(table)
    same_up_to_signs(sparse.codes_, dense.codes_)
    same_up_to_signs(sparse.transform(table[:7]), dense.transform(X[:7]))
    K = Gaussian(0.3).gram(X)
    given = KernelSubspace("precomputed").fit(scipy.sparse.csr_array(K))
    same_up_to_signs(given.codes_, KernelSubspace("precomputed").fit(K).codes_)


STRUCTURES = [Isomap(), LocallyLinear(), Laplacian(), ClassicalMDS()]


@pytest.mark.parametrize("kernel", STRUCTURES)
def test_structures_refuse_sparse_tables(kernel):
    with pytest.raises(ValueError, match=r"X\.toarray\(\)"):
        KernelSubspace(kernel).fit(scipy.sparse.csr_array(rows()))
    with pytest.raises(ValueError, match=r"X\.toarray\(\)"):
        KernelSubspace(kernel).fit(rows()).transform(scipy.sparse.csr_array(rows()))


@pytest.mark.parametrize("kernel", STRUCTURES)
@pytest.mark.parametrize("make", [BregmanKMeans, BregmanNormalizedCut, ReverseClassifier])
def test_every_estimator_passes_the_refusal_on_and_has_it_in_its_tags(make, kernel):
    name, y = "affinity" if make is BregmanNormalizedCut else "kernel", np.arange(60) % 2
    model, X = make().set_params(**{name: kernel}), rows()
    with pytest.raises(ValueError, match=r"X\.toarray\(\)"):
        model.fit(scipy.sparse.csr_array(X), y)
    assert not model.__sklearn_tags__().input_tags.sparse
    if make is not BregmanNormalizedCut:  # of which these kernels are no affinities
        with pytest.raises(ValueError, match=r"X\.toarray\(\)"):
            model.fit(X, y).predict(scipy.sparse.csr_array(X))


@pytest.mark.parametrize("kernel", [Laplacian(5), LocallyLinear(5)], ids=repr)
def test_components_that_a_kernel_cannot_separate_are_reported(kernel):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + [100, 0]])
    with pytest.warns(UserWarning, match="2 components.*raise n_neighbors"):
        kernel.gram(X)


@pytest.mark.parametrize("kernel", [Laplacian(8), Laplacian(None, gamma=1.0), LocallyLinear(8)])
@pytest.mark.parametrize("d", [3, 20])
def test_a_row_that_equals_a_reference_has_its_place(kernel, d):
    Y = np.random.default_rng(0).normal(size=(60, d))
    np.testing.assert_array_equal(kernel.gram(Y[5:9], Y), kernel.gram(Y)[5:9])
    assert not np.array_equal(kernel.gram(Y[5:9] + 0.1, Y), kernel.gram(Y)[5:9])


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_weights_of_kernel_components_act_as_repetition_counts(kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    counts = rng.integers(0, 4, 40)
    options = {"kernel": kernel, "n_components": 3, "gamma": 0.3, "degree": 2}
    weighted = KernelSubspace(**options).fit(X, sample_weight=counts)
    repeated = KernelSubspace(**options).fit(np.repeat(X, counts, axis=0))
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-8)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6, abs=1e-8)
    signs = np.sign((weighted.codes_ * repeated.transform(X)).sum(axis=0))
    np.testing.assert_allclose(weighted.codes_, signs * repeated.transform(X), atol=1e-7)
    np.testing.assert_allclose(weighted.transform(X), weighted.codes_, atol=1e-8)
    scaled = KernelSubspace(**options).fit(X, sample_weight=np.full(40, 2.0))
    plain = KernelSubspace(**options).fit(X)
    np.testing.assert_allclose(np.abs(scaled.codes_), np.abs(plain.codes_), atol=1e-7)
