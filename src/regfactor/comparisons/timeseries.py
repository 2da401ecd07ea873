"""Forecasters that the thesis (ch. 7) compares with: Hannan-Rissanen, EM-Kalman, N4SID, HSE-HMM."""

from __future__ import annotations

import abc
import itertools
from typing import Any, Self

import numpy as np
import scipy.linalg
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from regfactor.core.params import Array, choose, frozen, require_count, require_not_negative
from regfactor.fitting.base import all_or_nothing
from regfactor.fitting.inputs import validated
from regfactor.fitting.parameters import NON_NEGATIVE, parametrized
from regfactor.kernels import Gaussian
from regfactor.series.arma.criteria import CRITERIA, Criterion, bic
from regfactor.series.arma.model import radius, regressors

RANK_TOL = 1e-12  # share of the largest singular value below which there is no state
NOISE_RIDGE = 1e-10  # share of its trace that is added to a noise covariance


class Forecaster(BaseEstimator, abc.ABC):
    """A model of a vector series, rows being times, that is iterated into the future."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to a series of shape (n_samples, n_series)."""
        with all_or_nothing(self):
            self._fit(validated(self, X, dtype=np.float64, ensure_min_samples=8))
        return self

    @abc.abstractmethod
    def _fit(self, X: Array) -> None:
        """Set the fitted attributes."""

    def forecast(self, horizon: int = 1) -> Array:
        """Return the next rows as expected, of shape (horizon, n_series)."""
        check_is_fitted(self)
        require_count(self, horizon=horizon)
        return self._forecast(horizon)

    @abc.abstractmethod
    def _forecast(self, horizon: int) -> Array:
        """Iterate the model."""


def least_squares(D: Array, Y: Array) -> tuple[Array, Array, float]:
    """Return coefficients, residuals and log|Sigma| of a regression."""
    B = np.linalg.lstsq(D, Y, rcond=None)[0]
    E = Y - D @ B
    return B, E, log_determinant(E)


def covariance(E: Array) -> Array:
    """Return the second moments of errors."""
    return E.T @ E / len(E)


def log_determinant(E: Array) -> float:
    """Return the logarithm of the determinant of the covariance of errors."""
    return float(np.linalg.slogdet(covariance(E))[1])


def _windows(X: Array, length: int) -> Array:
    """Return all runs of consecutive rows, each as one row."""
    windows = np.lib.stride_tricks.sliding_window_view(X, length, axis=0)
    by_time = windows.transpose(0, 2, 1)
    return by_time.reshape(len(windows), -1)


