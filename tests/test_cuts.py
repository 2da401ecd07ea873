"""Cuts of graphs: affinities without a diagonal, sparse ones, rows without weight, kernels that are indefinite."""

import itertools
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from regfactor import BregmanKMeans, BregmanNormalizedCut
from regfactor.clusters import spectral

every_start = pytest.mark.parametrize("init", ["spectral", "k-means++", "random"])


def graph(seed, n=60, k=3, inside=0.5, across=0.05):
    """A graph of k groups, as a matrix of zeros and ones, and the groups."""
    random, groups = np.random.default_rng(seed), np.arange(n) % k
    A = np.triu(
        random.random((n, n)) < np.where(groups[:, None] == groups, inside, across), 1
    ).astype(float)
    return A + A.T, groups


def cut(A, labels, k):
    """The normalized cut from its definition."""
    volumes = A.sum(axis=1)
    return sum(A[labels == j][:, labels != j].sum() / volumes[labels == j].sum() for j in range(k))


@every_start
@pytest.mark.parametrize("seed", range(5))
def test_graphs_without_a_diagonal_are_cut_where_no_node_can_move(init, seed):
    A, groups = graph(seed)
    model = BregmanNormalizedCut(3, affinity="precomputed", init=init, random_state=seed).fit(A)
    assert adjusted_rand_score(model.labels_, groups) > 0.9
    assert model.objective_ == pytest.approx(cut(A, model.labels_, 3), abs=1e-12)
    for i, j in itertools.product(range(len(A)), range(3)):
        labels = model.labels_.copy()
        labels[i] = j
        assert cut(A, labels, 3) >= model.objective_ - 1e-9


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_small_graphs_are_cut_best_from_many_starts(init):
    for seed in range(12):
        A = np.triu(np.random.default_rng(seed).random((8, 8)) < 0.6, 1).astype(float)
        A += A.T
        if A.sum(axis=1).all():
            least = min(
                cut(A, np.array(z), 2)
                for z in itertools.product([0, 1], repeat=8)
                if 0 < sum(z) < 8
            )
            model = BregmanNormalizedCut(
                2, affinity="precomputed", init=init, n_init=10, random_state=0
            ).fit(A)
            assert model.objective_ == pytest.approx(least, abs=1e-12)


@every_start
@pytest.mark.parametrize("diagonal", [0.0, 1.0])
def test_sparse_affinities_are_cut_as_dense_ones(init, diagonal):
    A = graph(7)[0] + diagonal * np.eye(60)
    dense, sparse = (
        BregmanNormalizedCut(3, affinity="precomputed", init=init, random_state=0).fit(K)
        for K in (A, scipy.sparse.csr_array(A))
    )
    np.testing.assert_array_equal(sparse.labels_, dense.labels_)
    np.testing.assert_allclose(sparse.objective_, dense.objective_, rtol=1e-12)
    np.testing.assert_array_equal(sparse.predict(scipy.sparse.csr_array(A)), dense.predict(A))


def test_sparse_affinities_stay_sparse():
    random, n = np.random.default_rng(0), 3000
    one, two = random.integers(0, n // 2, size=(2, 10 * n)) * 2 + (
        np.arange(10 * n) < 5 * n
    )  # odd or even ends
    two[:20] += 1 - 2 * (two[:20] % 2)
    A = scipy.sparse.coo_array((np.ones(10 * n), (one, two)), shape=(n, n)).tocsr()
    tracemalloc.start()
    model = BregmanNormalizedCut(2, affinity="precomputed", random_state=0).fit(A + A.T)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8 * n * n / 4  # a dense matrix is four times that
    assert adjusted_rand_score(model.labels_, np.arange(n) % 2) > 0.99


def test_sparse_matrices_that_are_no_affinities_are_refused():
    A = scipy.sparse.csr_array(graph(0)[0])
    for K, message in [
        (-A, "must not be negative"),
        (scipy.sparse.triu(A, format="csr"), "not symmetric"),
        (A[:, :30], "one column for each of the 60"),
        (scipy.sparse.csr_array(scipy.sparse.block_diag([A, [[0.0]]])), "Row 60 has no affinity"),
    ]:
        with pytest.raises(ValueError, match=message):
            BregmanNormalizedCut(3, affinity="precomputed").fit(K)


@pytest.mark.parametrize(
    "model", [BregmanNormalizedCut(3, gamma=0.5), BregmanKMeans(3, kernel="rbf", gamma=0.5)]
)
def test_rows_without_weight_are_labeled_as_new_ones(model):
    random = np.random.default_rng(0)
    X = random.normal(size=(90, 2)) + 3 * np.repeat(np.eye(3, 2), 30, axis=0)
    for seed in range(5):
        weight = (random.random(90) < 0.6).astype(float)
        model.set_params(random_state=seed).fit(X, sample_weight=weight)
        np.testing.assert_array_equal(model.labels_, model.predict(X))


