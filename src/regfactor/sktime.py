"""AutoForecaster and RegularizedARMA as forecasters of sktime, which is an optional dependency."""

from __future__ import annotations

import importlib
from typing import Any, Self

import numpy as np

from regfactor.core.params import Array, install_hint
from regfactor.series.arma.estimator import RegularizedARMA
from regfactor.series.forecaster import AutoForecaster as SeriesForecaster

try:
    from sktime.datatypes import update_data
    from sktime.forecasting.base import BaseForecaster, ForecastingHorizon
except ImportError as error:
    raise ImportError(f"regfactor.sktime needs sktime: {install_hint('sktime')}.") from error

FITTED = (
    "ar",
    "exog",
    "intercept",
    "ma",
    "sigma",
    "kappa",
    "p",
    "q",
    "radius",
    "relative_gap",
    "shrinkage",
)


class _Forecaster(BaseForecaster):
    """The common part: quantiles and intervals of a fitted `model_`, and inputs of the future."""

    _tags = {
        "authors": "regfactor developers",
        "maintainers": "regfactor developers",
        "y_inner_mtype": "pd.DataFrame",
        "X_inner_mtype": "pd.DataFrame",
        "requires-fh-in-fit": False,
        "capability:multivariate": True,
        "capability:exogenous": True,
        "capability:insample": False,
        "capability:pred_int": True,
        "capability:pred_int:insample": False,
        "capability:missing_values": True,
        "capability:non_contiguous_X": False,
        "capability:update": True,
        "capability:categorical_in_X": False,
    }
    # the rows that a refit needs are kept here, as _cur_y and _cur_X
    _config = {"remember_data": False}
    # sktime sets these where its own memory is switched on
    _y = None
    _X = None

    def _predict_quantiles(self, fh: Any, X: Any, alpha: list[float]) -> Any:
        """Return quantiles; sktime's own way from intervals mixes up several series."""
        columns = self._get_columns(method="predict_quantiles", alpha=alpha)
        return self._framed(self._quantiles(fh, X, alpha), fh, columns)

    def _predict_interval(self, fh: Any, X: Any, coverage: list[float]) -> Any:
        """Return limits that hold given shares of what comes."""
        ends = [0.5 + sign * level / 2 for level in coverage for sign in (-1, 1)]
        columns = self._get_columns(method="predict_interval", coverage=coverage)
        return self._framed(self._quantiles(fh, X, ends), fh, columns)

    def _quantiles(self, fh: Any, X: Any, alpha: list[float]) -> Array:
        """Return quantiles by times (down) and by series, then alpha (across)."""
        steps = np.asarray(fh.to_relative(self.cutoff).to_numpy(), int)
        exog = self._ahead(X, steps)
        table: list[Array | None] = []
        for share in alpha:
            level = abs(2 * share - 1)
            made = self.model_.forecast(int(steps.max()), exog=exog, level=float(level) or None)
            if level == 0:
                table.append(made.mean)
            elif share < 0.5:
                table.append(made.lower)
            else:
                table.append(made.upper)
        ahead = np.array(table)[:, steps - 1]
        return ahead.transpose(1, 2, 0).reshape(len(steps), -1)

    def _ahead(self, X: Any, steps: Array) -> Array | None:
        """Return the inputs of every time up to the last one wanted."""
        if X is None:
            return None
        last = int(steps.max())
        horizon = ForecastingHorizon(np.arange(1, last + 1), is_relative=True, freq=self._cutoff)
        index = horizon.to_absolute_index(self.cutoff)
        missing = index.difference(X.index)
        if len(missing):
            raise ValueError(
                f"X has no row for {missing[0]}: forecasts {last} steps ahead need the "
                "inputs of every time until then."
            )
        return _inputs(X.loc[index])

    def _framed(self, values: Array, fh: Any, columns: Any) -> Any:
        index = fh.get_expected_pred_idx(y=self._cur_y, cutoff=self.cutoff)
        return importlib.import_module("pandas").DataFrame(values, index=index, columns=columns)


