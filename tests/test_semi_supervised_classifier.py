"""SemiSupervisedClassifier: its members against oracles, their weights, and what users rely on."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from scipy.special import softmax
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from regfactor import SemiSupervisedClassifier
from regfactor.core.loop import Status
from regfactor.labels.semi_supervised import classifier as pool
from regfactor.labels.semi_supervised import forward, gaussian_classes, graph, stacking
from regfactor.labels.semi_supervised.labeled_rows import LabeledRows, Spectrum

MEMBERS = pool.MEMBERS
N_CLASSES = 3


def table(seed=0, n=90, d=4, per_class=4):
    """Three clusters of standardized rows, of which a few have a label; and all classes."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % N_CLASSES
    X = rng.normal(size=(n, d)) + 2.5 * rng.normal(size=(N_CLASSES, d))[codes]
    X = (X - X.mean(0)) / X.std(0)
    order = rng.permutation(n)
    few = np.full(n, -1)
    for code in range(N_CLASSES):
        chosen = order[codes[order] == code][:per_class]
        few[chosen] = code
    return X, few, codes


class NaNClassifier(GaussianNB):
    """A classifier whose probabilities are not numbers."""

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), np.nan)


def labeled_rows(n_folds=5, weights=None, **options):
    X, few, _ = table(**options)
    weights = np.ones(len(X)) if weights is None else weights
    shares = (few[:, None] == np.arange(N_CLASSES)).astype(float)
    return LabeledRows(X, shares, weights, 1.0, n_folds)


def without_fold(data, fold):
    """The same rows without the labels of a fold, and without folds of their own."""
    shares = data.shares.copy()
    shares[data.labeled[data.folds == fold]] = 0
    return LabeledRows(data.rows, shares, data.weights, 1.0, data.n_folds)


# ---------------------------------------------------------------- folds


def test_folds_keep_a_label_of_every_class_and_spread_labels_evenly():
    data = labeled_rows(per_class=2)
    codes = data.label_shares.argmax(1)
    for used in data.in_use:
        assert set(codes[used]) == {0, 1, 2}
    # six labels in five folds: all fits but the first miss one or two labels
    missing = (~data.in_use).sum(1)
    assert missing[0] == 0 and set(missing[1:]) == {1, 2}


def test_a_single_label_of_a_class_is_never_held_out():
    data = labeled_rows(per_class=3)
    shares = data.shares.copy()
    first, *others = data.labeled[data.label_shares[:, 1] == 1]
    shares[others] = 0
    alone = LabeledRows(data.rows, shares, data.weights, 1.0, 5)
    assert alone.folds[alone.labeled == first] == -1
    assert (alone.in_use[:, alone.labeled == first]).all()


@pytest.mark.parametrize("places", [[0], [0, 5], [1, 6]])
def test_a_class_of_soft_labels_in_one_fold_alone_is_in_every_fit(places):
    data = labeled_rows(per_class=5)
    shares = data.shares.copy()
    of_two = data.labeled[data.label_shares[:, 2] == 1]
    shares[of_two] = 0
    labels = np.flatnonzero(shares.any(1))
    order = labels[np.argsort(shares[labels].argmax(1), kind="stable")]
    shares[order[places]] *= 0.7
    shares[order[places], 2] = 0.3
    soft = LabeledRows(data.rows, shares, data.weights, 1.0, 5)
    for used in soft.in_use:
        assert (soft.label_shares[used].sum(0) > 0).all()
    assert (soft.folds == -1).sum() == 1
    for member in MEMBERS.values():
        assert np.isfinite(member(soft).fit().held_out).all()


# -------------------------------------------------------------- members


@pytest.mark.parametrize("name", MEMBERS)
def test_held_out_energies_are_those_of_a_fit_without_the_fold(name):
    data = labeled_rows(per_class=5)
    fitted = MEMBERS[name](data).fit()
    for fold in range(5):
        refitted = MEMBERS[name](without_fold(data, fold)).fit()
        out = data.folds == fold
        expected = refitted.energies[data.labeled[out]]
        expected = expected - expected.mean(axis=1, keepdims=True)
        found = fitted.held_out[out]
        found = found - found.mean(axis=1, keepdims=True)
        tolerance = 1e-9 if name == "kernel" else 2e-2 * np.abs(expected).max()
        np.testing.assert_allclose(found, expected, atol=tolerance)


