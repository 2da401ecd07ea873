"""Reverse classification: objective (26) by its definition, its limits (class means, k-means), the papers' errata."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.metrics import confusion_matrix, log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from catalogue import FOLDS, rng
from regfactor.clusters.kmeans import BregmanKMeans
from regfactor.core.loop import Limits
from regfactor.datasets import make_reverse_classification, random_split
from regfactor.kernels import Gaussian, as_kernel
from regfactor.labels.reverse.classifier import ReverseClassifier
from regfactor.losses import potentials
from regfactor.losses.distances import Mahalanobis, SquaredDistance
from regfactor.losses.divergences import as_divergence
from regfactor.losses.transfers import TRANSFERS
from regfactor.model_selection import compare_with_supervised
from regfactor.problems.clusters import ClusterPoint, Clusters
from regfactor.problems.kernel_clusters import KernelClusters
from regfactor.solvers import EM, Lloyd
from regfactor.solvers.kernel_steps import KernelSteps
from regfactor.solvers.seeding import spread_rows

# small random tables of which soft classes make what they can; the warning has a test of its own
pytestmark = pytest.mark.filterwarnings("ignore:Soft classes ran into each other")

REAL_TRANSFERS = sorted(set(TRANSFERS) - {"kl"})  # which takes no negative numbers
EVERY = [*REAL_TRANSFERS, "mahalanobis"]
every_transfer = pytest.mark.parametrize("transfer", EVERY)
few_steps = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
every_assignment = pytest.mark.parametrize("assignment", ["hard", "soft"])
COLUMNS = {
    f"check_sample_weight_equivalence_on_{kind}_data": "repeated rows are repeated columns of a kernel matrix"
    for kind in ("dense", "sparse")
}


@parametrize_with_checks(
    [
        ReverseClassifier(unlabeled=float("nan")),
        ReverseClassifier("mahalanobis", "soft", unlabeled=float("nan")),
        ReverseClassifier(kernel="rbf", gamma=0.1, unlabeled=float("nan")),
        ReverseClassifier(
            "sigmoid", "soft", kernel="rbf", normalized_cut=True, unlabeled=float("nan")
        ),
    ],
    expected_failed_checks=lambda e: COLUMNS if e.normalized_cut else FOLDS,
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


def groups(n=240, d=4, k=3, seed=0, labels=4, apart=1.5):
    """Rows in k overlapping groups, their classes, and the same with all but a few of each marked by -1."""
    random = rng(seed)
    y = random.integers(k, size=n)
    X = apart * random.normal(size=(k, d))[y] + 0.6 * random.normal(size=(n, d))
    marked = np.full(n, -1)
    for j in range(k):
        some = random.permutation(np.flatnonzero(y == j))[:labels]
        marked[some] = j
    return X, y, marked


def divergences(transfer, X, M):
    """D of all pairs, from the definition."""
    F = TRANSFERS[transfer]
    return np.array([[F.divergence(x, m) for m in M] for x in X])


def objective(D, codes, mu, w=None):
    """(26), from the divergences of all rows from all centers."""
    w, known = np.ones(len(D)) if w is None else w, codes >= 0
    labeled = w[known] @ D[known, codes[known]] / w[known].sum()
    return labeled + mu * w[~known] @ D[~known].min(axis=1) / w[~known].sum()


@pytest.mark.parametrize("transfer", REAL_TRANSFERS)
@pytest.mark.parametrize("mu", ["balanced", 0.1, 5.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_objective_is_26_and_centers_are_its_weighted_means(transfer, mu, weighted):
    X, _, marked = groups(apart=1.0)
    w = rng(1).gamma(2.0, size=len(X)) if weighted else None
    model = ReverseClassifier(transfer, unlabeled_weight=mu, tol=0.0).fit(X, marked, w)
    w, known = np.ones(len(X)) if w is None else w, marked >= 0
    D = divergences(transfer, X, model.cluster_centers_)
    assert model.objective_ == pytest.approx(
        objective(D, marked, model.unlabeled_weight_, w), rel=1e-9
    )
    if mu == "balanced":
        assert model.unlabeled_weight_ == pytest.approx(w[~known].sum() / w[known].sum())
    v = np.where(known, w / w[known].sum(), model.unlabeled_weight_ * w / w[~known].sum())
    for j in range(3):
        mine = model.transduction_ == j
        assert np.allclose(
            model.cluster_centers_[j], np.average(X[mine], axis=0, weights=v[mine]), atol=1e-10
        )
    np.testing.assert_array_equal(model.transduction_[known], marked[known])
    np.testing.assert_array_equal(model.transduction_[~known], D.argmin(axis=1)[~known])


@few_steps
@every_transfer
@every_assignment
@pytest.mark.parametrize("mu", ["balanced", 0.01, 30.0])
def test_the_objective_never_rises(transfer, assignment, mu):
    for seed in range(3):
        X, _, marked = groups(seed=seed, labels=2, apart=0.6)
        w = rng(seed).gamma(1.0, size=len(X))
        model = ReverseClassifier(transfer, assignment, mu, tol=0.0, max_iter=200).fit(X, marked, w)
        values = np.array([record.objective for record in model.history_])
        assert len(values) > 1
        assert (np.diff(values) <= 1e-10 * np.abs(values).max()).all()


@few_steps
@every_assignment
@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("mu", ["balanced", 0.1])
def test_the_objective_in_feature_space_never_rises(assignment, cut, mu):
    X, _, marked = groups(labels=2, apart=0.6)
    marked[marked == 2] = -1  # a class to be found
    model = ReverseClassifier(
        "identity",
        assignment,
        mu,
        kernel="rbf",
        gamma="median",
        normalized_cut=cut,
        classes=range(3),
        tol=0.0,
        max_iter=100,
    ).fit(X, marked)
    values = np.array([record.objective for record in model.history_])
    assert len(values) > 1
    assert (np.diff(values) <= 1e-10 * np.abs(values).max()).all()
    assert assignment == "soft" or set(model.transduction_) == {0, 1, 2}


def test_in_feature_space_no_class_is_filled_by_emptying_another():
    D = np.array([[9.0, 99.0, 99.0], [99.0, 1.0, 99.0], [99.0, 2.0, 99.0], [99.0, 3.0, 99.0]])
    ones = np.ones(4)
    labels = D.argmin(axis=1)
    for codes, expected in (([-1, -1, -1, -1], [0, 1, 1, 2]), ([-1, -1, -1, 1], [0, 1, 2, 1])):
        problem = KernelClusters(np.eye(4).__getitem__, ones, ones, ones, 3, np.array(codes))
        steps = KernelSteps(problem, ClusterPoint(labels=labels))
        np.testing.assert_array_equal(steps._nearest(D, labels), expected)


def test_a_class_that_runs_empty_is_given_a_free_row():
    X = np.array([[0.0], [0.0], [1.0], [1.0], [9.0], [4.0]])
    for kernel in (None, "linear"):
        model = ReverseClassifier(classes=range(4), kernel=kernel, tol=0.0).fit(
            X, [0, -1, 1, -1, 2, -1]
        )
        assert model.transduction_.tolist() == [0, 0, 1, 1, 2, 3]
    problem = Clusters(X, None, SquaredDistance(), 4, np.array([0, -1, 1, -1, 2, -1]))
    far = ClusterPoint(np.array([[0.0], [1.0], [9.0], [1e3]]))
    iterates = Lloyd(0.0).iterates(problem, far)
    assert next(iterates).point.labels.tolist() == [0, 0, 1, 1, 2, 1]
    assert next(iterates).point.labels.tolist() == [0, 0, 1, 1, 2, 3]


def soft_error(X, M, p, rates):
    """What algorithm 11 prints as its own objective; every row has its rate rho lambda_i."""
    D = np.square(X[:, None] - M).sum(axis=2) / 2
    return -logsumexp(np.log(p) - rates[:, None] * D, axis=1).sum()


def literal_algorithm_11(X, codes, M, rho, mu, steps=30):
    """The thesis' algorithm with its M-step as a mean (erratum 17); returns its objective and its centers."""
    known, k = codes >= 0, len(M)
    rates, p, errors, path = np.where(known, rho, rho * mu), np.full(k, 1 / k), [], []
    for _ in range(steps):
        errors.append(soft_error(X, M, p, rates))
        joint = np.log(p) - rho * mu * np.square(X[:, None] - M).sum(axis=2) / 2
        Y = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        Y[known] = codes[known][:, None] == np.arange(k)
        M, p = Y.T @ X / Y.sum(axis=0)[:, None], Y.mean(axis=0)
        path.append(M)
    return np.array(errors), path