class RegularizedARMAForecaster(_Forecaster):
    """min over A, U, c, W of L(X; sum_i x_{t-i} A_i' + u_t U' + c + S(W)) + penalties.

    `regfactor.RegularizedARMA` behind sktime's interface: vector series, inputs, intervals, missing
    values. `update` refits to all rows seen; with `update_params=False` new rows pass through the
    Kalman filter and the coefficients stay. Predictions inside the sample are one step ahead; where
    there is no history yet, the mean of the series.

    Parameters
    ----------
    p, q, d, shrinkage, ridge, loss, intercept, exog_lags, max_radius, standardize,
    shocks, max_iter, tol
        As those of `regfactor.RegularizedARMA`.

    Attributes
    ----------
    model_ : RegularizedARMA
        The fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from regfactor.sktime import RegularizedARMAForecaster
    >>> X = np.random.default_rng(0).normal(size=(80, 2)).cumsum(axis=0)
    >>> months = pd.period_range("2001-01", periods=80, freq="M")
    >>> y = pd.DataFrame(X, columns=["a", "b"], index=months)
    >>> forecaster = RegularizedARMAForecaster(p=1, q=1, d=1).fit(y)
    >>> forecaster.predict(fh=[1, 2, 3]).shape
    (3, 2)
    """

    _tags = {"capability:insample": True}

    def __init__(
        self,
        p: int | str = "bic",
        q: int | str = "auto",
        d: int | str = "auto",
        season: int | str = "auto",
        shrinkage: float | str = "auto",
        ridge: float | str = "minnesota",
        loss: Any = "squared",
        intercept: bool = True,
        exog_lags: int = 0,
        max_radius: float | None = 1.0,
        standardize: bool = True,
        shocks: bool = False,
        max_iter: int = 1000,
        tol: float = 1e-4,
    ) -> None:
        self.p = p
        self.q = q
        self.d = d
        self.season = season
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
        super().__init__()

    def _fit(self, y: Any, X: Any, fh: Any) -> Self:
        """Fit to a frame whose rows are times."""
        rows = y.to_numpy(float)
        self.model_ = RegularizedARMA(**self.get_params(deep=False)).fit(rows, exog=_inputs(X))
        self._cur_y = y
        self._cur_X = X
        fitted = self.model_.predict()
        before = np.tile(np.nanmean(rows, axis=0), (len(rows) - len(fitted), 1))
        self._one_step = np.vstack([before, fitted])
        return self

    def _update(self, y: Any, X: Any = None, update_params: bool = True) -> Self:
        """Refit to all rows, or let the new ones pass through the filter."""
        new = ~y.index.isin(self._cur_y.index)
        y_all = update_data(self._cur_y, y)
        X_all = self._cur_X if X is None else update_data(self._cur_X, X)
        if update_params:
            return self._fit(y_all, X_all, None)
        rows = y[new].to_numpy(float)
        inputs = _inputs(X if X is None else X.loc[y.index[new]])
        steps = [self._one_step]
        for t in range(len(rows)):
            ahead = None if inputs is None else inputs[t : t + 1]
            steps.append(self.model_.forecast(1, exog=ahead).mean)
            self.model_.update(rows[t : t + 1], exog=ahead)
        self._cur_y = y_all
        self._cur_X = X_all
        self._one_step = np.vstack(steps)
        return self

    def _predict(self, fh: Any, X: Any) -> Any:
        """Return the means at the times of the horizon."""
        steps = np.asarray(fh.to_relative(self.cutoff).to_numpy(), int)
        values = self._one_step
        if steps.max() > 0:
            made = self.model_.forecast(int(steps.max()), exog=self._ahead(X, steps))
            values = np.vstack([values, made.mean])
        places = len(self._one_step) - 1 + steps
        if places.min() < 0:
            raise ValueError(
                f"The series has {len(self._one_step)} rows; there is none {-steps.min()} before "
                "its end."
            )
        return self._framed(values[places], fh, self._get_columns())

    def _get_fitted_params(self) -> dict[str, Any]:
        return {name: getattr(self.model_, f"{name}_") for name in FITTED}

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return settings with which sktime tests the class."""
        return [{"p": 1, "q": 1}, {"p": 2, "q": 1, "d": 1, "shrinkage": 0.5, "exog_lags": 1}]


class AutoForecaster(_Forecaster):
    """x_{t+h} = sum over banks b of s_b sum over members m of w_bm f_bm(h) + error.

    `regfactor.AutoForecaster` behind sktime's interface: one or many series, inputs, intervals,
    missing values, a calendar. `update` refits to all rows seen; with `update_params=False` new
    rows pass through the models, and coefficients and weights stay.

    Parameters
    ----------
    season, log, horizon, calendar
        As those of `regfactor.AutoForecaster`.

    Attributes
    ----------
    model_ : regfactor.AutoForecaster
        The fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from regfactor.sktime import AutoForecaster
    >>> X = np.random.default_rng(0).normal(size=(80, 2)).cumsum(axis=0)
    >>> months = pd.period_range("2001-01", periods=80, freq="M")
    >>> y = pd.DataFrame(X, columns=["a", "b"], index=months)
    >>> AutoForecaster().fit(y).predict(fh=[1, 2, 3]).shape
    (3, 2)
    """

    def __init__(
        self,
        season: Any = "auto",
        log: Any = "auto",
        horizon: int | None = None,
        calendar: Any = None,
    ) -> None:
        self.season = season
        self.log = log
        self.horizon = horizon
        self.calendar = calendar
        super().__init__()

    def _fit(self, y: Any, X: Any, fh: Any) -> Self:
        """Fit to a frame whose rows are times."""
        model = SeriesForecaster(**self.get_params(deep=False))
        self.model_ = model.fit(self._rows(y), exog=_inputs(X))
        self._cur_y = y
        self._cur_X = X
        return self

    def _rows(self, y: Any) -> Any:
        """Return an array; a frame where its dates are used."""
        if self.calendar is None:
            return y.to_numpy(float)
        return y

    def _update(self, y: Any, X: Any = None, update_params: bool = True) -> Self:
        """Refit to all rows, or let the new ones pass through the models."""
        new = ~y.index.isin(self._cur_y.index)
        y_all = update_data(self._cur_y, y)
        X_all = self._cur_X if X is None else update_data(self._cur_X, X)
        if update_params:
            return self._fit(y_all, X_all, None)
        if new.any():
            inputs = _inputs(X if X is None else X.loc[y.index[new]])
            self.model_.update(self._rows(y[new]), exog=inputs)
        self._cur_y = y_all
        self._cur_X = X_all
        return self

    def _predict(self, fh: Any, X: Any) -> Any:
        """Return the means at the times of the horizon."""
        steps = np.asarray(fh.to_relative(self.cutoff).to_numpy(), int)
        made = self.model_.forecast(int(steps.max()), exog=self._ahead(X, steps))
        return self._framed(made.mean[steps - 1], fh, self._get_columns())

    def _get_fitted_params(self) -> dict[str, Any]:
        return {"season": self.model_.season_, "weights": self.model_.weights_}

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return settings with which sktime tests the class."""
        return [{}, {"season": 1, "log": False, "horizon": 2}]


def _inputs(X: Any) -> Array | None:
    if X is None or X.shape[1] == 0:
        return None
    return X.to_numpy(float)
