"""Exponential families by name: their losses, what they accept, and their log likelihoods."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, UnsupportedProblem, choose
from regfactor.losses import (
    Binomial,
    Gamma,
    Logistic,
    Loss,
    Multinomial,
    NegativeBinomial,
    Poisson,
    Softmax,
    Squared,
)
from regfactor.problems.checks import IllegalValues, as_bits

FAMILIES: dict[str, type[Loss]] = {
    "gaussian": Squared,
    "bernoulli": Logistic,
    "binomial": Binomial,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "gamma": Gamma,
    "multinomial": Multinomial,
}


def as_family(family: Any, trials: float) -> Loss:
    """Return the loss of a family: its negative log likelihood up to the base measure."""
    if isinstance(family, str):
        kind = choose(family, FAMILIES, "family")
        if kind is Binomial:
            return Binomial(trials)
        return kind()
    is_family = isinstance(family, tuple(FAMILIES.values()))
    if isinstance(family, Loss) and is_family and not isinstance(family, Softmax):
        return family
    raise ValueError(
        f"family must be one of {', '.join(sorted(FAMILIES))} or such a loss, got {family!r}."
    )


def is_non_negative(family: Any) -> bool:
    """Return whether a family, by name or as a loss, accepts no negative numbers."""
    if isinstance(family, str):
        return family in FAMILIES and family != "gaussian"
    return isinstance(family, Loss) and family.domain.low >= 0


def check_form(n_components: Any, row_offset: Any, loss: Loss) -> None:
    """Raise for an offset of rows or a convex form that the family cannot have."""
    if row_offset == "total" and not isinstance(loss, Poisson | NegativeBinomial):
        other = "None" if isinstance(loss, Multinomial) else "'fit'"
        raise ValueError(
            "row_offset='total' is an exposure of counts: use family='poisson' or "
            "'negative_binomial', or "
            f"row_offset={other}."
        )
    if row_offset == "fit" and isinstance(loss, Multinomial):
        raise ValueError(
            "family='multinomial' has a free level for each row already: leave row_offset=None."
        )
    if n_components is not None:
        return
    if isinstance(loss, Gamma):
        raise UnsupportedProblem(
            "n_components=None needs the convex form, and family='gamma' restricts the predictor: "
            "give n_components."
        )
    if row_offset == "fit":
        raise UnsupportedProblem(
            "n_components=None needs the convex form, and row_offset='fit' is a second free term: "
            "give n_components."
        )


def check_values(loss: Loss, table: Any) -> None:
    """Raise for data that a family cannot take: which columns, how many, which family instead."""
    x = table.data if is_sparse(table) else table
    observed = ~np.isnan(x)
    illegal = ~loss.legal(x) & observed
    if not illegal.any():
        return
    values = x[observed]
    what = "Values outside the family's range"
    if (values < 0).any():
        what = "Negative values in data"
    name = next(name for name, kind in FAMILIES.items() if isinstance(loss, kind))
    raise IllegalValues(
        f"{what}: family={name!r} takes {loss.domain_text}; outside are ",
        _column_counts(table, illegal),
        _column_counts(table, observed),
        _advice(loss, values),
    )


def _column_counts(table: Any, mask: Array) -> Array:
    """Return how many entries of each column a mask selects."""
    if is_sparse(table):
        return np.bincount(table.indices[mask], minlength=table.shape[1])
    return mask.sum(axis=0)


def _advice(loss: Loss, values: Array) -> str:
    """Return which coding or which family would take the data."""
    if np.isin(values, (-1, 1)).all():
        return "Values are -1 and +1: code them 0 and 1 for family='bernoulli'."
    if isinstance(loss, Logistic) and (coded := as_bits(values)) is not None:
        return coded
    if (values < 0).any():
        return "family='gaussian' takes any number."
    if isinstance(loss, Binomial):
        return f"Give the number of trials: trials={values.max():g} would take the largest value."
    if (values == np.round(values)).all():
        return (
            "Values are counts: use family='poisson', 'multinomial' for rows of counts, or "
            "'binomial' with trials."
        )
    if isinstance(loss, Gamma):
        return (
            "Gamma data are positive: use family='poisson', which takes any number from zero on, "
            "or mark zeros by NaN."
        )
    return "Values are not negative: use family='poisson' or, where none is zero, 'gamma'."


def log_likelihood(loss: Loss, z: Array, x: Array, rows: Array) -> float:
    """Return the log likelihood of observed entries x at predictors z, base measure included.

    All are vectors. Counts of "multinomial" are conditioned on the observed total of their row.
    """
    if not isinstance(loss, Multinomial):
        return float((_log_base(loss, x) - loss.value(z, x)).sum(dtype=np.float64))
    highest = np.full(rows.max() + 1, -np.inf)
    np.maximum.at(highest, rows, z)
    z = z - highest[rows]
    log_shares = z - np.log(np.bincount(rows, np.exp(z))[rows])
    totals = np.bincount(rows, x)
    return float(x @ log_shares + gammaln(totals + 1).sum() - gammaln(x + 1).sum())


def _log_base(loss: Loss, x: Array) -> Any:
    """Return the log of the base measure of each entry."""
    if isinstance(loss, Squared):
        return -0.5 * np.log(2 * np.pi)
    if isinstance(loss, Poisson):
        return -gammaln(x + 1)
    if isinstance(loss, NegativeBinomial):
        theta = loss.theta
        return gammaln(x + theta) - gammaln(theta) - gammaln(x + 1) + theta * np.log(theta)
    if isinstance(loss, Binomial):
        return gammaln(loss.trials + 1) - gammaln(x + 1) - gammaln(loss.trials - x + 1)
    return 0.0
