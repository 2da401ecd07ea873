"""The certificate of a fit in numbers and in one plain sentence."""

from __future__ import annotations

from dataclasses import dataclass

from regfactor.core.loop import relative


def no_certificate(estimator: object, why: str, locally: bool) -> AttributeError:
    """Return the error of a model without a certificate.

    Of a local solution, `why` names what has no convex form; of a global one it is the reason.
    """
    name = type(estimator).__name__
    if not locally:
        return AttributeError(f"This {name} has no duality gap: {why}.")
    return AttributeError(
        f"This {name} was solved locally: {why} has no convex form, so there is no duality gap. "
        "Models with a gauge, such as gauge=Trace(), have one."
    )


@dataclass(frozen=True)
class Certificate:
    """How far the objective of a fitted model can at most be from the global optimum."""

    objective: float
    bound: float
    rigorous: bool
    floor: float = 0.0
    relaxed_bound: float | None = None  # proven, where `bound` rests on a local search

    @property
    def gap(self) -> float:
        """Return objective minus lower bound."""
        return self.objective - self.bound

    @property
    def relative_gap(self) -> float:
        """Return the gap over the objective, or over a thousandth of the null objective."""
        return relative(self.gap, self.objective, self.floor)

    def __str__(self) -> str:
        if self.rigorous:
            kind = "proven by a factorization"
        elif self.relaxed_bound is None:
            kind = "numerical: it rests on an iterative singular value"
        else:
            kind = (
                "numerical: it rests on a local search for the dual norm, which can miss its "
                f"largest value; proven by a convex relaxation is {self.relaxed_bound:.6g}"
            )
        gap = max(self.gap, 0.0)
        share = f"relative gap {max(self.relative_gap, 0.0):.2g}"
        if self.floor > abs(self.objective):
            share += f" of {self.floor:.2g}, a thousandth of the objective without components"
        return (
            f"The objective {self.objective:.6g} is at most {gap:.2g} above the global optimum "
            f"({share}); the lower bound {self.bound:.6g} is {kind}."
        )
