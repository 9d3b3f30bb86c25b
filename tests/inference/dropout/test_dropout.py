"""Training with dropout: the law of its masks, its penalty, and the gradient they make."""

import functools

import jax
import numpy as np
import pytest

import credo
from credo.model import Batch
from credo.networks import MLP, LeNet
from credo.networks.noise import bernoulli

pytestmark = pytest.mark.usefixtures("float64", "quick_compilation")

X = np.random.default_rng(0).normal(size=(12, 4))
Y = np.arange(12) % 3
PRIOR = 0.7


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
def test_masks_are_bernoulli_over_keep_probability(rate):
    multipliers = np.asarray(bernoulli(jax.random.key(0), rate, (500, 400)))
    kept = multipliers > 0
    np.testing.assert_allclose(multipliers[kept], 1 / (1 - rate), rtol=1e-12)
    standard_error = np.sqrt(rate * (1 - rate) / kept.size)
    assert abs(kept.mean() - (1 - rate)) < 4 * standard_error
    assert abs(kept.mean() - (1 - 1.1 * rate)) > 4 * standard_error  # the check can fail
    # Neighbouring masks, along both axes, are independent.
    for a, b in ((kept[1:], kept[:-1]), (kept[:, 1:], kept[:, :-1])):
        correlation = np.corrcoef(a.ravel(), b.ravel())[0, 1]
        assert abs(correlation) < 4 / np.sqrt(a.size)


def target(network, input_shape):
    model = credo.Model(network, credo.likelihoods.Categorical(3), credo.priors.NormalPrior(PRIOR))
    return credo.model.Target(model, 12, input_shape)


@functools.partial(jax.jit, static_argnames="network")
def step(method, network, params, x=X, key=0):
    """The parameters and the record after one training step."""
    batch, own = Batch(x, Y), target(network, x.shape[1:])
    state = method.init(jax.random.key(key), own, params, batch)
    state, info = method.step(jax.random.key(key), own, state, batch)
    return state.learned, info


@functools.partial(jax.jit, static_argnums=(0, 1))
def init(network, input_shape):
    return target(network, input_shape).model.init(jax.random.key(1), input_shape)


def penalty(method, network, params, x=X):
    """N × what the loss has beside the data term, up to a constant in the parameters."""

    def excess(params):
        info = step(method, network, params, x)[1]
        return 12 * float(info["loss"] - info["nll"])

    return excess(params) - excess(jax.tree.map(np.zeros_like, params))


def expected_penalty(params, rates):
    """‖W‖² / (2 s² (1 − p)) for the weights behind a site of drop probability p."""
    total = 0.0
    for name, layer in params["network"].items():
        total += np.sum(np.square(layer["w"])) / (1 - rates.get(name, 0.0))
        total += np.sum(np.square(layer["b"]))
    return total / (2 * PRIOR**2)


def test_penalty():
    network = MLP(hidden=(6, 5))
    params = jax.tree.map(lambda leaf: np.asarray(leaf) + 0.1, init(network, (4,)))
    rates = {"dense0": 0.1, "dense1": 0.4, "dense2": 0.4}
    actual = penalty(credo.Dropout(rate=0.4, input_rate=0.1), network, params)
    np.testing.assert_allclose(actual, expected_penalty(params, rates), rtol=1e-10)
    assert not np.isclose(actual, expected_penalty(params, {}), rtol=1e-3)


def test_penalty_of_a_convolution():
    network = LeNet(channels=(2, 3), hidden=(5,), kernel=3)
    images = np.random.default_rng(1).normal(size=(12, 14, 14, 1))
    params = jax.tree.map(lambda leaf: np.asarray(leaf) + 0.1, init(network, (14, 14, 1)))
    rates = {"conv1": 0.4, "dense0": 0.4, "dense1": 0.4}
    actual = penalty(credo.Dropout(rate=0.4), network, params, images)
    np.testing.assert_allclose(actual, expected_penalty(params, rates), rtol=1e-10)


def test_the_data_term_is_a_mean_over_rows_with_masks_of_their_own():
    """With one network for all rows, copies of a row would all have the same loss."""
    network, copies = MLP(hidden=(6,)), np.tile(X[:1], (12, 1))
    params = init(network, (4,))
    losses = {}

    class Spy(MLP):
        def apply(self, params, x, noise):
            outputs = super().apply(params, x, noise)
            jax.debug.callback(lambda value: losses.update(rows=np.asarray(value)), outputs)
            return outputs

    info = step(credo.Dropout(rate=0.5), Spy(hidden=(6,)), params, copies)[1]
    jax.effects_barrier()
    outputs = losses["rows"]
    assert len(np.unique(outputs, axis=0)) > 6
    log_probs = outputs - np.log(np.exp(outputs).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(info["nll"], -log_probs[np.arange(12), Y].mean(), rtol=1e-10)


def test_masks_are_new_at_every_step_and_fixed_by_the_key():
    network = MLP(hidden=(6,))
    params = init(network, (4,))
    losses = [
        float(step(credo.Dropout(rate=0.5), network, params, key=k)[1]["nll"]) for k in (0, 1, 0)
    ]
    assert losses[0] == losses[2] != losses[1]


def test_without_dropout_the_step_is_that_of_map():
    network = MLP(hidden=(6,))
    params = init(network, (4,))
    dropped, _ = step(credo.Dropout(rate=0.0), network, params)
    plain, _ = step(credo.MAP(), network, params)
    jax.tree.map(np.testing.assert_array_equal, dropped, plain)


@pytest.mark.parametrize(
    ("options", "noisy"),
    [
        ({}, {"conv1", "dense0", "dense1"}),
        ({"where": "dense"}, {"dense1"}),
        ({"input_rate": 0.1}, {"conv0", "conv1", "dense0", "dense1"}),
    ],
)
def test_where_noise_enters(options, noisy):
    network = LeNet(channels=(2, 3), hidden=(5,), kernel=3)
    method = credo.Dropout(rate=0.4, **options)
    posterior = method.posterior_of(target(network, (14, 14, 1)), init(network, (14, 14, 1)))
    assert set(posterior.rates) == noisy
