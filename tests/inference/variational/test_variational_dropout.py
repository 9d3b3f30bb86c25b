"""Variational dropout: its KL against an exact series, its noise, and which weights it removes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import credo
from credo.inference.variational import weight_noise
from credo.inference.variational.variational_dropout import (
    kingma_negative_kl,
    molchanov_negative_kl,
)
from credo.model import Batch
from credo.networks import MLP
from credo.posterior.normal import sample_weights

pytestmark = pytest.mark.usefixtures("float64", "quick_compilation")

NUM = 40_000


def expected_log_square(alpha):
    """E log ε² for ε ~ N(1, α): ε²/α is χ² with 1 degree and noncentrality 1/α."""
    rate = 1 / (2 * alpha)
    # All Poisson terms that matter: 12 standard deviations around the mean.
    terms = np.arange(max(0, rate - 12 * np.sqrt(rate) - 50), rate + 12 * np.sqrt(rate) + 50) // 1
    weights = stats.poisson.pmf(terms, rate)
    return np.log(alpha) + np.sum(weights * (special.digamma(0.5 + terms) + np.log(2)))


def exact_negative_kl(alpha):
    """½ log α − E log |ε|, which is −KL up to a constant."""
    return 0.5 * np.log(alpha) - 0.5 * expected_log_square(alpha)


AT_INFINITY = -0.5 * (special.digamma(0.5) + np.log(2))  # so that −KL → 0 as α → ∞


@pytest.mark.parametrize("alpha", [0.02, 0.5, 1.0, 10.0, 300.0])
def test_the_series_is_the_expectation(alpha):
    draws = np.log((1 + np.sqrt(alpha) * np.random.default_rng(0).normal(size=NUM)) ** 2)
    error = draws.std() / np.sqrt(NUM)
    assert abs(draws.mean() - expected_log_square(alpha)) < 4 * error
    assert abs(draws.mean() - expected_log_square(4 * alpha)) > 4 * error  # the check can fail


def worst_error(formula, alphas, constant):
    exact = np.array([exact_negative_kl(alpha) for alpha in alphas]) - constant
    return np.abs(np.asarray(formula(jnp.log(alphas))) - exact).max()


def test_kingmas_polynomial_holds_up_to_one():
    assert 0.040 < worst_error(kingma_negative_kl, np.geomspace(1e-4, 1, 60), 0.0) < 0.041
    assert 440 < worst_error(kingma_negative_kl, np.array([10.0]), 0.0) < 455


def test_molchanovs_sigmoid_holds_everywhere():
    everywhere = np.geomspace(1e-3, 1e3, 80)
    assert 0.009 < worst_error(molchanov_negative_kl, everywhere, AT_INFINITY) < 0.0095

    # Planted: log(1 + α) where log(1 + 1/α) belongs.
    def wrong(log_alpha):
        return molchanov_negative_kl(log_alpha) - 0.5 * log_alpha

    assert worst_error(wrong, everywhere, AT_INFINITY) > 1
    assert abs(molchanov_negative_kl(jnp.asarray(30.0))) < 1e-6


X = np.random.default_rng(0).normal(size=(6, 4))
NETWORK = MLP(hidden=())
MODEL = credo.Model(NETWORK, credo.likelihoods.Normal(0.5), credo.priors.NormalPrior(0.8))
TARGET = credo.model.Target(MODEL, 300, (4,))
KEY = jax.random.key(0)


def start(**options):
    method = credo.VariationalDropout(**options)
    params = jax.tree.map(lambda leaf: leaf + 0.3, MODEL.init(KEY, (4,)))
    batch = Batch(jnp.asarray(X), jnp.asarray(np.sin(X[:, 0])))
    return method, method.init(KEY, TARGET, params, batch), batch


@pytest.mark.parametrize("per", ["layer", "weight"])
@pytest.mark.parametrize("draw", ["outputs", "weights"])
def test_outputs_have_the_moments_of_noisy_weights(per, draw):
    """Mean xθ + b, variance α Σ x² θ², whether outputs or weights are drawn."""
    method, state, _ = start(per=per, initial_log_alpha=np.log(0.5))
    posterior = method.posterior_of(TARGET, state.learned)
    mean, std = posterior.mean, posterior.std

    @jax.jit
    @jax.vmap
    def outputs(key):
        estimator = "local" if draw == "outputs" else "weights"
        params = weight_noise.noisy_params(key, TARGET, mean, std, estimator)
        return NETWORK.apply(params["network"], X)[:, 0]

    draws = np.asarray(outputs(jax.random.split(jax.random.key(1), NUM)))
    theta = np.asarray(mean["network"]["dense0"]["w"])[:, 0]
    center, variance = X @ theta + 0.3, 0.5 * (X**2 @ theta**2)
    assert np.all(np.abs(draws.mean(axis=0) - center) < 4 * np.sqrt(variance / NUM))
    apart = np.abs(draws.var(axis=0) - variance)
    assert np.all(apart < 4 * variance * np.sqrt(2 / NUM))
    planted = np.abs(draws.var(axis=0) - 0.5**2 * (X**2 @ theta**2))  # α for √α
    assert np.any(planted > 4 * variance * np.sqrt(2 / NUM))


@pytest.mark.parametrize("per", ["layer", "weight"])
def test_no_noise_is_the_network_itself_and_alpha_one_is_n11(per):
    method, state, _ = start(per=per, initial_log_alpha=-16.0 + 1e-9)
    posterior = method.posterior_of(TARGET, state.learned)
    draw = jax.vmap(lambda key: sample_weights(key, posterior.mean, posterior.std))
    keys = jax.random.split(KEY, NUM)
    quiet = draw(keys)["network"]["dense0"]
    spread = np.abs(quiet["w"] / posterior.mean["network"]["dense0"]["w"] - 1).max()
    assert spread < 6 * np.exp(-8)
    np.testing.assert_array_equal(quiet["b"], np.full((NUM, 1), 0.3))  # biases have no noise
    method, state, _ = start(per=per, initial_log_alpha=0.0)
    posterior = method.posterior_of(TARGET, state.learned)
    ratio = draw_ratio(posterior, keys)
    assert np.all(np.abs(ratio.mean(axis=0) - 1) < 4 / np.sqrt(NUM))
    assert np.all(np.abs(ratio.var(axis=0) - 1) < 4 * np.sqrt(2 / NUM))


def draw_ratio(posterior, keys):
    """Drawn weights over their means."""
    draws = jax.vmap(lambda key: sample_weights(key, posterior.mean, posterior.std))(keys)
    return np.asarray(draws["network"]["dense0"]["w"] / posterior.mean["network"]["dense0"]["w"])


@pytest.mark.parametrize(("per", "temperature"), [("layer", 1.0), ("weight", 0.5)])
def test_the_loss_is_minus_the_elbo_over_the_data(per, temperature):
    """κ KL / N + (nll + the biases' −log p / N) / T, κ warming up over its share of the steps."""
    options = {"per": per, "kl_weight": 0.7, "kl_warmup": 0.5, "num_steps": 8}
    method, state, batch = start(initial_log_alpha=-1.0, **options)
    target = credo.model.Target(MODEL, 300, (4,), temperature)
    step = jax.jit(lambda key, state: method.step(key, target, state, batch))
    formula = kingma_negative_kl if per == "layer" else molchanov_negative_kl
    for index in range(6):
        biases = state.learned.mean["network"]["dense0"]["b"]
        log_prior = stats.norm(0, 0.8).logpdf(biases).sum()
        kl = -np.sum(np.broadcast_to(formula(log_alpha(method, state)), (4, 1)))
        state, info = step(jax.random.key(index), state)
        np.testing.assert_allclose(info["kl"], kl, rtol=1e-9)
        data_term = (300 * float(info["nll"]) - log_prior) / temperature
        kappa = 0.7 * min(1.0, (index + 1) / 4)
        assert np.isclose(info["loss"], (kappa * kl + data_term) / 300, rtol=1e-9)
        # Planted: the KL divided by the batch, and no warm-up.
        assert not np.isclose(info["loss"], kappa * kl / len(X) + data_term / 300)
        assert index >= 3 or not np.isclose(info["loss"], (0.7 * kl + data_term) / 300)


def log_alpha(method, state):
    learned = state.learned
    return method._log_alpha(learned.mean["network"]["dense0"]["w"], *learned.log_noise.values())


# A quarter of a standard error is nothing: seven weights to remove, three to keep.
STANDARD_ERROR = 0.3 / np.sqrt(300)
WEIGHTS = np.array([1.5, -1.0, 0.7, *np.full(7, 0.25 * STANDARD_ERROR)])


def regression(weights=WEIGHTS):
    """Linear data whose noise is orthogonal to the inputs: no chance correlations."""
    rng = np.random.default_rng(1)
    x, noise = rng.normal(size=(300, 10)), 0.3 * rng.normal(size=300)
    noise -= x @ np.linalg.lstsq(x, noise, rcond=None)[0]
    return x, x @ weights + noise


def fit(data, **options):
    model = credo.Model(NETWORK, credo.likelihoods.Normal(0.3))
    options = {"learning_rate": 0.02, "num_steps": 2500, "batch_size": 100} | options
    return credo.fit(model, data, credo.VariationalDropout(**options))


def learned_log_alpha(posterior):
    mean, std = (
        np.asarray(tree["network"]["dense0"]["w"])[:, 0] for tree in (posterior.mean, posterior.std)
    )
    return 2 * np.log(std / np.abs(mean))


@pytest.mark.parametrize("initial", [-2.0, -10.0])
def test_irrelevant_weights_are_removed_and_the_others_stay(initial):
    """From -10 too: a bound on log α must not stop the KL from reaching such a weight."""
    posterior = fit(regression(), per="weight", initial_log_alpha=initial)
    np.testing.assert_array_equal(
        learned_log_alpha(posterior) > 3, np.abs(WEIGHTS) < STANDARD_ERROR
    )
    pruned = posterior.pruned()
    assert pruned.sparsity() == 0.7 and posterior.sparsity() == 0.0
    weights = np.asarray(pruned.mean["network"]["dense0"]["w"])[:, 0]
    assert np.all(np.abs(weights - WEIGHTS) < 4 * STANDARD_ERROR)
    assert np.all(np.asarray(pruned.std["network"]["dense0"]["w"])[3:] == 0)


def test_without_the_kl_nothing_is_removed():
    posterior = fit(regression(), per="weight", kl_weight=0.0)
    assert not np.any(learned_log_alpha(posterior) > 3)


def test_a_layer_that_reached_its_bound_comes_back():
    """Its noise starts at α = 1, the bound, and the data have no use for it."""
    posterior = fit(regression(), per="layer", initial_log_alpha=0.0, learning_rate=0.05)
    assert np.all(learned_log_alpha(posterior) < -4)


def test_alpha_of_a_layer_stays_in_the_polynomials_range():
    """With nothing to learn the KL pushes α to its bound, and not beyond."""
    posterior = fit(regression(0 * WEIGHTS), per="layer", initial_log_alpha=-1.0)
    log_alphas = learned_log_alpha(posterior)
    assert np.all(log_alphas > -0.2) and np.all(log_alphas < 1e-9)


def test_a_start_beyond_the_bound_is_refused():
    with pytest.raises(credo.CredoError, match="initial_log_alpha"):
        credo.VariationalDropout(per="layer", initial_log_alpha=0.5)
    credo.VariationalDropout(per="weight", initial_log_alpha=0.5)


def test_a_network_without_matrices_is_refused():
    """It would get a posterior without noise, and a sparsity of nothing."""
    network = credo.networks.Functions(
        lambda key: jnp.ones(2), lambda params, x: jnp.sum(x * params, axis=1, keepdims=True)
    )
    model = credo.Model(network, credo.likelihoods.Normal(1.0))
    data = np.ones((5, 2)), np.ones(5)
    with pytest.raises(credo.CredoError, match=r"\(2,\).*bayes-by-backprop"):
        credo.fit(model, data, credo.VariationalDropout(num_steps=2))
    posterior = credo.fit(model, data, credo.BayesByBackprop(num_steps=2))
    with pytest.raises(credo.CredoError, match="give its weights as matrices"):
        posterior.sparsity()
