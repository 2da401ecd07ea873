"""Classes by their centers: how reverse classification is fitted, on rows or in a feature space, and scores rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Iterate, Solution, run
from regfactor.core.params import Array, warn
from regfactor.fitting.clustering import best_run
from regfactor.fitting.kernel_blocks import Implicit
from regfactor.kernels import Kernel
from regfactor.solvers.assignment import (
    LabeledClusters,
    LabeledLloyd,
    LabeledMixture,
    by_columns,
    clamped,
    first_point,
    sample_of_costs,
    sharpness_of,
)
from regfactor.solvers.em import log_joint
from regfactor.solvers.kernel_assignment import (
    LabeledKernelClusters,
    LabeledKernelLloyd,
    LabeledKernelMixture,
)
from regfactor.solvers.nearest import Centers

FIRST = 10  # hard iterations before the soft ones
# share of labeled rows, of those right before, below which soft classes have run into each other
MERGED = 0.8


@dataclass(frozen=True, eq=False)
class Balance:
    """mu, and weights relative to those of labeled rows with the factor that makes the sum objective (26)."""

    mu: float
    weights: Array | None
    factor: float

    @staticmethod
    def of(codes: Array, w: Array | None, mu: float | None) -> Balance:
        """Return the weights for a given mu; None stands for T_u / T_l, by which all rows count alike."""
        labeled = codes >= 0
        total = float(len(codes) if w is None else w.sum())
        T_l = float(labeled.sum() if w is None else w[labeled].sum())
        T_u = max(total - T_l, 0.0) if not labeled.all() else 0.0
        if not (T_l > 0 and T_u > 0):  # one sum is empty, the other a mean
            share = 1.0 if T_l > 0 or mu is None else mu
            return Balance(1.0 if mu is None else mu, w, share / total)
        if mu is None:
            return Balance(T_u / T_l, w, 1 / T_l)
        relative = np.where(labeled, 1.0, mu * T_l / T_u)
        return Balance(mu, relative if w is None else w * relative, 1 / T_l)


@dataclass(frozen=True, eq=False)
class Classes:
    """Centers of classes with what turns divergences into probabilities; `prior` is None where rows are assigned hard.

    With `rows` of a kernel as features, these are found before rows are compared with centers.
    """

    centers: Centers | Implicit
    sharpness: float
    prior: Array | None
    rows: tuple[Kernel, Any, Any] | None = None

    def table(self, X: Any) -> Any:
        """Return the features by which rows are compared."""
        if self.rows is None:
            return X
        kernel, references, prepared = self.rows
        return np.ascontiguousarray(kernel.gram(X, references, prepared))

    def nearest(self, X: Any) -> Array:
        """Return the place of the most probable class of each row."""
        if self.prior is None:
            return self.centers.nearest(self.table(X))[0]
        return self.log_joint(X).argmax(axis=1)

    def log_joint(self, X: Any) -> Array:
        """log p_j - sharpness D(x, m_j), up to a term of the row."""
        implicit = isinstance(self.centers, Implicit)
        if isinstance(self.centers, Implicit):
            D = self.centers.relative(X)
        else:
            D = self.centers.between(self.table(X))
        D = D.astype(np.float64, copy=False)
        k = D.shape[1]
        D = D - D.min(axis=1, keepdims=True) if implicit else D
        return log_joint(D, np.full(k, 1 / k) if self.prior is None else self.prior, self.sharpness)

    def probabilities(self, X: Any) -> Array:
        """Return the probability of each class for each row."""
        joint = self.log_joint(X)
        return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))


@dataclass(frozen=True, eq=False)
class Fit:
    """What a fit found: how it ran, by which solver, the classes, the place of every row's class, and mu."""

    solution: Solution[Any]
    solver: str
    classes: Classes
    labels: Array
    mu: float = 1.0


