"""SNFRegressorCV: only labels decide, few of them one at a time; what it chose is what it fits."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score

from regfactor.comparisons.least_squares_svm import LeastSquaresSVM
from regfactor.labels.latent import ridge as snf_forms
from regfactor.labels.latent.cv import SNFRegressorCV
from regfactor.labels.latent.estimator import SNFRegressor
from regfactor.labels.latent.settings import default_settings
from regfactor.labels.latent.trials import CrossValidation, LatentCandidate, LatentTrial, ranked

SMALL = [{"max_iter": (0, 15)}, {"kernel": "rbf", "n_components": 1.0, "gamma": 0.1, "max_iter": 0}]


def draw(n=60, d=4, labels=15, seed=0, targets=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=n)
    y = y if targets is None else np.column_stack([y] + [X[:, 2]] * (targets - 1))
    seen = y.copy()
    seen[labels:] = np.nan
    return X, y, seen


def test_unlabeled_and_new_rows_are_predicted():
    X, y, seen = draw(n=90)
    model = SNFRegressorCV(random_state=0).fit(X[:60], seen[:60])
    assert (
        r2_score(y[15:60], model.transduction_[15:]) > 0.9
        and r2_score(y[60:], model.predict(X[60:])) > 0.9
    )
    np.testing.assert_array_equal(model.transduction_[:15], y[:15])
    np.testing.assert_allclose(model.predict(X[:60])[15:], model.transduction_[15:], atol=1e-8)
    assert model.codes_.shape == model.transform(X[:60]).shape
    assert model.inverse_transform(model.codes_).shape == (60, 4)


def test_what_was_hidden_decides_nothing():
    X, y, seen = draw()
    one = SNFRegressorCV(SMALL, random_state=0).fit(X, seen)
    two = SNFRegressorCV(SMALL, random_state=0).fit(X, seen)
    assert one.best_params_ == two.best_params_ and one.best_score_ == two.best_score_
    np.testing.assert_array_equal(one.transduction_, two.transduction_)


@pytest.mark.parametrize(
    "setting", [{"degree": 2, "max_iter": 30}, {"back_constraint": None, "target_weight": 1.0}]
)
def test_one_candidate_is_the_plain_model_with_that_ridge(setting):
    X, _, seen = draw()
    model = SNFRegressorCV([setting], ridges=(0.1,), cv=2, n_averaged=1, clip=0.1).fit(X, seen)
    alone = SNFRegressor(**setting).fit(X, seen)
    np.testing.assert_allclose(model.transduction_, alone.transduction_, atol=1e-9)
    np.testing.assert_allclose(model.codes_, alone.codes_, atol=1e-9)


def test_errors_are_those_of_folds_that_are_fitted_apart():
    X, y, seen = draw(labels=6)  # fewer than nine: each is left out alone
    setting = {"degree": 2, "max_iter": 15, "tol": 0.0}
    model = SNFRegressorCV([setting], ridges=(0.1,), tol=0.0, clip=0.1, cv=None).fit(X, seen)
    errors = []
    for i in range(6):
        kept = seen.copy()
        kept[i] = np.nan
        errors.append((SNFRegressor(**setting).fit(X, kept).transduction_[i] - y[i]) ** 2)
    assert model.best_score_ == pytest.approx(np.mean(errors) / np.var(y[:6]), rel=1e-6)


def test_a_setting_may_have_its_own_tolerance():
    X, _, seen = draw()
    path = {"degree": 2, "max_iter": (0, 15, 30, 45)}
    own = SNFRegressorCV(
        [path | {"tol": 0.9}, path], cv=None, random_state=0, ridges=(0.1,), tol=0.0
    ).fit(X, seen)
    for tol in (0.9, 0.0):
        alone = SNFRegressorCV([path], cv=None, random_state=0, ridges=(0.1,), tol=tol).fit(X, seen)
        found = [r for r in own.cv_results_ if r["params"]["tol"] == tol]
        assert found == alone.cv_results_
    ends = [r["mean_error"] for r in own.cv_results_ if r["params"]["max_iter"] == 45]
    assert len(ends) == 2 and ends[0] != ends[1]


def test_stops_on_the_way_are_those_of_shorter_descents():
    X, _, seen = draw()
    path = SNFRegressorCV(
        [{"degree": 2, "max_iter": (0, 15, 30)}], ridges=(0.1,), tol=0.0, cv=None, random_state=0
    ).fit(X, seen)
    found = {r["params"]["max_iter"]: r["mean_error"] for r in path.cv_results_}
    assert sorted(found) == [0, 15, 30]
    for stop, error in found.items():
        alone = SNFRegressorCV(
            [{"degree": 2, "max_iter": stop}], ridges=(0.1,), tol=0.0, cv=None, random_state=0
        ).fit(X, seen)
        assert alone.best_score_ == pytest.approx(error, rel=1e-8)


def test_results_are_sorted_and_complete():
    X, _, seen = draw()
    model = SNFRegressorCV(SMALL, ridges=(0.01, 0.1), caution=0.0, cv=None).fit(X, seen)
    errors = [r["mean_error"] for r in model.cv_results_]
    assert errors == sorted(errors) and len(errors) == 6 and model.best_score_ == errors[0]
    assert set(model.best_params_) >= {"max_iter", "ridge"}


def test_a_kernel_machine_is_left_only_for_what_is_surely_better():
    def trial(machine, errors):
        return LatentTrial(LatentCandidate(0, 0, 0.1, machine), np.array(errors))

    machine, other = trial(True, [1.0, 2.0, 3.0, 4.0]), trial(True, [2.0, 2.0, 3.0, 4.0])
    lucky, better = trial(False, [1.0, 2.0, 3.0, 3.9]), trial(False, [0.5, 1.6, 2.4, 3.5])
    assert ranked([other, lucky, machine], 2.0) == [machine, other, lucky]
    assert ranked([other, lucky, machine], 0.0) == [lucky, machine, other]
    assert ranked([other, better, machine], 2.0) == [better, machine, other]
    assert ranked([other, lucky, better, machine], 2.0) == [better, machine, lucky, other]
    assert ranked([lucky, better], 2.0) == [better, lucky]


def test_without_evidence_it_is_the_machine_that_the_labels_choose():
    X, _, seen = draw()
    settings = [
        s for s in default_settings(4) if s.get("kernel") == "rbf" and s["n_components"] == 1.0
    ]
    cautious = SNFRegressorCV(random_state=0, caution=100.0).fit(X, seen)
    machines = SNFRegressorCV(settings, random_state=0).fit(X, seen)
    assert cautious.best_params_ == machines.best_params_
    np.testing.assert_allclose(cautious.transduction_, machines.transduction_)
    found = cautious.best_params_
    scaled = 2 * (X - X.min(axis=0)) / np.ptp(X, axis=0) - 1
    low, width = np.nanmin(seen), np.nanmax(seen) - np.nanmin(seen)
    machine = LeastSquaresSVM(found["ridge"], gamma=found["gamma"]).fit(
        scaled, 2 * (seen - low) / width - 1
    )
    one = SNFRegressorCV(
        [{k: v for k, v in found.items() if k not in ("ridge", "clip")}],
        ridges=(found["ridge"],),
        n_averaged=1,
    )
    expected = (machine.predict(scaled) + 1) * width / 2 + low
    np.testing.assert_allclose(
        one.fit(X, seen).predict(X), np.clip(expected, low - width, low + 2 * width), atol=1e-8
    )


@pytest.mark.parametrize(
    "setting",
    [
        {"kernel": "rbf", "n_components": 1.0, "gamma": 0.1},
        {"degree": 2},
        {"degree": 1, "n_components": 1.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_is_exact(setting, weighted):
    """Errors are those of machines that are fitted again without each label."""
    X, y, seen = draw(labels=10)
    weights = np.random.default_rng(3).uniform(0.5, 2.0, 60) if weighted else np.ones(60)
    model = SNFRegressorCV([setting | {"max_iter": 0}], ridges=(0.1,), clip=None, scale=False)
    model.fit(X, seen, weights)
    errors = []
    for i in range(10):
        kept = seen.copy()
        kept[i] = np.nan
        alone = SNFRegressor(**setting, max_iter=0, lambda_y=0.1, clip=None, scale=False)
        errors.append((alone.fit(X, kept, weights).transduction_[i] - y[i]) ** 2)
    expected = np.average(errors, weights=weights[:10]) / np.var(y[:10])
    assert model.best_score_ == pytest.approx(expected, rel=1e-6)


def test_descents_run_on_one_fold_unless_they_beat_the_machines(monkeypatch):
    X, _, seen = draw()
    counted = []
    original = CrossValidation.latent_rows
    monkeypatch.setattr(
        CrossValidation, "latent_rows", lambda self, *a: (counted.append(1), original(self, *a))[1]
    )
    model = SNFRegressorCV(random_state=0, caution=100.0).fit(X, seen)
    assert len(counted) == 1
    assert all(result["params"]["max_iter"] == 0 for result in model.cv_results_)
    assert "No descent beat" in str(model.explain())


def test_a_descent_that_beats_the_machines_is_continued_and_explained():
    """Targets along a direction of little variance, which principal components leave out."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6)) * [3.0, 3.0, 3.0, 1.0, 1.0, 1.0]
    y = X[:, 5] * 2
    seen = np.where(np.arange(120) < 30, y, np.nan)
    settings = [{"n_components": 0.5, "max_iter": (0, 15, 60), "target_weight": 100.0}]
    model = SNFRegressorCV(settings, scale=False, random_state=0).fit(X, seen)
    assert model.best_params_["max_iter"] > 0
    assert r2_score(y[30:], model.transduction_[30:]) > 0.8
    explanation = model.explain()
    assert "descended" in str(explanation)
    assert len(explanation.members) == min(8, len(model.cv_results_))
    assert sum(report.weight for report in explanation.members) == pytest.approx(1)


