"""Low rank in every mode: n-way arrays with missing entries, samples first."""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from regfactor.core.loop import Clock, Limits, Solution
from regfactor.core.params import Array, frozen, is_option, warn
from regfactor.fitting.base import Choice, Estimator, Run, Transformer
from regfactor.fitting.columns import unmasked
from regfactor.fitting.conformal import PredictionInterval, conformal_quantile
from regfactor.fitting.inputs import check_sizes
from regfactor.fitting.parameters import (
    AUTO,
    FINITE_POSITIVE,
    RUN_CONSTRAINTS,
    check_level,
    parametrized,
)
from regfactor.losses import Huber, Loss, Squared, as_loss
from regfactor.solvers.base import solve_within
from regfactor.tables.consensus_admm import (
    OverlappedTrace,
    TuckerPoint,
    canonical,
    multiply,
    unfold,
)

MIN_MODES = 3
HELD_OUT_SHARE = 0.1
N_STRENGTHS = 10
SMALLEST_STRENGTH = 1e-3  # of alpha_max
PATH_TOL = 1e-3  # relative gap of fits that only choose a strength
BLOCK_ELEMENTS = 1_000_000  # of products of components that are held at once
MAX_CODE_STEPS = 1000
CODE_TOL = 1e-12  # relative change of codes


@frozen
class ArrayInputs:
    """The array and the loss of its entries."""

    X: Array
    loss: Loss


@frozen
class StrengthPath:
    """The strengths that held-out entries judged, and the mean loss of these entries."""

    alphas: Array
    validation_loss: Array
    distances: list[Array]  # of held-out entries from their prediction, under each strength


