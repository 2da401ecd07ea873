"""Certified low-rank models of one table: subspaces, robust subspaces, sparse coding."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from regfactor._params import Array, require_positive
from regfactor.estimators.base import FactorEstimator
from regfactor.estimators.scoring import Scoring
from regfactor.losses import Absolute, Loss, Robust, Stacked
from regfactor.norms import as_norm
from regfactor.penalties import Gauge, Rows, Trace
from regfactor.problems import Convex, Factored
from regfactor.problems.convex import convex
from regfactor.problems.data import FILLER


class ConvexEstimator(FactorEstimator):
    """An estimator whose problem is convex: a loss, a gauge, maybe an intercept."""

    def _scoring(self, problem: Convex | Factored, codes: Array) -> Scoring | None:
        assert isinstance(problem, Convex)
        return Scoring(self._loss(), problem.gauge.per_row(codes), problem.alpha)

    def _loss(self) -> Loss:
        return self._as_loss(self.loss)

    def _convex(self, X: Array, rows: Array | None, entries: Array | None, gauge: Gauge) -> Convex:
        return convex(X, self._loss(), gauge, self.alpha, rows, entries, self._intercept(X))


class ConvexSubspace(ConvexEstimator):
    """min over Z, b of sum of observed w f(z_ij + b_j; x_ij) + alpha |Z|_tr: a subspace at its global optimum.

    The trace norm finds the rank by itself, NaN entries are left out of the sum, and the fit comes with a duality
    gap that bounds its distance from the global optimum.

    Parameters
    ----------
    loss : str or Loss, default="squared"
        How a prediction is compared with an entry: "squared", "huber", "logistic", "poisson", ...; a dict
        {column: loss} or a list of (columns, loss) gives columns different losses.
    alpha : float, default=1.0
        Strength of the trace norm. From `alpha_max_` on, Z is zero.
    fit_intercept : bool, default=True
        Whether to fit unpenalized column offsets.
    debias : bool, default=False
        Whether to refit the codes on the fixed components with next to no penalty. `objective_` and `gap_` stay
        those of the penalized fit.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Relative duality gap at which the fit stops.
    time_limit : float, optional
        Seconds after which the solver stops; a warning then tells the gap.
    verbose : int, default=0
        1 shows a line with the objective and the gap.
    random_state : int, optional
        Unused by the certified solvers, which have no random start.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, n_atoms)
    components_ : ndarray of shape (n_atoms, n_features)
        Unit rows, ordered by falling singular value.
    singular_values_ : ndarray of shape (n_atoms,)
    intercept_ : ndarray of shape (n_features,)
    objective_, gap_, relative_gap_ : float
    certificate_ : Certificate
        `str(certificate_)` says in one sentence how far the fit can be from the optimum.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ConvexSubspace
    >>> X = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, np.nan], [3.0, 6.0, 9.0], [1.0, np.nan, 3.0]])
    >>> ConvexSubspace(alpha=0.01, fit_intercept=False).fit(X).complete(X).round(1)
    array([[1., 2., 3.],
           [2., 4., 6.],
           [3., 6., 9.],
           [1., 2., 3.]])
    """

    def __init__(
        self, loss: Any = "squared", alpha: float = 1.0, fit_intercept: bool = True, debias: bool = False, *,
        max_iter: int = 1000, tol: float = 1e-4, time_limit: float | None = None, verbose: int = 0,
        random_state: Any = None, callback: Any = None,
    ) -> None:  # fmt: skip
        self.loss, self.alpha, self.fit_intercept, self.debias = loss, alpha, fit_intercept, debias
        self.max_iter, self.tol, self.time_limit = max_iter, tol, time_limit
        self.verbose, self.random_state, self.callback = verbose, random_state, callback

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, entry_weight: Any = None) -> Self:
        """Fit to a table; NaN marks a hole.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
        entry_weight : array-like of shape (n_samples, n_features), optional

        Returns
        -------
        self
        """
        self._fit(X, sample_weight, entry_weight)
        self.singular_values_ = self._sizes
        return self

    def _problem(self, X: Array, rows: Array | None, entries: Array | None) -> Convex:
        return self._convex(X, rows, entries, Trace())


class RobustSubspace(ConvexEstimator):
    """min over Z, S of sum f(z_ij + s_ij; x_ij) + beta |S|_1 + alpha |Z|_tr: low rank plus gross outliers.

    S is eliminated: with the squared loss what is left is the Huber loss. With `loss=None` the fit is exact principal
    component pursuit, Z + S = X.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the trace norm.
    beta : float or "auto", default="auto"
        Price of an outlier; "auto" is alpha / sqrt(max(n, d)).
    loss : str, Loss or None, default="squared"
        Loss of the entries that are no outliers; None for no noise at all.
    fit_intercept : bool, default=False
        Whether to fit unpenalized column offsets.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Relative duality gap at which the fit stops.
    time_limit : float, optional
        Seconds after which the solver stops; a warning then tells the gap.
    verbose : int, default=0
        1 shows a line with the objective and the gap.
    random_state : int, optional
        Unused by the certified solvers, which have no random start.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.

    Attributes
    ----------
    codes_, components_, intercept_, singular_values_ : ndarray
    outliers_ : csr_array of shape (n_samples, n_features)
        S on the training table.
    beta_ : float
    """

    def __init__(
        self, alpha: float = 1.0, beta: float | str = "auto", loss: Any = "squared", *, fit_intercept: bool = False,
        max_iter: int = 1000, tol: float = 1e-4, time_limit: float | None = None, verbose: int = 0,
        random_state: Any = None, callback: Any = None,
    ) -> None:  # fmt: skip
        self.alpha, self.beta, self.loss, self.fit_intercept = alpha, beta, loss, fit_intercept
        self.max_iter, self.tol, self.time_limit = max_iter, tol, time_limit
        self.verbose, self.random_state, self.callback = verbose, random_state, callback

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to a table; NaN marks a hole.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._fit(X, sample_weight)
        self.beta_ = self._beta
        self.singular_values_ = self._sizes
        self.outliers_ = self._outliers(self._table(X, reset=False), self.codes_)
        return self

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
        return self._outliers(self._table(X, reset=False), FactorEstimator.transform(self, X))

    def _outliers(self, X: Array, codes: Array) -> scipy.sparse.csr_array:
        Z = codes @ self.components_ + self.intercept_
        if self.loss is None:
            S = X - Z
            S = np.where(np.abs(S) > 1e-12 * np.nanmax(np.abs(X), initial=1.0), S, 0)
        else:
            S, filled = np.zeros_like(Z), np.where(np.isnan(X), FILLER, X)
            for columns, robust in self._loss_parts:
                assert isinstance(robust, Robust)
                S[:, columns] = robust.explained(Z[:, columns], filled[:, columns]) - Z[:, columns]
        return scipy.sparse.csr_array(np.where(np.isnan(X), 0, S))

    def _price(self, n: float, d: int) -> float:
        if isinstance(self.beta, str):
            if self.beta != "auto":
                raise ValueError(f"beta must be a positive number or 'auto', got {self.beta!r}.")
            require_positive(self, alpha=self.alpha)
            return float(self.alpha / np.sqrt(max(n, d)))
        require_positive(self, beta=self.beta)
        return float(self.beta)

    def _loss(self) -> Loss:
        """Return |.| weighted by beta for exact pursuit, else the loss with its outliers taken out."""
        if self.loss is None:
            return Absolute()
        loss = self._as_loss(self.loss)
        if isinstance(loss, Stacked):
            return Stacked(tuple((columns, Robust(part, self._beta)) for columns, part in loss.groups))
        return Robust(loss, self._beta)

    def _problem(self, X: Array, rows: Array | None, entries: Array | None) -> Convex:
        self._beta = self._price(len(X) if rows is None else rows.sum(), X.shape[1])
        prices = np.full(X.shape, self._beta, X.dtype) if self.loss is None else None
        return self._convex(X, rows, prices, Trace())

    def _scoring(self, problem: Convex | Factored, codes: Array) -> Scoring:
        assert isinstance(problem, Convex)
        weight = self._beta if self.loss is None else 1.0
        return Scoring(self._loss(), problem.gauge.per_row(codes), problem.alpha, weight)


class ConvexSparseCoding(ConvexEstimator):
    """min over Z of sum f(z_ij; x_ij) + alpha sum_t |z_t|_q: l1 codes and components in the lq ball, at the optimum.

    With the number of atoms free, the induced norm is a sum over rows (thesis, theorem 5), so every row gets an atom
    of its own: the global optimum of convex sparse coding is vector quantization, rows shrunk towards zero and small
    rows dropped. It is exact and useful for selecting rows; for a dictionary shared between rows give `FactorModel` a
    rank.

    Parameters
    ----------
    loss : str or Loss, default="squared"
    alpha : float, default=1.0
        Strength of the norm; rows whose gradient at zero is smaller are dropped.
    q : float or Norm, default=2
        Norm of the components.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Relative duality gap at which the fit stops.
    time_limit : float, optional
        Seconds after which the solver stops; a warning then tells the gap.
    verbose : int, default=0
        1 shows a line with the objective and the gap.
    random_state : int, optional
        Unused by the certified solvers, which have no random start.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, n_atoms)
    components_ : ndarray of shape (n_atoms, n_features)
    """

    def __init__(
        self, loss: Any = "squared", alpha: float = 1.0, q: Any = 2, *,
        max_iter: int = 1000, tol: float = 1e-4, time_limit: float | None = None, verbose: int = 0,
        random_state: Any = None, callback: Any = None,
    ) -> None:  # fmt: skip
        self.loss, self.alpha, self.q = loss, alpha, q
        self.max_iter, self.tol, self.time_limit = max_iter, tol, time_limit
        self.verbose, self.random_state, self.callback = verbose, random_state, callback

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to a table; NaN marks a hole.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight)

    def _problem(self, X: Array, rows: Array | None, entries: Array | None) -> Convex:
        return self._convex(X, rows, entries, Rows(as_norm(self.q)))