def test_means_over_candidates_are_means():
    X, _, seen = draw()
    both = SNFRegressorCV(SMALL, ridges=(0.1,), n_averaged=3, clip=None).fit(X, seen)
    parts = []
    for result in both.cv_results_:
        setting = {k: v for k, v in result["params"].items() if k not in ("ridge", "clip")}
        parts.append(SNFRegressorCV([setting], ridges=(0.1,), clip=None).fit(X, seen).predict(X))
    np.testing.assert_allclose(both.predict(X), np.mean(parts, axis=0), atol=1e-8)


def test_several_targets():
    X, Y, seen = draw(targets=2)
    seen[3, 1] = np.nan
    model = SNFRegressorCV(SMALL, cv=None).fit(X, seen)
    assert r2_score(Y, model.predict(X)) > 0.8 and model.transduction_.shape == Y.shape


def test_descents_without_targets_run_once(monkeypatch):
    X, _, seen = draw()
    counted = []
    original = CrossValidation.latent_rows
    monkeypatch.setattr(
        CrossValidation, "latent_rows", lambda self, *a: (counted.append(1), original(self, *a))[1]
    )
    SNFRegressorCV([{"target_weight": 0.0}], cv=5).fit(X, seen)
    assert len(counted) == 1
    SNFRegressorCV([{"target_weight": 1.0}], cv=5).fit(X, seen)
    assert len(counted) == 6


