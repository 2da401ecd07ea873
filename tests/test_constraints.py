"""Constraints as users state them: what they select, what they refuse, how they are named, moved and cloned."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer

from catalogue import rng
from regfactor.comparisons.keywords import KeywordVote
from regfactor.constraints import Constraint, class_balance, expectation, labeled_feature, region
from regfactor.labels.expectation.estimator import ExpectationSVC
from regfactor.labels.expectation.statements import StatedConstraints
from regfactor.model_selection.sensitivity import constraint_sensitivity

X = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])


def test_defaults_are_those_of_the_api():
    assert class_balance({0: 0.3}).tolerance == 0.02
    assert labeled_feature(0, {0: 0.3}).tolerance == 0.05
    assert region([True], {0: 0.3}).tolerance == 0.05


def test_features_select_rows():
    np.testing.assert_array_equal(class_balance({0: 1.0}).features(X), 1)
    np.testing.assert_array_equal(labeled_feature(0, {0: 1.0}).features(X), [0, 1, 0, 1])
    np.testing.assert_array_equal(
        labeled_feature(-1, {0: 1.0}).features(scipy.sparse.csr_array(X)), [1, 0, 1, 1]
    )
    np.testing.assert_array_equal(
        labeled_feature("b", {0: 1.0}).features(X, ["a", "b"]), [1, 0, 1, 1]
    )
    np.testing.assert_array_equal(
        region([True, False, True, False], {0: 1.0}).features(X), [1, 0, 1, 0]
    )
    np.testing.assert_array_equal(region(lambda t: t[:, 1] > 1, {0: 1.0}).features(X), [0, 0, 1, 0])
    np.testing.assert_array_equal(expectation(X[:, 0], 0.5, 0.1, "yes").features(X), X[:, 0])
    np.testing.assert_array_equal(
        expectation(lambda t: t[:, 0] * 2, 0.5, 0.1, 1).features(X), X[:, 0] * 2
    )


@pytest.mark.parametrize("how", ["vectorizer", "mapping", "list"])
def test_words_are_found_in_a_vocabulary(how):
    vectorizer = CountVectorizer().fit(["the goal", "the vote"])
    given = {
        "vectorizer": vectorizer,
        "mapping": vectorizer.vocabulary_,
        "list": vectorizer.get_feature_names_out(),
    }[how]
    word = labeled_feature("goal", {"sport": 0.9}, vocabulary=given)
    assert word.column == vectorizer.vocabulary_["goal"] and str(word) == "rows with 'goal'"
    with pytest.raises(ValueError, match="Did you mean 'goal'"):
        labeled_feature("goals", {"sport": 0.9}, vocabulary=given)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: class_balance({}), "shares must be a dict"),
        (lambda: class_balance(0.3), "shares must be a dict"),
        (lambda: class_balance({0: 1.2}), "between 0 and 1"),
        (lambda: class_balance({0: np.nan}), "between 0 and 1"),
        (lambda: class_balance({0: 0.7, 1: 0.7}), "sum to more than one"),
        (lambda: class_balance({0: 0.7}, -0.1), "tolerance"),
        (lambda: expectation(X[:, 0], np.inf, 0.1, 0), "finite number as its target"),
        (lambda: expectation(X[:, 0], 0.3, None, 0), "tolerance"),
        (lambda: expectation([1.0], 0.3, 0.1, 0).features(X), "one for each of the 4 rows"),
        (lambda: expectation([1.0, 2.0, np.nan, 1.0], 0.3, 0.1, 0).features(X), "finite numbers"),
        (lambda: region([True], {0: 1.0}).features(X), "one truth value for each of the 4 rows"),
        (lambda: region([0, 3, 1, 1], {0: 1.0}).features(X), "must hold truth values"),
        (lambda: labeled_feature(2, {0: 1.0}).features(X), "the table has 2 columns"),
        (lambda: labeled_feature("a", {0: 1.0}).features(X), "no column names"),
        (lambda: labeled_feature("agee", {0: 1.0}).features(X, ["age", "b"]), "Did you mean 'age'"),
        (lambda: labeled_feature(1.5, {0: 1.0}).features(X), "position or name"),
    ],
)
def test_what_cannot_be_meant_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_share_is_moved_and_the_others_give_way():
    both = class_balance({"a": 0.6, "b": 0.3, "c": 0.1}).moved("a", 0.2)
    assert both.targets == pytest.approx({"a": 0.8, "b": 0.15, "c": 0.05})
    assert class_balance({"a": 0.95, "b": 0.05}).moved("a", 0.2).targets == pytest.approx(
        {"a": 1.0, "b": 0.0}
    )
    assert class_balance({"a": 1.0, "b": 0.0}).moved("a", -0.2).targets == pytest.approx(
        {"a": 0.8, "b": 0.2}
    )
    assert class_balance({"a": 0.1}).moved("a", -0.2).targets == {"a": 0.0}
    assert expectation(X[:, 0], 2.0, 0.1, "a").moved("a", -0.1).target == pytest.approx(1.8)
    assert both.tolerance == 0.02


def test_constraints_survive_a_clone():
    model = ExpectationSVC(
        [class_balance({0: 0.5}), region(lambda t: t[:, 0] > 0, {1: 0.8}, name="right")]
    )
    copy = clone(model)
    assert [str(c) for c in copy.constraints] == ["all rows", "right"]
    assert [c.targets for c in copy.constraints] == [{0: 0.5}, {1: 0.8}]


def test_statements_are_about_the_unlabeled_rows_by_weight():
    given = (labeled_feature(0, {1: 0.8}), expectation(X[:, 1], 0.5, 0.1, 0))
    rows, weights = np.array([1, 2, 3]), np.array([1.0, 2.0, 3.0])
    found = StatedConstraints.of(given, X, None, np.array([0, 1]), rows, weights)
    np.testing.assert_allclose(found.features[0], np.array([1, 0, 1]) / 4)
    np.testing.assert_allclose(found.features[1], np.array([0, 3, 1]) / 6)
    lines = found.statements(10.0)
    # of two classes the second has scores: a mean of class 0 is what the mean of all leaves
    np.testing.assert_allclose(lines.target, [0.8, (2 * 3 + 3 * 1) / 6 - 0.5])
    np.testing.assert_allclose(lines.strength, [10 * 4, 10 * 36 / (2 * 9 + 3 * 1)])
    with pytest.warns(UserWarning, match="no unlabeled row belongs to it"):
        empty = StatedConstraints.of(
            (labeled_feature(0, {1: 0.8}),), X, None, np.array([0, 1]), rows[1:2], weights[1:2]
        )
    assert len(empty.statements(10.0)) == 0


def test_shares_of_all_classes_state_once_for_two_and_each_for_three():
    whole = class_balance({0: 0.2, 1: 0.8})
    found = StatedConstraints.of(
        (whole,), X, None, np.array([0, 1]), np.arange(4), np.ones(4)
    ).statements(1.0)
    assert len(found) == 1 and found.target[0] == pytest.approx(0.8)
    three = class_balance({0: 0.2, 1: 0.3, 2: 0.5})
    found = StatedConstraints.of(
        (three,), X, None, np.arange(3), np.arange(4), np.ones(4)
    ).statements(1.0)
    np.testing.assert_array_equal(found.column, [0, 1, 2])
    np.testing.assert_allclose(found.strength, 4)


# the baseline that learns nothing


def words():
    return [
        labeled_feature("goal", {"sport": 0.9, "news": 0.1}),
        labeled_feature("vote", {"news": 0.6}),
    ]


def test_keywords_vote():
    frame = pd.DataFrame({"goal": [2, 0, 1, 0], "vote": [0, 1, 1, 0]})
    model = KeywordVote(words()).fit(frame, ["", "", "", "news"])
    assert model.predict(frame).tolist() == ["sport", "news", "sport", "news"]
    np.testing.assert_allclose(model.decision_function(frame)[:3], [0.8, -0.2, 0.6], atol=1e-5)
    assert model.transduction_.tolist() == ["sport", "news", "sport", "news"]
    sparse = KeywordVote([labeled_feature(0, {"a": 1.0})], ["a", "b", "c"]).fit(
        scipy.sparse.csr_array(X), [None] * 4
    )
    assert sparse.decision_function(scipy.sparse.csr_array(X)).shape == (4, 3)
    assert sparse.predict(scipy.sparse.csr_array(X)).tolist() == ["a", "a", "a", "a"]
    with pytest.raises(ValueError, match="labeled feature"):
        KeywordVote([class_balance({0: 1.0})]).fit(X, [0, 1, 0, -1])


# sensitivity


def test_a_share_that_decides_is_found():
    random = rng(0)
    y = np.repeat([0, 1], 60)
    table = random.normal(size=(120, 2)) + 2.5 * y[:, None]
    seen = np.full(120, -1)
    seen[[0, 1, 118, 119]] = 0, 0, 1, 1
    given = [class_balance({0: 0.5, 1: 0.5}), labeled_feature(0, {1: 0.5}, 0.4)]
    model = ExpectationSVC(given, match_balance=True)
    result = constraint_sensitivity(model, table, seen, shifts=[-0.2, 0.2])
    assert result.n_rows == 116 and len(result.shifts) == 4
    balance, idle = result.shifts[:2], result.shifts[2:]
    assert [s.tried for s in balance] == pytest.approx([0.3, 0.7])
    assert all(0.19 < s.moved < 0.3 for s in balance), (
        balance
    )  # a fifth of the rows must go to the other side
    assert all(s.moved < 0.02 for s in idle)
    assert result.worst in balance and result.max_moved == max(s.moved for s in balance)
    assert "Check this share" in result.verdict and "all rows" in str(result)
    assert result.to_frame().shape == (4, 5)


def test_without_a_statement_the_balance_of_the_labels_is_moved():
    table = np.concatenate([rng(0).normal(size=(40, 2)), rng(1).normal(size=(40, 2)) + 8.0])
    seen = np.full(80, -1)
    seen[[0, 79]] = 0, 1
    result = constraint_sensitivity(ExpectationSVC(), table, seen, shifts=[0.05])
    assert result.shifts[0].stated == 0.5 and result.max_moved == 0.0
    assert "rest on no single share" in result.verdict
    with pytest.raises(ValueError, match="between -1 and 1"):
        constraint_sensitivity(ExpectationSVC(), table, seen, shifts=[2.0])


def test_constraints_are_parts():
    assert isinstance(class_balance({0: 1.0}), Constraint)
    assert class_balance({0: 0.4}, 0.1).get_params() == {"shares": {0: 0.4}, "tolerance": 0.1}
