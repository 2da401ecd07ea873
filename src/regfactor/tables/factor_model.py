"""Any loss with any gauge or any pair of factor penalties."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions

from regfactor.core.factors import FactorPoint
from regfactor.core.loop import Limits, Solution, Status
from regfactor.core.params import Array, UnsupportedProblem, as_floats, is_option, warn
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.factor_estimator import TABLE_CONSTRAINTS, TableInputs
from regfactor.fitting.inputs import warn_of_empty
from regfactor.fitting.known import NOTHING, Known
from regfactor.fitting.leverage import HeldOutEntries
from regfactor.fitting.logged_counts import warn_of_logarithms
from regfactor.fitting.parameters import AUTO, COUNT, NON_NEGATIVE
from regfactor.fitting.scoring import Scoring
from regfactor.fitting.selection import select_rank
from regfactor.losses import Loss
from regfactor.losses.bregman import Bregman
from regfactor.maps import Identity, Map
from regfactor.penalties import Free, Gauge, OneHot, Penalty, SquaredL2, induced
from regfactor.penalties.numerical import InducedNorm, numerical
from regfactor.problems import Convex, Data, Design, Factored
from regfactor.problems.convex import NEGATIVE_REMEDY
from regfactor.solvers.base import solve_within
from regfactor.solvers.starts import random_local
from regfactor.tables.intervals import CompletionIntervals


class FactorModel(CompletionIntervals):
    """min over Phi, C of sum of observed w f((Phi C)_ij; x_ij) + alpha R(Phi, C): any parts.

    The model is convex, solved to its global optimum and certified when R is a gauge
    (`gauge=Trace()`), or when the two factor penalties induce one and `rank` is left free. Of two
    norms of atoms, `AtomNorms(norm)` and `UnitBall(norm)`, that induce a norm without a formula,
    the dual norm is found by local search: the certificate is then numerical, and states what a
    convex relaxation proves. With a rank, with known factors, or with penalties that induce no
    gauge, the model is solved locally, and `gap_` raises. With `fit_intercept` unpenalized offsets
    of the columns are added to Phi C; with a `map` the loss sees map(Phi C).

    Parameters
    ----------
    loss : str or Loss, default="squared"
    gauge : Gauge, optional
        Norm on Z = Phi C: `Trace()`, `Rows(norm)`, `Columns(norm)`, `TwoView(n_first)`.
    on_codes, on_components : Penalty, optional
        Penalties on the factors: `SquaredL2()`, `NonNegative()`, `OneHot()`, `Simplex()`,
        `Lasso()`, ... If only one is given, the other factor is free; if neither, both are
        `SquaredL2()`.
    rank : int or "auto", optional
        Number of atoms of a local fit, which may exceed the number of rows and columns; None leaves
        it to the gauge or to what is known, "auto" to a tenth of the entries, held out.
    alpha : float or "auto", default=1.0
        Strength of the penalty; "auto", for convex models, is chosen by held-out entries.
    fit_intercept : bool, default=False
        Whether there are offsets of the columns, which are not penalized.
    known_codes : array-like of shape (n_samples, rank), optional
        Codes that are held; NaN marks free ones. All known: supervised learning of the components.
        Rows known: semi-supervised. The fit is local.
    map : Map, optional
        Linear map from Phi C to the predictors of the loss, for convex models: `Lags(q)`,
        `LeftProduct(A)`, `RightProduct(A)`, `Mask(factors)` of `regfactor.maps`.
    require : {"global"}, optional
        Raise if the problem has no convex form.
    known_components : array-like of shape (rank, n_features), optional
        Components that are held; NaN marks free ones. The fit is local.
    n_init : int, default=1
        Number of starts of a local fit, the first of them near the data and the others random; the
        best is kept.
    rule : {"min", "1se"}, default="min"
        How `alpha="auto"` chooses among the strengths it tried.
    sparse_zeros : {"missing", "observed"}, default="missing"
        What the absent entries of a sparse matrix are. Stored zeros are always observed.
    max_iter : int, default=1000
    tol : float, default=1e-4
        Relative duality gap, or in a local fit the relative change, at which the fit stops.
    time_limit : float, optional
        Seconds after which the solver stops; a warning then reports the gap.
    verbose : int, default=0
        1 shows a line with the objective and the gap.
    random_state : int, optional
        Seed of random starts, and of the start of a local fit with hard or shared codes.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.
    n_jobs : int, optional
        Threads that solve the rows of a table with missing entries at once; -1 for all processors.
        Results are the same for any number.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, n_atoms)
    components_ : ndarray of shape (n_atoms, n_features)
    is_convex_ : bool
        Whether the fit is certified to be near the global optimum.
    rank_ : int
        Number of atoms of a local fit.
    intercept_ : ndarray of shape (n_features,)
        Offsets of the columns, zero without `fit_intercept`.
    covariate_coef_ : ndarray of shape (n_covariates, n_features)
        With covariates: what each adds to the predictors.
    covariate_names_ : list of str
        With covariates: their names, with the level of an indicator.
    local_optima_ : ndarray of shape (n_init,)
        With several starts: the objectives that they led to, in the order of the starts.

    See Also
    --------
    ConvexSubspace : The squared loss with a trace norm.
    regfactor.atlas : Which classical algorithm is which factor model.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import FactorModel
    >>> from regfactor.penalties import OneHot
    >>> X = np.array([[0.0, 0.1], [0.1, 0.0], [5.0, 5.1], [5.1, 5.0]])
    >>> kmeans = FactorModel(on_codes=OneHot(), rank=2, random_state=0).fit(X)
    >>> sorted(kmeans.components_.mean(axis=1).round(2).tolist())
    [0.05, 5.05]

    Non-negative factorization with missing entries; its only penalty are the signs, so that alpha
    plays no part:

    >>> from regfactor.penalties import NonNegative
    >>> parts = FactorModel("kl", on_codes=NonNegative(), on_components=NonNegative(), rank=1)
    >>> parts = parts.fit(np.array([[1.0, 2.0], [2.0, np.nan], [3.0, 6.0]]))
    >>> parts.complete([[4.0, np.nan]]).round(2)
    array([[4., 8.]])

    Known codes are regressors, so that components are the coefficients of a ridge regression:

    >>> from regfactor.penalties import SquaredL2
    >>> inputs = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> targets = 1.0 + 2.0 * inputs
    >>> ridge = FactorModel(on_components=SquaredL2(), alpha=1e-6, known_codes=inputs,
    ...                     fit_intercept=True, tol=1e-12)
    >>> ridge.fit(targets).components_.round(3), ridge.intercept_.round(3)
    (array([[2.]]), array([1.]))
    """

    _parameter_constraints = {
        **TABLE_CONSTRAINTS,
        "gauge": [Gauge, None],
        "on_codes": [Penalty, None],
        "on_components": [Penalty, None],
        "rank": [COUNT, AUTO, None],
        "alpha": [NON_NEGATIVE, AUTO],
        "fit_intercept": ["boolean"],
        "known_codes": ["array-like", None],
        "map": [Map, None],
        "require": [StrOptions({"global"}), None],
        "known_components": ["array-like", None],
        "n_init": [COUNT],
    }
    mixed = True

    def __init__(
        self,
        loss: Any = "squared",
        gauge: Gauge | None = None,
        on_codes: Penalty | None = None,
        on_components: Penalty | None = None,
        rank: int | str | None = None,
        alpha: Any = 1.0,
        fit_intercept: bool = False,
        known_codes: Any = None,
        map: Map | None = None,
        require: str | None = None,
        *,
        known_components: Any = None,
        n_init: int = 1,
        rule: str = "min",
        sparse_zeros: str = "missing",
        max_iter: int = 1000,
        tol: float = 1e-4,
        time_limit: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callback: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.loss = loss
        self.gauge = gauge
        self.rank = rank
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.known_codes = known_codes
        self.map = map
        self.require = require
        self.known_components = known_components
        self.n_init = n_init
        self.on_codes = on_codes
        self.on_components = on_components
        self.rule = rule
        self.sparse_zeros = sparse_zeros
        self.max_iter = max_iter
        self.tol = tol
        self.time_limit = time_limit
        self.verbose = verbose
        self.random_state = random_state
        self.callback = callback
        self.n_jobs = n_jobs

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
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
        entry_weight : array-like of shape (n_samples, n_features), optional
            How much each entry counts here; `transform` counts the entries of a row alike.
        lower, upper : array-like of shape (n_samples, n_features), optional
            Limits of missing entries of columns of numbers, NaN or infinite where they are open;
            under the losses "squared" and "huber" (see `losses.Censored`).
        covariates : array-like or frame of shape (n_samples, n_covariates), optional
            What rows are regressed on, without a penalty, in addition to Phi C; labels become
            indicators of their levels.

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight, entry_weight, known=Known(lower, upper, covariates))

    def _read(
        self,
        X: Any,
        sample_weight: Any = None,
        entry_weight: Any = None,
        /,
        known: Known = NOTHING,
    ) -> TableInputs:
        return self._read_table(X, sample_weight, entry_weight, known)

    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[Any],
        inputs: TableInputs,
        run: Run,
    ) -> Solution[Any]:
        published = super()._publish(choice, solution, inputs, run)
        self.is_convex_ = isinstance(choice.problem, Convex)
        if not self.is_convex_:
            self.rank_ = len(self.components_)
            _warn_if_unbounded(choice.problem, published.point)
        elif self._has_map:
            self.components_ = published.point.factors.C
        self._relaxed_bound = None
        if self.is_convex_ and isinstance(choice.problem.gauge, InducedNorm):
            self._relaxed_bound = choice.problem.relaxed_bound(solution.point.dual)
        return published

    @property
    def _has_map(self) -> bool:
        return self.map is not None and not isinstance(self.map, Identity)

    def transform(
        self,
        X: Any,
        *,
        lower: Any = None,
        upper: Any = None,
        covariates: Any = None,
    ) -> Array:
        """Return the codes of each row, scored alone with the components held fixed.

        Missing entries (NaN) are allowed.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
        lower, upper : array-like of shape (n_samples, n_features), optional
            Limits of missing entries, as in `fit`.
        covariates : array-like or frame of shape (n_samples, n_covariates), optional
            Those of the rows, where `fit` was given some.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        return self._transform(X, Known(lower, upper, covariates))

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
        X : array-like of shape (n_samples, n_features)
            The training table or new rows.
        lower, upper : array-like of shape (n_samples, n_features), optional
            Limits of missing entries, as in `fit`.
        covariates : array-like or frame of shape (n_samples, n_covariates), optional
            Those of the rows, where `fit` was given some.

        Returns
        -------
        The same kind of table as X.
        """
        return self._complete(X, Known(lower, upper, covariates))

    def inverse_transform(self, X: Any, *, covariates: Any = None) -> Array:
        """Return the table that codes predict, in the units of the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
        covariates : array-like or frame of shape (n_samples, n_covariates), optional
            Those of the rows, where `fit` was given some; None takes their means there, or zeros
            without an intercept.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        if self.map is not None and self._has_map and not self.map.rowwise:
            raise UnsupportedProblem(
                f"map={self.map} couples rows, so that codes of some rows predict nothing alone; "
                "map(codes_ @ components_) + intercept_ are the predictors of the training table."
            )
        return self._inverse_transform(X, covariates)

    def _cross_fitted(self, X: Any, known: Known) -> list[HeldOutEntries]:
        if self._has_map or self.known_codes is not None:
            raise UnsupportedProblem(
                "Intervals need codes that are scored row by row, which a map or known codes do "
                "not leave free."
            )
        return super()._cross_fitted(X, known)

    def _state(self, inputs: TableInputs) -> Convex | Factored:
        on_codes, on_components = self._penalties()
        gauge = self._gauge(on_codes, on_components)
        if gauge is not None:
            self._check_row_weights(inputs, gauge)
            problem = self._convex(inputs, gauge)
            if self.map is None or not self._has_map:
                return problem
            self.map.check(problem.data.shape)
            return replace(problem, map=self.map)
        if self._has_map:
            raise UnsupportedProblem(
                f"map={self.map} needs a convex model, gauge=Trace() or another gauge: factors of "
                "a given rank have no updates behind a map (regfactor/solvers/updates.py)."
            )
        known_codes = self._known("known_codes")
        known_components = self._known("known_components")
        rank = self._rank(on_codes, on_components, known_codes, known_components)
        n, d = inputs.table.shape
        if known_codes is not None:
            if len(known_codes) != n:
                raise ValueError(
                    f"known_codes must have a row for each of the {n} rows of the table, got "
                    f"{len(known_codes)}."
                )
            known_codes = known_codes[inputs.counted].astype(inputs.table.dtype)
        if known_components is not None:
            known_components = known_components.astype(inputs.table.dtype)
        if self.alpha:
            on_both = (on_codes, (n, rank)), (on_components, (rank, d))
            _warn_without_minimum(*on_both, known_codes, known_components)
        if not isinstance(on_codes, OneHot):  # whose predictors are means of the data
            _refuse_negative(inputs.loss, d)
        return Factored(
            Data.of(
                inputs.learned,
                inputs.loss,
                inputs.entry_weights,
                limits=inputs.learned_limits,
            ),
            on_codes,
            on_components,
            rank,
            self._strength,
            known_codes,
            known_components,
            row_weights=inputs.rows,
            design=self._design(inputs),
        )

    def _design(self, inputs: TableInputs) -> Design | None:
        """Return what the rows of a local fit are regressed on: intercepts, and covariates."""
        n_intercepts = int(self.fit_intercept)
        D = np.ones((inputs.learned.shape[0], n_intercepts), inputs.table.dtype)
        if inputs.covariates is not None:
            D = np.hstack([D, inputs.regressors])
        return Design(D) if D.shape[1] else None

    def _check_row_weights(self, inputs: TableInputs, gauge: Gauge) -> None:
        """Raise for weights of rows where they cannot act as repetition counts."""
        if inputs.rows is None:
            return
        if np.isnan(gauge.power):
            raise UnsupportedProblem(
                f"{gauge} sorts rows into blocks, in which sample_weight cannot act as repetition "
                "counts; leave it out, or use a norm of one block."
            )
        if self._has_map:
            raise UnsupportedProblem(
                f"sample_weight cannot act as repetition counts behind map={self.map}; leave it "
                "out, or use entry_weight."
            )

    def _known(self, name: str) -> Array | None:
        """Return known entries of a factor as numbers, or None."""
        known = getattr(self, name)
        if known is None:
            return None
        table = as_floats(known, name)
        if table.ndim != 2:
            raise ValueError(f"{name} must be a table, got {table.ndim} dimensions.")
        return table

    def _rank(
        self,
        on_codes: Penalty,
        on_components: Penalty,
        known_codes: Array | None,
        known_components: Array | None,
    ) -> int:
        """Return the number of atoms: given, that of what is known, or one until it is chosen."""
        if isinstance(self.rank, str):
            if known_codes is not None or known_components is not None:
                raise ValueError("rank='auto' has no choice where codes or components are known.")
            return 1
        if self.rank is not None:
            return self.rank
        if known_codes is not None:
            return known_codes.shape[1]
        if known_components is not None:
            return known_components.shape[0]
        raise UnsupportedProblem(
            f"on_codes={on_codes} and on_components={on_components} induce no known gauge "
            "(regfactor/penalties/induced.py), so the model needs a rank. Give rank=..., or use "
            "gauge=Trace()."
        )

    def _solve(self, problem: Any, inputs: TableInputs, run: Run) -> Solution[Any]:
        """Return the solution, the best of several starts where a local fit asks for them."""
        if isinstance(problem, Convex) or self.n_init == 1:
            return super()._solve(problem, inputs, run)
        warn_of_empty(inputs.learned, inputs.names, inputs.learned_limits)
        warn_of_logarithms(inputs.learned, inputs.loss)
        found = []
        best: Solution[Any] | None = None
        for number in range(self.n_init):
            seed = run.seed()
            limits = replace(run.remaining(), random_state=seed)
            start = None
            if number:
                start = random_local(problem, np.random.default_rng(seed))
            solution = solve_within(problem, limits, start)
            found.append(solution.objective)
            if best is None or solution.objective < best.objective:
                best = solution
            if solution.status in (Status.STOPPED, Status.TIME_LIMIT):
                best = replace(best, status=solution.status)
                break
        assert best is not None
        self.local_optima_ = np.array(found)
        return best

    def _rescored(
        self,
        score: Scoring,
        problem: Convex | Factored,
        solution: Solution[Any],
        inputs: TableInputs,
        row_scale: Any,
        run: Run,
    ) -> Solution[Any]:
        """Score rows as `transform` does, but for known codes, which stay."""
        if isinstance(problem, Factored) and problem.known_codes is not None:
            return solution
        return super()._rescored(score, problem, solution, inputs, row_scale, run)

    def _choose(self, problem: Any, inputs: TableInputs, run: Run) -> Choice[Any]:
        """Return the problem at the rank or the strength that held-out entries choose."""
        by_rank = is_option(self.rank, "auto") and not is_option(self.alpha, "auto")
        if not by_rank or not isinstance(problem, Factored):
            return super()._choose(problem, inputs, run)
        validation = self._validation(run, run.seed())
        seed = int(validation.random.integers(2**31 - 1))
        limits = Limits(tol=self.tol, max_iter=self.max_iter, random_state=seed)
        chosen = select_rank(problem, limits, validation)
        return Choice(replace(problem, rank=int(chosen.best.value)), chosen)

    def _penalties(self) -> tuple[Penalty, Penalty]:
        if self.on_codes is None and self.on_components is None:
            return SquaredL2(), SquaredL2()
        return self.on_codes or Free(), self.on_components or Free()

    def _gauge(self, on_codes: Penalty, on_components: Penalty) -> Gauge | None:
        """Return the convex form, or None; raise where parts contradict each other."""
        if self.gauge is not None and (self.on_codes is not None or self.on_components is not None):
            raise ValueError(
                "Give either a gauge or factor penalties: a gauge already represents two of them."
            )
        if self.gauge is not None and self.rank is not None:
            raise ValueError(
                "A gauge finds the rank by itself: leave rank=None, or replace the gauge by "
                "penalties."
            )
        known = self.known_codes is not None or self.known_components is not None
        if self.gauge is not None and known:
            raise ValueError(
                "A gauge finds codes and components by itself: replace it by penalties where some "
                "are known."
            )
        gauge: Gauge | None = None
        if self.gauge is not None:
            gauge = self.gauge
        elif self.rank is None and not known:
            gauge = induced(on_codes, on_components) or numerical(on_codes, on_components)
        if self.require == "global" and gauge is None:
            raise UnsupportedProblem(
                f"require='global', but on_codes={on_codes} with on_components={on_components} and "
                f"rank={self.rank} has no known convex form, which needs rank=None and a pair of "
                "regfactor/penalties/induced.py, or two norms of atoms, AtomNorms(norm) and "
                "UnitBall(norm) (regfactor/penalties/numerical.py). Use gauge=Trace(), or "
                "SquaredL2() on both factors with rank=None."
            )
        return gauge

    def _row_penalty(self, problem: Convex | Factored, codes: Array) -> Penalty | None:
        if isinstance(problem, Factored):
            return problem.on_codes if problem.on_codes.rowwise else None
        if not problem.map.rowwise and problem.map.diagonal is None:
            return None  # the map couples rows
        if np.isfinite(problem.gauge.power):
            return problem.gauge.per_row(codes)
        return None  # the norm couples all rows


