"""From constraints as users give them to statements about unlabeled rows, and back to a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from regfactor.constraints import ROUNDING, ClassBalance, Constraint
from regfactor.core.params import Array, frozen, optional, text_table, warn
from regfactor.labels.expectation.problem import Statements

# features with more entries than that, of which fewer than that share are not zero, are sparse
SPARSE_ENTRIES = 1_000_000
SPARSE_SHARE = 0.1
LARGE_VIOLATION = 0.05  # of the scale of a feature: a violation that is warned of
REPORT_HEADER = ("constraint", "label", "target", "expected", "predicted", "violation", "rows")


class Reported(NamedTuple):
    """A line of the report: the target of a label, its expectation, and the share predicted."""

    constraint: str
    label: Any
    target: float
    tolerance: float
    expected: float
    predicted: float
    violation: float
    n_rows: int


class ConstraintReport(tuple[Reported, ...]):
    """The outcome of every statement; its `str` is a table.

    `expected` is under the distributions of labels, `predicted` under the predictions for the
    unlabeled rows; `violation` is by how much `expected` lies outside target +- tolerance.
    """

    @property
    def max_violation(self) -> float:
        """The largest violation."""
        return max((line.violation for line in self), default=0.0)

    def to_frame(self) -> Any:
        """Return the lines as a pandas frame."""
        pd = optional("pandas", "ConstraintReport.to_frame", "pip install pandas")
        return pd.DataFrame(list(self), columns=list(Reported._fields))

    def __str__(self) -> str:
        rows = [REPORT_HEADER]
        for line in self:
            cells = (
                line.constraint,
                str(line.label),
                f"{line.target:.3g} ± {line.tolerance:.3g}",
                f"{line.expected:.3g}",
                f"{line.predicted:.3g}",
                f"{line.violation:.2g}",
                str(line.n_rows),
            )
            rows.append(cells)
        return "\n".join(text_table(rows))


@frozen
class StatedConstraints:
    """Constraints with their features on unlabeled rows, each divided by its total.

    A feature that is zero on all of them is None.
    """

    constraints: tuple[Constraint, ...]
    features: list[Array | None]
    classes: Array
    weights: Array

    @staticmethod
    def of(
        constraints: tuple[Constraint, ...],
        X: Any,
        names: Any,
        classes: Array,
        rows: Array,
        weights: Array,
    ) -> StatedConstraints:
        """Return constraints on `rows`, the unlabeled ones of positive weight.

        A warning names the constraints that no such row belongs to.
        """
        features: list[Array | None] = []
        for constraint in constraints:
            phi = constraint.features(X, names)[rows]
            if not phi.any():
                warn(
                    f"The constraint on {constraint} has no effect: no unlabeled row belongs to "
                    "it. It is left out."
                )
                features.append(None)
                continue
            total = weights @ phi if constraint.relative else weights.sum()
            features.append(phi / total)
        return StatedConstraints(constraints, features, classes, weights)

    def _pairs(self) -> Iterator[tuple[Constraint, Array | None]]:
        return zip(self.constraints, self.features, strict=True)

    def statements(self, strength: float) -> Statements:
        """Return the statements that missing by delta costs (strength/2) delta^2 / sum_j v_j a_j^2.

        For a share among n rows that is strength n delta^2 / 2: it grows with the rows as the other
        terms do.
        """
        features: list[Array] = []
        lines: list[tuple[int, int, float, float]] = []
        for constraint, a in self._pairs():
            if a is None:
                continue
            for column, target in self._score_targets(constraint, a):
                lines.append((len(features), column, target, constraint.tolerance))
            features.append(a)
        if not lines:
            return Statements.none(len(self.weights))
        A: Any = np.column_stack(features)
        squares = self.weights @ np.square(A)
        if A.size > SPARSE_ENTRIES and np.count_nonzero(A) < SPARSE_SHARE * A.size:
            A = scipy.sparse.csr_array(A)
        feature, column_of, target_of, tolerance = (np.array(x) for x in zip(*lines, strict=True))
        return Statements(
            A,
            feature,
            column_of,
            target_of.astype(float),
            tolerance.astype(float),
            strength / squares[feature],
        )

    def _score_targets(self, constraint: Constraint, a: Array) -> list[tuple[int, float]]:
        """Return (column of scores, target).

        Of two classes only the second has a column, and one statement determines both.
        """
        place = self._places()
        targets = {place[label]: target for label, target in constraint.targets.items()}
        if len(self.classes) > 2:
            return list(targets.items())
        if 1 in targets:
            return [(0, targets[1])]
        return [(0, float(self.weights @ a) - targets[0])]

    def _places(self) -> dict[Any, int]:
        return {label: c for c, label in enumerate(self.classes.tolist())}

    def report(self, p: Array, predicted: Array) -> ConstraintReport:
        """Return the outcome of statements under p (rows x classes) and under predicted codes."""
        place = self._places()
        lines = []
        for constraint, a in self._pairs():
            for label, target in constraint.targets.items():
                found = (np.nan, np.nan, 0.0, 0)
                if a is not None:
                    c = place[label]
                    v = self.weights * a
                    expected = float(v @ p[:, c])
                    violation = max(abs(expected - target) - constraint.tolerance, 0.0)
                    share = float(v @ (predicted == c))
                    found = (expected, share, violation, int(np.count_nonzero(a)))
                lines.append(Reported(str(constraint), label, target, constraint.tolerance, *found))
        return ConstraintReport(lines)

    def warn_of_violations(self, report: ConstraintReport) -> None:
        """Warn of large violations: statements contradict each other, or the penalty is too low."""
        scales: list[float] = []
        for constraint, a in self._pairs():
            scale = 1.0
            if a is not None:
                scale = float(self.weights @ np.abs(a))
            scales += [scale] * len(constraint.targets)
        limits = LARGE_VIOLATION * np.array(scales)
        missed = [
            line for line, limit in zip(report, limits, strict=True) if line.violation > limit
        ]
        if not missed:
            return
        worst = max(missed, key=lambda line: line.violation)
        warn(
            f"{len(missed)} of {len(report)} stated expectations do not hold; the worst is "
            f"{worst.label!r} among {worst.constraint}: stated {worst.target:.3g} ± "
            f"{worst.tolerance:.3g}, found {worst.expected:.3g}. They may contradict each other or "
            "the labels; see constraint_report_, widen tolerances, or raise penalty."
        )

    def balance(self, default: Array) -> Array:
        """Return the shares of all classes where they are stated, else a default."""
        labels = self.classes.tolist()
        for constraint in self.constraints:
            if not isinstance(constraint, ClassBalance):
                continue
            shares = constraint.targets
            if len(labels) == 2 and len(shares) == 1:
                ((label, share),) = shares.items()
                other = labels[1 - labels.index(label)]
                shares[other] = 1 - share
            if len(shares) == len(labels):
                return np.array([shares[label] for label in labels])
        return default


def as_constraints(constraints: Any) -> tuple[Constraint, ...]:
    """Return the constraints that a user gave, one or several."""
    if isinstance(constraints, Constraint):
        return (constraints,)
    if not isinstance(constraints, Iterable) or isinstance(constraints, str | dict):
        raise ValueError(f"constraints must be a list of constraints, got {constraints!r}.")
    found = tuple(constraints)
    for constraint in found:
        if not isinstance(constraint, Constraint):
            raise ValueError(
                f"constraints holds {constraint!r}; make constraints by class_balance, "
                "labeled_feature, region or expectation of regfactor.constraints."
            )
    return found


def check_labels(constraints: tuple[Constraint, ...], classes: Array) -> None:
    """Raise for unknown classes, and for shares of all classes that do not sum to one."""
    known = classes.tolist()
    for constraint in constraints:
        unknown = [label for label in constraint.targets if label not in known]
        if unknown:
            raise ValueError(
                f"The constraint on {constraint} names {unknown}, and the classes are {known}; "
                "name all classes by classes=[...], or correct the label."
            )
        total = sum(constraint.targets.values())
        complete = constraint.relative and len(constraint.targets) == len(known)
        if complete and abs(total - 1) > ROUNDING:
            raise ValueError(
                f"The constraint on {constraint} gives shares of all classes that sum to "
                f"{total:g}, not to one."
            )