def test_the_default_settings_hold_kernel_machines_on_the_labels():
    settings = default_settings(10)
    assert any(
        s.get("kernel") == "rbf" and s["n_components"] == 1.0 and 0 in s["max_iter"]
        for s in settings
    )
    for setting in settings:
        SNFRegressor(**{**setting, "max_iter": 1}).fit(*draw()[::2])


@pytest.mark.parametrize(
    ("parameters", "labels", "message"),
    [
        ({}, 2, "at least 3 rows"),
        ({"cv": 20}, 15, "from 2 to the 15 labeled"),
        ({"cv": 1.5}, 15, "whole number"),
        ({"ridges": ()}, 15, "ridges must be"),
        ({"ridges": (0.0,)}, 15, "ridges must be"),
        ({"settings": []}, 15, "list of dicts"),
        ({"settings": [3]}, 15, "list of dicts"),
        ({"settings": [{"max_iter": (0, 20)}]}, 15, "multiples of 15"),
        ({"settings": [{"lambda_z": 0.0}]}, 15, "'lambda_z' parameter"),
        ({"caution": -1.0}, 15, "'caution' parameter"),
        ({"n_averaged": 0}, 15, "'n_averaged' parameter"),
        ({"tol": -1.0}, 15, "'tol' parameter"),
        ({"clip": -1.0}, 15, "'clip' parameter of SNFRegressorCV"),
        *(
            ({"ridges": r}, 15, "ridges must be")
            for r in (None, 1.0, "a", ("a",), (0.1, np.inf), (np.nan,), ((1.0,),))
        ),
        ({"settings": 3}, 15, "list of dicts"),
        ({"settings": {"degree": 2}}, 15, "list of dicts"),
        (
            {"settings": [{"kernel": "rbf"}, {"n_components": 9}]},
            15,
            r"settings\[1\]: .* from 1 to the 4 inputs",
        ),
        *(
            ({"settings": [{"max_iter": m}]}, 15, "max_iter must be")
            for m in ([], "a", (0, "a"), (-15, 15), (0, 1.5))
        ),
        (
            {"settings": [{"degre": 2}]},
            15,
            "Did you mean 'degree'[?] Choose one of: back_constraint, degree",
        ),
        ({"settings": [{3: 2}]}, 15, "Unknown parameter 3"),
        *(
            ({"settings": [{p: None}]}, 15, "give it to SNFRegressorCV")
            for p in ("clip", "scale", "random_state")
        ),
        *(
            ({"settings": [{p: 0}]}, 15, "leave it out. A setting may")
            for p in ("time_limit", "callback", "verbose")
        ),
    ],
    ids=str,
)
def test_bad_parameters_are_named_before_any_work(monkeypatch, parameters, labels, message):
    X, _, seen = draw(labels=labels)
    monkeypatch.setattr(CrossValidation, "trials", None)
    monkeypatch.setattr(CrossValidation, "screened_trials", None)
    with pytest.raises(ValueError, match=message):
        SNFRegressorCV(**parameters).fit(X, seen)


