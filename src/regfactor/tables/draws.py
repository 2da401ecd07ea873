"""Completed tables drawn from the predictive distribution, for multiple imputation."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from regfactor.core.params import Array, require_count
from regfactor.fitting.calibrated_entries import LARGEST_LINK_VARIANCE
from regfactor.fitting.columns import Codec, LineCodec, Number, OneHotCodec, StepCodec
from regfactor.fitting.inputs import as_float_table, filled
from regfactor.fitting.known import Known, RowsToScore
from regfactor.fitting.leverage import code_covariances
from regfactor.fitting.predictive import predictive
from regfactor.fitting.side_by_side import with_missing_as_nan
from regfactor.fitting.units import ROUNDING_SPREAD
from regfactor.losses import Squared
from regfactor.problems import Data
from regfactor.tables.intervals import CompletionIntervals, level_shares
from regfactor.tables.normal_factors import NormalFactors
from regfactor.tables.truncation import truncated_draw

FIRST_EM_STEPS = 400  # from the published components, and small factors that are added
# up to which small factors are added: a relation that predicts little may be the one in question
MAX_FACTORS = 20
# coefficients to an entry of a column, up to which its noise is corrected for them
MAX_PARAMETER_SHARE = 0.5
DRAW_EM_STEPS = 60  # from those of the whole table to those of a bootstrap of its rows


class CompletionDraws(CompletionIntervals):
    """A model of a table whose missing entries can be drawn."""

    def sample(
        self,
        X: Any,
        n_draws: int = 20,
        random_state: Any = None,
        *,
        lower: Any = None,
        upper: Any = None,
        covariates: Any = None,
    ) -> list[Any]:
        """Return completed tables whose missing entries are drawn from their distribution.

        Codes are drawn from their posterior given the observed entries of the row: exactly under
        the squared loss, by Laplace's method under others. Entries are drawn by the distribution of
        their loss about the predictor. Where X is the training table, every draw has components of
        its own, fitted to a bootstrap of its rows, so that what is drawn varies as much as it is
        unknown, and `regfactor.inference.pool` gives valid intervals.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            The training table or new rows.
        n_draws : int, default=20
        random_state : int, RandomState instance or None, default=None
            None takes that of the estimator.
        lower, upper : array-like of shape (n_samples, n_features), optional
            Limits of missing entries, as in `fit`, between which they are drawn.
        covariates : array-like of shape (n_samples, n_covariates), optional

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
        known = Known(lower, upper, covariates)
        rows = self._rows(X, known)
        table = with_missing_as_nan(rows.table).astype(np.float64)
        plain = rows.limits is None and self._covariates is None and not self.row_effects
        if plain and self._is_normal and len(self._components):
            drawn = self._normal_draws(table, n_draws, random)
        else:
            drawn = self._draws(X, known, n_draws, random)
        return [self._completed(X, values) for values in drawn]

    @property
    def _is_normal(self) -> bool:
        """Whether every column is a number under the squared loss."""
        squared = all(isinstance(part, Squared) for _, part in self._loss_parts)
        numbers = self._schema is None or not self._labels()
        return squared and numbers

    def _normal_draws(self, X: Array, n_draws: int, random: np.random.Generator) -> list[Array]:
        """Return draws by normal factors; columns that nothing varies in are their predictors."""
        n = len(self.codes_)
        learned = X[~np.isnan(X).all(axis=1)]
        own = X.shape[0] == n
        # what the penalty took off is added to the sizes of the components again
        sizes = (self._sizes + self.alpha_) / np.sqrt(n)
        C = self._components.astype(np.float64) * sizes[:, None]
        explained = np.square(C).sum(axis=0)
        offsets = self._intercept.astype(np.float64)
        fixed = np.tile(offsets, (len(X), 1))
        if own:
            varies = _varies(X)
            if not varies.any():
                return [fixed.copy() for _ in range(n_draws)]
            noise = self._calibrated_noise(learned)
        else:
            noise = self._calibrated_noise(None)
            varies = explained + noise > 0
        X = X[:, varies]
        learned = learned[:, varies]
        learned = learned[~np.isnan(learned).all(axis=1)]
        start = NormalFactors(C[:, varies], offsets[varies], noise[varies])
        bounds = None
        if self._bounds is not None:
            bounds = self._bounds[:, varies]
        if own:
            start = start.extended(min(X.shape[1] - 1, MAX_FACTORS), random)
            start = start.fitted(learned, np.ones(len(learned)), FIRST_EM_STEPS)
        draws = []
        for _ in range(n_draws):
            model = start
            widening = np.ones(X.shape[1])
            if own:
                equal = np.full(len(learned), 1 / len(learned))
                counts = random.multinomial(len(learned), equal)
                model = start.fitted(learned, counts.astype(float), DRAW_EM_STEPS)
                widening = _bootstrap_widening(model, learned, counts)
            drawn = fixed.copy()
            drawn[:, varies] = model.draw(X, random, bounds, widening)
            draws.append(drawn)
        return draws

    def _calibrated_noise(self, X: Array | None) -> Array:
        """Return a first guess of the noise of columns, from held-out entries or their spread."""
        if self._held_out is not None:
            return self._calibrated(None).noise
        if X is None:
            raise ValueError(
                "No entries were held out in the fit, since alpha was given: call `sample` with "
                f"the training table of {len(self.codes_)} rows, or fit with alpha='auto'.",
            )
        observed = ~np.isnan(X)
        counts = np.maximum(observed.sum(axis=0), 1)
        centered = np.where(observed, X - np.where(observed, X, 0.0).sum(axis=0) / counts, 0.0)
        half = np.square(centered).sum(axis=0) / counts / 2
        return np.maximum(half, np.finfo(float).tiny)

    def _draws(
        self,
        X: Any,
        known: Known,
        n_draws: int,
        random: np.random.Generator,
    ) -> list[Array]:
        """Return draws by Laplace's method, with components by refits to bootstraps."""
        noise = self._calibrated(X, known).noise
        n = self._rows(X, known).table.shape[0]
        own = n == len(self.codes_)
        draws = []
        for _ in range(n_draws):
            model: CompletionDraws = self
            if own:
                model = self._bootstrapped(X, known, n, random)
            # a refit has units of its own
            unit = model._units_beside(self)
            rows = model._rows(X, known)
            drawn = model._laplace_draw(rows, noise / unit**2, random)
            draws.append(self._from_units_of(model, drawn))
        return draws

    def _units_beside(self, other: CompletionDraws) -> Array:
        """Return the units of the columns in those of another model of the same table."""
        if self._column_units is None or other._column_units is None:
            return np.ones(len(self._intercept))
        return self._column_units.unit / other._column_units.unit

    def _from_units_of(self, other: CompletionDraws, values: Array) -> Array:
        """Return values in the units of this model, given in those of another."""
        if self._column_units is None or other._column_units is None:
            return values
        units = self._column_units
        given = other._column_units.values(values)
        return (given - units.center) / units.unit

    def _bootstrapped(
        self,
        X: Any,
        known: Known,
        n: int,
        random: np.random.Generator,
    ) -> CompletionDraws:
        model = clone(self)
        seed = int(random.integers(2**31 - 1))
        model.set_params(alpha=self.alpha_, random_state=seed)
        counts = random.multinomial(n, np.full(n, 1 / n))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a refit; the fit itself reported its own
            more = [] if known.is_nothing else [None, known]
            return model._fit(X, counts, *more)

    def _laplace_draw(self, rows: RowsToScore, noise: Array, random: np.random.Generator) -> Array:
        """Return one draw of all cells in the units of the problem."""
        rows = replace(rows, table=with_missing_as_nan(rows.table).astype(np.float64))
        codes = self._codes_of(rows).astype(np.float64)
        Z = codes @ self._components + rows.offset
        residual = np.zeros(Z.shape[1], bool)
        for at, part in self._loss_parts:
            residual[at] = part.of_residual
        dispersion = 1.0
        if residual.any():
            dispersion = float(noise[residual].mean())
        Z = Z + self._predictor_noise(rows, Z, dispersion, random)
        ends = self._ends(rows)
        out = np.empty_like(Z)
        for at, part in self._loss_parts:
            z = Z[:, at]
            if part.of_residual:
                limits = None if ends is None else ends[..., at]
                out[:, at] = truncated_draw(z, np.sqrt(noise[at]), limits, random)
            else:
                entries = predictive(part, z, np.zeros_like(z), np.ones_like(z))
                out[:, at] = entries.quantile(random.random(z.shape))
        predicted = np.empty_like(Z)
        for at, part in self._loss_parts:
            predicted[:, at] = part.predict(Z[:, at])
        for codec, at in self._labels():
            out[:, at] = _drawn_levels(codec, level_shares(codec, predicted[:, at]), random)
        return out

    def _predictor_noise(
        self,
        rows: RowsToScore,
        Z: Array,
        dispersion: float,
        random: np.random.Generator,
    ) -> Array:
        """Return draws of phi C about its mean."""
        out = np.zeros_like(Z)
        X = rows.table
        known = ~np.isnan(X)
        if rows.limits is not None:
            known |= np.isfinite(rows.limits).any(axis=0)
        seen = np.flatnonzero(known.any(axis=1))
        C = self._components.astype(np.float64)
        if not len(C) or not len(seen):
            return out
        score = self._required_score()
        weights = np.broadcast_to(np.asarray(score.weight, np.float64), X.shape)
        limits = None
        if rows.limits is not None:
            limits = rows.limits[:, seen]
        data = Data.of(X[seen], score.loss, weights[seen], limits=limits)
        for block, covariances in code_covariances(data, Z[seen], C, score.strengths(len(C))):
            roots = np.linalg.cholesky(covariances)
            numbers = random.normal(size=(len(block), len(C)))
            moved = np.einsum("ikl,il->ik", roots, numbers)
            noise = moved @ C
            variances = np.einsum("ikl,kj,lj->ij", covariances, C, C)
            size = np.sqrt(variances)
            limit = np.sqrt(LARGEST_LINK_VARIANCE)
            shrink = np.minimum(1, limit / np.maximum(size, 1e-12))
            out[seen[block]] = noise * shrink
        return out * np.sqrt(dispersion)

    def _completed(self, X: Any, values: Array) -> Any:
        """Return the user's table with its missing entries taken from drawn values."""
        if self._schema is not None:
            return self._schema.decode(values, X)
        table = as_float_table(self, X, None, reset=False)
        if self._column_units is not None:
            values = self._column_units.values(values)
        return filled(X, table, values.astype(table.dtype))


