"""Docstrings for Sphinx: plain text in numpy's sections, where |r|, f* and codes_ are literal."""

import re

# lists of names, each with a description below
FIELDS = {
    "Parameters",
    "Attributes",
    "Returns",
    "Yields",
    "Raises",
}
PROSE = {"Notes", "Examples", "References", "See Also"}
CODE = re.compile(r"`+([^`]+)`+")
# what would be markup: a trailing underscore is a link, but for the [1]_ of a reference
MARKUP = re.compile(r"([\\*|])|(?<!\d\])_(?!\w)")


def to_rst(lines: list[str]) -> list[str]:
    """Return the lines of a docstring as reStructuredText that shows them as they are meant."""
    out: list[str] = []
    for name, body in _sections(lines):
        out += [f".. rubric:: {name}", ""] if name else []
        out += (
            _fields(body, named=name in ("Parameters", "Attributes"))
            if name in FIELDS
            else _prose(body)
        )
        out.append("")
    return out


def _sections(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Return (heading, lines) of each section; the first has no heading."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.strip() in FIELDS | PROSE and re.fullmatch(r"-{3,}", below.strip()):
            sections.append((line.strip(), []))
        elif not (re.fullmatch(r"-{3,}", line.strip()) and sections[-1][0] and not sections[-1][1]):
            sections[-1][1].append(line)
    return sections


def _fields(lines: list[str], named: bool) -> list[str]:
    """Return a definition list: names with types are terms, indented lines the description."""
    out: list[str] = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if not line or line[0].isspace():
            out += _prose([line])
            continue
        out += ["", _term(line, named)]
        if not below.strip() or not below[0].isspace():
            out.append("   \\ ")  # a term needs a description, if an empty one
    return out


def _term(line: str, named: bool) -> str:
    name, colon, kind = line.removesuffix(" :").partition(" : ")
    if not named and not colon:
        return _text(line)
    return f"**{_text(name)}**" + (f" : {_text(kind)}" if colon else "")


def _prose(lines: list[str]) -> list[str]:
    """Return paragraphs without markup of their own.

    Examples, which begin with >>>, stay as they are.
    """
    out: list[str] = []
    for block in re.split(r"(\n\s*\n)", "\n".join(lines)):
        out.append(block if block.lstrip().startswith(">>>") else _text(block))
    return "".join(out).split("\n")


def _text(text: str) -> str:
    """Return text with code between backticks as code, and all else as letters."""
    out, end = "", 0
    for found in CODE.finditer(text):
        tail = "\\ " if text[found.end() : found.end() + 1].isalnum() else ""
        out += (
            MARKUP.sub(r"\\\g<0>", text[end : found.start()])
            + f"``{found.group(1).strip()}``{tail}"
        )
        end = found.end()
    return out + MARKUP.sub(r"\\\g<0>", text[end:])


def process(
    app: object, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Convert a docstring in place, as autodoc asks."""
    lines[:] = to_rst(lines)


def skip(
    app: object, what: str, name: str, obj: object, would_skip: bool, options: object
) -> bool | None:
    """Leave out what is inherited from other libraries and documented there."""
    function = getattr(obj, "fget", None) or getattr(obj, "__func__", obj)
    module = getattr(function, "__module__", None) or ""
    foreign = (
        not module.startswith("regfactor") or re.fullmatch(r"set_\w+_request", name) is not None
    )
    return True if foreign else None
