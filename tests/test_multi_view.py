"""Two or more views: the certificate against cvxpy, shared and private parts, forms of input."""

import types

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy.linalg import subspace_angles
from sklearn.metrics import adjusted_rand_score

from regfactor import MultiViewSubspace, datasets
from regfactor.core.factors import Factors
from regfactor.losses import Huber
from regfactor.views.explained import ExplainedVariance
from regfactor.views.shared_private import SharedPrivate

WIDTHS = (20, 15, 12)


def rng(seed):
    return np.random.default_rng(seed)


def parts(seed=0, n=200, widths=WIDTHS, noise=0.3):
    """Return the views, shared codes and private codes of generated data."""
    random = rng(seed)
    shared = random.normal(size=(n, 2))
    views = []
    private = []
    for d in widths:
        own = random.normal(size=(n, 2))
        view = shared @ random.normal(size=(2, d)) + own @ random.normal(size=(2, d))
        views.append(view + noise * random.normal(size=(n, d)))
        private.append(own)
    return views, shared, private


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("missing", [False, True])
def test_the_optimum_is_that_of_cvxpy(loss, missing):
    random = rng(1)
    widths = (3, 2, 3)
    X = random.normal(size=(9, 1)) @ random.normal(size=(1, 8)) + random.normal(size=(9, 8))
    seen = np.ones(X.shape)
    if missing:
        seen = (random.random(X.shape) > 0.2).astype(float)
        seen[2, :3] = 0
    views = np.split(np.where(seen > 0, X, np.nan), np.cumsum(widths)[:-1], axis=1)
    part = Huber(0.7) if loss == "huber" else loss
    model = MultiViewSubspace(1.1, part, scale=False, tol=1e-7, max_iter=20_000).fit(views)
    weights = model._private_weights
    Z = cp.Variable(X.shape)
    P = cp.Variable(X.shape)
    b = cp.Variable((1, X.shape[1]))
    residual = cp.multiply(seen, Z + P + np.ones((9, 1)) @ b - X)
    fit = cp.sum_squares(residual) / 2 if loss == "squared" else cp.sum(cp.huber(residual, 0.7)) / 2
    norm = cp.normNuc(Z)
    start = 0
    for width, weight in zip(widths, weights, strict=True):
        norm += weight * cp.normNuc(P[:, start : start + width])
        start += width
    best = cp.Problem(cp.Minimize(fit + 1.1 * norm)).solve(solver="CLARABEL")
    assert model.objective_ == pytest.approx(best, rel=1e-5)
    assert model.objective_ - model.gap_ <= best * (1 + 1e-6)
    assert model.relative_gap_ <= 1e-7 and model.certificate_.rigorous


def test_the_gauge_pairs_with_its_dual_and_atoms_attain_it():
    random = rng(2)
    gauge = SharedPrivate((3, 4), (0.8, 0.9))
    for _ in range(20):
        G = random.normal(size=(6, 7))
        F = Factors(random.normal(size=(6, 3)), random.normal(size=(3, 7)))
        polar = gauge.polar(G, 2)
        assert np.vdot(G, F.dense()) <= polar.value * gauge.cost(F) * (1 + 1e-12)
        atom = Factors(polar.atoms.codes[:, :1], polar.atoms.C[:1])
        assert np.vdot(G, atom.dense()) == pytest.approx(polar.value * gauge.cost(atom))
        assert gauge.cost(atom) == pytest.approx(1)
    private = np.zeros((1, 7))
    private[0, 3:] = 1.0
    assert gauge.view_of(np.vstack([private, np.ones((1, 7))])).tolist() == [1, -1]
    assert gauge.component_costs(private)[0] == pytest.approx(0.9 * 2)
    for call in (gauge.value, gauge.recover):
        with pytest.raises(ValueError, match="SharedPrivate"):
            call(np.ones((6, 7)))


