"""SGLD, SGHMC, minibatch MALA: the exact law of each algorithm as written, on quadratics."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import credo
from credo.evaluation.diagnostics import mcse_mean
from credo.inference.mala import Point
from credo.posterior import Samples

pytestmark = [
    pytest.mark.usefixtures("float64"),
    pytest.mark.filterwarnings("ignore::credo.CredoWarning"),
]

A = 2.0  # precision of the target
LONG = {"num_chains": 4, "num_samples": 4000, "num_warmup": 300}


def quadratic(x):
    return -0.5 * A * x**2


def second_moment_is(drawn, expected):
    squares = np.asarray(drawn.draws) ** 2
    return bool(abs(squares.mean() - expected) < 4 * mcse_mean(squares))


@pytest.mark.parametrize("rate", [0.3, 0.1])
def test_sgld_has_its_discrete_variance(rate):
    """1 / (a (1 − ηa/2)); halving η halves the bias, which is far larger than the error bars."""
    expected = 1 / (A * (1 - rate * A / 2))
    drawn = credo.sample(quadratic, 0.0, credo.SGLD(learning_rate=rate, thin=10, **LONG))
    assert second_moment_is(drawn, expected)
    assert not second_moment_is(drawn, 1 / A)


def test_the_noise_of_the_slides_samples_a_colder_target():
    """Erratum: √η instead of √(2η) gives half the variance."""
    method = credo.SGLD(learning_rate=0.1, thin=10, noise=2**-0.5, **LONG)
    exact = 1 / (A * (1 - 0.1 * A / 2))
    drawn = credo.sample(quadratic, 0.0, method)
    assert second_moment_is(drawn, exact / 2) and not second_moment_is(drawn, exact)


def test_sgld_with_gradient_noise():
    """(1 + ηV/2) / (a (1 − ηa/2)) with V the variance of the gradient of all data."""
    rows = np.random.default_rng(0).normal(size=200_000)
    rows = (rows - rows.mean()) / rows.std()
    noise, rate = 3.0, 0.2

    def estimated(x, batch):
        return quadratic(x) + noise * x * jnp.mean(batch)

    # Steps on the mean loss: a rate of η N moves the sum by η. Fewer steps than an epoch has, so
    # that batches of one are as good as independent.
    method = credo.SGLD(learning_rate=rate * len(rows), thin=10, batch_size=1, **LONG)
    drawn = credo.sample(estimated, 0.0, method, data=rows)
    expected = (1 + rate * noise**2 / 2) / (A * (1 - rate * A / 2))
    assert second_moment_is(drawn, expected)
    assert not second_moment_is(drawn, 1 / (A * (1 - rate * A / 2)))


def quartic(x):
    return -0.25 * x**4 - 0.5 * x**2


def test_the_preconditioner_needs_its_correction():
    """With decay 0, G is a function of θ alone, and Γ = G' has a closed form."""
    axis = np.linspace(-5, 5, 4001)
    density = np.exp([float(v) for v in quartic(axis)])
    expected = (density * axis**2).sum() / density.sum()
    settings = {"preconditioner": "rmsprop", "decay": 0.0, "damping": 0.5, "thin": 40}
    right = credo.SGLD(learning_rate=0.01, **settings, **LONG)
    drawn = credo.sample(quartic, 0.5, right)
    assert second_moment_is(drawn, expected)
    wrong = credo.SGLD(learning_rate=0.01, correction=False, **settings, **LONG)
    assert not second_moment_is(credo.sample(quartic, 0.5, wrong), expected)


def test_schedules_and_weights():
    method = credo.SGLD(
        learning_rate=0.1, schedule="polynomial", delay=10, power=0.6, num_warmup=0,
        num_samples=20, num_chains=1,
    )  # fmt: skip
    drawn = credo.sample(quadratic, 0.0, method)
    rates = 0.1 * (1 + np.arange(2000) / 10) ** -0.6
    np.testing.assert_allclose(drawn.record.history["step_size"][0], rates)
    kept = rates[99::100]
    np.testing.assert_allclose(drawn.weights[0], kept / kept.sum())


CYCLES = {"schedule": "cyclical", "num_cycles": 2, "num_warmup": 0}


def test_cycles_explore_without_noise_and_keep_nothing_of_it():
    method = credo.SGLD(learning_rate=0.1, num_samples=40, thin=5, num_chains=2, **CYCLES)
    drawn = credo.sample(quadratic, 1.0, method)
    rates, exploring = (drawn.record.history[name][0] for name in ("step_size", "exploring"))
    np.testing.assert_array_equal(exploring, np.arange(200) % 100 < 50)
    kept = rates[4::5][~exploring[4::5]]
    assert drawn.draws.shape == (2, 20)
    np.testing.assert_allclose(drawn.weights, np.stack([kept, kept]) / (2 * kept.sum()))
    # Without noise the first half of a cycle is plain descent.
    x, losses = 1.0, drawn.record.history["loss"][0]
    for rate, loss in zip(rates[:6], losses[:6], strict=True):
        np.testing.assert_allclose(loss, 0.5 * A * x**2, rtol=1e-12)
        x = x - rate * A * x


def test_cycles_that_would_keep_nothing_are_refused():
    """Their weights would be 0/0."""
    with pytest.raises(credo.CredoError, match="lower exploration"):
        credo.SGLD(num_samples=2, thin=100, exploration=0.999, **CYCLES)
    last = credo.SGLD(num_samples=2, thin=100, exploration=0.98, learning_rate=0.1, **CYCLES)
    drawn = credo.sample(quadratic, 0.0, last)
    np.testing.assert_allclose(drawn.weights, 0.125)  # one draw of each cycle, of each of 4 chains


