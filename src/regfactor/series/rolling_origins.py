"""Past times from which the models of a pool are judged by the rows that follow."""

from __future__ import annotations

import numpy as np

from regfactor.core.params import Array, frozen

N_ORIGINS = 16
N_ORIGINS_OF_MANY_SERIES = 8
MANY_SERIES = 20
MIN_ROWS = 24  # of a series that is judged on its past
MAX_HORIZON = 24


@frozen
class RollingOrigins:
    """Numbers of rows that are known at each origin, all rows last, and the steps judged there."""

    rows: Array
    horizon: int

    @staticmethod
    def of(n_rows: int, n_series: int, season: int, horizon: int | None) -> RollingOrigins:
        """Return origins over the second half of a series; all rows alone where it is short."""
        if horizon is None:
            horizon = default_horizon(season)
        horizon = max(1, min(horizon, n_rows // 5))
        first = max(n_rows // 2, 2 * season + 2 if season > 1 else 12)
        if n_rows < MIN_ROWS or first >= n_rows - 2:
            return RollingOrigins(np.array([n_rows]), horizon)
        many = n_series > MANY_SERIES
        n_origins = N_ORIGINS_OF_MANY_SERIES if many else N_ORIGINS
        past = np.unique(np.linspace(first, n_rows - 2, n_origins).astype(int))
        return RollingOrigins(np.append(past, n_rows), horizon)

    @property
    def first(self) -> int:
        """The number of rows known at the first origin."""
        return int(self.rows[0])

    @property
    def n_rows(self) -> int:
        """The number of all rows."""
        return int(self.rows[-1])

    def following(self, table: Array) -> Array:
        """Return the rows that follow each origin, NaN after the last one.

        Parameters
        ----------
        table : array of shape (n_rows, n_series)

        Returns
        -------
        array of shape (n_origins, horizon, n_series)
        """
        beyond = np.full((self.horizon, table.shape[1]), np.nan)
        extended = np.concatenate([table, beyond])
        steps = self.rows[:, None] + np.arange(self.horizon)
        return np.asarray(extended[steps])


def default_horizon(season: int) -> int:
    """Return the steps over which models are compared: about a season."""
    if season == 7:
        return 14
    if season > 1:
        return min(max(season, 8), MAX_HORIZON)
    return 10