def fit_rows(estimator: Any, problem: LabeledClusters, free: Array, hard: bool, random: Any) -> Fit:
    """Fit centers that have coordinates; `free` tells which rows can stand for a class without a label."""
    starts = [first_point(problem, free, random)]
    if problem.started.parameters is not None:
        starts.append(by_columns(problem, starts[0]))
    solution = _hard_run(
        estimator,
        [LabeledLloyd(estimator.tol).iterates(problem, start) for start in starts],
        hard,
    )
    labels = solution.point.factors.Phi.indices
    M = solution.point.factors.C
    parameters = solution.point.coefficients
    centers = Centers(problem.started.at(parameters), M, problem.anchor, problem.far)
    sharpness = _found_sharpness(
        estimator,
        lambda: (*sample_of_costs(problem, centers, labels), M.shape[1]),
    )
    if hard:
        return Fit(solution, "LabeledLloyd", Classes(centers, sharpness, None), labels)
    masses = np.bincount(labels, problem.weights, minlength=len(M))
    nearest = centers.nearest(problem.X)[0]
    begin = FactorPoint(Factors(_shares(masses)[None], M), parameters)
    iterates = LabeledMixture(sharpness).iterates(problem, begin)
    solution = best_run(estimator, [iterates], estimator.tol)
    (p,) = solution.point.factors.codes
    M = solution.point.factors.C
    centers = Centers(
        problem.started.at(solution.point.coefficients), M, problem.anchor, problem.far
    )
    classes = Classes(centers, sharpness, p)
    joint = classes.log_joint(problem.X)
    _warn_of_merged(problem.codes, nearest, joint.argmax(axis=1), sharpness)
    return Fit(solution, "LabeledMixture", classes, clamped(joint, problem.codes).argmax(axis=1))


def fit_kernel(
    estimator: Any,
    problem: LabeledKernelClusters,
    implicit: Callable[[Any], Implicit],
    hard: bool,
    random: Any,
) -> Fit:
    """Fit centers in feature space; `implicit` makes of them what scores new rows."""
    first = FactorPoint(Factors(np.zeros((0, 0)), np.zeros((0, 0))), problem.first(random))
    solution = _hard_run(estimator, [LabeledKernelLloyd().iterates(problem, first)], hard)
    Z = solution.point.factors.codes
    prior = None
    _, D = problem.centers(Z)
    mass = problem.space.mass
    at = np.arange(len(D))
    nearest = D.argmin(axis=1)
    sharpness = _found_sharpness(estimator, lambda: (D[at, Z.argmax(axis=1)], mass, len(D)))
    if not hard:
        begin = FactorPoint(Factors(Z, np.zeros((Z.shape[1], 0))))
        iterates = LabeledKernelMixture(sharpness).iterates(problem, begin)
        solution = best_run(estimator, [iterates], estimator.tol)
        Z = solution.point.factors.codes
        prior = solution.point.coefficients
        _, D = problem.centers(Z)
    centers, _ = problem.centers(Z)
    k = len(centers.masses)
    joint = log_joint(D, np.full(k, 1 / k) if prior is None else prior, sharpness)
    _warn_of_merged(problem.codes, nearest, joint.argmax(axis=1), sharpness)
    labels = clamped(joint, problem.codes).argmax(axis=1)
    classes = Classes(implicit(centers), sharpness, prior)
    return Fit(solution, "LabeledKernelLloyd" if hard else "LabeledKernelMixture", classes, labels)


def _hard_run(estimator: Any, starts: list[Iterator[Iterate[Any]]], whole: bool) -> Solution[Any]:
    """Run hard iterations to their end, or the few that the soft ones begin from; the best of several starts."""
    if whole:
        return best_run(estimator, starts)
    return min(
        (run(iterates, tol=0.0, max_iter=FIRST) for iterates in starts),
        key=lambda s: s.objective,
    )


def _warn_of_merged(codes: Array, nearest: Array, found: Array, sharpness: float) -> None:
    """Warn where soft classes ran into each other: of labeled rows, fewer are in theirs than by the hard start."""
    known = codes >= 0
    if not known.any():
        return
    before, after = (float(np.mean(classes[known] == codes[known])) for classes in (nearest, found))
    if after < MERGED * before:
        warn(
            f"Soft classes ran into each other: {after:.0%} of the labeled rows are most probable in their own class, "
            f"and {before:.0%} were nearest to its center before. Use assignment='hard', or raise sharpness (now "
            f"{sharpness:.3g}).",
        )


def _found_sharpness(estimator: Any, costs: Any) -> float:
    if isinstance(estimator.sharpness, str):
        return sharpness_of(*costs())
    return float(estimator.sharpness)


def _shares(masses: Array) -> Array:
    """Return first proportions, in which a class without a row keeps a chance."""
    return np.asarray((masses + 1 / len(masses)) / (masses.sum() + 1))
