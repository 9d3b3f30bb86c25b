"""Bernoulli, Gaussian and concrete noise on units: equal moments, penalties, masks per row."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.inference.dropout import unit_noise
from credo.model import Batch
from credo.networks import MLP, LeNet
from credo.networks.noise import KINDS, bernoulli
from credo.posterior import NoisyNetwork, Record

pytestmark = pytest.mark.usefixtures("float64", "quick_compilation")

RATE = 0.3
ALPHA = RATE / (1 - RATE)
PARAMETER = {"bernoulli": RATE, "gaussian": ALPHA}
NUM = 40_000
X = np.random.default_rng(0).normal(size=(20, 4))


def mean_and_variance_agree(draws, mean, variance):
    """Within 4 standard errors, by what the draws themselves say of their spread."""
    squares = (draws - mean) ** 2
    errors = draws.std(axis=0) / np.sqrt(len(draws)), squares.std(axis=0) / np.sqrt(len(draws))
    return bool(
        np.all(np.abs(draws.mean(axis=0) - mean) < 4 * errors[0])
        and np.all(np.abs(squares.mean(axis=0) - variance) < 4 * errors[1])
    )


@pytest.mark.parametrize("kind", KINDS)
def test_equal_first_and_second_moments(kind):
    draws = np.asarray(KINDS[kind](jax.random.key(0), PARAMETER[kind], (NUM,)))
    assert mean_and_variance_agree(draws, 1.0, ALPHA)
    assert not mean_and_variance_agree(draws, 1 - RATE, ALPHA)  # planted: masks not divided
    assert not mean_and_variance_agree(draws, 1.0, ALPHA**2)  # planted: α read as a std


@pytest.mark.parametrize("kind", KINDS)
def test_moments_of_a_linear_unit(kind):
    """Mean wᵀx + b, variance α Σ w² x², whichever the noise."""
    model = credo.Model(MLP(hidden=()), credo.likelihoods.Normal(0.5))
    params = model.init(jax.random.key(0), (4,))
    rates = {"dense0": jnp.asarray(PARAMETER[kind])}
    posterior = NoisyNetwork(model, params, rates, kind, record=Record((4,)))
    draws = credo.predict(posterior, X, num_draws=NUM, key=1).means[..., 0]
    weights = np.asarray(params["network"]["dense0"]["w"])[:, 0]
    variance = ALPHA * (X**2 @ weights**2)
    assert mean_and_variance_agree(draws, X @ weights, variance)
    # Planted: one multiplier for all units of a row.
    assert not mean_and_variance_agree(draws, X @ weights, ALPHA * (X @ weights) ** 2)


def test_n11_is_alpha_one():
    """The N(1, 1) of Srivastava et al. has the moments of dropout at p = ½."""
    draws = np.asarray(KINDS["gaussian"](jax.random.key(0), 1.0, (NUM,)))
    assert mean_and_variance_agree(draws, 1.0, 0.5 / (1 - 0.5))
    assert draws.min() < 0  # unlike a mask


METHODS = {
    "bernoulli": credo.Dropout(rate=RATE, optimizer="sgd", learning_rate=1.0, schedule="constant"),
    "gaussian": credo.GaussianDropout(
        alpha=ALPHA, optimizer="sgd", learning_rate=1.0, schedule="constant"
    ),
}
PRIOR, NOISE = 0.7, 0.4
NETWORK = MLP(hidden=(6,), activation="tanh")
Y = np.sin(X[:, :1])
KEY = jax.random.key(3)


def regression():
    model = credo.Model(NETWORK, credo.likelihoods.Normal(NOISE), credo.priors.NormalPrior(PRIOR))
    params = jax.tree.map(lambda leaf: leaf + 0.1, model.init(jax.random.key(0), (4,)))
    return credo.model.Target(model, 500, (4,)), params


def library_gradient(kind):
    """The gradient of the training loss, read off a step of size 1."""
    target, params = regression()
    method, batch = METHODS[kind], Batch(X, Y)
    state = method.init(KEY, target, params, batch)
    after, _ = jax.jit(lambda state: method.step(KEY, target, state, batch))(state)
    return jax.tree.map(jnp.subtract, params, after.learned)


def textbook_gradient(kind):
    """τ/2 × the gradient of (1/B) Σ (y − f)² + λ₁ ‖W₁‖² + λ₀ ‖the rest‖² with the same noise."""
    _, params = regression()
    draw = {"dense1": lambda key, shape: KINDS[kind](key, PARAMETER[kind], shape)}
    noise = unit_noise.row_noise(KEY, draw, False)

    def loss(params, noisy_decay, decay):
        error = jnp.mean((Y - NETWORK.apply(params["network"], X, noise)) ** 2)
        squares = jax.tree.map(lambda leaf: jnp.sum(jnp.square(leaf)), params["network"])
        noisy = squares["dense1"]["w"]
        return error + noisy_decay * noisy + decay * (sum(jax.tree.leaves(squares)) - noisy)

    gradient = jax.jit(jax.grad(loss))

    def scaled(*decays):
        return jax.tree.map(lambda leaf: leaf / (2 * NOISE**2), gradient(params, *decays))

    return scaled


def same(first, second):
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return all(np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in pairs)


@pytest.mark.parametrize("kind", METHODS)
def test_weight_decay_length_scale_and_precision(kind):
    """λ = l² E[z²] / (N τ) with squared error without ½, l = 1/s; E[z²] = 1/(1−p) = 1 + α."""
    length, precision = 1 / PRIOR, 1 / NOISE**2
    decay = length**2 / (500 * precision)
    assert np.isclose(1 / (1 - RATE), 1 + ALPHA)
    actual, textbook = library_gradient(kind), textbook_gradient(kind)
    assert same(actual, textbook(decay / (1 - RATE), decay))
    # Planted: the λ that belongs to ½ (y − f)², and the one of masks that are not divided.
    assert not same(actual, textbook(decay / (1 - RATE) / 2, decay / 2))
    assert not same(actual, textbook(decay * (1 - RATE), decay))


UNIT_NOISE = {
    "dropout": credo.Dropout(rate=RATE),
    "gaussian-dropout": credo.GaussianDropout(alpha=ALPHA),
    "concrete-dropout": credo.ConcreteDropout(initial_rate=RATE),
}


class Identity:
    """A network whose only unit is its input: the output of a row is the multiplier it got."""

    def init(self, key, input_shape, num_outputs):
        return {"unused": jnp.zeros(1)}

    def apply(self, params, x, noise=credo.networks.no_noise):
        return noise("unit", x) + 0 * params["unused"]

    def fan_in(self, shape):
        return 1


def spread_of_a_batch(method, num_rows):
    """The variance, over keys, of a batch's mean squared multiplier, and its standard error."""
    target = credo.model.Target(credo.Model(Identity(), credo.likelihoods.Normal(1.0)), 10, (1,))
    batch = Batch(jnp.ones((num_rows, 1)), jnp.zeros((num_rows, 1)))
    params = target.model.init(KEY, (1,))
    state = method.init(KEY, target, params, batch)
    step = jax.jit(jax.vmap(lambda key: method.step(key, target, state, batch)[1]["nll"]))
    values = 2 * np.asarray(step(jax.random.split(jax.random.key(5), 4000)))
    squares = (values - values.mean()) ** 2
    return squares.mean(), squares.std() / np.sqrt(len(squares))