@parametrized
class TensorSubspace(Transformer, Estimator):
    """min over Z, b of sum over observed entries of f(z + b; x) + alpha sum_k |Z_(k)|_tr.

    X is an array of three or more modes, such as samples x sensors x times, with samples first and
    NaN for missing entries. Z_(k) is Z unfolded to a matrix along mode k, so that the sum of trace
    norms makes Z low in rank in every mode at once. The problem is convex, and solved to a proven
    distance from its global optimum, `gap_`. Each position in a sample has an offset b without a
    penalty, which is part of the problem and of its certificate.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Strength of the trace norms. "auto" holds out a tenth of the observed entries and takes
        the strength, of ten from `alpha_max_` down, under which they have the least loss.
    loss : {"squared", "huber"} or Loss, default="squared"
        `regfactor.losses.Squared()` or `Huber(delta)`; delta is in units of X.
    fit_intercept : bool, default=True
        Whether to fit the offsets b; they are zero otherwise.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Relative duality gap at which the fit stops.
    time_limit : float, optional
        Seconds after which the solver stops; a warning then reports the gap.
    verbose : int, default=0
        1 shows a line with the objective and the gap.
    random_state : int, optional
        Draws the entries that `alpha="auto"` holds out.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, rank)
        Codes of the training samples: left singular vectors of Z_(1), times singular values.
    components_ : ndarray of shape (rank, ...)
        A unit array for each code, in the shape of a sample; Z = codes_ times components_.
    mode_components_ : list of ndarray of shape (size of the mode, rank of the mode)
        Orthonormal bases of the other modes, of the higher-order SVD (Tucker form) of Z.
    core_ : ndarray
        Core of the Tucker form: `components_` = core_ times mode_components_ in every mode but
        the first.
    intercept_ : ndarray
        The offset of each position, in the shape of a sample.
    alpha_, alpha_max_ : float
        The strength, and one from which on Z = 0 is optimal.
    alphas_, validation_loss_ : ndarray
        With `alpha="auto"`: the strengths that were tried, and the mean loss of held-out entries.

    See Also
    --------
    ConvexSubspace : For tables, arrays of two modes.

    Notes
    -----
    The certificate is that of the Tucker form that is published: multipliers of ADMM, one array for
    each mode, of spectral norm at most alpha, whose sum is zero at missing entries, bound the
    optimum from below by Fenchel duality; with offsets the sum is zero over the samples, too.
    `alpha_max_` is an upper bound of the least strength under which Z is zero.

    References
    ----------
    R. Tomioka, K. Hayashi, H. Kashima. Estimation of low-rank tensors via convex optimization.
    arXiv:1010.0789, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import TensorSubspace
    >>> a, b, c = np.arange(1.0, 9.0), np.array([1.0, -1.0, 2.0, 0.5]), np.array([2.0, 1.0, -1.0])
    >>> X = np.einsum("i,j,k->ijk", a, b, c)  # rank one in every mode
    >>> X[2, 1, 0] = np.nan  # was -6
    >>> model = TensorSubspace(alpha=0.01).fit(X)
    >>> model.codes_.shape, [U.shape for U in model.mode_components_]
    ((8, 1), [(4, 1), (3, 1)])
    >>> print(f"{model.complete(X)[2, 1, 0]:.1f}")
    -6.0
    """

    _parameter_constraints = {
        **RUN_CONSTRAINTS,
        "alpha": [FINITE_POSITIVE, AUTO],
        "loss": [str, Loss],
        "fit_intercept": ["boolean"],
    }
    _takes_missing = True

    alpha: Any = "auto"
    loss: Any = "squared"
    _: KW_ONLY
    fit_intercept: bool = True
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to an array; NaN marks a missing entry.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...), of three or more modes
        y : ignored

        Returns
        -------
        self
        """
        return self._fit(X)

    def _read(self, X: Any) -> ArrayInputs:
        loss = as_loss(self.loss)
        if not isinstance(loss, Squared | Huber):
            raise ValueError(
                "The 'loss' parameter of TensorSubspace must be 'squared', 'huber', Squared() or "
                f"Huber(delta). Got {self.loss!r} instead."
            )
        array = _as_array(X)
        if np.isnan(array).all():
            raise ValueError("X has no observed entry: all are NaN, and there is nothing to fit.")
        check_sizes(array.reshape(len(array), -1), None, fitting=True)
        return ArrayInputs(array, loss)

    def _state(self, inputs: ArrayInputs) -> OverlappedTrace:
        alpha = 1.0
        if not is_option(self.alpha, "auto"):
            alpha = float(self.alpha)
        return OverlappedTrace(inputs.X, inputs.loss, alpha, self.fit_intercept)

    def _choose(
        self, problem: OverlappedTrace, inputs: ArrayInputs, run: Run
    ) -> Choice[OverlappedTrace]:
        largest = problem.alpha_max
        if not is_option(self.alpha, "auto") or largest == 0:
            return Choice(problem)
        path = self._judged(largest, inputs, run)
        if len(path.alphas) < N_STRENGTHS:
            warn(
                f"The time limit ended the search for alpha after {len(path.alphas)} of "
                f"{N_STRENGTHS} strengths; raise time_limit, or give a number.",
                ConvergenceWarning,
            )
        best = float(path.alphas[path.validation_loss.argmin()])
        return Choice(replace(problem, alpha=best), path)

    def _judged(self, largest: float, inputs: ArrayInputs, run: Run) -> StrengthPath:
        """Return the losses of held-out entries under strengths from strong to weak."""
        places = np.flatnonzero(~np.isnan(inputs.X))
        n_held = int(np.ceil(HELD_OUT_SHARE * len(places)))
        if n_held == len(places):
            raise ValueError(
                "alpha='auto' holds out observed entries, and X has a single one: give a number."
            )
        held = run.random.permutation(places)[:n_held]
        kept = inputs.X.copy()
        kept.flat[held] = np.nan
        truth = inputs.X.flat[held]
        alphas = np.geomspace(largest, SMALLEST_STRENGTH * largest, N_STRENGTHS)
        clock = run.clock.half()  # the other half is that of the last fit
        losses: list[float] = []
        distances = []
        start: TuckerPoint | None = None
        for alpha in alphas:
            if losses and clock.expired:
                break
            problem = OverlappedTrace(kept, inputs.loss, float(alpha), self.fit_intercept)
            start = solve_within(problem, _quick(run.limits, clock), start).point
            predicted = (start.dense() + start.offset).flat[held]
            losses.append(float(inputs.loss.value(predicted, truth).mean()))
            distances.append(np.abs(predicted - truth))
        return StrengthPath(alphas[: len(losses)], np.array(losses), distances)

    def _publish(
        self,
        choice: Choice[OverlappedTrace],
        solution: Solution[TuckerPoint],
        inputs: ArrayInputs,
        run: Run,
    ) -> Solution[TuckerPoint]:
        point = canonical(solution.point)
        # rows of the core's first unfolding are orthogonal: their norms go into the codes
        sizes = np.linalg.norm(unfold(point.core, 0), axis=1)
        self.codes_ = point.factors[0] * sizes
        self.core_ = multiply(point.core, np.diag(1 / sizes), 0)
        self.mode_components_ = list(point.factors[1:])
        components = self.core_
        for mode, U in enumerate(self.mode_components_, start=1):
            components = multiply(components, U, mode)
        self.components_ = components
        self.intercept_ = point.offset
        self.alpha_ = choice.problem.alpha
        self.alpha_max_ = choice.problem.alpha_max
        # of held-out entries from their prediction
        self._distances: Array | None = None
        if choice.selection is not None:
            self.alphas_ = choice.selection.alphas
            self.validation_loss_ = choice.selection.validation_loss
            self._distances = choice.selection.distances[self.validation_loss_.argmin()]
        self._loss = inputs.loss
        self._ridge = self.alpha_ * _code_ridge(point, sizes)
        if not len(sizes):
            warn(
                f"At alpha={self.alpha_:.3g} the model has no component: every sample is its "
                "offset. Lower alpha."
            )
        return solution

    def transform(self, X: Any) -> Array:
        """Return codes of samples, each scored alone by its observed entries.

        The components are held fixed. The trace norms are then a ridge on the codes, under which
        the training samples have the codes of the fit, up to its tolerance.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples of the shape of the training samples; NaN is missing.

        Returns
        -------
        array of shape (n_samples, rank)
        """
        check_is_fitted(self)
        array = self._new_samples(X)
        return self._codes(array).astype(_float_type(X), copy=False)

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit, and return the codes of the training samples."""
        return self.fit(X).codes_.astype(_float_type(X), copy=False)

    def complete(self, X: Any) -> Array:
        """Return an array with its missing entries filled; observed ones are kept.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            The training array, or new samples; NaN is missing.

        Returns
        -------
        array of the shape of X
        """
        check_is_fitted(self)
        array = self._new_samples(X)
        predicted = np.tensordot(self._codes(array), self.components_, axes=1) + self.intercept_
        return np.where(np.isnan(array), predicted, array).astype(_float_type(X), copy=False)

    def complete_interval(self, X: Any, level: float = 0.9) -> PredictionInterval:
        """Return limits of the missing entries, by the errors at entries that were held out.

        All limits are equally far from the filled entry: by the conformal quantile of the distances
        of the entries that `alpha="auto"` held out from their prediction. They cover if entries are
        missing as those were drawn, uniformly at random, in samples of the training array.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
        level : float, default=0.9
            Share of the missing entries that is to be covered, in (0, 1).

        Returns
        -------
        PredictionInterval
            (lower, upper), two arrays like X; observed entries are their own limits.
        """
        check_is_fitted(self)
        check_level(level)
        if self._distances is None:
            raise ValueError(
                "Intervals need entries that were held out, and with a given alpha none were: fit "
                "with alpha='auto'."
            )
        filled = self.complete(X)
        half = conformal_quantile(self._distances, level)
        width = np.where(np.isnan(self._new_samples(X)), half, 0.0).astype(filled.dtype)
        return PredictionInterval(filled - width, filled + width)

    def _new_samples(self, X: Any) -> Array:
        array = _as_array(X)
        if array.shape[1:] != self.intercept_.shape:
            raise ValueError(
                f"X has samples of shape {array.shape[1:]}, but TensorSubspace was fitted to "
                f"samples of shape {self.intercept_.shape}."
            )
        check_sizes(array.reshape(len(array), -1), None, fitting=False)
        return array

    def _codes(self, array: Array) -> Array:
        """Return argmin over each row of codes of the loss + the ridge, by reweighting.

        A loss of the residual r is below the parabola of weight f'(r) / r that touches it at r, so
        that each step decreases the objective; under the squared loss one step is exact.
        """
        rank = len(self.components_)
        X = unfold(array - self.intercept_, 0)
        C = unfold(self.components_, 0)
        observed = ~np.isnan(X)
        X = np.where(observed, X, 0.0)
        codes = np.zeros((len(X), rank))
        weights = observed.astype(float)
        for _ in range(MAX_CODE_STEPS):
            hessians = _weighted_grams(weights, C) + self._ridge
            moments = (weights * X) @ C.T
            last = codes
            codes = np.linalg.solve(hessians, moments[..., None])[..., 0]
            change = np.linalg.norm(codes - last)
            if isinstance(self._loss, Squared) or change <= CODE_TOL * np.linalg.norm(codes):
                break
            residuals = codes @ C - X
            slopes = self._loss.gradient(residuals, np.zeros_like(residuals))
            flat = residuals == 0
            weights = observed * np.where(flat, 1.0, slopes / np.where(flat, 1.0, residuals))
        return codes