@pytest.mark.parametrize("name", MEMBERS)
def test_energies_of_fitted_rows_are_those_of_new_ones(name):
    data = labeled_rows()
    fitted = MEMBERS[name](data).fit()
    again = fitted.model.energies(data.rows)
    if name == "graph":  # a fitted row is no neighbor of its own
        agree = again.argmax(1) == fitted.energies.argmax(1)
        assert agree.mean() > 0.9
    else:
        np.testing.assert_allclose(again, fitted.energies, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", MEMBERS)
def test_order_of_rows_does_not_matter(name):
    data = labeled_rows()
    # folds follow the order of labels: a permutation of unlabeled rows alone
    order = np.arange(len(data.rows))
    free = np.flatnonzero(~data.shares.any(1))
    order[free] = np.random.default_rng(1).permutation(free)
    other = LabeledRows(data.rows[order], data.shares[order], data.weights[order], 1.0, 5)
    first = MEMBERS[name](data).fit()
    second = MEMBERS[name](other).fit()
    np.testing.assert_allclose(second.energies, first.energies[order], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(second.held_out, first.held_out, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", MEMBERS)
def test_order_of_classes_does_not_matter(name):
    data = labeled_rows()
    other = LabeledRows(data.rows, data.shares[:, ::-1].copy(), data.weights, 1.0, 5)
    first = MEMBERS[name](data).fit().energies[:, ::-1]
    second = MEMBERS[name](other).fit().energies
    first = first - first.mean(1, keepdims=True)
    second = second - second.mean(1, keepdims=True)
    np.testing.assert_allclose(second, first, atol=2e-2 * np.abs(first).max())


def test_the_linear_member_is_logistic_regression_also_with_more_columns_than_labels():
    for d in (4, 40):
        data = labeled_rows(d=d)
        found = forward.LogisticMember(data).fit().energies
        machine = LogisticRegression(tol=1e-8, max_iter=1000)
        machine.fit(data.rows[data.labeled], data.label_shares.argmax(1))
        expected = machine.decision_function(data.rows)
        np.testing.assert_allclose(softmax(found, 1), softmax(expected, 1), atol=2e-2)


def test_the_kernel_member_solves_its_normal_equations():
    data = labeled_rows()
    model = forward.KernelMember(data).fit().model
    K = forward.gaussian_gram(model.labeled_rows, model.labeled_rows, model.width)
    residual = K @ model.dual + 0.1 * model.dual - (data.label_shares - 1 / 3)
    assert np.abs(residual).max() < 1e-12
    assert model.width == pytest.approx(4)  # standardized rows of four columns


def test_the_graph_member_solves_its_system():
    data = labeled_rows()
    rows = data.rows
    D = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    np.fill_diagonal(D, np.inf)
    nearest = np.argsort(D, axis=1)[:, :10]
    scales = np.sort(D, axis=1)[:, 6]
    W = np.zeros_like(D)
    for i, neighbors in enumerate(nearest):
        W[i, neighbors] = np.exp(-(D[i, neighbors] ** 2) / (scales[i] * scales[neighbors]))
    W = np.maximum(W, W.T)
    half = 1 / np.sqrt(W.sum(1))
    S = half[:, None] * W * half
    F = np.linalg.solve(np.eye(len(rows)) - 0.9 * S, data.shares / data.shares.sum(0))
    expected = F / F.sum(1, keepdims=True)
    found = np.exp(graph.GraphMember(data).fit().energies)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_copies_of_a_row_do_not_cut_it_off():
    data = labeled_rows()
    copies = np.repeat(data.rows[:1], 12, axis=0) + 0.0
    rows = np.vstack([data.rows, copies])
    shares = np.vstack([data.shares, np.zeros((12, 3))])
    grown = LabeledRows(rows, shares, np.ones(len(rows)), 1.0, 5)
    energies = graph.GraphMember(grown).fit().energies
    assert np.ptp(energies[-1]) > 0.1  # the classes do not look equal there


def test_without_unlabeled_rows_spheres_have_the_means_of_their_labels():
    data = labeled_rows(n=30, per_class=10)
    assert len(data.labeled) == 30
    energies = gaussian_classes.SphereMember(data).fit().energies
    means = np.array([data.rows[data.shares[:, j] == 1].mean(0) for j in range(3)])
    spread = np.mean([np.square(data.rows[data.shares[:, j] == 1] - means[j]) for j in range(3)])
    expected = -np.square(data.rows[:, None] - means).sum(2) / (2 * spread)
    np.testing.assert_allclose(softmax(energies, 1), softmax(expected, 1), atol=1e-4)


def test_own_covariances_are_shrunk_to_the_common_one_and_give_normal_densities():
    data = labeled_rows(n=30, per_class=10)
    member = gaussian_classes.OwnMember(data)
    fitted = member.fit()
    Z = data.rows @ fitted.model.basis
    of_class = [Z[data.shares[:, j] == 1] for j in range(3)]
    common = np.mean([np.cov(part.T, bias=True) for part in of_class], axis=0)
    diagonal = np.diag(common) * 1.0
    common = 0.9 * common
    np.fill_diagonal(common, diagonal + 1e-6 * diagonal.mean())
    expected = []
    for part in of_class:
        scatter = 10 * np.cov(part.T, bias=True)
        covariance = (scatter + 5 * common) / (10 + 5)
        expected.append(multivariate_normal(part.mean(0), covariance).logpdf(Z))
    found = softmax(fitted.energies, 1)
    np.testing.assert_allclose(found, softmax(np.array(expected).T, 1), atol=1e-4)


def test_whitened_coordinates_have_equal_variances_where_columns_depend():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 5)) @ rng.normal(size=(5, 5))
    rows = (rows - rows.mean(0)) / rows.std(0)
    for table_ in (rows, np.hstack([rows, rows]), rows[:4]):
        basis = gaussian_classes.whitening_basis(Spectrum.of(table_), 60)
        assert basis.shape[1] == np.linalg.matrix_rank(table_, tol=1e-3)
        Z = table_ @ basis
        gram = Z.T @ Z / len(Z)
        assert np.abs(gram - np.diag(np.diag(gram))).max() < 1e-9
        np.testing.assert_allclose(np.trace(gram), table_.shape[1], rtol=1e-6)


# -------------------------------------------------------------- weights


def test_weights_maximize_the_likelihood_with_their_prior():
    rng = np.random.default_rng(0)
    likelihoods = rng.random((4, 30))
    counts = rng.integers(1, 4, 30).astype(float)
    found = stacking.likelihood_weights(likelihoods, counts)

    def loss(logits):
        w = softmax(logits)
        return -(np.log(w @ likelihoods) @ counts + 0.3 * np.log(w).sum())

    best = scipy.optimize.minimize(loss, np.zeros(4)).x
    np.testing.assert_allclose(found, softmax(best), atol=1e-3)


def test_a_member_that_knows_the_held_out_labels_gets_the_weight_and_a_high_temperature():
    data = labeled_rows(per_class=8)
    noise = 3 * np.random.default_rng(0).normal(size=data.label_shares.shape)
    members = []
    for name, held_out in (("logistic", 10.0 * data.label_shares), ("graph", noise)):
        stated = MEMBERS[name](data)
        fitted = stated.fit()
        members.append(stated._fitted(fitted.model, fitted.energies, held_out))
    stack = stacking.stacked(members, data, None, 6.0, stacking.ShareCorrection.of_labels(data))
    assert stack.weights[0] > 0.9
    assert stack.temperatures[0] >= 1 and stack.temperatures[1] < 1.5


def test_members_whose_class_shares_contradict_the_labels_lose_weight():
    data = labeled_rows(per_class=8)
    members = [MEMBERS[name](data).fit() for name in ("logistic", "kernel")]
    members[1] = replace(members[1], class_shares=np.array([1.0, 0.0, 0.0]))
    shares = np.full(3, 1 / 3)
    trusting = stacking.stacked(
        members, data, shares, 6.0, stacking.ShareCorrection.none(3)
    ).weights
    indifferent = stacking.stacked(
        members, data, None, 6.0, stacking.ShareCorrection.none(3)
    ).weights
    assert trusting[1] < 0.1 * indifferent[1]


def test_an_average_that_is_too_modest_is_sharpened_and_its_order_kept():
    data = labeled_rows(per_class=20)
    modest = 0.4 * data.label_shares + 0.2  # right on every label, with a probability of .6
    power = stacking.best_sharpness(modest, data)
    assert power > 2
    numbers = np.zeros(0)
    stack = stacking.Stack(numbers, numbers, power, 0.0, np.zeros(3), numbers, modest, 0.0)
    sharp = stack.adjusted(modest)
    np.testing.assert_allclose(sharp.sum(1), 1)
    np.testing.assert_array_equal(sharp.argmax(1), modest.argmax(1))
    wrong = np.roll(0.96 * data.label_shares + 0.02 - 0.02 / 3, 1, axis=1)
    assert stacking.best_sharpness(wrong, data) < 0.5


def test_labels_of_a_rare_class_correct_an_average_that_ignores_how_rare_it_is():
    rng = np.random.default_rng(0)
    codes = (np.arange(400) % 10 == 0).astype(int)
    X = rng.normal(size=(400, 3)) + codes[:, None]
    few = np.where(np.arange(400) < 60, codes, -1)
    # labels of both classes spread the same mass along the graph
    model = SemiSupervisedClassifier(members=["graph"]).fit(X, few)
    assert 0.3 < model.share_power_ < 3
    without = replace(model._stack, share_power=0.0)
    energies = [model._models[0].energies(model._coordinates.of(X))]
    predicted = model._stack.probabilities(energies)[60:, 1].mean()
    assert abs(predicted - 0.1) < abs(without.probabilities(energies)[60:, 1].mean() - 0.1)
    equal = np.full(400, -1)
    equal[np.flatnonzero(codes == 0)[:10]] = 0
    equal[np.flatnonzero(codes == 1)[:10]] = 1
    assert SemiSupervisedClassifier(members=["graph"]).fit(X, equal).share_power_ == 0
    unknown = SemiSupervisedClassifier(members=["graph"], class_shares="unknown").fit(X, few)
    assert unknown.share_power_ == 0


def test_known_class_shares_correct_what_was_learned_from_labels_drawn_by_class():
    rng = np.random.default_rng(0)
    codes = (rng.random(1000) < 0.05).astype(int)
    X = rng.normal(size=(1000, 3)) + codes[:, None]
    few = np.full(1000, -1)
    for code in range(2):
        few[np.flatnonzero(codes == code)[:12]] = code
    unlabeled = few < 0
    unaware = SemiSupervisedClassifier(class_shares="unknown").fit(X, few)
    model = SemiSupervisedClassifier(class_shares=[0.95, 0.05]).fit(X, few)
    right = np.mean(model.transduction_[unlabeled] == codes[unlabeled])
    assert right > np.mean(unaware.transduction_[unlabeled] == codes[unlabeled]) + 0.1
    # two Gaussians: the log odds of the classes move by those of the shares
    before = unaware.predict_proba(X)[unlabeled, 1].mean()
    after = model.predict_proba(X)[unlabeled, 1].mean()
    assert abs(after - 0.05) < 0.05 < abs(before - 0.05)
    assert model.share_power_ == 1
    sets = model.predict_set(X[unlabeled], level=0.8)
    covered = sets[np.arange(len(sets)), codes[unlabeled]].mean()
    assert 0.7 < covered < 1
    never = SemiSupervisedClassifier(class_shares=[1.0, 0.0]).fit(X, few)
    assert np.isfinite(never.transduction_proba_).all()


def test_the_power_of_class_shares_is_the_posterior_mean():
    data = labeled_rows(per_class=8)
    weights = data.weights.copy()
    weights[data.labeled[data.label_shares[:, 0] == 1]] = 5.0
    data = replace(data, weights=weights)
    members = [MEMBERS["graph"](data).fit()]
    stack = stacking.stacked(members, data, None, 6.0, stacking.ShareCorrection.of_labels(data))
    average = members[0].held_out_proba
    grid = stacking.SHARE_POWERS
    logs = [
        data.label_weights
        @ np.log(
            softmax(stack.sharpness * np.log(average) + h * stack.log_shares, axis=1)[
                data.label_shares == 1
            ]
        )
        - 2 * h**2
        for h in grid
    ]
    posterior = np.exp(np.array(logs) - max(logs))
    assert stack.share_power == pytest.approx(posterior @ grid / posterior.sum())
    assert stack.share_power != 0


def test_columns_in_common_units_are_tried_where_they_differ():
    rng = np.random.default_rng(0)
    codes = np.arange(300) % 2
    X = rng.normal(size=(300, 20))
    X[:, 0] += np.where(codes == 0, -1.5, 1.5)  # the widest column carries the classes
    few = np.where(np.arange(300) < 20, codes, -1)
    model = SemiSupervisedClassifier(scale="auto").fit(X, few)
    assert len(model.members_) == 10
    other = SemiSupervisedClassifier().fit(X, few)
    standardized = (X - X.mean(0)) / X.std(0)
    alike = SemiSupervisedClassifier(scale="auto").fit(standardized, few)
    assert len(other.members_) == len(alike.members_) == 6
    free = few < 0
    ours = (model.transduction_[free] == codes[free]).mean()
    assert ours > (other.transduction_[free] == codes[free]).mean() + 0.05
    assert (model.predict(X[free]) == codes[free]).mean() > 0.85


# -------------------------------------------------------------- estimator


def digits(per_class=5, n=500):
    X, y = load_digits(return_X_y=True)
    X, y = X[:n], y[:n]
    few = np.full(n, -1)
    for label in range(10):
        few[np.flatnonzero(y == label)[:per_class]] = label
    return X, y, few


def test_it_is_better_than_logistic_regression_on_few_digits():
    X, y, few = digits()
    model = SemiSupervisedClassifier().fit(X, few)
    free = few < 0
    machine = LogisticRegression(max_iter=2000).fit(X[~free], y[~free])
    ours = (model.transduction_[free] == y[free]).mean()
    theirs = (machine.predict(X[free]) == y[free]).mean()
    assert ours > theirs + 0.02
    assert ours > 0.9


def test_it_follows_moons_that_a_line_cannot_part():
    X, y = make_moons(300, noise=0.06, random_state=0)
    few = np.full(300, -1)
    few[np.r_[np.flatnonzero(y == 0)[:4], np.flatnonzero(y == 1)[:4]]] = [0] * 4 + [1] * 4
    model = SemiSupervisedClassifier().fit(X, few)
    machine = LogisticRegression().fit(X[few >= 0], y[few >= 0])
    assert (model.transduction_ == y).mean() > machine.score(X, y) + 0.03
    assert model.members_[np.argmax(model.weights_)] in ("graph", "kernel", "own")


def test_given_labels_are_kept_and_probabilities_sum_to_one():
    X, _, few = digits()
    model = SemiSupervisedClassifier().fit(X, few)
    known = few >= 0
    np.testing.assert_array_equal(model.transduction_[known], few[known])
    np.testing.assert_allclose(model.transduction_proba_.sum(1), 1)
    P = model.predict_proba(X[:20])
    np.testing.assert_allclose(P.sum(1), 1)
    np.testing.assert_array_equal(model.predict(X[:20]), model.classes_[P.argmax(1)])
    assert model.weights_.sum() == pytest.approx(1)
    assert model.status_ is Status.FINISHED
    assert len(model.members_) == len(model.weights_) == len(model.scores_) == 6


def test_a_second_fit_and_a_pickle_are_identical():
    X, _, few = digits(n=300)
    model = SemiSupervisedClassifier().fit(X, few)
    again = SemiSupervisedClassifier().fit(X, few)
    np.testing.assert_array_equal(model.transduction_proba_, again.transduction_proba_)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict_proba(X), model.predict_proba(X))


