"""The concrete relaxation of a Bernoulli mask: its law at any temperature, and its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from credo.networks.noise import concrete

pytestmark = pytest.mark.usefixtures("float64")

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
