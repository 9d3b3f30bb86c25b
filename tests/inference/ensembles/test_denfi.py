"""The deep ensemble filter: a Kalman filter on linear models, a warm start on others."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import credo
from credo.engine import loop, stack
from credo.inference.ensembles import denfi
from credo.networks import MLP
from tests.inference.ensembles.test_ensemble import are_draws_of, weights
from tests.inference.normal.test_exact import COVARIANCE, DESIGN, MEAN, MODEL, NOISE, PRIOR, X, Y

pytestmark = pytest.mark.usefixtures("float64")

FILTER = credo.DEnFi(
    size=250, memory="new", covariance="full", relative=False, inflation=0.0, learning_rate=0.1,
    num_steps=400, update_steps=400,
)  # fmt: skip
PARTS = (slice(0, 5), slice(5, 9), slice(9, 15))


def kalman(inflation, parts=PARTS):
    """The filter of a random walk of variance q², written out."""
    mean, covariance = np.zeros(3), PRIOR**2 * np.eye(3)
    for index, part in enumerate(parts):
        covariance = covariance + (index > 0) * inflation**2 * np.eye(3)
        design = DESIGN[part]
        innovation = design @ covariance @ design.T + NOISE**2 * np.eye(len(design))
        gain = covariance @ design.T @ np.linalg.inv(innovation)
        mean = mean + gain @ (Y[part] - design @ mean)
        covariance = covariance - gain @ design @ covariance
    return mean, covariance


def filtered(method, monkeypatch):
    """Updated part by part, with the filter's own covariance in place of the ensemble's."""
    posterior = credo.fit(MODEL, (X[PARTS[0]], Y[PARTS[0]]), method)
    for index, part in enumerate(PARTS[1:], start=1):
        _, covariance = kalman(method.inflation, PARTS[:index])
        forecast = covariance + method.inflation**2 * np.eye(3)
        precision = jnp.asarray(np.linalg.inv(forecast))
        monkeypatch.setattr(denfi, "anchor_precision", lambda *_, p=precision: p)
        posterior = credo.update(posterior, (X[part], Y[part]))
    return weights(posterior)


def test_without_inflation_the_filter_is_the_batch_posterior(monkeypatch):
    mean, covariance = kalman(0.0)
    np.testing.assert_allclose(mean, MEAN, rtol=1e-10)  # the filter written out is right
    np.testing.assert_allclose(covariance, COVARIANCE, rtol=1e-10)
    assert are_draws_of(filtered(FILTER, monkeypatch), MEAN, COVARIANCE)


def test_with_inflation_it_is_the_kalman_filter_of_a_random_walk(monkeypatch):
    draws = filtered(dataclasses.replace(FILTER, inflation=0.4), monkeypatch)
    assert are_draws_of(draws, *kalman(0.4))
    assert not are_draws_of(draws, *kalman(0.0))  # so the test tells them apart


def test_targets_without_noise_are_caught(monkeypatch):
    """Planted: all members see the same new targets, and their spread collapses."""
    monkeypatch.setattr(denfi, "with_noisy_targets", lambda target, key, batch: batch)
    broken = dataclasses.replace(FILTER, size=249)  # another size compiles anew
    assert not are_draws_of(filtered(broken, monkeypatch), MEAN, COVARIANCE)


def test_the_ensemble_itself_gives_the_covariance_that_stands_for_old_data():
    rng = np.random.default_rng(0)
    members = [{"w": rng.normal(size=3) * [1.0, 2.0, 3.0]} for _ in range(7)]
    flat = np.stack([member["w"] for member in members])
    stacked = stack(members)
    full = denfi.anchor_precision(dataclasses.replace(FILTER, size=7), stacked)
    np.testing.assert_allclose(full, np.linalg.inv(np.cov(flat.T)), rtol=1e-10)
    own = dataclasses.replace(FILTER, size=7, covariance="diagonal", radius=0.5)
    expected = 1 / flat.var(0, ddof=1) + 2
    np.testing.assert_allclose(denfi.anchor_precision(own, stacked), expected, rtol=1e-10)


def test_old_data_are_held_with_the_covariance_after_inflation():
    """P + q², not P: the walk is part of the forecast."""
    method = dataclasses.replace(FILTER, size=40, inflation=0.8)
    before = credo.fit(MODEL, (X[:5], Y[:5]), method)
    starts = denfi.inflated_starts(method, before, jax.random.key(0))
    moved = [s.center["network"]["dense0"] for s in starts]
    inflated = np.array([[m["b"][0], *m["w"][:, 0]] for m in moved])
    np.testing.assert_allclose(starts[0].precision, np.linalg.inv(np.cov(inflated.T)), rtol=1e-8)
    members = np.cov(weights(before).T)
    assert not np.allclose(starts[0].precision, np.linalg.inv(members), rtol=0.5)


def test_an_update_at_another_temperature():
    """Localised at its start: (Λ/T + I/r)⁻¹ (Λμ/T + θ̃/r)."""
    method = credo.DEnFi(
        size=2, inflation=0.0, radius=0.05, learning_rate=0.1, num_steps=500, update_steps=900
    )
    before = credo.fit(MODEL, (X[:5], Y[:5]), method, temperature=4.0)
    after = credo.update(before, (X, Y))
    start, precision = weights(before)[0], np.linalg.inv(COVARIANCE) / 4
    expected = np.linalg.solve(precision + np.eye(3) / 0.05, precision @ MEAN + start / 0.05)
    np.testing.assert_allclose(weights(after)[0], expected, rtol=1e-5)


def test_two_updates_with_one_key_have_noise_of_their_own():
    method = credo.DEnFi(
        size=3, inflation=0.3, relative=False, learning_rate=1e-9, num_steps=5, update_steps=1
    )
    first = credo.fit(MODEL, (X, Y), method)
    second = credo.update(first, (X, Y), key=3)
    third = credo.update(second, (X, Y), key=3)
    steps = weights(second) - weights(first), weights(third) - weights(second)
    assert np.abs(steps[0] - steps[1]).min() > 1e-3
    again = credo.update(credo.update(first, (X, Y), key=3), (X, Y), key=3)
    np.testing.assert_array_equal(weights(again), weights(third))


LABELS = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
CLASSES = credo.Model(MLP(hidden=(5,)), credo.likelihoods.Categorical(3))
ONE = credo.DEnFi(size=1, inflation=0.0, num_steps=50, update_steps=30, batch_size=100)


def test_an_update_with_fewer_rows_than_before_is_said():
    data = (X[:10], Y[:10])
    filtered = credo.fit(MODEL, data, credo.DEnFi(size=2, num_steps=2, update_steps=2))
    with pytest.warns(credo.CredoWarning, match="3 rows, fewer than the 10 before"):
        shorter = credo.update(filtered, (X[:3], Y[:3]))
    assert shorter.record.num_data == 3
    only_new = credo.fit(MODEL, data, credo.DEnFi(2, num_steps=2, update_steps=2, memory="new"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        credo.update(filtered, (X[:12], Y[:12]))
        credo.update(only_new, (X[:3], Y[:3]))


def test_one_member_without_inflation_is_a_plain_warm_start():
    before = credo.fit(CLASSES, (X[:8], LABELS[:8]), ONE)
    after = credo.update(before, (X, LABELS))
    target = credo.model.Target(CLASSES, 15, (2,))
    batch = credo.model.Batch(X, LABELS)
    params = jax.tree.map(lambda leaf: leaf[0, 0], before.draws)
    rule = optax.adam(optax.cosine_decay_schedule(1e-3, 30))
    memory = rule.init(params)
    gradient = jax.jit(jax.grad(lambda p: -target.log_joint(p, batch) / 15))
    for _ in range(30):
        updates, memory = rule.update(gradient(params), memory)
        params = optax.apply_updates(params, updates)
    for a, b in zip(jax.tree.leaves(after.draws), jax.tree.leaves(params), strict=True):
        np.testing.assert_allclose(a[0, 0], b, rtol=1e-9)


def test_a_stream_of_single_labels_compiles_once():
    posterior = credo.fit(CLASSES, (X[:8], LABELS[:8]), ONE)
    posterior = credo.update(posterior, (X[:9], LABELS[:9]), key=1)
    before = loop._advance._cache_size()
    for count in range(10, 16):
        posterior = credo.update(posterior, (X[:count], LABELS[:count]), key=count)
    assert loop._advance._cache_size() == before
    credo.update(posterior, (np.tile(X, (2, 1)), np.tile(LABELS, 2)), key=0)
    assert loop._advance._cache_size() > before  # so the counter counts


def test_batches_of_an_update_are_drawn_from_the_rows_that_are_there():
    """Padding, whose y is 0, would pull the prediction away from 3."""
    y = np.full(30, 3.0)
    model = credo.Model(
        MLP(hidden=()), credo.likelihoods.Normal(1.0), credo.priors.NormalPrior(100.0)
    )
    method = credo.DEnFi(size=1, inflation=0.0, learning_rate=0.1, update_steps=600, batch_size=5)
    before = credo.fit(model, (np.ones((3, 1)), np.zeros(3)), method)
    after = credo.update(before, (np.ones((30, 1)), y), key=1)
    np.testing.assert_allclose(credo.predict(after, np.ones((1, 1))).mean, 3.0, rtol=1e-3)


def test_localisation_is_a_prior_at_the_inflated_member():
    """On a linear model: (Λ + I/r)⁻¹ (Λ μ + θ̃/r); without a bound the posterior's mode."""
    method = credo.DEnFi(
        size=2, inflation=0.3, relative=False, learning_rate=0.1, num_steps=500, update_steps=900
    )
    before = credo.fit(MODEL, (X[:5], Y[:5]), method)
    free = credo.update(before, (X, Y), key=1)
    np.testing.assert_allclose(weights(free), [MEAN, MEAN], rtol=1e-5)
    local = dataclasses.replace(method, radius=0.01)
    first = jax.random.fold_in(jax.random.key(1), 1)  # of the first update
    start = denfi.inflated_starts(local, before, jax.random.split(first)[0])
    moved = [s.center["network"]["dense0"] for s in start]
    inflated = np.array([[m["b"][0], *m["w"][:, 0]] for m in moved])
    precision = np.linalg.inv(COVARIANCE)
    expected = np.linalg.solve(
        precision + np.eye(3) / 0.01, (precision @ MEAN + inflated / 0.01).T
    ).T
    np.testing.assert_allclose(weights(credo.update(before, (X, Y), local, 1)), expected, rtol=1e-5)


