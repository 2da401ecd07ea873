"""A subspace as an imputer: `transform` returns the completed table."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from regfactor.core.params import Array
from regfactor.tables.subspace import ConvexSubspace


class SubspaceImputer(ConvexSubspace):
    """min over Z, b of sum of observed w f(z_ij + b_j; x_ij) + alpha |Z|_tr; fills by z_ij + b_j.

    The same model, parameters and attributes as `ConvexSubspace`; `transform` returns the completed
    table, of the kind that it is given, so that it replaces `SimpleImputer` or `KNNImputer`
    in a `Pipeline`.

    Units count: under "squared" a column of large numbers outweighs the others, and `alpha` is in
    their units. Give columns of different units `loss="auto"`, which balances them, or put a
    `StandardScaler` before.

    Parameters
    ----------
    loss : str, Loss, dict or list, default="squared"
        "auto" reads it off each column and weighs columns alike.
    alpha : float or "auto", default=1.0
        Strength of the trace norm; "auto" is chosen by held-out entries.
    debias : bool or "prior", default=False
        How entries are filled once the subspace is found; begin with "prior".
    fit_intercept, max_rank, rule, sparse_zeros, max_iter, tol, time_limit, verbose, random_state,
    callback
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

    def transform(self, X: Any) -> Any:
        """Return the table with its missing entries filled.

        Observed entries, type, index and columns are kept.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            The training table or new rows.

        Returns
        -------
        The same kind of table as X.
        """
        return self.complete(X)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and return the completed table."""
        return self.fit(X, y, **fit_params).complete(X)

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
