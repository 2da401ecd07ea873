"""Conformal sets and intervals: hand-computed cases, brute force, exact coverage in simulation."""

import doctest
import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from regfactor.fitting import conformal
from regfactor.fitting.conformal import (
    PredictionInterval,
    adaptive_scores,
    adaptive_sets,
    conformal_quantile,
    conformal_rank,
    coverage_range,
    cross_interval,
    cross_sets,
    expected_coverage,
    labels_needed,
    normalized_residuals,
    split_interval,
    too_few_labels_message,
)

LEVELS = [0.5, 0.8, 0.9, 0.95, 0.99]


# ranks and quantiles


def test_the_examples_of_the_docstrings_run():
    assert doctest.testmod(conformal).failed == 0
    assert doctest.testmod(conformal).attempted > 5


@pytest.mark.parametrize("level", LEVELS)
def test_the_rank_is_the_smallest_that_covers_the_level(level):
    for n in range(1, 400):
        rank = conformal_rank(n, level)
        exact = int(round(level * 1000))
        # in whole numbers, without rounding
        assert rank * 1000 >= exact * (n + 1) > (rank - 1) * 1000


def test_a_quantile_by_hand():
    scores = [3.0, 1.0, 4.0, 1.5, 9.0, 2.6, 5.0, 3.5, 8.0]
    assert conformal_quantile(scores, 0.9) == 9.0  # the ninth of nine
    assert conformal_quantile(scores, 0.5) == 3.5  # the fifth
    assert conformal_quantile(scores, 0.55) == 4.0  # 5.5 is rounded up
    assert conformal_quantile(scores[:8], 0.9) == math.inf
    assert conformal_quantile([], 0.9) == math.inf


def test_weights_count_repetitions():
    random = np.random.default_rng(0)
    scores = random.normal(size=12)
    weights = random.integers(0, 4, size=12)
    repeated = np.repeat(scores, weights)
    for level in LEVELS:
        found = conformal_quantile(scores, level, weights)
        assert found == conformal_quantile(repeated, level)


@pytest.mark.parametrize("level", LEVELS)
def test_as_many_labels_are_needed_as_make_the_quantile_finite(level):
    n = labels_needed(level)
    assert conformal_quantile(np.arange(n), level) == n - 1
    assert conformal_quantile(np.arange(n - 1), level) == math.inf


def test_the_message_names_both_numbers():
    assert labels_needed(0.9) == 9
    assert too_few_labels_message("A set", 9, 0.9) == ""
    assert too_few_labels_message("A set", 6, 0.9) == (
        "A set cannot be given with 6 labels: at level 0.9 at least 9 are needed."
    )
    assert "with 1 label:" in too_few_labels_message("An interval", 1, 0.8)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 90, float("nan")])
def test_levels_outside_of_zero_and_one_are_refused(level):
    with pytest.raises(ValueError, match="between 0 and 1"):
        conformal_quantile([1.0, 2.0], level)


@pytest.mark.parametrize("n", [9, 10, 14, 19])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_split_coverage_is_exactly_the_rank_over_n_plus_one(n, level):
    """All orders of n + 1 exchangeable scores are equally likely: count those that are covered."""
    covered = 0
    for last in range(n + 1):  # the rank of the new score among all
        others = np.delete(np.arange(n + 1), last)
        covered += last <= conformal_quantile(others, level)
    assert covered / (n + 1) == pytest.approx(expected_coverage(n, level))
    assert expected_coverage(n, level) == conformal_rank(n, level) / (n + 1)
    assert level <= expected_coverage(n, level) < level + 1 / (n + 1)


def test_the_range_of_coverage_is_that_of_simulated_calibrations():
    """Given n uniform scores the coverage of new ones is the quantile itself."""
    random = np.random.default_rng(0)
    n = 20
    found = [conformal_quantile(random.uniform(size=n), 0.9) for _ in range(20_000)]
    low, high = coverage_range(n, 0.9, confidence=0.8)
    assert np.quantile(found, [0.1, 0.9]) == pytest.approx([low, high], abs=0.01)
    assert np.mean(found) == pytest.approx(expected_coverage(n, 0.9), abs=0.003)
    assert coverage_range(5, 0.9) == (1.0, 1.0)  # everything is covered


