"""Principal components of counts in AnnData objects, such as those of scanpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from regfactor.tables.epca.estimator import ExponentialFamilyPCA

NEEDED = ("layers", "obsm", "varm", "uns", "n_vars")


def epca(
    adata: Any,
    n_components: Any = 20,
    *,
    family: Any = "poisson",
    layer: str | None = None,
    row_offset: str | None = "total",
    mask_var: Any = None,
    batch_key: str | list[str] | None = None,
    key: str = "epca",
    **options: Any,
) -> ExponentialFamilyPCA:
    """Fit `ExponentialFamilyPCA` to the counts of an AnnData object, and store the result in it.

    A large sparse table of counts is never made dense.

    Parameters
    ----------
    adata : AnnData of shape (n_obs, n_vars)
    n_components : int, "auto" or None, default=20
    family : str or Loss, default="poisson"
        "negative_binomial" for counts that vary more than Poisson counts do.
    layer : str, optional
        The layer that holds the raw counts; `adata.X` by default.
    row_offset : {"total", "fit"}, optional, default="total"
        By default the total of a cell is its exposure.
    mask_var : str or array-like of bool of shape (n_vars,), optional
        Genes that are used, such as "highly_variable", a column of `adata.var`. Loadings of others
        are zero.
    batch_key : str or list of str, optional
        Columns of `adata.obs` that hold labels of batches, donors or plates. Genes are regressed on
        them without a penalty in addition to the components, so that these are free of what the
        batches differ by. `model.transform` of other cells takes their labels as `covariates`.
    key : str, default="epca"
        Under which results are stored.
    **options : dict
        Further parameters of `ExponentialFamilyPCA`, such as `alpha` and `random_state`.

    Returns
    -------
    ExponentialFamilyPCA
        The fitted model. In `adata`, `obsm["X_epca"]` holds the codes, `varm["epca"]` the loadings
        of genes and `uns["epca"]` the parameters, `deviance_explained`, `intercept` and, where they
        exist, `theta`, `row_offset`, and the coefficients of batches, `batch_coef` with
        `batch_names`.

    See Also
    --------
    ExponentialFamilyPCA : The model.

    Examples
    --------
    >>> import numpy as np
    >>> from anndata import AnnData
    >>> from regfactor.anndata import epca
    >>> counts = np.random.default_rng(0).poisson(2.0, size=(50, 8)).astype(float)
    >>> adata = AnnData(counts)
    >>> model = epca(adata, 2)
    >>> adata.obsm["X_epca"].shape, adata.varm["epca"].shape
    ((50, 2), (8, 2))
    """
    _check(adata, layer)
    used = _used_columns(adata, mask_var)
    batches = _batches(adata, batch_key)
    table = adata.X if layer is None else adata.layers[layer]
    model = ExponentialFamilyPCA(
        n_components,
        family,
        row_offset=row_offset,
        **options,
    )
    if not used.all():
        table = table[:, used]
    model.fit(table, covariates=batches)
    loadings = np.zeros((adata.n_vars, len(model.components_)), model.components_.dtype)
    loadings[used] = model.components_.T
    intercept = np.full(adata.n_vars, np.nan)
    intercept[used] = model.intercept_
    adata.obsm[f"X_{key}"] = model.codes_
    adata.varm[key] = loadings
    stored: dict[str, Any] = {
        "params": {
            "family": str(family),
            "layer": layer or "X",
            "row_offset": row_offset or "none",
            "alpha": model.alpha_,
        },
        "deviance_explained": model.deviance_explained_,
        "intercept": intercept,
    }
    for name in ("theta", "row_offset"):
        if hasattr(model, f"{name}_"):
            stored[name] = getattr(model, f"{name}_")
    if batches is not None:
        coefficients = np.full((len(model.covariate_names_), adata.n_vars), np.nan)
        coefficients[:, used] = model.covariate_coef_
        stored["batch_coef"] = coefficients
        stored["batch_names"] = np.array(model.covariate_names_, dtype=object)
    adata.uns[key] = stored
    return model


def _check(adata: Any, layer: str | None) -> None:
    """Raise for what is no AnnData object, or has no such layer."""
    if not all(hasattr(adata, name) for name in NEEDED):
        raise TypeError(
            f"epca takes an AnnData object, got {type(adata).__name__}: for an array or a sparse "
            "matrix use regfactor.ExponentialFamilyPCA."
        )
    if layer is not None and layer not in adata.layers:
        known = ", ".join(map(repr, adata.layers)) or "none"
        raise ValueError(f"layer={layer!r} is not among the layers of adata, which are: {known}.")


def _batches(adata: Any, batch_key: str | list[str] | None) -> Any:
    """Return the labels of batches, numbers as words: a batch is no amount."""
    if batch_key is None:
        return None
    names = [batch_key] if isinstance(batch_key, str) else list(batch_key)
    for name in names:
        if name not in adata.obs:
            known = ", ".join(map(repr, adata.obs.columns)) or "none"
            raise ValueError(f"batch_key={name!r} is not a column of adata.obs: {known}.")
        missing = np.asarray(adata.obs[name].isna())
        if missing.any():
            cell = adata.obs_names[int(missing.argmax())]
            raise ValueError(f"Cell {cell!r} has no batch in adata.obs[{name!r}]: fill it in.")
        if adata.obs[name].nunique() < 2:
            raise ValueError(f"adata.obs[{name!r}] holds one batch: leave batch_key out.")
    return adata.obs[names].astype(str)


def _used_columns(adata: Any, mask_var: Any) -> Any:
    """Return a mask of the genes that are used."""
    if mask_var is None:
        return np.ones(adata.n_vars, bool)
    if isinstance(mask_var, str):
        if mask_var not in adata.var:
            raise ValueError(f"mask_var={mask_var!r} is not a column of adata.var.")
        mask_var = adata.var[mask_var]
    used = np.asarray(mask_var, bool)
    if used.shape != (adata.n_vars,) or not used.any():
        raise ValueError(
            f"mask_var must mark some of the {adata.n_vars} genes; its shape is {used.shape} and "
            f"it marks {int(used.sum())}."
        )
    return used
