"""Predictions: mixtures against scipy, batches and padding that leave no trace, bounded memory."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy import special, stats

import credo
from credo.likelihoods import Bernoulli, Categorical, Normal
from credo.networks import MLP
from credo.posterior import Record, Samples
from credo.predictive import CategoricalPredictive, NormalPredictive

pytestmark = pytest.mark.usefixtures("float64")

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.ones(4), size=(7, 5))  # (draw, row, class)
CLASSES = CategoricalPredictive(
    PROBS.mean(axis=0), stats.entropy(PROBS, axis=-1).mean(axis=0), draw_probs=PROBS
)
Y = np.array([0, 3, 1, 2, 2])
MEANS = RNG.normal(size=(6, 5, 2))
SCALES = RNG.uniform(0.1, 1.5, size=(6, 5, 2))
MIXTURE = NormalPredictive(MEANS, SCALES)
TARGETS = RNG.normal(size=(5, 2))


def posterior(likelihood, num_draws=6):
    """A posterior of random draws, without a fit."""
    model = credo.Model(MLP(hidden=(3,), activation="tanh"), likelihood)
    template = jax.eval_shape(lambda: model.init(jax.random.key(0), (2,)))
    rng = np.random.default_rng(1)
    draws = jax.tree.map(lambda leaf: rng.normal(size=(2, num_draws // 2, *leaf.shape)), template)
    return Samples(model, draws, Record((2,)))


def outputs(posterior, x):
    """Outputs of every draw, (draw, row, output), in NumPy."""
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), posterior.draws)
    first, second = flat["network"]["dense0"], flat["network"]["dense1"]
    hidden = np.tanh(x @ first["w"] + first["b"][:, None])
    return hidden @ second["w"] + second["b"][:, None]


def test_class_entropies_and_information():
    np.testing.assert_allclose(CLASSES.entropy, stats.entropy(PROBS.mean(axis=0), axis=1))
    information = stats.entropy(PROBS.mean(axis=0), axis=1) - CLASSES.expected_entropy
    np.testing.assert_allclose(CLASSES.mutual_information, information)
    assert np.all(CLASSES.mutual_information > 0)
    np.testing.assert_allclose(CLASSES.log_prob(Y), np.log(PROBS.mean(axis=0)[np.arange(5), Y]))


def test_draws_that_agree_hold_no_information_and_opposite_ones_log_two():
    same = CategoricalPredictive(PROBS[0], stats.entropy(PROBS[0], axis=1))
    np.testing.assert_allclose(same.mutual_information, 0, atol=1e-12)
    opposite = CategoricalPredictive(np.array([[0.5, 0.5]]), np.zeros(1))  # {(1, 0), (0, 1)}
    np.testing.assert_allclose(opposite.mutual_information, np.log(2))


@pytest.mark.parametrize("likelihood", [Categorical(3), Bernoulli()])
def test_classes_are_averaged_as_probabilities(likelihood):
    x = RNG.normal(size=(9, 2))
    logits = outputs(posterior(likelihood), x)
    if logits.shape[-1] == 1:
        logits = np.concatenate([np.zeros_like(logits), logits], axis=-1)
    probs = special.softmax(logits, axis=-1)
    predicted = credo.predict(posterior(likelihood), x, keep_draws=True)
    np.testing.assert_allclose(predicted.draw_probs, probs, rtol=1e-10)
    np.testing.assert_allclose(predicted.probs, probs.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(
        predicted.expected_entropy, stats.entropy(probs, axis=-1).mean(axis=0), rtol=1e-8
    )


def test_moments_of_a_mixture():
    np.testing.assert_allclose(MIXTURE.mean, MEANS.mean(axis=0))
    np.testing.assert_allclose(MIXTURE.aleatoric_variance, (SCALES**2).mean(axis=0))
    second = (SCALES**2 + MEANS**2).mean(axis=0)
    np.testing.assert_allclose(MIXTURE.variance, second - MEANS.mean(axis=0) ** 2)
    np.testing.assert_allclose(MIXTURE.std**2, MIXTURE.variance)


def test_log_density_of_a_mixture():
    by_draw = stats.norm.logpdf(TARGETS, MEANS, SCALES).sum(axis=-1)
    expected = special.logsumexp(by_draw, axis=0) - np.log(6)
    np.testing.assert_allclose(MIXTURE.log_prob(TARGETS), expected, rtol=1e-12)
    assert not np.allclose(by_draw.mean(axis=0), expected)  # planted: the mean of the logs
    far = NormalPredictive(MEANS + 1e3, 1e-2 * SCALES).log_prob(TARGETS)
    assert np.isfinite(far).all()


def test_entropies_of_normals():
    entropies = stats.norm.entropy(MEANS, SCALES).mean(axis=0).sum(axis=1)
    np.testing.assert_allclose(MIXTURE.expected_entropy, entropies)
    whole = stats.norm.entropy(0, MIXTURE.std).sum(axis=1)
    np.testing.assert_allclose(MIXTURE.mutual_information, whole - entropies)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.999])
@pytest.mark.parametrize("shift", [0.0, 1e9])
def test_intervals_hold_their_level(level, shift):
    predicted = MIXTURE.rescaled(shift, 10.0)
    below, above = (
        stats.norm.cdf(bound, predicted.means, predicted.scales).mean(axis=0)
        for bound in predicted.interval(level)
    )
    tolerance = 1e-9 if shift == 0 else 1e-6
    np.testing.assert_allclose(below, (1 - level) / 2, atol=tolerance)
    np.testing.assert_allclose(above - below, level, atol=tolerance)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 95])
def test_a_level_lies_between_0_and_1(level):
    with pytest.raises(credo.CredoError, match="level"):
        MIXTURE.interval(level)


def test_rescaling_is_a_change_of_units():
    shift, factor = np.array([3.0, -1.0]), np.array([2.0, 0.5])
    scaled = MIXTURE.rescaled(shift, factor)
    np.testing.assert_allclose(scaled.mean, shift + factor * MIXTURE.mean)
    np.testing.assert_allclose(scaled.std, factor * MIXTURE.std)
    jacobian = np.log(factor).sum()
    np.testing.assert_allclose(
        scaled.log_prob(shift + factor * TARGETS), MIXTURE.log_prob(TARGETS) - jacobian
    )


NORMALS = [Normal(0.3), Normal("learned", 2), Normal("by_input", 2)]


@pytest.mark.parametrize("likelihood", NORMALS)
def test_normal_draws_become_a_mixture(likelihood):
    x = RNG.normal(size=(9, 2))
    fitted = posterior(likelihood)
    found = outputs(fitted, x)
    if likelihood.scale == "by_input":
        means, scales = found[..., :2], np.logaddexp(0, found[..., 2:]) + 1e-3
    elif likelihood.scale == "learned":
        log_scale = fitted.draws["likelihood"]["log_scale"].reshape(6, 1, 2)
        means, scales = found, np.exp(log_scale)
    else:
        means, scales = found, 0.3
    predicted = credo.predict(fitted, x)
    np.testing.assert_allclose(predicted.means, means, rtol=1e-10)
    np.testing.assert_allclose(predicted.scales, np.broadcast_to(scales, predicted.scales.shape))
    assert predicted.std.shape == ((9,) if means.shape[-1] == 1 else (9, 2))


@pytest.mark.parametrize("likelihood", [*NORMALS, Categorical(3)], ids=repr)
@pytest.mark.parametrize("num_rows", [1, 2, 17, 40])
def test_batches_and_padding_leave_no_trace(likelihood, num_rows, monkeypatch):
    x = np.random.default_rng(2).normal(size=(num_rows, 2))
    fitted = posterior(likelihood)
    whole = credo.predict(fitted, x)
    module = importlib.import_module("credo.predictive.predict")
    monkeypatch.setattr(module, "BATCH_ROWS", 16)
    batched = credo.predict(fitted, x)
    assert len(batched.mean) == num_rows
    if isinstance(batched, NormalPredictive):
        target = np.zeros(batched.means.shape[1:])
        pairs = [(whole.log_prob(target), batched.log_prob(target)), (whole.std, batched.std)]
        pairs += zip(whole.interval(), batched.interval(), strict=True)
    else:
        pairs = [(whole.probs, batched.probs), (whole.expected_entropy, batched.expected_entropy)]
    for first, second in pairs:
        assert len(first) == num_rows
        np.testing.assert_allclose(first, second, rtol=1e-10)


def test_a_part_of_the_draws_is_drawn_without_repetition():
    fitted = posterior(Categorical(3), num_draws=40)
    every = credo.predict(fitted, np.ones((1, 2)), num_draws=1000, keep_draws=True).draw_probs
    some = [credo.predict(fitted, np.ones((1, 2)), 30, key, True).draw_probs for key in (0, 0, 1)]
    assert len(every) == 40 and len(np.unique(some[0], axis=0)) == len(some[0]) == 30
    np.testing.assert_array_equal(some[0], some[1])
    assert not np.array_equal(some[0], some[2])


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.ones((3, 4)), r"rows of shape \(2,\), got \(4,\)"),
        (np.ones(2), "shape"),
        (np.ones((0, 2)), "no rows"),
        (np.array([[1.0, np.nan]]), "NaN"),
        (np.array([[1.0, np.inf]]), "infinite"),
        (np.array([["a", "b"]]), "numbers"),
        (np.array([[None, 1.0]]), "numbers"),
        (3.0, "shape"),
    ],
)
def test_bad_inputs_are_refused(x, words):
    with pytest.raises(credo.CredoError, match=words):
        credo.predict(posterior(Categorical(3)), x)


@pytest.mark.parametrize("num_draws", [0, -3])
def test_at_least_one_draw(num_draws):
    with pytest.raises(credo.CredoError, match="at least 1 draw"):
        credo.predict(posterior(Categorical(3)), np.ones((1, 2)), num_draws)


MEMORY = r"""
import re, sys
from pathlib import Path
import jax, numpy as np
import credo
from credo.likelihoods import Categorical, Normal
from credo.posterior import Record, Samples

