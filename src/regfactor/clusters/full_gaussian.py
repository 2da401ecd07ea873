"""Normal clusters with correlated columns: one covariance, or one for each cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from regfactor.clusters.component_family import ComponentFamily
from regfactor.clusters.linear_families import LARGEST_RATIO, VARIANCE_FLOOR
from regfactor.core.params import SMALLEST_NORMAL, Array, frozen

LEAST_ROUNDING = 1e-6  # of the variance of a column, up to which rounding is nothing
LOG_2PI = float(np.log(2 * np.pi))


@frozen
class GaussianRows:
    """Rows with zeros where entries are missing, and the patterns of observed entries.

    Attributes
    ----------
    values : array of shape (n_samples, n_columns)
    floor : array of shape (n_columns,)
    patterns : array of bool of shape (n_patterns, n_columns), or None
        Which columns are observed; None if all entries are.
    pattern_of : array of int of shape (n_samples,), or None
    """

    values: Array
    floor: Array
    patterns: Array | None = None
    pattern_of: Array | None = None


@frozen
class GaussianParameters:
    """Means and covariances; a single covariance if all clusters share it."""

    means: Array
    covariances: Array
    n_parameters: float


@frozen
class FullGaussian(ComponentFamily):
    """Normal rows with a covariance that all clusters share, or with own ones.

    With missing entries, sums over rows are replaced by their expectations given the observed
    entries, under the parameters of the last step (Ghahramani & Jordan 1994).
    """

    own: bool = False

    @property
    def name(self) -> str:
        return "own covariances" if self.own else "one covariance"

    @property
    def assumes(self) -> str:
        if self.own:
            return "normal rows, each cluster with its own covariance"
        return "normal rows of the same covariance in all clusters"

    def prepare(self, Y: Array, floor: Array) -> GaussianRows:
        observed = ~np.isnan(Y)
        if observed.all():
            return GaussianRows(Y, floor)
        patterns, pattern_of = np.unique(observed, axis=0, return_inverse=True)
        values = np.where(observed, Y, 0.0)
        return GaussianRows(values, floor, patterns, pattern_of.ravel())

    def maximize(self, rows: Any, R: Array, last: Any = None) -> GaussianParameters:
        if rows.patterns is None:
            counts, means, scatters = _moments(rows.values, R, self.own)
        else:
            if last is None:
                last = _pairwise_start(rows, R)
            counts, means, scatters = expected_moments(rows, R, last)
        return self._guarded(rows, counts, means, scatters)

    def _guarded(
        self,
        rows: GaussianRows,
        counts: Array,
        means: Array,
        scatters: Array,
    ) -> GaussianParameters:
        """Return shrunk covariances: pooled correlations, and own covariances to the pooled one."""
        d = means.shape[1]
        mass = max(float(counts.sum()), SMALLEST_NORMAL)
        floor = np.maximum(rows.floor, VARIANCE_FLOOR)
        pooled, kept = shrunk_correlations(scatters.sum(axis=0) / mass, mass, floor)
        pooled = bounded_below(pooled[None], rows.floor)[0]
        n_pooled = d + kept * d * (d - 1) / 2
        if not self.own:
            return GaussianParameters(means, pooled[None], means.size + n_pooled)
        prior = d + 2.0
        held = counts + prior
        own = (scatters + prior * pooled) / held[:, None, None]
        own = bounded_by(own, pooled, LARGEST_RATIO**2)
        shares = counts / held
        n_own = max(float(shares.sum()) - 1, 0.0) * d * (d + 1) / 2
        covariances = bounded_below(own, rows.floor)
        return GaussianParameters(means, covariances, means.size + n_pooled + n_own)

    def log_density(self, rows: Any, parameters: Any) -> Array:
        means = parameters.means
        covariances = parameters.covariances
        if rows.patterns is None and self.own:
            return _own_densities(rows.values, means, covariances)
        if rows.patterns is None:
            return _shared_density(rows.values, means, covariances[0])
        scores = np.empty((len(rows.values), len(means)))
        for j, mean in enumerate(means):
            covariance = covariances[0]
            if self.own:
                covariance = covariances[j]
            scores[:, j] = _observed_density(rows, mean, covariance)
        return scores

    def n_parameters(self, parameters: Any) -> float:
        return float(parameters.n_parameters)


def shrunk_correlations(S: Array, mass: float, floor: Array) -> tuple[Array, float]:
    """Return a covariance whose correlations are shrunk, and the share of them that is kept.

    The share that is lost is sum (1 - r^2)^2/n / sum r^2 over the pairs of columns, which
    minimizes the expected squared error (Schaefer & Strimmer 2005).
    """
    d = len(S)
    variances = np.maximum(np.diag(S), floor)
    deviations = np.sqrt(variances)
    units = np.outer(deviations, deviations)
    correlations = S / units
    off = ~np.eye(d, dtype=bool)
    squares = np.square(np.clip(correlations[off], -1, 1))
    noise = float(np.square(1 - squares).sum()) / max(mass, 1.0)
    signal = max(float(squares.sum()), SMALLEST_NORMAL)
    lost = min(noise / signal, 1.0)
    # a floor of the smallest eigenvalue, as of the variances
    lost = max(lost, VARIANCE_FLOOR)
    shrunk = np.where(off, (1 - lost) * correlations, 1.0)
    values = np.linalg.eigvalsh(shrunk)
    if values[0] < VARIANCE_FLOOR:
        lift = VARIANCE_FLOOR - values[0]
        shrunk = shrunk + lift * np.eye(d)
    return units * shrunk, 1 - lost


def bounded_by(own: Array, pooled: Array, ratio: float) -> Array:
    """Return own covariances within a factor of the pooled one in every direction."""
    # most are, which two Cholesky factorizations show at a fraction of the cost of eigenvalues
    if are_positive(own - pooled / ratio) and are_positive(ratio * pooled - own):
        return own
    L = np.linalg.cholesky(pooled)
    inverse = np.linalg.inv(L)
    values, vectors = np.linalg.eigh(inverse @ own @ inverse.T)
    bounded = np.clip(values, 1 / ratio, ratio)
    half = (L @ vectors) * np.sqrt(bounded)[:, None, :]
    return np.asarray(half @ half.transpose(0, 2, 1))


def are_positive(matrices: Array) -> bool:
    """Return whether all symmetric matrices are positive definite."""
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return False
    return True


def bounded_below(covariances: Array, floor: Array) -> Array:
    """Return covariances whose variance in every direction is at least that of rounding.

    Rounding of columns is independent, with variances `floor`; less variance along any direction
    than that of rounding would be a density of more than one per rounded row.
    """
    if float(floor.max(initial=0.0)) <= LEAST_ROUNDING:
        return covariances
    least = np.maximum(floor, LEAST_ROUNDING)
    if are_positive(covariances - np.diag(least)):
        return covariances
    scale = np.sqrt(least)
    units = np.outer(scale, scale)
    values, vectors = np.linalg.eigh(covariances / units)
    bounded = np.maximum(values, 1.0)
    half = vectors * np.sqrt(bounded)[:, None, :]
    return np.asarray(half @ half.transpose(0, 2, 1) * units)


def _moments(Y: Array, R: Array, own: bool) -> tuple[Array, Array, Array]:
    """Return counts, means and scatter matrices of each cluster, or only the sum of the latter."""
    counts = R.sum(axis=0)
    weights = R.sum(axis=1)
    mass = max(float(counts.sum()), SMALLEST_NORMAL)
    common = weights @ Y / mass
    sums = R.T @ Y + SMALLEST_NORMAL * common
    means = sums / (counts + SMALLEST_NORMAL)[:, None]
    if not own:
        centered = Y - common
        moved = means - common
        total = (weights[:, None] * centered).T @ centered
        between = (counts[:, None] * moved).T @ moved
        within = total - between
        return counts, means, within[None]
    scatters = np.empty((len(means), Y.shape[1], Y.shape[1]))
    for j, mean in enumerate(means):
        weighted = np.sqrt(R[:, j])[:, None] * (Y - mean)
        scatters[j] = weighted.T @ weighted
    return counts, means, scatters


def expected_moments(
    rows: GaussianRows,
    R: Array,
    last: GaussianParameters,
) -> tuple[Array, Array, Array]:
    """Return expected counts, means and scatters given observed entries under the last step."""
    assert rows.patterns is not None
    assert rows.pattern_of is not None
    counts = R.sum(axis=0)
    d = rows.values.shape[1]
    means = np.empty((len(counts), d))
    scatters = np.empty((len(counts), d, d))
    fills = _regressions(rows.patterns, last.covariances[0])
    for j, mean in enumerate(last.means):
        if j > 0 and len(last.covariances) > 1:
            fills = _regressions(rows.patterns, last.covariances[j])
        filled = rows.values.copy()
        for at, part in _by_pattern(rows):
            observed = rows.patterns[part]
            centered = np.where(observed, rows.values[at] - mean, 0.0)
            expected = mean + centered @ fills.maps[part].T
            filled[at] += np.where(observed, 0.0, expected)
        shares = np.bincount(rows.pattern_of, R[:, j], minlength=len(rows.patterns))
        scatters[j] = np.einsum("p,pcd->cd", shares, fills.covariances)
        sums = R[:, j] @ filled + SMALLEST_NORMAL * mean
        means[j] = sums / (counts[j] + SMALLEST_NORMAL)
        weighted = np.sqrt(R[:, [j]]) * (filled - means[j])
        scatters[j] += weighted.T @ weighted
    return counts, means, scatters


def _pairwise_start(rows: GaussianRows, R: Array) -> GaussianParameters:
    """Return means of observed entries and a covariance of pairs of them, for a first step."""
    assert rows.patterns is not None
    assert rows.pattern_of is not None
    observed = rows.patterns[rows.pattern_of].astype(float)
    weights = R.sum(axis=1)
    held = R.T @ observed
    total = np.maximum(held.sum(axis=0), SMALLEST_NORMAL)
    common = (weights @ rows.values) / total
    means = (R.T @ rows.values + common) / (held + 1.0)
    scatter = np.zeros((len(common), len(common)))
    for j, mean in enumerate(means):
        centered = observed * (rows.values - mean)
        scatter += (R[:, [j]] * centered).T @ centered
    pairs = np.maximum((weights[:, None] * observed).T @ observed, 1.0)
    floor = np.maximum(rows.floor, VARIANCE_FLOOR)
    covariance, _ = shrunk_correlations(scatter / pairs, float(weights.sum()), floor)
    return GaussianParameters(means, covariance[None], 0.0)


def _by_pattern(rows: GaussianRows) -> Iterator[tuple[Array, int]]:
    """Yield the places of rows of each pattern, with the pattern."""
    assert rows.patterns is not None
    assert rows.pattern_of is not None
    order = np.argsort(rows.pattern_of, kind="stable")
    sizes = np.bincount(rows.pattern_of, minlength=len(rows.patterns))
    ends = np.cumsum(sizes)
    for part, at in enumerate(np.split(order, ends[:-1])):
        yield at, part


@frozen
class Regressions:
    """For each pattern, the map from observed to missing entries and its error covariance."""

    maps: Array
    covariances: Array


def _regressions(patterns: Array, covariance: Array) -> Regressions:
    """Return regressions of missing on observed entries, zero where they do not apply."""
    d = len(covariance)
    precisions = _pattern_inverses(patterns, covariance)
    missing = ~patterns
    coefficients = covariance @ precisions
    maps = missing[:, :, None] * coefficients
    both_missing = missing[:, :, None] & missing[:, None, :]
    errors = covariance - coefficients @ covariance
    errors = np.where(both_missing, errors, 0.0)
    return Regressions(maps.reshape(-1, d, d), errors)


def _pattern_inverses(patterns: Array, covariance: Array) -> Array:
    """Return the inverse of the observed block of a covariance for each pattern, else zeros."""
    both = patterns[:, :, None] & patterns[:, None, :]
    blocks = np.where(both, covariance, 0.0)
    at = np.arange(len(covariance))
    blocks[:, at, at] = np.where(patterns, covariance[at, at], 1.0)
    return np.where(both, np.linalg.inv(blocks), 0.0)


def _shared_density(Y: Array, means: Array, covariance: Array) -> Array:
    """Return log densities under one covariance: rows are whitened once for all clusters."""
    L = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(L)
    middle = means.mean(axis=0)
    white = (Y - middle) @ inverse.T
    centers = (means - middle) @ inverse.T
    lengths = np.einsum("nc,nc->n", white, white)
    squares = lengths[:, None] - 2 * (white @ centers.T)
    squares += np.einsum("kc,kc->k", centers, centers)
    squares = np.maximum(squares, 0.0)
    logdet = 2 * float(np.log(np.diag(L)).sum())
    constant = logdet + len(L) * LOG_2PI
    return np.asarray(-0.5 * (squares + constant))


def _own_densities(Y: Array, means: Array, covariances: Array) -> Array:
    """Return log densities under own covariances: rows are whitened for all clusters at once."""
    k, d = means.shape
    L = np.linalg.cholesky(covariances)
    inverses = np.linalg.inv(L)
    middle = means.mean(axis=0)
    white = (Y - middle) @ inverses.reshape(k * d, d).T
    white -= np.einsum("kcd,kd->kc", inverses, means - middle).ravel()
    np.square(white, out=white)
    squares = white.reshape(len(Y), k, d).sum(axis=2)
    diagonals = np.diagonal(L, axis1=1, axis2=2)
    logdets = 2 * np.log(diagonals).sum(axis=1)
    return np.asarray(-0.5 * (squares + logdets + d * LOG_2PI))


def _observed_density(rows: GaussianRows, mean: Array, covariance: Array) -> Array:
    assert rows.patterns is not None
    assert rows.pattern_of is not None
    patterns = rows.patterns
    inverses = _pattern_inverses(patterns, covariance)
    at = np.arange(len(covariance))
    regular = inverses.copy()
    regular[:, at, at] = np.where(patterns, inverses[:, at, at], 1.0)
    logdets = -np.linalg.slogdet(regular)[1]
    centered = np.where(patterns[rows.pattern_of], rows.values - mean, 0.0)
    squares = np.empty(len(centered))
    for at, part in _by_pattern(rows):
        squares[at] = np.einsum("nc,nc->n", centered[at] @ inverses[part], centered[at])
    sizes = patterns.sum(axis=1)
    constants = logdets + sizes * LOG_2PI
    return np.asarray(-0.5 * (squares + constants[rows.pattern_of]))
