"""A bank of autoregressions with Minnesota-type priors, each of them a ridge problem."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import softmax

from regfactor.core.params import Array, frozen
from regfactor.series.autoregression_design import (
    MAX_LAGS,
    MAX_OTHERS,
    N_FROM_OTHERS,
    LagDesign,
    OwnLags,
    Priors,
    iterate,
    lagged,
)
from regfactor.series.bank import (
    BankFit,
    BankState,
    MemberPaths,
    SeriesTable,
    Units,
    parts_of_series,
)
from regfactor.series.gap_filling import filled_gaps
from regfactor.series.ridge_evidence import RidgePosterior
from regfactor.series.rolling_origins import MANY_SERIES
from regfactor.series.weights import temperature

MAX_RESPONSE = 1e3
MAX_SENSITIVITY = 1e6  # of a forecast to a coefficient, in units
MAX_UNKNOWN = 100.0  # variance by coefficients, in that by innovations; beyond, a jump misleads
MAX_ELEMENTS = 1_000_000  # of the matrices that are factorized at once


@frozen
class Sums:
    """Sums over the rows before each origin; arrays start with (n_origins, n_series)."""

    gram: Array
    cross: Array
    squares: Array
    n_rows: Array

    @staticmethod
    def of(regressors: Sequence[Array], outcomes: Array, weights: Array, origins: Array) -> Sums:
        """Return the sums of arrays of shape (n_series, n_rows, n), cumulated over origins."""
        n_series = len(outcomes)
        n_regressors = sum(columns.shape[2] for columns in regressors)
        products = np.zeros((len(origins), n_series, n_regressors + 1, n_regressors + 1))
        stacked = np.concatenate([*regressors, outcomes[:, :, None]], axis=2)
        weighted = stacked * weights[:, :, None]
        known = 0
        for k, origin in enumerate(origins):
            rows = slice(known, origin)
            products[k] = weighted[:, rows].transpose(0, 2, 1) @ stacked[:, rows]
            known = origin
        np.cumsum(products, axis=0, out=products)
        return Sums(
            products[..., :-1, :-1],
            products[..., :-1, -1],
            products[..., -1, -1],
            np.cumsum(weights, axis=1)[:, origins - 1].T,
        )

    def part(self, origins: slice, series: slice) -> Sums:
        """Return the sums at some origins, of some series."""
        return Sums(
            self.gram[origins, series],
            self.cross[origins, series],
            self.squares[origins, series],
            self.n_rows[origins, series],
        )

    def posterior(self, deviations: Array, prior_mean: Array | None) -> RidgePosterior:
        """Return the posterior, arrays starting with (n_origins, n_series, n_members).

        Where the matrices would take much memory, halves of the series or origins are solved alone.
        """
        n_origins, n_series, n_regressors = self.cross.shape
        size = n_origins * deviations.shape[0] * deviations.shape[1] * n_regressors**2
        if size > MAX_ELEMENTS and max(n_origins, n_series) > 1:
            axis = 1 if n_series > 1 else 0
            middle = self.cross.shape[axis] // 2
            halves = []
            for half in (slice(middle), slice(middle, None)):
                origins = half if axis == 0 else slice(None)
                series = half if axis == 1 else slice(None)
                mean = None
                if prior_mean is not None:
                    mean = prior_mean[origins, series]
                part = self.part(origins, series)
                halves.append(part.posterior(deviations[series], mean))
            return RidgePosterior.joined(halves, axis)
        gram = self.gram[:, :, None]
        cross = self.cross[:, :, None]
        squares = self.squares[:, :, None]
        if prior_mean is not None:
            moved = np.einsum("oskl,osml->osmk", self.gram, prior_mean)
            change = moved - 2 * cross
            squares = squares + np.einsum("osmk,osmk->osm", prior_mean, change)
            cross = cross - moved
        solved = RidgePosterior.of(gram, cross[..., None], squares[..., None], deviations)
        if prior_mean is None:
            return solved
        coefficients = solved.coefficients + prior_mean[..., None]
        return replace(solved, coefficients=coefficients)


@frozen
class BlockPrior:
    """A design, its members, and the prior deviations of each, (n_series, n_members, n)."""

    design: LagDesign
    priors: Priors
    deviations: Array


@frozen
class Block:
    """Members of one treatment of the season and one kind of prior, at all origins.

    Attributes
    ----------
    design : Design
    priors : Priors
    coefficients : array of shape (n_origins, n_series, n_members, n_regressors)
    log_evidence, variances : array of shape (n_origins, n_series, n_members)
    gram : array of shape (n_series, n_regressors, n_regressors)
        Products of regressors over all rows; of no series where these are many.
    deviations : array of shape (n_series, n_members, n_regressors)
        Of the prior.
    """

    design: LagDesign
    priors: Priors
    coefficients: Array
    log_evidence: Array
    variances: Array
    gram: Array
    deviations: Array

    @staticmethod
    def of(
        prior: BlockPrior,
        data: RegressionData,
        sums: Iterable[Sums],
        prior_mean: Array | None,
    ) -> Block:
        """Return the members under their priors, around a mean or around zero."""
        posteriors = []
        rows = []
        grams = []
        for part, some in zip(parts_of_series(data.table.n_series), sums, strict=True):
            mean = None
            if prior_mean is not None:
                mean = prior_mean[:, part]
            posteriors.append(some.posterior(prior.deviations[part], mean))
            rows.append(some.n_rows)
            if data.table.n_series <= MANY_SERIES:
                grams.append(some.gram[-1])
        posterior = RidgePosterior.joined(posteriors, 1)
        del posteriors
        n_rows = np.concatenate(rows, axis=1)[:, :, None, None]
        evidence = posterior.log_evidence(n_rows, data.log_scales[None, :, None, None])
        return Block(
            prior.design,
            prior.priors,
            posterior.coefficients[..., 0],
            evidence[..., 0],
            posterior.variances(n_rows)[..., 0],
            np.concatenate(grams) if grams else np.zeros((0, 0, 0)),
            prior.deviations,
        )

    @property
    def with_others(self) -> bool:
        """Whether members see other series."""
        return bool(self.priors.others.any())


@frozen
class AutoregressionBank:
    """Members of a pool: autoregressions of series, alone and from the past of others."""

    table: SeriesTable
    name: str = "autoregression"

    def fit(self) -> BankFit:
        """Fit all members at all origins."""
        table = self.table
        units = table.units()
        values = units.standardized(table.values)
        filled = filled_gaps(values, table.season)
        past = MemberForecasts(table, filled.means)
        averages = np.zeros((len(table.origins.rows) - 1, table.origins.horizon, table.n_series))
        models: list[LagModel] = []
        paths: list[Array] = []
        log_evidence: list[Array] = []
        variances: list[Array] = []
        log_prior: list[Array] = []
        log_scales = np.log(units.scale)
        for block in fitted_blocks(table, filled.means, np.isnan(values), log_scales):
            others = None
            if block.with_others:
                if not models[-1].with_others:
                    averages = past.average(paths, log_evidence, log_prior)
                others = averages
            models.append(LagModel.of(block))
            paths.append(past.paths(block, others))
            log_evidence.append(block.log_evidence.transpose(0, 2, 1))
            variances.append(block.variances.transpose(0, 2, 1))
            log_prior.append(block.priors.log_prior)
            del block  # with its coefficients at all origins, before the next one is made
        n_members = sum(path.shape[1] for path in paths)
        joined = np.empty((len(averages), n_members, *averages.shape[1:]))
        while paths:  # each block is given free as soon as it is copied
            path = paths.pop()
            last = n_members
            n_members -= path.shape[1]
            joined[:, n_members:last] = units.restored(path)
        return BankFit(
            name=self.name,
            assumes="changes that follow earlier changes and the distance from a level",
            log_prior=np.concatenate(log_prior) - np.log(len(models)),
            log_evidence=np.concatenate(log_evidence, axis=1),
            variances=np.square(units.scale) * np.concatenate(variances, axis=1),
            paths=joined,
            state=AutoregressionState.of(models, table, filled.means, units),
        )


def season_kinds(season: int) -> tuple[str, ...]:
    """Return the ways in which a season is taken into account."""
    if season == 1:
        return ("none",)
    return ("none", "waves", "difference")


def fitted_blocks(
    table: SeriesTable, values: Array, missing: Array, log_scales: Array
) -> Iterator[Block]:
    """Yield all blocks of members, fitted at all origins, those that see other series last."""
    season = table.season
    first = table.origins.first
    n_series = table.n_series
    n_lags = min(MAX_LAGS, max(1, first // 4))
    if season > 3:
        n_lags = min(n_lags, season - 2)
    elif season > 1:
        n_lags = min(n_lags, 2)
    single = n_series - 1 <= MAX_OTHERS
    loadings = np.eye(n_series)
    if not single:
        changes = np.diff(values[:first], axis=0)
        if len(changes):
            changes = changes - changes.mean(axis=0)
        few = len(changes) < MAX_OTHERS
        _, _, Vt = np.linalg.svd(changes, full_matrices=few)
        loadings = Vt[:MAX_OTHERS].T
    usable = ~missing
    usable[1:] &= ~missing[:-1]
    usable[: season + 1] = False
    weights = usable.T.astype(float)
    data = RegressionData(table, values, weights, log_scales)
    passes = [False] if n_series == 1 else [False, True]
    for with_others, kind in itertools.product(passes, season_kinds(season)):
        own = OwnLags.of(kind, season, n_lags)
        design = LagDesign(kind, season, own, first, loadings, single)
        priors = Priors.of(with_others)
        deviations = design.deviations(priors, table.inputs.shape[1], n_series)
        prior = BlockPrior(design, priors, deviations)
        if with_others:
            yield Block.of(prior, data, data.sums_with_others(design), None)
            continue
        sums = list(data.sums(design))
        block = Block.of(prior, data, sums, None)
        yield block
        if n_series > 1:
            prior_mean = mean_of_others(block.coefficients, design.n_own)
            yield Block.of(prior, data, sums, prior_mean)


@frozen
class RegressionData:
    """Series in units without gaps, weights of series and rows, and logs of the units."""

    table: SeriesTable
    values: Array
    weights: Array
    log_scales: Array

    def sums(self, design: LagDesign) -> Iterator[Sums]:
        """Yield the sums of regressors without other series, for each part of the series."""
        for part in parts_of_series(self.table.n_series):
            yield self._sums(design, part, [])

    def sums_with_others(self, design: LagDesign) -> Iterator[Sums]:
        """Yield the same with the regressors that are made of all series."""
        lags = lagged(self.values, design.lags_of_others, design.season)
        others = design.of_others(lags)
        for part in parts_of_series(self.table.n_series):
            yield self._sums(design, part, [others])

    def _sums(self, design: LagDesign, part: slice, shared: list[Array]) -> Sums:
        values = self.values[:, part]
        lags = lagged(values, len(design.own.base), design.season)
        inputs = design.inputs(np.arange(len(values)), self.table.inputs)
        columns = [lags @ design.own.combinations.T]
        for same in (inputs, *shared):
            columns.append(np.broadcast_to(same, (values.shape[1], *same.shape)))
        outcomes = values.T - lags @ design.own.base
        return Sums.of(columns, outcomes, self.weights[part], self.table.origins.rows)


def mean_of_others(coefficients: Array, n_own: int) -> Array:
    """Return the mean of the other series' coefficients of own lags, zero for the rest."""
    n_series = coefficients.shape[1]
    total = coefficients.sum(axis=1, keepdims=True)
    mean = (total - coefficients) / (n_series - 1)
    mean[..., n_own:] = 0
    return np.asarray(mean)


