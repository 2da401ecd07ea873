"""The papers' data: real tables from `REGFACTOR_DATA`, their published splits, and generators."""

from regfactor.datasets.reverse import (
    CLASSIFICATION_PRESETS,
    REGRESSION_PRESETS,
    make_reverse_classification,
    make_reverse_regression,
)
from regfactor.datasets.series import make_arma, make_varma
from regfactor.datasets.splits import Split, load_splits, random_split
from regfactor.datasets.tables import DatasetNotFound, load, names, normalize_rows
from regfactor.datasets.views import make_low_rank_labels, make_two_view

__all__ = [
    "CLASSIFICATION_PRESETS",
    "REGRESSION_PRESETS",
    "DatasetNotFound",
    "Split",
    "load",
    "load_splits",
    "make_arma",
    "make_low_rank_labels",
    "make_reverse_classification",
    "make_reverse_regression",
    "make_two_view",
    "make_varma",
    "names",
    "normalize_rows",
    "random_split",
]
