"""Optimisers are Optax's, by name or one's own: clipping, warm-up, decay, groups; early stops."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import credo
from credo.data import Batch, resident
from credo.engine import Descent, run
from credo.engine.descent import held_out_rows
from credo.keys import as_key
from credo.likelihoods import Normal
from credo.model import Target
from credo.networks import MLP
from credo.struct import Struct

pytestmark = pytest.mark.usefixtures("float64", "quick_compilation")

CENTER = np.array([3.0, -1.0])
SOURCE = resident(jnp.zeros((4, 1)))


@dataclass(frozen=True)
class Bowl(Struct):
    """|w − center|² / 2."""

    def init(self, key, example):
        return jnp.array([1.0, 1.0])

    def loss(self, key, params, batch):
        return 0.5 * jnp.sum(jnp.square(params - CENTER)), {}


def path(rule, num_steps):
    """Where Optax's own loop ends."""
    params, memory = jnp.array([1.0, 1.0]), rule.init(jnp.array([1.0, 1.0]))
    for _ in range(num_steps):
        updates, memory = rule.update(params - CENTER, memory, params)
        params = optax.apply_updates(params, updates)
    return np.asarray(params)


def learned(method):
    return np.asarray(run(method, Bowl(), SOURCE).state().learned)


def cosine(rate, steps, warmup=0.0):
    def at(step):
        grown = jnp.minimum(1.0, (step + 1) / (warmup * steps)) if warmup else 1.0
        return rate * grown * 0.5 * (1 + jnp.cos(jnp.pi * step / steps))

    return at


