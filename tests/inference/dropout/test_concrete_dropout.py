"""Concrete dropout: its objective by enumeration, and a model whose best rate is known exactly."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special

import credo
from credo.inference.dropout.concrete_dropout import bernoulli_entropy
from credo.model import Batch
from credo.networks import MLP, LeNet

pytestmark = pytest.mark.usefixtures("float64", "quick_compilation")


def agree(values, mean):
    return bool(abs(np.mean(values) - mean) < 4 * np.std(values) / np.sqrt(len(values)))


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


def argmin(function):
    """The rate at which a function of it is least."""
    options = {"bounds": (1e-6, 1 - 1e-6), "method": "bounded", "options": {"xatol": 1e-8}}
    return optimize.minimize_scalar(function, **options).x


def best_rate(num_data, **options):
    """The best rate by enumeration, each rate with its best weight."""

    def lowest(rate):
        def loss(weight):
            return enumerated(weight, rate, num_data, **options)

        return optimize.minimize_scalar(loss, (0.0, 1.0)).fun

    return argmin(lowest)


def closed_form(num_data):
    """p = 1 / (1 + exp(μ² / 2σ²)) with μ, σ the mean and deviation of the exact posterior."""
    x, y = data(num_data)
    precision = np.sum(x**2) / NOISE**2 + 1 / PRIOR**2
    mean = np.sum(x[:, 0] * y) / NOISE**2 / precision
    return 1 / (1 + np.exp(0.5 * mean**2 * precision))


def relaxed_masks(rate, mask_temperature, num=20_000):
    """z̃ at as many equal steps of u."""
    uniform = (np.arange(num) + 0.5) / num
    return special.expit(-(special.logit(rate) + special.logit(uniform)) / mask_temperature)


def best_relaxed_rate(num_data, mask_temperature, temperature=1.0):
    """The best rate of the objective as it is trained: with E z̃ and E z̃² at t > 0."""
    x, y = data(num_data)

    def lowest(rate):
        multipliers = relaxed_masks(rate, mask_temperature) / (1 - rate)
        linear = np.mean(multipliers) * np.sum(x[:, 0] * y) / NOISE**2
        square = np.mean(multipliers**2) * np.sum(x**2) / NOISE**2 + 1 / (PRIOR**2 * (1 - rate))
        return -(linear**2) / (2 * square * temperature) - special.entr([rate, 1 - rate]).sum()

    return argmin(lowest)


def one_weight(num_data):
    model = credo.Model(
        MLP(hidden=()), credo.likelihoods.Normal(NOISE), credo.priors.NormalPrior(PRIOR)
    )
    return model, credo.model.Target(model, num_data, (1,))


def params_of(weight):
    layer = {"w": jnp.full((1, 1), weight), "b": jnp.zeros(1)}
    return {"network": {"dense0": layer}, "likelihood": {}}


def prior_constant(params):
    """−log p(θ) of weights at 0, which the loss has and the formulas leave out."""
    size = sum(leaf.size for leaf in jax.tree.leaves(params["network"]))
    return size * (0.5 * np.log(2 * np.pi) + np.log(PRIOR))


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
    losses -= prior_constant(params_of(weight))
    assert agree(losses, enumerated(weight, rate, num_data))
    assert not agree(losses, enumerated(weight, rate, num_data, entropy_sign=-1.0))
    assert not agree(losses, enumerated(weight, 1 - rate, num_data))


MASK_TEMPERATURE = 0.1


@functools.cache
def learned_rate(num_data, temperature=1.0):
    """The mean of eight runs, and its standard error."""
    method = credo.ConcreteDropout(
        temperature=MASK_TEMPERATURE, input_noise=True, rate_speed=2.0,
        learning_rate=0.02, num_steps=3000, batch_size=num_data,
    )  # fmt: skip
    model, _ = one_weight(num_data)
    runs = [credo.fit(model, data(num_data), method, k, temperature=temperature) for k in range(8)]
    rates = [float(posterior.rates["dense0"]) for posterior in runs]
    return np.mean(rates), np.std(rates, ddof=1) / np.sqrt(8)


def test_the_enumerated_best_rate_and_its_relaxation():
    for num_data in (10, 40):
        exact = best_rate(num_data)
        assert np.isclose(exact, closed_form(num_data), rtol=1e-4)
        assert np.isclose(best_relaxed_rate(num_data, 1e-3), exact, rtol=5e-3)
        assert abs(best_relaxed_rate(num_data, MASK_TEMPERATURE) - exact) < 0.02
        # Planted: with the other sign of the entropy the best rate lies at an end.
        assert not 1e-3 < best_rate(num_data, entropy_sign=-1.0) < 1 - 1e-3


@pytest.mark.parametrize(("num_data", "temperature"), [(10, 1.0), (40, 1.0), (10, 0.5)])
def test_the_learned_rate_is_the_best_one(num_data, temperature):
    rate, error = learned_rate(num_data, temperature)
    assert abs(rate - best_relaxed_rate(num_data, MASK_TEMPERATURE, temperature)) < 4 * error
    # Planted: twice the data, which is what a loss not divided by N would see.
    assert abs(rate - best_relaxed_rate(num_data, MASK_TEMPERATURE, temperature / 2)) > 4 * error


def test_the_keep_probability_grows_with_the_data():
    (few, few_error), (many, many_error) = learned_rate(10), learned_rate(40)
    assert (1 - many) - (1 - few) > 4 * np.hypot(few_error, many_error)


IMAGES = (14, 14, 2)


def loss_without_weights(network, input_shape, bias=0.0, **options):
    """N × the training loss beside the data term, of a network whose weights are all 0."""
    model = credo.Model(network, credo.likelihoods.Categorical(3), credo.priors.NormalPrior(PRIOR))
    target = credo.model.Target(model, 50, input_shape)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), input_shape))
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes)

    def fill(leaf):
        return jnp.full(leaf.shape, bias if leaf.ndim == 1 else 0.0)

    params = zero | {"network": jax.tree.map(fill, zero["network"])}
    method = credo.ConcreteDropout(initial_rate=0.3, **options)
    batch = Batch(jnp.ones((4, *input_shape)), jnp.arange(4) % 3)
    state = method.init(jax.random.key(0), target, params, batch)
    info = jax.jit(lambda state: method.step(jax.random.key(0), target, state, batch)[1])(state)
    return 50 * float(info["loss"] - info["nll"]) - prior_constant(params), params


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
