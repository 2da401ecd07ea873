"""Threads over rows: the compiled loops release Python's lock, so that ranges of rows run at once.

Rows are solved alone, so that results are the same for any number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from regfactor.core.blas import one_thread
from regfactor.core.params import Array, frozen

R = TypeVar("R")
MIN_ENTRIES = 100_000  # of a range of rows, below which another thread costs more than it saves


@frozen
class FitThreads:
    """The threads of a fit."""

    n_threads: int
    executor: ThreadPoolExecutor


POOL: ContextVar[FitThreads | None] = ContextVar("regfactor_pool", default=None)


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads that scikit-learn's n_jobs means."""
    if n_jobs is None:
        return 1
    if n_jobs < 0:
        return max((os.cpu_count() or 1) + 1 + n_jobs, 1)
    return n_jobs


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Let loops over rows take so many threads, with one thread of BLAS in each."""
    n_threads = count_threads(n_jobs)
    if n_threads == 1:
        yield
        return
    with one_thread(), ThreadPoolExecutor(n_threads) as executor:
        token = POOL.set(FitThreads(n_threads, executor))
        try:
            yield
        finally:
            POOL.reset(token)


def over_rows(indptr: Array, loop: Callable[[int, int], R]) -> list[R]:
    """Return loop(first, last) of ranges of rows with as many entries each, one for each thread."""
    n_rows = len(indptr) - 1
    pool = POOL.get()
    n_ranges = 1
    if pool is not None:
        n_ranges = max(min(pool.n_threads, int(indptr[-1]) // MIN_ENTRIES), 1)
    if pool is None or n_ranges == 1:
        return [loop(0, n_rows)]
    shares = np.linspace(0, int(indptr[-1]), n_ranges + 1)
    ends = np.searchsorted(indptr, shares).tolist()
    ends[0] = 0
    ends[-1] = n_rows
    results: Iterator[Any] = pool.executor.map(loop, ends[:-1], ends[1:])
    return list(results)
