"""The examples in docstrings give what they say."""

import doctest
import importlib

import pytest

from catalogue import ESTIMATORS

MODULES = sorted({type(estimator).__module__ for estimator in ESTIMATORS.values()})


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_estimators(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0 and found.failed == 0
