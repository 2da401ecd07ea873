"""`path`: the solutions of one problem along falling strengths, each started from the one before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from regfactor._params import UnsupportedProblem
from regfactor.loop import Solution
from regfactor.problems import Convex
from regfactor.solvers.choose import prepared, solve


def path(problem: Convex, alphas: Iterable[float], **options: Any) -> list[Solution]:
    """Solve a convex problem for several strengths, in the order given; falling ones make the best starts.

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


def along(problem: Convex, alphas: Iterable[float], **options: Any) -> Iterator[Solution]:
    """Yield the solutions of `path` one by one, so that whoever draws them may stop."""
    if not isinstance(problem, Convex):
        raise UnsupportedProblem("A path leads over the strength of a gauge: give it a Convex problem.")
    alphas = list(alphas)
    start, problem = None, prepared(problem.at(max(alphas, default=1.0)))
    for alpha in alphas:
        solution = solve(problem.at(alpha), start=start, **options)
        start = solution.point
        yield solution
