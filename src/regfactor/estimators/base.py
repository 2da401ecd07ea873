"""What all factor estimators share: the table at the door, the run, what is published, scoring of new rows."""

from __future__ import annotations

import abc
import sys
import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from regfactor._params import Array, choose, is_number
from regfactor.estimators.certificate import Certificate
from regfactor.estimators.scoring import Scoring
from regfactor.estimators.tables import like
from regfactor.factors import Factors, Point
from regfactor.loop import Record, Solution, relative
from regfactor.losses import Loss, as_loss
from regfactor.problems import Convex, Design, Factored
from regfactor.solvers import solve

SAME_COMPONENT = 10  # decimals in which equal components agree
TINY_ATOM = 1e-7  # atoms whose codes are this much smaller than the largest are solver noise


class FactorEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, abc.ABC):
    """A problem in scikit-learn's clothes; a concrete estimator only states which problem."""

    @abc.abstractmethod
    def _problem(self, X: Array, rows: Array | None, entries: Array | None) -> Convex | Factored:
        """Return the problem that this estimator is; a row of weight w stands for w equal rows."""

    @abc.abstractmethod
    def _scoring(self, problem: Convex | Factored, codes: Array) -> Scoring | None:
        """Return how a row is scored; None where rows cannot be scored alone."""

    def _fit(self, X: Any, sample_weight: Any, entry_weight: Any = None) -> Self:
        _check_limits(self)
        table = self._table(X, reset=True)
        rows, all_entries = _row_weights(table, sample_weight), _entry_weights(table, entry_weight)
        counted = slice(None) if rows is None else rows > 0  # a row of weight zero is scored, not learned from
        X, rows, entries = (None if a is None else a[counted] for a in (table, rows, all_entries))
        problem = self._problem(X, rows, entries)
        problem.check()
        _warn_of_empty(X)
        solution = solve(
            problem,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            callback=self.callback,
            progress=_print_progress if self.verbose else None,
            random_state=check_random_state(self.random_state).randint(2**31 - 1),
        )
        self._publish(table, counted, all_entries, problem, solution)
        return self

    def transform(self, X: Any) -> Array:
        """Return the codes of each row, scored alone with the components held fixed; holes (NaN) are allowed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        X = self._table(X, reset=False)
        if self._score is None:
            raise ValueError(f"{type(self).__name__}: the norm on the codes couples rows, so none can be scored alone.")
        score = self._score.debiased() if getattr(self, "debias", False) else self._score
        return score(X, self.components_.astype(X.dtype), self.intercept_.astype(X.dtype))

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit, and return the codes of the training rows."""
        return np.asarray(self.fit(X, y, **fit_params).codes_)

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
        codes = np.asarray(X)
        if codes.ndim != 2 or codes.shape[1] != len(self.components_):
            raise ValueError(f"Expected codes of {len(self.components_)} components for each row, got {codes.shape}.")
        Z = codes @ self.components_ + self.intercept_
        parts = self._loss_parts
        out = np.empty_like(Z)
        for columns, loss in parts:
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
        table = self._table(X, reset=False)
        predicted = self.inverse_transform(FactorEstimator.transform(self, X))
        return like(X, np.where(np.isnan(table), predicted, table))

    @property
    def certificate_(self) -> Certificate:
        """How far the objective can be from the global optimum; its `str` is one plain sentence."""
        check_is_fitted(self)
        if self._certificate is None:
            raise AttributeError(
                f"This {type(self).__name__} was solved locally: with its penalties or rank it has no convex form, so "
                "there is no duality gap. Models with a gauge, such as gauge=Trace(), have one."
            )
        return self._certificate

    @property
    def gap_(self) -> float:
        """Objective minus a lower bound of the global optimum."""
        return self.certificate_.gap

    @property
    def relative_gap_(self) -> float:
        """The gap as a share of the objective."""
        return self.certificate_.relative_gap

    def _table(self, X: Any, reset: bool) -> Array:
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", reset=reset)
        return np.asarray(X)

    def _as_loss(self, loss: Any) -> Loss:
        """Return a loss, with names of columns replaced by their positions."""
        groups = list(loss.items()) if isinstance(loss, Mapping) else loss
        names = list(getattr(self, "feature_names_in_", ()))
        if isinstance(groups, list | tuple):
            groups = [(_positions(columns, names), part) for columns, part in groups]
        return as_loss(groups)

    def _intercept(self, X: Array) -> Design | None:
        return Design.intercept(len(X), X.dtype) if getattr(self, "fit_intercept", False) else None

    def _publish(
        self, X: Array, counted: Any, entries: Array | None, problem: Convex | Factored, solution: Solution
    ) -> None:
        """Set the fitted attributes, all at once at the end, so that a failure leaves nothing half-fitted."""
        F, B = solution.point.factors, solution.point.free
        F = _tidy(F, problem.gauge.power) if isinstance(problem, Convex) else F
        intercept = np.zeros(X.shape[1], X.dtype) if B is None else B[0].astype(X.dtype)
        score = self._scoring(problem, F.codes)
        codes = np.zeros((len(X), F.rank), F.C.dtype)
        codes[counted] = F.codes * (problem.map.diagonal if isinstance(problem, Convex) else 1)
        if score is not None:  # one exact step in the codes: it never raises the objective, and transform repeats it
            codes = score(X, F.C, intercept, entries, codes)
            F = Factors(_as_solved(problem, codes[counted]), F.C)
        objective = _objective(problem, F, B)
        self.components_, self.intercept_, self.codes_ = F.C, intercept, codes
        self.objective_, self.status_, self.solver_ = objective, solution.status, solution.solver
        self.n_iter_, self.history_ = solution.n_iter, solution.history
        self.alpha_ = float(problem.alpha)
        self._score, self._n_features_out = score, len(F.C)
        self._loss_parts = [(t.columns, t.loss) for t in problem.data.terms]
        self._certificate = None
        if isinstance(problem, Convex):
            self._certificate = Certificate(objective, solution.bound, solution.rigorous, problem.floor)
            self.alpha_max_ = problem.alpha_max()
            self._sizes = np.linalg.norm(F.codes, axis=0)
        if getattr(self, "debias", False) and score is not None:
            self.codes_ = score.debiased()(X, F.C, intercept, entries)
        self._warn_unless_converged(solution)

    def _warn_unless_converged(self, solution: Solution) -> None:
        if solution.status.converged:
            return
        how_far = f" Relative gap {self.relative_gap_:.2g}, tol {self.tol:g}." if self._certificate else ""
        warnings.warn(
            f"{type(self).__name__} did not converge: {solution.status.message}.{how_far}",
            ConvergenceWarning,
            stacklevel=5,
        )

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that holes are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _positions(columns: Any, names: list[str]) -> Any:
    """Return the positions of columns that are given by name; anything else as it is."""
    if isinstance(columns, str):
        return names.index(choose(columns, {name: name for name in names}, "column"))
    if isinstance(columns, list | tuple):
        return [_positions(column, names) for column in columns]
    return columns


