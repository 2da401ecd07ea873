"""Vector autoregression with moving-average errors, as one convex problem with forecasts."""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from regfactor.core.factors import FactorPoint
from regfactor.core.loop import Solution, Status
from regfactor.core.params import (
    Array,
    UnsupportedProblem,
    frozen,
    warn,
)
from regfactor.fitting.base import Choice, Estimator, Run
from regfactor.fitting.parameters import (
    AUTO,
    COUNT,
    FINITE_NON_NEGATIVE,
    FINITE_POSITIVE,
    POSITIVE,
    RUN_CONSTRAINTS,
    NumberInterval,
    check_level,
    parametrized,
    require_at_least,
)
from regfactor.losses import LOSSES, Loss
from regfactor.series.arma.count_paths import COUNT_LOSSES, CountNoise
from regfactor.series.arma.criteria import CRITERIA, bic
from regfactor.series.arma.missing_cells import CellPosterior, cell_draws, cell_posterior
from regfactor.series.arma.model import (
    Series,
    error_covariance,
    forecast_variances,
    half_widths,
    radius,
)
from regfactor.series.arma.problem import ArmaProblem, FittedModel, Specification
from regfactor.series.arma.selection import (
    SHRINKAGES,
    Orders,
    best_minnesota,
    choose_orders,
    completed,
    interpolated,
    largest_order,
    validation_losses,
)
from regfactor.series.calendar_features import Calendar
from regfactor.series.forecast import Forecast
from regfactor.series.known_inputs import NO_INPUTS, KnownInputs
from regfactor.series.phase_means import promising_seasons
from regfactor.series.shapes import SeriesRows, as_series
from regfactor.series.times import Times

ORDER = NumberInterval(Integral, 0, None, closed="left")
DEFAULT_SHRINKAGE = 0.1
EM_STEPS = 5  # of the covariance of innovations where values are missing
MIN_DIFFERENCED = 8  # rows of a series whose differences are tried
NUMBERS_OF_WAVES = (1, 2, 4, 12)


@frozen
class SeriesInputs:
    """A series with NaN at missing entries, its inputs U, and the labels of its rows."""

    levels: Array
    U: Array
    times: Times
    loss: Loss


@frozen
class ArmaChoice:
    """Orders, the shrinkage, validation losses of those tried (None if it was given), the time."""

    orders: Orders
    shrinkage: float
    losses: Array | None
    in_time: bool


