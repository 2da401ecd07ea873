"""Grabocka et al. (2014), figure 1: semi-supervised regression with 5 to 20 % of the rows labeled, three tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments._snf import METHODS, LabelsOnly

NAMES, SHARES = ("B.Hous.", "B.Fat", "A.Price"), (0.05, 0.1, 0.15, 0.2)
SHOWN = (
    "LS-SVM",
    "Laplacian",
    "Hessian",
    "PFR",
    "LLR",
    "SNF",
    "SNF, cross-validated",
    "our default",
)


class Figure1(LabelsOnly):
    """The tables that the paper's text names; its figure has no numbers to compare with."""

    def draw(self, summary: list[dict[str, Any]], folder: Path) -> list[Path]:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(13, 3.8), layout="constrained")
        for axes, name in zip(figure.subplots(1, len(NAMES)), NAMES, strict=True):
            for method in (m.name for m in METHODS if m.name in SHOWN):
                rows = [r for r in summary if r["table"] == name and r["method"] == method]
                errors = [np.array([e for e in r["errors"] if e is not None]) for r in rows]
                means = [e.mean() if len(e) else np.nan for e in errors]
                spreads = [e.std(ddof=1) / np.sqrt(len(e)) if len(e) > 1 else 0.0 for e in errors]
                axes.errorbar(
                    [100 * r["share"] for r in rows],
                    means,
                    spreads,
                    marker="o",
                    markersize=3,
                    label=method,
                )
            axes.set(
                title=name, xlabel="labeled rows, %", ylabel="mean squared error", yscale="log"
            )
        axes.legend(frameon=False, fontsize=8)
        path = folder / "snf-f1.png"
        figure.savefig(path, dpi=110)
        return [path]


EXPERIMENT = Figure1(
    "semi-supervised regression, 5 to 20 % labels (Grabocka et al. 2014, figure 1)",
    SHARES,
    {},
    NAMES,
    twins=("snf-1", "snf-2"),
)
