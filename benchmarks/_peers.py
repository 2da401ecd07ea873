"""What the workloads share: peers made to run on the pinned stack, and how CPU and memory of a call are measured."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import multiprocessing
import os
import resource
import sys
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from sklearn.utils import check_array

MB = 2**20
QUICK = bool(os.environ.get("REGFACTOR_QUICK"))  # set it to run the small sizes only
STATUS, REFERENCES = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def fancyimpute(module: str) -> Any:
    """Return a module of fancyimpute with today's spelling of a scikit-learn argument.

    The package's own __init__ is not run: it imports a conic solver for methods that no workload
    uses.
    """
    if "fancyimpute" not in sys.modules:
        spec = importlib.util.find_spec("fancyimpute")
        assert spec is not None, "fancyimpute is not installed: make bench-NAME installs it"
        sys.modules["fancyimpute"] = importlib.util.module_from_spec(spec)
        importlib.import_module("fancyimpute.solver").check_array = _check_array
    loaded = importlib.import_module(f"fancyimpute.{module}")
    loaded.check_array = _check_array
    return loaded


def _check_array(X: Any, force_all_finite: bool = True) -> Any:
    return check_array(X, ensure_all_finite=force_all_finite)


def installed(name: str) -> bool:
    """Tell whether a peer is there."""
    return importlib.util.find_spec(name) is not None


def versions(*packages: str) -> str:
    """Name packages with their versions."""
    return ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "scipy", *packages)
    )


def table(head: str, rows: list[list[str]]) -> list[str]:
    """Return the lines of a Markdown table; the head is written `a | b | c`."""
    return [
        f"| {head} |",
        "|---" * (head.count("|") + 1) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def cpu(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of a call, all threads counted, and its result."""
    started = time.process_time()
    result = call()
    return time.process_time() - started, result


def grown(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return by how many MB the resident memory rose at its peak during a call, and the call's result."""
    if REFERENCES.exists():
        REFERENCES.write_text("5")  # the peak starts again from now
        before = _status("VmRSS")
        result = call()
        return _status("VmHWM") - before, result
    before = _highest()
    result = call()
    return _highest() - before, result


def _status(key: str) -> float:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) / 1024


def _highest() -> float:
    """The peak since the process began, where it cannot be reset: a lower bound of the growth."""
    unit = MB if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def traced(call: Callable[[], Any]) -> float:
    """Return the peak in MB of what Python and numpy allocate during a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / MB
    finally:
        tracemalloc.stop()


def in_fresh_process(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return call(*arguments) from a new interpreter, whose memory nobody has used before."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(call, *arguments).result()
