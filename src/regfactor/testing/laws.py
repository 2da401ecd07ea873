"""Laws of parts: comparisons that name the place where a law fails, and the check of all laws."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.base import clone

from regfactor.core.params import Array

Law = Callable[[Any], None]
MAX_DETAILS = 3  # arrays of a place that a message shows beyond the two that differ


class BrokenLaw(AssertionError):
    """A part does not keep the laws of its role; the message names them and where they fail."""


def require(holds: bool | np.bool_, message: str) -> None:
    """Raise BrokenLaw unless a statement holds."""
    if not holds:
        raise BrokenLaw(message)


def require_close(
    found: Any,
    expected: Any,
    what: str,
    rtol: float = 1e-7,
    atol: float = 0.0,
    **at: Any,
) -> None:
    """Raise BrokenLaw unless two arrays agree, with the first place where they do not."""
    if np.shape(found) != np.shape(expected):
        raise BrokenLaw(f"{what}: the shape is {np.shape(found)}, expected {np.shape(expected)}")
    close = np.isclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    _require_everywhere(close, found, expected, what, "expected", at)


def require_at_most(
    found: Any,
    limit: Any,
    what: str,
    **at: Any,
) -> None:
    """Raise BrokenLaw unless no entry exceeds its limit, with the first that does."""
    limits = np.broadcast_to(limit, np.shape(found))
    _require_everywhere(np.asarray(found) <= limits, found, limits, what, "at most", at)


def _require_everywhere(
    holds: Array,
    found: Any,
    expected: Any,
    what: str,
    relation: str,
    at: dict[str, Any],
) -> None:
    if np.all(holds):
        return
    place = tuple(int(i) for i in np.argwhere(~np.asarray(holds))[0])
    first = f"{np.asarray(found)[place]:.8g}"
    values = [f"{first}, {relation} {np.asarray(expected)[place]:.8g}"]
    for name, values_at in list(at.items())[:MAX_DETAILS]:
        shown = np.asarray(values_at)
        if shown.shape[: len(place)] == np.shape(found):
            shown = shown[place]
        values.append(f"{name} = {shown}")
    text = f"{what}: {', '.join(values)}"
    if np.size(holds) > 1:
        text = f"{text} ({1 - np.mean(holds):.0%} of the entries tried)"
    raise BrokenLaw(text)


def check_laws(part: object, laws: Iterable[Law], case: Any) -> None:
    """Raise BrokenLaw with all laws that a part breaks."""
    laws = tuple(laws)
    broken = []
    first: Exception | None = None
    for law in laws:
        try:
            law(case)
        except Exception as error:  # an own part may raise anything, and all laws are reported
            detail = str(error)
            if not isinstance(error, BrokenLaw):
                detail = f"{type(error).__name__}: {error}"
            broken.append(f"- {statement(law)} {detail}")
            first = first or error
    if broken:
        head = f"{type(part).__name__} breaks {len(broken)} of {len(laws)} laws:"
        raise BrokenLaw("\n".join([head, *broken])) from first


def statement(law: Law) -> str:
    """Return the law as a sentence: the first line of its docstring."""
    return (inspect.getdoc(law) or law.__name__).partition("\n")[0]


def require_part(part: object, role: type, name: str) -> None:
    """Raise TypeError unless a part is an instance of its role, with the methods that it lacks."""
    kind = part if inspect.isclass(part) else type(part)
    lacking = missing_methods(kind, role)
    if lacking:
        wanted = "\n".join(f"- {method}: {_promise(role, method)}" for method in lacking)
        raise TypeError(f"{name}: {kind.__name__} lacks methods of a {role.__name__}:\n{wanted}")
    if not issubclass(kind, role):
        raise TypeError(
            f"{name}: {kind.__name__} has the methods of a {role.__name__} but does not subclass "
            f"it: write class {kind.__name__}({role.__module__}.{role.__name__})."
        )
    if inspect.isclass(part):
        raise TypeError(f"{name} takes an instance: write {kind.__name__}().")


def missing_methods(kind: type, role: type) -> list[str]:
    """Return the methods that a role demands and a class does not implement."""
    demanded = sorted(getattr(role, "__abstractmethods__", ()))
    found = {method: getattr(kind, method, None) for method in demanded}
    return [
        method
        for method, own in found.items()
        if own is None or getattr(own, "__isabstractmethod__", False)
    ]


def _promise(role: type, method: str) -> str:
    return (inspect.getdoc(getattr(role, method)) or "").partition("\n")[0]


def is_cloned(part: Any) -> None:
    """Raise BrokenLaw unless a part is cloned by its parameters."""
    copied = clone(part)
    require(copied is not part, "clone returns the part itself")
    for name, value in part.get_params(deep=False).items():
        own = copied.get_params(deep=False)[name]
        same = own is value or repr(own) == repr(value)
        require(same, f"{name} is {value!r}, and {own!r} in a clone")


def frozen(array: Any) -> Array:
    """Return a read-only copy: a part that writes to it raises."""
    locked = np.array(copy.copy(array))
    locked.setflags(write=False)
    return locked


def rng(seed: int = 0) -> np.random.Generator:
    """Return a generator of random numbers."""
    return np.random.default_rng(seed)
