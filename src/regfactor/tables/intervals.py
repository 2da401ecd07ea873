"""How sure a filled entry is: calibrated intervals, sets of levels, and their probabilities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import _num_samples, check_is_fitted

from regfactor.core.loop import Limits
from regfactor.core.params import Array
from regfactor.fitting.calibrated_entries import LARGEST_LEVERAGE, EntryCalibration
from regfactor.fitting.columns import (
    Codec,
    Kind,
    LineCodec,
    Number,
    OneHotCodec,
    StepCodec,
    as_table,
)
from regfactor.fitting.conformal import PredictionInterval, conformal_quantile
from regfactor.fitting.factor_estimator import FactorEstimator, TableInputs
from regfactor.fitting.inputs import as_float_table, filled
from regfactor.fitting.known import NOTHING, Known, RowsToScore
from regfactor.fitting.leverage import (
    HeldOutEntries,
    leverages,
    leverages_at,
    places_of,
    values_at,
)
from regfactor.fitting.parameters import check_level
from regfactor.fitting.selection import COMPARED_FIT_TOL, deviations
from regfactor.fitting.side_by_side import with_missing_as_nan
from regfactor.losses import Censored
from regfactor.problems import Convex, Data
from regfactor.solvers.base import solve_within
from regfactor.tables.truncation import read_bounds, truncated_mean, truncated_quantile

# held out in a fit, a column, below which cross-fitting adds others
ENOUGH_ENTRIES = 100
N_FOLDS = 4  # of cross-fitting where no entries were held out in the fit
FOLD_SHARE = 0.125  # of the cells, so that what is missing in a fold is near to what is missing


class CompletionIntervals(FactorEstimator):
    """A model of a table whose missing entries have intervals."""

    bounds: Any = None
    _bounds: Array | None = None  # of columns, in the units of the problem

    def _read_bounds(self, inputs: TableInputs) -> Array | None:
        """Return the bounds of columns in the units of the problem; raise if they are wrong."""
        table = with_missing_as_nan(inputs.table)
        names = inputs.names or list(range(table.shape[1]))
        numbers = np.array([self._is_number(j) for j in range(table.shape[1])])
        units = self._column_units
        if units is None:
            return read_bounds(self.bounds, names, table, numbers)
        found = read_bounds(self.bounds, names, units.values(table), numbers)
        if found is None:
            return None
        return np.asarray((found - units.center) / units.unit)

    def _ends(self, rows: RowsToScore) -> Array | None:
        """Return lower and upper ends of all entries: bounds of columns, and limits of entries."""
        if rows.limits is None:
            return self._bounds
        low, high = rows.limits
        if self._bounds is not None:
            low = np.maximum(low, self._bounds[0])
            high = np.minimum(high, self._bounds[1])
        # limits that agree made an entry a number, which it stays
        known = ~np.isnan(rows.table)
        return np.stack([np.where(known, rows.table, low), np.where(known, rows.table, high)])

    def _bounded(self, rows: RowsToScore, codes: Array, predicted: Array) -> Array:
        """Return predictions as means of distributions that do not leave their ends."""
        ends = self._ends(rows)
        if ends is None:
            return predicted
        low, high = np.broadcast_to(ends, (2, *ends.shape[1:]))
        low = np.broadcast_to(low, predicted.shape)
        high = np.broadcast_to(high, predicted.shape)
        deviation = self._deviations(rows, codes)
        out = np.clip(predicted, low, high)
        for j in np.flatnonzero(np.isfinite(deviation).all(axis=0)).tolist():
            out[:, j] = truncated_mean(predicted[:, j], deviation[:, j], low[:, j], high[:, j])
        return out.astype(predicted.dtype, copy=False)

    def _deviations(self, rows: RowsToScore, codes: Array) -> Array:
        """Return the deviations of entries about their predictions, infinite where not known.

        They are calibrated where entries were held out; else those of the noise at which limits
        count.
        """
        Z = codes @ self._components + rows.offset
        deviation = np.full(Z.shape, np.inf)
        for at, part in self._loss_parts:
            if isinstance(part, Censored):
                deviation[:, at] = part.scale
        if self._held_out is None or getattr(self, "debias", False) is True:
            return deviation
        calibration = self._calibrated(None)
        leverage = self._leverages(rows, Z)
        variance = 1 + calibration.share * np.minimum(leverage, LARGEST_LEVERAGE)
        return np.sqrt(calibration.noise * variance)

    def complete_interval(
        self,
        X: Any,
        level: float = 0.9,
        *,
        lower: Any = None,
        upper: Any = None,
        covariates: Any = None,
    ) -> PredictionInterval:
        """Return limits between which missing entries lie with a given probability.

        Widths follow the model: the noise of the column and the leverage of the observed entries
        of the row under the fixed components; counts and labels follow the distribution of their
        loss. How many deviations are needed is read off entries that were held out: those of
        `alpha="auto"`, or of cross-fitting where alpha was given. This assumes that entries are
        missing at random given the observed ones.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            The training table or new rows. Where alpha was given, the first call needs the
            training table.
        level : float, default=0.9
            Share of the missing entries that is to be covered, in (0, 1).
        lower, upper : array-like of shape (n_samples, n_features), optional
            Limits of missing entries, as in `fit`: their intervals are quantiles of the
            distribution cut off there.
        covariates : array-like of shape (n_samples, n_covariates), optional

        Returns
        -------
        PredictionInterval
            (lower, upper), two tables like X. Observed entries are their own limits. Categories in
            an order and truth values have the outermost levels of their prediction set; categories
            without an order stay missing (see `complete_set`). Limits are infinite where too few
            entries could be held out.
        """
        check_is_fitted(self)
        check_level(level)
        known = Known(lower, upper, covariates)
        rows = self._rows(X, known)
        calibration = self._calibrated(X, known)
        codes = self._codes_of(rows)
        Z = codes @ self._components + rows.offset
        leverage = self._leverages(rows, Z)
        lowest = np.array(self._fitted_values(codes, rows.offset), dtype=np.float64)
        highest = lowest.copy()
        for j in range(lowest.shape[1]):
            if not self._is_number(j):
                continue
            entries = calibration.entries(j, Z[:, j].astype(np.float64), leverage[:, j])
            low, high = entries.limits(calibration.deviations(j, level))
            if self._bounds is not None:
                low = np.clip(low, *self._bounds[:, j])
                high = np.clip(high, *self._bounds[:, j])
            lowest[:, j] = low
            highest[:, j] = high
        if rows.limits is not None:
            self._cut_off(rows, codes, level, lowest, highest)
        return PredictionInterval(
            self._written(X, rows.table, lowest, level, first=True),
            self._written(X, rows.table, highest, level, first=False),
        )

    def _cut_off(
        self,
        rows: RowsToScore,
        codes: Array,
        level: float,
        lowest: Array,
        highest: Array,
    ) -> None:
        """Write the quantiles of entries between their limits."""
        ends = self._ends(rows)
        assert ends is not None and rows.limits is not None
        at = np.isfinite(rows.limits).any(axis=0) | ~np.isnan(rows.table)
        Z = (codes @ self._components + rows.offset).astype(np.float64)
        deviation = self._deviations(rows, codes)[at]
        low = ends[0][at]
        high = ends[1][at]
        first = (1 - level) / 2
        lowest[at] = truncated_quantile(Z[at], deviation, low, high, first)
        highest[at] = truncated_quantile(Z[at], deviation, low, high, 1 - first)

    def complete_proba(self, X: Any) -> dict[Any, Array]:
        """Return the probability of each level of the columns that hold labels.

        Parameters
        ----------
        X : frame of shape (n_samples, n_features)

        Returns
        -------
        dict of column to ndarray of shape (n_samples, n_levels)
            In the order of the levels of the column.
        """
        check_is_fitted(self)
        rows = self._rows(X, NOTHING)
        predicted = self._fitted_values(self._codes_of(rows), rows.offset)
        return {codec.name: level_shares(codec, predicted[:, at]) for codec, at in self._labels()}

    def complete_set(self, X: Any, level: float = 0.9) -> dict[Any, Array]:
        """Return the levels that each missing label may have.

        Parameters
        ----------
        X : frame of shape (n_samples, n_features)
        level : float, default=0.9
            Share of the missing labels whose true level is to be in its set.

        Returns
        -------
        dict of column to ndarray of bool of shape (n_samples, n_levels)
        """
        check_is_fitted(self)
        check_level(level)
        self._calibrated(X)
        shares = self.complete_proba(X)
        return {
            codec.name: self._set(codec, at, shares[codec.name], level)
            for codec, at in self._labels()
        }

    def _calibrated(self, X: Any, known: Known = NOTHING) -> EntryCalibration:
        """Return the calibration, from cross-fitting where the fit held no entries out."""
        if self._calibration is not None:
            return self._calibration
        if getattr(self, "debias", False) is True:
            raise ValueError(
                "Intervals need codes under a penalty or a prior, and debias=True has neither: use "
                "debias='prior' or debias=False.",
            )
        held = self._held_out
        own = X is not None and _num_samples(X) == len(self.codes_)
        if held is None and not own:
            raise ValueError(
                "No entries were held out in the fit, since alpha was given: call this with the "
                f"training table of {len(self.codes_)} rows first, or fit with alpha='auto'.",
            )
        few = held is None or len(held.x) < ENOUGH_ENTRIES * len(self._intercept)
        if own and few:
            parts = [] if held is None else [held]
            parts += self._cross_fitted(X, known)
            if not parts:
                raise ValueError("The table has too few entries to hold some out for intervals.")
            held = HeldOutEntries.stacked(parts)
        assert held is not None
        self._held_out = held
        self._calibration = EntryCalibration.of(self._loss_parts, held, len(self._intercept))
        return self._calibration

    def _cross_fitted(self, X: Any, known: Known) -> list[HeldOutEntries]:
        """Return entries of the training table as fits without them predict them."""
        model = clone(self)
        more = [] if known.is_nothing else [None, None, known]
        inputs = model._read(X, *more)
        groups = None if model._schema is None else model._schema.originals
        random = np.random.default_rng(0)
        n, d = inputs.table.shape
        if groups is None:
            width = d
        else:
            width = int(groups.max()) + 1
        folds = random.integers(round(1 / FOLD_SHARE), size=(n, width))
        if groups is not None:
            folds = folds[:, groups]
        observed = ~np.isnan(with_missing_as_nan(inputs.table))
        found = []
        for fold in range(N_FOLDS):
            hidden = folds == fold
            # a fold of a small table may hold no entry, or all of them
            if (observed & hidden).any() and (observed & ~hidden).any():
                found.append(self._without_fold(model, inputs, hidden))
        return found

    def _without_fold(
        self,
        model: CompletionIntervals,
        inputs: TableInputs,
        hidden: Array,
    ) -> HeldOutEntries:
        """Return hidden entries as a fit to the others predicts them."""
        table = with_missing_as_nan(inputs.table)
        seen = np.where(hidden, np.nan, table)
        between = inputs.limits
        if between is not None:
            between = np.where(hidden, np.array([-np.inf, np.inf])[:, None, None], between)
        masked = TableInputs.of(
            seen,
            inputs.loss,
            None,
            columns=inputs.columns,
            offset_columns=inputs.offset_columns,
            names=inputs.names,
            limits=between,
            covariates=inputs.covariates,
        )
        problem: Any = model._state(masked)
        if isinstance(problem, Convex):
            # of as many more entries, signal is as much stronger
            problem = problem.at(self.alpha_ * (1 - FOLD_SHARE))
        limits = Limits(tol=COMPARED_FIT_TOL, max_iter=self.max_iter, random_state=0)
        solution = solve_within(problem, limits)
        point = solution.point
        F = point.factors
        if isinstance(problem, Convex):
            F = problem.gauge.canonical(F)
        score = self._required_score()
        if hasattr(self, "prior_"):
            n_free = problem.gauge.n_free
            score = score.with_prior(deviations(problem, F), self.prior_, n_free)
        else:
            score = replace(score, penalty=self._row_penalty(problem, F.codes))
        offsets = np.zeros(table.shape[1])
        if problem.design is not None:
            offsets = problem.design.D @ point.coefficients
        codes = score(seen, F.C, offsets, limits=masked.limits)
        Z = codes @ F.C + offsets
        truth = Data.of(np.where(hidden, table, np.nan), inputs.loss, _weights(inputs, hidden))
        cells = places_of(truth)
        data = Data.of(seen, inputs.loss, masked.entry_weights, limits=masked.limits)
        leverage = leverages_at(data, Z, F.C, score.strengths(F.rank), cells)
        x = values_at(truth, truth.collect(lambda t: t.x), cells)
        return HeldOutEntries(*cells, x, Z[cells], leverage)

    def _required_score(self) -> Any:
        if self._score is None:
            raise ValueError(
                f"{type(self).__name__}: the norm on the codes couples rows, so that no row can be "
                "scored alone, and its entries have no intervals.",
            )
        return self._score

    def _leverages(self, rows: RowsToScore, Z: Array) -> Array:
        score = self._required_score()
        dense = with_missing_as_nan(rows.table).astype(np.float64)
        out = np.zeros(dense.shape)
        if not len(self._components):
            return out
        known = ~np.isnan(dense)
        if rows.limits is not None:
            known |= np.isfinite(rows.limits).any(axis=0)
        seen = known.any(axis=1)
        weights = np.broadcast_to(np.asarray(score.weight, np.float64), dense.shape)
        C = self._components.astype(np.float64)
        strengths = score.strengths(len(C))
        if seen.any():
            limits = None
            if rows.limits is not None:
                limits = rows.limits[:, seen]
            data = Data.of(dense[seen], score.loss, weights[seen], limits=limits)
            out[seen] = leverages(data, Z[seen].astype(np.float64), C, strengths)
        # a row without an observed entry has codes of their prior
        prior = np.square(C) / np.where(strengths > 0, strengths, np.inf)[:, None]
        out[~seen] = prior.sum(axis=0)
        return out

    def _is_number(self, j: int) -> bool:
        if self._schema is None:
            return True
        return isinstance(self._schema.codecs[self._schema.originals[j]], Number)

    def _labels(self) -> list[tuple[Codec, slice]]:
        """Return how columns of labels are encoded, and where."""
        if self._schema is None:
            return []
        return [
            (codec, at)
            for codec, at in zip(self._schema.codecs, self._schema.spans, strict=True)
            if not isinstance(codec, Number)
        ]

    def _set(
        self,
        codec: Codec,
        at: slice,
        shares: Array,
        level: float,
    ) -> Array:
        """Return the levels whose probability is as great as those of held-out labels were."""
        held = self._held_out
        assert held is not None
        # entries of a label are held out together, and follow each other in the order of columns
        first = np.flatnonzero(held.columns == at.start)
        count = len(first)
        places = first[:, None] + np.arange(at.stop - at.start)
        x = held.x[places]
        z = held.z[places]
        limit = np.inf
        if count:
            known = level_shares(codec, codec.loss.predict(z))
            true = _positions(codec, x)
            limit = conformal_quantile(1 - known[np.arange(count), true], level)
        chosen = shares >= 1 - limit
        chosen[np.arange(len(shares)), shares.argmax(axis=1)] = True
        return chosen

    def _written(
        self,
        X: Any,
        table: Any,
        limits: Array,
        level: float,
        first: bool,
    ) -> Any:
        """Return the user's table with missing numbers and ordered labels set to limits."""
        if self._schema is None:
            if self._column_units is not None:
                limits = self._column_units.values(limits)
                table = as_float_table(self, X, None, reset=False)
            return filled(X, table, limits.astype(table.dtype))
        frame = as_table(X)
        fills = {}
        for j, (codec, at) in enumerate(zip(self._schema.codecs, self._schema.spans, strict=True)):
            missing = frame.cells(j).missing
            if not missing.any():
                continue
            if isinstance(codec, Number):
                fills[j] = codec.decode(limits[missing, at])
            elif codec.kind in (Kind.ORDERED, Kind.BOOLEAN) and isinstance(
                codec, LineCodec | StepCodec
            ):
                shares = level_shares(codec, limits[missing, at])
                chosen = self._set(codec, at, shares, level)
                if first:
                    position = chosen.argmax(axis=1)
                else:
                    position = chosen.shape[1] - 1 - chosen[:, ::-1].argmax(axis=1)
                fills[j] = _level(codec, position)
        return frame.filled(fills)


