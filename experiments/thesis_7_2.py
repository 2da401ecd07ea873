"""White's thesis (2014), table 7.2: sea surface temperatures, 3 x 3 locations at a time, the last tenth forecast."""

from __future__ import annotations

import functools

import numpy as np

from experiments._forecasts import Case, Forecasts, Source
from experiments._series import Search
from regfactor import datasets

SIDE = 3  # locations on each side of a patch
SETS = {  # columns of the grid, side of the area
    "sst_pacific_cac_anom": (84, 30),
    "sst_pacific_cobe2": (84, 30),
    "sst_atlantic_cobe2": (22, 9),
}
SEARCH = Search(orders=(1, 2, 3, 6, 12), factor_lags=2)
PACIFIC = {
    "MEAN": (4.92, 0.17, 1.0),
    "N4SID": (2.6, 0.35, 1.0),
    "EM-Kalman": (2.43, 0.26, 1.0),
    "HSE-HMM": (7637.0, 1433.0, 0.88),
    "AR(AICc)": (1.71, 0.31, 1.0),
    "AR(BIC)": (3.0, 0.27, 1.0),
    "HR(AICc)": (101.0, 42.9, 1.0),
    "HR(BIC)": (107.0, 49.3, 1.0),
    "RARMA, tuned": (1.53, 0.27, 1.0),
}
ATLANTIC = {
    "MEAN": (5.03, 0.39, 1.0),
    "N4SID": (2.1, 0.98, 1.0),
    "EM-Kalman": (2.33, 0.66, 1.0),
    "HSE-HMM": (1.63, 0.53, 1.0),
    "AR(AICc)": (0.85, 0.37, 1.0),
    "AR(BIC)": (2.99, 0.81, 1.0),
    "HR(AICc)": (6.8, 2.85, 1.0),
    "HR(BIC)": (6.8, 2.85, 1.0),
    "RARMA, tuned": (0.8, 0.35, 1.0),
}
# patches that are all sea
COUNTS = {
    "sst_pacific_cac_anom": 79,
    "sst_pacific_cobe2": 79,
    "sst_atlantic_cobe2": 9,
}
ROWS = {"sst_pacific_cac_anom": 399, "sst_pacific_cobe2": 399, "sst_atlantic_cobe2": 564}


@functools.cache
def patches(name: str) -> np.ndarray:
    """Return the series of the patches that are all sea, (patches, months, 9), in random order.

    Columns run west to east, then north. The first patches of a shorter run lie anywhere.
    """
    X = datasets.load(name).data
    across, side = SETS[name]
    if name.startswith("sst_pacific"):
        grid = datasets.load("sst_pacific_grid")
        X = np.where(grid.data[:, grid.feature_names.index("land")].astype(float) > 0, np.nan, X)
    area = X.reshape(len(X), -1, across)[:, :side, :side]
    k = side // SIDE
    cut = (
        area.reshape(len(X), k, SIDE, k, SIDE)
        .transpose(1, 3, 0, 2, 4)
        .reshape(k * k, len(X), SIDE * SIDE)
    )
    sea = cut[~np.isnan(cut).any(axis=(1, 2))]
    return sea[np.random.default_rng(0).permutation(len(sea))]


def draw(name: str, i: int) -> Case:
    """Return a patch, every location with mean 0 and deviation 1 over the months that are seen."""
    X = patches(name)[i]
    seen = int(0.9 * len(X))
    center, spread = X[:seen].mean(axis=0), X[:seen].std(axis=0)
    return Case((X[:seen] - center) / spread, (X[seen:] - center) / spread)


def source(name: str) -> Source:
    """Return one set of patches."""
    ahead = ROWS[name] - int(0.9 * ROWS[name])
    _, side = SETS[name]
    protocol = (
        f"The first {side} x {side} locations in patches of {SIDE} x {SIDE}, land left out, "
        f"{COUNTS[name]} patches in random order: {ROWS[name] - ahead} months seen, one forecast "
        f"of the next {ahead}."
    )
    columns = (1, 6, 12, 30, ahead)
    return Source(
        name, lambda i: draw(name, i), protocol, range(1, ahead + 1), columns, COUNTS[name], SEARCH
    )


EXPERIMENT = Forecasts(
    title="forecasts of sea surface temperatures (White 2014, table 7.2)",
    sources=[source(name) for name in SETS],
    printed={name: ATLANTIC if "atlantic" in name else PACIFIC for name in SETS},
    notes=(
        "Printed numbers, divided by the printed MEAN, are to be held against the last "
        "column; the thesis' files were not found. `sst_pacific_cac_anom` has its grid and "
        "months but anomalies, without seasons; `sst_pacific_cobe2` the same grid with "
        "seasons from another analysis; `sst_atlantic_cobe2` a box of the same shape and "
        "length. Neighboring patches are alike, so that standard errors and p are too small. "
        "Orders up to 12 months are tried; the autoregression of EM-Kalman's factors has two lags."
    ),
)
