"""Candidates of supervised nonlinear factorization, each judged on labels that were held out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from regfactor.core.params import Array
from regfactor.labels.latent.checks import limits, scalers, settings_of
from regfactor.labels.latent.descent import LatentPoint, latent_point
from regfactor.labels.latent.estimator import SNFRegressor
from regfactor.labels.latent.fit import Fit, Found
from regfactor.labels.latent.problem import Encoded
from regfactor.labels.latent.ridge_forms import View

Models = list[
    tuple[SNFRegressor, tuple[int, ...]]
]  # with the iterations at which descents are looked at


@dataclass(frozen=True, eq=False)
class Candidate:
    """A setting, the iteration at which its descent is stopped, and the ridge of the targets' regression after it."""

    setting: int
    stop: int
    ridge: float
    # a kernel machine on the labels: a Gaussian kernel of all principal components as they are
    machine: bool = False


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate with its squared errors on held-out rows, in units of the variance of each target; rows may weigh."""

    candidate: Candidate
    errors: Array
    weights: Array | None = None

    @property
    def mean(self) -> float:
        """Return the mean squared error."""
        return float(np.average(self.errors, weights=self.weights))

    def standard_error(self, beside: Trial | None = None) -> float:
        """Return the standard error of the mean, or of the difference from that of another trial of the same rows."""
        errors = self.errors if beside is None else self.errors - beside.errors
        if self.weights is None:
            shares = np.full(len(errors), 1.0)
        else:
            shares = self.weights
        shares = shares / shares.sum()
        spread = np.square(shares * (errors - shares @ errors)).sum()
        return float(np.sqrt(spread * len(errors) / (len(errors) - 1)))


def ranked(trials: list[Trial], caution: float) -> list[Trial]:
    """Return trials in the order of choice: machines first, or in turn with others where the best of these earns it.

    Means over both kinds are steadier than over one: what few labels say about either is little.
    """
    trials = sorted(trials, key=lambda trial: trial.mean)
    machines = [trial for trial in trials if trial.candidate.machine]
    others = [trial for trial in trials if not trial.candidate.machine]
    if not machines or not others or caution == 0:
        return trials
    gain = machines[0].mean - others[0].mean
    if gain <= caution * machines[0].standard_error(beside=others[0]):
        return machines + others
    pairs = zip_longest(others, machines)
    return [trial for pair in pairs for trial in pair if trial is not None]


@dataclass(frozen=True, eq=False)
class Task:
    """Scaled inputs, targets as they are and weights of rows, for fits with some of the targets hidden."""

    X: Array
    Y: Array
    samples: Array
    scale: bool
    clip: float | None
    seed: int

    def trials(self, models: Models, ridges: tuple[float, ...], folds: list[Array]) -> list[Trial]:
        """Return all candidates with their errors on all folds."""
        variance = np.maximum(np.nanvar(self.Y, axis=0), np.finfo(float).tiny)
        weights = self.samples[np.concatenate(folds)]
        out = []
        for i, (model, stops) in enumerate(models):
            errors: dict[tuple[int, float], list[Array]] = {
                (s, r): [] for s in stops for r in ridges
            }
            codes: list[tuple[int, Array]] = []
            for held in folds:
                fit, scaler, span = self._prepared(model, held)
                if (
                    not codes or model.target_weight > 0
                ):  # without targets in it a descent is the same in all folds
                    codes = list(self._stops(fit, stops))
                for stop, Z in codes:
                    for ridge in ridges:
                        predicted = scaler.inverse_transform(_regressed(fit, Z, ridge, held))
                        wrong = np.square(np.clip(predicted, *span) - self.Y[held]) / variance
                        errors[stop, ridge].append(wrong.mean(axis=1))
            whole = fit.settings.gaussian and fit.settings.dimensions == self.X.shape[1]
            out += [
                Trial(Candidate(i, s, r, whole and s == 0), np.concatenate(e), weights)
                for (s, r), e in errors.items()
            ]
        return out

    def fitted(self, models: Models, candidates: list[Candidate]) -> list[Found]:
        """Return what candidates find from all targets; those that differ in the ridge alone share a descent."""
        ends: dict[tuple[int, int], tuple[Fit, LatentPoint, Found]] = {}
        out = []
        for c in candidates:
            if (c.setting, c.stop) not in ends:
                ends[c.setting, c.stop] = self._end(models[c.setting][0], c.stop)
            fit, point, found = ends[c.setting, c.stop]
            views = [replace(view, ridge=c.ridge) for view in _targets(fit)]
            regressions = [view.form.fitted(point.factors.codes[view.rows], view) for view in views]
            out.append(replace(found, targets=regressions))
        return out

    def _end(self, model: SNFRegressor, stop: int) -> tuple[Fit, LatentPoint, Found]:
        """Return a fit to all targets, where its descent stands at a stop, and what was found there."""
        fit = self._prepared(model, np.zeros(0, int))[0]
        point = latent_point(fit.problem, fit.start)
        for it in self._run(fit, stop):
            point = it
        return fit, point, fit.found(point)

    def _prepared(self, model: SNFRegressor, held: Array) -> tuple[Fit, Any, tuple[Array, Array]]:
        """Return a fit without the targets of some rows, how its targets were scaled, and their clipped range."""
        Y = self.Y.copy()
        Y[held] = np.nan
        scaler = scalers(self.scale, self.X, Y)[1]
        settings = settings_of(model, self.X.shape[1])
        fit = Fit(
            self.X,
            scaler.transform(Y),
            self.samples,
            settings,
            np.random.RandomState(self.seed),
        )
        return fit, scaler, limits(Y, self.clip)

    def _stops(self, fit: Fit, stops: tuple[int, ...]) -> Iterator[tuple[int, Array]]:
        """Yield latent rows at each stop; a descent that ends before one stays where it ended."""
        wanted = list(stops)
        if wanted[0] == 0:
            yield wanted.pop(0), latent_point(fit.problem, fit.start).factors.codes
        done = 0
        last = None
        for point, done in self._run_counted(fit, stops[-1]):
            last = point
            while wanted and done >= wanted[0]:
                yield wanted.pop(0), point.factors.codes
        for stop in wanted:
            assert last is not None
            yield stop, last.factors.codes

    def _run(self, fit: Fit, stop: int) -> Iterator[LatentPoint]:
        return (point for point, _ in self._run_counted(fit, stop))

    def _run_counted(self, fit: Fit, stop: int) -> Iterator[tuple[LatentPoint, int]]:
        """Yield the points of a descent up to a stop with their numbers of iterations."""
        if stop == 0:
            return
        done = 0
        value = np.inf
        for it in fit.iterates():
            done += it.steps
            assert isinstance(it.point, LatentPoint)
            if it.steps:
                yield it.point, done
            if (
                it.settled
                or done >= stop
                or value - it.objective <= fit.settings.tol * abs(it.objective)
            ):
                return
            value = it.objective


def _targets(fit: Fit) -> tuple[View, ...]:
    problem = fit.problem
    return (problem.inner if isinstance(problem, Encoded) else problem).views[1:]


def _regressed(fit: Fit, Z: Array, ridge: float, rows: Array) -> Array:
    """Return the targets of some rows by a regression of the given ones on latent rows."""
    out = np.empty((len(rows), fit.Y.shape[1]))
    for view in _targets(fit):
        assert view.rows is not None and view.columns is not None
        view = replace(view, ridge=ridge)
        out[:, view.columns] = view.form.fitted(Z[view.rows], view)(Z[rows])
    return out
