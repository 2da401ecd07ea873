"""SNFRegressor with its parameters chosen by cross-validation on the labeled rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any

import numpy as np
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

from regfactor.core.loop import Limits, Solution
from regfactor.core.params import Array, frozen, is_option
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.explanation import Explanation, MemberReport
from regfactor.fitting.parameters import COUNT, FINITE_NON_NEGATIVE, NON_NEGATIVE, parametrized
from regfactor.fitting.targets import Targets
from regfactor.labels.latent.estimator import LatentInputs, LatentRegressor, SNFRegressor
from regfactor.labels.latent.placement import LatentModel
from regfactor.labels.latent.problem import SNF, LatentPoint
from regfactor.labels.latent.settings import (
    Setting,
    checked_ridges,
    checked_settings,
    default_settings,
)
from regfactor.labels.latent.trials import (
    NO_ROWS,
    CrossValidation,
    Fold,
    LatentCandidate,
    LatentTrial,
    ranked,
    with_ridge,
)
from regfactor.solvers.base import Solver, solve_within

RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
MIN_LABELS = 3
MIN_LABELS_OF_FOLDS = 9  # with fewer labels each is left out alone
DEFAULT_FOLDS = 5


@frozen
class CandidateInputs(LatentInputs):
    """The inputs of a fit, with the settings and ridges to try."""

    settings: list[Setting]
    ridges: tuple[float, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class ChosenSNF(SNF):
    """SNF with the start, the limits and the solver with which cross-validation judged it."""

    first: LatentPoint
    limits: Limits
    descent: Solver | None

    @staticmethod
    def of(fold: Fold, model: SNFRegressor, stop: int) -> ChosenSNF:
        """Return the problem of a setting whose descent ends at a stop."""
        parts = {part.name: getattr(fold.problem, part.name) for part in fields(SNF)}
        limits = Limits(tol=model.tol, max_iter=stop)
        return ChosenSNF(**parts, first=fold.start, limits=limits, descent=model._descent())

    def solved(self) -> Solution[LatentPoint]:
        """Return where the descent ends."""
        return solve_within(self, self.limits, self.first, self.descent)


@frozen
class CandidateChoice:
    """All candidates in the order of choice, and the data that they are fitted to."""

    trials: list[LatentTrial]
    validation: CrossValidation


@parametrized
class SNFRegressorCV(LatentRegressor):
    """`SNFRegressor` with setting, stop and last ridge of lowest error on held-out labels.

    Kernel machines and regressions on principal components, settings without an iteration, are
    judged first, by exact leave-one-out. The descent with the best start is then tried on one fold
    of the labels, and continued on all of them only where it beats the best machine there. Descents
    are evaluated on their way; after each stop the targets are regressed on the latent rows anew,
    with every ridge. All rows take part in every descent, but only labels decide.

    Parameters
    ----------
    settings : list of dict, optional
        Parameters of `SNFRegressor` to try, all but `clip`, `scale`, `random_state`, `time_limit`,
        `verbose` and `callback`. `max_iter` may be several numbers of iterations, multiples of 15.
        By default principal components, 0 iterations, and descents from them, with linear,
        quadratic and Gaussian kernels.
    ridges : sequence of float, default=(1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
        Ridges of the regression of targets that follows a descent; `lambda_y` of a setting is that
        within it.
    cv : "loo", int or None, default="loo"
        "loo" is exact leave-one-out, and descents only where they promise to beat it. With a number
        of folds all settings descend on all folds; None is 5 folds, and as many as labels where
        there are fewer than 9.
    caution : float, default=2.0
        Candidates with a Gaussian kernel, all dimensions and no iteration are least squares support
        vector machines on the labels. They are left only for one that is better on the held-out
        labels by more than so many standard errors of the paired difference, since few labels favor
        some candidate by chance; 0 takes the best.
    n_averaged : int, default=8
        Predictions are means over so many of the best candidates, of both kinds in turn where
        machines are left.
    clip, scale, tol : default=1.0, True, 1e-4
        As in `SNFRegressor`; a setting may have its own `tol`. Ridges are chosen by labels here, so
        that `clip` has only the worst to prevent.
    random_state : int, RandomState instance or None, default=None
        Deals out folds, and draws what a fit draws.

    Attributes
    ----------
    best_params_ : dict
        Parameters of `SNFRegressor` for the best candidate, with the ridge after the descent as
        `ridge`.
    cv_results_ : list of dict
        Parameters, mean squared error on held-out labels and its standard error, in the order of
        choice.
    best_score_ : float
        The error of the best candidate on held-out labels, in units of the variance of the given
        targets.
    codes_, transduction_, objective_, status_, n_iter_, history_, solver_
        As in `SNFRegressor`, of the best candidate; predictions are means over several.

    See Also
    --------
    SNFRegressor : One setting, with its objective and references.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import SNFRegressorCV
    >>> X = np.random.default_rng(0).normal(size=(40, 4))
    >>> y = np.where(np.arange(40) < 12, X[:, 0] - X[:, 1], np.nan)
    >>> model = SNFRegressorCV(random_state=0).fit(X, y)
    >>> bool(model.score(X, X[:, 0] - X[:, 1]) > 0.9)
    True
    """

    _parameter_constraints = {
        "n_averaged": [COUNT],
        "caution": [FINITE_NON_NEGATIVE],
        "clip": [FINITE_NON_NEGATIVE, None],
        "scale": ["boolean"],
        "tol": [NON_NEGATIVE],
        "random_state": ["random_state"],
    }

    settings: Any = None
    _: KW_ONLY
    ridges: Sequence[float] = RIDGES
    cv: int | str | None = "loo"
    caution: float = 2.0
    n_averaged: int = 8
    clip: float | None = 1.0
    scale: bool = True
    tol: float = 1e-4
    random_state: Any = None

    def _read(self, X: Any, y: Any, sample_weight: Any = None) -> CandidateInputs:
        inputs = super()._read(X, y, sample_weight)
        shape = inputs.X[inputs.counted].shape
        settings = self.settings
        if settings is None:
            settings = default_settings(shape[1])
        shared = {"clip": self.clip, "scale": self.scale, "tol": self.tol}
        return CandidateInputs(
            **vars(inputs),
            settings=checked_settings(settings, shape, shared),
            ridges=checked_ridges(self.ridges),
        )

    def _check_labels(self, targets: Targets, counted: Array) -> None:
        complete = int((~np.isnan(targets.table[counted]).any(axis=1)).sum())
        if complete < MIN_LABELS:
            raise ValueError(
                f"SNFRegressorCV needs at least {MIN_LABELS} rows with all their targets to choose "
                f"by, got {complete} labeled sample(s). Give more targets, or use SNFRegressor."
            )
        if self.cv is None or is_option(self.cv, "loo"):
            return
        if not isinstance(self.cv, int | np.integer) or not 2 <= self.cv <= complete:
            raise ValueError(
                f"cv must be 'loo', None or a whole number from 2 to the {complete} labeled rows, "
                f"got {self.cv!r}."
            )

    def _state(self, inputs: CandidateInputs) -> SNF:
        """Return the problem of the first setting, before labels choose one."""
        Y = inputs.target_ranges.transform(inputs.given)
        random = np.random.RandomState(0)
        model = inputs.settings[0].model
        return model._problem(inputs.scaled_inputs, Y, inputs.samples, random)

    def _choose(self, problem: SNF, inputs: CandidateInputs, run: Run) -> Choice[ChosenSNF]:
        folds = self._folds(inputs.given, inputs.random)
        validation = CrossValidation(
            inputs.scaled_inputs,
            inputs.given,
            inputs.samples,
            self.scale,
            self.clip,
            seed=int(inputs.random.randint(2**31 - 1)),
        )
        if is_option(self.cv, "loo"):
            trials = validation.screened_trials(inputs.settings, inputs.ridges, folds, self.caution)
        else:
            trials = validation.trials(inputs.settings, inputs.ridges, folds)
        trials = ranked(trials, self.caution)
        chosen = self._chosen(trials[0].candidate, inputs, validation)
        return Choice(chosen, CandidateChoice(trials, validation))

    def explain(self) -> Explanation:
        """Return what was chosen: the candidates that are averaged, and whether any descended.

        Returns
        -------
        Explanation
            Its `str` is a table of the averaged candidates with their errors on held-out labels,
            relative to the variance of the targets, followed by plain sentences.
        """
        check_is_fitted(self)
        averaged = self.cv_results_[: self.n_averaged]
        reports = []
        for result in averaged:
            params = result["params"]
            name = ", ".join(f"{key}={_short(params[key])}" for key in sorted(params))
            weight = 1 / len(averaged)
            reports.append(MemberReport(name, weight, result["mean_error"], _assumption(params)))
        n_descents = sum(result["params"]["max_iter"] > 0 for result in self.cv_results_)
        descended = sum(result["params"]["max_iter"] > 0 for result in averaged)
        sentences = [
            f"{len(self.cv_results_)} candidates were judged by held-out labels, {n_descents} of "
            "them after a descent.",
        ]
        if descended:
            sentences.append(
                f"{descended} of the {len(averaged)} averaged candidates descended: latent rows "
                "that reconstruct inputs and targets predict better than those of the inputs alone."
            )
        else:
            sentences.append(
                "No descent beat the best regression on principal components, so latent rows are "
                "those of the inputs alone."
            )
        return Explanation.of(reports, "mean squared error / variance, lower is better", sentences)

    def _folds(self, given: Array, random: np.random.RandomState) -> list[Array]:
        """Return the rows that are held out, fold by fold."""
        complete = np.flatnonzero(~np.isnan(given).any(axis=1))
        count = self.cv
        if is_option(count, "loo"):
            count = min(DEFAULT_FOLDS, len(complete))
        if count is None:
            count = DEFAULT_FOLDS if len(complete) >= MIN_LABELS_OF_FOLDS else len(complete)
        folds = KFold(count, shuffle=True, random_state=random).split(complete)
        return [complete[held] for _, held in folds]

    def _chosen(
        self,
        candidate: LatentCandidate,
        inputs: CandidateInputs,
        validation: CrossValidation,
    ) -> ChosenSNF:
        """Return the problem of a candidate with all targets."""
        model = inputs.settings[candidate.setting].model
        return ChosenSNF.of(validation.fold(model, NO_ROWS), model, candidate.stop)

    def _solve(
        self,
        problem: ChosenSNF,
        inputs: CandidateInputs,
        run: Run,
    ) -> Solution[LatentPoint]:
        return problem.solved()

    def _latent_models(
        self,
        choice: Choice[Any],
        solution: Solution[LatentPoint],
        inputs: Any,
    ) -> list[LatentModel]:
        """Return the best candidates; those that differ in the ridge alone share a descent."""
        trials = choice.selection.trials
        best = trials[0].candidate
        ends = {(best.setting, best.stop): (choice.problem, solution.point)}
        models = {}
        averaged = []
        for trial in trials[: self.n_averaged]:
            candidate = trial.candidate
            descent = (candidate.setting, candidate.stop)
            if descent not in ends:
                problem = self._chosen(candidate, inputs, choice.selection.validation)
                ends[descent] = (problem, problem.solved().point)
            problem, point = ends[descent]
            if descent not in models:
                models[descent] = problem.model(point)
            averaged.append(with_ridge(models[descent], problem, point, candidate.ridge))
        return averaged

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[LatentPoint],
        inputs: Any,
        run: Run,
    ) -> Solution[LatentPoint]:
        trials = choice.selection.trials
        own = [own_parameters(setting.model) for setting in inputs.settings]
        self.cv_results_ = [described(trial, own[trial.candidate.setting]) for trial in trials]
        self.best_params_ = self.cv_results_[0]["params"]
        self.best_score_ = trials[0].mean
        return super()._publish(choice, solution, inputs, run)


def _short(value: Any) -> str:
    """Return a parameter in few characters."""
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


def _assumption(params: dict[str, Any]) -> str:
    """Return in plain words what a candidate assumes of the targets."""
    if params["max_iter"] > 0:
        rows = "latent rows that also fit the targets"
    else:
        rows = "principal components"
    if params.get("kernel") == "rbf":
        return f"targets vary smoothly with {rows}"
    if params.get("degree", 1) > 1:
        return f"targets are a polynomial of {rows}"
    return f"targets are linear in {rows}"


def own_parameters(model: SNFRegressor) -> dict[str, Any]:
    """Return the parameters of a model that are not the defaults."""
    defaults = SNFRegressor().get_params()
    return {name: v for name, v in model.get_params().items() if v != defaults[name]}


def described(trial: LatentTrial, own: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a trial that are not the defaults, and its error."""
    candidate = trial.candidate
    return {
        "params": {**own, "max_iter": candidate.stop, "ridge": candidate.ridge},
        "mean_error": trial.mean,
        "standard_error": trial.standard_error(),
    }
