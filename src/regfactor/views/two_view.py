"""Two views of the same rows under one set of codes, at the global optimum."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from regfactor.core.factors import FactorPoint
from regfactor.core.linalg import is_sparse
from regfactor.core.loop import Limits, Solution
from regfactor.core.params import Array, frozen, is_option
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.conformal import PredictionInterval
from regfactor.fitting.factor_estimator import TableInputs
from regfactor.fitting.gross_errors import GrossErrors, warn_of_gross_errors
from regfactor.fitting.inputs import as_float_table, names_of, row_weights
from regfactor.fitting.known import RowsToScore
from regfactor.fitting.labels import named_alike, require_same_rows
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
from regfactor.fitting.selection import COMPARED_FIT_TOL
from regfactor.fitting.side_by_side import (
    AUTO_LOSS,
    SecondView,
    ViewUnits,
    hstack_tables,
    is_vector,
    joint_loss,
    loss_names,
    loss_pair,
    null_gradient,
    second_table,
    split_of,
    units,
    with_missing_as_nan,
)
from regfactor.fitting.two_view_estimator import TWO_VIEW_CONSTRAINTS, TwoViewEstimator
from regfactor.losses import Loss
from regfactor.solvers.base import solve_within
from regfactor.views.code_regression import (
    CodeModel,
    CodeRegression,
    best_prior,
    second_moment,
)
from regfactor.views.stacked_ridge import StackedRidge, predicts_better, stacked_ridge

LEAST_DOUBTFUL = 2e-3  # share of the entries from which on a regression is learned without them
HELD_OUT_FOLDS = 5  # one of which is held out to choose the prior of codes


@frozen
class TrainingViews:
    """The tables of a fit side by side, in the units of the data, and the weights of the rows."""

    table: Any
    rows: Array | None


@parametrized
class TwoViewSubspace(TwoViewEstimator):
    """min over Z, b of L1(Z1 + b1; X1) + L2(Z2 + b2; X2) + alpha |||[Z1, Z2]|||.

    Z = [Z1, Z2] = codes @ components. The norm max_eta |[sqrt(eta) Z1/B1, sqrt(1-eta) Z2/B2]|_tr is
    the least sum of |phi_i| over all factorizations with components |c1_i| <= B1 in the first view
    and |c2_i| <= B2 in the second: each view has its own bound, and neither can buy strength from
    the other. The rank is found by itself, entries and whole views may be missing, and the fit
    comes with a duality gap. One view is predicted from the other by regressions that are fitted
    when they are first asked for.

    Parameters
    ----------
    alpha : float, "noise" or "auto", default="noise"
        Strength of the norm. From `alpha_max_` on, Z is zero. "noise" is the strength above which
        no component is fitted to noise alone, sigma sqrt(B1^2 + B2^2) (sqrt(n) + sqrt(d)) for
        noise of deviation sigma, found robustly. "auto" tries 20 strengths from `alpha_max_` down
        to a thousandth, and takes the one that predicts a random tenth of the entries, which is
        held out, best.
    bounds : pair of float, default=(1.0, 1.0)
        B1 and B2, in the units in which the views are fitted (see `scale`).
    loss : str, Loss or a pair of them, default="auto"
        How predictions are compared with entries, in both views or in each. "auto" is the Huber
        loss at twice the noise.
    n_first : int, float or list, optional
        For one stacked table, the columns of the first view: their number, their share, or their
        names.
    scale : bool, default=True
        Whether columns count alike whatever their units: data under a loss of the residual
        (squared, huber, ...) are divided by the deviation of their column, a robust one where the
        loss is, and other losses are weighted, so that the best constants cost 1/2 for each
        observed entry.
    regression : {"auto", "linear", "codes"}, default="auto"
        How `predict_view` predicts one view from the other. "auto" is an average of ridge
        regressions, of three spectral powers and, from 30 to 5,000 rows, two Gaussian kernels, each
        of the strength of least leave-one-out error; singular values of the fit are shrunk where
        that predicts better. "linear" leaves the kernels out. "codes" is the prediction of the
        factor model, codes being scored by one view under a normal prior of the second moments
        that they have in the fit, of a strength chosen by held-out views.
    fit_intercept : bool, default=True
        Whether to fit unpenalized column offsets.
    rule : {"min", "1se"}, default="min"
        Of the strengths tried by `alpha="auto"`, take the best, or the largest within one standard
        error of it.
    sparse_zeros : {"missing", "observed"}, default="missing"
        What the absent entries of a sparse matrix are.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Relative duality gap at which the fit stops.
    time_limit : float, optional
        Seconds after which the fit stops; a warning then states the gap.
    verbose : int, default=0
        1 shows a line with the objective and the gap.
    random_state : int, optional
        Seed of the held-out entries of `alpha="auto"`, and of the held-out views of
        `regression="codes"`.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns a true value.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, n_atoms)
    components_ : ndarray of shape (n_atoms, n_features)
        Columns of the first view, then of the second, in the units of the fit: data divided by
        `scale_`.
    view_components_ : list of two ndarray
        The same by views; rows have a length of at most B1 and B2.
    view_weight_ : ndarray of shape (2,)
        eta and 1 - eta, the weights of the views. At 1 and 0 the second follows from the first.
    intercept_ : ndarray of shape (n_features,)
        In the units of the fit.
    scale_ : ndarray of shape (n_features,)
        By which the data were divided; predictions are multiplied by it.
    noise_ : float
        With `alpha="noise"` or `loss="auto"`: the deviation of the noise, in the units of the fit.
    alpha_, alpha_max_ : float
    alphas_, validation_loss_ : ndarray
        With `alpha="auto"`.
    objective_, gap_, relative_gap_ : float
    certificate_ : Certificate
        `str(certificate_)` states in one sentence how far the fit can be from the optimum.

    See Also
    --------
    MultiViewSubspace : Two or more views, with parts that one view alone has.
    CanonicalCorrelation : Directions in which two complete views correlate most.
    ReducedRankRegression : The linear regressions of `predict_view` alone.
    ConvexFactorClassifier : The same norm with labels as the second view.

    Notes
    -----
    Fitted to two tables, the first is the one by which scikit-learn counts features, and
    `transform` of the first alone scores rows whose second view is missing. Where the second view
    is a vector, as the target that a pipeline hands on, `fit_transform` does the same. A view more
    than about 1e7 times weaker than the other is lost in rounding when it is not scaled. The
    fitted model keeps the training tables, from which regressions are learned.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import TwoViewSubspace
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.normal(size=(200, 2))
    >>> X1 = shared @ rng.normal(size=(2, 5)) + 0.1 * rng.normal(size=(200, 5))
    >>> X2 = shared @ rng.normal(size=(2, 4)) + 0.1 * rng.normal(size=(200, 4))
    >>> X1[3, 2] = 1e6  # a gross error
    >>> model = TwoViewSubspace().fit(X1, X2)
    >>> clean, _ = model.denoise(X1, X2)
    >>> bool(abs(clean[3, 2]) < 5)
    True
    >>> lower, upper = model.predict_view(X1=X1[5:10], level=0.9)
    >>> lower.shape
    (5, 4)
    """

    _row_names = ("X1", "X2", "sample_weight")
    _parameter_constraints = {
        **TWO_VIEW_CONSTRAINTS,
        "alpha": [POSITIVE, AUTO, NOISE_OPTION],
        "loss": [str, Loss, list, tuple],
        "scale": ["boolean"],
        "regression": [StrOptions({"auto", "linear", "codes"})],
    }

    alpha: Any = "noise"
    bounds: tuple[float, float] = (1.0, 1.0)
    loss: Any = "auto"
    n_first: Any = None
    scale: bool = True
    regression: str = "auto"
    _: KW_ONLY
    fit_intercept: bool = True
    rule: str = "min"
    sparse_zeros: str = "missing"
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to two tables of the same rows, or to one table that holds both views.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_first_features)
            The first view, or both side by side where `n_first` is set. NaN marks a missing entry,
            a row of NaN a missing view.
        y : {array-like, sparse matrix} of shape (n_samples, n_second_features), optional
            The second view.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    def _read(self, X: Any, y: Any = None, sample_weight: Any = None, /) -> TableInputs:
        if np.asarray(sample_weight).ndim == 2:
            raise ValueError(
                "TwoViewSubspace.fit takes two views and then sample_weight, one number for each "
                "row; MultiViewSubspace().fit([X1, X2, X3]) takes more views.",
            )
        self._losses = loss_pair(self.loss)
        if y is None:
            table = self._read_stacked(X)
        else:
            table = self._read_views(X, y)
        rows = row_weights(table, sample_weight)
        self._units = self._view_units(table, rows)
        self._training = TrainingViews(table, rows)
        scaled = self._units.divide(table)
        self._set_noise(scaled, rows)
        names = names_of(self, None, table.shape[1])
        if names is not None:
            names = [names[j] for j in self._order]
        return self._inputs_of(scaled, rows, names)

    def _inputs_of(self, scaled: Any, rows: Array | None, names: Any = None) -> TableInputs:
        """Return both views, in the units of the fit, as the inputs of a problem."""
        inputs = TableInputs.of(
            scaled,
            joint_loss(self._losses, self._n_first),
            rows,
            columns=self._units.column_weights,
            names=names,
        )
        if self._noise is not None and all(is_robust(loss) for loss in self._losses):
            return inputs.without_extremes()
        return inputs

    def _view_units(self, table: Any, rows: Array | None) -> ViewUnits:
        if not self.scale:
            return ViewUnits.ones(table.shape[1])
        return units(self._losses, self._split(table), rows, self.fit_intercept)

    def _split(self, table: Any) -> tuple[Any, Any]:
        """Return both views of a table in which they are side by side."""
        return table[:, : self._n_first], table[:, self._n_first :]

    def _set_noise(self, scaled: Any, rows: Array | None) -> None:
        """Set the losses and the strength that follow from the noise of the views."""
        names = loss_names(self.loss)
        automatic = [is_option(name, AUTO_LOSS) for name in names]
        self._noise = None
        if not any(automatic) and not is_option(self.alpha, NOISE):
            return
        views = self._split(scaled)
        residual = [loss.of_residual for loss in self._losses]
        if all(residual):
            self._noise = noise_deviation(scaled, rows, self.fit_intercept)
        elif any(residual):
            self._noise = noise_deviation(views[residual.index(True)], rows, self.fit_intercept)
        if self._noise is not None:
            huber = noise_huber(self._noise)
            first, second = (
                huber if auto else loss for auto, loss in zip(automatic, self._losses, strict=True)
            )
            self._losses = first, second
        sizes = []
        weights = self._units.weight[[0, -1]]
        for loss, view, weight in zip(self._losses, views, weights, strict=True):
            if loss.of_residual and self._noise is not None:
                sizes.append(gradient_size(loss, self._noise))
            else:
                sizes.append(weight * null_gradient(loss, view, rows, self.fit_intercept))
        deviation = float(np.hypot(*np.multiply(sizes, self._bounds())))
        self._noise_alpha = noise_strength(scaled, deviation, rows) or 1.0

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[FactorPoint],
        inputs: TableInputs,
        run: Run,
    ) -> Solution[FactorPoint]:
        self.scale_ = self._units.divisor
        self._regressions: dict[int, StackedRidge | CodeRegression] = {}
        self._column_noise: Array | None = None
        self._gross_errors: GrossErrors | None = None
        self._leaves_out_doubtful: set[int] = set()
        return super()._publish(choice, solution, inputs, run)

    def _read_views(self, X: Any, y: Any) -> Any:
        """Return both tables as one, and remember their columns."""
        first = as_float_table(self, X, None, reset=True)
        self._second: SecondView | None
        self._second = SecondView(self.sparse_zeros)
        self._target = is_vector(y)
        second = second_table(y, self._second, reset=True)
        self._n_first = first.shape[1]
        self._order = np.arange(first.shape[1] + second.shape[1])
        return hstack_tables(first, second, self._whole)

    def _read_stacked(self, X: Any) -> Any:
        if self.n_first is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: give "
                "the second view, fit(X1, X2), or set n_first, the columns of X that are the "
                "first."
            )
        table = as_float_table(self, X, None, reset=True)
        d = table.shape[1]
        names = list(getattr(self, "feature_names_in_", map(str, range(d))))
        self._second = None
        self._target = False
        self._n_first, self._order = split_of(self.n_first, d, names)
        return self._ordered(table)

    def _ordered(self, table: Any) -> Any:
        table = with_missing_as_nan(table) if self._whole else table
        if np.all(np.diff(self._order) == 1):
            return table
        return table[:, self._order]

    @property
    def _whole(self) -> bool:
        """Whether a sparse table is held as a dense one, since losses differ between columns."""
        return self._losses[0] != self._losses[1] or self._losses[0].rowwise

    def transform(self, X1: Any, X2: Any = None) -> Array:
        """Return the codes of each row, scored alone with the components held fixed.

        Parameters
        ----------
        X1 : {array-like, sparse matrix} or None
            The first view, None where it is missing; of a model of one stacked table, that table,
            or its first view where X2 is given too.
        X2 : {array-like, sparse matrix}, optional
            The second view, None where it is missing.

        Returns
        -------
        ndarray of shape (n_samples, n_atoms)
        """
        check_is_fitted(self)
        return self._scored(self._table(X1, X2))

    def _table(self, X1: Any, X2: Any) -> Any:
        """Return new rows of both views as one table, with NaN for a missing view."""
        if X1 is None and X2 is None:
            raise ValueError("Both views are missing: give at least one of X1 and X2.")
        if self._second is None and X2 is None:
            return self._ordered(as_float_table(self, X1, None, reset=False))
        return self._joined(X1, X2)

    def _joined(self, X1: Any, X2: Any) -> Any:
        """Return both views side by side, NaN for one that is None."""
        if named_alike(X1, X2):
            require_same_rows(X1, X2, ("X1", "X2"))
        n_second = len(self._order) - self._n_first
        first = self._view(X1, "X1", self._n_first)
        second = self._view(X2, "X2", n_second)
        if first is None:
            first = np.full((second.shape[0], self._n_first), np.nan, second.dtype)
        if second is None:
            second = np.full((first.shape[0], n_second), np.nan, first.dtype)
        return hstack_tables(first, second, self._whole)

    def _view(self, X: Any, name: str, width: int) -> Any:
        """Return new rows of one view as numbers; None where it is missing."""
        if X is None:
            return None
        if self._second is not None:
            if name == "X1":
                return as_float_table(self, X, None, reset=False)
            return second_table(X, self._second, reset=False)
        table = second_table(X, SecondView(self.sparse_zeros), True)
        if table.shape[1] != width:
            raise ValueError(f"{name} has {table.shape[1]} columns, the view has {width}.")
        return table

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit, and return the codes of the training rows.

        They are scored by the first view alone where the second is a vector.
        """
        self.fit(X, y, **fit_params)
        if self._target:
            return self.transform(X)
        return self.codes_

    def inverse_transform(self, X: Any) -> Any:
        """Return the views that codes predict, in the units of the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_atoms)

        Returns
        -------
        A pair of ndarray, one for each view; one ndarray where the model was fitted to one
        stacked table.
        """
        return self._as_fitted(self._predicted(X))

    def denoise(self, X1: Any, X2: Any = None, keep: bool = True) -> Any:
        """Return both views, or one stacked table, without gross errors and missing entries.

        Parameters
        ----------
        X1, X2 : {array-like, sparse matrix} or None
            As in `transform`.
        keep : bool, default=True
            Whether entries are kept unless they are missing or differ from the reconstruction by
            more than 3.5 robust deviations of the residuals of their column: data without gross
            errors. With False all entries are those of the reconstruction: the low-rank part,
            which is nearer to the truth where that is of low rank under much noise.

        Returns
        -------
        A pair of ndarray, one for each view; one ndarray where the model was fitted to one
        stacked table.
        """
        check_is_fitted(self)
        table = self._table(X1, X2)
        model = self._predicted(self._known_or_scored(table))
        if not keep:
            return self._as_fitted(model)
        observed = with_missing_as_nan(table)
        model = self._with_missing_views(model, observed)
        return self._as_fitted(without_gross_errors(observed, model, self._residual_noise()))

    def _residual_noise(self) -> Array:
        """Return the robust deviations of the residuals of the fit in each column."""
        if self._column_noise is None:
            residuals = self._training_table() - self._predicted(self.codes_)
            self._column_noise = column_noise(residuals, self._training.rows)
        return self._column_noise

    def _known_or_scored(self, table: Any) -> Array:
        """Return the codes of a table: those of the fit where it is the training table."""
        training = self._training.table
        if not is_sparse(table) and not is_sparse(training):
            if np.array_equal(table, training, equal_nan=True):
                return self.codes_
        return self._scored(table)

    def complete(self, X1: Any, X2: Any = None) -> Any:
        """Return the views with missing entries filled and observed ones kept, as arrays.

        Single entries are filled by the codes of their row; a view that a row has nothing of, by
        the regression of `predict_view`. Parameters are those of `transform`, the result is that
        of `inverse_transform`.
        """
        check_is_fitted(self)
        table = self._table(X1, X2)
        predicted = self._predicted(self._scored(table))
        observed = with_missing_as_nan(table)
        predicted = self._with_missing_views(predicted, observed)
        return self._as_fitted(np.where(np.isnan(observed), predicted, observed))

    def _with_missing_views(self, predicted: Array, observed: Array) -> Array:
        """Return predictions with views that rows have nothing of by regression on the others."""
        missing = [np.isnan(view).all(axis=1) for view in self._split(observed)]
        training = [np.isnan(view).all(axis=1) for view in self._split(self._training_table())]
        if (training[0] | training[1]).all():  # nothing to learn a regression from
            return predicted
        out = predicted.copy()
        for target in (0, 1):
            rows = missing[target] & ~missing[1 - target]
            if rows.any():
                given = self._split(observed)[1 - target][rows]
                self._split(out)[target][rows] = self._regressed(given, target)
        return out

    def _training_table(self) -> Array:
        return with_missing_as_nan(self._training.table)

    def _regressed(self, given: Array, target: int) -> Array:
        """Return a view by its regression on the other, which is fitted when it is first used."""
        regression = self._regression_of(target)
        return self._in_domain(regression.predict(self._usual_view(given, target)), target)

    def _usual_view(self, given: Array, target: int) -> Array:
        """Return new rows of the view that is not the target as its regression has learned."""
        table = self._alone(given, target)
        table[self._gross_errors_of(table)] = np.nan
        if target in self._leaves_out_doubtful:
            table = self._without_doubtful(table)
        return self._split(table)[1 - target]

    def _alone(self, given: Array, target: int) -> Array:
        """Return a table of both views in which the target is missing."""
        table = np.full((len(given), len(self._order)), np.nan)
        self._split(table)[1 - target][:] = given
        return table

    def _gross_errors_of(self, table: Array) -> Array:
        """Return a mask of entries of robust views that are far from all of training."""
        if self._gross_errors is None:
            self._gross_errors = GrossErrors.fit(self._training_table())
        found = self._gross_errors.find(table)
        for loss, part in zip(self._losses, self._split(found), strict=True):
            if not is_robust(loss):
                part[:] = False
        return found

    def _regression_of(self, target: int) -> StackedRidge | CodeRegression:
        if target not in self._regressions:
            self._regressions[target] = self._fit_regression(target)
        return self._regressions[target]

    def predict_view(self, X1: Any = None, X2: Any = None, level: float | None = None) -> Any:
        """Return the view that is not given, in the units of the data.

        The regression is fitted to the rows of the training tables that have entries of both views,
        when it is first asked for. Entries may be missing in training and in new rows. Under robust
        losses, single entries more than 100 interquartile ranges from the median of their column
        are left out, in new rows with a warning.

        Parameters
        ----------
        X1 : array-like of shape (n_samples, n_first_features), optional
        X2 : array-like of shape (n_samples, n_second_features), optional
            Exactly one of them.
        level : float, optional
            Share of the entries that intervals shall contain, such as 0.9.

        Returns
        -------
        ndarray of the other view; with `level` two such arrays, `lower` and
        `upper`. Their distance is calibrated in each column by residuals of rows that were left
        out.
        """
        check_is_fitted(self)
        if (X1 is None) == (X2 is None):
            raise ValueError("predict_view needs exactly one of X1 and X2, and returns the other.")
        target = 1 if X2 is None else 0
        dtype = self.components_.dtype
        given = with_missing_as_nan(self._split(self._joined(X1, X2))[1 - target])
        warn_of_gross_errors(self._gross_errors_of(self._alone(given, target)))
        if level is None:
            return self._regressed(given, target).astype(dtype)
        regression = self._regression_of(target)
        limits = regression.interval(self._usual_view(given, target), level)
        return PredictionInterval(
            self._in_domain(limits.lower, target).astype(dtype),
            self._in_domain(limits.upper, target).astype(dtype),
        )

    def _fit_regression(self, target: int) -> StackedRidge | CodeRegression:
        """Return the regression of a view on the other, fitted to the training tables."""
        table = self._training_table()
        rows = self._training.rows
        if self.regression == "codes":
            return self._code_regression(table, target)
        table = np.where(self._gross_errors_of(table), np.nan, table)
        views = self._split(table)
        kernels = self.regression == "auto"
        regression = stacked_ridge(views[1 - target], views[target], rows, kernels)
        clean = self._without_doubtful(table)
        if not _many_missing(clean, table):
            return regression
        # new rows have one view alone, by which their doubtful entries are found
        alone = self._without_doubtful(self._alone(views[1 - target], target))
        given = self._split(alone)[1 - target]
        learned = self._split(clean)[target]
        rival = stacked_ridge(given, learned, rows, kernels, truth=views[target])
        if predicts_better(rival, regression):
            self._leaves_out_doubtful.add(target)
            return rival
        return regression

    def _without_doubtful(self, table: Array) -> Array:
        """Return rows in which entries are missing that robust losses fit badly.

        They may be errors, which spoil a regression, or the tails of the data, without which it
        would be wrong: leave-one-out errors decide.
        """
        limits = GROSS_FACTOR * self._residual_noise()
        for loss, part in zip(self._losses, self._split(limits[None]), strict=True):
            if not is_robust(loss):
                part[:] = np.inf
        residuals = table - self._predicted(self._known_or_scored(table))
        with np.errstate(invalid="ignore"):
            return np.where(np.abs(residuals) > limits, np.nan, table)

    def _in_domain(self, Y: Array, target: int) -> Array:
        """Return predictions within the range of the data, where a loss is not of the residual."""
        if self._losses[target].of_residual:
            return Y
        seen = with_missing_as_nan(self._split(self._training.table)[target])
        return np.clip(Y, np.nanmin(seen), np.nanmax(seen))

    def _code_regression(self, table: Array, target: int) -> CodeRegression:
        """Return the prediction of the factor model, its prior chosen by views that are held out.

        The view of a fifth of the rows that have both is held out, and the model fitted again.
        """
        views = self._split(table)
        both = ~np.isnan(views[0]).all(axis=1) & ~np.isnan(views[1]).all(axis=1)
        if self._training.rows is not None:
            both &= self._training.rows > 0
        random = check_random_state(self.random_state)
        held = random.permutation(np.flatnonzero(both))[: max(int(both.sum()) // HELD_OUT_FOLDS, 1)]
        if both.sum() < 2:
            raise ValueError(
                "Fewer than two rows have entries of both views, so that none can be held out to "
                "choose the prior of the codes: fit more rows with both."
            )
        if target:
            columns = slice(self._n_first, None)
        else:
            columns = slice(0, self._n_first)
        hidden = table.copy()
        hidden[held, columns] = np.nan
        inputs = self._inputs_of(self._units.divide(hidden), self._training.rows)
        problem = self._state(inputs).at(self.alpha_)
        solution = solve_within(problem, Limits(tol=COMPARED_FIT_TOL, max_iter=self.max_iter))
        offsets = solution.point.coefficients
        if offsets is None:
            intercept = np.zeros(table.shape[1])
        else:
            intercept = offsets[0]
        apart = CodeModel(
            self._scoring_loss,
            solution.point.factors.C,
            intercept,
            second_moment(solution.point.factors.codes * problem.map.diagonal, inputs.rows),
            self._units,
            columns,
        )
        seen = hidden[held]
        truth = table[held, columns]
        strength = best_prior(apart, seen, truth)
        final = CodeModel(
            self._scoring_loss,
            self.components_,
            self.intercept_,
            second_moment(self.codes_, self._training.rows),
            self._units,
            columns,
        )
        residuals = truth - apart.predict(seen, strength)
        return CodeRegression(final, strength, residuals)

    @property
    def _scoring_loss(self) -> Loss:
        return joint_loss(self._losses, self._n_first)

    def _scored(self, table: Any) -> Array:
        """Return the codes of a table of both views in the units of the data."""
        scaled = self._units.divide(table)
        return self._codes(RowsToScore(scaled, None, self._intercept.astype(scaled.dtype)))

    def _predicted(self, codes: Any) -> Array:
        """Return both views side by side that codes predict, in the units of the data."""
        views = super().inverse_transform(codes)
        return views * self._units.divisor.astype(self.components_.dtype)

    def _as_fitted(self, views: Array) -> Any:
        """Return both views as `fit` got them: a pair, or one table with its order of columns."""
        if self._second is not None:
            return views[:, : self._n_first], views[:, self._n_first :]
        table = np.empty_like(views)
        table[:, self._order] = views
        return table


def _many_missing(clean: Array, table: Array) -> bool:
    """Return whether a share of the entries is missing from a table, but not a whole view."""
    observed = float((~np.isnan(table)).sum())
    return observed - float((~np.isnan(clean)).sum()) > LEAST_DOUBTFUL * observed
