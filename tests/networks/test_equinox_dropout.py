"""The dropout layers of an Equinox module become noise sites, in all the ways modules use them."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.inference.dropout import unit_noise
from credo.likelihoods import Normal
from credo.model import Target
from credo.networks import MLP, Equinox, conv, no_noise, site_shapes
from credo.networks.fed_weights import fed_weights
from credo.networks.noise import bernoulli

pytestmark = pytest.mark.usefixtures("quick_compilation")

RATE = 0.5


class Two(eqx.Module):
    """Two dropout layers with rates of their own; the output is what is left of the ones."""

    scale: jax.Array
    first: eqx.nn.Dropout
    second: eqx.nn.Dropout

    def __init__(self, key):
        self.scale = jnp.ones(())
        self.first, self.second = eqx.nn.Dropout(0.3), eqx.nn.Dropout(0.6)

    def __call__(self, row):
        return jnp.concatenate([self.first(self.scale * row), self.second(self.scale * row)])


class Called(eqx.Module):
    """One dropout layer, called twice, on units of different number, with a key as in training."""

    scale: jax.Array
    dropout: eqx.nn.Dropout

    def __init__(self, key):
        self.scale, self.dropout = jnp.ones(()), eqx.nn.Dropout(RATE)

    def __call__(self, row, key):
        first, second = jax.random.split(key)
        half = self.dropout(self.scale * row[:3], key=first)
        return jnp.concatenate([half, self.dropout(self.scale * row, key=second)])


class Mapped(eqx.Module):
    """Dropout inside a map over the elements of a row."""

    scale: jax.Array
    dropout: eqx.nn.Dropout

    def __init__(self, key):
        self.scale, self.dropout = jnp.ones(()), eqx.nn.Dropout(RATE)

    def __call__(self, row):
        spread = jax.vmap(lambda unit: self.dropout(self.scale * unit * jnp.ones(2)))
        return spread(row).ravel()


class Images(eqx.Module):
    """Dropout on images, which Equinox keeps with channels first."""

    scale: jax.Array
    dropout: eqx.nn.Dropout

    def __init__(self, key):
        self.scale, self.dropout = jnp.ones(()), eqx.nn.Dropout(RATE)

    def __call__(self, row):
        return self.dropout(self.scale * jnp.ones((3, 4, 5))).ravel() * row[0]


MODULES = {"two": Two, "called": Called, "mapped": Mapped, "images": Images}
X = np.ones((400, 6), np.float32)


def noisy_outputs(network, channelwise=False, rows=X, noise=None):
    """Outputs under training noise of rate ½ at every site: what is left of the ones, doubled."""
    params = network.init(jax.random.key(0), (6,), 1)
    sites = site_shapes(network, params, (6,))
    draw = {site: lambda key, shape: bernoulli(key, RATE, shape) for site in sites}
    noise = noise or unit_noise.row_noise(jax.random.key(1), draw, channelwise)
    return np.asarray(jax.jit(lambda x: network.apply(params, x, noise))(rows))


def masks_are_independent(outputs):
    """No two rows, and no two units, go together more than chance allows."""
    kept = (outputs > 0).astype(float)
    bound = 4 * 0.25 / np.sqrt(kept.size)  # a product of centred masks is ±¼
    centred = kept - 0.5
    rows, units = centred[1:] * centred[:-1], centred[:, 1:] * centred[:, :-1]
    rate = abs(kept.mean() - 0.5) < 4 * 0.5 / np.sqrt(kept.size)
    return bool(rate and abs(rows.mean()) < bound and abs(units.mean()) < bound)


@pytest.mark.parametrize("name", MODULES)
def test_every_row_and_every_unit_has_a_mask_of_its_own(name):
    network = Equinox(MODULES[name])
    assert masks_are_independent(noisy_outputs(network))

    def shared(site, units):  # planted: one mask for the batch
        return units * bernoulli(jax.random.key(2), RATE, units.shape[1:])

    assert not masks_are_independent(noisy_outputs(network, noise=shared))


def test_sites_and_their_shapes():
    shapes = {
        name: site_shapes(Equinox(module), Equinox(module).init(jax.random.key(0), (6,), 1), (6,))
        for name, module in MODULES.items()
    }
    assert shapes == {
        "two": {"dropout0": (6,), "dropout1": (6,)},
        "called": {"dropout0": (3,), "dropout0.1": (6,)},
        "mapped": {"dropout0": (6, 2)},
        "images": {"dropout0": (4, 5, 3)},  # channels last, as noise functions expect
    }


def test_channels_of_an_image_are_dropped_together():
    outputs = noisy_outputs(Equinox(Images), channelwise=True).reshape(-1, 3, 4, 5)
    np.testing.assert_array_equal(outputs, np.broadcast_to(outputs[..., :1, :1], outputs.shape))
    assert len(np.unique(outputs[..., 0, 0], axis=0)) == 8


def test_without_noise_a_module_is_silent():
    for module in MODULES.values():
        network = Equinox(module)
        outputs = network.apply(network.init(jax.random.key(0), (6,), 1), X[:2])
        np.testing.assert_array_equal(outputs, np.ones_like(outputs))


@pytest.mark.parametrize(
    ("module", "rates"),
    [(Two, {"dropout0": 0.3, "dropout1": 0.6}), (Called, {"dropout0": 0.5, "dropout0.1": 0.5})],
)
def test_training_and_prediction_use_the_modules_own_rates(module, rates, tmp_path):
    num_outputs = len(noisy_outputs(Equinox(module), rows=X[:1])[0])
    model = credo.Model(Equinox(module), Normal(1.0, num_outputs))
    method = credo.Dropout(rate=0.1, num_steps=2, batch_size=10)
    posterior = credo.fit(model, (X, np.ones((400, num_outputs))), method)
    assert {site: round(float(rate), 6) for site, rate in posterior.rates.items()} == rates
    means = credo.predict(posterior, X[:1], num_draws=4000).means[:, 0]
    drop = np.mean(means == 0, axis=0)
    widths = [shape[0] for shape in site_widths(posterior).values()]
    expected = np.repeat(list(rates.values()), widths)
    error = np.sqrt(expected * (1 - expected) / 4000)
    assert np.all(np.abs(drop - expected) < 4 * error)
    assert np.all(np.abs(drop - method.rate) > 4 * error)  # planted: the method's own rate
    credo.save(posterior, tmp_path / "model.safetensors")
    again = credo.load(tmp_path / "model.safetensors", network=Equinox(module))
    np.testing.assert_array_equal(credo.predict(again, X[:1], 4000).means[:, 0], means)


def site_widths(posterior):
    return site_shapes(posterior.model.network, posterior.params["network"], (6,))


def test_the_gradient_of_a_learned_rate_passes_through_maps():
    model = credo.Model(Equinox(Mapped), Normal(1.0, 12))
    method = credo.ConcreteDropout(num_steps=30, batch_size=50, learning_rate=0.05)
    posterior = credo.fit(model, (X, np.ones((400, 12))), method)
    assert float(posterior.rates["dropout0"]) < 0.9 * method.initial_rate  # noise only hurts here


class Branches(eqx.Module):
    """Noise that passes an activation, a norm and a residual connection before it meets weights."""

    first: eqx.nn.Linear
    second: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    dropout: eqx.nn.Dropout

    def __init__(self, key):
        self.first, self.second = (eqx.nn.Linear(3, 3, key=k) for k in jax.random.split(key))
        self.norm, self.dropout = eqx.nn.LayerNorm(3), eqx.nn.Dropout(RATE)

    def __call__(self, row):
        hidden = row + self.dropout(jax.nn.relu(self.first(row)))
        return self.second(self.norm(jax.nn.gelu(hidden)))


class Scanned(eqx.Module):
    """Layers in one array, run by a loop: the noise of a layer meets the weights of the next."""

    weights: jax.Array
    dropout: eqx.nn.Dropout

    def __init__(self, key):
        self.weights, self.dropout = jnp.ones((2, 3, 3)), eqx.nn.Dropout(RATE)

    def __call__(self, row):
        return jax.lax.scan(lambda h, w: (self.dropout(w @ h), None), row, self.weights)[0]


def convolutional(key):
    one, two, three = jax.random.split(key, 3)
    return eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(1, 2, 3, key=one),
            eqx.nn.Dropout(RATE),
            eqx.nn.MaxPool2d(2, 2),
            eqx.nn.Conv2d(2, 2, 3, key=two),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Dropout(RATE),
            eqx.nn.Linear(2 * 2 * 2, 1, key=three),
        ]
    )


@pytest.mark.parametrize(
    ("module", "shape", "expected"),
    [
        (Branches, (3,), {"dropout0": {".second.weight"}}),
        (Scanned, (3,), {"dropout0": {".weights"}}),
        (
            convolutional,
            (1, 10, 10),
            {"dropout0": {".layers[3].weight"}, "dropout1": {".layers[6].weight"}},
        ),
        (Two, (6,), {"dropout0": set(), "dropout1": set()}),  # its noise meets no weights
    ],
)
def test_the_weights_that_a_site_feeds(module, shape, expected):
    network = Equinox(module)
    params = network.init(jax.random.key(0), shape, 1)
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    found = fed_weights(network, params, shape)
    assert {site: {names[n] for n in numbers} for site, numbers in found.items()} == expected


class OwnNames(NamedTuple):
    """A network with a convolution of credo, whose sites are not named after layers."""

    def init(self, key, input_shape, num_outputs):
        kernel = {"kernel": jnp.ones((3, 3, 1, 2)), "shift": jnp.ones(2)}
        return {"one": kernel, "two": {"matrix": jnp.ones((18, num_outputs))}}

    def apply(self, params, x, noise=no_noise):
        units = noise("before", x)
        units = conv(units, params["one"]["kernel"], params["one"]["shift"])
        return noise("after", units.reshape(len(x), -1)) @ params["two"]["matrix"]


def test_a_convolution_of_credo_in_a_network_of_ones_own():
    network = OwnNames()
    params = network.init(jax.random.key(0), (5, 5, 1), 1)
    assert fed_weights(network, params, (5, 5, 1)) == {"before": (0,), "after": (2,)}


def test_the_penalty_is_that_of_the_same_network_of_credo():
    """½ (w²/(1 − p) + b²)/s² for one linear layer."""
    half = jnp.full((1, 1), 0.5)

    def module(key):
        layer = eqx.nn.Linear(1, 1, key=key)
        layer = eqx.tree_at(lambda m: (m.weight, m.bias), layer, (half, half[0]))
        return eqx.nn.Sequential([eqx.nn.Dropout(RATE), layer])

    def penalty(network, params, site):
        model = credo.Model(network, Normal(1.0), credo.priors.NormalPrior(0.3))
        target = Target(model, 10, (1,))
        params = {"network": params, "likelihood": {}}
        nothing = jax.tree.map(jnp.zeros_like, params)
        of_noise = unit_noise.penalty(target, params, {site: 1 / (1 - RATE)})
        return float(target.log_prior(nothing) - target.log_prior(params) + of_noise)

    network = Equinox(module)
    own = penalty(MLP(hidden=()), {"dense0": {"w": half, "b": half[0]}}, "dense0")
    of_module = penalty(network, network.init(jax.random.key(0), (1,), 1), "dropout0")
    assert np.isclose(own, 0.5 * (0.25 / (1 - RATE) + 0.25) / 0.3**2)
    assert np.isclose(of_module, own)
