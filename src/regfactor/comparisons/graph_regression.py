"""Targets spread over a graph of all rows: the common base class, and the simplest method."""

from __future__ import annotations

import abc
from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from regfactor.comparisons.graph_solvers import solve_definite
from regfactor.comparisons.graphs import NeighborGraph, Solved
from regfactor.comparisons.targets import TARGETS, KnownTargets, known
from regfactor.core.params import Array, warn
from regfactor.fitting.base import all_or_nothing
from regfactor.fitting.inputs import validated
from regfactor.fitting.parameters import COUNT, FINITE_POSITIVE, parametrized
from regfactor.kernels import widths

# of the form's own diagonal, whatever its units: lifts what neither a target nor the form holds
DIAGONAL_SHIFT_SHARE = 1e-13


class GraphRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator, abc.ABC):
    """min over g of sum_labeled (y_i - f_i)^2 + g'Q g, f the first n of g; targets are centered."""

    _parameter_constraints: dict[str, Any] = {
        "n_neighbors": [COUNT],
        "max_iter": [COUNT],
        "tol": [FINITE_POSITIVE],
    }

    @abc.abstractmethod
    def _form(self, X: Array) -> scipy.sparse.csr_array:
        """Return Q for training rows, sparse."""

    @abc.abstractmethod
    def _extend(self, X: Array) -> Array:
        """Return targets of new rows from those of training rows."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows of which some have targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            NaN where a target is not known.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            X = self._inputs(X, reset=True)
            given = known(y, X, None, TARGETS)
            Q = self._form(X.astype(np.float64))
            G, solved = self._solved(Q, given, len(X))
            self._given = given.empty()
            self._X = X.astype(np.float64)
            self._G = G
            self.n_iter_ = max(1, *(s.n_iter for s in solved))
            self.residual_ = max(s.residual for s in solved)
            self.transduction_ = given.completed(G[: len(X)], X.dtype)
            if not all(s.met for s in solved):
                warn(
                    f"{type(self).__name__}: conjugate gradients stopped at a relative residual of "
                    f"{self.residual_:.2g}; raise max_iter, or bring the columns of X to a common "
                    "scale of about one.",
                    ConvergenceWarning,
                )
        return self

    def _solved(
        self,
        Q: scipy.sparse.csr_array,
        given: KnownTargets,
        n: int,
    ) -> tuple[Array, list[Solved]]:
        """Return g for every target; offsets are added to f."""
        G = np.zeros((Q.shape[0], given.Y.shape[1]))
        solved = []
        for rows, columns in given.patterns():
            Y = given.Y[np.ix_(rows, columns)]
            mean = Y.mean(axis=0)
            ones = np.zeros(Q.shape[0])
            ones[rows] = 1
            diagonal = Q.diagonal()
            added = ones + DIAGONAL_SHIFT_SHARE * diagonal
            added[diagonal + ones == 0] = 1  # a row without neighbors or target
            A = scipy.sparse.csr_array(Q + scipy.sparse.diags_array(added))
            side = np.zeros((Q.shape[0], len(columns)))
            side[rows] = Y - mean
            solved.append(solve_definite(A, side, self.tol, self.max_iter))
            G[:, columns] = solved[-1].X
            G[:n, columns] += mean
        return G, solved

    def predict(self, X: Any) -> Array:
        """Return the targets of every row, from those found for training rows nearby.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self)
        X = self._inputs(X, reset=False)
        return self._given.answer(self._extend(X.astype(np.float64)).astype(X.dtype))

    def _inputs(self, X: Any, reset: bool) -> Array:
        floats = [np.float64, np.float32]
        fewest = 2 if reset else 1
        X = validated(self, X, dtype=floats, reset=reset, ensure_min_samples=fewest)
        return X

    def _nearest(self, X: Array, k: int) -> tuple[Array, Array]:
        """Return squared distances and places of the nearest training rows."""
        search = NearestNeighbors(n_neighbors=min(k, len(self._X))).fit(self._X)
        distances, places = search.kneighbors(X)
        return np.square(distances), places

    def __sklearn_tags__(self) -> Tags:
        """Return the tags: targets that are smooth over ten neighbors fit few rows only roughly."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


@parametrized
class LaplacianRegression(GraphRegressor):
    """min over f of sum_labeled (y_i - f_i)^2 + penalty f'L f.

    L is the Laplacian of a graph of neighbors. Transductive (Belkin, Matveeva & Niyogi 2004):
    (S + penalty L) f = S y with S the indicator of labeled rows and y centered, a sparse system, by
    preconditioned conjugate gradients. New rows have the mean of their neighbors' f, each weighing
    as its join would, which is what minimizes their share of f'L f.

    Parameters
    ----------
    penalty : float, default=0.1
        Weight > 0 of the variation over the graph.
    n_neighbors : int, default=10
        Rows are joined where one is among the nearest of the other.
    graph_gamma : float or str, optional
        Joins weigh 1, or exp(-graph_gamma |x_i - x_j|^2); a number or "scale", "median",
        "neighbors".
    normalized : bool, default=False
        Whether L is I - D^-1/2 W D^-1/2 or D - W.
    max_iter, tol : default=1000, 1e-8
        Limits of conjugate gradients: steps, and residual relative to the right-hand side.

    Attributes
    ----------
    transduction_ : ndarray of the shape of y
        Targets of all training rows, the given ones kept.
    n_iter_ : int
        Steps of conjugate gradients.
    residual_ : float
        Relative residual at their end.

    See Also
    --------
    LaplacianRLS : The same penalty for functions of a kernel.
    HessianRegression, ParallelFieldRegression : Other measures of smoothness.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor.baselines import LaplacianRegression
    >>> X = np.arange(5.0)[:, None]
    >>> y = [0.0, np.nan, np.nan, np.nan, 4.0]
    >>> LaplacianRegression(1e-6, n_neighbors=1).fit(X, y).transduction_.round(2)
    array([0., 1., 2., 3., 4.])
    """

    _parameter_constraints = {
        **GraphRegressor._parameter_constraints,
        "penalty": [FINITE_POSITIVE],
        "normalized": ["boolean"],
    }

    penalty: float = 0.1
    n_neighbors: int = 10
    _: KW_ONLY
    graph_gamma: float | str | None = None
    normalized: bool = False
    max_iter: int = 1000
    tol: float = 1e-8

    def _form(self, X: Array) -> scipy.sparse.csr_array:
        graph = NeighborGraph(self.n_neighbors, self.graph_gamma, self.normalized)
        self._gamma = 0.0
        if self.graph_gamma is not None:
            self._gamma = graph.gamma = widths.found(self.graph_gamma, X)
        return scipy.sparse.csr_array(self.penalty * graph.laplacian(X))

    def _extend(self, X: Array) -> Array:
        squares, places = self._nearest(X, self.n_neighbors)
        weights = np.exp(self._gamma * (squares.min(axis=1, keepdims=True) - squares))
        weights /= weights.sum(axis=1, keepdims=True)
        return np.einsum("nk,nkt->nt", weights, self._G[places])
