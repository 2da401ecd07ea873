"""Checks of own parts find what is wrong, and name the method and the place."""

import doctest
import importlib
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from catalogue import PROBLEMS
from regfactor import testing
from regfactor.core.loop import Iterate
from regfactor.core.params import UnsupportedProblem
from regfactor.losses import Huber, Loss, Ordinal, Squared
from regfactor.losses.distances import SquaredDistance
from regfactor.maps import Lags
from regfactor.norms import L2
from regfactor.penalties import Lasso, NonNegative, SquaredL2, Trace
from regfactor.solvers import Fista

CHECKS = {
    "divergences": (testing.check_divergence, SquaredDistance()),
    "gauges": (testing.check_gauge, Trace()),
    "losses": (testing.check_loss, Huber(0.8)),
    "maps": (testing.check_map, Lags(1)),
    "norms": (testing.check_norm, L2()),
    "penalties": (testing.check_penalty, Lasso()),
}


@pytest.mark.parametrize("name", [*CHECKS, "solvers"])
def test_examples_run(name):
    found = doctest.testmod(importlib.import_module(f"regfactor.testing.{name}"))
    assert found.attempted > 0 and found.failed == 0


@pytest.mark.parametrize("name", CHECKS)
def test_a_part_is_accepted_and_its_class_is_not(name):
    check, part = CHECKS[name]
    check(part)
    with pytest.raises(TypeError, match=rf"instance: write {type(part).__name__}\(\)"):
        check(type(part))


@dataclass
class WrongSlope(Huber):
    """A Huber loss with a gradient that is too small, and a conjugate that is too small."""

    def gradient(self, z, x):
        return 0.9 * super().gradient(z, x)

    def penalty_conjugate(self, y):
        return y * y / 3


def test_a_wrong_derivative_is_named_with_its_place():
    with pytest.raises(testing.BrokenLaw) as caught:
        testing.check_loss(WrongSlope(0.8))
    text = str(caught.value)
    assert text.startswith("WrongSlope breaks ")
    assert "- `gradient` is the slope of `value`. gradient: " in text
    assert "z = " in text and "x = " in text and "% of the entries tried" in text
    assert "- f(z) + f*(y) >= z y for other z and y." in text
    assert "`value` is convex" not in text


@dataclass
class WrongProx(Lasso):
    """A prox that moves too far, in double precision alone, and flags that do not hold."""

    ridge = 1.0
    non_negative = True

    def prox(self, A, t):
        return super().prox(A, 2 * np.asarray(t)).astype(np.float64)


def test_a_wrong_prox_and_wrong_flags_are_named():
    with pytest.raises(testing.BrokenLaw) as caught:
        testing.check_penalty(WrongProx())
    text = str(caught.value)
    for part in ("no point nearby is better", "`ridge`, where", "float64 of float32", "negative"):
        assert part in text


@dataclass
class LooseTrace(Trace):
    """A dual norm that is too small, so that certificates would be false."""

    def polar(self, G, k=1):
        found = super().polar(G, k)
        return type(found)(0.9 * found.value, found.atoms, found.rigorous)


def test_a_false_certificate_is_found():
    with pytest.raises(testing.BrokenLaw, match="returns has norm one and attains it. <G, atom>"):
        testing.check_gauge(LooseTrace())


@dataclass
class Hasty(Fista):
    """Claims that its first iterate is optimal."""

    def iterates(self, problem, start):
        for iterate in super().iterates(problem, start):
            yield Iterate(iterate.point, iterate.objective, bound=iterate.objective * 1.01)


def test_a_solver_that_claims_too_much_is_found():
    with pytest.raises(testing.BrokenLaw, match="No lower bound exceeds an objective"):
        testing.check_solver(Hasty(), PROBLEMS["squared_missing"])


def test_a_solver_that_should_refuse_and_does_not_is_found():
    huber = PROBLEMS["huber"]
    with pytest.raises(testing.BrokenLaw, match="Convex was not refused"):
        testing.check_solver(Fista(), PROBLEMS["squared"], refuses=(huber,))
    with pytest.raises(UnsupportedProblem, match="solves a Convex problem, got"):
        testing.check_solver(Fista(), PROBLEMS["clusters"])
    sparse = PROBLEMS["squared_sparse"]
    testing.check_solver(Fista(), PROBLEMS["squared"], refuses=(sparse,))


