"""Options that commands share; a command receives them as one `Settings`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from regfactor.cli.job import Settings

FILES = "Files"
COLUMNS = "Columns"
READING: dict[str, Any] = {
    "json": (
        Annotated[
            bool,
            typer.Option("--json", help="Print the result as JSON.", rich_help_panel=FILES),
        ],
        False,
    ),
    "encoding": (
        Annotated[str, typer.Option(help="Of a CSV file.", rich_help_panel=FILES)],
        "utf-8",
    ),
    "header": (
        Annotated[
            bool,
            typer.Option(
                "--header/--no-header",
                help="Whether the first row of a CSV file holds names.",
                rich_help_panel=FILES,
            ),
        ],
        True,
    ),
    "missing": (
        Annotated[
            list[str] | None,
            typer.Option(
                help=(
                    "One more marker of missing cells, besides empty, ?, NA, NaN, None and "
                    "null. May be repeated."
                ),
                rich_help_panel=COLUMNS,
            ),
        ],
        None,
    ),
}
WRITING: dict[str, Any] = {
    "out": (
        Annotated[
            Path | None,
            typer.Option(
                help="Folder of the results, in place of the input's.",
                rich_help_panel=FILES,
            ),
        ],
        None,
    ),
    "force": (
        Annotated[
            bool,
            typer.Option("--force", help="Replace results that exist.", rich_help_panel=FILES),
        ],
        False,
    ),
    "format": (
        Annotated[
            str | None,
            typer.Option(
                help=(
                    "csv or parquet; otherwise Parquet for Parquet and Feather, CSV for the others."
                ),
                rich_help_panel=FILES,
            ),
        ],
        None,
    ),
}
FITTING: dict[str, Any] = {
    "save": (
        Annotated[
            Path | None,
            typer.Option(
                metavar="MODEL.skops",
                help="Keep the model, for `regfactor score`.",
                rich_help_panel=FILES,
            ),
        ],
        None,
    ),
    "ignore": (
        Annotated[
            list[str] | None,
            typer.Option(
                metavar="COLUMN",
                help="Leave a column out. May be repeated.",
                rich_help_panel=COLUMNS,
            ),
        ],
        None,
    ),
    "use": (
        Annotated[
            list[str] | None,
            typer.Option(
                metavar="COLUMN",
                help="Use a column that was left out. May be repeated.",
                rich_help_panel=COLUMNS,
            ),
        ],
        None,
    ),
    "seed": (Annotated[int, typer.Option(help="Of all that is random.", min=0, max=2**32 - 1)], 0),
}
TEXT: dict[str, Any] = {
    "text": (
        Annotated[
            list[str] | None,
            typer.Option(
                metavar="COLUMN",
                help="Read a column of free text by its words (TF-IDF). May be repeated.",
                rich_help_panel=COLUMNS,
            ),
        ],
        None,
    )
}


def sharing(*groups: dict[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command groups of options; it is called with them as `settings`."""
    options = {name: option for group in groups for name, option in group.items()}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            shared = {name: given.pop(name) for name in options}
            packed: dict[str, Any] = {
                n: tuple(v or ()) if _many(options[n]) else v for n, v in shared.items()
            }
            settings = Settings(**packed)
            command(**given, settings=settings)

        own = [
            p
            for p in inspect.signature(command, eval_str=True).parameters.values()
            if p.name != "settings"
        ]
        kind = inspect.Parameter.KEYWORD_ONLY
        extra = [
            inspect.Parameter(n, kind, default=d, annotation=a) for n, (a, d) in options.items()
        ]
        run.__signature__ = inspect.Signature([*own, *extra])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in [*own, *extra]}
        return run

    return decorate


def _many(option: tuple[Any, Any]) -> bool:
    return "list" in str(option[0])