def test_shared_and_private_parts_are_recovered():
    views, shared, private = parts()
    model = MultiViewSubspace().fit(views)
    assert np.degrees(subspace_angles(model.codes_[:, :2], shared)).max() < 15
    assert np.square(model.codes_[:, 2:]).sum() < 0.01 * np.square(model.codes_).sum()
    for found, own in zip(model.private_codes_, private, strict=True):
        assert np.degrees(subspace_angles(found[:, :2], own)).max() < 25
    for v, view in enumerate(views):
        total = model.shared_[v] + model.private_[v] + view.mean(axis=0)
        assert np.linalg.norm(total - view) < 0.5 * np.linalg.norm(view - view.mean(axis=0))
    assert model.explained_.shape == (3, model.codes_.shape[1] + 1)
    assert (model.explained_[:, :2] > 0.1).all() and (model.explained_[:, -1] > 0.2).all()
    assert model.view_weight_.sum() == pytest.approx(1)
    table = model.explain()
    assert "private" in str(table) and table.to_frame().shape == model.explained_.shape


def test_views_that_share_nothing_have_no_shared_code():
    random = rng(3)
    views = [random.normal(size=(150, 1)) @ random.normal(size=(1, d)) for d in (8, 9)]
    views = [view + 0.3 * random.normal(size=view.shape) for view in views]
    model = MultiViewSubspace().fit(views)
    assert model.explained_[:, :-1].sum() < 0.1
    assert [codes.shape[1] > 0 for codes in model.private_codes_] == [True, True]


def test_training_rows_are_scored_as_they_were_fitted():
    views, *_ = parts(4)
    model = MultiViewSubspace(tol=1e-6).fit(views)
    np.testing.assert_allclose(model.transform(views), model.codes_, atol=1e-6)
    first, second, third = model.inverse_transform(model.codes_)
    assert np.ptp(second - model.shared_[1], axis=0).max() < 1e-9
    apart = model.transform([views[0], None, views[2]])
    assert np.corrcoef(apart[:, 0], model.codes_[:, 0])[0, 1] > 0.95
    assert first.shape[1] + third.shape[1] == 32


def test_forms_of_input_agree():
    views, *_ = parts(5, n=80, widths=(5, 4, 3))
    names = ["a", "b", "c"]
    by_list = MultiViewSubspace().fit(views)
    frames = {
        name: pd.DataFrame(view, columns=[f"{name}{j}" for j in range(view.shape[1])])
        for name, view in zip(names, views, strict=True)
    }
    by_dict = MultiViewSubspace().fit(frames)
    table = np.hstack(views)
    order = rng(6).permutation(12)
    labels = np.repeat(names, (5, 4, 3))[order]
    by_label = MultiViewSubspace().fit(table[:, order], views=labels)
    columns = [np.flatnonzero(labels == name).tolist() for name in names]
    by_columns = MultiViewSubspace().fit(
        table[:, order], views=dict(zip(names, columns, strict=True))
    )
    modalities = {}
    for name, frame in frames.items():
        modalities[name] = types.SimpleNamespace(
            X=scipy.sparse.csr_array(frame.to_numpy()),
            obs_names=frame.index,
            var_names=frame.columns,
        )
    mudata = types.SimpleNamespace(mod=modalities, obs_names=frames["a"].index)
    by_mudata = MultiViewSubspace().fit(mudata)
    for other in (by_dict, by_label, by_columns, by_mudata):
        assert other.objective_ == pytest.approx(by_list.objective_, rel=1e-3)
        assert np.abs(np.corrcoef(other.codes_[:, 0], by_list.codes_[:, 0])[0, 1]) > 0.999
    assert by_dict.views_ == by_mudata.views_ == names and set(by_dict.shared_) == set(names)
    predicted = by_dict.predict_view({"a": frames["a"], "c": frames["c"]}, "b")
    np.testing.assert_allclose(by_list.predict_view([views[0], None, views[2]], 1), predicted)
    shuffled = table[:, order]
    assert by_label.denoise(shuffled).shape == table.shape
    given = {"a": shuffled[:, columns[0]], "c": shuffled[:, columns[2]]}
    again = by_label.predict_view(given, "b")
    np.testing.assert_allclose(again, predicted[:, order[columns[1]] - 5], rtol=1e-6)
    two = MultiViewSubspace().fit(views[0], views[1])
    np.testing.assert_allclose(two.codes_, MultiViewSubspace().fit(views[:2]).codes_)


