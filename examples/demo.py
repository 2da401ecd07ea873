"""The command line on two realistic tables: one is completed, the other labeled.

300 weather stations report 24 temperatures each; a fifth is missing and one in thirty is wrong. 178
wines were analyzed, and the grower of only five of each is known. The results of `regfactor
complete` and `regfactor label` are compared with the truth, which they did not use.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_wine

sys.path.insert(0, str(Path(__file__).parent))
from missing_entries_and_outliers import make_table

KNOWN = 5  # wines of each grower


def stations(out: Path) -> None:
    """Complete the readings of the stations."""
    readings, truth, nonsense = make_table()
    hours = [f"{hour:02d}:00" for hour in range(24)]
    pd.DataFrame(readings.round(2), columns=hours).to_csv(out / "stations.csv", index=False)
    regfactor("complete", out / "stations.csv", "--out", str(out))
    filled = pd.read_csv(out / "stations.complete.csv")[hours].to_numpy()
    missing = np.isnan(readings)
    off, usual = (
        np.median(np.abs(guess - truth)[missing])
        for guess in (filled, np.nanmedian(readings, axis=0))
    )
    print(
        f"\nAgainst the truth: the median error of filled cells is {off:.2f} degrees, that of the "
        "usual temperature"
    )
    print(f"of the hour is {usual:.2f}; {nonsense.sum()} readings are wrong.\n")


def wines(out: Path) -> None:
    """Label the wines."""
    table = load_wine(as_frame=True)
    growers = table.target.map({0: "Aldo", 1: "Bruna", 2: "Carlo"})
    known = growers.groupby(growers).sample(KNOWN, random_state=0).index
    table.data.assign(grower=growers[known]).to_csv(out / "wines.csv", index=False)
    regfactor("label", out / "wines.csv", "--target", "grower", "--out", str(out))
    found = pd.read_csv(out / "wines.label.csv")["grower"]
    right = np.delete((found == growers).to_numpy(), known)
    print(
        f"\nAgainst the truth: {right.mean():.0%} of the {len(right)} unlabeled wines have their "
        "grower.\n"
    )


def regfactor(command: str, table: Path, *options: str) -> None:
    """Run the command line as a user does, and show the line."""
    print(f"$ regfactor {' '.join([command, str(table), *options])}", flush=True)
    subprocess.run(
        [sys.executable, "-m", "regfactor", command, str(table), *options, "--force"], check=True
    )


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path("demo-output"), help="folder of the tables and reports"
    )
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    stations(out)
    wines(out)
    print(
        f"Open the reports in a browser: {out / 'stations.complete.html'}, "
        f"{out / 'wines.label.html'}"
    )


if __name__ == "__main__":
    main()
