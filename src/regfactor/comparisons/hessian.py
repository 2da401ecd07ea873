"""Hessian energy: targets that are nearly linear along the surface of the rows."""

from __future__ import annotations

from dataclasses import KW_ONLY

import numpy as np
import scipy.sparse
from sklearn.utils import gen_batches

from regfactor.comparisons.graph_regression import GraphRegressor
from regfactor.comparisons.tangents import BLOCK_ELEMENTS, Tangents, check_dimension
from regfactor.core.params import Array, warn
from regfactor.fitting.parameters import FINITE_POSITIVE, parametrized
from regfactor.kernels.base import sparse_rows

FLAT_SHARE = (
    1e-10  # of the largest singular value: directions in which a neighborhood does not extend
)


@parametrized
class HessianRegression(GraphRegressor):
    """min over f of sum_labeled (y_i - f_i)^2 + penalty sum_i |Hess f (x_i)|^2.

    Derivatives are along the surface of all rows. Kim, Steinke & Hein (2009). At each row a
    quadratic through f_i is fitted to its neighbors, in coordinates of their tangent space; the sum
    of its squared second derivatives is a sparse form f'B f, zero for functions that are linear
    along the surface, where the Laplacian's is zero for constants alone. (S + penalty B) f = S y is
    solved by preconditioned conjugate gradients. New rows follow the quadratic of the nearest
    training row up to first order.

    Parameters
    ----------
    penalty : float, default=1e-3
        Weight > 0 of the second derivatives, whose unit is that of y over squared distance.
    n_neighbors : int, default=12
        More than m + m(m + 1)/2 are needed for a dimension of m; the dimension is lowered where
        there are fewer.
    dimension : int, default=2
        m, that of the surface.
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
    ParallelFieldRegression, LaplacianRegression : Other measures of smoothness.
    SNFRegressor : The library's model for few targets.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor.baselines import HessianRegression
    >>> X = np.random.default_rng(0).uniform(size=(100, 2))
    >>> y = np.where(np.arange(100) < 3, X @ [1.0, 2.0], np.nan)
    >>> bool(np.abs(HessianRegression().fit(X, y).transduction_ - X @ [1.0, 2.0]).max() < 0.05)
    True
    """

    _parameter_constraints = {**GraphRegressor._parameter_constraints, "penalty": [FINITE_POSITIVE]}

    penalty: float = 1e-3
    n_neighbors: int = 12
    dimension: int = 2
    _: KW_ONLY
    max_iter: int = 5000
    tol: float = 1e-8

    def _form(self, X: Array) -> scipy.sparse.csr_array:
        k = min(self.n_neighbors, len(X) - 1)
        m = check_dimension(self.dimension, X.shape[1], len(X))
        while m > 1 and k <= m + m * (m + 1) // 2:
            m -= 1
        self.dimension_ = m
        self._tangents = Tangents.of(X, self.n_neighbors, m)
        _warn_of_copies(X, self._tangents)
        H = hessian_rows(X, self._tangents)
        return scipy.sparse.csr_array(self.penalty * (H.T @ H))

    def _extend(self, X: Array) -> Array:
        nearest = self._nearest(X, 1)[1][:, 0]
        tangents = self._tangents
        U = tangents.coordinates(self._X, slice(None))[nearest]
        change = self._G[tangents.places[nearest]] - self._G[nearest][:, None]
        slopes = fits_of_quadratics(U)[:, : U.shape[2]] @ change
        steps = tangents.steps(X - self._X[nearest], nearest, slopes)
        return self._G[nearest] + steps


def _warn_of_copies(X: Array, tangents: Tangents) -> None:
    """Warn of rows that have no neighbor at another place: they are tied to nothing."""
    alone = int(np.all(X[tangents.places[:, -1]] == X, axis=1).sum())  # even the farthest is a copy
    if alone:
        warn(
            f"HessianRegression: all neighbors of {alone} rows are copies of them, so that nothing "
            "ties these rows to others; raise n_neighbors, or remove duplicate rows."
        )


def fits_of_quadratics(U: Array) -> Array:
    """Return maps from values at coordinates (rows, k, m) to coefficients of u_r, u_r u_s, r <= s.

    In units of the neighborhood's own size, so that a direction in which it is flat up to rounding
    is left out.
    """
    m = U.shape[2]
    r, s = np.triu_indices(m)
    size = np.abs(U).max(axis=(1, 2), keepdims=True)
    size[size == 0] = 1
    terms = U / size
    products = terms[:, :, r] * terms[:, :, s]
    terms = np.concatenate([terms, products], axis=2)
    fits = np.linalg.pinv(terms, rcond=FLAT_SHARE) / size
    fits[:, m:] /= size
    return fits


def hessian_rows(X: Array, tangents: Tangents) -> scipy.sparse.csr_array:
    """Return H with |H f|^2 = sum_i |Hess f (x_i)|_F^2."""
    n, k = tangents.places.shape
    m = tangents.frames.shape[2]
    r, s = np.triu_indices(m)
    # f = ... + c_rs u_r u_s: 2 c_rr on the diagonal, c_rs twice off it
    scale = np.where(r == s, 2.0, np.sqrt(2))
    blocks = []
    for rows in gen_batches(n, max(BLOCK_ELEMENTS // (k * (m + len(r))), 1)):
        fits = fits_of_quadratics(tangents.coordinates(X, rows))[:, m:] * scale[:, None]
        values = np.concatenate([fits, -fits.sum(axis=2, keepdims=True)], axis=2)
        own = np.arange(n)[rows, None]
        places = np.concatenate([tangents.places[rows], own], axis=1)
        places = np.broadcast_to(places[:, None], values.shape)
        blocks.append(sparse_rows(values, places, n))
    return scipy.sparse.csr_array(scipy.sparse.vstack(blocks))
