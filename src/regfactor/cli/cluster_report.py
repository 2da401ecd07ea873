"""Parts of the reports of `regfactor cluster` that do not depend on how clusters were found."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.decomposition import PCA, TruncatedSVD

from regfactor.cli.columns import CATEGORY, FLAG, NUMBER, Understood
from regfactor.cli.errors import BadInput
from regfactor.cli.job import quiet
from regfactor.cli.tables import Table
from regfactor.core.params import Array
from regfactor.report import Figure, Grid, number
from regfactor.report.figures import bars, cloud, ordered_rows

MOST_MEANS = 8  # columns of numbers of which means are listed
MOST_WORDS = 6  # columns of categories


def check_number(seen: Understood, clusters: int | None, different: int) -> None:
    """Raise if there are too few different rows for the clusters that were asked for."""
    if clusters is not None and not 1 <= clusters <= different:
        raise BadInput(
            f"--clusters is {clusters}; it must lie between 1 and {different}, the number of "
            "different rows."
        )
    if different < 3 and clusters is None:
        raise BadInput(
            f"{seen.table.name} has {different} different rows, too few to find groups in; "
            "give --clusters."
        )


def sizes_in_words(sizes: Array) -> str:
    """Return 108, 20 and 3."""
    *first, last = [f"{n:,}" for n in sizes]
    if first:
        return f"{', '.join(first)} and {last}"
    return last


def with_distances(table: Table, labels: Array, distances: Array) -> Any:
    """Return the user's table with the cluster of each row and the distance to its center."""
    own = distances[np.arange(len(labels)), labels]
    return table.with_columns({"cluster": labels + 1, "cluster_distance": table.column(own)})


def with_probabilities(table: Table, shares: Array) -> Any:
    """Return the user's table with the most probable cluster of each row and its probability."""
    columns = {
        "cluster": shares.argmax(axis=1) + 1,
        "cluster_probability": table.column(shares.max(axis=1)),
    }
    return table.with_columns(columns)


def plane_figure(E: Any, labels: Array) -> list[Any]:
    """Return a figure of encoded rows on a plane; none of a single column or of few rows."""
    if E.shape[1] < 2 or E.shape[0] < 3:
        return []
    x, y = _plane(E).T
    groups = [f"cluster {g}" for g in labels + 1]
    svg = cloud(x, y, groups, ("first principal direction", "second"))
    return [Figure(svg, "Rows on the plane in which they differ most, by cluster.")]


def contents(seen: Understood, labels: Array) -> list[Any]:
    """Return what the clusters hold: sizes, ordered rows, means and most frequent values."""
    names = [f"cluster {g}" for g in np.unique(labels) + 1]
    counts = np.bincount(labels)
    svg = bars(names, counts[counts > 0], "rows")
    blocks: list[Any] = [Figure(svg, "How many rows each cluster has.")]
    numbers = seen.of_kind(NUMBER)
    if len(numbers) > 1:
        values = seen.frame[numbers].to_numpy(dtype=float)
        svg = ordered_rows(values, labels + 1, numbers)
        caption = (
            "Rows in the order of their clusters: a column is darker where its number ranks higher "
            "among all rows. Columns that change at the lines tell clusters apart."
        )
        blocks.append(Figure(svg, caption))
    listed = numbers[:MOST_MEANS]
    if listed:
        groups = seen.frame[listed].groupby(labels + 1)
        lines = []
        means = groups.mean().to_numpy()
        spreads = groups.std(ddof=0).to_numpy()
        for g, mean, spread in zip(groups.groups, means, spreads, strict=True):
            entries = [f"{number(m)} ± {number(s)}" for m, s in zip(mean, spread, strict=True)]
            lines.append((str(g), f"{counts[g - 1]:,}", *entries))
        head = ("cluster", "rows", *listed)
        blocks.append(Grid(head, lines, "Means of the numbers in each cluster ± deviations."))
    words = seen.of_kind(CATEGORY, FLAG)[:MOST_WORDS]
    if words:
        lines = []
        for g, part in seen.frame.groupby(labels + 1):
            lines.append((str(g), *(_most_frequent(part[name]) for name in words)))
        caption = "The most frequent value in each cluster, and its share."
        blocks.append(Grid(("cluster", *words), lines, caption))
    return blocks


def _most_frequent(cells: Any) -> str:
    """Return the most frequent value and its share of the cells that hold one."""
    shares = cells.value_counts(normalize=True)
    if len(shares) and shares.iloc[0] > 0:
        return f"{shares.index[0]} ({shares.iloc[0]:.0%})"
    return "–"


def _plane(E: Any) -> Array:
    with quiet():
        if hasattr(E, "tocsr"):
            reduce = TruncatedSVD(2, random_state=0)
        else:
            reduce = PCA(2, random_state=0)
        return np.asarray(reduce.fit_transform(E))
