"""Flipout: every row has the law of drawn weights, and no two rows share it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credo.networks import FlipoutWeight, NormalWeight, conv, linear

pytestmark = pytest.mark.usefixtures("float64")

NUM = 40_000
RNG = np.random.default_rng(0)
BIAS = RNG.normal(size=2), RNG.uniform(0.2, 1.0, size=2)


def weight(*shape):
    return RNG.normal(size=shape), RNG.uniform(0.2, 1.0, size=shape)


CASES = {
    "linear": (linear, RNG.normal(size=(3, 4)), weight(4, 2)),
    "conv": (conv, RNG.normal(size=(2, 4, 4, 3)), weight(3, 2, 3, 2)),
}
KINDS = {"flipout": FlipoutWeight, "local": NormalWeight}


@functools.cache
def outputs(case, kind):
    """NUM outputs (draw, row, ...) with this kind of weights, or (shared) one draw for all rows."""
    layer, x, w = CASES[case]

    @jax.jit
    @jax.vmap
    def draw(key):
        keys = jax.random.split(key)
        if kind == "shared":
            drawn = [m + s * jax.random.normal(k, m.shape) for (m, s), k in zip((w, BIAS), keys)]
            return layer(x, *drawn)
        return layer(x, *(KINDS[kind](*pair, k) for pair, k in zip((w, BIAS), keys)))

    return np.asarray(draw(jax.random.split(jax.random.key(0), NUM)))


def covariance_agrees(first, second, expected):
    products = (first - first.mean(axis=0)) * (second - second.mean(axis=0))
    error = products.std(axis=0) / np.sqrt(NUM)
    return bool(np.all(np.abs(products.mean(axis=0) - expected) < 4 * error))


@pytest.mark.parametrize("case", CASES)
def test_every_row_has_the_moments_of_drawn_weights(case):
    layer, x, (mean, std) = CASES[case]
    draws = outputs(case, "flipout")
    variance = layer(x * x, std**2, BIAS[1] ** 2)
    center_error = np.abs(draws.mean(axis=0) - layer(x, mean, BIAS[0]))
    assert np.all(center_error < 4 * np.sqrt(variance / NUM))
    assert covariance_agrees(draws, draws, variance)
    assert not covariance_agrees(draws, draws, layer(x * x, std, BIAS[1] ** 2))  # planted: σ for σ²


@pytest.mark.parametrize("case", CASES)
def test_rows_are_uncorrelated(case):
    draws = outputs(case, "flipout")
    assert covariance_agrees(draws[:, 0], draws[:, 1], 0.0)
    shared = outputs(case, "shared")  # planted: one perturbation for the batch
    assert not covariance_agrees(shared[:, 0], shared[:, 1], 0.0)


def test_positions_of_an_image_keep_their_covariance():
    """Flipout's signs are shared by all positions; local reparametrization draws each anew."""
    _, x, (_, std) = CASES["conv"]
    patches = [x[:, i : i + 3, j : j + 2].reshape(2, -1) for i, j in ((0, 0), (0, 1))]
    expected = (patches[0] * patches[1]) @ (std**2).reshape(-1, 2) + BIAS[1] ** 2
    neighbours = lambda kind: (  # noqa: E731
        outputs("conv", kind)[:, :, 0, 0], outputs("conv", kind)[:, :, 0, 1]
    )  # fmt: skip
    assert covariance_agrees(*neighbours("flipout"), expected)
    assert covariance_agrees(*neighbours("shared"), expected)
    assert not covariance_agrees(*neighbours("local"), expected)
    assert covariance_agrees(*neighbours("local"), 0.0)


@pytest.mark.parametrize("case", CASES)
def test_no_spread_is_the_plain_layer(case):
    layer, x, (mean, std) = CASES[case]
    certain = FlipoutWeight(mean, 0 * std, jax.random.key(0))
    np.testing.assert_allclose(layer(x, certain, BIAS[0]), layer(x, mean, BIAS[0]), rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_the_gradient_reaches_means_and_deviations(case):
    layer, x, (mean, std) = CASES[case]

    def loss(mean, std):
        return jnp.sum(layer(x, FlipoutWeight(mean, std, jax.random.key(0)), BIAS[0]) ** 2)

    for gradient in jax.jit(jax.grad(loss, (0, 1)))(mean, std):
        assert np.all(np.isfinite(gradient)) and np.all(gradient != 0)
