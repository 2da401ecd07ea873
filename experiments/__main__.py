"""python -m experiments list | run ID [ID ...] [--splits N] [--jobs N] [--quick] [--redo TEXT] [--out DIR]."""

import argparse
import os
import sys
from pathlib import Path

from experiments._runner import Plan, find, names, run

RESULTS = Path(__file__).parent / "results"


def parser() -> argparse.ArgumentParser:
    """Return what the command line takes."""
    top = argparse.ArgumentParser(
        prog="python -m experiments", description="The papers' tables and figures, run again."
    )
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="name the experiments")
    go = commands.add_parser("run", help="run experiments; go on where a run was stopped")
    go.add_argument("ids", nargs="+", metavar="ID")
    go.add_argument(
        "--splits", type=int, help="splits or seeds of each data set (the experiment's own number)"
    )
    go.add_argument("--jobs", type=int, default=1, help="processes, each with one BLAS thread (1)")
    go.add_argument(
        "--quick", action="store_true", help="two splits, results apart: does everything run?"
    )
    go.add_argument(
        "--redo", metavar="TEXT", help="compute again the cells in whose description TEXT occurs"
    )
    go.add_argument(
        "--out", type=Path, default=RESULTS, help="directory of the results (experiments/results)"
    )
    return top


def main(arguments: list[str]) -> int:
    """Return 0 when done, 1 when cells failed, 2 for bad input, 130 when interrupted."""
    options = parser().parse_args(arguments)
    if options.command == "list":
        print("\n".join(f"{name:<18}{find(name).title}" for name in names()))
        return 0
    if min(options.jobs, options.splits or 1) < 1:
        print("--jobs and --splits must be at least 1.", file=sys.stderr)
        return 2
    try:
        for name in options.ids:
            find(name)  # all names are good before the first one runs
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    plan = Plan(options.splits, options.quick)
    failed = 0
    try:
        for name in options.ids:
            report, failures = run(name, plan, options.out, jobs=options.jobs, redo=options.redo)
            print(report.read_text(encoding="utf-8"))
            print(f"kept in {os.path.relpath(report)}", file=sys.stderr)
            failed += failures
    except KeyboardInterrupt:
        print(
            "\nstopped; finished cells are kept, the same command goes on from here",
            file=sys.stderr,
        )
        return 130
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
