"""The two factors: where rows lie (codes), and what the directions are made of (components)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from regfactor.core.params import Array
from regfactor.plots.base import BLUE, INK, Display, color_of, drawn_from, name_group, scatter, word

NAMES = 30  # columns up to which each is named
CELLS = 0.28  # inches for a row of a heat map
FEW = 12  # different whole numbers up to which colors stand for groups


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
    >>> display = CodesDisplay.from_estimator(ConvexSubspace().fit(X))
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
                f"CodesDisplay draws rows with at least one code, got an array of shape {self.codes.shape}. A convex "
                "model without a component has too large an alpha: lower it, see alpha_max_."
            )
        if self.color is not None and self.color.shape != (len(self.codes),):
            raise ValueError(
                f"color needs a value for each of {len(self.codes)} rows, got shape {self.color.shape}."
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
        first, second = self.components if k > 1 else (None, 0)
        if first is None:
            x = np.arange(len(self.codes))
        else:
            x = self.codes[:, first]
        y = self.codes[:, second]
        if self.color is None:
            scatter(ax, x, y, color=BLUE)
        elif _is_groups(self.color):
            self._draw_groups(ax, x, y)
        else:
            points = scatter(ax, x, y, c=self.color, cmap="viridis")
            self.figure_.colorbar(points, ax=ax, label=self.color_name, shrink=0.8)
        if first is None:
            ax.set(xlabel="row", ylabel="code 0")
        else:
            ax.set(xlabel=f"code {first}", ylabel=f"code {second}")
            ax.set_aspect("equal", adjustable="datalim")
        return self

    def _draw_groups(self, ax: Any, x: Array, y: Array) -> None:
        assert self.color is not None
        groups = np.unique(self.color)
        for g, group in enumerate(groups):
            own = self.color == group
            scatter(
                ax,
                x[own],
                y[own],
                color=color_of(g),
                label=str(group),
                s=float(np.clip(4000 / len(x), 4, 28)),
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
        How large each component is in the table, written beside it: rows of a heat map all look
        alike.

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
    >>> display = ComponentsDisplay.from_estimator(ConvexSubspace().fit(X))
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
                f"ComponentsDisplay draws at least one component, got an array of shape {self.components.shape}. A "
                "convex model without one has too large an alpha: lower it, see alpha_max_."
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
            By default the names of the columns that were fitted; a mixed table has more columns
            inside the model.
        ax : Axes, optional

        Returns
        -------
        ComponentsDisplay
        """
        remedy = "Use a model with components, such as ConvexSubspace or ExponentialFamilyPCA."
        components = drawn_from(cls, estimator, "components_", remedy)
        if feature_names is None:
            names = getattr(estimator, "feature_names_in_", None)
            if names is not None and len(names) == components.shape[1]:
                feature_names = names
            else:
                feature_names = None
        views = getattr(estimator, "view_components_", None)
        codes = getattr(estimator, "codes_", None)
        sizes = None if codes is None else np.linalg.norm(codes, axis=0)
        return cls(components, feature_names, views[0].shape[1] if views else None, sizes).plot(ax)

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
        ax = self._panels(ax, size=(6.4, float(np.clip(1.7 + CELLS * k, 2.2, 9))))[0, 0]
        most = float(np.nanmax(np.abs(self.components))) or 1.0
        signed = bool((self.components < 0).any())
        if signed:
            colors = {"cmap": "RdBu_r", "vmin": -most}
        else:
            colors = {"cmap": "cividis", "vmin": 0.0}
        self.image_ = ax.imshow(
            self.components,
            aspect="auto",
            interpolation="nearest",
            vmax=most,
            **colors,
        )
        self.figure_.colorbar(self.image_, ax=ax, label="weight of the column", shrink=0.9)
        if k <= NAMES:
            places = np.arange(k)
        else:
            places = np.linspace(0, k - 1, 6).astype(int)
        sizes = self.sizes
        ax.set_yticks(
            places,
            places if sizes is None else [f"{i}  ({sizes[i]:.3g})" for i in places],
        )
        if self.feature_names is not None and d <= NAMES:
            ax.set_xticks(
                np.arange(d),
                [str(name) for name in self.feature_names],
                rotation=60,
                ha="right",
            )
            ax.tick_params(length=0)
        if self.parts is not None:
            ax.axvline(self.parts - 0.5, color=INK, linewidth=1.5)
            for place, name in (
                (self.parts / 2, "first view"),
                ((self.parts + d) / 2, "second view"),
            ):
                word(
                    ax,
                    place - 0.5,
                    1,
                    name,
                    color=INK,
                    ha="center",
                    xycoords=ax.get_xaxis_transform(),
                    xytext=(0, 4),
                )
        ax.set(
            xlabel="column",
            ylabel="component" if sizes is None else "component (norm of its codes)",
        )
        ax.spines[:].set_visible(False)
        return self


def _is_groups(values: Array) -> bool:
    """Whether values name groups rather than lie on a scale."""
    if values.dtype.kind not in "iuf":
        return True
    return values.dtype.kind != "f" and len(np.unique(values)) <= FEW
