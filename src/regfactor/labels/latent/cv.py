"""SNFRegressor with its many parameters chosen by cross-validation on the labeled rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from sklearn.model_selection import KFold, ParameterGrid
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from regfactor.core.params import Array, require_count, require_not_negative
from regfactor.fitting.rollback import all_or_nothing
from regfactor.fitting.targets import Targets
from regfactor.labels.latent.candidates import checked_models, checked_ridges
from regfactor.labels.latent.checks import check_columns, limits, scalers
from regfactor.labels.latent.estimator import LatentRegressor, SNFRegressor
from regfactor.labels.latent.fit import Found
from regfactor.labels.latent.tuning import Models, Task, Trial, ranked

RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
# below so many labels each is left out alone
FEW = 9
FOLDS = 5
LEAST = 3


def default_settings(n_features: int) -> list[dict[str, Any]]:
    """Return what is tried: principal components and descents from them, with three kinds of regressions."""
    widths = [c / n_features for c in (0.03, 0.1, 0.3, 1.0, 3.0)]
    return [
        *ParameterGrid(
            {"kernel": ["rbf"], "n_components": [1.0], "gamma": widths, "max_iter": [(0,)]},
        ),
        *ParameterGrid({"degree": [1, 2], "n_components": [0.5, 1.0], "max_iter": [(0, 15, 60)]}),
        *ParameterGrid(
            {
                "kernel": ["rbf"],
                "n_components": [0.5],
                "gamma": widths[2:4],
                "max_iter": [(0, 15, 60)],
            },
        ),
    ]


class SNFRegressorCV(LatentRegressor):
    """`SNFRegressor` with the setting, the end of its descent and a last ridge of lowest error on held-out labels.

    Descents run once per setting and fold, and are looked at on their way; after each stop the
    targets are regressed on the latent rows anew, with every ridge. All rows take part in every
    descent, but only labels decide.

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
    cv : int, optional
        Number of folds; by default 5, and as many as labels where there are fewer than 9.
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
    codes_, transduction_ :
        As in `SNFRegressor`; latent rows are those of the best candidate.

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

    def __init__(
        self,
        settings: Any = None,
        *,
        ridges: Sequence[float] = RIDGES,
        cv: int | None = None,
        caution: float = 2.0,
        n_averaged: int = 8,
        clip: float | None = 1.0,
        scale: bool = True,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.settings = settings
        self.ridges = ridges
        self.cv = cv
        self.caution = caution
        self.n_averaged = n_averaged
        self.clip = clip
        self.scale = scale
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose by labels, then fit to all.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            NaN where an input is missing.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            NaN where a target is not known.
        sample_weight : array-like of shape (n_samples,), optional
            Rows count so much in fits and in errors of held-out labels; folds are dealt out
            regardless.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            X, targets, weights = self._read(X, y, sample_weight)
            counted = weights > 0  # a row of weight zero is placed, not learned from
            raw = X[counted].astype(np.float64)
            given = targets.table[counted]
            complete = np.flatnonzero(~np.isnan(given).any(axis=1))
            self._check(raw, complete)
            ridges = checked_ridges(self.ridges)
            models = self._models(raw)
            random = check_random_state(self.random_state)
            folds = list(self._folds(complete, random))
            seed = int(random.randint(2**31 - 1))
            self._input_scale, self._target_scale = scalers(self.scale, raw, given)
            task = Task(
                self._input_scale.transform(raw),
                given,
                weights[counted],
                self.scale,
                self.clip,
                seed,
            )
            trials = ranked(task.trials(models, ridges, folds), self.caution)
            self._publish(X, targets, counted, models, trials, task)
        return self

    def _check(self, X: Array, complete: Array) -> None:
        require_count(self, n_averaged=self.n_averaged)
        require_not_negative(self, tol=self.tol, caution=self.caution)
        if self.clip is not None:
            require_not_negative(self, clip=self.clip)
        check_columns(X)
        if len(complete) < LEAST:
            raise ValueError(
                f"SNFRegressorCV needs at least {LEAST} rows with all their targets to choose by, got "
                f"{len(complete)} labeled sample(s). Give more targets, or use SNFRegressor.",
            )
        if self.cv is not None and not (
            isinstance(self.cv, int | np.integer) and 2 <= self.cv <= len(complete)
        ):
            raise ValueError(
                f"cv must be a whole number from 2 to the {len(complete)} labeled rows, got {self.cv!r}.",
            )

    def _folds(self, complete: Array, random: Any) -> Iterator[Array]:
        """Yield the rows that are held out, fold by fold."""
        count = self.cv or (len(complete) if len(complete) < FEW else FOLDS)
        for _, held in KFold(count, shuffle=True, random_state=random).split(complete):
            yield complete[held]

    def _models(self, X: Array) -> Models:
        """Return the models to try on a table."""
        if self.settings is None:
            settings = default_settings(X.shape[1])
        else:
            settings = self.settings
        return checked_models(
            settings,
            X.shape,
            {"clip": self.clip, "scale": self.scale, "tol": self.tol},
        )

    def _publish(
        self,
        X: Array,
        targets: Targets,
        counted: Array,
        models: Models,
        trials: list[Trial],
        task: Task,
    ) -> None:
        """Fit the best candidates to all labels and set the attributes."""
        found = task.fitted(models, [t.candidate for t in trials[: self.n_averaged]])
        self._average = found
        self._found = found[0]
        self._flat = targets.flat
        self._low, self._high = limits(task.Y, self.clip)
        self.cv_results_ = [_described(models, trial) for trial in trials]
        self.best_params_ = self.cv_results_[0]["params"]
        self.best_score_ = trials[0].mean
        codes = [self._placed(f, X, counted) for f in found]
        self.codes_ = codes[0].astype(X.dtype)
        self._n_features_out = codes[0].shape[1]
        completed = np.where(np.isnan(targets.table), self._combined(codes), targets.table)
        self.transduction_ = completed.astype(np.result_type(targets.dtype, X)).reshape(
            targets.shape,
        )

    def _placed(self, found: Found, X: Array, counted: Array) -> Array:
        """Return the latent rows of all rows: those learned from as they were found, the others as new ones."""
        if counted.all():
            return found.Z
        Z = np.empty((len(X), found.Z.shape[1]))
        Z[counted] = found.Z
        Z[~counted] = found.place(self._input_scale.transform(X[~counted].astype(np.float64)))
        return Z

    def predict(self, X: Any) -> Array:
        """Return the targets of every row, means over the best candidates.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self)
        X = self._inputs(X, reset=False)
        scaled = self._input_scale.transform(X.astype(np.float64))
        Y = self._combined([found.place(scaled) for found in self._average]).astype(X.dtype)
        if self._flat:
            return Y[:, 0]
        return Y

    def _combined(self, codes: list[Array]) -> Array:
        parts = [
            np.clip(self._target_scale.inverse_transform(found.predict(Z)), self._low, self._high)
            for found, Z in zip(self._average, codes, strict=True)
        ]
        return np.asarray(np.mean(parts, axis=0))


def _described(models: Models, trial: Trial) -> dict[str, Any]:
    model = models[trial.candidate.setting][0]
    candidate = trial.candidate
    own = {k: v for k, v in model.get_params().items() if v != SNFRegressor().get_params()[k]}
    params = {**own, "max_iter": candidate.stop, "ridge": candidate.ridge}
    return {"params": params, "mean_error": trial.mean, "standard_error": trial.standard_error()}
