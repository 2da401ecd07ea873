"""One table predicted from another: stacked ridge smoothers with shrunk singular values."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.core.params import EPS, Array, frozen
from regfactor.fitting.complete_rows import MAX_RANK, SMALLEST_NOISE, RowCompletion
from regfactor.fitting.conformal import PredictionInterval, conformal_quantile
from regfactor.fitting.parameters import check_level
from regfactor.views.smoothers import (
    Directions,
    LandmarkFeatures,
    Shrinkage,
    SmoothedTable,
    Smoother,
    best_shrinkage,
    smoother,
    stacking_weights,
)

# exponents p of the eigenvalues s1^2 (s / s1)^(2 p) of linear smoothers
SPECTRAL_POWERS = (1.0, 0.5, 2.0)
# c of the kernels exp(-c |x - x'|^2 / median squared distance)
KERNEL_WIDTHS = (0.5, 2.0)
MIN_KERNEL_ROWS = 30  # fewer rows say too little about a function that is not linear
MAX_KERNEL_ROWS = 5000  # from more rows, linear functions alone are learned
BETTER_ERRORS = 2.0  # standard errors by which a regression predicts better than another
CONSTANT = 64 * EPS  # deviation relative to the size of numbers that is rounding


@frozen
class ColumnScaling:
    """Means and deviations of columns; a constant column has the deviation one."""

    mean: Array
    deviation: Array

    @classmethod
    def of(cls, X: Array, weights: Array) -> ColumnScaling:
        """Return those of observed entries, with weights of rows as repetition counts."""
        observed = ~np.isnan(X)
        counts = np.maximum(weights @ observed, np.finfo(float).tiny)
        filled = np.where(observed, X, 0.0)
        mean = weights @ filled / counts
        centered = np.where(observed, filled - mean, 0.0)
        deviation = np.sqrt(weights @ np.square(centered) / counts)
        varies = deviation > CONSTANT * np.abs(filled).max(axis=0, initial=0.0)
        return cls(mean, np.where(varies, deviation, 1.0))

    def apply(self, X: Array) -> Array:
        """Return columns about their means, in their deviations."""
        return (X - self.mean) / self.deviation

    def undo(self, X: Array) -> Array:
        """Return columns in the units of the data."""
        return X * self.deviation + self.mean


@frozen
class KernelPart:
    """A function of a kernel: features of rows times coefficients."""

    features: LandmarkFeatures
    coefficients: Array


@frozen
class LinearStack:
    """The average of the linear smoothers of one table.

    Attributes
    ----------
    coefficients : array of shape (n_features, n_targets)
        Before the shrinkage.
    residuals : array of shape (n_samples, n_targets)
        Leave-one-out residuals of weighted rows, before the shrinkage.
    """

    smoothers: list[Smoother]
    weights: Array
    coefficients: Array
    residuals: Array
    shrinkage: Shrinkage

    def left_out(self, targets: SmoothedTable) -> Array:
        """Return the leave-one-out predictions of weighted rows, after the shrinkage."""
        return self.shrinkage(targets.values - self.residuals)


def linear_stack(
    directions: Directions,
    targets: SmoothedTable,
    strength: float | None = None,
    shrink: bool = True,
) -> LinearStack:
    """Return the average of linear smoothers; the ridge alone where its strength is given."""
    smoothers = linear_smoothers(directions, targets, strength)
    weights = stacking_weights(smoothers, targets)
    coefficients = averaged([one.coefficients for one in smoothers], weights)
    residuals = averaged([one.residuals for one in smoothers], weights)
    tau = best_shrinkage(residuals, targets) if shrink else 0.0
    shrinkage = Shrinkage.of(targets.values - residuals, tau)
    return LinearStack(smoothers, weights, coefficients, residuals, shrinkage)


def linear_smoothers(
    directions: Directions,
    targets: SmoothedTable,
    strength: float | None = None,
) -> list[Smoother]:
    """Return a smoother for each spectral power; the ridge alone where its strength is given."""
    if strength is not None:
        return [smoother("linear", directions, 1.0, targets, strength)]
    found = []
    for power in SPECTRAL_POWERS:
        found.append(smoother(f"linear, power {power:g}", directions, power, targets))
    return found


def averaged(arrays: list[Array], weights: Array) -> Array:
    """Return the weighted sum of arrays of one shape."""
    out = np.zeros_like(arrays[0])
    for weight, array in zip(weights, arrays, strict=True):
        if weight > 0:
            out += weight * array
    return out


@frozen
class StackedRidge:
    """Predictions of one table from another, in the units of the data.

    Attributes
    ----------
    weights : dict
        Names of the smoothers, and their weights in the average.
    linear : array of shape (n_features, n_targets)
        Coefficients of the linear part, between tables in units of their deviations.
    kernels : list of KernelPart
    shrinkage : Shrinkage
    residuals : array of shape (n_samples, n_targets)
        Leave-one-out residuals in the units of the data; NaN where y was missing.
    spreads : array of shape (n_samples, n_targets)
        What the data differ from their column means, likewise.
    row_weights : array of shape (n_samples,)
    """

    x_units: ColumnScaling
    y_units: ColumnScaling
    completion: RowCompletion
    weights: dict[str, float]
    linear: Array
    kernels: list[KernelPart]
    shrinkage: Shrinkage
    residuals: Array
    spreads: Array
    row_weights: Array

    def predict(self, X: Any) -> Array:
        """Return the other table; missing entries of X are NaN."""
        scaled = self.x_units.apply(self.completion.complete(np.asarray(X, np.float64)))
        out = scaled @ self.linear
        for part in self.kernels:
            out += part.features(scaled) @ part.coefficients
        return self.y_units.undo(self.shrinkage(out))

    def interval(self, X: Any, level: float) -> PredictionInterval:
        """Return limits that hold for a share `level` of new rows, in each column.

        They are as far from the prediction as the leave-one-out residuals of that share of the
        rows; in rows without an entry, as the data are from their means.
        """
        check_level(level)
        middle = self.predict(X)
        empty = np.isnan(X).all(axis=1)
        widths = np.where(
            empty[:, None],
            self._quantiles(self.spreads, level),
            self._quantiles(self.residuals, level),
        )
        return PredictionInterval(middle - widths, middle + widths)

    def _quantiles(self, differences: Array, level: float) -> Array:
        """Return the conformal quantile of the sizes of observed differences in each column."""
        out = np.empty(differences.shape[1])
        for j, column in enumerate(differences.T):
            known = ~np.isnan(column)
            weights = self.row_weights[known]
            if np.all(weights == 1):
                weights = None
            out[j] = conformal_quantile(np.abs(column[known]), level, weights)
        return out


def stacked_ridge(
    X: Array,
    Y: Array,
    weights: Array | None = None,
    kernels: bool = True,
    truth: Array | None = None,
) -> StackedRidge:
    """Return the regression of a table Y on a table X, both with NaN for missing entries.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    Y : array of shape (n_samples, n_targets)
        Missing entries of either table are completed by a probabilistic principal component model
        before the smoothers are fitted; those of Y do not count in errors.
    weights : array of shape (n_samples,), optional
        Weights act as repetition counts.
    kernels : bool, default=True
        Whether functions that are not linear are among the smoothers, from 30 up to 5,000 rows.
    truth : array of shape (n_samples, n_targets), optional
        What predictions are compared with in the residuals, if it is another table than Y.
    """
    if truth is None:
        truth = Y
    if weights is None:
        weights = np.ones(len(X))
    counted = (weights > 0) & ~np.isnan(X).all(axis=1) & ~np.isnan(Y).all(axis=1)
    if not counted.any():
        raise ValueError(
            "No row has entries of both views, so that neither can be predicted from the other: "
            "fit some rows that have both."
        )
    X = np.asarray(X[counted], np.float64)
    Y = np.asarray(Y[counted], np.float64)
    truth = np.asarray(truth[counted], np.float64)
    weights = np.asarray(weights[counted], np.float64)
    missing = np.isnan(Y)
    y_units = ColumnScaling.of(Y, weights)
    if missing.any():
        joint = np.hstack([X, Y])
        Y = RowCompletion.fit(joint, weights).complete(joint)[:, X.shape[1] :]
    completion = None
    if np.isnan(X).any():
        completion = RowCompletion.fit(X, weights)
        X = completion.complete(X)
    x_units = ColumnScaling.of(X, weights)
    root = np.sqrt(weights)
    observed: Any = 1.0
    if missing.any():
        observed = (~missing).astype(float)
    scaled = x_units.apply(X)
    targets = SmoothedTable(
        root[:, None] * y_units.apply(Y),
        root,
        observed,
        centered=True,
    )
    directions = Directions.of(root[:, None] * scaled, targets)
    if completion is None:
        completion = _principal_completion(directions, x_units, float(weights.sum()))
    smoothers = linear_smoothers(directions, targets)
    features = []
    if kernels and MIN_KERNEL_ROWS <= len(X) <= MAX_KERNEL_ROWS:
        for width in KERNEL_WIDTHS:
            mapped = LandmarkFeatures.of(scaled, width, weights)
            bent = Directions.of(root[:, None] * mapped(scaled), targets)
            smoothers.append(smoother(f"kernel, width {width:g}", bent, 1.0, targets))
            features.append(mapped)
    shares = stacking_weights(smoothers, targets)
    n_linear = len(SPECTRAL_POWERS)
    linear = averaged([one.coefficients for one in smoothers[:n_linear]], shares[:n_linear])
    parts = []
    for mapped, share, one in zip(features, shares[n_linear:], smoothers[n_linear:], strict=True):
        if share > 0:
            parts.append(KernelPart(mapped, share * one.coefficients))
    left_out = averaged([one.residuals for one in smoothers], shares)
    shrinkage = Shrinkage.of(targets.values - left_out, best_shrinkage(left_out, targets))
    predicted = shrinkage(targets.values - left_out)
    return StackedRidge(
        x_units=x_units,
        y_units=y_units,
        completion=completion,
        weights={one.name: float(share) for one, share in zip(smoothers, shares, strict=True)},
        linear=linear,
        kernels=parts,
        shrinkage=shrinkage,
        residuals=truth - y_units.undo(predicted / root[:, None]),
        spreads=truth - y_units.mean,
        row_weights=weights,
    )


def predicts_better(one: StackedRidge, other: StackedRidge) -> bool:
    """Return whether leave-one-out errors are smaller by more than two standard errors.

    Both regressions are of the same rows, with residuals of the same entries.
    """
    if len(one.residuals) != len(other.residuals):
        return False
    gains = np.square(other.residuals) - np.square(one.residuals)
    gains = np.nansum(gains / np.square(other.y_units.deviation), axis=1)
    total = other.row_weights.sum()
    mean = float(other.row_weights @ gains) / total
    variance = float(other.row_weights @ np.square(gains - mean)) / total
    return mean > BETTER_ERRORS * np.sqrt(variance / total)


def _principal_completion(
    directions: Directions,
    units: ColumnScaling,
    total: float,
) -> RowCompletion:
    """Return the probabilistic principal component model of a complete table, in closed form.

    With variances v of the principal directions, the noise is the mean of those left out and the
    loadings are V sqrt(v - noise) (Tipping & Bishop 1999).
    """
    d = len(units.mean)
    variances = np.square(directions.s) / total
    rank = min(MAX_RANK, d // 2, len(variances))
    noise = SMALLEST_NOISE
    if d > rank:
        noise = max(noise, float(variances[rank:].sum()) / (d - rank))
    kept = np.maximum(variances[:rank] - noise, 0.0)
    return RowCompletion(
        units.mean, units.deviation, directions.V[:, :rank] * np.sqrt(kept), float(noise)
    )