peak = lambda: int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024
likelihood = {"classes": Categorical(10), "normal": Normal(0.5)}[sys.argv[1]]
model = credo.Model(credo.networks.MLP(hidden=(8,)), likelihood)
template = jax.eval_shape(lambda: model.init(jax.random.key(0), (4,)))
rng = np.random.default_rng(0)
draws = jax.tree.map(lambda leaf: rng.normal(size=(1, 50, *leaf.shape)), template)
posterior = Samples(model, draws, Record((4,)))
x = rng.normal(size=(200_000, 4)).astype(np.float32)
credo.predict(posterior, x[:1024], 50)
before = peak()
predicted = credo.predict(posterior, x, 50, keep_draws="keep" in sys.argv)
predicted.log_prob(np.zeros(200_000, int)), predicted.entropy
print(peak() - before)
"""


def megabytes(*arguments):
    """Memory that a prediction of 200,000 rows × 50 draws needs on top, in a process of its own."""
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, *arguments],
        cwd=root, env=os.environ | {"JAX_ENABLE_X64": "0"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return float(done.stdout)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory read from /proc")
def test_memory_is_bounded():
    """200,000 rows × 50 draws × 10 classes are 400 MB if stacked, and 30 MB were needed.

    Beside the summaries there is one batch of rows at a time, so the number of draws does not
    matter: 1,000,000 rows × 100 draws × 10 classes (4 GB) took 80 MB. A regression keeps a mean
    for every draw and row, here 40 MB, and 400 MB for 1,000,000 × 100; nothing else is as large.
    """
    assert megabytes("classes") < 60
    assert megabytes("normal") < 80
    assert megabytes("classes", "keep") > 300  # so the measure sees what is stacked