@parametrized
class HannanRissanen(Forecaster):
    """x_t = sum_i A_i x_{t-i} + v_t + sum_j M_j v_{t-j} by least squares.

    v are the residuals of a long autoregression. Relearning A with the moving-average part
    removed, as the thesis adds, gives the same A (normal equations). Nothing keeps the model
    stable or invertible.

    Parameters
    ----------
    p, q : int or None
        Orders; None chooses among 0..max_order.
    criterion : {"bic", "aicc"}, default="bic"
    max_order : int, default=4
    intercept : bool, default=True

    Attributes
    ----------
    ar_, ma_, intercept_, sigma_ : ndarray
    p_, q_ : int
    radius_ : float
        Spectral radius of the autoregression.

    Examples
    --------
    >>> from regfactor.comparisons.timeseries import HannanRissanen
    >>> from regfactor.datasets.series import make_varma
    >>> HannanRissanen(p=1, q=1).fit(make_varma(random_state=0)).forecast(3).shape
    (3, 3)
    """

    _parameter_constraints = {"intercept": ["boolean"]}

    p: int | None = None
    q: int | None = None
    criterion: str = "bic"
    max_order: int = 4
    intercept: bool = True

    def _fit(self, X: Array) -> None:
        criterion = choose(self.criterion, CRITERIA, "criterion")
        n = X.shape[1]
        require_not_negative(
            self,
            max_order=self.max_order,
            p=self.p or 0,
            q=self.q or 0,
        )
        orders = range(self.max_order + 1)
        ps = orders
        if self.p is not None:
            ps = range(self.p, self.p + 1)
        qs = orders
        if self.q is not None:
            qs = range(self.q, self.q + 1)
        V = self._innovations(X, criterion)
        T = len(V)
        first = max(*ps, *qs)
        X = X[len(X) - T :]  # both begin where the long autoregression does
        lags = regressors(X, V[:, :0], first, 0, False)
        noises = regressors(V, V[:, :0], first, 0, False)
        ones = np.ones((T - first, int(self.intercept)))

        def regression(p: int, q: int) -> tuple[Array, Array, float]:
            own = lags[:, : p * n]
            moving = noises[:, : q * n]
            return least_squares(np.hstack([own, moving, ones]), X[first:])

        best = (np.inf, 0, 0)
        for p, q in itertools.product(ps, qs):
            B, _, size = regression(p, q)
            score = criterion(size, T - first, n, len(B))
            best = min(best, (score, p, q))
        _, p, q = best
        B, E, _ = regression(p, q)
        self.p_ = p
        self.q_ = q
        self.sigma_ = covariance(E)
        stacked = B[: (p + q) * n].reshape(-1, n, n)
        coefficients = stacked.transpose(0, 2, 1)
        self.ar_ = coefficients[:p]
        self.ma_ = coefficients[p:]
        if self.intercept:
            self.intercept_ = B[-1]
        else:
            self.intercept_ = np.zeros(n)
        self.radius_ = radius(self.ar_)
        self._last = X[T - first :]
        kept = min(len(E), first)
        self._errors = E[len(E) - kept :]

    def _innovations(self, X: Array, criterion: Criterion) -> Array:
        """Return the residuals of an autoregression longer than the model, chosen by criterion."""
        T, n = X.shape
        fitting = (T // 2 - 1) // (n + 1)
        usual = int(12 * (T / 100) ** 0.25)  # Schwert's rule
        most = max(min(usual, fitting), 1)
        D = regressors(X, X[:, :0], most, 0, False)
        ones = np.ones((len(D), 1))
        scores = []
        for k in range(1, most + 1):
            lags = np.hstack([D[:, : k * n], ones])
            size = least_squares(lags, X[most:])[2]
            scores.append(criterion(size, len(D), n, k * n + 1))
        best = int(np.argmin(scores)) + 1
        order = min(max(best, self.max_order), most)
        D = regressors(X, X[:, :0], order, 0, True)
        return least_squares(D, X[order:])[1]

    def _forecast(self, horizon: int) -> Array:
        X = list(self._last)
        V = list(self._errors)
        for _ in range(horizon):
            past = np.zeros_like(self.intercept_)
            for i, A in enumerate(self.ar_, start=1):
                past += A @ X[-i]
            noise = np.zeros_like(self.intercept_)
            for j, M in enumerate(self.ma_, start=1):
                noise += M @ V[-j]
            X.append(self.intercept_ + past + noise)
            V.append(np.zeros_like(self.intercept_))
        return np.array(X[len(X) - horizon :])


@parametrized
class N4SID(Forecaster):
    """s_{t+1} = A s_t + K v_t, x_t = C s_t + v_t by subspace identification, without inputs.

    Van Overschee & De Moor (1994). States are the leading singular directions of the projection
    of future blocks on past ones; A and C follow by least squares, K from the Riccati equation of
    the residuals' covariances.

    Parameters
    ----------
    order : int or None, default=None
        Number of states; None takes the one of least BIC of the one-step errors.
    blocks : int or None, default=None
        Rows in the past and in the future; None takes max(2, min(10, T // (4 n + 4))).
    max_order : int, default=20

    Attributes
    ----------
    order_ : int
    transition_, gain_, output_, sigma_, mean_ : ndarray
        A, K, C, the covariance of v and the mean of the series.
    radius_ : float
        Spectral radius of A.

    Examples
    --------
    >>> from regfactor.comparisons.timeseries import N4SID
    >>> from regfactor.datasets.series import make_varma
    >>> N4SID(order=3).fit(make_varma(random_state=0)).forecast(3).shape
    (3, 3)
    """

    order: int | None = None
    blocks: int | None = None
    max_order: int = 20

    def _fit(self, X: Array) -> None:
        T, n = X.shape
        require_count(self, max_order=self.max_order, order=self.order or 1)
        i = max(2, min(10, T // (4 * n + 4)))
        if self.blocks is not None:
            i = self.blocks
        if i < 2:
            raise ValueError(f"N4SID needs blocks >= 2, got {i}.")
        self.mean_ = X.mean(axis=0)
        Z = X - self.mean_
        windows = _windows(Z, 2 * i)
        if len(windows) < 2 * i * n:
            raise ValueError(f"{T} rows are too few for blocks={i} of {n} series; lower blocks.")
        states, R, ahead = _states(windows, i, n)
        most = min(self.max_order, len(R))
        if self.order is not None:
            orders = [min(self.order, most)]
        else:
            orders = list(range(1, most + 1))
        best = np.inf
        now = Z[i : i + len(windows)]
        for k in orders:
            later = scipy.linalg.solve_triangular(R[:k, :k], ahead[:k]).T
            parts = _system(states[:, :k], later, now)
            errors, state = _filtered(*parts, Z)
            size = log_determinant(errors)
            score = np.inf
            if np.isfinite(size):
                score = bic(size, T, n, 2 * k)
            if score < best or k == orders[0]:
                best = score
                self.order_ = k
                self._state = state
                self.transition_, self.gain_, self.output_ = parts
                self.sigma_ = covariance(errors)
        eigenvalues = np.linalg.eigvals(self.transition_)
        self.radius_ = float(np.abs(eigenvalues).max())

    def _forecast(self, horizon: int) -> Array:
        state = self._state
        rows = []
        for _ in range(horizon):
            rows.append(self.mean_ + self.output_ @ state)
            state = self.transition_ @ state
        return np.array(rows)


@frozen
class Smoothed:
    """Moments of states given all rows, and the log likelihood of these.

    Attributes
    ----------
    means : array of shape (T, k)
    covariances, lagged : array of shape (T, k, k)
        Of s_t, and of s_{t+1} with s_t; the last of `lagged` is zero.
    log_likelihood : float
    """

    means: Array
    covariances: Array
    lagged: Array
    log_likelihood: float


@frozen
class StateSpace:
    """s_{t+1} = A s_t + w_t, z_t = C s_t + e_t; w, e and s_1 normal."""

    A: Array
    C: Array
    Q: Array  # covariance of w
    R: Array  # covariance of e
    start: Array  # mean of s_1
    spread: Array  # covariance of s_1

    def smoothed(self, Z: Array) -> Smoothed:
        """Return the moments of states by the Kalman filter and Rauch-Tung-Striebel smoother."""
        T, n = Z.shape
        k = len(self.A)
        predicted = np.zeros((T, k))
        ahead = np.zeros((T, k, k))
        means = np.zeros((T, k))
        covariances = np.zeros((T, k, k))
        mean = self.start
        spread = self.spread
        log_likelihood = -T * n / 2 * np.log(2 * np.pi)
        for t in range(T):
            predicted[t] = mean
            ahead[t] = spread
            cross = self.C @ spread
            factor = scipy.linalg.cho_factor(cross @ self.C.T + self.R, lower=True)
            gain = scipy.linalg.cho_solve(factor, cross).T
            error = Z[t] - self.C @ mean
            weighted = scipy.linalg.cho_solve(factor, error)
            half_logdet = np.log(np.diag(factor[0])).sum()
            log_likelihood -= half_logdet + error @ weighted / 2
            means[t] = mean + gain @ error
            kept = np.eye(k) - gain @ self.C  # in Joseph's form, which stays positive definite
            covariances[t] = kept @ spread @ kept.T + gain @ self.R @ gain.T
            mean = self.A @ means[t]
            spread = self.A @ covariances[t] @ self.A.T + self.Q
        lagged = np.zeros((T, k, k))
        for t in range(T - 2, -1, -1):
            back = np.linalg.solve(ahead[t + 1], self.A @ covariances[t]).T
            learned = means[t + 1] - predicted[t + 1]
            means[t] += back @ learned
            change = covariances[t + 1] - ahead[t + 1]
            covariances[t] += back @ change @ back.T
            lagged[t] = covariances[t + 1] @ back.T
        return Smoothed(means, covariances, lagged, float(log_likelihood))

    @staticmethod
    def given(Z: Array, states: Smoothed) -> StateSpace:
        """Return the parameters of largest expected log likelihood, given moments of states."""
        T = len(Z)
        means = states.means
        second = states.covariances + means[:, :, None] * means[:, None, :]
        cross = states.lagged[:-1].sum(axis=0) + means[1:].T @ means[:-1]
        before = second[:-1].sum(axis=0)
        A = np.linalg.solve(before, cross.T).T
        Q = (second[1:].sum(axis=0) - A @ cross.T) / (T - 1)
        C = np.linalg.solve(second.sum(axis=0), means.T @ Z).T
        R = (Z.T @ Z - C @ (means.T @ Z)) / T
        return StateSpace(
            A,
            C,
            _positive(Q),
            _positive(R),
            means[0],
            states.covariances[0],
        )


def _positive(noise: Array) -> Array:
    """Return a covariance made symmetric and positive definite against rounding."""
    symmetric = (noise + noise.T) / 2
    ridge = NOISE_RIDGE * np.trace(noise)
    return symmetric + ridge * np.eye(len(noise))


@parametrized
class EMKalman(Forecaster):
    """max log p(x) for s_{t+1} = A s_t + w_t, x_t = mean + C s_t + e_t, by EM.

    Shumway & Stoffer (1982): the Kalman smoother returns the moments of the states, from which all
    parameters follow in closed form. It starts from principal components and their autoregression.
    The likelihood never falls, and its maximum is local.

    Parameters
    ----------
    order : int or None, default=None
        Number of states; None takes as many as series.
    max_iter : int, default=50
    tol : float, default=1e-5
        Relative change of the log likelihood at which EM ends.

    Attributes
    ----------
    transition_, output_, state_noise_, sigma_, mean_ : ndarray
        A, C, the covariances of w and e, and the mean of the series.
    log_likelihood_ : list of float
        After each step.
    radius_ : float
        Spectral radius of A.

    Examples
    --------
    >>> from regfactor.comparisons.timeseries import EMKalman
    >>> from regfactor.datasets.series import make_varma
    >>> EMKalman().fit(make_varma(random_state=0)).forecast(3).shape
    (3, 3)
    """

    _parameter_constraints = {"tol": [NON_NEGATIVE]}

    order: int | None = None
    max_iter: int = 50
    tol: float = 1e-5

    def _fit(self, X: Array) -> None:
        n = X.shape[1]
        require_count(self, max_iter=self.max_iter, order=self.order or 1)
        k = n
        if self.order is not None:
            k = self.order
        if k > n:
            raise ValueError(f"EMKalman needs order <= the number of series, {n}, got {k}.")
        self.mean_ = X.mean(axis=0)
        Z = X - self.mean_
        model = _principal_start(Z, k)
        states = model.smoothed(Z)
        likelihoods = [states.log_likelihood]
        for _ in range(self.max_iter):
            model = StateSpace.given(Z, states)
            states = model.smoothed(Z)
            likelihoods.append(states.log_likelihood)
            gain = likelihoods[-1] - likelihoods[-2]
            if gain <= self.tol * abs(likelihoods[-1]):
                break
        self.log_likelihood_ = likelihoods
        self.transition_ = model.A
        self.output_ = model.C
        self.state_noise_ = model.Q
        self.sigma_ = model.R
        eigenvalues = np.linalg.eigvals(model.A)
        self.radius_ = float(np.abs(eigenvalues).max())
        self._state = states.means[-1]

    def _forecast(self, horizon: int) -> Array:
        state = self._state
        rows = []
        for _ in range(horizon):
            state = self.transition_ @ state
            rows.append(self.mean_ + self.output_ @ state)
        return np.array(rows)


def _principal_start(Z: Array, k: int) -> StateSpace:
    """Return a model whose states are principal components, with half of their noise observed."""
    scale = np.sqrt(np.square(Z).mean()) or 1.0
    U, s, Vt = np.linalg.svd(Z, full_matrices=False)
    states = U[:, :k] * s[:k] / scale
    A, left, _ = least_squares(states[:-1], states[1:])
    C = scale * Vt[:k].T
    Q = left.T @ left / len(left) / 2
    Q += NOISE_RIDGE * np.trace(Q) * np.eye(k)
    R = C @ Q @ C.T + np.diag(np.full(len(C), 1e-2 * scale**2))
    spread = states.T @ states / len(states) + Q
    return StateSpace(A.T, C, Q, R, np.zeros(k), spread)


def _states(windows: Array, i: int, n: int) -> tuple[Array, Array, Array]:
    """Return the states by falling importance, and R and Q'O of the states one step later.

    The extended observability matrix without its last block is Q R; with its first k columns the
    later states of order k solve R_k s = (Q'O)_k, where O is the projection that sees one row more.
    """
    past = windows[:, : i * n]
    future = windows[:, i * n :]
    projected = past @ np.linalg.lstsq(past, future, rcond=None)[0]
    _, s, Vt = np.linalg.svd(projected, full_matrices=False)
    kept = s > RANK_TOL * s[0]
    roots = np.sqrt(s[kept])
    V = Vt[kept].T
    longer = windows[:, : (i + 1) * n]
    shorter = windows[:, (i + 1) * n :]
    ahead = longer @ np.linalg.lstsq(longer, shorter, rcond=None)[0]
    earlier = (i - 1) * n
    observability = V * roots
    Q, R = np.linalg.qr(observability[:earlier, :earlier])
    return projected @ (V / roots), R, Q.T @ ahead.T


def _system(states: Array, later: Array, now: Array) -> tuple[Array, Array, Array]:
    """Return A, K and C from states, states one step later, and observations."""
    k = states.shape[1]
    stacked = np.hstack([later, now])
    M = np.linalg.lstsq(states, stacked, rcond=None)[0].T
    A = M[:k]
    C = M[k:]
    W = stacked - states @ M.T
    noise = covariance(W)
    noise += NOISE_RIDGE * np.trace(noise) * np.eye(len(noise))
    R = noise[k:, k:]
    Q = noise[:k, :k]
    S = noise[:k, k:]
    P = scipy.linalg.solve_discrete_are(A.T, C.T, Q, R, s=S)
    of_errors = C @ P @ C.T + R
    with_errors = A @ P @ C.T + S
    K = np.linalg.solve(of_errors, with_errors.T).T
    return A, K, C


def _filtered(A: Array, K: Array, C: Array, Z: Array) -> tuple[Array, Array]:
    """Return one-step errors and the state after the last row."""
    state = np.zeros(len(A))
    errors = np.empty_like(Z)
    for t, z in enumerate(Z):
        errors[t] = z - C @ state
        state = A @ state + K @ errors[t]
    return errors, state


@parametrized
class HSEHMM(Forecaster):
    """Hilbert space embedding of a hidden Markov model (Song et al. 2010), iterated.

    Gaussian kernels embed three consecutive windows of observations; a spectral decomposition of
    their covariances takes the place of hidden states. Nothing keeps the iterated prediction
    stable.

    Parameters
    ----------
    n_states : int, default=10
    window : int, default=1
        Observations that are embedded together.
    ridge : float, default=1e-3
        Added to kernel matrices, as a share of the number of windows.
    gamma : float or "median", default="median"
        Of the kernel exp(-gamma |x - y|^2).

    Attributes
    ----------
    n_states_ : int
    weights_ : ndarray of shape (n_windows,)
        Weights of the training windows in the prediction of the next.

    Examples
    --------
    >>> from regfactor.comparisons.timeseries import HSEHMM
    >>> from regfactor.datasets.series import make_varma
    >>> HSEHMM().fit(make_varma(random_state=0)).forecast(3).shape
    (3, 3)
    """

    n_states: int = 10
    window: int = 1
    ridge: float = 1e-3
    gamma: float | str = "median"

    def _fit(self, X: Array) -> None:
        require_count(self, n_states=self.n_states, window=self.window)
        w = self.window
        rows = _windows(X, w)
        first = rows[:-2]
        second = rows[1:-1]
        third = rows[2:]
        self._kernel = Gaussian(gamma=self.gamma).resolved(rows)
        gram = self._kernel.gram
        m = len(first)
        K = gram(first, first)
        L = gram(second, second)
        F = gram(second, third)
        leading = [max(m - self.n_states, 0), m - 1]
        lifted = L + self.ridge * np.eye(m)
        values, A = scipy.linalg.eigh(L @ K @ L, lifted, subset_by_index=leading)
        self.n_states_ = len(values)
        squares = np.einsum("ij,ij->j", A, L @ A)
        A = A / np.sqrt(squares)
        self._second = second
        self._basis = A
        self._ahead = A.T @ F
        ridge = self.ridge * m * np.eye(m)
        self._solver = np.linalg.inv(L + ridge)
        self._read = K @ L @ A / values
        state = A.T @ gram(second, first).mean(axis=1)
        self._last = X[len(X) - w :]
        for row in rows:
            state = self._updated(state, row)
        self._state = state
        self.weights_ = self._read @ state

    def _updated(self, state: Array, row: Array) -> Array:
        """Return the state after a window, scaled so that prediction weights sum to one."""
        similar = self._kernel.gram(self._second, row[None])
        near = self._solver @ similar[:, 0]
        state = self._ahead @ (near * (self._read @ state))
        total = float((self._read @ state).sum())
        if total:
            return state / total
        return state

    def _forecast(self, horizon: int) -> Array:
        state = self._state
        last = self._last
        n = self._last.shape[1]
        out = []
        for _ in range(horizon):
            weights = self._read @ state
            out.append(weights @ self._second[:, -n:])
            last = np.vstack([last[1:], out[-1]])
            state = self._updated(state, last.ravel())
        return np.array(out)
