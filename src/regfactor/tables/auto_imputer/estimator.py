"""The table, filled: what members predict, averaged, and how sure each filled entry is."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import ndtr
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from regfactor.core.loop import Solution
from regfactor.core.params import Array, choose, frozen, require_count, warn
from regfactor.fitting.base import Choice, Run, Transformer
from regfactor.fitting.conformal import PredictionInterval
from regfactor.fitting.explanation import Explanation, MemberReport
from regfactor.fitting.inputs import weights_of_all_rows
from regfactor.fitting.known import NOTHING, Known
from regfactor.fitting.parameters import NON_NEGATIVE, check_level, parametrized
from regfactor.fitting.pool_estimator import PoolEstimator
from regfactor.tables.auto_imputer.bounds import read_bounds, truncated_draws, truncated_means
from regfactor.tables.auto_imputer.calibration import (
    Calibration,
    level_shares,
    prediction_sets,
    weighted_mean,
)
from regfactor.tables.auto_imputer.filling import TableReader
from regfactor.tables.auto_imputer.limits import Limited, LimitModel
from regfactor.tables.auto_imputer.model import Cascade
from regfactor.tables.auto_imputer.parts import cascade_data
from regfactor.tables.auto_imputer.stages import CascadeData, CascadePool
from regfactor.tables.auto_imputer.stating import (
    MEMBERS,
    excess_variances,
    held_out_measures,
    stages,
    whole_cascade,
)
from regfactor.tables.auto_imputer.variables import Standardization

AUTO = "auto"
UNPREDICTABLE = 0.95  # share of its variance that is missed, from which a variable is called so


@frozen
class ImputerInputs:
    """The table as numbers, the rows that count, and how results are given back."""

    reader: TableReader
    E: Array
    counted: Array
    weights: Array
    bounds: Array
    layout: Standardization


@frozen
class FilledTable:
    """Averages of the members for all entries of a table, and their deviations.

    Attributes
    ----------
    Z, deviations : array of shape (n_rows, n_columns)
        In standardized units.
    """

    Z: Array
    deviations: Array


@parametrized
class AutoImputer(Transformer, PoolEstimator):
    """x_ij = sum over members m of w_jm f_m(rest of row i), weights by entries that were held out.

    The members are a cascade, each of which predicts an entry from the rest of its row: a certified
    low-rank model, a normal distribution whose covariance is shrunk to it, the same for normal
    scores, kernel ridge regression of what these leave, and a forest on top of all. Leave-one-out
    predictions of one stage, which are exact, are inputs of the next. Members are averaged with
    non-negative weights, and calibrated, by entries that were held out of all of them.

    Parameters
    ----------
    members : "auto" or list of str, default="auto"
        Names of the members that are averaged: "low rank", "gaussian", "copula", "kernel",
        "forest", "residual forest". "auto" are all that suit the table.
    bounds : dict, optional
        Lower and upper bounds of numbers, {column: (lower, upper)}, None where there is none.
        Distributions are truncated by them. Columns of counts do not fall below zero in any case.
    sparse_zeros : {"observed", "missing"}, default="observed"
        What the absent entries of a sparse matrix are.
    time_limit : float, optional
        Seconds; members that are not fitted in time are left out, with a warning.
    verbose : int, default=0
    random_state : int, RandomState instance or None, default=None
        Of the entries that are held out, the trees, and the rows that represent a long table.
    callback : callable, optional
        Called after the fit of each member; the pool is complete when it returns a true value.

    Attributes
    ----------
    members_ : list of str
        Names of the members.
    weights_ : ndarray of shape (n_members,)
        Mean of their weights over the variables. They need not sum to one: the smaller the sum, the
        more a filled entry is drawn to the mean of its column.
    scores_ : ndarray of shape (n_members,)
        Share of the variance of held-out entries that each member explains.
    held_out_error_ : dict of column to float
        Share of the variance of held-out entries that the average misses; NaN where a column has
        too few entries to hold some out.
    held_out_ : dict of column to HeldOutError
        The same in units of the table: `error` of the held-out entries (root mean square of
        numbers, share of wrong levels), `simple_error` of the mean or the most frequent level, and
        `n_cells`.
    categories_ : dict of column to list
        Levels of the columns that are not numbers, in the order of `complete_proba`.
    informative_missingness_ : dict of column to list
        Columns whose missing entries help to predict a column.
    n_features_in_ : int
    objective_ : float
        Mean squared error of held-out entries, in units of the variance of their column.
    status_, solver_, n_iter_, history_
        How the run went; an iteration is the fit of a member.

    See Also
    --------
    SubspaceImputer : The low-rank model alone, with a certificate.
    sklearn.impute.IterativeImputer : Regresses each column on the others, in turn.

    Notes
    -----
    Frames of pandas and polars may hold numbers, truth values, categories and strings; index,
    columns, types and categories are kept. In an array, adjacent columns of 0 and 1 that are
    missing together and sum to one are taken for the levels of a category. A number is filled by
    its expectation, also one of two values, which for 0 and 1 is a probability; a column whose
    *type* is whole numbers or truth values is filled by the nearest of these, a category by
    the most probable level.

    Single numbers more than 100 interquartile ranges from the median of their column, which are far
    off in logarithms too, are taken for gross errors, up to a tenth of a column: they are kept,
    with a warning, and no model is fitted to them.

    Intervals, sets and draws assume that entries are missing at random given the observed ones.
    Where missing entries of other columns go with the residuals of a column, they are inputs of its
    forest; what depends on the missing number itself cannot be seen in a table.

    Beyond 200 columns (a level of a category counts as one) distributions are kept as factors and
    noise, and beyond 400 variables only the low-rank member is fitted. Weights and
    intervals of more than 3000 rows are those of 3000 of them.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import AutoImputer
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, 200)
    >>> table = np.column_stack([x, x**2, np.sin(x)]) + 0.05 * rng.normal(size=(200, 3))
    >>> X = table.copy()
    >>> X[rng.random(X.shape) < 0.2] = np.nan
    >>> model = AutoImputer(random_state=0).fit(X)
    >>> filled = model.transform(X)
    >>> missing = np.isnan(X)
    >>> print(f"error {np.abs(filled - table)[missing].mean():.1f}")
    error 0.3
    >>> lower, upper = model.complete_interval(X, level=0.9)
    >>> covered = (lower <= table) & (table <= upper)
    >>> bool(covered[missing].mean() > 0.8)
    True
    """

    _no_certificate = "members are averaged by held-out entries, and the model"
    _takes_missing = True
    _takes_sparse = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "members": [StrOptions({AUTO}), list, tuple],
        "bounds": [dict, None],
        "sparse_zeros": [StrOptions({"missing", "observed"})],
        "time_limit": [NON_NEGATIVE, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "callback": [callable, None],
    }

    members: Any = "auto"
    bounds: Any = None
    _: KW_ONLY
    sparse_zeros: str = "observed"
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        lower: Any = None,
        upper: Any = None,
    ) -> Self:
        """Fit the members to a table.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            NaN, None or a frame's NA where an entry is missing.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weights act as repetition counts; a row of weight zero is filled as a new one.
        lower, upper : array-like of shape (n_samples, n_features), optional
            Limits of missing entries of columns of numbers, as "< 0.5" or "3 to 5" tell them; NaN
            or an infinite one is open. A certified low-rank model that counts these limits, on
            logarithms where held-out entries are nearer to normal there, fills such entries first;
            all members then see them as numbers.

        Returns
        -------
        self
        """
        return self._fit(X, sample_weight, known=Known(lower, upper))

    def _read(self, X: Any, sample_weight: Any, known: Known = NOTHING) -> ImputerInputs:
        for name in self._member_names():
            choose(name, dict.fromkeys(MEMBERS), "member")
        reader, E = TableReader.of(self, X)
        weights = weights_of_all_rows(E, sample_weight)
        self._limit_model: LimitModel | None = None
        if not known.is_nothing:
            cells = Limited.of(X, E, known, reader)
            E = cells.E
            if cells.at.any():
                seed = int(check_random_state(self.random_state).randint(2**31 - 1))
                self._limit_model = LimitModel.of(cells, weights, seed)
                E = self._limit_model.filled(cells)
        bounds = read_bounds(self.bounds, reader, E)
        counted = weights > 0
        labels = [
            name for name, block in zip(reader.names, reader.blocks, strict=True) for _ in block
        ]
        _warn_of_missing_columns(E[counted], labels)
        layout = Standardization.of(E[counted], weights[counted], reader.blocks)
        _warn_of_gross_errors(E[counted], layout, labels)
        return ImputerInputs(reader, E, counted, weights, bounds, layout)

    def _member_names(self) -> list[str]:
        if isinstance(self.members, str):
            return list(MEMBERS)
        return list(self.members)

    def _state(self, inputs: ImputerInputs) -> CascadePool:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        Z = inputs.layout.apply(inputs.E[inputs.counted])
        data = cascade_data(Z, inputs.weights[inputs.counted], inputs.layout, seed)
        return CascadePool(stages(data, self._member_names()), data)

    def _publish(
        self,
        choice: Choice[CascadePool],
        solution: Solution[Any],
        inputs: ImputerInputs,
        run: Run,
    ) -> Solution[Any]:
        pool = choice.problem
        fitted = solution.point
        data: CascadeData = pool.data
        predicted = np.column_stack([member.held_out for member in fitted])
        cells = data.held_out_cells
        used: Any = pool.members[: len(fitted)]
        self._model: Cascade = whole_cascade(used)
        measures = held_out_measures(used, data)
        excess = excess_variances(used, data)
        self._calibration = Calibration.of(predicted, measures, excess, cells, inputs.layout)
        self._reader = inputs.reader
        self._layout = inputs.layout
        self._bounds = inputs.bounds
        self.members_ = [member.name for member in fitted]
        self._assumptions = [member.assumes for member in fitted]
        firsts = [variable.columns[0] for variable in inputs.layout.variables]
        weights = self._calibration.average.weights[firsts]
        if len(weights):
            self.weights_ = weights.mean(axis=0)
        else:
            self.weights_ = np.ones(len(fitted))
        self.scores_ = _explained(predicted, data)
        self._publish_variables()
        return solution

    def _publish_variables(self) -> None:
        """Set what is reported of each variable."""
        self.held_out_error_ = {}
        self.held_out_ = {}
        self.categories_ = {}
        self.informative_missingness_ = {}
        for v, variable, name in self._named_variables():
            self.held_out_error_[name] = float(self._calibration.errors[v])
            self.held_out_[name] = self._calibration.held_out[v]
            if not variable.is_number:
                self.categories_[name] = self._levels(v)
        forests = {int(f.variable.columns[0]): f for f in self._model.forests}
        names = {int(variable.columns[0]): name for _, variable, name in self._named_variables()}
        for first, forest in forests.items():
            if len(forest.indicators):
                found = [names[int(j)] for j in forest.indicators]
                self.informative_missingness_[names[first]] = found

    def _named_variables(self) -> list[tuple[int, Any, Any]]:
        """Return position, variable and the user's name of the variables that vary."""
        owner = {}
        for name, block in zip(self._reader.names, self._reader.blocks, strict=True):
            for j in block.tolist():
                owner[j] = name
        found = []
        for v, variable in enumerate(self._layout.variables):
            encoded = int(self._layout.kept[variable.columns[0]])
            found.append((v, variable, owner[encoded]))
        return found

    def _given(self, v: int) -> int:
        """Return the position of a variable among those of the reader."""
        encoded = int(self._layout.kept[self._layout.variables[v].columns[0]])
        for given, block in enumerate(self._reader.blocks):
            if encoded in block:
                return given
        raise AssertionError("every encoded column belongs to a variable")

    def _levels(self, v: int) -> list[Any]:
        """Return the levels of a variable in the order of its probabilities."""
        given = self._given(v)
        variable = self._layout.variables[v]
        levels = self._reader.levels(given)
        if not levels:
            j = variable.columns[0]
            pair = np.array([self._layout.low[j], self._layout.high[j]])
            values = pair * self._layout.scale[j] + self._layout.center[j]
            return [float(np.round(value, 12)) for value in values]
        if len(variable.columns) > 1:
            inside = self._layout.kept[variable.columns] - self._reader.blocks[given][0]
            return [levels[j] for j in inside]
        return levels

    def _predict(self, E: Array) -> FilledTable:
        """Return averages and deviations of encoded rows, in standardized units."""
        Z = self._layout.apply(E)
        means = Z.copy()
        deviations = np.zeros(Z.shape)
        for block in self._model.blocks(Z):
            if not np.isnan(Z[block]).any():
                continue
            predictions = self._model.predict(Z[block])
            averaged = self._calibration.average.apply(predictions.members)
            means[block] = np.where(np.isnan(Z[block]), averaged, Z[block])
            deviations[block] = self._calibration.deviations(predictions)
        return FilledTable(means, deviations)

    def _cells(self, X: Any, known: Known) -> Limited:
        """Return a table as numbers, and the limits of its entries; raise for bad ones."""
        E = self._reader.read(self, X)
        if known.is_nothing:
            none = np.broadcast_to(np.inf, E.shape)
            return Limited(E, -none, none)
        cells = Limited.of(X, E, known, self._reader)
        if not cells.at.any():
            return cells
        if self._limit_model is None:
            raise ValueError(
                "The model was fitted without limits of entries: fit it with lower or upper too."
            )
        owners = np.empty(E.shape[1], object)
        for name, block in zip(self._reader.names, self._reader.blocks, strict=True):
            owners[block] = [name] * len(block)
        self._limit_model.check(cells, list(owners))
        return cells

    def _between(self, cells: Limited) -> Array:
        """Return encoded rows with the entries filled that are known by limits."""
        if self._limit_model is None or not cells.at.any():
            return cells.E
        return self._limit_model.filled(cells)

    def _completed(self, E: Array) -> tuple[Array, FilledTable]:
        """Return encoded rows with missing entries filled, and what they were filled by."""
        found = self._predict(E)
        limited = found.Z.copy()
        for variable in self._layout.variables:
            limited[:, variable.columns] = self._calibration.average.limited(found.Z, variable)
        out = self._layout.invert(limited)
        for v, variable in enumerate(self._layout.variables):
            if not variable.is_number:
                continue
            j = int(self._layout.kept[variable.columns[0]])
            rows = np.isnan(E[:, j])
            out[rows, j] = self._truncated(v, out[rows, j], found.deviations[rows])
        missing = np.isnan(E)
        return np.where(missing, out, E), FilledTable(limited, found.deviations)

    def _truncated(self, v: int, means: Array, deviations: Array) -> Array:
        """Return means of one number within its bounds."""
        k = self._layout.variables[v].columns[0]
        low, high = self._bounds[:, self._layout.kept[k]]
        if not np.isfinite(high) and low in (-np.inf, 0.0):  # none, or those of counts
            return np.maximum(means, low)
        scale = self._layout.scale[k]
        return truncated_means(
            means, deviations[:, k] * scale, self._calibration.scores[v], low, high
        )

    def complete(self, X: Any, *, lower: Any = None, upper: Any = None) -> Any:
        """Return the table with its missing entries filled.

        Observed entries, type, index, columns and categories are kept. A column that was never
        observed in `fit` stays missing.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            The training table or new rows.
        lower, upper : array-like of shape (n_samples, n_features), optional
            Limits of missing entries, as in `fit`.

        Returns
        -------
        The same kind of table as X; an array for a sparse matrix.
        """
        check_is_fitted(self)
        cells = self._cells(X, Known(lower, upper))
        filled, _ = self._completed(self._between(cells))
        return self._reader.write(X, self._reader.read(self, X), filled)

    def transform(self, X: Any, *, lower: Any = None, upper: Any = None) -> Any:
        """Return the table with its missing entries filled, as `complete` does.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
        lower, upper : array-like of shape (n_samples, n_features), optional
            Limits of missing entries, as in `fit`.

        Returns
        -------
        The same kind of table as X; an array for a sparse matrix.
        """
        return self.complete(X, lower=lower, upper=upper)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and return the completed table."""
        known = {name: fit_params.get(name) for name in ("lower", "upper")}
        return self.fit(X, y, **fit_params).complete(X, **known)

    def complete_interval(
        self,
        X: Any,
        level: float = 0.9,
        *,
        lower: Any = None,
        upper: Any = None,
    ) -> PredictionInterval:
        """Return limits between which missing entries lie with a given probability.

        The width follows the model; how many widths are needed is read off entries that were held
        out, of the column and, in the weight of 20 entries, of all columns.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            The training table or new rows.
        level : float, default=0.9
            Share of the missing entries that is to be covered, in (0, 1).
        lower, upper : array-like of shape (n_samples, n_features), optional
            Limits of missing entries, as in `fit`.

        Returns
        -------
        PredictionInterval
            (lower, upper), two tables like X. Observed entries are their own limits. Categories in
            an order, truth values and numbers of two values have the outermost levels of their
            prediction set; a category without an order has its label where the set holds one level
            alone, else the cell stays missing (see `complete_set`). Numbers have infinite limits
            where too few entries could be held out.
        """
        check_is_fitted(self)
        check_level(level)
        cells = self._cells(X, Known(lower, upper))
        E = self._between(cells)
        filled, found = self._completed(E)
        lowest = filled.copy()
        highest = filled.copy()
        if self._limit_model is not None and cells.at.any():
            low, high = self._limit_model.interval(cells, level)
            lowest[cells.at] = low[cells.at]
            highest[cells.at] = high[cells.at]
        self._widen_constants(E, level, lowest, highest)
        unordered = {}
        for v, variable in enumerate(self._layout.variables):
            columns = self._layout.kept[variable.columns]
            rows = np.flatnonzero(np.isnan(E[:, columns[0]]))
            if not len(rows):
                continue
            if variable.is_number:
                low, high = self._limits(
                    v,
                    filled[rows, columns[0]],
                    found.deviations[rows],
                    level,
                )
                lowest[rows, columns[0]] = low
                highest[rows, columns[0]] = high
                continue
            given = self._given(v)
            chosen = self._sets(v, found.Z, level)
            if self._reader.is_ordered(given):
                first = chosen.argmax(axis=1)
                last = chosen.shape[1] - 1 - chosen[:, ::-1].argmax(axis=1)
                lowest[np.ix_(rows, columns)] = self._encoded_levels(v, first[rows])
                highest[np.ix_(rows, columns)] = self._encoded_levels(v, last[rows])
            else:
                unordered[given] = chosen
        as_given = self._reader.read(self, X)
        return PredictionInterval(
            self._reader.write_limits(X, as_given, lowest, unordered),
            self._reader.write_limits(X, as_given, highest, unordered),
        )

    def _widen_constants(self, E: Array, level: float, lowest: Array, highest: Array) -> None:
        """Write the bounds of missing numbers whose columns have too few equal entries.

        Of m + 1 exchangeable entries, the missing one is not the only one that differs with a
        probability of at least m / (m + 1), and nothing is known of its size.
        """
        for given, block in enumerate(self._reader.blocks):
            j = int(block[0])
            if len(block) > 1 or j in self._layout.kept or self._reader.levels(given):
                continue
            count = self._layout.counts[j]
            if count <= 0 or (count + 1) * level <= count:
                continue
            rows = np.isnan(E[:, j])
            lowest[rows, j], highest[rows, j] = self._bounds[:, j]

    def _limits(
        self,
        v: int,
        means: Array,
        deviations: Array,
        level: float,
    ) -> tuple[Array, Array]:
        """Return the limits of one number in its units."""
        k = self._layout.variables[v].columns[0]
        j = self._layout.kept[k]
        factor = self._calibration.scores[v].limit(level)
        half = factor * deviations[:, k] * self._layout.scale[k]
        least, most = self._bounds[:, j]
        lower = np.maximum(means - half, least)
        upper = np.minimum(means + half, most)
        if self._reader.whole[j]:  # no whole number is lost between a limit and the next inside
            center = np.rint(means)
            lower = np.minimum(np.ceil(lower), center)
            upper = np.maximum(np.floor(upper), center)
        return lower, upper

    def _sets(self, v: int, Z: Array, level: float) -> Array:
        """Return the prediction sets of a variable that is not a number, of all rows."""
        shares = self._shares(v, Z)
        return prediction_sets(shares, self._calibration.scores[v], level)

    def _shares(self, v: int, Z: Array) -> Array:
        variable = self._layout.variables[v]
        return level_shares(self._calibration.average, variable, Z[:, variable.columns])

    def _encoded_levels(self, v: int, positions: Array) -> Array:
        """Return the encoded columns of levels given by position."""
        columns = self._layout.variables[v].columns
        if len(columns) > 1:
            return np.eye(len(columns))[positions]
        low = self._layout.low[columns]
        high = self._layout.high[columns]
        Z = np.where(positions[:, None] > 0, high, low)
        return Z * self._layout.scale[columns] + self._layout.center[columns]

    def complete_proba(self, X: Any) -> dict[Any, Array]:
        """Return the probability of each level of the columns that are not numbers.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)

        Returns
        -------
        dict of column to ndarray of shape (n_samples, n_levels)
            Levels are those of `categories_`; an observed cell has probability one.
        """
        check_is_fitted(self)
        _, found = self._completed(self._reader.read(self, X))
        shares = {}
        for v, variable, name in self._named_variables():
            if not variable.is_number:
                shares[name] = self._shares(v, found.Z)
        return shares

    def complete_set(self, X: Any, level: float = 0.9) -> dict[Any, Array]:
        """Return the levels that columns which are not numbers may have in each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
        level : float, default=0.9
            Share of the missing cells whose true level is to be in its set.

        Returns
        -------
        dict of column to ndarray of bool of shape (n_samples, n_levels)
            Levels are those of `categories_`; an observed cell has its own alone.
        """
        check_is_fitted(self)
        check_level(level)
        E = self._reader.read(self, X)
        _, found = self._completed(E)
        sets = {}
        for v, variable, name in self._named_variables():
            if variable.is_number:
                continue
            chosen = self._sets(v, found.Z, level)
            known = ~np.isnan(E[:, self._layout.kept[variable.columns[0]]])
            shares = self._shares(v, found.Z)
            chosen[known] = shares[known] > 0.5
            sets[name] = chosen
        return sets

    def sample(
        self,
        X: Any,
        n_draws: int = 20,
        random_state: Any = None,
        *,
        lower: Any = None,
        upper: Any = None,
    ) -> list[Any]:
        """Return completed tables whose missing entries are drawn from their distribution.

        A number is its expectation plus a residual, distributed as those of held-out entries in
        units of its deviation; residuals of a row are correlated as the distribution of the table
        has them. Levels are drawn by their probabilities. Columns of whole numbers have whole
        numbers, and no number leaves its bounds.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
        n_draws : int, default=20
        random_state : int, RandomState instance or None, default=None
            None takes that of the estimator.
        lower, upper : array-like of shape (n_samples, n_features), optional
            Limits of missing entries, as in `fit`.

        Returns
        -------
        list of n_draws tables like X
        """
        check_is_fitted(self)
        require_count(self, n_draws=n_draws)
        if random_state is None:
            random_state = self.random_state
        seed = check_random_state(random_state).randint(2**31 - 1)
        random = np.random.default_rng(seed)
        cells = self._cells(X, Known(lower, upper))
        given = self._reader.read(self, X)
        drawn_between = [cells.E]
        if self._limit_model is not None and cells.at.any():
            drawn_between = self._limit_model.draws(cells, n_draws, seed)
        tables = []
        for draw in range(n_draws):
            if draw < len(drawn_between):
                E = drawn_between[draw]
                filled, found = self._completed(E)
                Z = self._layout.apply(E)
            drawn = filled.copy()
            shares = np.zeros(Z.shape)
            for block in self._model.blocks(Z):
                shares[block] = ndtr(self._model.base.condition(Z[block]).draw(random))
            for v, variable in enumerate(self._layout.variables):
                columns = self._layout.kept[variable.columns]
                rows = np.flatnonzero(np.isnan(E[:, columns[0]]))
                if len(rows):
                    places = np.ix_(rows, columns)
                    drawn[places] = self._drawn(v, rows, found, shares, random)
            tables.append(self._reader.write(X, given, drawn))
        return tables

    def _drawn(
        self,
        v: int,
        rows: Array,
        found: FilledTable,
        shares: Array,
        random: np.random.Generator,
    ) -> Array:
        """Return draws of the encoded columns of one variable in some rows."""
        variable = self._layout.variables[v]
        columns = variable.columns
        if not variable.is_number:
            levels = self._shares(v, found.Z)[rows]
            uniform = shares[rows, columns[0]]
            if len(columns) > 1:
                uniform = random.random(len(rows))
            positions = (np.cumsum(levels, axis=1) < uniform[:, None]).sum(axis=1)
            return self._encoded_levels(v, np.minimum(positions, levels.shape[1] - 1))
        k = columns[0]
        scale = self._layout.scale[k]
        j = self._layout.kept[k]
        low, high = self._bounds[:, j]
        values = truncated_draws(
            found.Z[rows, k] * scale + self._layout.center[k],
            found.deviations[rows, k] * scale,
            shares[rows, k],
            self._calibration.scores[v],
            low,
            high,
        )
        if self._reader.whole[j]:
            values = np.rint(values)
        return values[:, None]

    def explain(self) -> Explanation:
        """Return which members carried the result, and which columns can be predicted at all.

        Returns
        -------
        Explanation
            A table (member, weight, score, what it assumes) and sentences; `print` shows both.
        """
        check_is_fitted(self)
        reports = []
        for k, name in enumerate(self.members_):
            reports.append(
                MemberReport(
                    name, float(self.weights_[k]), float(self.scores_[k]), self._assumptions[k]
                )
            )
        first = max(reports, key=lambda report: report.weight)
        errors = np.array(list(self.held_out_error_.values()))
        sentences = [f"{first.member} carries most ({first.weight:.0%}): {first.assumes}."]
        known = weighted_mean(errors, np.ones(len(errors)))
        if np.isfinite(known):
            sentences.append(
                f"Of the variance of held-out entries {max(1 - known, 0.0):.0%} is explained, on "
                "average over columns."
            )
        poor = [str(name) for name, error in self.held_out_error_.items() if error > UNPREDICTABLE]
        if poor:
            sentences.append(
                f"The rest of a row says little about {_listed(poor)}: filled entries there are "
                "near the mean of the column."
            )
        if self.informative_missingness_:
            columns = [str(name) for name in self.informative_missingness_]
            sentences.append(
                f"Missing entries of other columns help to predict {_listed(columns)}: they are "
                "not missing completely at random."
            )
        name = "share of the variance of held-out entries that a member explains; 1 is best"
        return Explanation.of(reports, name, sentences)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns, which stay what they are.

        Parameters
        ----------
        input_features : array-like of str, optional

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        return np.asarray(_check_feature_names_in(self, input_features), dtype=object)


def _explained(predicted: Array, data: CascadeData) -> Array:
    """Return the share of the variance of held-out entries that each member explains."""
    cells = data.held_out_cells
    if not len(cells.truth):
        return np.full(predicted.shape[1], np.nan)
    total = cells.weights @ np.square(cells.truth)
    wrong = cells.weights @ np.square(predicted - cells.truth[:, None])
    return 1 - wrong / total


def _warn_of_missing_columns(E: Array, names: list[Any]) -> None:
    """Warn of columns without an observed entry, which stay missing."""
    empty = [names[j] for j in np.flatnonzero(np.isnan(E).all(axis=0))]
    if empty:
        known = list(dict.fromkeys(str(name) for name in empty))
        warn(f"Columns without an observed entry stay missing: {_listed(known)}.")


def _warn_of_gross_errors(E: Array, layout: Standardization, names: list[Any]) -> None:
    """Warn of entries so far from all others of their column that no model is fitted to them."""
    left_out = np.isnan(layout.apply(E)) & ~np.isnan(E[:, layout.kept])
    columns = [str(names[layout.kept[j]]) for j in np.flatnonzero(left_out.any(axis=0))]
    if columns:
        warn(
            f"{int(left_out.sum())} entries more than 100 interquartile ranges from the median are "
            f"taken for gross errors, kept as they are, and left out of the models, in columns: "
            f"{_listed(columns)}."
        )


def _listed(names: list[str]) -> str:
    """Return at most five names."""
    shown = ", ".join(names[:5])
    if len(names) > 5:
        return f"{shown} and {len(names) - 5} more"
    return shown
