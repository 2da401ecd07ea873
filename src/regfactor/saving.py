"""Models in files of skops, which hold data only: loading a file runs no code of its author."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import os
import tempfile
import zipfile
import zlib
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from regfactor.core.params import install_hint, optional, warn

if TYPE_CHECKING:  # the command line, which imports this, answers --help without scikit-learn
    from sklearn.base import BaseEstimator

NOTE = "regfactor.json"  # an entry next to those of skops, which skops does not read
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
    "model_selection",
)
PLAIN_DATA = frozenset(
    {"numpy.dtype", "scipy.sparse._csr.csr_array", "scipy.sparse._csc.csc_array"}
)


# what reading bytes that are damaged, or made to do harm, can raise
DAMAGED = (
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
# models are stored, not packed: an archive that unpacks to much more is made to fill the memory
MAX_GROWTH = 20
MIN_UNPACKED = 2**24


class DamagedModel(ValueError):
    """A file is not a complete file of `save`."""


class UntrustedModel(ValueError):
    """A file names types that this regfactor and scikit-learn do not have; it was not opened."""


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
            "save takes a model, then the name of a file: save(model, 'model.skops'); "
            f"got {type(model).__name__}, then {type(path).__name__}."
        )
    skops = _skops()
    path = Path(path)
    _check_model(model)
    _check_place(path)
    content = io.BytesIO(skops.dumps(model))
    refused = _refused(skops, content.getvalue())
    if refused:
        raise ValueError(
            f"{type(model).__name__} contains {', '.join(refused)}, which a saved model cannot "
            f"carry. {_remedy(model)}"
        )
    note = {"regfactor": version("regfactor"), "model": type(model).__name__}
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr(NOTE, json.dumps(note))
    _replace(path, content.getvalue())


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model in a file of `save`; a file with unknown types is refused unopened.

    Parameters
    ----------
    path : path

    Raises
    ------
    UntrustedModel
        If the file names types that are not regfactor's, scikit-learn's, scipy's or numpy's own,
        or types of another version of regfactor that this one does not have.
    DamagedModel
        If the file is cut off, damaged, or unpacks to far more than its size.
    """
    file = os.fspath(path)
    content = Path(path).read_bytes()
    try:
        _check_size(content, file)
        return _loaded(content, file)
    except (UntrustedModel, DamagedModel, ModuleNotFoundError):
        raise
    except DAMAGED as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DamagedModel(f"{file} is not a complete model file: {reason}.") from error


def _check_size(content: bytes, file: str) -> None:
    """Raise for an archive that unpacks to much more than it has."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > max(MIN_UNPACKED, MAX_GROWTH * len(content)):
        raise DamagedModel(
            f"{file} was not opened: its {len(content) / 2**20:.1f} MB unpack to "
            f"{size / 2**20:,.0f} MB, which no file of regfactor.save does."
        )


def _loaded(content: bytes, file: str) -> Any:
    """Return the model in the bytes of a file."""
    skops = _skops()
    note = _note(content)
    if note:
        refused = _refused(skops, content)
    else:
        refused = _refused_by_any_reader(skops, content)
    if refused and note and all(_is_missing_module(name) for name in refused):
        raise UntrustedModel(
            f"{file} was saved by an earlier version of regfactor: it names {', '.join(refused)}, "
            "which this version does not have. Fit the model again and save it, or load it with "
            "the version that saved it."
        )
    if refused:
        raise UntrustedModel(
            f"{file} was not opened: it names {', '.join(refused)}, which no model of regfactor "
            "contains. If you know its author, look at it with skops.io.get_untrusted_types."
        )
    if not note:
        raise UntrustedModel(f"{file} is not a file of regfactor.save, so it was not opened.")
    if note["regfactor"] != version("regfactor"):
        warn(
            f"{file} was written by regfactor {note['regfactor']}, and this is "
            f"{version('regfactor')}: if the model misbehaves, fit it again."
        )
    return skops.loads(content, trusted=skops.get_untrusted_types(data=content))


def _skops() -> ModuleType:
    return optional("skops.io", "A model in a file", install_hint("cli"))


def _note(content: bytes) -> dict[str, str]:
    """Return the note that `save` wrote into a file; empty for all other files."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if NOTE in archive.namelist():
            return dict(json.loads(archive.read(NOTE)))
        return {}


def _refused_by_any_reader(skops: ModuleType, content: bytes) -> list[str]:
    """Return the refused names in a file that `save` did not write; empty if it is not skops'."""
    try:
        return _refused(skops, content)
    except (zipfile.BadZipFile, AttributeError, LookupError, TypeError, ValueError):
        return []


def _refused(skops: ModuleType, content: bytes) -> list[str]:
    """Return the names in a file that are neither plain data nor classes that models consist of."""
    names = skops.get_untrusted_types(data=content)
    return [name for name in names if name not in PLAIN_DATA and not _is_own_class(name)]


def _is_own_class(name: str) -> bool:
    """Whether a name is a class in the module that defines it: an import could be any callable."""
    module, _, own = name.rpartition(".")
    package, _, inner = module.partition(".")
    if package != "regfactor" or inner.partition(".")[0] not in OWN_PACKAGES:
        return False
    try:
        found = getattr(importlib.import_module(module), own, None)
    except ModuleNotFoundError:
        return False
    return inspect.isclass(found) and found.__module__ == module


def _is_missing_module(name: str) -> bool:
    """Whether a class is in a module of regfactor that does not exist; nothing is imported."""
    package, *inner = name.split(".")[:-1]
    path = Path(__file__).parent.joinpath(*inner)
    return package == "regfactor" and not path.is_dir() and not path.with_suffix(".py").is_file()


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
    """Return what to save or to set instead if a model cannot be saved as it is."""
    if hasattr(model, "best_estimator_") or hasattr(model, "param_grid"):
        return "Of a search save the model that it found: save(search.best_estimator_, path)."
    return (
        "Functions and classes of your own are code: set such parameters (callback, a callable "
        "kernel) to None before saving. A model with a loss or penalty of your own is kept by "
        "pickle, whose files run code: load only those that you wrote."
    )


def _check_place(path: Path) -> None:
    """Raise if the file cannot be written."""
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {path.parent} to save {path.name} in; make it first."
        )
    if path.is_dir():
        raise IsADirectoryError(
            f"{path} is a folder; name a file in it, such as {path / 'model.skops'}."
        )


def _replace(path: Path, content: bytes) -> None:
    """Write a file under a temporary name in the same folder, then rename it."""
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
