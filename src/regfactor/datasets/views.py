"""Generated pairs of views, and low-rank inputs with labels (White's thesis, 5.4 and 6.2)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state

from regfactor.core.params import Array, require_count, require_not_negative


class TwoViews(NamedTuple):
    """Two noisy views of the same rows, and the same views without noise."""

    X1: Array
    X2: Array
    clean1: Array
    clean2: Array


class LowRankLabels(NamedTuple):
    """Inputs, labels, labels with -1 on unlabeled rows, and inputs without noise."""

    X: Array
    y: Array
    y_partial: Array
    clean: Array


def make_two_view(
    n_samples: int = 200,
    n_features: tuple[int, int] = (20, 20),
    rank: int = 5,
    *,
    outliers: float = 0.05,
    magnitude: float = 5.0,
    noise: float = 0.0,
    random_state: Any = None,
) -> TwoViews:
    """Return two views Phi C1 and Phi C2 of shared codes, with outliers in place of some entries.

    Phi is standard normal; components are normal, scaled to length one in each view. A share of the
    entries is replaced by numbers uniform in [-m, m], m being `magnitude` times the largest entry
    (thesis, 5.4, with 5 % and 5). The thesis does not state the number of rows and the rank.

    Parameters
    ----------
    n_samples : int, default=200
    n_features : pair of int, default=(20, 20)
        Columns of the first and of the second view.
    rank : int, default=5
    outliers : float, default=0.05
        Share of the entries that are replaced.
    magnitude : float, default=5.0
    noise : float, default=0.0
        Standard deviation of Gaussian noise on all other entries.
    random_state : int, RandomState instance or None

    Returns
    -------
    TwoViews
        `X1, X2, clean1, clean2`.
    """
    columns = {f"n_features[{i}]": n_features[i] for i in range(2)}
    require_count(make_two_view, n_samples=n_samples, **columns, rank=rank)
    require_not_negative(make_two_view, outliers=outliers, magnitude=magnitude, noise=noise)
    random = check_random_state(random_state)
    Phi = random.standard_normal((n_samples, rank))
    clean = [Phi @ normalize(random.standard_normal((rank, d))) for d in n_features]
    largest = magnitude * max(float(np.abs(view).max()) for view in clean)
    noisy = []
    for view in clean:
        replaced = random.uniform(size=view.shape) < outliers
        wild = random.uniform(-largest, largest, view.shape)
        noisy.append(np.where(replaced, wild, view + noise * random.standard_normal(view.shape)))
    return TwoViews(noisy[0], noisy[1], clean[0], clean[1])


def make_low_rank_labels(
    n_samples: int = 400,
    n_features: int = 20,
    rank: int = 4,
    *,
    noise: float = 0.1,
    labeled: float = 2 / 3,
    random_state: Any = None,
) -> LowRankLabels:
    """Return noisy inputs of low rank, and labels that depend on the clean inputs.

    X0 = L R with standard normal L and R; scores are X0 w + b with standard normal w and b; a label
    is one with the probability sigmoid(score), else zero; X is X0 plus Gaussian noise (Goldberg et
    al., 2010). The thesis (6.2.2) has 400 rows of 20 features, rank 4 and noise of variance 0.1,
    and does not state the number of labeled rows.

    Parameters
    ----------
    n_samples : int, default=400
    n_features : int, default=20
    rank : int, default=4
    noise : float, default=0.1
        Variance of the noise.
    labeled : float, default=2/3
        Share of the rows that keep their label in `y_partial`.
    random_state : int, RandomState instance or None

    Returns
    -------
    LowRankLabels
        `X, y, y_partial, clean`.
    """
    require_count(make_low_rank_labels, n_samples=n_samples, n_features=n_features, rank=rank)
    require_not_negative(make_low_rank_labels, noise=noise, labeled=labeled)
    random = check_random_state(random_state)
    clean = random.standard_normal((n_samples, rank)) @ random.standard_normal((rank, n_features))
    scores = clean @ random.standard_normal(n_features) + random.standard_normal()
    y = (random.uniform(size=n_samples) < 1 / (1 + np.exp(-scores))).astype(int)
    X = clean + np.sqrt(noise) * random.standard_normal(clean.shape)
    partial = y.copy()
    partial[random.permutation(n_samples)[round(labeled * n_samples) :]] = -1
    return LowRankLabels(X, y, partial, clean)
