"""How well holes are filled: known cells are hidden, filled, and compared with what stood there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from regfactor.cli.errors import count
from regfactor.cli.job import fit_with_choice, quiet
from regfactor.core.params import Array
from regfactor.report import Figure, Section, Text
from regfactor.report.figures import bars

# of the observed cells that are hidden; in a column of which something can be said
SHARE = 0.1
LEAST = 5
MOST_ROWS = 5_000


@dataclass(frozen=True, eq=False)
class Hidden:
    """How hidden cells were filled: for each column, by how much better than by its mean, or by its commonest value."""

    cells: int
    table: dict[str, dict[str, float]]

    @property
    def better(self) -> list[str]:
        """The columns in which the model beats the mean or the commonest value."""
        return [name for name, line in self.table.items() if line["gain"] > 0]

    @property
    def sentence(self) -> str:
        """How far to trust the filling, in one sentence."""
        if not self.table:
            return "There were too few cells to hide some and see how well they are filled."
        gain = float(np.mean([line["gain"] for line in self.table.values()]))
        if gain <= 0:
            return (
                f"On {self.cells} known cells that were hidden, it did no better than the mean or the commonest "
                "value of the column: the columns say little about each other."
            )
        return (
            f"On {self.cells} known cells that were hidden, errors were {gain:.0%} smaller than those of the mean "
            f"or the commonest value, over all columns; it did better in {len(self.better)} of "
            f"{len(self.table)}."
        )

    def section(self) -> Section:
        """Return how far to trust it, with a bar for each column."""
        blocks: list[Any] = [Text(self.sentence)]
        if self.table:
            ordered = sorted(self.table, key=lambda name: -self.table[name]["gain"])
            svg = bars(
                ordered,
                [max(self.table[n]["gain"], 0) for n in ordered],
                "smaller errors than without a model",
                percent=True,
            )
            blocks += [
                Figure(
                    svg,
                    f"By how much errors shrank on {count(self.cells, 'hidden cell')}: root mean squares of "
                    "numbers against those of the mean, shares of wrong flags and categories against those of the "
                    "commonest value. At 0% the other columns say nothing about a column, and its filled cells "
                    "are no better than its mean.",
                ),
                Text(
                    "The cells were hidden at random. Where values are missing because of what they are (the sick "
                    "skip the visit), filled cells are worse than this, and no method can tell from the table alone.",
                ),
            ]
        return Section("How far to trust it", blocks)


def hide_and_fill(X: Any, model: Any, seed: int) -> Hidden:
    """Hide a tenth of the known cells, fit anew with the strength that was chosen, and compare."""
    random = np.random.default_rng(seed)
    if len(X) > MOST_ROWS:
        X = X.iloc[np.sort(random.choice(len(X), MOST_ROWS, replace=False))]
    hidden = X.notna().to_numpy() & (random.random(X.shape) < SHARE)
    kept = X.notna().to_numpy() & ~hidden
    levels = [X.iloc[:, j][kept[:, j]].nunique() for j in range(X.shape[1])]
    usable = [
        j
        for j in range(X.shape[1])
        if kept[:, j].sum() >= LEAST and levels[j] >= 2 and hidden[:, j].sum() >= LEAST
    ]
    hidden[:, [j for j in range(X.shape[1]) if j not in usable]] = False
    if not usable:
        return Hidden(0, {})
    masked = X.mask(hidden)
    scale = np.sqrt(
        len(X) / len(model.codes_),
    )  # the trace norm of a sample grows with the root of its size
    again = clone(model).set_params(alpha=model.alpha_ * scale)
    with quiet():
        fit_with_choice(again, masked)
        filled = again.complete(masked)
    lines = {
        str(X.columns[j]): _line(X.iloc[:, j], masked.iloc[:, j], filled.iloc[:, j], hidden[:, j])
        for j in usable
    }
    return Hidden(int(hidden.sum()), lines)


def _line(truth: Any, known: Any, filled: Any, at: Array) -> dict[str, float]:
    """Return the error in hidden cells, that of the mean or the commonest value, and the share that was gained."""
    if truth.dtype.kind == "f":
        errors = [
            np.sqrt(np.mean((truth[at] - guess) ** 2)) for guess in (filled[at], known.mean())
        ]
    else:
        common = known.mode().iloc[0]
        errors = [
            float(np.mean(truth[at].astype(object) != guess))
            for guess in (filled[at].astype(object), common)
        ]
    error = float(errors[0])
    simple = float(errors[1])
    return {
        "error": error,
        "simple_error": simple,
        "gain": 1 - error / simple if simple > 0 else 0.0,
        "cells": int(at.sum()),
    }
