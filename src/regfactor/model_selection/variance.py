"""Estimates of the loss of a fixed model that use unlabeled rows (thesis, theorem 8; paper, 11).

With U fixed and z free, the loss of a labeled row splits at the projection z*U of f(x) on the
model's span,

    D_F*(y U || f(x))  =  A + B,      A = D_F*(y U || z* U),      B = D_F*(z* U || f(x)),

and B needs no label. The estimate mean_l(A) + mean_all(B) has the variance
VarA/T_l + (VarB + 2 Cov(A, B))/(T_l + T_u): unlabeled rows lower it only if VarB + 2 Cov(A, B) > 0,
not always, as the papers state. The control variate mean_l(A + B) - c (mean_l B - mean_all B) with
c = Cov(A + B, B)/VarB is never worse than labeled rows alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

from regfactor.core.batched_newton import minimize_columns
from regfactor.core.params import Array, frozen
from regfactor.fitting.labels import as_targets, encode_labels
from regfactor.losses.potentials import Dual, MultinomialEntropy, Potential, Softmax
from regfactor.losses.transfers import as_transfer
from regfactor.problems.layout import Dense

MAX_CURVATURE = 1e8  # bound of F*'', which is infinite at 0 under the cube


class Estimate(NamedTuple):
    """An estimate of the expected loss and its variance."""

    value: float
    variance: float


@frozen
class LossEstimate:
    """The parts A and B of the loss of each row, and three estimates of its expectation."""

    fit: Array  # A of labeled rows
    distance: Array  # B of labeled rows
    distance_unlabeled: Array  # B of unlabeled rows
    control_variate: bool = True

    @property
    def covariance(self) -> Array:
        """Covariance of A and B, from labeled rows."""
        return np.cov(self.fit, self.distance)

    @property
    def coefficient(self) -> float:
        """c = Cov(A + B, B) / VarB."""
        C = self.covariance
        if C[1, 1] > 0:
            return float((C[0, 1] + C[1, 1]) / C[1, 1])
        return 0.0

    @property
    def unlabeled_help(self) -> bool:
        """Whether VarB + 2 Cov(A, B) > 0: unlabeled rows improve mean_l(A) + mean_all(B)."""
        C = self.covariance
        return bool(C[1, 1] + 2 * C[0, 1] > 0)

    @property
    def labeled_only(self) -> Estimate:
        """mean_l(A + B)."""
        value = float((self.fit + self.distance).mean())
        return Estimate(value, float(self.covariance.sum()) / len(self.fit))

    @property
    def plain(self) -> Estimate:
        """mean_l(A) + mean_all(B), the papers' estimate."""
        C = self.covariance
        distances = self._all_distances
        shared = C[1, 1] + 2 * C[0, 1]
        variance = C[0, 0] / len(self.fit) + shared / len(distances)
        return Estimate(float(self.fit.mean() + distances.mean()), float(variance))

    @property
    def controlled(self) -> Estimate:
        """mean_l(A + B) - c (mean_l B - mean_all B)."""
        c = self.coefficient
        distances = self._all_distances
        value, variance = self.labeled_only
        shift = float(self.distance.mean() - distances.mean())
        share = 1 / len(self.fit) - 1 / len(distances)
        removed = c * c * float(self.covariance[1, 1]) * share
        return Estimate(value - c * shift, max(variance - removed, 0.0))

    @property
    def estimate(self) -> float:
        """The expected loss: `controlled` with the control variate, else `plain`."""
        return self._chosen.value

    @property
    def variance(self) -> float:
        """The variance of `estimate`."""
        return self._chosen.variance

    @property
    def _chosen(self) -> Estimate:
        return self.controlled if self.control_variate else self.plain

    @property
    def _all_distances(self) -> Array:
        return np.concatenate([self.distance, self.distance_unlabeled])

    def __str__(self) -> str:
        rows = [
            ("labeled rows only", self.labeled_only),
            ("all rows, mean(A) + mean(B)", self.plain),
            ("all rows, control variate", self.controlled),
        ]
        lines = [f"{'expected loss':<30}{'estimate':>12}{'std. error':>12}"]
        lines += [f"{name:<30}{e.value:>12.4g}{e.variance**0.5:>12.2g}" for name, e in rows]
        effect = "lower" if self.unlabeled_help else "raise"
        lines.append(
            f"{len(self.fit)} labeled and {len(self.distance_unlabeled)} unlabeled rows: more "
            f"unlabeled rows {effect} the variance of mean(A) + mean(B) for this model; "
            f"the control variate (c = {self.coefficient:.3g}) takes from them what helps."
        )
        return "\n".join(lines)


