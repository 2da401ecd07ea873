"""CPU time and error of strengths chosen by held-out entries, of this version and of another one.

The other version is a checkout whose path is in REGFACTOR_BEFORE; without it this one is measured
alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks._peers import QUICK, table

HIDDEN = 0.2
SEEDS = (0, 1, 2)
TABLES = (
    "autompg",
    "autoprice",
    "boston_housing",
    "breast_cancer",
    "forestfires",
    "ionosphere",
    "parkinsons",
    "wbc",
)
HERE = Path(__file__).resolve().parents[1]


def measure(name: str, seed: int) -> dict[str, float]:
    """Return the CPU seconds of one fit and its errors by kind of column."""
    from benchmarks import mixed
    from regfactor import SubspaceImputer

    truth = mixed.load(name)
    drawn = np.random.default_rng(seed).random(truth.shape) < HIDDEN
    hidden = drawn & truth.notna().to_numpy()
    model = SubspaceImputer(random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.process_time()
        filled = model.fit_transform(truth.mask(hidden))
        seconds = time.process_time() - started
    return {"seconds": seconds, **mixed.errors(truth, filled, hidden)}


def measured(checkout: Path, name: str) -> list[dict[str, float]]:
    """Return the measurements of a version, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{HERE}"}
    command = [sys.executable, "-m", "benchmarks.auto", name]
    done = subprocess.run(command, env=environment, cwd=HERE, check=True, capture_output=True)
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def main() -> str:
    """Return a table of CPU seconds and errors."""
    before = os.environ.get("REGFACTOR_BEFORE")
    rows = []
    totals = np.zeros(2)
    ratios = []
    for name in TABLES[:2] if QUICK else TABLES:
        new = measured(HERE, name)
        seconds = sum(run["seconds"] for run in new)
        row = [name, f"{seconds:.1f}"]
        if before:
            old = measured(Path(before), name)
            spent = sum(run["seconds"] for run in old)
            totals += seconds, spent
            kinds = [kind for kind in new[0] if kind != "seconds"]
            means = []
            for runs in (new, old):
                errors = [[run[kind] for run in runs] for kind in kinds]
                means.append(np.mean(errors, axis=1))
            error = float(np.mean(means[0] / means[1]))
            ratios.append(error)
            row += [f"{spent:.1f}", f"{seconds / spent:.2f}", f"{error:.4f}"]
        rows.append(row)
    head = "table | CPU s"
    if before:
        head += " | CPU s before | ratio | error / error before"
        rows.append(
            [
                "all",
                *(f"{t:.1f}" for t in totals),
                f"{totals[0] / totals[1]:.2f}",
                f"{np.mean(ratios):.4f}",
            ]
        )
    text = [
        "# Strengths chosen by held-out entries",
        "",
        f"`SubspaceImputer().fit_transform` on mixed tables with {HIDDEN:.0%} of the entries hidden, "
        f"{len(SEEDS)} seeds. The error is the mean over kinds of columns.",
        "",
        *table(head, rows),
    ]
    return "\n".join(text)


if __name__ == "__main__":
    for seed in SEEDS:
        print(json.dumps(measure(sys.argv[1], seed)), flush=True)