def test_too_many_terms_are_refused_before_any_work(monkeypatch):
    X, _, seen = draw()
    monkeypatch.setattr(snf_forms, "MAX_KERNEL_ROWS", 50)
    monkeypatch.setattr(CrossValidation, "trials", None)
    monkeypatch.setattr(CrossValidation, "screened_trials", None)
    with pytest.raises(ValueError, match=r"settings\[0\]: .* Lower degree or n_components"):
        SNFRegressorCV([{"n_components": 1.0, "degree": 16}]).fit(X, seen)


def test_what_is_named_twice_is_tried_once():
    X, _, seen = draw()
    once = SNFRegressorCV([{"max_iter": (0, 15)}], ridges=(0.1,), random_state=0).fit(X, seen)
    twice = SNFRegressorCV(
        [{"max_iter": [15, 0, 15]}], ridges=np.array([0.1, 0.1]), random_state=0
    ).fit(X, seen)
    assert once.cv_results_ == twice.cv_results_


def test_it_can_be_cloned_with_its_settings():
    model = SNFRegressorCV(SMALL, ridges=(0.1,))
    assert clone(model).get_params() == model.get_params()


def test_rows_of_weight_zero_are_placed_and_not_learned_from():
    X, _, seen = draw()
    rng = np.random.default_rng(1)
    more = np.vstack([X, rng.normal(size=(5, 4))])
    y = np.append(seen, [100.0, -100.0, 0.0, np.nan, np.nan])
    weights = np.append(np.full(60, 2.0), np.zeros(5))
    model = SNFRegressorCV(SMALL, ridges=(0.1,), random_state=0)
    plain, weighed = clone(model).fit(X, seen, np.full(60, 2.0)), clone(model).fit(more, y, weights)
    np.testing.assert_allclose(weighed.transduction_[:60], plain.transduction_, atol=1e-9)
    np.testing.assert_allclose(weighed.transduction_[63:], plain.predict(more[63:]), atol=1e-9)
    np.testing.assert_array_equal(weighed.transduction_[60:63], y[60:63])


