"""Auto: folds that never leak, weights that are the likeliest, and what a user gets of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import optimize

import credo
from credo.data.features import TableFeatures
from credo.inference.auto import calibration, kinds
from credo.inference.auto.folds import fold_order, in_folds
from credo.model import Batch, Target

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(61, 3))
CLASSES = (X[:, 0] + 0.5 * RANDOM.normal(size=61) > 0).astype(int)
VALUES = np.sin(2 * X[:, 0]) + 0.3 * RANDOM.normal(size=61)
QUICK = credo.Auto(num_steps=60, batch_size=16, width=8)


def folds_of(rows, y, num_folds):
    batch = Batch(jnp.asarray(rows), jnp.asarray(y))
    target = Target(credo.default_model(2), len(y), (3,))
    return in_folds(target, batch, num_folds, seed=3)


@pytest.mark.parametrize("num_folds", [2, 3, 4, 5])
@pytest.mark.parametrize("count", [8, 31, 61])
def test_an_epoch_has_every_row_outside_the_fold_once(num_folds, count):
    folds = folds_of(X[:count], CLASSES[:count], num_folds)
    numbers = np.asarray(folds.rows.row)
    assert sorted(numbers[numbers >= 0]) == list(range(count))
    for fold in range(num_folds):
        own = np.asarray(folds.of_fold(jnp.asarray(fold)).row)
        own = set(own[own >= 0])
        others = count - len(own)
        size = 2
        seen = []
        for step in range(others // size):
            batch = folds.batch(jax.random.key(0), jnp.asarray(step), jnp.asarray(fold), size)
            seen += np.asarray(batch.row)[np.asarray(batch.row) >= 0].tolist()
        assert len(seen) == len(set(seen)) >= others - size + 1
        assert not own & set(seen)


def test_a_batch_larger_than_the_data_leaves_the_fold_out():
    folds = folds_of(X[:9], CLASSES[:9], 4)
    batch = folds.batch(jax.random.key(0), jnp.asarray(0), jnp.asarray(1), 1000)
    own = np.asarray(folds.of_fold(jnp.asarray(1)).row)
    rows = np.asarray(batch.row)
    assert set(rows[rows >= 0]) == set(range(9)) - set(own[own >= 0])


def test_folds_resemble_each_other():
    y = np.repeat([0, 1, 2], [40, 12, 4])
    order = fold_order(y, True, 4, seed=0)
    counts = [np.bincount(y[order[fold::4]], minlength=3).tolist() for fold in range(4)]
    assert counts == [[10, 3, 1]] * 4
    values = np.sort(RANDOM.normal(size=40))
    order = fold_order(values, False, 4, seed=0)
    means = [values[order[fold::4]].mean() for fold in range(4)]
    shuffled = [values[RANDOM.permutation(40)[fold::4]].mean() for fold in range(4)]
    assert np.std(means) < 0.1 < np.std(shuffled) + 0.1


def test_rows_of_a_fold_teach_its_members_nothing():
    """Targets of one fold turned around change what its members keep, not what they learn."""
    order = fold_order(VALUES, False, 2, 3)
    turned = VALUES.copy()
    turned[order[0::2]] *= -1
    first, second = weights_after(VALUES, order), weights_after(turned, order)
    np.testing.assert_array_equal(first[0], second[0])
    assert not np.array_equal(first[1], second[1])  # the members of the other fold


def weights_after(y, order):
    """Weights of the members of both folds after their last step, rows in a given order."""
    from credo.data.source import resident, with_capacity
    from credo.engine import run
    from credo.inference.auto.auto import _member
    from credo.inference.auto.folds import Folds
    from credo.inference.auto.members import Members

    model = credo.Model(credo.networks.TabularNetwork((4,)), credo.likelihoods.NormalMixture(2))
    rows = with_capacity(Batch(jnp.asarray(X[order]), jnp.asarray(y[order])[:, None]), 64)
    target = Target(model, len(y), (3,))
    folds = Folds(target, rows, jnp.asarray(len(y), jnp.int32), 2)
    starts = [_member(target, credo.data.Units(), kinds.PLAIN, fold) for fold in range(2)]
    done = run(Members(2, 25, 8), folds, resident(()), 0, starts)
    return np.asarray(done.states.weights)


def test_weights_of_kinds_are_the_likeliest():
    log_probs = RANDOM.normal(size=(200, 3)) + np.array([0.0, 0.3, -0.2])
    counts = RANDOM.integers(0, 3, size=200).astype(float)
    found = calibration._mixture_weights(jnp.asarray(log_probs), jnp.asarray(counts), 0.0)

    def loss(logits):
        weights = np.exp(logits - np.logaddexp.reduce(logits))
        return -np.sum(counts * np.log(np.exp(log_probs) @ weights))

    # Per row: the first step of BFGS is the whole gradient, and leaves the simplex's interior.
    best = optimize.minimize(lambda logits: loss(logits) / counts.sum(), np.zeros(3)).x
    reached = loss(np.log(np.maximum(found, 1e-30)))
    assert loss(best) - 1e-3 <= reached <= loss(best) + 0.1
    assert loss(np.zeros(3)) > loss(best) + 0.5  # the control: not any weights


def test_a_useless_kind_loses_its_weight():
    good = RANDOM.normal(size=100)
    log_probs = np.stack([good, good - 3.0], axis=1)
    found = calibration._mixture_weights(jnp.asarray(log_probs), jnp.ones(100), 0.0)
    assert found[0] > 0.99


@pytest.fixture(scope="module")
def classifier():
    units = credo.data.Units.standardizing(X)
    return credo.fit(credo.default_model(2), (X, CLASSES), QUICK, 0, units=units)


def test_members_count_by_their_weights(classifier):
    """What is predicted is the weighted average over members, one of which knows nothing."""
    weights = np.asarray(classifier.weights).ravel()
    assert weights.sum() == pytest.approx(1, abs=1e-6) and weights[-1] == pytest.approx(1e-4)
    predicted = credo.predict(classifier, X, keep_draws=True)
    expected = np.tensordot(weights, predicted.draw_probs, 1)
    np.testing.assert_allclose(predicted.probs, expected, atol=1e-5)
    np.testing.assert_allclose(predicted.draw_probs[-1], 0.5, atol=1e-6)
    assert predicted.mutual_information.max() > 1e-3
    plain = predicted.draw_probs.mean(axis=0)
    assert np.abs(plain - predicted.probs).max() > 1e-3  # the control: weights matter


def test_it_says_what_it_chose(classifier):
    (note,) = classifier.record.notes
    assert "6 kinds of networks x 4 folds" in note and "%" in note and "logits x" in note


def test_a_quantity_keeps_its_units_and_survives_a_file(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "yes", "no")})
    frame["price"] = 1e4 + 1e3 * VALUES
    encoder = credo.data.fit_encoder(frame, "price", "regression")
    units = credo.data.Units.of_table(encoder)
    posterior = credo.fit(credo.default_model(None), (frame, frame["price"]), QUICK, units=units)
    predicted = credo.predict(posterior, frame)
    assert predicted.mean.min() > 8_000 and predicted.mean.max() < 12_000
    low, high = predicted.interval(0.9)
    assert 0.7 < np.mean((low < frame["price"]) & (frame["price"] < high)) <= 1
    credo.save(posterior, tmp_path / "model")
    again = credo.predict(credo.load(tmp_path / "model"), frame)
    np.testing.assert_array_equal(again.mean, predicted.mean)


def test_a_network_of_ones_own_is_kept():
    model = credo.Model(credo.networks.MLP((5,)), credo.likelihoods.Categorical(2))
    posterior = credo.fit(model, (X, CLASSES), QUICK)
    assert posterior.model.network == credo.networks.MLP((5,))
    assert "2 kinds of networks" in posterior.record.notes[0]


def test_images_have_a_network_without_features():
    images = RANDOM.random((40, 4, 4))
    posterior = credo.fit(credo.default_model(2), (images, CLASSES[:40]), QUICK)
    assert posterior.model.network == credo.networks.MLP((8, 8))
    assert credo.predict(posterior, images).probs.shape == (40, 2)


def test_few_rows_are_refused_or_fitted():
    with pytest.raises(credo.CredoError, match="at least 4 rows"):
        credo.fit(credo.default_model(2), (X[:3], np.array([0, 1, 0])), QUICK)
    posterior = credo.fit(credo.default_model(2), (X[:6], np.array([0, 1, 0, 1, 0, 1])), QUICK)
    assert np.isfinite(credo.predict(posterior, X).probs).all()


def test_sizes_share_programs():
    from credo.engine import loop

    credo.fit(credo.default_model(2), (X[:40], CLASSES[:40]), QUICK)
    before = loop._advance._cache_size()
    credo.fit(credo.default_model(2), (X[:60], CLASSES[:60]), QUICK, 1)
    assert loop._advance._cache_size() - before <= 1  # edges of the code may differ in number


def test_features_are_what_they_say():
    x = np.stack([np.arange(101.0), RANDOM.choice([3.0, 5.0], 101), np.full(101, 2.0)], axis=1)
    features = TableFeatures.learn(x)
    assert features.sizes == {"plain": 1, "scores": 1, "steps": 8, "flags": 2}
    encoded = features(x)
    middle = encoded[50]
    np.testing.assert_allclose(middle[:2], 0.0, atol=0.02)
    assert encoded[0, 2:10].tolist() == [0.0] * 8 and encoded[100, 2:10].tolist() == [1.0] * 8
    assert (np.diff(encoded[:, 0]) > 0).all() and np.abs(encoded[:, 0]).max() < 3
    assert set(encoded[:, 10]) == {0.0, 1.0} and set(encoded[:, 11]) == {0.0}
    outside = features(np.array([[1e9, 4.0, 2.0]]))
    assert np.isfinite(outside).all() and outside[0, 0] <= 3.0
    with pytest.raises(credo.CredoError, match="3 columns"):
        features(x[:, :2])
