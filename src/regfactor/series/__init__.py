"""Forecasts of time series, and tables of series as people have them."""

from regfactor.series.backtest import naive_forecast
from regfactor.series.regular_rows import regular_rows

__all__ = ["naive_forecast", "regular_rows"]