def test_units_and_shifts_of_columns_do_not_matter():
    X, few, _ = table(per_class=5)
    first = SemiSupervisedClassifier().fit(X, few).transduction_proba_
    units = np.array([1e-6, 1.0, 1e5, 3.0])
    second = SemiSupervisedClassifier().fit(X * units + 7 * units, few).transduction_proba_
    np.testing.assert_allclose(second, first, atol=1e-3)
    third = SemiSupervisedClassifier(scale=False).fit(1e9 * X, few).transduction_proba_
    np.testing.assert_allclose(third, first, atol=1e-3)


def test_names_of_classes_do_not_matter():
    X, few, _ = table(per_class=5)
    words = np.array(["low", "mid", "top", ""])
    numbers = SemiSupervisedClassifier().fit(X, few)
    named = SemiSupervisedClassifier().fit(X, words[few])
    assert named.classes_.tolist() == ["low", "mid", "top"]
    np.testing.assert_array_equal(named.transduction_, words[numbers.transduction_])


def test_constant_columns_change_nothing():
    X, few, _ = table(per_class=5)
    wider = np.column_stack([X, np.full(len(X), 1e9)])
    first = SemiSupervisedClassifier().fit(X, few)
    second = SemiSupervisedClassifier().fit(wider, few)
    np.testing.assert_array_equal(second.transduction_proba_, first.transduction_proba_)


