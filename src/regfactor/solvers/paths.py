"""`path`: the solutions of a problem along falling alphas, each started from the last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from regfactor.core.loop import Solution
from regfactor.core.params import UnsupportedProblem, is_number
from regfactor.problems import Convex
from regfactor.solvers.base import prepared, solve


def path(problem: Convex, alphas: Iterable[float], **options: Any) -> list[Solution[Any]]:
    """Solve a convex problem for several strengths, in the order given.

    Falling ones make the best starts.

    Parameters
    ----------
    problem : Convex
        Its own alpha plays no part.
    alphas : iterable of float
    **options
        Passed to `solve`: tol, max_iter, max_rank, time_limit (of each), ...

    Returns
    -------
    list of Solution, one for each alpha
    """
    return list(along(problem, alphas, **options))


def along(problem: Convex, alphas: Iterable[float], **options: Any) -> Iterator[Solution[Any]]:
    """Yield the solutions of `path` one by one, so that whoever draws them may stop."""
    if not isinstance(problem, Convex):
        raise UnsupportedProblem(
            "A path leads over the strength of a gauge: give it a Convex problem."
        )
    alphas = _strengths(alphas)
    start = None
    problem = prepared(problem.at(max(alphas, default=1.0)))
    for alpha in alphas:
        solution = solve(problem.at(alpha), start=start, **options)
        start = solution.point
        yield solution


def _strengths(alphas: Any) -> list[float]:
    """Return strengths as a list; raise, before any work, if one is invalid."""
    found = list(alphas) if np.iterable(alphas) else [alphas]
    if not np.iterable(alphas) or not all(
        is_number(alpha) and 0 < alpha < np.inf for alpha in found
    ):
        raise ValueError(
            "alphas must be a list of positive finite numbers, such as [8.0, 4.0, 2.0], got "
            f"{alphas!r}."
        )
    return found
