"""Denoising spectra with a second, exact measurement of the same samples.

100 mixtures of four substances are measured twice: by forty exact sensors, and by a spectrometer
with much noise. Both views have the same codes, the amounts. The spectra are denoised once alone
and once together with the sensors; the strength is chosen by held-out entries of the spectra, so
that the exact view does not determine it for the noisy one.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _show import show

from regfactor import ConvexSubspace, TwoViewSubspace

SAMPLES, SENSORS, CHANNELS, SUBSTANCES = 100, 40, 80, 4
LEVELS = (0.5, 1.0, 2.0)
LOOKED_AT = 1.0
STRENGTHS = np.geomspace(2, 60, 7)


def draw(seed: int, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sensors, noisy spectra, and the spectra as they should be."""
    rng = np.random.default_rng(seed)
    amounts = rng.gamma(2.0, 0.5, (SAMPLES, SUBSTANCES))
    place, width = (
        rng.uniform(5, CHANNELS - 5, (SUBSTANCES, 3, 1)),
        rng.uniform(2, 6, (SUBSTANCES, 3, 1)),
    )
    peaks = np.exp(-(((np.arange(CHANNELS) - place) / width) ** 2)).sum(axis=1)
    sensors = amounts @ rng.uniform(0, 1, (SUBSTANCES, SENSORS)) + 0.02 * rng.normal(
        size=(SAMPLES, SENSORS)
    )
    spectra = amounts @ peaks
    return sensors, spectra + noise * rng.normal(size=spectra.shape), spectra


def chosen(fit: Callable[[float, np.ndarray], np.ndarray], noisy: np.ndarray) -> np.ndarray:
    """Denoise at the strength that best predicts a held-out tenth of the noisy entries."""
    # the largest may leave none, and are not chosen then
    warnings.filterwarnings("ignore", ".*has no component")
    hidden = np.random.default_rng(1).random(noisy.shape) < 0.1
    seen = np.where(hidden, np.nan, noisy)
    errors = [np.square((fit(alpha, seen) - noisy)[hidden]).mean() for alpha in STRENGTHS]
    return fit(STRENGTHS[int(np.argmin(errors))], noisy)


def denoised(sensors: np.ndarray, noisy: np.ndarray) -> dict[str, np.ndarray]:
    """The spectra by themselves, and together with the sensors."""

    def alone(alpha: float, seen: np.ndarray) -> np.ndarray:
        scale = np.nanstd(seen)
        model = ConvexSubspace(alpha=alpha, scale=False, tol=1e-3).fit(seen / scale)
        return scale * model.inverse_transform(model.codes_)

    def both(alpha: float, seen: np.ndarray) -> np.ndarray:
        model = TwoViewSubspace(alpha, loss="squared", tol=1e-3).fit(sensors, seen)
        return model.denoise(sensors, seen, keep=False)[1]

    return {"alone": chosen(alone, noisy), "with the sensors": chosen(both, noisy)}


def error(found: np.ndarray, spectra: np.ndarray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean((found - spectra) ** 2)))


def example() -> tuple[str, Any]:
    """Compare at several levels of noise, and look at one spectrum."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 3.6), layout="constrained", width_ratios=[2, 1]
    )
    errors: dict[str, list[float]] = {}
    for level in LEVELS:
        sensors, noisy, spectra = draw(0, level)
        found = {"as measured": noisy, **denoised(sensors, noisy)}
        for name, values in found.items():
            errors.setdefault(name, []).append(error(values, spectra))
        if level == LOOKED_AT:
            left.plot(spectra[0], color="0.7", linewidth=6, label="as it should be")
            left.plot(noisy[0], "k.", markersize=5, label="as measured")
            for name in ("alone", "with the sensors"):
                left.plot(found[name][0], label=f"denoised {name}")
    left.set(xlabel="channel", title=f"one spectrum, noise {LOOKED_AT:g}")
    left.legend(frameon=False)
    for name, line in errors.items():
        right.plot(LEVELS, line, "o-", label=name)
    right.set(
        xlabel="noise", ylabel="root mean square error", title=f"{SAMPLES} spectra", ylim=(0, None)
    )
    right.legend(frameon=False)
    lines = [
        f"{SAMPLES} noisy spectra of {CHANNELS} channels, with {SENSORS} exact sensors of the same "
        "samples."
    ]
    for level, alone, both in zip(LEVELS, errors["alone"], errors["with the sensors"], strict=True):
        change = f"{abs(1 - both / alone):.0%} {'less' if both < alone else 'more'}"
        lines.append(
            f"Noise {level:g}: error {alone:.3f} denoised alone, {both:.3f} with the sensors, "
            f"{change}."
        )
    return "\n".join(lines), figure


if __name__ == "__main__":
    show(__file__, example)
