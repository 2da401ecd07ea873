"""More than two views: six sets of features of handwritten digits, one of them with gross errors."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from experiments._runner import Cell, Experiment, Plan, Record
from experiments._views import cpu, markdown, mean, results, rounded, shown, verdicts
from regfactor import MultiViewSubspace, datasets

ROWS, NEW, DRAWS = 200, 300, 6
SHARE, SIZE = 0.1, 10.0  # of the entries of one view, and their distance in deviations
CLASSES = 10
OURS = "MultiViewSubspace(), ours"
JOINT = "one trace norm of all views"
PLAIN = "PCA of all columns"
METHODS = (OURS, JOINT, PLAIN)
MEASURES = {
    "all": "SNR, all views",
    "noisy": "SNR, view with errors",
    "classes": "adjusted Rand index",
    "predicted": "error of the view from the others, new rows",
    "rank": "codes",
    "seconds": "CPU s",
}


@functools.cache
def digits() -> tuple[list[np.ndarray], np.ndarray]:
    """Return the six views in deviations of their columns, and the digits."""
    table = datasets.load("mfeat")
    views = [np.asarray(view, float) for view in table.views]
    spreads = [view.std(axis=0) for view in views]
    scaled = [
        (view - view.mean(axis=0)) / np.where(s > 0, s, 1.0)
        for view, s in zip(views, spreads, strict=True)
    ]
    return scaled, np.asarray(table.target)


@dataclass(frozen=True, eq=False)
class Draw:
    """Views of some rows, the same with errors in one of them, and views of new rows."""

    clean: list[np.ndarray]
    noisy: list[np.ndarray]
    new: list[np.ndarray]
    labels: np.ndarray
    wrong: int  # the view with errors

    @staticmethod
    def of(seed: int) -> Draw:
        """Return the draw of a seed; the view with errors takes turns."""
        views, labels = digits()
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(labels))[: ROWS + NEW]
        clean = [view[rows[:ROWS]] for view in views]
        wrong = seed % len(views)
        noisy = list(clean)
        errors = rng.choice([-SIZE, SIZE], clean[wrong].shape)
        noisy[wrong] = np.where(rng.random(clean[wrong].shape) < SHARE, errors, clean[wrong])
        return Draw(clean, noisy, [view[rows[ROWS:]] for view in views], labels[rows[:ROWS]], wrong)

    def facts(self, codes: np.ndarray, found: list[np.ndarray]) -> dict[str, Any]:
        """Return the ratios of signal to noise, and the agreement of groups of codes with digits."""
        groups = KMeans(CLASSES, n_init=10, random_state=0).fit_predict(codes)
        return {
            "all": ratio(np.hstack(self.clean), np.hstack(found)),
            "noisy": ratio(self.clean[self.wrong], found[self.wrong]),
            "classes": float(adjusted_rand_score(self.labels, groups)),
            "rank": codes.shape[1],
        }


def ratio(clean: np.ndarray, found: np.ndarray) -> float:
    """Return the squared norm of what is true over that of what is wrong."""
    return float(np.square(clean).sum() / np.square(clean - found).sum())


def of_model(draw: Draw, private: bool) -> dict[str, Any]:
    """Return the facts of MultiViewSubspace with nothing set but whether there are private parts."""
    seconds, model = cpu(lambda: MultiViewSubspace(private=private).fit(draw.noisy))
    facts = draw.facts(model.codes_, model.denoise(draw.noisy, keep=False))
    given: list[Any] = list(draw.new)
    given[draw.wrong] = None
    truth = draw.new[draw.wrong]
    error = model.predict_view(given, draw.wrong) - truth
    facts["predicted"] = float(np.square(error).sum() / np.square(truth).sum())
    return {**facts, "seconds": seconds, "gap": model.relative_gap_}


def of_components(draw: Draw, rank: int) -> dict[str, Any]:
    """Return the facts of as many principal components."""
    table = np.hstack(draw.noisy)
    seconds, codes = cpu(lambda: PCA(rank, random_state=0).fit_transform(table))
    model = PCA(rank, random_state=0).fit(table)
    places = np.cumsum([view.shape[1] for view in draw.noisy])[:-1]
    found = np.split(model.inverse_transform(codes), places, axis=1)
    return {**draw.facts(codes, found), "seconds": seconds}


class Digits(Experiment):
    """One cell for each draw: the methods are fitted to the same rows."""

    title = (
        "more than two views: six of handwritten digits (White 2014, chapter 5, beyond two views)"
    )

    def cells(self, done: dict[str, Record], plan: Plan) -> list[Cell]:
        return [{"split": i} for i in range(plan.n_splits(DRAWS))]

    def run(self, cell: Cell) -> dict[str, Any]:
        draw = Draw.of(cell["split"])
        found = {OURS: of_model(draw, True), JOINT: of_model(draw, False)}
        found[PLAIN] = of_components(draw, max(found[OURS]["rank"], 1))
        return rounded({"view": draw.wrong, **found})

    def summary(self, done: dict[str, Record], plan: Plan) -> list[dict[str, Any]]:
        kept = results(done)
        rows = []
        for name in METHODS:
            cells = {m: [f[name].get(m) for f in kept] for m in (*MEASURES, "gap")}
            row = {"method": name, "n": len(kept), "cells": cells}
            rows.append({**row, **{m: mean(values) for m, values in cells.items()}})
        return rows

    def report(self, summary: list[dict[str, Any]]) -> str:
        head = ["method", *MEASURES.values(), "n"]
        lines = [[row["method"], *(shown(row[m]) for m in MEASURES), row["n"]] for row in summary]
        return "\n\n".join(
            [
                "No table of the thesis, which has two views; for more no closed form of the norm "
                "is known, and `MultiViewSubspace` has a trace norm of all views and one of each "
                f"instead. Six views of handwritten digits (649 columns), {ROWS} rows; in one of "
                f"them, each in turn, {SHARE:.0%} of the entries are {SIZE:g} deviations from the "
                "mean. SNR is the squared norm of the clean views over that of the error of the "
                "denoised ones; the Rand index is that of ten groups of codes by k-means with the "
                f"digits; {NEW} new rows have the view with errors predicted from the other five, "
                "1 being the error of the mean. Nothing is set; PCA has as many components as the "
                "first method has shared codes. All methods are ours or plain, none the papers'. "
                f"Mean ± standard error over {summary[0]['n']} draws.",
                markdown(head, lines),
                verdicts(judged(summary)),
            ]
        )


def judged(rows: list[dict[str, Any]]) -> list[str]:
    """Say in how many draws the first method is better than the others."""
    ours, *others = rows
    lines = []
    for measure, sign in (("all", 1), ("noisy", 1), ("classes", 1), ("predicted", -1)):
        for other in others:
            theirs = other["cells"][measure]
            if None in theirs:
                continue
            gaps = sign * np.subtract(ours["cells"][measure], theirs)
            lines.append(
                f"{MEASURES[measure]}: {ours['method']} is better than {other['method']} in "
                f"{int((gaps > 0).sum())} of {len(gaps)} draws."
            )
    worst = max(gap for row in rows for gap in row["cells"]["gap"] if gap is not None)
    lines.append(f"The largest relative duality gap is {worst:.0e}.")
    return lines


EXPERIMENT = Digits()
