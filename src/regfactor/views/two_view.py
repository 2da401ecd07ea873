"""Two views of the same rows under one set of codes, at the global optimum."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from regfactor.core.factors import FactorPoint
from regfactor.core.loop import Solution
from regfactor.core.params import Array
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.factor_estimator import TableInputs
from regfactor.fitting.inputs import as_float_table, names_of, row_weights
from regfactor.fitting.side_by_side import (
    SecondView,
    Units,
    hstack_tables,
    is_vector,
    joint_loss,
    loss_pair,
    second_table,
    split_of,
    units,
    with_missing_as_nan,
)
from regfactor.fitting.two_view_estimator import TWO_VIEW_CONSTRAINTS, TwoViewEstimator
from regfactor.losses import Loss


class TwoViewSubspace(TwoViewEstimator):
    """min over Z, b of L1(Z1 + b1; X1) + L2(Z2 + b2; X2) + alpha |||[Z1, Z2]|||.

    Z = [Z1, Z2] = codes @ components. The norm max_eta |[sqrt(eta) Z1/B1, sqrt(1-eta) Z2/B2]|_tr is
    the least sum of |phi_i| over all factorizations with components |c1_i| <= B1 in the first view
    and |c2_i| <= B2 in the second: each view has its own bound, and neither can buy strength from
    the other. The rank is found by itself, entries and whole views may be missing, and the fit
    comes with a duality gap.

    Parameters
    ----------
    alpha : float or "auto", default=1.0
        Strength of the norm. From `alpha_max_` on, Z is zero. "auto" tries 20 strengths from there
        down to a thousandth, and takes the one that predicts a random tenth of the entries, which
        is held out, best.
    bounds : pair of float, default=(1.0, 1.0)
        B1 and B2, in the units in which the views are fitted (see `scale`).
    loss : str, Loss or a pair of them, default="squared"
        How predictions are compared with entries, in both views or in each.
    n_first : int, float or list, optional
        For one stacked table, the columns of the first view: their number, their share, or their
        names.
    scale : bool, default=True
        Whether views count alike whatever their units: data under a loss of the residual (squared,
        huber, ...) are divided by the root mean square of their view about the column means, and
        other losses are weighted, so that the best constants cost 1/2 for each observed entry in
        both views.
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
        Seed of the held-out entries of `alpha="auto"`.
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
    alpha_, alpha_max_ : float
    alphas_, validation_loss_ : ndarray
        With `alpha="auto"`.
    objective_, gap_, relative_gap_ : float
    certificate_ : Certificate
        `str(certificate_)` states in one sentence how far the fit can be from the optimum.

    See Also
    --------
    CanonicalCorrelation : Directions in which two complete views correlate most.
    ConvexFactorClassifier : The same norm with labels as the second view.

    Notes
    -----
    Fitted to two tables, the first is the one by which scikit-learn counts features, and
    `transform` of the first alone scores rows whose second view is missing. Where the second view
    is a vector, as the target that a pipeline hands on, `fit_transform` does the same. A view more
    than about 1e7 times weaker than the other is lost in rounding when it is not scaled.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import TwoViewSubspace
    >>> shared = np.array([[1.0], [2.0], [-1.0], [-2.0], [3.0], [-3.0]])
    >>> X1, X2 = shared @ [[1.0, 2.0]], 100 * shared @ [[1.0, 0.0, -1.0]]
    >>> model = TwoViewSubspace(alpha=1e-4).fit(X1, X2)
    >>> model.predict_view(X1=[[1.5, 3.0]]).round(0)
    array([[ 150.,    0., -150.]])
    """

    _parameter_constraints = {
        **TWO_VIEW_CONSTRAINTS,
        "loss": [str, Loss, list, tuple],
        "scale": ["boolean"],
    }

    def __init__(
        self,
        alpha: Any = 1.0,
        bounds: tuple[float, float] = (1.0, 1.0),
        loss: Any = "squared",
        n_first: Any = None,
        scale: bool = True,
        *,
        fit_intercept: bool = True,
        rule: str = "min",
        sparse_zeros: str = "missing",
        max_iter: int = 1000,
        tol: float = 1e-4,
        time_limit: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        self.alpha = alpha
        self.bounds = bounds
        self.loss = loss
        self.n_first = n_first
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.rule = rule
        self.sparse_zeros = sparse_zeros
        self.max_iter = max_iter
        self.tol = tol
        self.time_limit = time_limit
        self.verbose = verbose
        self.random_state = random_state
        self.callback = callback

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
        self._losses = loss_pair(self.loss)
        if y is None:
            table = self._read_stacked(X)
        else:
            table = self._read_views(X, y)
        rows = row_weights(table, sample_weight)
        self._units = self._view_units(table, rows)
        names = names_of(self, None, table.shape[1])
        if names is not None:
            names = [names[j] for j in self._order]
        return TableInputs.of(
            self._units.divide(table),
            joint_loss(self._losses, self._n_first),
            rows,
            columns=self._units.column_weights,
            names=names,
        )

    def _view_units(self, table: Any, rows: Array | None) -> Units:
        if not self.scale:
            return Units.ones(table.shape[1])
        views = (table[:, : self._n_first], table[:, self._n_first :])
        return units(self._losses, views, rows, self.fit_intercept)

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[FactorPoint],
        inputs: TableInputs,
        run: Run,
    ) -> Solution[FactorPoint]:
        self.scale_ = self._units.divisor
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

    def denoise(self, X1: Any, X2: Any = None) -> Any:
        """Return the reconstruction of both views, or of one stacked table.

        Parameters are those of `transform`, the result is that of `inverse_transform`.
        """
        return self.inverse_transform(self.transform(X1, X2))

    def complete(self, X1: Any, X2: Any = None) -> Any:
        """Return the views with missing entries filled and observed ones kept, as arrays.

        Parameters are those of `transform`, the result is that of `inverse_transform`.
        """
        check_is_fitted(self)
        table = self._table(X1, X2)
        predicted = self._predicted(self._scored(table))
        observed = with_missing_as_nan(table)
        return self._as_fitted(np.where(np.isnan(observed), predicted, observed))

    def predict_view(self, X1: Any = None, X2: Any = None) -> Array:
        """Return the view that is not given, in the units of the data.

        Parameters
        ----------
        X1 : array-like of shape (n_samples, n_first_features), optional
        X2 : array-like of shape (n_samples, n_second_features), optional
            Exactly one of them.

        Returns
        -------
        ndarray of the other view
        """
        check_is_fitted(self)
        if (X1 is None) == (X2 is None):
            raise ValueError("predict_view needs exactly one of X1 and X2, and returns the other.")
        views = self._predicted(self._scored(self._joined(X1, X2)))
        if X2 is None:
            return views[:, self._n_first :]
        return views[:, : self._n_first]

    def _scored(self, table: Any) -> Array:
        """Return the codes of a table of both views in the units of the data."""
        return self._codes(self._units.divide(table))

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
