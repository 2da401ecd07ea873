"""Forecasters of vector time series that the thesis compares with."""

from regfactor.comparisons.timeseries import HSEHMM, N4SID, EMKalman, HannanRissanen

__all__ = ["HSEHMM", "N4SID", "EMKalman", "HannanRissanen"]