@parametrized
class RegularizedARMA(Estimator):
    r"""min over A, U, c, W of L(X; sum_i x_{t-i} A_i' + u_t U' + c + S(W)) + penalties.

    The penalties are ridge |A, U|^2 / 2 + lam |W|_*.

    Rows are times. W holds the innovations' effects, W[time s, block j] = (B_j eps_s)', and S(W)_t
    sums what innovations of times t, ..., t - q do at time t; the trace norm |W|_* is the least
    (|B|_F^2 + |eps|_F^2) / 2. The problem is convex, and solved to its global optimum with a
    duality gap. B and eps are not unique and are not published; unique are the coefficients `ar_`,
    `exog_`, `intercept_`, the lag sums `kappa_` and all forecasts. Errors then have autocovariances
    I [d = 0] + kappa_d / lam, from which the Kalman filter and the invertible innovations form x_t
    = sum_i A_i x_{t-i} + v_t + sum_j Theta_j v_{t-j} follow. The moving average is shrunk strongly:
    it is no maximum-likelihood fit.

    Parameters
    ----------
    p : int, "bic" or "aicc", default="bic"
        Lags of the autoregression; "bic" takes the least-squares VAR of least BIC, "aicc" that of
        least corrected AIC, which has more lags.
    q : int or "auto", default="auto"
        Lags of the moving average; "auto" is min(p, 2). With q=0 the model is ridge VAR.
    d : int or "auto", default="auto"
        How often the series is differenced first; forecasts are summed back. Inputs are not
        differenced. "auto" is 0 or 1, by BIC or the criterion of p.
    season : int or "auto", default="auto"
        Number of rows after which a pattern repeats; 1 for none. Its waves (at most 12 cosines and
        sines, by BIC) are inputs. "auto" finds it by an F test of mean changes, and compares with
        none.
    shrinkage : float or "auto", default="auto"
        lam as a share of the least lam at which W = 0; from 1 on the model is ridge VAR. "auto"
        compares one-step errors over the last quarter of the series, ridge VAR among the
        candidates.
    ridge : float or "minnesota", default="minnesota"
        Ridge on A and U. A number is a share of the mean squared length of their regressors.
        "minnesota" grows with the square of the lag, around a random walk or around zero, whichever
        has more evidence, as has its strength.
    loss : str or Loss, default="squared"
        "squared", or "huber" and "smoothed_l1" against outlying errors, on series standardized by
        medians; "poisson" and "logistic" for counts and 0/1 series, where the formula is that of
        the predictor (no differencing), the filter is that of the quadratic model at the fit,
        predictions are shifted to be unbiased, and intervals are whole numbers.
    intercept : bool, default=True
    exog_lags : int, default=0
        Inputs act at their own time and so many times later.
    max_radius : float or None, default=1.0
        Largest spectral radius of the autoregression. Beyond it A_i is multiplied by c^i, which
        multiplies every root by c; where d is given, with a warning.
    standardize : bool, default=True
        Whether each series and input is divided by its standard deviation first, so that units do
        not matter.
    shocks : bool, default=False
        Whether sum_s |W_s| takes the place of |W|_*: a few outlying times have effects of their
        own, for q + 1 times each, and do not bend the coefficients. There is then no moving average
        in the forecasts.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Relative duality gap.
    time_limit : float, optional
    verbose : int, default=0
    random_state : int, RandomState instance or None, default=None
        Draws the futures of `simulate`, unless it is given another; a fit draws nothing.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns a true value.

    Attributes
    ----------
    ar_ : ndarray of shape (p, n_series, n_series)
        A_i, after scaling where `scaled_`.
    exog_ : ndarray of shape (exog_lags + 1, n_series, n_inputs)
    intercept_ : ndarray of shape (n_series,)
    ma_ : ndarray of shape (q, n_series, n_series)
        Theta_j of the innovations form.
    sigma_ : ndarray of shape (n_series, n_series)
        Covariance of the one-step errors, corrected for degrees of freedom.
    kappa_ : ndarray of shape (q + 1, n_series, n_series)
        Lag sums, in the units of the standardized series; kappa_{-d} = kappa_d'.
    lam_, lam_max_ : float
    p_, q_, d_, season_ : int
    waves_ : ndarray of shape (n_series, n_waves)
        Coefficients of the cosines and sines of the season.
    ridge_ : float or MinnesotaRidge
    shrinkage_ : float
    shrinkages_, validation_loss_ : ndarray
        With shrinkage="auto".
    radius_ : float
        Spectral radius of `ar_`.
    scaled_ : bool
    residuals_ : ndarray of shape (n_samples - d - max(p, exog_lags), n_series)
        One-step errors; for the means of a loss that is not one of residuals.
    shocks_ : ndarray of shape (n_samples - d - max(p, exog_lags),)
        With shocks=True, the size of the shock at each time in standard deviations; mostly zero.
    objective_, gap_, relative_gap_ : float
    certificate_ : Certificate
    status_, n_iter_, history_, solver_

    See Also
    --------
    regfactor.sktime.RegularizedARMAForecaster : The same model in the interface of sktime.
    regfactor.plots.ForecastDisplay : Draws its forecasts.

    Notes
    -----
    Missing values (NaN) have the normal distribution that the model gives them, given all others,
    as from the Kalman smoother: fitting and replacing them by their means take turns, from straight
    lines on, and the certificate is that of the completed series. Forecasts and their intervals are
    then those given what was observed, as are the paths of `simulate`.

    The variant with max_j |B_j|_F in place of the sum (White 2014, theorem 10) is left out. For one
    series and q = 1 it is the same model at another lam; for more it need not be, but on
    standardized series forecasts were within a hundredth of a deviation (the experiment
    rarma-gauge).

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import RegularizedARMA
    >>> t = np.arange(120)
    >>> X = np.column_stack([np.sin(t / 3), np.cos(t / 3)])
    >>> X = X + 0.1 * np.random.default_rng(0).normal(size=(120, 2))
    >>> model = RegularizedARMA(p=2, q=1).fit(X)
    >>> model.forecast(3, level=0.9).mean.shape
    (3, 2)
    >>> bool(model.relative_gap_ <= 1e-4)
    True
    """

    _takes_missing = True
    _matches_index = True  # inputs are found by the dates of the rows
    _parameter_constraints = {
        **RUN_CONSTRAINTS,
        "p": [ORDER, StrOptions(set(CRITERIA))],
        "q": [ORDER, AUTO],
        "d": [ORDER, AUTO],
        "season": [COUNT, AUTO],
        "shrinkage": [FINITE_POSITIVE, AUTO],
        "ridge": [FINITE_NON_NEGATIVE, StrOptions({"minnesota"})],
        "loss": [StrOptions(set(LOSSES)), Loss],
        "intercept": ["boolean"],
        "exog_lags": [ORDER],
        "max_radius": [POSITIVE, None],
        "standardize": ["boolean"],
        "shocks": ["boolean"],
    }

    p: int | str = "bic"
    q: int | str = "auto"
    d: int | str = "auto"
    season: int | str = "auto"
    shrinkage: float | str = "auto"
    ridge: float | str = "minnesota"
    loss: Any = "squared"
    intercept: bool = True
    exog_lags: int = 0
    max_radius: float | None = 1.0
    standardize: bool = True
    _: KW_ONLY
    shocks: bool = False
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(self, X: Any, y: Any = None, exog: Any = None) -> Self:
        """Fit to a series whose rows are times.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_series)
            NaN marks a missing entry.
        y : ignored
        exog : array-like of shape (n_samples, n_inputs), optional

        Returns
        -------
        self
        """
        return self._fit(X, exog)

    def _read(self, X: Any, exog: Any = None) -> SeriesInputs:
        if isinstance(self.loss, str):
            loss = LOSSES[self.loss]()
        else:
            loss = self.loss
        if len(loss.parts(1)) != 1 or loss.rowwise or not loss.smooth or not loss.unbounded:
            raise ValueError(
                f"RegularizedARMA needs one smooth elementwise loss on the whole line, got {loss}. "
                "Use 'squared', 'huber', 'smoothed_l1', 'poisson' or 'logistic'."
            )
        differenced = not isinstance(self.d, str) and self.d > 0
        if differenced and not loss.of_residual:
            raise ValueError(f"Differences of a series are not in the domain of {loss}; use d=0.")
        given = SeriesRows.of(X)
        times = given.times
        levels = self._as_series(given.table, reset=True)
        missing = np.isnan(levels)
        if missing.any() and not loss.of_residual:
            raise ValueError(
                f"X has missing values, which {loss} does not accept here; fill them first."
            )
        empty = missing.all(axis=0)
        if empty.any():
            raise ValueError(
                f"Column {int(empty.argmax())} of X has no observed value; leave it out."
            )
        self._known = NO_INPUTS
        U = np.zeros((len(levels), 0))
        if exog is not None:
            self._known = KnownInputs.of(exog, Calendar(), times.index)
            U = self._known.values(exog, times.index, len(levels))
        return SeriesInputs(levels, U, times, loss)

    def _state(self, inputs: SeriesInputs) -> ArmaProblem:
        """Return the problem of the given orders, or of the largest one that BIC may choose."""
        rows, n = inputs.levels.shape
        k = inputs.U.shape[1]
        lags = self.exog_lags if k else 0
        d = 0
        if not isinstance(self.d, str):
            d = int(self.d)
        if isinstance(self.p, str):
            p = largest_order(rows - d, n, (lags + 1) * k, lags)
        else:
            p = self.p
        needed = max(p, lags) + d + 2
        if rows < needed:
            raise ValueError(
                f"X has {rows} rows (n_samples={rows}); with p={p}, d={d} and "
                f"exog_lags={lags} at least {needed} are needed. Lower the orders."
            )
        levels = inputs.levels
        if np.isnan(levels).any():
            levels = interpolated(levels)
        specification = Specification(
            p=p,
            q=min(p, 2) if isinstance(self.q, str) else self.q,
            d=d,
            exog_lags=lags,
            loss=inputs.loss,
            ridge=0.0 if isinstance(self.ridge, str) else self.ridge,
            intercept=self.intercept,
            standardize=self.standardize,
            shocks=self.shocks,
        )
        return ArmaProblem.of(Series.of(levels, inputs.U, d), specification)

    def _choose(self, problem: ArmaProblem, inputs: SeriesInputs, run: Run) -> Choice[ArmaProblem]:
        specification = problem.specification
        levels = problem.series.levels
        orders = self._orders(levels, inputs, specification, run)
        U = inputs.U
        if orders.season > 1:
            U = np.concatenate([U, orders.waves(np.arange(len(levels)))], axis=1)
        q = specification.q
        if isinstance(self.q, str):
            q = min(orders.p, 2)
        chosen = replace(
            specification,
            p=orders.p,
            q=q,
            d=orders.d,
            season=orders.season,
            n_waves=U.shape[1] - inputs.U.shape[1],
        )
        if chosen != specification:
            problem = ArmaProblem.of(Series.of(levels, U, orders.d), chosen)
        if isinstance(self.ridge, str):
            ridge = best_minnesota(problem)
            problem = ArmaProblem.of(problem.series, replace(chosen, ridge=ridge))
        automatic = isinstance(self.shrinkage, str)
        shrinkage = DEFAULT_SHRINKAGE if automatic else float(self.shrinkage)
        missing = np.isnan(inputs.levels)
        if missing.any():
            problem = completed(problem, missing, shrinkage, self.max_radius, run.clock)
        losses = None
        if automatic:
            losses = validation_losses(problem, self.max_radius, run.clock)
            shrinkage = SHRINKAGES[int(np.argmin(losses))]
        in_time = run.clock.time_limit is None or not run.clock.expired
        selection = ArmaChoice(orders, shrinkage, losses, in_time)
        return Choice(problem.shrunk(shrinkage), selection)

    def _orders(
        self,
        levels: Array,
        inputs: SeriesInputs,
        specification: Specification,
        run: Run,
    ) -> Orders:
        """Return the orders and the season, those of least criterion where they are not given."""
        differences = [specification.d]
        if isinstance(self.d, str) and inputs.loss.of_residual and len(levels) > MIN_DIFFERENCED:
            differences = [0, 1]
        if isinstance(self.season, str):  # none, or the most promising one
            seasons = [1, *promising_seasons(inputs.levels)[:1]]
        else:
            seasons = [int(self.season)]
        automatic = isinstance(self.p, str)
        candidates = []
        for d in differences:
            p = specification.p
            if d > differences[0]:  # which has the lags of its levels less one
                p = max(p - 1, 0)
            for season in seasons:
                for n_waves in np.unique(np.minimum(NUMBERS_OF_WAVES, season // 2)).tolist():
                    candidates.append(Orders(d, p, season, n_waves))
        if not automatic and len(candidates) == 1:
            return candidates[0]
        orders = choose_orders(
            levels,
            inputs.U,
            candidates,
            automatic,
            specification,
            run.clock,
            CRITERIA[self.p] if isinstance(self.p, str) else bic,
        )
        if automatic:
            return orders
        return replace(orders, p=specification.p)

    def _publish(
        self,
        choice: Choice[ArmaProblem],
        solution: Solution[FactorPoint],
        inputs: SeriesInputs,
        run: Run,
    ) -> Solution[FactorPoint]:
        problem = choice.problem
        series = problem.series
        specification = problem.specification
        fitted = FittedModel.of(problem, solution.point, self.max_radius)
        model = fitted.model
        self._model = model
        self._n_inputs = inputs.U.shape[1]
        self._n_rows = len(inputs.levels)
        self._past = fitted.past
        # the trace of D (D'D + ridge)^-1 D', the coefficients that each equation spends
        self._freedom = 0.0
        if problem.design is not None:
            self._freedom = float(np.square(problem.design.factors[0]).sum())
        self._times = inputs.times
        self._times_fitted = inputs.times
        self._level = series.levels.mean(axis=0)
        self.ar_ = model.ar
        self.exog_ = model.exog[:, :, : self._n_inputs]
        self.waves_ = model.exog[0, :, self._n_inputs :]
        self.ma_ = model.ma
        self.kappa_ = fitted.kappa
        self.intercept_ = model.intercept
        self.p_ = specification.p
        self.q_ = specification.q
        self.d_ = specification.d
        self.season_ = specification.season
        self._orders_found = choice.selection.orders
        self.ridge_ = specification.ridge
        self.lam_ = float(problem.alpha)
        self.lam_max_ = problem.alpha_max()
        self.radius_ = radius(model.ar)
        self.scaled_ = fitted.scaled
        self.residuals_ = series.X[model.start :] - fitted.predicted
        self._fitted = series.levels[len(series.levels) - len(self.residuals_) :] - self.residuals_
        self.sigma_ = error_covariance(self.residuals_, self._freedom, specification.q)
        self._count_noise = None
        if isinstance(specification.loss, COUNT_LOSSES):
            self._count_noise = CountNoise.of(
                model, fitted.predictors, series.X[model.start :], self._freedom
            )
        self._seen = inputs.levels
        self._seen_inputs = np.concatenate(
            [np.zeros((specification.d, series.U.shape[1])), series.U]
        )
        if np.isnan(inputs.levels).any():
            left = max(1 - self._freedom / len(self.residuals_), 1 / len(self.residuals_))
            for _ in range(EM_STEPS):
                self.sigma_ = self._cells().innovations / left
        if specification.shocks:
            W = solution.point.factors.dense()
            self.shocks_ = np.linalg.norm(W[specification.q :], axis=1)
        self.shrinkage_ = choice.selection.shrinkage
        if choice.selection.losses is not None:
            self.shrinkages_ = np.array(SHRINKAGES[: len(choice.selection.losses)])
            self.validation_loss_ = choice.selection.losses
        if fitted.scaled and not isinstance(self.d, str):
            warn(
                f"The autoregression has spectral radius {fitted.estimated_radius:.4g} > "
                f"max_radius={self.max_radius:g}, so that forecasts would be unbounded; its roots "
                "were scaled. Difference the series (d=1), raise max_radius, or set it to None."
            )
        if not choice.selection.in_time:
            return replace(solution, status=Status.TIME_LIMIT)
        return solution

    def forecast(self, horizon: int = 1, exog: Any = None, level: float | None = None) -> Forecast:
        """Return the means of the next times, and intervals that contain a share `level` of them.

        Intervals are those of Gaussian innovations, widened for the degrees of freedom of the
        coefficients. Those of counts and 0/1 series are quantiles of 2,000 futures, the same at
        each call, of which each step has the distribution of the loss given the steps before it,
        with as much more variance as the errors of the fit have.

        Parameters
        ----------
        horizon : int, default=1
        exog : array-like of shape (horizon, n_inputs), optional
            Inputs at these times; required where the model has inputs.
        level : float in (0, 1), optional

        Returns
        -------
        Forecast
        """
        check_is_fitted(self)
        require_at_least("horizon", horizon, 1)
        U = self._inputs(exog, horizon)
        if np.isnan(self._seen).any() and self._model.loss.of_residual:
            return self._forecast_after_gaps(horizon, U, level)
        no_innovations = np.zeros((1, horizon, self.n_features_in_))
        mean = self._model.paths(self._past, U, no_innovations)[0].astype(self._dtype)
        if level is None:
            return Forecast(mean, times=self._times)
        check_level(level)
        if self._count_noise is not None:
            lower, upper = self._count_noise.limits(self._past, U, level)
            lower = lower.astype(self._dtype)
            return Forecast(mean, lower, upper.astype(self._dtype), level, self._times)
        self._require_residuals("Intervals")
        psi = self._model.responses(horizon - 1)
        half = self._half_widths(forecast_variances(psi, self.sigma_), level).astype(self._dtype)
        return Forecast(mean, mean - half, mean + half, level, self._times)

    def _forecast_after_gaps(self, horizon: int, U: Array, level: float | None) -> Forecast:
        """Return the distribution of the next rows given all that was observed."""
        levels, inputs = self._with_unknown(U)
        found = cell_posterior(self._model, levels, inputs, self.sigma_)
        mean = found.means[-horizon:].astype(self._dtype)
        if level is None:
            return Forecast(mean, times=self._times)
        check_level(level)
        half = self._half_widths(found.variances[-horizon:], level).astype(self._dtype)
        return Forecast(mean, mean - half, mean + half, level, self._times)

    def _with_unknown(self, U: Array) -> tuple[Array, Array]:
        """Return all rows and inputs, followed by rows of which the inputs alone are known."""
        unknown = np.full((len(U), self.n_features_in_), np.nan)
        return np.concatenate([self._seen, unknown]), np.concatenate([self._seen_inputs, U])

    def _half_widths(self, variances: Array, level: float) -> Array:
        return half_widths(variances, level, self._freedom, len(self.residuals_))

    def complete(self) -> Any:
        """Return the series with missing values replaced by their means given all others.

        The table is of the kind that the model was fitted to, with rows of `update` at its end.
        """
        check_is_fitted(self)
        return self._labeled(self._cells().means)

    def complete_interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Return limits between which missing values lie with probability `level`.

        Both are tables like that of `complete`; at observed values they are these values.
        """
        check_is_fitted(self)
        check_level(level)
        found = self._cells()
        half = self._half_widths(found.variances, level)
        return self._labeled(found.means - half), self._labeled(found.means + half)

    def _cells(self) -> CellPosterior:
        return cell_posterior(self._model, self._seen, self._seen_inputs, self.sigma_)

    def _labeled(self, values: Array) -> Any:
        return self._times.labeled(values.astype(self._dtype), self._times.last(len(values)))

    def predict(self, X: Any = None) -> Any:
        """Return the one-step predictions of the fitted rows with history, as the user's table.

        Each is made from the rows before it, with the coefficients of the whole series. X is None
        or that series; for later rows use `forecast`.
        """
        check_is_fitted(self)
        if X is not None and not self._was_fitted(X):
            raise ValueError(
                "predict returns one-step predictions in sample: X must be None or the series "
                f"that was fitted, of {self._times_fitted.length} rows. Use forecast(horizon) for "
                "later rows; new rows go into update(X) before it."
            )
        index = self._times_fitted.last(len(self._fitted))
        return self._times_fitted.labeled(self._fitted.astype(self._dtype), index)

    def score(self, X: Any = None, y: Any = None, exog: Any = None) -> float:
        """Return R^2 of one-step predictions of the rows X that follow, or of the fitted ones.

        It compares with the mean of the fitted series; the model does not move.
        """
        check_is_fitted(self)
        if X is None:
            predicted = self._fitted
            seen = self._fitted + self.residuals_
        else:
            seen = self._as_series(X, reset=False)
            U = self._inputs(exog, len(seen))
            predicted = self._model.advance(self._past, seen, U).predicted
        observed = ~np.isnan(seen)
        unexplained = np.square(seen - predicted)[observed].sum()
        total = np.square(seen - self._level)[observed].sum()
        if total > 0:
            return float(1 - unexplained / total)
        return 0.0

    def update(self, X: Any, exog: Any = None) -> Self:
        """Let rows that follow the series pass through the filter; the coefficients stay.

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
        rows = self._as_series(given.table, reset=False)
        U = self._inputs(exog, len(rows))
        times = self._times.followed(given.times)
        self._past = self._model.advance(self._past, rows, U).past
        self._seen = np.concatenate([self._seen, rows])
        self._seen_inputs = np.concatenate([self._seen_inputs, U])
        self._n_rows += len(rows)
        self._times = times
        return self

    def simulate(
        self,
        horizon: int = 1,
        n_paths: int = 1,
        exog: Any = None,
        random_state: Any = None,
    ) -> Array:
        """Return random futures of the series, an array of shape (n_paths, horizon, n_series)."""
        check_is_fitted(self)
        require_at_least("horizon", horizon, 1)
        require_at_least("n_paths", n_paths, 1)
        random = check_random_state(self.random_state if random_state is None else random_state)
        U = self._inputs(exog, horizon)
        if self._count_noise is not None:
            shares = random.random_sample((n_paths, horizon, self.n_features_in_))
            return self._count_noise.paths(self._past, U, shares).astype(self._dtype)
        self._require_residuals("Simulation")
        if np.isnan(self._seen).any():
            levels, inputs = self._with_unknown(U)
            drawn = cell_draws(self._model, levels, inputs, self.sigma_, n_paths, random)
            return drawn[:, -horizon:].astype(self._dtype)
        values, vectors = np.linalg.eigh(self.sigma_)
        root = vectors * np.sqrt(np.maximum(values, 0))
        innovations = random.standard_normal((n_paths, horizon, len(root))) @ root.T
        return self._model.paths(self._past, U, innovations).astype(self._dtype)

    def impulse_response(self, horizon: int = 10) -> Array:
        """Return Psi_0..Psi_horizon, of shape (horizon + 1, n_series, n_series).

        Entry [h, i, j] is the effect of one unit in series j on series i, h times later.
        """
        check_is_fitted(self)
        require_at_least("horizon", horizon, 0)
        self._require_residuals("An impulse response")
        return self._model.responses(horizon)

    def _inputs(self, exog: Any, rows: int) -> Array:
        """Return the inputs of the next rows, with the waves of the season."""
        given = np.zeros((rows, 0))
        if exog is not None or self._known.names:
            index = None
            if self._times.index is not None:
                index = self._times.future(rows)
            given = self._known.values(exog, index, rows)
        if self.season_ == 1:
            return given
        waves = self._orders_found.waves(self._n_rows + np.arange(rows))
        return np.concatenate([given, waves], axis=1)

    def _as_series(self, X: Any, reset: bool) -> Array:
        """Return a series as float64, NaN at missing entries; a single one may be a vector."""
        rows = as_series(self, SeriesRows.of(X, check=False).table, reset)
        if reset:
            self._dtype = rows.dtype
        return rows.astype(np.float64)

    def _was_fitted(self, X: Any) -> bool:
        """Return whether X is the series of the fit, judged by its observed rows with history."""
        try:
            rows = self._as_series(X, reset=False)
        except (TypeError, ValueError):
            return False
        if len(rows) != self._times_fitted.length:
            return False
        seen = self._fitted + self.residuals_
        last = rows[len(rows) - len(seen) :]
        return bool(np.all(np.isnan(last) | np.isclose(last, seen)))

    def _require_residuals(self, what: str) -> None:
        if not self._model.loss.of_residual:
            raise UnsupportedProblem(
                f"{what} needs a loss of residuals, such as 'squared'; {self._model.loss} has none."
            )
