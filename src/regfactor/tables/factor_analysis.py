"""Factor analysis and probabilistic PCA by maximum likelihood, with missing entries."""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from regfactor.core.loop import Solution
from regfactor.core.params import Array, frozen, is_option
from regfactor.fitting.base import Choice, Estimator, Run, Transformer
from regfactor.fitting.conformal import PredictionInterval
from regfactor.fitting.inputs import (
    check_sizes,
    codes_of,
    filled,
    row_weights,
    validated,
    warn_of_empty,
)
from regfactor.fitting.noise import noise_strength
from regfactor.fitting.parameters import (
    AUTO,
    COUNT,
    RUN_CONSTRAINTS,
    check_level,
    parametrized,
)
from regfactor.solvers.base import solve_within
from regfactor.tables.normal_factors import NormalFactors
from regfactor.tables.normal_likelihood import SMALLEST_NOISE, NormalTable, Posterior

IMPROPER_NOISE = 1e-4  # of the variance of a column
RISES_THAT_END = 2  # of the information criterion, one after the other


@frozen
class NormalInputs:
    """The table in float64, and the weights of its rows."""

    X: Array
    rows: Array | None
    varies: Array  # a mask of the columns that are modeled

    @property
    def counted(self) -> Array:
        """The rows that are learned from."""
        if self.rows is None:
            return self.X
        return self.X[self.rows > 0]


@frozen
class ComponentSearch:
    """The Bayesian information criterion of 1, 2, ... components."""

    bic: Array


