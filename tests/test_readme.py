"""The README's Python runs from top to bottom, and what it promises comes out."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_code_of_the_readme_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 2
    exec(compile("\n".join(blocks), str(README), "exec"), {})
    printed = capsys.readouterr().out
    assert "global optimum" in printed and "Admm" in printed


def test_the_commands_of_the_readme_are_those_of_the_page_that_makes_their_tables():
    commands = re.findall(
        r"^regfactor [^#\n]*[^#\n ]", README.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    page = (README.parent / "docs" / "cli.md").read_text(
        encoding="utf-8"
    )  # whose commands are run by its own test
    assert len(commands) >= 3
    assert [command for command in commands if command not in page] == []
