"""Shared by all clusterings: reading rows, domains of divergences, empty clusters."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from regfactor.core.blas import one_thread
from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, warn
from regfactor.fitting.base import Estimator
from regfactor.fitting.inputs import names_of, naming_columns_in_errors, row_weights, validated
from regfactor.losses.base import Interval
from regfactor.losses.distances import Divergence
from regfactor.losses.divergences import BregmanDivergence, as_divergence, named
from regfactor.losses.potentials import MultinomialEntropy
from regfactor.problems.checks import IllegalValues, as_bits

MAX_SUM_ERROR = 1e-6  # how far sums of proportions may be from one


class ClusterEstimator(Estimator):
    """An estimator of clusters, found by local search: no bound of the global optimum is known."""

    _no_certificate = "clusters are found by local search, and the model"

    def _context(self, inputs: Any) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = one_thread()
        return context


def warn_of_empty(labels: Array, weights: Array | None, k: int) -> None:
    """Warn, in scikit-learn's words, if fewer clusters than asked for have a row."""
    found = int(np.count_nonzero(np.bincount(labels, weights, minlength=k)))
    if found < k:
        warn(
            f"Number of distinct clusters ({found}) found smaller than n_clusters ({k}). Possibly "
            "due to duplicate points in X.",
            ConvergenceWarning,
        )


def check_enough(X: Any, k: int, name: str) -> None:
    """Raise if there are fewer rows than clusters."""
    if X.shape[0] < k:
        raise ValueError(f"n_samples={X.shape[0]} should be >= {name}={k}; lower {name}.")


def count_distinct(X: Array) -> int:
    """Return the number of rows that differ; missing entries are the same."""
    return len(np.unique(np.nan_to_num(X, nan=np.inf), axis=0))


def is_non_negative(divergence: Any) -> bool:
    """Return whether a divergence takes no negative number; False for an invalid one."""
    try:
        return as_divergence(divergence).domain.low >= 0
    except ValueError:  # which `fit` reports
        return False


def rows_of(
    estimator: Any,
    X: Any,
    divergence: Divergence,
    reset: bool,
    sparse: bool = True,
    missing: bool = False,
) -> Any:
    """Return legal rows as floats: an array in C order, or CSR, with absent entries as zeros.

    With `missing`, entries of an array may be NaN.
    """
    X = validated(
        estimator,
        X,
        accept_sparse="csr" if sparse else False,
        order="C",
        ensure_all_finite="allow-nan" if missing else True,
        reset=reset,
    )
    names = names_of(estimator, None, X.shape[1])
    checked = X
    if missing and has_missing(X):
        _check_missing(X, divergence, names, reset)
        checked = np.where(np.isnan(X), _legal_number(divergence.finite_domain(X.dtype)), X)
    with naming_columns_in_errors(names):
        check_domain(checked, divergence)
    return X


def has_missing(X: Any) -> bool:
    """Return whether an entry is NaN."""
    values = X.data if is_sparse(X) else X
    flat = values.reshape(-1)
    return bool(np.isnan(np.vdot(flat, flat)))  # squares of infinities are infinite


def takes_missing(divergence: Any, kernel: Any = None) -> bool:
    """Return whether missing entries can be left out of comparisons; False for invalid parts."""
    try:
        return kernel is None and as_divergence(divergence).separable
    except ValueError:  # which `fit` reports
        return False


def _check_missing(X: Any, divergence: Divergence, names: Any, reset: bool) -> None:
    """Raise if missing entries cannot be left out."""
    if is_sparse(X):
        raise ValueError(
            "X is sparse and stores NaN: absent entries are zeros here; give an array with NaN "
            "where entries are missing."
        )
    empty = np.flatnonzero(np.isnan(X).all(axis=0))
    if reset and len(empty):
        if names is None:
            name = empty[0]
        else:
            name = repr(names[empty[0]])
        raise ValueError(f"Column {name} has no observed entry; leave it out.")


def _legal_number(domain: Interval) -> float:
    """Return a number inside a domain."""
    low_known = np.isfinite(domain.low)
    high_known = np.isfinite(domain.high)
    if low_known and high_known:
        return (domain.low + domain.high) / 2
    if low_known:
        return domain.low + 1.0
    if high_known:
        return domain.high - 1.0
    return 0.0


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
    """Raise for numbers outside the domain of a divergence: which column, how many, what to do."""
    domain = divergence.finite_domain(X.dtype)
    # of a sparse table min and max see its zeros too
    low_ok = not np.isfinite(domain.low) or domain.contains(X.min())
    high_ok = not np.isfinite(domain.high) or domain.contains(X.max())
    if not (low_ok and high_ok):
        message = f"{named(divergence)} cannot take this {what}; outside {domain} are "
        if X.min() < 0 <= domain.low:
            message = f"Negative values in {what}: {message}"  # as scikit-learn begins
        counts = np.full(X.shape[1], X.shape[0])
        raise IllegalValues(message, _outside(X, domain), counts, advice or _advice(X, divergence))
    if not isinstance(divergence, BregmanDivergence):
        return
    if isinstance(divergence.potential, MultinomialEntropy):
        _check_sums(X, divergence, what)


def _check_sums(X: Any, divergence: Divergence, what: str) -> None:
    """Raise unless rows sum to one."""
    sums = np.asarray(X.sum(axis=1)).ravel()
    errors = np.abs(sums - 1)
    if errors.max() > MAX_SUM_ERROR:
        at = int(errors.argmax())
        raise ValueError(
            f"{named(divergence)} needs rows of {what} that sum to one, row {at} sums to "
            f"{sums[at]:g}; divide by it."
        )


def _outside(X: Any, domain: Interval) -> Array:
    """Count the numbers of each column that lie outside a domain, absent entries as zeros."""
    if not is_sparse(X):
        return (~domain.contains(X)).sum(axis=0)
    n, d = X.shape
    stored = np.bincount(X.indices[~domain.contains(X.data)], minlength=d)
    if domain.contains(np.zeros(())):
        return stored
    return stored + n - np.bincount(X.indices, minlength=d)


def _advice(X: Any, divergence: Divergence) -> str:
    """Return what to do about numbers outside the domain."""
    domain = divergence.domain
    bounded_by_exponents = np.isfinite(divergence.finite_domain(X.dtype).high)
    if not np.isfinite(domain.high) and bounded_by_exponents:
        if X.dtype != np.float64 and X.max() <= divergence.finite_domain(np.float64).high:
            return "Give float64, which reaches that far."
        return "Divide the columns, or use divergence='squared'."
    if not is_sparse(X) and (domain.low, domain.high) == (0, 1):
        bits = as_bits(X)
        if bits is not None:
            return bits
    if X.min() >= 0:
        return "Values are not negative: use divergence='kl' (zeros are legal there), or 'squared'."
    return (
        "Values are real numbers: use divergence='squared', 'sigmoid' or 'absolute', or transform "
        "the columns."
    )
