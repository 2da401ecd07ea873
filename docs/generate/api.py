"""The reference: every public name, with the docstring that the code has."""

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from docs.generate import GENERATED
from docs.generate.files import keep_only, write

MODULES = {  # pages with all names of a module
    "regfactor.losses": "Losses",
    "regfactor.penalties": "Penalties and gauges",
    "regfactor.norms": "Norms",
    "regfactor.kernels": "Kernels",
    "regfactor.maps": "Maps",
    "regfactor.constraints": "Constraints: statements in place of labels",
    "regfactor.model_selection": "Model selection",
    "regfactor.inference": "Estimates from several completed tables",
    "regfactor.series": "Tables of series",
    "regfactor.nixtla": "Series in long tables, as of Nixtla",
    "regfactor.dask": "Dask collections",
    "regfactor.plots": "Displays",
    "regfactor.datasets": "Data sets",
    "regfactor.baselines": "Baselines",
    "regfactor.baselines.timeseries": "Baselines for series",
    "regfactor.atlas": "Atlas",
    "regfactor.problems": "Problems",
    "regfactor.solvers": "Solvers",
    "regfactor.testing": "Checks of own parts",
    "regfactor.core.loop": "What a solver returns",
    "regfactor.saving": "Saved models",
}
METHODS = "   :members:\n   :inherited-members:\n   :member-order: bysource\n"


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a module exports: `__all__`, or else its public definitions."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__, key=str.lower)
    members = inspect.getmembers(module, lambda m: inspect.isclass(m) or inspect.isfunction(m))
    return [
        name
        for name, member in members
        if not name.startswith("_") and member.__module__ == module.__name__
    ]


def write_api(generated: Path = GENERATED) -> None:
    """Write pages for each estimator, the functions and each module, and the list of all."""
    pages, facade = generated / "api", importlib.import_module("regfactor")
    names = public_names(facade)
    estimators = [name for name in names if inspect.isclass(getattr(facade, name))]
    functions = [name for name in names if name not in estimators]
    written = {f"{name}.rst": _page(name, facade, [name]) for name in estimators}
    written["regfactor.rst"] = _page("Functions", facade, functions)
    parts = [
        _table("Estimators", facade, estimators, estimators),
        _table("Functions", facade, functions, ["regfactor"]),
    ]
    for path, title in MODULES.items():
        module = importlib.import_module(path)
        written[f"{path}.rst"] = _page(title, module, public_names(module))
        parts.append(_table(title, module, public_names(module), [path]))
    for file, text in written.items():
        write(pages / file, text)
    keep_only(pages, set(written))
    write(generated / "api.rst", "\n".join(parts))


def _page(title: str, module: ModuleType, names: list[str]) -> str:
    about = inspect.getdoc(module) if module.__name__ != "regfactor" else ""
    head = f"{title}\n{'=' * len(title)}\n\n.. currentmodule:: {module.__name__}\n\n"
    head += f".. automodule:: {module.__name__}\n   :no-members:\n\n" if about else ""
    return head + "\n".join(_entry(module, name) for name in names)


def _entry(module: ModuleType, name: str) -> str:
    member, full = getattr(module, name), f"{module.__name__}.{name}"
    if inspect.isclass(member):
        return f".. autoclass:: {full}\n{METHODS}"
    if callable(member):
        return f".. autofunction:: {full}\n"
    return f".. py:data:: {full}\n\n   {_constant(member)}\n"


def _constant(member: Any) -> str:
    names = (
        ", ".join(f"``{name}``" for name in member) if isinstance(member, Mapping) else repr(member)
    )
    return f"A table by name: {names}." if isinstance(member, Mapping) else names


def _table(title: str, module: ModuleType, names: list[str], pages: list[str]) -> str:
    """Return a section with a line for each name, and its pages in the table of contents."""
    listed = "\n".join(
        f"   {module.__name__}.{name}" for name in names if callable(getattr(module, name))
    )
    contents = "\n".join(f"   _generated/api/{page}" for page in pages)
    head = f"{title}\n{'-' * len(title)}\n\n"
    return (
        f"{head}.. autosummary::\n   :nosignatures:\n\n{listed}\n\n.. toctree::\n   "
        f":hidden:\n\n{contents}\n"
    )
