"""Transfers f by their names in the API, each as the potential F with f = F'."""

from __future__ import annotations

from typing import Any

from regfactor.core.params import choose
from regfactor.losses import potentials
from regfactor.losses.potentials import Potential

TRANSFERS: dict[str, Potential] = {
    "identity": potentials.Identity(),
    "sigmoid": potentials.Sigmoid(),
    "softmax": potentials.Softmax(),
    "exp": potentials.Exp(),
    "cube": potentials.Cube(),
    "relaxed_sigmoid": potentials.RelaxedSigmoid(),
    "kl": potentials.Entropy(),
}


def as_transfer(transfer: Any) -> Potential:
    """Return the potential that a string or a part names."""
    if isinstance(transfer, Potential):
        return transfer
    if isinstance(transfer, str):
        return choose(transfer, TRANSFERS, "transfer")
    raise ValueError(
        "transfer must be a string or a Potential such as losses.potentials.Exp(), "
        f"got {transfer!r}."
    )
