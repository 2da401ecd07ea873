"""The weighted average of a bank, without its members at past origins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp

from regfactor.core.params import Array, frozen
from regfactor.series.bank import (
    BankFit,
    BankState,
    MemberPaths,
    SeriesTable,
    mean_change,
    parts_of_series,
)
from regfactor.series.weights import explosive_members, member_weights, without


@frozen
class BankAverage:
    """The average of a bank at all origins, and its members at the last one.

    Attributes
    ----------
    name : str
    assumes : str
    log_evidence : array of shape (n_series,)
        Of all members together.
    weights, variances : arrays of shape (n_members, n_series)
        Of members and of their innovations, at the last origin.
    means : array of shape (n_origins - 1, horizon, n_series)
        Forecasts from all origins but the last.
    spread : array of the same shape
        Their error variances: of innovations, of coefficients, and between members.
    innovations : array of shape (n_origins, n_series)
        Variances of innovations at each origin.
    explosive : array of bool of shape (n_series,)
        Whether the forecasts of all members explode.
    state : BankState
        At the last origin.
    share : float, optional
        In the average of banks; by default it is found from the errors of past forecasts, which a
        bank with a given share need not make.
    within : str, optional
        Name of the bank of whose share the given one is a part; by default it is one of all.
    """

    name: str
    assumes: str
    log_evidence: Array
    weights: Array
    variances: Array
    means: Array
    spread: Array
    innovations: Array
    explosive: Array
    state: Any
    share: float | None = None
    within: str | None = None

    @staticmethod
    def of(fit: BankFit, table: SeriesTable) -> BankAverage:
        """Return the average of the members of a bank by their weights at each origin."""
        origins = table.origins
        horizon = origins.horizon
        units = mean_change(table.values)
        truth = origins.following(table.judged)
        explosive = explosive_members(fit.state)
        growth = np.cumsum(np.square(fit.state.responses(horizon)), axis=1)
        unknown = fit.state.coefficient_growth(horizon, table.inputs[-horizon:])
        unknown = np.broadcast_to(unknown, growth.shape)
        # coefficients were less certain at earlier origins, in inverse proportion to the rows
        fewer = (origins.n_rows / origins.rows[:-1])[:, None, None, None]
        means = np.zeros((len(origins.rows) - 1, horizon, table.n_series))
        spread = np.zeros(means.shape)
        innovations = np.zeros((len(origins.rows), table.n_series))
        last = np.zeros(fit.variances.shape[1:])
        for part in parts_of_series(table.n_series):
            some = fit.of_series(part)
            weights = member_weights(some, truth[..., part], origins, units[part])
            weights = without(explosive[:, part], weights)
            mean = np.einsum("omhs,oms->ohs", some.paths, weights[:-1])
            errors = growth[..., part] + fewer * unknown[..., part]
            errors *= some.variances[:-1, :, None]
            errors += np.square(some.paths - mean[:, None])
            means[..., part] = mean
            spread[..., part] = np.einsum("omhs,oms->ohs", errors, weights[:-1])
            innovations[:, part] = np.einsum("oms,ms->os", some.variances, weights[-1])
            last[:, part] = weights[-1]
        return BankAverage(
            name=fit.name,
            assumes=fit.assumes,
            log_evidence=logsumexp(fit.log_evidence[-1] + fit.log_prior[:, None], axis=0),
            weights=last,
            variances=fit.variances[-1].copy(),
            means=means,
            spread=spread,
            innovations=innovations,
            explosive=np.asarray(explosive.all(axis=0)),
            state=fit.state,
        )

    @staticmethod
    def joined(parts: Sequence[BankAverage]) -> BankAverage:
        """Return the average of parts of the series as one."""
        if len(parts) == 1:
            return parts[0]
        sizes = [part.weights.shape[1] for part in parts]

        def of_all(attribute: str) -> Array:
            return np.concatenate([getattr(part, attribute) for part in parts], axis=-1)

        return BankAverage(
            name=parts[0].name,
            assumes=parts[0].assumes,
            log_evidence=of_all("log_evidence"),
            weights=of_all("weights"),
            variances=of_all("variances"),
            means=of_all("means"),
            spread=of_all("spread"),
            innovations=of_all("innovations"),
            explosive=of_all("explosive"),
            state=SideBySideState([part.state for part in parts], np.cumsum(sizes)[:-1]),
            share=parts[0].share,
            within=parts[0].within,
        )


@frozen
class AveragedBank:
    """A member of a pool: a bank that is averaged as soon as it is fitted.

    A bank whose members see one series each is fitted to some series at a time.
    """

    bank: Any
    parts: Sequence[Any]

    @staticmethod
    def of(bank: Any) -> AveragedBank:
        """Return a bank that is fitted to all series at once."""
        return AveragedBank(bank, [bank])

    @staticmethod
    def by_series(kind: Any, table: SeriesTable) -> AveragedBank:
        """Return a bank that is fitted to some series at a time."""
        parts = [table.of_series(part) for part in parts_of_series(table.n_series)]
        return AveragedBank(kind(table), [kind(part) for part in parts])

    @property
    def name(self) -> str:
        """The name by which weights and scores are reported."""
        return str(self.bank.name)

    def fit(self) -> BankAverage:
        """Fit all members at all origins, and return their average."""
        return BankAverage.joined([BankAverage.of(part.fit(), part.table) for part in self.parts])


@frozen
class SideBySideState(BankState):
    """States of banks of the same members, of one part of the series each."""

    states: Sequence[BankState]
    starts: Array  # of all parts but the first

    def forecast(self, horizon: int, inputs: Array) -> MemberPaths:
        """Return the forecasts of the members."""
        paths = [state.forecast(horizon, inputs) for state in self.states]
        return MemberPaths(
            np.concatenate([path.means for path in paths], axis=-1),
            np.concatenate([path.variances for path in paths], axis=-1),
        )

    def updated(self, rows: Array, inputs: Array) -> SideBySideState:
        """Return the states after more rows."""
        parts = np.split(rows, self.starts, axis=1)
        states = [
            state.updated(part, inputs) for state, part in zip(self.states, parts, strict=True)
        ]
        return SideBySideState(states, self.starts)

    def responses(self, horizon: int) -> Array:
        """Return the effects of an innovation on its own series."""
        return np.concatenate([state.responses(horizon) for state in self.states], axis=-1)

    def coefficient_growth(self, horizon: int, inputs: Array) -> Array:
        """Return the error variances that come from estimated coefficients."""
        parts = [state.coefficient_growth(horizon, inputs) for state in self.states]
        return np.concatenate(parts, axis=-1)
