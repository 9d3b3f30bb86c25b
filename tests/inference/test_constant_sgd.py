"""Constant SGD on a quadratic, where its stationary law and its optimal rate are known."""

import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.evaluation.diagnostics import mcse_mean

pytestmark = [
    pytest.mark.usefixtures("float64"),
    pytest.mark.filterwarnings("ignore::credo.CredoWarning"),
]

NUM_DATA, BATCH = 400, 8
HESSIAN = np.array([[1.0, 0.3], [0.3, 0.6]])
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(NUM_DATA, 2)) @ np.array([[1.2, 0.5], [0.0, 0.9]])
ROWS -= ROWS.mean(axis=0)
NOISE = ROWS.T @ ROWS / NUM_DATA  # C: the covariance of single gradients, the same everywhere


def log_density(w, batch):
    """N (−½ wᵀAw + wᵀ z̄): the gradient of datum j on the mean loss is A w − z_j."""
    return NUM_DATA * (-0.5 * w @ HESSIAN @ w + w @ jnp.mean(batch, axis=0))


def run(**settings):
    method = credo.ConstantSGD(
        batch_size=BATCH, learning_rate=0.05, max_rate=5.0, damping=0.0, num_warmup=20_000,
        num_samples=3000, thin=20, num_chains=4, **settings,
    )  # fmt: skip
    return credo.sample(log_density, jnp.zeros(2), method, key=2, data=ROWS)


def covariance_of_sgd(rates):
    """Σ = (I − HA) Σ (I − HA)ᵀ + H C Hᵀ / S, the exact law of the discrete chain."""
    step = np.eye(2) - rates @ HESSIAN
    heat = rates @ NOISE @ rates.T / BATCH
    return np.linalg.solve(np.eye(4) - np.kron(step, step), heat.ravel()).reshape(2, 2)


def has_covariance(drawn, expected):
    draws = np.asarray(drawn.draws)
    products = draws[..., :, None] * draws[..., None, :]
    # The rates come from an estimate of C, good to about 1 %.
    allowed = 4 * mcse_mean(products) + 0.03 * np.abs(expected).max()
    return bool(np.all(np.abs(products.mean(axis=(0, 1)) - expected) < allowed))


OPTIMAL = {
    "none": 2 * BATCH * 2 / (NUM_DATA * np.trace(NOISE)) * np.eye(2),
    "diagonal": 2 * BATCH / NUM_DATA * np.diag(1 / np.diag(NOISE)),
    "full": 2 * BATCH / NUM_DATA * np.linalg.inv(NOISE),
}


@pytest.mark.parametrize("preconditioner", OPTIMAL)
def test_the_optimal_rate_and_its_stationary_law(preconditioner):
    drawn = run(preconditioner=preconditioner)
    rates = OPTIMAL[preconditioner]
    largest = np.linalg.eigvalsh(rates).max()
    found = drawn.record.history["step_size"][:, 20_000:]
    np.testing.assert_allclose(found, largest, rtol=0.05)
    assert has_covariance(drawn, covariance_of_sgd(rates))
    assert not has_covariance(drawn, covariance_of_sgd(0.7 * rates))


def test_the_full_preconditioner_samples_the_posterior():
    """Σ → (N A)⁻¹ as H A → 0; the preconditioner of the slides, (S/N) C, does not come near."""
    posterior = np.linalg.inv(NUM_DATA * HESSIAN)
    drawn = run(preconditioner="full")
    assert has_covariance(drawn, posterior)
    planted = covariance_of_sgd(BATCH / NUM_DATA * NOISE)
    assert not np.allclose(planted, posterior, rtol=0.3)
    assert not has_covariance(drawn, planted)


def test_momentum_keeps_the_stationary_law():
    """ε* = 2 (1 − m) S D / (N tr C): to first order the same covariance."""
    drawn = run(momentum=0.8)
    found = drawn.record.history["step_size"][:, 20_000:]
    np.testing.assert_allclose(found, 0.2 * OPTIMAL["none"][0, 0], rtol=0.05)
    assert has_covariance(drawn, covariance_of_sgd(1e-3 * OPTIMAL["none"]) * 1e3)


def test_a_rate_that_is_cut_is_told():
    method = credo.ConstantSGD(max_rate=1e-4, num_warmup=50, num_samples=5, thin=1, batch_size=8)
    with pytest.warns(credo.CredoWarning, match="above max_rate"):
        credo.sample(log_density, jnp.zeros(2), method, data=ROWS)


def test_without_two_rows_there_is_no_noise_to_sample_with():
    with pytest.raises(credo.CredoError, match="at least 2 rows, got 1; with"):
        credo.sample(lambda w: -jnp.sum(w**2), jnp.zeros(2), credo.ConstantSGD())
    with pytest.raises(credo.CredoError, match="at least 2 rows, got 1"):
        credo.sample(log_density, jnp.zeros(2), credo.ConstantSGD(), data=ROWS[:1])
