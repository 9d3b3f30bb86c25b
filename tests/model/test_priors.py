"""Priors: which standard deviation each weight gets, and the law of their draws."""

import jax
import numpy as np
import pytest

import credo
from credo.networks import MLP, Equinox, LeNet

pytestmark = pytest.mark.usefixtures("float64")

NETWORK = MLP(hidden=(8,))
PARAMS = jax.eval_shape(lambda: NETWORK.init(jax.random.key(0), (2, 2), 3))


def test_one_scale():
    scales = credo.NormalPrior(0.3).scales(NETWORK, PARAMS)
    assert scales == {"dense0": {"w": 0.3, "b": 0.3}, "dense1": {"w": 0.3, "b": 0.3}}


@pytest.mark.parametrize("given", [{"dense0": 0.5, "dense1": 2}, (("dense1", 2), ("dense0", 0.5))])
def test_a_scale_per_layer(given):
    scales = credo.LayerPrior(given).scales(NETWORK, PARAMS)
    assert scales == {"dense0": {"w": 0.5, "b": 0.5}, "dense1": {"w": 2.0, "b": 2.0}}


def test_layers_must_all_be_named():
    with pytest.raises(credo.CredoError, match=r"\['dense0'\].*\['dense0', 'dense1'\]"):
        credo.LayerPrior({"dense0": 1.0}).scales(NETWORK, PARAMS)


def test_fan_in():
    scales = credo.FanInPrior(2.0).scales(NETWORK, PARAMS)
    assert scales == {"dense0": {"w": 1.0, "b": 2.0}, "dense1": {"w": 2 / 8**0.5, "b": 2.0}}


def test_fan_in_of_a_convolution_and_of_an_equinox_module():
    network = LeNet(channels=(3, 4), hidden=(5,), kernel=3)
    params = jax.eval_shape(lambda: network.init(jax.random.key(0), (14, 14, 2), 3))
    scales = credo.FanInPrior().scales(network, params)
    expected = {"conv0": 18, "conv1": 27, "dense0": 16, "dense1": 5}
    assert {name: round(layer["w"] ** -2) for name, layer in scales.items()} == expected

    import equinox as eqx

    network = Equinox(lambda key: eqx.nn.Linear(9, 4, key=key))
    params = network.init(jax.random.key(0), (9,), 4)
    scales = credo.FanInPrior().scales(network, params)
    assert (round(scales.weight**-2), scales.bias) == (9, 1.0)


def within_four_errors(draws, scale):
    return abs(np.var(draws) - scale**2) < 4 * scale**2 * np.sqrt(2 / draws.size)


def test_draws_have_the_prior_scale():
    model = credo.Model(MLP(hidden=(200,)), credo.NormalLearntScale(2), credo.FanInPrior(1.5))
    params = model.init(jax.random.key(0), (100,))
    drawn = model.sample_prior(jax.random.key(1), params)
    assert jax.tree.map(np.shape, drawn) == jax.tree.map(np.shape, params)
    weights = np.asarray(drawn["network"]["dense0"]["w"])
    assert within_four_errors(weights, 0.15)
    assert not within_four_errors(weights, 1.5)


@pytest.mark.parametrize("prior", [credo.NormalPrior, credo.FanInPrior])
@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan])
def test_a_scale_is_positive(prior, scale):
    with pytest.raises(credo.CredoError, match="positive"):
        prior(scale)
    with pytest.raises(credo.CredoError, match="positive"):
        credo.LayerPrior({"dense0": scale})
