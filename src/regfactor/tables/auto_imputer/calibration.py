"""The average of members, how far it may be off, and the evidence of held-out entries for both."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import nnls

from regfactor.core.linalg import positive_or_one
from regfactor.core.params import Array, frozen
from regfactor.fitting.conformal import conformal_quantile
from regfactor.tables.auto_imputer.model import Predictions
from regfactor.tables.auto_imputer.stacking import column_weights, huber_weights, pooled_weights
from regfactor.tables.auto_imputer.stages import HeldOutCells
from regfactor.tables.auto_imputer.variables import Standardization, Variable

SMALLEST_VARIANCE = 1e-6  # of a prediction, relative to the variance of its column
POOLED_CELLS = 20.0  # scores of all columns that count next to those of a column, in entries
N_POOLED = 400  # quantiles that stand for the scores of all columns
LARGEST_EXCESS = 0.3  # share of the squares of residuals that may be due to few trees
LARGEST_SQUARE_SHARE = 0.98  # quantile at which squares are cut when variances are fitted


@frozen
class Average:
    """sum_m w_jm x_m of standardized predictions, kept within what a column can hold.

    Attributes
    ----------
    weights : array of shape (n_columns, n_members)
    layout : Standardization
    """

    weights: Array
    layout: Standardization

    @staticmethod
    def of(predicted: Array, cells: HeldOutCells, layout: Standardization) -> Average:
        """Return the weights that predict held-out entries best.

        Numbers have weights of their own, near those of all numbers; columns of two values, and of
        categories, near those of all such, which are judged in units of probability.
        """
        n_members = predicted.shape[1]
        weights = np.empty((len(layout.scale), n_members))
        is_number = np.array([layout.variables[v].is_number for v in layout.owners], dtype=bool)
        scales = np.where(is_number, 1.0, layout.scale)
        for kind in (True, False):
            of_kind = is_number[cells.columns] == kind
            units = scales[cells.columns[of_kind]]
            P = predicted[of_kind] * units[:, None]
            y = cells.truth[of_kind] * units
            shared = pooled_weights(P, y, cells.weights[of_kind])
            counted = huber_weights(y - P @ shared, cells.weights[of_kind])
            weights[is_number == kind] = shared
            for variable in layout.variables:
                if variable.is_number != kind or len(variable.columns) > 1:
                    continue
                own = cells.columns[of_kind] == variable.columns[0]
                weights[variable.columns[0]] = column_weights(
                    P[own],
                    y[own],
                    counted[own],
                    shared,
                )
        return Average(weights, layout)

    def of_cells(self, predicted: Array, columns: Array) -> Array:
        """Return the averages of single entries, given members and columns."""
        return np.einsum("im,im->i", predicted, self.weights[columns])

    def apply(self, members: Array) -> Array:
        """Return the averages of a table, not yet limited."""
        return np.einsum("jm,mij->ij", self.weights, members)

    def limited(self, Z: Array, variable: Variable) -> Array:
        """Return averages of one variable within what it can hold, in its own columns.

        Shares of levels are not negative and sum to one; numbers leave the observed range by at
        most one range, as linear models could by far more.
        """
        layout = self.layout
        columns = variable.columns
        own = Z[:, columns]
        low = layout.low[columns]
        high = layout.high[columns]
        if variable.is_number:
            reach = high - low
            return np.clip(own, low - reach, high + reach)
        own = np.clip(own, low, high)
        if len(columns) == 1:
            return own
        shares = own * layout.scale[columns] + layout.center[columns]
        total = shares.sum(axis=1, keepdims=True)
        center = layout.center[columns]
        usual = center / center.sum()
        normalized = shares / positive_or_one(total)
        shares = np.where(total > 0, normalized, usual)
        return (shares - center) / layout.scale[columns]


@frozen
class ErrorScores:
    """Scores of held-out entries of one variable, with some of all variables of its kind."""

    values: Array
    weights: Array

    @staticmethod
    def of(own: Array, own_weights: Array, pooled: Array) -> ErrorScores:
        """Return own scores, and quantiles of all in a total weight of POOLED_CELLS."""
        extra = np.full(len(pooled), POOLED_CELLS / max(len(pooled), 1))
        values = np.concatenate([own, pooled])
        weights = np.concatenate([own_weights, extra])
        order = np.argsort(values, kind="stable")
        return ErrorScores(values[order], weights[order])

    def limit(self, level: float) -> float:
        """Return the size that a share `level` of new scores does not exceed; inf if too few."""
        return conformal_quantile(np.abs(self.values), level, self.weights)

    def quantiles(self, shares: Array) -> Array:
        """Return interpolated quantiles of the scores with their signs; zeros without scores."""
        if not len(self.values):
            return np.zeros(np.shape(shares))
        middles = np.cumsum(self.weights) - self.weights / 2
        places = middles / self.weights.sum()
        return np.interp(shares, places, self.values)


def _some_quantiles(values: Array, weights: Array) -> Array:
    """Return at most N_POOLED scores that represent all."""
    if len(values) <= N_POOLED and np.all(weights == 1):
        return values
    if not len(values):
        return values
    order = np.argsort(values)
    sorted_weights = weights[order]
    middles = np.cumsum(sorted_weights) - sorted_weights / 2
    places = middles / weights.sum()
    shares = (np.arange(N_POOLED) + 0.5) / N_POOLED
    return np.interp(shares, places, values[order])


@frozen
class ErrorVariance:
    """sigma^2 = a' v + b of each prediction, v its variances by the distribution and the trees."""

    coefficients: Array

    @staticmethod
    def of(squares: Array, measures: Array, weights: Array) -> ErrorVariance:
        """Return non-negative coefficients that fit squared residuals of held-out entries."""
        n_measures = len(measures)
        if len(squares) < 2 * n_measures + 2:
            equal = np.full(n_measures, 1 / max(n_measures, 1))
            return ErrorVariance(np.append(equal, 0.05))
        squares = np.minimum(squares, np.quantile(squares, LARGEST_SQUARE_SHARE))
        design = np.column_stack([*measures, np.ones(len(squares))])
        # relative errors: residuals are as uncertain as they are large
        size = np.sqrt(weights) / (design.mean(axis=1) + squares.mean())
        found, _ = nnls(design * size[:, None], squares * size)
        found[-1] = max(found[-1], SMALLEST_VARIANCE)
        return ErrorVariance(found)

    def deviations(self, measures: Array) -> Array:
        """Return sigma for measures in the first axis."""
        variance = np.tensordot(self.coefficients[:-1], measures, axes=1)
        return np.sqrt(variance + self.coefficients[-1])


