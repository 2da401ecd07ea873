"""Exponential-family principal components: counts, shares, waiting times and binary tables, with holes and weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from regfactor.core.factors import Factors
from regfactor.core.loop import Solution
from regfactor.core.params import Array, warn
from regfactor.fitting.certificate import Certificate
from regfactor.fitting.factor_estimator import FactorTransformer, _check_limits, _print_progress
from regfactor.fitting.inputs import (
    as_float_table,
    codes_of,
    entry_weights,
    filled,
    names_of,
    naming_columns_in_errors,
    row_weights,
    warn_of_empty,
)
from regfactor.fitting.rollback import all_or_nothing
from regfactor.fitting.selection import Selection
from regfactor.kernels import as_kernel, is_pairwise
from regfactor.problems import Convex, Data, Factored
from regfactor.problems.layout import Dense, Pattern
from regfactor.solvers import solve
from regfactor.solvers.choose import prepared
from regfactor.solvers.starts import first_point
from regfactor.tables.epca.entries import Entries, at_entries
from regfactor.tables.epca.families import (
    Reading,
    as_family,
    check_form,
    is_non_negative,
    log_likelihood,
)
from regfactor.tables.epca.heldout import alpha_max, check_enough, selected
from regfactor.tables.epca.problem import fitted_values, restored, stated
from regfactor.tables.epca.rowfit import Given, as_offset, gram_of, row_fit
from regfactor.tables.epca.unbounded import warn_of_unbounded


class ExponentialFamilyPCA(FactorTransformer):
    """min over Phi, C, b of sum of observed w (G(z_ij) - x_ij z_ij) + alpha/2 (|Phi|^2 + |C|^2), z = Phi C + b.

    Principal components for data that are not normal: z_ij is the natural parameter of entry x_ij,
    and the cumulant G belongs to the family. NaN entries are left out of the sum. A row of sample
    weight w stands for w equal rows: both its terms and its part of |Phi|^2 count w times. At equal
    weights the ridge is alpha times the trace norm of Phi C, since the factors are balanced (with
    `n_components=None` norms are in the codes); without any, a binary table is soon fitted
    perfectly by predictors without bound. For "gaussian" x^2/2 is added, which makes a term (x -
    z)^2/2; for "multinomial" G is N log sum_j e^z_j of a row of total N.

    Parameters
    ----------
    n_components : int, "auto" or None, default=2
        "auto" takes the number that predicts a tenth of the entries, held out at random, best. None
        leaves the rank to the trace norm: the convex form, solved to its global optimum and
        certified by `gap_`; under "multinomial" it learns from whole rows alone.
    family : {"gaussian", "bernoulli", "binomial", "poisson", "gamma", "multinomial"} or Loss, default="gaussian"
        Distribution of an entry, with its canonical link: the variance of "gaussian" is one, and
        "gamma" is that of shape one (its shape only scales alpha). "multinomial" conditions on the
        total of each row.
    alpha : float or "auto", default=1.0
        Strength of the ridge. "auto" tries 20 strengths, from that at which the entries not held
        out have no component left beside intercepts down to a thousandth, and takes the one that
        predicts a tenth of the entries, held out at random, best; not for "multinomial" with
        `n_components=None`.
    kernel : {"linear", "rbf", "poly", "precomputed"}, callable or Kernel, optional
        The table is then the Gram matrix of the rows, and new rows are scored by their kernel
        against the training rows; components have a number for each training row. A sample weight
        counts the row of that matrix, and not its column, as equal rows would.
    fit_intercept : bool, default=True
        Whether to fit unpenalized column offsets.
    row_offset : {"total", "fit"}, optional
        A number for each row that is added to all its predictors. "total", for the family
        "poisson", takes the log of the row's total, divided by what the mean of its observed
        columns would make: the exposure, or sequencing depth, of which an offset given to `fit` is
        a part. "fit" estimates it without penalty, for new rows too, with (weighted) mean zero over
        the training rows where there is an intercept; rows that are all zeros (or all ones), whose
        own has no bound, are left out of it.
    trials : float, default=1
        Number of trials of the family "binomial".
    gamma, degree, coef0 : default="scale", 3, 1.0
        Parameters of the kernel.
    rule : {"min", "1se"}, default="min"
        Of the strengths tried by `alpha="auto"`, take the best, or the largest within one standard
        error of it.
    sparse_zeros : {"missing", "observed"}, default="observed"
        What the absent entries of a sparse matrix are. Stored zeros are always observed. A table of
        which entries are missing is made dense only under "gamma", and under "multinomial" with
        `n_components=None`.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Relative change of the penalized deviance, or with `n_components=None` the duality gap, at
        which the fit stops.
    time_limit : float, optional
        Seconds after which the solver stops.
    verbose : int, default=0
        1 shows a line with the objective.
    random_state : int, optional
        Seed of the entries held out; fits do not depend on it.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, n_components)
    components_ : ndarray of shape (n_components, n_features)
    intercept_ : ndarray of shape (n_features,)
    row_offset_ : ndarray of shape (n_samples,)
        With `row_offset`.
    deviance_explained_ : float
        One minus the deviance over that of a model without components, which has intercepts in any
        case.
    alpha_, objective_ : float
    alphas_, validation_loss_, validation_error_, alpha_max_ : ndarray, ndarray, ndarray, float
        With `alpha="auto"`: the strengths tried, the mean loss of the entries held out with its
        standard error, and the strength from which on no component is left.
    ranks_, rank_validation_loss_, rank_validation_error_ : ndarray
        With `n_components="auto"`: the numbers tried, at the strength chosen, with the same means
        and errors; where `alpha` is given these are `validation_loss_` and `validation_error_`.
    gap_, certificate_, alpha_max_ : float, Certificate, float
        With `n_components=None`.

    Notes
    -----
    Under "gamma" predictors are negative, at holes too: a hole counts as an observation of
    its column's mean with a thousandth of the mean weight of an entry, so that a row's codes are
    defined by the row alone.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ExponentialFamilyPCA
    >>> counts = np.array([[1.0, 2.0, 4.0], [2.0, 4.0, np.nan], [4.0, 8.0, 16.0], [8.0, 16.0, 32.0]])
    >>> model = ExponentialFamilyPCA(1, "poisson", alpha=0.01).fit(counts)
    >>> model.complete(counts).round(1)[1]
    array([2., 4., 8.])
    """

    def __init__(
        self,
        n_components: Any = 2,
        family: Any = "gaussian",
        alpha: Any = 1.0,
        kernel: Any = None,
        fit_intercept: bool = True,
        row_offset: str | None = None,
        *,
        trials: float = 1,
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        rule: str = "min",
        sparse_zeros: str = "observed",
        max_iter: int = 1000,
        tol: float = 1e-4,
        time_limit: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        self.n_components = n_components
        self.family = family
        self.alpha = alpha
        self.kernel = kernel
        self.fit_intercept = fit_intercept
        self.row_offset = row_offset
        self.trials = trials
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.rule = rule
        self.sparse_zeros = sparse_zeros
        self.max_iter = max_iter
        self.tol = tol
        self.time_limit = time_limit
        self.verbose = verbose
        self.random_state = random_state
        self.callback = callback

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        entry_weight: Any = None,
        offset: Any = None,
    ) -> Self:
        """Fit to a table; NaN marks a hole.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w stands for w equal rows.
        entry_weight : array-like of shape (n_samples, n_features), optional
            How much each entry counts here; `transform` counts the entries of a row alike.
        offset : array-like of shape (n_samples,) or (n_samples, n_features), optional
            Added to the predictors: the log of the exposure of a row, or of an entry.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            _check_limits(self)
            loss = self._family()
            kernel = None if self.kernel is None else self._as_kernel(X)
            table = self._table(X, True) if kernel is None else kernel[0]
            weights = row_weights(table, sample_weight), entry_weights(table, entry_weight, None)
            given = Given(table, *weights, as_offset(offset, table, loss))
            learned = given.learned
            if isinstance(self.alpha, str) or isinstance(self.n_components, str):
                check_enough(learned)
            reading = Reading.of(
                learned.table,
                learned.rows,
                learned.entries,
                loss,
                self.row_offset == "total",
            )
            with naming_columns_in_errors(names_of(self, None, table.shape[1])):
                data = reading.data(learned.table, learned.entries, learned.offset)
            random = check_random_state(self.random_state)
            held_out = np.random.default_rng(random.randint(2**31 - 1))
            problem, chosen = self._selected(
                stated(self, data, reading, learned),
                learned,
                held_out,
            )
            problem.check()
            warn_of_empty(learned.table)
            problem = prepared(problem) if isinstance(problem, Convex) else problem
            progress = _print_progress if self.verbose else None
            options: dict[str, Any] = {
                "tol": self.tol,
                "max_iter": self.max_iter,
                "time_limit": self.time_limit,
            }
            # under a quadratic loss without holes the start is the solution: singular values less
            # alpha
            start = first_point(problem) if isinstance(problem, Factored) else None
            solution = solve(
                problem,
                start=start,
                callback=self.callback,
                progress=progress,
                random_state=0,
                **options,
            )
            self._offset_given = offset is not None
            self._kernel = None if kernel is None else kernel[1:]
            self.status_ = solution.status
            self.solver_ = solution.solver
            self.n_iter_ = solution.n_iter
            self._record_fit(given, reading, data, problem, solution)
            self._record_choices(problem, chosen)
            self._warn(solution)
        return self

    def transform(self, X: Any, offset: Any = None) -> Array:
        """Return the codes of each row, scored alone with the components held fixed; holes (NaN) are allowed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        offset : array-like of shape (n_samples,) or (n_samples, n_features), optional

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        table = self._table(X, False)
        return self._scored(table, self._added(offset, table))[0]

    def inverse_transform(self, X: Any, offset: Any = None) -> Array:
        """Return the mean response that codes predict; of "multinomial" the shares of a row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
        offset : array-like of shape (n_samples,) or (n_samples, n_features), optional
            Added to the predictors, such as `row_offset_` or the offset of `fit`. None is zero: an
            exposure of one where `fit` was given offsets, and with `row_offset` that of the mean
            row. Codes do not hold the exposure.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        Z = codes_of(X, len(self.components_)) @ self.components_ + self.intercept_
        added = as_offset(offset, Z, self._reading.loss, self.row_offset == "fit")
        return self._reading.predict(Z if added is None else Z + added)

    def complete(self, X: Any, offset: Any = None) -> Any:
        """Return the table with its holes filled by the mean response; what was observed is kept.

        In columns of whole numbers the mean is rounded, and of truth values the likelier is taken:
        convert them to floats for rates and probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The training table or new rows.
        offset : array-like of shape (n_samples,) or (n_samples, n_features), optional

        Returns
        -------
        The same kind of table as X.
        """
        check_is_fitted(self)
        if self._kernel is not None:
            raise ValueError(
                "The table of a kernel model is a Gram matrix, which has no holes to fill.",
            )
        table = self._table(X, False)
        Z = self._predictors(table, self._added(offset, table), Dense(table.shape))
        return filled(X, table, self._reading.response(Z, table), None)

    def score(self, X: Any, y: Any = None, offset: Any = None) -> float:
        """Return the mean log likelihood of an observed entry, base measure included.

        The codes of a row are fitted to the entries that are scored, so that it grows with the
        number of components: choose that by `n_components="auto"`, not by a search over this score.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        offset : array-like of shape (n_samples,) or (n_samples, n_features), optional

        Returns
        -------
        float
        """
        check_is_fitted(self)
        table = self._table(X, False)
        held = Entries.of(table)
        if not held.count:
            raise ValueError("Every entry of the table is missing; there is nothing to score.")
        Z = self._predictors(table, self._added(offset, table), held.layout)
        seen = held.w > 0
        return (
            log_likelihood(self._reading.loss, Z[seen].astype(np.float64), held.x[seen], held.rows)
            / held.count
        )

    @property
    def certificate_(self) -> Certificate:
        """How far the objective can be from the global optimum, with `n_components=None`."""
        check_is_fitted(self)
        if self._certificate is None:
            raise AttributeError(
                f"This {type(self).__name__} was solved locally, at a given number of components, so there is no "
                "duality gap: n_components=None has a convex form and is certified.",
            )
        return self._certificate

    def _added(self, offset: Any, table: Any) -> Array | None:
        """Return offsets of predictors; warn where there were some in `fit` and are none now."""
        if offset is None and self._offset_given:
            warn(
                "The model was fitted with offset=..., and none is given for these rows: zero is assumed, an exposure "
                "of one. Pass their offset.",
            )
        return as_offset(offset, table, self._reading.loss)

    def _family(self) -> Any:
        """Raise for parameters that are none; return the loss of the family."""
        loss = as_family(self.family, self.trials)
        check_form(self.n_components, self.row_offset, loss)
        return loss

    def _table(self, X: Any, reset: bool) -> Any:
        """Return a table as numbers; under a kernel that of the rows against the training rows."""
        table = as_float_table(self, X, None, reset)
        if reset or self._kernel is None:
            return table
        kernel, training = self._kernel
        return gram_of(kernel, table, training)

    def _as_kernel(self, X: Any) -> tuple[Array, Any, Array]:
        """Return the Gram matrix of the training rows, the kernel and the rows."""
        table = as_float_table(self, X, None, True)
        kernel = as_kernel(self.kernel, self.gamma, self.degree, self.coef0).resolved(table)
        return gram_of(kernel, table), kernel, table

    def _selected(
        self,
        problem: Convex | Factored,
        given: Given,
        random: np.random.Generator,
    ) -> tuple[Convex | Factored, list[Selection]]:
        """Return the problem at what entries held out chose, and the choices."""
        if isinstance(problem, Convex):
            one, stated = self._chosen(problem, random)
            return stated, [] if one is None else [one]
        problem.check()
        strength = isinstance(self.alpha, str)
        number = isinstance(self.n_components, str)
        return selected(problem, given, strength, number, self.rule, random)

    _read = _state = _publish = None  # type: ignore[assignment]  # until it takes the shared way

    def _record_fit(
        self,
        given: Given,
        reading: Reading,
        data: Data,
        problem: Convex | Factored,
        solution: Solution[Any],
    ) -> None:
        """Set what was fitted: rows scored exactly under the components found, then balanced with them."""
        score, start = row_fit(given, reading, problem, restored(solution.point, given, reading))
        everything = given.learned is given
        if everything:
            table = data
        else:
            table = reading.data(given.table, given.entries, given.offset)
        codes, level = score(table, start)
        if score.levels and self.fit_intercept:
            score, level = score.about_mean(table, level, given.weights)
        components = score.C
        if isinstance(problem, Factored):
            score, components = score.balanced(codes, given.weights)
            codes = codes @ score.turn
        self.codes_ = codes
        self.components_ = components
        self.intercept_ = score.intercept
        self._rows = score
        self._reading = reading
        if self.row_offset is not None:
            if self.row_offset == "fit":
                self.row_offset_ = level
            else:
                self.row_offset_ = reading.exposure(given.table, given.entries, given.offset)
        values = fitted_values(self, given, data, problem, level)
        self.objective_ = values.objective
        self.deviance_explained_ = values.explained
        self._certificate = None
        self.history_ = [
            replace(record, objective=record.objective - values.more) for record in solution.history
        ]
        if isinstance(problem, Convex):
            self._certificate = Certificate(
                self.objective_,
                solution.bound,
                solution.rigorous,
                problem.floor,
            )
        if not problem.alpha:
            warn_of_unbounded(self, given, level)

    def _record_choices(self, problem: Convex | Factored, chosen: list[Selection]) -> None:
        self._n_features_out = len(self.components_)
        self.alpha_ = float(problem.alpha)
        if isinstance(problem, Convex):
            self.alpha_max_ = problem.alpha_max()
        elif isinstance(self.alpha, str):
            self.alpha_max_ = alpha_max(problem)
        for prefix, selection in zip(("", "rank_"), chosen, strict=False):
            self._keep(selection, prefix)

    def _scored(self, table: Any, offset: Array | None) -> tuple[Array, Array]:
        """Return the codes and the levels of rows."""
        if self._reading.fitted.unbounded and not Entries.of(table).count:
            return np.zeros((table.shape[0], len(self.components_)), table.dtype), np.zeros(
                table.shape[0],
                table.dtype,
            )
        with naming_columns_in_errors(names_of(self, None, table.shape[1])):
            return self._rows(self._reading.data(table, None, offset))

    def _predictors(self, table: Any, offset: Array | None, layout: Dense | Pattern) -> Array:
        """Return the predictors of a table where a layout has entries, offsets included."""
        codes, level = self._scored(table, offset)
        C = self.components_.astype(table.dtype)
        b = self.intercept_.astype(table.dtype)
        Z = (
            layout.entries(Factors(codes, C))
            + layout.spread(b)
            + at_entries(layout, level[:, None])
        )
        added = self._reading.offset(table, None, offset)
        if added is None:
            return Z
        return Z + at_entries(layout, added)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn which tables are taken; a precomputed kernel is split by rows and by columns."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_pairwise(self.kernel)
        table = self.kernel is None or tags.input_tags.pairwise
        tags.input_tags.allow_nan = table
        tags.input_tags.positive_only = table and is_non_negative(self.family)
        return tags
