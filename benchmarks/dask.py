"""Fits by two workers of Dask next to the same fit of blocks in one process, and workers that are killed on the way."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import scipy.sparse

from benchmarks._peers import QUICK, cpu, table, versions
from benchmarks.blocks import LoadedPiece
from benchmarks.scale import COLUMNS, TOL, draw
from regfactor import BlockTable, ConvexSubspace

ROWS, N_CHUNKS, N_FITS = (20_000 if QUICK else 100_000), 10, 3
SETTINGS = {"fit_intercept": False, "scale": False, "tol": TOL}
# Dask's own makes glibc give memory back after every use, and arrays are then faulted in again
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": 2**27, "MALLOC_MMAP_THRESHOLD_": 2**25}
# the read of a chunk at which a worker is killed: passes are statistics, Z = 0, then sweeps
PHASES = {"start": 3, "certificate of zero": N_CHUNKS + 3, "sweep": 3 * N_CHUNKS + 3}


def load(path: Path, counter: Path | None = None, fatal: int = -1) -> Any:
    """Read a chunk; the read of this number ends the worker, once."""
    if counter is not None:
        number = len(list(counter.iterdir()))
        (counter / f"{number}-{os.getpid()}").touch()
        if number == fatal:
            os._exit(1)
    return scipy.sparse.csr_array(scipy.sparse.load_npz(path))


def collection(paths: list[Path], counter: Path | None = None, fatal: int = -1) -> Any:
    """Return the files as a Dask array whose chunks are read in every pass."""
    import dask
    import dask.array as da

    read = dask.delayed(partial(load, counter=counter, fatal=fatal), pure=False)
    shape = (ROWS // N_CHUNKS, COLUMNS)
    meta = scipy.sparse.csr_array((0, 0))
    return da.concatenate([da.from_delayed(read(path), shape, meta=meta) for path in paths])


def seconds_of(processes: list[psutil.Process]) -> float:
    """Return the CPU seconds that processes have used."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def workers(client: Any) -> list[psutil.Process]:
    """Return the processes of the workers."""
    return [psutil.Process(pid) for pid in client.run(os.getpid).values()]


@contextmanager
def two_workers() -> Iterator[Any]:
    """Yield a client of two processes."""
    from distributed import Client, LocalCluster

    local = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with local as cluster, Client(cluster) as client:
        yield client


def fits(
    client: Any,
    paths: list[Path],
    alpha: float,
    serial: float,
    local: ConvexSubspace,
    note: str,
) -> list[list[str]]:
    """Return a row of the table for each of a few fits by the workers of a client."""
    from regfactor.dask import ConvexSubspace as OnDask

    rows = []
    for fit in range(N_FITS):
        model = OnDask(alpha=alpha, client=client, **SETTINGS)
        chunks = collection(paths)
        before = seconds_of(workers(client))
        own, _ = cpu(lambda model=model, chunks=chunks: model.fit(chunks))
        theirs = seconds_of(workers(client)) - before
        memory = psutil.Process().memory_info().rss / 2**20
        apart = abs(model.objective_ / local.objective_ - 1)
        rows.append(
            [
                f"two workers{note}, fit {fit + 1}{' (they import the packages)' * (not fit)}",
                f"{theirs:.1f}",
                f"{own:.1f}",
                f"{(theirs + own) / serial:.2f}",
                f"{apart:.0e}",
                f"{model.n_iter_}",
                f"{memory:.0f} MB",
            ]
        )
    return rows


def main() -> str:
    """Fit once in turn, some times on two workers, and with a worker killed in each phase."""
    import dask
    import distributed

    from regfactor.dask import ConvexSubspace as OnDask

    assert distributed.__version__, "its settings are loaded before any of them is changed"
    X, alpha = draw(ROWS, "even")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        height = ROWS // N_CHUNKS
        paths = [Path(folder) / f"{k}.npz" for k in range(N_CHUNKS)]
        for k, path in enumerate(paths):
            part = X[k * height : (k + 1) * height]
            scipy.sparse.save_npz(path, part, compressed=False)
        entries = X.nnz
        del X
        blocks = BlockTable.of([LoadedPiece(path) for path in paths])
        ConvexSubspace(alpha=alpha, **SETTINGS).fit(blocks)  # what is loaded once
        serial, local = cpu(lambda: ConvexSubspace(alpha=alpha, **SETTINGS).fit(blocks))
        rows.append(
            ["blocks of files in turn", f"{serial:.1f}", "", "1", "", f"{local.n_iter_}", ""]
        )
        nanny = "distributed.nanny.pre-spawn-environ"
        own_allocator = {f"{nanny}.{name}": value for name, value in ALLOCATOR.items()}
        with dask.config.set(own_allocator), two_workers() as client:
            rows += fits(client, paths, alpha, serial, local, ", memory kept by the allocator")
        with two_workers() as client:
            rows += fits(client, paths, alpha, serial, local, "")
            for phase, fatal in PHASES.items():
                counter = Path(tempfile.mkdtemp(dir=folder))
                model = OnDask(alpha=alpha, client=client, **SETTINGS)
                own, _ = cpu(lambda m=model, c=counter, f=fatal: m.fit(collection(paths, c, f)))
                reads = len(list(counter.iterdir()))
                needed = (model.n_iter_ + 2) * N_CHUNKS
                apart = abs(model.objective_ / local.objective_ - 1)
                rows.append(
                    [
                        f"a worker killed: {phase}, {reads - needed} chunks read again",
                        "",
                        f"{own:.1f}",
                        "",
                        f"{apart:.0e}",
                        f"{model.n_iter_}",
                        "",
                    ]
                )
    lines = [
        "# Dask",
        "",
        f"`regfactor.dask.ConvexSubspace` on {N_CHUNKS} sparse chunks in files, {ROWS:,} x {COLUMNS} with "
        f"{entries:,} entries, to a relative gap of {TOL:g}, next to the same fit of a `BlockTable` of the files in one process; both read every chunk in every pass. "
        "CPU seconds of the workers, and of this process with the scheduler; memory is that of this process "
        "after the fit. Memory is kept by the allocator of workers that are started with "
        f"{', '.join(f'{name}={value}' for name, value in ALLOCATOR.items())} in place of Dask's own "
        f"settings. {versions('dask', 'distributed')}.",
        "",
        *table(
            "fit | CPU of workers or fit | CPU of scheduler and client | to serial | "
            "objective apart | passes | memory",
            rows,
        ),
    ]
    return "\n".join(lines) + "\n"
