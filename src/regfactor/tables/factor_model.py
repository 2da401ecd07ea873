"""Any loss with any gauge or any pair of factor penalties."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions

from regfactor.core.factors import Factors
from regfactor.core.loop import Limits, Solution
from regfactor.core.params import Array, UnsupportedProblem, is_option, warn
from regfactor.fitting.base import Choice, Run
from regfactor.fitting.factor_estimator import TABLE_CONSTRAINTS, TableInputs
from regfactor.fitting.parameters import AUTO, COUNT, NON_NEGATIVE
from regfactor.fitting.selection import select_rank
from regfactor.losses import Loss
from regfactor.losses.bregman import Bregman
from regfactor.penalties import Free, Gauge, OneHot, Penalty, SquaredL2, induced
from regfactor.problems import Convex, Data, Factored
from regfactor.problems.convex import NEGATIVE_REMEDY
from regfactor.tables.intervals import CompletionIntervals


class FactorModel(CompletionIntervals):
    """min over Phi, C of sum of observed w f((Phi C)_ij; x_ij) + alpha R(Phi, C): any parts.

    The model is convex, solved to its global optimum and certified when R is a gauge
    (`gauge=Trace()`), or when the two factor penalties induce one and `rank` is left free. With a
    rank, or with penalties that induce no gauge, it is solved locally, and `gap_` raises.

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
        Number of atoms of a local fit; None leaves it to the gauge, "auto" to a tenth of the
        entries, held out.
    alpha : float or "auto", default=1.0
        Strength of the penalty; "auto", for convex models, is chosen by held-out entries.
    require : {"global"}, optional
        Raise if the problem has no convex form.
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
        Seed of the start of a local fit with hard or shared codes.
    callback : callable, optional
        Called with every `Iterate`; the run ends when it returns something true.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, n_atoms)
    components_ : ndarray of shape (n_atoms, n_features)
    is_convex_ : bool
        Whether the fit is certified to be near the global optimum.
    rank_ : int
        Number of atoms of a local fit.

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
    """

    _parameter_constraints = {
        **TABLE_CONSTRAINTS,
        "gauge": [Gauge, None],
        "on_codes": [Penalty, None],
        "on_components": [Penalty, None],
        "rank": [COUNT, AUTO, None],
        "alpha": [NON_NEGATIVE, AUTO],
        "require": [StrOptions({"global"}), None],
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
        require: str | None = None,
        *,
        rule: str = "min",
        sparse_zeros: str = "missing",
        max_iter: int = 1000,
        tol: float = 1e-4,
        time_limit: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        callback: Any = None,
    ) -> None:
        self.loss = loss
        self.gauge = gauge
        self.rank = rank
        self.alpha = alpha
        self.require = require
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

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        entry_weight: Any = None,
    ) -> Self:
        """Fit to a table; NaN marks a missing entry.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
        entry_weight : array-like of shape (n_samples, n_features), optional
            How much each entry counts here; `transform` counts the entries of a row alike.

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight, entry_weight)

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
            _warn_if_unbounded(choice.problem, published.point.factors)
        return published

    def _state(self, inputs: TableInputs) -> Convex | Factored:
        on_codes, on_components = self._penalties()
        gauge = self._gauge(on_codes, on_components)
        if gauge is not None and inputs.rows is not None and np.isnan(gauge.power):
            raise UnsupportedProblem(
                f"{gauge} sorts rows into blocks, in which sample_weight cannot act as repetition "
                "counts; leave it out, or use a norm of one block."
            )
        if gauge is not None:
            return self._convex(inputs, gauge)
        if self.rank is None:
            raise UnsupportedProblem(
                f"on_codes={on_codes} and on_components={on_components} induce no known gauge, so "
                "the model needs a rank. Give rank=..., or use gauge=Trace()."
            )
        if self.alpha:
            _warn_without_minimum(on_codes, on_components)
        if not isinstance(on_codes, OneHot):  # whose predictors are means of the data
            _refuse_negative(inputs.loss, inputs.table.shape[1])
        rank = 1 if isinstance(self.rank, str) else self.rank
        return Factored(
            Data.of(inputs.learned, inputs.loss, inputs.entry_weights),
            on_codes,
            on_components,
            rank,
            self._strength,
            row_weights=inputs.rows,
        )

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
        """Return the convex form, or None; say what is wrong where parts contradict each other."""
        if self.gauge is not None and (self.on_codes is not None or self.on_components is not None):
            raise ValueError(
                "Give either a gauge or factor penalties: a gauge already represents two of them."
            )
        if self.gauge is not None and self.rank is not None:
            raise ValueError(
                "A gauge finds the rank by itself: leave rank=None, or replace the gauge by "
                "penalties."
            )
        gauge: Gauge | None = None
        if self.gauge is not None:
            gauge = self.gauge
        elif self.rank is None:
            gauge = induced(on_codes, on_components)
        if self.require == "global" and gauge is None:
            raise UnsupportedProblem(
                f"require='global', but on_codes={on_codes} with on_components={on_components} and "
                f"rank={self.rank} has no known convex form. Use gauge=Trace(), or SquaredL2() on "
                "both factors with rank=None."
            )
        return gauge

    def _row_penalty(self, problem: Convex | Factored, codes: Array) -> Penalty | None:
        if isinstance(problem, Factored):
            return problem.on_codes
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


def _warn_without_minimum(on_codes: Penalty, on_components: Penalty) -> None:
    """Warn if one factor is penalized by its size while the other is free.

    One then shrinks while the other grows, and their product stays.
    """
    sides = {"on_codes": on_codes, "on_components": on_components}
    for grows, held in (("on_components", "on_codes"), ("on_codes", "on_components")):
        if _is_free(sides[grows]) and _is_size(sides[held]):
            warn(
                f"With {held}={sides[held]} and {grows}={sides[grows]} there is no minimum: one "
                "factor shrinks, the other grows, and the penalty tends to zero. Give "
                f"{grows}=SquaredL2(), or {grows}=UnitBall()."
            )


def _is_free(penalty: Penalty) -> bool:
    """Return whether a penalty is zero for factors of any size."""
    return not any(_costs_of_sizes(penalty))


def _is_size(penalty: Penalty) -> bool:
    """Return whether a penalty is finite and grows with the size of a factor."""
    small, larger, _ = _costs_of_sizes(penalty)
    return bool(0 < small < larger < np.inf)


def _costs_of_sizes(penalty: Penalty) -> list[float]:
    return [penalty.value(np.full((1, 1), size)) for size in (0.1, 0.2, 1e6)]


def _warn_if_unbounded(problem: Factored, F: Factors) -> None:
    """Warn if predictions reach an end of their range under components that no penalty bounds.

    Hard codes are left out: their components are the means of groups, which may well be at an end.
    """
    if isinstance(problem.on_codes, OneHot):
        return
    if problem.alpha and not _is_free(problem.on_components):
        return
    Z = F.dense()
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
