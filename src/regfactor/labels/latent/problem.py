"""Supervised nonlinear factorization: inputs and targets as ridge regressions on latent rows, weights eliminated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from regfactor.core.params import Array
from regfactor.labels.latent.ridge_forms import Form, Regression, View


@dataclass(frozen=True, eq=False)
class SNF:
    """F(Z) = lambda_z sum w |z_i|^2 + sum over views of weight min_V,b [sum w_i |t_i - phi(z_i)V - b|^2 + ridge |V|^2].

    The first view are the inputs, all rows; the others are targets, which rows may lack (spec A1;
    Grabocka et al. 2014, eq. 5, with the weight of the targets that eq. 5 lost). Holes of the
    inputs hold what was rebuilt last.
    """

    views: tuple[View, ...]
    lambda_z: float
    samples: Array
    dimensions: int
    holes: Array | None = None

    def codes(self, theta: Array) -> Array:
        """Return Z from the parameters, which it is itself."""
        return theta.reshape(len(self.samples), self.dimensions)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Return F and its exact derivative."""
        Z = self.codes(theta)
        value, gradient = self.shrinkage(Z)
        for view in self.views:
            part, slope = self.part(view, Z)
            value += part
            if view.rows is None:
                gradient += slope
            else:
                gradient[view.rows] += slope
        return value, gradient.ravel()

    def shrinkage(self, Z: Array) -> tuple[float, Array]:
        """lambda_z sum w_i |z_i|^2 and its derivative."""
        weighted = self.lambda_z * self.samples[:, None] * Z
        return float(np.vdot(Z, weighted)), 2 * weighted

    def part(self, view: View, Z: Array) -> tuple[float, Array]:
        """Return what a view adds to F, and its derivative in the rows of the view."""
        Z = Z if view.rows is None else Z[view.rows]
        value, slope = view.form.value_and_gradient(Z, view)
        return view.weight * value, slope if view.weight == 1 else view.weight * slope

    def fitted(self, Z: Array) -> list[Regression]:
        """Return the regression of every view."""
        return [
            view.form.fitted(Z if view.rows is None else Z[view.rows], view) for view in self.views
        ]

    def refilled(self, theta: Array) -> SNF:
        """Return the problem with the holes of its inputs filled by what is rebuilt now."""
        if self.holes is None:
            return self
        Z = self.codes(theta)
        inputs = self.views[0]
        X = inputs.targets.copy()
        for rows, columns in patterns(~self.holes):
            # the regression on what is seen: filled by it, F is that of the seen entries alone
            view = replace(inputs, targets=X[np.ix_(rows, columns)], samples=self.samples[rows])
            empty = np.setdiff1d(np.arange(len(X)), rows)
            X[np.ix_(empty, columns)] = view.form.fitted(Z[rows], view)(Z[empty])
        return self.with_inputs(X)

    def with_inputs(self, X: Array) -> SNF:
        """Return the problem with other inputs."""
        return replace(self, views=(replace(self.views[0], targets=X), *self.views[1:]))

    @property
    def inputs(self) -> Array:
        """The inputs, holes as they are filled now."""
        return self.views[0].targets


@dataclass(frozen=True, eq=False)
class Encoded:
    """F(P E) in E: latent rows are a linear function of features P of the inputs, so that none can move alone."""

    inner: SNF
    encode: Callable[[Array], Array]

    @cached_property
    def P(self) -> Array:
        """Return the features of the inputs, holes as they are filled now."""
        return self.encode(self.inputs)

    @property
    def inputs(self) -> Array:
        """The inputs, holes as they are filled now."""
        return self.inner.inputs

    @property
    def dimensions(self) -> int:
        """Number of latent dimensions."""
        return self.inner.dimensions

    def with_inputs(self, X: Array) -> Encoded:
        """Return the problem with other inputs."""
        return replace(self, inner=self.inner.with_inputs(X))

    @cached_property
    def span(self) -> tuple[Array, Array]:
        """Return the ranges of the inputs; latent rows follow what is filled, which could drive both to infinity."""
        return self.inputs.min(axis=0), self.inputs.max(axis=0)

    def codes(self, theta: Array) -> Array:
        """Return Z = P E."""
        return self.P @ theta.reshape(self.P.shape[1], self.inner.dimensions)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Return the value and its exact derivative in E."""
        value, gradient = self.inner.value_and_gradient(self.codes(theta).ravel())
        return value, (self.P.T @ gradient.reshape(len(self.P), -1)).ravel()

    def refilled(self, theta: Array) -> Encoded:
        """Return the problem with the holes of its inputs filled by what is rebuilt now."""
        if self.inner.holes is None:
            return self
        X = self.inner.refilled(self.codes(theta).ravel()).inputs
        return self.with_inputs(np.clip(X, *self.span))


def views_of(
    X: Array,
    Y: Array,
    samples: Array,
    ridges: Sequence[float],
    weight: float,
    form: Callable[[int], Form],
) -> tuple[View, ...]:
    """Return the inputs and, for each pattern of given targets, the targets; `form(n)` is that of n rows."""
    views = [View(X, samples, ridges[0], 1.0, form(len(X)))]
    for rows, columns in patterns(~np.isnan(Y)):
        view = View(
            Y[np.ix_(rows, columns)],
            samples[rows],
            ridges[1],
            weight,
            form(len(rows)),
            rows,
            columns,
        )
        views.append(view)
    return tuple(views)


def patterns(seen: Array) -> Iterator[tuple[Array, Array]]:
    """Yield rows that are seen, with the columns that are seen in just these."""
    kinds, which = np.unique(seen, axis=1, return_inverse=True)
    for j, kind in enumerate(kinds.T):
        yield np.flatnonzero(kind), np.flatnonzero(which.ravel() == j)