def test_the_table_of_the_guide_is_right():
    page = (Path(__file__).parents[1] / "docs" / "uncertainty.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (\d+) % to (\d+) % \|$", page, flags=re.MULTILINE)
    assert len(rows) == 4
    for n, low, high in rows:
        ends = [round(100 * end) for end in coverage_range(int(n), 0.9)]
        assert ends == [int(low), int(high)]


# adaptive scores


def test_adaptive_scores_by_hand():
    P = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.25, 0.5, 0.25]])
    plain = [[0.0, 0.5, 0.8], [0.9, 0.7, 0.0], [0.5, 0.0, 0.5]]
    np.testing.assert_allclose(adaptive_scores(P), plain)
    np.testing.assert_allclose(adaptive_scores(P, [2, 0, 1]), [0.8, 0.9, 0.0])
    uniform = np.array([0.5, 0.0, 1.0])
    random = [[0.25, 0.65, 0.9], [0.9, 0.7, 0.0], [0.75, 0.5, 0.75]]
    np.testing.assert_allclose(adaptive_scores(P, uniform=uniform), random)
    penalized = [[0.0, 0.6, 1.0], [1.1, 0.8, 0.0], [0.6, 0.0, 0.6]]
    np.testing.assert_allclose(adaptive_scores(P, penalty=0.1), penalized)
    free = [[0.0, 0.5, 0.9], [1.0, 0.7, 0.0], [0.5, 0.0, 0.5]]
    np.testing.assert_allclose(adaptive_scores(P, penalty=0.1, n_free=2), free)


def test_adaptive_scores_are_those_of_the_definition():
    random = np.random.default_rng(1)
    P = random.dirichlet(np.ones(5), size=40).round(1)  # with ties
    u = random.uniform(size=40)
    found = adaptive_scores(P, uniform=u, penalty=0.05, n_free=2)
    for i, k in itertools.product(range(40), range(5)):
        above = P[i] > P[i, k]
        rank = above.sum() + 1
        expected = P[i, above].sum() + u[i] * P[i, k] + 0.05 * max(rank - 2, 0)
        assert found[i, k] == pytest.approx(expected, abs=1e-12)


def test_scores_follow_a_permutation_of_the_classes():
    random = np.random.default_rng(2)
    P = random.dirichlet(np.ones(6), size=30).round(1)
    order = random.permutation(6)
    np.testing.assert_allclose(
        adaptive_scores(P[:, order]), adaptive_scores(P)[:, order], atol=1e-12
    )


def test_sets_are_never_empty_hold_the_likeliest_class_and_grow_with_the_quantile():
    P = np.random.default_rng(3).dirichlet(np.ones(4), size=50)
    before = np.zeros(P.shape, bool)
    for quantile in [0.0, 0.3, 0.6, 0.9]:
        sets = adaptive_sets(P, quantile)
        assert sets.dtype == bool
        assert sets[np.arange(50), P.argmax(axis=1)].all()
        assert (sets >= before).all()
        before = sets
    assert adaptive_sets(P, math.inf).all()


def test_unusable_probabilities_are_refused():
    with pytest.raises(ValueError, match="rows x classes"):
        adaptive_scores([0.2, 0.8])
    with pytest.raises(ValueError, match="NaN"):
        adaptive_scores([[0.2, math.nan]])


@pytest.mark.parametrize("randomized", [False, True])
def test_sets_cover_the_stated_share_of_new_rows(randomized):
    """The classifier is wrong on purpose; the sets hold nevertheless."""
    random = np.random.default_rng(4)
    n, trials, hits = 19, 4_000, 0
    for _ in range(trials):
        truth = random.dirichlet(np.full(4, 0.5), size=n + 1)
        codes = np.array([random.choice(4, p=p) for p in truth])
        claimed = truth**3 / (truth**3).sum(axis=1, keepdims=True)
        u = random.uniform(size=n + 1) if randomized else None
        scores = adaptive_scores(claimed, codes, uniform=u)
        quantile = conformal_quantile(scores[:n], 0.9)
        hits += scores[n] <= quantile
    exact = expected_coverage(n, 0.9)
    if randomized:  # no ties: exact
        assert binomtest(hits, trials, exact).pvalue > 1e-3
    else:  # ties at zero: at least
        assert binomtest(hits, trials, exact, alternative="less").pvalue > 1e-3