def test_unlabeled_rows_far_away_do_not_move_labels_near():
    X, few, codes = table(per_class=5, n=150)
    alone = SemiSupervisedClassifier().fit(X, few)
    far = np.full((8, X.shape[1]), 12.0) + np.random.default_rng(0).normal(size=(8, 4))
    together = SemiSupervisedClassifier().fit(np.vstack([X, far]), np.append(few, np.full(8, -1)))
    assert (alone.transduction_ == together.transduction_[:150]).mean() > 0.97


def test_soft_labels_of_one_class_each_are_plain_labels():
    X, few, _ = table(per_class=5)
    soft = (few[:, None] == np.arange(3)).astype(float)
    soft[few < 0] = np.nan
    plain = SemiSupervisedClassifier().fit(X, few)
    model = SemiSupervisedClassifier().fit(X, soft)
    np.testing.assert_array_equal(model.transduction_proba_, plain.transduction_proba_)


def test_of_many_soft_labels_some_of_every_class_are_used(monkeypatch):
    monkeypatch.setattr(pool, "MAX_LABELED_ROWS", 20)
    X, _, codes = table()
    shares = np.eye(N_CLASSES)[codes % 2]
    shares[40] = [0.7, 0.0, 0.3]
    with pytest.warns(UserWarning, match="20 of 90 labels"):
        model = SemiSupervisedClassifier().fit(X, shares)
    assert np.isfinite(model.predict_proba(X)).all()


