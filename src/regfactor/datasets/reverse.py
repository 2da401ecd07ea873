"""Data generated in reverse: targets first, then inputs X = f^-1(Y U + noise) for a transfer f.

White & Schuurmans (2012, section 7) and White's thesis (6.1) do not specify noise and
distributions: here they are parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state

from regfactor.core.params import Array, choose
from regfactor.losses.potentials import Potential
from regfactor.losses.transfers import as_transfer

Random = np.random.RandomState
Distribution = str | Callable[[Random, tuple[int, int]], Array]

DISTRIBUTIONS: dict[str, Callable[[Random, tuple[int, int]], Array]] = {
    "normal": lambda random, size: random.standard_normal(size),
    "absolute": lambda random, size: np.abs(random.standard_normal(size)),
    "lognormal": lambda random, size: np.exp(2 * random.standard_normal(size)),
    "uniform": lambda random, size: random.uniform(size=size),
    "simplex": lambda random, size: normalize(random.uniform(size=size), "l1"),
}
NOISE_IN = {"mean": True, "data": False}


@dataclass(frozen=True)
class RegressionDesign:
    """Parameters of the generator for regression.

    `noise` is the standard deviation of Gaussian noise, added to Y U (`noise_in="mean"`, as the
    papers write) or to f^-1(Y U) (`"data"`). `targets` and `components` are the distributions of Y
    and U: "normal", "absolute" (of a normal), "lognormal" (e^2N), "uniform", or a function of a
    RandomState and a shape.
    """

    n_features: int = 30
    n_targets: int = 5
    transfer: str | Potential = "identity"
    noise: float = 0.0
    noise_in: str = "mean"
    targets: Distribution = "normal"
    components: Distribution = "normal"


@dataclass(frozen=True)
class ClassificationDesign:
    """Parameters of the generator for classification.

    Identity: X = U_y + noise * N. Other transfers: X = f^-1((1 - noise) U_y + noise * V), V
    distributed as U, so that the mixture stays in the range of f ("uniform" for sigmoid, "simplex"
    for softmax, where rows sum to one).
    """

    n_features: int = 30
    n_classes: int = 5
    transfer: str | Potential = "identity"
    noise: float = 1.0
    components: Distribution = "normal"


# Under exp, Y U must be positive, which N(0, 1) does not give. |N| and e^2N were chosen because
# errors then have the magnitude that the papers print.
REGRESSION_PRESETS = {
    "syn-gauss": RegressionDesign(30, 5, "identity"),
    "syn-cubed": RegressionDesign(20, 3, "cube"),
    "syn-exp": RegressionDesign(5, 2, "exp", targets="lognormal", components="absolute"),
}
# The papers give no noise level. These were fitted to the errors in table 2 of the paper; those in
# table 6.3 of the thesis are met best by 1.4, 0.53 and 0.66.
CLASSIFICATION_PRESETS = {
    "syn-gauss": ClassificationDesign(30, 5, "identity", 1.0),
    "syn-sigmoid": ClassificationDesign(10, 3, "sigmoid", 0.57, "uniform"),
    "syn-softmax": ClassificationDesign(10, 3, "softmax", 0.55, "simplex"),
}


def make_reverse_regression(
    n_samples: int = 220,
    preset: str = "syn-gauss",
    *,
    return_components: bool = False,
    random_state: Any = None,
    **choices: Any,
) -> tuple[Array, ...]:
    """Return X = f^-1(Y U + noise) and the targets Y, for semi-supervised regression.

    Parameters
    ----------
    n_samples : int, default=220
        Rows; the papers label 20 of 220.
    preset : {"syn-gauss", "syn-cubed", "syn-exp"}
        The sizes, transfer and distributions of a column of the papers' table.
    return_components : bool, default=False
        Whether U is returned too.
    random_state : int, RandomState or None
        Decides all that is drawn.
    **choices
        Any of `n_features`, `n_targets`, `transfer`, `noise`, `noise_in`, `targets`, `components`
        other than in the preset; see `REGRESSION_PRESETS`.

    Returns
    -------
    X : array of shape (n_samples, n_features)
    Y : array of shape (n_samples, n_targets)
    U : array of shape (n_targets, n_features)
        Only with `return_components=True`.

    Examples
    --------
    >>> X, Y, U = make_reverse_regression(
    ...     preset="syn-cubed", return_components=True, random_state=0
    ... )
    >>> bool(abs(X**3 - Y @ U).max() < 1e-9)
    True
    """
    design = _chosen(choose(preset, REGRESSION_PRESETS, "preset"), choices)
    random = check_random_state(random_state)
    potential = as_transfer(design.transfer)
    Y = _draw(design.targets, random, (n_samples, design.n_targets))
    U = _draw(design.components, random, (design.n_targets, design.n_features))
    inside = choose(design.noise_in, NOISE_IN, "noise_in")
    noise = design.noise * random.standard_normal((n_samples, design.n_features))
    remedy = "Draw positive targets and components, or add the noise with noise_in='data'."
    if inside:
        X = _inverse(potential, Y @ U + noise, remedy)
    else:
        X = _inverse(potential, Y @ U, remedy) + noise
    if return_components:
        return X, Y, U
    return X, Y


def make_reverse_classification(
    n_samples: int = 110,
    preset: str = "syn-gauss",
    *,
    return_components: bool = False,
    random_state: Any = None,
    **choices: Any,
) -> tuple[Array, ...]:
    """Return X = f^-1(mixture of U_y and noise) and uniformly random classes y.

    Parameters
    ----------
    n_samples : int, default=110
        Rows; the papers label 10 of 110.
    preset : {"syn-gauss", "syn-sigmoid", "syn-softmax"}
        The sizes, transfer and distributions of a column of the papers' table; the noise level was
        fitted to it.
    return_components : bool, default=False
        Whether U is returned too.
    random_state : int, RandomState or None
        Decides all that is drawn.
    **choices
        Any of `n_features`, `n_classes`, `transfer`, `noise`, `components` other than in the
        preset; see `CLASSIFICATION_PRESETS`.

    Returns
    -------
    X : array of shape (n_samples, n_features)
    y : array of shape (n_samples,)
    U : array of shape (n_classes, n_features)
        Only with `return_components=True`.

    Examples
    --------
    >>> X, y = make_reverse_classification(preset="syn-softmax", random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((110, 10), [0, 1, 2])
    """
    design = _chosen(choose(preset, CLASSIFICATION_PRESETS, "preset"), choices)
    random = check_random_state(random_state)
    potential = as_transfer(design.transfer)
    y = random.randint(design.n_classes, size=n_samples)
    U = _draw(design.components, random, (design.n_classes, design.n_features))
    V = _draw(design.components, random, (n_samples, design.n_features))
    if np.isfinite([potential.range.low, potential.range.high]).any():
        # a mixture stays in the range, a sum need not
        mean = (1 - design.noise) * U[y] + design.noise * V
    else:
        mean = U[y] + design.noise * V
    remedy = "Choose components with values in that range, and noise from 0 to 1."
    X = _inverse(potential, mean, remedy)
    if return_components:
        return X, y, U
    return X, y


def _chosen(design: Any, choices: dict[str, Any]) -> Any:
    """Return a preset with some of its choices replaced."""
    fields = {name: name for name in design.__dataclass_fields__}
    for name in choices:
        choose(name, fields, "choice")
    return replace(design, **choices)


def _draw(distribution: Distribution, random: Random, size: tuple[int, int]) -> Array:
    if isinstance(distribution, str):
        return choose(distribution, DISTRIBUTIONS, "distribution")(random, size)
    return distribution(random, size)


def _inverse(potential: Potential, mean: Array, remedy: str) -> Array:
    if np.all(potential.range.contains(mean)):
        X = potential.inverse(mean)
        if np.all(np.isfinite(X)):
            return X
    raise ValueError(
        f"{type(potential).__name__.lower()} needs means inside {potential.range}; they reach from "
        f"{mean.min():.3g} to {mean.max():.3g}. {remedy}"
    )
