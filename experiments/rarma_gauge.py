"""RARMA(1, 1) under max_j |B_j|_F (White 2014, theorem 10), against the trace norm: is it another model?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments import arma_macro, arma_short
from experiments._forecasts import Case
from experiments._gauge import balanced, stated
from experiments._runner import Cell, Experiment, Plan, Record
from experiments._series import Array, iterated
from experiments._views import markdown, mean, results, rounded, shown, verdicts
from regfactor.series.arma.problem import FittedModel
from regfactor.solvers import solve

STRENGTHS = (0.5, 0.1, 0.02)  # shares of alpha_max of the trace norm
AHEAD, ROWS, DRAWS = 8, 150, 10
LEAD, NOISE = 3.0, 0.1
LEADING = "lead and lag"
GENERATED = ("n1, q1, radius 0.8", "n3, q1, radius 0.8", "n6, q1, radius 0.8")
REAL = ("us_macro", "canada_macro", "lutkepohl_e1")
TOL = 1e-6
SAME = 1e-3  # share of the objective, and of the deviation of a series, that makes no difference


def lead_lag(seed: int) -> Case:
    """Return two series, the second of which is the first one step later and larger."""
    rng = np.random.default_rng(seed)
    e = rng.normal(size=ROWS + AHEAD + 1)
    X = np.column_stack([e[1:], LEAD * e[:-1]]) + NOISE * rng.normal(size=(ROWS + AHEAD, 2))
    return Case(X[:ROWS], X[ROWS:])


DRAW: dict[str, Callable[[int], Case]] = {
    **{name: arma_short.source(name).draw for name in GENERATED},
    LEADING: lead_lag,
    f"{LEADING}, units kept": lead_lag,
    **{name: arma_macro.source(name).draw for name in REAL},
}


def compared(case: Case, strength: float, p: int, standardize: bool) -> dict[str, float]:
    """Return how far optimum, forecasts and errors under one gauge are from those under the other."""
    problem = stated(case.past, p, standardize)
    alpha = strength * problem.alpha_max()
    one = problem.at(alpha)
    solution = solve(one, tol=TOL)
    other = balanced(problem.at(np.sqrt(2) * alpha), TOL)
    usual = iterated(FittedModel.of(one, solution.point, 1.0), AHEAD)
    found = other.forecast(AHEAD)
    future = case.future[:AHEAD]
    return {
        "objective": other.objective / solution.objective - 1,
        "eta": other.eta,
        "forecast": float((np.abs(found - usual).max(axis=0) / case.past.std(axis=0)).max()),
        "log error": float(np.log(squares(found, future) / squares(usual, future))),
    }


def squares(forecast: Array, future: Array) -> float:
    """Return the sum of squared errors."""
    return float(np.square(forecast - future).sum())


class Gauges(Experiment):
    """One cell for each series and strength."""

    title = "the gauge of theorem 10 against the trace norm (White 2014, 7.3)"

    def cells(self, done: dict[str, Record], plan: Plan) -> list[Cell]:
        return [
            {"dataset": name, "strength": strength, "split": i}
            for name in DRAW
            for strength in STRENGTHS
            for i in range(min(plan.n_splits(DRAWS), DRAWS))
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        name = cell["dataset"]
        case = DRAW[name](cell["split"])
        p = 0 if name.startswith(LEADING) else 1
        return rounded(compared(case, cell["strength"], p, "units kept" not in name))

    def summary(self, done: dict[str, Record], plan: Plan) -> list[dict[str, Any]]:
        rows = []
        for name in DRAW:
            for strength in STRENGTHS:
                found = results(done, dataset=name, strength=strength)
                if not found:
                    continue
                cells = {k: [f[k] for f in found] for k in found[0]}
                row = {"dataset": name, "strength": strength, "n": len(found), "cells": cells}
                rows.append({**row, "errors": mean(cells["log error"])})
        return rows

    def report(self, summary: list[dict[str, Any]]) -> str:
        head = ["series", "alpha / alpha_max", "n", "eta", "optimum higher by at most"]
        head += ["forecasts differ by at most", "log of squared errors, mean"]
        lines = [
            [
                row["dataset"],
                f"{row['strength']:g}",
                row["n"],
                f"{min(row['cells']['eta']):.4f} to {max(row['cells']['eta']):.4f}",
                f"{max(row['cells']['objective']):.1e}",
                f"{max(row['cells']['forecast']):.1e}",
                shown(row["errors"]),
            ]
            for row in summary
        ]
        return "\n\n".join(
            [
                "No table of the thesis, which states two regularizers of the moving average, "
                "sum_j |B_j|^2 (the trace norm of W) and max_j |B_j|^2 (its largest value over eta "
                "at weights eta and 1 - eta of the blocks), and tries the first. RARMA(1, 1) of the "
                "same series at ridge 1e-3, roots capped at 1, alpha being sqrt(2) times as large "
                "under the maximum, so that both are one problem at eta = 1/2. *Optimum* is that of "
                "the maximum relative to that of the sum; *forecasts* are the next "
                f"{AHEAD}, in deviations of the series; both fits have a relative gap of {TOL:g}. "
                f"*Lead and lag* is made to differ: a white series, and {LEAD:g} times the same one "
                "step later, without an autoregression (p = 0), which would take it up; with "
                "*units kept* series are not standardized. Origins and seeds are "
                "the first of arma-macro and arma-short.",
                markdown(head, lines),
                verdicts(judged(summary)),
            ]
        )


def judged(rows: list[dict[str, Any]]) -> list[str]:
    """Say where the two gauges are one model, and whether the other one forecasts better."""
    lines = []
    for name in dict.fromkeys(row["dataset"] for row in rows):
        mine = [row for row in rows if row["dataset"] == name]
        optimum = max(max(row["cells"]["objective"]) for row in mine)
        apart = max(max(row["cells"]["forecast"]) for row in mine)
        word = "the same model" if max(optimum, apart) <= SAME else "another model"
        text = f"{name}: {word} (optimum within {optimum:.1e}, forecasts within {apart:.1e})"
        errors = np.concatenate([row["cells"]["log error"] for row in mine])
        if word != "the same model" and len(errors) > 1:
            error = errors.std(ddof=1) / np.sqrt(len(errors))
            side = "lower" if errors.mean() < 0 else "higher"
            if abs(errors.mean()) <= 2 * error:
                side = "neither lower nor higher"
            text += (
                f"; squared errors are {side} under the maximum ({100 * errors.mean():+.2f} % ± "
                f"{100 * error:.1g})"
            )
        lines.append(text + ".")
    return lines


EXPERIMENT = Gauges()