@few_steps
def test_the_printed_algorithm_11_rises_in_its_objective_and_ours_never_does():
    rises, ours = 0, 0
    for seed in range(20):
        X, _, marked = groups(seed=seed, labels=2, apart=0.8)
        M = np.array([X[marked == j].mean(axis=0) for j in range(3)])
        errors, _ = literal_algorithm_11(X, marked, M, rho=10.0, mu=0.1)
        rises += bool((np.diff(errors) > 1e-6).any())
        mu = 0.1 * (marked < 0).sum() / (marked >= 0).sum()
        model = ReverseClassifier("identity", "soft", mu, 10.0, tol=0.0, max_iter=30).fit(X, marked)
        ours += bool((np.diff([r.objective for r in model.history_]) > 1e-10).any())
    assert rises == 20
    assert ours == 0


def test_iterates_of_the_printed_algorithm_11_are_ours_with_equal_weights_and_sharpness_rho_mu():
    X, _, marked = groups(labels=2, apart=0.8)
    M = np.array([X[marked == j].mean(axis=0) for j in range(3)])
    _, path = literal_algorithm_11(X, marked, M, rho=10.0, mu=0.2, steps=6)
    problem = Clusters(X, None, SquaredDistance(), 3, marked, sharpness=2.0)
    iterates = EM().iterates(problem, ClusterPoint(M, shares=np.full(3, 1 / 3)))
    next(iterates)
    for theirs, ours in zip(path, iterates, strict=False):
        np.testing.assert_allclose(ours.point.centers, theirs, atol=1e-10)