def test_cross_sets_are_those_of_the_definition():
    random = np.random.default_rng(5)
    held_out = [random.uniform(size=4), random.uniform(size=5), random.uniform(size=3)]
    new = [random.uniform(size=(7, 3)) for _ in held_out]
    for level in [0.5, 0.7, 0.9]:
        found = cross_sets(held_out, new, level)
        for i, k in itertools.product(range(7), range(3)):
            below = sum(
                int(score < scores[i, k])
                for own, scores in zip(held_out, new, strict=True)
                for score in own
            )
            assert found[i, k] == (below < level * 13)


def test_cross_sets_of_one_fold_are_split_sets():
    random = np.random.default_rng(6)
    P = random.dirichlet(np.ones(3), size=40)
    scores = adaptive_scores(P[:20], random.integers(3, size=20))
    found = cross_sets([scores], [adaptive_scores(P[20:])], 0.8)
    np.testing.assert_array_equal(found, adaptive_sets(P[20:], conformal_quantile(scores, 0.8)))


# intervals


def test_residuals_are_in_units_of_the_width():
    np.testing.assert_array_equal(normalized_residuals([1.0, 5.0], [3.0, 4.0]), [2.0, 1.0])
    found = normalized_residuals([1.0, 5.0], [3.0, 4.0], [4.0, 0.5])
    np.testing.assert_array_equal(found, [0.5, 2.0])


def test_a_split_interval_by_hand():
    found = split_interval([1.0, 2.0], 3.0, [1.0, 0.5])
    assert isinstance(found, PredictionInterval)
    lower, upper = found
    np.testing.assert_array_equal(lower, [-2.0, 0.5])
    np.testing.assert_array_equal(upper, [4.0, 3.5])
    np.testing.assert_array_equal(split_interval([1.0], 3.0).upper, [4.0])


@pytest.mark.parametrize("with_width", [False, True])
def test_cross_intervals_are_those_of_the_definition(with_width):
    random = np.random.default_rng(7)
    residuals = [random.uniform(size=4), random.uniform(size=6), random.uniform(size=3)]
    means = random.normal(size=(8, 3))
    widths = random.uniform(0.5, 2, size=(8, 3)) if with_width else np.ones((8, 3))
    n = 13
    for level in [0.5, 0.75, 0.9]:
        found = cross_interval(residuals, means, level, widths if with_width else None)
        k = math.floor((1 - level) * (n + 1) + 1e-9)
        for i in range(8):
            low = [means[i, f] - widths[i, f] * r for f in range(3) for r in residuals[f]]
            high = [means[i, f] + widths[i, f] * r for f in range(3) for r in residuals[f]]
            assert found.lower[i] == pytest.approx(sorted(low)[k - 1])
            assert found.upper[i] == pytest.approx(sorted(high)[n - k])


def test_cross_intervals_do_not_depend_on_blocks(monkeypatch):
    random = np.random.default_rng(8)
    residuals = [random.uniform(size=10), random.uniform(size=10)]
    means = random.normal(size=(31, 2))
    whole = cross_interval(residuals, means, 0.9)
    monkeypatch.setattr(conformal, "BLOCK_ELEMENTS", 45)
    for one, other in zip(whole, cross_interval(residuals, means, 0.9), strict=True):
        np.testing.assert_array_equal(one, other)


def test_cross_intervals_are_unbounded_with_too_few_labels():
    found = cross_interval([np.ones(4), np.ones(4)], np.zeros((2, 2)), 0.9)
    assert np.isneginf(found.lower).all()
    assert np.isposinf(found.upper).all()


def test_cross_intervals_of_one_fold_are_split_intervals():
    random = np.random.default_rng(9)
    residuals = random.exponential(size=30)
    means = random.normal(size=5)
    found = cross_interval([residuals], means[:, None], 0.9)
    split = split_interval(means, conformal_quantile(residuals, 0.9))
    np.testing.assert_allclose(found.lower, split.lower)
    np.testing.assert_allclose(found.upper, split.upper)
