"""Models in files: skops keeps them as data, so that opening one runs no code of the file's author."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import os
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from regfactor.core.params import install_hint, optional, warn

if TYPE_CHECKING:  # the command line, which imports this, answers --help without scikit-learn
    from sklearn.base import BaseEstimator

NOTE = "regfactor.json"  # an entry beside skops' own, which skops does not read
OWN_PACKAGES = (
    "core",
    "losses",
    "norms",
    "kernels",
    "maps",
    "penalties",
    "problems",
    "solvers",
    "fitting",
    "tables",
    "clusters",
    "views",
    "labels",
    "series",
    "comparisons",
    "constraints",
)
OTHERS = frozenset(
    {"numpy.dtype", "scipy.sparse._csr.csr_array", "scipy.sparse._csc.csc_array"}
)  # plain data


class UntrustedModel(ValueError):
    """A file names types that neither regfactor nor scikit-learn has; nothing of it was opened."""


def save(model: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a model to a file, whole or not at all; a file of that name is replaced.

    Parameters
    ----------
    model : estimator
        Any estimator of regfactor, fitted or not, also inside a scikit-learn pipeline.
    path : path
        Usually ends with .skops.
    """
    if isinstance(model, str | os.PathLike) or not isinstance(path, str | os.PathLike):
        raise ValueError(
            f"save takes a model, then the name of a file: save(model, 'model.skops'); got {type(model).__name__}, "
            f"then {type(path).__name__}."
        )
    skops = _skops()
    path = Path(path)
    _check_model(model)
    _check_place(path)
    content = io.BytesIO(skops.dumps(model))
    refused = _refused(skops, content.getvalue())
    if refused:
        raise ValueError(
            f"{type(model).__name__} holds {', '.join(refused)}, which a saved model cannot carry. {_remedy(model)}"
        )
    note = {"regfactor": version("regfactor"), "model": type(model).__name__}
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr(NOTE, json.dumps(note))
    _replace(path, content.getvalue())


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model in a file of `save`; what the file may not contain is refused before anything is built.

    Parameters
    ----------
    path : path

    Raises
    ------
    UntrustedModel
        If the file names types that are not regfactor's, scikit-learn's, scipy's or numpy's own.
    """
    skops = _skops()
    content = Path(path).read_bytes()
    note = _note(content)
    refused = _refused(skops, content) if note else _foreign(skops, content)
    if refused:
        raise UntrustedModel(
            f"{os.fspath(path)} was not opened: it names {', '.join(refused)}, which no model of regfactor holds. "
            "If you know its author, look at it with skops.io.get_untrusted_types."
        )
    if not note:
        raise UntrustedModel(
            f"{os.fspath(path)} is not a file of regfactor.save, so it was not opened."
        )
    if note["regfactor"] != version("regfactor"):
        warn(
            f"{os.fspath(path)} was written by regfactor {note['regfactor']}, and this is {version('regfactor')}: if "
            "the model misbehaves, fit it again."
        )
    return skops.loads(content, trusted=skops.get_untrusted_types(data=content))


def _skops() -> ModuleType:
    return optional("skops.io", "A model in a file", install_hint("cli"))


def _note(content: bytes) -> dict[str, str]:
    """Return what `save` wrote about a file; nothing about any other."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if NOTE in archive.namelist():
            return dict(json.loads(archive.read(NOTE)))
        return {}


def _foreign(skops: ModuleType, content: bytes) -> list[str]:
    """Return the refused names in a file that `save` did not write; none where they cannot be read."""
    try:
        return _refused(skops, content)
    except (zipfile.BadZipFile, AttributeError, LookupError, TypeError, ValueError):  # not of skops
        return []


def _refused(skops: ModuleType, content: bytes) -> list[str]:
    """Return the names in a file that stand for neither plain data nor a class of a room that models are made of."""
    return [
        name
        for name in skops.get_untrusted_types(data=content)
        if name not in OTHERS and not _ours(name)
    ]


def _ours(name: str) -> bool:
    """Whether a name is that of a class where it is defined; what a file merely imports could be anything callable."""
    module, _, own = name.rpartition(".")
    package, _, room = module.partition(".")
    if package != "regfactor" or room.partition(".")[0] not in OWN_PACKAGES:
        return False
    try:
        found = getattr(importlib.import_module(module), own, None)
    except ModuleNotFoundError:  # of another version, or made up
        return False
    return inspect.isclass(found) and found.__module__ == module


def _check_model(model: Any) -> None:
    """Raise for anything but an estimator, of regfactor or around one."""
    base = importlib.import_module("sklearn.base").BaseEstimator
    if not isinstance(model, base):
        if inspect.isclass(model):
            got = f"the class {model.__name__}, not a model made of it"
        else:
            got = repr(model)[:60]
        raise ValueError(f"save keeps an estimator, such as ConvexSubspace().fit(X); got {got}.")


def _remedy(model: Any) -> str:
    """Say what to save, or to set, where a model holds what no file may."""
    if hasattr(model, "best_estimator_") or hasattr(model, "param_grid"):
        return "Of a search save the model that it found: save(search.best_estimator_, path)."
    return (
        "Functions and classes of your own are code: set such parameters (callback, a callable kernel) to None before "
        "saving."
    )


def _check_place(path: Path) -> None:
    """Raise where no file can be written, before anything is."""
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {path.parent} to save {path.name} in; make it first."
        )
    if path.is_dir():
        raise IsADirectoryError(
            f"{path} is a folder; name a file in it, such as {path / 'model.skops'}."
        )


def _replace(path: Path, content: bytes) -> None:
    """Write a file under a temporary name beside it, then rename."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