def test_unit_weights_are_mu_of_unlabeled_over_labeled_rows():
    X, _, marked = groups(apart=0.8)
    known = marked >= 0
    M = np.array([X[marked == j].mean(axis=0) for j in range(3)])
    labels = marked.copy()
    while True:  # algorithm 10 as printed: the M-step has no mu
        D = np.square(X[:, None] - M).sum(axis=2)
        new = np.where(known, marked, D.argmin(axis=1))
        if np.array_equal(new, labels):
            break
        labels, M = new, np.array([X[new == j].mean(axis=0) for j in range(3)])
    for mu in ("balanced", (~known).sum() / known.sum()):
        model = ReverseClassifier(unlabeled_weight=mu, tol=0.0).fit(X, marked)
        np.testing.assert_array_equal(model.transduction_, labels)
        np.testing.assert_allclose(model.cluster_centers_, M, atol=1e-12)


def test_on_softmax_data_the_softmax_transfer_is_far_better_than_euclid():
    errors = {"identity": [], "softmax": []}
    for seed in range(100):
        X, y = make_reverse_classification(110, "syn-softmax", noise=0.55, random_state=seed)
        split = random_split(y, 10, random_state=seed)
        marked = np.full(len(y), -1)
        marked[split.labeled] = y[split.labeled]
        for transfer, found in errors.items():
            found.append(
                np.mean(
                    (ReverseClassifier(transfer).fit(X, marked).transduction_ != y)[split.unlabeled]
                )
            )
    assert np.mean(errors["softmax"]) < np.mean(errors["identity"]) - 0.15


@pytest.mark.parametrize("transfer", ["identity", "sigmoid", "softmax", "mahalanobis"])
def test_without_a_label_it_is_bregman_k_means(transfer):
    X, *_ = groups(k=4, apart=1.0)
    model = ReverseClassifier(transfer, classes=range(4), random_state=3, tol=0.0).fit(
        X, np.full(len(X), -1)
    )
    name = "squared" if transfer == "identity" else transfer
    if transfer != "mahalanobis":  # of which several starts are tried
        peer = BregmanKMeans(4, name, random_state=3, tol=0.0).fit(X)
        np.testing.assert_array_equal(model.transduction_, peer.labels_)
        assert model.objective_ == pytest.approx(peer.objective_ / len(X))
    if transfer == "identity":
        start = spread_rows(Clusters(X, None, SquaredDistance(), 4), np.random.RandomState(3))
        theirs = KMeans(4, init=start, n_init=1, tol=0.0).fit(X)
        np.testing.assert_array_equal(model.transduction_, theirs.labels_)
        np.testing.assert_allclose(model.cluster_centers_, theirs.cluster_centers_, atol=1e-10)


def test_with_all_labels_it_is_nearest_centroids_or_linear_discriminants():
    X, y, _ = groups(apart=0.7)
    equal = np.concatenate(
        [np.flatnonzero(y == j)[:60] for j in range(3)]
    )  # for the priors of discriminants
    X, y, new = X[equal], y[equal], groups(seed=5, apart=0.7)[0]
    plain = ReverseClassifier().fit(X, y)
    np.testing.assert_array_equal(plain.predict(new), NearestCentroid().fit(X, y).predict(new))
    lda = LinearDiscriminantAnalysis(solver="lsqr", priors=np.full(3, 1 / 3)).fit(X, y)
    model = ReverseClassifier(Mahalanobis(shrinkage=1e-12), sharpness=1.0).fit(X, y)
    np.testing.assert_array_equal(model.predict(new), lda.predict(new))
    np.testing.assert_allclose(model.predict_proba(new), lda.predict_proba(new), atol=1e-6)
    assert np.isclose(
        plain.objective_, ReverseClassifier(unlabeled_weight=0.0).fit(X, y).objective_
    )


@every_assignment
def test_without_weight_unlabeled_rows_change_nothing(assignment):
    X, y, marked = groups(apart=0.7)
    known = marked >= 0
    alone = ReverseClassifier(assignment=assignment, sharpness=2.0).fit(X[known], y[known])
    model = ReverseClassifier(assignment=assignment, sharpness=2.0, unlabeled_weight=0.0).fit(
        X, marked
    )
    np.testing.assert_allclose(model.cluster_centers_, alone.cluster_centers_, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X), atol=1e-10)


def test_a_large_sharpness_makes_the_soft_assignment_hard():
    X, _, marked = groups(apart=4.0)
    hard = ReverseClassifier(tol=0.0).fit(X, marked)
    soft = ReverseClassifier(assignment="soft", sharpness=1e4, tol=1e-12).fit(X, marked)
    np.testing.assert_array_equal(soft.transduction_, hard.transduction_)
    np.testing.assert_allclose(soft.cluster_centers_, hard.cluster_centers_, atol=1e-8)
    assert soft.objective_ == pytest.approx(hard.objective_, rel=1e-3)


@every_assignment
@pytest.mark.parametrize(
    ("transfer", "kernel"),
    [("identity", None), ("mahalanobis", None), ("cube", None), ("identity", "rbf")],
)
def test_the_fit_does_not_depend_on_the_unit_of_the_data(assignment, transfer, kernel):
    X, _, marked = groups(apart=1.0)
    a, b = (
        ReverseClassifier(transfer, assignment, kernel=kernel).fit(s * X, marked)
        for s in (1.0, 8.0)
    )
    np.testing.assert_array_equal(a.transduction_, b.transduction_)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(8 * X), atol=1e-6)


