"""Versions of what regfactor runs on, for reports of problems."""

from __future__ import annotations

import platform
from importlib import metadata

from regfactor.engine.kernels import KERNELS

PACKAGES = ("regfactor", "numpy", "scipy", "scikit-learn", "pandas", "polars", "matplotlib")


def show_versions() -> None:
    """Print the versions of Python and of packages, and whether compiled kernels are used.

    Examples
    --------
    >>> import regfactor
    >>> regfactor.show_versions()  # doctest: +ELLIPSIS
    python: ...
    """
    print(f"python: {platform.python_version()} ({platform.machine()}, {platform.system()})")
    for name in PACKAGES:
        print(f"{name}: {_version(name)}")
    if KERNELS.module is None:
        print(f"kernels: numpy, since {KERNELS.reason}")
    else:
        print("kernels: compiled")


def _version(name: str) -> str:
    """Return the version of a package, or that it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