@frozen
class MemberForecasts:
    """Forecasts of members from all origins but the last."""

    table: SeriesTable
    values: Array

    def paths(self, block: Block, others: Array | None) -> Array:
        """Return the paths of a block, of shape (n_origins - 1, n_members, horizon, n_series).

        `others` are the expected paths of all series, for members that see other series.
        """
        table = self.table
        design = block.design
        origins = table.origins.rows[:-1]
        horizon = table.origins.horizon
        if len(origins) == 0:
            return np.zeros((0, len(block.priors), horizon, table.n_series))
        rows = origins[:, None] + np.arange(horizon)
        given = table.inputs[np.minimum(rows, len(self.values) - 1)]
        regressors = design.inputs(rows, given)
        if others is not None:
            of_others = self._of_others(design, others)
            regressors = np.concatenate([regressors, of_others], axis=2)
        n_lags = len(design.own.base)
        extended = np.concatenate([self.values, self.values[-1:]])
        lags = lagged(extended, n_lags, design.season)
        past = lags[:, origins].transpose(1, 0, 2)[:, :, None]
        found = np.empty((len(origins), len(block.priors), horizon, table.n_series))
        for part in parts_of_series(table.n_series):
            coefficients = block.coefficients[:-1, part]
            given_inputs = coefficients[..., design.n_own :]
            inputs = np.einsum("ohk,osmk->osmh", regressors, given_inputs)
            polynomials = design.own.polynomials(coefficients)
            paths = iterate(polynomials, inputs, past[:, part])
            found[..., part] = paths.transpose(0, 2, 3, 1)
        return found

    def _of_others(self, design: LagDesign, averages: Array) -> Array:
        """Return the regressors made of the expected paths of all series."""
        found = []
        for origin, path in zip(self.table.origins.rows, averages, strict=False):
            extended = np.concatenate([self.values[:origin], path])
            n_lags = design.lags_of_others
            lags = lagged(extended, n_lags, design.season)
            found.append(design.of_others(lags[:, origin:]))
        return np.array(found)

    def average(
        self, paths: list[Array], log_evidence: list[Array], log_prior: list[Array]
    ) -> Array:
        """Return the average paths of blocks, of shape (n_origins - 1, horizon, n_series)."""
        scores = np.concatenate(log_evidence, axis=1)[:-1]
        priors = np.concatenate(log_prior)[:, None]
        warmth = temperature(self.table.origins.rows[:-1])[:, None, None]
        weights = softmax(warmth * scores + priors, axis=1)
        average = np.zeros((len(scores), self.table.origins.horizon, self.table.n_series))
        first = 0
        for path in paths:
            own = weights[:, first : first + path.shape[1]]
            average += np.einsum("omhs,oms->ohs", path, own)
            first += path.shape[1]
        return average


