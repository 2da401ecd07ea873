"""Labeled rows are told from unlabeled ones in one place, and in one way."""

import warnings

import numpy as np
import pandas as pd
import pytest

from regfactor.fitting.labels import as_targets, encode_labels, is_labeled

NAN = float("nan")
MARKED = {
    "minus one": np.array([0, -1, 1, -1]),
    "minus one in floats": np.array([0.0, -1.0, 1.0, -1.0]),
    "NaN": np.array([0.0, NAN, 1.0, NAN]),
    "None among numbers": [0, None, 1, None],
    "None among strings": ["a", None, "b", None],
    "NaN among strings": ["a", NAN, "b", NAN],
    "empty strings": np.array(["a", "", "b", ""]),
    "all sorts among strings": ["a", None, "b", ""],
    "frame's NA": pd.Series([0, pd.NA, 1, pd.NA], dtype="Int64"),
    "categories": pd.Series(["a", None, "b", None], dtype="category"),
    "one column": np.array([[0], [-1], [1], [-1]]),
    "truth values": np.array([False, None, True, None], dtype=object),
}


@pytest.mark.parametrize("y", MARKED.values(), ids=MARKED)
def test_each_marker_marks_the_same_rows(y):
    np.testing.assert_array_equal(is_labeled(y), [True, False, True, False])
    labels = encode_labels(y)
    assert len(labels.classes) == 2
    np.testing.assert_array_equal(labels.codes, [0, -1, 1, -1])
    np.testing.assert_array_equal(labels.one_hot(), [[1, 0], [0, 0], [0, 1], [0, 0]])


@pytest.mark.parametrize("y", [[-1, None, 0], [-1.0, NAN, 0.0], ["a", -1, None]])
def test_two_markers_are_an_error_that_names_the_parameter(y):
    with pytest.raises(ValueError, match="unlabeled="):
        is_labeled(y)


def test_minus_one_is_a_class_when_another_marker_is_named():
    labels = encode_labels([-1.0, 1.0, NAN], unlabeled=NAN)
    np.testing.assert_array_equal(labels.classes, [-1, 1])
    np.testing.assert_array_equal(labels.codes, [0, 1, -1])
    np.testing.assert_array_equal(encode_labels([-1, 1, 9], unlabeled=9).codes, [0, 1, -1])
    np.testing.assert_array_equal(encode_labels(["a", "?", ""], unlabeled="?").codes, [1, -1, 0])


def test_a_string_that_looks_like_a_marker_is_a_class_with_a_warning():
    y = np.array(["-1", "cat", "dog", "-1"])
    with pytest.warns(UserWarning, match="unlabeled='-1'"):
        assert encode_labels(y).classes.tolist() == ["-1", "cat", "dog"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert encode_labels(y, unlabeled="-1").classes.tolist() == ["cat", "dog"]
        assert encode_labels(y, unlabeled="").classes.tolist() == ["-1", "cat", "dog"]
        assert encode_labels(["-1", "1", ""]).classes.tolist() == ["-1", "1"]


def test_a_sign_as_label_is_not_silently_read_as_no_label():
    with pytest.raises(ValueError, match="unlabeled="):
        encode_labels([1, -1, 1, -1])
    np.testing.assert_array_equal(encode_labels([1, -1], classes=[0, 1]).codes, [1, -1])


def test_missing_labels_beside_a_named_marker_are_refused():
    with pytest.raises(ValueError, match="unlabeled=9"):
        is_labeled([0.0, NAN, 9.0], unlabeled=9)


def test_numbers_and_strings_do_not_equal_each_other():
    np.testing.assert_array_equal(is_labeled(np.array(["-1", "1", ""])), [True, True, False])
    np.testing.assert_array_equal(is_labeled([0, 1, -1], unlabeled="-1"), [True, True, True])


def test_minus_one_is_a_value_among_targets_of_a_regression():
    np.testing.assert_array_equal(is_labeled([0.5, -1.0, NAN]), [True, True, False])
    np.testing.assert_array_equal(
        is_labeled([[-1.0, NAN], [NAN, NAN]]), [[True, False], [False, False]]
    )


def test_classes_may_be_named_beforehand():
    labels = encode_labels(["b", "", "a"], classes=["c", "b", "a"])
    assert labels.classes.tolist() == ["c", "b", "a"]
    np.testing.assert_array_equal(labels.codes, [1, -1, 2])
    with pytest.raises(ValueError, match=r"not among classes.*\['d'\]"):
        encode_labels(["d", ""], classes=["a", "b"])
    with pytest.raises(ValueError, match="each class once"):
        encode_labels(["a", ""], classes=["a", "a"])


def test_what_is_no_label_is_refused():
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        encode_labels([0.5, 1.0, NAN])
    with pytest.raises(ValueError, match="mixes strings and numbers"):
        encode_labels(["a", 1, None])
    with pytest.raises(ValueError, match="one label for each row"):
        encode_labels([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="infinity"):
        encode_labels([0.0, np.inf])
    with pytest.raises(ValueError, match="y is missing"):
        is_labeled(None)


def test_nothing_labeled_gives_no_class():
    labels = encode_labels([-1, -1])
    assert len(labels.classes) == 0 and not labels.labeled.any()


def test_targets_keep_single_missing_and_their_precision():
    np.testing.assert_array_equal(as_targets([1, None, 2]), [1, NAN, 2])
    np.testing.assert_array_equal(as_targets([[1, NAN], [2, 3]]), [[1, NAN], [2, 3]])
    assert as_targets(np.float32([1, 2])).dtype == np.float32
    assert as_targets([-1, 2])[0] == -1
    with pytest.raises(ValueError, match="numbers"):
        as_targets(["a", "b"])
    with pytest.raises(ValueError, match="infinity"):
        as_targets([np.inf, 1])


def test_inputs_are_left_alone():
    y = np.array([0.0, NAN, 1.0])
    before = y.copy()
    encode_labels(y), as_targets(y)
    np.testing.assert_array_equal(y, before)
