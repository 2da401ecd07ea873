"""Certified models of one table: subspaces and sparse coding."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from sklearn.utils._param_validation import StrOptions

from regfactor.core.linalg import is_sparse
from regfactor.core.loop import Solution
from regfactor.core.params import Array
from regfactor.engine.blocks import BlockTable
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.calibrated_entries import EntryCalibration
from regfactor.fitting.factor_estimator import TABLE_CONSTRAINTS, FactorEstimator, TableInputs
from regfactor.fitting.known import NOTHING, Known
from regfactor.fitting.parameters import AUTO, COUNT, NOISE_OPTION, POSITIVE, parametrized
from regfactor.norms import as_norm
from regfactor.penalties import Gauge, Rows, Trace, TraceModulo
from regfactor.problems import Convex
from regfactor.tables.block_fit import BlockInputs, publish_blocks, read_blocks
from regfactor.tables.draws import CompletionDraws
from regfactor.tables.partial_fit import continue_stream, start_stream
from regfactor.tables.rows_left_out import select_by_rows_left_out


@parametrized
class ConvexSubspace(CompletionDraws):
    """min over Z, b of sum of observed w f(z_ij + b_j; x_ij / u_j) + alpha |Z|_tr, at its optimum.

    The trace norm finds the rank by itself, NaN entries are left out of the sum, and the fit comes
    with a duality gap that bounds its distance from the global optimum. Columns are measured in
    units u_j of their deviations, so that no result depends on the units of the data; all that is
    published, components, offsets and filled entries, is in the units of the data.

    Parameters
    ----------
    loss : str or Loss, default="squared"
        How a prediction is compared with an entry: "squared", "huber", "logistic", "poisson", ...;
        a dict {column: loss} or a list of (columns, loss) gives columns different losses. "auto"
        reads it off each column, also of a frame with categories (see Notes).
    alpha : float, "auto" or "noise", default="auto"
        Strength of the trace norm. From `alpha_max_` on, Z is zero. "auto" searches 20 strengths
        from there down to a thousandth, first every third, then those next to the best, and takes
        the one that predicts a tenth of the entries, held out at random, best; of those that are as
        good, the largest. "noise" is the strength above which no component is fitted to noise
        alone, sigma (sqrt(n) + sqrt(d)) for noise of deviation sigma, found robustly;
        `loss="huber"` then changes at twice the noise.
    fit_intercept : bool, default=True
        Whether to fit unpenalized column offsets.
    scale : bool, default=True
        Whether columns under a loss of residuals are divided by their deviation: the standard
        deviation, or under a robust loss, such as "huber", the interquartile range / 1.349; of a
        column of two values, their distance. Counts and labels have no other unit. Columns that
        `loss="auto"` reads are scaled in any case.
    debias : bool or "prior", default=False
        How codes are freed of the shrinkage of the trace norm, the components being fixed. True
        refits them with almost no penalty; with `alpha="auto"` the held-out entries also choose
        how many components are kept, none included, and these are refitted together with the codes;
        a warning reports if the penalized fit predicts the held-out entries better. "prior" scores
        each row under a normal prior of the codes, of the second moments that they have in the fit:
        phi = argmin sum_j w f((phi C + b)_j; x_j) + (t/2) sum_i phi_i^2 n / s_i^2, s_i the singular
        values. For the squared loss this is the posterior mean of probabilistic PCA, with noise of
        variance t. The held-out entries choose t, together with "auto" alpha; best where the rank
        is not clear. `objective_` and `gap_` stay those of the penalized fit.
    max_rank : int, optional
        Largest number of components. The gap then shows what the limit costs.
    bounds : dict, optional
        Lower and upper bounds of numbers, {column: (lower, upper)}, None where there is none.
        Filled entries, intervals and draws keep them: they are means, limits and draws of the
        distribution cut off there. An observed entry outside is an error.
    row_effects : bool, default=False
        Whether rows have unpenalized offsets too, a_i u_j in addition to b_j: one number for each
        row, in units of the deviations of the columns; with `scale=False` the same in all columns,
        as in models with two-way fixed effects. They are the first code, and `components_[0]` is
        u. For dense tables of numbers and truth values.
    rule : {"min", "1se"}, default="min"
        Of the strengths tried by `alpha="auto"`, take the best, or the largest within one standard
        error of it.
    sparse_zeros : {"missing", "observed"}, default="missing"
        What the absent entries of a sparse matrix are. Stored zeros are always observed.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Relative duality gap at which the fit stops.
    time_limit : float, optional
        Seconds after which the solver stops; a warning then reports the gap.
    verbose : int, default=0
        1 shows a line with the objective and the gap.
    random_state : int, optional
        Seed of the entries held out by `alpha="auto"` and of the directions in which a large table
        is searched; the optimum does not depend on the latter.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.
    n_jobs : int, optional
        Threads that solve the rows of a table with missing entries, or work on the blocks of a
        `BlockTable`, at once; -1 for all processors. Results are the same for any number.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, n_atoms)
    components_ : ndarray of shape (n_atoms, n_features)
        In the units of the data, ordered by falling singular value; unit rows in the units of the
        deviations.
    singular_values_ : ndarray of shape (n_atoms,)
    row_effects_ : ndarray of shape (n_samples,)
        With `row_effects=True`: the offsets of the rows, the first column of `codes_`; of mean zero
        where there is an intercept.
    scale_ : ndarray of shape (n_features,)
        The units u_j of the columns; `components_ / scale_` compares columns of different units.
    intercept_ : ndarray of shape (n_features,)
    covariate_coef_ : ndarray of shape (n_covariates, n_features)
        With covariates: what each adds to the predictors, in the units of the data.
    covariate_names_ : list of str
        With covariates: their names, with the level of an indicator.
    alpha_, alpha_max_ : float
    noise_ : float
        With `alpha="noise"`: the deviation of the noise.
    alphas_, validation_loss_, validation_error_ : ndarray
        With `alpha="auto"`: the strengths tried, and the mean loss of the entries held out under
        each, and the standard error of that mean; with `debias="prior"` and a given alpha, of this
        alone.
    prior_ : float
        With `debias="prior"`: the strength t of the prior.
    n_samples_seen_ : int
        With `partial_fit`: the number of rows of all batches.
    objective_, gap_, relative_gap_ : float
    certificate_ : Certificate
        `str(certificate_)` states in one sentence how far the fit can be from the optimum.

    See Also
    --------
    SubspaceImputer : Fills missing entries, as a step of a pipeline.
    RobustSubspace : The same for tables with gross errors.
    FactorModel : Any loss, norm and penalties.

    Notes
    -----
    A frame may mix columns. Under `loss="auto"`, numbers get the squared loss after robust
    scaling, booleans the logistic loss, ordered categories a logistic loss for each step between
    levels, and unordered ones one for each category; columns that a dict leaves out are "auto" too.
    Each column is then weighted so that the best constant costs one per observed entry. `complete`
    gives back the types of the frame, and no negative numbers in columns of counts; components,
    `intercept_` and `inverse_transform` speak of the encoded columns, numbers in their own units.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ConvexSubspace
    >>> X = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, np.nan], [3.0, 6.0, 9.0], [1.0, np.nan, 3.0]])
    >>> ConvexSubspace(alpha=0.01).fit(X).complete(X).round(1)
    array([[1., 2., 3.],
           [2., 4., 6.],
           [3., 6., 9.],
           [1., 2., 3.]])
    """

    _warns_of_gross_errors = True
    _parameter_constraints = {
        **TABLE_CONSTRAINTS,
        "alpha": [POSITIVE, AUTO, NOISE_OPTION],
        "fit_intercept": ["boolean"],
        "scale": ["boolean"],
        "debias": ["boolean", StrOptions({"prior"})],
        "max_rank": [COUNT, None],
        "bounds": [dict, None],
        "row_effects": ["boolean"],
    }
    mixed = True
    _memory = None  # of the rows that `partial_fit` saw

    loss: Any = "squared"
    alpha: Any = "auto"
    fit_intercept: bool = True
    scale: bool = True
    debias: bool | str = False
    max_rank: int | None = None
    _: KW_ONLY
    bounds: Any = None
    row_effects: bool = False
    rule: str = "min"
    sparse_zeros: str = "missing"
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None
    n_jobs: int | None = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        entry_weight: Any = None,
        *,
        lower: Any = None,
        upper: Any = None,
        covariates: Any = None,
    ) -> Self:
        """Fit to a table; NaN marks a missing entry.

        Parameters
        ----------
        X : array-like or BlockTable of shape (n_samples, n_features)
            Rows of a `BlockTable` are read in blocks, so that it may be larger than memory; under
            the squared loss, with `debias` False or "prior". Their codes are not kept:
            `transform` has them.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
        entry_weight : array-like of shape (n_samples, n_features), optional
            How much each entry counts here; `transform` counts the entries of a row alike.
        lower, upper : array-like of shape (n_samples, n_features), optional
            Limits of missing entries of columns of numbers, as "< 0.5" or "3 to 5" tell them; NaN
            or an infinite one is open. Where X is missing and has a limit, the loss is
            -s^2 log P(lower <= x <= upper) under noise of deviation s, which is found from the
            table (see `losses.Censored`).
        covariates : array-like or frame of shape (n_samples, n_covariates), optional
            What rows are regressed on, without a penalty, in addition to the factors; labels become
            indicators of their levels.

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight, entry_weight, known=Known(lower, upper, covariates))

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Update the model by a batch of rows, each of which is read once and not kept.

        The first batch is fitted as by `fit`, and fixes the units of the columns. Of past rows only
        their products with some directions are kept: the components, and directions of residuals
        that may become components. Among the codes that are linear in these, the components and
        offsets of all rows are then optimal.

        `objective_` is an upper bound of the objective of all rows at the published components and
        offsets, with the codes of `transform`, and so of the optimum. Without missing entries and
        `max_rank`, and with at most 16 more columns than the first batch has components, it is the
        optimum. From the second batch on there is no gap: that needs a fit of all rows. `codes_`
        are those of the last batch. `fit` forgets all batches, and `partial_fit` after `fit` begins
        anew. A model without components gives no warning here, since later batches may bring them.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            NaN marks a missing entry. Under the squared loss, without `debias` and `bounds`.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Notes
        -----
        A strength that is given holds for all rows together. One that is chosen ("auto", "noise")
        is chosen on the first batch, and grows with the rows seen like the norm of noise,
        sqrt(n) + sqrt(d).
        """
        if self._memory is None:
            start_stream(self, X, sample_weight)
        else:
            continue_stream(self, X, sample_weight)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and return the codes of the training rows."""
        if isinstance(X, BlockTable):
            return self.fit(X, y, **fit_params).transform(X)
        return super().fit_transform(X, y, **fit_params)

    def transform(
        self,
        X: Any,
        *,
        lower: Any = None,
        upper: Any = None,
        covariates: Any = None,
    ) -> Any:
        """Return the codes of each row, scored alone with the components held fixed.

        Missing entries (NaN) are allowed.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame, BlockTable} of shape (n_samples, n_features)
        lower, upper : array-like of shape (n_samples, n_features), optional
            Limits of missing entries, as in `fit`.
        covariates : array-like or frame of shape (n_samples, n_covariates), optional
            Those of the rows, where `fit` was given some.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Of a `BlockTable`, a `BlockTable` whose blocks are computed when they are read.
        """
        known = Known(lower, upper, covariates)
        if isinstance(X, BlockTable):
            self._refuse_known_of_blocks(known)
            return X.map(super().transform, len(self.components_))
        return self._transform(X, known)

    def complete(
        self,
        X: Any,
        *,
        lower: Any = None,
        upper: Any = None,
        covariates: Any = None,
    ) -> Any:
        """Return the table with its missing entries filled by the model.

        Observed entries, type, index and columns are kept. An entry between limits is filled by the
        mean of its distribution there.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame, BlockTable} of shape (n_samples, n_features)
            The training table or new rows.
        lower, upper : array-like of shape (n_samples, n_features), optional
            Limits of missing entries, as in `fit`.
        covariates : array-like or frame of shape (n_samples, n_covariates), optional
            Those of the rows, where `fit` was given some.

        Returns
        -------
        The same kind of table as X.
            The blocks of a `BlockTable` are filled when they are read; `save` writes them to a
            file.
        """
        known = Known(lower, upper, covariates)
        if isinstance(X, BlockTable):
            self._refuse_known_of_blocks(known)
            return X.map(super().complete, X.n_columns)
        return self._complete(X, known)

    def _refuse_known_of_blocks(self, known: Known) -> None:
        if not known.is_nothing:
            raise ValueError(
                "lower, upper and covariates are for tables in memory: give X as an array or a "
                "frame instead of a BlockTable."
            )

    def inverse_transform(self, X: Any, *, covariates: Any = None) -> Array:
        """Return the table that codes predict, in the units of the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
        covariates : array-like or frame of shape (n_samples, n_covariates), optional
            Those of the rows, where `fit` was given some; None takes their means there.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        return self._inverse_transform(X, covariates)

    def _read(
        self,
        X: Any,
        sample_weight: Any = None,
        entry_weight: Any = None,
        /,
        known: Known = NOTHING,
    ) -> Any:
        self._memory = None
        if isinstance(X, BlockTable):
            self._refuse_known_of_blocks(known)
            return read_blocks(self, X, sample_weight, entry_weight)
        inputs = self._read_table(X, sample_weight, entry_weight, known)
        if self.row_effects:
            self._check_row_effects(inputs)
        self._bounds = None
        if self.bounds:
            self._bounds = self._read_bounds(inputs)
        return inputs

    def _check_row_effects(self, inputs: TableInputs) -> None:
        """Raise for tables and parameters with which rows cannot have free offsets."""
        if is_sparse(inputs.table):
            raise ValueError(
                "row_effects=True is for dense tables: give X as an array or a frame with NaN "
                "where an entry is missing."
            )
        if self.max_rank is not None or self.debias is True:
            raise ValueError(
                "row_effects=True needs max_rank=None and debias=False or 'prior', got "
                f"max_rank={self.max_rank!r} and debias={self.debias!r}."
            )
        for codec, at in self._labels():
            if at.stop - at.start > 1:
                raise ValueError(
                    f"row_effects=True is for numbers and truth values, and column {codec.name!r} "
                    "holds categories: leave it out, or use row_effects=False."
                )

    def _calibrated(self, X: Any, known: Known = NOTHING) -> EntryCalibration:
        self._refuse_stream()
        return super()._calibrated(X, known)

    def _calibrated_noise(self, X: Array | None) -> Array:
        self._refuse_stream()
        return super()._calibrated_noise(X)

    def _refuse_stream(self) -> None:
        if self._memory is not None:
            raise ValueError(
                "Intervals and draws need the rows of the fit, which partial_fit does not keep: "
                "use fit."
            )

    def _state(self, inputs: Any) -> Any:
        if isinstance(inputs, BlockInputs):
            return inputs.problem
        gauge: Gauge = Trace()
        if self.row_effects:
            gauge = TraceModulo(np.ones(inputs.learned.shape[1]))
        return self._convex(inputs, gauge)

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[Any],
        inputs: Any,
        run: Run,
    ) -> Solution[Any]:
        if isinstance(inputs, BlockInputs):
            publish_blocks(self, solution, inputs)
            return solution
        published = super()._publish(choice, solution, inputs, run)
        self.singular_values_ = self._sizes
        if self.row_effects:
            self.singular_values_ = self._sizes[1:]
            self.row_effects_ = self.codes_[:, 0]
        self.scale_ = np.ones(len(self._intercept))
        if self._column_units is not None:
            self.scale_ = self._column_units.unit
        return published


@parametrized
class ConvexSparseCoding(FactorEstimator):
    """min over Z of sum f(z_ij; x_ij / u_j) + alpha sum_t |z_t|_q, at its global optimum.

    Codes are penalized in l1, components lie in the lq ball, in units u_j of the deviations of the
    columns.

    With the number of atoms free, the induced norm is a sum over rows (thesis, theorem 5), so every
    row gets an atom of its own: the global optimum of convex sparse coding is vector quantization,
    rows shrunk towards zero and small rows dropped. It is exact and useful for selecting rows; for
    a dictionary shared between rows give `FactorModel` a rank.

    Parameters
    ----------
    loss : str or Loss, default="squared"
    alpha : float or "auto", default="auto"
        Strength of the norm; rows whose gradient at zero is smaller are dropped. "auto" leaves rows
        out, scores them by the atoms of others from half of their entries, and takes the strength
        that predicts the other half best.
    q : float or Norm, default=2
        Norm of the components.
    scale : bool, default=True
        Whether columns under a loss of residuals are divided by their deviation.
    rule : {"min", "1se"}, default="min"
        How `alpha="auto"` chooses among the strengths it tried.
    sparse_zeros : {"missing", "observed"}, default="observed"
        What the absent entries of a sparse matrix are.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Relative duality gap at which the fit stops.
    time_limit : float, optional
        Seconds after which the solver stops; a warning then reports the gap.
    verbose : int, default=0
        1 shows a line with the objective and the gap.
    random_state : int, optional
        Seed of the rows left out by `alpha="auto"`.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, n_atoms)
    components_ : ndarray of shape (n_atoms, n_features)
        In the units of the data.
    """

    _parameter_constraints = {**TABLE_CONSTRAINTS, "scale": ["boolean"]}

    loss: Any = "squared"
    alpha: Any = "auto"
    q: Any = 2
    _: KW_ONLY
    scale: bool = True
    rule: str = "min"
    sparse_zeros: str = "observed"
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

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight)

    def _state(self, inputs: TableInputs) -> Convex:
        return self._convex(inputs, Rows(as_norm(self.q)))

    def _choose(self, problem: Convex, inputs: TableInputs, run: Run) -> Choice[Any]:
        """Return the problem at the strength that rows left out choose, where it is "auto"."""
        seed = run.seed()
        if not isinstance(self.alpha, str):
            return Choice(problem)
        chosen = select_by_rows_left_out(
            inputs.learned,
            inputs.loss,
            problem.gauge,
            self.rule,
            self._validation(run, seed),
        )
        return Choice(problem.at(chosen.best.value), chosen)
