"""The one way through a fit: check parameters, read inputs, state the problem, solve it, publish.

Every estimator of the library is an `Estimator`. Its `fit` documents its arguments and calls
`_fit`, which no family overrides; a family states what differs in `_read`, `_state` and `_publish`.
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted

from regfactor.core.loop import Clock, Limits, Record, Solution, relative
from regfactor.core.params import warn
from regfactor.engine.threads import threads
from regfactor.fitting.certificate import Certificate, no_certificate
from regfactor.fitting.containers import refuse_containers
from regfactor.fitting.labels import named_alike, require_same_rows
from regfactor.fitting.parameters import check_parameters
from regfactor.problems.base import Problem
from regfactor.solvers.base import solve_within

Stated = TypeVar("Stated", bound=Problem[Any])


WEIGHTS = ("sample_weight", "entry_weight", "offset", "covariates")  # of tables, in this order


@dataclass(frozen=True)
class Run:
    """What the steps of one fit share: the limits, the time that is left, the random numbers."""

    limits: Limits
    clock: Clock
    random: np.random.RandomState

    def remaining(self) -> Limits:
        """Return the limits with the time that is left of the whole fit."""
        if self.clock.time_limit is None:
            return self.limits
        return replace(self.limits, time_limit=self.clock.left)

    def seed(self) -> int:
        """Return a random seed."""
        return int(self.random.randint(2**31 - 1))


@dataclass(frozen=True)
class Choice(Generic[Stated]):
    """The problem that is solved, and how its parameters were chosen where they were "auto"."""

    problem: Stated
    selection: Any = None


class Estimator(BaseEstimator, abc.ABC):
    """An estimator that states a problem; fitted attributes of the run are set here, once."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    _certificate: Certificate | None = None
    # in the error of a missing certificate: what has no convex form, or, where the optimum is
    # global without a bound, why there is none
    _no_certificate = "the model"
    _locally = True
    # a bound that is proven, where that of the solution rests on a local search
    _relaxed_bound: float | None = None
    # the names of what a fit is given for its rows, which are matched by position; () where they
    # are those of scikit-learn
    _row_names: tuple[str, ...] = ()
    _matches_index = False  # or by the index of frames
    # whether tables may have missing entries, and be sparse
    _takes_missing = False
    _takes_sparse = False
    # what estimators of a closed form have no parameter for
    max_iter: int = 1000
    tol: float = 0.0
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None
    n_jobs: int | None = None

    def _fit(self, *data: Any, **more: Any) -> Self:
        """Fit to data; a failure at any step leaves the estimator as it was."""
        with all_or_nothing(self):
            limits = Limits(
                tol=self.tol,
                max_iter=self.max_iter,
                time_limit=self.time_limit,
                max_rank=getattr(self, "max_rank", None),
                callback=self.callback,
                progress=print_progress if self.verbose else None,
            )
            run = Run(limits, Clock(self.time_limit), check_random_state(self.random_state))
            for given in data:
                if not isinstance(given, np.ndarray | None):
                    refuse_containers(given)
            if hasattr(data[0], "iloc") and not self._matches_index:
                self._refuse_other_order(data)
            try:
                inputs = self._read(*data, **more)
            except (TypeError, ValueError):
                _refuse_annotated(*data)
                raise
            at_once = nullcontext() if self.n_jobs is None else threads(self.n_jobs)
            with at_once, self._context(inputs):
                problem = self._state(inputs)
                problem.check()
                choice = self._choose(problem, inputs, run)
                solution = self._solve(choice.problem, inputs, run)
                published = self._publish(choice, solution, inputs, run)
                self._record(published)
        return self

    def _refuse_other_order(self, data: tuple[Any, ...]) -> None:
        """Raise for frames, targets or weights whose rows have the names of X in another order."""
        for j, other in enumerate(data[1:], start=1):
            if not named_alike(data[0], other):
                continue
            names = self._row_names
            if not names:
                supervised = get_tags(self).target_tags.required
                names = ("X", "y", "sample_weight") if supervised else ("X", *WEIGHTS)
            require_same_rows(data[0], other, (names[0], names[j]))

    @abc.abstractmethod
    def _read(self, *data: Any, **more: Any) -> Any:
        """Return the arguments of `fit` as checked arrays, and what `_publish` needs of them."""

    @abc.abstractmethod
    def _state(self, inputs: Any) -> Problem[Any]:
        """Return the problem that this estimator is; nothing is computed yet."""

    @abc.abstractmethod
    def _publish(
        self,
        choice: Choice[Any],
        solution: Solution[Any],
        inputs: Any,
        run: Run,
    ) -> Solution[Any]:
        """Set the fitted attributes of the family; return the solution as it was published."""

    def _context(self, inputs: Any) -> AbstractContextManager[Any]:
        """Return a context for all steps after reading: names in errors, threads of BLAS."""
        return nullcontext()

    def _choose(self, problem: Any, inputs: Any, run: Run) -> Choice[Any]:
        """Return the problem at the parameters that held-out data choose where they are "auto"."""
        return Choice(problem)

    def _solve(self, problem: Any, inputs: Any, run: Run) -> Solution[Any]:
        """Return the solution; families with several starts or a start of their own override it."""
        return solve_within(problem, run.remaining())

    def _record(self, solution: Solution[Any]) -> None:
        """Set what every run reports, and warn if it did not converge."""
        self.objective_ = float(solution.objective)
        self.status_ = solution.status
        self.solver_ = solution.solver
        self.n_iter_ = solution.n_iter
        self.history_ = solution.history
        self._certificate = None
        if solution.bound > -np.inf:
            self._certificate = Certificate(
                self.objective_,
                float(solution.bound),
                solution.rigorous,
                solution.floor,
                self._relaxed_bound,
            )
        if solution.status.converged:
            return
        complaint = self._complaint(solution)
        if complaint is not None:
            warn(f"{type(self).__name__} {complaint}", ConvergenceWarning)

    def _complaint(self, solution: Solution[Any]) -> str | None:
        """Return what went wrong in a run that did not converge, and the remedy, or None."""
        return f"did not converge: {solution.status.message}.{self._distance(solution)}"

    def _distance(self, solution: Solution[Any]) -> str:
        """Return a sentence on how far a solution is from the tolerance, where it has a bound."""
        if self._certificate is None:
            return ""
        gap = solution.relative_gap
        if gap <= self.tol:  # as for large counts, whose objective is far below zero
            return (
                f" Relative gap {gap:.2g}, tol {self.tol:g}, which is required relative to the "
                f"loss above its least value too; gap {solution.gap:.2g}."
            )
        return f" Relative gap {gap:.2g}, tol {self.tol:g}."

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_missing
        tags.input_tags.sparse = self._takes_sparse
        return tags

    @property
    def certificate_(self) -> Certificate:
        """Distance of the objective from the global optimum; its `str` is one plain sentence."""
        check_is_fitted(self)
        if self._certificate is None:
            raise no_certificate(self, self._no_certificate, self._locally)
        return self._certificate

    @property
    def gap_(self) -> float:
        """Objective minus a lower bound of the global optimum."""
        return self.certificate_.gap

    @property
    def relative_gap_(self) -> float:
        """The gap as a share of the objective."""
        return self.certificate_.relative_gap