def _as_array(X: Any) -> Array:
    """Return an array of three or more modes in float64; raise for anything else."""
    if hasattr(X, "toarray"):
        raise ValueError(
            "TensorSubspace takes dense arrays of three or more modes, got a sparse matrix; use "
            "ConvexSubspace for tables."
        )
    if isinstance(X, np.ma.MaskedArray):
        X = unmasked(X)
    array = np.asarray(X)
    if array.ndim < MIN_MODES:
        raise ValueError(
            f"TensorSubspace takes arrays of {MIN_MODES} or more modes, samples first; got "
            f"{array.ndim}. Use ConvexSubspace for tables."
        )
    if array.size == 0:
        raise ValueError(f"X of shape {array.shape} has no entry.")
    if array.dtype.kind not in "biufO":
        raise ValueError(f"X must hold numbers, NaN where missing; its type is {array.dtype}.")
    try:
        array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must hold numbers, NaN where missing: {error}.") from error
    if np.isinf(array).any():
        place = tuple(int(i) for i in np.argwhere(np.isinf(array))[0])
        raise ValueError(f"X contains infinity, first at {place}; mark missing entries by NaN.")
    return array


def _float_type(X: Any) -> Any:
    """Return the precision of results: that of X where it is one of floats."""
    dtype = getattr(X, "dtype", None)
    if dtype == np.float32:
        return np.float32
    return np.float64


