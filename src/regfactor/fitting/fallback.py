"""A fit that goes on with a given strength where held-out entries cannot choose one."""

from __future__ import annotations

from typing import Any

from regfactor.core.params import is_option

CONSTANT_COLUMNS = "Each column holds one value, or nearly: there is nothing"


class CannotSelect(ValueError):
    """There is nothing, or too little, to choose a strength by; `reason` names what is lacking."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def fit_or_default(model: Any, *data: Any, **known: Any) -> str:
    """Fit a model; where alpha="auto" cannot be chosen, with alpha=1 and without debiasing.

    Returns
    -------
    str
        What was lacking to choose alpha; empty if it was chosen.
    """
    try:
        model.fit(*data, **known)
    except CannotSelect as error:
        default = {"alpha": 1.0, "debias": False}
        names = model.get_params()
        model.set_params(**{name: value for name, value in default.items() if name in names})
        model.fit(*data, **known)
        return error.reason
    given = getattr(model, "alpha", None)
    if is_option(given, "auto") and getattr(model, "alpha_max_", 1.0) == 0:
        return CONSTANT_COLUMNS
    return ""
