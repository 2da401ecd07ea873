"""A subspace as an imputer: `transform` returns the completed table."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from regfactor.core.params import Array
from regfactor.fitting.parameters import parametrized
from regfactor.tables.subspace import ConvexSubspace


@parametrized
class SubspaceImputer(ConvexSubspace):
    """min over Z, b of sum of observed w f(z_ij + b_j; x_ij) + alpha |Z|_tr; fills by z_ij + b_j.

    The same model and attributes as `ConvexSubspace`, with the defaults of an imputer: losses are
    read off the columns, and rows are scored under a prior of their codes. `transform` returns the
    completed table, of the kind that it is given, so that it replaces `SimpleImputer` or
    `KNNImputer` in a `Pipeline`.

    Parameters
    ----------
    loss : str, Loss, dict or list, default="auto"
        "auto" reads it off each column and weighs columns alike; the numbers of a sparse matrix
        get the squared loss.
    alpha : float or "auto", default="auto"
        Strength of the trace norm; "auto" is chosen by held-out entries.
    debias : bool or "prior", default="prior"
        How entries are filled once the subspace is found.
    fit_intercept, scale, max_rank, bounds, row_effects, rule, sparse_zeros, max_iter, tol,
    time_limit, verbose, random_state, callback, n_jobs
        As in `ConvexSubspace`, which describes all of them.

    See Also
    --------
    ConvexSubspace : The model behind it, with codes and components.
    sklearn.impute.IterativeImputer : Regresses each column on the others.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import SubspaceImputer
    >>> X = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, np.nan], [4.0, 8.0]])
    >>> SubspaceImputer(alpha=0.01).fit_transform(X).round(1)
    array([[1., 2.],
           [2., 4.],
           [3., 6.],
           [4., 8.]])
    """

    loss: Any = "auto"
    alpha: Any = "auto"
    debias: bool | str = "prior"
    fit_intercept: bool = True
    scale: bool = True
    max_rank: int | None = None
    _: KW_ONLY
    bounds: Any = None
    row_effects: bool = False
    rule: str = "min"
    sparse_zeros: str = "missing"
    max_iter: int = 1000
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: int = 0
    random_state: Any = None
    callback: Any = None
    n_jobs: int | None = None

    @property
    def partial_fit(self) -> Any:
        """Not there: losses that are read off columns, and priors, need all rows."""
        raise AttributeError(
            "SubspaceImputer has no partial_fit: update a ConvexSubspace by batches, whose "
            "`complete` fills missing entries."
        )

    def transform(
        self,
        X: Any,
        *,
        lower: Any = None,
        upper: Any = None,
        covariates: Any = None,
    ) -> Any:
        """Return the table with its missing entries filled.

        Observed entries, type, index and columns are kept.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame, BlockTable} of shape (n_samples, n_features)
            The training table or new rows.
        lower, upper : array-like of shape (n_samples, n_features), optional
            Limits of missing entries, as in `fit`.
        covariates : array-like or frame of shape (n_samples, n_covariates), optional
            Those of the rows, where `fit` was given some.

        Returns
        -------
        The same kind of table as X.
        """
        return self.complete(X, lower=lower, upper=upper, covariates=covariates)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and return the completed table."""
        fitted = self.fit(X, y, **fit_params)
        known = {name: fit_params.get(name) for name in ("lower", "upper", "covariates")}
        return fitted.complete(X, **known)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns, which stay what they are."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            if input_features is None:
                names = [f"x{j}" for j in range(self.n_features_in_)]
            else:
                names = input_features
        return np.asarray(names, dtype=object)
