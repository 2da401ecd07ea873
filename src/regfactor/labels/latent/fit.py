"""One fit of supervised nonlinear factorization, in scaled units: the problem, its start, its run, what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from regfactor.core.factors import FactorPoint
from regfactor.core.loop import Iterate
from regfactor.core.params import Array
from regfactor.kernels import widths
from regfactor.labels.latent.descent import LatentDescent, LatentPoint, PairSweeps, latent_point
from regfactor.labels.latent.problem import SNF, Encoded, views_of
from regfactor.labels.latent.ridge_forms import Form, Regression, gaussian_form, polynomial_form
from regfactor.labels.latent.rows import Encoder, KernelBasis, LinearBasis, Reconstruction

EPS = float(np.finfo(np.float64).eps)
NOISE = 1e-3  # first latent numbers in directions in which the inputs have no spread
FLAT = 1e-7  # of the largest spread, from which on there is none


@dataclass(frozen=True, eq=False)
class Settings:
    """What a fit is asked for; numbers only."""

    dimensions: int
    gaussian: bool
    degree: int
    back_constraint: str | None
    lambda_x: float
    lambda_y: float
    lambda_z: float
    target_weight: float
    max_iter: int
    gamma: float | str = "scale"
    n_waves: int = 500
    paper_rate: float | None = None  # None: L-BFGS
    tol: float = 1e-4


@dataclass(frozen=True, eq=False)
class Found:
    """Latent rows, the regressions of inputs and targets on them, and how new rows are placed."""

    Z: Array
    inputs: Regression
    targets: list[Regression]
    columns: list[Array]  # of the targets, by regression
    place: Encoder | Reconstruction

    def predict(self, Z: Array) -> Array:
        """Return the targets of latent rows."""
        out = np.empty((len(Z), sum(map(len, self.columns))))
        for model, columns in zip(self.targets, self.columns, strict=True):
            out[:, columns] = model(Z)
        return out


@dataclass(frozen=True, eq=False)
class Fit:
    """Scaled inputs X (NaN: hole), targets Y (NaN: free) and weights of rows, with the settings of a fit."""

    X: Array
    Y: Array
    samples: Array
    settings: Settings
    random: np.random.RandomState

    @cached_property
    def holes(self) -> Array | None:
        """Where inputs are missing; None where nowhere."""
        missing = np.isnan(self.X)
        if missing.any():
            return missing
        return None

    @cached_property
    def filled(self) -> Array:
        """Return the inputs with column means in the holes, the first reconstruction."""
        if self.holes is None:
            return self.X
        seen = self.samples[:, None] * ~self.holes
        means = np.where(self.holes, 0, self.X * seen).sum(axis=0) / np.maximum(
            seen.sum(axis=0),
            EPS,
        )
        return np.where(self.holes, means, self.X)

    @cached_property
    def mean(self) -> Array:
        """Return the means of the inputs."""
        return np.asarray(self.samples @ self.filled / self.samples.sum())

    @cached_property
    def loadings(self) -> Array:
        """Return the directions of largest variance, a column for each latent dimension; zero where there is none."""
        root = np.sqrt(self.samples)[:, None] * (self.filled - self.mean)
        if root.shape[0] >= root.shape[1]:
            squares, vectors = scipy.linalg.eigh(root.T @ root, check_finite=False)
            sizes = np.sqrt(np.maximum(squares[::-1], 0))
            vectors = vectors[:, ::-1]
        else:
            sizes, vectors = scipy.linalg.svd(root, full_matrices=False, check_finite=False)[1:]
            vectors = vectors.T
        out = np.zeros((root.shape[1], self.settings.dimensions))
        kept = min(out.shape[1], int((sizes > FLAT * sizes[0]).sum()))
        largest = vectors[np.abs(vectors[:, :kept]).argmax(axis=0), np.arange(kept)]
        out[:, :kept] = vectors[:, :kept] * np.where(largest < 0, -1, 1)
        return out

    @cached_property
    def scores(self) -> Array:
        """Return principal component scores, the first latent rows."""
        return np.asarray((self.filled - self.mean) @ self.loadings)

    @cached_property
    def basis(self) -> LinearBasis | KernelBasis | None:
        """Return what latent rows are a linear function of; None where they are free."""
        if self.settings.back_constraint is None:
            return None
        if self.settings.back_constraint == "linear":
            return LinearBasis(self.mean)
        return KernelBasis.of(self.filled, self.samples, "median", self.random)

    @cached_property
    def problem(self) -> SNF | Encoded:
        """What is minimized."""
        s = self.settings
        views = views_of(
            self.filled,
            self.Y,
            self.samples,
            (s.lambda_x, s.lambda_y),
            s.target_weight,
            self._form(),
        )
        inner = SNF(views, s.lambda_z, self.samples, s.dimensions, self.holes)
        if self.basis is None:
            return inner
        return Encoded(inner, self.basis)

    def _form(self) -> Callable[[int], Form]:
        """Return how regressions on some number of rows are solved; random features are the same for all."""
        s = self.settings
        n = len(self.X)
        if not s.gaussian:
            return lambda m: polynomial_form(m, s.dimensions, s.degree)
        form = gaussian_form(
            n,
            s.dimensions,
            widths.found(s.gamma, self.scores),
            s.n_waves,
            self.random,
        )
        return lambda m: form

    @property
    def start(self) -> Array:
        """Return the parameters of the first latent rows."""
        if self.basis is not None:
            more = self.basis(self.filled[:1]).shape[1] - len(self.loadings)
            return np.vstack([self.loadings, np.zeros((more, self.loadings.shape[1]))]).ravel()
        flat = ~self.loadings.any(axis=0)  # from zero nothing in such a direction would ever move
        noise = self.random.normal(size=self.scores.shape) if flat.any() else 0
        return (self.scores + NOISE * flat * noise).ravel()

    def iterates(self) -> Iterator[Iterate[Any]]:
        """Yield points of the descent."""
        s = self.settings
        solver: Any
        if s.paper_rate is None:
            solver = LatentDescent(s.max_iter)
        else:
            solver = PairSweeps(s.paper_rate)
        solver.check(self.problem)
        return solver.iterates(self.problem, latent_point(self.problem, self.start))

    def found(self, point: FactorPoint) -> Found:
        """Return what a point of the descent stands for."""
        assert (
            isinstance(point, LatentPoint)
            and point.coefficients is not None
            and point.inputs is not None
        )
        theta = point.coefficients
        problem = self.problem.with_inputs(point.inputs)
        inner = problem.inner if isinstance(problem, Encoded) else problem
        Z = problem.codes(theta)
        inputs, *targets = inner.fitted(Z)
        columns = [view.columns for view in inner.views[1:] if view.columns is not None]
        if self.basis is None:
            place: Any = Reconstruction(inputs, self.settings.lambda_z, inner.views[0].targets, Z)
        else:
            span = self.filled.min(axis=0), self.filled.max(axis=0)
            place = Encoder(self.basis, theta.reshape(-1, self.settings.dimensions), inputs, span)
            Z = Z if self.holes is None else place(self.X)
        return Found(Z, inputs, targets, columns, place)
