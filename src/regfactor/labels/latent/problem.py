"""Supervised nonlinear factorization: inputs and targets as ridge regressions on latent rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from regfactor.core.params import Array, frozen
from regfactor.labels.latent.placement import (
    Encoder,
    KernelBasis,
    LatentModel,
    LinearBasis,
    Reconstruction,
)
from regfactor.labels.latent.ridge import DeferredRegression, Form, Regression, RidgeView
from regfactor.problems.base import Problem

START_NOISE = 1e-3  # first latent numbers in directions in which the inputs do not vary
FLAT_SHARE = 1e-7  # of the largest spread, below which inputs do not vary


@frozen
class LatentPoint:
    """Latent rows, the parameters they are computed from, and the inputs completed for them."""

    rows: Array
    parameters: Array
    inputs: Array


@frozen
class SNF(Problem[LatentPoint]):
    """F(Z) = lambda_z sum w |z_i|^2 + sum over views of weight * ridge regression on phi(Z).

    The regression of a view is min over V, b of sum_i w_i |t_i - phi(z_i) V - b|^2 + ridge |V|^2.
    The first view are the inputs, of all rows; the others are targets, which rows may lack
    (Grabocka et al. 2014, eq. 5, with the weight of the targets that eq. 5 lost). Missing
    entries of the inputs hold their last reconstruction. With a basis P of the inputs, Z = P E is
    minimized over E, so that no latent row moves alone.
    """

    views: tuple[RidgeView, ...]
    lambda_z: float
    samples: Array
    dimensions: int
    missing: Array | None = None
    basis: LinearBasis | KernelBasis | None = None
    solvers = (
        "regfactor.labels.latent.descent:LatentDescent",
        "regfactor.labels.latent.descent:PairSweeps",
    )

    @property
    def inputs(self) -> Array:
        """The inputs, with missing entries as they are completed now."""
        return self.views[0].targets

    @cached_property
    def features(self) -> Array:
        """P, the basis of the inputs as they are completed now."""
        assert self.basis is not None
        return self.basis(self.inputs)

    def rows(self, parameters: Array) -> Array:
        """Return Z from its parameters: Z itself, or E."""
        if self.basis is None:
            return parameters.reshape(len(self.samples), self.dimensions)
        return self.features @ parameters.reshape(-1, self.dimensions)

    def point(self, parameters: Array) -> LatentPoint:
        """Return the point of parameters."""
        return LatentPoint(self.rows(parameters), parameters, self.inputs)

    def value_and_gradient(self, parameters: Array) -> tuple[float, Array]:
        """Return F and its exact derivative in the parameters."""
        Z = self.rows(parameters)
        value, gradient = self.shrinkage(Z)
        for view in self.views:
            part, slope = self.view_part(view, Z)
            value += part
            if view.rows is None:
                gradient += slope
            else:
                gradient[view.rows] += slope
        if self.basis is not None:
            gradient = self.features.T @ gradient
        return value, gradient.ravel()

    def shrinkage(self, Z: Array) -> tuple[float, Array]:
        """lambda_z sum w_i |z_i|^2 and its derivative."""
        weighted = self.lambda_z * self.samples[:, None] * Z
        return float(np.vdot(Z, weighted)), 2 * weighted

    def view_part(self, view: RidgeView, Z: Array) -> tuple[float, Array]:
        """Return what a view adds to F, and its derivative in the rows of the view."""
        value, slope = view.form.value_and_gradient(view.of_rows(Z), view)
        if view.weight == 1:
            return value, slope
        return view.weight * value, view.weight * slope

    def regressions(self, Z: Array) -> list[Regression]:
        """Return the regression of every view."""
        return [view.fitted(Z) for view in self.views]

    def completed(self, parameters: Array) -> SNF:
        """Return the problem with missing inputs replaced by their reconstruction.

        Each column is regressed on its observed entries: completed by that, F is theirs alone.
        """
        if self.missing is None:
            return self
        Z = self.rows(parameters)
        X = self.inputs.copy()
        for rows, columns in patterns(~self.missing):
            if len(rows) == len(X):
                continue
            targets = X[np.ix_(rows, columns)]
            view = replace(self.views[0], targets=targets, samples=self.samples[rows])
            empty = np.setdiff1d(np.arange(len(X)), rows)
            X[np.ix_(empty, columns)] = view.fitted(Z[rows])(Z[empty])
        if self.basis is not None:
            # Latent rows follow completed entries, and both could grow without bound.
            X = np.clip(X, self.inputs.min(axis=0), self.inputs.max(axis=0))
        return replace(self, views=(replace(self.views[0], targets=X), *self.views[1:]))

    def start(self, random: Any) -> LatentPoint:
        """Return principal component scores; random noise where the inputs do not vary."""
        centered = self.inputs - weighted_mean(self.inputs, self.samples)
        directions = principal_directions(centered, self.samples, self.dimensions)
        if self.basis is not None:
            added = self.features.shape[1] - len(directions)
            return self.point(np.pad(directions, ((0, added), (0, 0))).ravel())
        Z = centered @ directions
        flat = ~directions.any(axis=0)
        if flat.any():  # from zero nothing in such a direction would ever move
            Z = Z + START_NOISE * flat * random.normal(size=Z.shape)
        return self.point(Z.ravel())

    def model(self, point: LatentPoint) -> LatentModel:
        """Return the regressions of a point, and how new rows are placed."""
        Z = point.rows
        inputs = DeferredRegression(replace(self.views[0], targets=point.inputs), Z)
        targets = [view.fitted(Z) for view in self.views[1:]]
        columns = [view.columns for view in self.views[1:] if view.columns is not None]
        if self.basis is None:
            placement = Reconstruction(inputs, self.lambda_z, point.inputs, Z)
            return LatentModel(Z, inputs, targets, columns, placement)
        low = point.inputs.min(axis=0)
        high = point.inputs.max(axis=0)
        E = point.parameters.reshape(-1, self.dimensions)
        encoder = Encoder(self.basis, E, inputs, low, high)
        if self.missing is not None:
            Z = encoder(np.where(self.missing, np.nan, point.inputs))
        return LatentModel(Z, inputs, targets, columns, encoder)


def views_of(
    X: Array,
    Y: Array,
    samples: Array,
    ridges: tuple[float, float],
    weight: float,
    form_of: Callable[[int], Form],
) -> tuple[RidgeView, ...]:
    """Return the view of the inputs, and one of the targets for each pattern of given ones.

    `form_of` returns the form of a number of rows.
    """
    views = [RidgeView(X, samples, ridges[0], 1.0, form_of(len(X)))]
    for rows, columns in patterns(~np.isnan(Y)):
        targets = Y[np.ix_(rows, columns)]
        form = form_of(len(rows))
        views.append(RidgeView(targets, samples[rows], ridges[1], weight, form, rows, columns))
    return tuple(views)


def patterns(seen: Array) -> Iterator[tuple[Array, Array]]:
    """Yield rows that are observed, with the columns that are observed in exactly these."""
    kinds, kind_of_column = np.unique(seen, axis=1, return_inverse=True)
    for j, kind in enumerate(kinds.T):
        yield np.flatnonzero(kind), np.flatnonzero(kind_of_column.ravel() == j)


def weighted_mean(X: Array, samples: Array) -> Array:
    """Return the mean of the rows of X under their weights."""
    return samples @ X / samples.sum()


def principal_directions(centered: Array, samples: Array, dimensions: int) -> Array:
    """Return the directions of largest variance as columns; zero where there is no variance."""
    root = np.sqrt(samples)[:, None] * centered
    if root.shape[0] >= root.shape[1]:
        squares, vectors = scipy.linalg.eigh(root.T @ root, check_finite=False)
        sizes = np.sqrt(np.maximum(squares[::-1], 0))
        vectors = vectors[:, ::-1]
    else:
        _, sizes, Vt = scipy.linalg.svd(root, full_matrices=False, check_finite=False)
        vectors = Vt.T
    directions = np.zeros((root.shape[1], dimensions))
    kept = min(dimensions, int((sizes > FLAT_SHARE * sizes[0]).sum()))
    vectors = vectors[:, :kept]
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(kept)]
    directions[:, :kept] = vectors * np.where(largest < 0, -1, 1)
    return directions
