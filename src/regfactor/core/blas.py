"""The BLAS under numpy: how many threads it may have, and which products it is quick at."""

from __future__ import annotations

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

UNPACKED = {
    "SkylakeX",
    "Cooperlake",
    "SapphireRapids",
}  # cores for which OpenBLAS has kernels for small products


def one_thread() -> Any:
    """Return a context in which BLAS has one thread: on small blocks more of them cost more than they gain."""
    return _libraries().limit(limits=1, user_api="blas")


@cache
def likes_small_products() -> bool:
    """Whether many products of up to a million steps take less time than a single one of as many.

    OpenBLAS copies the factors of a product into its own order first, for some cores only where it
    is larger.
    """
    return any(library.get("architecture") in UNPACKED for library in _libraries().info())


@cache
def _libraries() -> Any:
    return ThreadpoolController()  # to look for them takes as long as some fits, so once
