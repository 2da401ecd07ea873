"""Labeled, unlabeled and test rows: published splits, or random ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from regfactor.core.params import Array, choose, frozen
from regfactor.datasets.tables import find, load, not_found, read

LABELED = "labeled"
UNLABELED = "unlabeled"


@frozen
class Split:
    """Positions of labeled and unlabeled rows, for training, and of test rows."""

    labeled: Array
    unlabeled: Array
    test: Array
    setting: str = ""


def load_splits(name: str, setting: str | int | None = None) -> list[Split]:
    """Return the published splits of a data set.

    Parameters
    ----------
    name : str
        The data set, such as "kin32fh", "ssl_bci" or "wbc_complete"; row numbers are those of
        `load(name)`.
    setting : str or int, default=None
        Which protocol, where several are published: the number of labels (10 or 100) for the
        `ssl_*` sets.

    Returns
    -------
    list of Split
        In the published order. Where only labeled rows are listed, all others are unlabeled and
        none is for tests.
    """
    path = find(name, "splits")
    if path is None:
        columns = "columns setting, split, role and row_indices"
        raise not_found(f"splits/{name}", "The file of splits", columns)
    _, cells = read(path)
    settings = {value: value for value in dict.fromkeys(cells[:, 0].tolist())}
    if setting is None and len(settings) > 1:
        raise ValueError(
            f"Splits of {name!r} exist in several settings; give setting=, one of: "
            f"{', '.join(settings)}."
        )
    if setting is None:
        wanted = next(iter(settings))
    else:
        wanted = choose(str(setting), settings, f"setting of {name!r}")
    rows: dict[int, dict[str, Array]] = {}
    for _, split, role, indices in cells[cells[:, 0] == wanted]:
        rows.setdefault(int(split), {})[role] = np.array(indices.split(), dtype=np.intp)
    all_rows = np.arange(len(load(name).data))
    return [_split(rows[i], all_rows, wanted) for i in sorted(rows)]


def random_split(
    y: Any,
    n_labeled: int,
    n_unlabeled: int | None = None,
    *,
    stratify: bool = True,
    random_state: Any = None,
) -> Split:
    """Draw labeled and unlabeled rows without replacement; the rest are test rows.

    With `stratify`, y holds classes and every class has its share of the labels, at least one while
    there are enough. `n_unlabeled=None` takes all rows that are left.
    """
    n = len(y)
    random = check_random_state(random_state)
    if not 0 < n_labeled <= n or not 0 <= (n_unlabeled or 0) <= n - n_labeled:
        raise ValueError(
            f"Cannot draw {n_labeled} labeled and {n_unlabeled} unlabeled rows from {n}."
        )
    order = random.permutation(n)
    if stratify:
        codes = np.unique(np.asarray(y), return_inverse=True)[1][order]
        order = order[np.argsort(_quantiles(codes), kind="stable")]
    labeled = order[:n_labeled]
    rest = random.permutation(order[n_labeled:])
    cut = len(rest) if n_unlabeled is None else n_unlabeled
    unlabeled = np.sort(rest[:cut])
    return Split(np.sort(labeled), unlabeled, np.sort(rest[cut:]))


def _quantiles(codes: Array) -> Array:
    """Return the rank of each row within its class, divided by the size of the class."""
    counts = np.bincount(codes)
    order = np.argsort(codes, kind="stable")
    rank = np.empty(len(codes))
    rank[order] = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rank / counts[codes]


def _split(rows: dict[str, Array], all_rows: Array, setting: str) -> Split:
    labeled = rows[LABELED]
    if UNLABELED in rows:
        unlabeled = rows[UNLABELED]
    else:
        unlabeled = np.setdiff1d(all_rows, labeled)
    test = np.setdiff1d(all_rows, np.concatenate([labeled, unlabeled]))
    return Split(labeled, unlabeled, test, setting)