def _bootstrap_widening(model: NormalFactors, X: Array, counts: Array) -> Array:
    """Return by how much larger variances are than those of a fit to a bootstrap, by columns.

    A fit with p coefficients to n entries has residuals of (1 - p/n) times the variance of the
    noise; a fit to a bootstrap, whose entries have the residuals of such a fit, of (1 - p/n)^2.
    """
    rows = counts.astype(float)
    n_entries = rows @ ~np.isnan(X)
    share = model.parameter_counts(X, rows) / np.maximum(n_entries, 1.0)
    return np.asarray((1 - np.minimum(share, MAX_PARAMETER_SHARE)) ** -2.0)


def _varies(X: Array) -> Array:
    """Return a mask of the columns of which two observed entries differ by more than rounding."""
    largest = np.fmax.reduce(X, axis=0)
    smallest = np.fmin.reduce(X, axis=0)
    size = np.maximum(np.abs(largest), np.abs(smallest))
    return np.asarray(largest - smallest > ROUNDING_SPREAD * size)


def _drawn_levels(codec: Codec, shares: Array, random: np.random.Generator) -> Array:
    """Return encoded cells whose levels are drawn by their probabilities."""
    uniform = random.random((len(shares), 1))
    positions = (np.cumsum(shares, axis=1) < uniform).sum(axis=1)
    positions = np.minimum(positions, shares.shape[1] - 1)
    if isinstance(codec, OneHotCodec):
        return np.eye(shares.shape[1])[positions]
    if isinstance(codec, StepCodec):
        steps = np.arange(shares.shape[1] - 1)
        return (positions[:, None] > steps).astype(float)
    assert isinstance(codec, LineCodec) and not isinstance(codec, Number)
    return positions[:, None].astype(float)
