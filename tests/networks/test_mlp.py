"""The MLP against the same sums written out in NumPy."""

import jax
import numpy as np
import pytest
from scipy import special

import credo
from credo.networks import MLP, site_shapes

pytestmark = pytest.mark.usefixtures("float64")

BY_HAND = {
    "relu": lambda h: np.maximum(h, 0),
    "tanh": np.tanh,
    "sigmoid": special.expit,
    # The tanh form of Hendrycks & Gimpel 2016, which is JAX's default.
    "gelu": lambda h: 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3))),
    "silu": lambda h: h * special.expit(h),
    "softplus": lambda h: np.logaddexp(h, 0),
}


def test_sites_are_the_inputs_of_the_layers():
    network = MLP(hidden=(7, 5))
    params = network.init(jax.random.key(0), (3, 2), 4)
    expected = {"dense0": (6,), "dense1": (7,), "dense2": (5,)}
    assert site_shapes(network, params, (3, 2)) == expected
    assert list(site_shapes(network, params, (3, 2))) == list(expected)


@pytest.mark.parametrize("activation", BY_HAND)
def test_forward(activation):
    network = MLP(hidden=(7, 5), activation=activation)
    params = network.init(jax.random.key(0), (3, 2), 4)
    x = np.random.default_rng(0).normal(size=(6, 3, 2))
    h = x.reshape(6, 6)
    for name in ("dense0", "dense1"):
        h = BY_HAND[activation](h @ np.asarray(params[name]["w"]) + params[name]["b"])
    expected = h @ np.asarray(params["dense2"]["w"]) + params["dense2"]["b"]
    np.testing.assert_allclose(network.apply(params, x), expected, rtol=1e-12)


@pytest.mark.parametrize("site", ["dense0", "dense1", "dense2"])
def test_noise_enters_at_its_site(site):
    """A unit silenced at a site has the effect of a zero row in the layer which that site feeds."""
    network = MLP(hidden=(7, 5), activation="tanh")
    params = network.init(jax.random.key(0), (4,), 3)
    x = np.random.default_rng(0).normal(size=(6, 4))
    mute = lambda units: units * (np.arange(units.shape[1]) != 1)  # noqa: E731
    silenced = network.apply(params, x, lambda name, units: mute(units) if name == site else units)
    without = params | {site: params[site] | {"w": params[site]["w"].at[1].set(0)}}
    np.testing.assert_allclose(silenced, network.apply(without, x), rtol=1e-12)
    assert not np.allclose(silenced, network.apply(params, x))


@pytest.mark.parametrize(("activation", "gain"), [("relu", 2.0), ("tanh", 1.0)])
def test_initial_weights_keep_the_size_of_activations(activation, gain):
    params = MLP((300, 300), activation).init(jax.random.key(1), (200,), 50)
    for name, expected in (("dense0", gain / 200), ("dense1", gain / 300), ("dense2", 1 / 300)):
        weights = np.asarray(params[name]["w"])
        standard_error = expected * np.sqrt(2 / weights.size)
        assert abs(weights.var() - expected) < 4 * standard_error
        assert abs(weights.var() - 1.5 * expected) > 4 * standard_error  # the check can fail
        assert not np.any(np.asarray(params[name]["b"]))


def test_no_hidden_layer_is_a_linear_model():
    params = MLP(hidden=()).init(jax.random.key(0), (3,), 2)
    assert list(params) == ["dense0"]
    x = np.eye(3)
    np.testing.assert_allclose(MLP(hidden=()).apply(params, x), params["dense0"]["w"], rtol=1e-12)


@pytest.mark.parametrize("options", [{"hidden": (5, 0)}, {"activation": "step"}])
def test_bad_fields_are_refused(options):
    with pytest.raises(credo.CredoError):
        MLP(**options)
