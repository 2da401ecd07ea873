"""Estimators whose model is a product of factors: one table, its codes and components, new rows."""

from __future__ import annotations

import abc
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Clock, Limits, Solution, Status
from regfactor.core.params import Array, UnsupportedProblem, choose, is_option, warn
from regfactor.fitting.base import Choice, Estimator, Run
from regfactor.fitting.canonical import canonical_factors, with_unit_rows
from regfactor.fitting.inputs import (
    as_float_table,
    codes_of,
    entry_weights,
    filled,
    names_of,
    naming_columns_in_errors,
    row_weights,
    schema_of,
    warn_of_empty,
)
from regfactor.fitting.parameters import AUTO, POSITIVE, RUN_CONSTRAINTS
from regfactor.fitting.schema import Schema
from regfactor.fitting.scoring import Scoring
from regfactor.fitting.selection import (
    PRIOR,
    Selection,
    Validation,
    deviations,
    refit,
    select_alpha,
    select_prior,
)
from regfactor.losses import LOSSES, Loss, as_loss, by_columns
from regfactor.problems import Convex, Data, Design, Factored
from regfactor.solvers.base import Solver
from regfactor.solvers.choose import solve_within
from regfactor.solvers.updates import is_ridge

ROUNDING = 1e-9  # share of the objective by which scoring may raise it
LOSS_OPTIONS = [StrOptions({"auto", *LOSSES}), Loss, dict, list, tuple]

TABLE_CONSTRAINTS: dict[str, list[Any]] = {
    **RUN_CONSTRAINTS,
    "loss": LOSS_OPTIONS,
    "alpha": [POSITIVE, AUTO],
    "rule": [StrOptions({"min", "1se"})],
    "sparse_zeros": [StrOptions({"missing", "observed"})],
}


@dataclass(frozen=True)
class TableInputs:
    """A table as numbers, with the weights of its rows and entries.

    Rows of weight zero are scored and not learned from: `counted` selects the others.
    """

    table: Any
    counted: Any
    rows: Array | None
    entries: Any
    names: list[Any] | None

    @staticmethod
    def of(table: Any, rows: Array | None, entries: Any, names: list[Any] | None) -> TableInputs:
        """Return the inputs of a fit to a table with weights for all of its rows."""
        if rows is None:
            return TableInputs(table, slice(None), None, entries, names)
        counted = rows > 0
        return TableInputs(table, counted, rows[counted], entries, names)

    @property
    def learned(self) -> Any:
        """The rows that are learned from."""
        if self.rows is None:
            return self.table
        return self.table[self.counted]

    @property
    def learned_entries(self) -> Any:
        """The weights of the entries that are learned from; None where all are one."""
        if self.entries is None or self.rows is None:
            return self.entries
        return self.entries[self.counted]


class FactorTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """A transformer whose codes, components and strength are those of a factor model."""

    _schema: Schema | None = None
    _no_certificate = "with its penalties or rank it"

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit, and return the codes of the training rows."""
        return np.asarray(self.fit(X, y, **fit_params).codes_)

    @property
    def _strength(self) -> float:
        """The alpha that was given, or one in its place until it is chosen."""
        if is_option(self.alpha, "auto"):
            return 1.0
        return float(self.alpha)

    @property
    def _groups(self) -> Array | None:
        """The column of a mixed table that each encoded column belongs to."""
        if self._schema is None:
            return None
        return self._schema.originals

    def _choose_strength(self, problem: Convex | Factored, run: Run) -> Choice[Any]:
        """Return the problem at the strength that held-out entries choose, where it is "auto"."""
        debias = getattr(self, "debias", False)
        auto = is_option(self.alpha, "auto")
        validation = self._validation(run)
        if not isinstance(problem, Convex):
            if auto:
                raise UnsupportedProblem(
                    "alpha='auto' needs a convex model: leave rank=None and use gauge=Trace().",
                )
            return Choice(problem)
        if auto:
            rule = getattr(self, "rule", "min")
            chosen = select_alpha(problem, rule, debias, validation)
            return Choice(problem.at(chosen.best.value), chosen)
        if debias == PRIOR:
            max_rank = getattr(self, "max_rank", None)
            return Choice(problem, select_prior(problem, max_rank, validation))
        return Choice(problem)

    def _validation(self, run: Run) -> Validation:
        """Return how entries are held out, in at most half of the time that is left."""
        return Validation(self._groups, np.random.default_rng(run.seed()), run.clock.half())

    def _keep(self, chosen: Selection, prefix: str = "") -> None:
        """Set what a search tried, and the loss of the held-out entries with its error."""
        values = np.array([trial.value for trial in chosen.trials])
        losses = np.array([trial.loss for trial in chosen.trials])
        errors = np.array([trial.error for trial in chosen.trials])
        setattr(self, f"{chosen.of}_", values)
        setattr(self, f"{prefix}validation_loss_", losses)
        setattr(self, f"{prefix}validation_error_", errors)

    def _warn_if_empty(self) -> None:
        """Warn of an alpha so large that it leaves no component."""
        if is_option(self.alpha, "auto") or len(self.components_):
            return
        if self.alpha_ >= self.alpha_max_ > 0:  # at zero every alpha would leave none
            remedy = "lower it"
            if AUTO in self._parameter_constraints["alpha"]:
                remedy = "lower it, or use alpha='auto'"
            warn(
                f"{type(self).__name__} has no component, since alpha is not below alpha_max_: "
                f"{remedy}.",
            )

    def __sklearn_tags__(self) -> Tags:
        """Declare that missing entries and sparse tables are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class FactorEstimator(FactorTransformer, abc.ABC):
    """A factor model of one table; an estimator states its problem and how rows are scored."""

    _parameter_constraints = TABLE_CONSTRAINTS
    sparse_zeros = "missing"
    mixed = False  # whether frames with categories are accepted
    _stated_loss: Loss

    @abc.abstractmethod
    def _problem(self, X: Any, rows: Array | None, entries: Any) -> Convex | Factored:
        """Return the problem of a table with weights of rows and entries."""

    @abc.abstractmethod
    def _scoring(self, problem: Convex | Factored, codes: Array) -> Scoring | None:
        """Return how a row is scored; None where rows cannot be scored alone."""

    def _read(self, X: Any, sample_weight: Any = None, entry_weight: Any = None, /) -> TableInputs:
        self._schema = schema_of(X, self.loss) if self.mixed else None
        table = as_float_table(self, X, self._schema, reset=True)
        rows = row_weights(table, sample_weight)
        entries = entry_weights(table, entry_weight, self._schema)
        return TableInputs.of(table, rows, entries, names_of(self, self._schema, table.shape[1]))

    def _context(self, inputs: TableInputs) -> AbstractContextManager[Any]:
        return naming_columns_in_errors(inputs.names)

    def _state(self, inputs: TableInputs) -> Convex | Factored:
        self._stated_loss = self._loss()
        return self._problem(inputs.learned, inputs.rows, inputs.learned_entries)

    def _choose(self, problem: Any, inputs: TableInputs, run: Run) -> Choice[Any]:
        return self._choose_strength(problem, run)

    def _solve(self, problem: Any, inputs: TableInputs, run: Run) -> Solution[FactorPoint]:
        warn_of_empty(inputs.learned, inputs.names)
        limits = replace(run.remaining(), random_state=run.seed())
        return solve_within(problem, limits, solver=self._solver(limits))

    def _solver(self, limits: Limits) -> Solver | None:
        """Return the solver; None for the first that suits the problem, of those it names."""
        return None

    def transform(self, X: Any) -> Array:
        """Return the codes of each row, scored alone with the components held fixed.

        Missing entries (NaN) are allowed.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        return self._codes_of(as_float_table(self, X, self._schema, reset=False))

    def _codes_of(self, table: Any) -> Array:
        """Return the codes of a table whose columns are the user's."""
        with naming_columns_in_errors(names_of(self, self._schema, table.shape[1])):
            return self._codes(table)

    def _codes(self, table: Any) -> Array:
        if self._score is None:
            raise ValueError(
                f"{type(self).__name__}: the norm on the codes couples rows, so none can be scored "
                "alone.",
            )
        components = self.components_.astype(table.dtype)
        return self._score(table, components, self.intercept_.astype(table.dtype))

    def inverse_transform(self, X: Any) -> Array:
        """Return the table that codes predict, in the units of the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        Z = codes_of(X, len(self.components_)) @ self.components_ + self.intercept_
        out = np.empty_like(Z)
        for columns, loss in self._loss_parts:
            out[:, columns] = loss.predict(Z[:, columns])
        return out

    def complete(self, X: Any) -> Any:
        """Return the table with its missing entries filled by the model.

        Observed entries, type, index and columns are kept.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The training table or new rows.

        Returns
        -------
        The same kind of table as X.
        """
        check_is_fitted(self)
        table = as_float_table(self, X, self._schema, reset=False)
        return filled(X, table, self.inverse_transform(self._codes_of(table)), self._schema)

    def _loss(self) -> Loss:
        """Return the loss on the encoded columns."""
        if self._schema is None:
            return self._as_loss(self.loss)
        return self._schema.loss

    def _weighted(self, X: Any, entries: Any) -> Any:
        """Return the weights of entries times those of the columns, which balance a mixed table."""
        if self._schema is None:
            return entries
        columns = np.broadcast_to(self._schema.weights, X.shape)
        if entries is None:
            return columns
        return columns * entries

    @property
    def _column_weights(self) -> Any:
        if self._schema is None:
            return 1.0
        return self._schema.weights

    def _as_loss(self, loss: Any) -> Loss:
        """Return a loss, with names of columns replaced by their positions."""
        groups = by_columns(loss)
        if groups is None:
            return as_loss(loss)
        names = list(getattr(self, "feature_names_in_", ()))
        return as_loss([(_positions(columns, names), part) for columns, part in groups])

    def _intercept(self, X: Any) -> Design | None:
        if getattr(self, "fit_intercept", False):
            return Design.intercept(X.shape[0], X.dtype)
        return None

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[FactorPoint],
        inputs: TableInputs,
        run: Run,
    ) -> Solution[FactorPoint]:
        problem = choice.problem
        point = solution.point
        if isinstance(problem, Convex):
            point = replace(point, factors=canonical_factors(point.factors, problem.gauge.power))
        self._score = self._scoring(problem, point.factors.codes)
        self.components_ = point.factors.C
        self.intercept_ = _offsets(point.coefficients, inputs.table)
        self.codes_ = np.zeros((inputs.table.shape[0], point.factors.rank), self.components_.dtype)
        self.codes_[inputs.counted] = point.factors.codes * _row_scale(problem)
        published = self._rescored(problem, replace(solution, point=point), inputs, run)
        self.alpha_ = float(problem.alpha)
        self._loss_parts = [(term.columns, term.loss) for term in problem.data.terms]
        if isinstance(problem, Convex):
            self.alpha_max_ = problem.alpha_max()
            self._sizes = np.linalg.norm(published.point.factors.codes, axis=0)
            self._debias(problem, published.point, inputs, choice.selection)
            self._warn_if_empty()
        self._n_features_out = len(self.components_)
        if choice.selection is not None:
            self._keep(choice.selection)
        return published

    def _rescored(
        self,
        problem: Convex | Factored,
        solution: Solution[FactorPoint],
        inputs: TableInputs,
        run: Run,
    ) -> Solution[FactorPoint]:
        """Score every row as `transform` does, publish the better codes, judge what is published.

        For a ridge this is one exact step in the codes, which never raises the objective. Other
        penalties and losses may end in worse codes, and so does scoring that runs out of time: then
        those of the solver are kept.
        """
        if self._score is None:
            return solution
        codes = self._scored_codes(problem, self._score, inputs, run.clock)
        point = solution.point
        factors = Factors(codes[inputs.counted] / _row_scale(problem), point.factors.C)
        rescored = replace(point, factors=factors)
        objective = _objective(problem, rescored)
        published = solution
        if objective <= solution.objective + ROUNDING * abs(solution.objective):
            self.codes_ = codes
            published = replace(solution, point=rescored, objective=objective)
        if not published.status.converged:
            return published
        if run.clock.expired and not is_ridge(self._score.penalty):
            return replace(published, status=Status.TIME_LIMIT)
        # a closed form ends with a gap too, that of its rounding
        certified = published.bound > -np.inf and published.status is not Status.RANK_LIMIT
        if certified and published.relative_gap > self.tol:
            return replace(published, status=Status.STALLED)
        return published

    def _scored_codes(
        self,
        problem: Convex | Factored,
        score: Scoring,
        inputs: TableInputs,
        clock: Clock,
    ) -> Array:
        """Return the codes of all rows, scored alone, starting from those of the solver."""
        C = self.components_
        if inputs.rows is None and problem.sparse and is_ridge(score.penalty):
            # the entries of the problem are listed already
            data = _with_offsets(problem.data, self.intercept_)
            return score.of_data(data, C, self.codes_, clock)
        return score(inputs.table, C, self.intercept_, inputs.entries, self.codes_, clock)

    def _debias(
        self,
        problem: Convex,
        point: FactorPoint,
        inputs: TableInputs,
        chosen: Selection | None,
    ) -> None:
        """Refit the codes with almost no penalty; a rank chosen by held-out entries refits all.

        Under a prior the codes alone are scored anew, with the strength that was chosen.
        """
        if not getattr(self, "debias", False) or self._score is None:
            return
        X = inputs.table
        self._score = self._score.debiased()
        if chosen is not None and chosen.best.prior is not None:
            self.prior_ = chosen.best.prior
            self._score = self._score.with_prior(deviations(problem, point.factors), self.prior_)
        if chosen is not None and chosen.best.rank is not None:
            point = refit(problem, point, chosen.best.rank)
            F = canonical_factors(with_unit_rows(point.factors), problem.gauge.power)
            self.components_ = F.C.astype(X.dtype)
            self.intercept_ = _offsets(point.coefficients, X)
            self._sizes = np.linalg.norm(F.codes, axis=0)
        self.codes_ = self._score(X, self.components_, self.intercept_, inputs.entries)


def _positions(columns: Any, names: list[str]) -> Any:
    """Return the positions of columns given by name; positions, slices and masks unchanged."""
    if isinstance(columns, str):
        return names.index(choose(columns, {name: name for name in names}, "column"))
    if isinstance(columns, list | tuple):
        return [_positions(column, names) for column in columns]
    return columns


def _offsets(B: Array | None, X: Any) -> Array:
    """Return the intercepts of the columns."""
    if B is None:
        return np.zeros(X.shape[1], X.dtype)
    return B[0].astype(X.dtype)


def _with_offsets(data: Data, intercept: Array) -> Data:
    """Return the data with known offsets of the columns."""
    if not intercept.any():
        return data
    return data.shifted(np.ones((data.shape[0], 1), data.dtype), intercept[None])


def _row_scale(problem: Convex | Factored) -> Any:
    """Return published codes over those of the problem, in which a weighted row is longer."""
    if isinstance(problem, Convex):
        return problem.map.diagonal
    return 1.0


def _objective(problem: Convex | Factored, point: FactorPoint) -> float:
    """Return the objective of published factors in double precision."""
    point = point.astype(np.float64)
    if isinstance(problem, Convex):
        return problem.astype(np.float64).objective(point.factors, point.coefficients)
    return problem.objective(point.factors)
