"""The command line: label, complete, cluster, embed, denoise, forecast, score, atlas, reproduce."""

from __future__ import annotations

import importlib.util
import sys

from regfactor.core.params import install_hint

NEEDED = ("typer", "rich", "skops", "pandas", "pyarrow", "matplotlib")
BAD_INPUT = 2
INTERRUPTED = 130


def main() -> None:
    """Run the command line, or report in one sentence what to install."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        print(
            f"regfactor: the command line needs {', '.join(absent)}: {install_hint('cli')}.",
            file=sys.stderr,
        )
        raise SystemExit(BAD_INPUT)
    try:
        from regfactor.cli.app import app
    except KeyboardInterrupt:
        # the imported libraries take a while to load; from then on `running` handles it
        print("regfactor: interrupted; nothing was written.", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    app(prog_name="regfactor")
