"""MC dropout against the enumeration of all masks: the exact predictive of a small network."""

import functools
import itertools

import jax
import numpy as np
import pytest
from scipy import special

import credo
from credo.networks import MLP, LeNet
from credo.posterior import NoisyNetwork, Record

pytestmark = pytest.mark.usefixtures("float64")

RATES = {"dense1": 0.3, "dense2": 0.5}
WIDTHS = {"dense1": 4, "dense2": 3}
X = np.random.default_rng(0).normal(size=(5, 2))
Y = np.array([0, 1, 2, 0, 1])


def noisy(network, likelihood, rates, input_shape, **options):
    model = credo.Model(network, likelihood)
    init = jax.jit(lambda: model.init(jax.random.key(0), input_shape))
    params = jax.tree.map(lambda leaf: 2 * np.asarray(leaf) + 0.1, init())
    rates = {site: np.asarray(rate) for site, rate in rates.items()}
    return NoisyNetwork(model, params, rates, record=Record(input_shape), **options)


@functools.cache
def classifier():
    return noisy(MLP(hidden=(4, 3)), credo.likelihoods.Categorical(3), RATES, (2,))


def logits(params, x, masks):
    """The network in NumPy, with units multiplied by mask / (1 − p) at every noisy site."""
    for name in ("dense0", "dense1", "dense2"):
        x = x * masks[name] / (1 - RATES[name]) if name in masks else x
        x = x @ np.asarray(params["network"][name]["w"]) + params["network"][name]["b"]
        x = x if name == "dense2" else np.maximum(x, 0)
    return np.asarray(x)


def all_masks(widths=WIDTHS, rates=RATES):
    """Every mask with its probability."""
    for bits in itertools.product((0, 1), repeat=sum(widths.values())):
        masks, weight, rest = {}, 1.0, list(bits)
        for site, width in widths.items():
            masks[site] = np.array([rest.pop() for _ in range(width)])
            weight *= np.prod(np.where(masks[site], 1 - rates[site], rates[site]))
        yield masks, weight


@pytest.fixture(scope="module")
def exact(float64):
    """Mean and variance over masks of the class probabilities, and the softmax of mean logits."""
    params = classifier().params
    masks, weights = zip(*all_masks(), strict=True)
    outputs = np.stack([logits(params, X, mask) for mask in masks])
    probs = special.softmax(outputs, axis=-1)
    average = lambda values: np.tensordot(weights, values, 1)  # noqa: E731
    mean = average(probs)
    return mean, average((probs - mean) ** 2), special.softmax(average(outputs), axis=-1)


def agree(estimate, exact_mean, variance, num_draws):
    return bool(np.all(np.abs(estimate - exact_mean) < 4 * np.sqrt(variance / num_draws)))


def test_predictive_is_the_average_over_all_masks(exact):
    mean, variance, of_mean_logits = exact
    predicted = credo.predict(classifier(), X, num_draws=20_000, key=3)
    assert agree(predicted.probs, mean, variance, 20_000)
    assert not agree(of_mean_logits, mean, variance, 20_000)  # planted: averaging logits
    assert not agree(mean[:, ::-1], mean, variance, 20_000)


def scaled_square_error(exact, num_draws, shared_mask=False):
    """num_draws × mean squared error / exact variance over 300 keys: 1, and its standard error."""
    mean, variance, _ = exact
    posterior, errors = classifier(), []
    for key in range(300):
        draws = 1 if shared_mask else num_draws  # planted: one mask serves all draws
        probs = credo.predict(posterior, X, num_draws=draws, key=key).probs
        errors.append(np.mean((probs - mean) ** 2 / variance) * num_draws)
    return np.mean(errors), np.std(errors) / np.sqrt(len(errors))


@pytest.mark.parametrize("num_draws", [4, 64])
def test_error_falls_as_the_square_root_of_the_draws(exact, num_draws):
    ratio, error = scaled_square_error(exact, num_draws)
    assert abs(ratio - 1) < 4 * error
    ratio, error = scaled_square_error(exact, num_draws, shared_mask=True)
    assert not abs(ratio - 1) < 4 * error


