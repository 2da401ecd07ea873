"""Reverse members: rows predicted from classes that are Gaussian, unlabeled rows by EM.

All fits, with all labels and without each fold of them, run side by side.
"""

from __future__ import annotations

import abc
from typing import ClassVar

import numpy as np
from scipy.linalg import lapack

from regfactor.core.params import Array, frozen
from regfactor.labels.semi_supervised.labeled_rows import LabeledRows, Spectrum
from regfactor.labels.semi_supervised.member import ClassMember, ClassModel, FittedMember

MAX_EM_STEPS = 15
SMALLEST_CHANGE = 2e-3  # mean change of the responsibilities at which a fit ends
PRIOR_COUNT = 1.0  # added to the number of rows of each class
SPECTRUM_SHRINKAGE = 0.01  # of the variances that are whitened toward their mean
OFF_DIAGONAL = 0.9  # what is left of correlations within classes


def whitening_basis(spectrum: Spectrum, max_rank: int) -> Array:
    """Return the basis of nearly white coordinates of rows, the widest directions first.

    A common factor makes the mean square of the coordinates of a row the number of columns.
    """
    n_columns = len(spectrum.vectors)
    shrunk = (1 - SPECTRUM_SHRINKAGE) * spectrum.variances
    shrunk += SPECTRUM_SHRINKAGE * spectrum.variances.sum() / n_columns
    scales = 1.0 / np.sqrt(shrunk)
    scales *= np.sqrt(n_columns / np.sum(spectrum.variances * scales**2))
    return spectrum.vectors[:, :max_rank] * scales[:max_rank]


@frozen
class Moments:
    """Counts, means and second moments of classes in several fits.

    Attributes
    ----------
    counts : array of shape (n_fits, n_classes)
        Weights of the rows of each class.
    means : array of shape (n_fits, n_classes, rank)
    products : array of shape (n_fits, n_classes, n_products), optional
        Sums of products of two coordinates.
    totals : array of shape (n_fits, rank, rank) or (n_fits, rank)
        Sums of the products of coordinates over all rows, or of their squares alone.
    """

    counts: Array
    means: Array
    products: Array
    totals: Array

    def priors(self) -> Array:
        """Return the shares of the classes, with one row more of each."""
        counts = self.counts + PRIOR_COUNT
        return counts / counts.sum(axis=1, keepdims=True)

    def variances_within(self) -> Array:
        """Return the variances of coordinates within classes of each fit, from squares alone."""
        between = np.einsum("fc,fcr,fcr->fr", self.counts, self.means, self.means)
        n_rows = self.counts.sum(axis=1)
        return (self.totals - between) / n_rows[:, None]

    def within(self) -> Array:
        """Return the covariance within classes of each fit."""
        sums = self.counts[:, :, None] * self.means
        between = sums.swapaxes(1, 2) @ self.means
        n_rows = self.counts.sum(axis=1)
        return (self.totals - between) / n_rows[:, None, None]


@frozen
class Coefficients:
    """Energies of classes in several fits, linear in the features of rows."""

    linear: Array  # (n_fits, n_classes, n_features)
    intercepts: Array  # (n_fits, n_classes)

    def energies(self, features: Array) -> Array:
        """Return energies of shape (n_fits, n_classes, n_rows)."""
        n_fits, n_classes, n_features = self.linear.shape
        linear = self.linear.reshape(-1, n_features).astype(features.dtype)
        found = (linear @ features.T).reshape(n_fits, n_classes, -1)
        found += self.intercepts[:, :, None].astype(features.dtype)
        return found


@frozen
class GaussianEnergies(ClassModel):
    """log p_j N(x; m_j, C_j), up to what the classes share."""

    basis: Array | None
    linear: Array
    intercepts: Array
    with_products: bool

    def energies(self, rows: Array) -> Array:
        """Return an energy for each row and class."""
        features = rows
        if self.basis is not None:
            features = rows @ self.basis
        if self.with_products:
            features = np.hstack([features, products(features)])
        return features @ self.linear.T + self.intercepts


