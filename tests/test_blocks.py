"""Tables that are read by blocks of rows: sources, and fits that equal those in memory."""

import numpy as np
import pytest
import scipy.sparse

from regfactor import BlockTable, ConvexSubspace, RobustSubspace, SubspaceImputer
from regfactor.problems.block_squares import BlockSquares, ColumnStatistics
from regfactor.solvers.block_sweeps import proximal


def low_rank(n=240, d=20, missing=0.3, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)) @ random.normal(size=(3, d)) + 5 * random.normal(size=d)
    X += 0.3 * random.normal(size=X.shape)
    X[:, 0] = X[:, 0] > 0
    X[random.random(X.shape) < missing] = np.nan
    return X


def sparse_of(X):
    rows, columns = np.nonzero(~np.isnan(X))
    return scipy.sparse.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)


def sources(X, folder):
    """The same table as every source."""
    np.save(folder / "table.npy", X)
    scipy.sparse.save_npz(folder / "table.npz", sparse_of(X))
    return {
        "array": X,
        "memory map": np.load(folder / "table.npy", mmap_mode="r"),
        "npy": folder / "table.npy",
        "npz": str(folder / "table.npz"),
        "sparse": sparse_of(X),
        "pieces": [X[:100], sparse_of(X[100:150]), X[150:]],
    }


@pytest.mark.parametrize("name", ["array", "memory map", "npy", "npz", "sparse", "pieces"])
def test_every_source_gives_the_same_table(name, tmp_path):
    X = low_rank()
    table = BlockTable.of(sources(X, tmp_path)[name], rows=70)
    assert table.shape == X.shape
    assert len(table.blocks) > 2
    np.testing.assert_array_equal(table.to_array(), X)
    np.testing.assert_array_equal(np.load(table.save(tmp_path / "out.npy")), X)


def test_row_groups_of_parquet_are_blocks(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    X = low_rank()
    columns = {f"c{j}": X[:, j] for j in range(X.shape[1])}
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet", row_group_size=100)
    table = BlockTable.of(tmp_path / "t.parquet")
    assert len(table.blocks) == 3
    np.testing.assert_array_equal(table.to_array(), X)
    model = ConvexSubspace(alpha=8.0).fit(table)
    assert list(model.feature_names_in_) == list(columns)


def test_chunks_of_zarr_are_read_whole(tmp_path):
    zarr = pytest.importorskip("zarr")
    X = low_rank()
    stored = zarr.create_array(tmp_path / "t.zarr", shape=X.shape, chunks=(50, 20), dtype="f8")
    stored[:] = X
    table = BlockTable.of(stored)
    np.testing.assert_array_equal(table.to_array(), X)


def test_statistics_of_blocks_are_those_of_the_table():
    X = low_rank()
    X[:, 3] = np.nan
    found = BlockTable.of(X, rows=31).reduce(ColumnStatistics.of_block)
    np.testing.assert_array_equal(found.count, (~np.isnan(X)).sum(axis=0))
    seen = found.count > 0
    np.testing.assert_allclose(found.mean[seen], np.nanmean(X[:, seen], axis=0))
    np.testing.assert_allclose(
        found.squares[seen] / found.count[seen], np.nanvar(X[:, seen], axis=0)
    )
    assert found.two_valued[0]
    assert not found.two_valued[1]


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])
def test_the_fit_of_blocks_is_that_of_the_table(missing, weighted, intercept):
    X = low_rank(missing=missing)
    weights = None
    if weighted:
        weights = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    settings = {"alpha": 8.0, "fit_intercept": intercept, "tol": 1e-6}
    whole = ConvexSubspace(**settings).fit(X, sample_weight=weights)
    blocks = ConvexSubspace(**settings).fit(BlockTable.of(X, rows=50), sample_weight=weights)
    assert blocks.objective_ == pytest.approx(whole.objective_, rel=2e-6)
    assert blocks.certificate_.rigorous
    assert -1e-9 <= blocks.relative_gap_ <= 1e-6
    assert blocks.objective_ - blocks.gap_ <= whole.objective_ * (1 + 1e-12)
    assert whole.objective_ - whole.gap_ <= blocks.objective_ * (1 + 1e-12)
    assert blocks.alpha_max_ == pytest.approx(whole.alpha_max_, rel=1e-6)
    np.testing.assert_allclose(blocks.scale_, whole.scale_)
    np.testing.assert_allclose(blocks.singular_values_, whole.singular_values_, rtol=1e-2, atol=0.1)
    np.testing.assert_allclose(blocks.complete(X), whole.complete(X), atol=0.05)


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_threads_change_nothing(n_jobs):
    X = low_rank()
    one = ConvexSubspace(alpha=8.0).fit(BlockTable.of(X, rows=40))
    many = ConvexSubspace(alpha=8.0).fit(BlockTable.of(X, rows=40, n_jobs=n_jobs))
    np.testing.assert_array_equal(one.components_, many.components_)
    assert one.objective_ == many.objective_


