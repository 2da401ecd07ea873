"""python -m experiments list | run all | run ID [ID ...] [--splits N] [--jobs N] [--quick] [--redo TEXT] [--only TEXT] [--out DIR]."""

import argparse
import os
import sys
from pathlib import Path

from experiments._runner import Plan, estimate, find, names, run, standing

RESULTS = Path(__file__).parent / "results"


def parser() -> argparse.ArgumentParser:
    """Return what the command line takes."""
    top = argparse.ArgumentParser(
        prog="python -m experiments", description="The papers' tables and figures, run again."
    )
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="name the experiments, and with which code they were computed")
    go = commands.add_parser("run", help="run experiments; go on where a run was stopped")
    go.add_argument("ids", nargs="+", metavar="ID", help="names of experiments, or all")
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
        "--only",
        metavar="TEXT",
        help="compute only cells in whose description TEXT occurs; the report waits for the others",
    )
    go.add_argument(
        "--out", type=Path, default=RESULTS, help="directory of the results (experiments/results)"
    )
    return top


def main(arguments: list[str]) -> int:
    """Return 0 when done, 1 when cells failed, 2 for bad input, 130 when interrupted."""
    options = parser().parse_args(arguments)
    if options.command == "list":
        for name in names():
            print(f"{name:<18}{find(name).title}\n{'':<18}{standing(name, RESULTS)}")
        return 0
    if min(options.jobs, options.splits or 1) < 1:
        print("--jobs and --splits must be at least 1.", file=sys.stderr)
        return 2
    ids = names() if options.ids == ["all"] else options.ids
    try:
        for name in ids:
            find(name)  # all names are good before the first one runs
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    plan = Plan(options.splits, options.quick)
    failed = 0
    _say_cost(ids, plan, options)
    try:
        for name in ids:
            report, failures = run(
                name,
                plan,
                options.out,
                jobs=options.jobs,
                redo=options.redo,
                only=options.only,
            )
            if options.only is None:
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


def _say_cost(ids: list[str], plan: Plan, options: argparse.Namespace) -> None:
    """Say on stderr what is to be computed before anything is."""
    costs = {
        name: estimate(name, plan, options.out, redo=options.redo, only=options.only)
        for name in ids
    }
    for name, cost in costs.items():
        print(f"{name}: {cost}", file=sys.stderr)
    if len(ids) > 1:
        hours = sum(cost.seconds or 0.0 for cost in costs.values()) / 3600
        never = [name for name, cost in costs.items() if cost.cells and cost.seconds is None]
        more = f", and {', '.join(never)}" if never else ""
        print(f"in all about {hours:.1f} CPU hours{more}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