def test_rows_of_frames_are_matched_by_their_index():
    views, *_ = parts(7, n=100, widths=(6, 5))
    first = pd.DataFrame(views[0]).add_prefix("a")
    second = pd.DataFrame(views[1]).add_prefix("b")
    model = MultiViewSubspace().fit({"a": first.iloc[:90], "b": second.iloc[10:][::-1]})
    assert len(model.codes_) == 100
    holed = [views[0].copy(), views[1].copy()]
    holed[0][90:] = np.nan
    holed[1][:10] = np.nan
    order = [*range(90), *range(99, 89, -1)]
    same = MultiViewSubspace().fit([view[order] for view in holed])
    assert model.objective_ == pytest.approx(same.objective_, rel=1e-6)
    with pytest.raises(ValueError, match="unique"):
        MultiViewSubspace().fit({"a": first, "b": pd.concat([second, second])})


def test_missing_entries_views_and_gross_errors():
    views, *_ = parts(8)
    random = rng(9)
    spoiled = [np.where(random.random(v.shape) < 0.1, np.nan, v) for v in views]
    spoiled[1][:30] = np.nan
    spoiled[0][3, 4] = 1e6
    model = MultiViewSubspace().fit(spoiled)
    assert model.relative_gap_ <= 1e-4
    clean = model.denoise(spoiled)
    whole = model.denoise(spoiled, keep=False)
    filled = model.complete(spoiled)
    assert abs(clean[0][3, 4] - views[0][3, 4]) < 3 and filled[0][3, 4] == 1e6
    for v, view in enumerate(views):
        for found in (clean[v], whole[v]):
            assert np.isfinite(found).all()
            assert np.linalg.norm(found - view) < 0.5 * np.linalg.norm(view)
    observed = ~np.isnan(spoiled[2])
    assert np.mean((clean[2] == spoiled[2])[observed]) > 0.95
    predicted = model.predict_view([views[0], None, views[2]], 1)
    assert np.mean((predicted - views[1])[:30] ** 2) < 0.7 * views[1].var()
    lower, upper = model.predict_view([views[0], None, None], target=1, level=0.9)
    with pytest.warns(UserWarning, match="1 entries in 1 columns"):
        again = model.predict_view([spoiled[0], None, views[2]], 1)
    assert np.abs(again).max() < 100
    assert 0.8 < np.mean((lower <= views[1]) & (views[1] <= upper)) < 0.97


def test_a_loss_for_each_view_and_a_given_strength():
    views, *_ = parts(10, n=120, widths=(6, 5, 4))
    binary = [views[0], (views[1] > 0).astype(float), views[2]]
    model = MultiViewSubspace(loss=["auto", "logistic", "squared"]).fit(binary)
    assert model.relative_gap_ <= 1e-4 and model.codes_.shape[1] >= 1
    probabilities = model.denoise(binary, keep=False)[1]
    assert 0 <= probabilities.min() and probabilities.max() <= 1
    assert np.mean((probabilities > 0.5) == binary[1]) > 0.75
    named = dict(zip("abc", binary, strict=True))
    same = MultiViewSubspace(loss={"b": "logistic", "c": "squared"}).fit(named)
    assert same.objective_ == pytest.approx(model.objective_, rel=1e-6)
    chosen = MultiViewSubspace("auto", "squared", tol=1e-3, random_state=0).fit(views)
    assert chosen.alpha_ in chosen.alphas_ and not hasattr(chosen, "noise_")