@frozen
class ModelSpan:
    """All means of a fixed model: offset + t V for any t, within the range of the transfer f."""

    potential: Potential
    offset: Array
    basis: Array

    @staticmethod
    def of(potential: Potential, U: Array, n_targets: int) -> ModelSpan:
        """Return the span of z U; a row of U beyond the targets is an offset added to z U."""
        if len(U) == n_targets + 1:
            return ModelSpan(potential, U[-1], U[:-1])
        if len(U) != n_targets:
            raise ValueError(
                f"U has {len(U)} rows, y has {n_targets} targets or classes; they must agree."
            )
        if isinstance(potential, Softmax):  # means sum to one: z ranges over sum z = 1
            return ModelSpan(potential, U[0], U[1:] - U[0])
        return ModelSpan(potential, np.zeros(U.shape[1]), U)

    @property
    def conjugate(self) -> Potential:
        """F* as a potential."""
        if isinstance(self.potential, Softmax):
            return MultinomialEntropy()
        return Dual(self.potential)

    def project(self, X: Array) -> Array:
        """Return z*U of every row: the minimizer of D_F*(. || f(x)) over the span."""
        V = self.basis
        conjugate = self.conjugate
        end = self.potential.range
        if not len(X):
            return X

        def evaluate(t: Array) -> tuple[Array, Array, Array]:
            mean = self.offset + t.T @ V
            inside = (mean > end.low) & (mean < end.high)
            legal = np.where(inside, mean, self._inner)
            values = (conjugate.value(legal) - X * legal).sum(axis=1)
            values = np.where(inside.all(axis=1), values, np.inf)
            with np.errstate(divide="ignore", over="ignore"):
                curvature = np.minimum(conjugate.hessian(legal), MAX_CURVATURE)
            return values, (conjugate.transfer(legal) - X).T, curvature.T

        D = np.ascontiguousarray(V.T)
        free = np.zeros(len(V))
        unbounded = np.full((1, 1), np.inf)
        layout = Dense(X.shape[::-1])
        t = minimize_columns(evaluate, D, self._start(X), free, unbounded, layout)
        return self.offset + t.T @ V

    def distance(self, mean: Array, X: Array) -> Array:
        """D_F*(mean || f(x)) of every row; f(x) itself is not needed, by Fenchel and Young."""
        terms = self.conjugate.value(mean) + self.potential.value(X) - mean * X
        return np.maximum(terms.sum(axis=1), 0)

    def split(self, mean: Array, projected: Array) -> Array:
        """D_F*(mean || projected) of every row."""
        return self.conjugate.divergence(mean, projected)

    @property
    def _inner(self) -> float:
        """A number inside the range of f."""
        low = self.potential.range.low
        high = self.potential.range.high
        if low < high - 1:
            return float(np.clip(0.0, low + 0.5, high - 0.5))
        return (low + high) / 2

    def _start(self, X: Array) -> Array:
        """Return a first t in the range: by least squares, or one for all by linear programming."""
        low = self.potential.range.low
        high = self.potential.range.high
        m = len(self.basis)
        if not np.isfinite([low, high]).any():
            with np.errstate(divide="ignore"):
                mean = np.nan_to_num(self.potential.transfer(X), posinf=0.0, neginf=0.0)
            side = (mean - self.offset).T
            return np.linalg.lstsq(self.basis.T, side, rcond=None)[0]
        rows = []
        limits = []
        for end, sign in ((low, -1.0), (high, 1.0)):
            if np.isfinite(end):
                # sign (offset + t V) + margin <= sign end
                ones = np.ones(self.basis.shape[1])
                rows.append(np.column_stack([sign * self.basis.T, ones]))
                limits.append(sign * (end - self.offset))
        aim = np.append(np.zeros(m), -1.0)
        box = [(None, None)] * m + [(None, 1.0)]
        found = linprog(aim, np.concatenate(rows), np.concatenate(limits), bounds=box)
        if found.x is None or not found.x[-1] > 0:
            name = type(self.potential).__name__.lower()
            raise ValueError(
                f"No z puts z U inside {self.potential.range}, the range of the transfer {name}."
            )
        return np.repeat(found.x[:m, None], len(X), axis=1)


