"""Concrete dropout: the law of the relaxed mask, and a model whose best rate is known exactly."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special

import credo
from credo.inference.concrete_dropout import bernoulli_entropy
from credo.model import Batch
from credo.networks import MLP, LeNet
from credo.networks.noise import concrete

pytestmark = pytest.mark.usefixtures("float64", "quick_compilation")

NUM = 400_000
UNIFORM = (np.arange(NUM) + 0.5) / NUM  # midpoints: the relaxed mask is monotone in u


def relaxed(rate, temperature, uniform=UNIFORM):
    """z̃ by its definition, on a grid of u."""
    return 1 - special.expit((special.logit(rate) + special.logit(uniform)) / temperature)


def draws(rate, temperature, seed=0):
    """z̃ by the library, which returns it divided by 1 − p."""
    multipliers = concrete(jax.random.key(seed), special.logit(rate), temperature, (NUM,))
    return np.asarray(multipliers) * (1 - rate)


def agree(values, mean):
    return bool(abs(np.mean(values) - mean) < 4 * np.std(values) / np.sqrt(len(values)))


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("temperature", [1.0, 0.1, 0.01])
def test_more_than_half_with_the_keep_probability_at_every_temperature(rate, temperature):
    above = draws(rate, temperature) > 0.5
    assert agree(above, 1 - rate)
    assert rate == 0.5 or not agree(above, rate)  # planted: keep and drop exchanged


@pytest.mark.parametrize(("temperature", "mean"), [(1.0, 0.717), (0.1, 0.798), (0.01, 0.7999)])
def test_mean_of_the_relaxed_mask(temperature, mean):
    exact = relaxed(0.2, temperature).mean()
    assert abs(exact - mean) < 1e-3
    values = draws(0.2, temperature)
    assert agree(values, exact)
    assert temperature < 1 or not agree(values, 0.8)  # the mean is 1 − p only as t → 0
    assert agree(draws(0.5, temperature), 0.5)


def some_function(z):
    return jnp.sin(2 * z) + z**3


def test_gradient_with_respect_to_the_rate():
    """dE[f(z̃)]/dp → f(0) − f(1) as t → 0."""
    rate, limit = 0.2, float(some_function(0.0) - some_function(1.0))

    def exact(temperature):
        at = lambda p: np.mean(some_function(relaxed(p, temperature)))  # noqa: E731
        return (at(rate + 1e-4) - at(rate - 1e-4)) / 2e-4

    errors = [abs(exact(temperature) - limit) for temperature in (0.3, 0.1, 0.03)]
    assert errors[0] > 3 * errors[1] > 9 * errors[2] and errors[2] < 1e-2

    @jax.jit
    @jax.vmap
    def pathwise(key):
        def of_rate(p):
            logit = jnp.log(p) - jnp.log1p(-p)
            return some_function(concrete(key, logit, 0.1, ()) * (1 - p))

        return jax.grad(of_rate)(rate)

    gradients = np.asarray(pathwise(jax.random.split(jax.random.key(1), NUM)))
    assert agree(gradients, exact(0.1))
    assert not agree(gradients, -exact(0.1))


# One weight, one input, normal noise: y = w x + ε, and w is W z / (1 − p) with z in {0, 1}.
PRIOR, NOISE = 2.0, 1.0


@functools.cache
def data(num_data):
    """Centred, so that the best bias is 0."""
    x = np.linspace(-1.5, 1.5, num_data)
    y = 0.4 * x + 0.3 * np.cos(7 * x)
    return x[:, None], y - y.mean()


def enumerated(weight, rate, num_data, entropy_sign=1.0):
    """−ELBO by summing over the two masks of every datum."""
    x, y = data(num_data)
    loss = 0.0
    for mask, probability in ((0.0, rate), (1.0, 1 - rate)):
        residual = y - weight * mask / (1 - rate) * x[:, 0]
        terms = 0.5 * (residual / NOISE) ** 2 + np.log(NOISE) + 0.5 * np.log(2 * np.pi)
        loss += probability * terms.sum()
    entropy = -rate * np.log(rate) - (1 - rate) * np.log1p(-rate)
    return loss + weight**2 / (2 * PRIOR**2 * (1 - rate)) - entropy_sign * entropy


def best_rate(num_data, **options):
    """The argmin over the rate, each rate with its best weight."""
    lowest = lambda rate: (
        optimize.minimize_scalar(  # noqa: E731
            lambda weight: enumerated(weight, rate, num_data, **options), (0.0, 1.0)
        ).fun
    )
    bounds = {"bounds": (1e-6, 1 - 1e-6), "method": "bounded", "options": {"xatol": 1e-8}}
    return optimize.minimize_scalar(lowest, **bounds).x


def closed_form(num_data, temperature=1.0):
    """p = 1 / (1 + exp(μ² / 2σ²)) with μ, σ the mean and deviation of the exact posterior."""
    x, y = data(num_data)
    precision = np.sum(x**2) / NOISE**2 + 1 / PRIOR**2
    mean = np.sum(x[:, 0] * y) / NOISE**2 / precision
    return 1 / (1 + np.exp(0.5 * mean**2 * precision / temperature))


def one_weight(num_data):
    model = credo.Model(MLP(hidden=()), credo.Normal(NOISE), credo.NormalPrior(PRIOR))
    return model, credo.Target(model, num_data, (1,))


def params_of(weight):
    layer = {"w": jnp.full((1, 1), weight), "b": jnp.zeros(1)}
    return {"network": {"dense0": layer}, "likelihood": {}}


def test_the_objective_is_the_enumerated_one():
    """At a low temperature; the sign of the entropy is the one that draws p towards ½."""
    num_data, weight, rate = 12, 0.8, 0.3
    _, target = one_weight(num_data)
    method = credo.ConcreteDropout(initial_rate=rate, temperature=0.002, input_noise=True)
    x, y = data(num_data)
    batch = Batch(jnp.asarray(x), jnp.asarray(y))
    state = method.init(jax.random.key(0), target, params_of(weight), batch)
    loss = jax.jit(jax.vmap(lambda key: method.step(key, target, state, batch)[1]["loss"]))
    losses = num_data * np.asarray(loss(jax.random.split(jax.random.key(2), 40_000)))
    assert agree(losses, enumerated(weight, rate, num_data))
    assert not agree(losses, enumerated(weight, rate, num_data, entropy_sign=-1.0))
    assert not agree(losses, enumerated(weight, 1 - rate, num_data))


def learnt_rate(num_data, **options):
    method = credo.ConcreteDropout(
        temperature=0.05, input_noise=True, learning_rate=0.02, num_steps=3000,
        batch_size=num_data, rate_speed=2.0,
    )  # fmt: skip
    posterior = credo.fit(one_weight(num_data)[0], data(num_data), method, **options)
    # The optimiser still moves a little: its last tenth says how much.
    tail = posterior.record.history["rate_dense0"][0, -300:]
    return float(posterior.rates["dense0"]), np.ptp(tail)


def test_the_learnt_rate_is_the_best_one_and_falls_with_the_data():
    learnt = {}
    for num_data in (10, 40):
        best = best_rate(num_data)
        assert np.isclose(best, closed_form(num_data), rtol=1e-4)
        learnt[num_data], wander = learnt_rate(num_data)
        assert abs(learnt[num_data] - best) < 0.02 + wander
        # Planted: the entropy with the wrong sign has its best rate at an end.
        assert abs(learnt[num_data] - best_rate(num_data, entropy_sign=-1.0)) > 0.02 + wander
    assert 1 - learnt[40] > 1 - learnt[10] + 0.05  # the keep probability grows


def test_a_cold_posterior_drops_less():
    expected = closed_form(10, temperature=0.5)
    rate, wander = learnt_rate(10, temperature=0.5)
    assert abs(rate - expected) < 0.02 + wander < abs(closed_form(10) - expected)


IMAGES = (14, 14, 2)


def loss_without_weights(network, input_shape, bias=0.0, **options):
    """N × the training loss beside the data term, of a network whose weights are all 0."""
    model = credo.Model(network, credo.Categorical(3), credo.NormalPrior(PRIOR))
    target = credo.Target(model, 50, input_shape)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), input_shape))
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes)
    fill = lambda leaf: jnp.full(leaf.shape, bias if leaf.ndim == 1 else 0.0)  # noqa: E731
    params = zero | {"network": jax.tree.map(fill, zero["network"])}
    method = credo.ConcreteDropout(initial_rate=0.3, **options)
    batch = Batch(jnp.ones((4, *input_shape)), jnp.arange(4) % 3)
    state = method.init(jax.random.key(0), target, params, batch)
    info = jax.jit(lambda state: method.step(jax.random.key(0), target, state, batch)[1])(state)
    return 50 * float(info["loss"] - info["nll"]), params


ENTROPY = float(special.entr(0.3) + special.entr(0.7))


@pytest.mark.parametrize(
    ("options", "units"),
    [
        ({}, 3 + 4 + 5),  # channels, channels, units
        ({"input_noise": True}, 2 + 3 + 4 + 5),
        ({"where": "dense"}, 5),
        ({"channelwise": False}, 12 * 12 * 3 + 4 * 4 * 4 + 5),
    ],
)
def test_the_entropy_counts_masks(options, units):
    """D_l is the number of multipliers at a site: a channel has one, whatever its size."""
    network = LeNet(channels=(3, 4), hidden=(5,), kernel=3)
    loss, _ = loss_without_weights(network, IMAGES, **options)
    assert np.isclose(loss, -units * ENTROPY, rtol=1e-9)
    assert not np.isclose(loss, units * ENTROPY, rtol=1e-3)  # planted: the other sign
    assert not np.isclose(loss, -4 * units * ENTROPY, rtol=1e-3)  # planted: rows counted too


def test_biases_are_not_dropped_so_their_penalty_is_not_rescaled():
    network = MLP(hidden=(5,))
    loss, params = loss_without_weights(network, (3,), bias=0.6)
    squares = sum(float(jnp.sum(layer["b"] ** 2)) for layer in params["network"].values())
    penalty = loss + 5 * ENTROPY
    assert np.isclose(penalty, squares / (2 * PRIOR**2), rtol=1e-9)
    assert not np.isclose(penalty, squares / (2 * PRIOR**2 * 0.7), rtol=1e-2)  # planted


def test_entropy_of_a_coin():
    assert np.isclose(bernoulli_entropy(jnp.asarray(0.5)), np.log(2))
    assert np.isclose(bernoulli_entropy(jnp.asarray(0.3)), ENTROPY)


def test_nothing_to_learn_is_a_network_without_noise():
    """A linear model has no site but its input."""
    x, y = data(12)
    posterior = credo.fit(one_weight(12)[0], (x, y), credo.ConcreteDropout(num_steps=2))
    assert credo.predict(posterior, x).means.shape == (1, 12, 1)
