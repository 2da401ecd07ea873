"""Estimators on Dask arrays and frames, whose chunks stay where they are.

The fit runs here and asks the workers for sums over chunks. Each task is a pure function of a chunk
and of the present parameters, so that the scheduler can run it again where a worker was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from regfactor.clusters import kmeans, mixture
from regfactor.core.params import frozen, install_hint, optional
from regfactor.engine.blocks import BlockTable, Executor, RowBlock
from regfactor.tables import imputer, robust, subspace

__all__ = [
    "BregmanKMeans",
    "BregmanMixture",
    "ConvexSubspace",
    "RobustSubspace",
    "SubspaceImputer",
    "block_table",
]

SUMMED_AT_ONCE = 4  # results of chunks that one task adds up, so that no worker holds many
RETRIES = 3  # of a task that raised, as where a file could not be read for a moment


@frozen
class Chunk:
    """A chunk of a Dask collection; called, it returns the rows here."""

    delayed: Any
    client: Any

    def __call__(self) -> Any:
        return _numbers(self.client.compute(self.delayed, retries=RETRIES).result())


@frozen
class Cluster(Executor):
    """The workers of a Dask client; sums are added in a tree that depends on the table alone."""

    client: Any

    def results(
        self,
        function: Callable[..., Any],
        blocks: Sequence[RowBlock],
        shared: tuple[Any, ...],
    ) -> Iterator[Any]:
        tasks = self._tasks(function, blocks, shared)
        yield from self.client.gather(self.client.compute(tasks, retries=RETRIES))

    def total(
        self,
        function: Callable[..., Any],
        blocks: Sequence[RowBlock],
        shared: tuple[Any, ...],
    ) -> Any:
        delayed = _dask().delayed
        tasks = self._tasks(function, blocks, shared)
        while len(tasks) > 1:
            groups = range(0, len(tasks), SUMMED_AT_ONCE)
            tasks = [delayed(_summed)(tasks[i : i + SUMMED_AT_ONCE]) for i in groups]
        return self.client.compute(tasks[0], retries=RETRIES).result()

    def _tasks(
        self,
        function: Callable[..., Any],
        blocks: Sequence[RowBlock],
        shared: tuple[Any, ...],
    ) -> list[Any]:
        """Return a task for each block; what they share is one task, which can be run again too."""
        delayed = _dask().delayed
        common = delayed(shared, traverse=False, pure=False)
        tasks = []
        for block in blocks:
            rows = None
            if isinstance(block.read, Chunk):
                rows = block.read.delayed
                block = replace(block, read=_nothing)
            task = delayed(partial(_applied, function, block), traverse=False, pure=False)
            tasks.append(task(rows, common))
        return tasks


def block_table(X: Any, client: Any = None) -> BlockTable:
    """Return a Dask array or frame as a table whose blocks are its chunks of rows.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        Of numbers; NaN marks a missing entry, and chunks may be sparse matrices. Sizes of chunks
        that are not known are found by a pass over the collection.
    client : distributed.Client, optional
        Its workers do the work; by default the current client.

    Returns
    -------
    BlockTable
    """
    client = _client(client)
    names = None
    if _is_frame(X):
        names = _number_columns(X)
        n_columns = len(names)
        chunks = list(X.to_delayed())
        lengths = [None] * len(chunks)
    else:
        if X.ndim != 2:
            raise ValueError(f"A table has rows and columns; got a Dask array of shape {X.shape}.")
        if X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        n_columns = int(X.shape[1])
        chunks = list(X.to_delayed().ravel())
        lengths = list(X.chunks[0])
    if any(length is None or np.isnan(length) for length in lengths):
        counted = [_dask().delayed(_length)(chunk) for chunk in chunks]
        lengths = client.gather(client.compute(counted, retries=RETRIES))
    blocks: list[RowBlock] = []
    first = 0
    for chunk, length in zip(chunks, lengths, strict=True):
        if length:
            blocks.append(RowBlock(first, int(length), Chunk(chunk, client)))
            first += int(length)
    if not blocks:
        raise ValueError("The Dask collection has no rows.")
    return BlockTable(tuple(blocks), n_columns, names, Cluster(client))


class OnDask:
    """An estimator that takes Dask arrays and frames, and all that the one in memory takes."""

    _local: ClassVar[Any]

    def __init__(self, *args: Any, client: Any = None, **parameters: Any) -> None:
        super().__init__(*args, **parameters)
        self.client = client

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return the parameters of the estimator in memory, and the client."""
        return sorted([*cls._local._get_param_names(), "client"])

    def __sklearn_clone__(self) -> Self:
        """Return an estimator that is not fitted, with the same client."""
        names = self._local._get_param_names()
        parameters = {name: clone(getattr(self, name), safe=False) for name in names}
        return type(self)(client=self.client, **parameters)

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *more: Any,
        **keywords: Any,
    ) -> Self:
        """Fit to a Dask array or frame, or to what the estimator in memory takes.

        Parameters
        ----------
        X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, n_features)
            NaN marks a missing entry.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
        *more, **keywords
            Other arguments of the estimator in memory.

        Returns
        -------
        self
        """
        if _dask().is_dask_collection(sample_weight):
            sample_weight = np.asarray(_client(self.client).compute(sample_weight).result())
        if _dask().is_dask_collection(X):
            X = block_table(X, self.client)
        fit: Any = getattr(super(), "fit")  # noqa: B009  of the estimator in memory
        return fit(X, y, sample_weight, *more, **keywords)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and return what `transform` returns for the same table."""
        model: Any = self.fit(X, y, **fit_params)
        if _dask().is_dask_collection(X):
            return model.transform(X)
        return self.to_local().transform(X)

    def to_local(self) -> Any:
        """Return the same model, fitted or not, without Dask: it can be saved and used anywhere."""
        parameters = {name: getattr(self, name) for name in self._local._get_param_names()}
        local = self._local(**parameters)
        fitted = {name: value for name, value in vars(self).items() if name != "client"}
        vars(local).update(fitted)
        return local

    def _by_rows(self, method: str, X: Any, width: int | None = None) -> Any:
        """Return the result of a method for each row, computed where the chunks are.

        That of a method that returns one number for each row has no width.
        """
        local = self.to_local()
        if not _dask().is_dask_collection(X):
            return getattr(local, method)(X)
        arrays = optional("dask.array", "regfactor.dask", install_hint("dask"))
        lengths = (np.nan,) * X.npartitions
        if not _is_frame(X):
            lengths = X.chunks[0]
            if X.numblocks[1] > 1:
                X = X.rechunk({1: -1})
        apply = _dask().delayed(partial(_call, local, method, width), traverse=False)
        parts = []
        for chunk, length in zip(np.ravel(X.to_delayed()), lengths, strict=True):
            shape = (length,) if width is None else (length, width)
            meta = np.empty((0,) * len(shape))
            parts.append(arrays.from_delayed(apply(chunk), shape, meta=meta))
        return arrays.concatenate(parts)


class Completing(OnDask):
    """An estimator that fills missing entries."""

    def complete(self, X: Any, **known: Any) -> Any:
        """Return the table with its missing entries filled, as a Dask collection of the same kind.

        Parameters
        ----------
        X : Dask array or frame, or what the estimator in memory takes
        **known : dict
            Limits and covariates, of rows in memory alone.

        Returns
        -------
        The same kind of table as X.
        """
        local = self.to_local()
        if _is_frame(X):
            meta = X._meta.astype(np.float64)
            return X.map_partitions(_completed_frame, local, meta=meta)
        if known:
            return local.complete(X, **known)
        return self._by_rows("complete", X, local.n_features_in_)


class ConvexSubspace(Completing, subspace.ConvexSubspace):
    """min over Z, b of sum of observed w (z_ij + b_j - x_ij / u_j)^2 / 2 + alpha |Z|_tr, on Dask.

    `regfactor.ConvexSubspace` fitted to the chunks of a Dask array or frame, which stay on the
    workers: they send sums of the size of the components or of a Gram matrix of the columns.
    The optimum and its certificate are those of the fit in memory.

    Parameters
    ----------
    *args, **parameters
        Those of `regfactor.ConvexSubspace`. Dask collections are fitted under the squared loss,
        with `debias` False or "prior", without `bounds`.
    client : distributed.Client, optional
        Its workers do the work; by default the current client.

    Attributes
    ----------
    components_, intercept_, singular_values_, scale_, alpha_, objective_, gap_, certificate_
        As those of `regfactor.ConvexSubspace`. Codes are not kept: `transform` has them.

    See Also
    --------
    regfactor.ConvexSubspace : The model, with all parameters.
    regfactor.BlockTable : Tables larger than memory on one machine.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from regfactor.dask import ConvexSubspace
    >>> x = np.random.default_rng(0).normal(size=(1000, 3)) @ np.ones((3, 5))
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     X = da.from_array(x, chunks=(250, 5))
    ...     model = ConvexSubspace(alpha=1.0, client=client).fit(X)
    ...     codes = model.transform(X).compute()
    >>> codes.shape
    (1000, 1)
    >>> type(model.to_local()).__module__
    'regfactor.tables.subspace'
    """

    _local = subspace.ConvexSubspace

    def transform(self, X: Any, **known: Any) -> Any:
        """Return the codes of each row; those of a Dask collection are a Dask array.

        Parameters
        ----------
        X : Dask array or frame, or what the estimator in memory takes
        **known : dict
            Limits and covariates, of rows in memory alone.

        Returns
        -------
        dask.array.Array or ndarray of shape (n_samples, n_components)
        """
        if known:
            return self.to_local().transform(X, **known)
        return self._by_rows("transform", X, len(self.components_))


class SubspaceImputer(Completing, imputer.SubspaceImputer):
    """min over Z, b of sum of observed w (z_ij + b_j - x_ij / u_j)^2 / 2 + alpha |Z|_tr, to fill.

    `regfactor.SubspaceImputer` fitted to the chunks of a Dask array or frame; `transform` fills
    them where they are.

    Parameters
    ----------
    *args, **parameters
        Those of `regfactor.SubspaceImputer`. Dask collections are fitted under the squared loss,
        without `bounds`; strength and prior are chosen on 20,000 rows.
    client : distributed.Client, optional
        Its workers do the work; by default the current client.

    See Also
    --------
    regfactor.SubspaceImputer : The model, with all parameters.
    """

    _local = imputer.SubspaceImputer

    def transform(self, X: Any, **known: Any) -> Any:
        """Return the table with its missing entries filled, as `complete` does.

        Parameters
        ----------
        X : Dask array or frame, or what the estimator in memory takes
        **known : dict
            Limits and covariates, of rows in memory alone.

        Returns
        -------
        The same kind of table as X.
        """
        return self.complete(X, **known)


class RobustSubspace(Completing, robust.RobustSubspace):
    """min over Z, S of sum (z_ij + s_ij - x_ij)^2 / 2 + beta |S|_1 + alpha |Z|_tr, on Dask.

    `regfactor.RobustSubspace` fitted to the chunks of a Dask array or frame. Outliers are not kept.

    Parameters
    ----------
    *args, **parameters
        Those of `regfactor.RobustSubspace`. Dask collections are fitted under the squared loss,
        without an intercept; strengths that follow from the noise are those of 20,000 rows.
    client : distributed.Client, optional
        Its workers do the work; by default the current client.

    See Also
    --------
    regfactor.RobustSubspace : The model, with all parameters.
    """

    _local = robust.RobustSubspace

    def transform(self, X: Any) -> Any:
        """Return the codes of each row; those of a Dask collection are a Dask array.

        Parameters
        ----------
        X : Dask array or frame, or what the estimator in memory takes

        Returns
        -------
        dask.array.Array or ndarray of shape (n_samples, n_components)
        """
        return self._by_rows("transform", X, len(self.components_))


class ClustersOnDask(OnDask):
    """Predictions of clusters, which a mixture finds most probable."""

    def predict(self, X: Any) -> Any:
        """Return the cluster of each row; those of a Dask collection are a Dask array.

        Parameters
        ----------
        X : Dask array or frame, or what the estimator in memory takes

        Returns
        -------
        dask.array.Array or ndarray of shape (n_samples,)
        """
        return self._by_rows("predict", X)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, and return the cluster of each row."""
        return self.fit(X, y, sample_weight).predict(X)