class GaussianMember(ClassMember):
    """max over p, m, C of sum_i u_i log sum_j p_j N(x_i; m_j, C_j), labeled rows in their class.

    u_i is one for labels and `unlabeled_weight` for other rows.
    """

    temperatures = (0.05, 0.1, 0.25, 0.5, 1.0)
    usual_temperature = 0.3
    unlabeled_weight: ClassVar[float]
    max_rank: ClassVar[int | None]
    with_products: ClassVar[bool] = False

    @abc.abstractmethod
    def coefficients(self, moments: Moments) -> Coefficients:
        """Return the energies that maximize the expected likelihood, from moments."""

    def fit(self) -> FittedMember:
        """Return the member fitted to all labels, and without each fold of them."""
        data = self.data
        basis = None
        coordinates = data.rows
        if self.max_rank is not None:
            basis = whitening_basis(data.spectrum, self.max_rank)
            coordinates = data.rows @ basis
        features = coordinates
        if self.with_products:
            features = np.hstack([coordinates, products(coordinates)])
        found = self._maximize(features, coordinates)
        model = GaussianEnergies(basis, found.linear[0], found.intercepts[0], self.with_products)
        of_labels = found.energies(features[data.labeled]).swapaxes(1, 2)
        energies = features @ model.linear.T + model.intercepts
        return self._fitted(model, energies, data.held_out(of_labels))

    def _maximize(self, features: Array, coordinates: Array) -> Coefficients:
        """Run EM for all fits side by side; one that no longer changes is left out."""
        data = self.data
        labels = LabelsInUse.of(data)
        weights = weights_in_fits(data, self.unlabeled_weight)
        if self.max_rank is None:
            totals = weights @ np.square(coordinates)
        else:
            totals = np.array([(coordinates.T * own) @ coordinates for own in weights])
        moments = first_moments(data, coordinates, totals.ndim, self.with_products)
        found = self.coefficients(moments)
        linear = found.linear.copy()
        intercepts = found.intercepts.copy()
        # single precision halves the time, and responsibilities need no more
        features = features.astype(np.float32)
        weights = weights[:, None].astype(np.float32)
        previous = np.full((len(weights), data.n_classes, len(features)), np.inf, np.float32)
        active = np.arange(len(weights))
        for _ in range(MAX_EM_STEPS):
            now = Coefficients(linear[active], intercepts[active])
            shares = labels.responsibilities(now.energies(features), active)
            changes = np.abs(shares - previous[active]).mean(axis=(1, 2))
            previous[active] = shares
            moving = changes >= SMALLEST_CHANGE
            active = active[moving]
            if not len(active):
                break
            weighted = shares[moving] * weights[active]
            moments = moments_of(weighted, features, totals[active])
            found = self.coefficients(moments)
            linear[active] = found.linear
            intercepts[active] = found.intercepts
        return Coefficients(linear, intercepts)


def weights_in_fits(data: LabeledRows, unlabeled_weight: float) -> Array:
    """Return the weights of rows in each fit, (n_fits, n_rows).

    Rows whose label is not in use count `unlabeled_weight` each.
    """
    unlabeled = data.weights * unlabeled_weight * data.unlabeled_repetitions
    weights = np.repeat(unlabeled[None], len(data.in_use), axis=0)
    held_out = unlabeled_weight * data.label_weights
    weights[:, data.labeled] = np.where(data.in_use, data.label_weights, held_out)
    return weights


@frozen
class LabelsInUse:
    """The labels that fits use: (fit, row) pairs, and the shares of classes in each."""

    fits: Array
    rows: Array
    shares: Array

    @staticmethod
    def of(data: LabeledRows) -> LabelsInUse:
        """Return the labels of all fits."""
        fits, places = np.nonzero(data.in_use)
        shares = data.label_shares[places].astype(np.float32)
        return LabelsInUse(fits, data.labeled[places], shares)

    def responsibilities(self, energies: Array, active: Array) -> Array:
        """Return the shares of classes in rows of some fits: those of labels where in use."""
        energies -= energies.max(axis=1, keepdims=True)
        np.exp(energies, out=energies)
        energies /= energies.sum(axis=1, keepdims=True)
        places = np.searchsorted(active, self.fits)
        places = np.minimum(places, len(active) - 1)
        used = active[places] == self.fits
        energies[places[used], :, self.rows[used]] = self.shares[used]
        return energies