def _quick(limits: Limits, clock: Clock) -> Limits:
    """Return limits of a fit that only chooses a strength."""
    return replace(
        limits,
        tol=max(limits.tol, PATH_TOL),
        time_limit=clock.left,
        callback=None,
        progress=None,
    )


def _weighted_grams(weights: Array, C: Array) -> Array:
    """Return sum_j weights_ij c_j c_j' for each row i of weights, in blocks of columns j."""
    rank, n_columns = C.shape
    grams = np.zeros((len(weights), rank * rank))
    width = max(BLOCK_ELEMENTS // max(rank * rank, 1), 1)
    for start in range(0, n_columns, width):
        block = slice(start, start + width)
        products = C[:, None, block] * C[None, :, block]
        grams += weights[:, block] @ products.reshape(rank * rank, products.shape[2]).T
    return grams.reshape(len(weights), rank, rank)


def _code_ridge(point: TuckerPoint, sizes: Array) -> Array:
    """Return the matrix R for which the codes of a sample solve min loss + alpha/2 phi' R phi.

    At the optimum minus the gradient of the loss is alpha sum_k (Z_(k) Z_(k)')^(-1/2) x_k Z + W_k,
    the last part orthogonal to the subspaces of Z. Tested with the components, mode 1 gives
    1 / sizes and each other mode the products of components, one of them multiplied by that root.
    """
    ridge = np.diag(1 / sizes)
    slabs = multiply(point.core, np.diag(1 / sizes), 0)
    flat = unfold(slabs, 0)
    for mode in range(1, point.core.ndim):
        # rows of this unfolding are orthogonal, of these norms
        norms = np.linalg.norm(unfold(point.core, mode), axis=1)
        ridge = ridge + flat @ unfold(multiply(slabs, np.diag(1 / norms), mode), 0).T
    return ridge