def test_without_private_parts_it_is_the_trace_norm_of_all_views():
    from regfactor import ConvexSubspace

    views, *_ = parts(11, n=60, widths=(4, 5))
    model = MultiViewSubspace(2.0, "squared", scale=False, private=False, tol=1e-8).fit(views)
    one = ConvexSubspace(alpha=2.0, scale=False, tol=1e-8).fit(np.hstack(views))
    assert model.objective_ == pytest.approx(one.objective_, rel=1e-6)
    both = MultiViewSubspace(2.0, "squared", scale=False, tol=1e-8, max_iter=5000).fit(views)
    assert both.objective_ <= model.objective_


def test_weights_act_as_repetition_counts():
    views, *_ = parts(12, n=60, widths=(5, 4))
    counts = rng(13).integers(0, 3, 60)
    options = {"tol": 1e-8, "max_iter": 5000}
    weighted = MultiViewSubspace(2.0, "squared", **options).fit(views, sample_weight=counts)
    repeated = MultiViewSubspace(2.0, "squared", **options).fit(
        [np.repeat(view, counts, axis=0) for view in views]
    )
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)
    np.testing.assert_allclose(weighted.explained_.shape, repeated.explained_.shape)
    noisy = [
        MultiViewSubspace().fit(views, sample_weight=counts.astype(float)),
        MultiViewSubspace().fit([np.repeat(view, counts, axis=0) for view in views]),
    ]
    assert noisy[0].noise_ == pytest.approx(noisy[1].noise_, rel=1e-6)


def test_views_of_one_column_constant_columns_and_few_rows():
    random = rng(14)
    x = random.normal(size=(14, 1))
    views = [
        np.hstack([x + 0.1 * random.normal(size=(14, 4)), np.full((14, 1), 2.0)]),
        2 * x,
        np.full((14, 1), 5.0),
    ]
    model = MultiViewSubspace().fit(views)
    np.testing.assert_allclose(model.denoise(views)[2], 5.0)
    np.testing.assert_allclose(model.predict_view([views[0], views[1], None], 2), 5.0)
    found = model.predict_view([views[0], None, None], 1)
    assert np.mean((found - views[1]) ** 2) < 0.2 * views[1].var()


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((np.ones((5, 3)),), {}, "views"),
        (([np.ones((5, 3))],), {}, "two or more views"),
        (([np.ones((5, 3)), np.ones((4, 2))],), {}, "inconsistent numbers of rows"),
        (([np.ones((5, 3)), None],), {}, "is None"),
        ((np.ones((5, 3)),), {"views": [0, 0]}, "2 labels for 3 columns"),
        ((np.ones((5, 3)),), {"views": [[0], [1]]}, "each of the 3 columns once"),
        (([np.eye(3), np.eye(3)], np.eye(3)), {}, "leave y"),
        (([np.eye(3), np.eye(3)],), {"views": [0, 1]}, "a list of views already"),
    ],
)
def test_input_that_is_no_list_of_views_is_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        MultiViewSubspace().fit(*arguments, **options)


def test_views_that_the_model_has_not_are_refused():
    views, *_ = parts(15, n=50, widths=(4, 3))
    model = MultiViewSubspace().fit(dict(zip("ab", views, strict=True)))
    with pytest.raises(ValueError, match="no view 'c'"):
        model.transform({"c": views[0]})
    with pytest.raises(ValueError, match="a view other than the target 'a'"):
        model.predict_view({"a": views[0]}, "a")
    with pytest.raises(ValueError, match="no view 'x'"):
        model.predict_view({"a": views[0]}, "x")
    with pytest.raises(ValueError, match="All views are missing"):
        model.transform({"a": None})
    with pytest.raises(ValueError, match="has 3 losses|3 losses for 2 views"):
        MultiViewSubspace(loss=["auto"] * 3).fit(views)
    with pytest.raises(ValueError, match="kinks"):
        MultiViewSubspace(1.0, "absolute").fit(views)
    apart = [views[0].copy(), views[1].copy()]
    apart[0][:25] = np.nan
    apart[1][25:] = np.nan
    with pytest.raises(ValueError, match="No row has entries of both views"):
        MultiViewSubspace().fit(apart).predict_view([views[0], None], 1)


