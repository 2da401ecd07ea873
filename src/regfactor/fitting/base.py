"""What all factor estimators share: the table at the door, the run, what is published, scoring of new rows."""

from __future__ import annotations

import abc
import sys
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Limits, Record, Solution, relative
from regfactor.core.params import Array, UnsupportedProblem, choose, says, warn
from regfactor.fitting.canonical import tidy, with_unit_rows
from regfactor.fitting.certificate import Certificate, no_certificate
from regfactor.fitting.inputs import (
    codes_of,
    entry_weights,
    filled,
    names_of,
    naming,
    numbers,
    row_weights,
    schema_of,
    warn_of_empty,
)
from regfactor.fitting.schema import Schema
from regfactor.fitting.scoring import Scoring
from regfactor.fitting.selection import (
    PRIOR,
    RULES,
    Selection,
    deviations,
    refit,
    select_alpha,
    select_prior,
)
from regfactor.losses import Loss, as_loss, by_columns
from regfactor.problems import Convex, Data, Design, Factored
from regfactor.solvers import solve
from regfactor.solvers.base import Solver
from regfactor.solvers.choose import prepared
from regfactor.solvers.updates import is_ridge


class FactorTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A model of factors in scikit-learn's clothes: its codes, its certificate, and how strong it is."""

    _schema: Schema | None = None

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit, and return the codes of the training rows."""
        return np.asarray(self.fit(X, y, **fit_params).codes_)

    @property
    def certificate_(self) -> Certificate:
        """How far the objective can be from the global optimum; its `str` is one plain sentence."""
        check_is_fitted(self)
        if self._certificate is None:
            raise no_certificate(self, "with its penalties or rank it")
        return self._certificate

    @property
    def gap_(self) -> float:
        """Objective minus a lower bound of the global optimum."""
        return self.certificate_.gap

    @property
    def relative_gap_(self) -> float:
        """The gap as a share of the objective."""
        return self.certificate_.relative_gap

    @property
    def _strength(self) -> float:
        """The alpha that was given, or one in its place until it is chosen."""
        if says(self.alpha, "auto"):
            return 1.0
        return self.alpha

    @property
    def _groups(self) -> Array | None:
        """Which encoded columns stand for one column of a mixed table."""
        if self._schema is None:
            return None
        return self._schema.originals

    def _chosen(
        self,
        problem: Convex | Factored,
        random: np.random.Generator,
    ) -> tuple[Selection | None, Convex | Factored]:
        """Return the problem at the strength that entries held out chose, where it is left to them."""
        debias = getattr(self, "debias", False)
        if not says(self.alpha, "auto"):
            if not (isinstance(problem, Convex) and debias == PRIOR):
                return None, problem
            problem.check()
            return select_prior(
                problem,
                self._groups,
                random,
                getattr(self, "max_rank", None),
            ), problem
        if not isinstance(problem, Convex):
            raise UnsupportedProblem(
                "alpha='auto' needs a convex model: leave rank=None and use gauge=Trace().",
            )
        problem.at(1.0).check()
        chosen = select_alpha(problem, getattr(self, "rule", "min"), debias, self._groups, random)
        return chosen, problem.at(chosen.best.value)

    def _keep(self, chosen: Selection, prefix: str = "") -> None:
        """Set what a search tried, and the loss of the entries held out with its error."""
        setattr(self, f"{chosen.of}_", np.array([t.value for t in chosen.trials]))
        for part in ("loss", "error"):
            setattr(
                self,
                f"{prefix}validation_{part}_",
                np.array([getattr(t, part) for t in chosen.trials]),
            )

    def _warn(self, solution: Solution[FactorPoint]) -> None:
        """Warn of a run that did not converge, and of an alpha so large that it leaves no component."""
        if not solution.status.converged:
            if self._certificate:
                how_far = f" Relative gap {self.relative_gap_:.2g}, tol {self.tol:g}."
            else:
                how_far = ""
            if (
                self._certificate and self.relative_gap_ <= self.tol
            ):  # large counts: the objective is far below zero
                how_far = f"{how_far[:-1]}, which is asked of the loss above its least value too; gap {self.gap_:.2g}."
            warn(
                f"{type(self).__name__} did not converge: {solution.status.message}.{how_far}",
                ConvergenceWarning,
            )
        empty = (
            self._certificate is not None
            and not len(self.components_)
            and not says(self.alpha, "auto")
        )
        if empty and self.alpha_ >= self.alpha_max_ > 0:  # at zero no alpha would leave one
            name = type(self).__name__  # and no numbers: a search tells of it once
            warn(
                f"{name} has no component, since alpha is not below alpha_max_: lower it, or use alpha='auto'.",
            )

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that holes are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class FactorEstimator(FactorTransformer, abc.ABC):
    """A problem whose rows are scored by their codes alone; a concrete estimator only states which problem."""

    sparse_zeros = "missing"
    mixed = False  # whether frames with categories are taken

    @abc.abstractmethod
    def _problem(self, X: Any, rows: Array | None, entries: Any) -> Convex | Factored:
        """Return the problem that this estimator is; a row of weight w stands for w equal rows."""

    @abc.abstractmethod
    def _scoring(self, problem: Convex | Factored, codes: Array) -> Scoring | None:
        """Return how a row is scored; None where rows cannot be scored alone."""

    def _fit(self, X: Any, sample_weight: Any, entry_weight: Any = None) -> Self:
        _check_limits(self)
        self._schema = schema_of(X, self.loss) if self.mixed else None
        table = numbers(self, X, self._schema, reset=True)
        weights = (
            row_weights(table, sample_weight),
            entry_weights(table, entry_weight, self._schema),
        )
        with naming(names_of(self, self._schema, table.shape[1])):
            return self._fit_table(table, *weights)

    def _fit_table(self, table: Any, rows: Array | None, all_entries: Any) -> Self:
        """Fit to numbers that have passed the door, with weights for rows and entries."""
        counted = (
            slice(None) if rows is None else rows > 0
        )  # a row of weight zero is scored, not learned from
        X, rows, entries = (
            a if a is None or rows is None else a[counted] for a in (table, rows, all_entries)
        )
        random = check_random_state(self.random_state)
        held_out = np.random.default_rng(random.randint(2**31 - 1))
        chosen, problem = self._chosen(self._problem(X, rows, entries), held_out)
        problem.check()
        seed = random.randint(2**31 - 1)
        solver = self._solver(seed)
        if isinstance(problem, Convex) and solver is None:
            problem = prepared(problem)
        else:
            problem = problem
        warn_of_empty(X, names_of(self, self._schema, table.shape[1]))
        solution = solve(
            problem,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            callback=self.callback,
            progress=_print_progress if self.verbose else None,
            random_state=seed,
            max_rank=getattr(self, "max_rank", None),
            solver=solver,
        )
        self._publish(table, counted, all_entries, problem, solution, chosen)
        return self

    def _solver(self, seed: int) -> Solver | None:
        """Return the solver that an estimator insists on; None leaves it to the problem."""
        return None

    def transform(self, X: Any) -> Array:
        """Return the codes of each row, scored alone with the components held fixed; holes (NaN) are allowed.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        return self._codes_of(numbers(self, X, self._schema, reset=False))

    def _codes_of(self, table: Any) -> Array:
        """Return the codes of a table whose columns are the user's."""
        with naming(names_of(self, self._schema, table.shape[1])):
            return self._codes(table)

    def _codes(self, table: Any) -> Array:
        if self._score is None:
            raise ValueError(
                f"{type(self).__name__}: the norm on the codes couples rows, so none can be scored alone.",
            )
        return self._score(
            table,
            self.components_.astype(table.dtype),
            self.intercept_.astype(table.dtype),
        )

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
        """Return the table with its holes filled by the model; observed entries, type, index and columns are kept.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The training table or new rows.

        Returns
        -------
        The same kind of table as X.
        """
        check_is_fitted(self)
        table = numbers(self, X, self._schema, reset=False)
        return filled(X, table, self.inverse_transform(self._codes_of(table)), self._schema)

    def _loss(self) -> Loss:
        """Return the loss on the encoded columns."""
        if self._schema is None:
            return self._as_loss(self.loss)
        return self._schema.loss

    def _weighted(self, X: Any, entries: Any) -> Any:
        """Return the weights of entries with those of the columns, by which a mixed table is balanced."""
        if self._schema is None:
            return entries
        return np.broadcast_to(self._schema.weights, X.shape) * (1 if entries is None else entries)

    @property
    def _column_weights(self) -> Any:
        if self._schema is None:
            return 1.0
        return self._schema.weights

    def _as_loss(self, loss: Any) -> Loss:
        """Return a loss, with names of columns replaced by their positions."""
        groups = by_columns(loss)
        names = list(getattr(self, "feature_names_in_", ()))
        return as_loss(
            loss
            if groups is None
            else [(_positions(columns, names), part) for columns, part in groups],
        )

    def _intercept(self, X: Any) -> Design | None:
        if getattr(self, "fit_intercept", False):
            return Design.intercept(X.shape[0], X.dtype)
        return None

    def _publish(
        self,
        X: Any,
        counted: Any,
        entries: Any,
        problem: Convex | Factored,
        solution: Solution[FactorPoint],
        chosen: Selection | None,
    ) -> None:
        """Set the fitted attributes, all at once at the end, so that a failure leaves nothing half-fitted."""
        F = solution.point.factors
        B = solution.point.coefficients
        F = tidy(F, problem.gauge.power) if isinstance(problem, Convex) else F
        intercept = _offsets(B, X)
        score = self._scoring(problem, F.codes)
        codes = np.zeros((X.shape[0], F.rank), F.C.dtype)
        codes[counted] = F.codes * (problem.map.diagonal if isinstance(problem, Convex) else 1)
        if (
            score is not None
        ):  # one exact step in the codes: it never raises the objective, and transform repeats it
            if (
                isinstance(counted, slice)
                and problem.data.layout.sparse
                and is_ridge(score.penalty)
            ):
                codes = score.of_data(
                    _beside(intercept, problem.data),
                    F.C,
                    codes,
                )  # its entries are listed already
            else:
                codes = score(X, F.C, intercept, entries, codes)
            F = Factors(_as_solved(problem, codes[counted]), F.C)
        objective = _objective(problem, F, B)
        self.components_ = F.C
        self.intercept_ = intercept
        self.codes_ = codes
        self.objective_ = objective
        self.status_ = solution.status
        self.solver_ = solution.solver
        self.n_iter_ = solution.n_iter
        self.history_ = solution.history
        self.alpha_ = float(problem.alpha)
        self._score = score
        self._certificate = None
        self._loss_parts = [(t.columns, t.loss) for t in problem.data.terms]
        if isinstance(problem, Convex):
            self._certificate = Certificate(
                objective,
                solution.bound,
                solution.rigorous,
                problem.floor,
            )
            self.alpha_max_ = problem.alpha_max()
            self._sizes = np.linalg.norm(F.codes, axis=0)
            self._debias(X, entries, problem, FactorPoint(F, B), chosen)
        self._n_features_out = len(self.components_)
        if chosen is not None:
            self._keep(chosen)
        self._warn(solution)

    def _debias(
        self,
        X: Any,
        entries: Any,
        problem: Convex,
        point: FactorPoint,
        chosen: Selection | None,
    ) -> None:
        """Refit the codes with next to no penalty; a rank chosen by entries held out refits the components too.

        Under a prior the codes alone are scored anew, with the strength that entries held out
        chose.
        """
        if not getattr(self, "debias", False) or self._score is None:
            return
        self._score = self._score.debiased()
        if chosen is not None and chosen.best.prior is not None:
            self.prior_ = chosen.best.prior
            self._score = self._score.with_prior(deviations(problem, point.factors), self.prior_)
        if chosen is not None and chosen.best.rank is not None:
            point = refit(problem, point, chosen.best.rank)
            F = tidy(with_unit_rows(point.factors), problem.gauge.power)
            self.components_ = F.C.astype(X.dtype)
            self.intercept_ = _offsets(point.coefficients, X)
            self._sizes = np.linalg.norm(F.codes, axis=0)
        self.codes_ = self._score(X, self.components_, self.intercept_, entries)


