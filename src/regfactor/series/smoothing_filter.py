"""The recursion of exponential smoothing for many gains and columns at once."""

from __future__ import annotations

import numpy as np

from regfactor.core.params import Array
from regfactor.series.smoothing_members import Gains

MAX_STATE = 1e15  # in units
SETTLED = 1e-12  # variance of a state, in variances of innovations, that is taken for zero


class SmoothingFilter:
    """Level, slope and season of every member and column, and what gaps leave unknown of them.

    e_t = y_t - l - phi b - S_t; then S_t += gamma e_t, l <- l + phi b + alpha e_t and
    b <- phi b + beta e_t. All columns share the same missing rows. After a gap the gains are those
    of the Kalman filter of level and slope, until nothing is unknown of the state any more.

    Attributes
    ----------
    level, slope : array of shape (n_members, n_columns)
    seasons : array of shape (n_members, season, n_columns)
    covariance : array of shape (3, n_members)
        Of (level, slope): variance of the level, covariance, variance of the slope.
    """

    def __init__(
        self,
        gains: Gains,
        level: Array,
        slope: Array,
        seasons: Array,
    ) -> None:
        self.gains = gains
        self.level = level
        self.slope = slope
        self.seasons = seasons
        self.covariance = np.zeros((3, len(gains)))
        self.uncertain = False
        self._alpha = gains.level[:, None]
        self._beta = gains.slope[:, None]
        self._phi = gains.damping[:, None]
        self._gamma = gains.season[:, None]

    def copy(self) -> SmoothingFilter:
        """Return a filter that can go on without this one."""
        other = SmoothingFilter(
            self.gains, self.level.copy(), self.slope.copy(), self.seasons.copy()
        )
        other.covariance = self.covariance.copy()
        other.uncertain = self.uncertain
        return other

    def advance(self, row: Array, time: int) -> Array:
        """Take a row that is observed, and return its errors, of shape (n_members, n_columns)."""
        slope = self._phi * self.slope
        carried = self.level + slope
        error = row - carried
        seasonal = self.seasons.shape[1] > 1
        phase = time % self.seasons.shape[1]
        if seasonal:
            error -= self.seasons[:, phase]
        level_gain = self._alpha
        slope_gain = self._beta
        season_gain = self._gamma
        if self.uncertain:
            variance, level_gain, slope_gain = self._kalman_gains()
            season_gain = self._gamma / variance[:, None]
        if seasonal:
            self.seasons[:, phase] += season_gain * error
        self.level = carried + level_gain * error
        self.slope = slope + slope_gain * error
        return np.asarray(error)

    def skip(self) -> None:
        """Carry the state over a missing row."""
        slope = self._phi * self.slope
        self.level = self.level + slope
        self.slope = slope
        self.covariance = self._carried_covariance()
        self.uncertain = True

    def keep_finite(self) -> None:
        """Bound the states of members whose errors grow without bound; they get no weight."""
        np.clip(self.level, -MAX_STATE, MAX_STATE, out=self.level)
        np.clip(self.slope, -MAX_STATE, MAX_STATE, out=self.slope)
        np.clip(self.seasons, -MAX_STATE, MAX_STATE, out=self.seasons)

    def error_variance(self) -> Array:
        """Return the variance of the next error, in variances of innovations; (n_members,)."""
        level, cross, slope = self.covariance
        phi = self.gains.damping
        return np.asarray(1 + level + 2 * phi * cross + np.square(phi) * slope)

    def forecast(self, time: int, horizon: int) -> Array:
        """Return the means of the next rows, of shape (n_members, horizon, n_columns)."""
        powers = self.gains.damping[:, None] ** np.arange(1, horizon + 1)
        damped = np.cumsum(powers, axis=1)
        means = self.level[:, None, :] + damped[:, :, None] * self.slope[:, None, :]
        season = self.seasons.shape[1]
        if season > 1:
            means += self.seasons[:, (time + np.arange(horizon)) % season]
        return np.asarray(means)

    def _carried_covariance(self) -> Array:
        """Return F P F' + g g' for F = [[1, phi], [0, phi]] and g = (alpha, beta)."""
        level, cross, slope = self.covariance
        phi = self.gains.damping
        alpha = self.gains.level
        beta = self.gains.slope
        return np.array(
            [
                level + 2 * phi * cross + np.square(phi) * slope + np.square(alpha),
                phi * cross + np.square(phi) * slope + alpha * beta,
                np.square(phi) * slope + np.square(beta),
            ]
        )

    def _kalman_gains(self) -> tuple[Array, Array, Array]:
        """Return the variance of the error and the gains after a gap; move the covariance on."""
        level, cross, slope = self.covariance
        phi = self.gains.damping
        variance = self.error_variance()
        of_level = level + phi * cross  # covariances of the state with the error
        of_slope = cross + phi * slope
        level_gain = (of_level + phi * of_slope + self.gains.level) / variance
        slope_gain = (phi * of_slope + self.gains.slope) / variance
        known = np.array(
            [level_gain * level_gain, level_gain * slope_gain, slope_gain * slope_gain]
        )
        self.covariance = self._carried_covariance() - known * variance
        if np.max(np.abs(self.covariance)) < SETTLED:
            self.covariance = np.zeros_like(self.covariance)
            self.uncertain = False
        return variance, level_gain[:, None], slope_gain[:, None]
