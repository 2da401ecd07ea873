"""Methods that several tables on reverse prediction share (White & Schuurmans 2012; White's thesis, 6.1)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.semi_supervised import LabelSpreading

from experiments._tables import Method
from experiments._verdicts import CONSTANT
from regfactor import (
    BregmanRegressor,
    ReverseClassifier,
    ReverseRegressor,
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
)
from regfactor.baselines import LaplacianRLS, LaplacianSVM, TransductiveRegression
from regfactor.core.loop import Status
from regfactor.losses.transfers import as_transfer

WIDTHS = (0.01, 0.1, 1.0, 5.0, 10.0)  # of Gaussian kernels, as in the papers
KERNELS = ("linear", *WIDTHS)
MU = (1e-3, 1e-2, 1e-1)  # weights of the unlabeled rows, as in the papers
RHO = (1.0, 10.0, 50.0, 100.0, 200.0)  # sharpness of soft assignments, as in the papers
RIDGES = (1e-8, 1e-4, 1e-2, 1e-1, 1.0)  # the papers do not give theirs
# fewer where every kernel and mu is tried: each ridge costs a Newton descent
READOUT_RIDGES = (1e-4, 1e-2, 1.0)


def gamma(width: float) -> float:
    """exp(-|x - y|^2 / (2 width^2)); the papers do not define the width."""
    return 1 / (2 * width**2)


def ridge(kernel: str | float, alpha: float) -> KernelRidge:
    """Return kernel least squares, sup-kernel in the tables."""
    if kernel == "linear":
        return KernelRidge(alpha=alpha)
    return KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma(float(kernel)))


class RidgeClassifier(ClassifierMixin, BaseEstimator):
    """Kernel least squares on indicators of the classes; the largest wins."""

    def __init__(self, kernel: str | float = "linear", alpha: float = 1.0) -> None:
        self.kernel = kernel
        self.alpha = alpha

    def fit(self, X: np.ndarray, y: np.ndarray) -> RidgeClassifier:
        self.classes_ = np.unique(y)
        self.ridge_ = ridge(self.kernel, self.alpha).fit(
            X, (y[:, None] == self.classes_).astype(float)
        )
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes_[self.ridge_.predict(X).argmax(axis=1)]


def spread(width: float, alpha: float) -> LabelSpreading:
    """Return learning with local and global consistency (Zhou et al. 2004), LGC in the tables."""
    return LabelSpreading(gamma=gamma(width), alpha=alpha, max_iter=1000)


class Grams:
    """Kernel matrices of the rows that were asked for last: a cell tries many settings on the same rows."""

    def __init__(self) -> None:
        self.X: np.ndarray | None = None
        self.kept: dict[str | float, np.ndarray] = {}

    def __call__(self, X: np.ndarray, kernel: str | float) -> np.ndarray:
        """Return X X', or the Gaussian kernel of a width."""
        if self.X is not X:
            self.X, self.kept = X, {}
        if kernel not in self.kept:
            self.kept[kernel] = (
                X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=gamma(float(kernel)))
            )
        return self.kept[kernel]


gram = Grams()


class OnGram:
    """A machine of a given kernel matrix, which is computed once for all settings."""

    def __init__(self, model: Any, kernel: str | float) -> None:
        self.model, self.kernel = model, kernel

    def fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        # in a fold: there is nothing to learn
        if y.dtype.kind != "f" and len(known := np.unique(y[y >= 0])) == 1:
            return SimpleNamespace(transduction_=np.full_like(y, known[0]))
        return self.model.fit(gram(X, self.kernel), y)