@frozen
class LagModel:
    """Members of a block at the last origin."""

    design: LagDesign
    polynomials: Array  # (n_series, n_members, n_lags)
    coefficients: Array  # of inputs and other series, (n_series, n_members, n)
    with_others: bool
    gram: Array  # of regressors, (n_series, n_regressors, n_regressors)
    deviations: Array  # of the prior, (n_series, n_members, n_regressors)
    log_prior: Array  # (n_members,)
    log_evidence: Array  # (n_series, n_members)
    variances: Array  # of innovations, of the same shape

    @staticmethod
    def of(block: Block) -> LagModel:
        """Return the members of a block, without what was found at earlier origins."""
        return LagModel(
            block.design,
            block.design.own.polynomials(block.coefficients[-1]),
            block.coefficients[-1, :, :, block.design.n_own :].copy(),
            block.with_others,
            block.gram,
            block.deviations,
            block.priors.log_prior,
            block.log_evidence[-1].copy(),
            block.variances[-1].copy(),
        )

    def coefficient_growth(self, path: Array, past: Array, regressors: Array) -> Array:
        """Return error variances by estimated coefficients, (n_series, n_members, horizon).

        J' S (S D'D S + I)^-1 S J for the sensitivities J of a path to the coefficients: these are
        the regressors along the path, carried on by the lags.

        Parameters
        ----------
        path : array of shape (n_series, n_members, horizon)
        past : array of shape (n_series, 1, n_lags)
            The last value first.
        regressors : array of shape (horizon, n)
            Inputs and other series.
        """
        n_lags = self.polynomials.shape[-1]
        before = np.broadcast_to(past[..., ::-1], (*path.shape[:2], n_lags))
        extended = np.concatenate([before, path], axis=2)[..., :-1]
        lags = np.lib.stride_tricks.sliding_window_view(extended, n_lags, axis=2)[..., ::-1]
        own = lags @ self.design.own.combinations.T
        given = np.broadcast_to(regressors, (*path.shape[:2], *regressors.shape))
        along = np.concatenate([own, given], axis=3).swapaxes(2, 3)
        sensitivities = iterate(self.polynomials[:, :, None], along, np.zeros(n_lags))
        sensitivities = np.clip(sensitivities, -MAX_SENSITIVITY, MAX_SENSITIVITY)
        right = self.deviations[..., None] * sensitivities
        scaled = self.gram[:, None] * self.deviations[..., None] * self.deviations[..., None, :]
        diagonal = np.arange(scaled.shape[-1])
        scaled[..., diagonal, diagonal] += 1
        solved = np.linalg.solve(scaled, right)
        return np.asarray(np.einsum("smkh,smkh->smh", right, solved))


