"""Exponential-family principal components: counts, shares, waiting times and binary tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, replace
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _num_samples, check_is_fitted

from regfactor.core.factors import FactorPoint, Factors
from regfactor.core.loop import Solution, Status
from regfactor.core.params import Array, is_option, warn
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.calibrated_entries import EntryCalibration
from regfactor.fitting.certificate import Certificate
from regfactor.fitting.conformal import PredictionInterval
from regfactor.fitting.dispersion import common_theta
from regfactor.fitting.factor_estimator import FactorTransformer
from regfactor.fitting.inputs import (
    as_float_table,
    codes_of,
    entry_weights,
    filled,
    names_of,
    naming_columns_in_errors,
    row_weights,
    warn_of_empty,
    weigh_rows,
)
from regfactor.fitting.known import CovariateCodes
from regfactor.fitting.logged_counts import warn_of_logarithms
from regfactor.fitting.parameters import (
    AUTO,
    COUNT,
    NON_NEGATIVE,
    RUN_CONSTRAINTS,
    check_level,
    parametrized,
)
from regfactor.fitting.selection import Selection
from regfactor.fitting.side_by_side import with_missing_as_nan
from regfactor.kernels import as_kernel, is_pairwise
from regfactor.losses import Gamma, Loss, Multinomial, NegativeBinomial, Poisson
from regfactor.problems import Convex, Factored
from regfactor.problems.layout import Dense, Pattern
from regfactor.solvers.base import solve_within
from regfactor.solvers.starts import first_point
from regfactor.tables.epca.blocked_fit import (
    SampledSearch,
    fit_blocks,
    values_of_blocks,
    with_theta,
)
from regfactor.tables.epca.blocked_inputs import (
    BlockedInputs,
    as_sparse_table,
    dense_blocks,
    is_large_sparse,
    takes_blocks,
)
from regfactor.tables.epca.count_blocks import BlockedFactored
from regfactor.tables.epca.cross_fit import cross_fitted, row_leverages
from regfactor.tables.epca.entries import WeightedTable, at_entries
from regfactor.tables.epca.families import (
    FAMILIES,
    as_family,
    check_form,
    check_values,
    is_non_negative,
    log_likelihood,
)
from regfactor.tables.epca.fitted_values import fitted_values
from regfactor.tables.epca.heldout import HeldOutSearch, alpha_max, check_enough
from regfactor.tables.epca.inputs import EpcaInputs, FittedKernel, as_offset
from regfactor.tables.epca.observation import ObservationModel
from regfactor.tables.epca.problem import convex_problem, factored_problem
from regfactor.tables.epca.row_scoring import FittedRows, fit_rows
from regfactor.tables.epca.unbounded import warn_if_unbounded

# Components with which alpha="auto" is chosen where their number is "auto" too.
MAX_AUTO_COMPONENTS = 20


@parametrized
class ExponentialFamilyPCA(FactorTransformer):
    """min of sum of observed w (G(z_ij) - x_ij z_ij) + alpha/2 (|Phi|^2 + |C|^2), z = Phi C + b.

    Principal components for data that are not normal: z_ij is the natural parameter of entry x_ij,
    and the cumulant G belongs to the family. The minimum is over Phi, C and b; NaN entries are left
    out of the sum, and sample weights act as repetition counts, in |Phi|^2 too. At equal weights
    the ridge is alpha times the trace norm of Phi C, since the factors are balanced (with
    `n_components=None` norms are in the codes); without a ridge, a binary table is soon fitted
    perfectly by unbounded predictors. For "gaussian" x^2/2 is added, which makes a term
    (x - z)^2/2; for "multinomial" G is N log sum_j e^z_j of a row of total N.

    Parameters
    ----------
    n_components : int, "auto" or None, default=2
        "auto" takes the number that predicts held-out entries, a random tenth, best. None leaves
        the rank to the trace norm: the convex form, solved to its global optimum and certified by
        `gap_`; under "multinomial" it learns from completely observed rows only.
    family : str or Loss, default="gaussian"
        Distribution of an entry, with its canonical link: "gaussian", "bernoulli", "binomial",
        "poisson", "negative_binomial", "gamma" or "multinomial". The variance of "gaussian" is one,
        "negative_binomial" has variance m + m^2 / theta and a log link, with `theta_` by profile
        likelihood, or that of `NegativeBinomial(theta)`, and "gamma" is that of shape one (its
        shape only scales alpha). "multinomial" conditions on the total of each row.
    alpha : float or "auto", default=1.0
        Strength of the ridge. "auto" tries 20 strengths, from the one that leaves no component down
        to a thousandth of it, and takes the one that predicts held-out entries, a random tenth,
        best; not for "multinomial" with `n_components=None`.
    kernel : {"linear", "rbf", "poly", "precomputed"}, callable or Kernel, optional
        The table is then the Gram matrix of the rows, and new rows are scored by their kernel
        against the training rows; components have a number for each training row. A sample weight
        counts the row of that matrix, and not its column, as equal rows would.
    fit_intercept : bool, default=True
        Whether to fit unpenalized column offsets.
    row_offset : {"total", "fit"}, optional
        A number for each row that is added to all its predictors. "total", for the families
        "poisson" and "negative_binomial", takes the log of the row's total, divided by what the
        mean of its observed columns would make: the exposure, or sequencing depth, of which an
        offset given to `fit` is a part. "fit" estimates it without penalty, for new rows too, with
        (weighted) mean zero over the training rows where there is an intercept; rows of only zeros
        (or only ones), whose offset is unbounded, are left out of the mean.
    trials : float, default=1
        Number of trials of the family "binomial".
    gamma, degree, coef0 : default="scale", 3, 1.0
        Parameters of the kernel.
    rule : {"min", "1se"}, default="min"
        Of the strengths tried by `alpha="auto"`, take the best, or the largest within one standard
        error of it.
    sparse_zeros : {"missing", "observed"}, default="observed"
        What the absent entries of a sparse matrix are. Stored zeros are always observed. A large
        table of observed zeros is read in blocks of rows and never dense as a whole, under
        "poisson", "negative_binomial", "bernoulli" and "binomial" with a number of components, a
        positive alpha, and no weights of entries. A table of which entries are missing is made
        dense only under "gamma", and under "multinomial" with `n_components=None`.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Relative change of the penalized deviance, or with `n_components=None` the duality gap, at
        which the fit stops.
    time_limit : float, optional
        Seconds after which searches for "auto" parameters and the solver stop.
    verbose : int, default=0
        1 shows a line with the objective.
    random_state : int, optional
        Seed of the held-out entries; fits do not depend on it.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns a true value.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, n_components)
    components_ : ndarray of shape (n_components, n_features)
    intercept_ : ndarray of shape (n_features,)
    row_offset_ : ndarray of shape (n_samples,)
        With `row_offset`.
    covariate_coef_ : ndarray of shape (n_covariates, n_features)
        With covariates: what each adds to the predictors.
    covariate_names_ : list of str
        With covariates: their names, with the level of an indicator.
    deviance_explained_ : float
        One minus the deviance over that of a model without components, which has intercepts in any
        case, and the covariates.
    theta_ : float
        With the family "negative_binomial": its dispersion.
    alpha_, objective_ : float
    alphas_, validation_loss_, validation_error_, alpha_max_ : ndarray, ndarray, ndarray, float
        With `alpha="auto"`: the strengths tried, the mean loss of held-out entries with its
        standard error, and the strength from which on no component is left.
    ranks_, rank_validation_loss_, rank_validation_error_ : ndarray
        With `n_components="auto"`: the numbers tried, at the strength chosen, with the same means
        and errors; where `alpha` is given these are `validation_loss_` and `validation_error_`.
    gap_, certificate_, alpha_max_ : float, Certificate, float
        With `n_components=None`.

    See Also
    --------
    ConvexSubspace : The convex form under any loss, also for columns of different kinds.
    FactorModel : Other penalties on the factors.

    Notes
    -----
    Under "gamma" predictors are negative, at missing entries too: these count as observations of
    the column's mean with a thousandth of the mean weight of an entry, so that the codes of a row
    are defined by the row alone.

    The model is that of M. Collins, S. Dasgupta and R. Schapire, "A generalization of principal
    components analysis to the exponential family", NIPS 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ExponentialFamilyPCA
    >>> rows = [[1, 2, 4], [2, 4, np.nan], [4, 8, 16], [8, 16, 32]]
    >>> counts = np.array(rows, dtype=float)
    >>> model = ExponentialFamilyPCA(1, "poisson", alpha=0.01).fit(counts)
    >>> model.complete(counts).round(1)[1]
    array([2., 4., 8.])
    """

    _parameter_constraints = {
        **RUN_CONSTRAINTS,
        "n_components": [COUNT, AUTO, None],
        "family": [StrOptions(set(FAMILIES)), Loss],
        "alpha": [NON_NEGATIVE, AUTO],
        "fit_intercept": ["boolean"],
        "row_offset": [StrOptions({"total", "fit"}), None],
        "rule": [StrOptions({"min", "1se"})],
        "sparse_zeros": [StrOptions({"missing", "observed"})],
    }

    n_components: Any = 2
    family: Any = "gaussian"
    alpha: Any = 1.0
    kernel: Any = None
    fit_intercept: bool = True
    row_offset: str | None = None
    _: KW_ONLY
    trials: float = 1
    gamma: Any = "scale"
    degree: int = 3
    coef0: float = 1.0
    rule: str = "min"
    sparse_zeros: str = "observed"
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        entry_weight: Any = None,
        offset: Any = None,
        *,
        covariates: Any = None,
    ) -> Self:
        """Fit to a table; NaN marks missing entries.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weights act as repetition counts.
        entry_weight : array-like of shape (n_samples, n_features), optional
            How much each entry counts here; `transform` counts the entries of a row alike.
        offset : array-like of shape (n_samples,) or (n_samples, n_features), optional
            Added to the predictors: the log of the exposure of a row, or of an entry.
        covariates : array-like or frame of shape (n_samples, n_covariates), optional
            What the predictors of rows are regressed on, without a penalty, in addition to the
            components: batches, doses, ages. Labels become indicators of their levels. A column of
            counts that is zero in all rows of a level has no best coefficient there, which then
            falls until it changes the objective no more. Not for the family "gamma", kernels, and
            "multinomial" with `n_components=None`.

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight, entry_weight, offset, covariates)

    def transform(self, X: Any, offset: Any = None, *, covariates: Any = None) -> Array:
        """Return the codes of each row, scored alone with fixed components; NaN is allowed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        offset : array-like of shape (n_samples,) or (n_samples, n_features), optional
        covariates : array-like or frame of shape (n_samples, n_covariates), optional
            Those of the rows, where `fit` was given some.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        tables = self._row_tables(X, offset, covariates)
        codes = [self._scored(rows)[0] for rows in tables]
        return np.concatenate(codes)

    def inverse_transform(
        self,
        X: Any,
        offset: Any = None,
        *,
        covariates: Any = None,
    ) -> Array:
        """Return the mean response that codes predict; of "multinomial" the shares of a row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
        offset : array-like of shape (n_samples,) or (n_samples, n_features), optional
            Added to the predictors, such as `row_offset_` or the offset of `fit`. None is zero: an
            exposure of one where `fit` was given offsets, and with `row_offset` that of the mean
            row. Codes do not hold the exposure.
        covariates : array-like or frame of shape (n_samples, n_covariates), optional
            Those of the rows, where `fit` was given some; None takes their means there, or zeros
            without an intercept.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        Z = codes_of(X, len(self.components_)) @ self.components_ + self._scoring.intercept
        if covariates is not None:
            regressors = self._regressors(covariates, len(Z))
            assert regressors is not None and self._scoring.slopes is not None
            Z = Z + regressors @ self._scoring.slopes
        levels = is_option(self.row_offset, "fit")
        added = as_offset(offset, Z, self._observation.loss, levels)
        if added is not None:
            Z = Z + added
        return self._observation.predict(Z)

    def complete(self, X: Any, offset: Any = None, *, covariates: Any = None) -> Any:
        """Return the table with missing entries filled by the mean response.

        Observed entries are kept. In columns of whole numbers the mean is rounded, and in boolean
        columns the more probable value is taken: convert them to floats for rates and
        probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The training table or new rows.
        offset : array-like of shape (n_samples,) or (n_samples, n_features), optional
        covariates : array-like or frame of shape (n_samples, n_covariates), optional
            Those of the rows, where `fit` was given some.

        Returns
        -------
        The same kind of table as X.
        """
        check_is_fitted(self)
        if self._kernel is not None:
            raise ValueError(
                "The table of a kernel model is a Gram matrix, which has no entries to fill."
            )
        rows = self._new_rows(X, offset, covariates)
        table = rows.table
        Z = self._predictors(rows, Dense(table.shape))
        return filled(X, table, self._observation.response(Z, table))

    def complete_interval(
        self,
        X: Any,
        level: float = 0.9,
        offset: Any = None,
        *,
        covariates: Any = None,
    ) -> PredictionInterval:
        """Return limits between which missing entries lie with a given probability.

        They are quantiles of the family's distribution at the predictor, whose own variance is
        that of the row's codes given its observed entries. How far out is read off entries of the
        training table that are predicted by fits without them: the first call makes four such
        fits. This assumes that entries are missing at random given the observed ones.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The training table or new rows; the first call needs the training table.
        level : float, default=0.9
            Share of the missing entries that is to be covered, in (0, 1).
        offset : array-like of shape (n_samples,) or (n_samples, n_features), optional
        covariates : array-like or frame of shape (n_samples, n_covariates), optional
            Those of the rows, where `fit` was given some.

        Returns
        -------
        PredictionInterval
            (lower, upper), two tables like X. Observed entries are their own limits. Limits are
            infinite where too few entries could be held out.
        """
        check_is_fitted(self)
        check_level(level)
        if self._kernel is not None:
            raise ValueError(
                "The table of a kernel model is a Gram matrix, which has no entries to fill."
            )
        calibration = self._calibrated(X, offset, covariates)
        given = self._new_rows(X, offset, covariates)
        table = with_missing_as_nan(given.table)
        rows = replace(given, table=table)
        Z = self._predictors(rows, Dense(table.shape))
        added = self._scoring.added(rows)
        lower = np.empty(table.shape)
        upper = np.empty(table.shape)
        without_offset = Z if added is None else Z - added
        leverage = row_leverages(self._scoring, self._scoring.data(rows), without_offset)
        for j in range(table.shape[1]):
            entries = calibration.entries(j, Z[:, j].astype(np.float64), leverage[:, j])
            lower[:, j], upper[:, j] = entries.limits(calibration.deviations(j, level))
        return PredictionInterval(
            filled(X, table, lower.astype(table.dtype)),
            filled(X, table, upper.astype(table.dtype)),
        )

    def _calibrated(self, X: Any, offset: Any, covariates: Any) -> EntryCalibration:
        """Return the calibration, by fits to the training table without some of its entries."""
        if self._calibration is not None:
            return self._calibration
        n = len(self.codes_)
        if _num_samples(X) != n:
            raise ValueError(
                "How wide limits must be is found on the training table: call complete_interval "
                f"with it, of {n} rows, first."
            )
        model = clone(self).set_params(
            alpha=self.alpha_,
            n_components=None if self.n_components is None else len(self.components_),
            family=self._observation.loss,
        )
        inputs = model._read(X, offset=offset, covariates=covariates)
        held = cross_fitted(inputs, model._state(inputs), self.fit_intercept)
        parts: list[tuple[Any, Loss]] = [(slice(None), self._observation.fitted)]
        self._calibration = EntryCalibration.of(parts, held, len(self.intercept_))
        return self._calibration

    def score(
        self,
        X: Any,
        y: Any = None,
        offset: Any = None,
        *,
        covariates: Any = None,
    ) -> float:
        """Return the mean log likelihood of an observed entry, base measure included.

        The codes of a row are fitted to the entries that are scored, so the score grows with the
        number of components: choose that by `n_components="auto"`, not by a search over this score.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        offset : array-like of shape (n_samples,) or (n_samples, n_features), optional
        covariates : array-like or frame of shape (n_samples, n_covariates), optional
            Those of the rows, where `fit` was given some.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        loss = self._observation.loss
        total = 0.0
        n_observed = 0
        for rows in self._row_tables(X, offset, covariates):
            held = rows.entries
            observed = held.w > 0
            if not observed.any():
                continue
            z = self._predictors(rows, held.layout)[observed].astype(np.float64)
            total += log_likelihood(loss, z, held.x[observed], held.observed_rows)
            n_observed += held.n_observed
        if not n_observed:
            raise ValueError("Every entry of the table is missing; there is nothing to score.")
        return total / n_observed

    @property
    def certificate_(self) -> Certificate:
        """Distance of the objective from the global optimum, with `n_components=None`."""
        check_is_fitted(self)
        if self._certificate is None:
            raise AttributeError(
                f"This {type(self).__name__} was solved locally, at a given number of components, "
                "so there is no duality gap: n_components=None has a convex form and is certified."
            )
        return self._certificate

    def _read(
        self,
        X: Any,
        sample_weight: Any = None,
        entry_weight: Any = None,
        offset: Any = None,
        covariates: Any = None,
    ) -> EpcaInputs | BlockedInputs:
        loss = as_family(self.family, self.trials)
        check_form(self.n_components, self.row_offset, loss)
        if self._is_blocked(X, loss, entry_weight, offset):
            return self._read_blocks(X, loss, sample_weight, offset, covariates)
        table = as_float_table(self, X, None, reset=True)
        kernel = None
        if self.kernel is not None:
            part = as_kernel(self.kernel, self.gamma, self.degree, self.coef0)
            kernel = FittedKernel(part.resolved(table), table)
            table = kernel.gram()
        rows = row_weights(table, sample_weight)
        entries = entry_weights(table, entry_weight, None)
        added = as_offset(offset, table, loss)
        regressors = self._read_covariates(covariates, table, loss)
        if isinstance(loss, NegativeBinomial) and is_option(loss.theta, "auto"):
            check_values(Poisson(), table)
            plain = entries is None and self._counts_by_rows(table, loss, added)
            if plain and not scipy.sparse.issparse(table) and not np.isnan(table).any():
                loss = self._loss_of_counts(table, loss, rows, added, regressors)
            else:
                weights = entries if rows is None else weigh_rows(table, entries, rows)
                loss = NegativeBinomial(common_theta(table, weights))
        given = WeightedTable(table, rows, entries, added, regressors)
        learned = given.learned
        if is_option(self.alpha, "auto") or is_option(self.n_components, "auto"):
            check_enough(learned)
        totals = is_option(self.row_offset, "total")
        observation = ObservationModel.of(learned, loss, totals)
        names = names_of(self, None, table.shape[1])
        with naming_columns_in_errors(names):
            data = observation.data(learned)
        return EpcaInputs(given, learned, observation, data, kernel, names)

    def _is_blocked(self, X: Any, loss: Loss, entry_weight: Any, offset: Any) -> bool:
        """Return whether a table is read block by block, since it is sparse and large."""
        if entry_weight is not None or not is_large_sparse(X, self.sparse_zeros):
            return False
        return self._counts_by_rows(X, loss, offset)

    def _counts_by_rows(self, table: Any, loss: Loss, offset: Any) -> bool:
        """Return whether a table without missing entries could be fitted block by block."""
        if self.kernel is not None or self.n_components is None or self.alpha == 0:
            return False
        return takes_blocks(loss, offset, table)

    def _loss_of_counts(
        self,
        table: Array,
        loss: Loss,
        rows: Array | None,
        offset: Array | None,
        regressors: Array | None,
    ) -> Loss:
        """Return the loss at the dispersion of a complete table, given exposures and covariates.

        It is found as that of a large sparse table, which differs by how it is stored alone.
        """
        totals = is_option(self.row_offset, "total")
        stored = scipy.sparse.csr_array(table)
        inputs = BlockedInputs.of(stored, rows, offset, loss, totals, None, regressors)
        problem = self._state(inputs)
        assert isinstance(problem, BlockedFactored)
        # the estimator's generator is left as it is for the fit
        found: Loss = with_theta(inputs, problem, np.random.default_rng(0)).counts.loss
        return found

    def _read_blocks(
        self,
        X: Any,
        loss: Loss,
        sample_weight: Any,
        offset: Any,
        covariates: Any,
    ) -> BlockedInputs:
        table = as_sparse_table(self, X, reset=True)
        names = names_of(self, None, table.shape[1])
        with naming_columns_in_errors(names):
            return BlockedInputs.of(
                table,
                row_weights(table, sample_weight),
                as_offset(offset, table, loss),
                loss,
                is_option(self.row_offset, "total"),
                names,
                self._read_covariates(covariates, table, loss),
            )

    def _read_covariates(self, covariates: Any, table: Any, loss: Loss) -> Array | None:
        """Return covariates as regressors, and keep how they are encoded."""
        self._covariates = None
        if covariates is None:
            return None
        whole_rows = isinstance(loss, Multinomial) and self.n_components is None
        if isinstance(loss, Gamma) or whole_rows or self.kernel is not None:
            raise ValueError(
                "covariates are not for family='gamma', kernels, and family='multinomial' with "
                "n_components=None: leave them out, or use another family."
            )
        self._covariates = CovariateCodes.of(covariates, table, self.fit_intercept)
        return self._covariates.encode(covariates, table.shape[0])

    def _regressors(self, covariates: Any, n: int) -> Array | None:
        """Return the covariates of new rows as regressors; raise if they do not fit the model."""
        if self._covariates is not None:
            return self._covariates.encode(covariates, n)
        if covariates is not None:
            raise ValueError("The model was fitted without covariates: pass none here.")
        return None

    def _context(self, inputs: EpcaInputs | BlockedInputs) -> AbstractContextManager[Any]:
        return naming_columns_in_errors(inputs.names)

    def _state(
        self,
        inputs: EpcaInputs | BlockedInputs,
    ) -> Convex | Factored | BlockedFactored:
        if isinstance(inputs, BlockedInputs):
            counts = inputs.counts(every_row=False)
            rank = self.n_components
            if is_option(rank, "auto"):
                rank = min(MAX_AUTO_COMPONENTS, *counts.shape)
            levels = is_option(self.row_offset, "fit")
            return BlockedFactored(counts, rank, self._strength, self.fit_intercept, levels)
        if self.n_components is None:
            return convex_problem(inputs, self._strength, self.fit_intercept)
        rank = self.n_components
        if is_option(rank, "auto"):
            rank = min(MAX_AUTO_COMPONENTS, *inputs.data.shape)
        levels = is_option(self.row_offset, "fit") or isinstance(
            inputs.observation.loss,
            Multinomial,
        )
        return factored_problem(inputs, self._strength, rank, self.fit_intercept, levels)

    def _choose(self, problem: Any, inputs: Any, run: Run) -> Choice[Any]:
        if isinstance(problem, BlockedFactored):
            return self._choose_by_sample(problem, inputs, run)
        if isinstance(problem, Convex):
            choice = super()._choose(problem, inputs, run)
            if choice.selection is None:
                return Choice(choice.problem, [])
            return Choice(choice.problem, [choice.selection])
        problem.check()
        search = HeldOutSearch.of(problem, inputs.learned, run)
        selections = []
        if is_option(self.alpha, "auto"):
            strength = search.strength(problem, self.rule)
            selections.append(strength)
            problem = replace(problem, alpha=strength.best.value)
        if is_option(self.n_components, "auto"):
            number = search.number(problem)
            selections.append(number)
            problem = replace(problem, rank=int(number.best.value))
        return Choice(problem, selections)

    def _choose_by_sample(
        self,
        problem: BlockedFactored,
        inputs: BlockedInputs,
        run: Run,
    ) -> Choice[Any]:
        """Choose the dispersion, the strength and the number of components on samples of rows."""
        problem = with_theta(inputs, problem, np.random.default_rng(run.seed()))
        selections: list[Selection] = []
        if not (is_option(self.alpha, "auto") or is_option(self.n_components, "auto")):
            return Choice(problem, selections)
        loss = replace(inputs.observation, loss=problem.counts.loss)
        search = SampledSearch.of(replace(inputs, observation=loss), problem, run)
        if is_option(self.alpha, "auto"):
            strength = search.strength(self.rule)
            selections.append(strength)
            problem = replace(problem, alpha=strength.best.value, start=None)
            self.alpha_max_ = search.alpha_max
        if is_option(self.n_components, "auto"):
            number = search.number(problem.alpha)
            selections.append(number)
            problem = replace(problem, rank=int(number.best.value), start=None)
        return Choice(problem, selections)

    def _solve(
        self,
        problem: Any,
        inputs: Any,
        run: Run,
    ) -> Solution[FactorPoint]:
        if isinstance(problem, BlockedFactored):
            warn_of_logarithms(inputs.table, inputs.observation.loss)
            return solve_within(problem, run.remaining(), problem.start)
        warn_of_empty(inputs.learned.table)
        warn_of_logarithms(inputs.learned.table, inputs.observation.loss)
        if isinstance(problem, Convex):
            return solve_within(problem, run.remaining())
        # for a quadratic loss without missing entries the start is the solution: singular values
        # less alpha
        return solve_within(problem, run.remaining(), first_point(problem))

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[FactorPoint],
        inputs: Any,
        run: Run,
    ) -> Solution[FactorPoint]:
        problem = choice.problem
        if isinstance(problem, BlockedFactored):
            fit = fit_blocks(inputs, problem, solution.point)
            values = values_of_blocks(fit, inputs, problem)
        else:
            fit = fit_rows(inputs, problem, solution.point, self.fit_intercept)
            values = fitted_values(fit, inputs, problem, self.fit_intercept)
        self._publish_fit(fit, inputs)
        self._publish_choices(problem, choice.selection)
        self.deviance_explained_ = values.explained
        if not problem.alpha:
            warn_if_unbounded(fit, inputs, self.fit_intercept)
        history = [
            replace(record, objective=record.objective - values.constant)
            for record in solution.history
        ]
        published = replace(solution, objective=values.objective, history=history)
        if solution.status is Status.CERTIFIED and published.relative_gap > self.tol:
            return replace(published, status=Status.STALLED)
        return published

    def _publish_fit(self, fit: FittedRows, inputs: EpcaInputs | BlockedInputs) -> None:
        """Set codes, components and offsets, and what scores new rows."""
        self.codes_ = fit.codes
        self.components_ = fit.components
        self.intercept_ = fit.intercept
        slopes = fit.scoring.slopes
        if self._covariates is not None and slopes is not None:
            self.covariate_coef_ = self._covariates.coefficients(slopes)
            self.covariate_names_ = list(self._covariates.features)
            self.intercept_ = fit.intercept + self._covariates.intercept(slopes)
        if is_option(self.row_offset, "fit"):
            self.row_offset_ = fit.level
        elif is_option(self.row_offset, "total"):
            self.row_offset_ = inputs.exposure
        self._calibration = None
        self._scoring = fit.scoring
        self._observation = fit.scoring.observation
        self._kernel = inputs.kernel
        self._offset_given = inputs.offset_given
        loss = self._observation.loss
        if isinstance(loss, NegativeBinomial):
            self.theta_ = float(loss.theta)
        self._n_features_out = len(fit.components)

    def _publish_choices(self, problem: Any, selections: list[Selection]) -> None:
        """Set the strength and, where they were searched for, the candidates."""
        self.alpha_ = float(problem.alpha)
        if isinstance(problem, Convex):
            self.alpha_max_ = problem.alpha_max()
        elif is_option(self.alpha, "auto") and isinstance(problem, Factored):
            self.alpha_max_ = alpha_max(problem)
        for prefix, selection in zip(("", "rank_"), selections, strict=False):
            self._keep(selection, prefix)

    def _row_tables(
        self,
        X: Any,
        offset: Any,
        covariates: Any,
    ) -> Iterator[WeightedTable]:
        """Yield rows with their offset: all, or blocks of a sparse table that stays sparse."""
        if self._kernel is not None or not is_large_sparse(X, self.sparse_zeros):
            yield self._new_rows(X, offset, covariates)
            return
        self._warn_of_offset(offset)
        table = as_sparse_table(self, X, reset=False)
        added = as_offset(offset, table, self._observation.loss)
        yield from dense_blocks(table, added, self._regressors(covariates, table.shape[0]))

    def _warn_of_offset(self, offset: Any) -> None:
        """Warn if `fit` was given an offset and new rows have none."""
        if offset is None and self._offset_given:
            warn(
                "The model was fitted with offset=..., and none is given for these rows: zero is "
                "assumed, an exposure of one. Pass their offset."
            )

    def _new_rows(self, X: Any, offset: Any, covariates: Any) -> WeightedTable:
        """Return rows with their offset; under a kernel, their kernel against the training rows."""
        table = as_float_table(self, X, None, reset=False)
        if self._kernel is not None:
            table = self._kernel.gram(table)
        self._warn_of_offset(offset)
        return WeightedTable(
            table,
            offset=as_offset(offset, table, self._observation.loss),
            regressors=self._regressors(covariates, table.shape[0]),
        )

    def _scored(self, rows: WeightedTable) -> tuple[Array, Array]:
        """Return the codes and the levels of rows."""
        n, d = rows.table.shape
        dtype = rows.table.dtype
        if self._observation.fitted.unbounded and not rows.entries.n_observed:
            return np.zeros((n, len(self.components_)), dtype), np.zeros(n, dtype)
        with naming_columns_in_errors(names_of(self, None, d)):
            return self._scoring(self._scoring.data(rows))

    def _predictors(self, rows: WeightedTable, layout: Dense | Pattern) -> Array:
        """Return the predictors of rows where a layout has entries, offsets included."""
        codes, level = self._scored(rows)
        dtype = rows.table.dtype
        by_row = level[:, None]
        added = self._scoring.added(rows)
        if added is not None:
            by_row = by_row + added
        Z = layout.entries(Factors(codes, self.components_.astype(dtype)))
        intercept = self._scoring.intercept.astype(dtype)
        return Z + layout.spread(intercept) + at_entries(layout, by_row)

    def __sklearn_tags__(self) -> Tags:
        """Declare which tables are accepted; a precomputed kernel is split by rows and columns."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_pairwise(self.kernel)
        table = self.kernel is None or tags.input_tags.pairwise
        tags.input_tags.allow_nan = table
        tags.input_tags.positive_only = table and is_non_negative(self.family)
        return tags
