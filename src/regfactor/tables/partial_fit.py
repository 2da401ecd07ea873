"""Subspaces of streams: rows arrive in batches, each is read once and then forgotten.

A past row is kept by its features f_i = (x_i - o) Q', Q some orthonormal directions and o the
offsets of the first batch; where entries are missing, f_i are those of its best codes. With
z_i = f_i W the loss of all past rows is a quadratic function of W and of the offsets, whose
equations have the size of the components:

    min over W, b of sum w/2 (f_i w_j + b_j - x_ij)^2 + alpha |F W|_tr.

This restricts the problem of all rows, so that its optimum is an upper bound of theirs.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from regfactor.core.factors import Factors
from regfactor.core.loop import Solution, Status
from regfactor.core.params import EPS, Array, frozen, is_option
from regfactor.engine.blocks import BlockTable, RowBlock
from regfactor.fitting.inputs import ColumnUnits, as_float_table, row_weights
from regfactor.fitting.known import NOTHING
from regfactor.fitting.parameters import check_parameters
from regfactor.fitting.scoring import Scoring
from regfactor.losses import Squared
from regfactor.penalties import Trace
from regfactor.problems.block_squares import BlockSums, BlockTerms, sums_of_block

EXTRA_DIRECTIONS = 16  # in addition to those of components, which later batches may make components
TINY_FEATURE = 1e-10  # share of the largest second moment below which features are dropped
CHANGE = 1e-3  # share of `tol` of relative change at which steps end
NO_GAP = (
    "rows of earlier batches are no longer known, and objective_ is an upper bound of the optimum "
    "of all rows; fit all of them for a certificate"
)


@frozen
class Memory:
    """The equations of all rows seen, in features and one.

    Attributes
    ----------
    Q : ndarray of shape (n_directions, n_features)
        Orthonormal directions of the features, in units of the columns.
    origin : ndarray of shape (n_features,)
        Offsets that are subtracted from rows.
    unit : ndarray of shape (n_features,)
    moments : ndarray of shape (n_directions + 1, n_directions + 1)
        Gram matrix of features and one.
    equations : ndarray of shape (n_features, n_directions + 1, n_directions + 1)
        The same over the observed rows of each column.
    right : ndarray of shape (n_features, n_directions + 1)
        Products of entries with features and one.
    size : float
        Sum of squared entries.
    """

    Q: Array
    origin: Array
    unit: Array
    moments: Array
    equations: Array
    right: Array
    size: float

    @staticmethod
    def empty(Q: Array, origin: Array, unit: Array) -> Memory:
        """Return the memory of no row."""
        m = len(Q) + 1
        d = len(origin)
        return Memory(
            Q,
            origin,
            unit,
            np.zeros((m, m)),
            np.zeros((d, m, m)),
            np.zeros((d, m)),
            0.0,
        )

    def with_directions(self, V: Array) -> Memory:
        """Return the memory with more directions, in which the features of past rows are zero."""
        k = len(self.Q)
        m = k + len(V) + 1
        old = np.append(np.arange(k), m - 1)
        moments = np.zeros((m, m))
        moments[np.ix_(old, old)] = self.moments
        equations = np.zeros((len(self.origin), m, m))
        equations[:, old[:, None], old] = self.equations
        right = np.zeros((len(self.origin), m))
        right[:, old] = self.right
        Q = np.vstack([self.Q, V])
        return Memory(Q, self.origin, self.unit, moments, equations, right, self.size)

    def with_rows(self, sums: BlockSums, basis: CodeBasis, b: Array) -> Memory:
        """Return the memory with a batch, whose sums are those of codes about offsets b."""
        k = len(self.Q)
        shift = b - self.origin
        # features and one, as linear functions of codes and one
        A = np.zeros((k + 1, k + 1))
        A[:k, :k] = basis.features
        A[k, :k] = self.Q @ shift
        A[k, k] = 1.0
        upper = np.triu_indices(k + 1)
        E = np.zeros((len(b), k + 1, k + 1))
        E[:, upper[0], upper[1]] = sums.equations
        E[:, upper[1], upper[0]] = sums.equations
        right = sums.right + shift[:, None] * E[:, :, -1]
        shifted = 2 * shift @ sums.right[:, -1] + np.square(shift) @ E[:, -1, -1]
        P = np.zeros((k + 1, k + 1))
        P[:k, :k] = sums.moments
        P[:k, k] = sums.codes
        P[k, :k] = sums.codes
        P[k, k] = sums.total
        return Memory(
            self.Q,
            self.origin,
            self.unit,
            self.moments + A.T @ P @ A,
            self.equations + A.T @ E @ A,
            self.right + right @ A,
            self.size + sums.size + float(shifted),
        )


@frozen
class CodeBasis:
    """Components whose codes, under a ridge, are those of the model, and the features of codes."""

    C: Array
    features: Array

    @staticmethod
    def of(Q: Array, V: Array, sizes: Array, alpha: float) -> CodeBasis:
        """Return the basis of directions Q for components V of singular values `sizes`.

        Directions that are no component have the size alpha, and are so half shrunk. Features undo
        the shrinkage of a complete row, so that they are its products with Q.
        """
        along = V @ Q.T
        more = np.maximum(sizes - alpha, 0)
        K = alpha * np.eye(len(Q)) + (along.T * more) @ along
        values, U = np.linalg.eigh(K)
        root = np.sqrt(values)
        C = (U * root) @ U.T @ Q
        return CodeBasis(C, (U * ((values + alpha) / root)) @ U.T)


@frozen
class StreamPoint:
    """The optimum of the equations: components, singular values, offsets."""

    C: Array
    sizes: Array
    b: Array
    objective: float
    n_iter: int
    converged: bool


@frozen
class Batch:
    """The rows of a batch, and their weights."""

    table: Any
    weights: Array | None

    def sums(self, terms: BlockTerms) -> BlockSums:
        """Return the sums of the batch."""
        block = RowBlock(0, self.table.shape[0], self._read, self.weights)
        return sums_of_block(block, terms)

    def _read(self) -> Any:
        return self.table


def start_stream(model: Any, X: Any, sample_weight: Any) -> None:
    """Fit to the first batch, and keep its equations."""
    _check_model(model)
    if isinstance(X, BlockTable):
        raise ValueError("partial_fit takes a batch of rows in memory; a BlockTable is for fit.")
    with warnings.catch_warnings():
        # alpha is for all rows: later batches may bring the first component
        warnings.filterwarnings("ignore", message=".* has no component")
        model._fit(X, sample_weight)
    batch = _batch(model, X, sample_weight)
    unit = model.scale_.astype(np.float64)
    b = model._intercept.astype(np.float64)
    Q = np.linalg.qr(model._components.astype(np.float64).T)[0].T
    memory = Memory.empty(Q, b, unit)
    model._memory = _with_batch(model, memory, batch, model.alpha_)
    model._first_batch = batch.table.shape[0]
    model._first_alpha = model.alpha_
    model.n_samples_seen_ = batch.table.shape[0]


def continue_stream(model: Any, X: Any, sample_weight: Any) -> None:
    """Add a batch to the equations, solve them, and publish; a failure leaves all as it was."""
    check_parameters(model)
    _check_model(model)
    batch = _batch(model, X, sample_weight)
    n = model.n_samples_seen_ + batch.table.shape[0]
    alpha = _strength(model, n)
    memory = _with_batch(model, model._memory, batch, alpha)
    point = solve_equations(
        memory,
        alpha,
        model.fit_intercept,
        model.max_rank,
        CHANGE * model.tol,
        model.max_iter,
    )
    _publish(model, point, memory, alpha)
    model._memory = memory
    model.n_samples_seen_ = n
    model.codes_ = model._codes_of(model._rows(X, NOTHING))
    model._record(
        Solution(
            point=point,
            objective=point.objective,
            bound=-np.inf,
            rigorous=False,
            status=Status.SETTLED if point.converged else Status.MAX_ITER,
            n_iter=point.n_iter,
            history=[],
            solver="AcceleratedSteps",
        )
    )


def _check_model(model: Any) -> None:
    """Raise for parameters that streams do not have."""
    if not (is_option(model.loss, "squared") or isinstance(model.loss, Squared)):
        raise ValueError(f"partial_fit needs loss='squared', got {model.loss!r}; use fit.")
    if model.debias or model.bounds or model.row_effects:
        raise ValueError(
            "partial_fit needs debias=False, bounds=None and row_effects=False; set them, or use "
            "fit."
        )


def _batch(model: Any, X: Any, sample_weight: Any) -> Batch:
    table = as_float_table(model, X, None, reset=False)
    return Batch(table, row_weights(table, sample_weight))


def _strength(model: Any, n: int) -> float:
    """Return alpha; one that was chosen grows like the norm of noise, sqrt(n) + sqrt(d)."""
    if not isinstance(model.alpha, str):
        return float(model.alpha)
    width = np.sqrt(model.n_features_in_)
    grown = (np.sqrt(n) + width) / (np.sqrt(model._first_batch) + width)
    return float(model._first_alpha * grown)


def _with_batch(model: Any, memory: Memory, batch: Batch, alpha: float) -> Memory:
    """Return the memory with a batch, and with the directions that its residuals show."""
    V = model._components.astype(np.float64)
    sizes = model._sizes.astype(np.float64)
    b = model._intercept.astype(np.float64)
    basis = CodeBasis.of(memory.Q, V, sizes, alpha)
    sums = batch.sums(BlockTerms(basis.C, b, memory.unit, alpha))
    new = _new_directions(memory.Q, sums.gram, len(V), alpha)
    if len(new):
        memory = memory.with_directions(new)
        basis = CodeBasis.of(memory.Q, V, sizes, alpha)
        sums = batch.sums(BlockTerms(basis.C, b, memory.unit, alpha))
    return memory.with_rows(sums, basis, b)


def _new_directions(Q: Array, gram: Array, rank: int, alpha: float) -> Array:
    """Return directions of residuals outside Q: those above alpha, and others while few are kept.

    A direction below alpha in each batch may be above it in all of them together.
    """
    k, d = Q.shape
    gram = np.triu(gram)
    gram = gram + np.triu(gram, 1).T
    outside = np.eye(d) - Q.T @ Q
    squares, V = np.linalg.eigh(outside @ gram @ outside)
    squares = squares[::-1]
    present = int((squares > d * EPS * max(np.trace(gram), 0.0)).sum())
    strong = int((squares > alpha**2).sum())
    count = min(max(rank + EXTRA_DIRECTIONS - k, strong), present, d - k)
    new = V[:, ::-1][:, :count] - Q.T @ (Q @ V[:, ::-1][:, :count])
    return np.linalg.qr(new)[0].T


def solve_equations(
    memory: Memory,
    alpha: float,
    fit_intercept: bool,
    max_rank: int | None,
    tol: float,
    max_iter: int,
) -> StreamPoint:
    """Return the optimum of the equations of a memory by accelerated proximal steps.

    In features of second moments one, equations of the observed rows are at most those of all rows,
    the identity, so that steps of length one descend; where no entry is missing, one step arrives.
    """
    B = _whitening(memory.moments, fit_intercept)
    E = B.T @ memory.equations @ B
    right = (memory.right @ B)[:, :, None]
    n_offsets = int(fit_intercept)
    d = len(memory.origin)
    x = np.zeros_like(right)
    y = x
    momentum = 1.0
    converged = False
    n_iter = 0
    sizes = np.zeros(0)
    Vt = np.zeros((0, d))
    while n_iter < max_iter and not converged:
        n_iter += 1
        stepped = (y - (E @ y - right))[:, :, 0].T
        penalized = stepped[: len(stepped) - n_offsets]
        U, s, Vt = np.linalg.svd(penalized, full_matrices=False)
        s = np.maximum(s - alpha, 0)
        kept = s > 0
        if max_rank is not None:
            kept[max_rank:] = False
        sizes = s[kept]
        Vt = Vt[kept]
        low_rank = (U[:, kept] * sizes) @ Vt
        new = np.vstack([low_rank, stepped[len(penalized) :]]).T[:, :, None]
        moved = new - x
        converged = bool(np.linalg.norm(new - y) <= tol * np.linalg.norm(new))
        if np.vdot(y - new, moved) > 0:  # momentum points uphill
            momentum = 1.0
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        y = new + (momentum - 1) / grown * moved
        momentum = grown
        x = new
    loss = np.vdot(x, E @ x) / 2 - np.vdot(x, right) + memory.size / 2
    b = memory.origin
    if fit_intercept:
        b = b + x[:, -1, 0] * B[-1, -1]
    objective = float(loss + alpha * sizes.sum())
    return StreamPoint(Vt, sizes, b, objective, n_iter, converged)


def _whitening(P: Array, fit_intercept: bool) -> Array:
    """Return the matrix that takes features and one to features of second moments one.

    With an intercept they are centered, and one becomes a constant of length one.
    """
    k = len(P) - 1
    mean = np.zeros(k)
    if fit_intercept:
        mean = P[:k, k] / P[k, k]
    values, U = np.linalg.eigh(P[:k, :k] - P[k, k] * np.outer(mean, mean))
    kept = values > TINY_FEATURE * values.max(initial=0)
    scaled = U[:, kept] / np.sqrt(values[kept])
    B = np.vstack([scaled, -(mean @ scaled)])
    if not fit_intercept:
        return B
    constant = np.zeros((k + 1, 1))
    constant[k] = 1 / np.sqrt(P[k, k])
    return np.hstack([B, constant])


def _publish(model: Any, point: StreamPoint, memory: Memory, alpha: float) -> None:
    """Set the fitted attributes; remove those that only a fit of all rows has."""
    dtype = model._components.dtype
    factors = Factors(np.diag(point.sizes), point.C).canonical(2.0)
    units = ColumnUnits(np.zeros(len(point.b)), memory.unit)
    model._components = factors.C.astype(dtype)
    model._intercept = point.b.astype(dtype)
    model._sizes = np.linalg.norm(factors.codes, axis=0)
    model._score = Scoring(Squared(), Trace().per_row(factors.codes), alpha)
    model._n_features_out = len(factors.C)
    model._held_out = None
    model._calibration = None
    model._no_certificate = NO_GAP
    model._locally = False
    model.components_ = units.components(model._components)
    model.intercept_ = units.values(model._intercept)
    model.singular_values_ = model._sizes
    model.alpha_ = alpha
    vars(model).pop("alpha_max_", None)