def test_inflation_is_relative_to_each_layer_or_absolute():
    params = {"small": 1e-3 * np.ones(20_000), "large": 10.0 * np.ones(20_000)}
    moved = denfi.inflate(jax.random.key(0), params, 0.2, relative=True)
    spread = {name: np.std(moved[name]) for name in params}
    assert spread == pytest.approx({"small": 2e-4, "large": 2.0}, rel=0.03)
    layer = {"w": 2.0 * np.ones(20_000), "b": np.zeros(20_000)}  # a bias that has not moved yet
    moved = denfi.inflate(jax.random.key(0), {"dense0": layer}, 0.2, relative=True)
    assert np.std(moved["dense0"]["b"]) == pytest.approx(0.2 * 2**0.5, rel=0.03)
    moved = denfi.inflate(jax.random.key(0), params, 0.2, relative=False)
    assert {n: np.std(moved[n]) for n in params} == pytest.approx(
        {"small": 0.2, "large": 0.2}, rel=0.03
    )


def test_an_update_is_saved_and_updated_again(tmp_path):
    method = dataclasses.replace(ONE, size=2, inflation=0.1)
    posterior = credo.fit(CLASSES, (X[:8], LABELS[:8]), method)
    posterior = credo.update(posterior, (X[:12], LABELS[:12]), key=1)
    credo.save(posterior, tmp_path / "filter.safetensors")
    loaded = credo.load(tmp_path / "filter.safetensors")
    assert loaded.record.method == "denfi"
    again = [credo.update(p, (X, LABELS), key=2) for p in (posterior, loaded)]
    np.testing.assert_array_equal(*(credo.predict(p, X).probs for p in again))