def test_soft_labels_count_by_their_shares():
    X, few, codes = table(per_class=6)
    soft = (few[:, None] == np.arange(3)).astype(float)
    doubtful = np.flatnonzero(few == 0)[:2]
    soft[doubtful] = [0.6, 0.4, 0.0]
    model = SemiSupervisedClassifier().fit(X, soft)
    np.testing.assert_array_equal(model.transduction_proba_[doubtful], soft[doubtful])
    assert (model.transduction_ == codes).mean() > 0.9


@pytest.mark.parametrize(
    ("row", "message"),
    [([0.5, 0.2, 0.1], "Row 3 of y"), ([-0.1, 1.1, 0.0], "Row 3"), ([np.nan, 1, 0], "Row 3")],
)
def test_soft_labels_that_are_no_shares_are_refused(row, message):
    X, few, _ = table()
    soft = (few[:, None] == np.arange(3)).astype(float)
    soft[3] = row
    with pytest.raises(ValueError, match=message):
        SemiSupervisedClassifier().fit(X, soft)


def test_rows_of_weight_zero_are_new_rows():
    X, few, _ = table(per_class=5)
    weights = np.ones(len(X))
    gone = np.flatnonzero(few < 0)[:10]
    weights[gone] = 0
    model = SemiSupervisedClassifier().fit(X, few, sample_weight=weights)
    kept = weights > 0
    without = SemiSupervisedClassifier().fit(X[kept], few[kept])
    np.testing.assert_allclose(model.transduction_proba_[kept], without.transduction_proba_)
    np.testing.assert_allclose(model.transduction_proba_[gone], without.predict_proba(X[gone]))


