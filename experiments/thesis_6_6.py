"""White's thesis (2014), table 6.6: transductive error of semi-supervised classifiers from few labels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from experiments._papers import OUR_CLASSIFIER
from experiments._tables import Draw, Method, Source, Table, misclassified
from experiments._verdicts import CONSTANT, ahead
from experiments._views import SYNTHETIC, labeled_rows
from regfactor import ConvexFactorClassifier, datasets
from regfactor.baselines import (
    AlternatingLabels,
    MatrixCompletionLabels,
    SparseCodingLabels,
    StagedLabels,
)

SIZES = {
    "COIL": (10, 100),
    "WBC": (10, 50),
    "BCI": (10, 200),
    "IONOSPHERE": (10, 300),
    "G241N": (10, 100),
    SYNTHETIC: (40, 360),
}
RANK, TOL, STEPS = 10, 1e-3, 300
BOUNDS = (1.0, 10.0)  # under a bound of 1 on the labels their rows fit them by codes of their own
SRFM = "S-RFM"


def source(name: str) -> Source:
    """Return a data set of which T_l labeled and T_u unlabeled rows are drawn, as many as printed."""
    labels, others = SIZES[name]

    def draw(seed: int) -> Draw:
        X, y = labeled_rows(name, seed)
        split = datasets.random_split(y, labels, others, random_state=seed)
        rows = np.concatenate([split.labeled, split.unlabeled])
        return Draw(X[rows], y[rows], np.arange(labels), np.arange(labels, labels + others))

    protocol = (
        f"Printed and here: {labels} labeled and {others} unlabeled rows drawn at random, each "
        "class its share."
    )
    return Source(name, draw, protocol, splits=None if name == SYNTHETIC else 1000)


class PerRow:
    """A model whose weight of the inputs is given for a row and not for an entry: w/(n d) = share/n."""

    def __init__(self, make: Callable[..., Any], share: float, **parameters: Any) -> None:
        self.make, self.share, self.parameters = make, share, parameters

    def fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        return self.make(reconstruction_weight=self.share * X.shape[1], **self.parameters).fit(X, y)


def convex(**parameters: Any) -> PerRow:
    """Return S-RFM."""
    paper = {"bounds": BOUNDS, "scale": False, "readout": "components"}
    return PerRow(ConvexFactorClassifier, tol=TOL, max_iter=STEPS, **paper, **parameters)


def local(model: Callable[..., Any], **parameters: Any) -> PerRow:
    """Return ALT or STAGE."""
    return PerRow(
        model, rank=RANK, bounds=BOUNDS, tol=TOL, max_iter=STEPS, random_state=0, **parameters
    )


class Enlarged:
    """A model of rows that are multiplied by a number, which a bound of one would hold back."""

    def __init__(self, model: Any, scale: float) -> None:
        self.model = model
        self.scale = scale

    def fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        return self.model.fit(self.scale * X, y)


def completion(mu: float, loss: str, scale: float) -> Enlarged:
    """Return matrix completion, whose one norm lets labels move as far as inputs are long."""
    return Enlarged(MatrixCompletionLabels(mu, loss=loss, tol=TOL, max_iter=STEPS), scale)


def sparse(alpha: float, C: float) -> SparseCodingLabels:
    """Return sparse coding and a classifier."""
    return SparseCodingLabels(
        RANK, alpha, LogisticRegression(C=C), max_iter=30, tol=TOL, random_state=0
    )


ALPHAS, SHARES = (0.003, 0.02), (1.0, 10.0)
LOSSES = ("logistic", "smoothed_hinge")
GRID = {"alpha": ALPHAS, "share": SHARES, "loss": LOSSES}
COMPLETION_GRID = {"mu": (1e-4, 1e-3, 1e-2), "loss": LOSSES, "scale": (1.0, 10.0, 30.0)}


EXPERIMENT = Table(
    title="transductive error from few labels (White 2014, table 6.6)",
    sources=[source(name) for name in SIZES],
    methods=[
        Method("Alt", partial(local, AlternatingLabels), GRID),
        Method("Staged", partial(local, StagedLabels), GRID),
        Method("LEE", sparse, {"alpha": (0.05, 0.2), "C": (1.0, 100.0)}),
        Method("GOLDBERG", completion, COMPLETION_GRID),
        Method(SRFM, convex, GRID),
        Method(CONSTANT, DummyClassifier, supervised=True),
        OUR_CLASSIFIER,
    ],
    error=misclassified,
    splits=20,  # of five, no test of ranks can tell two methods apart
    folds=3,
    claims=[
        ahead(name, SRFM, other) for name in SIZES for other in ("Alt", "Staged", "LEE", "GOLDBERG")
    ],
    notes=(
        "Printed: mean ± standard deviation over 5 draws, the best of settings and losses that are "
        "not listed. Here: logistic loss and smoothed hinge for all but LEE, rows centered and of "
        f"length one, rank {RANK} for the local methods, alpha and the weight of the inputs on one "
        "grid for Alt, Staged and S-RFM, which minimize the same objective with bounds "
        f"{BOUNDS}; the second was chosen on generated data and after a look at one draw of WBC "
        "and COIL, where 1 did no better than a constant. GOLDBERG has one norm and no bounds: "
        "its rows are multiplied by 1, 10 or 30, which gives labels the same freedom; at 1 alone "
        "it was a constant on WBC and IONOSPHERE. The weight is share/n for an entry, since at "
        "the printed mu/(n d) inputs of length one hardly count next to labels. Added: constant, "
        "the most frequent class of the labeled rows, and *our default*, "
        "`SemiSupervisedClassifier()` of this library, not the thesis'. Printed deviations are "
        "taken for standard errors below, which makes fewer printed differences count."
    ),
    paper={
        "COIL": {
            "Alt": "0.464 ± 0.036",
            "Staged": "0.476 ± 0.037",
            "LEE": "0.414 ± 0.029",
            "GOLDBERG": "0.484 ± 0.068",
            "S-RFM": "0.388 ± 0.043",
        },
        "WBC": {
            "Alt": "0.388 ± 0.156",
            "Staged": "0.200 ± 0.043",
            "LEE": "0.168 ± 0.100",
            "GOLDBERG": "0.288 ± 0.105",
            "S-RFM": "0.134 ± 0.072",
        },
        "BCI": {
            "Alt": "0.440 ± 0.028",
            "Staged": "0.452 ± 0.041",
            "LEE": "0.436 ± 0.093",
            "GOLDBERG": "0.540 ± 0.025",
            "S-RFM": "0.380 ± 0.069",
        },
        "IONOSPHERE": {
            "Alt": "0.457 ± 0.075",
            "Staged": "0.335 ± 0.050",
            "LEE": "0.350 ± 0.042",
            "GOLDBERG": "0.338 ± 0.053",
            "S-RFM": "0.243 ± 0.042",
        },
        "G241N": {
            "Alt": "0.478 ± 0.053",
            "Staged": "0.484 ± 0.050",
            "LEE": "0.452 ± 0.073",
            "GOLDBERG": "0.524 ± 0.022",
            "S-RFM": "0.380 ± 0.036",
        },
        SYNTHETIC: {
            "Alt": "0.464 ± 0.019",
            "Staged": "0.417 ± 0.035",
            "LEE": "0.411 ± 0.027",
            "GOLDBERG": "0.496 ± 0.018",
            "S-RFM": "0.341 ± 0.013",
        },
    },
)
