"""AutoForecaster and RegularizedARMA behind sktime's interface: the same numbers, sktime's tables, and sktime's own checks."""

import doctest
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import regfactor
from regfactor.datasets import make_varma
from regfactor.series.arma.estimator import RegularizedARMA

WITHOUT = "import sys; sys.modules['sktime'] = None; import regfactor.sktime"


def test_without_sktime_one_sentence_says_what_to_do():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1] == (
        "ImportError: regfactor.sktime needs sktime: pip install -e '.[sktime]' in the checkout of regfactor."
    )


@pytest.fixture
def forecaster():
    reason = "sktime is not installed: pip install -e '.[sktime]'"
    pytest.importorskip("sktime", reason=reason)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what sktime says of its own future when it is imported
        from regfactor.sktime import RegularizedARMAForecaster
    return RegularizedARMAForecaster


def frame(T=80, n=2, start="2001-01", inputs=False):
    index = pd.period_range(start, periods=T, freq="M")
    y = pd.DataFrame(make_varma(T, n, random_state=0), columns=list("abc")[:n], index=index)
    X = pd.DataFrame(np.random.default_rng(1).normal(size=(T, 1)), columns=["u"], index=index)
    return (y + 2 * X.to_numpy(), X) if inputs else y


def test_forecasts_are_those_of_the_library(forecaster):
    y = frame()
    ours = RegularizedARMA(1, 1).fit(y)
    theirs = forecaster(p=1, q=1).fit(y[:70]).fit(y)
    pd.testing.assert_frame_equal(
        theirs.predict(fh=[1, 2, 5]), ours.forecast(5).to_frame().iloc[[0, 1, 4]]
    )
    inside = theirs.predict(fh=[-3, 0, 1])
    np.testing.assert_allclose(inside[:2], ours.predict().iloc[[-4, -1]])
    assert list(inside.index) == [y.index[-4], y.index[-1], y.index[-1] + 1]
    np.testing.assert_allclose(theirs.predict(fh=[-79]), y.mean().to_frame().T)  # no history yet
    with pytest.raises(ValueError, match="80 rows"):
        theirs.predict(fh=[-80])
    fitted = theirs.get_fitted_params()
    np.testing.assert_array_equal(fitted["ar"], ours.ar_)
    assert fitted["relative_gap"] <= 1e-4


def test_intervals_are_those_of_the_library(forecaster):
    y = frame()
    fitted = forecaster(p=1, q=1).fit(y)
    limits = fitted.predict_interval(fh=[1, 4], coverage=[0.9, 0.5])
    made = RegularizedARMA(1, 1).fit(y).forecast(4, level=0.9)
    np.testing.assert_allclose(limits["b", 0.9, "lower"], made.lower[[0, 3], 1])
    np.testing.assert_allclose(limits["a", 0.9, "upper"], made.upper[[0, 3], 0])
    assert (limits["a", 0.5, "upper"] < limits["a", 0.9, "upper"]).all()
    quantiles = fitted.predict_quantiles(fh=[4], alpha=[0.05, 0.5, 0.95])
    np.testing.assert_allclose(
        quantiles["b"], [[made.lower[3, 1], made.mean[3, 1], made.upper[3, 1]]]
    )
    variances = fitted.predict_var(fh=[1, 4])
    np.testing.assert_array_equal(variances["a"] < variances["a"].iloc[-1], [True, False])


def test_new_rows_are_filtered_or_fitted(forecaster):
    y, X = frame(inputs=True)
    ahead = X[-1:].set_axis(y.index[-1:] + 1)
    filtered = (
        forecaster(p=1, q=1).fit(y[:70], X=X[:70]).update(y[68:], X=X[68:], update_params=False)
    )
    ours = RegularizedARMA(1, 1).fit(y[:70], exog=X[:70])
    one_step = [
        ours.forecast(1, exog=X[70:71]).mean[0],
        ours.update(y[70:], exog=X[70:]).forecast(1, exog=ahead).mean[0],
    ]
    np.testing.assert_allclose(filtered.predict(fh=[1], X=ahead), one_step[1:])
    np.testing.assert_allclose(filtered.predict(fh=[-9], X=X[70:71]), one_step[:1])
    refitted = forecaster(p=1, q=1).fit(y[:70], X=X[:70]).update(y[70:], X=X[70:])
    whole = RegularizedARMA(1, 1).fit(y, exog=X)
    np.testing.assert_allclose(
        refitted.predict(fh=[1], X=ahead), whole.forecast(1, exog=ahead).mean
    )
    np.testing.assert_allclose(refitted.model_.ar_, whole.ar_, rtol=1e-9)


def test_inputs_of_every_time_until_the_last_are_asked_for(forecaster):
    y, X = frame(inputs=True)
    later = X[-3:].set_axis(y.index[-3:] + 3)
    fitted = forecaster(p=1, q=1).fit(y, X=X)
    assert fitted.predict(fh=[3], X=later).shape == (1, 2)
    with pytest.raises(ValueError, match="2007-10"):
        fitted.predict(fh=[3], X=later.drop(later.index[1]))


def test_missing_and_single_series_are_taken(forecaster):
    y = frame(n=1)["a"]
    y.iloc[[10, 11, 40]] = np.nan
    predicted = forecaster(p=1, q=1).fit(y).predict(fh=[1, 2])
    assert (
        isinstance(predicted, pd.Series) and predicted.name == "a" and np.isfinite(predicted).all()
    )


def test_the_example_gives_what_it_says(forecaster):
    import regfactor.sktime

    found = doctest.testmod(regfactor.sktime)
    assert found.attempted > 0 and found.failed == 0


@pytest.fixture
def automatic(forecaster):
    from regfactor.sktime import AutoForecaster

    return AutoForecaster


def test_automatic_forecasts_are_those_of_the_library(automatic):
    y, X = frame(inputs=True)
    ours = regfactor.AutoForecaster(season=1).fit(y[:70].to_numpy(), exog=X[:70].to_numpy())
    theirs = automatic(season=1).fit(y[:70], X=X[:70])
    ahead = X[70:75]
    expected = ours.forecast(5, exog=ahead.to_numpy(), level=0.9)
    np.testing.assert_allclose(theirs.predict(fh=[2, 5], X=ahead), expected.mean[[1, 4]])
    limits = theirs.predict_interval(fh=[1, 5], X=ahead, coverage=[0.9])
    np.testing.assert_allclose(limits["b", 0.9, "upper"], expected.upper[[0, 4], 1])
    theirs.update(y[70:74], X=X[70:74], update_params=False)
    ours.update(y[70:74].to_numpy(), exog=X[70:74].to_numpy())
    np.testing.assert_allclose(
        theirs.predict(fh=[1], X=X[74:75]), ours.forecast(1, exog=X[74:75].to_numpy()).mean
    )
    dated = automatic(season=1, calendar="month").fit(y)
    assert dated.predict(fh=[1, 2]).shape == (2, 2)
    assert dated.model_.input_names_[0] == "month_2"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["AutoForecaster", "RegularizedARMAForecaster"])
def test_the_checks_of_sktime_pass(forecaster, name):
    from sktime.utils.estimator_checks import check_estimator

    import regfactor.sktime

    forecaster = getattr(regfactor.sktime, name)

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # of sktime on its own future, and on radii of its toy series
        results = check_estimator(forecaster, verbose=False)
    failed = {name: outcome for name, outcome in results.items() if outcome != "PASSED"}
    assert len(results) > 500 and not failed