@pytest.mark.parametrize("assignment", ["hard", "soft"])
@pytest.mark.parametrize("spread", [1.0, 0.2])
def test_probabilities_are_near_those_of_the_truth(assignment, spread):
    random = rng(3)
    y = random.integers(2, size=4000)
    X = spread * (random.normal(size=(4000, 10)) + (y[:, None] * 2 - 1) * np.eye(10)[0])
    marked = np.where(np.arange(4000) < 60, y, -1)
    model = ReverseClassifier(assignment=assignment).fit(X, marked)
    best = 1 / (1 + np.exp(-2 * X[:, 0] / spread))
    excess = log_loss(y, model.predict_proba(X)) - log_loss(y, best)
    assert excess < 0.02
    assert model.sharpness_ == pytest.approx(1 / spread**2, rel=0.15)


def test_soft_classes_that_run_into_each_other_are_told():
    """Heavy tails make divergences vary, so that a sharpness by their spread is low."""
    X, y = load_breast_cancer(return_X_y=True)
    X, marked = scale(X), np.where(rng(0).random(len(y)) < 0.1, y, -1)
    with pytest.warns(UserWarning, match="ran into each other.*assignment='hard'"):
        soft = ReverseClassifier(assignment="soft", sharpness="spread").fit(X, marked)
    assert np.mean(soft.transduction_ == y) < 0.7
    for told in ({}, {"assignment": "soft"}, {"assignment": "soft", "sharpness": 1.0}):
        assert np.mean(ReverseClassifier(**told).fit(X, marked).transduction_ == y) > 0.9


def test_a_class_without_a_label_is_found_at_the_farthest_rows():
    farthest, errors = [], []
    for seed in range(30):
        X, y = make_reverse_classification(110, "syn-gauss", noise=1.0, random_state=seed)
        marked = np.full(len(y), -1)
        for j in range(4):
            some = np.flatnonzero(y == j)[:2]
            marked[some] = j
        model = ReverseClassifier(classes=range(5)).fit(X, marked)
        errors.append(np.mean((model.transduction_ != y)[marked < 0]))
        M = np.array([X[marked == j].mean(axis=0) for j in range(4)])
        D = np.square(X[:, None] - M).sum(axis=2).min(axis=1)
        farthest.append(y[np.where(marked < 0, D, -1).argmax()] == 4)
    assert np.mean(errors) < 0.06
    assert np.mean(farthest) > 0.9


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_labels_that_are_missing_for_several_classes_are_found_too(kernel):
    X, y, _ = groups(k=4, apart=6.0, seed=2)
    marked = np.where(np.isin(y, [0, 2]) & (np.arange(len(y)) < 40), y, -1)
    model = ReverseClassifier(classes=[0, 1, 2, 3], kernel=kernel, gamma="median").fit(X, marked)
    assert len(np.unique(model.transduction_)) == 4
    shares = confusion_matrix(y, model.transduction_, normalize="true").max(axis=1)
    assert shares.min() > 0.95
    assert np.mean(model.transduction_[y == 0] == 0) > 0.95


MARKERS = {
    "-1": ([0, 1, -1, -1], {}, [0, 1]),
    "nan": ([0.0, 1.0, np.nan, np.nan], {}, [0, 1]),
    "none": ([0, 1, None, None], {}, [0, 1]),
    "strings and none": (["a", "b", None, None], {}, ["a", "b"]),
    "strings and nan": (["a", "b", np.nan, np.nan], {}, ["a", "b"]),
    "strings and empty": (["a", "b", "", ""], {}, ["a", "b"]),
    "named number": ([0, 1, 99, 99], {"unlabeled": 99}, [0, 1]),
    "named string": (["a", "b", "?", "?"], {"unlabeled": "?"}, ["a", "b"]),
    "-1 as a class": ([-1.0, 1.0, np.nan, np.nan], {"unlabeled": float("nan")}, [-1, 1]),
    "truth values": (np.array([False, True, None, None], object), {}, [False, True]),
    "pandas": (pd.Series(["a", "b", None, None]), {}, ["a", "b"]),
    "polars": (pl.Series(["a", "b", None, None]), {}, ["a", "b"]),
    "order of classes": (["a", "b", "", ""], {"classes": ["b", "a"]}, ["b", "a"]),
}


@pytest.mark.parametrize(("y", "parameters", "classes"), MARKERS.values(), ids=MARKERS)
@every_assignment
def test_every_marker_of_unlabeled_rows_is_understood(y, parameters, classes, assignment):
    X = np.array([[0.0], [9.0], [0.5], [8.0]])
    model = ReverseClassifier(assignment=assignment, **parameters).fit(X, y)
    assert model.classes_.tolist() == classes
    first, second = sorted(classes)
    assert model.transduction_.tolist() == [first, second, first, second]
    assert model.predict([[1.0], [7.0]]).tolist() == [first, second]
    at = classes.index(first)
    assert model.predict_proba([[1.0]])[0, at] > 0.5