@dataclass
class ScaledMap(Lags):
    """An adjoint of another scale."""

    def adjoint(self, G):
        return 2 * super().adjoint(G)


@dataclass
class FarCenter(SquaredDistance):
    """A center off the mean."""

    def center(self, X, weights=None):
        return super().center(X, weights) + 0.1


@dataclass
class LongNorm(L2):
    """A value that is not that of the dual."""

    def value(self, V):
        return 1.1 * super().value(V)


@pytest.mark.parametrize(
    ("check", "part", "law"),
    [
        (testing.check_map, ScaledMap(1), "<map"),
        (testing.check_divergence, FarCenter(), "`center` minimizes"),
        (testing.check_norm, LongNorm(), "`support`"),
    ],
)
def test_other_mistakes_are_found(check, part, law):
    with pytest.raises(testing.BrokenLaw, match=law):
        check(part)


class Bare(Loss):
    """A loss with two of its methods."""

    def value(self, z, x):
        return np.abs(z - x)

    def gradient(self, z, x):
        return np.sign(z - x)


class Duck:
    """Has a prox, and is no penalty."""

    def prox(self, A, t):
        return A


def test_missing_methods_are_named_with_what_they_return():
    with pytest.raises(TypeError) as caught:
        testing.check_loss(Bare)
    lines = str(caught.value).splitlines()
    assert lines[0] == "check_loss: Bare lacks methods of a Loss:"
    assert [line.partition(":")[0] for line in lines[1:]] == [
        "- conjugate",
        "- dual_domain",
        "- hessian",
        "- inverse_gradient",
    ]
    assert "sup_z y z - f(z; x)" in lines[1]
    with pytest.raises(TypeError, match="Duck lacks methods of a Penalty:\n- rows: Return the"):
        testing.check_penalty(Duck())


def test_a_part_of_no_role_has_to_subclass_it():
    class Unrelated:
        """The methods of a penalty."""

        def rows(self, A):
            return np.zeros(len(A))

    with pytest.raises(TypeError, match=r"class Unrelated\(.*Penalty\)"):
        testing.check_penalty(Unrelated())


def test_an_exception_of_a_part_is_a_law_that_it_breaks():
    @dataclass
    class Failing(SquaredL2):
        """Its gradient is not written yet."""

        def gradient(self, A):
            raise NotImplementedError("later")

    with pytest.raises(testing.BrokenLaw, match="NotImplementedError: later"):
        testing.check_penalty(Failing())


def test_data_of_a_special_form_are_given():
    class Levels(Ordinal):
        """Whole numbers, which are not drawn for a loss that nobody knows."""

    testing.check_loss(Squared(), data=np.array([[1e3, -1e3], [0.0, 2.0]]))
    with pytest.raises(testing.BrokenLaw, match="give data that it accepts"):
        testing.check_loss(Levels(3), data=np.array([[0.5, 1.0]]))
    testing.check_loss(Levels(3), data=np.arange(3.0)[:, None])


def test_arrays_of_a_problem_are_writable_after_the_check():
    from regfactor.problems import Convex, Data

    X = np.random.default_rng(0).normal(size=(9, 4))
    testing.check_solver(Fista(), Convex(Data.of(X, "squared"), Trace(), alpha=0.5))
    X[0] = 0.0


def test_constraints_are_checked_by_their_projection():
    @dataclass
    class Outside(NonNegative):
        """Its projection is right, and its violation never."""

        def violation(self, A):
            return np.zeros(len(A))

    with pytest.raises(testing.BrokenLaw, match="rows outside are infinite"):
        testing.check_penalty(Outside())


def test_the_estimator_of_the_page_is_one_of_scikit_learn(tmp_path, monkeypatch):
    page = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(from regfactor.fitting.*?)\nmodel = ", page, re.DOTALL)
    (tmp_path / "column_choice.py").write_text(block[1])
    monkeypatch.syspath_prepend(tmp_path)
    model = importlib.import_module("column_choice").ColumnChoice()
    for _ in check_estimator(model, on_fail="raise", on_skip=None):
        pass
