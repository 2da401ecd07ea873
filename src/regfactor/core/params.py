"""Named parameters of parts, intervals as domains, checks of values, and warnings."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import numbers
import reprlib
import sys
import warnings
from collections.abc import Hashable, Iterable, Mapping
from numbers import Integral
from types import FrameType, ModuleType
from typing import Any, Self, TypeGuard, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
T = TypeVar("T")
EPS = float(np.finfo(np.float64).eps)
SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)
# Packages whose frames are skipped when a warning looks for the user's own line.
INTERNAL_PACKAGES = {"regfactor", "sklearn", "joblib", "contextlib"}
MIN_SIMILARITY = 0.75  # of two words, from 0 to 1, to take one for a misspelling of the other


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(dataclasses.field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a frozen dataclass that is compared by identity, since its fields may be arrays."""
    return dataclasses.dataclass(frozen=True, eq=False)(cls)


def text_table(rows: Iterable[Iterable[str]]) -> list[str]:
    """Return rows of cells as lines in which columns are aligned."""
    cells = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


class UnsupportedProblem(ValueError):
    """A part and a solver, or two parts, that do not fit: which, why, and what to use instead."""


class Params:
    """`get_params` and `set_params` of a dataclass part, so that grids reach `loss__delta`."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with `deep`, those of nested parts as `outer__inner`."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        own = {field.name: getattr(self, field.name) for field in fields}
        params = dict(own)
        for name, part in own.items():
            if deep and isinstance(part, Params):
                for inner, value in part.get_params().items():
                    params[f"{name}__{inner}"] = value
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name and validate the part again."""
        own = self.get_params(deep=False)
        for key, value in params.items():
            name, _, inner = key.partition("__")
            if name not in own:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {sorted(own)}."
                )
            if inner:
                own[name].set_params(**{inner: value})
            else:
                setattr(self, name, value)
        if hasattr(self, "__post_init__"):
            self.__post_init__()
        return self


def is_option(value: object, word: str) -> bool:
    """Return whether a parameter is this word; an array, which compares by entries, never is."""
    return isinstance(value, str) and value == word


def as_floats(values: Any, what: str) -> Array:
    """Return numbers in float64, NaN where masked; raise for words, naming the argument."""
    try:
        if isinstance(values, np.ma.MaskedArray):
            return np.asarray(np.ma.filled(values.astype(np.float64), np.nan))
        return np.array(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{what} must hold numbers: {error}.") from error


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number, numpy's included, and not a boolean."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def require_positive(part: object, **numbers: float) -> None:
    """Raise unless every named number is finite and positive."""
    for name, value in numbers.items():
        if not (is_number(value) and 0 < value < np.inf):
            raise ValueError(f"{type(part).__name__} needs {name} > 0 and finite, got {value!r}.")


def is_count(value: object) -> bool:
    """Return whether a value is a whole number of at least one, and not a boolean."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def require_count(part: object, **numbers: object) -> None:
    """Raise unless every named number is whole and at least one."""
    for name, value in numbers.items():
        if not is_count(value):
            raise ValueError(f"{type(part).__name__} needs a whole {name} >= 1, got {value!r}.")


def require_not_negative(part: object, **numbers: object) -> None:
    """Raise unless every named number is finite and at least zero."""
    for name, value in numbers.items():
        if not (is_number(value) and 0 <= value < np.inf):
            raise ValueError(f"{type(part).__name__} needs {name} >= 0 and finite, got {value!r}.")


def wrong_part(name: str, part: object, role: type, example: str) -> ValueError:
    """Return the error of a part that is no instance of its role, but a class, a name, ..."""
    if isinstance(part, type) and issubclass(part, role):
        return ValueError(f"{name} must be a part, not its class: write {part.__name__}().")
    return ValueError(
        f"{name} must be a {role.__name__} such as {example}, got {reprlib.repr(part)}."
    )


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's own line: the first outside regfactor and what wraps its methods."""
    frame = sys._getframe(1)
    level = 2
    while frame.f_back is not None and _is_internal(frame):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def _is_internal(frame: FrameType) -> bool:
    package, _, _ = str(frame.f_globals.get("__name__")).partition(".")
    return package in INTERNAL_PACKAGES


def install_hint(extra: str) -> str:
    """Return how to install an extra: regfactor is installed from a checkout of its source."""
    return f"pip install -e '.[{extra}]' in the checkout of regfactor"


def optional(module: str, what: str, hint: str) -> ModuleType:
    """Import an optional dependency; if it is missing, the error names its user and a remedy."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        name = module.partition(".")[0]
        raise ModuleNotFoundError(f"{what} needs {name}: {hint}.", name=name) from missing


def choose(name: str, table: Mapping[str, T], what: str) -> T:
    """Return the entry of a table of choices; for an unknown name raise and suggest the nearest."""
    if isinstance(name, Hashable) and name in table:
        return table[name]
    meant = nearest(str(name), table)
    hint = "" if meant is None else f" Did you mean {meant!r}?"
    raise ValueError(f"Unknown {what} {name!r}.{hint} Choose one of: {', '.join(sorted(table))}.")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the name that was probably meant, or None.

    Another case, a misspelling, letters in another order, or the first letters of a name.
    """
    asked = name.lower()
    spelled = {word.lower(): word for word in known}
    misspelled = difflib.get_close_matches(asked, spelled, n=1, cutoff=MIN_SIMILARITY)
    swapped = [word for word in spelled if sorted(word) == sorted(asked)]
    longer = [word for word in spelled if len(asked) > 2 and word.startswith(asked)]
    found = misspelled or swapped or longer
    if found:
        return spelled[found[0]]
    return None