def _weights(inputs: TableInputs, hidden: Array) -> Any:
    if np.ndim(inputs.columns) == 0 and inputs.columns == 1:
        return None
    return np.broadcast_to(np.asarray(inputs.columns, float), hidden.shape)


def level_shares(codec: Codec, predicted: Array) -> Array:
    """Return the probabilities of the levels of a column from its encoded predictions."""
    if isinstance(codec, OneHotCodec):
        shares = np.clip(predicted, 1e-9, None)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))
    if isinstance(codec, StepCodec):
        above = np.minimum.accumulate(np.clip(predicted, 0, 1), axis=1)
        ones = np.ones((len(predicted), 1))
        return np.asarray(-np.diff(np.hstack([ones, above, 0 * ones]), axis=1))
    assert isinstance(codec, LineCodec)
    if len(codec.levels) == 1:
        return np.ones((len(predicted), 1))
    if len(codec.levels) > 2:  # positions on a line
        nearest = np.clip(np.rint(predicted[:, 0]), 0, len(codec.levels) - 1).astype(int)
        return np.eye(len(codec.levels))[nearest]
    second = np.clip(predicted[:, 0], 0, 1)
    return np.column_stack([1 - second, second])


def _positions(codec: Codec, x: Array) -> Array:
    """Return the position of the level of encoded cells, as those of `_shares`."""
    if isinstance(codec, OneHotCodec):
        return x.argmax(axis=1)
    if isinstance(codec, StepCodec):
        return (x > 0.5).sum(axis=1)
    return np.clip(np.rint(x[:, 0]), 0, None).astype(int)


def _level(codec: Codec, positions: Array) -> Array:
    """Return levels by their position."""
    assert isinstance(codec, LineCodec | StepCodec)
    levels: Any = codec.levels
    if isinstance(codec, StepCodec):
        levels = [codec.levels[k] for k in codec.occur]
    table = np.empty(len(levels), object)
    table[:] = list(levels)
    return table[positions]
