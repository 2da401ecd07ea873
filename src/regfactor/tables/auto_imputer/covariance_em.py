"""Mean and full covariance of a table with missing entries, near those of a low-rank model."""

from __future__ import annotations

import numpy as np

from regfactor.core.params import Array
from regfactor.tables.auto_imputer.conditioning import DenseNormal


def fit_covariance(
    Z: Array,
    weights: Array,
    start: DenseNormal,
    prior: Array,
    n_steps: int,
) -> DenseNormal:
    """Maximum a posteriori under an inverse Wishart prior with d rows of covariance `prior`.

    EM [1]_: S = (sum of E[(x - mu)(x - mu)'] + d T) / (n + d). Many more rows than columns give
    the full covariance, fewer the low-rank model.

    References
    ----------
    .. [1] Little & Rubin, "Statistical analysis with missing data", Wiley 2002, section 11.2.
    """
    n_prior_rows = float(Z.shape[1])
    n_rows = weights.sum()
    observed = ~np.isnan(Z)
    normal = start
    for _ in range(n_steps):
        centered = np.where(observed, Z - normal.mean, 0.0)
        uncertain = np.zeros_like(normal.covariance)
        for batch in normal.row_batches(observed, normal.precision):
            means = np.einsum("bmd,bd->bm", batch.coefficients, centered[batch.rows])
            np.add.at(centered, (batch.rows[:, None], batch.missing), means)
            own = batch.covariance * weights[batch.rows, None, None]
            own *= batch.valid[:, :, None]
            own *= batch.valid[:, None, :]
            np.add.at(uncertain, (batch.missing[:, :, None], batch.missing[:, None, :]), own)
        shift = weights @ centered / n_rows
        centered -= shift
        scatter = (centered * weights[:, None]).T @ centered + uncertain
        covariance = (scatter + n_prior_rows * prior) / (n_rows + n_prior_rows)
        normal = DenseNormal(normal.mean + shift, (covariance + covariance.T) / 2)
    return normal
