"""Estimate the effect of a law on one state by completing the panel that the law left incomplete.

Generated data with the structure of the panel of California's tobacco law: 39 states, the years
1970 to 2000, a law in one of them from 1989 on. What that state would have done without the law is
missing; states and years have free offsets, and what they do not explain is low in rank (Athey et
al. 2021). Placebos give the error: every other state is treated as if it had the law.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parent))
from _show import show

from regfactor import ConvexSubspace

N_STATES, FIRST_YEAR, LAST_YEAR, LAW = 39, 1970, 2000, 1989
YEARS = np.arange(FIRST_YEAR, LAST_YEAR + 1)
AFTER = YEARS >= LAW
LEVEL = 0.9
N_PANELS = 12  # on which the errors are compared


@dataclass
class Panel:
    """Packs sold by state and year, the first state under the law, and the true effect."""

    packs: np.ndarray
    effect: np.ndarray


def make_panel(seed: int) -> Panel:
    """States and years with offsets, two common trends that states follow differently, and noise."""
    random = np.random.default_rng(seed)
    n, t = N_STATES, len(YEARS)
    states = 25 * random.normal(size=(n, 1))
    years = 120 - 0.08 * (YEARS - 1975) ** 2
    walk = np.cumsum(random.normal(size=t))
    trends = np.outer(2.4 * random.normal(size=n), walk)
    trends += np.outer(3 * random.normal(size=n), np.sin((YEARS - FIRST_YEAR) / 6))
    noise = 2 * random.normal(size=(n, t))
    for year in range(1, t):
        noise[:, year] += 0.6 * noise[:, year - 1]
    packs = states + years + trends + noise
    effect = np.where(AFTER, -1.8 * (YEARS - LAW + 1), 0.0)
    packs[0] += effect
    return Panel(packs, effect)


def estimate(packs: np.ndarray, state: int, **options: object) -> tuple[np.ndarray, ConvexSubspace]:
    """Return what a state sold less what it would have sold without the law, and the model."""
    without_law = packs.copy()
    without_law[state, AFTER] = np.nan
    model = ConvexSubspace(scale=False, random_state=0, **options).fit(without_law)
    return packs[state] - model.complete(without_law)[state], model


def placebo_errors(packs: np.ndarray, alpha: float) -> np.ndarray:
    """Return the effects found in states without a law, which are errors, by state and year."""
    others = packs[1:]
    return np.array(
        [
            estimate(others, state, row_effects=True, alpha=alpha)[0][AFTER]
            for state in range(len(others))
        ]
    )


def half_width(errors: np.ndarray) -> np.ndarray:
    """Return the conformal quantile of absolute errors: it covers if states are exchangeable."""
    rank = int(np.ceil((len(errors) + 1) * LEVEL)) - 1
    return np.sort(np.abs(errors), axis=0)[rank]


def compared() -> tuple[dict[str, float], float]:
    """Return the error of the effect by three models, and how often the limits cover it."""
    squares: dict[str, list[float]] = {
        "offsets of states and years, and low rank": [],
        "offsets of years, and low rank": [],
        "offsets alone (differences in differences)": [],
    }
    covered = []
    for seed in range(N_PANELS):
        panel = make_panel(seed)
        found, model = estimate(panel.packs, 0, row_effects=True)
        years_only, _ = estimate(panel.packs, 0)
        just_below = 0.999 * model.alpha_max_  # from alpha_max_ on there is a warning
        offsets_only, _ = estimate(panel.packs, 0, row_effects=True, alpha=just_below)
        for errors, effect in zip(squares.values(), (found, years_only, offsets_only), strict=True):
            errors.append(float(np.mean((effect - panel.effect)[AFTER] ** 2)))
        width = half_width(placebo_errors(panel.packs, model.alpha_))
        covered.append(np.mean(np.abs(found - panel.effect)[AFTER] <= width))
    rms = {name: float(np.sqrt(np.mean(errors))) for name, errors in squares.items()}
    return rms, float(np.mean(covered))


def picture(panel: Panel, found: np.ndarray, width: np.ndarray) -> Figure:
    """Sales with and without the law, and the effect between its limits."""
    figure = Figure(figsize=(10, 4))
    sales, effects = figure.subplots(1, 2)
    sales.plot(YEARS, panel.packs[1:].T, color="0.85", lw=0.8)
    sales.plot(YEARS, panel.packs[0], color="C0", label="with the law")
    sales.plot(YEARS, panel.packs[0] - found, "--", color="C1", label="estimated without it")
    sales.axvline(LAW - 0.5, color="0.5", lw=0.8)
    sales.set(xlabel="year", ylabel="packs per head")
    sales.legend()
    at = YEARS[AFTER]
    effects.fill_between(
        at, found[AFTER] - width, found[AFTER] + width, color="C1", alpha=0.3, label="90 % limits"
    )
    effects.plot(at, found[AFTER], color="C1", label="estimate")
    effects.plot(at, panel.effect[AFTER], color="k", ls=":", label="truth")
    effects.axhline(0, color="0.5", lw=0.8)
    effects.set(xlabel="year", ylabel="effect of the law")
    effects.legend()
    return figure


def example() -> tuple[str, Figure]:
    """Estimate the effect in one panel, and compare three models on several."""
    panel = make_panel(0)
    found, model = estimate(panel.packs, 0, row_effects=True)
    placebos = placebo_errors(panel.packs, model.alpha_)
    width = half_width(placebos)
    mean = found[AFTER].mean()
    mean_width = half_width(placebos.mean(axis=1))
    errors, covered = compared()
    lines = [
        f"Mean effect of the law: {mean:.1f} packs, 90 % limits {mean - mean_width:.1f} to "
        f"{mean + mean_width:.1f}; the truth is {panel.effect[AFTER].mean():.1f}.",
        str(model.certificate_),
        f"Error of the effect of a year, {N_PANELS} panels (root mean square):",
        *[f"  {error:5.1f}  {name}" for name, error in errors.items()],
        f"The limits of single years cover the truth in {covered:.0%} of the years.",
    ]
    return "\n".join(lines), picture(panel, found, width)


if __name__ == "__main__":
    show(__file__, example)
