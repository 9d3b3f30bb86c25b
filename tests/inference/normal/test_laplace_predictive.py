"""Predictions of Laplace approximations against grids, quadrature and draws."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import optimize, special, stats

import credo
from credo.networks import MLP, Functions
from tests.inference.normal.laplace_cases import (
    CLASSES,
    DESIGN,
    LABELS,
    LENET,
    LINEAR,
    MODELS,
    NOISE,
    RNG,
    STRUCTURES,
    X,
    Y,
    covariance,
    linear_params,
    moments,
    network,
    recorded,
    ridge,
)

pytestmark = pytest.mark.usefixtures("float64", "quick_compilation")


@pytest.fixture(scope="module")
def logistic(float64):
    """2-d logistic regression: the mode by Newton's steps, the truth on a grid."""
    model = credo.Model(
        Functions(lambda key: jnp.zeros(2), lambda w, x: (x @ w)[:, None]),
        credo.likelihoods.Bernoulli(),
        credo.priors.NormalPrior(1.5),
    )
    sign = 2 * LABELS - 1

    def log_joint(w):  # over leading axes of w
        prior = stats.norm(0, 1.5).logpdf(w).sum(-1)
        return special.log_expit(sign * (w @ X.T)).sum(-1) + prior

    mode = optimize.minimize(lambda w: -log_joint(w), np.zeros(2), tol=1e-12).x
    axes = [np.linspace(m - 6, m + 6, 400) for m in mode]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    log_weights = log_joint(grid)
    evidence = special.logsumexp(log_weights) + 2 * np.log(12 / 399)
    weights = special.softmax(log_weights)
    return model, mode, grid, weights, evidence


def test_logistic_regression_against_the_grid(logistic):
    """Laplace is as good as the posterior is normal: each figure within a few per cent of truth."""
    model, mode, grid, weights, evidence = logistic
    posterior = credo.laplace(
        (model, jnp.asarray(mode)), (X, LABELS), "full", layers="all", tune_prior=False
    )
    p = special.expit(X @ mode)
    hessian = X.T @ (X * (p * (1 - p))[:, None]) + np.eye(2) / 1.5**2
    np.testing.assert_allclose(covariance(posterior), np.linalg.inv(hessian), rtol=1e-8)
    center = weights @ grid
    truth = np.einsum("n,ni,nj->ij", weights, grid - center, grid - center)
    std, true_std = np.sqrt(np.diag(covariance(posterior))), np.sqrt(np.diag(truth))
    assert np.all(np.abs(mode - center) < 0.35 * true_std)
    np.testing.assert_allclose(std, true_std, rtol=0.15)
    assert abs(recorded(posterior) - evidence) < 0.1
    inputs = 1.5 * RNG.normal(size=(50, 2))
    predicted = weights @ special.expit(grid @ inputs.T)
    for predictive in (credo.probit_predict, credo.linearized_predict, credo.predict):
        probs = predictive(posterior, inputs).probs[:, 1]
        assert np.abs(probs - predicted).max() < 0.06
    # planted: a covariance that forgot the prior, or that saw every datum twice
    for wrong in (hessian - np.eye(2) / 1.5**2, 2 * hessian):
        off = np.sqrt(np.diag(np.linalg.inv(wrong)))
        assert not np.allclose(off, true_std, rtol=0.15)


def test_far_away_the_bayesian_stays_uncertain(logistic):
    """Along a ray the mode's probability goes to 0 or 1, that of the posterior to P(wᵀx > 0)."""
    model, mode, grid, weights, _ = logistic
    posterior = credo.laplace(
        (model, jnp.asarray(mode)), (X, LABELS), "full", layers="all", tune_prior=False
    )
    direction = np.array([[0.3, 1.0]])
    limit = stats.norm.cdf(
        (direction @ mode)[0] / np.sqrt((direction @ covariance(posterior) @ direction.T)[0, 0])
    )
    far = credo.probit_predict(posterior, 1e6 * direction).probs[0, 1]
    drawn = credo.predict(posterior, 1e6 * direction, num_draws=4000).probs[0, 1]
    truth = weights @ (grid @ direction[0] > 0)
    assert abs(drawn - limit) < 4 * np.sqrt(limit * (1 - limit) / 4000)
    assert abs(far - limit) < 0.02 and abs(limit - truth) < 0.06 and 0.02 < limit < 0.98


