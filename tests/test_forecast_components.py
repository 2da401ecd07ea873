"""Parts of a forecast: they add up, and equal those of which a series was made."""

import numpy as np
import pandas as pd
import pytest

from regfactor import AutoForecaster
from regfactor.series.forecast_components import level_of


@pytest.mark.parametrize("season", [1, 2, 4, 5, 7, 12])
def test_the_level_of_a_line_with_a_season_is_the_line(season):
    t = np.arange(40.0)
    pattern = np.random.default_rng(0).normal(size=season)
    pattern -= pattern.mean()
    line = np.column_stack([3 + 0.5 * t, 9 - 0.1 * t])
    path = line + np.resize(pattern, 40)[:, None]
    level = level_of(path, season)
    assert level.shape == (40 - 2 * season, 2)
    if season > 1:
        np.testing.assert_allclose(level, line[: len(level)], atol=1e-12)


def test_parts_add_up_and_are_those_of_the_series():
    rng = np.random.default_rng(0)
    months = pd.date_range("2012-01-01", periods=132, freq="MS")
    t = np.arange(132)
    price = pd.DataFrame({"price": rng.normal(size=132)}, index=months)
    y = 100 + 0.5 * t + 10 * np.sin(2 * np.pi * t / 12) + 4 * price["price"]
    y = y + 0.5 * rng.normal(size=132)
    model = AutoForecaster(12, log=False).fit(y[:120].rename("sold"), exog=price)
    parts = model.components(12, exog=price)
    total = parts.level + parts.season + parts.inputs
    np.testing.assert_allclose(total, model.forecast(12, exog=price).mean, rtol=1e-12)
    usual = price["price"][:120].mean()
    np.testing.assert_allclose(parts.inputs[:, 0], 4 * (price["price"][120:] - usual), atol=0.8)
    np.testing.assert_allclose(parts.season[:, 0], 10 * np.sin(2 * np.pi * t[120:] / 12), atol=1.5)
    frame = parts.to_frame()
    assert list(frame.columns) == ["sold_level", "sold_season", "sold_inputs"]
    assert list(frame.index) == list(months[120:])


def test_logged_series_without_season_and_inputs_are_all_level():
    y = np.exp(0.05 * np.arange(60) + 0.05 * np.random.default_rng(0).normal(size=60))
    model = AutoForecaster(1, log=True).fit(y)
    parts = model.components(6)
    np.testing.assert_allclose(parts.level, model.forecast(6).mean)
    assert not parts.season.any() and np.abs(parts.inputs).max() < 1e-12
    with pytest.raises(ValueError, match="horizon"):
        model.components(0)