@frozen
class AutoregressionState(BankState):
    """Members after the last row: their coefficients, and the last values they look back to."""

    models: list[LagModel]
    weights_of_paths: Array  # (n_series, n_members) of those without other series
    variances: Array  # of innovations, (n_members, n_series)
    values: Array  # the last rows, in units, gaps filled
    trailing_gaps: Array
    units: Units
    time: int

    @staticmethod
    def of(
        models: list[LagModel],
        table: SeriesTable,
        values: Array,
        units: Units,
    ) -> AutoregressionState:
        """Return the state at the last origin."""
        own = [model for model in models if not model.with_others]
        scores = np.concatenate([model.log_evidence for model in own], axis=1)
        priors = np.concatenate([model.log_prior for model in own])
        warmth = temperature(table.origins.rows[-1:])[0]
        variances = np.concatenate([model.variances for model in models], axis=1)
        n_kept = 3 * table.season + MAX_LAGS + N_FROM_OTHERS + 2
        kept = lagged(np.concatenate([values, values[-1:]]), n_kept, table.season)[:, -1, ::-1].T
        return AutoregressionState(
            models,
            softmax(warmth * scores + priors, axis=1),
            variances.T,
            kept,
            table.trailing_gaps,
            units,
            len(values),
        )

    def forecast(self, horizon: int, inputs: Array) -> MemberPaths:
        """Return the forecasts of the members."""
        paths = []
        by_coefficients = []
        average = self._average_path(horizon, inputs)
        for model in self.models:
            regressors = self._regressors(model, horizon, inputs, average)
            path = self._path(model, regressors)
            paths.append(path)
            by_coefficients.append(self._coefficient_growth(model, path, regressors))
        means = np.concatenate(paths, axis=1).transpose(1, 2, 0)
        unknown = np.concatenate(by_coefficients, axis=1).transpose(1, 2, 0)
        growth = self._growth(horizon)
        unknown = np.minimum(unknown, MAX_UNKNOWN * growth)
        variances = (growth + unknown) * self.variances[:, None, :]
        return MemberPaths(
            self.units.restored(means),
            np.square(self.units.scale) * variances,
        )

    def coefficient_growth(self, horizon: int, inputs: Array) -> Array:
        """Return the error variances that come from estimated coefficients."""
        found = []
        average = self._average_path(horizon, inputs)
        for model in self.models:
            regressors = self._regressors(model, horizon, inputs, average)
            path = self._path(model, regressors)
            found.append(self._coefficient_growth(model, path, regressors))
        unknown = np.concatenate(found, axis=1).transpose(1, 2, 0)
        return np.minimum(unknown, MAX_UNKNOWN * self._growth(horizon))

    def _coefficient_growth(self, model: LagModel, path: Array, regressors: Array) -> Array:
        """Return error variances by coefficients; zero for many series, whose errors are pooled."""
        if len(path) > MANY_SERIES:
            return np.zeros(path.shape)
        return model.coefficient_growth(path, self._past(model), regressors)

    def _average_path(self, horizon: int, inputs: Array) -> Array:
        """Return the average of members without other series, of shape (horizon, n_series)."""
        unused = np.zeros((horizon, len(self.weights_of_paths)))
        paths = []
        for model in self.models:
            if not model.with_others:
                paths.append(self._path(model, self._regressors(model, horizon, inputs, unused)))
        return np.einsum("smh,sm->hs", np.concatenate(paths, axis=1), self.weights_of_paths)

    def _regressors(
        self,
        model: LagModel,
        horizon: int,
        inputs: Array,
        average: Array,
    ) -> Array:
        """Return inputs and others' average paths in the next rows, of shape (horizon, n)."""
        design = model.design
        rows = self.time + np.arange(horizon)
        regressors = design.inputs(rows, inputs)
        if not model.with_others:
            return regressors
        extended = np.concatenate([self.values, average])
        lags = lagged(extended, design.lags_of_others, 1)[:, len(self.values) :]
        return np.concatenate([regressors, design.of_others(lags)], axis=1)

    def _past(self, model: LagModel) -> Array:
        """Return the values that members look back to, of shape (n_series, 1, n_lags)."""
        n_lags = model.polynomials.shape[-1]
        return self.values[::-1][:n_lags].T[:, None]

    def _path(self, model: LagModel, regressors: Array) -> Array:
        """Return the paths of a block in units, of shape (n_series, n_members, horizon)."""
        driven = np.einsum("hk,smk->smh", regressors, model.coefficients)
        return iterate(model.polynomials, driven, self._past(model))

    def _growth(self, horizon: int) -> Array:
        """Return cumulated squared impulse responses, of shape (n_members, horizon, n_series).

        Steps are counted from the last observed value of each series.
        """
        responses = self.responses(horizon + int(self.trailing_gaps.max()))
        growth = np.cumsum(np.square(responses), axis=1)
        rows = [
            growth[:, gap : gap + horizon, series] for series, gap in enumerate(self.trailing_gaps)
        ]
        return np.stack(rows, axis=-1)

    def responses(self, horizon: int) -> Array:
        """Return the effects of an innovation on its own series."""
        impulse = np.zeros(horizon)
        impulse[0] = 1
        found = []
        for model in self.models:
            inputs = np.broadcast_to(impulse, (*model.polynomials.shape[:-1], horizon))
            none = np.zeros(model.polynomials.shape[-1])
            responses = iterate(model.polynomials, inputs, none)
            found.append(np.clip(responses, -MAX_RESPONSE, MAX_RESPONSE))
        return np.asarray(np.concatenate(found, axis=1).transpose(1, 2, 0))

    def updated(self, rows: Array, inputs: Array) -> AutoregressionState:
        """Return the state after more rows; missing values are replaced by their forecasts."""
        state = self
        for row, given in zip(self.units.standardized(rows), inputs, strict=True):
            missing = np.isnan(row)
            if missing.any():
                expected = state._average_path(1, given[None])[0]
                row = np.where(missing, expected, row)
            state = replace(
                state,
                values=np.concatenate([state.values[1:], row[None]]),
                trailing_gaps=np.where(missing, state.trailing_gaps + 1, 0),
                time=state.time + 1,
            )
        return state
