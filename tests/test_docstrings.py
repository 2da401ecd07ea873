"""The examples in docstrings give what they say."""

import doctest
import importlib

import pytest

MODULES = ["generic", "imputer", "subspace"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_estimators(name):
    found = doctest.testmod(importlib.import_module(f"regfactor.estimators.{name}"))
    assert found.attempted > 0 and found.failed == 0