def laplacian(machine: Callable[..., Any], **fixed: Any) -> Callable[..., Any]:
    """Return how a Laplacian method is made at the papers' gamma_A and gamma_I.

    The papers do not say how f'Lf is scaled, nor whether L is normalized; here it is normalized.
    Regression divides f'Lf by (l + u)^2. Classifiers take it as it is, without an offset: of the
    variants tried on a few splits, those are the ones nearest to the printed errors (0.15 instead
    of 0.28 on the words of link, elsewhere alike or up to 5 points). Without the division
    regression is 9 % better on kin32fh and 16 % on calhousing.
    """

    def make(kernel: str | float, degree: int, n_neighbors: int) -> OnGram:
        model = machine(
            1e-6,
            0.01,
            kernel="precomputed",
            n_neighbors=n_neighbors,
            laplacian_degree=degree,
            **fixed,
        )
        return OnGram(model, kernel)

    return make


def transductive(kernel: str | float, **weights: float) -> TransductiveRegression:
    """Return trans-reg from the 10 nearest labeled rows.

    The radius that the papers fixed is not given in them.
    """
    shape = {"kernel": "linear"} if kernel == "linear" else {"gamma": gamma(float(kernel))}
    return TransductiveRegression(n_neighbors=10, **shape, **weights)


COMMON_GRID = (
    " Added: constant, the mean target or most frequent class of the labeled rows, for scale."
    " Grids. Printed for all: no kernel, a linear one, Gaussian ones of width 0.01, 0.1, 1, 5, 10."
    " Cross-validation here has 3 folds."
)
REGRESSION_GRID = COMMON_GRID + (
    " sup-kernel, trans-reg, Lap-RLS: all kernels, with 5 ridges, 3 C and 2 C', or the printed "
    "degrees and neighbors. Semi rows: all kernels and the printed mu 0.001, 0.01, 0.1, at most 10 "
    "sweeps; their targets are the imputed ones, with *forward* those of f(x W) fitted to all "
    "targets with 3 ridges, which is how the papers' algorithms end (algorithm 3, line 10; "
    "algorithm 12, line 12). *mu = 0* is f(x W) of the labeled rows alone, with 5 ridges. *Our "
    "default* is "
    "`SemiSupervisedRegressor()` of this library, not the papers'."
)
CLASSIFICATION_GRID = COMMON_GRID + (
    " sup-kernel and LGC: all widths, with 5 ridges or the printed alpha. Laplacian rows: all "
    "kernels, printed degrees and neighbors. Hard rows: all kernels, printed mu 0.001, 0.01, 0.1 "
    "and equal weights of all rows (what the printed algorithms do, whatever mu). Soft rows: the "
    "same with printed rho 1, 10, 50, 100, 200, and one scaled to the data under equal weights. "
    "*Our default* is `SemiSupervisedClassifier()` of this library, not the papers'."
)
MEAN = Method(CONSTANT, DummyRegressor, supervised=True)
COMMONEST = Method(CONSTANT, DummyClassifier, supervised=True)
SUP_REGRESSION = Method("sup-kernel", ridge, {"kernel": KERNELS, "alpha": RIDGES}, supervised=True)
SUP_CLASSIFICATION = Method(
    "sup-kernel", RidgeClassifier, {"kernel": KERNELS, "alpha": RIDGES}, supervised=True
)
MANIFOLD = {"kernel": KERNELS, "degree": (1, 2, 5), "n_neighbors": (5, 20)}
LAP_RLS = Method("Lap-RLS", laplacian(LaplacianRLS, task="regression"), MANIFOLD)
LAP_RLSC = Method(
    "LapRLSC", laplacian(LaplacianRLS, task="classification", average=False), MANIFOLD
)
LAP_SVM = Method("LapSVM", laplacian(LaplacianSVM, average=False, fit_intercept=False), MANIFOLD)
TRANS_REG = Method(
    "trans-reg",
    transductive,
    {"kernel": KERNELS, "C": (1.0, 1e2, 1e4), "C_unlabeled": (0.1, 10.0)},
)
LGC = Method("LGC", spread, {"width": WIDTHS, "alpha": (1e-5, 1e-3, 0.1, 0.5)})


