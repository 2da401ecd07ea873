"""What a forecast hands back: means, limits, and the times they stand for."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.stats

from regfactor.core.params import Array, optional

BURN_IN = 10  # first one-step errors, which have next to no past


def error_covariance(residuals: Array, freedom: float, q: int) -> Array:
    """Return the covariance of one-step errors, per degree of freedom that the coefficients leave."""
    N = len(residuals)
    kept = residuals[min(BURN_IN, N // 4) :] if q else residuals
    return np.asarray(kept.T @ kept / (len(kept) * max(1 - freedom / N, 1 / N)))


def half_widths(psi: Array, sigma: Array, level: float, freedom: float, N: int) -> Array:
    """Return half of the interval of each time and series, from responses to innovations of covariance sigma.

    Student's quantile stands for sigma's own error, and 1 + freedom / N for that of the
    coefficients one step ahead.
    """
    variances = np.cumsum(np.einsum("hij,jk,hik->hi", psi, sigma, psi), axis=0)
    quantile = scipy.stats.t.ppf((1 + level) / 2, max(N - freedom, 1.0))
    return np.asarray(quantile * np.sqrt(variances * (1 + freedom / N)))


@dataclass(frozen=True)
class Times:
    """How rows of the user's table are labeled: the kind of table, its columns, and its index where it has one."""

    kind: str = "numpy"
    names: list[Any] = field(default_factory=list)
    index: Any = None
    length: int = 0

    @staticmethod
    def of(X: Any) -> Times:
        """Read the labels of a pandas or polars table, or of an array."""
        length = len(X)
        if hasattr(X, "iloc"):
            if hasattr(X, "columns"):
                names = list(X.columns)
            else:
                names = [X.name if X.name is not None else "x0"]
            return Times("pandas", names, X.index, length)
        if hasattr(X, "columns"):
            return Times("polars", list(X.columns), None, length)
        n = np.shape(X)[1] if np.ndim(X) > 1 else 1
        return Times("numpy", [f"x{i}" for i in range(n)], None, length)

    def followed(self, X: Any) -> Times:
        """Return the labels after more rows."""
        other = Times.of(X)
        if self.index is None:
            return Times(self.kind, self.names, None, self.length + other.length)
        if other.index is not None:
            index = other.index
        else:
            index = self.future(other.length)
        return Times(self.kind, self.names, self.index.append(index), self.length + other.length)

    def last(self, rows: int) -> Any:
        """Return the index of the last rows."""
        if self.index is None:
            return None
        return self.index[self.length - rows :]

    def future(self, horizon: int) -> Any:
        """Return the index of the next rows."""
        if self.index is None or len(self.index) == 0:
            return range(self.length, self.length + horizon)
        pandas = importlib.import_module("pandas")
        index = self.index
        if isinstance(index, pandas.PeriodIndex):
            return pandas.period_range(
                index[-1] + 1,
                periods=horizon,
                freq=index.freq,
                name=index.name,
            )
        if isinstance(index, pandas.DatetimeIndex):
            freq = index.freq or (_inferred(index) if len(index) > 2 else None)
            if freq is None:
                raise ValueError(
                    "The times of the series have no regular frequency, so the future has no index. Give "
                    "the table a DatetimeIndex with a frequency (asfreq), or a PeriodIndex.",
                )
            return pandas.date_range(index[-1], periods=horizon + 1, freq=freq, name=index.name)[1:]
        if index.dtype.kind in "iu":
            step = index[-1] - index[-2] if len(index) > 1 else 1
            return pandas.RangeIndex(
                index[-1] + step,
                index[-1] + step * (horizon + 1),
                step,
                name=index.name,
            )
        return pandas.RangeIndex(self.length, self.length + horizon)

    def labeled(self, values: Array, index: Any) -> Any:
        """Return rows in the kind of table that the user gave."""
        if self.kind == "numpy":
            return values
        return self.frame(dict(zip(self.names, values.T, strict=True)), index)

    def frame(self, columns: dict[Any, Array], index: Any) -> Any:
        """Return a frame of the user's kind; of pandas for arrays."""
        if self.kind == "polars":
            return importlib.import_module("polars").DataFrame(
                {str(k): np.asarray(v) for k, v in columns.items()},
            )
        return optional("pandas", "Forecast.to_frame", "pip install pandas").DataFrame(
            columns,
            index=index,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "index": None if self.index is None else _plain(self.index)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        index = state["index"]
        self.__dict__.update({**state, "index": None if index is None else _index(**index)})


def _plain(index: Any) -> dict[str, Any]:
    """Return a pandas index as numbers and strings, which can be saved without its classes."""
    kind = type(index).__name__
    if kind not in ("DatetimeIndex", "PeriodIndex"):
        return {"kind": "Index", "values": np.asarray(index), "name": index.name}
    if kind == "DatetimeIndex":
        of_times = {"unit": index.unit, "tz": str(index.tz) if index.tz else None}
    else:
        of_times = {}
    return {
        "kind": kind,
        "values": index.asi8,
        "name": index.name,
        "freq": index.freqstr,
        **of_times,
    }


def _index(
    kind: str,
    values: Array,
    name: Any,
    freq: Any = None,
    unit: str = "ns",
    tz: Any = None,
) -> Any:
    """Return the pandas index of what `_plain` kept."""
    pandas = importlib.import_module("pandas")
    if kind == "Index":
        return pandas.Index(values, name=name)
    if kind == "PeriodIndex":
        return pandas.PeriodIndex.from_ordinals(values, freq=freq, name=name)
    times = pandas.DatetimeIndex(values.view(f"M8[{unit}]"), name=name)
    times = times if tz is None else times.tz_localize("UTC").tz_convert(tz)
    return pandas.DatetimeIndex(times, freq=freq)


def _inferred(index: Any) -> Any:
    """Return the frequency of a DatetimeIndex that does not state it; None for an uneven one."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore",
        )  # a notice that the type of the answer will change; either type will do
        return importlib.import_module("pandas").infer_freq(index)


@dataclass(frozen=True, eq=False)
class Forecast:
    """Means of the next times, with limits that hold a share `level` of what comes; array-like, as its mean.

    Attributes
    ----------
    mean : ndarray of shape (horizon, n_series)
    lower, upper : ndarray of the same shape, or None
    level : float or None
    """

    mean: Array
    lower: Array | None = None
    upper: Array | None = None
    level: float | None = None
    times: Times = field(default_factory=Times, repr=False)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy:
            return np.array(self.mean, dtype=dtype)
        return np.asarray(self.mean, dtype=dtype)

    def __len__(self) -> int:
        return len(self.mean)

    def __getitem__(self, item: Any) -> Any:
        return self.mean[item]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the means."""
        return self.mean.shape

    def to_frame(self) -> Any:
        """Return a frame of the kind the model was fitted to, with the times that follow as its index.

        Limits stand beside the means in columns NAME_lower and NAME_upper.
        """
        columns: dict[Any, Array] = dict(zip(self.times.names, self.mean.T, strict=True))
        if self.lower is not None and self.upper is not None:
            for end, values in (("lower", self.lower), ("upper", self.upper)):
                columns |= {
                    f"{name}_{end}": v for name, v in zip(self.times.names, values.T, strict=True)
                }
        if self.times.kind == "polars":
            index = None
        else:
            index = self.times.future(len(self.mean))
        return self.times.frame(columns, index)
