"""Python code for people to copy: long lines broken after commas, where brackets allow it."""

from __future__ import annotations

import io
import itertools
import tokenize

MAX_LINE_LENGTH = 76  # characters that the page shows without scrolling


def wrapped(code: str) -> str:
    """Return the same code with no line longer than need be."""
    return "\n".join(_broken(line) for line in code.split("\n"))


def _broken(line: str) -> str:
    """Return a line broken after commas inside its brackets.

    One that cannot be read alone stays as it is.
    """
    if len(line) <= MAX_LINE_LENGTH:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    places = _commas(line.strip())
    out = []
    start = 0
    room = MAX_LINE_LENGTH - len(indent)
    text = line.strip()
    for place, following in itertools.pairwise([*places, len(text)]):
        if following - start > room:
            out.append(text[start:place])
            # the space after the comma goes
            start = place + 1
            room = MAX_LINE_LENGTH - len(indent) - 4
    out.append(text[start:])
    return f"\n{indent}    ".join([indent + out[0], *out[1:]])


def _commas(text: str) -> list[int]:
    """Return where the commas inside brackets end, followed by a space."""
    places = []
    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type != tokenize.OP:
                continue
            depth += (token.string in "([{") - (token.string in ")]}")
            end = token.end[1]
            if token.string == "," and depth > 0 and text[end : end + 1] == " ":
                places.append(end)
    except tokenize.TokenError:
        # the line continues in the next one; the commas so far are inside brackets
        pass
    return places
