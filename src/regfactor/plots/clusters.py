"""Rows on a plane, colored by cluster, with centers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.decomposition import PCA

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array
from regfactor.plots.base import (
    Display,
    color_of,
    drawn_from,
    name_group,
    point_size,
    position,
    scatter,
)

CENTER_ATTRIBUTES = ("cluster_centers_", "means_")
MAX_NAMED_CLUSTERS = 20


class ClusterDisplay(Display):
    """Rows as points on a plane, in the color of their cluster, which is named where it lies.

    Parameters
    ----------
    points : array-like of shape (n_samples, 2)
    labels : array-like of shape (n_samples,)
    centers : array-like of shape (n_clusters, 2), optional
    axis_names : pair of str
        What the two coordinates are.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import BregmanKMeans
    >>> from regfactor.plots import ClusterDisplay
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> model = BregmanKMeans(3, random_state=0).fit(X)
    >>> display = ClusterDisplay.from_estimator(model, X)
    """

    def __init__(
        self,
        points: Any,
        labels: Any,
        centers: Any = None,
        axis_names: tuple[str, str] = ("first", "second"),
    ) -> None:
        self.points = np.asarray(points)
        self.labels = np.asarray(labels)
        self.axis_names = axis_names
        self.centers = None if centers is None else np.asarray(centers)
        if self.points.shape != (len(self.labels), 2):
            raise ValueError(
                "ClusterDisplay draws points of two coordinates with a label each, got points of "
                f"shape {self.points.shape} and {len(self.labels)} labels."
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        columns: Any = None,
        ax: Any = None,
    ) -> Self:
        """Draw rows in the clusters that a fitted estimator predicts.

        Parameters
        ----------
        estimator : fitted estimator with `predict`
            BregmanKMeans, BregmanMixture, BregmanNormalizedCut, or a ReverseClassifier, whose
            clusters are classes.
        X : table
        columns : pair of int or str, optional
            Columns to draw; by default both of two, or else the plane of the two leading principal
            components of X.
        ax : Axes, optional

        Returns
        -------
        ClusterDisplay
        """
        remedy = "Use a clustering, such as BregmanKMeans."
        clusters = any(hasattr(estimator, name) for name in (*CENTER_ATTRIBUTES, "labels_"))
        predict = drawn_from(cls, estimator, "predict" if clusters else "labels_", remedy)
        labels = predict(X)
        centers = None
        for name in CENTER_ATTRIBUTES:
            if centers is None:
                centers = getattr(estimator, name, None)
        points, drawn_centers, names = _plane(X, centers, columns)
        return cls(points, labels, drawn_centers, names).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional

        Returns
        -------
        ClusterDisplay
        """
        ax = self._panels(ax, size=(5.4, 4.4))[0, 0]
        groups = np.unique(self.labels)
        size = point_size(len(self.labels))
        for g, group in enumerate(groups):
            own = self.points[self.labels == group]
            scatter(
                ax,
                *own.T,
                color=color_of(g),
                label=str(group),
                s=size,
            )
        if self.centers is not None:
            ax.scatter(
                *self.centers.T,
                marker="X",
                s=90,
                color="white",
                edgecolors="black",
                linewidths=1.2,
                zorder=3,
                label="centers",
            )
        for g, group in enumerate(groups[:MAX_NAMED_CLUSTERS]):
            x, y = self.points[self.labels == group].T
            name_group(ax, x, y, f"{group}  ({len(x)})", g, ha="left", xytext=(8, 9))
        ax.set(xlabel=self.axis_names[0], ylabel=self.axis_names[1])
        return self


def _plane(X: Any, centers: Any, columns: Any) -> tuple[Array, Array | None, tuple[str, str]]:
    """Return two coordinates of rows and centers, and their names."""
    names = [str(name) for name in getattr(X, "columns", ())]
    if not is_sparse(X):
        X = np.asarray(X)
    if not names:
        names = [f"column {j}" for j in range(X.shape[1])]
    if columns is None and X.shape[1] == 2:
        columns = (0, 1)
    if columns is not None:
        i, j = (position(column, names) for column in columns)
        points = X[:, [i, j]]
        if is_sparse(points):
            points = points.toarray()
        if centers is not None:
            centers = centers[:, [i, j]]
        return points, centers, (names[i], names[j])
    if X.shape[1] < 2:
        raise ValueError(
            "ClusterDisplay draws rows on a plane, and X has one column; draw a histogram of it "
            "instead."
        )
    solver = "arpack" if is_sparse(X) else "auto"
    plane = PCA(2, svd_solver=solver, random_state=0).fit(X)
    if centers is not None:
        centers = plane.transform(np.asarray(centers, float))
    first, second = plane.explained_variance_ratio_
    axis_names = (
        f"principal component 1 ({first:.0%} of the variance)",
        f"principal component 2 ({second:.0%} of the variance)",
    )
    return plane.transform(X), centers, axis_names
