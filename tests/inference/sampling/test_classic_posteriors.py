"""`credo.sample` as it comes, on ten posteriors whose moments are known."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.evaluation.diagnostics import mcse_mean
from credo.inference.sampling import adaptation
from tests.inference.sampling.classic_posteriors import POSTERIORS, Moments

pytestmark = pytest.mark.usefixtures("float64")

HARD = {"schools_together", "funnel"}  # no fixed scales fit a funnel: to be warned of
MEAN_ERRORS = 4.0
VARIANCE_ERRORS = 6.0  # errors of squares are themselves known to a third only, from 400 draws


@pytest.fixture(scope="module")
def known():
    """Each posterior and its moments, for both samplers."""
    made = {name: make() for name, make in POSTERIORS.items()}
    return {name: (posterior, posterior.moments()) for name, posterior in made.items()}


def sampled(posterior, method):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", credo.CredoWarning)
        drawn = credo.sample(posterior.log_density, posterior.start, method)
    return drawn, [str(warning.message) for warning in caught]


def off(draws, moments: Moments):
    """By how many standard errors the farthest mean, and the farthest variance, are off."""
    squares = (draws - moments.mean) ** 2
    mean = (draws.mean(axis=(0, 1)) - moments.mean) / np.hypot(mcse_mean(draws), moments.mean_error)
    variance = (squares.mean(axis=(0, 1)) - moments.variance) / np.hypot(
        mcse_mean(squares), moments.variance_error
    )
    return np.abs(mean).max(), np.abs(variance).max()


@pytest.mark.parametrize("method", ["hmc", "nuts"])
@pytest.mark.parametrize("name", POSTERIORS)
def test_defaults_are_right_or_say_so(known, name, method):
    posterior, moments = known[name]
    drawn, messages = sampled(posterior, method)
    if name in HARD:
        assert any(word in " ".join(messages) for word in ("disagree", "too slowly", "diverged"))
        return
    assert messages == []
    mean, variance = off(np.asarray(drawn.draws), moments)
    assert mean < MEAN_ERRORS and variance < VARIANCE_ERRORS
    assert credo.diagnose(drawn).ess_bulk.min() >= 100


def test_a_density_that_is_a_little_wrong_is_caught(known):
    """Planted: the data count for an eighth too much."""
    posterior, moments = known["logistic"]
    wrong = posterior._replace(log_density=lambda w: 1.125 * posterior.log_density(w))
    method = credo.NUTS(num_samples=1000)
    assert off(np.asarray(sampled(posterior, method)[0].draws), moments)[1] < VARIANCE_ERRORS
    assert max(off(np.asarray(sampled(wrong, method)[0].draws), moments)) > VARIANCE_ERRORS


def test_unit_scales_are_not_enough(known):
    """What the defaults were before: correlated weights, missed or warned of."""
    posterior, _ = known["child_scores"]
    before = credo.HMC(mass="unit", num_leapfrog=100)
    assert sampled(posterior, before)[1] != []


def test_scales_follow_the_dimension():
    for method in (credo.HMC(), credo.NUTS()):
        assert method.for_density(100).mass == "dense"
        assert method.for_density(101).mass == "diagonal"
        assert type(method)(mass="unit").for_density(2).mass == "unit"
        assert type(method)(num_warmup=5).for_density(2).mass == "unit"  # too short to learn any
    assert credo.HMC().for_density(3).trajectory == 2.0
    assert credo.HMC(num_leapfrog=7).for_density(3).trajectory is None
    assert credo.HMC().for_density(200).trajectory is None


def states_with(step_sizes, scatters):
    """Four chains of two coordinates in the midst of their warm-up."""
    one = adaptation.start({"position": jnp.zeros(2)}, 0.1, "dense")
    warmup = jax.tree.map(lambda leaf: jnp.stack([leaf] * 4), one)
    size = warmup.step_size._replace(log_average=jnp.log(jnp.asarray(step_sizes)))
    moments = adaptation.Moments(jnp.full(4, 51), jnp.zeros((4, 2)), jnp.asarray(scatters))
    warmup = warmup._replace(step_size=size, moments=moments, num_steps=jnp.full(4, 30))
    return credo.inference.sampling.hmc.HMCState(None, None, None, warmup)


def test_one_stuck_chain_drags_neither_step_size_nor_scales():
    moving = 50 * np.array([[4.0, 1.0], [1.0, 2.0]])
    scatters = np.stack([moving, moving, moving, 1e-12 * moving])
    found = adaptation.synchronize(states_with([0.5, 0.6, 0.5, 1e-6], scatters), 100).warmup
    np.testing.assert_allclose(np.exp(found.step_size.log_average), 0.5, rtol=1e-6)
    covariance = found.scales[0] @ found.scales[0].T
    np.testing.assert_allclose(covariance, moving / 50, rtol=1e-2)
    # At the end of the warm-up too.
    last = states_with([0.5, 0.6, 0.5, 1e-6], scatters)
    last = last._replace(warmup=last.warmup._replace(num_steps=jnp.full(4, 100)))
    shared = adaptation.synchronize(last, 100).warmup.step_size
    np.testing.assert_allclose(np.exp(shared.log_average), 0.5, rtol=1e-6)
    # The negative control: their geometric mean.
    assert np.exp(np.mean(np.log([0.5, 0.6, 0.5, 1e-6]))) < 0.02


def test_narrow_directions_survive_the_shrinking():
    """Correlation .9999: the scales keep the narrow direction narrow."""
    covariance = np.array([[1.0, 0.9999], [0.9999, 1.0]])
    scatters = np.stack([50 * covariance] * 4)
    found = adaptation.synchronize(states_with([0.5] * 4, scatters), 100).warmup.scales[0]
    whitened = np.linalg.solve(np.asarray(found), covariance) @ np.linalg.inv(np.asarray(found)).T
    assert np.linalg.eigvalsh(whitened).min() > 0.5
