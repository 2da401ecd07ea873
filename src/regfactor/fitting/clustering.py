"""What all clusterings share: rows at the door, runs from several starts, and what is told of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from regfactor.core.linalg import is_sparse
from regfactor.core.loop import Iterate, Solution, Status, run
from regfactor.core.params import Array, Interval, is_count, is_option, warn
from regfactor.fitting.certificate import Uncertified
from regfactor.fitting.factor_estimator import _print_progress
from regfactor.fitting.inputs import names_of, naming_columns_in_errors, row_weights, validated
from regfactor.losses.distances import Divergence
from regfactor.losses.divergences import BregmanDivergence, as_divergence, named
from regfactor.losses.potentials import MultinomialEntropy
from regfactor.problems.checks import IllegalValues, as_bits

SUMS = 1e-6  # how far rows of proportions may be from one


class LocalSearch(Uncertified):
    """What tells that a fit is a local optimum: no bound of the global one is known."""

    _why = "clusters are found by local search, and the model"


def warn_of_empty(labels: Array, weights: Array | None, k: int) -> None:
    """Warn, in scikit-learn's words, where fewer clusters than asked for have a row."""
    found = int(np.count_nonzero(np.bincount(labels, weights, minlength=k)))
    if found < k:
        warn(
            f"Number of distinct clusters ({found}) found smaller than n_clusters ({k}). Possibly due to duplicate "
            "points in X.",
            ConvergenceWarning,
        )


def check_count(estimator: Any, name: str) -> int:
    """Return a number of clusters or starts; raise unless it is a whole number >= 1."""
    value = getattr(estimator, name)
    if not is_count(value):
        raise ValueError(f"{name} must be a whole number >= 1, got {value!r}.")
    return int(value)


def count_of_starts(estimator: Any, auto: int) -> int:
    """Return `n_init`, of which "auto" is the number given; raise unless it is a whole number >= 1."""
    if is_option(estimator.n_init, "auto"):
        return auto
    if isinstance(estimator.n_init, str):
        raise ValueError(f"n_init must be a whole number or 'auto', got {estimator.n_init!r}.")
    return check_count(estimator, "n_init")


def check_enough(X: Any, k: int, name: str) -> None:
    """Raise for fewer rows than clusters."""
    if X.shape[0] < k:
        raise ValueError(f"n_samples={X.shape[0]} should be >= {name}={k}; lower {name}.")


def is_non_negative(divergence: Any) -> bool:
    """Whether a divergence, by name or as a part, takes no negative number; False for what is no divergence."""
    try:
        return as_divergence(divergence).domain.low >= 0
    except ValueError:  # which is for `fit` to tell
        return False


def rows_of(
    estimator: Any,
    X: Any,
    divergence: Divergence,
    reset: bool,
    sparse: bool = True,
) -> Any:
    """Return legal rows as floats, an array in C order or a CSR array, whose absent entries are zeros."""
    accepted = "csr" if sparse else False
    X = validated(
        estimator,
        X,
        accept_sparse=accepted,
        dtype=[np.float64, np.float32],
        order="C",
        reset=reset,
    )
    with naming_columns_in_errors(names_of(estimator, None, X.shape[1])):
        check_domain(X, divergence)
    return X


def weights_of(X: Any, sample_weight: Any) -> Array | None:
    """Return the weights of rows in float64, None where all are one."""
    w = row_weights(X, sample_weight)
    if w is None:
        return None
    return w.astype(np.float64)


def check_domain(
    X: Any,
    divergence: Divergence,
    advice: str | None = None,
    what: str = "data",
) -> None:
    """Raise for numbers that a divergence cannot take: which column, how many, what to do."""
    domain = divergence.reach(X.dtype)
    ends = [end for bound, end in ((domain.low, X.min), (domain.high, X.max)) if np.isfinite(bound)]
    if not all(domain.contains(end()) for end in ends):  # of a sparse table its zeros too
        # as scikit-learn begins
        if X.min() < 0 <= domain.low:
            negative = f"Negative values in {what}: "
        else:
            negative = ""
        refused = f"{negative}{named(divergence)} cannot take this {what}; outside {domain} are "
        raise IllegalValues(
            refused,
            _outside(X, domain),
            np.full(X.shape[1], X.shape[0]),
            advice or _advice(X, divergence),
        )
    if isinstance(divergence, BregmanDivergence) and isinstance(
        divergence.potential,
        MultinomialEntropy,
    ):
        sums = np.asarray(X.sum(axis=1)).ravel()
        if np.abs(sums - 1).max() > SUMS:
            at = int(np.abs(sums - 1).argmax())
            raise ValueError(
                f"{named(divergence)} needs rows of {what} that sum to one, row {at} sums to {sums[at]:g}; divide by "
                "it.",
            )


def _outside(X: Any, domain: Interval) -> Array:
    """Count the numbers of each column that lie outside a domain, absent entries as zeros."""
    if not is_sparse(X):
        return np.asarray((~domain.contains(X)).sum(axis=0))
    n, d = X.shape
    stored = np.bincount(X.indices[~domain.contains(X.data)], minlength=d)
    if domain.contains(np.zeros(())):
        return stored
    return stored + n - np.bincount(X.indices, minlength=d)


def _advice(X: Any, divergence: Divergence) -> str:
    domain = divergence.domain
    if not np.isfinite(domain.high) and np.isfinite(
        divergence.reach(X.dtype).high,
    ):  # what exponents can reach
        double = X.dtype != np.float64 and X.max() <= divergence.reach(np.float64).high
        if double:
            return "Give float64, which reaches that far."
        return "Divide the columns, or use divergence='squared'."
    if is_sparse(X) or (domain.low, domain.high) != (0, 1):
        bits = None
    else:
        bits = as_bits(X)
    if bits is not None:
        return bits
    if X.min() >= 0:
        return "Values are not negative: use divergence='kl' (zeros are legal there), or 'squared'."
    return "Values are real numbers: use divergence='squared', 'sigmoid' or 'absolute', or transform the columns."


def best_run(
    estimator: Any,
    starts: Iterable[Iterator[Iterate[Any]]],
    tol: float = 0.0,
    floor: float = 0.0,
) -> Solution[Any]:
    """Run from every start within the limits of an estimator, and return the best."""
    began = time.perf_counter()
    best = None
    least = np.inf
    for iterates in starts:
        left = estimator.time_limit
        solution = run(
            iterates,
            tol=tol,
            max_iter=estimator.max_iter,
            floor=floor,
            time_limit=None if left is None else max(left - (time.perf_counter() - began), 0.0),
            callback=estimator.callback,
            progress=_print_progress if estimator.verbose else None,
        )
        if best is None or solution.objective < least:
            best = solution
            least = solution.objective
        if solution.status in (Status.STOPPED, Status.TIME_LIMIT):
            break
    assert best is not None
    return best


def publish_run(estimator: Any, solution: Solution[Any], solver: str) -> None:
    """Set what every solver tells, and warn where it did not converge."""
    estimator.objective_ = solution.objective
    estimator.status_ = solution.status
    estimator.solver_ = solver
    estimator.n_iter_ = solution.n_iter
    estimator.history_ = solution.history
    if not solution.status.converged:
        message = f"{type(estimator).__name__} did not converge: {solution.status.message}."
        warn(message, ConvergenceWarning)
