"""Choice of the members of `AutoMixture` that are fitted to the end, and of the number of clusters.

Every member starts EM from several partitions of some of the rows; after few steps the worst are
dropped (successive halving), and the members of the largest evidence are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regfactor.clusters.mixture_members import (
    MAX_EM_STEPS,
    FittedMixture,
    MixtureDensity,
    MixtureMember,
    MixturePoint,
    MixtureRows,
    Prepared,
    densities,
    fitted,
)
from regfactor.clusters.partition_starts import (
    as_responsibilities,
    by_first_row,
    distinct,
    of_given,
    of_transformed,
)
from regfactor.core.params import Array, frozen
from regfactor.fitting.complete_rows import RowCompletion

FIRST_STEPS = 2  # of EM, from every start of every member
FIRST_POINTS = 5  # that are kept of each member
# steps of EM in further rounds, points that are kept of each member, and members that take part
ROUNDS = ((5, 2, 6),)
SCREENING_TOL = 1e-5  # change of the log likelihood per row; all rows are then fitted to a smaller
FINALISTS = 3
SCREENED_ROWS = 700  # of larger tables, on which members are compared
MAX_FAILURES = 3  # numbers of clusters in a row that do not improve BIC
GAIN_SHARE = 0.9  # of the best gain over one cluster that fewer clusters must have


@frozen
class ScreenedMember:
    """A member with its mixture on the screened rows."""

    density: MixtureDensity
    rows: Prepared
    points: Sequence[MixturePoint]
    fit: FittedMixture


@frozen
class NumberChoice:
    """BIC of the best member for each number of clusters that was tried.

    Attributes
    ----------
    n_components : int
        The smallest number with 90 % of the best gain over one cluster.
    bics : dict of int to float
    """

    n_components: int
    bics: dict[int, float]


def screened_rows(data: MixtureRows, random: np.random.RandomState) -> Array:
    """Return places of the rows on which members are compared."""
    n = len(data.X)
    if n <= SCREENED_ROWS:
        return np.arange(n)
    return np.sort(random.choice(n, SCREENED_ROWS, replace=False))


def screen(
    data: MixtureRows,
    k: int,
    random: np.random.RandomState,
    family: str = "auto",
) -> list[ScreenedMember]:
    """Return the best members for k clusters, fitted to these rows, the best first."""
    starts: dict[str, list[Array]] = {}
    candidates = []
    given = _given_partitions(data, k, random)
    for density in densities(data, k, family):
        name = density.view.name
        if name not in starts:
            starts[name] = _starts(density, data, k, random, given)
        candidates.append(_started(density, data, starts[name]))
    for n_steps, n_points, n_members in ROUNDS:
        candidates = _best(candidates, n_members)
        candidates = [_continued(c, data, n_steps, n_points) for c in candidates]
    best = _best(candidates, FINALISTS)
    return _best([_finished(candidate, best, data) for candidate in best], FINALISTS)


def _best(candidates: Sequence[ScreenedMember], count: int) -> list[ScreenedMember]:
    """Return the members of the largest evidence, the best first."""
    return sorted(candidates, key=lambda candidate: -candidate.fit.score)[:count]


def _given_partitions(
    data: MixtureRows,
    k: int,
    random: np.random.RandomState,
) -> list[Array]:
    """Return partitions of the rows as they are given, which all members start from."""
    layout = data.layout
    if k == 1:
        return []
    used = np.concatenate([layout.numbers, layout.bits])
    X = _complete(data.X[:, used], data.weights)
    return list(of_given(X, data.weights, k, random))


def _starts(
    density: MixtureDensity,
    data: MixtureRows,
    k: int,
    random: np.random.RandomState,
    given: Sequence[Array],
) -> list[Array]:
    """Return first responsibilities, from partitions of the transformed and the given rows."""
    if k == 1:
        return [np.ones((len(data.X), 1))]
    layout = data.layout
    numbers = _complete(density.view.apply(data.X[:, layout.numbers])[0], data.weights)
    bits = _complete(data.X[:, layout.bits], data.weights)
    Y = np.hstack([numbers, bits])
    if density.view.scaled is None and len(layout.numbers):
        deviations = Y.std(axis=0)
        Y = Y / np.where(deviations > 0, deviations, 1.0)
    labels = [*of_transformed(Y, data.weights, k, random), *given]
    return [as_responsibilities(some, k) for some in distinct(labels)]


def _complete(X: Array, weights: Array) -> Array:
    if not np.isnan(X).any():
        return X
    return RowCompletion.fit(X, weights).complete(X)


def _started(density: MixtureDensity, data: MixtureRows, starts: Sequence[Array]) -> ScreenedMember:
    """Return a member after the first steps of EM, with the best of its starts."""
    rows = density.prepare(data.X)
    points = [density.em(rows, data.weights, R, FIRST_STEPS) for R in starts]
    return _with_points(density, data, rows, _best_distinct(points, FIRST_POINTS))


def _continued(
    candidate: ScreenedMember, data: MixtureRows, n_steps: int, n_points: int
) -> ScreenedMember:
    """Return a member after further steps of EM, with the best of its points."""
    density = candidate.density
    rows = candidate.rows
    points = [density.em(rows, data.weights, p.R, n_steps, last=p) for p in candidate.points]
    return _with_points(density, data, rows, _best_distinct(points, n_points))


def _with_points(
    density: MixtureDensity,
    data: MixtureRows,
    rows: Prepared,
    points: Sequence[MixturePoint],
) -> ScreenedMember:
    return ScreenedMember(density, rows, points, fitted(density, data, points[0]))


def _best_distinct(points: Sequence[MixturePoint], n_kept: int) -> list[MixturePoint]:
    """Return the points of the largest likelihood whose most probable clusters differ."""
    found: dict[bytes, MixturePoint] = {}
    for point in sorted(points, key=lambda point: -point.log_likelihood):
        found.setdefault(_partition(point), point)
    return list(found.values())[:n_kept]


def _partition(point: MixturePoint) -> bytes:
    """Return a key of the most probable clusters, whatever their names."""
    return by_first_row(point.R.argmax(axis=1)).tobytes()


def _finished(
    candidate: ScreenedMember,
    others: Sequence[ScreenedMember],
    data: MixtureRows,
) -> ScreenedMember:
    """Return a member after EM from its own starts and the partitions of the other finalists."""
    density = candidate.density
    weights = data.weights
    points = [
        density.em(candidate.rows, weights, point.R, MAX_EM_STEPS, SCREENING_TOL, point)
        for point in candidate.points
    ]
    tried = {_partition(point) for point in candidate.points}
    for other in others:
        R = other.points[0].R
        if _partition(other.points[0]) not in tried:
            tried.add(_partition(other.points[0]))
            points.append(density.em(candidate.rows, weights, R, MAX_EM_STEPS, SCREENING_TOL))
    points.sort(key=lambda point: -point.log_likelihood)
    return _with_points(density, data, candidate.rows, points[:1])


def choose_number(
    data: MixtureRows,
    most: int,
    random: np.random.RandomState,
    family: str = "auto",
) -> tuple[NumberChoice, list[ScreenedMember]]:
    """Return the number of clusters with its candidates: raised until BIC fails three times."""
    found: dict[int, list[ScreenedMember]] = {}
    evidence: dict[int, float] = {}
    failures = 0
    best = -np.inf
    for k in range(1, most + 1):
        found[k] = screen(data, k, random, family)
        evidence[k] = -found[k][0].fit.bic / 2
        failures = 0 if evidence[k] > best else failures + 1
        best = max(best, evidence[k])
        if failures == MAX_FAILURES:
            break
    gains = {k: value - evidence[1] for k, value in evidence.items()}
    enough = GAIN_SHARE * max(gains.values())
    chosen = min(k for k, gain in gains.items() if gain >= enough)
    bics = {k: candidates[0].fit.bic for k, candidates in found.items()}
    return NumberChoice(chosen, bics), found[chosen]


def finalists(
    candidates: Sequence[ScreenedMember],
    data: MixtureRows,
) -> list[MixtureMember]:
    """Return the members that are fitted to all rows, from responsibilities of the screened."""
    members = []
    for candidate in candidates:
        density = candidate.density
        point = candidate.points[0]
        joint = density.joint(density.prepare(data.X), point)
        R = np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))
        members.append(MixtureMember(density, data, [R]))
    return members
