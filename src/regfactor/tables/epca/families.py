"""Exponential families in the API: the loss that is fitted, the base measure, and how a table is read under them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import Any

import numpy as np
from scipy.special import gammaln

from regfactor.core.linalg import is_sparse
from regfactor.core.params import Array, UnsupportedProblem, choose
from regfactor.losses import Binomial, Gamma, Logistic, Loss, Multinomial, Poisson, Squared
from regfactor.problems import Data
from regfactor.problems.checks import IllegalValues, as_bits
from regfactor.problems.layout import Pattern
from regfactor.tables.epca.entries import Entries, at_entries

# weight of a hole under a loss that restricts the predictor, as a share of the mean weight of an
# entry
FAINT = 1e-3
BLOCK = (
    2**16
)  # entries of a table that are tallied together: fresh memory costs more than the arithmetic
LEAST_TOTAL = 0.5  # what stands for the total of a row without a count, in units of a count

FAMILIES: dict[str, Callable[[float], Loss]] = {
    "gaussian": lambda trials: Squared(),
    "bernoulli": lambda trials: Logistic(),
    "binomial": lambda trials: Binomial(trials),
    "poisson": lambda trials: Poisson(),
    "gamma": lambda trials: Gamma(),
    "multinomial": lambda trials: Multinomial(),
}


def as_family(family: Any, trials: float) -> Loss:
    """Return the loss of a family: its negative log likelihood up to the base measure."""
    if isinstance(family, str):
        return choose(family, FAMILIES, "family")(trials)
    if (
        isinstance(family, Squared | Logistic | Binomial | Poisson | Gamma)
        or type(family) is Multinomial
    ):
        return family
    raise ValueError(
        f"family must be one of {', '.join(sorted(FAMILIES))} or such a loss, got {family!r}.",
    )


def is_non_negative(family: Any) -> bool:
    """Whether a family, by name or as a loss, takes no negative number; False for what is no family."""
    if isinstance(family, str):
        return family in FAMILIES and family != "gaussian"
    return isinstance(family, Loss) and family.domain.low >= 0


def check_form(n_components: Any, row_offset: Any, loss: Loss) -> None:
    """Raise for an offset of rows or a convex form that the family cannot have."""
    if row_offset == "total" and not isinstance(loss, Poisson):
        if isinstance(loss, Multinomial):
            other = "row_offset=None"
        else:
            other = "row_offset='fit'"
        raise ValueError(
            f"row_offset='total' is an exposure of counts: use family='poisson', or {other}.",
        )
    if row_offset == "fit" and isinstance(loss, Multinomial):
        raise ValueError(
            "family='multinomial' has a free level for each row already: leave row_offset=None.",
        )
    if n_components is None and (isinstance(loss, Gamma) or row_offset == "fit"):
        what = "row_offset='fit' is a second free term"
        if isinstance(loss, Gamma):
            what = "family='gamma' restricts the predictor"
        raise UnsupportedProblem(
            f"n_components=None needs the convex form, and {what}: give n_components.",
        )


def check_values(loss: Loss, table: Any) -> None:
    """Raise for data that a family cannot take: which columns, how many, which family instead."""
    x = table.data if is_sparse(table) else table
    seen = ~np.isnan(x)
    bad = ~loss.legal(x) & seen
    if not bad.any():
        return
    if is_sparse(table):
        counts = [
            np.bincount(table.indices[part], minlength=table.shape[1]) for part in (bad, seen)
        ]
    else:
        counts = [part.sum(axis=0) for part in (bad, seen)]
    if (x[seen] < 0).any():
        what = "Negative values in data"
    else:
        what = "Values outside the family's range"
    name = next(name for name, part in FAMILIES.items() if type(part(1)) is type(loss))
    what = f"{what}: family={name!r} takes {loss.domain_text}; outside are "
    raise IllegalValues(what, counts[0], counts[1], _advice(loss, x[seen]))


def _advice(loss: Loss, values: Array) -> str:
    """Return which coding or which family would take the data."""
    if np.isin(values, (-1, 1)).all():
        return "Values are -1 and +1: code them 0 and 1 for family='bernoulli'."
    if isinstance(loss, Logistic) and (coded := as_bits(values)) is not None:
        return coded
    if (values < 0).any():
        return "family='gaussian' takes any number."
    if isinstance(loss, Binomial):
        return f"Give the number of trials: trials={values.max():g} would take the largest value."
    if (values == np.round(values)).all():
        return "Values are counts: use family='poisson', 'multinomial' for rows of counts, or 'binomial' with trials."
    if isinstance(loss, Gamma):
        return "Zeros are no gamma data: use family='poisson', which takes any number from zero on, or mark them by NaN."
    return "Values are not negative: use family='poisson' or, where none is zero, 'gamma'."


def log_likelihood(loss: Loss, z: Array, x: Array, rows: Array) -> float:
    """Return the log likelihood of observed entries x at predictors z, base measure included; all are vectors."""
    if isinstance(loss, Multinomial):  # of the observed counts of a row, given their total
        highest = np.full(rows.max() + 1, -np.inf)
        np.maximum.at(highest, rows, z)
        z = z - highest[rows]
        shares = z - np.log(np.bincount(rows, np.exp(z))[rows])
        return float(x @ shares + gammaln(np.bincount(rows, x) + 1).sum() - gammaln(x + 1).sum())
    return float((_log_base(loss, x) - loss.value(z, x)).sum(dtype=np.float64))


def _log_base(loss: Loss, x: Array) -> Any:
    if isinstance(loss, Squared):
        return -0.5 * np.log(2 * np.pi)
    if isinstance(loss, Poisson):
        return -gammaln(x + 1)
    if isinstance(loss, Binomial):
        return gammaln(loss.trials + 1) - gammaln(x + 1) - gammaln(loss.trials - x + 1)
    return 0.0


def _tally(table: Any, D: Array, entries: Any) -> Array:
    """Return by columns the sums of w x, of w, of the entries that have weight, and of w where x > 0, weighted by D."""
    held = Entries.of(table, entries)
    parts = (held.w * held.x, held.w, held.seen, np.where(held.x > 0, held.w, 0))
    return np.array([held.layout.adjoint(D, part)[0] for part in parts])


def _counting(table: Any, entries: Any) -> Any:
    """Return weights of entries, zero in rows without a count: their likelihood is one, whatever the shares."""
    held = Entries.of(table, entries)
    some = held.layout.row_sums(held.seen * held.x) > 0
    if some.all() or not some.any():
        return entries
    w = held.w * at_entries(held.layout, some[:, None])
    if is_sparse(table):
        return held.layout.matrix(w)
    return w


@dataclass(frozen=True, eq=False)
class Reading:
    """How a table becomes data under a family.

    A row of counts given their total is a row of Poisson counts with a free level, which gives the
    same likelihood and leaves entries apart. `means` are those of the columns of the training
    table, `totals` says whether totals of rows are exposures, `unit` is what a count of one is:
    one, or where data are smaller the mean of the positive. `weight` is the mean weight of an
    observed entry where entries have weights.
    """

    loss: Loss
    means: Array
    totals: bool = False
    unit: float = 1.0
    weight: float = 1.0

    @staticmethod
    def of(table: Any, rows: Array | None, entries: Any, loss: Loss, totals: bool) -> Reading:
        """Return the reading of a training table, with the means of its columns."""
        n, d = table.shape
        D = np.ones((n, 1)) if rows is None else rows[:, None]
        step = n if is_sparse(table) else max(BLOCK // d, 16)
        tally = np.zeros((4, d))
        for start in range(0, n, step):
            at = slice(start, start + step)
            tally += _tally(table[at], D[at], None if entries is None else entries[at])
        total, weight, seen, some = tally
        if not weight.any():
            raise ValueError(
                "Every entry of the table is missing or has weight zero; there is nothing to fit.",
            )
        overall = total.sum() / max(weight.sum(), 1e-300)
        unit = min(1.0, float(total.sum() / some.sum())) if some.any() else 1.0
        means = np.where(weight > 0, total / np.where(weight > 0, weight, 1), overall)
        return Reading(loss, means, totals, unit, float(weight.sum() / max(seen.sum(), 1e-300)))

    @property
    def fitted(self) -> Loss:
        """The loss of single entries that is minimized."""
        if isinstance(self.loss, Multinomial):
            return Poisson()
        return self.loss

    def exposure(self, table: Any, entries: Any, given: Array | None) -> Array:
        """Return the log of each row's total over what the means of its observed columns would make.

        Where an offset is given it is what the row has beside that: the total counts all of its
        exposure.
        """
        held = Entries.of(table, entries)
        total = held.layout.row_sums(held.seen * held.x)
        weights = held.seen
        level = np.zeros(table.shape[0])
        if given is not None:
            added = at_entries(held.layout, given)
            level[:] = given.min(axis=1)
            np.maximum.at(level, held.rows, added[held.w > 0])  # the highest of what is observed
            weights = held.seen * np.exp(
                np.minimum(added - at_entries(held.layout, level[:, None]), 0),
            )
        expected = held.layout.times(weights, self.means[:, None])[:, 0]
        ratio = np.maximum(total, LEAST_TOTAL * self.unit) / np.where(expected > 0, expected, 1)
        return (np.where(expected > 0, np.log(ratio), 0) - level).astype(table.dtype)

    def offset(self, table: Any, entries: Any, given: Array | None) -> Array | None:
        """Return what is added to the predictors: the offset given and the exposures."""
        if not self.totals:
            return given
        by_total = self.exposure(table, entries, given)[:, None]
        if given is None:
            return by_total
        return given + by_total

    def data(self, table: Any, entries: Any, given: Array | None) -> Data:
        """Return the data of a table, checked against the family."""
        if isinstance(self.loss, Gamma):
            return self._inside(table, entries)
        check_values(self.loss, table)
        offset = self.offset(table, entries, given)
        if isinstance(self.loss, Multinomial):
            entries = _counting(table, entries)
        if not is_sparse(table):
            return Data.of(table, self.fitted, entries, offset)
        data = Data.of_sparse(table, self.fitted, entries)
        if offset is None:
            return data
        return changed(
            data,
            terms=(changed(data.terms[0], offset=at_entries(Pattern.of(table), offset)),),
        )

    def _inside(self, table: Any, entries: Any) -> Data:
        """Return data without a hole, so that the predictors stay in the link domain there too."""
        held = Entries.of(table, entries).whole
        w = held.w
        x = held.x
        check_values(self.loss, np.where(w > 0, x, np.nan))
        if (w > 0).all():
            return Data.of(x, self.loss, None if entries is None else w)
        x = np.where(w > 0, x, self.means).astype(table.dtype)
        return Data.of(
            x,
            self.loss,
            np.where(w > 0, w, FAINT if entries is None else FAINT * self.weight),
        )

    def response(self, Z: Array, table: Any) -> Array:
        """Return the means of the entries of a table at predictors; of counts with a free level at their rows' levels.

        The level of a row is known by its counts: one without any has none in its holes either, and
        one of which nothing is known has the total of a mean row.
        """
        if not isinstance(self.loss, Multinomial):
            return self.predict(Z)
        held = Entries.of(table)
        counts = held.layout.row_sums(held.seen * held.x)
        known = held.layout.row_sums(held.seen) > 0
        none = np.where(known, 0, self.means.sum())[:, None] * self.predict(Z)
        return np.where((counts > 0)[:, None], self.fitted.predict(Z), none).astype(table.dtype)

    def predict(self, Z: Array) -> Array:
        """Return the means at predictors; the shares of a row of counts."""
        if isinstance(self.loss, Gamma):
            Z = np.minimum(Z, -(np.finfo(Z.dtype).tiny ** 0.25))
        return self.loss.predict(Z)
