"""Kernel exponential-family PCA (White 2014, proposition 5): Gaussian is kernel PCA, and what Bernoulli adds."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import subspace_angles
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from experiments._runner import Cell, Experiment, Plan, Record
from experiments._verdicts import FAILS, HOLDS, judged
from experiments._views import (
    SYNTHETIC,
    cpu,
    labeled_rows,
    markdown,
    mean,
    results,
    rounded,
    shown,
    verdicts,
)
from regfactor import ExponentialFamilyPCA

SETS = ("WBC", "IONOSPHERE", "BCI", "COIL")
ROWS, RANK, DRAWS, NEIGHBORS = 200, 5, 10, 5
SMALL, TOL = 1e-8, 1e-10  # ridge and tolerance at which proposition 5 is tried
ALPHA = 1.0
PLAIN, GAUSSIAN, BERNOULLI = "PCA of the rows", "kernel EPCA, Gaussian", "kernel EPCA, Bernoulli"
METHODS = (PLAIN, GAUSSIAN, BERNOULLI)
LARGEST_ANGLE = 1e-3


def gram(X: np.ndarray) -> np.ndarray:
    """Return a Gaussian kernel of the median distance, with numbers in (0, 1]."""
    squares = np.square(X[:, None] - X[None]).sum(axis=2)
    return np.asarray(rbf_kernel(X, gamma=1 / np.median(squares[squares > 0])))


def accuracy(codes: np.ndarray, y: np.ndarray) -> float:
    """Return the accuracy of nearest neighbors in the codes, by five folds."""
    return float(cross_val_score(KNeighborsClassifier(NEIGHBORS), codes, y, cv=5).mean())


def angle_to_kernel_pca(K: np.ndarray) -> float:
    """Return the largest angle between codes of the Gaussian family and leading eigenvectors of K."""
    model = ExponentialFamilyPCA(
        RANK, "gaussian", SMALL, kernel="precomputed", fit_intercept=False, tol=TOL
    )
    leading = np.linalg.eigh(K)[1][:, -RANK:]
    return float(subspace_angles(model.fit(K).codes_, leading).max())


class KernelEPCA(Experiment):
    """One cell for each draw of a data set."""

    title = "kernel exponential-family PCA (White 2014, proposition 5)"

    def cells(self, done: dict[str, Record], plan: Plan) -> list[Cell]:
        return [
            {"dataset": name, "split": i}
            for name in (SYNTHETIC, *SETS)
            for i in range(plan.n_splits(DRAWS))
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        X, y = labeled_rows(cell["dataset"], cell["split"])
        rows = np.random.default_rng(cell["split"]).permutation(len(X))[:ROWS]
        X = X[rows]
        y = y[rows]
        K = gram(X)
        found: dict[str, Any] = {"angle": angle_to_kernel_pca(K)}
        models = {
            PLAIN: (ExponentialFamilyPCA(RANK, "gaussian", ALPHA), X),
            GAUSSIAN: (ExponentialFamilyPCA(RANK, "gaussian", ALPHA, kernel="precomputed"), K),
            BERNOULLI: (ExponentialFamilyPCA(RANK, "bernoulli", ALPHA, kernel="precomputed"), K),
        }
        for name, (model, table) in models.items():
            seconds, codes = cpu(lambda model=model, table=table: model.fit(table).codes_)
            found[name] = {"accuracy": accuracy(codes, y), "seconds": seconds}
        return rounded(found)

    def summary(self, done: dict[str, Record], plan: Plan) -> list[dict[str, Any]]:
        rows = []
        for name in (SYNTHETIC, *SETS):
            found = results(done, dataset=name)
            if not found:
                continue
            accuracies = {m: [f[m]["accuracy"] for f in found] for m in METHODS}
            row = {"dataset": name, "n": len(found), "angle": max(f["angle"] for f in found)}
            row["accuracies"] = accuracies
            row["means"] = {m: mean(values) for m, values in accuracies.items()}
            row["seconds"] = {m: mean([f[m]["seconds"] for f in found]) for m in METHODS}
            rows.append(row)
        return rows

    def report(self, summary: list[dict[str, Any]]) -> str:
        head = ["data set", "largest angle to kernel PCA", *METHODS]
        head += [f"{m}, CPU s" for m in METHODS[1:]]
        lines = [
            [
                row["dataset"],
                f"{row['angle']:.1e}",
                *(shown(row["means"][m]) for m in METHODS),
                *(shown(row["seconds"][m], 2) for m in METHODS[1:]),
            ]
            for row in summary
        ]
        return "\n\n".join(
            [
                "No table of the thesis, which states the model and that its Gaussian family is "
                f"kernel PCA. {ROWS} rows of length one, a Gaussian kernel of the median distance, "
                f"{RANK} components, n = {summary[0]['n']} draws of rows. Angle in radians between "
                f"the codes at a ridge of {SMALL:g}, without offsets, and the leading eigenvectors "
                f"of K. Accuracy of {NEIGHBORS} nearest neighbors in the codes, by five folds, at "
                f"the default ridge {ALPHA:g}, with offsets; mean ± standard error. K has numbers "
                "in (0, 1], which the Bernoulli family takes as shares.",
                markdown(head, lines),
                verdicts(said(summary)),
            ]
        )


def said(rows: list[dict[str, Any]]) -> list[str]:
    """Say whether proposition 5 holds, and what the Bernoulli family changes."""
    worst = max(row["angle"] for row in rows)
    verdict = HOLDS if worst <= LARGEST_ANGLE else FAILS
    lines = [
        f"The Gaussian family is kernel PCA, as stated: **{verdict}** (largest angle {worst:.1e})."
    ]
    for row in rows:
        for better, worse in ((BERNOULLI, GAUSSIAN), (GAUSSIAN, PLAIN)):
            gaps = np.subtract(row["accuracies"][better], row["accuracies"][worse])
            lines.append(
                f"{row['dataset']}: neighbors in codes of {better} are right more often than in "
                f"those of {worse}: {judged(gaps)} ({100 * gaps.mean():+.1f} points in "
                f"{len(gaps)} draws)."
            )
    return lines


EXPERIMENT = KernelEPCA()
