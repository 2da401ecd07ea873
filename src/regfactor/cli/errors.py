"""Errors and exit codes of commands, and helpers for the wording of messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

DONE = 0
BAD_INPUT = 2
NOT_CONVERGED = 3
NOT_WRITTEN = 4
INTERRUPTED = 130


class BadInput(Exception):
    """One sentence for the user: what is wrong, where, and what to do."""


class NotWritten(Exception):
    """One sentence for the user: a result that cannot be written, and what is left as it was."""


def visible(text: str) -> str:
    """Return text whose control signs are spelled out, so that it cannot steer a terminal."""
    if text.isprintable():
        return text
    return "".join(_visible_sign(sign) for sign in text)


def _visible_sign(sign: str) -> str:
    if sign == "\n" or sign.isprintable():
        return sign
    return sign.encode("unicode_escape").decode("ascii")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'X'?" if a known name is close, else a full stop."""
    spelled = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), list(spelled), n=1)
    if found:
        return f"; did you mean {spelled[found[0]]!r}?"
    return "."


def listed(names: Iterable[object], most: int = 8) -> str:
    """Return names separated by commas, the first few."""
    all_ = [str(name) for name in names]
    return ", ".join(all_[:most]) + (f" and {len(all_) - most} more" if len(all_) > most else "")


def count(n: int, what: str) -> str:
    """Return 1 row, 2 rows, 10,000 rows."""
    return f"{n:,} {what}" + ("" if n == 1 else "s")
