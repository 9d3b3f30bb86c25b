"""A process that compiles again and again keeps below the system's limit of memory maps."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo import caching
from credo.likelihoods import Categorical
from tests.engine.test_compilations import counted, has_maps, memory_maps

pytestmark = [
    pytest.mark.usefixtures("quick_compilation"),
    pytest.mark.filterwarnings("ignore::credo.CredoWarning"),  # runs far too short
]


def fit(width):
    """A network whose programs no other test has."""
    x, y = np.zeros((4, 2), np.float32), np.array([0, 1, 0, 1])
    model = credo.Model(credo.networks.MLP(hidden=(width,)), Categorical(2))
    return credo.fit(model, (x, y), credo.MAP(num_steps=2), progress=False)


@has_maps
def test_credos_own_programs_are_dropped_before_the_limit_and_nobody_elses(monkeypatch):
    own, ones = jax.jit(lambda x: 3 * x - 1), jnp.ones(5)
    own(ones)
    fit(31)
    monkeypatch.setattr(caching, "_most_maps", lambda: 10**9)
    with counted() as names:
        fit(31)
    assert names == []
    monkeypatch.setattr(caching, "_most_maps", lambda: 100)
    with counted() as names:
        fit(31)
        own(ones)
    assert "_advance" in names and "<lambda>" not in names


@has_maps
def test_dropping_programs_frees_their_maps():
    caching.forget_programs(most=0.0)
    before = memory_maps()
    for width in (33, 35, 37, 39):
        fit(width)
    grown = memory_maps() - before
    caching.forget_programs(most=0.0)
    assert grown > 100
    assert memory_maps() - before < grown / 2


def test_a_system_that_tells_no_limit_is_left_alone(monkeypatch):
    monkeypatch.setattr(caching, "_most_maps", lambda: None)
    assert not caching.forget_programs(most=0.0)


def test_no_function_of_the_library_clears_the_caches_of_all():
    sources = sorted(Path(caching.__file__).parent.rglob("*.py"))
    assert len(sources) > 100
    assert not [path for path in sources if "clear_caches" in path.read_text("utf-8")]
