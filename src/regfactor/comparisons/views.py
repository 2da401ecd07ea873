"""Baselines of two-view subspaces: one bound, alternating descent, more than two views."""

from __future__ import annotations

from dataclasses import KW_ONLY
from numbers import Real
from typing import Any

from sklearn.utils._param_validation import Interval

from regfactor.comparisons.local_descent import Local
from regfactor.comparisons.many_views import ManyViews, MultiViewRelaxation
from regfactor.core.factors import Factors
from regfactor.core.loop import Limits
from regfactor.fitting.factor_estimator import TableInputs
from regfactor.fitting.parameters import COUNT, parametrized
from regfactor.penalties import Trace
from regfactor.problems import Convex
from regfactor.views.two_view import TwoViewSubspace

__all__ = ["LocalTwoView", "ManyViews", "MultiViewRelaxation", "SingleViewSubspace"]


@parametrized
class SingleViewSubspace(TwoViewSubspace):
    """min over Z, b of sum_v L_v(Z_v + b_v; X_v) + alpha |Z|_tr / sqrt(b1^2 + b2^2).

    Both views as one table: the two-view problem with eta frozen at b1^2 / (b1^2 + b2^2) (thesis,
    5.4): components are bounded as a whole. Its optimum is a lower bound of that of
    `TwoViewSubspace`.

    Parameters
    ----------
    eta : float, optional
        Another eta between 0 and 1 at which to freeze the norm |[sqrt(eta) Z1/b1, sqrt(1-eta)
        Z2/b2]|_tr.
    alpha, bounds, loss, n_first, scale, ...
        As in `TwoViewSubspace`, with its attributes and methods.

    See Also
    --------
    TwoViewSubspace : A bound of its own for each view.

    Examples
    --------
    >>> from regfactor.baselines import SingleViewSubspace
    >>> from regfactor.datasets import make_two_view
    >>> X1, X2, *_ = make_two_view(50, (6, 8), rank=2, outliers=0.0, random_state=0)
    >>> SingleViewSubspace(alpha=0.1).fit(X1, X2).codes_.shape
    (50, 2)
    """

    _parameter_constraints = {
        **TwoViewSubspace._parameter_constraints,
        "eta": [Interval(Real, 0, 1, closed="neither"), None],
    }

    alpha: Any = 1.0
    bounds: tuple[float, float] = (1.0, 1.0)
    loss: Any = "squared"
    n_first: Any = None
    scale: bool = True
    eta: float | None = None
    _: KW_ONLY
    fit_intercept: bool = True
    rule: str = "min"
    sparse_zeros: str = "missing"
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def _state(self, inputs: TableInputs) -> Convex:
        if self.eta is None:
            frozen = Trace(self._gauge.scale)
        else:
            frozen = self._gauge.at(self.eta, inputs.table.shape[1])
        return self._convex(inputs, frozen)

    def _eta(self, F: Factors) -> float:
        if self.eta is not None:
            return self.eta
        return super()._eta(Factors.zeros(*F.shape))


@parametrized
class LocalTwoView(TwoViewSubspace):
    """The problem of `TwoViewSubspace` at a fixed number of atoms, by alternating descent.

    It begins at a random start. This is the usual method of multi-view learning before the problem
    was known to be convex. The certificate of the convex problem shows how far from its global
    optimum the descent ended.

    Parameters
    ----------
    rank : int, default=5
        Number of atoms.
    alpha, bounds, loss, n_first, scale, ...
        As in `TwoViewSubspace`, with its attributes and methods. `tol` is the relative fall of the
        objective in a sweep that ends the descent; losses must be smooth.

    See Also
    --------
    TwoViewSubspace : The same objective at its global optimum.

    Examples
    --------
    >>> from regfactor.baselines import LocalTwoView
    >>> from regfactor.datasets import make_two_view
    >>> X1, X2, *_ = make_two_view(50, (6, 8), rank=2, outliers=0.0, random_state=0)
    >>> LocalTwoView(2, alpha=0.1, random_state=0).fit(X1, X2).codes_.shape
    (50, 2)
    """

    _parameter_constraints = {**TwoViewSubspace._parameter_constraints, "rank": [COUNT]}

    rank: int = 5
    alpha: Any = 1.0
    bounds: tuple[float, float] = (1.0, 1.0)
    loss: Any = "squared"
    n_first: Any = None
    scale: bool = True
    _: KW_ONLY
    fit_intercept: bool = True
    sparse_zeros: str = "missing"
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def _solver(self, limits: Limits) -> Local:
        return Local(self.rank, self.tol, limits.random_state)

    @property
    def _whole(self) -> bool:
        return True
