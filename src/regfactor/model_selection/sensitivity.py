"""Sensitivity of predictions to errors in stated shares."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from regfactor.constraints import Constraint
from regfactor.core.params import Array, frozen, is_number, optional, text_table
from regfactor.fitting.labels import is_labeled

SHIFTS = (-0.1, -0.05, 0.05, 0.1)
VIOLATED_WARNING = ".*stated expectations do not hold"
FRAGILE_SHARE = 0.1  # of rows that change their class, above which a statement should be checked


class Shift(NamedTuple):
    """A refit with one share of a constraint moved, and the share of rows that changed class."""

    constraint: str
    label: Any
    stated: float
    tried: float
    moved: float


@frozen
class Sensitivity:
    """Refits with one stated share moved each; `str` is the table."""

    shifts: tuple[Shift, ...]
    n_rows: int

    @property
    def worst(self) -> Shift | None:
        """The shift that moved most predictions."""
        return max(self.shifts, key=lambda shift: shift.moved, default=None)

    @property
    def max_moved(self) -> float:
        """The largest share of rows that changed their class."""
        return max((shift.moved for shift in self.shifts), default=0.0)

    @property
    def verdict(self) -> str:
        """One sentence: which statement to check, if any."""
        worst = self.worst
        if worst is None:
            return "Nothing was stated that could be wrong."
        change = (
            f"{worst.moved:.1%} of the {self.n_rows} unlabeled rows change their class when "
            f"{worst.label!r} among {worst.constraint} is {worst.tried:.3g} instead of "
            f"{worst.stated:.3g}"
        )
        if worst.moved < FRAGILE_SHARE:
            return f"Predictions rest on no single share: at most {change}."
        return f"Check this share: {change}."

    def to_frame(self) -> Any:
        """Return the refits as a pandas frame."""
        pd = optional("pandas", "Sensitivity.to_frame", "pip install pandas")
        return pd.DataFrame(list(self.shifts), columns=list(Shift._fields))

    def __str__(self) -> str:
        rows = [("constraint", "label", "stated", "tried", "moved")]
        rows += [
            (s.constraint, str(s.label), f"{s.stated:.3g}", f"{s.tried:.3g}", f"{s.moved:.1%}")
            for s in self.shifts
        ]
        return "\n".join([*text_table(rows), self.verdict])


def constraint_sensitivity(
    model: Any,
    X: Any,
    y: Any,
    shifts: Sequence[float] = SHIFTS,
) -> Sensitivity:
    """Refit with every stated share moved a little, one at a time, and count changed predictions.

    Parameters
    ----------
    model : ExpectationSVC
        Fitted or not; clones of it are fitted. Where it states nothing, the balance that it takes
        from the labels is moved.
    X, y : table and labels
        As given to `fit`.
    shifts : sequence of float, default=(-0.1, -0.05, 0.05, 0.1)
        Added to a share, which stays between 0 and 1; the other shares of the constraint change in
        proportion. The target of an `expectation` is multiplied by one plus the shift.

    Returns
    -------
    Sensitivity
        `shifts`, `worst`, `max_moved`, `verdict`; print it. Rows with a label do not count.

    Examples
    --------
    >>> import numpy as np
    >>> from regfactor import ExpectationSVC
    >>> from regfactor.constraints import class_balance
    >>> from regfactor.model_selection import constraint_sensitivity
    >>> X = np.random.default_rng(0).normal(size=(100, 2)) + np.repeat([[0, 0], [6, 0]], 50, axis=0)
    >>> y = np.full(100, -1)
    >>> y[[0, 99]] = 0, 1
    >>> model = ExpectationSVC(class_balance({0: 0.5, 1: 0.5}))
    >>> result = constraint_sensitivity(model, X, y, shifts=[0.02])
    >>> result.max_moved <= 0.03
    True
    """
    for shift in shifts:
        if not (is_number(shift) and abs(shift) <= 1):
            raise ValueError(f"shifts must be numbers between -1 and 1, got {shift!r}.")
    first = clone(model).fit(X, y)
    stated = first.constraints_
    free = ~is_labeled(y, first.unlabeled)

    def changed_share(constraints: list[Constraint]) -> float:
        """Return the share of unlabeled rows whose class changes under other constraints."""
        refit = clone(model).set_params(constraints=constraints, classes=first.classes_.tolist())
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=VIOLATED_WARNING, category=UserWarning)
            refit.fit(X, y)
        if not free.any():
            return 0.0
        return float(np.mean(refit.transduction_[free] != first.transduction_[free]))

    found = []
    for at, constraint in enumerate(stated):
        for label, target in _labels(constraint, first.classes_):
            for shift in shifts:
                other = constraint.moved(label, shift)
                new = other.targets[label]
                if new == target:
                    continue
                changed = [*stated[:at], other, *stated[at + 1 :]]
                found.append(Shift(str(constraint), label, target, new, changed_share(changed)))
    return Sensitivity(tuple(found), int(free.sum()))


def _labels(constraint: Constraint, classes: Array) -> list[tuple[Any, float]]:
    """Return the labels to move; of two that sum to one, moving the first moves the other."""
    targets = list(constraint.targets.items())
    if len(targets) == len(classes) == 2:
        return targets[:1]
    return targets
