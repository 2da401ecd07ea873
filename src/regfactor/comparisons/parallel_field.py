"""Parallel field regularization: targets whose gradient is nearly parallel along the surface."""

from __future__ import annotations

from dataclasses import KW_ONLY

import numpy as np
import scipy.sparse

from regfactor.comparisons.graph_regression import GraphRegressor
from regfactor.comparisons.tangents import Tangents, check_dimension
from regfactor.core.params import Array
from regfactor.fitting.parameters import FINITE_NON_NEGATIVE, FINITE_POSITIVE, parametrized
from regfactor.kernels.base import sparse_rows


@parametrized
class ParallelFieldRegression(GraphRegressor):
    """min over f, v of sum_labeled (y_i - f_i)^2 + l1 R1(f, v) + l2 R2(v).

    R1 = sum (f_j - f_i - (x_j - x_i).T_i v_i)^2 and R2 = sum |T_i'T_j v_j - v_i|^2
    (Lin, Zhang & He 2011). The sums are over each row i and its neighbors j; T_i is a frame of the
    tangent space at row i and v_i the gradient there: the first sum asks that f follows the field,
    the second that the field is parallel. The system in f and v is sparse, and solved by
    preconditioned conjugate gradients. New rows follow the field of the nearest training row.

    Parameters
    ----------
    field_penalty : float, default=1.0
        l1 > 0.
    parallel_penalty : float, default=0.1
        l2 >= 0.
    n_neighbors : int, default=10
    dimension : int, default=2
        That of the surface.
    max_iter, tol : default=5000, 1e-8
        Limits of conjugate gradients: steps, and residual relative to the right-hand side.

    Attributes
    ----------
    transduction_ : ndarray of the shape of y
        Targets of all training rows, the given ones kept.
    dimension_ : int
    n_iter_ : int
        Steps of conjugate gradients.
    residual_ : float
        Relative residual at their end.

    See Also
    --------
    HessianRegression, LaplacianRegression : Other measures of smoothness.
    SNFRegressor : The library's model for few targets.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor.baselines import ParallelFieldRegression
    >>> X = np.random.default_rng(0).uniform(size=(100, 2))
    >>> y = np.where(np.arange(100) < 3, X @ [1.0, 2.0], np.nan)
    >>> bool(np.abs(ParallelFieldRegression().fit(X, y).transduction_ - X @ [1.0, 2.0]).max() < 0.1)
    True
    """

    _parameter_constraints = {
        **GraphRegressor._parameter_constraints,
        "field_penalty": [FINITE_POSITIVE],
        "parallel_penalty": [FINITE_NON_NEGATIVE],
    }

    field_penalty: float = 1.0
    parallel_penalty: float = 0.1
    n_neighbors: int = 10
    dimension: int = 2
    _: KW_ONLY
    max_iter: int = 5000
    tol: float = 1e-8

    def _form(self, X: Array) -> scipy.sparse.csr_array:
        self.dimension_ = check_dimension(self.dimension, X.shape[1], len(X))
        self._tangents = Tangents.of(X, self.n_neighbors, self.dimension_)
        R1, R2 = field_rows(X, self._tangents)
        Q = self.field_penalty * (R1.T @ R1) + self.parallel_penalty * (R2.T @ R2)
        return scipy.sparse.csr_array(Q)

    def _extend(self, X: Array) -> Array:
        nearest = self._nearest(X, 1)[1][:, 0]
        n = len(self._X)
        field = self._G[n:].reshape(n, self.dimension_, -1)[nearest]
        steps = self._tangents.steps(X - self._X[nearest], nearest, field)
        return self._G[nearest] + steps


def field_rows(
    X: Array,
    tangents: Tangents,
) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array]:
    """Return R1 and R2, whose squared lengths at [f; v] are the two sums."""
    n, k = tangents.places.shape
    m = tangents.frames.shape[2]
    own = np.broadcast_to(np.arange(n)[:, None], (n, k)).ravel()
    other = tangents.places.ravel()
    u = tangents.coordinates(X, slice(None)).reshape(n * k, m)
    fields = n + m * own[:, None] + np.arange(m)
    one = np.ones((n * k, 1))
    values = np.hstack([u, one, -one])
    places = np.hstack([fields, own[:, None], other[:, None]])
    first = sparse_rows(values, places, n * (m + 1))
    # row (i, j, a) of the second: sum_b (T_i'T_j)_ab v_jb - v_ia
    turns = tangents.frames.transpose(0, 2, 1)[:, None] @ tangents.frames[tangents.places]
    minus = np.full((n * k, m, 1), -1.0)
    values = np.concatenate([turns.reshape(n * k, m, m), minus], axis=2)
    theirs = n + m * other[:, None] + np.arange(m)
    theirs = np.broadcast_to(theirs[:, None], (n * k, m, m))
    places = np.concatenate([theirs, fields[:, :, None]], axis=2)
    second = sparse_rows(values, places, n * (m + 1))
    return first, second
