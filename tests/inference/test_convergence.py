"""What samplers say of runs that went wrong, and that they are silent about good ones."""

import warnings

import jax.numpy as jnp
import numpy as np

import credo
from credo.inference.convergence import (
    chain_warnings,
    energy_warnings,
)
from credo.inference.sampling import Density
from credo.posterior import Samples

RNG = np.random.default_rng(0)
BARE = Density(lambda x: -0.5 * jnp.sum(x**2))


def normal(x):
    return -0.5 * jnp.sum(x**2)


def told(run):
    """The warnings of a run, as one text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", credo.CredoWarning)
        run()
    return "\n".join(str(w.message) for w in caught if w.category is credo.CredoWarning)


def drawn(num_draws=500, dimension=50):
    return RNG.normal(size=(4, num_draws, dimension))


def test_one_coordinate_of_fifty_that_has_not_mixed_is_told():
    draws = drawn()
    assert chain_warnings("hmc", BARE, Samples(None, draws), ()) == []
    draws[:, :, 17] += np.arange(4)[:, None]
    (message,) = chain_warnings("hmc", BARE, Samples(None, draws), ())
    assert "the chains disagree about 1 of 50 coordinates (R̂ = " in message


def test_draws_that_are_worth_too_few_are_told():
    assert chain_warnings("hmc", BARE, Samples(None, drawn(100, 3)), ()) == []
    (message,) = chain_warnings("hmc", BARE, Samples(None, drawn(20, 1)), ())
    assert "should be at least 100" in message and "raise num_samples" in message


def test_energies_that_change_too_slowly_are_told():
    method = credo.HMC(num_warmup=100)
    walk = RNG.normal(size=(4, 600)).cumsum(axis=1)
    steady = np.concatenate([walk[:, :100], RNG.normal(size=(4, 500))], axis=1)
    assert energy_warnings("hmc", method, {"energy": steady}) == []  # the warm-up does not count
    (message,) = energy_warnings("hmc", method, {"energy": walk})
    assert "E-BFMI = 0.0" in message and "mass='diagonal'" in message
    (message,) = energy_warnings("nuts", credo.NUTS(num_warmup=100), {"energy": walk})
    assert "mass" not in message


def test_heavy_tails_show_in_the_energy():
    cauchy = lambda x: -jnp.sum(jnp.log1p(x**2))  # noqa: E731
    method = credo.NUTS(num_samples=400, num_warmup=200, num_chains=2)
    assert "changes too slowly" in told(lambda: credo.sample(cauchy, jnp.zeros(20), method))
    assert told(lambda: credo.sample(normal, jnp.zeros(20), method)) == ""
