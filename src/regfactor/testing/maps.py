"""Laws of linear maps: linearity, adjoint, norm and precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regfactor.core.params import Array
from regfactor.maps import Map
from regfactor.testing.laws import (
    Law,
    check_laws,
    frozen,
    is_cloned,
    require,
    require_close,
    require_part,
    rng,
)


@dataclass(frozen=True)
class MapCase:
    """A map and the shape of the predictors on which it is tried."""

    map: Map
    shape: tuple[int, int] = (6, 2)

    def pair(self, seed: int) -> tuple[Array, Array]:
        """Return a point of the domain and a point of the image."""
        random = rng(seed)
        return random.normal(size=self.map.domain(self.shape)), random.normal(size=self.shape)


def map_fits(case: MapCase) -> None:
    """`check` accepts the shape of the trial, and both methods return the shapes of `domain`."""
    map = case.map
    map.check(case.shape)
    W, R = case.pair(0)
    require(map(W).shape == R.shape, f"the image has the shape {map(W).shape}")
    turned = map.adjoint(R)
    require(turned.shape == W.shape, f"adjoint gives the shape {turned.shape}, expected {W.shape}")


def adjoint_moves_the_map(case: MapCase) -> None:
    """<map(W), R> = <W, `adjoint`(R)>."""
    W, R = case.pair(0)
    expected = (W * case.map.adjoint(R)).sum()
    require_close((case.map(W) * R).sum(), expected, "<map(W), R>", 1e-12, 1e-12)


def map_is_linear(case: MapCase) -> None:
    """The map and its adjoint are linear."""
    V, R = case.pair(1)
    W, Q = case.pair(2)
    for name, function, a, b in (("map", case.map, V, W), ("adjoint", case.map.adjoint, R, Q)):
        expected = 2 * function(a) - 3 * function(b)
        require_close(function(2 * a - 3 * b), expected, f"{name} of 2 a - 3 b", 1e-9, 1e-12)


def norm2_is_the_squared_norm(case: MapCase) -> None:
    """`norm2` is the square of the largest singular value."""
    map = case.map
    shape = map.domain(case.shape)
    units = np.eye(int(np.prod(shape))).reshape(-1, *shape)
    matrix = np.array([map(unit).ravel() for unit in units]).T
    require_close(map.norm2, np.linalg.norm(matrix, 2) ** 2, "norm2", 1e-12)


def nothing_is_mutated(case: MapCase) -> None:
    """No method writes to its arguments, and float32 stays float32."""
    W, R = case.pair(6)
    for dtype in (np.float64, np.float32):
        for name, function, at in (("map", case.map, W), ("adjoint", case.map.adjoint, R)):
            found = function(frozen(at.astype(dtype))).dtype
            require(found == dtype, f"{name} gives {found} of {np.dtype(dtype)}")


def map_is_cloned(case: MapCase) -> None:
    """`clone` gives an equal map."""
    is_cloned(case.map)


LAWS: tuple[Law, ...] = (
    map_fits,
    adjoint_moves_the_map,
    map_is_linear,
    norm2_is_the_squared_norm,
    nothing_is_mutated,
    map_is_cloned,
)


def check_map(map: Map, shape: tuple[int, int] = (6, 2)) -> None:
    """Raise BrokenLaw unless a map keeps the laws that convex problems rely on.

    Parameters
    ----------
    map : Map
    shape : tuple of int, default=(6, 2)
        Rows and columns of the predictors on which it is tried.

    Raises
    ------
    TypeError
        If a method is missing, with its name and what it has to return.
    BrokenLaw
        With all laws that do not hold, and where each fails.

    Examples
    --------
    >>> from regfactor.maps import Lags
    >>> from regfactor.testing import check_map
    >>> check_map(Lags(q=2))
    """
    require_part(map, Map, "check_map")
    check_laws(map, LAWS, MapCase(map, shape))
