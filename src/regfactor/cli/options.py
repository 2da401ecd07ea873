"""Options that commands share; a command receives them as one `Settings`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

import typer

from regfactor.cli.job import Settings

FILES = "Files"
COLUMNS = "Columns"
KINDS = get_type_hints(Settings)
DEFAULTS = {field.name: field.default for field in fields(Settings)}
READING: dict[str, Any] = {
    "json": typer.Option("--json", help="Print the result as JSON.", rich_help_panel=FILES),
    "verbose": typer.Option(
        "--verbose",
        help="Print the certificate of the fit as well, where there is one.",
        rich_help_panel=FILES,
    ),
    "encoding": typer.Option(
        help="Encoding of a text file. By default it is detected.",
        rich_help_panel=FILES,
    ),
    "delimiter": typer.Option(
        help="What separates the cells of a text file: a character, tab or space. By default it "
        "is detected.",
        rich_help_panel=FILES,
    ),
    "decimal": typer.Option(
        help="The decimal mark, '.' or ','. By default all numbers of the file decide.",
        rich_help_panel=FILES,
    ),
    "thousands": typer.Option(
        help="The mark between thousands, such as ',' or '.'. By default all numbers of the file "
        "decide.",
        rich_help_panel=FILES,
    ),
    "header": typer.Option(
        "--header/--no-header",
        help="Whether the first row of a text file or sheet holds names.",
        rich_help_panel=FILES,
    ),
    "header_rows": typer.Option(
        help="Number of rows that hold names. By default it is detected.",
        min=1,
        rich_help_panel=FILES,
    ),
    "skip": typer.Option(
        help="Number of lines above the names to leave out.", min=0, rich_help_panel=FILES
    ),
    "skip_last": typer.Option(
        help="Number of rows at the end to leave out, such as totals.",
        min=0,
        rich_help_panel=FILES,
    ),
    "sheet": typer.Option(help="Name of the sheet of a spreadsheet.", rich_help_panel=FILES),
    "absent": typer.Option(
        help="Meaning of the entries that a sparse matrix does not store: zero or missing.",
        rich_help_panel=FILES,
    ),
    "missing": typer.Option(
        help="One more marker of missing cells: 999 in all columns, age=999 in one. Empty cells, "
        "?, NA, NaN and null are missing anyway. May be repeated.",
        rich_help_panel=COLUMNS,
    ),
    "present": typer.Option(
        help="A value that marks no missing cell, though it looks like it: NA, or country=NA. May "
        "be repeated.",
        rich_help_panel=COLUMNS,
    ),
}
WRITING: dict[str, Any] = {
    "out": typer.Option(
        help="Folder of the results. By default that of the input; - writes the table to standard "
        "output, and no files.",
        rich_help_panel=FILES,
    ),
    "force": typer.Option("--force", help="Replace results that exist.", rich_help_panel=FILES),
    "format": typer.Option(
        help="Format of the results: csv or parquet. By default Parquet for Parquet and Feather, "
        "CSV for the others.",
        rich_help_panel=FILES,
    ),
}
FITTING: dict[str, Any] = {
    "save": typer.Option(
        metavar="MODEL.skops",
        help="Keep the model, for `regfactor score`.",
        rich_help_panel=FILES,
    ),
    "ignore": typer.Option(
        metavar="COLUMN",
        help="Leave a column out. May be repeated.",
        rich_help_panel=COLUMNS,
    ),
    "use": typer.Option(
        metavar="COLUMN",
        help="Use a column that was left out. May be repeated.",
        rich_help_panel=COLUMNS,
    ),
    "seed": typer.Option(help="Seed of the random numbers.", min=0, max=2**32 - 1),
}
TEXT: dict[str, Any] = {
    "text": typer.Option(
        metavar="COLUMN",
        help="Read a column of free text by its words (TF-IDF). May be repeated.",
        rich_help_panel=COLUMNS,
    )
}


def sharing(*groups: dict[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command groups of options; it is called with them as `settings`."""
    options = {name: option for group in groups for name, option in group.items()}
    shared = [_parameter(name, option) for name, option in options.items()]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            settings: dict[str, Any] = {}
            for name in options:
                value = given.pop(name)
                if _is_repeated(name):
                    settings[name] = tuple(value or ())
                else:
                    settings[name] = value
            command(**given, settings=Settings(**settings))

        own = inspect.signature(command, eval_str=True).parameters
        parameters = [p for name, p in own.items() if name != "settings"]
        parameters += shared
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def _is_repeated(name: str) -> bool:
    """Return whether an option may be given several times."""
    return DEFAULTS[name] == ()


def _parameter(name: str, option: Any) -> inspect.Parameter:
    """Return the parameter by which a command takes an option into a field of the settings."""
    kind = KINDS[name]
    default = DEFAULTS[name]
    if _is_repeated(name):
        kind = list[str] | None
        default = None
    annotated: Any = Annotated
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=annotated[kind, option],
    )
