"""One answer from several completed tables: Rubin's rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats

from regfactor.core.linalg import quotient
from regfactor.core.params import Array, as_floats
from regfactor.fitting.parameters import check_level


@dataclass(frozen=True)
class Pooled:
    """A pooled estimate with its variance and degrees of freedom.

    Attributes
    ----------
    estimate : ndarray
        Mean of the estimates.
    variance : ndarray
        Within + (1 + 1/m) between: the total variance of the mean.
    within, between : ndarray
        Mean of the variances, and variance of the estimates.
    degrees_of_freedom : ndarray
        Of the t distribution of (estimate - truth) / sqrt(variance).
    missing_information : ndarray
        Share of the information that is missing with the entries.
    """

    estimate: Array
    variance: Array
    within: Array
    between: Array
    degrees_of_freedom: Array
    missing_information: Array

    @property
    def standard_error(self) -> Array:
        """Root of the total variance."""
        return np.sqrt(self.variance)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return lower and upper confidence limits.

        Parameters
        ----------
        level : float, default=0.95

        Returns
        -------
        tuple of two ndarray
        """
        check_level(level)
        quantile = scipy.stats.t.ppf((1 + level) / 2, self.degrees_of_freedom)
        half = quantile * self.standard_error
        return self.estimate - half, self.estimate + half

    def p_value(self, null: Any = 0.0) -> Array:
        """Return two-sided p-values of the hypothesis that the truth is `null`.

        Parameters
        ----------
        null : float or array-like, default=0.0

        Returns
        -------
        ndarray
        """
        t = np.abs(self.estimate - null) / self.standard_error
        return np.asarray(2 * scipy.stats.t.sf(t, self.degrees_of_freedom))


def pool(estimates: Any, variances: Any, degrees_of_freedom: Any = np.inf) -> Pooled:
    """Return one estimate from those of several completed tables, by Rubin's rules.

    Parameters
    ----------
    estimates : array-like of shape (n_draws,) or (n_draws, n_parameters)
        Estimates from each completed table.
    variances : array-like of the same shape
        Their squared standard errors.
    degrees_of_freedom : float, default=inf
        Of an estimate from a complete table, such as n - p of a regression; those of the pooled
        estimate are then smaller (Barnard and Rubin 1999).

    Returns
    -------
    Pooled

    Examples
    --------
    >>> from regfactor.inference import pool
    >>> pooled = pool([1.0, 1.2, 0.8], [0.04, 0.05, 0.03], degrees_of_freedom=100)
    >>> float(pooled.estimate.round(3)), float(pooled.variance.round(4))
    (1.0, 0.0933)
    >>> float(pooled.degrees_of_freedom.round(1))
    5.3
    """
    Q = as_floats(estimates, "estimates")
    U = as_floats(variances, "variances")
    if Q.shape != U.shape or Q.ndim not in (1, 2):
        raise ValueError(
            f"estimates {Q.shape} and variances {U.shape} must have the same shape: a row for each "
            "completed table.",
        )
    if len(Q) < 2:
        raise ValueError("Pooling needs at least two completed tables: sample(X, n_draws=20).")
    if not np.isfinite(Q).all() or not np.isfinite(U).all() or (U < 0).any():
        raise ValueError("estimates must be finite, and variances finite and not negative.")
    m = len(Q)
    within = U.mean(axis=0)
    between = Q.var(axis=0, ddof=1)
    added = (1 + 1 / m) * between
    total = within + added
    with np.errstate(divide="ignore", invalid="ignore"):
        share = quotient(added, total)
        old = (m - 1) / np.square(share)
        complete = np.asarray(degrees_of_freedom, dtype=np.float64)
        observed = np.where(
            np.isinf(complete),
            np.inf,
            (complete + 1) / (complete + 3) * complete * (1 - share),
        )
        freedom = 1 / (1 / old + 1 / observed)
        information = share + 2 / (freedom + 3) * (1 - share)
    return Pooled(
        Q.mean(axis=0),
        total,
        within,
        between,
        freedom,
        np.asarray(information),
    )
