"""Legal random data and predictors of losses, potentials and divergences."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor import losses
from regfactor.core.params import Array
from regfactor.losses import potentials
from regfactor.losses.base import Interval, Loss, as_cells, float_type
from regfactor.losses.distances import Divergence
from regfactor.losses.divergences import BregmanDivergence
from regfactor.losses.potentials import Potential
from regfactor.testing.laws import rng

Shape = tuple[int, ...]
MARGIN = 0.02  # share of a bounded interval that is left free at each end


def draw(loss: Loss, seed: int = 0, shape: Shape = (40, 4)) -> tuple[Array, Array]:
    """Return legal (z, x) of a loss: x in its domain, z in the interior of its link domain."""
    return draw_link(loss, rng(seed), shape), draw_data(loss, rng(seed + 1), shape)


def draw_link(loss: Loss, random: np.random.Generator, shape: Shape) -> Array:
    """Return predictors in the interior of the link domain of a loss."""
    if loss.link_domain.low == 0:
        return random.uniform(0.3, 3.0, shape)
    if loss.link_domain.high == 0:
        return -random.uniform(0.3, 3.0, shape)
    return random.normal(scale=2.0, size=shape)


def draw_data(loss: Loss, random: np.random.Generator, shape: Shape) -> Array:
    """Return data that a loss accepts."""
    match loss:
        case losses.Robust():
            return draw_data(loss.loss, random, shape)
        case losses.Censored():
            return draw_cells(random, shape)
        case losses.Hinge() | losses.SmoothedHinge() | losses.SquaredHinge():
            return random.choice([-1.0, 1.0], shape)
        case losses.Ordinal():
            return random.integers(0, loss.levels, shape).astype(float)
        case losses.Binomial():
            return random.integers(0, int(loss.trials) + 1, shape).astype(float)
        case losses.Poisson() | losses.NegativeBinomial():
            return random.poisson(2.0, shape).astype(float)
        case losses.Softmax():
            levels = random.integers(0, shape[-1], shape[:-1])
            return np.eye(shape[-1])[levels]
        case losses.Multinomial():
            shares = np.full(shape[-1], 1 / shape[-1])
            return random.multinomial(6, shares, shape[:-1]).astype(float)
    return _draw_domain(loss.domain, random, shape)


def _draw_domain(domain: Interval, random: np.random.Generator, shape: Shape) -> Array:
    low = domain.low
    high = domain.high
    if np.isfinite(low) and np.isfinite(high):  # both ends belong to the domain and are drawn
        inside = random.random(shape) < 0.5
        between = random.uniform(low, high, shape)
        ends = random.choice([low, high], shape)
        return np.where(inside, between, ends)
    if low == 0:  # zero itself where it is legal
        positive = 0.8 if domain.low_closed else 1.0
        numbers = random.uniform(0.3, 4.0, shape)
        return numbers * (random.random(shape) < positive)
    return random.normal(scale=2.0, size=shape)


def draw_cells(random: np.random.Generator, shape: Shape) -> Array:
    """Return cells known as numbers, below, above, and between limits near and far."""
    low = random.normal(scale=2.0, size=shape)
    width = random.choice([0.0, 1e-6, 0.1, 3.0], shape)
    side = random.random(shape)
    lower = np.where(side < 0.2, -np.inf, low)
    upper = np.where(side > 0.8, np.inf, low + width)
    return as_cells(lower, upper)


def numbers_like(x: Array, value: float = 0.0) -> Array:
    """Return an array of one number, in the shape and precision of data."""
    return np.full(x.shape, value, float_type(x))


def is_rowwise(potential: Potential) -> bool:
    """Return whether a potential couples the numbers of a row."""
    return isinstance(potential, potentials.Softmax | potentials.MultinomialEntropy)


def draw_potential(potential: Potential, seed: int = 0, shape: Shape = (40, 4)) -> Array:
    """Return points in the interior of the domain of a potential."""
    random = rng(seed)
    if isinstance(potential, potentials.MultinomialEntropy):
        return random.dirichlet(np.full(shape[-1], 2.0), shape[:-1])
    return draw_inside(potential.domain, random, shape)


def draw_inside(domain: Interval, random: np.random.Generator, shape: Shape) -> Array:
    """Return points in the interior of an interval."""
    low = domain.low
    high = domain.high
    if np.isfinite(low) and np.isfinite(high):
        margin = MARGIN * (high - low)
        return random.uniform(low + margin, high - margin, shape)
    if low == 0:
        return random.uniform(0.2, 4.0, shape)
    if high == 0:
        return -random.uniform(0.2, 4.0, shape)
    return random.normal(scale=1.5, size=shape)


def draw_rows(divergence: Divergence, seed: int, n: int) -> Array:
    """Return rows of four numbers in the domain of a divergence."""
    if isinstance(divergence, BregmanDivergence):
        return draw_potential(divergence.potential, seed, (n, 4))
    return draw_inside(divergence.domain, rng(seed), (n, 4))


def resampled(data: Any, random: np.random.Generator, shape: Shape, rowwise: bool) -> Array:
    """Return data of another shape, whose entries (or rows) are those of given data."""
    table = np.asarray(data)
    if rowwise:
        rows = random.integers(0, len(table), shape[:-1])
        return np.asarray(table[rows])
    values = table.ravel()
    places = random.integers(0, values.size, shape)
    return np.asarray(values[places])