@frozen
class HeldOutError:
    """Errors of held-out entries of a variable, and those of its mean or most frequent level.

    Root mean squares of numbers in their units, shares of wrong levels of other variables.
    """

    error: float
    simple_error: float
    n_cells: int

    @staticmethod
    def of(average: Average, variable: Variable, block: Array, truth: Array) -> HeldOutError:
        """Return the errors of predictions of one variable, both in standardized columns."""
        n_cells = len(truth)
        if not n_cells:
            return HeldOutError(float("nan"), float("nan"), 0)
        if variable.is_number:
            scale = float(average.layout.scale[variable.columns[0]])
            mean_square = np.mean(np.square(block - truth))
            of_mean = np.mean(np.square(truth))
            error = scale * float(np.sqrt(mean_square))
            simple_error = scale * float(np.sqrt(of_mean))
            return HeldOutError(error, simple_error, n_cells)
        found = level_shares(average, variable, block).argmax(axis=1)
        known = level_shares(average, variable, truth).argmax(axis=1)
        most_frequent = np.bincount(known).argmax()
        return HeldOutError(
            float(np.mean(found != known)),
            float(np.mean(known != most_frequent)),
            n_cells,
        )


@frozen
class Calibration:
    """Findings of held-out entries on the average: its weights, its spread and its scores.

    Attributes
    ----------
    average : Average
    spread : Spread
    scores : list of Scores
        Of each variable: residuals in units of sigma for numbers, one minus the probability of
        the true level for others.
    errors : array of shape (n_variables,)
        Mean squared error of held-out entries relative to the variance of the variable; NaN where
        none was held out.
    held_out : list of HeldOutError
        The same in units of the table.
    """

    average: Average
    spread: ErrorVariance
    scores: list[ErrorScores]
    errors: Array
    held_out: list[HeldOutError]

    @staticmethod
    def of(
        predicted: Array,
        measures: Array,
        excess: Array,
        cells: HeldOutCells,
        layout: Standardization,
    ) -> Calibration:
        """Calibrate members' predictions.

        Parameters
        ----------
        predicted : array of shape (n_cells, n_members)
        measures : array of shape (n_measures, n_cells)
            Of how far predictions may be off.
        excess : array of shape (n_cells, n_members)
            Variances of the predictions that those of the whole table do not have.
        cells : HeldOutCells
        layout : Standardization
        """
        average = Average.of(predicted, cells, layout)
        found = average.of_cells(predicted, cells.columns)
        number = np.array([layout.variables[v].is_number for v in layout.owners], dtype=bool)
        numeric = number[cells.columns]
        residuals = cells.truth - found
        spread = ErrorVariance.of(
            np.square(residuals[numeric]), measures[:, numeric], cells.weights[numeric]
        )
        # errors of single trees go together in both forests, so that deviations add up
        deviations = average.of_cells(np.sqrt(excess), cells.columns)
        noise = np.square(deviations)
        shrinkage = _without_excess(residuals[numeric], noise[numeric], cells.weights[numeric])
        ratios = shrinkage * residuals / spread.deviations(measures)
        own = []
        own_weights = []
        errors = []
        held_out = []
        for variable in layout.variables:
            at = np.isin(cells.columns, variable.columns)
            width = len(variable.columns)
            block = found[at].reshape(-1, width)
            truth = cells.truth[at].reshape(-1, width)
            weights = cells.weights[at].reshape(-1, width)[:, 0]
            errors.append(_relative_error(block, truth, weights))
            held_out.append(HeldOutError.of(average, variable, block, truth))
            own_weights.append(weights)
            if variable.is_number:
                own.append(ratios[at])
            else:
                own.append(_level_scores(average, variable, block, truth))
        scores: list[ErrorScores] = []
        shared = {}
        for kind in (True, False):
            of_kind = [np.empty(0)]
            weights_of_kind = [np.empty(0)]
            for v, variable in enumerate(layout.variables):
                if variable.is_number == kind:
                    of_kind.append(own[v])
                    weights_of_kind.append(own_weights[v])
            values = np.concatenate(of_kind)
            weights = np.concatenate(weights_of_kind)
            shared[kind] = _some_quantiles(values, weights)
        for v, variable in enumerate(layout.variables):
            scores.append(ErrorScores.of(own[v], own_weights[v], shared[variable.is_number]))
        return Calibration(average, spread, scores, np.array(errors), held_out)

    def deviations(self, predictions: Predictions) -> Array:
        """Return sigma of the predictions of a table."""
        return self.spread.deviations(predictions.variances)


