"""Public tables with hidden entries: filled better than by the mean or mode, IterativeImputer and KNNImputer."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from regfactor import SubspaceImputer
from regfactor.fitting.schema import Schema

FOLDER = os.environ.get("REGFACTOR_DATA")
TABLES = ["bodyfat", "wpbc", "wbc", pytest.param("baseball_hitters_all", marks=pytest.mark.slow)]
needs_data = pytest.mark.skipif(
    not FOLDER or not Path(FOLDER, "wpbc.csv.gz").exists(),
    reason="REGFACTOR_DATA names no folder with the public tables (the Makefile sets it when ../shared/data exists)",
)


def load(name):
    """A table with the types that its columns mean: strings are categories, grades of 1 to 10 are ordered."""
    frame = pd.read_csv(Path(FOLDER) / f"{name}.csv.gz")
    if name == "wbc":
        grades = frame.drop(columns=["sample_id", "target"])
        ordered = {
            c: pd.CategoricalDtype(sorted(grades[c].dropna().unique()), ordered=True)
            for c in grades
        }
        return grades.astype(ordered).assign(
            target=(frame["target"] == frame["target"].max()).astype("boolean")
        )
    return frame.astype(
        {c: float if pd.api.types.is_numeric_dtype(frame[c]) else "category" for c in frame}
    )


def kind(column):
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "ordered" if column.dtype.ordered else "unordered"
    return "boolean" if column.dtype.kind == "b" else "numeric"


def by_mean_or_mode(frame):
    """Numbers by their mean, ordered categories by their median, all others by what is most frequent."""
    plain = frame.copy()
    for name, column in frame.items():
        if kind(column) == "ordered":
            codes = column.cat.codes
            plain[name] = column.fillna(column.cat.categories[int(codes[codes >= 0].median())])
        else:
            plain[name] = column.fillna(
                column.mean() if kind(column) == "numeric" else column.mode()[0]
            )
    return plain


def by_peer(peer, frame):
    """Peers see categories as 0 and 1, ordered ones as 0, 1, ..., and what is not 0 and 1 standardized."""
    schema = Schema.of(frame, {name: "squared" for name in frame if kind(frame[name]) == "ordered"})
    E = schema.encode(frame)
    scale = np.where(np.isin(np.nan_to_num(E), (0.0, 1.0)).all(axis=0), 1.0, np.nanstd(E, axis=0))
    return schema.decode(peer.fit_transform(E / scale) * scale, frame)


def misses(truth, filled, hidden):
    """By kind: squared errors in units of the variance, distances in levels, wrong labels."""
    found = {}
    for j, name in enumerate(truth):
        a, b = (frame[name][hidden[:, j]] for frame in (truth, filled))
        match kind(truth[name]):
            case "numeric":
                miss = ((a - b) / truth[name].std()).to_numpy() ** 2
            case "ordered":
                miss = np.abs(a.cat.codes.to_numpy(int) - b.cat.codes.to_numpy(int))
            case _:
                miss = a.to_numpy() != b.to_numpy()
        found.setdefault(kind(truth[name]), []).append(miss)
    return {k: np.concatenate(parts).mean() for k, parts in found.items()}


@needs_data
@pytest.mark.filterwarnings("ignore:.*IterativeImputer.*|.*early stopping criterion.*")
@pytest.mark.parametrize("name", TABLES)
def test_hidden_entries_of_every_kind_are_predicted_best(name):
    """All tables tried, of all types of columns, are in benchmarks/results/mixed.md; not all of them are won."""
    truth, errors = load(name), {}
    for seed in range(3):
        hidden = (np.random.default_rng(seed).random(truth.shape) < 0.2) & truth.notna().to_numpy()
        frame = truth.mask(hidden)
        ours = SubspaceImputer("auto", alpha="auto", debias="prior", random_state=seed)
        filled = {"ours": ours.fit_transform(frame), "plain": by_mean_or_mode(frame)}
        for who, peer in {
            "iterative": IterativeImputer(random_state=seed),
            "neighbors": KNNImputer(),
        }.items():
            filled[who] = by_peer(peer, frame)
        for who, table in filled.items():
            for of, error in misses(truth, table, hidden).items():
                errors.setdefault(of, {}).setdefault(who, []).append(error)
    for of, by in errors.items():
        means = {who: np.mean(values) for who, values in by.items()}
        assert all(means["ours"] < means[who] for who in means if who != "ours"), (of, means)
