"""The mixture of normals against its formulas, and weighted draws against repeated ones."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from credo.likelihoods import Normal, NormalMixture

pytestmark = pytest.mark.usefixtures("float64")

OUTPUTS = np.array([[0.3, -0.5, 0.0, -1.0, 0.5, 2.0, -0.7, 0.1, -1.2]] * 2)
Y = np.array([0.4, -2.0])


def density(y, output=OUTPUTS[0]):
    weights = np.exp(output[:3]) / np.exp(output[:3]).sum()
    parts = zip(weights, output[3:6], output[6:])
    return sum(w * stats.norm.pdf(y, m, np.exp(s)) for w, m, s in parts)


def predictive(draws=1, outputs=OUTPUTS):
    likelihood = NormalMixture(3)
    _, kept = likelihood.summarize({}, jnp.asarray(outputs))
    stacked = {name: np.stack([np.asarray(array)] * draws) for name, array in kept.items()}
    return likelihood.predictive({}, stacked)


def test_density_and_moments_are_those_of_the_formula():
    found = NormalMixture(3).log_prob({}, jnp.asarray(OUTPUTS), jnp.asarray(Y)[:, None])
    np.testing.assert_allclose(found, np.log(density(Y)), rtol=1e-12)
    predicted = predictive()
    np.testing.assert_allclose(predicted.log_prob(Y), np.log(density(Y)), rtol=1e-12)
    mean = integrate.quad(lambda y: y * density(y), -30, 30)[0]
    variance = integrate.quad(lambda y: (y - mean) ** 2 * density(y), -30, 30)[0]
    np.testing.assert_allclose(predicted.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(predicted.variance, variance, rtol=1e-6)
    below = integrate.quad(density, -30, 0.4)[0]
    np.testing.assert_allclose(predicted.cdf(np.full(2, 0.4)), below, rtol=1e-6)
    np.testing.assert_allclose(predicted.quantile(below), 0.4, rtol=1e-6)
    entropy = -integrate.quad(lambda y: density(y) * np.log(density(y)), -30, 30, limit=200)[0]
    np.testing.assert_allclose(predicted.expected_entropy, entropy, atol=0.02)


def test_samples_follow_the_density():
    drawn = predictive().sample(seed=1, num_samples=4000)[:, 0]
    error = np.sqrt(predictive().variance[0] / 4000)
    assert abs(drawn.mean() - predictive().mean[0]) < 4 * error
    shifted = drawn + 0.2  # the control
    assert abs(shifted.mean() - predictive().mean[0]) > 4 * error


def test_equal_draws_disagree_about_nothing():
    np.testing.assert_array_equal(predictive(draws=3).mutual_information, 0.0)
    _, kept = NormalMixture(3).summarize({}, jnp.asarray(OUTPUTS))
    moved = {n: np.stack([np.asarray(a), np.asarray(a) + (n == "means")]) for n, a in kept.items()}
    information = NormalMixture(3).predictive({}, moved).mutual_information

    def divergence(y, shift):
        both = 0.5 * (density(y) + density(y - 1))
        return 0.5 * density(y - shift) * np.log(density(y - shift) / both)

    terms = [integrate.quad(divergence, -30, 30, args=(s,), limit=200)[0] for s in (0, 1)]
    np.testing.assert_allclose(information, sum(terms), rtol=0.03)


def test_units_move_all_parts():
    from credo.data import Units

    predicted = predictive().in_units(Units(shift=10.0, factor=2.0))
    np.testing.assert_allclose(predicted.mean, 10 + 2 * predictive().mean)
    np.testing.assert_allclose(
        predicted.log_prob(10 + 2 * Y), np.log(density(Y)) - np.log(2), rtol=1e-9
    )


def test_a_draw_of_weight_two_thirds_is_two_of_three():
    means, scales = np.array([0.0, 1.0, 1.0]), np.array([1.0, 0.5, 0.5])
    likelihood = Normal("by_input")

    def of(count):
        shape = (count, 2, 1)
        kept = {
            "means": np.broadcast_to(means[:count, None, None], shape),
            "scales": np.broadcast_to(scales[:count, None, None], shape),
        }
        return likelihood.predictive({}, kept)

    repeated, weighted = of(3), of(2).weighted(np.array([1 / 3, 2 / 3]))
    y = np.array([0.3, -1.0])
    for name in (
        "mean",
        "variance",
        "epistemic_variance",
        "mutual_information",
        "expected_entropy",
    ):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-9)
        if name != "expected_entropy":
            assert not np.allclose(getattr(of(2), name), getattr(repeated, name))  # the control
    np.testing.assert_allclose(weighted.log_prob(y), repeated.log_prob(y), rtol=1e-9)
    np.testing.assert_allclose(weighted.quantile(0.3), repeated.quantile(0.3), rtol=1e-5)
    np.testing.assert_allclose(weighted.cdf(y), repeated.cdf(y), rtol=1e-9)
    drawn = weighted.sample(num_samples=20_000)
    error = np.sqrt(repeated.variance / 20_000)
    assert (np.abs(drawn.mean(axis=0) - repeated.mean) < 4 * error).all()
