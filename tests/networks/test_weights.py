"""Layers with normal weights: sampled outputs have the law that sampled weights would give them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credo.networks import NormalWeight, conv, linear

pytestmark = pytest.mark.usefixtures("float64")

NUM = 100_000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4))
IMAGES = RNG.normal(size=(2, 4, 4, 2))


def weight(*shape):
    return RNG.normal(size=shape), RNG.uniform(0.2, 1.0, size=shape)


CASES = {"linear": (linear, X, weight(4, 2)), "conv": (conv, IMAGES, weight(3, 2, 2, 2))}
BIAS = weight(2)


@functools.cache
def outputs(case, sample_weights):
    """NUM outputs of a layer with normal weights, or (by definition) with weights drawn first."""
    layer, x, w = CASES[case]

    @jax.jit
    @jax.vmap
    def draw(key):
        weights = [NormalWeight(*pair, k) for pair, k in zip((w, BIAS), jax.random.split(key))]
        if sample_weights:
            weights = [m + s * jax.random.normal(k, m.shape) for m, s, k in weights]
        return layer(x, *weights)

    return np.asarray(draw(jax.random.split(jax.random.key(sample_weights), NUM)))


def moments(layer, x, w):
    return layer(x, w[0], BIAS[0]), layer(x * x, w[1] ** 2, BIAS[1] ** 2)


def mean_and_variance_agree(draws, mean, variance):
    mean_error = np.sqrt(variance / NUM)
    variance_error = variance * np.sqrt(2 / NUM)
    return bool(
        np.all(np.abs(draws.mean(axis=0) - mean) < 4 * mean_error)
        and np.all(np.abs(draws.var(axis=0) - variance) < 4 * variance_error)
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sample_weights", [False, True])
def test_moments(case, sample_weights):
    layer, x, w = CASES[case]
    draws = outputs(case, sample_weights)
    mean, variance = moments(layer, x, w)
    assert mean_and_variance_agree(draws, mean, variance)
    # Planted: σ for σ², and x for x², in the variance.
    assert not mean_and_variance_agree(draws, mean, layer(x * x, w[1], BIAS[1] ** 2))
    assert not mean_and_variance_agree(draws, mean, layer(np.abs(x), w[1] ** 2, BIAS[1] ** 2))


def rows_are_uncorrelated(draws):
    first, second = (draws[:, row] - draws[:, row].mean(axis=0) for row in (0, 1))
    products = first * second
    error = products.std(axis=0) / np.sqrt(NUM)
    return bool(np.all(np.abs(products.mean(axis=0)) < 4 * error))


@pytest.mark.parametrize("case", CASES)
def test_rows_are_independent(case):
    assert rows_are_uncorrelated(outputs(case, False))
    assert not rows_are_uncorrelated(outputs(case, True))


@pytest.mark.parametrize("case", CASES)
def test_one_of_weight_and_bias_may_be_an_array(case):
    layer, x, (w_mean, w_std) = CASES[case]
    key = jax.random.key(0)
    only_weight = layer(x, NormalWeight(w_mean, w_std, key), BIAS[0])
    both = layer(
        x, NormalWeight(w_mean, w_std, key), NormalWeight(BIAS[0], 0 * BIAS[1], jax.random.key(1))
    )
    np.testing.assert_allclose(only_weight, both, rtol=1e-12)
    only_bias = layer(x, w_mean, NormalWeight(*BIAS, key))
    nearly = layer(x, NormalWeight(w_mean, 0 * w_std, key), NormalWeight(*BIAS, jax.random.key(1)))
    np.testing.assert_allclose(only_bias, nearly, rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_no_spread_is_the_plain_layer(case):
    layer, x, (mean, std) = CASES[case]
    certain = layer(x, NormalWeight(mean, 0 * std, jax.random.key(0)), BIAS[0])
    np.testing.assert_allclose(certain, layer(x, mean, BIAS[0]), rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_dead_inputs_leave_the_gradient_finite(case):
    """A black image, or a layer whose units are all off, has output variance 0."""
    layer, x, (mean, std) = CASES[case]

    def loss(mean, std, x):
        return jnp.sum(layer(x, NormalWeight(mean, std, jax.random.key(0)), BIAS[0]) ** 2)

    for gradient in jax.jit(jax.grad(loss, (0, 1, 2)))(mean, std, 0 * x):
        assert np.isfinite(gradient).all()