def test_rows_are_scored_and_filled_block_by_block(tmp_path):
    X = low_rank()
    table = BlockTable.of(sparse_of(X), rows=50)
    model = ConvexSubspace(alpha=8.0).fit(table)
    np.testing.assert_allclose(model.transform(table).to_array(), model.transform(X), atol=1e-9)
    filled = np.load(model.complete(table).save(tmp_path / "filled.npy"))
    np.testing.assert_allclose(filled, model.complete(X), atol=1e-9)
    assert not np.isnan(filled).any()


def test_a_strength_is_chosen_by_a_sample():
    X = low_rank()
    whole = ConvexSubspace(random_state=0).fit(X)
    blocks = ConvexSubspace(random_state=0).fit(BlockTable.of(X, rows=50))
    assert blocks.alpha_ == pytest.approx(whole.alpha_)


@pytest.mark.parametrize("alpha", ["auto", 4.0])
def test_an_imputer_fills_blocks_as_the_table_in_memory(alpha, tmp_path):
    X = low_rank()
    X[:, 0] += np.random.default_rng(1).normal(size=len(X))  # all columns are numbers
    settings = {"loss": "squared", "alpha": alpha, "random_state": 0, "tol": 1e-6}
    whole = SubspaceImputer(**settings).fit(X)
    blocks = SubspaceImputer(**settings).fit(BlockTable.of(X, rows=50))
    assert blocks.alpha_ == pytest.approx(whole.alpha_)
    assert blocks.prior_ == whole.prior_
    table = blocks.transform(BlockTable.of(X, rows=50))
    filled = np.load(table.save(tmp_path / "filled.npy"))
    np.testing.assert_allclose(filled, whole.transform(X), atol=0.02)


def test_a_limit_of_the_rank_is_kept():
    model = ConvexSubspace(alpha=4.0, max_rank=2).fit(BlockTable.of(low_rank(), rows=50))
    assert len(model.components_) == 2
    assert model.gap_ > 0


def test_what_blocks_do_not_have_is_refused():
    table = BlockTable.of(low_rank(), rows=50)
    with pytest.raises(ValueError, match="loss='squared'"):
        ConvexSubspace(loss="huber").fit(table)
    with pytest.raises(ValueError, match="debias=False or 'prior'"):
        ConvexSubspace(debias=True).fit(table)
    with pytest.raises(ValueError, match="entry_weight"):
        ConvexSubspace().fit(table, entry_weight=np.ones(table.shape))
    with pytest.raises(ValueError, match="infinite"):
        ConvexSubspace(alpha=1.0).fit(BlockTable.of(np.array([[1.0, np.inf], [2.0, 3.0]])))
    with pytest.raises(ValueError, match="columns"):
        BlockTable.of([np.ones((2, 3)), np.ones((2, 4))])
    with pytest.raises(ValueError, match="rows and columns"):
        BlockTable.of(np.ones(3))
    with pytest.raises(ValueError, match=r"no \.npy"):
        BlockTable.of("table.csv")


