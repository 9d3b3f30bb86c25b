"""The exact posterior of linear models, against formulas written out with NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import credo
from credo.inference.exact import LinearPosterior
from credo.networks import MLP, Functions

pytestmark = pytest.mark.usefixtures("float64")

RNG = np.random.default_rng(4)
X = RNG.normal(size=(15, 2))
DESIGN = np.column_stack([np.ones(15), X])  # parameters in the order of the pytree: b, then w
NOISE, PRIOR = 0.7, 0.6
Y = DESIGN @ [0.4, 1.0, -0.5] + NOISE * RNG.normal(size=15)
COVARIANCE = np.linalg.inv(DESIGN.T @ DESIGN / NOISE**2 + np.eye(3) / PRIOR**2)
MEAN = COVARIANCE @ DESIGN.T @ Y / NOISE**2
EVIDENCE = stats.multivariate_normal(
    np.zeros(15), NOISE**2 * np.eye(15) + PRIOR**2 * DESIGN @ DESIGN.T
).logpdf(Y)
MODEL = credo.Model(MLP(hidden=()), credo.Normal(NOISE), credo.NormalPrior(PRIOR))


def test_posterior_and_evidence():
    posterior = credo.fit(MODEL, (X, Y), credo.Exact())
    layer = posterior.mean["network"]["dense0"]
    np.testing.assert_allclose([*layer["b"], *layer["w"][:, 0]], MEAN, rtol=1e-10)
    factor = np.asarray(posterior.factor)
    np.testing.assert_allclose(factor @ factor.T, COVARIANCE, rtol=1e-10)
    np.testing.assert_allclose(posterior.record.history["log_evidence"], EVIDENCE, rtol=1e-10)


def test_a_temperature_scales_the_covariance():
    cold = credo.fit(MODEL, (X, Y), credo.Exact(), temperature=0.25)
    factor = np.asarray(cold.factor)
    np.testing.assert_allclose(factor @ factor.T, COVARIANCE / 4, rtol=1e-10)


def test_predictions_come_from_the_posterior():
    posterior = credo.fit(MODEL, (X, Y), "exact")
    predicted = credo.predict(posterior, X[:4], num_draws=20_000, key=1)
    mean, variance = (
        DESIGN[:4] @ MEAN,
        np.einsum("ni,ij,nj->n", *[DESIGN[:4], COVARIANCE, DESIGN[:4]]),
    )
    error = np.sqrt(variance / 20_000)
    assert np.all(np.abs(predicted.mean - mean) < 4 * error)
    np.testing.assert_allclose(predicted.epistemic_variance, variance, rtol=4 * (2 / 20_000) ** 0.5)


def test_several_targets_and_basis_functions():
    """Two outputs that share no parameter are two regressions."""
    network = Functions(
        lambda key: jnp.ones((3, 2)),
        lambda params, x: jnp.column_stack([jnp.ones(len(x)), jnp.sin(x)]) @ params + 1.0,
    )
    model = credo.Model(network, credo.Normal(NOISE, 2), credo.NormalPrior(PRIOR))
    values = np.column_stack([Y, -2 * Y])
    posterior = credo.fit(model, (X, values), credo.Exact())
    design = np.column_stack([np.ones(15), np.sin(X)])
    precision = design.T @ design / NOISE**2 + np.eye(3) / PRIOR**2
    expected = np.linalg.solve(precision, design.T @ (values - 1.0) / NOISE**2)
    np.testing.assert_allclose(posterior.mean["network"], expected, rtol=1e-9)


def test_one_update_after_another_is_one_update():
    prior = LinearPosterior.prior(jnp.full(3, PRIOR))
    first = prior.update(DESIGN[:6], Y[:6], NOISE)
    both = first.update(DESIGN[6:], Y[6:], NOISE)
    np.testing.assert_allclose(both.mean, MEAN, rtol=1e-10)
    np.testing.assert_allclose(both.precision, np.linalg.inv(COVARIANCE), rtol=1e-10)
    evidence = prior.log_evidence(DESIGN[:6], Y[:6], NOISE)
    evidence += first.log_evidence(DESIGN[6:], Y[6:], NOISE)
    np.testing.assert_allclose(evidence, EVIDENCE, rtol=1e-10)
    mean, variance = both.predict(DESIGN[:2], NOISE)
    np.testing.assert_allclose(mean, DESIGN[:2] @ MEAN, rtol=1e-10)
    expected = NOISE**2 + np.einsum("ni,ij,nj->n", DESIGN[:2], COVARIANCE, DESIGN[:2])
    np.testing.assert_allclose(variance, expected, rtol=1e-10)
    # planted: the evidence after the update instead of before
    assert not np.isclose(both.log_evidence(DESIGN, Y, NOISE), EVIDENCE, rtol=0.01)


def test_mean_field_variational_inference_loses_the_correlations():
    """The ELBO gap to the evidence is ½ (Σ log Λ_ii − log |Λ|)."""
    precision = np.linalg.inv(COVARIANCE)
    gap = 0.5 * (np.log(np.diag(precision)).sum() - np.linalg.slogdet(precision)[1])
    centre, spread = MEAN, 1 / np.diag(precision)
    residual = Y - DESIGN @ centre
    expected_fit = -0.5 * (residual @ residual + (DESIGN**2 @ spread).sum()) / NOISE**2
    expected_fit -= 7.5 * np.log(2 * np.pi * NOISE**2)
    divergence = 0.5 * ((spread + centre**2) / PRIOR**2 - 1 - np.log(spread / PRIOR**2)).sum()
    np.testing.assert_allclose(EVIDENCE - (expected_fit - divergence), gap, rtol=1e-9)
