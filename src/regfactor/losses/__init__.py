"""Losses f(z; x) and their names in the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regfactor.core.params import choose
from regfactor.losses.base import Loss
from regfactor.losses.bregman import (
    KL,
    Binomial,
    Bregman,
    Exponential,
    Gamma,
    GammaLog,
    Logistic,
    Multinomial,
    Ordinal,
    Poisson,
    Softmax,
    Weibull,
)
from regfactor.losses.censored import Censored
from regfactor.losses.counts import NegativeBinomial
from regfactor.losses.margin import Hinge, SmoothedHinge, SquaredHinge
from regfactor.losses.robust import Absolute, Huber, Quantile, Robust, SmoothedL1, Squared
from regfactor.losses.stacked import Stacked

LOSSES: dict[str, type[Loss]] = {
    "squared": Squared,
    "huber": Huber,
    "smoothed_l1": SmoothedL1,
    "absolute": Absolute,
    "quantile": Quantile,
    "logistic": Logistic,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "gamma_log": GammaLog,
    "exponential": Exponential,
    "weibull": Weibull,
    "binomial": Binomial,
    "multinomial": Multinomial,
    "softmax": Softmax,
    "hinge": Hinge,
    "smoothed_hinge": SmoothedHinge,
    "squared_hinge": SquaredHinge,
    "ordinal": Ordinal,
    "kl": KL,
}


def by_columns(loss: Any) -> list[tuple[Any, Any]] | None:
    """Return the pairs (columns, loss) of a dict or a list; None for one loss on all columns."""
    if isinstance(loss, Mapping):
        return list(loss.items())
    if not isinstance(loss, list | tuple):
        return None
    if not loss or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in loss):
        raise ValueError(
            "A list of losses must contain pairs (columns, loss), such as "
            f"[(slice(0, 2), 'squared'), ([2, 5], 'logistic')]; got {loss!r}. "
            "Give one loss for all columns without a list."
        )
    return list(loss)


def as_loss(loss: Any) -> Loss:
    """Return the loss of a string, a part, a dict {column: loss} or a list of (columns, loss)."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, type) and issubclass(loss, Loss):
        raise ValueError(f"loss must be a part, not its class: write {loss.__name__}().")
    if isinstance(loss, str):
        return choose(loss, LOSSES, "loss")()
    groups = by_columns(loss)
    if groups is not None:
        return Stacked(tuple((columns, as_loss(part)) for columns, part in groups))
    raise ValueError(
        f"loss must be a string, a Loss, a dict or a list of (columns, loss), got {loss!r}."
    )


__all__ = [
    "KL",
    "LOSSES",
    "Absolute",
    "Binomial",
    "Bregman",
    "Censored",
    "Exponential",
    "Gamma",
    "GammaLog",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Multinomial",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Quantile",
    "Robust",
    "SmoothedHinge",
    "SmoothedL1",
    "Softmax",
    "Squared",
    "SquaredHinge",
    "Stacked",
    "Weibull",
    "as_loss",
]