def outlying(missing=0.2, seed=0):
    """Rows of low rank with a tenth of gross errors."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(240, 2)) @ random.normal(size=(2, 12))
    X += 0.1 * random.normal(size=X.shape)
    X += 8 * random.normal(size=X.shape) * (random.random(X.shape) < 0.1)
    X[random.random(X.shape) < missing] = np.nan
    return X


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_outliers_of_blocks_are_left_out_as_in_memory(missing, weighted):
    X = outlying(missing)
    weights = None
    if weighted:
        weights = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    settings = {"alpha": 3.0, "beta": 0.4, "tol": 1e-5}
    whole = RobustSubspace(**settings).fit(X, sample_weight=weights)
    blocks = RobustSubspace(**settings).fit(BlockTable.of(X, rows=50), sample_weight=weights)
    assert blocks.objective_ == pytest.approx(whole.objective_, rel=2e-5)
    assert blocks.certificate_.rigorous
    assert -1e-9 <= blocks.relative_gap_ <= 1e-5
    assert blocks.objective_ - blocks.gap_ <= whole.objective_ * (1 + 1e-12)
    assert whole.objective_ - whole.gap_ <= blocks.objective_ * (1 + 1e-12)
    np.testing.assert_allclose(blocks.complete(X), whole.complete(X), atol=0.1)
    table = BlockTable.of(X, rows=50)
    np.testing.assert_allclose(blocks.transform(table).to_array(), blocks.transform(X), atol=1e-6)
    np.testing.assert_allclose(blocks.complete(table).to_array(), blocks.complete(X), atol=1e-6)


def test_the_price_of_outliers_is_chosen_by_a_sample():
    X = outlying()
    whole = RobustSubspace().fit(X)
    blocks = RobustSubspace().fit(BlockTable.of(X, rows=50))
    assert blocks.alpha_ == pytest.approx(whole.alpha_)
    assert blocks.beta_ == pytest.approx(whole.beta_)
    given = RobustSubspace(alpha=3.0).fit(BlockTable.of(X, rows=50))
    assert given.beta_ == pytest.approx(RobustSubspace(alpha=3.0).fit(X).beta_)
    with pytest.raises(ValueError, match="fit_intercept=False"):
        RobustSubspace(fit_intercept=True).fit(BlockTable.of(X))
    with pytest.raises(ValueError, match="loss=None"):
        RobustSubspace(loss=None).fit(BlockTable.of(X))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_proximal_step_by_sums_is_that_of_the_table(intercept, weighted):
    rng = np.random.default_rng(0)
    n, d, alpha, step = 30, 8, 0.5, 0.4
    X = rng.normal(size=(n, d))
    seen = rng.random(X.shape) < 0.7
    w = rng.exponential(size=n) if weighted else np.ones(n)
    table = BlockTable.of(np.where(seen, X, np.nan), rows=11).weighted(w)
    C = rng.normal(size=(3, d))
    b = rng.normal(size=d)
    count = w @ seen
    problem = BlockSquares(table, np.ones(d), b, count, alpha, w.sum(), intercept)
    found, offsets = proximal(problem, C, b, problem.sums(C, b), step)
    # the same with every row at hand, in rows of weight one
    codes = np.stack(
        [
            np.linalg.solve(C[:, s] @ C[:, s].T + alpha * np.eye(3), C[:, s] @ (x - b)[s])
            for x, s in zip(X, seen, strict=True)
        ]
    )
    root = np.sqrt(w)[:, None]
    G = root * np.where(seen, codes @ C + b - X, 0)
    t = step / problem.density
    expected = b
    if intercept:
        mean = w @ codes / w.sum()
        expected = b + mean @ C - step * (root.T @ G)[0] / count
        codes = codes - mean
    U, s, Vt = np.linalg.svd(root * (codes @ C) - t * G, full_matrices=False)
    kept = np.sqrt(np.maximum(s - t * alpha, 0))[:, None] * Vt
    np.testing.assert_allclose(found.T @ found, kept.T @ kept, atol=1e-9)
    np.testing.assert_allclose(offsets, expected)


@pytest.mark.parametrize("intercept", [False, True])
def test_blocks_near_the_noise_need_few_passes(intercept):
    # regressions alone took 138 passes on a table of this kind: small atoms turn slowly under them
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(1500, 4)) @ rng.normal(size=(4, 60)) / 2
    noise = 0.3 * rng.normal(size=Z.shape)
    hidden = rng.random(Z.shape) < 0.9
    hidden[:, 0] = False
    X = np.where(hidden, np.nan, Z + noise)
    alpha = 1.1 * np.linalg.norm(np.where(hidden, 0, noise), 2)
    settings = {"alpha": alpha, "fit_intercept": intercept, "scale": False, "tol": 1e-3}
    model = ConvexSubspace(**settings).fit(BlockTable.of(X, rows=400))
    assert model.relative_gap_ <= 1e-3
    assert model.n_iter_ <= 40
    local = ConvexSubspace(**settings).fit(X)
    assert model.objective_ == pytest.approx(local.objective_, rel=1e-3)
