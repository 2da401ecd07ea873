"""Members of the pool of `AutoMixture`: a transformation and a family, fitted by EM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regfactor.clusters.component_family import ComponentFamily
from regfactor.clusters.full_gaussian import FullGaussian
from regfactor.clusters.linear_families import (
    Categorical,
    DiagonalGaussian,
    Gamma,
    Multinomial,
    NegativeBinomial,
    Poisson,
)
from regfactor.clusters.table_kinds import TableKind, TableLayout, is_wide, shares_units
from regfactor.clusters.transformations import (
    Elementwise,
    Principal,
    Scaled,
    Untransformed,
    least_positive,
    resolutions,
)
from regfactor.core.params import SMALLEST_NORMAL, Array, frozen
from regfactor.problems.pool import Pool

EM_TOL = 1e-6  # change of the log likelihood per row
MAX_EM_STEPS = 300
MAX_COMPONENTS = 64  # principal ones, of which likelihoods know the variances one by one
ROWS_PER_COMPONENT = 4  # of a cluster on average, for each component in which clusters differ
GAUSSIANS = (
    DiagonalGaussian(own=False),
    DiagonalGaussian(own=True),
    FullGaussian(own=False),
    FullGaussian(own=True),
)


# what the numbers of a table must be
FAMILY_NEEDS = {
    "gaussian": "numbers",
    "gamma": "positive numbers, not all of them whole",
    "poisson": "counts (whole numbers of at least 0)",
    "negative_binomial": "counts (whole numbers of at least 0)",
    "multinomial": "counts (whole numbers of at least 0) in at least two columns, none missing",
}


@frozen
class MixtureRows:
    """Rows of a table with their weights.

    Attributes
    ----------
    X : array of shape (n_samples, n_encoded)
        NaN where an entry is missing.
    weights : array of shape (n_samples,)
    layout : Layout
    """

    X: Array
    weights: Array
    layout: TableLayout

    @property
    def mass(self) -> float:
        """The total weight."""
        return float(self.weights.sum())

    @property
    def n_cells(self) -> float:
        """The total weight of the observed entries."""
        used = np.concatenate([self.layout.numbers, self.layout.bits])
        return float(self.weights @ (~np.isnan(self.X[:, used])).sum(axis=1))

    def subset(self, at: Array) -> MixtureRows:
        """Return some of the rows."""
        return replace(self, X=self.X[at], weights=self.weights[at])


@frozen
class View:
    """A transformation of the numbers as it was fitted, and the name that it is reported by."""

    name: str
    scaled: Scaled | None
    principal: Principal | None = None

    def apply(self, X: Array) -> tuple[Array, Array]:
        """Return transformed numbers and the log Jacobian of each row."""
        if self.scaled is None:
            return X, np.zeros(len(X))
        Y = self.scaled.apply(X)
        jacobian = self.scaled.log_jacobian(X)
        if self.principal is None:
            return Y, jacobian
        scores, log_rest = self.principal.apply(Y)
        return scores, jacobian + log_rest

    @property
    def floor(self) -> Array:
        """The least variances of transformed columns."""
        if self.scaled is None:
            return np.zeros(1)
        if self.principal is None:
            return self.scaled.floor
        return np.zeros(self.principal.rank)

    @property
    def n_parameters(self) -> float:
        """Free parameters of principal components."""
        if self.principal is None:
            return 0.0
        return self.principal.n_parameters


@frozen
class Prepared:
    """Rows as the families of a member see them, and the log Jacobian."""

    numbers: Any
    bits: Any
    base: Array


@frozen
class MixturePoint:
    """Parameters of a mixture, the log likelihood, and responsibilities at them.

    Attributes
    ----------
    numbers, bits : parameters of the families, or None
    shares : array of shape (n_clusters,)
    R : array of shape (n_samples, n_clusters)
        Responsibilities.
    log_likelihood : float
    """

    numbers: Any
    bits: Any
    shares: Array
    R: Array
    log_likelihood: float


@frozen
class MixtureDensity:
    """A transformation with a family for the numbers, and one for the columns of 0 and 1."""

    layout: TableLayout
    view: View
    family: ComponentFamily | None
    categorical: Categorical | None

    @property
    def name(self) -> str:
        """Transformation and family."""
        parts = []
        if self.family is not None:
            parts.append(f"{self.view.name}, {self.family.name}")
        if self.categorical is not None:
            parts.append(self.categorical.name)
        return " and ".join(parts) or "no column that varies"

    @property
    def assumes(self) -> str:
        """What is assumed about clusters."""
        parts = [f.assumes for f in (self.family, self.categorical) if f is not None]
        return "; ".join(parts) or "rows that are all the same"

    @property
    def compares(self) -> str:
        """How rows are compared, in plain words."""
        parts = []
        if self.layout.kind is TableKind.SPARSE:
            parts.append("rows are compared by square roots of the shares of their totals")
        elif self.view.scaled is not None:
            parts.append(self.view.scaled.function.meaning)
        elif self.family is not None:
            parts.append(f"{self.view.name} are taken as they are")
        if self.view.principal is not None:
            count = self.view.principal.rank
            parts.append(f"only the {count} leading principal components are seen")
        if self.categorical is not None:
            parts.append("categories count by their shares in each cluster")
        return "; ".join(parts) or "there is nothing to compare"

    @property
    def domain(self) -> str:
        """What the numbers of new rows must be: "real", "not negative" or "positive"."""
        if self.family is None:
            return "real"
        if isinstance(self.family, Gamma):
            return "positive"
        if self.view.scaled is None or not isinstance(self.view.scaled.function, Untransformed):
            if self.layout.kind is TableKind.POSITIVE:
                return "positive"
            return "not negative"
        return "real"

    def prepare(self, X: Array) -> Prepared:
        """Return rows as the families see them."""
        numbers = None
        bits = None
        base = np.zeros(len(X))
        if self.family is not None:
            Y, base = self.view.apply(X[:, self.layout.numbers])
            numbers = self.family.prepare(Y, self.view.floor)
        if self.categorical is not None:
            B = X[:, self.layout.bits]
            bits = self.categorical.prepare(B, np.zeros(B.shape[1]))
        return Prepared(numbers, bits, base)

    def joint(self, rows: Prepared, point: MixturePoint) -> Array:
        """Return log p_j + log p(x_i | j)."""
        scores = rows.base[:, None] + np.log(np.maximum(point.shares, SMALLEST_NORMAL))
        if self.family is not None:
            scores = scores + self.family.log_density(rows.numbers, point.numbers)
        if self.categorical is not None:
            scores = scores + self.categorical.log_density(rows.bits, point.bits)
        return np.asarray(scores)

    def step(
        self,
        rows: Prepared,
        weights: Array,
        R: Array,
        last: Any,
    ) -> MixturePoint:
        """Return the mixture after an M-step, and responsibilities at it."""
        weighted = R * weights[:, None]
        numbers = None
        bits = None
        if self.family is not None:
            before = None if last is None else last.numbers
            numbers = self.family.maximize(rows.numbers, weighted, before)
        if self.categorical is not None:
            bits = self.categorical.maximize(rows.bits, weighted)
        shares = weighted.sum(axis=0) / weighted.sum()
        point = MixturePoint(numbers, bits, shares, R, -np.inf)
        joint = self.joint(rows, point)
        highest = joint.max(axis=1, keepdims=True)
        R = np.exp(joint - highest)
        sums = R.sum(axis=1, keepdims=True)
        R /= sums
        evidence = (highest + np.log(sums))[:, 0]
        return replace(point, R=R, log_likelihood=float(weights @ evidence))

    def em(
        self,
        rows: Prepared,
        weights: Array,
        R: Array,
        n_steps: int,
        tol: float = EM_TOL,
        last: Any = None,
    ) -> MixturePoint:
        """Return the mixture after steps of EM, at most so many; the best of them."""
        best = self.step(rows, weights, R, last)
        point = best
        mass = float(weights.sum())
        for _ in range(n_steps - 1):
            before = point.log_likelihood
            point = self.step(rows, weights, point.R, point)
            if point.log_likelihood >= best.log_likelihood:
                best = point
            if abs(point.log_likelihood - before) <= tol * mass:
                break
        return best

    def n_parameters(self, point: MixturePoint) -> float:
        """Return the number of free parameters."""
        count = len(point.shares) - 1.0 + self.view.n_parameters
        if self.family is not None:
            count += self.family.n_parameters(point.numbers)
        if self.categorical is not None:
            count += self.categorical.n_parameters(point.bits)
        return count

    def bic(self, point: MixturePoint, mass: float) -> float:
        """Return -2 log likelihood + parameters * log n; smaller is better."""
        return -2 * point.log_likelihood + self.n_parameters(point) * float(np.log(max(mass, 2.0)))

    def evidence(self, point: MixturePoint, mass: float) -> float:
        """Return -bic/2, of principal components -aic/2: by which members compare; nats.

        Covariances of a few components are shrunk to the pooled one, and cost BIC's log(n)/2 for
        each of their many entries: too much, on held-out rows as for the clusters.
        """
        if self.view.principal is None:
            return -self.bic(point, mass) / 2
        return point.log_likelihood - self.n_parameters(point)


@frozen
class FittedMixture:
    """A member after its fit."""

    density: MixtureDensity
    point: MixturePoint
    bic: float
    score: float

    @property
    def name(self) -> str:
        """The name of the member."""
        return self.density.name


@frozen
class MixtureMember:
    """A transformation and family with the starts that survived screening."""

    density: MixtureDensity
    data: MixtureRows
    starts: Sequence[Array]  # responsibilities

    @property
    def name(self) -> str:
        """The name of the member."""
        return self.density.name

    def fit(self) -> FittedMixture:
        """Return the best mixture that EM finds from the starts."""
        rows = self.density.prepare(self.data.X)
        points = [self.density.em(rows, self.data.weights, R, MAX_EM_STEPS) for R in self.starts]
        return fitted(self.density, self.data, max(points, key=lambda p: p.log_likelihood))


def fitted(density: MixtureDensity, data: MixtureRows, point: MixturePoint) -> FittedMixture:
    """Return a fit with its BIC, and the evidence per entry by which members compare."""
    bic = density.bic(point, data.mass)
    score = density.evidence(point, data.mass) / max(data.n_cells, 1.0)
    return FittedMixture(density, point, bic, score)


@frozen
class MixturePool(Pool[FittedMixture]):
    """The pool; its loss is that of the best member, minus its evidence per entry."""

    def best(self, fits: Sequence[FittedMixture]) -> FittedMixture:
        """Return the member of the largest evidence."""
        return max(fits, key=lambda fit: fit.score)

    def loss(self, fitted: Sequence[FittedMixture]) -> float:
        """Return minus the evidence per entry of the best member."""
        return -self.best(fitted).score


def densities(
    data: MixtureRows,
    n_clusters: int,
    family: str = "auto",
) -> list[MixtureDensity]:
    """Return the members for a table of this kind, all or those of one family of the numbers.

    Raises
    ------
    ValueError
        If the numbers of the table are not those of the family.
    """
    layout = data.layout
    categorical = None
    if len(layout.bits):
        categorical = Categorical(layout.groups)
    if not len(layout.numbers):
        if family != "auto":
            raise ValueError(
                f"family={family!r} is one of numbers, and X has no numbers that vary, only "
                "categories or columns of 0 and 1. Take family='auto'."
            )
        return [MixtureDensity(layout, View("", None), None, categorical)]
    X = data.X[:, layout.numbers]
    found = []
    if family in ("auto", "gaussian"):
        for view in views(X, data.weights, layout.kind, n_clusters):
            for gaussian in GAUSSIANS if X.shape[1] > 1 else GAUSSIANS[:2]:
                found.append(MixtureDensity(layout, view, gaussian, categorical))
    others = other_families(X, layout.kind)
    for name, other in others.items():
        if family in ("auto", name):
            view = View("numbers" if name == "gamma" else "counts", None)
            found.append(MixtureDensity(layout, view, other, categorical))
    if not found:
        raise ValueError(
            f"family={family!r} needs {FAMILY_NEEDS[family]}; the columns of X that vary hold "
            f"{layout.kind.value}. Take family='auto' or 'gaussian'."
        )
    return found


def other_families(X: Array, kind: TableKind) -> dict[str, ComponentFamily]:
    """Return families that are not normal, and suit the numbers, by their names."""
    if kind is TableKind.POSITIVE:
        return {"gamma": Gamma()}
    if kind is not TableKind.COUNT:
        return {}
    found: dict[str, ComponentFamily] = {
        "poisson": Poisson(),
        "negative_binomial": NegativeBinomial(),
    }
    if X.shape[1] > 1 and not np.isnan(X).any():
        found["multinomial"] = Multinomial()
    return found


def views(X: Array, weights: Array, kind: TableKind, n_clusters: int) -> list[View]:
    """Return the fitted transformations of a table of numbers."""
    resolution = resolutions(X)
    unit = np.ones(X.shape[1])
    if kind is not TableKind.COUNT:
        unit = least_positive(X)
    found = []
    for function in kind.functions():
        if not is_wide(X):
            scaled = Scaled.fit(function, X, weights, unit, resolution)
            found.append(View(function.name, scaled))
            continue
        common = shares_units(function.value(X, unit))
        scaled = Scaled.fit(function, X, weights, unit, resolution, common)
        found.extend(principal_views(function, scaled, X, weights, n_clusters))
    return found


def principal_views(
    function: Elementwise,
    scaled: Scaled,
    X: Array,
    weights: Array,
    n_clusters: int,
) -> list[View]:
    """Return principal components of a wide table after a transformation, few and more of them."""
    n = len(X)
    ranks = component_numbers(n, n_clusters)
    n_components = max(ranks[-1], min(MAX_COMPONENTS, n // ROWS_PER_COMPONENT))
    principal = Principal.fit(scaled.apply(X), weights, ranks[0], n_components, scaled.floor)
    found = []
    available = principal.directions.shape[1]
    for rank in ranks:
        one = replace(principal, rank=min(rank, available))
        found.append(View(f"{function.name} by {one.rank} principal components", scaled, one))
        if rank >= available:
            break
    return found


def component_numbers(n: int, n_clusters: int) -> list[int]:
    """Return numbers of principal components in which clusters may differ.

    Two for each cluster, which hold the centers, and twice as many again and again as long as a
    cluster has four rows for each on average: covariances that differ need more components.
    """
    k = n_clusters
    counts = [int(min(2 * k, max(k - 1, n / (2 * k), 1)))]
    most = min(n / (ROWS_PER_COMPONENT * k), MAX_COMPONENTS)
    while 2 * counts[-1] <= most:
        counts.append(2 * counts[-1])
    return counts