def test_a_weight_of_two_is_two_rows_where_nothing_is_held_out_otherwise():
    data = labeled_rows()
    weights = np.where(data.shares.any(1), 2.0, 1.0)
    doubled = labeled_rows(weights=weights)
    rows = np.vstack([data.rows, data.rows[data.labeled]])
    shares = np.vstack([data.shares, data.label_shares])
    repeated = LabeledRows(rows, shares, np.ones(len(rows)), 1.0, 5)
    for member in (forward.LogisticMember, gaussian_classes.SphereMember):
        first = member(doubled).fit().energies
        second = member(repeated).fit().energies[: len(first)]
        np.testing.assert_allclose(softmax(second, 1), softmax(first, 1), atol=2e-2)


def test_missing_entries_are_filled_in_fitted_and_in_new_rows():
    X, y, few = digits(n=400)
    rng = np.random.default_rng(0)
    gaps = X.astype(float).copy()
    gaps[rng.random(X.shape) < 0.1] = np.nan
    model = SemiSupervisedClassifier().fit(gaps, few)
    free = few < 0
    assert (model.transduction_[free] == y[free]).mean() > 0.85
    assert np.isfinite(model.predict_proba(gaps[:30])).all()
    complete = SemiSupervisedClassifier().fit(X, few)
    assert np.isfinite(complete.predict_proba(gaps[:30])).all()


def test_sparse_rows_are_never_made_dense(monkeypatch):
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(400, 0.05), 3)
    codes = np.arange(240) % 3
    counts = np.array([rng.multinomial(60, topics[code]) for code in codes])
    X = scipy.sparse.csr_array(counts.astype(float))
    few = np.where(np.arange(240) < 18, codes, -1)
    monkeypatch.setattr(scipy.sparse.csr_array, "toarray", None)
    monkeypatch.setattr(scipy.sparse.csr_array, "todense", None)
    model = SemiSupervisedClassifier().fit(X, few)
    assert (model.transduction_ == codes).mean() > 0.95
    assert (model.predict(X[:50]) == codes[:50]).mean() > 0.95


def test_missing_entries_of_sparse_rows_are_at_the_mean_of_their_column():
    X, few, _ = table()
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    with_gaps = X.copy()
    with_gaps[::5, 1] = np.nan
    filled = np.where(np.isnan(with_gaps), np.nanmean(with_gaps, axis=0), with_gaps)
    model = SemiSupervisedClassifier().fit(scipy.sparse.csr_array(with_gaps), few)
    expected = SemiSupervisedClassifier().fit(scipy.sparse.csr_array(filled), few)
    np.testing.assert_allclose(model.transduction_proba_, expected.transduction_proba_, atol=1e-6)
    for form in (scipy.sparse.csr_array, np.asarray):
        found = model.predict_proba(form(with_gaps))
        np.testing.assert_allclose(found, expected.predict_proba(filled), atol=1e-6)


def test_many_rows_are_fitted_by_a_sample_and_all_are_labeled():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, 6000)
    X = rng.normal(size=(6000, 3)) + 4 * codes[:, None]
    few = np.full(6000, -1)
    few[:12] = codes[:12]
    model = SemiSupervisedClassifier(random_state=0).fit(X, few)
    assert (model.transduction_ == codes).mean() > 0.99