def _without_excess(residuals: Array, noise: Array, weights: Array) -> float:
    """Return the factor of residuals that removes noise of known variance from them."""
    total = float(weights @ np.square(residuals))
    if not total > 0:
        return 1.0
    share = float(weights @ noise) / total
    return float(np.sqrt(1 - min(share, LARGEST_EXCESS)))


def _relative_error(block: Array, truth: Array, weights: Array) -> float:
    """Return the mean squared error of a variable, whose variance is one."""
    if not len(truth):
        return float("nan")
    squares = np.square(block - truth).sum(axis=1)
    return float(weights @ squares / weights.sum())


def _level_scores(average: Average, variable: Variable, block: Array, truth: Array) -> Array:
    """Return one minus the probability of the true level of held-out entries."""
    shares = level_shares(average, variable, block)
    if len(variable.columns) > 1:
        layout = average.layout
        levels = truth * layout.scale[variable.columns] + layout.center[variable.columns]
        position = levels.argmax(axis=1)
    else:
        position = (truth[:, 0] > 0).astype(int)
    return 1 - shares[np.arange(len(shares)), position]


def level_shares(average: Average, variable: Variable, block: Array) -> Array:
    """Return the probability of each level of a variable, from its standardized columns."""
    layout = average.layout
    columns = variable.columns
    Z = np.zeros((len(block), len(layout.scale)))
    Z[:, columns] = block
    limited = average.limited(Z, variable)
    if len(columns) > 1:
        return limited * layout.scale[columns] + layout.center[columns]
    low = layout.low[columns]
    high = layout.high[columns]
    share = (limited - low) / (high - low)
    return np.hstack([1 - share, share])


def prediction_sets(shares: Array, scores: ErrorScores, level: float) -> Array:
    """Return which levels a set holds: those whose score a share `level` of new ones reaches.

    The most probable level is in every set.
    """
    limit = scores.limit(level)
    chosen = 1 - shares <= limit
    chosen[np.arange(len(shares)), shares.argmax(axis=1)] = True
    return chosen


def weighted_mean(values: Sequence[float] | Array, weights: Array) -> float:
    """Return the mean of the values that are finite."""
    values = np.asarray(values, dtype=float)
    finite = np.isfinite(values) & (weights > 0)
    if not finite.any():
        return float("nan")
    return float(np.average(values[finite], weights=weights[finite]))
