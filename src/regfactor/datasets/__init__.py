"""The papers' data: real tables from `REGFACTOR_DATA`, their published splits, and generators."""

from regfactor.datasets.reverse import (
    CLASSIFICATION_PRESETS,
    REGRESSION_PRESETS,
    make_reverse_classification,
    make_reverse_regression,
)
from regfactor.datasets.splits import Split, load_splits, random_split
from regfactor.datasets.tables import DatasetNotFound, load, names, normalize_rows

__all__ = [
    "CLASSIFICATION_PRESETS",
    "REGRESSION_PRESETS",
    "DatasetNotFound",
    "Split",
    "load",
    "load_splits",
    "make_reverse_classification",
    "make_reverse_regression",
    "names",
    "normalize_rows",
    "random_split",
]
