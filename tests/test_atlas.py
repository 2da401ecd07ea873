"""Every row of the atlas is what it says it equals."""

import dataclasses

import pytest

from regfactor import atlas
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
