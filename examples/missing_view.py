"""One view is missing for new rows: can it be predicted from the other?

Handwritten digits in two views: 216 profile correlations, and the picture itself in 16 x 15 pixels.
A model of both is fitted to some digits; of new ones only the correlations are known, and their
pictures are predicted. Where the data are not available, generated pictures of bars, seen through
random projections, take their place.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _show import show

from regfactor import TwoViewSubspace, datasets

TRAINED, TESTED, SHOWN = 200, 100, 10


def views(seed: int = 0) -> tuple[str, np.ndarray, np.ndarray, tuple[int, int]]:
    """Name, first view, second view as pictures, and the shape of a picture.

    Rows in random order.
    """
    rng = np.random.default_rng(seed)
    try:
        table = datasets.load("mfeat")
    except datasets.DatasetNotFound:
        shape = (15, 16)
        rows, columns = (
            rng.random((TRAINED + TESTED, 5)) < 0.4,
            rng.random((TRAINED + TESTED, 5)) < 0.4,
        )
        across, down = (
            np.repeat(rows, 3, axis=1),
            np.pad(np.repeat(columns, 3, axis=1), ((0, 0), (0, 1))),
        )
        pictures = np.maximum(across[:, :, None], down[:, None, :])
        pictures = 6.0 * pictures.reshape(len(rows), -1)
        return (
            "bars",
            pictures @ rng.normal(size=(240, 60)) + rng.normal(size=(len(rows), 60)),
            pictures,
            shape,
        )
    order = rng.permutation(len(table.data))[: TRAINED + TESTED]
    return "digits", table.views[0][order], table.views[4][order], (16, 15)


def example() -> tuple[str, Any]:
    """Fit to some rows, predict the pictures of others, and compare with the mean picture."""
    import matplotlib.pyplot as plt

    name, first, pictures, shape = views()
    spread = first[:TRAINED].std(axis=0)
    first = (first - first[:TRAINED].mean(axis=0)) / np.where(spread > 0, spread, 1)
    model = TwoViewSubspace(tol=1e-3, random_state=0).fit(first[:TRAINED], pictures[:TRAINED])
    truth, found = pictures[TRAINED:], model.predict_view(X1=first[TRAINED:])
    mean = np.broadcast_to(pictures[:TRAINED].mean(axis=0), truth.shape)
    explained = 1 - np.square(found - truth).sum() / np.square(mean - truth).sum()
    figure, axes = plt.subplots(2, SHOWN, figsize=(SHOWN, 2.7), layout="constrained")
    for place in range(SHOWN):
        for line, rows in zip(axes, (truth, found), strict=True):
            line[place].imshow(rows[place].reshape(shape), cmap="gray_r", vmin=0, vmax=6)
            line[place].set(xticks=[], yticks=[])
    axes[0, 0].set_ylabel("true")
    axes[1, 0].set_ylabel("predicted")
    figure.suptitle(
        f"{name}: pictures of new rows from their first view, {explained:.0%} of the variance"
    )
    text = (
        f"{TRAINED} {name} with both views, {TESTED} new ones of which the second view is "
        f"missing.\nPredicted pictures explain {explained:.1%} of the variance about the mean "
        f"picture; {model.codes_.shape[1]} shared codes, alpha {model.alpha_:.3g} from the "
        f"noise.\nThe weights of the views are {model.view_weight_[0]:.2f} and "
        f"{model.view_weight_[1]:.2f}. {model.certificate_}"
    )
    return text, figure


if __name__ == "__main__":
    show(__file__, example)
