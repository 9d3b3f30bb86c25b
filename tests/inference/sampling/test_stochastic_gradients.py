"""SGLD, SGHMC, minibatch MALA: the exact law of each algorithm as written, on quadratics."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.special import ndtr

import credo
from credo.evaluation.diagnostics import mcse_mean
from credo.inference.sampling.mala import Point
from credo.inference.sampling.metropolis import acceptance_probability
from credo.model import Batch, Target
from credo.posterior import Samples

pytestmark = [
    pytest.mark.usefixtures("float64"),
    pytest.mark.filterwarnings("ignore::credo.CredoWarning"),
]

A = 2.0  # precision of the target
LONG = {"num_chains": 4, "num_samples": 4000, "num_warmup": 300}


def quadratic(x):
    return -0.5 * A * x**2


def mean_is(values, expected):
    """To 4 Monte Carlo standard errors."""
    return bool(abs(values.mean() - expected) < 4 * mcse_mean(values))


def second_moment_is(drawn, expected):
    return mean_is(np.asarray(drawn.draws) ** 2, expected)


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


@pytest.mark.parametrize("damping", [0.01, 0.5])
def test_the_preconditioner_with_memory(damping):
    """√v settles at the root mean square of the gradient a θ, and G with it.

    The variance then solves s = 1 / (a (1 − ηGa/2)), G = 1 / (damping + a √s), up to the
    O(1 − decay) by which v follows θ.
    """
    rate, variance = 0.4, 1 / A
    for _ in range(100):
        variance = 1 / (A * (1 - rate * A / 2 / (damping + A * variance**0.5)))
    method = credo.SGLD(
        learning_rate=rate, preconditioner="rmsprop", decay=0.999, damping=damping, thin=10,
        **{**LONG, "num_warmup": 5000},
    )  # fmt: skip
    drawn = credo.sample(quadratic, 1.0, method)
    assert second_moment_is(drawn, variance)
    assert not second_moment_is(drawn, 1 / A)
    assert not second_moment_is(drawn, 1 / (A * (1 - rate * A / 2)))


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
        share = method._share(jnp.asarray(4999))[0]
    np.testing.assert_allclose(share, np.sin(0.5 * np.pi / 5000) ** 2, rtol=1e-2)


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
    posterior = Samples(MODEL, draws, weights=jnp.array([[0.5, 0.25], [0.0, 0.25]]))
    chosen = posterior.sample(jax.random.key(0), 400)
    np.testing.assert_array_equal(
        np.bincount(np.asarray(chosen, int), minlength=4), [200, 100, 0, 100]
    )


@pytest.mark.parametrize(("rate", "variance"), [(0.1, 0.5278), (0.01, 0.5026), (0.001, 0.5003)])
def test_sghmc_has_its_discrete_variance(rate, variance):
    """The solution of the 2 × 2 Lyapunov equation, μ = 0.9 and a = 2."""
    drawn = credo.sample(
        quadratic, 0.0, credo.SGHMC(learning_rate=rate, momentum=0.9, thin=30, **LONG)
    )
    np.testing.assert_allclose(lyapunov(rate, 0.9), variance, atol=1e-4)
    assert second_moment_is(drawn, lyapunov(rate, 0.9))
    assert not second_moment_is(drawn, 1.15 * lyapunov(rate, 0.9))


def linear_step(rate, momentum, noise=0.0):
    """M and Q of (θ, v) ← M (θ, v) + N(0, Q), gradients with noise of variance `noise`²:

    v ← μv − √η (a θ + noise ζ) + √(2(1 − μ)) ξ, θ ← θ + √η v.
    """
    root = rate**0.5
    step = np.array([[1 - rate * A, root * momentum], [-root * A, momentum]])
    along = np.array([root, 1.0])
    return step, (2 * (1 - momentum) + rate * noise**2) * np.outer(along, along)


def lyapunov(rate, momentum, noise=0.0):
    """Stationary variance of θ."""
    step, heat = linear_step(rate, momentum, noise)
    covariance = np.linalg.solve(np.eye(4) - np.kron(step, step), heat.ravel())
    return covariance[0]


GRADIENT_NOISE = 3.0
NOISY_ROWS = np.random.default_rng(0).normal(size=(20_000, 40))
NOISY_ROWS = (NOISY_ROWS - NOISY_ROWS.mean(axis=0)) / NOISY_ROWS.std(axis=0)


def with_noise(x, batch):
    """40 quadratics at once, the gradient of each with its own noise."""
    return jnp.sum(quadratic(x)) + GRADIENT_NOISE * x @ jnp.mean(batch, axis=0)


def noisy_sghmc(rate, **settings):
    # Fewer steps than an epoch has, so that batches of one are as good as independent.
    rate = rate * len(NOISY_ROWS)
    settings = {"momentum": 0.9, **settings}
    method = credo.SGHMC(learning_rate=rate, batch_size=1, **settings)
    return credo.sample(with_noise, jnp.zeros(40), method, data=NOISY_ROWS)


def test_sghmc_with_gradient_noise():
    """Friction turns the noise of the gradients into a finite heat."""
    drawn = noisy_sghmc(0.01, num_warmup=300, num_samples=300, thin=40)
    squares = np.moveaxis(np.asarray(drawn.draws) ** 2, 2, 0).reshape(-1, 300)
    assert mean_is(squares, lyapunov(0.01, 0.9, GRADIENT_NOISE))
    assert not mean_is(squares, lyapunov(0.01, 0.9))


def test_without_friction_the_noise_of_gradients_heats_for_ever():
    """Betancourt 2015: the variance follows Σ ← M Σ Mᵀ + Q, which has no limit."""
    rate, momentum = 0.01, 0.99999
    drawn = noisy_sghmc(rate, momentum=momentum, num_warmup=0, num_samples=8, thin=500)
    step, heat = linear_step(rate, momentum, GRADIENT_NOISE)
    covariance, expected = np.zeros((2, 2)), []
    for _ in range(4000):
        covariance = step @ covariance @ step.T + heat
        expected.append(covariance[0, 0])
    found = np.mean(np.asarray(drawn.draws) ** 2, axis=(0, 2))
    error = np.array(expected[499::500]) * (2 / 160) ** 0.5  # of 4 × 40 independent squares
    assert np.all(np.abs(found - expected[499::500]) < 4 * error)
    assert found[-1] > 4 * found[0] > 40 / A


def test_sghmc_without_noise_is_momentum_sgd():
    method = credo.SGHMC(
        learning_rate=0.05,
        momentum=0.9,
        noise=0.0,
        num_warmup=0,
        num_samples=30,
        thin=1,
        num_chains=1,
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
MODEL = credo.Model(credo.networks.MLP(hidden=()), credo.likelihoods.Normal(1.0))


def test_the_penalty_is_unbiased_over_all_batches():
    """Its mean over all minibatches is half the variance of the estimated log ratio."""
    target = Target(MODEL, 6, (1,))
    method = credo.MALA(batch_size=3)
    differences = np.array([0.3, -0.7, 1.1, 0.2, -0.4, 0.9])
    batches = [list(rows) for rows in itertools.combinations(range(6), 3)]

    def point(rows, scale):
        return Point({}, 0.0, {}, scale * jnp.asarray(differences[rows]))

    penalties = [
        method._penalty(target, point(rows, 0.0), point(rows, 1.0), Batch(jnp.zeros((3, 1))))
        for rows in batches
    ]
    estimates = [6 / 3 * differences[rows].sum() for rows in batches]
    np.testing.assert_allclose(np.mean(penalties), np.var(estimates) / 2, rtol=1e-12)


def noisy_acceptance(log_ratio, penalty):
    """E min(1, exp(Δ + z)) with z ~ N(−penalty, 1)."""
    shifted = log_ratio - penalty
    return ndtr(shifted) + np.exp(shifted + 0.5) * ndtr(-shifted - 1)


def noisy_metropolis_variance(penalty):
    """Of the walk θ' = θ + 2ξ on N(0, 1) with a log ratio of noise 1: its transition matrix."""
    axis = np.linspace(-9, 9, 361)
    ratio = 0.5 * (axis[:, None] ** 2 - axis**2)
    walk = np.exp(-((axis[:, None] - axis) ** 2) / 8) / (8 * np.pi) ** 0.5 * (axis[1] - axis[0])
    move = walk * noisy_acceptance(ratio, penalty)
    move[np.diag_indices(361)] += 1 - move.sum(axis=1)
    system = np.vstack([move.T - np.eye(361), np.ones(361)])
    law = np.linalg.lstsq(system, np.append(np.zeros(361), 1.0), rcond=None)[0]
    return law @ axis**2


