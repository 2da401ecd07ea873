"""Choice of the members of `AutoMixture` that are fitted to the end, and of the number of clusters.

Every member starts EM from several partitions of some of the rows; after few steps the worst are
dropped (successive halving), and the members of the largest evidence are kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from sklearn.exceptions import ConvergenceWarning

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

# steps of EM in each round, and the starts that are kept after it
ROUNDS = ((2, 5), (5, 2))
FINALISTS = 3
SCREENED_ROWS = 700  # of larger tables, on which members are compared
MAX_FAILURES = 3  # numbers of clusters in a row that do not improve BIC
GAIN_SHARE = 0.9  # of the best gain over one cluster that fewer clusters must have


@frozen
class Candidate:
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
) -> list[Candidate]:
    """Return the best members for k clusters, fitted to these rows, the best first."""
    starts: dict[str, list[Array]] = {}
    candidates = []
    given = _given_partitions(data, k, random)
    for density in densities(data, k, family):
        name = density.view.name
        if name not in starts:
            starts[name] = _starts(density, data, k, random, given)
        candidates.append(_halved(density, data, starts[name]))
    candidates.sort(key=lambda candidate: -candidate.fit.score)
    best = candidates[:FINALISTS]
    final = [_finished(candidate, best, data) for candidate in best]
    return sorted(final, key=lambda candidate: -candidate.fit.score)


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
    with _fewer_clusters_allowed():
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
    with _fewer_clusters_allowed():
        labels = [*of_transformed(Y, data.weights, k, random), *given]
    return [as_responsibilities(some, k) for some in distinct(labels)]


@contextmanager
def _fewer_clusters_allowed() -> Iterator[None]:
    """Silence k-means about fewer distinct rows than clusters: other starts remain."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _complete(X: Array, weights: Array) -> Array:
    if not np.isnan(X).any():
        return X
    return RowCompletion.fit(X, weights).complete(X)


def _halved(density: MixtureDensity, data: MixtureRows, starts: Sequence[Array]) -> Candidate:
    """Return the member with the starts that are left after successive halving."""
    rows = density.prepare(data.X)
    points = [density.em(rows, data.weights, R, ROUNDS[0][0]) for R in starts]
    kept = _best_distinct(points, ROUNDS[0][1])
    for n_steps, n_kept in ROUNDS[1:]:
        points = [density.em(rows, data.weights, p.R, n_steps, last=p) for p in kept]
        kept = _best_distinct(points, n_kept)
    return Candidate(density, rows, kept, fitted(density, data, kept[0]))


def _best_distinct(points: Sequence[MixturePoint], n_kept: int) -> list[MixturePoint]:
    """Return the points of the largest likelihood whose most probable clusters differ."""
    found: dict[bytes, MixturePoint] = {}
    for point in sorted(points, key=lambda point: -point.log_likelihood):
        found.setdefault(by_first_row(point.R.argmax(axis=1)).tobytes(), point)
    return list(found.values())[:n_kept]


def _finished(
    candidate: Candidate,
    others: Sequence[Candidate],
    data: MixtureRows,
) -> Candidate:
    """Return a member after EM from its own starts and the partitions of the other finalists."""
    density = candidate.density
    weights = data.weights
    points = [
        density.em(candidate.rows, weights, point.R, MAX_EM_STEPS, last=point)
        for point in candidate.points
    ]
    for other in others:
        if other is not candidate:
            R = other.points[0].R
            points.append(density.em(candidate.rows, weights, R, MAX_EM_STEPS))
    points.sort(key=lambda point: -point.log_likelihood)
    return Candidate(
        density,
        candidate.rows,
        points[:1],
        fitted(density, data, points[0]),
    )


def choose_number(
    data: MixtureRows,
    most: int,
    random: np.random.RandomState,
    family: str = "auto",
) -> tuple[NumberChoice, list[Candidate]]:
    """Return the number of clusters with its candidates: raised until BIC fails three times."""
    found: dict[int, list[Candidate]] = {}
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
    candidates: Sequence[Candidate],
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
