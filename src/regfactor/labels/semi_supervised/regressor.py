"""The first choice for few targets: kernels on representations of all rows, averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from regfactor.core.linalg import is_sparse
from regfactor.core.loop import Solution
from regfactor.core.params import Array, choose, frozen, warn
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.conformal import (
    PredictionInterval,
    conformal_quantile,
    split_interval,
    too_few_labels_message,
)
from regfactor.fitting.explanation import Explanation, MemberReport
from regfactor.fitting.inputs import (
    check_outlying_entries,
    validated,
    weights_of_all_rows,
)
from regfactor.fitting.parameters import NON_NEGATIVE, NumberInterval, parametrized
from regfactor.fitting.pool_estimator import PoolEstimator
from regfactor.fitting.targets import Targets
from regfactor.labels.semi_supervised.kernel_average import WeightedKernels
from regfactor.labels.semi_supervised.kernel_members import (
    DESIGNS,
    EvidenceMember,
    FittedEvidenceMember,
    KernelDesign,
    RepresentedTable,
    TargetColumn,
    designs_for,
)
from regfactor.labels.semi_supervised.outside_members import (
    FittedOutsideMember,
    OutsideMember,
)
from regfactor.labels.semi_supervised.regression_pool import (
    RegressionModel,
    RegressionPool,
    TargetModel,
    kernel_averages,
    target_model,
)
from regfactor.labels.semi_supervised.representations import MAX_COLUMNS

AUTO = "auto"
UNLABELED_CLASS = -1  # marks unlabeled rows in classification
MAX_WITNESSES = 200  # rows without a target on which `explain` compares
SMALL_CHANGE = 0.05  # of predictions, in deviations of the target, that `explain` calls small


@frozen
class RegressorInputs:
    """Inputs of all rows, their targets and weights, and which rows count."""

    X: Any
    targets: Targets
    weights: Array
    counted: Array


@parametrized
class SemiSupervisedRegressor(MultiOutputMixin, RegressorMixin, PoolEstimator):
    r"""y = sum over members m of w_m (b_m + f_m(x)) + noise, f_m ~ GP(0, kernel of member m).

    Kernels compare rows by numbers that all rows have taught, with targets or without: standardized
    columns, ranks, principal factors. The relevance of each number, the noise and the shape of a
    kernel maximize its evidence, the density of the targets, under priors; a member is weighted by
    the root of its evidence, integrated over these parameters by Laplace's method, divided by its
    error on targets that are left out. Which kernel is right depends on the data; where none is,
    the constant among the members takes over.

    Parameters
    ----------
    members : "auto" or list, default="auto"
        "auto" are all members of the library. A list holds their names (as in `members_`, or "auto"
        for all of them) and pairs (name, regressor) of any regressors with the interface of
        scikit-learn, which are fitted to the rows with targets. These and the kernels together are
        then judged by the same held-out targets, in five folds.
    n_draws : int, default=0
        Number of parameters that are drawn around the best ones of members that choose among
        columns, and averaged. It rarely matters.
    time_limit : float, optional
        Seconds; members that are not fitted in time are left out, with a warning.
    verbose : int, default=0
    random_state : int, RandomState instance or None, default=None
        For `n_draws`.
    callback : callable, optional
        Called after the fit of each member; the pool is complete when it returns a true value.

    Attributes
    ----------
    transduction_ : ndarray of the shape of y
        The targets of all training rows, given ones kept.
    members_ : list of str
        Names of the members.
    weights_ : ndarray of shape (n_members,) or (n_targets, n_members)
        w, of sum one.
    scores_ : ndarray of the same shape
        Share of the variance of left-out targets that each member explains.
    evidences_ : ndarray of shape (n_kernels,) or (n_targets, n_kernels)
        Logarithms of the evidences of the kernels.
    loo_error_ : float or ndarray of shape (n_targets,)
        Mean squared error of the average on targets that are left out, in their units.
    relevances_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Shares of the columns in the distances of rows by which kernels compare them.
    representations_ : list of str
        What the members that carry weight are built on.
    n_features_in_ : int
    objective_ : float
        Minus the logarithm of the evidence of the average, summed over targets.
    status_, solver_, n_iter_, history_
        How the run went; an iteration is the fit of a member.

    See Also
    --------
    SemiSupervisedClassifier : The same for classes.
    ReverseRegressor : Inputs reconstructed from targets.
    SNFRegressor : Latent rows that reconstruct inputs and targets.
    regfactor.model_selection.compare_with_supervised : Whether rows without targets help.

    Notes
    -----
    For a row s of D numbers with relevances r_j = exp(rho_j) the kernels are linear, sum_j r_j s_j
    s'_j / D, smooth, exp(-sum_j r_j (s_j - s'_j)^2 / (2 c D)), or a mixture of both. A small prior
    deviation of rho_j keeps what all rows made of the inputs, a large one lets the targets choose.
    The parameters minimize log|C| / 2 + (M / 2) log(y'Py) - log prior, where C is the covariance of
    the targets, P its inverse without the offset, and M their number less one [1]_.

    A left-out target is predicted from the others exactly; what it contributed to the parameters is
    taken back in first order [3]_. Predictions leave the range of the given targets by at most one
    range, more only where left-out errors are small. Targets are fitted one by one: several are as
    good as each alone. Above 400 targets, parameters are those of 400 of them, which serve as
    inducing rows for all [2]_. Missing inputs are filled by a principal component model of all
    rows. A sparse table of more than 100 columns is represented by its first 60 principal factors,
    and never made dense.

    With some hundreds of targets a supervised model, such as gradient boosting, may do better: add
    it to `members`.

    References
    ----------
    .. [1] Rasmussen & Williams, "Gaussian processes for machine learning", MIT Press 2006.
    .. [2] Quinonero-Candela & Rasmussen, "A unifying view of sparse approximate Gaussian process
       regression", JMLR 2005.
    .. [3] Giordano et al., "A Swiss army infinitesimal jackknife", AISTATS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from regfactor import SemiSupervisedRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> few = np.full(len(y), np.nan)
    >>> few[::10] = y[::10]
    >>> model = SemiSupervisedRegressor().fit(X, few)
    >>> print(f"R^2 {model.score(X, y):.2f}")
    R^2 0.42
    >>> lower, upper = model.predict_interval(X, level=0.9)
    >>> print(f"covered {np.mean((lower <= y) & (y <= upper)):.2f}")
    covered 0.95
    """

    _no_certificate = "kernels are averaged by their evidence, and the model"
    _takes_missing = True
    _takes_sparse = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "members": [StrOptions({AUTO}), list, tuple],
        "n_draws": [NumberInterval(Integral, 0, None, closed="left")],
        "time_limit": [NON_NEGATIVE, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "callback": [callable, None],
    }

    members: Any = "auto"
    n_draws: int = 0
    _: KW_ONLY
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn representations from all rows, and fit the members to those with targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            NaN where an entry is missing; absent entries of a sparse table are zeros.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            NaN where a target is not known; in rows of several targets single ones may be.
        sample_weight : array-like of shape (n_samples,), optional
            Weights act as repetition counts of rows and targets, relative ones where they are below
            one on average; a row of weight zero is predicted as a new one.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    def _read(self, X: Any, y: Any, sample_weight: Any = None) -> RegressorInputs:
        X = self._as_inputs(X, reset=True)
        targets = Targets.of(y, X)
        weights = weights_of_all_rows(X, sample_weight)
        check_outlying_entries(X, weights, getattr(self, "feature_names_in_", None))
        counted = weights > 0
        targets.check_given(counted)
        known = ~np.isnan(targets.table).all(axis=1)
        check_outlying_entries(targets.table, weights * known, targets.names, "y")
        _warn_of_targets(targets.table[counted])
        return RegressorInputs(X, targets, weights, counted)

    def _as_inputs(self, X: Any, reset: bool) -> Any:
        X = validated(
            self,
            X,
            accept_sparse="csr",
            ensure_all_finite="allow-nan",
            reset=reset,
            every_column=True,
        )
        if is_sparse(X) and X.shape[1] <= MAX_COLUMNS:
            return X.toarray()
        return X

    def _state(self, inputs: RegressorInputs) -> RegressionPool:
        counted = inputs.counted
        X = inputs.X
        weights = inputs.weights
        known = inputs.targets.table
        if not counted.all():
            X = X[counted]
            weights = weights[counted]
            known = known[counted]
        columns = [TargetColumn.of(column, X, weights) for column in known.T]
        designs, regressors = self._named_members()
        designs = designs_for(X, designs)
        wanted = list(dict.fromkeys(design.representation for design in designs))
        with_targets = np.flatnonzero(~np.isnan(known).all(axis=1))
        table = RepresentedTable(X.astype(np.float64, copy=False), weights, wanted, with_targets)
        seed = 0
        if self.n_draws:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        members: list[Any] = []
        for design in designs:
            members.append(EvidenceMember(design, table, columns, self.n_draws, seed))
        for name, regressor in regressors:
            members.append(OutsideMember(name, regressor, table, columns))
        return RegressionPool(members, table, columns)

    def _named_members(self) -> tuple[list[KernelDesign], list[tuple[str, Any]]]:
        """Return the kernels and the regressors that the parameter names."""
        if isinstance(self.members, str):
            return list(DESIGNS), []
        known = {design.name: design for design in DESIGNS}
        designs: list[KernelDesign] = []
        regressors = []
        for item in self.members:
            if not isinstance(item, str):
                regressors.append(_named_regressor(item))
            elif item == AUTO:
                designs.extend(DESIGNS)
            else:
                designs.append(choose(item, known, "member"))
        return designs, regressors

    def _publish(
        self,
        choice: Choice[RegressionPool],
        solution: Solution[Any],
        inputs: RegressorInputs,
        run: Run,
    ) -> Solution[Any]:
        pool = choice.problem
        kernels = [member for member in solution.point if isinstance(member, FittedEvidenceMember)]
        outside = [member for member in solution.point if isinstance(member, FittedOutsideMember)]
        averages: list[Any] = [None] * len(pool.columns)
        if kernels:
            averages = kernel_averages(kernels, pool.columns)
        models = []
        for t, average in enumerate(averages):
            models.append(target_model(pool, t, average, [member.fits[t] for member in outside]))
        representations = None
        wanted = []
        if kernels:
            representations = pool.table.representations
            wanted = list(dict.fromkeys(r for model in models for r in model.used_representations))
        self._model = RegressionModel(representations, wanted, models)
        self._flat = inputs.targets.flat
        self._publish_members(kernels, outside, averages, models)
        means, _ = self._model.moments(inputs.X)
        self.transduction_ = inputs.targets.completed(means, inputs.X.dtype)
        self._keep_witnesses(pool, inputs)
        return solution

    def _publish_members(
        self,
        kernels: Sequence[FittedEvidenceMember],
        outside: Sequence[FittedOutsideMember],
        averages: Sequence[Any],
        models: Sequence[TargetModel],
    ) -> None:
        """Set what is reported of members, in arrays with a row for each of several targets."""
        self.members_ = [member.design.name for member in kernels]
        self.members_ += [member.name for member in outside]
        self._assumptions = [member.design.assumes for member in kernels]
        self._assumptions += [member.assumes for member in outside]
        weights = []
        scores = []
        evidences = []
        for average, model in zip(averages, models, strict=True):
            own_weights = model.weights
            own_errors = model.errors
            if average is not None:
                own_weights = np.append(model.weights[0] * average.weights, model.weights[1:])
                own_errors = np.append(average.errors, model.errors[1:])
                evidences.append(average.log_evidences)
            weights.append(own_weights)
            scores.append(1 - own_errors)
        errors = [model.held_out.error * model.column.scale**2 for model in models]
        relevances = [self._relevances(model) for model in models]
        self.weights_ = self._by_target(weights)
        self.scores_ = self._by_target(scores)
        self.evidences_ = self._by_target(evidences)
        self.loo_error_ = self._by_target(errors)
        self.relevances_ = self._by_target(relevances)
        self.representations_ = [representation.name for representation in self._model.wanted]

    def _by_target(self, values: Sequence[Any]) -> Any:
        """Return one value if y is a vector, else an array with one for each target."""
        if not self._flat:
            return np.array(values)
        if len(values) and np.ndim(values[0]) == 0:
            return float(values[0])
        return np.array(values).reshape(-1)

    def _relevances(self, model: TargetModel) -> Array:
        """Return the share of each column in the metrics of the kernels, weighted as they are."""
        total = np.zeros(self.n_features_in_)
        representations = self._model.representations
        if model.kernels is None or representations is None:
            return total
        for weight, representation, fit in model.kernels.items():
            for share, posterior in zip(fit.shares, fit.posteriors, strict=True):
                own = representations.column_shares(representation, posterior.at.relevances)
                total[representations.kept] += weight * share * own
        return total

    def _keep_witnesses(self, pool: RegressionPool, inputs: RegressorInputs) -> None:
        """Keep what `explain` compares by: rows with targets, and some without."""
        table = pool.table
        without = np.setdiff1d(np.arange(len(table.weights)), table.with_targets)
        if len(without) > MAX_WITNESSES:
            spread = np.linspace(0, len(without) - 1, MAX_WITNESSES).astype(int)
            without = without[spread]
        known = inputs.targets.table[inputs.counted][table.with_targets]
        self._labeled_rows = table.table[table.with_targets]
        self._labeled_targets = known
        self._labeled_weights = table.weights[table.with_targets]
        self._witnesses = table.table[without]

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the targets of every row, and how far they may be off.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to return the deviation of the predictive distribution of each target, its
            noise included, too.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets), or two of them
        """
        check_is_fitted(self)
        X = self._as_inputs(X, reset=False)
        means, deviations = self._model.moments(X, with_variance=bool(return_std))
        if not return_std:
            return self._shaped(means, X.dtype)
        inflations = [model.held_out.inflation for model in self._model.targets]
        return self._shaped(means, X.dtype), self._shaped(deviations * inflations, X.dtype)

    def predict_interval(self, X: Any, level: float = 0.9) -> PredictionInterval:
        """Return limits between which a share `level` of new targets lies.

        The deviations of the model are multiplied by the number within which that share of left-out
        targets was, at the rank that a finite sample needs. The level holds on average, for rows
        like those with targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        level : float, default=0.9

        Returns
        -------
        PredictionInterval
            `lower` and `upper`, each of the shape of `predict`.
        """
        check_is_fitted(self)
        factors = []
        for model in self._model.targets:
            held_out = model.held_out
            n_labels = float(held_out.weights.sum())
            message = too_few_labels_message(f"A {level:.0%} interval", n_labels, level)
            if message:
                raise ValueError(message)
            factors.append(conformal_quantile(held_out.scores, level, held_out.weights))
        X = self._as_inputs(X, reset=False)
        means, deviations = self._model.moments(X, with_variance=True)
        lower, upper = split_interval(means, 1.0, deviations * factors)
        return PredictionInterval(self._shaped(lower, X.dtype), self._shaped(upper, X.dtype))

    def _shaped(self, table: Array, dtype: Any) -> Array:
        """Return predictions in the shape of y."""
        table = table.astype(dtype, copy=False)
        if self._flat:
            return table[:, 0]
        return table

    def explain(self) -> Explanation:
        """Return which members carried the result, and whether rows without targets changed it.

        Fits the same model to the rows with targets alone, for the comparison.

        Returns
        -------
        Explanation
            A table (member, weight, score, what it assumes) and sentences; `print` shows both.
        """
        check_is_fitted(self)
        weights = np.atleast_2d(self.weights_).mean(axis=0)
        scores = np.atleast_2d(self.scores_).mean(axis=0)
        reports = []
        for k, name in enumerate(self.members_):
            reports.append(
                MemberReport(name, float(weights[k]), float(scores[k]), self._assumptions[k]),
            )
        first = max(reports, key=lambda report: report.weight)
        sentences = [
            f"{first.member} carries most ({first.weight:.0%}): {first.assumes}.",
            self._said_of_other_rows(),
        ]
        name = "share of the variance of left-out targets that a member explains; 1 is best"
        return Explanation.of(reports, name, sentences)

    def _said_of_other_rows(self) -> str:
        """Return a sentence on what the rows without targets changed."""
        if not self._witnesses.shape[0]:
            return "All rows have targets."
        if not any(isinstance(model.kernels, WeightedKernels) for model in self._model.targets):
            return "No member uses the rows without targets."
        twin = clone(self).set_params(callback=None, verbose=0, time_limit=None)
        twin.fit(self._labeled_rows, self._labeled_targets, self._labeled_weights)
        scales = [model.column.scale for model in self._model.targets]
        # not by predict, which would miss the names of columns
        ours, _ = self._model.moments(self._witnesses)
        without, _ = twin._model.moments(self._witnesses)
        change = float(np.sqrt(np.mean(np.square((ours - without) / scales))))
        said = "hardly changed the result" if change < SMALL_CHANGE else "changed the result"
        error = float(np.mean(np.sqrt(self.loo_error_) / scales))
        error_without = float(np.mean(np.sqrt(twin.loo_error_) / scales))
        return (
            f"Rows without targets {said}: predictions move by {change:.2f} deviations of the "
            f"target, and left-out targets are missed by {error:.2f} deviations instead of "
            f"{error_without:.2f}."
        )


def _named_regressor(item: Any) -> tuple[str, Any]:
    """Return the name and the regressor of a pair; raise for anything else."""
    is_pair = isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str)
    if not is_pair or not (hasattr(item[1], "fit") and hasattr(item[1], "predict")):
        raise ValueError(
            "members holds names of members, 'auto' for all of them, and pairs (name, regressor), "
            f"such as ('forest', RandomForestRegressor()); got {item!r}.",
        )
    if isinstance(item[1], type):
        raise ValueError(f"Give an instance of the member {item[0]!r}: {item[1].__name__}().")
    return item[0], item[1]


def _warn_of_targets(Y: Array) -> None:
    """Warn where -1 seems to mark rows without a target, or a target is known of one row alone."""
    if len(Y) > 2 and not np.isnan(Y).any() and np.mean(Y == UNLABELED_CLASS) > 0.5:
        warn(
            "Most targets are -1, and -1 is a number here. If it marks rows without a target, as "
            "it does for classes, give NaN instead."
        )
    n_known = np.count_nonzero(~np.isnan(Y), axis=0)
    if (n_known == 1).any():
        warn(
            f"Target column {int(np.argmax(n_known == 1))} is known in one row, whose value is "
            "predicted for all others. Give a second one."
        )
