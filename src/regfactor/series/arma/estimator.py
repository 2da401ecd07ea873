"""Vector autoregression with moving-average errors as one convex problem, with forecasts and honest intervals."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from regfactor.core.params import Array, UnsupportedProblem, is_number, is_option
from regfactor.fitting.certificate import Certificate
from regfactor.fitting.columns import unmasked
from regfactor.fitting.factor_estimator import _print_progress
from regfactor.fitting.inputs import refuse_words
from regfactor.fitting.rollback import all_or_nothing
from regfactor.series.arma import fit as fitting
from regfactor.series.arma.checks import (
    checked_inputs,
    checked_loss,
    checked_plan,
    require_whole,
    warn_of,
)
from regfactor.series.arma.fit import Fitted, Plan, Series
from regfactor.series.arma.forecast import Forecast, Times, error_covariance, half_widths
from regfactor.series.arma.model import radius


class RegularizedARMA(BaseEstimator):
    r"""min over A, U, c, W of L(X; sum_i x_{t-i} A_i' + u_t U' + c + S(W)) + ridge |A, U|^2 / 2 + lam |W|_*.

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
    p : int or "bic", default="bic"
        Lags of the autoregression; "bic" takes the least-squares VAR of least BIC.
    q : int or "auto", default="auto"
        Lags of the moving average; "auto" is min(p, 2). With q=0 the model is ridge VAR.
    d : int, default=0
        How often the series is differenced first; forecasts are summed back. Inputs are not
        differenced.
    shrinkage : float or "auto", default=0.1
        lam as a share of the least lam at which W = 0; from 1 on the model is ridge VAR. "auto"
        compares one-step errors over the last quarter of the series, ridge VAR among the
        candidates.
    ridge : float, default=1e-3
        Ridge on A and U, as a share of the mean squared length of their regressors.
    loss : str or Loss, default="squared"
        "squared", or "huber" and "smoothed_l1" against outlying errors, on series standardized by
        medians; "poisson" and "logistic" for counts and 0/1 series, where the formula is that of
        the predictor (no differencing, no intervals), the filter is that of the quadratic model at
        the fit, and predictions are shifted to be unbiased.
    intercept : bool, default=True
    exog_lags : int, default=0
        Inputs act at their own time and so many times later.
    max_radius : float or None, default=1.0
        Largest spectral radius of the autoregression. Beyond it A_i is multiplied by c^i, which
        multiplies every root by c, and a warning is given.
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
        Called with every `Iterate`; the run ends when it returns something true.

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
    p_, q_ : int
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

    Notes
    -----
    Missing values (NaN) are tolerated: they are filled on straight lines, and by turns of
    fitting and replacing them by fitted values (with d > 0 by lines alone). The certificate is that
    of the completed series. That lets a series with gaps be fitted; it is no imputation method.

    The variant with max_j |B_j|_F in place of the sum (White 2014, theorem 10) is left out: for q =
    1 it is the same model with another lam.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import RegularizedARMA
    >>> t = np.arange(120)
    >>> X = np.column_stack([np.sin(t / 3), np.cos(t / 3)]) + 0.1 * np.random.default_rng(0).normal(size=(120, 2))
    >>> model = RegularizedARMA(p=2, q=1).fit(X)
    >>> model.forecast(3, level=0.9).mean.shape
    (3, 2)
    >>> bool(model.relative_gap_ <= 1e-4)
    True
    """

    def __init__(
        self,
        p: int | str = "bic",
        q: int | str = "auto",
        d: int = 0,
        shrinkage: float | str = 0.1,
        ridge: float = 1e-3,
        loss: Any = "squared",
        intercept: bool = True,
        exog_lags: int = 0,
        max_radius: float | None = 1.0,
        standardize: bool = True,
        *,
        shocks: bool = False,
        max_iter: int = 1000,
        tol: float = 1e-4,
        time_limit: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        self.p = p
        self.q = q
        self.d = d
        self.shrinkage = shrinkage
        self.ridge = ridge
        self.loss = loss
        self.intercept = intercept
        self.exog_lags = exog_lags
        self.max_radius = max_radius
        self.standardize = standardize
        self.shocks = shocks
        self.max_iter = max_iter
        self.tol = tol
        self.time_limit = time_limit
        self.verbose = verbose
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any = None, exog: Any = None) -> Self:
        """Fit to a series whose rows are times.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_series)
        y : ignored
        exog : array-like of shape (n_samples, n_inputs), optional

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            loss = checked_loss(self)
            times = Times.of(X)
            levels = self._numbers(X, reset=True)
            U = checked_inputs(exog, len(levels), None)
            plan = checked_plan(self, levels, U, loss)
            if is_option(self.shrinkage, "auto"):
                shrinkage = 0.1
            else:
                shrinkage = float(self.shrinkage)
            if np.isnan(levels).any():
                levels = fitting.completed(levels, U, plan, shrinkage)
            series = Series.of(levels, U, self.d)
            losses = None
            if is_option(self.shrinkage, "auto"):
                shrinkage, losses = fitting.choose_shrinkage(series, plan)
            fit = fitting.estimate(
                series,
                plan,
                shrinkage,
                tol=self.tol,
                max_iter=self.max_iter,
                time_limit=self.time_limit,
                callback=self.callback,
                progress=_print_progress if self.verbose else None,
            )
            self._publish(fit, series, plan, times)
            self.shrinkage_ = shrinkage
            if losses is not None:
                self.shrinkages_ = np.array(fitting.SHRINKAGES[: len(losses)])
                self.validation_loss_ = losses
        return self

    def _publish(self, fit: Fitted, series: Series, plan: Plan, times: Times) -> None:
        """Set the fitted attributes, all at once at the end."""
        model = fit.model
        solution = fit.solution
        problem = fit.problem
        self._model = model
        self._past = fit.past
        self._freedom = fit.freedom
        self._times = self._times_fitted = times
        self.ar_ = model.ar
        self.exog_ = model.exog
        self.ma_ = model.ma
        self.kappa_ = fit.kappa
        if model.intercept is None:
            self.intercept_ = np.zeros(len(model.spread))
        else:
            self.intercept_ = model.intercept
        self.p_ = plan.p
        self.q_ = plan.q
        self.lam_ = float(problem.alpha)
        self.lam_max_ = problem.alpha_max()
        self.radius_ = radius(model.ar)
        self.scaled_ = fit.scaled
        seen = series.X[len(series.X) - len(fit.predicted) :]
        self.residuals_ = seen - fit.predicted
        self._fitted = series.levels[len(series.levels) - len(seen) :] - self.residuals_
        self.sigma_ = error_covariance(self.residuals_, fit.freedom, plan.q)
        self._level = series.levels.mean(axis=0)
        self.objective_ = solution.objective
        self.status_ = solution.status
        self.solver_ = solution.solver
        self.n_iter_ = solution.n_iter
        self.history_ = solution.history
        self.certificate_ = Certificate(
            solution.objective,
            solution.bound,
            solution.rigorous,
            problem.floor,
        )
        self.gap_ = self.certificate_.gap
        self.relative_gap_ = self.certificate_.relative_gap
        if plan.shocks:
            self.shocks_ = fit.shocks
        warn_of(self, fit)

    def forecast(self, horizon: int = 1, exog: Any = None, level: float | None = None) -> Forecast:
        """Return the means of the next times, and limits between which a share `level` of them lies.

        Limits are those of Gaussian innovations, widened for the degrees of freedom of the
        coefficients.

        Parameters
        ----------
        horizon : int, default=1
        exog : array-like of shape (horizon, n_inputs), optional
            Inputs at these times; needed where the model has inputs.
        level : float in (0, 1), optional

        Returns
        -------
        Forecast
        """
        check_is_fitted(self)
        require_whole("horizon", horizon, 1)
        U = self._future_inputs(exog, horizon)
        mean = self._model.forecast(self._past, U, horizon).astype(self._dtype)
        if level is None:
            return Forecast(mean, times=self._times)
        if not (is_number(level) and 0 < level < 1):
            raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
        self._require_residuals("Intervals")
        psi = self._model.responses(horizon - 1)
        N = len(self.residuals_)
        half = half_widths(psi, self.sigma_, level, self._freedom, N).astype(self._dtype)
        return Forecast(mean, mean - half, mean + half, level, self._times)

    def predict(self, X: Any = None) -> Any:
        """Return the one-step predictions of the rows that were fitted and have history, in the user's kind of table.

        Each is made from the rows before it, with the coefficients of the whole series. X is None
        or that series: what comes after it is asked of `forecast`.
        """
        check_is_fitted(self)
        if X is not None and not self._was_fitted(X):
            raise ValueError(
                "predict tells one-step predictions in sample: X must be None or the series that was fitted, of "
                f"{self._times_fitted.length} rows. What comes next is told by forecast(horizon); new rows go into "
                "update(X) before it.",
            )
        return self._times_fitted.labeled(
            self._fitted.astype(self._dtype),
            self._times_fitted.last(len(self._fitted)),
        )

    def score(self, X: Any = None, y: Any = None, exog: Any = None) -> float:
        """Return R^2 of one-step predictions: of the rows X that follow the series, or of the fitted ones.

        It compares with the mean of the fitted series; the model does not move.
        """
        check_is_fitted(self)
        if X is None:
            predicted = self._fitted
            seen = self._fitted + self.residuals_
        else:
            seen = self._numbers(X, reset=False)
            predicted, _, _ = self._model.advance(
                self._past,
                seen,
                checked_inputs(exog, len(seen), self._model.exog.shape[2]),
            )
        there = ~np.isnan(seen)
        left, all_ = (np.square(seen - base)[there].sum() for base in (predicted, self._level))
        if all_ > 0:
            return float(1 - left / all_)
        return 0.0

    def update(self, X: Any, exog: Any = None) -> Self:
        """Let rows that follow the series pass through the filter; the coefficients stay.

        Parameters
        ----------
        X : array-like of shape (n_new, n_series)
            Missing values are taken as predicted.
        exog : array-like of shape (n_new, n_inputs), optional

        Returns
        -------
        self
        """
        check_is_fitted(self)
        rows = self._numbers(X, reset=False)
        U = checked_inputs(exog, len(rows), self._model.exog.shape[2])
        times = self._times.followed(X)
        _, _, self._past = self._model.advance(self._past, rows, U)
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
        require_whole("horizon", horizon, 1)
        require_whole("n_paths", n_paths, 1)
        self._require_residuals("Simulation")
        random = check_random_state(self.random_state if random_state is None else random_state)
        values, vectors = np.linalg.eigh(self.sigma_)
        root = vectors * np.sqrt(np.maximum(values, 0))
        v = random.standard_normal((n_paths, horizon, len(root))) @ root.T
        return self._model.paths(self._past, self._future_inputs(exog, horizon), v).astype(
            self._dtype,
        )

    def impulse_response(self, horizon: int = 10) -> Array:
        """Return Psi_0..Psi_horizon, (horizon + 1, n_series, n_series): [h, i, j] is what one unit in j does to i."""
        check_is_fitted(self)
        require_whole("horizon", horizon, 0)
        self._require_residuals("An impulse response")
        return self._model.responses(horizon)

    def _numbers(self, X: Any, reset: bool) -> Array:
        """Return a series as floats with NaN at holes; a single one may come as a vector."""
        if np.ndim(X) == 1 and not reset and self.n_features_in_ > 1:
            raise ValueError(
                f"X has one dimension, but the model has {self.n_features_in_} series: give a table with a row for "
                "each time, also where there is one, as S[:1] or S.iloc[:1] instead of S[0] or S.iloc[0].",
            )
        if np.ndim(X) == 1 and np.size(X):
            X = X.to_frame() if hasattr(X, "to_frame") else np.reshape(X, (-1, 1))
        if hasattr(X, "iloc"):
            index = "set it as the index, X.set_index({column!r})"
        else:
            index = "leave it out"
        refuse_words(X, remedy=f"If it tells the times of the rows, {index}; if not, correct it.")
        X = validate_data(
            self,
            unmasked(X),
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            reset=reset,
        )
        if reset:
            self._dtype = X.dtype
        return np.asarray(X, np.float64)

    def _was_fitted(self, X: Any) -> bool:
        """Whether X is the series of the fit, as far as its rows with history tell where X has no holes."""
        try:
            rows = self._numbers(X, reset=False)
        except (TypeError, ValueError):
            return False
        seen = (self._fitted + self.residuals_)[-len(rows) :]
        last = rows[len(rows) - len(seen) :]
        return len(rows) == self._times_fitted.length and bool(
            np.all(np.isnan(last) | np.isclose(last, seen)),
        )

    def _future_inputs(self, exog: Any, horizon: int) -> Array:
        return checked_inputs(exog, horizon, self._model.exog.shape[2])

    def _require_residuals(self, what: str) -> None:
        if not self._model.loss.of_residual:
            raise UnsupportedProblem(
                f"{what} needs a loss of residuals, such as 'squared'; {self._model.loss} has none.",
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that holes are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