def _check_limits(estimator: Any) -> None:
    """Raise for limits of a run that are none."""
    limits = {"max_iter": (estimator.max_iter, 1), "tol": (estimator.tol, 0), "time_limit": (estimator.time_limit, 0)}
    for name, (value, least) in limits.items():
        if value is None and name == "time_limit":
            continue
        if not is_number(value) or not value >= least:
            raise ValueError(f"{name} must be a number >= {least}, got {value!r}.")
    if estimator.callback is not None and not callable(estimator.callback):
        raise ValueError(f"callback must be a function of an iterate, got {estimator.callback!r}.")


def _row_weights(X: Array, sample_weight: Any) -> Array | None:
    if sample_weight is None:
        return None
    rows = np.asarray(_check_sample_weight(sample_weight, X, ensure_non_negative=True))
    if not rows.any():
        raise ValueError("All sample weights are zero; there is nothing to fit.")
    return None if np.all(rows == 1) else rows


def _entry_weights(X: Array, entry_weight: Any) -> Array | None:
    if entry_weight is None:
        return None
    entries = np.asarray(entry_weight, X.dtype)
    if entries.shape != X.shape:
        raise ValueError(f"entry_weight has shape {entries.shape}, the table {X.shape}; they must agree.")
    return entries


def _as_solved(problem: Convex | Factored, codes: Array) -> Array:
    """Return the codes in the scale of the problem, in which a weighted row is longer."""
    return codes / problem.map.diagonal if isinstance(problem, Convex) else codes


def _objective(problem: Convex | Factored, F: Factors, B: Array | None) -> float:
    """Return the objective of the published factors in double precision."""
    exact = problem.astype(np.float64) if isinstance(problem, Convex) else problem
    point = Point(F, B).astype(np.float64)
    if isinstance(exact, Convex):
        return exact.objective(point.factors, point.free)
    return exact.objective(point.factors)


def _tidy(F: Factors, power: float) -> Factors:
    """Return the atoms by falling size, without those that are solver noise, each with its largest entry positive."""
    codes, C = _merged(F.codes, F.C)
    size = np.linalg.norm(codes, ord=power, axis=0) * np.linalg.norm(C, axis=1)
    order = np.argsort(-size, kind="stable")
    order = order[size[order] > TINY_ATOM * size.max(initial=0)]
    codes, C = codes[:, order], C[order]
    sign = np.sign(np.take_along_axis(C, np.abs(C).argmax(axis=1)[:, None], axis=1))
    return Factors(np.ascontiguousarray(codes * sign[:, 0]), np.ascontiguousarray(C * sign))


def _merged(codes: Array, C: Array) -> tuple[Array, Array]:
    """Return the factors with equal components, which equal rows of a table bring about, merged into one."""
    directions = C / np.abs(C).max(axis=1, keepdims=True)
    _, first, group = np.unique(directions.round(SAME_COMPONENT), axis=0, return_index=True, return_inverse=True)
    if len(first) == len(C):
        return codes, C
    joined = np.zeros((len(codes), len(first)), codes.dtype)
    np.add.at(joined.T, group.ravel(), codes.T)
    order = np.argsort(first)
    return joined[:, order], C[first[order]]


def _warn_of_empty(X: Array) -> None:
    for axis, what in ((1, "rows"), (0, "columns")):
        empty = np.flatnonzero(np.isnan(X).all(axis=axis))
        if len(empty):
            names = ", ".join(map(str, empty[:5])) + (", ..." if len(empty) > 5 else "")
            warnings.warn(f"{len(empty)} {what} have no observed entry ({names}); the model cannot learn from them.",
                          UserWarning, stacklevel=4)  # fmt: skip


def _print_progress(record: Record) -> None:
    """Show the state of a run on one line of the terminal."""
    gap = relative(record.objective - record.bound, record.objective, 0.0)
    shown = f"  relative gap {gap:.1e}" if np.isfinite(gap) else ""
    print(f"\r{record.n_iter:6d}  objective {record.objective:.6g}{shown}   ", end="", file=sys.stderr, flush=True)