def noisy_metropolis(penalty):
    """That walk with the parts of minibatch MALA: its penalty, from a batch of 64 differences."""
    batch_size, num_data = 64, 6_400_000
    spread = batch_size**0.5 / num_data  # so that N/B Σ_j has variance 1
    method, target = credo.MALA(batch_size=batch_size), Target(MODEL, num_data, (1,))

    def step(x, key):
        walk_key, batch_key, accept_key = jax.random.split(key, 3)
        new = x + 2 * jax.random.normal(walk_key)
        each = spread * jax.random.normal(batch_key, (batch_size,))
        log_ratio = 0.5 * (x**2 - new**2) + num_data / batch_size * jnp.sum(each)
        if penalty:
            old = Point({}, 0.0, {}, jnp.zeros(batch_size))
            new_point = old._replace(log_likelihoods=each)
            log_ratio -= method._penalty(target, old, new_point, Batch(each))
        accepted = jax.random.uniform(accept_key) < acceptance_probability(log_ratio)
        x = jnp.where(accepted, new, x)
        return x, x

    keys = jax.random.split(jax.random.key(0), (4, 30_000))
    run = jax.jit(jax.vmap(lambda keys: jax.lax.scan(step, 0.0, keys)[1]))
    return np.asarray(run(keys))[:, 100:] ** 2