def _refuse_negative(loss: Loss, width: int) -> None:
    """Raise for a loss of predictors < 0, since codes of new rows could leave them."""
    for _, part in loss.parts(width):
        if part.link_domain.high == 0:
            raise UnsupportedProblem(
                f"{part} takes predictors < 0 only, which these factors leave: use "
                f"{NEGATIVE_REMEDY}."
            )


Side = tuple[Penalty, tuple[int, int]]  # a penalty and the shape of its factor


def _warn_without_minimum(
    codes: Side,
    components: Side,
    known_codes: Array | None,
    known_components: Array | None,
) -> None:
    """Warn if one factor is penalized by its size while the other is free.

    One then shrinks while the other grows, and their product stays.
    """
    sides = {"on_codes": codes, "on_components": components}
    fixed = {"on_codes": known_codes is not None, "on_components": known_components is not None}
    for grows, held in (("on_components", "on_codes"), ("on_codes", "on_components")):
        if fixed[grows] or fixed[held]:
            continue
        if _is_free(*sides[grows]) and _is_size(*sides[held]):
            warn(
                f"With {held}={sides[held][0]} and {grows}={sides[grows][0]} there is no minimum: "
                "one factor shrinks, the other grows, and the penalty tends to zero. Give "
                f"{grows}=SquaredL2(), or {grows}=UnitBall()."
            )


