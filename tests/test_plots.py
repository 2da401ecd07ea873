"""Displays draw fitted attributes on given or new axes, and raise for what they cannot draw."""

import copy
import doctest
import importlib
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

import regfactor.plots  # noqa: E402
from regfactor import (  # noqa: E402
    AutoForecaster,
    AutoMixture,
    BregmanKMeans,
    BregmanMixture,
    BregmanNormalizedCut,
    CanonicalCorrelation,
    ConvexSubspace,
    ExpectationSVC,  # noqa: E402
    ExponentialFamilyPCA,
    FactorModel,
    KernelSubspace,
    MultiViewSubspace,
    RegularizedARMA,
    ReverseClassifier,
    TwoViewSubspace,
)
from regfactor.constraints import class_balance, expectation, region  # noqa: E402
from regfactor.core.params import install_hint  # noqa: E402
from regfactor.model_selection import backtest, compare_with_supervised  # noqa: E402
from regfactor.model_selection.compare import Comparison  # noqa: E402
from regfactor.plots import (  # noqa: E402
    BacktestDisplay,
    ClusterDisplay,
    ClusterProfileDisplay,
    CodesDisplay,
    ComponentsDisplay,
    ConstraintDisplay,
    ConvergenceDisplay,
    Display,
    EvidenceDisplay,
    ExplainedVarianceDisplay,
    ForecastComponentsDisplay,
    ForecastDisplay,
    PathDisplay,
    PredictedViewDisplay,
    SeasonDisplay,
    TwoViewDisplay,
)
from regfactor.plots.cluster_profiles import column_ranks, spread_apart  # noqa: E402


def rng(seed=0):
    return np.random.default_rng(seed)


def table():
    X = rng().normal(size=(40, 2)) @ rng(1).normal(size=(2, 6)) * 3 + rng(2).normal(size=(40, 6))
    X[rng(3).random(X.shape) < 0.1] = np.nan
    return pd.DataFrame(X, columns=list("abcdef"))


def series(n=60):
    t = np.arange(n)
    X = np.column_stack([np.sin(t / 3), np.cos(t / 3)]) + 0.1 * rng().normal(size=(n, 2))
    return pd.DataFrame(
        X, index=pd.date_range("2020-01-01", periods=n, freq="MS"), columns=["sales", "orders"]
    )


def two_tables():
    shared = rng().normal(size=(40, 1))
    return tuple(
        shared @ rng(s).normal(size=(1, 4)) * 2 + rng(s + 5).normal(size=(40, 4)) for s in (1, 2)
    )


def rows_and_labels():
    X, y = make_blobs(60, centers=[[0, 0], [4, 0], [0, 4]], random_state=0)
    return X, y, np.where(np.arange(60) < 24, y, -1)