def labeled_loss(
    model: Any,
    X: Any,
    y: Any,
    X_unlabeled: Any,
    control_variate: bool = True,
) -> LossEstimate:
    """Estimate the expected loss D_F*(y U || f(x)) of a fixed reverse model, using unlabeled rows.

    Parameters
    ----------
    model : fitted ReverseRegressor or ReverseClassifier, or a pair (transfer, U)
        U has a row for each target or class, and one more if there is an offset. It must not have
        been fitted to the rows given here, or the estimate is too low.
    X, y : labeled rows
        y contains labels, or targets without missing values.
    X_unlabeled : unlabeled rows
        Drawn from where X was drawn.
    control_variate : bool, default=True
        Whether `estimate` and `variance` are those of the control variate, which unlabeled rows do
        not harm.

    Returns
    -------
    LossEstimate
        `estimate`, `variance`, the parts A (`fit`) and B (`distance`), `unlabeled_help`, the other
        estimates; print it.

    Notes
    -----
    This estimates a loss at fixed U; `compare_with_supervised` shows whether a model that is fitted
    to unlabeled rows predicts better.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> U, Y = random.normal(size=(2, 6)), random.normal(size=(220, 2))
    >>> X = Y @ U + random.normal(size=(220, 6))
    >>> result = labeled_loss(("identity", U), X[:20], Y[:20], X[20:])
    >>> result.unlabeled_help, bool(result.variance < result.labeled_only.variance)
    (True, True)
    """
    potential, U = _parts(model)
    X = np.asarray(X, np.float64)
    X_unlabeled = np.asarray(X_unlabeled, np.float64)
    Y = _targets(model, y)
    if len(Y) != len(X) or len(Y) < 2:
        raise ValueError(
            "labeled_loss needs at least two labeled rows and a target for each; "
            f"X has {len(X)} rows, y has {len(Y)}."
        )
    n_targets = Y.shape[1]
    span = ModelSpan.of(potential, U, n_targets)
    mean = Y @ U[:n_targets]
    if len(U) > n_targets:
        mean += U[-1]
    mean = _within_range(potential, mean)
    projected = span.project(X)
    return LossEstimate(
        span.split(mean, projected),
        span.distance(projected, X),
        span.distance(span.project(X_unlabeled), X_unlabeled),
        control_variate,
    )


def _parts(model: Any) -> tuple[Potential, Array]:
    """Return the potential and U of a model, with its offset as the last row."""
    if isinstance(model, tuple):
        transfer, U = model
        return as_transfer(transfer), np.asarray(U, np.float64)
    if getattr(model, "kernel", None) is not None:
        raise ValueError(
            "labeled_loss takes no model with a kernel: give (transfer, U) and rows of the kernel "
            "as X."
        )
    potential = as_transfer(model.transfer)
    if hasattr(model, "components_"):
        U = np.asarray(model.components_, np.float64)
        offset = getattr(model, "offset_", 0.0)
        if np.any(offset):
            U = np.vstack([U, offset])
        return potential, U
    return potential, potential.transfer(np.asarray(model.cluster_centers_, np.float64))


def _targets(model: Any, y: Any) -> Array:
    classes = getattr(model, "classes_", None)
    if classes is not None:
        labels = encode_labels(y, getattr(model, "unlabeled", None), classes)
        Y = labels.one_hot()
        free = ~labels.labeled
    else:
        Y = as_targets(y)
        if Y.ndim == 1:
            Y = Y[:, None]
        free = np.asarray(np.isnan(Y).any(axis=1))
    if free.any():
        raise ValueError(
            f"y has {free.sum()} rows without a label or target; give their inputs as X_unlabeled."
        )
    return Y.astype(np.float64)


def _within_range(potential: Potential, mean: Array) -> Array:
    """Return means that lie in the range of the transfer, up to rounding."""
    legal = np.clip(mean, potential.range.low, potential.range.high)
    if np.abs(mean - legal).max() > 1e-9:
        raise ValueError(
            f"y U must lie in {potential.range}, the range of the transfer; it reaches from "
            f"{mean.min():.3g} to {mean.max():.3g}."
        )
    if isinstance(potential, Softmax) and not np.allclose(mean.sum(axis=1), 1):
        raise ValueError("Under softmax y U must sum to one in every row.")
    return legal
