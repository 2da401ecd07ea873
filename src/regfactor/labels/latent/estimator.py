"""Semi-supervised regression from latent rows that reconstruct inputs and targets."""

from __future__ import annotations

import abc
from dataclasses import KW_ONLY
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import RealNotInt, StrOptions
from sklearn.utils.validation import check_is_fitted

from regfactor.core.linalg import is_sparse
from regfactor.core.loop import Solution, Status
from regfactor.core.params import Array, frozen
from regfactor.fitting.base import Choice, Estimator, Run, Transformer
from regfactor.fitting.inputs import codes_of, validated, weights_of_all_rows
from regfactor.fitting.parameters import (
    COUNT,
    FINITE_NON_NEGATIVE,
    FINITE_POSITIVE,
    RUN_CONSTRAINTS,
    NumberInterval,
    parametrized,
)
from regfactor.fitting.targets import Targets
from regfactor.kernels import widths
from regfactor.labels.latent.descent import PairSweeps
from regfactor.labels.latent.placement import KernelBasis, LatentModel, LinearBasis
from regfactor.labels.latent.problem import (
    SNF,
    LatentPoint,
    principal_directions,
    views_of,
    weighted_mean,
)
from regfactor.labels.latent.ranges import ColumnRanges
from regfactor.labels.latent.ridge import Form, gaussian_form, polynomial_form
from regfactor.solvers.base import Solver, solve_within

EARLY_STOPS = (Status.MAX_ITER, Status.STOPPED)  # early stopping is part of the model


@frozen
class LatentInputs:
    """Inputs, targets and weights of rows, the scales of both, and the random numbers of a fit.

    Rows of weight zero are placed and not learned from: `counted` selects the others.
    """

    X: Array
    targets: Targets
    weights: Array
    counted: Array
    input_ranges: ColumnRanges
    target_ranges: ColumnRanges
    random: np.random.RandomState

    @property
    def samples(self) -> Array:
        """The weights of the rows that are learned from."""
        return self.weights[self.counted]

    @property
    def given(self) -> Array:
        """The targets of these rows in their units, NaN where they are missing."""
        return self.targets.table[self.counted]

    @property
    def scaled_inputs(self) -> Array:
        """The inputs of these rows in [-1, 1], NaN where they are missing."""
        return self.scaled(self.X[self.counted])

    def scaled(self, X: Array) -> Array:
        """Return inputs in the scale of the fit."""
        return self.input_ranges.transform(X.astype(np.float64))