def test_the_last_steps_of_a_cycle_keep_their_weight_in_single_precision():
    """(1 + cos π s) / 2 is 0 there, where cos² (π s / 2) is not."""
    method = credo.SGLD(num_samples=100, thin=100, **CYCLES)
    with jax.enable_x64(False):
        rate = method._rate(1, jnp.asarray(4999))[0]
    np.testing.assert_allclose(rate, np.sin(0.5 * np.pi / 5000) ** 2, rtol=1e-2)


def test_weights_are_exported_and_draws_diagnosed_as_they_are():
    method = credo.SGLD(learning_rate=0.1, num_samples=40, thin=5, **CYCLES)
    drawn = credo.sample(quadratic, 1.0, method)
    assert credo.diagnose(drawn).ess_bulk <= 4 * 20
    pytest.importorskip("arviz")
    stats = drawn.to_arviz().sample_stats
    np.testing.assert_allclose(stats["weight"], drawn.weights)
    kept = drawn.record.history["loss"][:, 4::5][:, np.arange(40) % 20 >= 10]
    np.testing.assert_array_equal(stats["loss"], kept)


def test_weighted_draws_are_resampled_by_weight():
    draws = jnp.arange(4.0).reshape(2, 2)
    posterior = Samples(None, draws, weights=jnp.array([[0.5, 0.25], [0.0, 0.25]]))
    chosen = posterior.sample(jax.random.key(0), 400)
    np.testing.assert_array_equal(
        np.bincount(np.asarray(chosen, int), minlength=4), [200, 100, 0, 100]
    )


@pytest.mark.parametrize(("rate", "variance"), [(0.1, 0.5278), (0.01, 0.5026)])
def test_sghmc_has_its_discrete_variance(rate, variance):
    """The solution of the 2 × 2 Lyapunov equation, μ = 0.9 and a = 2."""
    drawn = credo.sample(quadratic, 0.0, credo.SGHMC(learning_rate=rate, thin=20, **LONG))
    np.testing.assert_allclose(lyapunov(rate, 0.9), variance, atol=1e-4)
    assert second_moment_is(drawn, lyapunov(rate, 0.9))
    assert not second_moment_is(drawn, 1.15 * lyapunov(rate, 0.9))


def lyapunov(rate, momentum):
    """Stationary variance of θ under v ← μv − √η a θ + √(2(1 − μ)) ξ, θ ← θ + √η v."""
    root = rate**0.5
    step = np.array([[1 - rate * A, root * momentum], [-root * A, momentum]])
    noise = np.array([root, 1.0]) * (2 * (1 - momentum)) ** 0.5
    covariance = np.linalg.solve(
        np.eye(4) - np.kron(step, step), np.outer(noise, noise).ravel()
    ).reshape(2, 2)
    return covariance[0, 0]


def test_sghmc_without_noise_is_momentum_sgd():
    method = credo.SGHMC(
        learning_rate=0.05, noise=0.0, num_warmup=0, num_samples=30, thin=1, num_chains=1
    )
    drawn = credo.sample(quartic, 1.0, method)
    rule = optax.sgd(0.05, momentum=0.9)
    x, memory, path = jnp.array(1.0), rule.init(jnp.array(1.0)), []
    for _ in range(30):
        updates, memory = rule.update(jax.grad(lambda x: -quartic(x))(x), memory)
        x = x + updates
        path.append(float(x))
    np.testing.assert_allclose(drawn.draws[0], path, rtol=1e-12)


INPUTS = np.random.default_rng(1).normal(size=(40, 1))
VALUES = 0.5 * INPUTS[:, 0] + np.random.default_rng(2).normal(size=40)
MODEL = credo.Model(credo.networks.MLP(hidden=()), credo.Normal(1.0))


def test_the_penalty_is_unbiased_over_all_batches():
    """Its mean over all minibatches is half the variance of the estimated log ratio."""
    target = credo.Target(MODEL, 6, (1,))
    method = credo.MALA(batch_size=3)
    differences = np.array([0.3, -0.7, 1.1, 0.2, -0.4, 0.9])
    batches = [list(rows) for rows in itertools.combinations(range(6), 3)]
    point = lambda rows, scale: Point({}, 0.0, {}, scale * jnp.asarray(differences[rows]))  # noqa: E731
    penalties = [method._penalty(target, point(rows, 0.0), point(rows, 1.0)) for rows in batches]
    estimates = [6 / 3 * differences[rows].sum() for rows in batches]
    np.testing.assert_allclose(np.mean(penalties), np.var(estimates) / 2, rtol=1e-12)


def minibatch_variance(penalty):
    method = credo.MALA(
        batch_size=30, penalty=penalty, step_size=0.02, num_warmup=0, num_samples=4000, thin=10
    )
    posterior = credo.fit(MODEL, (INPUTS, VALUES), method, key=1)
    draws = np.asarray(posterior.draws["network"]["dense0"]["w"])[:, 100:, 0, 0]
    return draws.var(), mcse_mean((draws - draws.mean()) ** 2)


def test_the_penalty_mends_minibatch_mala():
    design = np.column_stack([INPUTS, np.ones(40)])
    exact = np.linalg.inv(design.T @ design + np.eye(2))[0, 0]
    raw, error = minibatch_variance(penalty=False)
    mended, _ = minibatch_variance(penalty=True)
    assert raw > exact + 8 * error  # too hot without
    assert abs(mended - exact) < 0.5 * (raw - exact)