class Reverse:
    """Our reverse classification on rows, or on rows of a kernel matrix as features, as the papers use kernels.

    A cut weighs rows by their degrees (White & Schuurmans 2012); without a Gaussian kernel these
    have width 5.
    """

    def __init__(
        self,
        transfer: str,
        assignment: str,
        cut: bool,
        kernel: str | float | None,
        **parameters: Any,
    ) -> None:
        self.model = ReverseClassifier(transfer, assignment, **parameters)
        self.kernel, self.cut = kernel, cut

    def fit(self, X: np.ndarray, y: np.ndarray) -> ReverseClassifier:
        features = X if self.kernel is None else gram(X, self.kernel)
        width = self.kernel if isinstance(self.kernel, float) else CUT_WIDTH
        return self.model.fit(features, y, gram(X, width).sum(axis=1) if self.cut else None)


def reverse(name: str, transfer: str, assignment: str, cut: bool = False) -> Method:
    """Return a method of the tables with the papers' grid, and equal weights of all rows next to it.

    With equal weights mu as printed changes nothing (hard), or scales the sharpness (soft).
    """
    kernels = {"kernel": (None, *KERNELS)}
    weights = {"unlabeled_weight": ("balanced", *MU)}
    grid: list[dict[str, Sequence[Any]]] = [{**kernels, **weights}]
    if assignment == "soft":
        grid = [
            {**kernels, **weights, "sharpness": RHO},
            {**kernels, "unlabeled_weight": ("balanced",), "sharpness": ("spread",)},
        ]
    return Method(name, functools.partial(Reverse, transfer, assignment, cut), grid)


class Imputing(ReverseRegressor):
    """Reverse regression of which only imputed targets are used: the forward model is not fitted."""

    def _fit_forward(self, problem: Any, Z: np.ndarray, inputs: Any, run: Any) -> Status:
        return Status.FINISHED

    def _predicted(self, table: np.ndarray) -> np.ndarray:
        return self.imputed_


class Imputations:
    """Imputed targets of the rows that were asked for last: readouts try many ridges on the same."""

    def __init__(self) -> None:
        self.X: np.ndarray | None = None
        self.kept: dict[tuple[Any, ...], np.ndarray] = {}

    def __call__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        transfer: str,
        kernel: str | float | None,
        unlabeled_weight: float,
    ) -> np.ndarray:
        """Return all targets, given ones as they are."""
        if self.X is not X:
            self.X = X
            self.kept = {}
        asked = (transfer, kernel, unlabeled_weight, y.tobytes())
        if asked not in self.kept:
            model = Imputing(
                transfer, unlabeled_weight, alpha=0.1, fit_intercept=False, max_iter=SWEEPS
            )
            self.kept[asked] = model.fit(features(X, kernel), y).transduction_
        return self.kept[asked]


imputed = Imputations()


def features(X: np.ndarray, kernel: str | float | None) -> np.ndarray:
    """Return the rows, or those of a kernel matrix, which the papers take as features."""
    if kernel is None:
        return X
    return gram(X, kernel)


class ReverseRegression:
    """Targets imputed by reverse regression on rows, or on rows of a kernel matrix as features."""

    def __init__(self, transfer: str, kernel: str | float | None, unlabeled_weight: float) -> None:
        self.transfer = transfer
        self.kernel = kernel
        self.unlabeled_weight = unlabeled_weight

    def fit(self, X: np.ndarray, y: np.ndarray) -> ReverseRegression:
        self.transduction_ = imputed(X, y, self.transfer, self.kernel, self.unlabeled_weight)
        return self


def forward_model(transfer: str, kernel: str | float | None, alpha: float) -> BregmanRegressor:
    """Return f(x W), or f(k(x) A) of a given kernel matrix, with the ridge of its space."""
    given = None if kernel is None else "precomputed"
    return BregmanRegressor(transfer, alpha, given, fit_intercept=False)


