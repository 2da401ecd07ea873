"""Low rank plus gross outliers: robust subspaces and principal component pursuit."""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from regfactor.core.factors import Factors
from regfactor.core.linalg import is_sparse
from regfactor.core.loop import Solution
from regfactor.core.params import Array, UnsupportedProblem, is_option, warn
from regfactor.engine.blocks import BlockTable
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.factor_estimator import (
    LOSS_OPTIONS,
    TABLE_CONSTRAINTS,
    TableInputs,
)
from regfactor.fitting.inputs import as_float_table, weigh_columns
from regfactor.fitting.known import NOTHING
from regfactor.fitting.noise import (
    HUBER_FACTOR,
    SMALLEST_NOISE,
    gradient_size,
    robust_units,
)
from regfactor.fitting.parameters import AUTO, NOISE_OPTION, POSITIVE, parametrized
from regfactor.losses import Absolute, Loss, Robust, Stacked
from regfactor.penalties import Trace
from regfactor.problems.data import FILLER
from regfactor.problems.layout import Pattern
from regfactor.tables.block_fit import BlockInputs, publish_blocks, read_robust_blocks
from regfactor.tables.intervals import CompletionIntervals


@parametrized
class RobustSubspace(CompletionIntervals):
    """min over Z, S of sum f(z_ij + s_ij; x_ij) + beta |S|_1 + alpha |Z|_tr: with outliers.

    S is eliminated: with the squared loss what is left is the Huber loss. With `loss=None` the fit
    is exact principal component pursuit, Z + S = X.

    Parameters
    ----------
    alpha : float, "noise" or "auto", default="noise"
        Strength of the trace norm. "noise" is the strength above which no component is fitted to
        noise alone, sigma (sqrt(n) + sqrt(d)) for noise of deviation sigma, found robustly; one
        where there is no noise, `loss=None`. "auto" is chosen by held-out entries. With either,
        entries more than 50 robust deviations from the center of their column count as if they were
        there, and are held out of no fit.
    beta : float or "auto", default="auto"
        Price of an outlier; "auto" is the gradient of the loss at twice the noise, and
        alpha / sqrt(max(n, d)) where alpha is a number or there is no noise.
    loss : str, Loss or None, default="squared"
        Loss of the entries that are no outliers; None for no noise at all.
    fit_intercept : bool, default=False
        Whether to fit unpenalized column offsets.
    rule : {"min", "1se"}, default="min"
        How `alpha="auto"` (which needs a beta) chooses among the strengths it tried.
    sparse_zeros : {"missing", "observed"}, default="missing"
        What the absent entries of a sparse matrix are. Stored zeros are always observed.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Relative duality gap at which the fit stops.
    time_limit : float, optional
        Seconds after which the solver stops; a warning then reports the gap.
    verbose : int, default=0
        1 shows a line with the objective and the gap.
    random_state : int, optional
        Unused by the certified solvers, which have no random start.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.
    n_jobs : int, optional
        Threads that solve the rows of a table with missing entries at once; -1 for all processors.
        Results are the same for any number.

    Attributes
    ----------
    codes_, components_, intercept_, singular_values_ : ndarray
    outliers_ : csr_array of shape (n_samples, n_features)
        S on the training table.
    beta_ : float
    noise_ : float
        With `alpha="noise"` and a loss: the deviation of the noise.

    See Also
    --------
    ConvexSubspace : For tables without gross errors.
    regfactor.tables.outliers.gross_outliers : Flags cells that lie far off a robust fit.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import RobustSubspace
    >>> X = np.outer([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 2.0, -1.0, 3.0, 1.0])
    >>> X[2, 3] += 50.0  # one wrong entry
    >>> model = RobustSubspace(loss=None).fit(X)
    >>> [(int(i), int(j)) for i, j in np.argwhere(np.abs(model.outliers_.toarray()) > 1)]
    [(2, 3)]
    """

    _parameter_constraints = {
        **TABLE_CONSTRAINTS,
        "alpha": [POSITIVE, AUTO, NOISE_OPTION],
        "beta": [POSITIVE, AUTO],
        "loss": [*LOSS_OPTIONS, None],
        "fit_intercept": ["boolean"],
    }

    alpha: Any = "noise"
    beta: float | str = "auto"
    loss: Any = "squared"
    _: KW_ONLY
    fit_intercept: bool = False
    rule: str = "min"
    sparse_zeros: str = "missing"
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to a table; NaN marks a missing entry.

        Parameters
        ----------
        X : array-like or BlockTable of shape (n_samples, n_features)
            Rows of a `BlockTable` are read in blocks, so that it may be larger than memory; under
            the squared loss without an intercept. Their codes and outliers are not kept.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight)

    def transform(self, X: Any) -> Any:
        """Return the codes of each row, scored alone with the components held fixed.

        Missing entries (NaN) are allowed.

        Parameters
        ----------
        X : {array-like, sparse matrix, BlockTable} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Of a `BlockTable`, a `BlockTable` whose blocks are computed when they are read.
        """
        if isinstance(X, BlockTable):
            return X.map(super().transform, len(self.components_))
        return super().transform(X)

    def complete(self, X: Any) -> Any:
        """Return the table with its missing entries filled by the model.

        Parameters
        ----------
        X : {array-like, sparse matrix, BlockTable} of shape (n_samples, n_features)

        Returns
        -------
        The same kind of table as X.
        """
        if isinstance(X, BlockTable):
            return X.map(super().complete, X.n_columns)
        return super().complete(X)

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[Any],
        inputs: Any,
        run: Run,
    ) -> Solution[Any]:
        if isinstance(inputs, BlockInputs):
            self.beta_ = inputs.problem.price
            publish_blocks(self, solution, inputs)
            return solution
        published = super()._publish(choice, solution, inputs, run)
        self.beta_ = self._beta
        self.singular_values_ = self._sizes
        self.outliers_ = self._outliers(inputs.table, self.codes_)
        return published

    def outliers(self, X: Any) -> scipy.sparse.csr_array:
        """Return S for the rows of X: what each entry differs from the model beyond noise.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        csr_array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        table = as_float_table(self, X, None, reset=False)
        return self._outliers(table, self._codes(self._rows(X, NOTHING)))

    def _outliers(self, X: Any, codes: Array) -> scipy.sparse.csr_array:
        F = Factors(
            np.hstack([codes, np.ones((len(codes), 1), codes.dtype)]),
            np.vstack([self.components_, self.intercept_]),
        )
        if is_sparse(X):
            S = self._excess(Pattern.of(X).entries(F), X.data)
            return _without_zeros(scipy.sparse.csr_array((S, X.indices, X.indptr), shape=X.shape))
        missing = np.isnan(X)
        S = self._excess(F.dense(), np.where(missing, FILLER, X))
        return scipy.sparse.csr_array(np.where(missing, 0, S))

    def _excess(self, Z: Array, X: Array) -> Array:
        """Return what entries differ from their predictors beyond noise."""
        if self.loss is None:
            S = X - Z
            rounding = 1e-12 * np.abs(X).max(initial=1.0)
            return np.where(np.abs(S) > rounding, S, 0)
        S = np.zeros_like(Z)
        for columns, robust in self._loss_parts:
            assert isinstance(robust, Robust)
            part = (..., columns) if Z.ndim == 2 else ...
            S[part] = robust.explained(Z[part], X[part]) - Z[part]
        return S

    def _price(self, n: float, d: int, loss: Loss) -> float:
        if not isinstance(self.beta, str):
            return float(self.beta)
        if is_option(self.alpha, "auto"):
            raise ValueError(
                "beta='auto' follows from alpha, and alpha='auto' from beta: give one as a "
                "number, or use alpha='noise'."
            )
        if self._noise is None:
            return float(self._strength / np.sqrt(max(n, d)))
        limit = HUBER_FACTOR * self._noise
        return max(gradient_size(part, limit) for _, part in loss.parts(d))

    def _read(self, X: Any, sample_weight: Any = None, entry_weight: Any = None, /) -> Any:
        if isinstance(X, BlockTable):
            return read_robust_blocks(self, X, sample_weight)
        inputs = super()._read(X, sample_weight, entry_weight)
        if self.loss is None and is_sparse(inputs.table):
            raise UnsupportedProblem(
                "loss=None holds the whole table: give it as a dense one with NaN, or use a loss."
            )
        if inputs.rows is None:
            count = inputs.table.shape[0]
        else:
            count = float(inputs.rows.sum())
        self._beta = self._price(count, inputs.table.shape[1], inputs.loss)
        if self.loss is None:
            weights = weigh_columns(inputs.learned, None, self._beta)
            return replace(inputs, columns=self._beta, entry_weights=weights)
        if self._noise is not None and not self.fit_intercept:
            _warn_of_offsets(inputs)
        inputs = replace(inputs, loss=_with_outliers(inputs.loss, self._beta))
        if isinstance(self.alpha, str):
            return inputs.without_extremes()
        return inputs

    def _noise_loss(self, table: Any, loss: Loss, rows: Array | None) -> Loss:
        """Return the loss; without noise the strength is one, its ratio to beta alone matters."""
        if self.loss is None:
            self._noise_alpha = 1.0
            return loss
        return super()._noise_loss(table, loss, rows)

    def _as_loss(self, loss: Any) -> Loss:
        """Return |.| for exact pursuit, else the loss."""
        if loss is None:
            return Absolute()
        return super()._as_loss(loss)

    def _state(self, inputs: Any) -> Any:
        if isinstance(inputs, BlockInputs):
            return inputs.problem
        return self._convex(inputs, Trace())


def _warn_of_offsets(inputs: TableInputs) -> None:
    """Warn of columns that vary by less than the noise is resolved to, if offsets are not fitted.

    The noise is at least a thousandth of the deviation of the table from zero.
    """
    units = robust_units(inputs.learned, inputs.rows)
    sizes = np.abs(units.center)
    hidden = np.flatnonzero(sizes * SMALLEST_NOISE > units.deviation)
    if not len(hidden):
        return
    j = int(hidden[0])
    name = j if inputs.names is None else inputs.names[j]
    warn(
        f"Column {name!r} and {len(hidden) - 1} others vary by less than a thousandth of their "
        f"median ({units.center[j]:.3g} in {name!r}), which a model without offsets takes for "
        "noise: use fit_intercept=True, or subtract medians."
    )


def _with_outliers(loss: Loss, beta: float) -> Loss:
    """Return a loss with outliers of a price eliminated."""
    if isinstance(loss, Stacked):
        return Stacked(tuple((columns, Robust(part, beta)) for columns, part in loss.groups))
    return Robust(loss, beta)


def _without_zeros(S: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    S = S.copy()
    S.eliminate_zeros()
    return S