class LatentRegressor(
    ClassNamePrefixFeaturesOutMixin,
    Transformer,
    MultiOutputMixin,
    RegressorMixin,
    Estimator,
):
    """A regressor that places rows among latent ones and predicts from there.

    Predictions are means over the latent models of a fit; latent rows are those of the first.
    """

    _models: list[LatentModel]
    _takes_missing = True
    _takes_sparse = True
    _no_certificate = "latent rows are found by descent, and the model"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows of which some have targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            NaN where an input is missing; absent entries of a sparse matrix are zero.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            NaN where a target is not known.
        sample_weight : array-like of shape (n_samples,), optional
            Weights in fits and in errors of held-out labels; folds do not depend on them.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    def transform(self, X: Any) -> Array:
        """Return the latent row of every row, each found alone; missing entries are allowed.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        X = self._as_inputs(X, reset=False)
        return self._models[0].place(self._scaled(X)).astype(X.dtype)

    def inverse_transform(self, X: Any) -> Array:
        """Return the inputs that latent rows reconstruct, in the units of the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        Z = codes_of(X, self._n_features_out).astype(np.float64, copy=False)
        inputs = self._input_ranges.inverse_transform(self._models[0].inputs(Z))
        return np.asarray(inputs, self.codes_.dtype)

    def predict(self, X: Any) -> Array:
        """Return the targets of every row, held near the range of the given ones by `clip`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self)
        X = self._as_inputs(X, reset=False)
        scaled = self._scaled(X)
        Y = self._predicted([model.place(scaled) for model in self._models]).astype(X.dtype)
        if self._flat:
            return Y[:, 0]
        return Y

    def _as_inputs(self, X: Any, reset: bool) -> Array:
        X = validated(
            self,
            X,
            accept_sparse="csr",
            ensure_all_finite="allow-nan",
            reset=reset,
            ensure_min_samples=2 if reset else 1,
            every_column=self.scale,
        )
        if is_sparse(X):
            return X.toarray()
        return X

    def _scaled(self, X: Array) -> Array:
        return self._input_ranges.transform(X.astype(np.float64))

    def _predicted(self, codes: list[Array]) -> Array:
        """Return the mean of what the latent models predict from their latent rows."""
        predictions = []
        for model, Z in zip(self._models, codes, strict=True):
            Y = self._target_ranges.inverse_transform(model.predict(Z))
            predictions.append(np.clip(Y, self._low, self._high))
        return np.mean(predictions, axis=0)

    def _read(self, X: Any, y: Any, sample_weight: Any = None) -> LatentInputs:
        X = self._as_inputs(X, reset=True)
        targets = Targets.of(y, X)
        weights = weights_of_all_rows(X, sample_weight).astype(np.float64)
        counted = weights > 0
        self._check_labels(targets, counted)
        empty = np.isnan(X[counted]).all(axis=0)
        if empty.any():
            raise ValueError(
                f"Input column {int(np.argmax(empty))} of X has no value in any row; leave it out."
            )
        return LatentInputs(
            X,
            targets,
            weights,
            counted,
            ColumnRanges.of(X[counted].astype(np.float64), self.scale),
            ColumnRanges.of(targets.table[counted], self.scale),
            check_random_state(self.random_state),
        )

    @abc.abstractmethod
    def _check_labels(self, targets: Targets, counted: Array) -> None:
        """Raise if there are not enough targets to learn from."""

    @abc.abstractmethod
    def _latent_models(
        self,
        choice: Choice[SNF],
        solution: Solution[LatentPoint],
        inputs: LatentInputs,
    ) -> list[LatentModel]:
        """Return the models whose predictions are averaged; the first one is the solution."""

    def _publish(
        self,
        choice: Choice[SNF],
        solution: Solution[LatentPoint],
        inputs: LatentInputs,
        run: Run,
    ) -> Solution[LatentPoint]:
        self._models = self._latent_models(choice, solution, inputs)
        self._flat = inputs.targets.flat
        self._input_ranges = inputs.input_ranges
        self._target_ranges = inputs.target_ranges
        self._low, self._high = clipped_range(inputs.given, self.clip)
        codes = [_all_latent_rows(model, inputs) for model in self._models]
        self._n_features_out = codes[0].shape[1]
        self.codes_ = codes[0].astype(inputs.X.dtype)
        self.transduction_ = inputs.targets.completed(self._predicted(codes), inputs.X.dtype)
        return solution

    def _complaint(self, solution: Solution[LatentPoint]) -> str | None:
        if solution.status in EARLY_STOPS:
            return None
        return super()._complaint(solution)


def _all_latent_rows(model: LatentModel, inputs: LatentInputs) -> Array:
    """Return the latent rows of all rows: those that were not learned from as new ones."""
    counted = inputs.counted
    if counted.all():
        return model.Z
    Z = np.empty((len(counted), model.Z.shape[1]))
    Z[counted] = model.Z
    Z[~counted] = model.place(inputs.scaled(inputs.X[~counted]))
    return Z


def clipped_range(Y: Array, clip: float | None) -> tuple[Array, Array]:
    """Return the limits of predictions: the range of given targets, widened by a share of it."""
    low = np.nanmin(Y, axis=0)
    high = np.nanmax(Y, axis=0)
    if clip is None:
        return np.full_like(low, -np.inf), np.full_like(high, np.inf)
    margin = clip * (high - low)
    return low - margin, high + margin


@parametrized
class SNFRegressor(LatentRegressor):
    r"""min over Z, V, W of |X - phi V|^2 + lx |V|^2 + mu (|y - phi_l W|^2 + ly |W|^2) + lz |Z|^2.

    phi are features of the rows of Z, phi_l of those with a target.

    Supervised nonlinear factorization: few latent numbers z_i of each row reconstruct its inputs,
    up to free offsets, and,
    on the rows l that have one, its target, by ridge regressions on features phi(z) of a kernel.
    Rows without a target shape Z through their inputs. Regressions are eliminated exactly; what is
    left is a function of Z alone, which is not convex: descended from principal components, its
    minimum is a local one, without a certificate. Inputs and targets are brought to [-1, 1] first.

    With Z free, targets bend only the latent rows that have one, and the others do not follow. A
    back-constraint makes z a function of x, the same for all rows.

    Parameters
    ----------
    n_components : float or int, default=0.5
        Number of latent dimensions, or their share of the number of inputs.
    kernel : {"poly", "rbf", "linear"}, default="poly"
        (z'y + 1)^degree, exp(-gamma |z - y|^2), or "poly" of degree 1.
    degree : int, default=1
        With degree 1 this is linear latent reconstruction.
    back_constraint : {"linear", "kernel"} or None, default="linear"
        z = (x - mean) E; or, in addition, Gaussian features of 200 training rows; or none: each z_i
        is free.
    lambda_x, lambda_y, lambda_z : float, default=0.1
        lx, ly and lz: ridges of the two regressions and of Z, all > 0: without the last Z grows and
        the others vanish.
    target_weight : float, default=10.0
        mu >= 0: weight of the targets relative to the inputs; about 1 suits free Z.
    max_iter : int, default=60
        Iterations from principal components on; 0 stays there. Early stopping is a regularizer of
        its own, so reaching the limit is no warning.
    clip : float or None, default=0.1
        Predictions leave the range of the given targets by at most this share of it.
    scale : bool, default=True
        Whether to bring inputs and targets to [-1, 1]; ridges are in these units.
    solver : {"lbfgs", "paper"}, default="lbfgs"
        "paper" is the published algorithm, gradient sweeps over pairs of rows, for comparison; it
        needs free Z, and `learning_rate`. It descends in the objective above, not in the
        differently weighted one that the paper's own rates imply.
    gamma : float or {"scale", "median", "neighbors"}, default="scale"
        Width of the kernel "rbf"; rules are applied to the principal components.
    n_random_features : int, default=500
        Random features that approximate the kernel "rbf" beyond 3000 rows.
    learning_rate : float, default=0.01
    tol : float, default=1e-4
        Relative change of the objective in 15 iterations at which the descent ends.
    time_limit : float, optional
    verbose : int, default=0
    random_state : int, RandomState instance or None, default=None
        Draws landmarks, random features, and first steps in directions without variance.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns a true value.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, n_components)
        Z.
    transduction_ : ndarray of the shape of y
        Targets of all training rows, the given ones kept.
    objective_ : float
        In scaled units.
    status_ : Status
    n_iter_ : int
    history_ : list of Record
    solver_ : str

    See Also
    --------
    SNFRegressorCV : Chooses the parameters by cross-validation on the labeled rows.
    ConvexFactorRegressor : Linear latent rows of inputs and targets, at the global optimum.

    Notes
    -----
    A missing input is filled by its mean, then after every 15 iterations by what the latent
    row reconstructs; it counts as if it had been observed. New rows are completed by the same rule,
    until latent row and reconstruction agree; under free Z, only what is seen of them decides.

    A row of weight w counts as w equal rows in the objective. Rules for `gamma`, and landmarks,
    count every row once: give `gamma` as a number where this matters. Free latent rows of larger
    weight take larger steps, so that a descent that is stopped early ends elsewhere than one with
    equal rows.

    New rows without a back-constraint are placed where they are reconstructed best, all weights
    held: training rows without a target are found again, those with one need not be.

    References
    ----------
    Grabocka, Bedalli & Schmidt-Thieme (2014), Supervised nonlinear factorizations excel
    in semi-supervised regression.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import SNFRegressor
    >>> t = np.linspace(-1, 1, 9)
    >>> X = np.column_stack([t, -t, 2 * t])
    >>> y = np.array([-1.0, *[np.nan] * 3, 0.0, *[np.nan] * 3, 1.0])
    >>> SNFRegressor(lambda_y=1e-3).fit(X, y).transduction_.round(2)
    array([-1.  , -0.75, -0.5 , -0.25,  0.  ,  0.25,  0.5 ,  0.75,  1.  ])
    """

    _parameter_constraints = {
        **RUN_CONSTRAINTS,
        "max_iter": [NumberInterval(Integral, 0, None, closed="left")],
        "n_components": [COUNT, NumberInterval(RealNotInt, 0, 1, closed="right")],
        "kernel": [StrOptions({"poly", "rbf", "linear"})],
        "degree": [COUNT],
        "back_constraint": [StrOptions({"linear", "kernel"}), None],
        "lambda_x": [FINITE_POSITIVE],
        "lambda_y": [FINITE_POSITIVE],
        "lambda_z": [FINITE_POSITIVE],
        "target_weight": [FINITE_NON_NEGATIVE],
        "clip": [FINITE_NON_NEGATIVE, None],
        "scale": ["boolean"],
        "solver": [StrOptions({"lbfgs", "paper"})],
        "gamma": [FINITE_POSITIVE, StrOptions(set(widths.RULES))],
        "n_random_features": [COUNT],
        "learning_rate": [FINITE_POSITIVE],
    }

    n_components: float | int = 0.5
    kernel: str = "poly"
    degree: int = 1
    back_constraint: str | None = "linear"
    lambda_x: float = 0.1
    lambda_y: float = 0.1
    lambda_z: float = 0.1
    target_weight: float = 10.0
    max_iter: int = 60
    clip: float | None = 0.1
    scale: bool = True
    solver: str = "lbfgs"
    _: KW_ONLY
    gamma: float | str = "scale"
    n_random_features: int = 500
    learning_rate: float = 0.01
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def _check_labels(self, targets: Targets, counted: Array) -> None:
        targets.check_given(counted)

    def _state(self, inputs: LatentInputs) -> SNF:
        Y = inputs.target_ranges.transform(inputs.given)
        return self._problem(inputs.scaled_inputs, Y, inputs.samples, inputs.random)

    def _problem(
        self,
        X: Array,
        Y: Array,
        samples: Array,
        random: Any,
    ) -> SNF:
        """Return the problem of scaled inputs and targets, NaN where they are missing."""
        self._check_shape(X.shape)
        k = self._n_dimensions(X.shape[1])
        missing: Array | None = np.isnan(X)
        if np.any(missing):
            X = completed_by_means(X, samples)
        else:
            missing = None
        mean = weighted_mean(X, samples)
        gaussian: Form | None = None
        if self.kernel == "rbf":
            gamma = self.gamma
            if isinstance(gamma, str):
                scores = (X - mean) @ principal_directions(X - mean, samples, k)
                gamma = widths.found(gamma, scores)
            gaussian = gaussian_form(len(X), k, gamma, self.n_random_features, random)

        def form_of(rows: int) -> Form:
            if gaussian is not None:
                return gaussian
            return polynomial_form(rows, k, self._degree)

        ridges = (self.lambda_x, self.lambda_y)
        views = views_of(X, Y, samples, ridges, self.target_weight, form_of)
        basis: LinearBasis | KernelBasis | None = None
        if self.back_constraint == "linear":
            basis = LinearBasis(mean)
        elif self.back_constraint == "kernel":
            basis = KernelBasis.of(X, samples, random)
        return SNF(views, self.lambda_z, samples, k, missing, basis)

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise if parameters do not fit together, or not the shape of the inputs."""
        if self.solver == "paper" and self.back_constraint is not None:
            raise ValueError(
                "solver='paper' moves latent rows freely; it needs back_constraint=None."
            )
        if self.n_components > shape[1]:
            raise ValueError(
                f"n_components must be a share in (0, 1] or a whole number from 1 to the {shape[1]}"
                f" inputs, got {self.n_components!r}."
            )
        if self.kernel != "rbf":  # which may have too many terms
            polynomial_form(shape[0], self._n_dimensions(shape[1]), self._degree)

    @property
    def _degree(self) -> int:
        return 1 if self.kernel == "linear" else self.degree

    def _n_dimensions(self, n_features: int) -> int:
        if isinstance(self.n_components, Integral):
            return int(self.n_components)
        return max(1, round(self.n_components * n_features))

    def _descent(self) -> Solver | None:
        """Return the solver that was asked for; None for that of the problem."""
        if self.solver == "paper":
            return PairSweeps(self.learning_rate)
        return None

    def _solve(self, problem: SNF, inputs: LatentInputs, run: Run) -> Solution[LatentPoint]:
        start = problem.start(inputs.random)
        return solve_within(problem, run.remaining(), start, self._descent())

    def _latent_models(
        self,
        choice: Choice[SNF],
        solution: Solution[LatentPoint],
        inputs: LatentInputs,
    ) -> list[LatentModel]:
        return [choice.problem.model(solution.point)]

    def _complaint(self, solution: Solution[LatentPoint]) -> str | None:
        if solution.status is Status.DIVERGED:
            return "diverged: lower learning_rate, or use solver='lbfgs'."
        start, *later = [record.objective for record in solution.history]
        if self.solver == "paper" and later and min(later) > start + self.tol * abs(start):
            return (
                f"stays at its start, since none of {len(later)} epochs improved on the start: "
                "lower learning_rate."
            )
        return super()._complaint(solution)


def completed_by_means(X: Array, samples: Array) -> Array:
    """Return the inputs with missing entries replaced by the means of their columns."""
    missing = np.isnan(X)
    weights = samples[:, None] * ~missing
    sums = np.where(missing, 0, X * weights).sum(axis=0)
    return np.where(missing, sums / weights.sum(axis=0), X)