class ForwardReadout:
    """The forward model f(x W), fitted to imputed targets: how the papers' algorithms 3 and 12 end.

    Unlabeled rows weigh mu T_l/T_u, as in the reverse objective; imputed targets outside the range
    of f count as the nearest number in it.
    """

    def __init__(
        self, transfer: str, kernel: str | float | None, unlabeled_weight: float, alpha: float
    ) -> None:
        self.transfer = transfer
        self.kernel = kernel
        self.unlabeled_weight = unlabeled_weight
        self.alpha = alpha

    def fit(self, X: np.ndarray, y: np.ndarray) -> ForwardReadout:
        targets = imputed(X, y, self.transfer, self.kernel, self.unlabeled_weight)
        allowed = as_transfer(self.transfer).range
        free = np.isnan(y)
        unlabeled = free.reshape(len(y), -1).all(axis=1)
        share = np.sum(~unlabeled) / max(np.sum(unlabeled), 1)
        weights = np.where(unlabeled, self.unlabeled_weight * share, 1.0)
        model = forward_model(self.transfer, self.kernel, self.alpha)
        inputs = features(X, self.kernel)
        model.fit(inputs, np.clip(targets, allowed.low, allowed.high), weights)
        self.transduction_ = np.where(free, model.predict(inputs).reshape(y.shape), y)
        return self


class ForwardModel:
    """The forward model f(x W) of the labeled rows alone: mu = 0."""

    def __init__(self, transfer: str, kernel: str | float | None, alpha: float) -> None:
        self.model = forward_model(transfer, kernel, alpha)
        self.kernel = kernel

    def fit(self, X: np.ndarray, y: np.ndarray) -> ForwardModel:
        labeled = ~np.isnan(y.reshape(len(y), -1)).any(axis=1)
        inputs = features(X, self.kernel)
        if self.kernel is not None:
            inputs = inputs[:, labeled]
        self.model.fit(inputs[labeled], y[labeled])
        self.transduction_ = self.model.predict(inputs).reshape(y.shape)
        return self


REVERSE_GRID = {"kernel": (None, *KERNELS), "unlabeled_weight": MU}
FORWARD_GRID = {"kernel": (None, *KERNELS), "alpha": RIDGES}
TRANSFERS = (("Euc", "identity"), ("cubed", "cube"), ("exp", "exp"))
REVERSE_REGRESSION = [
    *(
        Method(f"semi {name}", functools.partial(ReverseRegression, transfer), REVERSE_GRID)
        for name, transfer in TRANSFERS
    ),
    *(
        Method(
            f"semi {name}, forward",
            functools.partial(ForwardReadout, transfer),
            {**REVERSE_GRID, "alpha": READOUT_RIDGES},
        )
        for name, transfer in TRANSFERS
    ),
    *(
        Method(f"mu = 0 {name}", functools.partial(ForwardModel, transfer), FORWARD_GRID)
        for name, transfer in TRANSFERS
    ),
]
OURS = "our default"
# rows that the papers do not print
ADDED = {CONSTANT, OURS}
ADDED |= {f"semi {name}, forward" for name, _ in TRANSFERS}
ADDED |= {f"mu = 0 {name}" for name, _ in TRANSFERS}
OUR_REGRESSOR = Method(OURS, SemiSupervisedRegressor)
OUR_CLASSIFIER = Method(OURS, SemiSupervisedClassifier)
CUT_WIDTH = 5.0
SWEEPS = 10  # of reverse regression; more are needed only where errors are huge
REVERSE_CLASSIFICATION = [
    reverse(f"{assignment} {name}", transfer, assignment, cut=name.endswith("NC"))
    for assignment in ("hard", "soft")
    for name, transfer in (
        ("Euc", "identity"),
        ("sig", "sigmoid"),
        ("softmax", "softmax"),
        ("sig NC", "sigmoid"),
    )
]
# of the tables of classification, in their order, and our default
CLASSIFICATION = [
    COMMONEST,
    SUP_CLASSIFICATION,
    LGC,
    LAP_SVM,
    LAP_RLSC,
    *REVERSE_CLASSIFICATION,
    OUR_CLASSIFIER,
]
