"""Generated vector time series: the rotating blocks of the thesis, and VARMA processes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from regfactor.core.params import Array, choose
from regfactor.series.arma.model import radius as spectral_radius

BASES = {"orthonormal": True, "random": False}
DECAYS = {"all": True, "real": False}
COLUMNS = {"unit": 0.5, "squares": 1.0}
BURN_IN = 200


def make_arma(
    n_samples: int = 300,
    n_series: int = 6,
    p: int = 2,
    q: int = 2,
    *,
    decay: float = 0.999,
    period: float = 3.0,
    basis: str = "orthonormal",
    decay_on: str = "all",
    columns: str = "unit",
    current: bool = True,
    return_parameters: bool = False,
    random_state: Any = None,
) -> Any:
    """Return a series of p blocks of variables; block i is rotated, with slow decay, at lag i.

    White's thesis (2014), algorithm 14, cannot run as printed; what it does not specify is a
    parameter here. A_i is zero except for block i, real(V diag(lambda) V^-1) with eigenvalues
    decay * exp(+-2 pi i/period), and a real one if the block is odd.

    Parameters
    ----------
    n_samples, n_series : int, default=300, 6
        n_series must be a multiple of p.
    p, q : int, default=2, 2
    decay : float, default=0.999
        Modulus of the eigenvalues.
    period : float, default=3.0
    basis : {"orthonormal", "random"}, default="orthonormal"
        V as the text has it, or Gaussian as the algorithm has it.
    decay_on : {"all", "real"}, default="all"
        The eigenvalues that decay; the algorithm scales the real one only.
    columns : {"unit", "squares"}, default="unit"
        Whether columns of B are divided by their length, or by their sum of squares as printed.
    current : bool, default=True
        Whether innovations act at their own time; the algorithm draws q blocks, not q + 1.
    return_parameters : bool, default=False
        Whether A (p, n, n) and B (q + 1, n, n) are returned too.
    random_state : int, RandomState or None

    Returns
    -------
    X : ndarray of shape (n_samples, n_series)
    A, B : ndarray
        Only with `return_parameters=True`.

    Examples
    --------
    >>> X, A, B = make_arma(50, 4, p=2, q=1, return_parameters=True, random_state=0)
    >>> X.shape, A.shape, B.shape
    ((50, 4), (2, 4, 4), (2, 4, 4))
    """
    if p < 1 or n_series % p:
        raise ValueError(
            f"n_series must be a multiple of p >= 1, got n_series={n_series} and p={p}."
        )
    orthonormal = choose(basis, BASES, "basis")
    everywhere = choose(decay_on, DECAYS, "decay_on")
    power = choose(columns, COLUMNS, "columns")
    random = check_random_state(random_state)
    m = n_series // p
    modulus = decay if everywhere else 1.0
    D = _rotations(m, decay, modulus, 2 * np.pi / period)
    A = np.zeros((p, n_series, n_series))
    for i in range(p):
        V = random.standard_normal((m, m))
        if orthonormal:
            V = np.linalg.qr(V)[0]
        block = slice(i * m, (i + 1) * m)
        A[i, block, block] = V @ D @ np.linalg.inv(V)
    B = random.standard_normal((q + 1, n_series, n_series))
    B[0] *= current
    B /= np.square(B).sum(axis=(0, 1)) ** power
    start = random.standard_normal((p, n_series))
    radius = random.uniform(size=(p, 1)) ** (1 / n_series)
    start *= radius / np.linalg.norm(start, axis=1, keepdims=True)
    X = _simulated(A, B, random.standard_normal((n_samples + q, n_series)), start)
    if return_parameters:
        return X, A, B
    return X


def _rotations(m: int, real: float, modulus: float, angle: float) -> Array:
    """Return a block diagonal matrix of rotations, after a real eigenvalue if m is odd."""
    D = np.zeros((m, m))
    odd = m % 2
    D[:odd, :odd] = real
    c = np.cos(angle)
    s = np.sin(angle)
    rotation = modulus * np.array([[c, -s], [s, c]])
    for k in range(odd, m, 2):
        D[k : k + 2, k : k + 2] = rotation
    return D


def make_varma(
    n_samples: int = 200,
    n_series: int = 3,
    p: int = 1,
    q: int = 1,
    *,
    ar_radius: float = 0.8,
    ma_radius: float = 0.6,
    sigma: Any = None,
    return_parameters: bool = False,
    random_state: Any = None,
) -> Any:
    """Return x_t = sum_i A_i x_{t-i} + v_t + sum_j Theta_j v_{t-j} with random A and Theta.

    Spectral radii are given; below one, the process is stable and invertible.

    Parameters
    ----------
    n_samples, n_series, p, q : int
    ar_radius, ma_radius : float, default=0.8, 0.6
        Spectral radii of the companion matrices of A and of -Theta.
    sigma : array-like of shape (n_series, n_series), optional
        Covariance of v; the identity if not given.
    return_parameters : bool, default=False
        Whether A (p, n, n) and Theta (q, n, n) are returned too.
    random_state : int, RandomState or None

    Returns
    -------
    X : ndarray of shape (n_samples, n_series)
    A, Theta : ndarray
        Only with `return_parameters=True`.

    Examples
    --------
    >>> make_varma(50, 2, random_state=0).shape
    (50, 2)
    """
    random = check_random_state(random_state)
    n = n_series
    A = _with_radius(random.standard_normal((p, n, n)), ar_radius)
    theta = _with_radius(random.standard_normal((q, n, n)), ma_radius)
    root = np.eye(n)
    if sigma is not None:
        root = np.linalg.cholesky(np.asarray(sigma, float))
    v = random.standard_normal((n_samples + BURN_IN + q, n)) @ root.T
    B = np.concatenate([np.eye(n)[None], theta])
    X = _simulated(A, B, v, np.zeros((p, n)))[BURN_IN:]
    if return_parameters:
        return X, A, theta
    return X


def _with_radius(matrices: Array, radius: float) -> Array:
    """Return the i-th matrix times c^i, which multiplies all eigenvalues of the companion by c."""
    if not len(matrices):
        return matrices
    c = radius / spectral_radius(matrices)
    powers = c ** np.arange(1, len(matrices) + 1)
    return matrices * powers[:, None, None]


def _simulated(A: Array, B: Array, innovations: Array, start: Array) -> Array:
    """Return x_t = sum_i A_i x_{t-i} + sum_j B_j e_{t-j}; e has q rows before the first time."""
    p = len(A)
    q = len(B) - 1
    N = len(innovations) - q
    moving_average = sum(innovations[q - j : q - j + N] @ B[j].T for j in range(q + 1))
    X = np.concatenate([start, moving_average])
    for t in range(p, len(X)):
        for i in range(p):
            X[t] += A[i] @ X[t - 1 - i]
    return X[p:]