@pytest.mark.parametrize(
    ("y", "parameters", "message"),
    [
        ([-1, -1, -1, -1], {}, "No row has a label"),
        ([0, 1, -1, np.nan], {}, "unlabeled=-1"),
        ([0, 1, -1, -1], {"classes": [0, 2]}, r"not among classes=\[0, 2\]: \[1\]"),
        ([0, 1, 1, 0], {"classes": [0, 1, 2]}, r"Classes \[2\] have no labeled row"),
        ([0, 1, 1, -1], {"classes": [0, 1, 2, 3]}, "1 unlabeled rows are too few"),
        ([0, 1, -1, -1], {"transfer": "sigmoyd"}, "Did you mean 'sigmoid'"),
        (
            [0, 1, -1, -1],
            {"assignment": "firm"},
            "'assignment' parameter of ReverseClassifier must be",
        ),
        (
            [0, 1, -1, -1],
            {"unlabeled_weight": -1.0},
            "'unlabeled_weight' parameter .* must be a float",
        ),
        ([0, 1, -1, -1], {"unlabeled_weight": "even"}, "'balanced'"),
        ([0, 1, -1, -1], {"sharpness": 0.0}, "'sharpness' parameter .* must be a float"),
        (
            [0, 1, -1, -1],
            {"normalized_cut": "yes"},
            "'normalized_cut' parameter .* must be True or False",
        ),
        ([0, 1, -1, -1], {"transfer": potentials.Entropy()}, "column 1: 1 of 4 values.*'identity'"),
        (
            [0, 1, -1, -1],
            {"kernel": "linear", "normalized_cut": True},
            "Affinities must not be negative",
        ),
        ([0, 1, -1], {}, "inconsistent numbers of samples: X has 4 rows and y 3. Give y"),
    ],
)
def test_bad_input_is_named_with_its_remedy(y, parameters, message):
    X = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, -4.0], [1.0, 1.0]])
    model = ReverseClassifier(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_") and name != "n_features_in_"]


def test_a_given_covariance_is_kept():
    X, _, marked = groups()
    S = np.cov(X.T) + 0.1
    model = ReverseClassifier(Mahalanobis(covariance=S)).fit(X, marked)
    np.testing.assert_array_equal(model.covariance_, S)
    white = np.linalg.solve(np.linalg.cholesky(S), X.T).T
    plain = ReverseClassifier().fit(white, marked)
    np.testing.assert_array_equal(model.transduction_, plain.transduction_)


@pytest.mark.parametrize("flag", [1, 0, 1.0])
def test_the_flag_of_cuts_is_a_truth_value(flag):
    X, _, marked = groups()
    with pytest.raises(ValueError, match="'normalized_cut' .* must be True or False. Got"):
        ReverseClassifier(normalized_cut=flag).fit(X, marked)


def test_a_column_of_labels_is_a_vector():
    X, _, marked = groups()
    with pytest.warns(DataConversionWarning):
        column = ReverseClassifier().fit(X, marked[:, None])
    np.testing.assert_array_equal(
        column.transduction_, ReverseClassifier().fit(X, marked).transduction_
    )


@every_assignment
def test_an_implicit_kernel_is_euclid_on_its_features(assignment):
    X, _, marked = groups(apart=0.8)
    w, new = rng(2).gamma(2.0, size=len(X)), groups(seed=9, apart=0.8)[0]
    same = {"assignment": assignment, "unlabeled_weight": 3.0, "sharpness": 1.5, "tol": 1e-13}
    linear = ReverseClassifier(kernel="linear", **same).fit(X, marked, w)
    plain = ReverseClassifier(**same).fit(X, marked, w)
    np.testing.assert_array_equal(linear.transduction_, plain.transduction_)
    assert linear.objective_ == pytest.approx(plain.objective_, rel=1e-9)
    np.testing.assert_allclose(linear.predict_proba(new), plain.predict_proba(new), atol=1e-5)
    kernel = Gaussian("median").resolved(X)
    R = kernel.features(X)
    implicit = ReverseClassifier(kernel=kernel, **same).fit(X, marked, w)
    features = ReverseClassifier(**same).fit(R, marked, w)
    np.testing.assert_array_equal(implicit.transduction_, features.transduction_)
    assert implicit.objective_ == pytest.approx(features.objective_, rel=1e-8)
    precomputed = ReverseClassifier(kernel="precomputed", **same).fit(kernel.gram(X), marked, w)
    np.testing.assert_allclose(
        precomputed.predict_proba(kernel.gram(new, X)), implicit.predict_proba(new), atol=1e-10
    )
    assert not hasattr(implicit, "cluster_centers_")


@every_assignment
@pytest.mark.parametrize("transfer", ["sigmoid", "softmax", "cube"])
def test_other_transfers_take_rows_of_the_kernel_as_features(assignment, transfer):
    X, _, marked = groups(n=90, apart=1.0)
    new = groups(seed=9)[0]
    kernel = as_kernel("rbf", "median").resolved(X)
    model = ReverseClassifier(transfer, assignment, kernel="rbf", gamma="median").fit(X, marked)
    rows = ReverseClassifier(transfer, assignment).fit(kernel.gram(X), marked)
    np.testing.assert_array_equal(model.transduction_, rows.transduction_)
    np.testing.assert_allclose(
        model.predict_proba(new), rows.predict_proba(kernel.gram(new, X)), atol=1e-9
    )
    assert model.cluster_centers_.shape == (3, 90)


def normalized_cut(K, labels):
    d = K.sum(axis=1)
    return sum(
        1 - K[np.ix_(labels == j, labels == j)].sum() / d[labels == j].sum()
        for j in np.unique(labels)
    )


def test_the_balanced_cut_objective_is_the_normalized_cut():
    X, _, marked = groups(n=90, apart=1.0)
    K = Gaussian("median").resolved(X).gram(X)
    d, known = K.sum(axis=1), marked >= 0
    model = ReverseClassifier(normalized_cut=True, gamma="median").fit(X, marked)
    expected = (normalized_cut(K, model.transduction_) + (np.diag(K) / d).sum() - 3) / (
        2 * d[known].sum()
    )
    assert model.objective_ == pytest.approx(expected, rel=1e-10)
    for i in np.flatnonzero(
        ~known
    ):  # no move of a single row to the class of its nearest center is left
        assert model.predict(X[i : i + 1])[0] == model.transduction_[i]
    moved = model.transduction_.copy()
    moved[~known] = rng(0).permutation(moved[~known])
    assert normalized_cut(K, moved) > normalized_cut(K, model.transduction_)


def test_cuts_under_other_transfers_weigh_rows_by_their_degrees():
    X, _, marked = groups(n=90, apart=1.0)
    d = Gaussian("median").resolved(X).gram(X).sum(axis=1)
    cut = ReverseClassifier("sigmoid", normalized_cut=True, gamma="median").fit(X, marked)
    weighted = ReverseClassifier("sigmoid").fit(X, marked, sample_weight=d)
    np.testing.assert_allclose(cut.cluster_centers_, weighted.cluster_centers_, atol=1e-12)
    assert cut.objective_ == pytest.approx(weighted.objective_)


@every_transfer
@every_assignment
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_refits_are_equal_and_predictions_agree_with_the_transduction(transfer, assignment, kernel):
    X, _, marked = groups(n=120, apart=1.0)
    before = X.copy(), marked.copy()
    model = ReverseClassifier(transfer, assignment, kernel=kernel).fit(X, marked)
    first = {
        name: np.array(vars(model)[name])
        for name in ("transduction_", "objective_", "sharpness_", "n_iter_")
    }
    again = [model.fit(X, marked), clone(model).fit(X, marked)]
    for refit in again:
        for name, value in first.items():
            np.testing.assert_array_equal(getattr(refit, name), value)
    free = marked < 0
    np.testing.assert_array_equal(model.predict(X)[free], model.transduction_[free])
    np.testing.assert_array_equal(
        model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X)
    )
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(marked, before[1])