@pytest.mark.slow
def test_six_views_of_digits():
    """Each view from the other five against ridge on all of them; classes in the shared codes."""
    from sklearn.cluster import KMeans
    from sklearn.linear_model import RidgeCV
    from sklearn.preprocessing import StandardScaler

    try:
        table = datasets.load("mfeat")
    except datasets.DatasetNotFound as error:
        pytest.skip(str(error))
    rows = rng(0).permutation(len(table.views[0]))[:700]
    train, new = rows[:500], rows[500:]
    views = [np.asarray(view, float) for view in table.views]
    model = MultiViewSubspace(tol=1e-3).fit([view[train] for view in views])
    wins = 0
    for target, view in enumerate(views):
        others = [None if v == target else one[new] for v, one in enumerate(views)]
        found = model.predict_view(others, target)
        X = np.hstack([one for v, one in enumerate(views) if v != target])
        scaler = StandardScaler().fit(X[train])
        ridge = RidgeCV(np.logspace(-2, 4, 13)).fit(scaler.transform(X[train]), view[train])
        theirs = ridge.predict(scaler.transform(X[new]))
        scale = np.where(view[train].std(axis=0) > 0, view[train].std(axis=0), 1.0)
        errors = [np.mean(((one - view[new]) / scale) ** 2) for one in (found, theirs)]
        wins += errors[0] < errors[1]
    assert wins >= 5
    labels = KMeans(10, n_init=10, random_state=0).fit_predict(model.codes_)
    assert adjusted_rand_score(np.asarray(table.target)[train], labels) > 0.6


def test_a_column_in_other_units_changes_that_column_alone():
    views = parts(n=60, widths=(4, 5))[0]
    factors = np.array([1.0, 1000.0, 1e-3, 1.0])
    one = MultiViewSubspace().fit(views)
    other = MultiViewSubspace().fit([views[0] * factors, views[1]])
    np.testing.assert_allclose(other.codes_, one.codes_, rtol=1e-6, atol=1e-8)
    for parts_of in ("shared_", "private_"):
        first, second = getattr(one, parts_of)
        first_scaled, second_again = getattr(other, parts_of)
        np.testing.assert_allclose(first_scaled, first * factors, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(second_again, second, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.objective_, one.objective_, rtol=1e-8)


def test_gross_errors_do_not_count_as_variance_to_be_explained():
    views, _, _ = parts()
    clean = MultiViewSubspace().fit(views)
    wrong = rng(1).random(views[0].shape) < 0.02
    spoiled = [views[0] + 1e3 * wrong, *views[1:]]
    robust = MultiViewSubspace().fit(spoiled)
    np.testing.assert_allclose(robust.explained_[:, :2], clean.explained_[:, :2], atol=0.05)
    # the squared loss has no gross errors: they are part of the view
    squared = MultiViewSubspace(loss="squared").fit(spoiled)
    assert squared.explained_[0, :2].sum() < 0.5 * clean.explained_[0, :2].sum()


def test_the_text_of_many_components_names_the_first_ten_and_sums_the_others():
    shares = rng(30).dirichlet(np.ones(25), 3)
    few = ExplainedVariance(["a", "b", "c"], shares[:, -4:])
    assert str(few).splitlines()[0].split() == ["view", "0", "1", "2", "private"]
    header, first, *_ = str(ExplainedVariance(["a", "b", "c"], shares)).splitlines()
    assert header.split() == ["view", *map(str, range(10)), "14", "more", "private"]
    found = [float(cell.rstrip("%")) / 100 for cell in first.split()[1:]]
    expected = [*shares[0, :10], shares[0, 10:24].sum(), shares[0, 24]]
    np.testing.assert_allclose(found, expected, atol=6e-4)
    assert max(map(len, str(ExplainedVariance(["a", "b", "c"], shares)).splitlines())) < 120
