"""Ridge regressions of labels on features of rows, their strength chosen by evidence."""

from __future__ import annotations

import numpy as np

from regfactor.core.linalg import thin_svd
from regfactor.core.params import EPS, Array, frozen

# strengths that are compared, as shares of the largest squared singular value of the features
STRENGTHS = np.geomspace(1e-7, 1e3, 81)
# normal prior of the logarithm of a strength, which decides where labels are too few to: its center
# as a share of the mean squared length of a row of features, and its deviation
PRIOR_CENTER = 0.3
PRIOR_DEVIATION = 4.0
RANK_CUT = 1e-8  # singular values below this share of the largest are rounding
ROUNDING = 64 * EPS  # share of the sum of squares below which a residual is rounding


@frozen
class RidgeReadout:
    """F @ coef + intercept, with the strength of its ridge and the log evidence of it."""

    coef: Array
    intercept: Array
    strength: float
    log_evidence: float

    def __call__(self, F: Array) -> Array:
        """Return the labels that features predict."""
        return F @ self.coef + self.intercept


def ridge_readout(
    F: Array,
    Y: Array,
    weights: Array,
    fit_intercept: bool = True,
) -> RidgeReadout:
    r"""min over W, b of sum_i w_i |y_i - f_i W - b|^2 + strength |W|^2, by most evidence.

    The evidence of a strength is the restricted likelihood (REML) under W ~ N(0, noise / strength),
    with the constant and the variance of the noise, one for all columns, integrated out,

        -(q/2) [sum_k log(1 + s_k^2 / strength) + (n - 1) log RSS(strength)],

    s_k the singular values of the centered features, n the sum of the weights, which act as
    repetition counts, q the number of columns of Y, RSS the penalized residual sum of squares; and
    a wide normal prior on the logarithm of the strength. Without an intercept n - 1 is n.
    """
    total = float(weights.sum())
    means = np.zeros(F.shape[1])
    intercept = np.zeros(Y.shape[1])
    freedom = max(total, 1.0)
    if fit_intercept:
        means = weights @ F / total
        intercept = weights @ Y / total
        freedom = max(total - 1, 1.0)
    root = np.sqrt(weights)[:, None]
    centered = root * (Y - intercept)
    U, s, Vt = thin_svd(root * (F - means), RANK_CUT)
    projected = U.T @ centered
    square = float(np.square(centered).sum())
    if not len(s) or not square > 0:
        return RidgeReadout(
            np.zeros((F.shape[1], Y.shape[1])),
            intercept,
            np.inf,
            -np.inf,
        )
    explained = np.square(projected).sum(axis=1)
    rest = max(square - float(explained.sum()), ROUNDING * square)
    strengths = STRENGTHS * s[0] ** 2
    growth = 1 + s**2 / strengths[:, None]
    residuals = rest + (explained / growth).sum(axis=1)
    evidence = -0.5 * (np.log(growth).sum(axis=1) + freedom * np.log(residuals)) * Y.shape[1]
    center = PRIOR_CENTER * float(np.square(s).sum()) / total
    evidence -= 0.5 * np.square(np.log(strengths / center) / PRIOR_DEVIATION)
    best = int(evidence.argmax())
    strength = float(strengths[best])
    coef = Vt.T @ ((s / (s**2 + strength))[:, None] * projected)
    return RidgeReadout(coef, intercept - means @ coef, strength, float(evidence[best]))


def column_readouts(
    F: Array,
    Y: Array,
    weights: Array,
    fit_intercept: bool = True,
) -> RidgeReadout:
    """Return a ridge for each column of Y on the rows that have it, NaN where they do not.

    The evidences of the columns are added, and the strength is that of the last.
    """
    columns = []
    for y in Y.T:
        given = ~np.isnan(y)
        column = ridge_readout(F[given], y[given, None], weights[given], fit_intercept)
        columns.append(column)
    return RidgeReadout(
        np.hstack([column.coef for column in columns]),
        np.concatenate([column.intercept for column in columns]),
        columns[-1].strength,
        sum(column.log_evidence for column in columns),
    )
