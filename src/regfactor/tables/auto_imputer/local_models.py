"""Models of single variables: kernel corrections of a normal distribution, and forests on top."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from regfactor.core.params import Array, frozen
from regfactor.tables.auto_imputer.conditioning import Conditioned, Normal
from regfactor.tables.auto_imputer.forests import Forest, ForestPrediction
from regfactor.tables.auto_imputer.kernel_residuals import (
    MAX_DONORS,
    RIDGES,
    KernelCorrection,
    fit_kernel,
)
from regfactor.tables.auto_imputer.variables import Variable

MIN_OBSERVED = 10  # entries below which a variable has no kernel and no forest
N_NEAREST = 24  # other columns that a kernel or a forest looks at
# chance that an indicator of missing entries, of all of a table, is taken without a reason
INDICATOR_LEVEL = 0.01
MIN_INDICATOR_SHARE = 0.03  # of rows where an entry is missing, and where it is not


@frozen
class FilledRows:
    """Rows as the kernels fill them, and predictions of all entries from the rest of their row.

    Attributes
    ----------
    filled : array of shape (n_rows, n_columns)
        Missing entries by the kernels.
    linear, kernel : array of the same shape
        Entries as the normal distribution, and the kernels, predict them from the rest of a row.
    """

    filled: Array
    linear: Array
    kernel: Array


@frozen
class VariableKernel:
    """The correction of one variable; None where it has too few entries.

    Attributes
    ----------
    variable : Variable
    others : array of int
        Columns that it looks at.
    correction : KernelCorrection or None
    ridge : float
    """

    variable: Variable
    others: Array
    correction: KernelCorrection | None
    ridge: float

    def inputs(self, filled: Array, linear: Array) -> Array:
        """Return other columns and the linear prediction."""
        return np.hstack([filled[:, self.others], linear])

    def predict(self, filled: Array, linear: Array) -> Array:
        """Return the variable in rows filled without it."""
        if self.correction is None or not len(filled):
            return linear
        return linear + self.correction.predict(self.inputs(filled, linear))


@frozen
class FittedKernels:
    """Corrections of all variables, and the rows that they were fitted to."""

    kernels: list[VariableKernel]
    rows: FilledRows


def nearest_columns(normal: Normal, variable: Variable) -> Array:
    """Return the columns outside of a variable that are most correlated with it."""
    cross = normal.cross_covariance(variable.columns)
    size = np.square(cross).sum(axis=0)
    size[variable.columns] = -1.0
    others = np.argsort(-size, kind="stable")[:N_NEAREST]
    return np.sort(others[size[others] >= 0])


def fit_kernels(
    Z: Array,
    weights: Array,
    variables: list[Variable],
    normal: Normal,
    conditioned: Conditioned,
    ridges: list[tuple[float, ...]] | None,
    seed: int,
) -> FittedKernels:
    """Fit a correction for each variable; `ridges` are those that each may choose from."""
    random = np.random.default_rng(seed)
    filled = conditioned.filled.copy()
    linear = conditioned.filled.copy()
    kernel = conditioned.filled.copy()
    kernels = []
    for v, variable in enumerate(variables):
        columns = variable.columns
        observed = ~np.isnan(Z[:, columns[0]])
        others = nearest_columns(normal, variable)
        left = conditioned.leave_out(columns)
        linear[:, columns] = left.predicted
        kernel[:, columns] = left.predicted
        rows = np.flatnonzero(observed)
        if len(rows) < MIN_OBSERVED or not len(others):
            kernels.append(VariableKernel(variable, others, None, 0.0))
            continue
        without = conditioned.filled_without(columns, left.residual)
        inputs = np.hstack([without[:, others], left.predicted])
        donors = rows
        if len(rows) > MAX_DONORS:
            donors = np.sort(random.choice(rows, MAX_DONORS, replace=False))
        allowed = RIDGES if ridges is None else ridges[v]
        fit = fit_kernel(inputs[donors], left.residual[donors], weights[donors], allowed)
        others_rows = np.setdiff1d(np.arange(len(Z)), donors)
        kernel[np.ix_(donors, columns)] += fit.left_out
        kernel[np.ix_(others_rows, columns)] += fit.correction.predict(inputs[others_rows])
        missing = np.flatnonzero(~observed)
        filled[np.ix_(missing, columns)] = kernel[np.ix_(missing, columns)]
        kernels.append(VariableKernel(variable, others, fit.correction, fit.ridge))
    return FittedKernels(kernels, FilledRows(filled, linear, kernel))


def fill_by_kernels(
    Z: Array, kernels: list[VariableKernel], conditioned: Conditioned
) -> FilledRows:
    """Return rows filled by fitted kernels; entries that are observed are left as they are."""
    base = conditioned.filled
    filled = base.copy()
    for kernel in kernels:
        columns = kernel.variable.columns
        rows = np.flatnonzero(np.isnan(Z[:, columns[0]]))
        if len(rows):
            found = kernel.predict(base[rows], base[np.ix_(rows, columns)])
            filled[np.ix_(rows, columns)] = found
    return FilledRows(filled, base, filled)


@frozen
class VariableForest:
    """The forest of one variable, the columns and the indicators of missing entries it looks at."""

    variable: Variable
    others: Array
    indicators: Array
    forest: Forest | None

    def inputs(self, rows: FilledRows, absent: Array, at: Array) -> Array:
        """Return the inputs of some rows; `absent` marks missing entries of the given table."""
        columns = self.variable.columns
        return np.hstack(
            [
                rows.filled[np.ix_(at, self.others)],
                rows.linear[np.ix_(at, columns)],
                rows.kernel[np.ix_(at, columns)],
                absent[np.ix_(at, self.indicators)],
            ]
        )

    def predict(self, rows: FilledRows, absent: Array, at: Array) -> ForestPrediction | None:
        """Return the variable in some rows; None where there is no forest."""
        if self.forest is None or not len(at):
            return None
        return self.forest.predict(self.inputs(rows, absent, at))


def fit_forests(
    Z: Array,
    absent: Array,
    weights: Array,
    fitted: FittedKernels,
    conditioned: Conditioned,
    indicators: list[Array],
    n_trees: int,
    seed: int,
) -> list[VariableForest]:
    """Fit a forest for each variable.

    Entries that the kernels filled with the help of the variable are freed of it as far as the
    normal distribution goes, since it is not there where it is predicted.
    """
    seeds = np.random.default_rng(seed).integers(2**31 - 1, size=len(fitted.kernels))
    forests = []
    for v, kernel in enumerate(fitted.kernels):
        variable = kernel.variable
        columns = variable.columns
        if kernel.correction is None:
            forests.append(VariableForest(variable, kernel.others, indicators[v][:0], None))
            continue
        rows = np.flatnonzero(~np.isnan(Z[:, columns[0]]))
        stated = VariableForest(variable, kernel.others, indicators[v], None)
        inputs = stated.inputs(fitted.rows, absent, rows)
        residual = conditioned.leave_out(columns).residual
        without = conditioned.filled_without(columns, residual)
        inputs[:, : len(kernel.others)] += (without - conditioned.filled)[
            np.ix_(rows, kernel.others)
        ]
        values = Z[np.ix_(rows, columns)]
        forest = Forest.fit(
            inputs,
            values,
            values - fitted.rows.kernel[np.ix_(rows, columns)],
            weights[rows],
            n_trees,
            int(seeds[v]),
        )
        forests.append(VariableForest(variable, kernel.others, indicators[v], forest))
    return forests


def predict_by_forests(
    forests: list[VariableForest], rows: FilledRows, absent: Array, wanted: Array
) -> ForestPrediction:
    """Return tables of what forests predict for wanted entries; by the kernels where none is.

    The residuals of the result are predictions too: those of the kernels, corrected.
    """
    values = rows.kernel.copy()
    corrected = rows.kernel.copy()
    variances = np.zeros(values.shape)
    between = np.zeros(values.shape)
    for forest in forests:
        columns = forest.variable.columns
        at = np.flatnonzero(wanted[:, columns[0]])
        found = forest.predict(rows, absent, at)
        if found is None:
            continue
        cells = np.ix_(at, columns)
        values[cells] = found.values
        corrected[cells] += found.residuals
        variances[cells] = found.variances[:, None]
        between[cells] = found.between[:, None]
    return ForestPrediction(values, corrected, variances, between)


def informative_indicators(
    Z: Array, absent: Array, weights: Array, fitted: FittedKernels
) -> list[Array]:
    """Return, for each variable, columns whose missing entries go with its residuals.

    Residuals are those of the kernels on entries that they were not given. If entries are missing
    at random, residuals do not depend on them, and a correlation beyond the level of a normal test,
    corrected for the number of pairs, is found in one table of a hundred.
    """
    firsts = np.array([kernel.variable.columns[0] for kernel in fitted.kernels])
    marks = absent[:, firsts].astype(float)
    shares = weights @ marks / weights.sum()
    usable = (shares > MIN_INDICATOR_SHARE) & (shares < 1 - MIN_INDICATOR_SHARE)
    n_pairs = max(len(firsts) * int(usable.sum()), 1)
    critical = float(-ndtri(INDICATOR_LEVEL / (2 * n_pairs)))
    found = []
    for kernel in fitted.kernels:
        columns = kernel.variable.columns
        rows = np.flatnonzero(~np.isnan(Z[:, columns[0]]))
        if kernel.correction is None or not usable.any():
            found.append(np.empty(0, dtype=int))
            continue
        residuals = (Z - fitted.rows.kernel)[np.ix_(rows, columns)]
        z = _correlation_scores(residuals, marks[rows], weights[rows])
        chosen = usable & (z > critical)
        chosen &= firsts != columns[0]
        found.append(firsts[chosen])
    return found


def _correlation_scores(residuals: Array, marks: Array, weights: Array) -> Array:
    """Return the largest |correlation| sqrt(n) of each mark with any column of residuals."""
    total = weights.sum()
    R = residuals - weights @ residuals / total
    M = marks - weights @ marks / total
    cross = np.abs((R * weights[:, None]).T @ M)
    sizes = np.sqrt(np.outer(weights @ np.square(R), weights @ np.square(M)))
    scores = cross / np.where(sizes > 0, sizes, np.inf) * np.sqrt(total)
    return np.asarray(scores.max(axis=0))