def rows_have_masks_of_their_own(method):
    """Then the mean over 25 rows has a 25th of the variance of one row."""
    (one, one_error), (many, many_error) = (spread_of_a_batch(method, n) for n in (1, 25))
    return bool(abs(25 * many - one) < 4 * np.hypot(25 * many_error, one_error))


def shared_noise(key, draw, channelwise):
    """Planted: one mask for the whole batch."""
    noise = row_noise(key, draw, channelwise)
    return lambda site, units: units * noise(site, jnp.ones_like(units[:1]))


row_noise = unit_noise.row_noise


@pytest.mark.parametrize("name", UNIT_NOISE)
def test_training_draws_masks_for_every_row(name, monkeypatch):
    assert rows_have_masks_of_their_own(UNIT_NOISE[name])
    monkeypatch.setattr(unit_noise, "row_noise", shared_noise)
    assert not rows_have_masks_of_their_own(UNIT_NOISE[name])


@pytest.mark.parametrize("channelwise", [False, True])
def test_training_drops_units_or_channels(channelwise):
    draw = {"conv1": lambda key, shape: bernoulli(key, 0.5, shape)}
    noise = unit_noise.row_noise(KEY, draw, channelwise)
    multipliers = np.asarray(noise("conv1", jnp.ones((200, 6, 6, 3))))
    whole = (multipliers == multipliers[:, :1, :1]).all(axis=(1, 2))
    assert whole.all() if channelwise else not whole.any()
    assert len(np.unique(multipliers[:, 0, 0], axis=0)) == 8  # rows and channels are independent


@pytest.mark.parametrize("name", UNIT_NOISE)
@pytest.mark.parametrize(
    ("where", "noisy"), [("all", {"conv1", "dense0", "dense1"}), ("dense", {"dense1"})]
)
def test_after_every_layer_or_only_after_inner_products(name, where, noisy):
    network = LeNet(channels=(2, 3), hidden=(5,), kernel=3)
    target = credo.model.Target(
        credo.Model(network, credo.likelihoods.Categorical(3)), 10, (14, 14, 1)
    )
    params = jax.tree.map(lambda leaf: np.zeros(leaf.shape), jax.eval_shape(
        lambda: target.model.init(KEY, (14, 14, 1))
    ))  # fmt: skip
    method = dataclasses.replace(UNIT_NOISE[name], where=where)
    learned = method.start(KEY, target, params)
    assert set(method.posterior_of(target, learned).rates) == noisy
