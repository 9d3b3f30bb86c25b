"""SWAG: its moments against those of the iterates, its draws against its covariance, its mean
against a known mode."""

import dataclasses

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import credo
from credo.networks import MLP
from credo.posterior import LowRankNormal, NormalWeights, Samples

pytestmark = pytest.mark.usefixtures("float64")

X = np.random.default_rng(0).normal(size=(64, 3))
Y = (X @ [1.0, -2.0, 0.5] + 0.3 * np.random.default_rng(1).normal(size=64))[:, None]
SETTINGS = {"num_steps": 101, "batch_size": 8, "collect_from": 0.4, "collect_every": 5, "rank": 4}
START = 40
MODEL = credo.Model(MLP(hidden=(4,), activation="tanh"), credo.likelihoods.Normal(scale="learned"))


class Watched(credo.SWAG):
    """The same run, of which every iterate is stored."""

    def plan(self, num_data):
        return super().plan(num_data)._replace(num_warmup=0)

    def keep(self, state):
        return state.descent.learned

    def posterior(self, target, states, kept):
        return Samples(target.model, kept)


def flat(tree):
    return np.asarray(ravel_pytree(tree)[0])


@pytest.fixture(scope="module")
def collected(float64):
    """The iterates that a run must collect: after steps 45, 50, …, 100."""
    stored = credo.fit(MODEL, (X, Y), Watched(**SETTINGS), key=3).draws
    iterates = np.stack(
        [flat(jax.tree.map(lambda leaf, i=i: leaf[0, i], stored)) for i in range(101)]
    )
    return iterates[START + 4 :: 5]


def moments_match(posterior, iterates):
    running = np.cumsum(iterates, axis=0) / np.arange(1, len(iterates) + 1)[:, None]
    last = (iterates - running)[-4:]
    covariance = last.T @ last / (2 * 3)
    pairs = [
        (flat(posterior.mean), iterates.mean(axis=0)),
        (flat(posterior.std), iterates.std(axis=0) / np.sqrt(2)),
        (np.asarray(posterior.factor @ posterior.factor.T), covariance),
    ]
    return all(np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in pairs)


def test_the_moments_are_those_of_the_collected_iterates(collected):
    posterior = credo.fit(MODEL, (X, Y), credo.SWAG(**SETTINGS), key=3)
    assert len(collected) == 12 and isinstance(posterior, LowRankNormal)
    assert moments_match(posterior, collected)
    assert not moments_match(posterior, collected[1:])  # forgets the first
    assert not moments_match(posterior, np.roll(collected, 1, axis=0))  # deviations of others


def test_fewer_iterates_than_the_rank(collected):
    with pytest.warns(credo.CredoWarning, match="12 networks"):
        posterior = credo.fit(MODEL, (X, Y), credo.SWAG(**SETTINGS | {"rank": 30}), key=3)
    running = np.cumsum(collected, axis=0) / np.arange(1, 13)[:, None]
    deviations = collected - running
    np.testing.assert_allclose(
        posterior.factor @ posterior.factor.T, deviations.T @ deviations / (2 * 11), atol=1e-12
    )


def test_rank_zero_is_a_normal_of_every_weight(collected):
    posterior = credo.fit(MODEL, (X, Y), credo.SWAG(**SETTINGS | {"rank": 0}), key=3)
    assert isinstance(posterior, NormalWeights)
    np.testing.assert_allclose(flat(posterior.std), collected.std(axis=0), rtol=1e-9)
    np.testing.assert_allclose(flat(posterior.mean), collected.mean(axis=0), rtol=1e-9)


def test_the_average_is_one_network(collected):
    averaged = credo.fit(MODEL, (X, Y), credo.SWAG(**SETTINGS), key=3).mean_network()
    assert averaged.num_draws == 1
    one = jax.tree.map(lambda leaf: leaf[0, 0], averaged.draws)
    np.testing.assert_allclose(flat(one), collected.mean(axis=0), rtol=1e-9)


