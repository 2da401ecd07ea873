"""The options of every command of `regfactor`, read off the program itself."""

from pathlib import Path
from typing import Any

import typer

from docs.generate import GENERATED
from docs.generate.files import write
from regfactor.cli.app import app

HEAD = "| option | default | what it does |\n|---|---|---|"


def write_commands(generated: Path = GENERATED) -> None:
    """Write what docs/cli.md includes."""
    commands: Any = typer.main.get_command(app)
    write(
        generated / "commands.md",
        "\n\n".join(_section(name, c) for name, c in commands.commands.items()) + "\n",
    )


def _section(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join(["regfactor", name, *((p.metavar or p.name.upper()) for p in arguments)])
    rows = [f"| `{p.metavar or p.name.upper()}` | | {_said(p.help)} |" for p in arguments]
    rows += [_row(p) for p in command.params if p.param_type_name == "option" and p.name != "help"]
    about = (command.help or "").partition("\n")[0]
    return f"### `{usage}`\n\n{about}\n\n{HEAD}\n" + "\n".join(rows)


def _row(option: Any) -> str:
    spelled = "/".join([*option.opts, *option.secondary_opts])
    value = "" if option.is_flag else f" {option.metavar or option.name.upper()}"
    default = (
        "required"
        if option.required
        else ("" if option.is_flag or option.default is None else f"`{option.default}`")
    )
    return f"| `{spelled}{value}` | {default} | {_said(option.help)} |"


def _said(text: str | None) -> str:
    return (text or "").replace("|", "\\|")
