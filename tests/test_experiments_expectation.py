"""Learning from expectations: defaults and settings chosen on labels alone, next to published errors."""

import numpy as np
import pytest

from experiments import _expectation
from experiments._expectation import chosen, tuned
from experiments._runner import Plan, find, key
from experiments._tables import Draw, Method


class Threshold:
    """Classifies by one column, or always wrongly."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y):
        self.transduction_ = (X[:, self.column] > 0).astype(int)
        return self


def draw(hidden=None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = (X[:, 1] > 0).astype(int)
    if hidden is not None:
        y[12:] = hidden
    return Draw(X, y, np.arange(12), np.arange(12, 40))


def test_a_setting_is_chosen_by_labels_alone():
    method = Method("threshold", Threshold, {"column": (0, 1)})
    assert chosen(method, draw(), np.arange(12)) == {"column": 1}
    assert chosen(method, draw(hidden=0), np.arange(12)) == {"column": 1}
    problem = draw()
    found = tuned(method)(problem, problem.marked(problem.labeled))
    np.testing.assert_array_equal(found, problem.y)


def test_folds_of_one_class_are_left_out():
    problem = draw()
    y = np.zeros(40, dtype=int)
    y[0] = 1
    single = Draw(problem.X, y, problem.labeled, problem.unlabeled)
    machine = next(m for m in _expectation.METHODS if m.name == "SVM")
    assert chosen(machine, single, np.arange(3)) in machine.settings


@pytest.mark.parametrize("entry", _expectation.ENTRIES, ids=lambda entry: entry.name)
def test_every_entry_predicts_all_rows(entry):
    rng = np.random.default_rng(1)
    y = rng.integers(2, size=60)
    X = np.abs(rng.normal(size=(60, 12)) + 2 * (2 * y[:, None] - 1))
    X[:, :6] *= y[:, None]
    X[:, 6:] *= 1 - y[:, None]
    problem = Draw(X, y, np.arange(20), np.arange(20, 60))
    found = entry.predict(problem, problem.marked(problem.labeled))
    assert found.shape == (60,)
    assert set(found) <= {0, 1}


def test_published_errors_of_methods_that_are_not_run_have_a_row():
    experiment = find("expectation-ssl")
    plan = Plan(splits=2)
    done = {
        key(cell): {"cell": cell, "result": {"error": 0.25}, "seconds": 1.0}
        for cell in experiment.cells({}, plan)
    }
    summary = experiment.summary(done, plan)
    text = experiment.report(summary)
    assert "| TSVM of the book | nothing | 24.7 | - | - | - |" in text
    assert "| SVM, tuned | nothing | 47.3 | 25.0 ± 0.0 | 2 | 1.00 |" in text
    names = {row["method"] for row in summary}
    assert {one for pair in _expectation.COMPARED for one in pair} <= names
