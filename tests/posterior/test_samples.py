"""Draws of a chain: all of them once, a random part, or with repetition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.networks import MLP
from credo.posterior import Samples

MODEL = credo.Model(MLP(hidden=()), credo.likelihoods.Normal())
DRAWS = {"w": jnp.arange(6.0).reshape(2, 3, 1)}  # two chains of three draws
POSTERIOR = Samples(MODEL, DRAWS)


def drawn(num_draws, key=0):
    return np.asarray(POSTERIOR.sample(jax.random.key(key), num_draws)["w"])[:, 0]


def test_counts():
    assert (POSTERIOR.num_chains, POSTERIOR.num_draws) == (2, 6)


def test_all_draws_once_and_in_order():
    np.testing.assert_array_equal(drawn(6), np.arange(6))


@pytest.mark.parametrize("num_draws", [1, 4])
def test_fewer_draws_do_not_repeat(num_draws):
    found = [drawn(num_draws, key) for key in range(60)]
    assert all(len(set(draws)) == num_draws for draws in found)
    assert set(np.concatenate(found)) == set(range(6))


def test_more_draws_repeat():
    assert len(drawn(20)) == 20 and set(drawn(20)) <= set(range(6))


def uniform(counts):
    """χ² of equal frequencies within four standard deviations of its mean."""
    expected = counts.sum() / counts.size
    degrees = counts.size - 1
    return np.sum((counts - expected) ** 2 / expected) < degrees + 4 * np.sqrt(2 * degrees)


def test_draws_are_equally_likely():
    picks = jax.vmap(lambda key: POSTERIOR.sample(key, 1)["w"][0, 0])
    counts = np.bincount(
        np.asarray(picks(jax.random.split(jax.random.key(1), 6000))).astype(int), minlength=6
    )
    assert uniform(counts)
    assert not uniform(counts + np.array([200, 0, 0, 0, 0, 0]))


def test_it_goes_through_jit():
    through = jax.jit(lambda posterior: posterior)(POSTERIOR)
    assert isinstance(through, Samples) and through.model == MODEL
    np.testing.assert_array_equal(through.draws["w"], DRAWS["w"])
