"""Clusters of the rows of a table that is read by blocks of rows."""

from __future__ import annotations

import numpy as np

from regfactor.core.params import Array, UnsupportedProblem, frozen
from regfactor.engine.blocks import BlockTable
from regfactor.losses.distances import Affine
from regfactor.problems.clusters import FAR_MEAN, Clustering


@frozen
class BlockClusters(Clustering):
    """min over labels z and centers m of factor sum_i w_i D(x_i, m_{z_i}), over observed entries.

    With a sharpness it is the mixture that `Clusters` states. The best center is a mean, so that a
    pass over the blocks adds up sums of rows by clusters; labels are not kept.

    Attributes
    ----------
    anchor : ndarray of shape (n_features,)
        The means of the columns.
    variances : ndarray of shape (n_features,)
    mass : float
        The total weight of the rows.
    """

    table: BlockTable
    divergence: Affine
    n_clusters: int
    anchor: Array
    variances: Array
    mass: float
    codes: Array | None = None
    sharpness: float | None = None
    factor: float = 1.0

    def check(self) -> None:
        """Raise for fewer rows than clusters, and for parameters that blocks do not add up to."""
        self.check_codes(self.table.shape[0])
        if self.divergence.adaptive:
            raise UnsupportedProblem(
                f"{self.divergence} fits a covariance, which blocks of rows do not have: give "
                "Mahalanobis(covariance=S), or fit an array."
            )

    @property
    def far(self) -> bool:
        """Whether rows lie far from the origin, relative to their deviations."""
        scale = np.sqrt(self.divergence.spread(self.variances))
        return bool((np.abs(self.anchor) > FAR_MEAN * scale).any())
