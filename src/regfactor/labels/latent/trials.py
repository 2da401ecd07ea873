"""Candidates of supervised nonlinear factorization, each judged on labels that were held out."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from operator import attrgetter

import numpy as np

from regfactor.core.loop import Iterate, Limits
from regfactor.core.params import SMALLEST_NORMAL, Array, frozen
from regfactor.labels.latent.estimator import SNFRegressor, clipped_range
from regfactor.labels.latent.placement import LatentModel
from regfactor.labels.latent.problem import SNF, LatentPoint
from regfactor.labels.latent.ranges import ColumnRanges
from regfactor.labels.latent.settings import Setting
from regfactor.solvers.base import solve_within

NO_ROWS = np.zeros(0, int)


@frozen
class LatentCandidate:
    """A setting, the iteration that ends its descent, and the ridge of the regression after it."""

    setting: int
    stop: int
    ridge: float
    # a kernel machine on the labels: a Gaussian kernel of all principal components as they are
    machine: bool = False


@frozen
class LatentTrial:
    """A candidate with its squared errors on held-out rows, relative to the targets' variance."""

    candidate: LatentCandidate
    errors: Array
    weights: Array | None = None

    @property
    def mean(self) -> float:
        """The mean squared error."""
        return float(np.average(self.errors, weights=self.weights))

    def standard_error(self, relative_to: LatentTrial | None = None) -> float:
        """Return the standard error of the mean, or of its difference from another trial's."""
        errors = self.errors
        if relative_to is not None:
            errors = errors - relative_to.errors
        shares = np.ones(len(errors))
        if self.weights is not None:
            shares = self.weights
        shares = shares / shares.sum()
        spread = np.square(shares * (errors - shares @ errors)).sum()
        return float(np.sqrt(spread * len(errors) / max(len(errors) - 1, 1)))


def ranked(trials: list[LatentTrial], caution: float) -> list[LatentTrial]:
    """Return trials in the order of choice: machines first, unless the others are surely better.

    Then both kinds take turns: means over both are steadier than over one, since few labels give
    little evidence on either.
    """
    trials = sorted(trials, key=attrgetter("mean"))
    machines = [trial for trial in trials if trial.candidate.machine]
    others = [trial for trial in trials if not trial.candidate.machine]
    if not machines or not others or caution == 0:
        return trials
    gain = machines[0].mean - others[0].mean
    if gain <= caution * machines[0].standard_error(relative_to=others[0]):
        return machines + others
    in_turn: list[LatentTrial] = []
    for pair in zip_longest(others, machines):
        in_turn.extend(trial for trial in pair if trial is not None)
    return in_turn


@frozen
class Fold:
    """The problem without the targets of held-out rows, their scale and range, and its start."""

    problem: SNF
    start: LatentPoint
    target_ranges: ColumnRanges
    low: Array
    high: Array

    def predict(self, Z: Array, ridge: float, rows: Array) -> Array:
        """Return the targets of some rows by a regression of the given ones on latent rows."""
        scaled = np.empty((len(rows), len(self.low)))
        for view in self.problem.views[1:]:
            regression = replace(view, ridge=ridge).fitted(Z)
            scaled[:, view.columns] = regression(Z[rows])
        return self.unscaled(scaled)

    def unscaled(self, scaled: Array) -> Array:
        """Return targets in their units, held near the range of the given ones."""
        return np.clip(self.target_ranges.inverse_transform(scaled), self.low, self.high)