class BregmanKMeans(ClustersOnDask, kmeans.BregmanKMeans):
    """min over labels z and centers m of sum_i w_i D(x_i, m_{z_i}), on Dask.

    `regfactor.BregmanKMeans` fitted to the chunks of a Dask array or frame: each step is a sum over
    them. The first centers are those of a fit to 20,000 rows.

    Parameters
    ----------
    *args, **parameters
        Those of `regfactor.BregmanKMeans`, without a kernel and under divergences whose best center
        is the mean.
    client : distributed.Client, optional
        Its workers do the work; by default the current client.

    See Also
    --------
    regfactor.BregmanKMeans : The model, with all parameters. `labels_` are not kept: `predict` has
        them.
    """

    _local = kmeans.BregmanKMeans

    def transform(self, X: Any) -> Any:
        """Return the divergence of every row from every center.

        Parameters
        ----------
        X : Dask array or frame, or what the estimator in memory takes

        Returns
        -------
        dask.array.Array or ndarray of shape (n_samples, n_clusters)
        """
        return self._by_rows("transform", X, self.n_clusters)


class BregmanMixture(ClustersOnDask, mixture.BregmanMixture):
    """min over p, m of -sum_i w_i log sum_j p_j exp(-sharpness D(x_i, m_j)), on Dask.

    `regfactor.BregmanMixture` fitted to the chunks of a Dask array or frame: each step of EM is a
    sum over them. The start and the sharpness are those of a fit to 20,000 rows.

    Parameters
    ----------
    *args, **parameters
        Those of `regfactor.BregmanMixture`, without a kernel and under divergences whose best
        center is the mean.
    client : distributed.Client, optional
        Its workers do the work; by default the current client.

    See Also
    --------
    regfactor.BregmanMixture : The model, with all parameters.
    """

    _local = mixture.BregmanMixture

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each component for each row.

        Parameters
        ----------
        X : Dask array or frame, or what the estimator in memory takes

        Returns
        -------
        dask.array.Array or ndarray of shape (n_samples, n_components)
        """
        return self._by_rows("predict_proba", X, self.n_components)


def _dask() -> Any:
    return optional("dask", "regfactor.dask", install_hint("dask"))


def _client(client: Any) -> Any:
    """Return a client, or the current one."""
    if client is not None:
        return client
    distributed = optional("distributed", "regfactor.dask", install_hint("dask"))
    try:
        return distributed.get_client()
    except ValueError as error:
        raise ValueError(
            "There is no current client of Dask: give client=distributed.Client(...)."
        ) from error


def _is_frame(X: Any) -> bool:
    return bool(_dask().is_dask_collection(X)) and hasattr(X, "map_partitions")


def _number_columns(frame: Any) -> tuple[str, ...]:
    """Return the names of the columns; raise if one holds no numbers."""
    numbers = set(frame.select_dtypes(["number", "bool"]).columns)
    others = [name for name in frame.columns if name not in numbers]
    if others:
        raise ValueError(
            f"Columns {others} hold no numbers: leave them out, or fit a frame in memory under "
            "loss='auto'."
        )
    return tuple(map(str, frame.columns))


def _numbers(chunk: Any) -> Any:
    """Return the rows of a chunk, those of a frame as an array of floats."""
    if hasattr(chunk, "columns"):
        return chunk.to_numpy(dtype=np.float64, na_value=np.nan)
    return chunk


def _length(chunk: Any) -> int:
    return int(chunk.shape[0])


def _nothing() -> None:
    """Read no rows: those of a chunk come with the task."""


def _applied(
    function: Callable[..., Any],
    block: RowBlock,
    rows: Any,
    shared: tuple[Any, ...],
) -> Any:
    """Return a function of a block whose rows came with the task, or else are read by it."""
    if rows is not None:
        block = replace(block, read=partial(_numbers, rows))
    return function(block, *shared)


def _summed(parts: list[Any]) -> Any:
    return reduce(add, parts)


def _call(model: Any, method: str, width: int | None, rows: Any) -> Any:
    if not rows.shape[0]:
        return np.empty(0 if width is None else (0, width))
    return getattr(model, method)(rows)


def _completed_frame(frame: Any, model: Any) -> Any:
    if not len(frame):
        return frame.astype(np.float64)
    return model.complete(frame).astype(np.float64)
