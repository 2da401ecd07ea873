"""Streams of rows, each batch read once, next to a fit of all rows: CPU, objective and what a refit would change."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks._peers import QUICK, cpu, table, versions
from regfactor import ConvexSubspace

ROWS, COLUMNS, RANK, NOISE = (4_000 if QUICK else 20_000), 50, 5, 1.0
BATCH = 500
EDGES = (2.0, 1.5, 1.05)  # strengths, in units of the norm of the noise
TOL = 1e-4
SEED = 2026


@dataclass(frozen=True)
class Stream:
    """A table whose rows arrive in order."""

    name: str
    missing: float = 0.0
    turn: bool = False  # whether half of the components give way to others half-way
    jump: float = 0.0  # of the means, half-way

    def draw(self) -> np.ndarray:
        """Return all rows."""
        rng = np.random.default_rng(SEED)
        codes = rng.normal(size=(ROWS, RANK)) * np.geomspace(3, 1, RANK)
        components = np.linalg.qr(rng.normal(size=(COLUMNS, RANK)))[0].T
        X = codes @ components
        late = np.arange(ROWS) >= ROWS // 2
        if self.turn:
            others = np.linalg.qr(rng.normal(size=(COLUMNS, RANK)))[0].T
            others[: RANK // 2] = components[: RANK // 2]
            X[late] = codes[late] @ others
        X[late] += self.jump
        X += NOISE * rng.normal(size=X.shape)
        X[rng.random(X.shape) < self.missing] = np.nan
        return X


STREAMS = (
    Stream("complete"),
    Stream("30 % missing", missing=0.3),
    Stream("60 % missing", missing=0.6),
    Stream("30 % missing, components change half-way", missing=0.3, turn=True),
    Stream("30 % missing, means jump half-way", missing=0.3, jump=2.0),
)


def strength(edges: float, missing: float) -> float:
    """Return a strength in units of the norm of the observed noise."""
    observed = 1 - missing
    return edges * NOISE * float(np.sqrt(observed) * (np.sqrt(ROWS) + np.sqrt(COLUMNS)))


def streamed(X: np.ndarray, alpha: float) -> ConvexSubspace:
    """Return a model of all batches in turn."""
    model = ConvexSubspace(alpha=alpha, scale=False, tol=TOL)
    for start in range(0, len(X), BATCH):
        model.partial_fit(X[start : start + BATCH])
    return model


def rescored(X: np.ndarray, model: ConvexSubspace) -> float:
    """Return the objective of all rows at the components of a stream, with the codes of transform."""
    Z = model.transform(X) @ model.components_
    residuals = Z + model.intercept_ - X
    sizes = np.linalg.svd(Z, compute_uv=False)
    return float(np.nansum(residuals**2) / 2 + model.alpha_ * sizes.sum())


def measured(stream: Stream) -> Iterator[list[str]]:
    """Yield a row of the table for each strength."""
    X = stream.draw()
    for edges in EDGES:
        alpha = strength(edges, stream.missing)
        seconds, model = cpu(lambda alpha=alpha: streamed(X, alpha))
        whole = ConvexSubspace(alpha=alpha, scale=False, tol=TOL)
        batch_seconds, _ = cpu(lambda whole=whole: whole.fit(X))
        optimum = whole.objective_
        refit = rescored(X, model) / optimum - 1
        bound = model.objective_ / optimum - 1
        yield [
            stream.name,
            f"{edges:g}",
            f"{len(model.components_)} / {len(whole.components_)}",
            f"{refit:.1e}",
            f"{bound:.1e}",
            f"{seconds:.2f}",
            f"{batch_seconds:.2f}",
        ]


def main() -> str:
    """Return the table."""
    with warnings.catch_warnings():
        # the first batch has no component where alpha is that of all rows
        warnings.simplefilter("ignore")
        rows = [row for stream in STREAMS for row in measured(stream)]
    head = (
        "stream | strength | components, stream / batch | refit would gain | "
        "`objective_` above the optimum | CPU s | CPU s of a fit of all rows"
    )
    lines = [
        "# Streams",
        "",
        f"`ConvexSubspace.partial_fit` on {ROWS:,} x {COLUMNS} in batches of {BATCH} rows, next to "
        f"`fit` of all rows to a gap of {TOL:g}; strengths in units of the norm of the noise. What a "
        "refit would gain is the objective of all rows at the components and offsets of the stream, "
        "with the codes of `transform`, relative to the optimum; `objective_` is an upper bound of "
        f"both. One thread; {versions('scikit-learn')}.",
        "",
        *table(head, rows),
    ]
    return "\n".join(lines) + "\n"