@pytest.mark.parametrize("transfer", ["identity", "sigmoid", "mahalanobis"])
def test_its_own_transduction_as_labels_changes_nothing(transfer):
    X, _, marked = groups(apart=1.0)
    model = ReverseClassifier(transfer, tol=0.0).fit(X, marked)
    again = ReverseClassifier(transfer, tol=0.0).fit(X, model.transduction_)
    np.testing.assert_allclose(again.cluster_centers_, model.cluster_centers_, atol=1e-10)


def test_a_later_fit_forgets_what_only_the_earlier_one_had():
    X, _, marked = groups()
    model = ReverseClassifier("mahalanobis").fit(X, marked)
    assert model.covariance_.shape == (4, 4)
    model.set_params(transfer="identity", kernel="rbf").fit(X, marked)
    assert not hasattr(model, "covariance_")
    assert not hasattr(model, "cluster_centers_")


@every_transfer
@every_assignment
def test_float32_stays_and_finds_the_same(transfer, assignment):
    X, _, marked = groups()
    double = ReverseClassifier(transfer, assignment).fit(X, marked)
    single = ReverseClassifier(transfer, assignment).fit(X.astype(np.float32), marked)
    assert (
        single.cluster_centers_.dtype
        == single.predict_proba(X.astype(np.float32)).dtype
        == np.float32
    )
    assert np.mean(single.transduction_ == double.transduction_) > 0.98
    np.testing.assert_allclose(single.objective_, double.objective_, rtol=1e-3)


@every_assignment
def test_sparse_and_frames_are_taken(assignment):
    X, _, marked = groups()
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = ReverseClassifier(assignment=assignment).fit(X, marked)
    for table in (
        scipy.sparse.csr_array(X),
        scipy.sparse.csc_matrix(X),
        pd.DataFrame(X),
        pl.DataFrame(X),
    ):
        model = ReverseClassifier(assignment=assignment).fit(table, marked)
        np.testing.assert_array_equal(model.transduction_, dense.transduction_)
        np.testing.assert_allclose(model.predict_proba(table), dense.predict_proba(X), atol=1e-10)


@every_transfer
@every_assignment
def test_a_row_of_weight_two_is_two_rows(transfer, assignment):
    X, _, marked = groups(n=90)
    w = rng(0).integers(0, 3, size=90)
    w[marked >= 0] = 1
    weighted = ReverseClassifier(transfer, assignment, tol=1e-10).fit(X, marked, w)
    twice = ReverseClassifier(transfer, assignment, tol=1e-10).fit(
        np.repeat(X, w, axis=0), np.repeat(marked, w)
    )
    np.testing.assert_allclose(weighted.cluster_centers_, twice.cluster_centers_, atol=1e-8)
    assert weighted.objective_ == pytest.approx(twice.objective_)
    assert weighted.sharpness_ == pytest.approx(twice.sharpness_)


