"""The forecast of a series: means, limits of intervals, and the labels of its times."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from regfactor.core.params import Array, frozen
from regfactor.series.times import Times


@frozen
class Forecast:
    """Means of the next times, with limits of intervals that contain a share `level` of them.

    Array-like, as its mean.

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
        """Return a frame of the kind the model was fitted to, indexed by the times that follow.

        Limits of intervals are columns NAME_lower and NAME_upper, of several levels NAME_lower_80.
        A model that was fitted to a long table gives a long one, with a row for each series and
        time.
        """
        parts = {"": self.mean}
        if self.lower is not None and self.upper is not None:
            if self.lower.ndim == self.mean.ndim:
                parts |= {"_lower": self.lower, "_upper": self.upper}
            else:
                levels: Any = self.level
                for level, lower, upper in zip(levels, self.lower, self.upper, strict=True):
                    percent = f"{100 * level:g}"
                    parts |= {f"_lower_{percent}": lower, f"_upper_{percent}": upper}
        index = None
        if self.times.kind != "polars" or self.times.index is not None:
            index = self.times.future(len(self.mean))
        return self.times.frame(parts, index)
