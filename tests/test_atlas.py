"""Every row of the atlas is what it says it equals."""

import dataclasses
from xml.etree import ElementTree

import numpy as np
import pytest

from docs.generate.atlas import picture
from regfactor import FactorModel, atlas
from regfactor.atlas import Sample

ATLAS = atlas.table()
NAMES = [row.name for row in ATLAS.rows]
REQUIRED = [  # thesis, table 3.4, with the additions that the text mentions
    "PCA",
    "kernel PCA",
    "exponential-family PCA",
    "sparse PCA",
    "CCA = orthonormal PLS",
    "PLS",
    "reduced-rank regression",
    "LDA",
    "k-means",
    "kernel k-means",
    "k-medians",
    "Bregman clustering",
    "Linde-Buzo-Gray",
    "information-theoretic clustering",
    "normalized cut",
    "ratio cut (relaxed)",
    "Isomap",
    "locally linear embedding",
    "Laplacian eigenmaps",
    "classical (metric) MDS",
    "NMF",
    "pLSI",
    "maximum-margin matrix factorization",
    "probabilistic PCA",
    # what else the papers unify
    "kernel exponential-family PCA",
    "matrix completion (soft impute)",
    "robust PCA (principal component pursuit)",
    "sparse coding (dictionary learning)",
    "convex sparse coding",
    "two-view subspace",
    "factor analysis",
    "ridge regression",
    "logistic regression",
    "least squares, in reverse",
    "semi-supervised k-means",
    "transductive matrix completion",
    "Bregman normalized cut",
    "mixture of Gaussians",
    "information bottleneck",
    "low-rank array (overlapped trace norm)",
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("row", ATLAS.rows, ids=NAMES)
def test_a_row_equals_its_reference(row, seed):
    assert row.difference(Sample(seed)) < 1e-7


@pytest.mark.parametrize(
    "name", ["PCA", "kernel PCA", "Isomap", "k-means", "NMF", "normalized cut"]
)
def test_a_wrong_rank_shows(name):
    row = ATLAS[name]
    wrong = dataclasses.replace(row, found=lambda s: {"rank": row.model.rank + 1})
    assert wrong.difference(Sample(0)) > 1e-3


def test_a_row_runs_through_factor_model_or_says_why_not():
    for row in ATLAS:
        assert isinstance(row.model, FactorModel) != bool(row.why), row.name
    assert sum(bool(row.why) for row in ATLAS) == 3


def test_rows_of_a_gauge_are_certified():
    for row in ATLAS:
        if isinstance(row.model, FactorModel) and row.model.gauge is not None:
            assert row.fitted(Sample(0)).relative_gap_ <= row.model.tol, row.name


def test_rows_are_not_trivial():
    for row in ATLAS:
        model = row.fitted(Sample(0))
        assert np.linalg.norm(getattr(model, "components_", 1.0)) > 0, row.name


def test_the_picture_shows_every_row_once():
    drawn = picture(ATLAS)
    root = ElementTree.fromstring(drawn)
    texts = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    for row in ATLAS:
        assert texts.count(f"{row.seen}{row.name}") == 1, row.name
        assert row.codes in texts and row.loss in texts


def test_no_algorithm_is_missing():
    assert sorted(row.name for row in ATLAS) == sorted(REQUIRED) and len(ATLAS) == len(REQUIRED)


def test_the_table_shows_every_row_and_every_stranger():
    for text in (str(ATLAS), ATLAS.to_markdown()):
        assert all(
            row.name in text and row.equals in text and row.stated in text for row in ATLAS.rows
        )
        assert all(
            stranger.name in text and stranger.reason in text for stranger in ATLAS.strangers
        )
    assert len(ATLAS) == len(NAMES)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"Did you mean 'Isomap'\?"):
        ATLAS["isomap"]