def test_the_covariance_helps_where_columns_are_correlated():
    random = rng(4)
    y = random.integers(2, size=600)
    X = random.normal(size=(600, 2)) * [5.0, 0.5] + y[:, None] * [0.0, 4.0]
    X = X @ np.linalg.qr(random.normal(size=(2, 2)))[0]
    marked = np.where(np.arange(600) < 12, y, -1)
    accuracy = {
        t: np.mean(ReverseClassifier(t).fit(X, marked).transduction_ == y)
        for t in ("identity", "mahalanobis")
    }
    assert accuracy["mahalanobis"] > 0.98
    assert accuracy["mahalanobis"] > accuracy["identity"] + 0.1


def test_limits_of_a_run_are_kept_and_told():
    X, _, marked = groups(apart=0.5)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = ReverseClassifier(max_iter=1, tol=0.0).fit(X, marked)
    assert model.n_iter_ == 1
    assert model.status_.name == "MAX_ITER"
    seen = []
    with pytest.warns(ConvergenceWarning, match="callback"):
        ReverseClassifier(
            tol=0.0, callback=lambda it: seen.append(it.objective) or len(seen) == 2
        ).fit(X, marked)
    assert len(seen) == 2


def test_solvers_refuse_other_problems():
    X, *_ = groups()
    hard = Clusters(X, None, as_divergence("squared"), 3)
    with pytest.raises(ValueError, match="with a sharpness; use Lloyd"):
        EM().check(hard)
    for problem in (hard.softened(1.0), X):
        with pytest.raises(ValueError, match="without a sharpness; use EM"):
            Lloyd().check(problem)


def test_it_works_in_searches_and_comparisons():
    X, y, marked = groups(n=200, labels=15)
    known = marked >= 0
    search = GridSearchCV(ReverseClassifier(), {"transfer": ["identity", "softmax"]}, cv=2).fit(
        X[known], y[known]
    )
    assert search.best_score_ > 0.5
    result = compare_with_supervised(ReverseClassifier(), X, marked, cv=3)
    assert result.n_unlabeled == (~known).sum()
    assert len(result.difference) == 3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kernel", [None, "linear"])
def test_a_row_of_weight_zero_starts_no_class(kernel, seed):
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 8, [[100.0, 100.0]]])
    y, w = np.r_[0, np.full(40, -1)], np.r_[np.ones(40), 0.0]
    model = ReverseClassifier(classes=[0, 1, 2], kernel=kernel, random_state=0)
    whole = clone(model).fit(X, y, sample_weight=w).objective_
    assert whole == pytest.approx(clone(model).fit(X[:-1], y[:-1]).objective_, rel=1e-9)


# --- probabilities ----------------------------------------------------------------------------------------------------


@every_assignment
def test_probabilities_are_as_sure_as_they_are_right(assignment):
    """Columns that depend on each other make densities too sure; held-out labels tell."""
    claimed, right, raw = [], [], []
    for seed in range(6):
        random = rng(seed)
        y = np.arange(300) % 2
        shared = random.normal(size=(300, 1))
        X = shared + 0.3 * random.normal(size=(300, 20)) + 1.5 * y[:, None]
        marked = np.where(np.arange(300) < 30, y, -1)
        model = ReverseClassifier(assignment=assignment).fit(X, marked)
        P = model.predict_proba(X[30:])
        claimed.append(P.max(axis=1).mean())
        right.append(np.mean(model.predict(X[30:]) == y[30:]))
        given = ReverseClassifier(assignment=assignment, sharpness=model.sharpness_)
        raw.append(given.fit(X, marked).predict_proba(X[30:]).max(axis=1).mean())
        assert model.inverse_temperature_ < 1
    assert abs(np.mean(claimed) - np.mean(right)) < 0.1
    assert np.mean(raw) - np.mean(right) > np.mean(claimed) - np.mean(right) + 0.05


@every_assignment
def test_calibration_waits_for_the_first_probabilities(assignment, monkeypatch):
    X, _, marked = groups()
    found = []
    calibrate = ReverseClassifier._calibration

    def counted(*args):
        found.append(calibrate(*args))
        return found[-1]

    monkeypatch.setattr(ReverseClassifier, "_calibration", counted)
    model = ReverseClassifier(assignment=assignment).fit(X, marked)
    reference = ReverseClassifier(assignment=assignment).fit(X.copy(), marked)
    P = reference.predict_proba(X)
    assert len(found) == 1
    rows = X.copy()
    X += 5.0  # neither the table nor parameters changed after the fit move the probabilities
    model.set_params(assignment="hard", sharpness=3.0, tol=0.5)
    copied = pickle.loads(pickle.dumps(model))
    assert len(found) == 2
    np.testing.assert_array_equal(model.predict_proba(rows), P)
    np.testing.assert_array_equal(copied.predict_proba(rows), P)
    assert len(found) == 2
    assert found[0] == found[1] == copied.inverse_temperature_
    assert len(pickle.dumps(model)) < 3000 + rows.nbytes


def test_a_given_sharpness_is_not_calibrated():
    X, _, marked = groups()
    model = ReverseClassifier(sharpness=0.7).fit(X, marked)
    D = np.square(X[:, None] - model.cluster_centers_).sum(axis=2) / 2
    weights = np.exp(-0.7 * D)
    expected = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-9)
    assert model.inverse_temperature_ == 1


