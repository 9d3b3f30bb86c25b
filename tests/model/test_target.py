"""The log joint: its value, the scaling of minibatches, and the temperature."""

import jax
import numpy as np
import pytest
from scipy import special, stats

import credo
from credo.data.batches import batch_indices
from credo.likelihoods import Bernoulli, Categorical, Normal
from credo.model import Batch, Target
from credo.networks import MLP
from credo.priors import LayerPrior

pytestmark = pytest.mark.usefixtures("float64")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
LABELS = RNG.integers(4, size=12)
VALUES = RNG.normal(size=(12, 2))
PRIOR = LayerPrior({"dense0": 0.5, "dense1": 2.0})


def classifier(temperature=1.0):
    model = credo.Model(MLP(hidden=(5,), activation="tanh"), Categorical(4), PRIOR)
    params = jax.tree.map(lambda leaf: leaf + 0.1, model.init(jax.random.key(0), (3,)))
    return Target(model, 12, (3,), temperature), params


def by_hand(params, x):
    """Network outputs and log prior without the likelihood's parameters."""
    first, second = params["network"]["dense0"], params["network"]["dense1"]
    outputs = np.tanh(x @ np.asarray(first["w"]) + first["b"]) @ np.asarray(second["w"])
    scales = {"dense0": 0.5, "dense1": 2.0}
    log_prior = sum(
        stats.norm.logpdf(leaf, 0, scales[name]).sum()
        for name, layer in params["network"].items()
        for leaf in layer.values()
    )
    return outputs + np.asarray(second["b"]), log_prior


def test_classification_by_hand():
    target, params = classifier()
    outputs, log_prior = by_hand(params, X)
    log_likelihood = special.log_softmax(outputs, axis=1)[np.arange(12), LABELS].sum()
    actual = target.log_joint(params, Batch(X, LABELS))
    np.testing.assert_allclose(actual, log_likelihood + log_prior, rtol=1e-12)


def test_regression_with_learned_noise_by_hand():
    model = credo.Model(MLP(hidden=(5,), activation="tanh"), Normal("learned", 2), PRIOR)
    params = model.init(jax.random.key(0), (3,))
    params["likelihood"]["log_scale"] = np.array([0.3, -0.7])
    outputs, log_prior = by_hand(params, X)
    scale = np.exp([0.3, -0.7])
    expected = stats.norm.logpdf(VALUES, outputs, scale).sum() + log_prior
    expected += stats.norm.logpdf([0.3, -0.7]).sum()  # a priori log σ ~ N(0, 1)
    actual = Target(model, 12, (3,)).log_joint(params, Batch(X, VALUES))
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


@pytest.mark.parametrize("batch_size", [3, 12])
def test_minibatches_are_unbiased(batch_size):
    target, params = classifier()
    log_joint = jax.jit(target.log_joint)
    full = log_joint(params, Batch(X, LABELS))
    epoch = [
        np.asarray(batch_indices(jax.random.key(3), step, 12, batch_size)[1])
        for step in range(12 // batch_size)
    ]
    batches = [Batch(X[rows], LABELS[rows]) for rows in epoch]
    np.testing.assert_allclose(np.mean([log_joint(params, b) for b in batches]), full, rtol=1e-12)
    if batch_size < 12:  # planted: a sum over the batch without N/B
        unscaled = [
            target.model.log_likelihood(params, b).sum() + target.log_prior(params) for b in batches
        ]
        assert not np.isclose(np.mean(unscaled), full, rtol=1e-2)


def test_temperature_divides_the_whole_log_joint():
    (warm, params), (cold, _) = classifier(), classifier(0.25)
    batch = Batch(X, LABELS)
    np.testing.assert_allclose(
        cold.log_joint(params, batch), 4 * warm.log_joint(params, batch), rtol=1e-12
    )


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan])
def test_a_temperature_is_positive(temperature):
    with pytest.raises(credo.CredoError, match="temperature"):
        classifier(temperature)


def test_wrong_output_shape_is_said():
    class Flat(MLP):
        def apply(self, params, x, noise=None):
            return x[:, :3]

    model = credo.Model(Flat(), Categorical(4))
    with pytest.raises(credo.CredoError, match=r"\(12, 3\).*\(12, 4\)"):
        model.outputs({"network": {}}, X)


@pytest.mark.parametrize(
    ("num_classes", "likelihood"),
    [(None, Normal("learned", 2)), (2, Bernoulli()), (5, Categorical(5))],
)
def test_default_model(num_classes, likelihood):
    assert credo.default_model(num_classes, num_targets=2).likelihood == likelihood