def test_the_sum_of_an_indefinite_kernel_is_told():
    K = np.random.default_rng(0).normal(size=(20, 20))
    with pytest.warns(UserWarning, match="not positive semidefinite: .* sum to -"):
        model = BregmanKMeans(3, kernel="precomputed", random_state=0).fit(K + K.T)
    assert model.inertia_ == 0 > model.objective_
    assert np.bincount(model.labels_, minlength=3).all()


def test_parts_that_do_not_touch_cost_nothing():
    A = np.kron(np.eye(3), np.ones((7, 7)) / 3)
    assert BregmanNormalizedCut(3, affinity="precomputed", random_state=0).fit(
        A
    ).objective_ == pytest.approx(0, abs=0)


@pytest.mark.parametrize("unit", [1e-21, 1e21])
def test_moves_under_an_indefinite_kernel_have_no_unit(unit):
    K = np.random.default_rng(0).normal(size=(60, 60))
    with pytest.warns(UserWarning, match="not positive semidefinite"):
        one, other = (
            BregmanKMeans(4, kernel="precomputed", random_state=0).fit(u * (K + K.T))
            for u in (1.0, unit)
        )
    assert other.objective_ == pytest.approx(unit * one.objective_, rel=1e-9)


def path(n):
    """A graph that is a path of n nodes."""
    return scipy.sparse.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1], format="csr")


@pytest.mark.parametrize("restarts", [1, 10**6], ids=["factored", "Lanczos"])
def test_leading_eigenvectors_of_a_graph_are_the_same_by_factors_and_by_lanczos(
    restarts, monkeypatch
):
    monkeypatch.setattr(spectral, "MAX_RESTARTS", restarts)
    A = path(200)
    root = 1 / np.sqrt(A.sum(axis=1))
    N = scipy.sparse.csr_array(A.multiply(root[:, None] * root))
    found = spectral.leading_of_graph(N, 3, np.random.default_rng(0).normal(size=200), 20)
    exact = np.linalg.eigh(N.toarray())[1][:, -3:]
    assert found.shape == (200, 3)
    assert scipy.linalg.subspace_angles(found, exact).max() < 1e-6


def test_a_long_path_is_cut_into_pieces():
    """Its eigenvalues lie a millionth apart: Lanczos alone took minutes."""
    A = path(10_000)
    model = BregmanNormalizedCut(4, affinity="precomputed", random_state=0).fit(A)
    assert np.count_nonzero(np.diff(model.labels_)) == 3
    sizes = np.sort(np.bincount(model.labels_))  # 1/a + 2/b + 2/b + 1/a is least at b = sqrt(2) a
    np.testing.assert_allclose(sizes, [2071, 2071, 2929, 2929], rtol=0.05)


def test_pieces_of_a_graph_are_clusters():
    pieces = scipy.sparse.block_diag([path(n) for n in (900, 1000, 1100)], format="csr")
    model = BregmanNormalizedCut(3, affinity="precomputed", random_state=0).fit(pieces)
    assert model.objective_ == pytest.approx(0, abs=1e-12)
    assert adjusted_rand_score(model.labels_, np.repeat([0, 1, 2], (900, 1000, 1100))) == 1


@pytest.mark.parametrize(
    "init", ["spectral", "k-means++", np.arange(300) % 3], ids=["spectral", "k-means++", "labels"]
)
def test_rows_without_weight_and_next_to_no_degree_are_placed_as_new_ones(init):
    X, w = load_digits().data[:300], np.random.default_rng(1).integers(0, 4, size=300)
    model = BregmanNormalizedCut(3, gamma=0.5, init=init, random_state=0).fit(X, sample_weight=w)
    assert model.degrees_[w == 0].min() < 1e-40
    np.testing.assert_array_equal(model.predict(X)[w == 0], model.labels_[w == 0])


def test_graphs_without_small_separators_are_not_factored():
    """Each node has some eight neighbors anywhere: a factorization would fill a third of the matrix."""
    random, n = np.random.default_rng(0), 10_000
    places = np.tile(np.arange(n), 4), np.concatenate([random.permutation(n) for _ in range(4)])
    A = scipy.sparse.csr_array((np.ones(4 * n), places), (n, n))
    assert spectral.factorization_steps(A + A.T) > spectral.MAX_FACTORIZATION_STEPS
    assert spectral.factorization_steps(path(n)) == pytest.approx(n, rel=1e-3)


def test_edges_of_all_sizes_are_cut_though_eigenvalues_crowd():
    edges = 10.0 ** np.random.default_rng(0).uniform(-8, 8, size=2999)
    A = scipy.sparse.diags_array([edges, edges], offsets=[-1, 1], format="csr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = BregmanNormalizedCut(3, affinity="precomputed", random_state=0).fit(A)
    assert model.objective_ < 1e-6
    assert len(set(model.labels_)) == 3
