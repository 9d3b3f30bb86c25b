"""Prior scales and noise tuned by the evidence of a Laplace approximation."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import optimize

import credo
from credo.networks import MLP
from tests.inference.normal.laplace_cases import (
    DESIGN,
    LINEAR,
    MODELS,
    NOISE,
    RNG,
    STRUCTURES,
    X,
    Y,
    covariance,
    exact_evidence,
    linear_params,
    network,
    noise_std,
    recorded,
    ridge,
)

pytestmark = pytest.mark.usefixtures("float64", "quick_compilation")


def test_a_prior_that_runs_away_is_reported():
    model, y = MODELS["categorical"]
    params = network(model)
    head = jax.tree.map(jnp.zeros_like, params["network"]["dense1"])
    nothing = {**params, "network": {**params["network"], "dense1": head}}
    with pytest.warns(credo.CredoWarning, match="prior_multiplier went to its limit"):
        credo.laplace((model, nothing), (X, y))


def test_the_tuned_prior_is_the_argmax_of_the_exact_evidence():
    """The weights are held while the scale is tuned: there both agree, elsewhere it moves there."""
    best = np.exp(optimize.minimize_scalar(lambda s: -exact_evidence(np.exp(s), NOISE), (-2, 2)).x)

    def multiplier(scale):
        model = dataclasses.replace(LINEAR, prior=credo.priors.NormalPrior(float(scale)))
        trained = model, linear_params(ridge(prior=scale)[1])
        return recorded(credo.laplace(trained, (X, Y), "full"), "prior_multiplier")

    np.testing.assert_allclose(multiplier(best), 1.0, atol=1e-5)
    assert multiplier(0.5 * best) > 1.2 and multiplier(2 * best) < 0.98


@pytest.mark.parametrize("kind", ["ggn", "fisher"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_tuning_finds_the_largest_evidence(structure, kind):
    """Over multiples of the prior scales and of a learned noise, by fits at other scales."""
    model, y = MODELS["learned"]
    params = network(model)
    chosen = {"layers": "all", "num_weights": 9, "curvature": kind}
    found = credo.laplace((model, params), (X, y), structure, **chosen)
    prior, noise = (recorded(found, f"{name}_multiplier") for name in ("prior", "noise"))
    log_scale = params["likelihood"]["log_scale"]
    np.testing.assert_allclose(found.mean["likelihood"]["log_scale"], log_scale + np.log(noise))

    def fit_at(prior, noise):
        other = dataclasses.replace(model, prior=credo.priors.NormalPrior(float(prior)))
        shifted = {**params, "likelihood": {"log_scale": log_scale + np.log(noise)}}
        return credo.laplace((other, shifted), (X, y), structure, **chosen, tune_prior=False)

    def evidence(prior, noise):
        return recorded(fit_at(prior, noise))

    if structure != "subnetwork":  # whose weights are chosen anew at another scale
        again = fit_at(prior, noise)
        np.testing.assert_allclose(recorded(found), recorded(again), rtol=1e-8)
        np.testing.assert_allclose(covariance(found), covariance(again), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(noise_std(found), noise_std(again), rtol=1e-8)
        for factor in (0.95, 1.05):
            assert evidence(prior, noise * factor) < recorded(found)
            assert structure == "kron" or evidence(prior * factor, noise) < recorded(found)


@pytest.mark.parametrize("kind", ["ggn", "fisher"])
def test_a_noise_far_off_is_tuned_to_the_same_spread(kind):
    """From σ = 1 to the true 0.1: tuned once as wide as found anew at the tuned noise."""
    model = credo.Model(MLP(hidden=()), credo.likelihoods.Normal(scale="learned"))
    weights = [0.4, 1.0, -0.5]
    y = DESIGN @ weights + 0.1 * RNG.normal(size=len(X))
    params = linear_params(weights, {"log_scale": jnp.zeros(1)})
    chosen = {"structure": "diagonal", "layers": "all", "curvature": kind}
    found = credo.laplace((model, params), (X, y), **chosen)
    tuned = {**params, "likelihood": found.mean["likelihood"]}
    other = credo.priors.NormalPrior(recorded(found, "prior_multiplier"))
    anew = credo.laplace(
        (dataclasses.replace(model, prior=other), tuned), (X, y), **chosen, tune_prior=False
    )
    assert recorded(found, "noise_multiplier") < 0.2
    np.testing.assert_allclose(ravel_pytree(found.std)[0], ravel_pytree(anew.std)[0], rtol=1e-8)


def test_a_learned_noise_has_its_own_uncertainty():
    model, y = MODELS["learned"]
    params = network(model)
    for kind, information in (("ggn", 2 * len(X)), ("fisher", None)):
        if information is None:
            scale = np.exp(params["likelihood"]["log_scale"])
            residual = (y - model.outputs(params, jnp.asarray(X))) / scale
            information = np.sum((residual**2 - 1) ** 2)
        std = credo.laplace(
            (model, params), (X, y), curvature=kind, tune_prior=False
        ).likelihood_std
        np.testing.assert_allclose(std, (1 + information) ** -0.5, rtol=1e-10)