def _positions(columns: Any, names: list[str]) -> Any:
    """Return the positions of columns that are given by name; anything else as it is."""
    if isinstance(columns, str):
        return names.index(choose(columns, {name: name for name in names}, "column"))
    if isinstance(columns, list | tuple):
        return [_positions(column, names) for column in columns]
    return columns


def _check_limits(estimator: Any) -> None:
    """Raise for limits of a run that are none."""
    Limits(
        estimator.tol,
        estimator.max_iter,
        estimator.time_limit,
        getattr(estimator, "max_rank", None),
    ).check()
    debias = getattr(estimator, "debias", False)
    if not isinstance(debias, bool | np.bool_) and not (
        isinstance(debias, str) and debias == PRIOR
    ):
        raise ValueError(f"debias must be False, True or {PRIOR!r}, got {debias!r}.")
    alpha = getattr(estimator, "alpha", 1.0)
    if isinstance(alpha, str) and alpha != "auto":
        raise ValueError(f"alpha must be a number or 'auto', got {alpha!r}.")
    if hasattr(estimator, "rule"):
        choose(estimator.rule, RULES, "rule")
    if estimator.callback is not None and not callable(estimator.callback):
        raise ValueError(f"callback must be a function of an iterate, got {estimator.callback!r}.")


def _offsets(B: Array | None, X: Any) -> Array:
    if B is None:
        return np.zeros(X.shape[1], X.dtype)
    return B[0].astype(X.dtype)


