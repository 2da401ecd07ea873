"""Large sparse tables of counts, read in blocks of rows, are fitted as dense ones are."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from regfactor import ExponentialFamilyPCA
from regfactor.losses import NegativeBinomial
from regfactor.tables.epca import blocked_inputs, count_blocks

FAMILIES = ["poisson", "negative_binomial", "bernoulli"]


@pytest.fixture
def in_blocks(monkeypatch):
    """Let small sparse tables be read in blocks of a few rows."""
    monkeypatch.setattr(blocked_inputs, "MAX_DENSE_ELEMENTS", 0)
    monkeypatch.setattr(count_blocks, "BLOCK_ELEMENTS", 500)


def counts(family, n=60, d=20, seed=0):
    random = np.random.default_rng(seed)
    z = random.normal(size=(n, 2)) @ random.normal(size=(2, d)) / 2 - 1
    X = random.poisson(np.exp(z) * random.gamma(3.0, 1 / 3.0, size=z.shape)).astype(float)
    if family == "bernoulli":
        return (X > 0).astype(float)
    return X


def family_of(name):
    if name == "negative_binomial":
        return NegativeBinomial(2.5)
    return name


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("row_offset", [None, "fit", "total"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_fit_by_blocks_is_that_to_the_dense_table(in_blocks, family, row_offset, weighted):
    if family == "bernoulli" and row_offset == "total":
        pytest.skip("totals are exposures of counts")
    X = counts(family)
    weights = None
    if weighted:
        weights = np.random.default_rng(1).integers(0, 4, len(X)).astype(float)
    offset = None
    if row_offset is None:
        offset = np.linspace(-0.5, 0.5, len(X))
    model = ExponentialFamilyPCA(3, family_of(family), row_offset=row_offset, tol=1e-6)
    dense = model.fit(X, sample_weight=weights, offset=offset)
    expected = vars(dense).copy()
    transformed = dense.transform(X, offset=offset)
    score = dense.score(X, offset=offset)
    sparse = model.fit(scipy.sparse.csr_array(X), sample_weight=weights, offset=offset)
    assert sparse.solver_ == "BlockNewton"
    assert sparse.objective_ == pytest.approx(expected["objective_"], rel=1e-9)
    assert sparse.deviance_explained_ == pytest.approx(expected["deviance_explained_"], rel=1e-6)
    for name in ("codes_", "components_", "intercept_"):
        np.testing.assert_allclose(getattr(sparse, name), expected[name], atol=1e-6)
    if row_offset is not None:
        np.testing.assert_allclose(sparse.row_offset_, expected["row_offset_"], atol=1e-6)
    Y = scipy.sparse.csr_array(X)
    np.testing.assert_allclose(sparse.transform(Y, offset=offset), transformed, atol=1e-6)
    np.testing.assert_allclose(sparse.transform(Y, offset=offset), sparse.codes_, atol=1e-6)
    assert sparse.score(Y, offset=offset) == pytest.approx(score, rel=1e-6)


def test_without_intercepts(in_blocks):
    X = counts("poisson")
    model = ExponentialFamilyPCA(2, "poisson", fit_intercept=False)
    dense = model.fit(X).objective_
    assert model.fit(scipy.sparse.csr_array(X)).objective_ == pytest.approx(dense, rel=1e-9)
    assert not model.intercept_.any()


def test_single_precision_stays_single(in_blocks):
    X = scipy.sparse.csr_array(counts("poisson"))
    model = ExponentialFamilyPCA(2, "poisson")
    exact = model.fit(X).objective_
    fit = model.fit(X.astype(np.float32))
    assert {fit.codes_.dtype, fit.components_.dtype} == {np.dtype(np.float32)}
    assert fit.objective_ == pytest.approx(exact, rel=1e-4)


def test_integers_and_other_sparse_formats_are_taken(in_blocks):
    X = counts("poisson").astype(int)
    model = ExponentialFamilyPCA(2, "poisson")
    expected = model.fit(scipy.sparse.csr_array(X.astype(float))).codes_
    for form in (scipy.sparse.csc_matrix, scipy.sparse.coo_array):
        np.testing.assert_allclose(model.fit(form(X)).codes_, expected, atol=1e-9)


def test_dispersion_is_found_about_means_without_the_entry(in_blocks):
    random = np.random.default_rng(0)
    n, d, theta = 400, 60, 2.0
    means = np.exp(random.normal(size=(n, 2)) @ random.normal(size=(2, d)) / 2)
    X = random.poisson(means * random.gamma(theta, 1 / theta, size=means.shape)).astype(float)
    model = ExponentialFamilyPCA(2, "negative_binomial", random_state=0)
    assert model.fit(scipy.sparse.csr_array(X)).theta_ == pytest.approx(theta, rel=0.15)


def test_strength_and_number_of_components_are_chosen_on_a_sample_of_rows(in_blocks):
    random = np.random.default_rng(0)
    n, d = 300, 40
    z = random.normal(size=(n, 3)) @ random.normal(size=(3, d)) / 1.5
    X = scipy.sparse.csr_array(random.poisson(np.exp(z)).astype(float))
    model = ExponentialFamilyPCA("auto", "poisson", alpha="auto", random_state=0).fit(X)
    assert 3 <= len(model.components_) <= 5
    assert model.alphas_.min() <= model.alpha_ <= model.alphas_.max() <= 1.001 * model.alpha_max_
    dense = ExponentialFamilyPCA("auto", "poisson", alpha="auto", random_state=0).fit(X.toarray())
    assert model.alpha_ == pytest.approx(dense.alpha_, rel=0.5)


@pytest.mark.filterwarnings("ignore:The likelihood is unbounded")
@pytest.mark.parametrize(
    "options",
    [
        {"n_components": None, "alpha": 3.0},
        {"alpha": 0.0},
        {"kernel": "linear"},
        {"sparse_zeros": "missing"},
        {"family": "gaussian"},
    ],
    ids=lambda options: "-".join(options),
)
def test_other_models_are_fitted_as_before(in_blocks, options):
    X = counts("poisson")
    model = ExponentialFamilyPCA(**{"n_components": 2, "family": "poisson", **options})
    assert model.fit(scipy.sparse.csr_array(X)).solver_ != "BlockNewton"


def test_illegal_counts_are_refused_by_column(in_blocks):
    X = counts("poisson")
    X[3, 7] = -1
    with pytest.raises(ValueError, match="Negative values in data.*7"):
        ExponentialFamilyPCA(2, "poisson").fit(scipy.sparse.csr_array(X))
    with pytest.raises(ValueError, match="n_components=31 is more"):
        ExponentialFamilyPCA(31, "poisson").fit(scipy.sparse.csr_array(np.abs(X)))


def test_no_dense_table_is_made(monkeypatch):
    monkeypatch.setattr(count_blocks, "BLOCK_ELEMENTS", 2**15)
    random = np.random.default_rng(0)
    n, d = 3000, 800
    X = scipy.sparse.random_array(
        (n, d), density=0.05, rng=random, data_sampler=lambda size: random.poisson(1.0, size) + 1.0
    )
    X = scipy.sparse.csr_array(X)
    tracemalloc.start()
    ExponentialFamilyPCA(3, "poisson", tol=1.0).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 8 * n * d  # bytes of the dense table