def test_soft_classes_of_many_columns_do_not_run_into_each_other():
    """Spread of the divergences is larger than under independent columns, as in pictures of digits."""
    errors = {"auto": [], "spread": [], "hard": []}
    for seed in range(4):
        random = rng(seed)
        y = np.arange(400) % 8
        mixed = random.normal(size=(400, 12)) * np.geomspace(6, 1, 12)
        X = mixed @ random.normal(size=(12, 40)) / 4 + 3 * random.normal(size=(8, 40))[y]
        marked = np.where(np.arange(400) < 40, y, -1)
        for sharpness in ("auto", "spread"):
            soft = ReverseClassifier(assignment="soft", sharpness=sharpness).fit(X, marked)
            errors[sharpness].append(np.mean(soft.transduction_ != y))
        errors["hard"].append(np.mean(ReverseClassifier().fit(X, marked).transduction_ != y))
    assert np.mean(errors["auto"]) < np.mean(errors["hard"]) + 0.05


def test_counts_are_classified_by_their_divergence():
    random = rng(5)
    y = np.arange(200) % 2
    rates = np.array([[1.0, 5.0, 2.0], [4.0, 1.0, 2.0]])
    X = random.poisson(rates[y]).astype(float)
    model = ReverseClassifier("kl").fit(X, np.where(np.arange(200) < 10, y, -1))
    assert np.mean(model.transduction_ == y) > 0.9
    np.testing.assert_allclose(model.cluster_centers_, rates, atol=0.6)
    with pytest.raises(ValueError, match="real numbers"):
        model.fit(X - 1, y)


def test_probabilities_have_no_unit():
    X = rng(0).normal(size=(40, 3))
    y = np.where(np.arange(40) < 12, np.arange(40) % 2, -1)
    unit = 2.0**400  # whose fourth power is infinite
    plain = ReverseClassifier().fit(X, y).predict_proba(X)
    np.testing.assert_allclose(ReverseClassifier().fit(X * unit, y).predict_proba(X * unit), plain)


def across_clusters(seed, n=400, n_labels=60):
    """Two classes that differ in a narrow column, and two wide clusters nearly across them."""
    random = rng(seed)
    y = np.arange(n) % 2
    wide = np.where(np.arange(n) // 2 % 2, -3.0, 3.0) + 0.5 * random.normal(size=n)
    X = np.column_stack([2 * y + 0.8 * random.normal(size=n), wide + 0.3 * y])
    return X, y, np.where(np.arange(n) < n_labels, y, -1)


@every_assignment
def test_held_out_labels_choose_the_weight_of_unlabeled_rows(assignment):
    for seed in range(2):
        X, y, marked = across_clusters(seed)
        model = ReverseClassifier(assignment=assignment, unlabeled_weight="auto").fit(X, marked)
        balanced = ReverseClassifier(assignment=assignment).fit(X, marked)
        assert model.unlabeled_weight_ < 0.2 * balanced.unlabeled_weight_
        assert np.mean(model.transduction_ == y) > np.mean(balanced.transduction_ == y) + 0.1
        numeric = ReverseClassifier(
            assignment=assignment, unlabeled_weight=model.unlabeled_weight_
        ).fit(X, marked)
        np.testing.assert_array_equal(numeric.cluster_centers_, model.cluster_centers_)
        np.testing.assert_array_equal(numeric.predict_proba(X), model.predict_proba(X))


def test_the_weight_that_is_chosen_has_the_most_likely_held_out_labels():
    X, _, marked = groups()
    model = ReverseClassifier(unlabeled_weight="auto").fit(X, marked)
    inputs = model._read(X, marked, None)
    found = {}
    for share in (0.0, 0.01, 0.03, 0.1, 0.3, 1.0):
        mu = share * inputs.balance.mu
        held = ReverseClassifier()._held_out(inputs, mu, Limits())
        energies = held.temperature(0.3) * held.energies
        logs = energies - logsumexp(energies, axis=1, keepdims=True)
        found[mu] = logs[held.shares == 1].sum()
    assert found[model.unlabeled_weight_] == max(found.values())


@pytest.mark.parametrize("n_labels", [0, 1])
def test_without_labels_to_hold_out_the_weight_is_balanced(n_labels):
    X, y, _ = across_clusters(0)
    marked = np.full(len(y), -1)
    marked[: 2 * n_labels] = y[: 2 * n_labels]
    options = {"classes": [0, 1], "random_state": 0}
    model = ReverseClassifier(unlabeled_weight="auto", **options).fit(X, marked)
    balanced = ReverseClassifier(**options).fit(X, marked)
    np.testing.assert_array_equal(model.transduction_, balanced.transduction_)
    assert model.unlabeled_weight_ == balanced.unlabeled_weight_


def test_the_weight_of_unlabeled_rows_is_chosen_in_the_space_of_a_kernel_too():
    X, y, marked = across_clusters(1)
    model = ReverseClassifier(kernel="rbf", unlabeled_weight="auto").fit(X, marked)
    balanced = ReverseClassifier(kernel="rbf").fit(X, marked)
    assert np.mean(model.transduction_ == y) >= np.mean(balanced.transduction_ == y)
    assert model.unlabeled_weight_ <= balanced.unlabeled_weight_
