"""HMC on Bayesian linear regression, whose posterior is known; broken samplers fail the checks."""

import dataclasses

import jax
import numpy as np
import pytest

import credo
from credo.evaluation.diagnostics import mcse_mean, rhat
from credo.inference.sampling import hmc
from credo.networks import MLP
from credo.posterior import replace_record

pytestmark = [
    pytest.mark.usefixtures("float64"),
    pytest.mark.filterwarnings("ignore::credo.CredoWarning"),  # broken samplers complain
]

RNG = np.random.default_rng(1)
X = RNG.normal((0.5, 0.0), size=(12, 2))
DESIGN = np.column_stack([X, np.ones(12)])  # the bias has the same prior as the weights
NOISE, PRIOR = 0.8, 0.5
Y = DESIGN @ [0.7, -0.4, 0.3] + NOISE * RNG.normal(size=12)

PRECISION = DESIGN.T @ DESIGN / NOISE**2 + np.eye(3) / PRIOR**2
COVARIANCE = np.linalg.inv(PRECISION)
MEAN = COVARIANCE @ DESIGN.T @ Y / NOISE**2

METHOD = credo.HMC(num_samples=1500, num_warmup=300, num_chains=4, num_leapfrog=6, step_size=0.1)
# Fixed and large (ωε = 1.4 in the stiffest direction, of 2 that are stable): energy errors of 0.7.
FIXED = credo.HMC(num_samples=1600, num_warmup=0, num_chains=4, num_leapfrog=3, step_size=0.2476)
SETTLED = 100  # draws after which a fixed run has forgotten its start


def sample(method=METHOD, prior=PRIOR, temperature=1.0):
    likelihood = credo.likelihoods.Normal(NOISE)
    model = credo.Model(MLP(hidden=()), likelihood, credo.priors.NormalPrior(prior))
    return credo.fit(model, (X, Y), method, key=5, temperature=temperature)


@pytest.fixture(scope="module")
def posterior(float64):
    return sample()


def weights(posterior):
    """Draws of (w₁, w₂, b), (chain, draw, 3)."""
    layer = posterior.draws["network"]["dense0"]
    draws = np.concatenate([np.asarray(layer["w"])[..., 0], np.asarray(layer["b"])], axis=-1)
    return draws[:, SETTLED:]


def within_four_errors(draws, expected):
    return bool(np.all(np.abs(draws.mean(axis=(0, 1)) - expected) < 4 * mcse_mean(draws)))


def moments_agree(posterior, covariance=COVARIANCE):
    draws = weights(posterior)
    products = (draws - MEAN)[..., :, None] * (draws - MEAN)[..., None, :]
    return within_four_errors(draws, MEAN) and within_four_errors(products, covariance)


def energy_identity_holds(posterior):
    """E[exp(−ΔH)] = 1 for trajectories that start in equilibrium and preserve volume."""
    errors = posterior.record.history["energy_error"][:, SETTLED:]
    return within_four_errors(np.exp(-errors), 1.0)


def test_the_exact_posterior(posterior):
    assert moments_agree(posterior)
    assert rhat(weights(posterior)).max() < 1.01


def test_energy_identity():
    posterior = sample(FIXED)
    assert energy_identity_holds(posterior)
    assert moments_agree(posterior)
    errors = posterior.record.history["energy_error"]
    assert errors[:, SETTLED:].std() > 0.5  # the identity does not hold for want of errors
    planted = {"energy_error": -errors}  # the sign of the energy
    assert not energy_identity_holds(replace_record(posterior, history=planted))


def test_predictive_moments(posterior):
    predicted = credo.predict(posterior, X, num_draws=6000)
    means = predicted.means[..., 0].reshape(4, 1500, 12)[:, SETTLED:]
    assert within_four_errors(means, DESIGN @ MEAN)
    spread = (means - DESIGN @ MEAN) ** 2
    assert within_four_errors(spread, np.einsum("ni,ij,nj->n", DESIGN, COVARIANCE, DESIGN))
    np.testing.assert_allclose(predicted.aleatoric_variance, NOISE**2, rtol=1e-12)


def test_warm_up_reaches_its_target_and_then_stops_adapting(posterior):
    history = posterior.record.history
    acceptance = history["acceptance"][:, METHOD.num_warmup :].mean(axis=1)
    # Averaging log ε over the warm-up errs to the safe side on so small a problem.
    assert np.all((acceptance > METHOD.target_acceptance - 0.05) & (acceptance < 0.95))
    ratio = history["step_size"][:, METHOD.num_warmup :]
    low, high = ratio.min(axis=1), ratio.max(axis=1)
    # ε · U(1 − jitter, 1 + jitter) with one ε per chain
    np.testing.assert_allclose(high / low, 1.2 / 0.8, rtol=0.01)


def test_a_cold_posterior_is_narrower():
    cold = sample(dataclasses.replace(FIXED, step_size=0.17), temperature=0.5)
    assert moments_agree(cold, COVARIANCE / 2)
    assert not moments_agree(cold, COVARIANCE)


def planted(monkeypatch, name, replacement):
    """Sample with a broken part of HMC: a class of its own, so that nothing compiled is reused."""
    broken = dataclasses.dataclass(frozen=True)(type("Broken", (credo.HMC,), {}))
    monkeypatch.setattr(hmc, name, replacement)
    return sample(broken(**dataclasses.asdict(FIXED)))


def test_a_wrong_acceptance_sign_is_caught(monkeypatch):
    energy = hmc.hamiltonian
    wrong = planted(monkeypatch, "hamiltonian", lambda phase: -energy(phase))
    assert not moments_agree(wrong)


def test_accepting_everything_is_caught(monkeypatch):
    choose = hmc.where

    def always_move(condition, new, old):
        return new if isinstance(new, hmc.Phase) else choose(condition, new, old)

    assert not moments_agree(planted(monkeypatch, "where", always_move))


def test_momenta_of_the_wrong_size_are_caught(monkeypatch):
    draw = hmc.normal_like

    def smaller(key, params):
        return jax.tree.map(lambda leaf: 0.8 * leaf, draw(key, params))

    assert not moments_agree(planted(monkeypatch, "normal_like", smaller))


def test_an_integrator_that_changes_volume_is_caught(monkeypatch):
    exact = hmc.leapfrog

    def stretched(*arguments):
        phase = exact(*arguments)
        return phase._replace(momentum=jax.tree.map(lambda leaf: 1.2 * leaf, phase.momentum))

    wrong = planted(monkeypatch, "leapfrog", stretched)
    assert not energy_identity_holds(wrong)
    assert not moments_agree(wrong)


def test_a_missing_prior_is_caught():
    assert not moments_agree(sample(FIXED, prior=1e3))
