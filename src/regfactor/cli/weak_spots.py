"""Where a result may be wrong: columns that it says little about, and rows it is not sure of."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.cli.columns import NUMBER, Understood
from regfactor.cli.errors import count, listed
from regfactor.cli.rows_to_see import rows_grid
from regfactor.core.params import Array, frozen
from regfactor.report import Grid, Section, Text, number

LITTLE = 0.05  # share of the variance of a column that is little
NEARLY_EQUAL = 1.1  # ratio of the strengths of patterns up to which they may mix
SMALL_CLUSTER = 3  # rows up to which a cluster may be a few outliers
UNSURE = 0.2  # lead of a cluster over the next, from 0 to 1, up to which a row may be in either
MOST_ROWS = 100  # that are listed


@frozen
class WeakSpots:
    """Sentences on what may be wrong, and the rows to look at first.

    `record` holds the same for JSON; rows are numbered from one.
    """

    sentences: list[str]
    rows: Grid | None
    record: dict[str, Any]

    @property
    def text(self) -> str:
        """All sentences, or that nothing was found."""
        if not self.sentences:
            return "Nothing stands out as doubtful."
        return " ".join(self.sentences)

    @property
    def section(self) -> Section:
        """The section of a report."""
        blocks: list[Any] = [Text(self.text)]
        if self.rows is not None:
            blocks.append(self.rows)
        return Section("Where it may be wrong", blocks)


def of_clusters(seen: Understood, labels: Array, sureness: Array, what: str) -> WeakSpots:
    """Return small clusters, columns in which they hardly differ, and the least sure rows.

    `sureness` is between 0, as near to another cluster, and 1; `what` names it.
    """
    sentences = []
    names, sizes = np.unique(labels, return_counts=True)
    small = [f"cluster {name + 1}" for name in names[sizes <= SMALL_CLUSTER]]
    if small and len(names) > 1:
        sentences.append(
            f"At most {count(SMALL_CLUSTER, 'row')} in {listed(small)}: outliers, rather than a "
            "group."
        )
    weak = []
    if len(names) > 1:
        weak = _columns_below(seen, _means_of_groups(seen, labels))
    if weak:
        sentences.append(
            f"Clusters hardly differ in {listed(weak)}, which may hide groups in other columns; "
            "--ignore leaves columns out."
        )
    unsure = np.flatnonzero(sureness < UNSURE)
    if len(unsure):
        rows = "row lies" if len(unsure) == 1 else "rows lie"
        sentences.append(f"{len(unsure):,} {rows} about as near to another cluster.")
    unsure = unsure[np.argsort(sureness[unsure], kind="stable")]
    lines = [
        (int(i), [str(labels[i] + 1), number(float(sureness[i]), 2)]) for i in unsure[:MOST_ROWS]
    ]
    rows_to_see = None
    if lines:
        caption = f"The rows that are least sure of their cluster ({what})."
        rows_to_see = rows_grid(seen, ("cluster", "sureness"), lines, caption)
    record = {
        "small_clusters": names[sizes <= SMALL_CLUSTER] + 1,
        "weak_columns": weak,
        "unsure_rows": unsure + 1,
    }
    return WeakSpots(sentences, rows_to_see, record)


def of_patterns(seen: Understood, model: Any, codes: Array) -> WeakSpots:
    """Return columns that codes hardly describe, patterns that may mix, and nearly empty rows."""
    dimensions = codes.shape[1]
    sentences = []
    weak = []
    strengths = np.asarray(model.singular_values_, float)
    if len(strengths):
        all_codes = np.zeros((len(codes), len(strengths)))
        all_codes[:, :dimensions] = codes
        predicted = model.inverse_transform(all_codes)
        weak = _columns_below(seen, _predictions_by_column(seen, model, predicted))
    if weak:
        sentences.append(
            f"The codes say next to nothing of {listed(weak)} (at most {LITTLE:.0%} of the "
            "variance): rows with equal codes may differ there."
        )
    mixing = []
    for j in range(min(dimensions, len(strengths) - 1)):
        if strengths[j] < NEARLY_EQUAL * strengths[j + 1]:
            mixing.append(f"{j + 1} and {j + 2}")
    if mixing:
        sentences.append(
            f"Patterns {listed(mixing)} are nearly equally strong: with other rows they may turn "
            "into each other."
        )
    observed = (~seen.missing[[c.name for c in seen.inputs]]).sum(axis=1).to_numpy()
    sparse = np.flatnonzero(observed <= dimensions)
    if len(sparse):
        rows = "row has" if len(sparse) == 1 else "rows have"
        sentences.append(
            f"{len(sparse):,} {rows} no more cells than codes, and lie nearer to the center than "
            "they belong."
        )
    few = [(int(i), [str(observed[i])]) for i in sparse[:MOST_ROWS]]
    rows_to_see = None
    if few:
        caption = "Rows with few cells, whose codes are the least certain."
        rows_to_see = rows_grid(seen, ("cells observed",), few, caption)
    record = {"weak_columns": weak, "mixing_patterns": mixing, "sparse_rows": sparse + 1}
    return WeakSpots(sentences, rows_to_see, record)


def _means_of_groups(seen: Understood, labels: Array) -> dict[str, Array]:
    """Return each column of numbers as the means of its groups."""
    names = seen.of_kind(NUMBER)
    means = seen.frame[names].astype(float).groupby(labels).transform("mean")
    return {name: means[name].to_numpy() for name in names}


def _predictions_by_column(seen: Understood, model: Any, predicted: Array) -> dict[str, Array]:
    """Return each column of numbers as the patterns describe it."""
    if model._schema is not None:
        places = list(model._schema.feature_names)
    else:
        places = list(model.feature_names_in_)
    names = [name for name in seen.of_kind(NUMBER) if name in places]
    return {name: predicted[:, places.index(name)] for name in names}


def _columns_below(seen: Understood, described: dict[str, Array]) -> list[str]:
    """Return the columns of whose variance a description explains no more than a little."""
    found = []
    for name, column in described.items():
        values = seen.frame[name].to_numpy(dtype=float, na_value=np.nan)
        known = ~np.isnan(values)
        spread = float(np.square(values[known] - values[known].mean()).sum())
        rest = float(np.square(values[known] - column[known]).sum())
        if spread > 0 and rest >= (1 - LITTLE) * spread:
            found.append(name)
    return found