@parametrized
class FactorAnalysis(ClassNamePrefixFeaturesOutMixin, Transformer, Estimator):
    """max over C, b, v of sum over rows of log p(x), x = phi C + b + e, e_j ~ N(0, v_j).

    The codes phi ~ N(0, I) are integrated out, so that the noise is learned with the components
    (thesis, section 8.1.1). With a variance for each column this is factor analysis, with one for
    all columns probabilistic PCA. Missing entries are left out of the likelihood, which assumes
    that they are missing at random given the observed ones.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        "auto" minimizes the Bayesian information criterion over 1, 2, ... components, up to the
        first number under which a column is explained exactly (a Heywood case).
    noise : {"columns", "shared"}, default="columns"
        Whether each column has a variance of its own, or all have one.
    max_iter : int, default=1000
        Steps of L-BFGS.
    tol : float, default=1e-4
        Change of the log likelihood over 100 steps at which the fit stops.
    time_limit : float, optional
        Seconds after which the solver stops; a warning then reports it.
    verbose : int, default=0
        1 shows a line with the objective.
    random_state : int, optional
        Not used: the fit starts at principal components.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Components in the units of a code of variance one, those of most signal per noise first.
    codes_ : ndarray of shape (n_samples, n_components)
        Posterior means of the codes of the training rows.
    noise_variance_ : ndarray of shape (n_features,), or float
        The noise of each column, or the shared one.
    mean_ : ndarray of shape (n_features,)
        The offsets b.
    n_components_ : int
    bic_ : ndarray
        With `n_components="auto"`: the criterion of 1, 2, ... components.
    alpha_ : float
        With `noise="shared"`: the strength of a trace norm that this noise calls for, about the
        largest singular value of the noise alone, for `ConvexSubspace(alpha=..., scale=False)`.
    objective_ : float
        The negative log likelihood of the table.

    See Also
    --------
    sklearn.decomposition.FactorAnalysis, sklearn.decomposition.PCA : For complete tables.
    ConvexSubspace : Low rank by a trace norm, with a certificate.

    Notes
    -----
    Variances are those of maximum likelihood, which divide by the number of rows n, as in
    scikit-learn's `FactorAnalysis`; its `PCA.noise_variance_` divides by n - 1. They are at least
    1e-6 of the variance of their column: in a Heywood case, where a column is explained exactly,
    the likelihood increases as its noise tends to zero. Likelihoods of factor analysis can have
    several local optima; that of probabilistic PCA on a complete table has one.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import FactorAnalysis
    >>> rng = np.random.default_rng(0)
    >>> noise = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    >>> X = rng.normal(size=(500, 1)) @ np.ones((1, 6)) + noise * rng.normal(size=(500, 6))
    >>> X[rng.random(X.shape) < 0.2] = np.nan
    >>> model = FactorAnalysis().fit(X)
    >>> model.n_components_, np.sqrt(model.noise_variance_).round(1)
    (1, array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))
    >>> model.score_samples(X[:2]).round(1)
    array([-2.9, -1.4])
    """

    _parameter_constraints = {
        **RUN_CONSTRAINTS,
        "n_components": [COUNT, AUTO],
        "noise": [StrOptions({"columns", "shared"})],
    }
    _takes_missing = True
    _no_certificate = "the likelihood of learned noise"

    n_components: Any = "auto"
    noise: str = "columns"
    _: KW_ONLY
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to a table; NaN marks a missing entry.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weights act as repetition counts.

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight)

    def _read(self, X: Any, sample_weight: Any = None) -> NormalInputs:
        table = self._checked(X, reset=True).astype(np.float64)
        if np.isnan(table).all():
            raise ValueError("X has no observed entry: all are NaN, and there is nothing to fit.")
        rows = row_weights(table, sample_weight)
        warn_of_empty(table, getattr(self, "feature_names_in_", None))
        inputs = NormalInputs(table, rows, np.ones(table.shape[1], bool))
        low = np.fmin.reduce(inputs.counted, axis=0)
        high = np.fmax.reduce(inputs.counted, axis=0)
        varies = high > low
        if self.noise == "shared" or not varies.any():
            return inputs
        return replace(inputs, varies=varies)

    def _state(self, inputs: NormalInputs) -> NormalTable:
        d = inputs.X.shape[1]
        k = 1
        if not is_option(self.n_components, "auto"):
            k = int(self.n_components)
        if k > d:
            raise ValueError(
                f"n_components={k} is more than the {d} columns of the table; give at most {d}."
            )
        rows = inputs.rows
        if rows is not None:
            rows = rows[rows > 0]
        k = min(k, int(inputs.varies.sum()))
        return NormalTable(inputs.counted[:, inputs.varies], k, self.noise == "shared", rows)

    def _choose(self, problem: NormalTable, inputs: NormalInputs, run: Run) -> Choice[NormalTable]:
        if not is_option(self.n_components, "auto"):
            return Choice(problem)
        n_rows = problem.weights.sum()
        scores: list[float] = []
        best = problem
        for k in range(1, _most_components(problem) + 1):
            candidate = replace(problem, n_factors=k)
            solution = solve_within(candidate, run.remaining())
            if k > 1 and _is_improper(candidate, solution.point):
                break
            cost = _n_parameters(candidate) * np.log(n_rows)
            scores.append(2 * solution.objective + float(cost))
            if scores[-1] == min(scores):
                best = replace(candidate, first=solution.point)
            rises = len(scores) - 1 - int(np.argmin(scores))
            if rises >= RISES_THAT_END or run.clock.expired:
                break
        return Choice(best, ComponentSearch(np.array(scores)))

    def _publish(
        self,
        choice: Choice[NormalTable],
        solution: Solution[NormalFactors],
        inputs: NormalInputs,
        run: Run,
    ) -> Solution[NormalFactors]:
        model = _with_constants(_canonical(solution.point), inputs)
        self._model = model
        self.components_ = model.components
        self.mean_ = model.offsets
        self.n_components_ = len(model.components)
        self._n_features_out = self.n_components_
        self.noise_variance_: Any = model.noise
        if choice.problem.shared_noise:
            shared = float(model.noise[0])
            self.noise_variance_ = shared
            self.alpha_ = noise_strength(choice.problem.X, shared**0.5, choice.problem.row_weights)
        if choice.selection is not None:
            self.bic_ = choice.selection.bic
        self.codes_ = Posterior.of(model, inputs.X).means
        if inputs.varies.all():
            return solution
        likelihoods = Posterior.of(model, inputs.counted).log_likelihoods
        return replace(solution, objective=-float(choice.problem.weights @ likelihoods))

    def transform(self, X: Any) -> Array:
        """Return the posterior means of the codes of rows, each given its observed entries.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        table = self._table(X)
        return self._posterior(table).means.astype(table.dtype, copy=False)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit, and return the codes of the training rows."""
        return self.fit(X, y, **fit_params).transform(X)

    def inverse_transform(self, X: Any) -> Array:
        """Return the table that codes predict.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return codes_of(X, self.n_components_) @ self.components_ + self.mean_

    def score_samples(self, X: Any) -> Array:
        """Return the log likelihood of the observed entries of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._posterior(self._table(X)).log_likelihoods

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log likelihood of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        float
        """
        return float(self.score_samples(X).mean())

    def get_covariance(self) -> Array:
        """Return the covariance of rows, C'C + diag(v).

        Returns
        -------
        ndarray of shape (n_features, n_features)
        """
        check_is_fitted(self)
        return self.components_.T @ self.components_ + np.diag(self._model.noise)

    def complete(self, X: Any) -> Any:
        """Return a table with its missing entries at their mean given the observed ones.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        table like X
        """
        table = self._table(X)
        predicted = self._posterior(table).means @ self.components_ + self.mean_
        return filled(X, table, predicted.astype(table.dtype))

    def complete_interval(self, X: Any, level: float = 0.9) -> PredictionInterval:
        """Return limits of the missing entries: quantiles of their normal distribution.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        level : float, default=0.9
            Share of the missing entries that is to be covered, in (0, 1).

        Returns
        -------
        PredictionInterval
            (lower, upper), two tables like X; observed entries are their own limits.
        """
        check_level(level)
        table = self._table(X)
        posterior = self._posterior(table)
        predicted = posterior.means @ self.components_ + self.mean_
        deviation = np.sqrt(posterior.variances(self.components_) + self._model.noise)
        half = float(ndtri((1 + level) / 2)) * deviation
        low = (predicted - half).astype(table.dtype)
        high = (predicted + half).astype(table.dtype)
        return PredictionInterval(filled(X, table, low), filled(X, table, high))

    def _table(self, X: Any) -> Array:
        check_is_fitted(self)
        return self._checked(X, reset=False)

    def _checked(self, X: Any, reset: bool) -> Array:
        table = validated(self, X, ensure_all_finite="allow-nan", reset=reset)
        check_sizes(table, getattr(self, "feature_names_in_", None), reset)
        return np.asarray(table)

    def _posterior(self, table: Array) -> Posterior:
        return Posterior.of(self._model, table.astype(np.float64))


def _is_improper(problem: NormalTable, model: NormalFactors) -> bool:
    """Return whether a column is explained exactly, by more factors than its data determine."""
    least = IMPROPER_NOISE * problem.variances
    return bool((model.noise < least).any())


def _n_parameters(problem: NormalTable) -> int:
    """Return the free parameters: components up to a rotation, offsets and noise."""
    k = problem.n_factors
    d = problem.X.shape[1]
    rotations = k * (k - 1) // 2
    n_noises = d
    if problem.shared_noise:
        n_noises = 1
    return k * d - rotations + d + n_noises


def _most_components(problem: NormalTable) -> int:
    """Return the most components that a covariance determines (Ledermann 1937), at least one."""
    d = problem.X.shape[1]
    most = d - 1
    if not problem.shared_noise:
        most = int(np.floor(d + 0.5 - np.sqrt(2 * d + 0.25)))
    return max(min(most, len(problem.X) - 1), 1)


def _with_constants(model: NormalFactors, inputs: NormalInputs) -> NormalFactors:
    """Return the model of all columns: constant ones have the least noise and no component.

    Columns without an observed entry are at zero.
    """
    varies = inputs.varies
    if varies.all():
        return model
    d = len(varies)
    C = np.zeros((len(model.components), d))
    C[:, varies] = model.components
    offsets = np.nan_to_num(np.fmax.reduce(inputs.counted, axis=0))
    offsets[varies] = model.offsets
    noise = np.full(d, SMALLEST_NOISE * model.noise.mean())
    noise[varies] = model.noise
    return NormalFactors(C, offsets, noise)


def _canonical(model: NormalFactors) -> NormalFactors:
    """Return the model rotated so that components are orthogonal per noise, the largest first."""
    root = np.sqrt(model.noise)
    _, s, Vt = np.linalg.svd(model.components / root, full_matrices=False)
    C = s[:, None] * Vt * root
    largest = np.abs(C).argmax(axis=1)
    entries = np.take_along_axis(C, largest[:, None], axis=1)
    sign = np.where(entries < 0, -1.0, 1.0)
    return NormalFactors(sign * C, model.offsets, model.noise)
