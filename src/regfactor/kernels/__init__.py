"""Kernels of two rows or of a structure on all rows, and their names in the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils import Tags

from regfactor.core.params import choose, is_option
from regfactor.kernels.base import Kernel
from regfactor.kernels.pointwise import Custom, Gaussian, Linear, Polynomial, Precomputed
from regfactor.kernels.spectral import (
    ClassicalMDS,
    FromDistances,
    FromGraph,
    Isomap,
    Laplacian,
    LocallyLinear,
)

KERNELS: dict[str, Callable[[Any, Any, Any], Kernel]] = {
    "linear": lambda gamma, degree, coef0: Linear(),
    "rbf": lambda gamma, degree, coef0: Gaussian(gamma),
    "poly": lambda gamma, degree, coef0: Polynomial(degree, coef0, gamma),
    "precomputed": lambda gamma, degree, coef0: Precomputed(),
}


PART_CLASSES = {
    "isomap": Isomap,
    "laplacian": Laplacian,
    "locallylinear": LocallyLinear,
    "lle": LocallyLinear,
    "classicalmds": ClassicalMDS,
    "mds": ClassicalMDS,
}


def as_kernel(
    kernel: Any,
    gamma: float | str = "scale",
    degree: int = 3,
    coef0: float = 1.0,
    what: str = "kernel",
) -> Kernel:
    """Return the kernel of a string with its parameters, a function of two tables, or a part."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        raise ValueError(f"{what} must be a part, not its class: write {kernel.__name__}().")
    if isinstance(kernel, str):
        part = PART_CLASSES.get(kernel.lower().replace("_", ""))
        if part is not None:
            raise ValueError(
                f"{what}={kernel!r} is a part: write {what}=regfactor.kernels.{part.__name__}()."
            )
        return choose(kernel, KERNELS, what)(gamma, degree, coef0)
    if callable(kernel):
        return Custom(kernel)
    raise ValueError(
        f"{what} must be a string, a Kernel or a function of two tables, got {kernel!r}."
    )


def is_pairwise(kernel: Any) -> bool:
    """Whether tables contain kernel values of, or distances to, the reference rows."""
    distances = isinstance(kernel, ClassicalMDS) and is_option(kernel.metric, "precomputed")
    return is_option(kernel, "precomputed") or isinstance(kernel, Precomputed) or distances


def takes_sparse(kernel: Any) -> bool:
    """Whether a kernel, by name or as a part, takes sparse tables."""
    return not isinstance(kernel, FromDistances | FromGraph)


def tag_kernel(tags: Tags, kernel: Any) -> None:
    """Set the tags of an estimator on a kernel: sparse tables, and tables of kernel values."""
    tags.input_tags.sparse = takes_sparse(kernel)
    tags.input_tags.pairwise = is_pairwise(kernel)


__all__ = [
    "KERNELS",
    "ClassicalMDS",
    "Custom",
    "Gaussian",
    "Isomap",
    "Kernel",
    "Laplacian",
    "Linear",
    "LocallyLinear",
    "Polynomial",
    "Precomputed",
    "as_kernel",
    "is_pairwise",
    "takes_sparse",
]
