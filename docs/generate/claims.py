"""Claims of the papers and our measurements: a digest, and a page for each report."""

import re
from pathlib import Path

from docs.generate import GENERATED, ROOT
from docs.generate.files import write
from docs.generate.first_report import corrections
from docs.generate.reports import contents, copy_reports, title_of
from experiments._runner import standing

RESULTS = ROOT / "experiments" / "results"
VERDICT = re.compile(
    r"^## (?:What reproduces|Verdicts?)\n(.*?)(?=^## |^!\[|\Z)", flags=re.MULTILINE | re.DOTALL
)
# the last lines: cells, seconds, versions
COST = re.compile(r"^\d+ cells?, .*\Z", flags=re.MULTILINE | re.DOTALL)
CLAIMS = {
    "hold": r"\*\*holds\*\*",
    "not decided": r"\*\*not decided\*\*",
    "do not hold": r"\*\*does not hold\*\*",
}
TESTS = {
    "lower": r"\*\*lower\*\* \(",
    "no difference shown": r"no difference shown \(",
    "higher": r"\*\*higher\*\* \(",
}
HEAD = "| experiment | recomputed | result | code |\n|---|---|---|---|"
NOTHING = "No experiment has been run in this checkout yet."


def write_claims(results: Path = RESULTS, generated: Path = GENERATED) -> None:
    """Write the digest that docs/claims.md includes, and the page of each experiment."""
    reports = copy_reports(results, generated / "claims", verdicts_first)
    rows = [_row(name, text, standing(name, results)) for name, text in reports.items()]
    text = (
        "\n".join(
            [contents("claims", reports), HEAD, *rows, "", corrections(reports), _failures(reports)]
        )
        if reports
        else NOTHING
    )
    write(generated / "claims.md", f"{text}\n")


def verdict_of(text: str) -> str:
    """Return the verdicts of a report, without the line on its cost."""
    found = VERDICT.search(text)
    return COST.sub("", found.group(1)).strip() if found else ""


def verdicts_first(text: str) -> str:
    """Return the report with its verdicts before its tables: they are what is read first."""
    found = VERDICT.search(text)
    if not found:
        return text
    verdict, cost = verdict_of(text), COST.search(found.group(1))
    rest = text[: found.start()] + (cost.group(0) if cost else "") + text[found.end() :]
    intro, tables = re.split(r"^(?=## )|\Z", rest, maxsplit=1, flags=re.MULTILINE)
    heading = found.group(0).partition("\n")[0]
    return f"{intro.rstrip()}\n\n{heading}\n\n{verdict}\n\n{tables}"


def _row(name: str, text: str, code: str) -> str:
    what = title_of(text).partition(": ")[2].replace("|", "\\|")
    cells = [f"[{name}](_generated/claims/{name}.md)", what, digest(verdict_of(text)), code]
    return f"| {' | '.join(cells)} |"


def digest(verdict: str) -> str:
    """Return the verdicts of a report in numbers."""
    claims, tests = _counted(CLAIMS, verdict), _counted(TESTS, verdict)
    if claims and tests:
        return f"{claims}; errors: {tests}"
    if claims:
        return claims
    if tests:
        return f"errors: {tests}"
    findings = len(re.findall(r"^ *- ", verdict, flags=re.MULTILINE))
    return f"{findings} findings in words" if findings else "a verdict for each data set"


def _counted(kinds: dict[str, str], verdict: str) -> str:
    numbers = {kind: len(re.findall(pattern, verdict)) for kind, pattern in kinds.items()}
    return (
        ", ".join(f"{number} {kind}" for kind, number in numbers.items())
        if any(numbers.values())
        else ""
    )


def _failures(reports: dict[str, str]) -> str:
    """Return every claim that fails under some tuning, as its report has it."""
    parts = ["## What does not hold", ""]
    for name, text in reports.items():
        lines = [
            line for line in verdict_of(text).splitlines() if re.search(CLAIMS["do not hold"], line)
        ]
        if lines:
            parts += [f"**[{name}](_generated/claims/{name}.md)**", "", *lines, ""]
    return "\n".join(parts) if len(parts) > 2 else ""