def test_one_label_per_class_warns_and_works():
    X, y = load_iris(return_X_y=True)
    few = np.full(150, -1)
    few[[10, 60, 110]] = [0, 1, 2]
    with pytest.warns(UserWarning, match="one label"):
        model = SemiSupervisedClassifier().fit(X, few)
    assert (model.transduction_ == y).mean() > 0.75
    with pytest.raises(ValueError, match="cannot be given with 0 labels"):
        model.predict_set(X)


def test_labels_drawn_by_class_of_unequal_classes_warn():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(200, 2)), rng.normal(size=(20, 2)) + 6])
    few = np.full(220, -1)
    few[:4] = 0
    few[200:204] = 1
    with pytest.warns(UserWarning, match="class_shares"):
        SemiSupervisedClassifier().fit(X, few)
    known = SemiSupervisedClassifier(class_shares=[10, 1]).fit(X, few)
    np.testing.assert_allclose(known.class_shares_, [10 / 11, 1 / 11])


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        (
            {},
            [0, -1, -1, -1, -1, -1],
            r"At least two classes need a label.*y holds 1 class, 0. Label",
        ),
        ({}, [-1, -1, -1, -1, -1, -1], "y holds no label. Label rows of two classes"),
        ({"classes": [0, 1, 2]}, [0, 1, -1, -1, -1, -1], r"Classes \[2\] have no labeled row"),
        ({"members": ["grap"]}, [0, 1, 0, 1, -1, -1], "Did you mean 'graph'"),
        ({"members": []}, [0, 1, 0, 1, -1, -1], "no members"),
        ({"members": [LogisticRegression()]}, [0, 1, 0, 1, -1, -1], "pairs"),
        ({"members": [("x", object())]}, [0, 1, 0, 1, -1, -1], "predict_proba"),
        ({"members": ["graph", "auto"]}, [0, 1, 0, 1, -1, -1], "'graph'; give each one"),
        ({"class_shares": [1, 2, 3]}, [0, 1, 0, 1, -1, -1], "each of 2 classes"),
        ({"class_shares": [1, 2, 3]}, [0, 1, 0, 1, 0, 1], "each of 2 classes"),
        ({"class_shares": [np.inf, 1]}, [0, 1, 0, 1, -1, -1], "each of 2 classes"),
        ({"class_shares": ["a", "b"]}, [0, 1, 0, 1, -1, -1], "class_shares must hold numbers"),
        ({"classes": 2}, [0, 1, 0, 1, -1, -1], "'classes' parameter"),
        ({"classes": ["a", "a"]}, np.eye(2)[[0, 1, 0, 1, 0, 1]], "each class once"),
        ({"n_folds": 1}, [0, 1, 0, 1, -1, -1], "n_folds"),
    ],
)
def test_bad_input_is_refused_with_a_remedy(options, y, message):
    X = np.random.default_rng(0).normal(size=(6, 2))
    with pytest.raises(ValueError, match=message):
        SemiSupervisedClassifier(**options).fit(X, y)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_constant_tables_are_refused(form):
    with pytest.raises(ValueError, match="constant"):
        SemiSupervisedClassifier().fit(form(np.ones((120, 5))), np.arange(120) % 4 - 1)


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_columns_whose_squares_overflow_are_refused_by_name(size):
    X, few, _ = table()
    with pytest.raises(ValueError, match="Column 0 of X holds values of size"):
        SemiSupervisedClassifier().fit(X * size, few)


def test_new_rows_of_any_size_have_probabilities_or_are_refused():
    X, few, _ = table()
    model = SemiSupervisedClassifier().fit(X * 1e-100, few)
    for size in (1e-300, 1e-100, 1.0, 1e120):
        assert np.isfinite(model.predict_proba(np.full((2, X.shape[1]), size))).all()
    with pytest.raises(ValueError, match="cannot hold"):
        model.predict_proba(np.full((2, X.shape[1]), 1e200))


@pytest.mark.parametrize("weight", [1e150, 1e-150])
def test_weights_far_from_counts_are_refused(weight):
    X, few, _ = table()
    with pytest.raises(ValueError, match="sample_weight"):
        SemiSupervisedClassifier().fit(X, few, sample_weight=np.full(len(X), weight))


@pytest.mark.filterwarnings("error")
def test_a_label_of_hardly_any_weight_has_no_effect():
    X, few, _ = table()
    weights = np.ones(len(X))
    weights[np.flatnonzero(few == 0)[0]] = 1e-300
    fitted = forward.KernelMember(labeled_rows(weights=weights)).fit()
    data = labeled_rows(weights=np.where(weights == 1, weights, 1e-14))
    np.testing.assert_allclose(
        fitted.energies, forward.KernelMember(data).fit().energies, atol=1e-9
    )


