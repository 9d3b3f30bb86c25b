"""Bayes by backprop: its KL, its gradients, and the known optimum of a linear model."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import credo
from credo.inference.variational.bayes_by_backprop import MeanField, normal_kl
from credo.model import Batch
from credo.networks import MLP

pytestmark = pytest.mark.usefixtures("float64", "quick_compilation")

NUM = 40_000
KEYS = jax.random.key(11)
RNG = np.random.default_rng(0)


def agree(values, mean):
    error = np.std(values, axis=0) / np.sqrt(len(values))
    return bool(np.all(np.abs(np.mean(values, axis=0) - mean) < 4 * error))


def test_kl_to_a_normal_prior():
    mean, std, prior = RNG.normal(size=5), RNG.uniform(0.1, 2, size=5), 0.7
    weights = mean + std * RNG.normal(size=(NUM, 5))
    log_ratio = stats.norm(mean, std).logpdf(weights) - stats.norm(0, prior).logpdf(weights)
    kl = float(normal_kl({"w": jnp.asarray(mean)}, {"w": jnp.log(std)}, {"w": prior}))
    assert agree(log_ratio.sum(axis=1), kl)
    assert not agree(log_ratio.sum(axis=1), kl + 0.5 * 5)  # planted: without the −½ of each weight
    same = normal_kl({"w": jnp.zeros(5)}, {"w": jnp.full(5, np.log(prior))}, {"w": prior})
    assert abs(float(same)) < 1e-12


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_kl_to_a_scale_mixture(temperature):
    """E_q [log q − log p / T] in one dimension, by quadrature."""
    method = credo.BayesByBackprop(
        prior="mixture", mixture_weight=0.25, mixture_wide=1.0, mixture_narrow=0.1
    )
    q = stats.norm(0.3, 0.2)

    def log_prior(w):
        wide, narrow = (stats.norm(0, scale).logpdf(w) for scale in (1.0, 0.1))
        return np.logaddexp(np.log(0.25) + wide, np.log(0.75) + narrow)

    def integrand(w):
        return q.pdf(w) * (q.logpdf(w) - log_prior(w) / temperature)

    def swapped(w):
        return q.pdf(w) * (log_prior(w) - q.logpdf(w))

    def parts(value):
        return {"network": {"w": jnp.full((1, 1), value)}, "likelihood": {}}

    exact = integrate.quad(integrand, 0.3 - 2.4, 0.3 + 2.4, points=[0, 0.3], limit=200)[0]
    target = credo.model.Target(
        credo.Model(MLP(hidden=()), credo.likelihoods.Normal()), 9, (1,), temperature
    )
    estimate = jax.jit(
        jax.vmap(lambda key: method._kl(key, target, parts(0.3), parts(np.log(0.2))))
    )
    draws = np.asarray(estimate(jax.random.split(KEYS, NUM)))
    assert agree(draws, exact)
    assert not agree(draws, integrate.quad(swapped, 0.3 - 2.4, 0.3 + 2.4)[0])


# Bayesian linear regression: three correlated inputs and a bias.
NUM_DATA, PRIOR, NOISE = 40, 0.7, 0.3
X = RNG.normal(size=(NUM_DATA, 3)) @ np.array([[1, 0.6, 0], [0, 1, 0.3], [0, 0, 1]])
Y = X @ np.array([1.0, -0.5, 0.2]) + 0.3 + NOISE * RNG.normal(size=NUM_DATA)
DESIGN = np.column_stack([X, np.ones(NUM_DATA)])
MODEL = credo.Model(
    MLP(hidden=()), credo.likelihoods.Normal(NOISE), credo.priors.NormalPrior(PRIOR)
)


def tree(vector):
    layer = {"w": jnp.asarray(vector[:3, None]), "b": jnp.asarray(vector[3:])}
    return {"network": {"dense0": layer}, "likelihood": {}}


def vector(params):
    layer = params["network"]["dense0"]
    return np.concatenate([layer["w"][..., 0], layer["b"]], axis=-1)


@functools.cache
def exact_posterior(temperature=1.0):
    """Mean and precision of the exact posterior at a temperature."""
    precision = DESIGN.T @ DESIGN / NOISE**2 + np.eye(4) / PRIOR**2
    return np.linalg.solve(precision, DESIGN.T @ Y / NOISE**2), precision / temperature


def mean_field_optimum(temperature=1.0):
    """N(μ, diag(1/Λ_ii)): among all independent normals the one with the largest ELBO."""
    mean, precision = exact_posterior(temperature)
    return mean, np.diag(precision) ** -0.5


def method_and_target(num_data=NUM_DATA, temperature=1.0, **options):
    method = credo.BayesByBackprop(**options)
    return method, credo.model.Target(MODEL, num_data, (3,), temperature)


BATCH = Batch(jnp.asarray(X), jnp.asarray(Y[:, None]))


def gradients(mean, std, rows=NUM_DATA, num_data=NUM_DATA, temperature=1.0, num=4000, **options):
    """N × the gradient of the loss by the means and raw stds of the weights, for many keys."""
    run = gradient_function(rows, num_data, temperature, **options)
    learned = MeanField(tree(mean), tree(np.log(std)))
    both = run(learned, jax.random.split(KEYS, num))
    return np.concatenate([vector(both.mean), vector(both.log_std)], axis=1)


@functools.cache
def gradient_function(rows, num_data, temperature, **options):
    method, target = method_and_target(num_data, temperature, optimizer="sgd", learning_rate=1.0,
                                       schedule="constant", **options)  # fmt: skip
    batch = Batch(BATCH.x[:rows], BATCH.y[:rows])

    def one(learned, key):
        start = method.init(key, target, learned.mean, batch)
        after = method.step(key, target, start._replace(learned=learned), batch)[0].learned
        return jax.tree.map(lambda a, b: num_data * (a - b), learned, after)

    return jax.jit(jax.vmap(one, in_axes=(None, 0)))


@pytest.mark.parametrize(
    ("estimator", "temperature"),
    [("local", 1.0), ("local", 0.25), ("flipout", 1.0), ("weights", 1.0)],
)
def test_the_gradient_vanishes_at_the_exact_optimum(estimator, temperature):
    options = {"estimator": estimator, "temperature": temperature}
    mean, std = mean_field_optimum(temperature)
    assert agree(gradients(mean, std, **options), 0.0)
    # Planted: the marginals of the exact posterior; a mean off by a tenth of a deviation.
    marginal = np.diag(np.linalg.inv(exact_posterior(temperature)[1])) ** 0.5
    assert not agree(gradients(mean, marginal, **options), 0.0)
    assert not agree(gradients(mean + 0.1 * std, std, **options), 0.0)


def test_a_kl_divided_by_the_batch_size_is_caught():
    assert not agree(gradients(*mean_field_optimum(), num_data=8), 0.0)


def test_estimators_have_the_same_mean_gradient_and_local_the_least_variance():
    """At eight rows, where the optimum of all data is no optimum."""
    by_name = {
        name: gradients(*mean_field_optimum(), rows=8, num=20_000, estimator=name)
        for name in ("local", "flipout", "weights")
    }
    means = {name: values.mean(axis=0) for name, values in by_name.items()}
    errors = {name: values.std(axis=0) / np.sqrt(20_000) for name, values in by_name.items()}
    for name in ("flipout", "weights"):
        apart = np.abs(means[name] - means["local"])
        assert np.all(apart < 4 * np.hypot(errors[name], errors["local"]))
        assert np.any(np.abs(means[name]) > 40 * errors[name])  # zero would agree with anything
    spread = {name: values.var(axis=0) for name, values in by_name.items()}
    # Standard error of a variance: the gradients are no normals, so by their fourth moment.
    error = {
        name: ((values - means[name]) ** 2).std(axis=0) / np.sqrt(20_000)
        for name, values in by_name.items()
    }
    for better, worse in (("local", "weights"), ("flipout", "weights")):
        gain = spread[worse] - spread[better]
        assert np.all(gain[:4] > 4 * np.hypot(error[worse], error[better])[:4])
    assert spread["local"].sum() < spread["flipout"].sum() < spread["weights"].sum()


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_training_reaches_the_exact_optimum(temperature):
    method = credo.BayesByBackprop(learning_rate=0.03, num_steps=3000, batch_size=NUM_DATA)
    runs = [credo.fit(MODEL, (X, Y), method, k, temperature=temperature) for k in range(6)]
    mean, std = mean_field_optimum(temperature)
    means = np.stack([vector(run.mean) for run in runs]) / std
    log_stds = np.log(np.stack([vector(run.std) for run in runs]))

    def within(values, exact):
        """Of what the runs' own spread, much the same for all weights, allows."""
        error = np.sqrt(values.var(axis=0, ddof=1).mean() / len(runs))
        return np.all(np.abs(values.mean(axis=0) - exact) < 4 * error)

    assert within(means, mean / std) and within(log_stds, np.log(std))
    # Planted: the marginals of the exact posterior, which are wider than the optimum's.
    marginal = np.diag(np.linalg.inv(exact_posterior(temperature)[1])) ** 0.5
    assert not within(log_stds, np.log(marginal))
    assert np.all(log_stds.std(axis=0) < 0.05)  # and the tolerance is a small one


