"""Baselines of labels as a second view (thesis, 6.2.2).

Alternation, two stages, and matrix completion.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

from regfactor.comparisons.local_descent import Local, Staged
from regfactor.core.loop import Limits
from regfactor.fitting.factor_estimator import TableInputs
from regfactor.fitting.parameters import AUTO, COUNT, POSITIVE, parametrized
from regfactor.labels.convex.base import CONVEX_LABEL_CONSTRAINTS, Counts
from regfactor.labels.convex.estimator import ConvexFactorClassifier
from regfactor.penalties import Trace
from regfactor.problems import Convex


@parametrized
class AlternatingLabels(ConvexFactorClassifier):
    """The problem of `ConvexFactorClassifier` at a fixed number of atoms, by alternation (ALT).

    It begins at a random start. The certificate of the convex problem shows how far from its
    global optimum the alternation ended.

    Parameters
    ----------
    rank : int, default=10
        Number of atoms.
    alpha, reconstruction_weight, loss, reconstruction_loss, bounds, ...
        As in `ConvexFactorClassifier`, with its attributes and methods. `tol` is the relative fall
        of the objective in a sweep that ends the descent; losses must be smooth.

    See Also
    --------
    ConvexFactorClassifier : The same objective at its global optimum.

    Examples
    --------
    >>> from regfactor.baselines import AlternatingLabels
    >>> from regfactor.datasets import make_low_rank_labels
    >>> X, y, y_partial, _ = make_low_rank_labels(100, 10, random_state=0)
    >>> bool(AlternatingLabels(random_state=0).fit(X, y_partial).score(X, y) > 0.5)
    True
    """

    _parameter_constraints = {**CONVEX_LABEL_CONSTRAINTS, "rank": [COUNT]}
    scale = False
    readout = "components"
    _kind = Local

    rank: int = 10
    alpha: Any = 0.02
    reconstruction_weight: float = 1.0
    loss: Any = "logistic"
    reconstruction_loss: Any = "squared"
    bounds: tuple[float, float] = (1.0, 1.0)
    _: KW_ONLY
    fit_intercept: bool = True
    unlabeled: Any = None
    sparse_zeros: str = "observed"
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    def _solver(self, limits: Limits) -> Local:
        return self._kind(self.rank, self.tol, limits.random_state)


class StagedLabels(AlternatingLabels):
    """Inputs first, L(Zx; X) w/(n d) + alpha sum |phi_i| by alternation.

    Then labels on the codes, held (STAGE).

    Parameters, attributes and methods are those of `AlternatingLabels`; `objective_` is that of
    both stages together, the one of `ConvexFactorClassifier`. Codes of labeled training rows are
    scored again at the end, labels and all, as in the other estimators; that can only lower it.

    See Also
    --------
    ConvexFactorClassifier : Both stages at once, at the global optimum.

    Examples
    --------
    >>> from regfactor.baselines import StagedLabels
    >>> from regfactor.datasets import make_low_rank_labels
    >>> X, y, y_partial, _ = make_low_rank_labels(100, 10, random_state=0)
    >>> bool(StagedLabels(random_state=0).fit(X, y_partial).score(X, y) > 0.5)
    True
    """

    _kind = Staged


@parametrized
class MatrixCompletionLabels(ConvexFactorClassifier):
    """min over Z, b of L(Zx; X)/n_x + lambda L(Zy + b; y)/n_y + mu |[Zx, Zy]|_tr (MC-b).

    n_x and n_y are the numbers of observed inputs and labels. Goldberg et al. (2010): labels as
    columns of one matrix that is completed. Convex, but with one bound for inputs and labels
    together, and stated for the rows at hand; new rows are scored here as in
    `ConvexFactorClassifier`.

    Parameters
    ----------
    mu : float or "auto", default=0.01
        Strength of the trace norm.
    label_weight : float, default=1.0
        lambda.
    loss, reconstruction_loss, ...
        As in `ConvexFactorClassifier`, with its attributes and methods.

    See Also
    --------
    ConvexFactorClassifier : A bound of its own for inputs and labels.

    Examples
    --------
    >>> from regfactor.baselines import MatrixCompletionLabels
    >>> from regfactor.datasets import make_low_rank_labels
    >>> X, y, y_partial, _ = make_low_rank_labels(100, 10, random_state=0)
    >>> bool(MatrixCompletionLabels().fit(X, y_partial).score(X, y) > 0.5)
    True
    """

    _parameter_constraints = {
        **CONVEX_LABEL_CONSTRAINTS,
        "mu": [POSITIVE, AUTO],
        "label_weight": [POSITIVE],
    }
    reconstruction_weight = 1.0
    scale = False
    readout = "components"

    mu: Any = 0.01
    label_weight: float = 1.0
    loss: Any = "logistic"
    reconstruction_loss: Any = "squared"
    _: KW_ONLY
    fit_intercept: bool = True
    unlabeled: Any = None
    rule: str = "min"
    sparse_zeros: str = "observed"
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None

    @property  # type: ignore[misc]
    def alpha(self) -> Any:
        """The strength under the name that all estimators share."""
        return self.mu

    def _weights(self, counts: Counts) -> tuple[float, float]:
        return 1 / counts.inputs, self.label_weight / counts.labels

    def _state(self, inputs: TableInputs) -> Convex:
        return self._convex(inputs, Trace())
