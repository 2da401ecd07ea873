"""`--constraint "goal=sport:0.8+-0.05"`: knowledge of unlabeled rows for `ExpectationSVC`."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from regfactor.cli.errors import BadInput, nearest

FORM = re.compile(
    r"^\s*(?P<feature>.+)=(?P<label>[^=:]+):(?P<share>[^:+±]+?)\s*(?:(?:\+-|\+/-|±)\s*(?P<tolerance>.+?))?\s*$"
)
ALL = "all"
TOLERANCE = 0.05


class Statement(NamedTuple):
    """Of the unlabeled rows with a feature, a share has a label, give or take a tolerance."""

    feature: str
    label: str
    share: float
    tolerance: float

    def __str__(self) -> str:
        if self.feature == ALL:
            where = "all rows"
        else:
            where = f"rows with {self.feature!r}"
        return f"{where}: {self.share:g} ± {self.tolerance:g} are {self.label!r}"


def parse(text: str) -> Statement:
    """Return a statement; raise if it cannot be parsed."""
    found = FORM.match(text)
    if found is None:
        raise BadInput(
            f"--constraint {text!r} is not of the form FEATURE=LABEL:SHARE+-TOLERANCE, such as "
            '"goal=sport:0.8+-0.05".'
        )
    numbers = []
    for name in ("share", "tolerance"):
        if found[name] is not None:
            value = found[name]
        else:
            value = str(TOLERANCE)
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not 0 <= number <= 1:
            raise BadInput(
                f"--constraint {text!r}: the {name} must be a number between 0 and 1, not "
                f"{value!r}."
            )
        numbers.append(number)
    return Statement(found["feature"].strip(), found["label"].strip(), *numbers)


def constraints(statements: list[Statement], places: dict[str, int]) -> list[Any]:
    """Return statements as constraints on encoded columns."""
    from regfactor.constraints import class_balance, labeled_feature

    merged: dict[tuple[str, float], dict[str, float]] = {}
    for s in statements:
        if s.feature != ALL and s.feature not in places:
            raise BadInput(
                f"--constraint names the feature {s.feature!r}, and there is no such word, flag or "
                f"category{nearest(s.feature, places)} Words come from --text columns, categories "
                "are written column=value, and 'all' means all rows."
            )
        merged.setdefault((s.feature, s.tolerance), {})[s.label] = s.share
    words: list[str] = [""] * (max(places.values(), default=-1) + 1)
    for word, at in places.items():
        words[at] = word
    try:
        return [
            class_balance(shares, tolerance)
            if feature == ALL
            else labeled_feature(feature, shares, tolerance, vocabulary=words)
            for (feature, tolerance), shares in merged.items()
        ]
    except ValueError as error:
        raise BadInput(f"--constraint: {error}") from error