def _is_free(penalty: Penalty, shape: tuple[int, int]) -> bool:
    """Return whether a penalty is zero for factors of any size."""
    return not any(_costs_of_sizes(penalty, shape))


def _is_size(penalty: Penalty, shape: tuple[int, int]) -> bool:
    """Return whether a penalty is finite and grows with the size of a factor."""
    small, larger, _ = _costs_of_sizes(penalty, shape)
    return bool(0 < small < larger < np.inf)


def _costs_of_sizes(penalty: Penalty, shape: tuple[int, int]) -> list[float]:
    """Return the penalty of factors of the right shape and of three sizes.

    Their entries are positive and differ, since a graph has no cost for equal ones.
    """
    penalty.check(shape)
    entries = 1 + np.arange(np.prod(shape)).reshape(shape) % 7 / 7
    return [penalty.value(size * entries) for size in (0.1, 0.2, 1e6)]


def _warn_if_unbounded(problem: Factored, point: FactorPoint) -> None:
    """Warn if predictions reach an end of their range under components that no penalty bounds.

    Hard codes are left out: their components are the means of groups, which may well be at an end.
    """
    F = point.factors
    if isinstance(problem.on_codes, OneHot):
        return
    if problem.alpha and not _is_free(problem.on_components, F.C.shape):
        return
    Z = F.dense()
    if problem.design is not None and point.coefficients is not None:
        Z = Z + problem.design.D @ point.coefficients
    for term in problem.data.terms:
        if isinstance(term.loss, Bregman) and _reaches_end(term.loss, Z[:, term.columns]):
            warn(
                f"Components grow without bound: under {term.loss} predictions reach an end of "
                f"their range, and on_components={problem.on_components} does not hold them. Give "
                "on_components=SquaredL2() and a positive alpha.",
                ConvergenceWarning,
            )
            return


def _reaches_end(loss: Loss, Z: Array) -> bool:
    """Return whether a prediction equals an end of the range of the data up to rounding."""
    if not loss.unbounded:
        return False
    predicted = loss.predict(Z)
    for end in (loss.domain.low, loss.domain.high):
        distance = np.abs(predicted - end)
        if np.isfinite(end) and distance.min(initial=np.inf) <= np.finfo(Z.dtype).eps:
            return True
    return False
