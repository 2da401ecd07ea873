"""Clusters of tables that are read by blocks of rows: the steps of a fit that differ."""

from __future__ import annotations

from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from sklearn.base import clone

from regfactor.core.params import Array, UnsupportedProblem, frozen
from regfactor.engine.blocks import BlockTable, RowBlock
from regfactor.fitting.clustering import check_domain, weights_of
from regfactor.fitting.inputs import naming_columns_in_errors
from regfactor.losses.distances import Affine, Divergence
from regfactor.losses.divergences import as_divergence, named
from regfactor.problems.block_clusters import BlockClusters
from regfactor.problems.block_squares import ColumnStatistics
from regfactor.problems.clusters import row_blocks
from regfactor.problems.observed_clusters import ObservedCenters
from regfactor.solvers.nearest import Centers

SAMPLE_ROWS = 20_000  # of a table, on which the first centers are found


@frozen
class BlockClusterInputs:
    """A table of blocks with what a pass found of its columns, and the fit to a sample of rows."""

    table: BlockTable
    divergence: Affine
    found: ColumnStatistics
    mass: float
    fitted: Any

    def problem(self, n_clusters: int) -> BlockClusters:
        """Return the problem of labels."""
        count = np.where(self.found.count > 0, self.found.count, 1)
        return BlockClusters(
            self.table,
            self.divergence,
            n_clusters,
            self.found.mean,
            self.found.squares / count,
            self.mass,
        )

    def centers(self, point_centers: Array) -> Any:
        """Return what compares new rows with the centers of a point."""
        if self.found.entries < self.table.shape[0] * self.table.n_columns:
            return ObservedCenters(self.divergence, point_centers)
        far = self.problem(len(point_centers)).far
        return Centers(self.divergence, point_centers, self.found.mean, far)


def read_cluster_blocks(model: Any, table: BlockTable, sample_weight: Any) -> BlockClusterInputs:
    """Return the inputs of a fit, after a pass over the blocks and a fit to a sample of rows."""
    divergence = as_divergence(model.divergence)
    if model.kernel is not None or not isinstance(divergence, Affine) or divergence.adaptive:
        raise UnsupportedProblem(
            "A BlockTable is clustered without a kernel, and under divergences whose best center "
            f"is the mean and which fit no covariance; got divergence={model.divergence!r} and "
            f"kernel={model.kernel!r}. Choose another divergence, or fit an array."
        )
    mass = float(table.shape[0])
    weights = weights_of(np.empty((table.shape[0], 0)), sample_weight)
    if weights is not None:
        mass = float(weights.sum())
        table = table.weighted(weights)
    with naming_columns_in_errors(table.names):
        found: ColumnStatistics = table.reduce(checked_statistics, divergence)
    fitted = clone(model).set_params(callback=None, verbose=0)
    fitted.fit(table.sample(SAMPLE_ROWS))
    model.n_features_in_ = table.n_columns
    if table.names is not None:
        model.feature_names_in_ = np.asarray(table.names, dtype=object)
    return BlockClusterInputs(table, divergence, found, mass, fitted)


def checked_statistics(block: RowBlock, divergence: Divergence) -> ColumnStatistics:
    """Return the statistics of the columns, absent entries as zeros; raise for illegal numbers."""
    X = block.load()
    weights = np.ones(block.length)
    if block.weights is not None:
        weights = block.weights
    parts = []
    for at, rows in row_blocks(X):
        missing = np.isnan(rows)
        if missing.any() and not divergence.separable:
            raise UnsupportedProblem(
                f"{named(divergence)} compares whole rows; complete missing entries first."
            )
        parts.append(_of_rows(rows, weights[at]))
        if not missing.all():
            check_domain(np.where(missing, rows[~missing][0], rows), divergence)
    return reduce(add, parts)


def _of_rows(rows: Array, weights: Array) -> ColumnStatistics:
    read = partial(np.asarray, rows)
    return ColumnStatistics.of_block(RowBlock(0, len(rows), read, weights))


def labels_of(model: Any, table: BlockTable) -> Array:
    """Return what `predict` returns for the rows of all blocks."""
    results = table.executor.results(_predicted, table.blocks, (model,))
    return np.concatenate(list(results))


def _predicted(block: RowBlock, model: Any) -> Array:
    return np.asarray(model.predict(block.load()))
