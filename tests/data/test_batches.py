"""Minibatch indices: every epoch is a permutation, and the permutations look random."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credo.data import batches
from credo.data.batches import batch_indices
from credo.errors import CredoError

KEY = jax.random.key(7)


# Compiled once per num_data: run eagerly, the many small operations would take minutes.
permute = jax.jit(batches.permute, static_argnums=2)


def identity(key, positions, num_data):
    return positions


@partial(jax.jit, static_argnums=(2, 3))
def epoch_of(key, epoch, num_data, batch_size):
    steps = num_data // batch_size
    numbers = epoch * steps + jnp.arange(steps)
    return jax.vmap(lambda step: batch_indices(key, step, num_data, batch_size)[1])(numbers).ravel()


@pytest.mark.parametrize("num_data", [1, 2, 3, 5, 64, 1000, 60000])
def test_every_item_appears_exactly_once(num_data):
    order = permute(KEY, jnp.arange(num_data), num_data)
    np.testing.assert_array_equal(np.sort(order), np.arange(num_data))


@pytest.mark.parametrize(("num_data", "batch_size"), [(7, 3), (1000, 128)])
def test_an_epoch_repeats_nothing_and_drops_the_remainder(num_data, batch_size):
    epoch = np.asarray(epoch_of(KEY, 3, num_data, batch_size))
    assert epoch.dtype == np.int32
    assert len(np.unique(epoch)) == len(epoch) == num_data - num_data % batch_size
    assert epoch.min() >= 0 and epoch.max() < num_data


def test_epochs_and_keys_differ():
    first, second = (epoch_of(KEY, epoch, 1000, 128) for epoch in (0, 1))
    other = epoch_of(jax.random.key(8), 0, 1000, 128)
    for left, right in [(first, second), (first, other)]:
        assert (left == right).sum() < 8  # about Poisson(1) if the two are unrelated


def test_a_traced_step_gives_the_batch_of_its_place_in_the_epoch():
    take = jax.jit(partial(batch_indices, num_data=1000, batch_size=128))
    positions, rows = take(KEY, 7 * 2 + 1)
    np.testing.assert_array_equal(rows, epoch_of(KEY, 2, 1000, 128)[128:256])
    np.testing.assert_array_equal(positions, np.arange(128, 256))
    assert "sort" not in str(jax.make_jaxpr(take)(KEY, 0))


@pytest.mark.parametrize("batch_size", [0, -1])
def test_impossible_batch_size(batch_size):
    with pytest.raises(CredoError, match=f"batch_size must be at least 1, got {batch_size}"):
        batch_indices(KEY, 0, 10, batch_size)


def test_a_batch_larger_than_the_data_is_all_rows_and_then_rows_again():
    for step in (0, 5):
        positions, rows = batch_indices(KEY, step, 10, 13)
        np.testing.assert_array_equal(positions, np.arange(13))
        np.testing.assert_array_equal(np.sort(rows[:10]), np.arange(10))
        np.testing.assert_array_equal(rows[10:], rows[:3])


def test_the_number_of_rows_is_data():
    """One program for all numbers of rows, with the batches that a constant gives."""
    take = jax.jit(partial(batch_indices, batch_size=3))
    for num_data in (5, 37, 1000):
        found = take(KEY, 4, num_data)
        for a, b in zip(found, batch_indices(KEY, 4, num_data, 3), strict=True):
            np.testing.assert_array_equal(a, b, strict=True)
    assert take._cache_size() == 1


def chi_square_excess(observed):
    """Standard errors by which the chi-square statistic exceeds its mean under uniformity."""
    expected = observed.mean()
    degrees = observed.size - 1
    return (((observed - expected) ** 2 / expected).sum() - degrees) / np.sqrt(2 * degrees)


def pair_counts(permutation, num_data, num_keys=20_000):
    """How often the first two positions hold each pair of different items, over many keys."""
    keys = jax.random.split(KEY, num_keys)
    pairs = jax.jit(jax.vmap(lambda key: permutation(key, jnp.arange(2), num_data)))(keys)
    counts = np.zeros((num_data, num_data))
    np.add.at(counts, tuple(np.asarray(pairs).T), 1)
    return counts


@pytest.mark.parametrize("num_data", [5, 37])
def test_positions_and_pairs_are_uniform(num_data):
    counts = pair_counts(batches.permute, num_data)
    assert chi_square_excess(counts.sum(1)) < 4
    assert chi_square_excess(counts[~np.eye(num_data, dtype=bool)]) < 4


def test_the_uniformity_check_catches_the_identity():
    assert chi_square_excess(pair_counts(identity, 10).sum(1)) > 1000


def test_the_uniformity_check_catches_too_few_rounds(monkeypatch):
    monkeypatch.setattr(batches, "NUM_ROUNDS", 4)
    counts = pair_counts(batches.permute, 10)
    assert chi_square_excess(counts[~np.eye(10, dtype=bool)]) > 10


def test_neighbors_are_not_kept_together():
    """Items that follow each other in the data do so in an epoch as rarely as chance has it."""

    def followers(order):
        return int(np.sum(np.diff(np.asarray(order)) == 1))

    order = permute(KEY, jnp.arange(60_000), 60_000)
    assert followers(order) < 8  # about Poisson(1) for a random permutation
    assert followers(np.arange(60_000)) > 1000
