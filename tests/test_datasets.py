"""Data: tables are what their files say, splits are disjoint, generators obey their formulas."""

import doctest
import gzip
import os

import numpy as np
import pytest
import sklearn.datasets
from sklearn.utils import Bunch

from regfactor import datasets
from regfactor.datasets import (
    DatasetNotFound,
    load,
    load_splits,
    make_reverse_classification,
    make_reverse_regression,
)
from regfactor.losses.transfers import as_transfer

SHAPES = {  # rows, features, classes (0 for a regression)
    "kin32fh": (8192, 32, 0),
    "calhousing": (20640, 8, 0),
    "parkinsons": (5875, 19, 0),
    "wbc_complete": (683, 10, 2),
    "yeast": (1484, 8, 10),
    "ssl_bci": (400, 117, 2),
    "autompg_complete": (392, 7, 0),
}
real = pytest.mark.skipif(
    not os.environ.get("REGFACTOR_DATA"),
    reason="REGFACTOR_DATA is not set: the real data sets are not here",
)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A directory of our own with two small tables."""
    monkeypatch.setenv("REGFACTOR_DATA", str(tmp_path))
    (tmp_path / "splits").mkdir()
    write(tmp_path / "plants.csv.gz", 'size,place,target\n1.5,here,a\n,"far, away",b\n2,,a\n')
    write(tmp_path / "months.csv.gz", "time,v1_a,v2_b,v2_c\n2001Q1,1,2,3\n2001Q2,4,,6\n")
    lines = [
        "setting,split,role,row_indices",
        "one,0,labeled,2",
        "one,0,unlabeled,0",
        "10,0,labeled,1 0",
    ]
    write(tmp_path / "splits" / "plants.csv.gz", "\n".join(lines))
    return tmp_path


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()))


def test_a_table_is_what_its_file_says(elsewhere):
    plants = load("plants")
    assert plants.feature_names == ["size", "place"] and plants.target.tolist() == ["a", "b", "a"]
    assert plants.data[0].tolist() == [1.5, "here"]
    assert (
        np.isnan(plants.data[1, 0])
        and plants.data[1, 1] == "far, away"
        and plants.data[2, 1] is None
    )
    assert "3 rows" in plants.DESCR and plants.source == "plants.csv.gz"
    assert load("plants_complete").data.tolist() == [[1.5, "here"]]
    assert datasets.names() == ["months", "plants"]


def test_a_time_series_has_times_and_views(elsewhere):
    months = load("months")
    assert months.target is None and months.time.tolist() == ["2001Q1", "2001Q2"]
    np.testing.assert_array_equal(months.data, [[1, 2, 3], [4, np.nan, 6]])
    assert [view.shape for view in months.views] == [(2, 1), (2, 2)]
    complete = load("months_complete")
    assert complete.time.tolist() == ["2001Q1"] and [view.shape for view in complete.views] == [
        (1, 1),
        (1, 2),
    ]


def test_splits_list_roles_or_leave_the_rest_unlabeled(elsewhere):
    (split,) = load_splits("plants", "one")
    assert [split.labeled.tolist(), split.unlabeled.tolist(), split.test.tolist()] == [
        [2],
        [0],
        [1],
    ]
    (split,) = load_splits("plants", 10)
    assert [split.labeled.tolist(), split.unlabeled.tolist(), split.test.tolist()] == [
        [1, 0],
        [2],
        [],
    ]
    with pytest.raises(ValueError, match="setting=.*one, 10"):
        load_splits("plants")
    with pytest.raises(ValueError, match="Unknown setting of 'plants' 'on'. Did you mean 'one'"):
        load_splits("plants", "on")


def test_what_is_not_there_is_an_error_with_a_remedy(elsewhere, monkeypatch):
    with pytest.raises(
        DatasetNotFound, match="Did you mean 'plants'.*REGFACTOR_DATA.*plant.csv.gz"
    ):
        load("plant")
    with pytest.raises(DatasetNotFound, match="splits/months"):
        load_splits("months")
    monkeypatch.delenv("REGFACTOR_DATA")
    with pytest.raises(FileNotFoundError, match="REGFACTOR_DATA is not set"):
        load("plants")
    assert datasets.names() == []


def test_a_file_with_uneven_rows_is_refused(elsewhere):
    write(elsewhere / "bad.csv.gz", "a,target\n1,2\n1,2,3\n")
    with pytest.raises(ValueError, match="line 3"):
        load("bad")


def test_a_fetcher_without_connection_says_what_to_do(elsewhere, monkeypatch):
    def offline():
        raise OSError("no network")

    monkeypatch.setattr(sklearn.datasets, "fetch_california_housing", offline)
    with pytest.raises(DatasetNotFound, match="REGFACTOR_DATA"):
        load("calhousing")


@real
def test_california_housing_can_be_had_from_scikit_learn(monkeypatch):
    ours = load("calhousing")
    longitude, latitude, age, rooms, bedrooms, people, households, income = ours.data.T
    columns = {  # as scikit-learn states them
        "MedInc": income,
        "HouseAge": age,
        "AveRooms": rooms / households,
        "AveBedrms": bedrooms / households,
        "Population": people,
        "AveOccup": people / households,
        "Latitude": latitude,
        "Longitude": longitude,
    }
    fetched = Bunch(
        data=np.stack(list(columns.values()), 1),
        feature_names=list(columns),
        target=ours.target / 1e5,
    )
    monkeypatch.delenv("REGFACTOR_DATA")
    monkeypatch.setattr(sklearn.datasets, "fetch_california_housing", lambda: fetched)
    theirs = load("calhousing")
    assert theirs.feature_names == ours.feature_names
    np.testing.assert_array_equal(theirs.data, ours.data)
    np.testing.assert_array_equal(theirs.target, ours.target)


@real
@pytest.mark.parametrize("name", SHAPES)
def test_real_tables_have_the_papers_sizes(name):
    rows, features, classes = SHAPES[name]
    bunch = load(name)
    assert (
        bunch.data.shape == (rows, features)
        and bunch.data.dtype == float
        and np.isfinite(bunch.data).all()
    )
    assert len(bunch.feature_names) == features and len(bunch.target) == rows
    if classes:
        assert len(set(bunch.target.tolist())) == classes


@real
@pytest.mark.parametrize(
    "name, n, sizes", [("kin32fh", 100, (20, 100)), ("wbc_complete", 100, (10, 50))]
)
def test_published_splits_are_disjoint_and_cover_the_table(name, n, sizes):
    splits, rows = load_splits(name), np.arange(len(load(name).data))
    assert len(splits) == n
    for split in splits:
        assert (len(split.labeled), len(split.unlabeled)) == sizes
        np.testing.assert_array_equal(
            np.sort(np.concatenate([split.labeled, split.unlabeled, split.test])), rows
        )


def test_rows_are_normalized_by_their_own_mean_and_norm():
    X = np.random.default_rng(0).normal(size=(5, 4))
    X[2] = 3.0
    Z = datasets.normalize_rows(X)
    np.testing.assert_allclose(Z.sum(axis=1), 0, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), [1, 1, 0, 1, 1])


@pytest.mark.parametrize("preset", datasets.REGRESSION_PRESETS)
def test_regression_without_noise_is_the_transfer_of_a_product(preset):
    X, Y, U = make_reverse_regression(50, preset, return_components=True, random_state=0)
    design = datasets.REGRESSION_PRESETS[preset]
    assert X.shape == (50, design.n_features) and U.shape == (design.n_targets, design.n_features)
    np.testing.assert_allclose(as_transfer(design.transfer).transfer(X), Y @ U, rtol=1e-10)
    np.testing.assert_array_equal(X, make_reverse_regression(50, preset, random_state=0)[0])


def test_noise_is_added_where_it_is_said_to_be():
    few = {"preset": "syn-cubed", "random_state": 1, "n_features": 4}
    clean = make_reverse_regression(40, **few)[0]
    inside = make_reverse_regression(40, noise=0.5, **few)[0]
    outside = make_reverse_regression(40, noise=0.5, noise_in="data", **few)[0]
    np.testing.assert_allclose(inside**3 - clean**3, outside - clean, atol=1e-10)
    assert 0.4 < (outside - clean).std() < 0.6


def test_means_outside_the_range_of_the_transfer_are_refused():
    with pytest.raises(ValueError, match=r"exp needs means inside \[0, inf\).*positive targets"):
        make_reverse_regression(50, "syn-exp", targets="normal", random_state=0)
    with pytest.raises(ValueError, match="sigmoid needs means inside"):
        make_reverse_classification(preset="syn-sigmoid", components="normal", random_state=0)


def test_choices_are_checked_by_name():
    with pytest.raises(ValueError, match="Unknown choice 'nois'. Did you mean 'noise'"):
        make_reverse_regression(nois=1)
    with pytest.raises(ValueError, match="Unknown preset 'syn-gaus'. Did you mean 'syn-gauss'"):
        make_reverse_classification(preset="syn-gaus")
    with pytest.raises(ValueError, match="Unknown distribution"):
        make_reverse_regression(targets="cauchy")
    ones = make_reverse_regression(3, targets=lambda random, size: np.ones(size), random_state=0)[1]
    np.testing.assert_array_equal(ones, 1)


@pytest.mark.parametrize("preset", datasets.CLASSIFICATION_PRESETS)
def test_classes_without_noise_lie_at_their_centers(preset):
    X, y, U = make_reverse_classification(
        60, preset, noise=0.0, return_components=True, random_state=0
    )
    potential = as_transfer(datasets.CLASSIFICATION_PRESETS[preset].transfer)
    np.testing.assert_allclose(potential.transfer(X), U[y], atol=1e-12)
    noisy, _ = make_reverse_classification(60, preset, random_state=0)
    assert np.isfinite(noisy).all() and not np.allclose(noisy, X)


def test_softmax_data_have_the_last_column_as_reference():
    X, _ = make_reverse_classification(preset="syn-softmax", random_state=0)
    np.testing.assert_array_equal(X[:, -1], 0)


def test_a_drawn_split_gives_every_class_its_share():
    y = np.repeat([0, 1, 2], [60, 30, 10])
    split = datasets.random_split(y, 10, 50, random_state=0)
    assert np.bincount(y[split.labeled]).tolist() == [6, 3, 1]
    assert len(split.unlabeled) == 50 and len(split.test) == 40
    together = np.concatenate([split.labeled, split.unlabeled, split.test])
    np.testing.assert_array_equal(np.sort(together), np.arange(100))
    few = datasets.random_split(y, 3, random_state=1)
    assert np.bincount(y[few.labeled]).tolist() == [1, 1, 1] and len(few.test) == 0
    with pytest.raises(ValueError, match="Cannot draw"):
        datasets.random_split(y, 90, 20)


def test_examples_give_what_they_say():
    found = doctest.testmod(datasets.reverse)
    assert found.attempted > 0 and found.failed == 0