@pytest.mark.filterwarnings("error")
def test_many_classes_with_hardly_any_labels_do_not_warn():
    X, _, _ = table()
    few = np.full(len(X), -1)
    few[:23] = np.arange(23) % 20
    SemiSupervisedClassifier(class_shares="unknown").fit(X, few)


@pytest.mark.parametrize("level", ["a", None, 0, 1.5])
def test_a_level_that_is_no_share_is_refused(level):
    X, few, _ = table()
    model = SemiSupervisedClassifier(members=["logistic"]).fit(X, few)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        model.predict_set(X, level)


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_handful_of_rows_works(n):
    X = np.random.default_rng(0).normal(size=(n, 3))
    y = np.array([0, 1, -1, -1])[:n]
    model = SemiSupervisedClassifier().fit(X, y)
    assert np.isfinite(model.transduction_proba_).all()


def test_classifiers_of_scikit_learn_join_the_pool_by_their_held_out_labels():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 6))
    y = (np.floor(2.5 * (X[:, 0] + 1)) % 2).astype(int)  # stripes of one column among noise
    few = np.where(np.arange(300) < 120, y, -1)
    forest = ("forest", RandomForestClassifier(random_state=0))
    model = SemiSupervisedClassifier(members=["auto", forest]).fit(X, few)
    assert model.members_[-1] == "forest"
    assert np.argmax(model.weights_) == 6
    alone = SemiSupervisedClassifier().fit(X, few)
    free = few < 0
    with_forest = (model.transduction_[free] == y[free]).mean()
    assert with_forest > (alone.transduction_[free] == y[free]).mean() + 0.05
    margins = SemiSupervisedClassifier(members=[("svm", LinearSVC())]).fit(X, few)
    assert margins.predict_proba(X[:4]).shape == (4, 2)


@pytest.mark.parametrize("classifier", [LogisticRegression(), LinearSVC(), GaussianNB()])
def test_classifiers_keep_their_classes_apart_in_any_order_of_classes(classifier):
    X, few, _ = table(per_class=5)
    members = [("given", classifier)]
    ordered = SemiSupervisedClassifier(members).fit(X, few)
    turned = SemiSupervisedClassifier(members, classes=[2, 0, 1]).fit(X, few)
    assert turned.classes_.tolist() == [2, 0, 1]
    for j, label in enumerate(turned.classes_):
        of_class = ordered.predict_proba(X)[:, label]
        np.testing.assert_allclose(turned.predict_proba(X)[:, j], of_class, atol=0.02)


def test_a_classifier_that_is_not_given_a_class_gives_it_little():
    X, few, _ = table(per_class=5)
    shares = (few[:, None] == np.arange(N_CLASSES)).astype(float)
    shares[few == 2] = [0.6, 0.0, 0.4]  # neighbors take no weights, and see the largest share
    model = SemiSupervisedClassifier([("knn", KNeighborsClassifier(3))]).fit(X, shares)
    found = model.predict_proba(X)
    assert found.shape == (len(X), 3)
    assert found[:, 2].max() < 0.1


@pytest.mark.parametrize(
    ("classifier", "message"),
    [
        (KNeighborsClassifier(50), "'given' failed .* n_neighbors"),
        (QuadraticDiscriminantAnalysis(), "'given' failed .* not full rank"),
        (NaNClassifier(), "'given' failed .* finite number for each"),
    ],
)
def test_a_classifier_that_fails_is_named(classifier, message):
    X, few, _ = table(per_class=4)
    with pytest.raises(ValueError, match=message):
        SemiSupervisedClassifier(["logistic", ("given", classifier)]).fit(X, few)


def test_a_short_time_leaves_members_out_and_says_so():
    X, few, _ = table()
    with pytest.warns(UserWarning, match="only the members logistic: the time limit"):
        model = SemiSupervisedClassifier(time_limit=0.0).fit(X, few)
    assert model.members_ == ["logistic"]
    assert model.status_ is Status.TIME_LIMIT


def test_an_explanation_names_who_carried_it_and_what_unlabeled_rows_did():
    X, _, few = digits(n=300)
    told = str(SemiSupervisedClassifier().fit(X, few).explain())
    assert "carries most" in told
    assert "Unlabeled rows changed" in told


def test_prediction_sets_cover_new_rows():
    covered = []
    for seed in range(8):
        X, few, codes = table(seed=seed, n=400, d=3, per_class=12)
        X = X + 1.0 * np.random.default_rng(seed).normal(size=X.shape)  # classes overlap
        new = (np.arange(400) % 5 < 2) & (few < 0)
        fitted = ~new
        model = SemiSupervisedClassifier().fit(X[fitted], few[fitted])
        sets = model.predict_set(X[new], level=0.8)
        covered.append(sets[np.arange(new.sum()), codes[new]].mean())
    assert 0.74 < np.mean(covered) < 0.9
