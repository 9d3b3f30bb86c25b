"""Two tiny comparisons, shared by all tests of the report."""

from dataclasses import replace

import numpy as np
import pytest

import credo
from credo.data import Dataset, Split
from credo.networks import MLP
from credo.report import Comparison, compare

# Names that would break a page, or run in it, if they were not escaped.
HOSTILE = "<script>alert(\"x\")</script> & 'quoted' $\\frac{"


def shortened(data: Dataset, train: int, test: int) -> Dataset:
    return replace(
        data,
        train=Split(*(part[:train] for part in data.train)),
        test=Split(*(part[:test] for part in data.test)),
    )


@pytest.fixture(scope="session")
def methods():
    return {
        "map": credo.MAP(num_steps=30),
        HOSTILE: credo.HMC(num_samples=4, num_warmup=4, num_chains=2, num_leapfrog=4),
    }


@pytest.fixture(scope="session")
def digits(methods) -> Comparison:
    """Images, held-out classes, two seeds; data set, method and a class have hostile names."""
    data = shortened(credo.data.load("digits"), 200, 60)
    classes = (HOSTILE, *data.classes[1:])
    data = replace(data, name=f"digits {HOSTILE}", classes=classes)
    return compare(data, methods, seeds=2, network=MLP(hidden=(4,)), num_draws=6)


@pytest.fixture(scope="session")
def diabetes() -> Comparison:
    """A table and a quantity, one seed; `map` is equally certain of all rows."""
    data = shortened(credo.data.load("diabetes"), 100, 40)
    methods = {"map": credo.MAP(num_steps=200), "dropout": credo.Dropout(num_steps=200)}
    return compare(data, methods, seeds=1, network=MLP(hidden=(4,)), num_draws=6)


@pytest.fixture(scope="session")
def iris() -> Comparison:
    """A table and classes too few to hold one out; a single method."""
    data = credo.data.load("iris")
    return compare(data, {"map": credo.MAP(num_steps=20)}, seeds=1, network=MLP(hidden=(4,)))


@pytest.fixture(scope="session")
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
