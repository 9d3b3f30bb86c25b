"""Networks written elsewhere go through the same methods as ours."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.networks import MLP, Equinox, Functions

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2)).astype(np.float32)
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40).astype(np.float32)

METHODS = {
    "map": credo.MAP(learning_rate=0.02, num_steps=200, batch_size=20),
    "hmc": credo.HMC(num_samples=20, num_warmup=40, num_chains=2, num_leapfrog=10),
}


def module(key):
    return eqx.nn.MLP(2, 1, 8, 1, activation=jnp.tanh, key=key)


def init(key):
    first, second = jax.random.split(key)
    return [jax.random.normal(first, (2, 8)), (jax.random.normal(second, (8, 1)), jnp.zeros(1))]


def apply(params, x):
    first, (second, bias) = params
    return jnp.tanh(x @ first) @ second + bias


NETWORKS = {
    "module": Equinox(module(jax.random.key(3))),
    "factory": Equinox(module),
    "functions": Functions(init, apply),
}


@pytest.mark.filterwarnings("ignore::credo.CredoWarning")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("network", NETWORKS)
def test_it_learns(network, method, tmp_path):
    model = credo.Model(NETWORKS[network], credo.likelihoods.Normal(0.2))
    posterior = credo.fit(model, (X, Y), METHODS[method])
    error = credo.predict(posterior, X).mean - Y
    assert np.sqrt(np.mean(error**2)) < 0.5 * Y.std()
    credo.save(posterior, tmp_path / "model.safetensors")
    again = credo.load(tmp_path / "model.safetensors", network=NETWORKS[network])
    np.testing.assert_array_equal(credo.predict(again, X).means, credo.predict(posterior, X).means)


def test_chains_of_a_factory_start_apart_and_of_a_module_together():
    starts = {
        name: [NETWORKS[name].init(jax.random.key(seed), (2,), 1) for seed in (0, 1)]
        for name in ("module", "factory")
    }
    same = {name: bool(eqx.tree_equal(*pair)) for name, pair in starts.items()}
    assert same == {"module": True, "factory": False}


def test_equinox_agrees_with_the_module_row_by_row():
    network = NETWORKS["factory"]
    params = network.init(jax.random.key(5), (2,), 1)
    expected = np.stack([module(jax.random.key(5))(row) for row in X])
    np.testing.assert_allclose(network.apply(params, X), expected, rtol=1e-5, atol=1e-6)


def test_fan_in_of_equinox_weights():
    linear, conv = eqx.nn.Linear(3, 5, key=jax.random.key(0)), (16, 3, 5, 5)
    network = Equinox(linear)
    assert network.fan_in(linear.weight.shape) == 3
    assert network.fan_in(linear.bias.shape) == 1
    assert network.fan_in(conv) == 75
    assert MLP().fan_in((3, 5)) == 3


@pytest.mark.parametrize("method", METHODS)
def test_wrong_output_shape_is_said(method):
    network = Functions(init, lambda params, x: apply(params, x)[:, 0])
    model = credo.Model(network, credo.likelihoods.Normal(0.2))
    with pytest.raises(credo.CredoError, match=r"shape \(.*\).*expects \(.*, 1\)"):
        credo.fit(model, (X, Y), METHODS[method])


def test_a_module_without_parameters_is_refused():
    with pytest.raises(credo.CredoError, match="no floating-point arrays"):
        Equinox(eqx.nn.Identity()).init(jax.random.key(0), (2,), 1)
