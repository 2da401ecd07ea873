"""The BLAS under numpy: its number of threads, and whether small products are fast."""

from __future__ import annotations

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

# Cores for which OpenBLAS has kernels for small products.
SMALL_PRODUCT_CORES = {"SkylakeX", "Cooperlake", "SapphireRapids"}


def one_thread() -> Any:
    """Return a context in which BLAS has one thread: on small blocks more threads cost time."""
    return _libraries().limit(limits=1, user_api="blas")


@cache
def likes_small_products() -> bool:
    """Return whether many products of up to a million operations are faster than one of as many.

    OpenBLAS first copies the factors of a product into its own order; on some cores it does so
    only if they are larger.
    """
    cores = {library.get("architecture") for library in _libraries().info()}
    return not cores.isdisjoint(SMALL_PRODUCT_CORES)


@cache
def _libraries() -> Any:
    # cached, since looking for the libraries takes as long as some fits
    return ThreadpoolController()