@pytest.mark.filterwarnings("ignore::credo.CredoWarning")  # a chain far too short
def test_draws_of_one_chain_are_members_too():
    """Ten draws of a chain are ten members, not ten times the first."""
    chain = credo.SGLD(num_samples=4, num_warmup=20, num_chains=1, thin=20, learning_rate=0.1)
    drawn = credo.fit(CLASSES, (X, LABELS), chain)
    method = credo.DEnFi(size=4, inflation=0.0, update_steps=1, learning_rate=1e-9)
    after = credo.update(drawn, (X, LABELS), method)
    for a, b in zip(jax.tree.leaves(after.draws), jax.tree.leaves(drawn.draws), strict=True):
        np.testing.assert_allclose(a[:, 0], b[0], atol=1e-6)


def test_a_radius_of_infinity_is_none():
    assert credo.DEnFi(radius=np.inf) == credo.DEnFi()


def test_what_cannot_be_updated_says_so():
    with pytest.raises(credo.CredoError, match="at least 2"):
        credo.DEnFi(size=1, memory="new")
    with pytest.raises(credo.CredoError, match=r"needs credo.DEnFi\(\), got 'map'"):
        credo.update(credo.fit(CLASSES, (X, LABELS), ONE), (X, LABELS), "map")
    offset = credo.Ensemble(credo.MAP(num_steps=5), 1, prior_function=1.0)
    with pytest.raises(credo.CredoError, match="prior functions"):
        credo.update(credo.fit(CLASSES, (X, LABELS), offset), (X, LABELS), ONE)
    point = credo.fit(CLASSES, (X, LABELS), credo.MAP(num_steps=5))
    with pytest.raises(credo.CredoError, match="only an ensemble of"):
        credo.update(point, (X, LABELS))
    with pytest.raises(credo.CredoError, match="ensemble of 1 networks"):
        credo.update(
            credo.fit(CLASSES, (X, LABELS), credo.Ensemble(credo.MAP(num_steps=5))),
            (X, LABELS),
            ONE,
        )
    few = dataclasses.replace(FILTER, size=3)
    three = credo.fit(MODEL, (X, Y), few)
    with pytest.raises(credo.CredoError, match="more members than weights"):
        credo.update(three, (X, Y))
    with pytest.raises(credo.CredoError, match="rows of shape"):
        credo.update(credo.fit(CLASSES, (X, LABELS), ONE), (X[:, :1], LABELS))