def test_heavy_rows_decide():
    """Labels of two laws: the law of the heavy rows is followed."""
    X, _, _ = draw()
    first = np.arange(60) % 2 == 0
    y = np.where(first, X[:, 0], X[:, 1])
    model = SNFRegressorCV(SMALL, ridges=(0.1,), cv=None, random_state=0)
    for own, law in ((first, X[:, 0]), (~first, X[:, 1])):
        fit = clone(model).fit(X, y, np.where(own, 1.0, 1e-3))
        assert r2_score(law, fit.predict(X)) > 0.9


def test_standard_errors_of_equal_weights_are_those_without():
    errors, others = np.array([1.0, 2.0, 4.0, 7.0]), np.array([1.5, 1.0, 4.5, 5.0])
    candidate = LatentCandidate(0, 0, 0.1)
    for weights in (None, np.full(4, 3.0)):
        one, two = LatentTrial(candidate, errors, weights), LatentTrial(candidate, others, weights)
        assert one.standard_error() == pytest.approx(errors.std(ddof=1) / 2)
        assert one.standard_error(two) == pytest.approx((errors - others).std(ddof=1) / 2)
    halves = LatentTrial(candidate, errors, np.array([1.0, 1.0, 0.0, 0.0]))
    assert halves.mean == 1.5


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_the_kind_of_tables_that_transformers_return_is_no_matter_within(kind):
    X, _, seen = draw()
    model = SNFRegressorCV(SMALL, random_state=0)
    plain = clone(model).fit(X, seen)
    with sklearn.config_context(transform_output=kind):
        np.testing.assert_array_equal(clone(model).fit(X, seen).predict(X), plain.predict(X))


@pytest.mark.parametrize(
    ("parameters", "y"),
    [
        ({}, np.zeros(59)),
        ({}, np.full(60, np.inf)),
        ({}, np.full(60, np.nan)),
        ({"n_averaged": 0}, np.arange(60.0)),
    ],
    ids=["short", "infinite", "empty", "parameter"],
)
def test_a_fit_that_fails_changes_nothing(parameters, y):
    X, _, seen = draw()
    new, old = SNFRegressorCV(SMALL), SNFRegressorCV(SMALL).fit(X, seen)
    before = old.predict(X)
    for model in (new, old):
        with pytest.raises(ValueError):
            model.set_params(**parameters).fit(3 * X[:, :3] + 1, y)
    with pytest.raises(NotFittedError):
        new.predict(X)
    np.testing.assert_array_equal(old.predict(X), before)


def test_trials_that_fail_change_nothing(monkeypatch):
    X, _, seen = draw()
    model = SNFRegressorCV(SMALL).fit(X, seen)
    before = model.predict(X)

    def broken(*args):
        raise MemoryError

    monkeypatch.setattr(CrossValidation, "screened_trials", broken)
    with pytest.raises(MemoryError):
        model.fit(3 * X + 1, 2 * seen)
    np.testing.assert_array_equal(model.predict(X), before)