def expecting():
    X, _, seen = rows_and_labels()
    stated = [
        class_balance({0: 0.3, 1: 0.4, 2: 0.3}),
        region(lambda X: X[:, 0] > 2, {1: 0.3}, name="right"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the second statement is false on purpose
        return ExpectationSVC(stated).fit(X, seen)


@pytest.fixture(scope="module")
def subspace():
    return ConvexSubspace(alpha="auto", rule="1se", random_state=0).fit(table())


@pytest.fixture(scope="module")
def arma():
    return RegularizedARMA(p=2, q=1).fit(series())


@pytest.fixture(scope="module")
def expectations():
    return expecting()


@pytest.fixture(scope="module")
def views():
    return TwoViewSubspace(alpha=4.0).fit(*two_tables())


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def line(ax, label):
    """The one line of a label."""
    (found,) = [artist for artist in ax.lines if artist.get_label() == label]
    return found


def words(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def waves(n_rows=72):
    """A wave of twelve rows, with noise."""
    noise = 0.1 * np.random.default_rng(0).normal(size=n_rows)
    return np.sin(2 * np.pi * np.arange(n_rows) / 12) + noise


def all_displays(subspace, arma, expectations, views):
    X, _, seen = rows_and_labels()
    clusters = BregmanKMeans(3, random_state=0).fit(X)
    evidence = Comparison(np.array([0.5, 0.6, 0.7]), np.array([0.7, 0.6, 0.6]), 20, 40, "accuracy")
    return {
        "convergence": ConvergenceDisplay.from_estimator(subspace),
        "path": PathDisplay.from_estimator(subspace),
        "codes": CodesDisplay.from_estimator(subspace),
        "components": ComponentsDisplay.from_estimator(subspace),
        "views": TwoViewDisplay.from_estimator(views, *two_tables()),
        "clusters": ClusterDisplay.from_estimator(clusters, X),
        "profiles": ClusterProfileDisplay.from_estimator(clusters, X),
        "forecast": ForecastDisplay.from_estimator(arma, horizon=6),
        "backtest": BacktestDisplay(backtest(AutoForecaster(), waves(), 6, 2), waves()).plot(),
        "parts": ForecastComponentsDisplay.from_estimator(AutoForecaster().fit(waves())),
        "season": SeasonDisplay.from_estimator(AutoForecaster().fit(waves())),
        "constraints": ConstraintDisplay.from_estimator(expectations),
        "evidence": EvidenceDisplay(evidence).plot(),
        "explained": ExplainedVarianceDisplay([[0.5, 0.2], [0.1, 0.6]]).plot(),
        "predicted": PredictedViewDisplay(X, X + 0.1).plot(),
    }


def test_every_display_keeps_the_convention(subspace, arma, expectations, views, tmp_path):
    displays = all_displays(subspace, arma, expectations, views)
    exported = {getattr(regfactor.plots, name) for name in regfactor.plots.__all__} - {Display}
    assert {type(d) for d in displays.values()} == exported
    for name, display in displays.items():
        axes = np.ravel(display.ax_)
        assert all(ax.figure is display.figure_ for ax in axes)
        drawn = [ax for ax in axes if ax.has_data()]
        assert drawn and all(ax.get_ylabel() or ax.get_yticklabels() for ax in drawn)
        display.figure_.savefig(tmp_path / f"{name}.png")  # a layout that fails, fails here
        plt.close(display.figure_)
        figure, given = plt.subplots(len(axes), squeeze=False)
        again = display.plot(ax=given.ravel() if len(axes) > 1 else given[0, 0])
        assert again is display and display.figure_ is figure
        assert list(np.ravel(display.ax_)) == list(given.ravel())


def test_several_panels_divide_one_axes_and_refuse_a_wrong_number(arma, subspace):
    figure, ax = plt.subplots()
    display = ForecastDisplay.from_estimator(arma, horizon=6, ax=ax)
    assert (
        len(display.ax_) == 2
        and set(display.ax_) == set(ax.child_axes)
        and display.figure_ is figure
    )
    assert not display.ax_[0].xaxis.get_tick_params()["labelbottom"]
    with pytest.raises(ValueError, match="2 panels here; give as many axes, or one, got 3"):
        ConvergenceDisplay.from_estimator(subspace, ax=plt.subplots(3)[1])


def test_convergence_is_the_history(subspace):
    display = ConvergenceDisplay.from_estimator(subspace)
    history = subspace.history_
    above, below = display.ax_
    for name, label in (("objective", "objective"), ("bound", "bound")):
        assert np.array_equal(line(above, label).get_ydata(), [getattr(r, name) for r in history])
    assert np.array_equal(line(above, "objective").get_xdata(), [r.n_iter for r in history])
    gaps = line(below, "relative gap").get_ydata()
    assert below.get_yscale() == "log" and gaps[-1] <= subspace.tol < gaps[0]
    best = min(r.objective for r in history)
    floor = subspace.certificate_.floor
    assert gaps[-1] == pytest.approx(max(best - history[-1].bound, 0) / max(abs(best), floor))
    display.plot(over="seconds")
    assert np.array_equal(
        line(display.ax_[0], "objective").get_xdata(), [r.seconds for r in history]
    )
    with pytest.raises(ValueError, match="over must be one of iterations, seconds, got 'hours'"):
        display.plot(over="hours")


def test_convergence_of_a_local_search_has_no_gap():
    X = rows_and_labels()[0]
    display = ConvergenceDisplay.from_estimator(BregmanKMeans(3, random_state=0).fit(X))
    assert words(display.ax_) == ["objective"]


def test_path_shows_what_was_tried_the_best_and_the_chosen(subspace):
    display = PathDisplay.from_estimator(subspace)
    loss = line(display.ax_, "held-out loss")
    order = np.argsort(subspace.alphas_)
    assert np.array_equal(loss.get_xdata(), subspace.alphas_[order])
    assert np.array_equal(loss.get_ydata(), subspace.validation_loss_[order])
    assert display.best == subspace.alphas_[subspace.validation_loss_.argmin()]
    assert line(display.ax_, "chosen").get_xdata()[0] == subspace.alpha_ == display.chosen
    assert display.ax_.get_xscale() == "log"


def test_path_draws_the_limit_of_one_standard_error():
    display = PathDisplay(
        [8, 4, 2, 1], [4.0, 2.1, 2.0, 3.0], chosen=4, standard_error=[0.1, 0.2, 0.3, 0.1]
    ).plot()
    level = [
        a.get_ydata()[0] for a in display.ax_.lines if a.get_ydata()[0] == a.get_ydata()[-1] != 0
    ]
    assert 2.3 in level
    assert "chosen: 4 (1se)" in words(display.ax_) and "best: 2" in words(display.ax_)


def test_standard_errors_are_drawn_where_a_model_has_them(subspace):
    model = copy.copy(subspace)
    model.validation_error_ = 0.1 * model.validation_loss_
    display = PathDisplay.from_estimator(model)
    assert np.array_equal(display.standard_error, model.validation_error_)
    assert "best + 1 standard error" in words(display.ax_)


def test_path_of_ranks_and_of_shrinkages():
    X = np.nan_to_num(table().to_numpy())
    ranks = FactorModel(rank="auto", alpha=0.1, random_state=0).fit(X)
    display = PathDisplay.from_estimator(ranks)
    assert (
        display.chosen == len(ranks.components_)
        and display.ax_.get_xlabel() == "number of components"
    )
    arma = RegularizedARMA(p=1, q=1, shrinkage="auto").fit(series())
    display = PathDisplay.from_estimator(arma)
    assert display.chosen == arma.shrinkage_ and len(display.candidates) == len(arma.shrinkages_)


def test_codes_are_points(subspace):
    points = CodesDisplay.from_estimator(subspace).ax_.collections[0]
    assert np.array_equal(points.get_offsets(), subspace.codes_[:, :2])
    some = CodesDisplay.from_estimator(subspace, table()[:7], components=(1, 0)).ax_
    assert np.allclose(some.collections[0].get_offsets(), subspace.codes_[:7, [1, 0]], atol=1e-6)
    assert some.get_xlabel() == "code 1" and some.get_ylabel() == "code 0"


def test_colors_of_codes_are_groups_or_a_scale(subspace):
    groups = np.where(subspace.codes_[:, 0] > 0, "right", "left")
    display = CodesDisplay.from_estimator(subspace, color=groups)
    assert words(display.ax_) == ["left", "right"] and len(display.ax_.collections) == 2
    own = display.ax_.collections[0]
    assert np.array_equal(own.get_offsets(), subspace.codes_[groups == "left", :2])
    values = np.arange(len(groups)) / 2
    display = CodesDisplay.from_estimator(subspace, color=values, color_name="age in years")
    assert np.array_equal(display.ax_.collections[0].get_array(), values)
    assert display.figure_.axes[1].get_ylabel() == "age in years"
    with pytest.raises(ValueError, match="a value for each of 40 rows, got shape"):
        CodesDisplay.from_estimator(subspace, color=values[:3])


@pytest.mark.filterwarnings("ignore:.*has no component")
def test_one_code_is_drawn_over_rows_and_none_not_at_all(subspace):
    one = CodesDisplay(np.array([[3.0], [1.0]])).plot()
    assert (
        np.array_equal(one.ax_.collections[0].get_offsets(), [[0, 3], [1, 1]])
        and one.ax_.get_xlabel() == "row"
    )
    empty = ConvexSubspace(alpha=1e6).fit(table())
    for display in (CodesDisplay, ComponentsDisplay):
        with pytest.raises(ValueError, match="lower it, see alpha_max_"):
            display.from_estimator(empty)
    with pytest.raises(ValueError, match="numbered from 0 to"):
        CodesDisplay.from_estimator(subspace, components=(0, 50))


def test_codes_of_other_families():
    X = rows_and_labels()[0]
    for model in (KernelSubspace(n_components=2), ExponentialFamilyPCA(2)):
        points = CodesDisplay.from_estimator(model.fit(X)).ax_.collections[0].get_offsets()
        assert np.array_equal(points, model.codes_[:, :2])


def test_components_are_a_heat_map(subspace, views):
    display = ComponentsDisplay.from_estimator(subspace)
    assert np.array_equal(display.image_.get_array(), subspace.components_)
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == list("abcdef")
    sizes = np.linalg.norm(subspace.codes_, axis=0)
    assert display.ax_.get_yticklabels()[0].get_text() == f"0  ({sizes[0]:.3g})"
    low, high = display.image_.get_clim()
    assert low == -high  # zero is white
    assert words(ComponentsDisplay.from_estimator(views).ax_) == ["first view", "second view"]
    assert ComponentsDisplay(np.abs(subspace.components_)).plot().image_.get_clim()[0] == 0
    with pytest.raises(ValueError, match="2 feature_names for 6 columns"):
        ComponentsDisplay.from_estimator(subspace, feature_names=["x", "y"])


def test_two_views_are_compared_code_by_code(views):
    X1, X2 = two_tables()
    display = TwoViewDisplay.from_estimator(views, X1, X2)
    points = np.asarray(display.ax_[0].collections[0].get_offsets())
    expected = np.column_stack([views.transform(X1, None)[:, 0], views.transform(None, X2)[:, 0]])
    assert np.allclose(points, expected)
    assert (
        display.correlations[0] == pytest.approx(np.corrcoef(expected.T)[0, 1])
        and display.correlations[0] > 0.8
    )
    widths = [bar.get_width() for bar in display.ax_[1].patches]
    assert np.allclose(widths, display.correlations, equal_nan=True)


def test_two_views_of_one_table_and_rows_without_a_view():
    X1, X2 = two_tables()
    X1[:5] = np.nan
    stacked = TwoViewSubspace(alpha=4.0, n_first=4).fit(np.hstack([X1, X2]))
    apart = TwoViewSubspace(alpha=4.0).fit(X1, X2)
    displays = [TwoViewDisplay.from_estimator(model, X1, X2) for model in (stacked, apart)]
    assert displays[0].first.shape == displays[1].first.shape == (35, len(apart.components_))
    assert np.allclose(displays[0].second, displays[1].second, atol=1e-6)
    sparse = [scipy.sparse.csr_array(np.nan_to_num(X)) for X in (X1, X2)]
    assert TwoViewDisplay.from_estimator(apart, *sparse).first.shape == (35, len(apart.components_))


def test_the_explained_variance_of_views_is_a_heat_map():
    X1, X2 = two_tables()
    model = MultiViewSubspace().fit({"left": X1, "right": X2})
    display = ExplainedVarianceDisplay.from_estimator(model)
    image = display.ax_.images[0]
    np.testing.assert_array_equal(image.get_array(), model.explained_)
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names == ["left", "right"] and display.components[-1] == "private"
    written = [text.get_text() for text in display.ax_.texts]
    assert written[0] == f"{model.explained_[0, 0]:.0%}" and len(written) == image.get_array().size
    many = ExplainedVarianceDisplay(np.linspace(0, 1, 80).reshape(2, 40)).plot()
    assert not many.ax_.texts and len(many.ax_.get_xticks()) < 20
    with pytest.raises(ValueError, match="a row for each view"):
        ExplainedVarianceDisplay(np.zeros(3))
    with pytest.raises(ValueError, match="1 views and 2 components are named, of 2 and 2"):
        ExplainedVarianceDisplay(np.eye(2), ["one"])
    with pytest.raises(ValueError, match="Use MultiViewSubspace"):
        ExplainedVarianceDisplay.from_estimator(TwoViewSubspace().fit(X1, X2))


def test_predicted_entries_of_a_view_against_observed_ones():
    X1, X2 = two_tables()
    X2[3, 1] = np.nan
    predicted = TwoViewSubspace().fit(X1, X2).predict_view(X1=X1)
    display = PredictedViewDisplay(predicted, X2, [f"c{j}" for j in range(X2.shape[1])]).plot()
    points = display.ax_[0].collections[0].get_offsets()
    assert len(points) == X2.size - 1
    j = 2
    residuals = X2[:, j] - predicted[:, j]
    expected = 1 - np.mean(residuals**2) / np.var(X2[:, j])
    assert display.r2[j] == pytest.approx(expected)
    widths = [bar.get_width() for bar in display.ax_[1].patches]
    np.testing.assert_allclose(widths, np.sort(display.r2)[::-1][: len(widths)])
    with pytest.raises(ValueError, match="the same rows and columns"):
        PredictedViewDisplay(predicted, X2[:5])
    with pytest.raises(ValueError, match="1 columns are named"):
        PredictedViewDisplay(predicted, X2, ["a"])


def test_two_views_of_canonical_correlation():
    X1, X2 = two_tables()
    model = CanonicalCorrelation(2).fit(X1, X2)
    display = TwoViewDisplay.from_estimator(model, X1, X2, component=1)
    assert np.allclose(display.correlations, model.correlations_)
    assert display.ax_[0].get_xlabel() == "code 1 by the first view"
    with pytest.raises(ValueError, match="component=2, and the model has 2, from 0 on"):
        TwoViewDisplay.from_estimator(model, X1, X2, component=2)


def test_clusters_of_two_columns_lie_where_the_rows_lie():
    X = pd.DataFrame(rows_and_labels()[0], columns=["height", "weight"])
    model = BregmanKMeans(3, random_state=0).fit(X)
    ax = ClusterDisplay.from_estimator(model, X).ax_
    *clusters, centers = ax.collections
    for k, points in enumerate(clusters):
        assert np.array_equal(points.get_offsets(), X[model.labels_ == k])
    assert np.array_equal(centers.get_offsets(), model.cluster_centers_)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("height", "weight")
    assert words(ax) == [f"{k}  ({n})" for k, n in enumerate(np.bincount(model.labels_))]


def test_profiles_have_the_rows_in_order_their_means_and_certainty():
    frame = pd.DataFrame(rows_and_labels()[0], columns=["height", "weight"])
    frame["kind"] = "same"
    frame.loc[3, "height"] = np.nan
    model = AutoMixture(3, random_state=0).fit(frame[["height", "weight"]])
    display = ClusterProfileDisplay.from_estimator(model, frame[["height", "weight"]])
    table, means, sure = display.ax_
    shown = table.images[0].get_array()
    assert shown.shape == (len(frame), 2)
    assert [text.get_text() for text in table.get_xticklabels()] == ["height", "weight"]
    first = display.values[display.labels == 0]
    middle = (np.nanmean(first[:, 1]) - frame["weight"].mean()) / frame["weight"].std(ddof=0)
    assert means.containers[0].lines[0].get_ydata()[1] == pytest.approx(middle)
    sizes = np.bincount(model.labels_)
    assert [t.get_text() for t in sure.get_yticklabels()] == [
        f"{k}  ({n})" for k, n in enumerate(sizes)
    ]
    assert np.allclose(display.certainty, model.predict_proba(frame[["height", "weight"]]).max(1))
    hard = BregmanKMeans(3, random_state=0).fit(display.values)
    other = ClusterProfileDisplay.from_estimator(hard, display.values)
    assert other.certainty_name == "silhouette"
    assert other.certainty.mean() > 0.3
    with pytest.raises(ValueError, match="a label and a certainty for each row"):
        ClusterProfileDisplay(display.values, display.labels[:5], display.certainty)


def test_ranks_of_columns():
    ranks = column_ranks(np.array([[3.0, 1], [np.nan, 1], [9, 1], [5, 1]]))
    np.testing.assert_allclose(ranks[:, 0], [0, np.nan, 1, 0.5])
    np.testing.assert_allclose(ranks[:, 1], 0)


def test_clusters_of_many_columns_lie_on_a_plane():
    X = np.abs(rng().normal(size=(50, 5))) + np.repeat([[0.0], [4.0]], 25, axis=0)
    mixture = BregmanMixture(2, random_state=0).fit(X)
    display = ClusterDisplay.from_estimator(mixture, X)
    assert display.points.shape == (50, 2) and display.centers.shape == (2, 2)
    assert display.ax_.get_xlabel().startswith("principal component 1 (")
    # a center in the middle of its rows stays there on the plane
    for k in range(2):
        own = display.points[display.labels == k]
        assert np.linalg.norm(own.mean(axis=0) - display.centers[k]) < 0.2
    chosen = ClusterDisplay.from_estimator(mixture, X, columns=(4, 2))
    assert np.array_equal(chosen.points, X[:, [4, 2]]) and chosen.ax_.get_xlabel() == "column 4"
    with pytest.raises(ValueError, match="There is no column 9; columns are column 0, "):
        ClusterDisplay.from_estimator(mixture, X, columns=(0, 9))


def test_clusters_without_centers_sparse_rows_and_classes():
    X, _, seen = rows_and_labels()
    assert (
        ClusterDisplay.from_estimator(BregmanNormalizedCut(3, random_state=0).fit(X), X).centers
        is None
    )
    sparse = scipy.sparse.csr_array(np.maximum(np.hstack([X, X[:, :1] + 1]), 0))
    assert ClusterDisplay.from_estimator(
        BregmanKMeans(3, random_state=0).fit(sparse), sparse
    ).points.shape == (60, 2)
    classes = ReverseClassifier().fit(X, seen)
    assert np.array_equal(ClusterDisplay.from_estimator(classes, X).labels, classes.predict(X))
    with pytest.raises(ValueError, match="X has one column"):
        ClusterDisplay.from_estimator(BregmanKMeans(2, random_state=0).fit(X[:, :1]), X[:, :1])


def test_a_fan_begins_at_the_last_value_and_goes_through_the_forecast(arma):
    X = series()
    display = ForecastDisplay.from_estimator(
        arma, horizon=6, levels=(0.5, 0.9), actual=series(66)[60:]
    )
    assert len(display.ax_) == 2 and [ax.get_ylabel() for ax in display.ax_] == ["sales", "orders"]
    forecast = arma.forecast(6, level=0.9)
    for j, ax in enumerate(display.ax_):
        mean, past = line(ax, "forecast"), line(ax, "past")
        assert np.allclose(mean.get_ydata(), [X.iloc[-1, j], *forecast.mean[:, j]])
        assert np.allclose(past.get_ydata(), X.iloc[-24:, j])
        assert np.array_equal(past.get_xdata(), X.index[-24:].to_numpy())
        assert np.array_equal(mean.get_xdata()[1:], forecast.to_frame().index.to_numpy())
        wide, narrow = ax.collections
        assert [wide.get_label(), narrow.get_label()] == ["90%", "50%"]
        heights = wide.get_paths()[0].vertices[:, 1]
        assert heights.min() == pytest.approx(min(forecast.lower[:, j].min(), X.iloc[-1, j]))
        assert heights.max() == pytest.approx(max(forecast.upper[:, j].max(), X.iloc[-1, j]))
        assert np.allclose(line(ax, "actual").get_ydata(), series(66).iloc[60:, j])
    assert set(words(display.ax_[0])) == {"50%", "90%", "mean", "actual"}


def test_the_past_stands_where_the_forecast_goes_on():
    X = series().to_numpy()
    model = RegularizedARMA(p=2, q=1).fit(X[:50])
    one = ForecastDisplay.from_estimator(model, horizon=3, columns=[1])
    assert one.past_times[-1] == 49 and list(one.times) == [50, 51, 52] and one.names == ["x1"]
    model.update(X[50:55])
    later = ForecastDisplay.from_estimator(model, horizon=3)  # rows that were fitted, then a gap
    assert later.past_times[-1] == 49 and list(later.times) == [55, 56, 57]
    given = ForecastDisplay.from_estimator(model, X[:55], horizon=3, history=5)
    assert list(given.past_times) == [50, 51, 52, 53, 54] and np.array_equal(given.past, X[50:55])
    assert given.ax_[1].get_xlabel() == "time"
    with pytest.raises(ValueError, match="history must be a number of rows >= 1, got 0"):
        ForecastDisplay.from_estimator(model, horizon=3, history=0)


def test_times_may_be_periods_or_words():
    X = series(40)
    periods = RegularizedARMA(p=1, q=0).fit(
        X.set_axis(pd.period_range("2020-01", periods=40, freq="M"))
    )
    display = ForecastDisplay.from_estimator(periods, horizon=2)
    assert display.times[0] == np.datetime64("2023-05-01") and display.past_times.dtype.kind == "M"
    names = RegularizedARMA(p=1, q=0).fit(X.set_axis([f"day {i}" for i in range(40)]))
    assert list(ForecastDisplay.from_estimator(names, horizon=2).times) == [40, 41]


def test_many_series_are_small_multiples_and_counts_have_no_bands():
    counts = rng().poisson(5, size=(40, 5)).astype(float)
    model = RegularizedARMA(p=1, q=0, loss="poisson").fit(counts)
    display = ForecastDisplay.from_estimator(model, horizon=4, levels=())
    assert len(display.ax_) == 6 and sum(ax.has_data() for ax in display.ax_) == 5
    assert not display.limits and not display.ax_[0].collections
    with pytest.raises(ValueError, match="There is no column 'z'; columns are x0, x1"):
        ForecastDisplay.from_estimator(model, horizon=4, levels=(), columns=["z"])
    with pytest.raises(ValueError, match="must be of the same series"):
        ForecastDisplay(np.zeros((4, 2)), np.zeros((2, 3)))


def test_constraints_show_what_was_stated_and_what_holds(expectations):
    report = expectations.constraint_report_
    display = ConstraintDisplay.from_estimator(expectations)
    ax = display.ax_
    dots = next(c for c in ax.collections if c.get_label() == "expected")
    assert np.allclose(dots.get_offsets(), [[r.expected, i] for i, r in enumerate(report)])
    assert np.allclose(line(ax, "predicted").get_xdata(), [r.predicted for r in report])
    assert np.allclose(
        [bar.get_x() for bar in ax.patches], [r.target - r.tolerance for r in report]
    )
    assert np.allclose([bar.get_width() for bar in ax.patches], [2 * r.tolerance for r in report])
    assert [t.get_text() for t in ax.get_yticklabels()][-1] == "1 among right"
    assert words(ax) == [f"{r.n_rows} rows" for r in report]


def test_only_a_statement_that_is_missed_by_far_is_marked(expectations):
    kept = expectations.constraint_report_[0]._replace(violation=0.0)
    slight = kept._replace(
        expected=kept.target + 1.05 * kept.tolerance, violation=0.05 * kept.tolerance
    )
    missed = kept._replace(expected=kept.target + 3 * kept.tolerance, violation=2 * kept.tolerance)
    ax = ConstraintDisplay([kept, slight, missed]).plot().ax_
    dots = next(c for c in ax.collections if c.get_label() == "expected")
    colors = [tuple(color) for color in dots.get_facecolors()]
    assert colors[0] == colors[1] != colors[2]
    (segment,) = next(c for c in ax.collections if c.get_label() != "expected").get_segments()
    assert np.allclose(segment, [[kept.target + kept.tolerance, 2], [missed.expected, 2]])


def test_an_expectation_that_is_no_share_is_named_so():
    X, _, seen = rows_and_labels()
    target = 20.0
    with pytest.warns(UserWarning, match="do not hold"):
        model = ExpectationSVC(expectation(10 + X[:, 0] ** 2, target, 0.5, 1)).fit(X, seen)
    display = ConstraintDisplay.from_estimator(model)
    assert display.ax_.get_xlabel() == "expectation over unlabeled rows"
    with pytest.raises(ValueError, match="no statement to draw"):
        ConstraintDisplay(())


def test_evidence_is_drawn_fold_by_fold():
    X, _, seen = rows_and_labels()
    display = EvidenceDisplay.from_estimator(
        ReverseClassifier(), X + 1.5 * rng(1).normal(size=X.shape), seen, cv=4
    )
    found = display.comparison
    again = compare_with_supervised(
        ReverseClassifier(), X + 1.5 * rng(1).normal(size=X.shape), seen, cv=4
    )
    assert np.array_equal(found.difference, again.difference) and found.difference.any()
    folds = next(c for c in display.ax_.collections if c.get_label() == "folds")
    assert np.allclose(folds.get_offsets(), np.column_stack([found.difference, np.arange(4)]))
    assert line(display.ax_, "mean").get_xdata()[0] == found.mean
    title = display.ax_.get_title(loc="left").replace("\n", " ")
    assert (
        title == found.verdict
        and display.ax_.get_xlabel() == "change of the accuracy by the unlabeled rows"
    )


@pytest.mark.parametrize("mean, told", [(0.1, True), (0.01, False)])
def test_the_interval_of_the_evidence_excludes_zero_where_the_verdict_says_so(mean, told):
    scores = 0.5 + np.array([0.01, -0.01, 0.02, -0.02, 0.0])
    found = Comparison(np.full(5, 0.5), scores + mean, 20, 40, "accuracy")
    low, high = EvidenceDisplay(found).interval
    assert (low > 0) == told == ("helped" in found.verdict) and low < found.mean < high


@pytest.mark.parametrize(
    "display", [ConvergenceDisplay, PathDisplay, CodesDisplay, ComponentsDisplay]
)
def test_a_model_must_be_fitted(display):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        display.from_estimator(ConvexSubspace())
    with pytest.raises(ValueError, match="needs a fitted estimator, got"):
        display.from_estimator(ConvexSubspace)


def test_other_displays_need_a_fitted_model_too():
    X, _, seen = rows_and_labels()
    tables = {
        TwoViewDisplay: (TwoViewSubspace(), X, X),
        ClusterDisplay: (BregmanKMeans(), X),
        ForecastDisplay: (RegularizedARMA(),),
        SeasonDisplay: (AutoForecaster(),),
        ConstraintDisplay: (ExpectationSVC(),),
    }
    for display, arguments in tables.items():
        with pytest.raises(NotFittedError):
            display.from_estimator(*arguments)


def test_a_fan_of_an_automatic_forecast_begins_with_the_observed_rows():
    months = pd.date_range("2018-01-01", periods=72, freq="MS")
    y = pd.Series(waves(), index=months, name="wave")
    y.iloc[5] = np.nan
    display = ForecastDisplay.from_estimator(AutoForecaster().fit(y), horizon=18, history=80)
    np.testing.assert_array_equal(display.past[:, 0], y)
    assert display.past_times[0] == months[0].to_datetime64() and display.names == ["wave"]
    assert display.times[0] == np.datetime64("2024-01-01") and len(display.times) == 18


def test_a_backtest_is_drawn_by_series_and_dates():
    months = pd.date_range("2018-01-01", periods=72, freq="MS")
    y = pd.DataFrame({"wave": waves(), "other": 3 + waves()[::-1]}, index=months)
    found = backtest(AutoForecaster(), y, 6, 2)
    display = BacktestDisplay(found, y, series="other").plot()
    forecasts, errors = display.ax_
    assert forecasts.get_ylabel() == "other"
    drawn = [line.get_ydata() for line in forecasts.lines]
    np.testing.assert_array_equal(drawn[0], y["other"][36:])  # not all of the past
    made = found.forecasts["AutoForecaster"].mean
    assert any(len(values) == 6 and np.array_equal(values, made[1, :, 1]) for values in drawn)
    named = ["AutoForecaster", "the last season repeated", "the last value repeated"]
    assert sorted(words(errors)) == named
    assert BacktestDisplay(found).plot().ax_[0].lines
    with pytest.raises(ValueError, match="times must be of 72 rows"):
        BacktestDisplay(found, times=np.arange(5))
    with pytest.raises(ValueError, match="third"):
        BacktestDisplay(found, series="third")


def test_parts_of_a_forecast_are_drawn_where_there_are_any():
    months = pd.date_range("2018-01-01", periods=72, freq="MS")
    y = pd.DataFrame({"wave": waves(), "other": 3 + waves()}, index=months)
    display = ForecastComponentsDisplay.from_estimator(AutoForecaster().fit(y), series="other")
    assert list(display.parts) == ["level", "season"] and display.name == "other"
    assert display.times[0] == np.datetime64("2024-01-01")
    plain = ForecastComponentsDisplay.from_estimator(AutoForecaster(season=1).fit(waves()))
    assert list(plain.parts) == ["level"] and plain.times[0] == 72
    with pytest.raises(ValueError, match="components, and this RegularizedARMA has none"):
        ForecastComponentsDisplay.from_estimator(RegularizedARMA(1, 0).fit(waves()))


def test_seasons_are_drawn_with_the_one_found():
    display = SeasonDisplay.from_estimator(AutoForecaster().fit(waves()))
    assert display.season == 12 and words(display.ax_) == ["found"]
    none = SeasonDisplay({4: -1.0, 12: -2.0}, 1).plot()
    assert none.ax_.get_title() == "No season was found"
    with pytest.raises(ValueError, match="season='auto'"):
        SeasonDisplay.from_estimator(AutoForecaster(season=4).fit(waves()))


def test_a_wrong_model_is_named_with_the_remedy(subspace):
    line_fit = LinearRegression().fit(rows_and_labels()[0], rows_and_labels()[1])
    cases = [
        (
            ConvergenceDisplay,
            (line_fit,),
            "history_, and this LinearRegression has none. It was solved in closed form",
        ),
        (
            PathDisplay,
            (ConvexSubspace(alpha=1.0).fit(table()),),
            "validation_loss_, and this ConvexSubspace has none. Leave a",
        ),
        (
            CodesDisplay,
            (line_fit,),
            "codes_, and this LinearRegression has none. Use a model with codes",
        ),
        (ComponentsDisplay, (line_fit,), "components_, and this LinearRegression has none"),
        (
            TwoViewDisplay,
            (subspace, table(), table()),
            "Use TwoViewSubspace or CanonicalCorrelation",
        ),
        (
            ClusterDisplay,
            (subspace, table()),
            "labels_, and this ConvexSubspace has none. Use a clustering",
        ),
        (
            ForecastDisplay,
            (subspace,),
            "forecast, and this ConvexSubspace has none. Use AutoForecaster",
        ),
        (
            ConstraintDisplay,
            (subspace,),
            "constraint_report_, and this ConvexSubspace has none. Use ExpectationSVC",
        ),
        (EvidenceDisplay, (subspace, table(), None), "needs a classifier or a regressor"),
    ]
    steps = make_pipeline(ConvexSubspace()).fit(table())
    cases.append(
        (
            ConvergenceDisplay,
            (steps,),
            "this Pipeline has none. Give the step that has: pipeline[-1]",
        )
    )
    assert ConvergenceDisplay.from_estimator(steps[-1])
    for display, arguments, said in cases:
        with pytest.raises(ValueError) as error:
            display.from_estimator(*arguments)
        assert said in str(error.value)


@pytest.mark.parametrize("name", sorted(regfactor.plots.__all__))
def test_examples_of_displays(name):
    module = importlib.import_module(getattr(regfactor.plots, name).__module__)
    found = doctest.testmod(module)
    assert found.failed == 0 and (found.attempted or name == "Display")


def test_without_matplotlib_one_sentence_says_what_to_install():
    script = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.pyplot'] = None\n"
        "from regfactor import plots\n"
        "display = plots.PathDisplay([1, 2], [1, 2], 1)\n"
        "for call in (display.plot, lambda: plots.ClusterDisplay.from_estimator(None, None)):\n"
        "    try:\n        call()\n    except ModuleNotFoundError as error:\n        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        f"{name} needs matplotlib: {install_hint('plot')}."
        for name in ("PathDisplay", "ClusterDisplay")
    ], done.stderr


def test_importing_the_displays_does_not_import_matplotlib():
    script = "import sys, regfactor.plots; print('matplotlib' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True
        ).stdout.strip()
        == "False"
    )


def test_names_on_an_axis_are_spread_apart():
    places = np.array([30.0, 62.0, 63.0, 64.0, 98.0, 99.0])
    moved = spread_apart(places, 100)
    assert np.diff(moved).min() >= 5.5 - 1e-9
    assert moved.min() >= 0 and moved.max() <= 99
    np.testing.assert_array_equal(moved[:2], places[:2])
    apart = np.array([10.0, 50.0, 90.0])
    np.testing.assert_array_equal(spread_apart(apart, 100), apart)
    many = spread_apart(np.arange(40.0), 40)
    assert (np.diff(many) > 0).all()
