"""MAP on models whose mode is known: ridge regression and logistic regression."""

import jax
import numpy as np
import pytest
from scipy import special

import credo
from credo.model import Batch
from credo.networks import MLP

pytestmark = pytest.mark.usefixtures("float64")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
DESIGN = np.column_stack([X, np.ones(40)])  # the bias has the same prior as the weights
VALUES = X @ [1.0, -2.0, 0.5] + 0.7 + 0.3 * RNG.normal(size=40)
LABELS = (X @ [1.0, -1.0, 0.0] + RNG.logistic(size=40) > 0).astype(int)
NOISE, PRIOR = 0.6, 0.4


def mode(likelihood, y, method, **options):
    model = credo.Model(MLP(hidden=()), likelihood, credo.priors.NormalPrior(PRIOR))
    layer = credo.fit(model, (X, y), method, **options).draws["network"]["dense0"]
    return np.append(np.ravel(layer["w"]), np.ravel(layer["b"]))


def ridge(penalty):
    return np.linalg.solve(DESIGN.T @ DESIGN + penalty * np.eye(4), DESIGN.T @ VALUES)


def newton():
    """Iteratively reweighted least squares for the logistic mode."""
    weights = np.zeros(4)
    for _ in range(30):
        p = special.expit(DESIGN @ weights)
        gradient = DESIGN.T @ (p - LABELS) + weights / PRIOR**2
        hessian = DESIGN.T @ (DESIGN * (p * (1 - p))[:, None]) + np.eye(4) / PRIOR**2
        weights = weights - np.linalg.solve(hessian, gradient)
    return weights


FULL_BATCH = {"schedule": "constant", "batch_size": 40, "num_steps": 1500}


def test_linear_model_is_ridge_regression():
    actual = mode(
        credo.likelihoods.Normal(NOISE),
        VALUES,
        credo.MAP(learning_rate=0.2, optimizer="sgd", **FULL_BATCH),
    )
    np.testing.assert_allclose(actual, ridge(NOISE**2 / PRIOR**2), rtol=1e-8)
    for planted in (0.0, 40 * NOISE**2 / PRIOR**2, 2 * NOISE**2 / PRIOR**2):
        assert not np.allclose(actual, ridge(planted), rtol=1e-3)


def test_a_temperature_leaves_the_mode_where_it_is():
    method = credo.MAP(learning_rate=0.1, optimizer="sgd", **FULL_BATCH)
    cold = mode(credo.likelihoods.Normal(NOISE), VALUES, method, temperature=0.5)
    np.testing.assert_allclose(cold, ridge(NOISE**2 / PRIOR**2), rtol=1e-8)


def test_logistic_model_is_newtons_solution():
    method = credo.MAP(learning_rate=0.5, optimizer="momentum", **FULL_BATCH)
    np.testing.assert_allclose(
        mode(credo.likelihoods.Bernoulli(), LABELS, method), newton(), rtol=1e-8
    )


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("batch_size", [40, 8])
def test_gradient_is_that_of_the_log_joint(temperature, batch_size):
    """One step of plain SGD moves by −learning rate × ∇(−log joint / N), whatever the batch."""
    model = credo.Model(
        MLP(hidden=(5,)), credo.likelihoods.Bernoulli(), credo.priors.NormalPrior(PRIOR)
    )
    target = credo.model.Target(model, 40, (3,), temperature)
    params = model.init(jax.random.key(0), (3,))
    batch = Batch(X[:batch_size], LABELS[:batch_size])
    method = credo.MAP(learning_rate=0.1, optimizer="sgd", schedule="constant")
    state = method.init(jax.random.key(1), target, params, batch)
    step = jax.jit(lambda state: method.step(jax.random.key(2), target, state, batch))
    state, info = step(state)
    value, gradient = jax.jit(jax.value_and_grad(target.log_joint))(params, batch)
    np.testing.assert_allclose(info["loss"], -value / 40, rtol=1e-12)
    moved = jax.tree.map(lambda new, old: (new - old) / 0.1 * 40, state.learned, params)
    for actual, expected in zip(jax.tree.leaves(moved), jax.tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


def test_epochs_become_steps():
    assert credo.MAP(num_epochs=3, batch_size=10).plan(40).num_steps == 12
    assert credo.MAP(num_epochs=0.5, batch_size=10).plan(45).num_steps == 2
    assert credo.MAP(num_epochs=1, batch_size=100).plan(45).num_steps == 1