def test_the_penalty_makes_a_noisy_acceptance_exact():
    """Noise of 1 in the log ratio: variance 1.26 without the penalty, 1 with it."""
    raw, exact = noisy_metropolis_variance(0.0), noisy_metropolis_variance(0.5)
    np.testing.assert_allclose([raw, exact], [1.26, 1.0], atol=0.01)
    without, mended = noisy_metropolis(penalty=False), noisy_metropolis(penalty=True)
    assert mean_is(without, raw) and not mean_is(without, 1.0)
    assert mean_is(mended, 1.0) and not mean_is(mended, raw)


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
    assert raw > exact + 8 * error  # too hot without
    mended, error = minibatch_variance(penalty=True)
    assert abs(mended - exact) < 4 * error


@pytest.mark.parametrize("method", [credo.SGLD, credo.SGHMC])
def test_the_default_rate_suits_known_small_noise(method):
    """Curvature grows as 1/σ²: at the rate of unit noise both run away."""
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=60)
    model = credo.Model(credo.networks.MLP((5,)), credo.likelihoods.Normal(0.1))
    short = {"num_warmup": 1500, "num_samples": 20, "thin": 20, "num_chains": 1}
    posterior = credo.fit(model, (x, y), method(**short))
    assert np.sqrt(np.mean((credo.predict(posterior, x).mean - y) ** 2)) < 0.2
    unit = {credo.SGLD: 0.05, credo.SGHMC: 0.01}[method]
    with pytest.raises(credo.DivergedError):
        credo.fit(model, (x, y), method(learning_rate=unit, **short))