def test_draws_have_the_covariance():
    rng = np.random.default_rng(2)
    factor = rng.normal(size=(4, 2))
    mean = {"network": {"w": np.array([1.0, -1.0]), "v": np.array([2.0])}, "likelihood": 3.0}
    std = {"network": {"w": np.array([0.5, 1.0]), "v": np.array([0.1])}, "likelihood": 0.7}
    posterior = LowRankNormal(MODEL, mean, std, factor)
    count = 40_000
    keys = posterior.sample(jax.random.key(0), count)
    draws = np.asarray(jax.vmap(lambda key: ravel_pytree(posterior.realize(key)[0])[0])(keys))
    exact = np.diag(flat(std) ** 2) + factor @ factor.T

    def matches(covariance):
        variances = np.diag(covariance)
        error = np.sqrt((np.outer(variances, variances) + covariance**2) / count)
        return bool(np.all(np.abs(np.cov(draws.T) - covariance) < 4 * error))

    assert matches(exact)
    assert not matches(factor @ factor.T + np.diag(flat(std)))  # std where its square belongs
    assert not matches(np.diag(np.diag(exact)))  # no shared directions
    spread = np.sqrt(np.diag(exact) / count)
    assert np.all(np.abs(draws.mean(axis=0) - flat(mean)) < 4 * spread)


def test_the_average_finds_the_mode_of_a_quadratic():
    """SGD hovers around the mode of a linear model; its average settles there."""
    model = credo.Model(MLP(hidden=()), credo.likelihoods.Normal(0.3))
    mode = flat(credo.fit(model, (X, Y), credo.Exact()).mean)
    settings = {
        "num_steps": 40_000, "batch_size": 8, "optimizer": "sgd", "learning_rate": 0.01,
        "swa_rate": 0.005, "collect_from": 0.1, "collect_every": 1,
    }  # fmt: skip
    averaged = flat(credo.fit(model, (X, Y), credo.SWAG(**settings), key=1).mean)
    last = credo.fit(model, (X, Y), Watched(**settings), key=1).draws
    iterates = np.stack([flat(jax.tree.map(lambda a, i=i: a[0, i], last)) for i in (-50, -25, -1)])
    assert np.abs(averaged - mode).max() < 1e-3
    assert np.all(np.abs(iterates - mode).max(axis=1) > 1e-3)


def test_learning_rates_by_phase():
    method = credo.SWAG(num_steps=100, learning_rate=0.1, swa_rate=0.02, collect_from=0.5)
    rates = np.array([float(method.rate_schedule(100)(step)) for step in range(100)])
    assert rates[0] == pytest.approx(0.1) and np.all(np.diff(rates[:50]) < 0)
    np.testing.assert_allclose(rates[50:], 0.02)
    flat_rates = dataclasses.replace(method, schedule="constant").rate_schedule(100)
    assert float(flat_rates(49)) == pytest.approx(0.1) and float(flat_rates(50)) == 0.02


def test_impossible_requests_are_refused():
    with pytest.raises(credo.CredoError, match="rank"):
        credo.SWAG(rank=1)
    with pytest.raises(credo.CredoError, match=r"collect 1 networks.*collect_every"):
        credo.fit(MODEL, (X, Y), credo.SWAG(num_steps=100, collect_every=20))


def test_posteriors_of_several_runs_can_be_stacked():
    """As an ensemble holds them: one pytree, the member first."""
    members = [credo.fit(MODEL, (X, Y), credo.SWAG(**SETTINGS), key=key) for key in (1, 2)]
    stacked = jax.tree.map(lambda *leaves: jax.numpy.stack(leaves), *members)
    keys = jax.random.split(jax.random.key(0), 2)
    drawn = jax.vmap(lambda posterior, key: posterior.realize(key)[0])(stacked, keys)
    for index, member in enumerate(members):
        one = flat(jax.tree.map(lambda leaf, i=index: leaf[i], drawn))
        np.testing.assert_allclose(one, flat(member.realize(keys[index])[0]), rtol=1e-12)