def products(coordinates: Array) -> Array:
    """Return the products of two coordinates, each pair once, in the order of `triu_indices`."""
    n_rows, rank = coordinates.shape
    found = np.empty((n_rows, rank * (rank + 1) // 2), coordinates.dtype)
    end = 0
    for place in range(rank):
        start = end
        end = start + rank - place
        own = coordinates[:, place : place + 1]
        np.multiply(own, coordinates[:, place:], out=found[:, start:end])
    return found


def symmetric(packed: Array, rank: int) -> Array:
    """Return symmetric matrices from their upper triangles."""
    first, second = np.triu_indices(rank)
    full = np.empty((*packed.shape[:-1], rank, rank))
    full[..., first, second] = packed
    full[..., second, first] = packed
    return full


def moments_of(weighted: Array, features: Array, totals: Array) -> Moments:
    """Return the moments of classes from responsibilities that are multiplied by weights."""
    n_fits, n_classes, n_rows = weighted.shape
    rank = totals.shape[1]
    counts = weighted.sum(axis=2, dtype=np.float64) + 1e-9
    sums = (weighted.reshape(-1, n_rows) @ features).astype(np.float64)
    sums = sums.reshape(n_fits, n_classes, -1)
    means = sums[:, :, :rank] / counts[:, :, None]
    return Moments(counts, means, sums[:, :, rank:], totals)


def first_moments(
    data: LabeledRows,
    coordinates: Array,
    dimension: int,
    with_products: bool,
) -> Moments:
    """Return the means of the labels in use, with the covariance of all rows in every class.

    With a `dimension` of 2 the totals are squares alone.
    """
    of_labels = data.label_weights[:, None] * data.label_shares
    weighted = data.in_use[:, :, None] * of_labels
    counts = weighted.sum(axis=1)
    sums = weighted.swapaxes(1, 2) @ coordinates[data.labeled]
    means = sums / counts[:, :, None]
    row_shares = data.weights / data.weights.sum()
    if dimension == 2:
        between = np.einsum("fc,fcr,fcr->fr", counts, means, means)
        squares = row_shares @ np.square(coordinates)
        totals = counts.sum(axis=1)[:, None] * squares + between
        return Moments(counts, means, np.empty((*counts.shape, 0)), totals)
    covariance = (coordinates.T * row_shares) @ coordinates
    between = (counts[:, :, None] * means).swapaxes(1, 2) @ means
    totals = counts.sum(axis=1)[:, None, None] * covariance + between
    products_of_classes = np.empty((*counts.shape, 0))
    if with_products:
        first, second = np.triu_indices(coordinates.shape[1])
        outer = means[:, :, first] * means[:, :, second]
        products_of_classes = counts[:, :, None] * (covariance[first, second] + outer)
    return Moments(counts, means, products_of_classes, totals)


class SphereMember(GaussianMember):
    """Gaussian classes with one variance: soft k-means with known labels."""

    name = "sphere"
    assumes = "each class is one round cluster"
    unlabeled_weight = 1.0
    max_rank = None

    def coefficients(self, moments: Moments) -> Coefficients:
        """Return energies log p_j + (x.m_j - |m_j|^2/2) / variance."""
        variances = moments.variances_within().mean(axis=1) + 1e-9
        linear = moments.means / variances[:, None, None]
        return linear_coefficients(linear, moments)


class SharedMember(GaussianMember):
    """Gaussian classes with one covariance, in nearly white coordinates."""

    name = "shared"
    assumes = "classes are clusters of one shape"
    unlabeled_weight = 0.1
    max_rank = 60

    def coefficients(self, moments: Moments) -> Coefficients:
        """Return energies log p_j + x.C^-1 m_j - m_j.C^-1 m_j / 2."""
        within = shrunken_within(moments)
        solved = np.linalg.solve(within, moments.means.swapaxes(1, 2))
        linear = solved.swapaxes(1, 2)
        return linear_coefficients(linear, moments)


class OwnMember(GaussianMember):
    """Gaussian classes, each with a covariance of its own that is shrunk to the common one."""

    name = "own"
    assumes = "classes are clusters, each of its own shape"
    unlabeled_weight = 0.1
    max_rank = 30
    with_products = True

    def coefficients(self, moments: Moments) -> Coefficients:
        """Return the logarithms of p_j N(x; m_j, C_j), linear in x and its products."""
        rank = moments.means.shape[2]
        common = shrunken_within(moments)
        prior_rows = rank + 1.0
        counts = moments.counts[:, :, None, None]
        outer = moments.means[..., :, None] * moments.means[..., None, :]
        scatter = symmetric(moments.products, rank) - counts * outer
        shrunk = scatter + prior_rows * common[:, None]
        covariances = shrunk / (counts + prior_rows)
        precisions, logdets = inverses(covariances)
        linear = (precisions @ moments.means[..., None])[..., 0]
        found = linear_coefficients(linear, moments)
        first, second = np.triu_indices(rank)
        quadratic = -precisions[..., first, second]
        quadratic[..., first == second] /= 2
        return Coefficients(
            np.concatenate([linear, quadratic], axis=2),
            found.intercepts - logdets / 2,
        )


def inverses(covariances: Array) -> tuple[Array, Array]:
    """Return the inverses of positive definite matrices, and the logarithms of determinants."""
    rank = covariances.shape[-1]
    found = np.empty_like(covariances)
    logdets = np.empty(covariances.shape[:-2])
    for place in np.ndindex(logdets.shape):
        triangle, failed = lapack.dpotrf(covariances[place])
        if failed:
            raise np.linalg.LinAlgError("A covariance of a class is not positive definite.")
        logdets[place] = 2 * np.log(triangle.diagonal()).sum()
        found[place], _ = lapack.dpotri(triangle)
    lower = np.tril_indices(rank, -1)
    found[..., lower[0], lower[1]] = found[..., lower[1], lower[0]]
    return found, logdets


def shrunken_within(moments: Moments) -> Array:
    """Return the covariance within classes with smaller correlations and a positive diagonal."""
    within = moments.within()
    variances = np.einsum("frr->fr", within).copy()
    variances += 1e-6 * variances.mean(axis=1, keepdims=True)
    shrunk = OFF_DIAGONAL * within
    np.einsum("frr->fr", shrunk)[...] = variances
    return shrunk


def linear_coefficients(linear: Array, moments: Moments) -> Coefficients:
    """Return coefficients with intercepts log p_j - m_j.linear_j / 2."""
    squares = np.einsum("fcr,fcr->fc", linear, moments.means)
    return Coefficients(linear, np.log(moments.priors()) - squares / 2)