CASES = {
    "adam": ({"optimizer": "adam"}, optax.adam(cosine(0.1, 20))),
    "sgd": ({"optimizer": "sgd", "schedule": "constant"}, optax.sgd(0.1)),
    "momentum": (
        {"optimizer": "momentum", "schedule": "constant"}, optax.sgd(0.1, momentum=0.9)
    ),
    "clip": (
        {"optimizer": "sgd", "clip": 0.5},
        optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(cosine(0.1, 20))),
    ),
    "warmup": ({"optimizer": "adam", "warmup": 0.3}, optax.adam(cosine(0.1, 20, 0.3))),
    "decay": ({"decay": 0.2}, optax.adamw(cosine(0.1, 20), weight_decay=0.2)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_fields_are_optax(case):
    options, rule = CASES[case]
    found = learned(Descent(num_steps=20, learning_rate=0.1, **options))
    np.testing.assert_allclose(found, path(rule, 20), rtol=1e-5)
    plain = path(optax.adam(cosine(0.1, 20)), 20)
    assert case == "adam" or not np.allclose(found, plain, rtol=1e-3)  # planted: a lost option


@pytest.mark.parametrize(
    "rule",
    [
        optax.adamw(0.1, weight_decay=0.1),
        optax.lion(0.05),
        optax.chain(optax.clip(0.3), optax.rmsprop(0.1)),
        optax.inject_hyperparams(optax.sgd)(learning_rate=0.1),
    ],
    ids=["adamw", "lion", "chain", "injected"],
)
def test_an_optimizer_of_ones_own(rule):
    found = learned(Descent(num_steps=15, optimizer=rule))
    np.testing.assert_allclose(found, path(rule, 15), rtol=1e-5)


@pytest.mark.parametrize("name", ["learning_rate", "warmup", "clip", "decay"])
def test_an_optimizer_of_ones_own_brings_its_settings(name):
    with pytest.raises(credo.CredoError, match=f"leave {name} out"):
        credo.MAP(optimizer=optax.sgd(0.1), **{name: 0.5})


@pytest.mark.parametrize("wrong", ["adamm", None, 3, optax.adam])
def test_what_is_no_optimizer(wrong):
    with pytest.raises(credo.CredoError, match="optimizer must be one of adam, sgd, momentum"):
        credo.MAP(optimizer=wrong)


def test_decay_moves_the_mode():
    """Said not to be MAP: where it ends, gradient + decay × w = 0, not gradient = 0."""
    method = Descent(num_steps=800, learning_rate=0.1, decay=0.5, optimizer="sgd")
    np.testing.assert_allclose(learned(method), CENTER / 1.5, rtol=1e-6)


RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = X[:, 0] + 0.3 * RNG.normal(size=60)
MODEL = credo.Model(MLP(hidden=(5,)), Normal(0.3))
BATCH = Batch(jnp.asarray(X), jnp.asarray(Y[:, None]))


CONSTANT = {"schedule": "constant"}


def one_step(**options):
    """The change of the weights and of the logits of the rates, and the gradient."""
    method = credo.ConcreteDropout(**options)
    target, params = Target(MODEL, 60, (4,)), MODEL.init(jax.random.key(0), (4,))
    state = method.init(jax.random.key(1), target, params, BATCH)
    key = jax.random.key(2)
    after, _ = method.step(key, target, state, BATCH)

    def loss(learned):
        return method.loss(key, target, learned, BATCH, jnp.asarray(0.5))[0]

    change = jax.tree.map(jnp.subtract, after.learned, state.learned)
    return change, jax.grad(loss)(state.learned), state.learned


def of(tree):
    weights, rates = jax.tree.leaves(tree.params), jax.tree.leaves(tree.logits)
    return (np.concatenate([np.ravel(leaf) for leaf in part]) for part in (weights, rates))


def test_rates_of_concrete_dropout_move_ten_times_as_fast_with_every_optimizer():
    """Per gradient with sgd, per sign with adam; 100 × was a bug that a rescaled logit made."""
    change, gradient, _ = one_step(optimizer="sgd", learning_rate=0.01, **CONSTANT)
    for moved, slope, rate in zip(of(change), of(gradient), (0.01, 0.1), strict=True):
        np.testing.assert_allclose(moved, -rate * slope, rtol=1e-6)
        assert not np.allclose(moved, -10 * rate * slope, rtol=0.1)
    change, _, _ = one_step(optimizer="adam", learning_rate=0.01, **CONSTANT)
    for moved, rate in zip(of(change), (0.01, 0.1), strict=True):
        assert np.abs(moved).max() == pytest.approx(rate, rel=1e-3)
    change, gradient, _ = one_step(optimizer="sgd", learning_rate=0.01, **CONSTANT, rate_speed=1.0)
    for moved, slope in zip(of(change), of(gradient), strict=True):
        np.testing.assert_allclose(moved, -0.01 * slope, rtol=1e-6)


def test_groups_share_one_norm_and_only_weights_decay():
    change, gradient, _ = one_step(optimizer="sgd", learning_rate=0.01, **CONSTANT, clip=1e-3)
    norm = float(np.sqrt(sum(np.sum(part**2) for part in of(gradient))))
    for moved, slope, rate in zip(of(change), of(gradient), (0.01, 0.1), strict=True):
        np.testing.assert_allclose(moved, -rate * 1e-3 * slope / norm, rtol=1e-6)
    change, gradient, before = one_step(optimizer="sgd", learning_rate=0.01, **CONSTANT, decay=0.5)
    parts = zip(of(change), of(gradient), of(before), ((0.01, 0.5), (0.1, 0.0)), strict=True)
    for moved, slope, start, (rate, decay) in parts:
        np.testing.assert_allclose(moved, -rate * (slope + decay * start), rtol=1e-6)


def labels(learned):
    leaves = jax.tree.map(lambda leaf: "rates", learned.logits)
    return type(learned)(jax.tree.map(lambda leaf: "weights", learned.params), leaves)


def test_groups_of_ones_own_by_multi_transform():
    rule = optax.multi_transform({"weights": optax.sgd(0.01), "rates": optax.set_to_zero()}, labels)
    change, gradient, _ = one_step(optimizer=rule)
    weights, rates = of(change)
    np.testing.assert_allclose(weights, -0.01 * next(of(gradient)), rtol=1e-6)
    assert not rates.any()


OVERFIT = {
    "num_steps": 400, "learning_rate": 0.03, "batch_size": 30, "schedule": "constant",
    "validation_fraction": 0.5, "patience": 4,
}  # fmt: skip
WIDE = credo.Model(MLP(hidden=(30,)), Normal(0.1), credo.priors.NormalPrior(10.0))


def held_out(key=0):
    return held_out_rows(jax.random.fold_in(as_key(key), 2**31 - 2), 60, 0.5)[1]


def held_out_losses(posterior):
    """At each of the looks, (look,)."""
    history = np.asarray(posterior.record.history["validation_nll"][0])
    return history[7::8][: len(history) // 8]  # 400 steps, 50 looks


def test_early_stopping_keeps_the_best():
    posterior = credo.fit(WIDE, (X, Y), credo.MAP(**OVERFIT))
    losses = held_out_losses(posterior)
    assert len(losses) < 50  # it overfits, and stops
    assert losses.argmin() == len(losses) - 1 - 4  # 4 looks of patience after the best
    held = held_out()
    found = credo.predict(posterior, X[held]).log_prob(Y[held])
    np.testing.assert_allclose(-found.mean(), losses.min(), rtol=1e-5)
    assert not np.isclose(-found.mean(), losses[-1], rtol=1e-3)  # planted: the last state
    to_the_end = credo.fit(WIDE, (X, Y), credo.MAP(**{**OVERFIT, "patience": 50}))
    assert len(held_out_losses(to_the_end)) == 50


def test_rows_that_are_held_out_teach_nothing():
    """Changing the targets of the held-out rows changes when to stop, and no step."""
    options = {**OVERFIT, "patience": 50, "num_steps": 100}
    first = credo.fit(WIDE, (X, Y), credo.MAP(**options))
    held = held_out()
    changed = Y.copy()
    changed[held] += 100.0
    second = credo.fit(WIDE, (X, changed), credo.MAP(**options))
    losses = [each.record.history["nll"] for each in (first, second)]
    np.testing.assert_array_equal(*losses)
    changed[np.setdiff1d(np.arange(60), held)[0]] += 1.0  # planted: a row that is learned from
    third = credo.fit(WIDE, (X, changed), credo.MAP(**options))
    assert not np.array_equal(losses[0], third.record.history["nll"])


@pytest.mark.parametrize("kind", [credo.MAP, credo.ConcreteDropout])
def test_early_stopping_resumes_to_the_same_bits(kind, tmp_path):
    method = kind(**OVERFIT)
    expected = credo.fit(WIDE, (X, Y), method, key=2)

    def stop(step, posterior):
        if step >= 24:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        credo.fit(
            WIDE, (X, Y), method, key=2, checkpoint=tmp_path / "run", checkpoint_seconds=0,
            observe_every=8, observe=stop,
        )  # fmt: skip
    resumed = credo.fit(WIDE, (X, Y), method, key=2, checkpoint=tmp_path / "run")
    for a, b in zip(*(jax.tree.leaves(each) for each in (expected, resumed)), strict=True):
        np.testing.assert_array_equal(a, b)
    for name, values in expected.record.history.items():
        np.testing.assert_array_equal(values, resumed.record.history[name])


def test_an_optimizer_of_ones_own_resumes_and_is_saved(tmp_path):
    def method():
        return credo.MAP(num_steps=40, batch_size=10, optimizer=optax.adamw(0.01))

    def stop(step, posterior):
        raise KeyboardInterrupt

    expected = credo.fit(MODEL, (X, Y), method())
    with pytest.raises(KeyboardInterrupt):
        credo.fit(
            MODEL, (X, Y), method(), checkpoint=tmp_path / "run", checkpoint_seconds=0,
            observe_every=10, observe=stop,
        )  # fmt: skip
    resumed = credo.fit(MODEL, (X, Y), method(), checkpoint=tmp_path / "run")
    credo.save(resumed, tmp_path / "model")
    loaded = credo.load(tmp_path / "model")
    for a, b in zip(*(jax.tree.leaves(each.draws) for each in (expected, loaded)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_too_few_rows_to_hold_out():
    with pytest.raises(credo.CredoError, match="needs at least 2 rows"):
        credo.fit(MODEL, (X[:1], Y[:1]), credo.MAP(validation_fraction=0.5))