def test_probit_against_quadrature():
    """σ(m/√(1 + πv/8)) is within 0.02 of the integral; without π/8 it is not."""
    model = credo.Model(MLP(hidden=()), credo.likelihoods.Bernoulli())
    posterior = credo.laplace((model, network(model)), (X, LABELS), tune_prior=False)
    inputs = jnp.asarray(2 * RNG.normal(size=(40, 2)))
    mean, variance = (np.asarray(part).reshape(-1) for part in moments(posterior, inputs))
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    exact = special.expit(mean[:, None] + np.sqrt(variance)[:, None] * nodes) @ weights
    exact /= weights.sum()
    assert np.abs(credo.probit_predict(posterior, inputs).probs[:, 1] - exact).max() < 0.02
    assert (
        np.abs(credo.linearized_predict(posterior, inputs, 2000).probs[:, 1] - exact).max() < 0.02
    )
    assert np.abs(special.expit(mean / np.sqrt(1 + variance)) - exact).max() > 0.02


def test_probit_of_three_classes_against_monte_carlo():
    """Centred logits: 0.03 from the sampled predictive on average, and blind to a common shift."""
    model = credo.Model(MLP(hidden=()), credo.likelihoods.Categorical(3))
    params = network(model)
    posterior = credo.laplace((model, params), (X, CLASSES), "full", layers="all", tune_prior=False)
    inputs = jnp.asarray(2 * RNG.normal(size=(40, 2)))
    found = credo.probit_predict(posterior, inputs).probs
    truth = credo.linearized_predict(posterior, inputs, 20_000).probs
    assert np.abs(found - truth).mean() < 0.03
    mean, covariance = moments(posterior, inputs)
    planted = np.asarray(mean) / np.sqrt(1 + 100 * np.diagonal(covariance, axis1=1, axis2=2))
    assert np.abs(special.softmax(planted, axis=1) - truth).mean() > 0.1
    shift = {"b": params["network"]["dense0"]["b"] + 3.0, "w": params["network"]["dense0"]["w"]}
    moved = {**posterior.mean, "network": {"dense0": shift}}
    same = credo.probit_predict(dataclasses.replace(posterior, mean=moved), inputs).probs
    np.testing.assert_allclose(same, found, rtol=1e-9)


NETWORKS = [*((s, MLP((4,), "tanh")) for s in STRUCTURES), ("kron", LENET), ("diagonal", LENET)]


@pytest.mark.parametrize(("structure", "net"), NETWORKS)
def test_output_covariances_are_those_of_the_jacobian(structure, net):
    """Layer by layer, without the Jacobian, the same as with it."""
    shape = (2,) if isinstance(net, MLP) else (10, 10, 1)
    x = RNG.normal(size=(7, *shape))
    model = credo.Model(net, credo.likelihoods.Categorical(3))
    params = network(model, shape=shape)
    posterior = credo.laplace((model, params), (x, CLASSES[:7]), structure, layers="all")
    flat, unravel = ravel_pytree(params["network"])

    def outputs(w):
        return model.outputs({**params, "network": unravel(w)}, jnp.asarray(x))

    jacobian = np.asarray(jax.jit(jax.jacobian(outputs))(flat))
    expected = np.einsum("nki,ij,nlj->nkl", jacobian, covariance(posterior), jacobian)
    mean, found = moments(posterior, jnp.asarray(x))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(mean, outputs(flat), rtol=1e-10)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_draws_are_linearised_functions_with_the_right_spread(structure):
    model, y = MODELS["normal"]
    posterior = credo.laplace((model, network(model)), (X, y), structure, layers="all")
    drawn = credo.predict(posterior, X, num_draws=4000, key=3)
    closed = credo.linearized_predict(posterior, X)
    error = np.sqrt(closed.epistemic_variance / 4000)
    assert np.all(np.abs(drawn.mean - closed.mean) < 4.5 * error)
    np.testing.assert_allclose(
        drawn.epistemic_variance, closed.epistemic_variance, rtol=4.5 * (2 / 4000) ** 0.5
    )
    # planted: weights put into the network itself have another mean
    raw = credo.predict(dataclasses.replace(posterior, linearized=False), X, 4000, key=3)
    assert not np.all(np.abs(raw.mean - closed.mean) < 4.5 * error)


def test_the_linearised_predictive_of_a_linear_model_is_exact():
    precision, mean = ridge()
    posterior = credo.laplace((LINEAR, linear_params(mean)), (X, Y), tune_prior=False)
    predicted = credo.linearized_predict(posterior, X)
    spread = np.einsum("ni,ij,nj->n", DESIGN, np.linalg.inv(precision), DESIGN)
    np.testing.assert_allclose(predicted.mean, DESIGN @ mean, rtol=1e-9)
    np.testing.assert_allclose(predicted.epistemic_variance, spread, rtol=1e-9)
    np.testing.assert_allclose(predicted.aleatoric_variance, NOISE**2, rtol=1e-9)
