"""The parts of a forecast: its level, its season, and the effect of inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.core.params import Array, frozen, optional
from regfactor.series.times import Times


@frozen
class ForecastComponents:
    """Parts of shape (horizon, n_series) whose sum is the mean of a forecast.

    Attributes
    ----------
    level : ndarray
        The forecast at inputs of their usual size, averaged over a season around each time.
    season : ndarray
        What the season adds; zero without one.
    inputs : ndarray
        What inputs add that differ from their means in the fitted rows; zero without any.
    times : Times
    """

    level: Array
    season: Array
    inputs: Array
    times: Times

    def to_frame(self) -> Any:
        """Return a pandas frame indexed by the times that follow, with columns NAME_level, ..."""
        pandas = optional("pandas", "ForecastComponents.to_frame", "pip install pandas")
        columns = {}
        for j, name in enumerate(self.times.names):
            columns[f"{name}_level"] = self.level[:, j]
            columns[f"{name}_season"] = self.season[:, j]
            columns[f"{name}_inputs"] = self.inputs[:, j]
        return pandas.DataFrame(columns, index=self.times.future(len(self.level)))


def level_of(path: Array, season: int) -> Array:
    """Return the level of a path with an additive season of period m, without its last rows.

    l_h is the average over a season around h. In the first half season, where that reaches before
    the path, l_h = l_{h+m} - (x_{h+m} - x_h), since x - l repeats after m rows.

    Parameters
    ----------
    path : array of shape (n_rows, n_series)
    season : int

    Returns
    -------
    array of shape (n_rows - 2 * season, n_series)
    """
    n_rows = len(path) - 2 * season
    if season == 1:
        return path[:n_rows]
    weights = np.full(season, 1 / season)
    if season % 2 == 0:  # two half rows at the ends, so that the window has a middle
        weights = np.full(season + 1, 1 / season)
        weights[[0, -1]] /= 2
    half = len(weights) // 2
    smooth = np.stack([np.convolve(column, weights, mode="valid") for column in path.T], axis=1)
    level = np.full((len(path) - half, path.shape[1]), np.nan)
    level[half:] = smooth
    level[:half] = level[season : season + half] - path[season : season + half] + path[:half]
    return level[:n_rows]
