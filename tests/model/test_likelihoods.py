"""Log densities against scipy.stats; targets that do not fit are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import credo

pytestmark = pytest.mark.usefixtures("float64")

RNG = np.random.default_rng(0)
OUTPUTS = RNG.normal(size=(6, 2))
LOGITS = 3 * RNG.normal(size=(6, 4))
LABELS = np.array([0, 3, 1, 2, 2, 0])
VALUES = RNG.normal(size=(6, 2))


def test_categorical():
    expected = stats.multinomial.logpmf(np.eye(4)[LABELS], 1, special.softmax(LOGITS, axis=1))
    actual = credo.Categorical(4).log_prob({}, LOGITS, LABELS)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_categorical_survives_huge_logits():
    logits = np.array([[1e4, 0.0], [-1e4, 0.0]])
    actual = credo.Categorical(2).log_prob({}, logits, np.array([1, 1]))
    np.testing.assert_allclose(actual, [-1e4, 0.0])


def test_bernoulli_is_categorical_with_one_logit_fixed():
    logits, y = LOGITS[:, :1], LABELS % 2
    actual = credo.Bernoulli().log_prob({}, logits, y)
    np.testing.assert_allclose(
        actual, stats.bernoulli.logpmf(y, special.expit(logits[:, 0])), rtol=1e-12
    )
    pair = np.concatenate([np.zeros_like(logits), logits], axis=1)
    np.testing.assert_allclose(actual, credo.Categorical(2).log_prob({}, pair, y), rtol=1e-12)


def test_known_noise():
    expected = stats.norm.logpdf(VALUES, OUTPUTS, 0.7).sum(axis=1)
    actual = credo.Normal(0.7, num_outputs=2).log_prob({}, OUTPUTS, VALUES)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_learnt_noise():
    params = {"log_scale": np.array([-0.3, 0.8])}
    expected = stats.norm.logpdf(VALUES, OUTPUTS, np.exp(params["log_scale"])).sum(axis=1)
    actual = credo.NormalLearntScale(2).log_prob(params, OUTPUTS, VALUES)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_input_dependent_noise():
    scale = np.logaddexp(0, LOGITS[:, 2:]) + 1e-3
    expected = stats.norm.logpdf(VALUES, LOGITS[:, :2], scale).sum(axis=1)
    actual = credo.NormalInputScale(2).log_prob({}, LOGITS, VALUES)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_input_dependent_noise_cannot_vanish():
    outputs = np.array([[0.0, -1e3]])
    assert np.isfinite(credo.NormalInputScale().log_prob({}, outputs, np.zeros((1, 1)))).all()


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_the_weight_of_a_noisy_row(beta):
    """∂/∂mean is ∝ σ^{2β} (y − mean)/σ², with weights of mean 1; β = 1 is the squared error."""
    outputs, y = jnp.array([[0.3, 1.2], [0.1, -2.0]]), jnp.array([[1.1], [0.4]])
    likelihood = credo.NormalInputScale(beta=beta)
    slopes = jax.grad(lambda f: likelihood.training_terms({}, f, y).sum())(outputs)[:, 0]
    scale = likelihood.moments({}, outputs)[1][:, 0]
    weights = scale ** (2 * beta) / np.mean(scale ** (2 * beta))
    np.testing.assert_allclose(slopes, weights * np.array([0.8, 0.3]) / scale**2, rtol=1e-6)


def test_with_weights_the_density_stays_a_density():
    """Samplers, Laplace and evaluation see N(f₁, σ²), whatever β is."""
    plain, weighted = credo.NormalInputScale(2), credo.NormalInputScale(2, beta=0.5)
    densities = [each.log_prob({}, LOGITS, VALUES) for each in (plain, weighted)]
    np.testing.assert_array_equal(*densities)
    terms = plain.training_terms({}, LOGITS, VALUES)
    np.testing.assert_allclose(terms, densities[0], rtol=1e-12)


def test_beta_has_its_bounds():
    with pytest.raises(credo.CredoError, match=r"beta must lie between 0 and 1, got 2"):
        credo.NormalInputScale(beta=2.0)


def test_a_vector_and_a_column_of_targets_are_the_same():
    likelihood = credo.Normal()
    np.testing.assert_array_equal(likelihood.check(VALUES[:, 0]), likelihood.check(VALUES[:, :1]))


@pytest.mark.parametrize(
    ("likelihood", "y"),
    [
        (credo.Categorical(3), [0, 3]),
        (credo.Categorical(3), [-1, 2]),
        (credo.Categorical(3), [0.0, 1.0]),
        (credo.Categorical(3), [[0], [1]]),
        (credo.Categorical(3), ["a", "b"]),
        (credo.Bernoulli(), [0, 2]),
        (credo.Normal(), [0.0, np.nan]),
        (credo.Normal(), [0.0, np.inf]),
        (credo.Normal(), ["a", "b"]),
        (credo.Normal(), [[0.0, 1.0]]),
        (credo.NormalLearntScale(2), [0.0, 1.0]),
        (credo.NormalInputScale(), [[0.0, 1.0]]),
    ],
)
def test_unfit_targets_are_refused(likelihood, y):
    with pytest.raises(credo.CredoError):
        likelihood.check(np.array(y))


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan])
def test_a_noise_scale_is_positive(scale):
    with pytest.raises(credo.CredoError, match="positive"):
        credo.Normal(scale)
