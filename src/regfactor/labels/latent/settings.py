"""Settings that SNFRegressorCV tries, checked before any of them is fitted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid

from regfactor.core.params import choose, frozen, is_number
from regfactor.fitting.parameters import check_parameters
from regfactor.labels.latent.descent import STRETCH
from regfactor.labels.latent.estimator import SNFRegressor

SHARED = ("clip", "random_state", "scale")  # by all settings, parameters of SNFRegressorCV itself
UNUSED = ("callback", "time_limit", "verbose")
TRIED = {name: name for name in SNFRegressor().get_params() if name not in SHARED + UNUSED}


@frozen
class Setting:
    """A model to try, and the numbers of iterations at which its descent is evaluated, rising."""

    model: SNFRegressor
    stops: tuple[int, ...]


def default_settings(n_features: int) -> list[dict[str, Any]]:
    """Return principal components and descents from them, with three kinds of regressions."""
    gammas = [c / n_features for c in (0.03, 0.1, 0.3, 1.0, 3.0)]
    stops = (0, 15, 60)
    machines = {"kernel": ["rbf"], "n_components": [1.0], "gamma": gammas, "max_iter": [(0,)]}
    polynomials = {"degree": [1, 2], "n_components": [0.5, 1.0], "max_iter": [stops]}
    gaussian = {"kernel": ["rbf"], "n_components": [0.5], "gamma": gammas[2:4], "max_iter": [stops]}
    return list(ParameterGrid([machines, polynomials, gaussian]))


def checked_ridges(ridges: Any) -> tuple[float, ...]:
    """Return the ridges, each once; raise unless they are a sequence of positive numbers."""
    table = np.asarray(ridges, dtype=object)
    if table.ndim != 1 or not len(table) or not all(is_number(r) and 0 < r < np.inf for r in table):
        raise ValueError(
            "ridges must be a sequence of positive finite numbers, such as (0.1, 1.0), got "
            f"{ridges!r}."
        )
    return tuple(dict.fromkeys(ridges))


def checked_settings(
    settings: Any,
    shape: tuple[int, ...],
    shared: Mapping[str, Any],
) -> list[Setting]:
    """Return the settings to try on a table; `shared` are parameters of all of them."""
    settings = list(settings) if isinstance(settings, Iterable) else []
    if not settings or not all(isinstance(setting, Mapping) for setting in settings):
        raise ValueError(
            "settings must be a list of dicts with parameters of SNFRegressor, at least one."
        )
    checked = []
    for i, setting in enumerate(settings):
        try:
            checked.append(_checked_setting(setting, shape, shared))
        except ValueError as error:
            raise ValueError(f"settings[{i}]: {error}") from error
    return checked


def _checked_setting(
    setting: Mapping[str, Any],
    shape: tuple[int, ...],
    shared: Mapping[str, Any],
) -> Setting:
    for name in setting:
        _check_name(name)
    stops = _checked_stops(setting.get("max_iter", SNFRegressor().max_iter))
    model = SNFRegressor(**{**shared, **setting, "max_iter": stops[-1]})
    check_parameters(model)
    model._check_shape(shape)
    return Setting(model, stops)


def _check_name(name: Any) -> None:
    """Raise if a setting cannot choose a parameter."""
    choices = f"A setting may contain: {', '.join(sorted(TRIED))}."
    if name in SHARED:
        raise ValueError(
            f"{name} is the same for all settings: give it to SNFRegressorCV. {choices}"
        )
    if name in UNUSED:
        raise ValueError(f"{name} has no use while settings are tried: leave it out. {choices}")
    choose(name, TRIED, "parameter")


def _checked_stops(max_iter: Any) -> tuple[int, ...]:
    """Return the numbers of iterations at which a descent is evaluated, in their order."""
    stops = [max_iter]
    if isinstance(max_iter, Sequence) and not isinstance(max_iter, str):
        stops = list(max_iter)
    if not stops or not all(isinstance(stop, int | np.integer) and stop >= 0 for stop in stops):
        raise ValueError(
            f"max_iter must be a whole number >= 0, or one or more of them, got {max_iter!r}."
        )
    if len(stops) > 1 and any(stop % STRETCH for stop in stops):
        raise ValueError(
            f"Several max_iter of a setting must be multiples of {STRETCH}, got {sorted(stops)}."
        )
    return tuple(sorted(set(stops)))
