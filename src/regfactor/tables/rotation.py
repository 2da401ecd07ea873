"""Rotations of components towards a simple structure: varimax and oblimin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regfactor.core.params import Array, choose

MAX_STEPS = 1000
TOL = 1e-9  # of the projected gradient, relative to the criterion


@dataclass(frozen=True)
class Rotation:
    """Rotated components and codes, whose product is that of the given ones.

    `correlations` are those of the rotated codes if the given ones are uncorrelated: the identity
    under "varimax".
    """

    components: Array
    codes: Array | None
    correlations: Array


def rotate(components: Array, codes: Array | None = None, method: str = "varimax") -> Rotation:
    """Return components rotated so that each column of the table loads on few of them.

    "varimax" maximizes the variance of the squared loadings of each component by an orthogonal
    matrix; "oblimin" (with gamma zero, quartimin) minimizes the sum of products of squared loadings
    of different components, and lets the codes correlate.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        `components_` of an estimator, or rows scaled by the deviations of their codes.
    codes : array-like of shape (n_samples, n_components), optional
        Rotated along, so that codes @ components stays what it is.
    method : {"varimax", "oblimin"}, default="varimax"

    Returns
    -------
    Rotation

    Notes
    -----
    Gradient projection: C. A. Bernaards and R. I. Jennrich, "Gradient projection algorithms and
    software for arbitrary rotation criteria in factor analysis", 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor.tables.rotation import rotate
    >>> simple = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    >>> mixed = np.array([[0.6, 0.8], [-0.8, 0.6]]) @ simple
    >>> np.sort(np.abs(rotate(mixed).components), axis=0).round(3)
    array([[0., 0., 0., 0.],
           [1., 1., 1., 1.]])
    """
    oblique = choose(method, {"varimax": False, "oblimin": True}, "method")
    loadings = np.asarray(components, dtype=np.float64).T
    if loadings.ndim != 2 or not np.isfinite(loadings).all():
        raise ValueError("components must be a table of finite numbers, one row a component.")
    k = loadings.shape[1]
    T = np.eye(k)
    if k > 1:
        T = _oblique(loadings) if oblique else _orthogonal(loadings)
    # loadings L become L (T')^-1, codes become codes T, of correlations T'T
    rotated = np.linalg.solve(T, loadings.T)
    moved = None
    if codes is not None:
        moved = np.asarray(codes) @ T
    return Rotation(rotated, moved, T.T @ T)


def _varimax(L: Array) -> tuple[float, Array]:
    """Return -sum of the variances of squared loadings / 4, and its gradient."""
    squares = np.square(L)
    centered = squares - squares.mean(axis=0)
    return -float(np.square(centered).sum()) / 4, -L * centered


def _quartimin(L: Array) -> tuple[float, Array]:
    """Return the sum of products of squared loadings / 4, and its gradient."""
    squares = np.square(L)
    others = squares.sum(axis=1, keepdims=True) - squares
    return float((squares * others).sum()) / 4, L * others


def _orthogonal(A: Array) -> Array:
    """Return the orthogonal T that minimizes the varimax criterion of A T."""
    T = np.eye(A.shape[1])
    value, slope = _varimax(A @ T)
    step = 1.0
    for _ in range(MAX_STEPS):
        G = A.T @ slope
        inner = T.T @ G
        projected = G - T @ (inner + inner.T) / 2
        size = float(np.linalg.norm(projected))
        if size <= TOL * max(abs(value), np.finfo(float).tiny):
            break
        step *= 2
        while step > np.finfo(float).eps:
            U, _, Vt = np.linalg.svd(T - step * projected)
            trial, trial_slope = _varimax(A @ (U @ Vt))
            if trial < value - step * size**2 / 2:
                break
            step /= 2
        else:
            break
        T = U @ Vt
        value = trial
        slope = trial_slope
    return T


def _oblique(A: Array) -> Array:
    """Return T with unit columns that minimizes the quartimin criterion of A (T')^-1."""
    T = np.eye(A.shape[1])
    L = A.copy()
    value, slope = _quartimin(L)
    step = 1.0
    for _ in range(MAX_STEPS):
        G = -np.linalg.inv(T).T @ (L.T @ slope).T
        projected = G - T * (T * G).sum(axis=0)
        size = float(np.linalg.norm(projected))
        if size <= TOL * max(abs(value), np.finfo(float).tiny):
            break
        step *= 2
        while step > np.finfo(float).eps:
            moved = T - step * projected
            moved = moved / np.linalg.norm(moved, axis=0)
            trial_loadings = np.linalg.solve(moved, A.T).T
            trial, trial_slope = _quartimin(trial_loadings)
            if trial < value - step * size**2 / 2:
                break
            step /= 2
        else:
            break
        T = moved
        L = trial_loadings
        value = trial
        slope = trial_slope
    return T