def test_the_elbo_at_the_optimum_is_the_evidence_less_the_gap():
    """log p(D) − ½ (Σ log Λ_ii − log |Λ|), with the KL and the mean log likelihood of the code."""
    method, target = method_and_target()
    mean, std = mean_field_optimum()
    _, precision = exact_posterior()
    covariance = NOISE**2 * np.eye(NUM_DATA) + PRIOR**2 * DESIGN @ DESIGN.T
    evidence = stats.multivariate_normal(np.zeros(NUM_DATA), covariance).logpdf(Y)
    gap = 0.5 * (np.log(np.diag(precision)).sum() - np.linalg.slogdet(precision)[1])
    kl = float(method._kl(KEYS, target, tree(mean), tree(np.log(std))))
    residual = np.sum((Y - DESIGN @ mean) ** 2) + np.sum(DESIGN**2 @ std**2)
    expected = -0.5 * residual / NOISE**2 - NUM_DATA * np.log(NOISE * np.sqrt(2 * np.pi))
    assert np.isclose(expected - kl, evidence - gap, rtol=1e-10)
    assert gap > 0.1 and not np.isclose(expected - kl, evidence, rtol=1e-6)


def history(**options):
    method = credo.BayesByBackprop(num_steps=8, batch_size=10, **options)
    record = credo.fit(MODEL, (X, Y), method).record.history
    return {name: values[0] for name, values in record.items()}


@pytest.mark.parametrize(("kl_weight", "kl_warmup"), [(0.3, 0.0), (0.0, 0.0), (2.0, 0.5)])
def test_weight_and_warm_up_of_the_kl(kl_weight, kl_warmup):
    """loss = nll + κ KL / N; κ grows linearly over its share of the steps."""
    run = history(kl_weight=kl_weight, kl_warmup=kl_warmup)
    ramp = np.minimum(1.0, (np.arange(8) + 1) / (8 * kl_warmup)) if kl_warmup else np.ones(8)
    np.testing.assert_allclose(
        run["loss"] - run["nll"], kl_weight * ramp * run["kl"] / NUM_DATA, rtol=1e-9, atol=1e-12
    )
    assert np.all(run["kl"] > 1)
    assert kl_warmup == 0 or ramp[0] < ramp[3] == ramp[7] == 1