def _beside(intercept: Array, data: Data) -> Data:
    """Return the data with known offsets of the columns."""
    if intercept.any():
        return data.shifted(np.ones((data.shape[0], 1), data.dtype), intercept[None])
    return data


def _as_solved(problem: Convex | Factored, codes: Array) -> Array:
    """Return the codes in the scale of the problem, in which a weighted row is longer."""
    if isinstance(problem, Convex):
        return codes / problem.map.diagonal
    return codes


def _objective(problem: Convex | Factored, F: Factors, B: Array | None) -> float:
    """Return the objective of the published factors in double precision."""
    exact: Convex | Factored
    if isinstance(problem, Convex):
        exact = problem.astype(np.float64)
    else:
        exact = problem
    point = FactorPoint(F, B).astype(np.float64)
    if isinstance(exact, Convex):
        return exact.objective(point.factors, point.coefficients)
    return exact.objective(point.factors)


def _print_progress(record: Record) -> None:
    """Show the state of a run on one line of the terminal."""
    gap = relative(record.objective - record.bound, record.objective, 0.0)
    shown = f"  relative gap {gap:.1e}" if np.isfinite(gap) else ""
    print(
        f"\r{record.n_iter:6d}  objective {record.objective:.6g}{shown}   ",
        end="",
        file=sys.stderr,
        flush=True,
    )
