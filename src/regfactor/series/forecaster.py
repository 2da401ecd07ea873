"""The first choice for time series: banks of closed-form forecasting models, averaged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from scipy.stats import t as student
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from regfactor.core.loop import Solution
from regfactor.core.params import Array, frozen
from regfactor.fitting.base import Choice, Estimator, Run
from regfactor.fitting.explanation import Explanation, MemberReport
from regfactor.fitting.parameters import (
    COUNT,
    NON_NEGATIVE,
    check_level,
    parametrized,
    require_at_least,
)
from regfactor.series.backtest import Backtest, backtest
from regfactor.series.bank import SeriesTable, Units, further_waves
from regfactor.series.calendar_features import Calendar
from regfactor.series.forecast import Forecast
from regfactor.series.forecast_components import ForecastComponents, level_of
from regfactor.series.gap_filling import filled_gaps, hidden_cell_factors
from regfactor.series.known_inputs import KnownInputs
from regfactor.series.pooled_forecast import ForecastPool, PooledForecast
from regfactor.series.rolling_origins import RollingOrigins, default_horizon
from regfactor.series.season_evidence import best_season, log_gains, longer_season, season_gains
from regfactor.series.shapes import SeriesRows, as_series
from regfactor.series.spikes import without_spikes
from regfactor.series.times import Times

AUTO = "auto"
MAX_ROWS = 1000  # the last ones, to which models are fitted
FREEDOM = 6  # of Student's distribution of errors, which are mixtures
MAX_LOG_STEP = 5.0  # by which forecasts of a logarithm may exceed the largest value seen


@frozen
class ForecastInputs:
    """Series with NaN at missing entries, known inputs, and the labels of the rows."""

    values: Array
    inputs: Array
    known: KnownInputs
    times: Times


@frozen
class InputUnits:
    """Means and deviations of inputs in the fitted rows; a constant one has no effect."""

    center: Array
    scale: Array

    @staticmethod
    def of(inputs: Array) -> InputUnits:
        """Return the units of inputs."""
        scale = inputs.std(axis=0)
        constant = scale <= 1e-12 * np.abs(inputs).max(axis=0, initial=0)
        return InputUnits(inputs.mean(axis=0), np.where(constant, np.inf, scale))

    def standardized(self, inputs: Array) -> Array:
        """Return inputs in these units."""
        return (inputs - self.center) / self.scale


@frozen
class SeriesScale:
    """The scale on which series are modeled: logarithms of some, and where values may lie."""

    logged: Array
    largest_log: Array
    floor: Array  # 0 for counts and series that reach zero without going below, else -inf

    @staticmethod
    def of(values: Array, logged: Array) -> SeriesScale:
        """Return the scale of series, of which some are modeled by their logarithms."""
        least = np.nanmin(values, axis=0)
        whole = np.all(np.isnan(values) | (values == np.rint(values)), axis=0)
        bounded = (least == 0) | ((least > 0) & whole)
        largest = np.full(len(least), np.inf)
        largest[logged] = np.log(np.nanmax(values[:, logged], axis=0)) + MAX_LOG_STEP
        return SeriesScale(logged, largest, np.where(bounded, 0.0, -np.inf))

    def modeled(self, values: Array) -> Array:
        """Return series on the scale on which they are modeled."""
        if not self.logged.any():
            return values
        found = values.copy()
        found[:, self.logged] = np.log(values[:, self.logged])
        return found

    def restored(self, values: Array) -> Array:
        """Return modeled values, with series along the last axis, on the scale of the series."""
        found = np.maximum(values, self.floor)
        logs = np.minimum(values, self.largest_log)[..., self.logged]
        found[..., self.logged] = np.exp(logs)
        return found


@parametrized
class AutoForecaster(Estimator):
    r"""x_{t+h} = sum over banks b of s_b sum over members m of w_bm f_bm(h) + error.

    Two banks of small linear models, each of which is one ridge problem with a closed form:
    exponential smoothing over a grid of gains, and autoregressions in error-correction form under
    Minnesota-type priors, of each series alone, with coefficients shrunk to those of the others,
    and from the past of the others. Members are weighted by their tempered evidence and by errors
    of their forecasts from past rows; banks by these errors alone. Smoothing with half the slope of
    a line, the theta method [3]_, has 0.3 of the share of smoothing, and of 2 to 20 series,
    `RegularizedARMA` has 0.15 in addition. Season and logarithm are found by evidence; nothing has
    to be set.

    Parameters
    ----------
    season : "auto", int or sequence of int, default="auto"
        Number of rows after which a pattern repeats; 1 for none. Of several, such as (24, 168) for
        hours, the shortest may change over time and the others are fixed patterns.
    log : "auto" or bool, default="auto"
        Whether series are modeled by their logarithms; "auto" decides for each positive one.
    horizon : int, optional
        Number of steps by which models are compared, and that `forecast` returns by default; about
        one season if not given.
    calendar : str, dict, or sequence of these, optional
        Features of the dates of rows, known also in the future: "hour", "day_of_week",
        "day_of_month", "month", "quarter", "weekend", "month_start", "month_end", "working_days",
        "days_in_month"; "holidays:DE" or "holidays:US-CA" for public holidays in one column, by the
        package `holidays`, "each_holiday:DE" for a column of each; and events of the past and the
        future, {"sale": ["2023-11-24", "2024-11-29"]}.
    time_limit : float, optional
        Seconds; banks that are not fitted in time are left out, with a warning.
    verbose : int, default=0
    random_state : int, RandomState instance or None, default=None
        For `simulate`.
    callback : callable, optional
        Called after the fit of each bank; the pool is complete when it returns a true value.

    Attributes
    ----------
    season_ : int
        The season; 1 for none.
    seasons_ : list of int
        All seasons.
    season_gains_ : dict of int to float
        Gains in log evidence of the seasons that were compared, with ``season="auto"``.
    log_ : ndarray of bool of shape (n_series,)
        Which series are modeled by their logarithms.
    horizon_ : int
        Number of steps by which models were compared.
    origins_ : ndarray of int
        Numbers of rows known at the times from which past forecasts were made.
    members_ : list of str
        Names of the banks.
    weights_ : ndarray of shape (n_banks, n_series)
        s, of sum one.
    scores_ : ndarray of shape (n_banks, n_series)
        Root mean squared errors of past forecasts relative to those of the last value; NaN for a
        bank with a fixed share, which makes none.
    relative_error_ : ndarray of shape (n_series,)
        The same of the average of all banks; NaN for series of fewer than 24 rows.
    factor_ : ndarray of shape (n_series,)
        By which deviations were multiplied to agree with errors of past forecasts and with the
        recent size of innovations.
    spikes_ : ndarray of bool of shape (min(n_samples, 1000), n_series)
        Which of the last rows hold a single value that stands out, and that models leave out.
    input_names_ : list of str
        Columns of exog and of the calendar.
    n_features_in_ : int
    objective_ : float
        Minus the logarithm of the evidence, summed over series.
    status_, solver_, n_iter_, history_
        How the run went; an iteration is the fit of a bank.

    See Also
    --------
    RegularizedARMA : One convex problem for all series, with a certificate.
    regfactor.model_selection.backtest : Compares forecasters on the past.
    regfactor.series.regular_rows : Brings irregular dates to regular ones.

    Notes
    -----
    With gains fixed, one-step errors of exponential smoothing [1]_ are affine in the initial state,
    so that finding it is a ridge problem. An autoregression has the change of a series as its
    outcome, so that ridge shrinks to the random walk [2]_. Prior deviations are in units of the
    mean absolute change of a series. Missing values have no error; after a gap the gains are those
    of the Kalman filter, and intervals are wider. Single values far from their neighbors are taken
    for missing where a mixture of spikes and usual errors has the larger evidence; forecasts are
    judged by all values.

    Intervals are those of Student's distribution with 6 degrees of freedom, of the variance within
    members, between members and between banks, multiplied by `factor_`, which agrees with errors of
    past forecasts and follows variances of innovations that change over time. A mean of a series
    that is modeled by its logarithm is the median. Counts, and series that reach zero without going
    below, have no negative forecasts. Only the last 1,000 rows are used.

    References
    ----------
    .. [1] Hyndman et al., "Forecasting with exponential smoothing", Springer 2008.
    .. [2] Litterman, "Forecasting with Bayesian vector autoregressions", JBES 1986.
    .. [3] Assimakopoulos and Nikolopoulos, "The theta model", IJF 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import AutoForecaster
    >>> months = np.arange(96)
    >>> noise = np.random.default_rng(0).normal(size=96)
    >>> sales = 100 + months + 20 * np.sin(2 * np.pi * months / 12) + noise
    >>> model = AutoForecaster().fit(sales)
    >>> model.season_
    12
    >>> ahead = model.forecast(3, level=0.9)
    >>> print(ahead.mean.ravel().round(0))
    [196. 208. 216.]
    """

    _no_certificate = "an average of models"
    _locally = False
    _takes_missing = True
    _matches_index = True  # inputs are found by the dates of the rows
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "season": [StrOptions({AUTO}), COUNT, list, tuple, np.ndarray],
        "log": [StrOptions({AUTO}), "boolean"],
        "horizon": [COUNT, None],
        "calendar": [str, dict, list, tuple, None],
        "time_limit": [NON_NEGATIVE, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "callback": [callable, None],
    }

    season: Any = "auto"
    log: Any = "auto"
    horizon: int | None = None
    _: KW_ONLY
    calendar: Any = None
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(self, X: Any, y: Any = None, exog: Any = None) -> Self:
        """Fit to series whose rows are times.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_series), or a long table
            NaN marks a missing value; rows are equally spaced times. Dates are the index of a
            frame, or a column of dates. A long table has the columns unique_id, ds and y, or one of
            dates, one of words that name the series, and one of numbers; forecasts are long too.
        y : ignored
        exog : array-like or frame of shape (n_samples, n_inputs), optional
            Inputs whose future will be known, such as prices. Frames with dates are aligned by
            them, and their columns are found by their names in `forecast`.

        Returns
        -------
        self
        """
        return self._fit(X, exog)

    def _read(self, X: Any, exog: Any = None) -> ForecastInputs:
        given = SeriesRows.of(X)
        values = as_series(self, given.table, reset=True)
        self._dtype = values.dtype
        values = values.astype(np.float64)
        empty = np.isnan(values).all(axis=0)
        if empty.any():
            raise ValueError(
                f"Column {int(empty.argmax())} of X has no observed value; leave it out."
            )
        if self.log is True or self.log == 1:
            self._refuse_logs_of(values)
        index = given.times.index
        known = KnownInputs.of(exog, Calendar.of(self.calendar), index)
        inputs = known.values(exog, index, len(values))
        return ForecastInputs(values, inputs, known, given.times)

    def _refuse_logs_of(self, values: Array) -> None:
        least = np.nanmin(values, axis=0)
        if np.any(least <= 0):
            column = int(np.argmax(least <= 0))
            raise ValueError(
                f"log=True needs positive values, and the least one of column {column} is "
                f"{least[column]:g}. Use log='auto', or leave the column out."
            )

    def _seasons(self) -> list[int]:
        """Return the given seasons in ascending order, without 1."""
        if isinstance(self.season, Integral):
            given = [self.season]
        else:
            given = list(self.season)
        if not given:
            raise ValueError("season is empty; use 'auto', a number of rows, or 1 for none.")
        for season in given:
            require_at_least("season", season, 1)
        return sorted({int(season) for season in given} - {1})

    def _state(self, inputs: ForecastInputs) -> ForecastPool:
        """Return the pool without a season and on the scale of the series."""
        if not isinstance(self.season, str):
            self._seasons()
        values = inputs.values[-MAX_ROWS:]
        self._input_units = InputUnits.of(inputs.inputs[-MAX_ROWS:])
        given = self._input_units.standardized(inputs.inputs[-MAX_ROWS:])
        origins = RollingOrigins.of(len(values), values.shape[1], 1, self.horizon)
        return ForecastPool.of(SeriesTable(values, given, 1, origins))

    def _choose(
        self,
        problem: ForecastPool,
        inputs: ForecastInputs,
        run: Run,
    ) -> Choice[ForecastPool]:
        """Return the pool with the season and on the scale that evidence or the user chooses."""
        table = problem.table
        n_rows = len(table.values)
        gains: dict[int, float] = {}
        if isinstance(self.season, str):
            gains = season_gains(table.values, table.inputs, inputs.times.season)
            seasons = [best_season(gains, table.values)]
            longer = longer_season(table.values, table.inputs, seasons[0])
            if longer is not None:
                seasons.append(longer)
        else:
            seasons = [season for season in self._seasons() if 2 * season <= n_rows] or [1]
        season = seasons[0]
        self.seasons_ = seasons
        self._first_row = len(inputs.values) - n_rows
        given = self._with_waves(table.inputs, self._first_row)
        origins = RollingOrigins.of(n_rows, table.n_series, season, self.horizon)
        if isinstance(self.log, str):
            logged = log_gains(table.values, given, season, origins) > 0
        else:
            logged = np.full(table.n_series, bool(self.log))
        self._scale = SeriesScale.of(table.values, logged)
        modeled = self._scale.modeled(table.values)
        cleaned = without_spikes(modeled, given, season)
        chosen = SeriesTable(cleaned, given, season, origins, modeled)
        if gains:
            self.season_gains_ = gains
        return Choice(ForecastPool.of(chosen))

    def _with_waves(self, inputs: Array, first_row: int) -> Array:
        """Return inputs with the waves of all seasons but the first."""
        rows = np.arange(first_row, first_row + len(inputs))
        waves = [further_waves(longer, self.seasons_[0], rows) for longer in self.seasons_[1:]]
        return np.concatenate([inputs, *waves], axis=1)

    def _publish(
        self,
        choice: Choice[ForecastPool],
        solution: Solution[Any],
        inputs: ForecastInputs,
        run: Run,
    ) -> Solution[Any]:
        table = choice.problem.table
        pooled = PooledForecast.of(solution.point, table)
        self._pooled = pooled
        self._values = table.judged
        self.spikes_ = np.isnan(table.values) & ~np.isnan(table.judged)
        self._times = inputs.times
        self._times_fitted = inputs.times
        self._known = inputs.known
        self.input_names_ = inputs.known.all_names
        self._n_rows = len(inputs.values)
        self.season_ = table.season
        self.log_ = self._scale.logged
        self.horizon_ = table.origins.horizon
        self.origins_ = table.origins.rows[:-1] + self._first_row
        self.members_ = [bank.name for bank in pooled.banks]
        self.weights_ = pooled.shares
        naive = np.sqrt(pooled.errors[-1])
        relative = np.sqrt(pooled.errors[:-1]) / np.where(naive > 0, naive, np.nan)
        self.scores_ = relative[:-1]
        self.relative_error_ = relative[-1]
        self.factor_ = pooled.factor
        return solution

    def forecast(
        self,
        horizon: int | None = None,
        exog: Any = None,
        level: float | Sequence[float] | None = None,
    ) -> Forecast:
        """Return the expected values of the next times, and intervals that contain most of them.

        Parameters
        ----------
        horizon : int, optional
            Number of times; by default the parameter, or about one season.
        exog : array-like or frame of shape (horizon, n_inputs), optional
            Inputs at these times; required where the model has inputs. A frame with dates may have
            further rows.
        level : float in (0, 1) or sequence of such, optional
            Share of values that intervals contain. For a sequence, limits have a first axis of the
            levels.

        Returns
        -------
        Forecast
        """
        check_is_fitted(self)
        steps = self._steps(horizon)
        mean, variance = self._pooled.forecast(steps, self._future_inputs(exog, steps))
        center = self._scale.restored(mean).astype(self._dtype)
        if level is None:
            return Forecast(center, times=self._times)
        stated: Any = level
        several = isinstance(level, Iterable) and not isinstance(level, str)
        stated = tuple(stated) if several else (stated,)
        for single in stated:
            check_level(single)
        levels = np.array(stated, dtype=float)
        widths = self._quantiles(levels)[:, None, None] * np.sqrt(variance)
        lower = self._scale.restored(mean - widths).astype(self._dtype)
        upper = self._scale.restored(mean + widths).astype(self._dtype)
        if several:
            return Forecast(center, lower, upper, stated, self._times)
        return Forecast(
            center,
            lower[0],
            upper[0],
            float(levels[0]),
            self._times,
        )

    def _steps(self, horizon: int | None) -> int:
        if horizon is None:
            return self.horizon or default_horizon(self.season_)
        require_at_least("horizon", horizon, 1)
        return int(horizon)

    def _future_inputs(self, exog: Any, rows: int) -> Array:
        """Return the inputs of the next rows, standardized and with waves."""
        index = None
        if self._times.index is not None:
            index = self._times.future(rows)
        given = self._known.values(exog, index, rows)
        return self._with_waves(self._input_units.standardized(given), self._n_rows)

    def _quantiles(self, levels: Array) -> Array:
        """Return quantiles of errors in deviations, widened for series of few rows."""
        unit_variance = np.sqrt((FREEDOM - 2) / FREEDOM)
        few_rows = np.sqrt(1 + FREEDOM / len(self._values))
        return np.asarray(student.ppf((1 + levels) / 2, FREEDOM) * unit_variance * few_rows)

    def update(self, X: Any, exog: Any = None) -> Self:
        """Let rows that follow the series pass through the models; coefficients and weights stay.

        Parameters
        ----------
        X : array-like of shape (n_new, n_series)
            NaN marks a missing value.
        exog : array-like of shape (n_new, n_inputs), optional

        Returns
        -------
        self
        """
        check_is_fitted(self)
        given = SeriesRows.of(X).ordered(self._times.names)
        rows = as_series(self, given.table, reset=False).astype(np.float64)
        times = self._times.followed(given.times)
        if np.any(rows[:, self._scale.logged] <= 0):
            column = int(np.argmax(np.any(rows <= 0, axis=0) & self._scale.logged))
            raise ValueError(
                f"Column {column} of X is modeled by its logarithm, and has a value that is not "
                "positive; fit again with log=False."
            )
        inputs = self._future_inputs(exog, len(rows))
        modeled = self._scale.modeled(rows)
        self._pooled = self._pooled.updated(modeled, inputs)
        self._values = np.concatenate([self._values, modeled])
        self._n_rows += len(rows)
        self._times = times
        return self

    def simulate(
        self,
        horizon: int | None = None,
        n_paths: int = 1,
        exog: Any = None,
        random_state: Any = None,
    ) -> Array:
        """Return random futures of the series, an array of shape (n_paths, horizon, n_series).

        Each path is that of one member, drawn by its weight, with Student's innovations that are
        correlated between series as errors of past forecasts were. Quantiles of paths agree with
        the intervals of `forecast` only approximately.
        """
        check_is_fitted(self)
        steps = self._steps(horizon)
        require_at_least("n_paths", n_paths, 1)
        random = check_random_state(self.random_state if random_state is None else random_state)
        inputs = self._future_inputs(exog, steps)
        paths = self._pooled.simulated(steps, inputs, n_paths, random, FREEDOM)
        return self._scale.restored(paths).astype(self._dtype)

    def components(self, horizon: int | None = None, exog: Any = None) -> ForecastComponents:
        """Return the parts of a forecast, whose sum is its mean: level, season, and inputs.

        Parameters
        ----------
        horizon : int, optional
            Number of times; by default the parameter, or about one season.
        exog : array-like of shape (horizon, n_inputs), optional

        Returns
        -------
        ForecastComponents
        """
        check_is_fitted(self)
        steps = self._steps(horizon)
        mean = self.forecast(steps, exog).mean
        longer = steps + 2 * self.season_
        usual = np.zeros((longer, len(self.input_names_)))  # their standardized means
        path, _ = self._pooled.forecast(longer, self._with_waves(usual, self._n_rows))
        without_inputs = self._scale.restored(path)
        level = level_of(without_inputs, self.season_)
        return ForecastComponents(
            level,
            without_inputs[:steps] - level,
            mean - without_inputs[:steps],
            self._times,
        )

    def backtest(
        self,
        X: Any,
        horizon: int | None = None,
        n_origins: int = 5,
        *,
        exog: Any = None,
        level: float | Sequence[float] = (0.8, 0.95),
        season: int | None = None,
    ) -> Backtest:
        """Fit copies of this model to the past of series, and compare their forecasts.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_series), or a long table
        horizon : int, optional
            Steps ahead; by default the parameter, or about one season of the dates.
        n_origins : int, default=5
            Times from which forecasts are made.
        exog : array-like of shape (n_samples, n_inputs), optional
        level : float in (0, 1) or sequence of such, default=(0.8, 0.95)
        season : int, optional
            Of the seasonal naive forecast; by default that of the parameter, of the dates, or the
            one that was found.

        Returns
        -------
        Backtest
            See `regfactor.model_selection.backtest`.
        """
        if season is None and not isinstance(self.season, str):
            season = max(self._seasons(), default=1)
        if horizon is None:
            expected = season or SeriesRows.of(X).times.season
            horizon = self.horizon or default_horizon(expected)
        return backtest(
            self,
            X,
            horizon,
            n_origins,
            exog=exog,
            level=level,
            season=season,
        )

    def observed(self) -> Any:
        """Return the last 1,000 rows of the series as they were given, with those of updates."""
        check_is_fitted(self)
        return self._labeled(self._given())

    def complete(self) -> Any:
        """Return the last 1,000 rows of the series with missing values filled.

        A value is what is expected given all rows before and after it.

        The table is of the kind that the model was fitted to.
        """
        check_is_fitted(self)
        units = self._current_units()
        filled = filled_gaps(units.standardized(self._values), self.season_)
        means = self._scale.restored(units.restored(filled.means))
        return self._labeled(np.where(np.isnan(self._values), means, self._given()))

    def complete_interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Return limits between which missing values lie with probability `level`.

        Their width is calibrated on observed values that are hidden in turn. Both are tables like
        that of `complete`; at observed values they are these values.
        """
        check_is_fitted(self)
        check_level(level)
        units = self._current_units()
        standardized = units.standardized(self._values)
        filled = filled_gaps(standardized, self.season_)
        deviations = hidden_cell_factors(standardized, self.season_) * np.sqrt(filled.variances)
        width = self._quantiles(np.array([level]))[0] * deviations
        missing = np.isnan(self._values)
        limits = []
        for values in (filled.means - width, filled.means + width):
            restored = self._scale.restored(units.restored(values))
            limits.append(self._labeled(np.where(missing, restored, self._given())))
        lower, upper = limits
        return lower, upper

    def _current_units(self) -> Units:
        """Return the units of the rows that are kept."""
        return Units.of(self._values, len(self._values))

    def _given(self) -> Array:
        """Return the series as they were given, from the values on the scale of the models."""
        found = self._values.copy()
        found[:, self._scale.logged] = np.exp(found[:, self._scale.logged])
        return found

    def _labeled(self, values: Array) -> Any:
        index = self._times.last(len(values))
        return self._times.labeled(values.astype(self._dtype), index)

    def explain(self) -> Explanation:
        """Return which banks carried the forecasts, and what was found in the series."""
        check_is_fitted(self)
        reports = []
        shares = self.weights_.mean(axis=1)
        scores = np.full(len(shares), np.nan)
        judged = ~np.isnan(self.relative_error_)
        if judged.any():
            scores = self.scores_[:, judged].mean(axis=1)
        for bank, share, score in zip(self._pooled.banks, shares, scores, strict=True):
            reports.append(MemberReport(bank.name, float(share), float(score), bank.assumes))
        name = (
            "root mean squared error of past forecasts / that of the last value; smaller is better"
        )
        if judged.any() and np.isnan(scores).any():
            name += "; nan: a fixed weight, without past forecasts"
        return Explanation.of(reports, name, self._sentences())

    def _sentences(self) -> list[str]:
        found = []
        if self.season_ == 1:
            found.append("No season was found or given.")
        else:
            listed = " and ".join(map(str, self.seasons_))
            found.append(f"The series repeat every {listed} rows.")
        n_logged = int(self.log_.sum())
        if n_logged:
            found.append(f"{n_logged} of {len(self.log_)} series are modeled by their logarithms.")
        n_spikes = int(self.spikes_.sum())
        if n_spikes:
            found.append(f"{n_spikes} single values stand out, and are left out of the models.")
        errors = self.relative_error_[~np.isnan(self.relative_error_)]
        if len(errors) == 0:
            found.append("The series are too short to judge forecasts from their past.")
        elif errors.mean() >= 1:
            found.append(
                "Past forecasts were no better than repeating the last value "
                f"({errors.mean():.2f} of its error): nothing here can be forecast from the past."
            )
        else:
            found.append(
                f"Past forecasts had {errors.mean():.2f} of the error of repeating the last value."
            )
        return found
