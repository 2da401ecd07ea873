"""The role of a family of densities, one of which each cluster of a mixture has."""

from __future__ import annotations

import abc
from typing import Any

from regfactor.core.params import Array


class ComponentFamily(abc.ABC):
    """Densities of one cluster; its M-step and its E-step, on rows that it has prepared."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name by which a member is reported."""

    @property
    @abc.abstractmethod
    def assumes(self) -> str:
        """What is assumed about a cluster, in a few words."""

    @abc.abstractmethod
    def prepare(self, Y: Array, floor: Array) -> Any:
        """Return rows (NaN where missing) with what both steps need; `floor` bounds variances."""

    @abc.abstractmethod
    def maximize(self, rows: Any, R: Array, last: Any = None) -> Any:
        """Return the parameters of all clusters, given weighted responsibilities of rows.

        `last` are the parameters of the last step, under which missing entries are expected.
        """

    @abc.abstractmethod
    def log_density(self, rows: Any, parameters: Any) -> Array:
        """Return log p(x_i | j), of shape (n_samples, n_clusters)."""

    @abc.abstractmethod
    def n_parameters(self, parameters: Any) -> float:
        """Return how many free parameters count in BIC; shrunk ones count fractionally."""
