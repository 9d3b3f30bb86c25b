"""What samplers say of runs that went wrong, and that they are silent about good ones."""

import dataclasses
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.evaluation.diagnostics import rhat
from credo.inference.density import Density
from credo.inference.sampling.convergence import (
    chain_warnings,
    energy_warnings,
    function_space_rhat,
)
from credo.posterior import Draws, Record, Samples

BARE = Density(lambda x: -0.5 * jnp.sum(x**2))


def normal(x):
    return -0.5 * jnp.sum(x**2)


def warned(run):
    """The warnings of a run, as one text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", credo.CredoWarning)
        run()
    return "\n".join(str(w.message) for w in caught if w.category is credo.CredoWarning)


def drawn(num_draws=500, dimension=50):
    return np.random.default_rng(0).normal(size=(4, num_draws, dimension))


def test_one_coordinate_of_fifty_that_has_not_mixed_is_reported():
    draws = drawn()
    assert chain_warnings("hmc", BARE, Draws(draws), ()) == []
    draws[:, :, 17] += np.arange(4)[:, None]
    (message,) = chain_warnings("hmc", BARE, Draws(draws), ())
    assert "the chains disagree about 1 of 50 coordinates (R̂ = " in message


def test_draws_that_are_worth_too_few_are_reported():
    assert chain_warnings("hmc", BARE, Draws(drawn(100, 3)), ()) == []
    (message,) = chain_warnings("hmc", BARE, Draws(drawn(20, 1)), ())
    assert "should be at least 100" in message and "raise num_samples" in message


def test_energies_that_change_too_slowly_are_reported():
    method = credo.HMC(num_warmup=100)
    steps = np.random.default_rng(0).normal(size=(4, 600))
    walk = steps.cumsum(axis=1)
    steady = np.concatenate([walk[:, :100], steps[:, 100:]], axis=1)
    assert energy_warnings("hmc", method, {"energy": steady}) == []  # the warm-up does not count
    (message,) = energy_warnings("hmc", method, {"energy": walk})
    assert "E-BFMI = 0.0" in message and "mass='diagonal'" in message
    (message,) = energy_warnings("nuts", credo.NUTS(num_warmup=100), {"energy": walk})
    assert "mass" not in message


def test_heavy_tails_show_in_the_energy():
    def student(x):
        return -0.65 * jnp.sum(jnp.log1p(x**2))

    method = credo.HMC(num_leapfrog=20, num_samples=400, num_warmup=200, num_chains=2)
    assert "changes too slowly" in warned(lambda: credo.sample(student, jnp.zeros(20), method))
    assert warned(lambda: credo.sample(normal, jnp.zeros(20), method)) == ""


def test_a_trajectory_that_is_cut_is_reported():
    settings = {"num_warmup": 0, "num_samples": 30, "num_chains": 1, "step_size": 1e-3}
    cut, whole = (credo.HMC(trajectory=length, **settings) for length in (1.57, 0.9))
    assert "cut at 1000 leapfrog steps" in warned(lambda: credo.sample(normal, jnp.zeros(2), cut))
    assert "cut" not in warned(lambda: credo.sample(normal, jnp.zeros(2), whole))


def test_steps_that_are_far_too_large_or_small_are_reported():
    short = {"num_warmup": 0, "num_samples": 30, "num_leapfrog": 4, "num_chains": 1}
    large, small = (credo.HMC(step_size=size, **short) for size in (50.0, 1e-4))
    messages = warned(lambda: credo.sample(normal, jnp.ones(2), large))
    assert "chain 0 accepted 0.0% of its proposals; raise num_warmup (got 0)" in messages
    assert "30 of 30 trajectories diverged; raise target_acceptance (got 0.8)" in messages
    messages = warned(lambda: credo.sample(normal, jnp.ones(2), small))
    assert "chain 0 accepted 100.0% of its proposals" in messages and "diverged" not in messages
    assert "the halves of the chain disagree about 2 of 2 coordinates" in messages


def test_trajectories_that_are_cut_and_too_few_draws_are_reported():
    method = credo.NUTS(num_warmup=10, max_doublings=3)
    shape = (4, 110)
    energy = np.random.default_rng(0).normal(size=shape)
    info = {"acceptance": np.full(shape, 0.8), "divergent": np.zeros(shape, bool), "energy": energy}
    lengths = np.full(shape, 3)
    lengths[:, :10] = 7  # in the warm-up it may

    def ask(draws):
        return method.warnings(BARE, Draws(draws), (), info)

    info["num_leapfrog"] = lengths
    assert ask(drawn(100, 2)) == []
    assert ask(drawn(3, 2)) == [
        "nuts: too few draws to tell whether the chains agree; raise num_samples"
    ]
    info["num_leapfrog"] = np.full(shape, 7)
    (message,) = ask(drawn(100, 2))
    assert "100% of the trajectories were cut at 7 leapfrog steps; raise max_doublings" in message


def test_one_chain_of_four_in_another_mode_is_reported():
    def two_modes(x):
        return jnp.logaddexp(-0.5 * jnp.sum((x - 9) ** 2), -0.5 * jnp.sum((x + 9) ** 2))

    method = credo.HMC(num_samples=150, num_warmup=100)

    def run(elsewhere):
        centers = iter([9.0] * (4 - elsewhere) + [-9.0] * elsewhere)

        def start(key):
            return jnp.full(2, next(centers))

        return warned(lambda: credo.sample(two_modes, start, method))

    assert "the chains disagree about 2 of 2 coordinates" in run(1)
    assert run(0) == ""  # nobody can know of a mode that nobody has seen


MODEL = credo.Model(credo.networks.MLP(hidden=()), credo.likelihoods.Normal(1.0))


def lines(weights=None):
    """Draws of y = w x + b."""
    rng = np.random.default_rng(0)
    layer = {"w": rng.normal(size=(2, 50, 1, 1)), "b": rng.normal(size=(2, 50, 1))}
    draws = {"network": {"dense0": layer}, "likelihood": {}}
    return Samples(MODEL, draws, Record(input_shape=(1,)), weights)


def test_r_hat_of_the_outputs():
    x = np.linspace(-1, 1, 5)[:, None]
    posterior = lines()
    layer = posterior.draws["network"]["dense0"]
    outputs = layer["w"][..., 0] * x[:, 0] + layer["b"]
    expected = rhat(outputs.astype(np.float32))
    np.testing.assert_allclose(function_space_rhat(posterior, x)[:, 0], expected, rtol=1e-4)
    layer["b"][1] += 3.0
    assert function_space_rhat(posterior, x).min() > 1.2


def test_weights_do_not_move_draws_between_chains():
    x = np.linspace(-1, 1, 5)[:, None]
    uneven = np.ones((2, 50))
    uneven[0, :10] = 50.0  # resampled, most draws of both chains would be those of the first
    posterior = lines(uneven / uneven.sum())
    alike = dataclasses.replace(posterior, weights=None)
    np.testing.assert_array_equal(function_space_rhat(posterior, x), function_space_rhat(alike, x))
    np.testing.assert_array_equal(
        credo.diagnose(posterior, x).ess_bulk, credo.diagnose(alike, x).ess_bulk
    )


def test_arviz_gets_no_statistics_of_an_optimiser():
    pytest.importorskip("arviz")
    x = np.linspace(-1, 1, 10)[:, None]
    fitted = credo.fit(MODEL, (x, x[:, 0]), credo.MAP(num_steps=5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted.to_arviz().groups() == ["posterior"]
