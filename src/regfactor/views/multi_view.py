"""Two or more views of the same rows: codes that they share, and parts that one view alone has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from regfactor.core.factors import FactorPoint
from regfactor.core.loop import Solution
from regfactor.core.params import Array, is_option
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.conformal import PredictionInterval
from regfactor.fitting.factor_estimator import TABLE_CONSTRAINTS, FactorEstimator, TableInputs
from regfactor.fitting.gross_errors import GrossErrors, warn_of_gross_errors
from regfactor.fitting.inputs import as_float_table, codes_of, row_weights
from regfactor.fitting.noise import (
    GROSS_FACTOR,
    NOISE,
    column_noise,
    gradient_size,
    is_robust,
    noise_deviation,
    noise_huber,
    noise_strength,
    without_gross_errors,
)
from regfactor.fitting.parameters import AUTO, NOISE_OPTION, POSITIVE, parametrized
from regfactor.fitting.side_by_side import (
    AUTO_LOSS,
    ViewUnits,
    is_vector,
    null_gradient,
    units,
    with_missing_as_nan,
)
from regfactor.losses import Huber, Loss, Stacked, as_loss
from regfactor.penalties import Trace
from regfactor.problems import Convex
from regfactor.views.explained import ExplainedVariance, explained_shares
from regfactor.views.shared_private import SharedPrivate
from regfactor.views.stacked_ridge import StackedRidge, stacked_ridge
from regfactor.views.two_view import TrainingViews
from regfactor.views.view_tables import (
    STACKED,
    Layout,
    ViewColumns,
    checked_tables,
    given_views,
    stacked_layout,
)


@parametrized
class MultiViewSubspace(FactorEstimator):
    """min over Z, P, b of sum_v L_v(Z_v + P_v + b_v; X_v) + alpha (|Z|_tr + sum_v w_v |P_v|_tr).

    Z = [Z_1, ..., Z_V] = codes @ components is shared by all views, and P_v is private to view v.
    The weights w_v = (sqrt(n) + sqrt(d_v)) / (sqrt(n) + sqrt(d)), for d_v of d columns, are those
    at which noise is as hard to fit by private components as by shared ones; structure of several
    views is cheaper as a shared component, that of one view as a private one. Ranks are found by
    themselves, entries and whole views may be missing, and since the problem is convex the fit
    comes with a duality gap.

    Parameters
    ----------
    alpha : float, "noise" or "auto", default="noise"
        Strength of the norm. "noise" is the strength above which no component is fitted to noise
        alone, sigma (sqrt(n) + sqrt(d)) for noise of deviation sigma, found robustly. "auto" tries
        20 strengths from `alpha_max_` down to a thousandth, and takes the one that predicts a
        random tenth of the entries, which is held out, best.
    loss : str, Loss, list or dict of them, default="auto"
        How predictions are compared with entries, in all views or in each. "auto" is the Huber
        loss at twice the noise. Losses with kinks need `private=False`.
    scale : bool, default=True
        Whether columns count alike whatever their units, as in `TwoViewSubspace`.
    private : bool, default=True
        Whether views have private parts. Without them the norm is the trace norm of all views
        side by side.
    regression : {"auto", "linear"}, default="auto"
        How `predict_view` predicts a view from others, as in `TwoViewSubspace`.
    fit_intercept : bool, default=True
        Whether to fit unpenalized column offsets.
    rule : {"min", "1se"}, default="min"
        Of the strengths tried by `alpha="auto"`, take the best, or the largest within one standard
        error of it.
    sparse_zeros : {"missing", "observed"}, default="missing"
        What the absent entries of a sparse matrix are. Sparse views are held as dense ones.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Relative duality gap at which the fit stops.
    time_limit : float, optional
        Seconds after which the fit stops; a warning then states the gap.
    verbose : int, default=0
        1 shows a line with the objective and the gap.
    random_state : int, optional
        Seed of the held-out entries of `alpha="auto"`.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns a true value.

    Attributes
    ----------
    views_ : list
        Names of the views, their positions where they have none.
    codes_ : ndarray of shape (n_samples, n_shared)
        Shared codes.
    components_ : ndarray of shape (n_shared, n_features)
        Shared components of all views side by side, in the units of the fit: data divided by
        `scale_`.
    view_components_ : list or dict of ndarray of shape (n_shared, n_view_features)
    private_codes_, private_components_ : list or dict of ndarray
        Those of the private part of each view.
    shared_, private_ : list or dict of ndarray of shape (n_samples, n_view_features)
        The shared and the private part of each view, in the units of the data.
    explained_ : ndarray of shape (n_views, n_shared + 1)
        Share of the variance of each view that each shared component explains, and in the last
        column its private part; without gross errors, where the loss of the view is robust.
        `explain()` is the same as a table.
    view_weight_ : ndarray of shape (n_views,)
        Share of the squared size of the shared part that lies in each view.
    intercept_, scale_ : ndarray of shape (n_features,)
    noise_ : float
        With `alpha="noise"` or `loss="auto"`: the deviation of the noise, in the units of the fit.
    alpha_, alpha_max_ : float
    objective_, gap_, relative_gap_ : float
    certificate_ : Certificate
        `str(certificate_)` states in one sentence how far the fit can be from the optimum.

    See Also
    --------
    TwoViewSubspace : Two views, each with its own bound on the components.
    regfactor.plots.ExplainedVarianceDisplay : `explained_` as a picture.

    Notes
    -----
    The certificate is that of the problem above, in which the norm of the shared part is the trace
    norm of all views. With a bound on the components of each view instead, as in
    `TwoViewSubspace`, no closed form of the norm is known for three views and more;
    `regfactor.baselines.MultiViewRelaxation` has a relaxation of it.

    Rows of frames are matched by their index: a row that a frame lacks is a missing view. The
    fitted model keeps the training tables, from which regressions are learned.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import MultiViewSubspace
    >>> rng = np.random.default_rng(0)
    >>> shared, own = rng.normal(size=(200, 2)), rng.normal(size=(200, 1))
    >>> views = [shared @ rng.normal(size=(2, d)) for d in (8, 6, 5)]
    >>> views = [view + 0.1 * rng.normal(size=view.shape) for view in views]
    >>> views[2] += own @ rng.normal(size=(1, 5))  # what the third view alone has
    >>> model = MultiViewSubspace().fit(views)
    >>> model.codes_.shape
    (200, 2)
    >>> model.explained_[:, -1].round(1)  # by what a view alone has
    array([0.1, 0. , 0.2])
    >>> model.predict_view([views[0], views[1], None], target=2).shape
    (200, 5)
    """

    _matches_index = True
    _parameter_constraints = {
        **TABLE_CONSTRAINTS,
        "alpha": [POSITIVE, AUTO, NOISE_OPTION],
        "loss": [str, Loss, list, tuple, dict],
        "scale": ["boolean"],
        "private": ["boolean"],
        "regression": [StrOptions({"auto", "linear"})],
        "fit_intercept": ["boolean"],
    }

    alpha: Any = "noise"
    loss: Any = "auto"
    scale: bool = True
    private: bool = True
    _: KW_ONLY
    regression: str = "auto"
    fit_intercept: bool = True
    rule: str = "min"
    sparse_zeros: str = "missing"
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        views: Any = None,
    ) -> Self:
        """Fit to two or more tables of the same rows.

        Parameters
        ----------
        X : list of tables, dict of tables, MuData, or one table
            NaN marks a missing entry, a row of NaN a missing view.
        y : table, optional
            The second of two views, where X is the first.
        sample_weight : array-like of shape (n_samples,), optional
        views : dict, list or array-like of shape (n_features,), optional
            The views of one table: columns by the names of the views, a list of columns for each
            view, or the view of each column.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, views)

    def _read(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        views: Any = None,
        /,
    ) -> TableInputs:
        self._noise = None
        table = self._read_views(X, y, views)
        rows = row_weights(table, sample_weight)
        parts = self._layout.split(table)
        self._losses = self._view_losses()
        self._units = ViewUnits.ones(table.shape[1])
        if self.scale:
            self._units = units(self._losses, parts, rows, self.fit_intercept)
        self._training = TrainingViews(table, rows)
        scaled = self._units.divide(table)
        strengths = self._set_noise(scaled, rows)
        self._private_weights = strengths / self._noise_alpha
        inputs = TableInputs.of(
            scaled,
            self._joint_loss(),
            rows,
            columns=self._units.column_weights,
            names=None,
        )
        if self._noise is not None and all(is_robust(loss) for loss in self._losses):
            return inputs.without_extremes()
        return inputs

    def _read_views(self, X: Any, y: Any, views: Any) -> Array:
        """Return all views side by side, and remember their columns."""
        given = given_views(X, y)
        if given is None:
            table = with_missing_as_nan(as_float_table(self, X, None, reset=True))
            d = table.shape[1]
            names = list(getattr(self, "feature_names_in_", map(str, range(d))))
            self._layout = stacked_layout(views, d, names)
            self._columns: list[ViewColumns] = []
            self._require_views()
            return table[:, self._layout.order]
        if views is not None:
            raise ValueError(
                "views names the columns of each view in one table; X is a list of views already."
            )
        self._columns = [ViewColumns(self.sparse_zeros) for _ in given.tables]
        empty = [name for name, t in zip(given.names, given.tables, strict=True) if t is None]
        if empty:
            raise ValueError(f"View {empty[0]!r} is None; in a fit, give NaN where it is missing.")
        tables = checked_tables(self, given.tables, self._columns, None, given.names)
        sizes = tuple(table.shape[1] for table in tables)
        self._layout = Layout(
            given.names,
            sizes,
            given.form,
            np.arange(sum(sizes)),
        )
        self._require_views()
        dtype = np.result_type(*tables)
        return np.hstack([table.astype(dtype, copy=False) for table in tables])

    def _require_views(self) -> None:
        if len(self._layout.names) < 2:
            raise ValueError(
                f"{type(self).__name__} needs two or more views, got one; for one table use "
                "ConvexSubspace."
            )

    def _view_losses(self) -> tuple[Loss, ...]:
        """Return the loss of each view; "auto" is a Huber loss, until the noise is known."""
        return tuple(Huber() if one == AUTO_LOSS else as_loss(one) for one in self._loss_names())

    def _loss_names(self) -> list[Any]:
        """Return what was given as the loss of each view."""
        names = self._layout.names
        if isinstance(self.loss, str | Loss):
            return [self.loss] * len(names)
        if isinstance(self.loss, Mapping):
            for view in self.loss:
                self._layout.place(view)
            return [self.loss.get(name, AUTO_LOSS) for name in names]
        given = list(self.loss)
        if len(given) != len(names):
            raise ValueError(f"loss has {len(given)} losses for {len(names)} views.")
        return given

    def _joint_loss(self) -> Loss:
        first = self._losses[0]
        if all(loss == first for loss in self._losses) and not first.rowwise:
            return first
        return Stacked(tuple(zip(self._layout.slices, self._losses, strict=True)))

    def _set_noise(self, scaled: Array, rows: Array | None) -> Array:
        """Set losses and the strength that follow from the noise; return the strength of each view.

        Where the strength is given, those of noise of deviation one in all views are their ratios.
        """
        automatic = [is_option(name, AUTO_LOSS) for name in self._loss_names()]
        parts = self._layout.split(scaled)
        sizes = np.ones(len(parts))
        if any(automatic) or is_option(self.alpha, NOISE):
            residual = np.repeat([loss.of_residual for loss in self._losses], self._layout.sizes)
            if residual.any():
                noise = noise_deviation(scaled[:, residual], rows, self.fit_intercept)
                self._noise = noise
                huber = noise_huber(noise)
                chosen = zip(automatic, self._losses, strict=True)
                self._losses = tuple(huber if auto else loss for auto, loss in chosen)
            for v, (loss, part) in enumerate(zip(self._losses, parts, strict=True)):
                if loss.of_residual and self._noise is not None:
                    sizes[v] = gradient_size(loss, self._noise)
                else:
                    weight = self._units.weight[self._layout.slices[v]][0]
                    sizes[v] = weight * null_gradient(loss, part, rows, self.fit_intercept)
        # the mean square over all columns: noise of different sizes has about this norm
        mean = np.sqrt(np.average(np.square(sizes), weights=self._layout.sizes))
        self._noise_alpha = noise_strength(scaled, float(mean), rows) or 1.0
        strengths = [
            noise_strength(part, size, rows) for part, size in zip(parts, sizes, strict=True)
        ]
        return np.where(np.array(strengths) > 0, strengths, self._noise_alpha)

    def _state(self, inputs: TableInputs) -> Convex:
        return self._convex(inputs, self._gauge)

    @property
    def _gauge(self) -> Trace | SharedPrivate:
        if not self.private:
            return Trace()
        return SharedPrivate(self._layout.sizes, tuple(map(float, self._private_weights)))

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[FactorPoint],
        inputs: TableInputs,
        run: Run,
    ) -> Solution[FactorPoint]:
        published = super()._publish(choice, solution, inputs, run)
        layout = self._layout
        gauge = choice.problem.gauge
        self._atoms = self.components_
        codes = self.codes_
        owner = np.full(len(self._atoms), -1)
        if isinstance(gauge, SharedPrivate):
            owner = gauge.view_of(self._atoms)
        self._owner = owner
        self.views_ = list(layout.names)
        self.scale_ = self._units.divisor
        self.codes_ = codes[:, owner < 0]
        self.components_ = self._atoms[owner < 0]
        self._n_features_out = len(self.components_)
        self.view_components_ = layout.as_given(layout.split(self.components_))
        self._publish_parts(codes)
        self.explained_ = explained_shares(
            self._without_gross_errors(inputs, codes) - self.intercept_,
            self.codes_,
            self.components_,
            codes,
            self._atoms,
            owner,
            layout.slices,
        )
        squares = np.square(self.codes_ @ self.components_).sum(axis=0)
        sums = np.array([squares[columns].sum() for columns in layout.slices])
        self.view_weight_ = np.full(len(sums), 1 / len(sums))
        if sums.any():
            self.view_weight_ = sums / sums.sum()
        self._regressions: dict[str, StackedRidge] = {}
        self._column_noise: Array | None = None
        self._gross_errors: GrossErrors | None = None
        return published

    def _without_gross_errors(self, inputs: TableInputs, codes: Array) -> Array:
        """Return the table of the fit; in views of robust losses gross errors are missing."""
        table = np.asarray(inputs.table)
        residuals = table - self.intercept_ - codes @ self._atoms
        limits = GROSS_FACTOR * column_noise(residuals, self._training.rows)
        for loss, columns in zip(self._losses, self._layout.slices, strict=True):
            if not is_robust(loss):
                limits[columns] = np.inf
        with np.errstate(invalid="ignore"):
            return np.where(np.abs(residuals) > limits, np.nan, table)

    def _publish_parts(self, codes: Array) -> None:
        """Set the shared and the private part of each view."""
        layout = self._layout
        private_codes = []
        private_components = []
        for v, columns in enumerate(layout.slices):
            own = self._owner == v
            private_codes.append(codes[:, own])
            private_components.append(self._atoms[own][:, columns])
        self.private_codes_ = layout.as_given(private_codes)
        self.private_components_ = layout.as_given(private_components)
        divisor = self._units.divisor.astype(codes.dtype)
        shared = (self.codes_ @ self.components_) * divisor
        private = (codes @ self._atoms) * divisor - shared
        self.shared_ = layout.as_given(layout.split(shared))
        self.private_ = layout.as_given(layout.split(private))

    def explain(self) -> ExplainedVariance:
        """Return the share of the variance of each view by components, as a table in words."""
        check_is_fitted(self)
        return ExplainedVariance(self.views_, self.explained_)

    def _table(self, X: Any, y: Any = None) -> Array:
        """Return new rows of all views side by side, with NaN for a missing view."""
        layout = self._layout
        given = given_views(X, y)
        if given is None and layout.form == STACKED:
            table = with_missing_as_nan(as_float_table(self, X, None, reset=False))
            return table[:, layout.order]
        names = [0]
        tables = [X]
        if given is not None:
            names = given.names
            tables = given.tables
            if given.form != "dict" and len(tables) > len(layout.names):
                raise ValueError(f"Got {len(tables)} views, the model has {len(layout.names)}.")
        placed: list[Any] = [None] * len(layout.names)
        for name, table in zip(names, tables, strict=True):
            placed[layout.place(name)] = table
        if layout.form == STACKED:
            return self._stacked_parts(placed)
        parts = checked_tables(self, placed, self._columns, layout.sizes, layout.names)
        return np.hstack(parts)

    def _stacked_parts(self, placed: list[Any]) -> Array:
        """Return views given apart to a model of one table."""
        layout = self._layout
        known = [table for table in placed if table is not None]
        if not known:
            raise ValueError(f"All views are missing: give at least one of {layout.names}.")
        out = np.full((np.shape(known[0])[0], sum(layout.sizes)), np.nan)
        for table, place, name in zip(placed, layout.slices, layout.names, strict=True):
            if table is None:
                continue
            checker = ViewColumns(self.sparse_zeros)
            values = with_missing_as_nan(as_float_table(checker, table, None, reset=True))
            if values.shape != out[:, place].shape:
                raise ValueError(
                    f"View {name!r} has the shape {values.shape}, expected {out[:, place].shape}."
                )
            out[:, place] = values
        return out

    def transform(self, X: Any, y: Any = None) -> Array:
        """Return the shared codes of each row, scored alone with the components held fixed.

        Parameters
        ----------
        X : list of tables, dict of tables, MuData, or one table
            As in `fit`; None, or a name that is left out of a dict, for a view that is missing. One
            table is the first view, unless the model was fitted to one table.
        y : table, optional
            The second view.

        Returns
        -------
        ndarray of shape (n_samples, n_shared)
        """
        check_is_fitted(self)
        return self._all_codes(self._table(X, y))[:, self._owner < 0]

    def _all_codes(self, table: Array) -> Array:
        """Return shared and private codes of a table in the units of the data."""
        scaled = self._units.divide(table)
        atoms = self._atoms.astype(scaled.dtype)
        assert self._score is not None
        return self._score(scaled, atoms, self.intercept_.astype(scaled.dtype))

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit, and return the shared codes of the training rows.

        They are scored by the first view alone where the second is a vector.
        """
        self.fit(X, y, **fit_params)
        if y is not None and is_vector(y):
            return self.transform(X)
        return self.codes_

    def inverse_transform(self, X: Any) -> Any:
        """Return the views that shared codes predict, in the units of the data and in their form.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_shared)

        Returns
        -------
        list or dict of ndarray, or one ndarray where the model was fitted to one table
        """
        check_is_fitted(self)
        codes = codes_of(X, len(self.components_))
        return self._layout.in_form(self._in_units(codes @ self.components_))

    def _in_units(self, Z: Array) -> Array:
        """Return predictors of all views as predictions in the units of the data."""
        Z = Z + self.intercept_
        out = np.empty_like(Z)
        for columns, loss in self._loss_parts:
            out[:, columns] = loss.predict(Z[:, columns])
        return out * self._units.divisor.astype(Z.dtype)

    def denoise(self, X: Any, y: Any = None, keep: bool = True) -> Any:
        """Return all views without gross errors and missing entries.

        Parameters
        ----------
        X, y : tables
            As in `transform`.
        keep : bool, default=True
            Whether entries are kept unless they are missing or differ from the reconstruction, the
            shared and the private part, by more than 3.5 robust deviations of the residuals of
            their column. With False all entries are those of the reconstruction.

        Returns
        -------
        list or dict of ndarray, or one ndarray where the model was fitted to one table
        """
        check_is_fitted(self)
        table = self._table(X, y)
        model = self._in_units(self._all_codes(table) @ self._atoms)
        if not keep:
            return self._layout.in_form(model)
        if self._column_noise is None:
            training = self._training.table
            fitted = self._in_units(self._all_codes(training) @ self._atoms)
            self._column_noise = column_noise(training - fitted, self._training.rows)
        return self._layout.in_form(without_gross_errors(table, model, self._column_noise))

    def complete(self, X: Any, y: Any = None) -> Any:
        """Return all views with missing entries filled by their codes and observed ones kept.

        Parameters
        ----------
        X, y : tables
            As in `transform`.

        Returns
        -------
        list or dict of ndarray, or one ndarray where the model was fitted to one table
        """
        check_is_fitted(self)
        table = self._table(X, y)
        model = self._in_units(self._all_codes(table) @ self._atoms)
        return self._layout.in_form(np.where(np.isnan(table), model, table))

    def predict_view(self, views: Any, target: Any, level: float | None = None) -> Any:
        """Return one view, predicted from others, in the units of the data.

        The regression is fitted to the rows of the training tables that have entries of the target
        and of the views given, when it is first asked for. Under robust losses, single entries more
        than 100 interquartile ranges from the median of their column are left out, in new rows with
        a warning.

        Parameters
        ----------
        views : list or dict of tables, or one table
            As in `transform`; the target itself, and views that are None, are not used.
        target : name or position of a view
        level : float, optional
            Share of the entries that intervals shall contain, such as 0.9.

        Returns
        -------
        ndarray of the target; with `level` two such arrays, `lower` and `upper`,
        calibrated by leave-one-out residuals.
        """
        check_is_fitted(self)
        layout = self._layout
        place = layout.place(target)
        table = self._table(views)
        parts = layout.split(table)
        given = []
        for v, part in enumerate(parts):
            if v != place and not np.isnan(part).all():
                given.append(v)
        if not given:
            raise ValueError(
                f"predict_view needs a view other than the target {layout.names[place]!r}."
            )
        key = f"{given} -> {place}"  # a string, as saved models need
        if key not in self._regressions:
            learned = np.where(
                self._gross_errors_of(self._training.table), np.nan, self._training.table
            )
            training = layout.split(learned)
            self._regressions[key] = stacked_ridge(
                np.hstack([training[v] for v in given]),
                training[place],
                self._training.rows,
                kernels=self.regression == "auto",
            )
        regression = self._regressions[key]
        found = self._gross_errors_of(table)
        found[:, layout.slices[place]] = False
        warn_of_gross_errors(found)
        parts = layout.split(np.where(found, np.nan, table))
        inputs = np.hstack([parts[v] for v in given])
        dtype = self.components_.dtype
        if level is None:
            return self._in_domain(regression.predict(inputs), place).astype(dtype)
        limits = regression.interval(inputs, level)
        return PredictionInterval(
            self._in_domain(limits.lower, place).astype(dtype),
            self._in_domain(limits.upper, place).astype(dtype),
        )

    def _gross_errors_of(self, table: Array) -> Array:
        """Return a mask of entries of robust views that are far from all of training."""
        if self._gross_errors is None:
            self._gross_errors = GrossErrors.fit(self._training.table)
        found = self._gross_errors.find(table)
        for loss, part in zip(self._losses, self._layout.split(found), strict=True):
            if not is_robust(loss):
                part[:] = False
        return found

    def _in_domain(self, Y: Array, place: int) -> Array:
        """Return predictions within the range of the data, where a loss is not of the residual."""
        if self._losses[place].of_residual:
            return Y
        seen = self._layout.split(self._training.table)[place]
        return np.clip(Y, np.nanmin(seen), np.nanmax(seen))
