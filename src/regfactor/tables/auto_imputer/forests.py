"""A forest for each variable, of its values and of what the kernel leaves, in the same trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.tree import ExtraTreeRegressor

from regfactor.core.params import Array, frozen

MIN_LEAF = 3
FEATURE_SHARE = 0.33  # of the inputs that a split looks at
BLOCK_ELEMENTS = 2_000_000  # pairs of a row and a tree that are followed at once


@frozen
class ForestPrediction:
    """Values of a variable, residuals of the kernel, and how far they may be off.

    Attributes
    ----------
    values, residuals : array
    variances : array
        Of rows within leaves, and between trees.
    between : array
        Of single trees.
    """

    values: Array
    residuals: Array
    variances: Array
    between: Array


@frozen
class Forest:
    """Trees with random splits, fitted to a variable and to its residuals at once.

    Nodes of all trees are in one list; a leaf is its own successor, so that all rows can take as
    many steps as the deepest tree has levels.

    Attributes
    ----------
    roots : array of shape (n_trees,)
    depth : int
    inputs, thresholds : array of shape (n_nodes,)
        The input that a node compares, and with which number.
    below, above : array of shape (n_nodes,)
        The next node where the input is not above the threshold, and where it is.
    means : array of shape (n_nodes, 2 * n_outputs)
        Of the values and residuals of rows in a node.
    variances : array of shape (n_nodes,)
        Mean over these of their variances in the node.
    """

    roots: Array
    depth: int
    inputs: Array
    thresholds: Array
    below: Array
    above: Array
    means: Array
    variances: Array

    @staticmethod
    def fit(
        inputs: Array,
        values: Array,
        residuals: Array,
        weights: Array,
        n_trees: int,
        seed: int,
    ) -> Forest:
        """Return a forest; both outputs share their splits, which costs half of two forests."""
        X = np.ascontiguousarray(inputs, dtype=np.float32)
        y = np.ascontiguousarray(np.hstack([values, residuals]))
        own_weights = None if np.all(weights == weights[0]) else weights
        seeds = np.random.default_rng(seed).integers(2**31 - 1, size=n_trees)
        trees = []
        for tree_seed in seeds.tolist():
            model = ExtraTreeRegressor(
                min_samples_leaf=MIN_LEAF,
                max_features=FEATURE_SHARE,
                random_state=tree_seed,
            )
            # the arrays are of the types that trees work on
            model.fit(X, y, sample_weight=own_weights, check_input=False)
            trees.append(model.tree_)
        return _packed(trees)

    def predict(self, inputs: Array) -> ForestPrediction:
        """Return averages over the trees."""
        rows_together = max(BLOCK_ELEMENTS // len(self.roots), 1)
        means = []
        variances = []
        spreads = []
        for first in range(0, len(inputs), rows_together):
            leaves = self._leaves(inputs[first : first + rows_together].astype(np.float32))
            found = self.means[leaves]
            means.append(found.mean(axis=1))
            between = found.var(axis=1, ddof=1).mean(axis=1)
            variances.append(self.variances[leaves].mean(axis=1) + between)
            spreads.append(between)
        n_outputs = self.means.shape[1] // 2
        averages = np.concatenate(means)
        return ForestPrediction(
            averages[:, :n_outputs],
            averages[:, n_outputs:],
            np.concatenate(variances),
            np.concatenate(spreads),
        )

    def _leaves(self, X: Array) -> Array:
        """Return the leaf of each row in each tree."""
        rows = np.arange(len(X))[:, None]
        nodes = np.broadcast_to(self.roots, (len(X), len(self.roots)))
        for _ in range(self.depth):
            goes_below = X[rows, self.inputs[nodes]] <= self.thresholds[nodes]
            nodes = np.where(goes_below, self.below[nodes], self.above[nodes])
        return nodes


def _packed(trees: list[Any]) -> Forest:
    """Return trees of scikit-learn as one list of nodes."""
    counts = np.array([tree.node_count for tree in trees])
    roots = np.cumsum(counts) - counts
    leaf = np.concatenate([tree.children_left < 0 for tree in trees])
    own = np.arange(counts.sum())
    shift = np.repeat(roots, counts)
    below = np.concatenate([tree.children_left for tree in trees]) + shift
    above = np.concatenate([tree.children_right for tree in trees]) + shift
    feature = np.concatenate([tree.feature for tree in trees])
    return Forest(
        roots=roots,
        depth=max(tree.max_depth for tree in trees),
        inputs=np.where(leaf, 0, feature),
        thresholds=np.concatenate([tree.threshold for tree in trees]),
        below=np.where(leaf, own, below),
        above=np.where(leaf, own, above),
        means=np.concatenate([tree.value[:, :, 0] for tree in trees]),
        variances=np.concatenate([tree.impurity for tree in trees]),
    )
