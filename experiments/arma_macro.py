"""Economic series: growth rates forecast from many origins, every model fitted anew at each."""

from __future__ import annotations

import functools

import numpy as np

from experiments._forecasts import Case, Forecasts, Source
from experiments._series import METHODS, OURS, Search, varmax
from experiments.arma_short import ridge_var, true_arma
from regfactor import datasets

HORIZONS = (1, 2, 4, 8)
LOGS = (
    "realgdp",
    "realcons",
    "realinv",
    "realgovt",
    "realdpi",
    "cpi",
    "m1",
    "invest",
    "income",
    "cons",
    "aud",
    "gbp",
    "cad",
    "chf",
    "jpy",
    "nzd",
    "sgd",
)
LEVELS = ("tbilrate", "unemp", "e", "prod", "rw", "u")  # rates, and what is a logarithm already
# first origin, last origin, step, rows that are seen (None: all), of the differenced series
ORIGINS = {
    "us_macro": (120, 194, 4, None),
    "canada_macro": (48, 75, 3, None),
    "lutkepohl_e1": (48, 83, 3, None),
    "exchange_rate": (1000, 7500, 500, 1000),
}
PROTOCOLS = {
    "us_macro": (
        "Nine quarterly series from 1959 (population, and two that follow from others, are "
        "left out)."
    ),
    "canada_macro": "Employment, productivity, real wage and unemployment, quarterly from 1980.",
    "lutkepohl_e1": "West German investment, income and consumption, quarterly from 1960.",
    "exchange_rate": (
        "Seven daily exchange rates (the pegged one is left out); the last 1000 days are seen."
    ),
}
SLOW = {
    "us_macro": ("VARMAX(1, 1)",),
    "canada_macro": (),
    "lutkepohl_e1": (),
    "exchange_rate": ("VARMAX(1, 1)", "HSE-HMM", "EM-Kalman"),
}


@functools.cache
def growth(name: str) -> np.ndarray:
    """Return the differences of the series, of their logarithms where they are levels of something that grows."""
    bunch = datasets.load(name)
    columns = dict(zip(bunch.feature_names, bunch.data.T, strict=True))
    kept = [np.log(v) if c in LOGS else v for c, v in columns.items() if c in LOGS or c in LEVELS]
    return np.diff(np.column_stack(kept), axis=0)


def draw(name: str, i: int) -> Case:
    """Return what is seen at an origin and what follows, in deviations of what is seen."""
    first, _, step, window = ORIGINS[name]
    X, origin = growth(name), first + i * step
    past, future = (
        X[max(origin - (window or origin), 0) : origin],
        X[origin : origin + max(HORIZONS)],
    )
    center, spread = past.mean(axis=0), past.std(axis=0)
    return Case((past - center) / spread, (future - center) / spread)


def source(name: str) -> Source:
    """Return the origins of one data set."""
    first, last, step, window = ORIGINS[name]
    count = (last - first) // step + 1
    protocol = (
        f"{PROTOCOLS[name]} {count} origins, {step} rows apart, the first after {first} rows."
    )
    most = (1, 2, 3, 4) if name == "us_macro" else (1, 2, 3, 4, 6)
    return Source(
        name,
        lambda i: draw(name, i),
        protocol,
        HORIZONS,
        HORIZONS,
        count,
        Search(orders=most, lags=(1, 2)),
        independent=step >= max(HORIZONS),
        without=SLOW[name],
    )


EXPERIMENT = Forecasts(
    title="growth rates of economic series, with and without the moving average",
    sources=[source(name) for name in ORIGINS],
    methods={
        **METHODS,
        "ridge VAR(1)": ridge_var,
        "RARMA(1, 1)": true_arma,
        "VARMAX(1, 1)": varmax,
    },
    notes=(
        "No table of the thesis. Differences of the series (of logarithms where they are "
        "levels), in units of their deviation over the rows seen; MEAN of differences is the "
        "random walk with drift. Models and their settings are chosen and fitted anew at "
        "every origin. ridge VAR(1) and RARMA(1, 1) have ridge 1e-3 and shrinkage 0.1. statsmodels' "
        "VARMAX(1, 1), at most 50 iterations, on the small sets."
    ),
    pairs=(
        (OURS, "RARMA(1, 1)"),
        (OURS, "AR(BIC)"),
        ("RARMA(1, 1)", "ridge VAR(1)"),
        ("RARMA, tuned", "ridge VAR, tuned"),
        ("RARMA(1, 1)", "MEAN"),
        ("RARMA(1, 1)", "AR(BIC)"),
        ("RARMA(1, 1)", "VARMAX(1, 1)"),
    ),
)
