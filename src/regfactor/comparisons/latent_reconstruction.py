"""Linear latent reconstruction: inputs and targets as linear functions of free latent rows."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

from regfactor.fitting.parameters import parametrized
from regfactor.labels.latent.estimator import SNFRegressor


@parametrized
class LinearLatentReconstruction(SNFRegressor):
    """min over Z, V, W of |X - ZV|^2 + lx |V|^2 + mu (|y - Z_l W|^2 + ly |W|^2) + lz |Z|^2.

    Offsets are free. Supervised matrix factorization, with which `SNFRegressor` is compared: its
    degree 1 with free latent rows.

    Parameters
    ----------
    n_components : float or int, default=0.5
    lambda_x, lambda_y, lambda_z : float, default=0.1
    target_weight : float, default=1.0
    max_iter, clip, scale, tol, time_limit, verbose, random_state, callback
        As in `SNFRegressor`, with its attributes and methods.

    See Also
    --------
    SNFRegressor : The nonlinear model that it is compared with.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor.baselines import LinearLatentReconstruction
    >>> t = np.linspace(-1, 1, 9)
    >>> y = np.where(np.arange(9) % 4 == 0, t, np.nan)
    >>> model = LinearLatentReconstruction(lambda_y=1e-3, lambda_z=1e-3)
    >>> model.fit(np.column_stack([t, -t, 2 * t]), y).transduction_.round(1)
    array([-1. , -0.7, -0.5, -0.2,  0. ,  0.2,  0.5,  0.7,  1. ])
    """

    back_constraint = None

    n_components: float | int = 0.5
    lambda_x: float = 0.1
    lambda_y: float = 0.1
    lambda_z: float = 0.1
    target_weight: float = 1.0
    max_iter: int = 60
    clip: float | None = 0.1
    scale: bool = True
    _: KW_ONLY
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None