class Transformer(TransformerMixin):
    """A transformer that returns the precision of its input."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Check the parameters, remove what an earlier fit learned, restore it if the block raises.

    Fits replace what they learned before and never write into it, so that the attributes alone need
    be kept.
    """
    check_parameters(estimator)
    before = dict(vars(estimator))
    for name in before:
        if name.endswith("_") and not name.startswith("_"):  # this fit may not set all of them
            del vars(estimator)[name]
    try:
        yield
    except BaseException:  # an interrupt by the user too
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def print_progress(record: Record) -> None:
    """Show the state of a run on one line of the terminal."""
    gap = relative(record.objective - record.bound, record.objective, 0.0)
    shown = f"  relative gap {gap:.1e}" if np.isfinite(gap) else ""
    print(
        f"\r{record.n_iter:6d}  objective {record.objective:.6g}{shown}   ",
        end="",
        file=sys.stderr,
        flush=True,
    )


def _refuse_annotated(*tables: Any) -> None:
    """Raise for AnnData, which holds several tables, with the names of those it has."""
    for table in tables:
        if hasattr(table, "obs_names") and hasattr(table, "layers"):
            layers = ", ".join(f"layers[{name!r}]" for name in table.layers)
            others = f" or {layers}" if layers else ""
            raise ValueError(
                "An AnnData object holds several tables: give the one that is meant, such as "
                f"adata.X{others}, or adata.to_df() to keep the names of its columns.",
            )
