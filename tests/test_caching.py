"""A process that compiles again and again keeps below the system's limit of memory maps."""

import jax
import numpy as np
import pytest

import credo
from credo import caching


def fits_with_new_settings(count):
    x, y = np.zeros((4, 2), np.float32), np.array([0, 1, 0, 1])
    model = credo.Model(credo.networks.MLP(hidden=(3,)), credo.Categorical(2))
    for number in range(count):
        method = credo.Dropout(0.1 + 0.01 * number, num_steps=2)
        credo.fit(model, (x, y), method, progress=False)


@pytest.mark.skipif(caching._most_maps() is None, reason="the system tells no limit of maps")
def test_programs_are_dropped_before_the_limit(monkeypatch):
    monkeypatch.setattr(caching, "_most_maps", lambda: 10**9)
    assert not caching.forget_programs()
    monkeypatch.setattr(caching, "_most_maps", lambda: 100)
    cleared = []
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(True))
    assert caching.forget_programs() and cleared


@pytest.mark.skipif(caching._most_maps() is None, reason="the system tells no limit of maps")
def test_dropping_programs_frees_their_maps():
    def maps():
        with open("/proc/self/maps") as lines:
            return len(list(lines))

    fits_with_new_settings(1)
    jax.clear_caches()
    before = maps()
    fits_with_new_settings(4)
    grown = maps()
    caching.forget_programs(most=0.0)
    assert grown - before > 100
    assert maps() - before < (grown - before) / 2


def test_a_system_that_tells_no_limit_is_left_alone(monkeypatch):
    monkeypatch.setattr(caching, "_most_maps", lambda: None)
    assert not caching.forget_programs(most=0.0)
