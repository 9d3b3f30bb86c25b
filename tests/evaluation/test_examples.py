"""The examples in the docstrings run and print what they say."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name", ["estimate", "classification", "regression", "ood", "diagnostics", "ranks"]
)
def test_examples(name):
    module = importlib.import_module(f"credo.evaluation.{name}")
    failed, attempted = doctest.testmod(module)
    assert attempted > 0 and failed == 0
