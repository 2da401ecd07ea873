"""What SNFRegressorCV is asked to try: settings and ridges, checked before any of them is fitted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from regfactor.core.params import choose, is_number
from regfactor.labels.latent.checks import check_parameters, settings_of
from regfactor.labels.latent.descent import STRETCH
from regfactor.labels.latent.estimator import SNFRegressor
from regfactor.labels.latent.ridge_forms import polynomial_form
from regfactor.labels.latent.tuning import Models

SHARED = ("clip", "random_state", "scale")  # by all settings, parameters of SNFRegressorCV itself
UNUSED = ("callback", "time_limit", "verbose")
TRIED = {name: name for name in SNFRegressor().get_params() if name not in SHARED + UNUSED}


def checked_ridges(ridges: Any) -> tuple[float, ...]:
    """Return the ridges, each once; raise for what is no row of positive numbers."""
    table = np.asarray(ridges, dtype=object)
    if table.ndim != 1 or not len(table) or not all(is_number(r) and 0 < r < np.inf for r in table):
        raise ValueError(
            f"ridges must be a sequence of positive finite numbers, such as (0.1, 1.0), got {ridges!r}.",
        )
    return tuple(dict.fromkeys(ridges))


def checked_models(settings: Any, shape: tuple[int, int], shared: Mapping[str, Any]) -> Models:
    """Return the models to try on a table, with the iterations at which they are looked at; `shared` is of all."""
    settings = list(settings) if isinstance(settings, Iterable) else []
    if not settings or not all(isinstance(setting, Mapping) for setting in settings):
        raise ValueError(
            "settings must be a list of dicts with parameters of SNFRegressor, at least one.",
        )
    models = []
    for i, setting in enumerate(settings):
        try:
            models.append(_checked_model(setting, shape, shared))
        except ValueError as error:
            raise ValueError(f"settings[{i}]: {error}") from error
    return models


def _checked_model(
    setting: Mapping[str, Any],
    shape: tuple[int, int],
    shared: Mapping[str, Any],
) -> tuple[SNFRegressor, tuple[int, ...]]:
    for name in setting:
        _check_name(name)
    stops = _stops(setting.get("max_iter", SNFRegressor().max_iter))
    model = SNFRegressor(**{**shared, **setting, "max_iter": stops[-1]})
    check_parameters(model)
    needed = settings_of(model, shape[1])
    if not needed.gaussian:
        polynomial_form(shape[0], needed.dimensions, needed.degree)  # which may have too many terms
    return model, stops


def _check_name(name: Any) -> None:
    """Raise for what a setting cannot choose."""
    if name in SHARED:
        raise ValueError(
            f"{name} is the same for all settings: give it to SNFRegressorCV. {_choices()}",
        )
    if name in UNUSED:
        raise ValueError(f"{name} has no use while settings are tried: leave it out. {_choices()}")
    choose(name, TRIED, "parameter")


def _choices() -> str:
    return f"A setting may hold: {', '.join(sorted(TRIED))}."


def _stops(max_iter: Any) -> tuple[int, ...]:
    """Return the iterations at which a descent is looked at, in their order."""
    if isinstance(max_iter, Sequence) and not isinstance(max_iter, str):
        stops = list(max_iter)
    else:
        stops = [max_iter]
    if not stops or not all(isinstance(stop, int | np.integer) and stop >= 0 for stop in stops):
        raise ValueError(
            f"max_iter must be a whole number >= 0, or one or more of them, got {max_iter!r}.",
        )
    if len(stops) > 1 and any(stop % STRETCH for stop in stops):
        raise ValueError(
            f"Several max_iter of a setting must be multiples of {STRETCH}, got {sorted(stops)}.",
        )
    return tuple(sorted(set(stops)))
