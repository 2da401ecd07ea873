"""A mixed table as numbers: encoding, loss and weight of each column, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from regfactor.core.params import SMALLEST_NORMAL, Array, choose, frozen, is_option, text_table
from regfactor.fitting.columns import (
    Cells,
    Codec,
    ColumnTable,
    Kind,
    LineCodec,
    Number,
    OneHotCodec,
    StepCodec,
    as_table,
)
from regfactor.fitting.dispersion import column_means, profile_thetas
from regfactor.fitting.units import bounds_influence, column_deviation, quantiles
from regfactor.losses import (
    Logistic,
    Loss,
    Multinomial,
    NegativeBinomial,
    Ordinal,
    Squared,
    Stacked,
    as_loss,
    by_columns,
)
from regfactor.losses.margin import Margin
from regfactor.penalties import Trace
from regfactor.problems import Convex, Data, Design
from regfactor.problems.checks import IllegalValues, check_term
from regfactor.problems.data import FILLER
from regfactor.problems.layout import Dense

AUTO = "auto"
MAX_TEXT_LEVELS = 50  # distinct strings up to which a column of text is taken for categories
CONSTANT_LOSS = 1e-9  # a null loss below this is that of a column in which nothing differs
LABELS = (Kind.ORDERED, Kind.UNORDERED, Kind.TEXT)


class Inferred(NamedTuple):
    """What a column was taken for."""

    column: Any
    kind: str
    loss: str
    width: int


class Inference(tuple[Inferred, ...]):
    """What every column was taken for; its `str` is a table."""

    def __str__(self) -> str:
        rows = [("column", "kind", "loss", "encoded as"), *(map(str, row) for row in self)]
        return "\n".join(text_table(rows))


@frozen
class Schema:
    """Encoding of numbers, truth values, ordered and unordered categories, and its inverse.

    "auto" takes a numeric column for squared loss on (x - median) / (interquartile range / 1.349),
    a boolean one for logistic loss, an ordered category for a logistic loss on each step between
    its levels, an unordered one for a logistic loss on each of its one-hot columns (one column if
    it has two levels). Strings are unordered categories. A polars Enum is ordered, a polars
    Categorical is not. A column that is given a loss of its own is not scaled, or, where that is
    asked for and the loss is one of residuals, divided by its deviation.
    """

    codecs: tuple[Codec, ...]
    loss: Loss
    weights: Array

    @staticmethod
    def of(X: Any, loss: Any = AUTO, scale: bool = False, rows: Array | None = None) -> Schema:
        """Return the schema of a table; columns without a loss in a dict or list are "auto".

        Weights of rows act as repetition counts.
        """
        table = as_table(X)
        columns = table.columns()
        groups = _groups(loss, table.names)
        if isinstance(loss, str | Loss) and loss != AUTO and not isinstance(loss, Stacked):
            _require_numbers(columns, loss)
        found = {}
        for at, part in groups:
            for j in at:
                found[j] = _codec(columns[j], part, scale, rows)
        codecs = tuple(found[j] for j in range(len(columns)))
        E = _encoded(codecs, columns)
        bands = _bands(codecs, groups)
        stacked = _stacked(bands)
        weights = np.ones(E.shape[1])
        inferred = any(part == AUTO for _, part in groups)
        if inferred or any(cells.kind in LABELS for cells in columns):
            weights = _balance(E, stacked, bands, rows)
        return Schema(codecs, stacked, weights)

    @property
    def feature_names(self) -> list[str]:
        """The names of the encoded columns."""
        return [name for codec in self.codecs for name in codec.features]

    @property
    def inferred(self) -> Inference:
        """What every column was taken for: (column, kind, loss, number of encoded columns)."""
        return Inference(
            Inferred(c.name, c.kind.value, str(c.loss), len(c.features)) for c in self.codecs
        )

    def encode(self, X: Any) -> Array:
        """Return the table as floats, NaN for missing entries and labels that `of` never saw."""
        return _encoded(self.codecs, self._columns(as_table(X)))

    @property
    def centers_and_units(self) -> tuple[Array, Array]:
        """Center and unit of each encoded column, in those of the original ones."""
        center = np.zeros(len(self.weights))
        unit = np.ones(len(self.weights))
        for codec, at in zip(self.codecs, _spans(self.codecs), strict=True):
            if isinstance(codec, Number):
                center[at] = codec.center
                unit[at] = codec.scale
        return center, unit

    @property
    def spans(self) -> list[slice]:
        """The encoded columns of each original one."""
        return _spans(self.codecs)

    @property
    def originals(self) -> Array:
        """The position of the original column of each encoded one."""
        widths = [len(codec.features) for codec in self.codecs]
        return np.repeat(np.arange(len(widths)), widths)

    def spread(self, weights: Array) -> Array:
        """Return weights of the original columns as weights of the encoded ones."""
        return weights[:, self.originals]

    def decode(self, predicted: Array, X: Any) -> Any:
        """Return X with missing entries filled from predictions in the units of `encode`."""
        table = as_table(X)
        columns = self._columns(table)
        spans = _spans(self.codecs)
        fills = {
            j: codec.decode(predicted[cells.missing, at])
            for j, (codec, cells, at) in enumerate(zip(self.codecs, columns, spans, strict=True))
            if cells.missing.any()
        }
        return table.filled(fills)

    def _columns(self, table: ColumnTable) -> list[Cells]:
        """Return the columns of a table; raise where they are not those of the fit."""
        names = [codec.name for codec in self.codecs]
        if len(table.names) != len(names):
            raise ValueError(
                f"The table has {len(table.names)} columns, in fit it had {len(names)}: {names}."
            )
        numbered = list(range(len(names)))
        # arrays have no names to compare
        if table.names != names and numbered not in (names, table.names):
            wrong = [
                f"{found!r} instead of {name!r}"
                for found, name in zip(table.names, names, strict=True)
                if found != name
            ]
            raise ValueError(
                f"The columns are not those of fit, in that order: {', '.join(wrong[:3])}."
            )
        columns = [table.cells(j) for j in numbered]
        for cells, codec in zip(columns, self.codecs, strict=True):
            _require_kind(cells, codec)
        return columns


class Band(NamedTuple):
    """Encoded columns of some original columns that are weighted together under one loss."""

    at: list[int]
    originals: int
    loss: Loss


def _groups(loss: Any, names: list[Any]) -> list[tuple[list[int], Any]]:
    """Return which losses stand on which columns; those left out are "auto"."""
    pairs: Any
    if isinstance(loss, Stacked):
        pairs = list(loss.groups)
    else:
        pairs = by_columns(loss)
    if pairs is None:
        return [(list(range(len(names))), _part(loss))]
    groups = [(places(columns, names), _part(part)) for columns, part in pairs]
    counts = np.bincount([j for at, _ in groups for j in at], minlength=len(names))
    if counts.max(initial=0) > 1:
        twice = [names[j] for j in np.flatnonzero(counts > 1)]
        raise ValueError(f"Each column takes one loss; {twice} are given several.")
    return [*groups, *(([j], AUTO) for j in np.flatnonzero(counts == 0).tolist())]


def _part(loss: Any) -> Any:
    """Return a loss for single columns: a part, or "auto" or "ordinal" until a column is seen."""
    if isinstance(loss, str) and loss in (AUTO, "ordinal"):
        return loss
    if isinstance(loss, list | tuple | Mapping | Stacked):
        raise ValueError(f"A column takes a string or a Loss, got {loss!r}.")
    return as_loss(loss)


def places(columns: Any, names: list[Any]) -> list[int]:
    """Return the positions of columns given by name, index, slice, mask or a list of these."""
    if isinstance(columns, str) or (
        not isinstance(columns, slice | list | tuple | np.ndarray) and columns in names
    ):
        found = [j for j, name in enumerate(names) if name == columns]
        if len(found) > 1:
            raise ValueError(
                f"{len(found)} columns are named {columns!r}; give their losses by position."
            )
        return found or [choose(columns, {str(name): j for j, name in enumerate(names)}, "column")]
    if isinstance(columns, list | tuple):
        return [j for column in columns for j in places(column, names)]
    try:
        return [int(j) for j in np.atleast_1d(np.arange(len(names))[columns])]
    except IndexError as error:
        raise ValueError(
            f"A loss stands on columns {columns!r}; the table has {len(names)}: {names}."
        ) from error


def _require_numbers(columns: list[Cells], loss: Any) -> None:
    """Raise for categories under one loss for all columns."""
    labels = [repr(c.name) for c in columns if c.kind in LABELS]
    verb = "holds" if len(labels) == 1 else "hold"
    if labels:
        raise ValueError(
            f"loss={loss!r} on all columns needs numbers, but {', '.join(labels)} {verb} "
            "categories or text. Use loss='auto', or give losses by column: {column: loss}."
        )


def _require_kind(cells: Cells, codec: Codec) -> None:
    """Raise if a column is of another kind than in fit, or has other ordered levels."""
    accepted = {codec.kind, Kind.EMPTY}
    if codec.kind in LABELS:
        accepted.update(LABELS)
    if codec.kind is Kind.NUMBER:
        accepted.add(Kind.BOOLEAN)
    if cells.kind not in accepted:
        raise ValueError(
            f"Column {cells.name!r} is {cells.kind.value}, in fit it was {codec.kind.value}; "
            "convert it."
        )
    ordered = codec.kind is Kind.ORDERED and cells.kind is Kind.ORDERED
    if not ordered or not isinstance(codec, LineCodec | StepCodec):
        return
    if len(codec.levels) > 1 and cells.levels != codec.levels:
        raise ValueError(
            f"Column {cells.name!r} has the levels {list(cells.levels)}, in fit it had "
            f"{list(codec.levels)}; convert it to the type that it had in fit."
        )


def _codec(cells: Cells, loss: Any, scale: bool, row_weights: Array | None) -> Codec:
    """Return how a column is encoded under a loss, or under the one that suits it best."""
    if cells.kind is Kind.EMPTY:
        raise ValueError(
            f"Column {cells.name!r} has neither a value nor a type that states what belongs there; "
            "drop it."
        )
    refuse_prose(cells)
    if cells.kind is not Kind.NUMBER:
        return _label_codec(cells, loss)
    center = 0.0
    unit = 1.0
    seen = np.isfinite(cells.values)
    weights = None if row_weights is None else row_weights[seen]
    if loss == AUTO:
        loss = Squared()
        center = _median(cells.values[seen], weights)
        unit = column_deviation(cells.values[seen] - center, weights, robust=True)
    elif loss == "ordinal":
        loss = Ordinal()
    elif isinstance(loss, NegativeBinomial) and is_option(loss.theta, AUTO):
        loss = _with_dispersion(cells.values[seen], weights)
    elif scale and loss.of_residual:
        unit = column_deviation(cells.values[seen], weights, robust=bounds_influence(loss))
    return Number(cells.name, cells.kind, loss, center, unit, _least(cells.values))


def refuse_prose(cells: Cells) -> None:
    """Raise for a column of strings that are too different to be categories."""
    rows = len(cells.values)
    if cells.kind is Kind.TEXT and len(cells.levels) > min(MAX_TEXT_LEVELS, rows / 2):
        raise ValueError(
            f"Column {cells.name!r} holds {len(cells.levels)} different strings in {rows} rows: "
            "too many to be categories. Drop it, or convert it to numbers or to a categorical "
            "type."
        )


def _label_codec(cells: Cells, loss: Any) -> Codec:
    name = cells.name
    kind = cells.kind
    levels = cells.levels
    occur = tuple(np.unique(cells.values[~cells.missing]).astype(int).tolist())
    seen = [levels[j] for j in occur]
    if len(seen) < 2 and (loss == AUTO or kind in LABELS):
        # a logistic loss would send its offset to infinity; with nothing seen at all the first
        # level stands in
        return LineCodec(name, kind, Squared(), tuple(seen or levels[:1]))
    if kind in (Kind.UNORDERED, Kind.TEXT):
        loss = Logistic() if loss == AUTO else loss
        if not isinstance(loss, Logistic | Margin | Multinomial):
            raise ValueError(
                f"Column {name!r} is an unordered category, which takes the losses 'auto', "
                f"'logistic', 'softmax' or a hinge, not {loss!r}. If its categories have an order, "
                "make it an ordered type."
            )
        coding = LineCodec if len(seen) == 2 and not loss.rowwise else OneHotCodec
        return coding(name, kind, loss, tuple(seen))
    if loss == AUTO and len(levels) > 2:
        return StepCodec(name, kind, Logistic(), levels, occur)
    if loss in (AUTO, "ordinal"):
        if len(levels) == 2:
            loss = Logistic()
        else:
            loss = Ordinal(levels=len(levels))
    if loss.rowwise or (len(levels) > 2 and isinstance(loss, Logistic | Margin)):
        raise ValueError(
            f"Column {name!r} has {len(levels)} ordered levels, which {loss} cannot take; use "
            "'ordinal'."
        )
    return LineCodec(name, kind, loss, levels)


def _with_dispersion(values: Array, weights: Array | None) -> Loss:
    """Return the negative-binomial loss with the dispersion of a column about its mean."""
    x = values.astype(float)[:, None]
    if weights is None:
        counts = np.ones_like(x)
    else:
        counts = weights[:, None]
    means = np.broadcast_to(column_means(x, counts), x.shape)
    return NegativeBinomial(float(profile_thetas(x, means, counts)[0]))


def _median(values: Array, weights: Array | None) -> float:
    """Return the median of the observed values of a column, zero for none."""
    if weights is not None:
        values = values[weights > 0]
        weights = weights[weights > 0]
    if not len(values):
        return 0.0
    return float(quantiles(values.astype(np.float64), 0.5, weights))


def _least(values: Array) -> float:
    """Return zero for counts, whole numbers >= 0; other numbers have no least value."""
    observed = values[np.isfinite(values)]
    if len(observed) and np.all((observed >= 0) & (observed == np.rint(observed))):
        return 0.0
    return -np.inf


def _spans(codecs: tuple[Codec, ...]) -> list[slice]:
    """Return the encoded columns of each column."""
    ends = np.cumsum([len(codec.features) for codec in codecs]).tolist()
    return [slice(end - len(codec.features), end) for codec, end in zip(codecs, ends, strict=True)]


def _encoded(codecs: tuple[Codec, ...], columns: list[Cells]) -> Array:
    """Return the encoded table; an error names the column whose numbers its loss cannot take."""
    blocks = []
    for codec, cells in zip(codecs, columns, strict=True):
        block = codec.encode(cells)
        observed = ~np.isnan(block)
        if np.isinf(block).any():
            raise ValueError(
                f"Column {codec.name!r} contains infinity; mark missing entries by NaN."
            )
        if not codec.loss.rowwise:
            _check_legal(codec, np.where(observed, block, FILLER), observed)
        blocks.append(block)
    return np.hstack(blocks)


def _check_legal(codec: Codec, block: Array, observed: Array) -> None:
    try:
        check_term(codec.loss, block, observed, Dense(block.shape))
    except IllegalValues as error:
        raise error.named([codec.name] * block.shape[1]) from None


def _bands(codecs: tuple[Codec, ...], groups: list[tuple[list[int], Any]]) -> list[Band]:
    """Return the encoded columns of each column, or of all columns that a rowwise loss couples."""
    spans = _spans(codecs)
    bands = []
    for at, part in groups:
        coupled = [j for j in at if isinstance(codecs[j], Number) and codecs[j].loss.rowwise]
        if coupled:
            bands.append(Band([spans[j].start for j in coupled], len(coupled), part))
        bands += [
            Band(list(range(spans[j].start, spans[j].stop)), 1, codecs[j].loss)
            for j in at
            if j not in coupled
        ]
    return bands


def _stacked(bands: list[Band]) -> Loss:
    """Return the loss of the encoded table, one part for all columns of an equal loss."""
    parts: list[tuple[list[int], Loss]] = []
    for band in bands:
        equal = [at for at, loss in parts if loss == band.loss and not loss.rowwise]
        if equal:
            equal[0].extend(band.at)
        else:
            parts.append((list(band.at), band.loss))
    if len(parts) == 1:
        return parts[0][1]
    return Stacked(tuple((sorted(at), loss) for at, loss in parts))


def _balance(E: Array, loss: Loss, bands: list[Band], rows: Array | None) -> Array:
    """Return weights of encoded columns at which the null loss of each column is one an entry."""
    # columns too large for their loss are refused where they are read
    with np.errstate(over="ignore"):
        excess = _null_losses(E, loss, rows)
    weights = np.ones(E.shape[1])
    for band in bands:
        per_row = excess[band.at].sum()
        if per_row > CONSTANT_LOSS:
            weights[band.at] = band.originals / per_row
    return weights


def _null_losses(E: Array, loss: Loss, rows: Array | None) -> Array:
    """min over b of the mean over observed entries of f(b; x) - min_z f(z; x), for each column.

    For losses whose least value is zero, such as squared and logistic, this is the loss of the best
    constant; others, such as poisson, can be negative, and only what exceeds their least value can
    be balanced.
    """
    out = np.zeros(E.shape[1])
    if rows is not None:
        E = E[rows > 0]
        rows = rows[rows > 0]
    for columns, part in loss.parts(E.shape[1]):
        x = E[:, columns].astype(float)
        seen = ~np.isnan(x)
        if seen.any():
            filled = np.where(seen, x, FILLER)
            excess = part.value(_constants(x, part, rows), filled)
            excess = excess + part.conjugate(np.zeros_like(x), filled)
            counts = seen.astype(float)
            if rows is not None:
                counts *= rows[:, None]
            total = (counts * np.where(seen, excess, 0)).sum(axis=0)
            out[columns] = total / np.maximum(counts.sum(axis=0), SMALLEST_NORMAL)
    return out


def _constants(x: Array, loss: Loss, rows: Array | None) -> Array:
    """Return the constant predictor that fits each column best, spread over its rows."""
    if not loss.unbounded:  # losses on half a line are those whose best constant predicts the mean
        weights = np.ones(len(x)) if rows is None else rows
        counts = np.where(np.isnan(x), 0, weights[:, None])
        totals = (counts * np.nan_to_num(x)).sum(axis=0)
        means = totals / np.maximum(counts.sum(axis=0), SMALLEST_NORMAL)
        return np.broadcast_to(loss.inverse_gradient(np.zeros(1), means), x.shape)
    data = Data.of(x, loss)
    if rows is not None:
        data = data.weighted(rows)
    problem = Convex(data, Trace(), 1.0, design=Design.intercept(len(x)))
    return problem.predictor(problem.null.factors, problem.null.coefficients)
