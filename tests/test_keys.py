"""Bulk noise is as good as independent numbers, by tests that a weak hash fails."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from credo import keys
from credo.keys import bulk_bits, bulk_normal, bulk_uniform

NUM = 1 << 18
KEYS = jax.random.split(jax.random.key(5), 8)


def bits(key):
    return np.asarray(bulk_bits(key, (NUM,)))


def weak(key):
    """Planted: one multiplication and no shifts, a Weyl sequence."""
    start = int(jax.random.key_data(key)[0])
    return ((np.arange(NUM, dtype=np.uint64) * 0x9E3779B9 + start) & 0xFFFFFFFF).astype(np.uint32)


def shares(words):
    """The share of ones at each of the 32 places."""
    return np.array([((words >> place) & 1).mean() for place in range(32)])


def places_are_fair(generate):
    deviations = np.array([(shares(generate(key)) - 0.5) * 2 * NUM**0.5 for key in KEYS])
    return bool(np.abs(deviations).max() < 4.5) and 0.8 < deviations.std() < 1.2


def neighbours_are_independent(generate):
    """Bits that flip between one position and the next: half of them, each on its own."""
    flips = np.array([shares(w[1:] ^ w[:-1]) for w in map(generate, KEYS)])
    return bool(np.abs(flips - 0.5).max() * 2 * NUM**0.5 < 4.5)


def keys_are_independent(generate):
    first = [generate(key) for key in KEYS]
    flips = np.array([shares(a ^ b) for a, b in itertools.pairwise(first)])
    return bool(np.abs(flips - 0.5).max() * 2 * NUM**0.5 < 4.5)


CHECKS = (places_are_fair, neighbours_are_independent)


@pytest.mark.parametrize("check", [*CHECKS, keys_are_independent])
def test_bits(check):
    assert check(bits)


@pytest.mark.parametrize("check", [*CHECKS, keys_are_independent])
def test_a_weak_hash_is_caught(check):
    assert not check(weak)


def test_keys_that_differ_in_one_bit_are_independent():
    data = jax.random.key_data(KEYS[0])
    for word, place in ((0, 0), (0, 31), (1, 0), (1, 31)):
        other = jax.random.wrap_key_data(data.at[word].set(data[word] ^ jnp.uint32(1 << place)))
        flips = shares(bits(KEYS[0]) ^ bits(other))
        assert np.abs(flips - 0.5).max() * 2 * NUM**0.5 < 4.5


@pytest.mark.parametrize("dtype", ["float32"])
def test_normal_and_uniform_laws(dtype):
    for key in KEYS:
        uniform = np.asarray(bulk_uniform(key, (NUM,), dtype))
        assert uniform.min() > 0 and uniform.max() < 1
        assert stats.kstest(uniform, "uniform").pvalue > 1e-4
        normal = np.asarray(bulk_normal(key, (NUM,), dtype), float)
        assert stats.kstest(normal, "norm").pvalue > 1e-4
        assert abs(normal.mean()) < 4.5 * NUM**-0.5
        assert abs(normal.var() - 1) < 4.5 * (2 / NUM) ** 0.5
        assert abs(stats.kurtosis(normal)) < 4.5 * (24 / NUM) ** 0.5
        for lag in (1, 2, 10, 500):
            assert abs(np.mean(normal[lag:] * normal[:-lag])) < 4.5 * NUM**-0.5


def quantile_error(monkeypatch, above):
    """The largest relative error of the quantiles on the whole grid of uniform numbers."""
    grid = np.arange(1 << 23, dtype=np.uint32)
    monkeypatch.setattr(keys, "_bits", lambda words, positions: jnp.asarray(grid << 9))
    monkeypatch.setattr(keys, "QUANTILE_ABOVE", above)
    with jax.enable_x64(True):
        found = np.asarray(bulk_normal(KEYS[0], grid.shape, jnp.float64))
    return np.abs(found / stats.norm.ppf((grid + 0.5) * 2.0**-23) - 1).max()


def test_normal_numbers_are_the_quantiles_of_uniform_ones(monkeypatch):
    right = keys.QUANTILE_ABOVE
    assert quantile_error(monkeypatch, right) < 7.6e-6
    assert quantile_error(monkeypatch, (*right[:-1], right[-1] * 1.001)) > 1e-4  # planted


@pytest.mark.parametrize("draw", [bulk_bits, bulk_uniform, bulk_normal])
def test_numbers_drawn_channel_by_channel_are_those_drawn_at_once(draw):
    for key in KEYS:
        in_turns = draw(key, (4, 5, 6, 7))
        at_once = draw(key, (20, 42))  # compiled otherwise, and so rounded
        np.testing.assert_allclose(in_turns.reshape(20, 42), at_once, rtol=1e-5)


def test_the_extremes_are_finite(monkeypatch):
    ends = jnp.array([0, 0xFFFFFFFF], jnp.uint32)
    monkeypatch.setattr(keys, "_bits", lambda words, positions: ends)
    assert np.isfinite(bulk_normal(KEYS[0], (2,), jnp.float32)).all()
    low, high = bulk_uniform(KEYS[0], (2,), jnp.float32)
    assert low > 0 and high < 1 and low == 1 - high


def test_rows_and_columns_of_an_array_are_uncorrelated():
    drawn = np.asarray(bulk_normal(KEYS[0], (512, 512)))
    correlations = np.corrcoef(drawn)[np.triu_indices(512, 1)]
    assert np.abs(correlations).max() * 512**0.5 < 5.5
    np.testing.assert_allclose(correlations.std() * 512**0.5, 1.0, rtol=0.02)


def test_a_pure_function_of_key_and_shape():
    drawn = jax.jit(lambda key: bulk_normal(key, (3, 4)))(KEYS[1])
    np.testing.assert_allclose(drawn, bulk_normal(KEYS[1], (3, 4)), rtol=1e-6)
    assert bulk_bits(KEYS[1], ()).shape == () and bulk_normal(KEYS[1], (0, 2)).shape == (0, 2)
    assert jnp.all(bulk_bits(KEYS[0], (4,)) != bulk_bits(KEYS[1], (4,)))
