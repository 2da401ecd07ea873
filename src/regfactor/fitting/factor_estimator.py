"""Estimators whose model is a product of factors: one table, its codes and components, new rows."""

from __future__ import annotations

import abc
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.linalg import is_sparse
from regfactor.core.loop import Limits, Solution, Status
from regfactor.core.params import Array, UnsupportedProblem, choose, is_option, warn
from regfactor.fitting.base import Choice, Estimator, Run, Transformer
from regfactor.fitting.calibrated_entries import EntryCalibration
from regfactor.fitting.dispersion import with_thetas
from regfactor.fitting.gross_errors import warn_of_influential_errors
from regfactor.fitting.inputs import (
    ColumnUnits,
    as_float_table,
    codes_of,
    entry_weights,
    filled,
    names_of,
    naming_columns_in_errors,
    row_weights,
    schema_of,
    units_of,
    warn_of_empty,
    weigh_columns,
    weigh_rows,
    with_far_entries,
)
from regfactor.fitting.known import (
    NOTHING,
    CovariateCodes,
    Known,
    RowsToScore,
    limits_of_mixed,
    read_limits,
    require_limited,
    with_exact_limits,
    with_limits,
    with_unit_limits,
)
from regfactor.fitting.leverage import HeldOutEntries
from regfactor.fitting.logged_counts import warn_of_logarithms
from regfactor.fitting.noise import (
    NOISE,
    noise_of,
    robust_columns,
    within_reach,
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
from regfactor.losses import LOSSES, Loss, Squared, as_loss, by_columns
from regfactor.penalties import Gauge, Penalty, TraceModulo
from regfactor.problems import Convex, Data, Design, Factored
from regfactor.problems.block_squares import BlockSquares
from regfactor.problems.convex import convex
from regfactor.solvers.base import Solver, solve_within

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
    """A table as numbers, its loss, and the weights of rows, entries and columns.

    Rows of weight zero are scored and not learned from: `counted` selects the others, which are
    `learned` with the weights `rows`, and `entry_weights` where not all entries count alike.
    """

    table: Any
    loss: Loss
    names: list[Any] | None
    entries: Any
    columns: Any  # one number, or one for each column
    rows: Array | None
    counted: Any
    learned: Any
    entry_weights: Any
    offset_columns: Array | None  # a mask of those that an intercept is fitted to; None for all
    limits: Array | None  # of missing entries, lower and upper
    learned_limits: Array | None  # those of the rows that are learned from
    covariates: Array | None  # of rows, as regressors
    # gross errors among the entries that are learned from
    far: Array | None = field(default=None, kw_only=True)

    @property
    def regressors(self) -> Array:
        """The covariates of the rows that are learned from."""
        assert self.covariates is not None
        return self.covariates[self.counted].astype(self.learned.dtype)

    def without_extremes(self) -> Self:
        """Return inputs that are learned from without the size of gross errors.

        Only columns are meant under whose loss the influence of an entry is bounded.
        """
        columns = robust_columns(self.loss, self.learned.shape[1])
        if not columns.any():
            return self
        found = within_reach(self.learned, self.rows, columns)
        if not found.far.any():
            return self
        return replace(self, learned=found.table, far=found.far)

    @classmethod
    def of(
        cls,
        table: Any,
        loss: Loss,
        rows: Array | None,
        entries: Any = None,
        columns: Any = 1.0,
        offset_columns: Array | None = None,
        limits: Array | None = None,
        covariates: Array | None = None,
        **more: Any,
    ) -> Self:
        """Return the inputs of a fit to a table with weights for all of its rows."""
        counted: Any = slice(None)
        learned = table
        learned_limits = limits
        weights = entries
        if rows is not None:
            counted = rows > 0
            learned = table[counted]
            if limits is not None:
                learned_limits = limits[:, counted]
            rows = rows[counted]
            if entries is not None:
                weights = entries[counted]
        if np.ndim(columns) or columns != 1:
            weights = weigh_columns(learned, weights, columns)
        return cls(
            table=table,
            loss=loss,
            entries=entries,
            columns=columns,
            rows=rows,
            counted=counted,
            learned=learned,
            entry_weights=weights,
            offset_columns=offset_columns,
            limits=limits,
            learned_limits=learned_limits,
            covariates=covariates,
            **more,
        )


class FactorTransformer(ClassNamePrefixFeaturesOutMixin, Transformer, Estimator):
    """A transformer whose codes, components and strength are those of a factor model."""

    _takes_missing = True
    _takes_sparse = True
    _schema: Schema | None = None
    _noise: float | None = None
    _warns_of_gross_errors = False
    _noise_alpha = 1.0  # set when a table is read, where alpha follows from its noise
    _calibration: EntryCalibration | None = None  # found when an interval is asked for
    _covariates: CovariateCodes | None = None
    _no_certificate = "with its penalties or rank it"

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit, and return the codes of the training rows."""
        return np.asarray(self.fit(X, y, **fit_params).codes_)

    @property
    def _strength(self) -> float:
        """The alpha that was given or follows from the noise, or one until it is chosen."""
        if isinstance(self.alpha, str):
            if self.alpha == NOISE:
                return self._noise_alpha
            return 1.0
        return float(self.alpha)

    def _choose(self, problem: Any, inputs: Any, run: Run) -> Choice[Any]:
        """Return the problem at the strength that held-out entries choose, where it is "auto"."""
        if isinstance(problem, BlockSquares):  # chosen by a sample, when the table was read
            return Choice(problem)
        seed = run.seed()  # drawn in any case: the seed of the solver does not depend on alpha
        debias = getattr(self, "debias", False)
        auto = isinstance(self.alpha, str) and self.alpha != NOISE
        if not auto and debias != PRIOR:
            return Choice(problem)
        if not isinstance(problem, Convex):
            if auto:
                raise UnsupportedProblem(
                    "alpha='auto' needs a convex model: leave rank=None and use gauge=Trace().",
                )
            return Choice(problem)
        validation = self._validation(run, seed)
        if isinstance(inputs, TableInputs):
            validation = replace(validation, far=inputs.far)
        if auto:
            if not problem.alpha_max() > 0:  # offsets explain the table, at any strength
                return Choice(problem)
            rule = getattr(self, "rule", "min")
            chosen = select_alpha(problem, rule, debias, validation)
            return Choice(problem.at(chosen.best.value), chosen)
        return Choice(problem, select_prior(problem, run.limits.max_rank, validation))

    def _validation(self, run: Run, seed: int) -> Validation:
        """Return how entries are held out, in at most half of the time that is left.

        Encoded columns of one column of a mixed table are held out together.
        """
        groups = None if self._schema is None else self._schema.originals
        return Validation(groups, np.random.default_rng(seed), run.clock.half())

    def _keep(self, chosen: Selection, prefix: str = "") -> None:
        """Set what a search tried, and the loss of the held-out entries with its error."""
        columns = np.array([[trial.value, trial.loss, trial.error] for trial in chosen.trials])
        values, losses, errors = columns.T.copy()
        setattr(self, f"{chosen.of}_", values)
        setattr(self, f"{prefix}validation_loss_", losses)
        setattr(self, f"{prefix}validation_error_", errors)

    def _warn_if_empty(self) -> None:
        """Warn of an alpha so large that it leaves no component."""
        if isinstance(self.alpha, str):
            return
        if self.alpha_ >= self.alpha_max_ > 0:  # at zero every alpha would leave none
            remedy = "lower it"
            if AUTO in self._parameter_constraints["alpha"]:
                remedy = "lower it, or use alpha='auto'"
            warn(
                f"{type(self).__name__} has no component, since alpha is not below alpha_max_: "
                f"{remedy}.",
            )


class FactorEstimator(FactorTransformer, abc.ABC):
    """A factor model of one table; an estimator states its problem, most often by a gauge."""

    _parameter_constraints = TABLE_CONSTRAINTS
    sparse_zeros = "missing"
    mixed = False  # whether frames with categories are accepted
    scale = False  # whether columns are measured in units of their deviations
    _column_units: ColumnUnits | None = None
    _held_out: HeldOutEntries | None = None  # as the fit predicted them, where it held some out
    _slopes: Array | None = None  # coefficients of covariates, in the units of the problem
    row_effects = False  # whether rows have free offsets, the codes of the first component

    def _read(self, X: Any, sample_weight: Any = None, entry_weight: Any = None, /) -> TableInputs:
        return self._read_table(X, sample_weight, entry_weight, NOTHING)

    def _read_table(
        self,
        X: Any,
        sample_weight: Any,
        entry_weight: Any,
        known: Known,
    ) -> TableInputs:
        self._noise = None
        schema = None
        if self.mixed:
            schema = schema_of(X, self.loss, self.scale, sample_weight)
        self._schema = schema
        table = as_float_table(self, X, schema, reset=True)
        if schema is None:
            loss = self._as_loss(self.loss)
        else:
            loss = schema.loss
        rows = row_weights(table, sample_weight)
        entries = entry_weights(table, entry_weight, schema)
        if not isinstance(loss, Squared):
            weights = entries if rows is None else weigh_rows(table, entries, rows)
            loss = with_thetas(loss, table, weights)
        self._column_units = None
        names = names_of(self, schema, table.shape[1])
        if schema is not None:
            self._column_units = ColumnUnits(*schema.centers_and_units)
        limits = None
        if known.lower is not None or known.upper is not None:
            table, limits = self._with_limits(table, known, names)
        if schema is None and self.scale:
            measured = table if limits is None else with_unit_limits(table, limits)
            self._column_units = units_of(measured, loss, rows, entries)
            table = self._column_units.divide(table)
            if limits is not None:
                limits = limits / self._column_units.unit
        if limits is not None or not isinstance(loss, Squared):
            loss = with_limits(loss, table, limits, rows, getattr(self, "fit_intercept", False))
        self._covariates = None
        covariates = None
        if known.covariates is not None:
            if is_sparse(table):
                raise ValueError(
                    "covariates are for dense tables: give X as an array or a frame with NaN where "
                    "an entry is missing.",
                )
            offsets = getattr(self, "fit_intercept", False)
            self._covariates = CovariateCodes.of(known.covariates, table, offsets)
            covariates = self._covariates.encode(known.covariates, table.shape[0])
        if isinstance(self.alpha, str) and self.alpha == NOISE:
            loss = self._noise_loss(table, loss, rows)
        inputs = TableInputs.of(
            table,
            loss,
            rows,
            entries,
            1.0 if schema is None else schema.weights,
            names=names,
            limits=limits,
            covariates=covariates,
        )
        if isinstance(self.alpha, str) and not isinstance(inputs.loss, Squared):
            return inputs.without_extremes()
        return inputs

    def _noise_loss(self, table: Any, loss: Loss, rows: Array | None) -> Loss:
        """Return the loss at the noise of a table, and keep the strength that follows from it.

        A Huber loss that was given by its name alone changes at twice the noise.
        """
        by_name = is_option(self.loss, "huber")
        offsets = getattr(self, "fit_intercept", False)
        found = noise_of(table, loss, rows, by_name, offsets)
        self._noise = found.deviation
        self._noise_alpha = found.strength
        return found.loss

    def _with_limits(
        self,
        table: Any,
        known: Known,
        names: list[Any] | None,
    ) -> tuple[Any, Array]:
        """Return a table with the entries that limits determine, and the limits of the others.

        Both are in the units of the table, which are those of the data where there is no schema.
        """
        if self._schema is None:
            if names is None:
                named = list(range(table.shape[1]))
            else:
                named = list(names)
            is_number = np.ones(table.shape[1], bool)
            limits = read_limits(table, known, named, is_number)
        else:
            assert self._column_units is not None
            limits = limits_of_mixed(table, known, self._schema, self._column_units)
        return with_exact_limits(table, limits)

    def _new_rows(self, X: Any) -> Any:
        """Return new rows as numbers in the units of the problem."""
        return self._rows(X, NOTHING).table

    def _rows(self, X: Any, known: Known) -> RowsToScore:
        """Return new rows, what is known of them and their offsets in the units of the problem."""
        table = as_float_table(self, X, self._schema, reset=False)
        names = names_of(self, self._schema, table.shape[1])
        limits = None
        if known.lower is not None or known.upper is not None:
            table, limits = self._with_limits(table, known, names)
        if self._schema is None and self._column_units is not None:
            table = self._column_units.divide(table)
            if limits is not None:
                limits = limits / self._column_units.unit
        if limits is not None:
            require_limited(limits, names, self._loss_parts)
        return RowsToScore(table, limits, self._offset(known.covariates, table))

    def _offset(self, covariates: Any, table: Any) -> Array:
        """Return what is added to the predictors of rows, in the precision of a table of them."""
        offset = self._intercept.astype(table.dtype)
        if self._covariates is None:
            if covariates is not None:
                raise ValueError("The model was fitted without covariates: pass none here.")
            return offset
        D = self._covariates.encode(covariates, table.shape[0])
        return np.asarray(offset + D @ self._slopes, table.dtype)

    def _context(self, inputs: TableInputs) -> AbstractContextManager[Any]:
        return naming_columns_in_errors(inputs.names)

    def _convex(self, inputs: TableInputs, gauge: Gauge) -> Convex:
        """Return the convex problem of a gauge, with an intercept if the estimator has one."""
        X = inputs.learned
        D = np.zeros((X.shape[0], 0), X.dtype)
        if getattr(self, "fit_intercept", False):
            D = np.ones((X.shape[0], 1), X.dtype)
        if inputs.covariates is not None:
            D = np.hstack([D, inputs.regressors])
        design = None
        if D.shape[1]:
            design = Design(D, columns=inputs.offset_columns)
        return convex(
            X,
            inputs.loss,
            gauge,
            self._strength,
            inputs.rows,
            inputs.entry_weights,
            design,
            inputs.learned_limits,
        )

    def _row_penalty(self, problem: Convex | Factored, codes: Array) -> Penalty | None:
        """Return the penalty that scores a row; None where rows cannot be scored alone."""
        assert isinstance(problem, Convex)
        return problem.gauge.per_row(codes)

    def _solve(self, problem: Any, inputs: TableInputs, run: Run) -> Solution[Any]:
        if isinstance(problem, BlockSquares):  # nothing of the table is in memory
            return solve_within(problem, run.remaining())
        warn_of_empty(inputs.learned, inputs.names, inputs.learned_limits)
        if not isinstance(inputs.loss, Squared):
            warn_of_logarithms(inputs.learned, inputs.loss)
        if self._warns_of_gross_errors and not is_sparse(inputs.learned):
            learned = inputs.learned
            if inputs.entry_weights is not None:
                # an entry of weight zero is missing, whatever it holds
                learned = np.where(inputs.entry_weights > 0, learned, np.nan)
            columns = with_far_entries(learned)
            if columns.any():
                warn_of_influential_errors(learned, columns, inputs.loss, inputs.names)
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
        return self._transform(X, NOTHING)

    def _transform(self, X: Any, known: Known) -> Array:
        check_is_fitted(self)
        return self._codes_of(self._rows(X, known))

    def _codes_of(self, rows: RowsToScore) -> Array:
        """Return the codes of rows in the units of the problem; errors name their columns."""
        with naming_columns_in_errors(names_of(self, self._schema, rows.table.shape[1])):
            return self._codes(rows)

    def _codes(self, rows: RowsToScore) -> Array:
        if self._score is None:
            raise ValueError(
                f"{type(self).__name__}: the norm on the codes or a map couples rows, so that none "
                "can be scored alone.",
            )
        components = self._components.astype(rows.table.dtype)
        return self._score(rows.table, components, rows.offset, limits=rows.limits)

    def inverse_transform(self, X: Any) -> Array:
        """Return the table that codes predict, in the units of the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        return self._inverse_transform(X)

    def _inverse_transform(self, X: Any, covariates: Any = None) -> Array:
        check_is_fitted(self)
        codes = codes_of(X, len(self.components_))
        offset = self._intercept
        if covariates is not None:
            offset = self._offset(covariates, codes)
        predicted = self._fitted_values(codes, offset)
        if self._column_units is None:
            return predicted
        return self._column_units.values(predicted)

    def _fitted_values(self, codes: Array, offset: Array) -> Array:
        """Return the table that codes and offsets predict, in the units of the problem."""
        Z = codes @ self._components + offset
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
        return self._complete(X, NOTHING)

    def _complete(self, X: Any, known: Known) -> Any:
        check_is_fitted(self)
        rows = self._rows(X, known)
        table = rows.table
        codes = self._codes_of(rows)
        predicted = self._bounded(rows, codes, self._fitted_values(codes, rows.offset))
        if self._schema is not None:
            return self._schema.decode(predicted, X)
        if self._column_units is not None:
            predicted = self._column_units.values(predicted)
            table = as_float_table(self, X, None, reset=False)
        return filled(X, table, predicted)

    def _bounded(self, rows: RowsToScore, codes: Array, predicted: Array) -> Array:
        """Return predictions within what entries can be, where an estimator knows it."""
        return predicted

    def _as_loss(self, loss: Any) -> Loss:
        """Return a loss, with names of columns replaced by their positions."""
        if isinstance(loss, str) and loss in LOSSES:
            return LOSSES[loss]()
        if is_option(loss, "auto"):  # of numbers, for which a schema was not needed
            return Squared()
        groups = by_columns(loss)
        if groups is None:
            return as_loss(loss)
        names = list(getattr(self, "feature_names_in_", ()))
        return as_loss([(_positions(columns, names), part) for columns, part in groups])

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[FactorPoint],
        inputs: TableInputs,
        run: Run,
    ) -> Solution[FactorPoint]:
        problem = choice.problem
        factors = solution.point.factors
        row_scale = 1.0  # published codes over those of the problem
        if isinstance(problem, Convex):
            if isinstance(problem.gauge, TraceModulo):
                factors = problem.gauge.canonical(factors)
            else:
                factors = factors.canonical(problem.gauge.power)
            if problem.map.diagonal is not None:
                row_scale = problem.map.diagonal  # in which a weighted row is longer
        penalty = self._row_penalty(problem, factors.codes)
        self._score = None
        if penalty is not None:
            self._score = Scoring(inputs.loss, penalty, problem.alpha, inputs.columns)
        self._components = factors.C
        if isinstance(problem, Convex) and problem.map.rowwise and problem.map.diagonal is None:
            self._components = problem.map(factors.C)
        offsets = solution.point.coefficients
        self._intercept = np.zeros(inputs.table.shape[1], inputs.table.dtype)
        self._slopes = None
        if offsets is not None and self._covariates is None:
            self._intercept = offsets[0].astype(inputs.table.dtype)
        elif offsets is not None:
            self._keep_offsets(offsets.astype(inputs.table.dtype))
        if factors.Phi.shape[0] == inputs.learned.shape[0]:
            self.codes_ = np.zeros((inputs.table.shape[0], len(factors.C)), factors.C.dtype)
            self.codes_[inputs.counted] = factors.codes * row_scale
        else:  # a map has other rows than the table
            self.codes_ = factors.codes
        published = replace(solution, point=replace(solution.point, factors=factors))
        if self._score is not None:
            published = self._rescored(self._score, problem, published, inputs, row_scale, run)
        self.alpha_ = float(problem.alpha)
        if self._noise is not None:
            self.noise_ = self._noise
        self._loss_parts = inputs.loss.parts(inputs.table.shape[1])
        if isinstance(problem, Convex):
            self.alpha_max_ = problem.alpha_max()
            self._sizes = np.linalg.norm(published.point.factors.codes, axis=0)
            if self._score is not None and getattr(self, "debias", False):
                self._debias(self._score, problem, published.point, inputs, choice.selection)
            if len(self._components) == problem.gauge.n_free:
                self._warn_if_empty()
            if problem.gauge.n_free and getattr(self, "fit_intercept", False):
                self._center_row_offsets(inputs)
        self.components_ = self._components
        self.intercept_ = self._intercept
        if self._column_units is not None:
            self.components_ = self._column_units.components(self._components)
            self.intercept_ = self._column_units.values(self._intercept)
        if self._covariates is not None and self._slopes is not None:
            self._publish_covariates(self._covariates, self._slopes)
        self._n_features_out = len(self.components_)
        self._held_out = None
        self._calibration = None
        if choice.selection is not None:
            self._keep(choice.selection)
            self._held_out = choice.selection.held_out
        return published

    def _center_row_offsets(self, inputs: TableInputs) -> None:
        """Move the mean of the offsets of rows to the intercepts; rows without an entry stay 0."""
        assert self._score is not None
        seen = self._score.seen(inputs.table, inputs.entries, inputs.limits)
        learned = seen[inputs.counted]
        weights = None if inputs.rows is None else inputs.rows[learned]
        mean = np.average(self.codes_[inputs.counted][learned, 0], weights=weights)
        self.codes_[seen, 0] -= mean
        self._intercept = self._intercept + mean.astype(self._intercept.dtype) * self._components[0]

    def _keep_offsets(self, B: Array) -> None:
        """Keep the free coefficients of a point: intercepts, if any, then those of covariates."""
        if getattr(self, "fit_intercept", False):
            self._intercept = B[0]
            B = B[1:]
        if self._covariates is not None:
            self._slopes = B

    def _publish_covariates(self, codes: CovariateCodes, slopes: Array) -> None:
        """Set the coefficients of covariates in their units, and the intercept where they are 0."""
        unit = np.ones(slopes.shape[1], slopes.dtype)
        if self._column_units is not None:
            unit = self._column_units.unit.astype(slopes.dtype)
        self.covariate_coef_ = codes.coefficients(slopes) * unit
        self.covariate_names_ = list(codes.features)
        self.intercept_ = self.intercept_ + codes.intercept(slopes) * unit

    def _training_offset(self, inputs: TableInputs) -> Array:
        """Return what is added to the predictors of the training rows."""
        if self._slopes is None:
            return self._intercept
        assert inputs.covariates is not None
        return self._intercept + (inputs.covariates @ self._slopes).astype(self._intercept.dtype)

    def _rescored(
        self,
        score: Scoring,
        problem: Convex | Factored,
        solution: Solution[FactorPoint],
        inputs: TableInputs,
        row_scale: Any,
        run: Run,
    ) -> Solution[FactorPoint]:
        """Score every row as `transform` does, publish the better codes, judge what is published.

        For a ridge this is one exact step in the codes, which never raises the objective. Other
        penalties and losses may end in worse codes, and so does scoring that runs out of time: then
        those of the solver are kept.
        """
        C = self._components
        offsets = self._intercept
        if self._slopes is not None:
            offsets = self._training_offset(inputs)
        ridge = score.penalty.ridge is not None
        # a large problem was solved on the list of its observed entries, which serves here too
        problem = vars(problem).get("compact", problem)
        if inputs.rows is None and problem.sparse and ridge and self._slopes is None:
            # the entries of the problem are listed already
            data = _with_offsets(problem.data, offsets)
            codes = score.of_data(data, C, self.codes_, run.clock)
        else:
            codes = score(
                inputs.table,
                C,
                offsets,
                inputs.entries,
                self.codes_,
                run.clock,
                inputs.limits,
            )
        factors = Factors(codes[inputs.counted] / row_scale, solution.point.factors.C)
        rescored = replace(solution.point, factors=factors)
        exact = rescored
        if problem.data.dtype != np.float64:
            exact = rescored.astype(np.float64)
            if isinstance(problem, Convex):
                problem = problem.astype(np.float64)
        if isinstance(problem, Convex):
            objective = problem.objective(exact.factors, exact.coefficients)
        else:
            objective = problem.objective(exact.factors, exact.coefficients)
        published = solution
        if objective <= solution.objective + ROUNDING * abs(solution.objective):
            self.codes_ = codes
            published = replace(solution, point=rescored, objective=objective)
        if not published.status.converged:
            return published
        if run.clock.expired and not ridge:
            return replace(published, status=Status.TIME_LIMIT)
        # a closed form ends with a gap too, that of its rounding
        certified = published.bound > -np.inf and published.status is not Status.RANK_LIMIT
        if certified and published.relative_gap > self.tol:
            return replace(published, status=Status.STALLED)
        return published

    def _debias(
        self,
        score: Scoring,
        problem: Convex,
        point: FactorPoint,
        inputs: TableInputs,
        chosen: Selection | None,
    ) -> None:
        """Refit the codes with almost no penalty; a rank chosen by held-out entries refits all.

        Under a prior the codes alone are scored anew, with the strength that was chosen.
        """
        X = inputs.table
        score = score.debiased()
        if chosen is not None and chosen.best.prior is not None:
            self.prior_ = chosen.best.prior
            n_free = problem.gauge.n_free
            score = score.with_prior(deviations(problem, point.factors), self.prior_, n_free)
        if chosen is not None and chosen.best.rank is not None:
            point = refit(problem, point, chosen.best.rank)
            F = point.factors.with_unit_rows().canonical(problem.gauge.power)
            self._components = F.C.astype(X.dtype)
            if point.coefficients is not None:
                self._keep_offsets(point.coefficients.astype(X.dtype))
            self._sizes = np.linalg.norm(F.codes, axis=0)
        self._score = score
        offsets = self._training_offset(inputs)
        self.codes_ = score(X, self._components, offsets, inputs.entries, limits=inputs.limits)


def _positions(columns: Any, names: list[str]) -> Any:
    """Return the positions of columns given by name; positions, slices and masks unchanged."""
    if isinstance(columns, str):
        return names.index(choose(columns, {name: name for name in names}, "column"))
    if isinstance(columns, list | tuple):
        return [_positions(column, names) for column in columns]
    return columns


def _with_offsets(data: Data, intercept: Array) -> Data:
    """Return the data with known offsets of the columns."""
    if not intercept.any():
        return data
    return data.shifted(np.ones((data.shape[0], 1), data.dtype), intercept[None])
