"""The two factors: codes of rows as points, components as a heat map."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from regfactor.core.params import Array
from regfactor.plots.base import (
    BLUE,
    INK,
    Display,
    color_of,
    drawn_from,
    name_group,
    point_size,
    scatter,
    word,
)

MAX_NAMED = 30  # columns, or components, up to which each has a name on the axis
CELL_HEIGHT = 0.28  # inches
MAX_GROUPS = 12  # different whole numbers up to which colors mean groups


class CodesDisplay(Display):
    """Rows as points, at two of their codes.

    Parameters
    ----------
    codes : array-like of shape (n_samples, n_components)
    components : pair of int, default=(0, 1)
        Which codes are drawn; where there is only one, it is drawn over the rows.
    color : array-like of shape (n_samples,), optional
        Groups (strings, truth values, few whole numbers), which get a color and a name each, or
        numbers on a scale.
    color_name : str, optional
        What these numbers are.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ConvexSubspace
    >>> from regfactor.plots import CodesDisplay
    >>> X = np.random.default_rng(0).normal(size=(40, 8))
    >>> display = CodesDisplay.from_estimator(ConvexSubspace(alpha=1.0).fit(X))
    """

    def __init__(
        self,
        codes: Any,
        components: tuple[int, int] = (0, 1),
        color: Any = None,
        color_name: str | None = None,
    ) -> None:
        self.codes = np.asarray(codes)
        self.components = components
        self.color_name = color_name
        self.color = None if color is None else np.asarray(color)
        if self.codes.ndim != 2 or not self.codes.shape[1]:
            raise ValueError(
                "CodesDisplay draws rows with at least one code, got an array of shape "
                f"{self.codes.shape}. A convex model without a component has too large an alpha: "
                "lower it, see alpha_max_."
            )
        if self.color is not None and self.color.shape != (len(self.codes),):
            raise ValueError(
                f"color needs a value for each of {len(self.codes)} rows, "
                f"got shape {self.color.shape}."
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        components: tuple[int, int] = (0, 1),
        color: Any = None,
        color_name: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the codes of the training rows, or of others.

        Parameters
        ----------
        estimator : fitted estimator with `codes_`, or with `transform` if X is given
        X : table, optional
            Rows to place; by default those that were fitted.
        components : pair of int, default=(0, 1)
        color, color_name : optional
            As in the constructor.
        ax : Axes, optional

        Returns
        -------
        CodesDisplay
        """
        remedy = "Use a model with codes, such as ConvexSubspace or ExponentialFamilyPCA."
        if X is None:
            codes = drawn_from(cls, estimator, "codes_", remedy)
        else:
            codes = drawn_from(cls, estimator, "transform", remedy)(X)
        return cls(codes, components, color, color_name).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional

        Returns
        -------
        CodesDisplay
        """
        k = self.codes.shape[1]
        if k > 1 and not all(0 <= c < k for c in self.components):
            raise ValueError(
                f"components={self.components}, and codes are numbered from 0 to {k - 1}."
            )
        ax = self._panels(ax, size=(5.2, 4.6))[0, 0]
        if k > 1:
            first, second = self.components
            x = self.codes[:, first]
            y = self.codes[:, second]
            ax.set(xlabel=f"code {first}", ylabel=f"code {second}")
            ax.set_aspect("equal", adjustable="datalim")
        else:
            x = np.arange(len(self.codes))
            y = self.codes[:, 0]
            ax.set(xlabel="row", ylabel="code 0")
        if self.color is None:
            scatter(ax, x, y, color=BLUE)
        elif _is_groups(self.color):
            self._draw_groups(ax, x, y)
        else:
            points = scatter(ax, x, y, c=self.color, cmap="viridis")
            self.figure_.colorbar(points, ax=ax, label=self.color_name, shrink=0.8)
        return self

    def _draw_groups(self, ax: Any, x: Array, y: Array) -> None:
        assert self.color is not None
        groups = np.unique(self.color)
        size = point_size(len(x))
        for g, group in enumerate(groups):
            own = self.color == group
            scatter(
                ax,
                x[own],
                y[own],
                color=color_of(g),
                label=str(group),
                s=size,
            )
        for g, group in enumerate(groups):
            own = self.color == group
            name_group(ax, x[own], y[own], str(group), g)


class ComponentsDisplay(Display):
    """Components as rows of a heat map, columns of the table across.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
    feature_names : list of str, optional
    parts : int, optional
        The number of columns of the first view, where there are two; a line is drawn after them.
    sizes : array-like of shape (n_components,), optional
        Size of each component in the table, written next to it, since the rows of a heat map are
        not to scale.

    Attributes
    ----------
    image_ : AxesImage
    ax_ : Axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ConvexSubspace
    >>> from regfactor.plots import ComponentsDisplay
    >>> X = np.random.default_rng(0).normal(size=(40, 8))
    >>> display = ComponentsDisplay.from_estimator(ConvexSubspace(alpha=1.0).fit(X))
    """

    image_: Any

    def __init__(
        self,
        components: Any,
        feature_names: Any = None,
        parts: int | None = None,
        sizes: Any = None,
    ) -> None:
        self.components = np.asarray(components)
        self.parts = parts
        self.sizes = None if sizes is None else np.asarray(sizes)
        if self.components.ndim != 2 or not self.components.size:
            raise ValueError(
                "ComponentsDisplay draws at least one component, got an array of shape "
                f"{self.components.shape}. A convex model without one has too large an alpha: "
                "lower it, see alpha_max_."
            )
        if feature_names is not None and len(feature_names) != self.components.shape[1]:
            raise ValueError(
                f"{len(feature_names)} feature_names for {self.components.shape[1]} columns."
            )
        self.feature_names = feature_names

    @classmethod
    def from_estimator(cls, estimator: Any, *, feature_names: Any = None, ax: Any = None) -> Self:
        """Draw the components of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator with `components_`
        feature_names : list of str, optional
            By default the names of the fitted columns, unless the model encodes them by more
            columns, as for a mixed table.
        ax : Axes, optional

        Returns
        -------
        ComponentsDisplay
        """
        remedy = "Use a model with components, such as ConvexSubspace or ExponentialFamilyPCA."
        components = drawn_from(cls, estimator, "components_", remedy)
        if feature_names is None:
            names = getattr(estimator, "feature_names_in_", ())
            if len(names) == components.shape[1]:
                feature_names = names
        views = getattr(estimator, "view_components_", None)
        codes = getattr(estimator, "codes_", None)
        parts = views[0].shape[1] if views else None
        sizes = None
        if codes is not None:
            sizes = np.linalg.norm(codes, axis=0)
        return cls(components, feature_names, parts, sizes).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, optional

        Returns
        -------
        ComponentsDisplay
        """
        k, d = self.components.shape
        height = float(np.clip(1.7 + CELL_HEIGHT * k, 2.2, 9))
        ax = self._panels(ax, size=(6.4, height))[0, 0]
        largest = float(np.nanmax(np.abs(self.components))) or 1.0
        colors = {"cmap": "cividis", "vmin": 0.0, "vmax": largest}
        if (self.components < 0).any():
            colors = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}
        self.image_ = ax.imshow(self.components, aspect="auto", interpolation="nearest", **colors)
        self.figure_.colorbar(self.image_, ax=ax, label="weight of the column", shrink=0.9)
        self._name_components(ax)
        if self.feature_names is not None and d <= MAX_NAMED:
            names = [str(name) for name in self.feature_names]
            ax.set_xticks(np.arange(d), names, rotation=60, ha="right")
            ax.tick_params(length=0)
        if self.parts is not None:
            ax.axvline(self.parts - 0.5, color=INK, linewidth=1.5)
            look = {"color": INK, "ha": "center", "xytext": (0, 4)}
            above = ax.get_xaxis_transform()
            word(ax, (self.parts - 1) / 2, 1, "first view", xycoords=above, **look)
            word(
                ax,
                (self.parts + d - 1) / 2,
                1,
                "second view",
                xycoords=above,
                **look,
            )
        ax.set_xlabel("column")
        ax.spines[:].set_visible(False)
        return self

    def _name_components(self, ax: Any) -> None:
        """Number the components, with their sizes if these are known."""
        k = len(self.components)
        places = np.arange(k)
        if k > MAX_NAMED:
            places = np.linspace(0, k - 1, 6).astype(int)
        if self.sizes is None:
            ax.set_yticks(places, places)
            ax.set_ylabel("component")
        else:
            ax.set_yticks(places, [f"{i}  ({self.sizes[i]:.3g})" for i in places])
            ax.set_ylabel("component (norm of its codes)")


def _is_groups(values: Array) -> bool:
    """Whether values name groups rather than lie on a scale."""
    if values.dtype.kind not in "iuf":
        return True
    return values.dtype.kind != "f" and len(np.unique(values)) <= MAX_GROUPS