def test_one_draw_is_one_function():
    """The same mask for every input, so equal rows get equal outputs; other draws, other masks."""
    predicted = credo.predict(classifier(), np.tile(X, (300, 1)), num_draws=40, keep_draws=True)
    copies = predicted.draw_probs.reshape(40, 300, *X.shape[:1], 3)
    np.testing.assert_array_equal(copies, np.broadcast_to(copies[:, :1], copies.shape))
    assert len(np.unique(copies[:, 0], axis=0)) > 20
    possible = [special.softmax(logits(classifier().params, X, m), -1) for m, _ in all_masks()]
    distances = np.abs(copies[:, None, 0] - np.stack(possible)).max(axis=(2, 3)).min(axis=1)
    assert distances.max() < 1e-10  # every draw is the network with some mask


def test_averaging_probabilities_never_hurts():
    predicted = credo.predict(classifier(), X, num_draws=50, keep_draws=True)
    members = -np.log(predicted.draw_probs[:, np.arange(5), Y])
    assert np.all(-predicted.log_prob(Y) <= members.mean(axis=0) + 1e-12)  # Jensen


def test_moments_of_a_linear_unit():
    """Mean wᵀx + b, variance α Σ w²x² with α = p / (1 − p)."""
    rate, num_draws = 0.3, 20_000
    posterior = noisy(MLP(hidden=()), credo.likelihoods.Normal(0.5), {"dense0": rate}, (2,))
    layer = posterior.params["network"]["dense0"]
    mean = X @ np.asarray(layer["w"])[:, 0] + layer["b"]
    terms = (X * np.asarray(layer["w"])[:, 0]) ** 2
    variance = rate / (1 - rate) * terms.sum(axis=1)
    draws = credo.predict(posterior, X, num_draws=num_draws).means[..., 0]
    squares = (draws - np.asarray(mean)) ** 2
    square_error = squares.std(axis=0) / np.sqrt(num_draws)
    assert agree(draws.mean(axis=0), mean, variance, num_draws)
    assert np.all(np.abs(squares.mean(axis=0) - variance) < 4 * square_error)
    planted = rate * terms.sum(axis=1)  # the variance of a mask that is not divided by 1 − p
    assert not np.all(np.abs(squares.mean(axis=0) - planted) < 4 * square_error)


def test_weight_scaling_is_the_geometric_mean_of_a_softmax_layer():
    rate = {"dense0": 0.3}
    posterior = noisy(MLP(hidden=()), credo.likelihoods.Categorical(3), rate, (2,))
    layer = posterior.params["network"]["dense0"]
    log_mean = 0.0
    for masks, weight in all_masks({"dense0": 2}, rate):
        outputs = X * masks["dense0"] / 0.7 @ np.asarray(layer["w"]) + np.asarray(layer["b"])
        log_mean = log_mean + weight * special.log_softmax(outputs, axis=1)
    scaled = credo.predict(posterior.weight_scaled(), X).probs
    np.testing.assert_allclose(scaled, special.softmax(log_mean, axis=1), rtol=1e-12)
    assert not np.allclose(scaled, credo.predict(posterior, X).probs, rtol=1e-3)


@pytest.mark.parametrize("channelwise", [False, True])
def test_channels_are_dropped_whole_or_by_unit(channelwise):
    network = LeNet(channels=(3, 4), hidden=(5,), kernel=3)
    rates = {"conv1": 0.5, "dense0": 0.5, "dense1": 0.5}
    posterior = noisy(
        network, credo.likelihoods.Categorical(3), rates, (14, 14, 1), channelwise=channelwise
    )
    draws = posterior.sample(jax.random.key(0), 7)
    expected = {"conv1": (12, 12, 3), "dense0": (4, 4, 4), "dense1": (5,)}
    if channelwise:
        expected |= {"conv1": (1, 1, 3), "dense0": (1, 1, 4)}
    assert {site: draw.shape[1:] for site, draw in draws.items()} == expected
    assert set(np.unique(draws["conv1"])) == {0.0, 2.0}