@frozen
class CrossValidation:
    """Scaled inputs, targets in their units and weights of rows, for fits with hidden targets."""

    X: Array
    Y: Array
    samples: Array
    scale: bool
    clip: float | None
    seed: int

    def trials(
        self,
        settings: list[Setting],
        ridges: tuple[float, ...],
        folds: list[Array],
    ) -> list[LatentTrial]:
        """Return all candidates with their errors on all folds."""
        weights = self.samples[np.concatenate(folds)]
        trials = []
        for i, setting in enumerate(settings):
            model = setting.model
            errors = self.errors(setting, ridges, folds)
            for (stop, ridge), of_folds in errors.items():
                machine = stop == 0 and self.is_machine(model)
                candidate = LatentCandidate(i, stop, ridge, machine)
                trials.append(LatentTrial(candidate, np.concatenate(of_folds), weights))
        return trials

    def screened_trials(
        self,
        settings: list[Setting],
        ridges: tuple[float, ...],
        folds: list[Array],
        caution: float,
    ) -> list[LatentTrial]:
        """Return latent rows without a descent by exact leave-one-out, and descents that beat them.

        The descent with the best start runs to its first stop, fold by fold as long as it is better
        than the best start by more than `caution` standard errors, and to all stops only where it
        is on all folds. Without starts among the settings all descents run.
        """
        order = np.concatenate(folds)
        starts = []
        trials: list[LatentTrial] = []
        for i, setting in enumerate(settings):
            starts.append(self.start_trials(i, setting, ridges, order))
            if 0 in setting.stops:
                trials.extend(starts[i])
        if not trials:
            return self.trials(settings, ridges, folds)
        best = min(trials, key=attrgetter("mean"))
        descending = [i for i, setting in enumerate(settings) if setting.stops[-1] > 0]
        if not descending:
            return trials
        start = min(
            (trial for i in descending for trial in starts[i]),
            key=attrgetter("mean"),
        )
        model = settings[start.candidate.setting].model
        stops = tuple(s for s in settings[start.candidate.setting].stops if s > 0)
        short = Setting(model, stops[:1])
        if not self.is_better(short, start.candidate.ridge, best, folds, caution):
            return trials
        for (stop, ridge), errors in self.errors(Setting(model, stops), ridges, folds).items():
            candidate = LatentCandidate(start.candidate.setting, stop, ridge)
            trials.append(LatentTrial(candidate, np.concatenate(errors), self.samples[order]))
        return trials

    def is_better(
        self,
        setting: Setting,
        ridge: float,
        best: LatentTrial,
        folds: list[Array],
        caution: float,
    ) -> bool:
        """Return whether a short descent is better than the best start, fold after fold.

        `best` has the errors of the rows of all folds in turn.
        """
        errors = np.empty(0)
        weights = np.empty(0)
        for held in folds:
            [[of_fold]] = self.errors(setting, (ridge,), [held]).values()
            errors = np.append(errors, of_fold)
            weights = np.append(weights, self.samples[held])
            gain = LatentTrial(best.candidate, best.errors[: len(errors)] - errors, weights)
            if gain.mean <= caution * gain.standard_error():
                return False
        return True

    def start_trials(
        self,
        position: int,
        setting: Setting,
        ridges: tuple[float, ...],
        rows: Array,
    ) -> list[LatentTrial]:
        """Return the errors on rows that are left out one by one, latent rows at their start."""
        fold = self.fold(setting.model, NO_ROWS)
        Z = fold.start.rows
        variance = np.maximum(np.nanvar(self.Y, axis=0), SMALLEST_NORMAL)
        machine = self.is_machine(setting.model)
        grams = [view.form.gram(view.of_rows(Z)) for view in fold.problem.views[1:]]
        trials = []
        for ridge in ridges:
            scaled = np.full(self.Y.shape, np.nan)
            for view, K in zip(fold.problem.views[1:], grams, strict=True):
                assert view.rows is not None
                assert view.columns is not None
                scaled[np.ix_(view.rows, view.columns)] = view.left_out(K, ridge)
            predicted = fold.unscaled(scaled[rows])
            errors = (np.square(predicted - self.Y[rows]) / variance).mean(axis=1)
            trials.append(
                LatentTrial(
                    LatentCandidate(position, 0, ridge, machine), errors, self.samples[rows]
                )
            )
        return trials

    def is_machine(self, model: SNFRegressor) -> bool:
        """Return whether a model without a descent is a kernel machine on the labels."""
        all_dimensions = model._n_dimensions(self.X.shape[1]) == self.X.shape[1]
        return model.kernel == "rbf" and all_dimensions

    def errors(
        self,
        setting: Setting,
        ridges: tuple[float, ...],
        folds: list[Array],
    ) -> dict[tuple[int, float], list[Array]]:
        """Return the squared errors of each stop and ridge, by folds."""
        variance = np.maximum(np.nanvar(self.Y, axis=0), SMALLEST_NORMAL)
        errors: dict[tuple[int, float], list[Array]] = {}
        codes: dict[int, Array] = {}
        for held in folds:
            fold = self.fold(setting.model, held)
            # without targets in it a descent is the same in all folds
            if not codes or setting.model.target_weight > 0:
                codes = self.latent_rows(fold, setting)
            for stop in setting.stops:
                for ridge in ridges:
                    wrong = np.square(fold.predict(codes[stop], ridge, held) - self.Y[held])
                    errors.setdefault((stop, ridge), []).append((wrong / variance).mean(axis=1))
        return errors

    def fold(self, model: SNFRegressor, held: Array) -> Fold:
        """Return a fold; without held-out rows, of all targets."""
        Y = self.Y.copy()
        Y[held] = np.nan
        scale = ColumnRanges.of(Y, self.scale)
        random = np.random.RandomState(self.seed)
        problem = model._problem(self.X, scale.transform(Y), self.samples, random)
        return Fold(problem, problem.start(random), scale, *clipped_range(Y, self.clip))

    def latent_rows(self, fold: Fold, setting: Setting) -> dict[int, Array]:
        """Return latent rows at each stop; a descent that ends before stays where it ended."""
        stops = setting.stops
        codes = {0: fold.start.rows}
        if stops[-1] == 0:
            return codes
        done = 0
        last = fold.start.rows

        def look(iterate: Iterate[LatentPoint]) -> None:
            nonlocal done, last
            done += iterate.steps
            last = iterate.point.rows
            for stop in stops:
                if done >= stop:
                    codes.setdefault(stop, last)

        limits = Limits(tol=setting.model.tol, max_iter=stops[-1], callback=look)
        solve_within(fold.problem, limits, fold.start, setting.model._descent())
        for stop in stops:
            codes.setdefault(stop, last)
        return codes


def with_ridge(model: LatentModel, problem: SNF, point: LatentPoint, ridge: float) -> LatentModel:
    """Return the model of a point with its targets regressed anew, with another ridge."""
    regressions = [replace(view, ridge=ridge).fitted(point.rows) for view in problem.views[1:]]
    return replace(model, targets=regressions)
