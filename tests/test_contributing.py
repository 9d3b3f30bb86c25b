"""What CONTRIBUTING.md promises: a method, a likelihood, a saveable model, a source, a file each.

Each part of this module is such a file, written against the public interface and nothing else; the
tests fit, predict, save, load and resume with it. No file of credo is touched.
"""

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.data.source import Batch, Rows, Segment
from credo.engine import Plan
from credo.engine.checkpoint import Checkpoint
from credo.inference import METHODS
from credo.likelihoods import Likelihood
from credo.model.mixtures import MixturePredictive
from credo.networks import MLP
from credo.posterior.samples import one_network

pytestmark = [
    pytest.mark.usefixtures("quick_compilation"),
    pytest.mark.filterwarnings("ignore::credo.CredoWarning"),  # runs are short
]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2)).astype(np.float32)
Y = (X @ np.array([1.0, -2.0]) + 0.1 * RNG.normal(size=40)).astype(np.float32)
MODEL = credo.Model(MLP(hidden=()), credo.likelihoods.Normal(0.1))


def comes_back(thing, path):
    credo.save(thing, path)
    return credo.load(path)


# A method: θ ← θ + rate ∇ log p(θ, batch), the ascent by hand.


@dataclass(frozen=True)
class Ascent(credo.Method):
    """Plain gradient ascent on the log joint, averaged over its second half."""

    rate: float = 1e-4
    """Step size on the log joint."""
    num_steps: int = 200
    """Steps."""

    def plan(self, num_rows):
        return Plan(num_steps=self.num_steps, num_warmup=self.num_steps // 2, batch_size=16)

    def init(self, key, target, params, batch):
        return params

    def step(self, key, target, state, batch):
        value, gradient = jax.value_and_grad(target.log_joint)(state, batch)
        state = jax.tree.map(lambda w, g: w + self.rate * g, state, gradient)
        return state, {"log_joint": value}

    def keep(self, state):
        return state

    def posterior(self, target, states, kept):
        return one_network(target.model, jax.tree.map(lambda leaf: leaf[0].mean(axis=0), kept))


def test_a_method_is_a_file_and_one_line_in_the_registry(tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "ascent", Ascent)  # the line
    posterior = credo.fit(MODEL, (X, Y), "ascent", key=1)
    assert posterior.record.method == "ascent" and posterior.record.options["num_steps"] == 200
    exact = credo.fit(MODEL, (X, Y), credo.Exact())
    found = credo.predict(posterior, X).mean
    np.testing.assert_allclose(found, credo.predict(exact, X).mean, atol=0.2)
    again = comes_back(posterior, tmp_path / "ascent")
    np.testing.assert_array_equal(credo.predict(again, X).mean, found)
    pair = credo.fit(MODEL, (X, Y), credo.Ensemble("ascent", size=2))  # wrappers know it, too
    assert pair.num_draws == 2


# A likelihood: p(y | f) = exp(−|y − f| / b) / 2b, whose mode is the median.


@dataclass(frozen=True)
class Laplacian(Likelihood):
    """p(y | f) = exp(−|y − f| / b) / 2b: an outlier pulls no harder than any other row."""

    width: float = 0.5
    """b."""

    def __post_init__(self):
        if not 0 < self.width < np.inf:
            raise credo.CredoError(f"Laplacian: width must be positive, got {self.width}")

    @property
    def output_shape(self):
        return (1,)

    def log_prob(self, params, outputs, y):
        return -jnp.abs(y - outputs)[:, 0] / self.width - jnp.log(2 * self.width)

    def check(self, y):
        return np.asarray(y, float).reshape(-1, 1)

    def summarize(self, params, outputs):
        return {}, {"centers": outputs}

    def predictive(self, averaged, kept):
        return LaplacianPredictive(kept["centers"], np.full((1, 1, 1), self.width, np.float32))


@dataclass(frozen=True, repr=False)
class LaplacianPredictive(MixturePredictive):
    """An equal mixture of one such law per draw."""

    centers: np.ndarray
    """(draw, row, 1)."""
    widths: np.ndarray

    def _arrays(self):
        return self.centers, self.widths

    def _moments(self, centers, widths):
        return centers, np.broadcast_to(2 * widths**2, centers.shape)

    def _log_probs(self, y, centers, widths):
        return -np.abs(y - centers) / widths - np.log(2 * widths)

    def _cdfs(self, y, centers, widths):
        tail = 0.5 * np.exp(-np.abs(y - centers) / widths)
        return np.where(y < centers, tail, 1 - tail)

    def _draws(self, random, centers, widths):
        return random.laplace(centers, widths)

    def rescaled(self, shift, factor):
        return LaplacianPredictive(shift + factor * self.centers, factor * self.widths)


def test_a_likelihood_is_a_file(tmp_path):
    """One row in ten is 50 too high: the median does not care, and neither does this likelihood."""
    spoilt = Y + 50.0 * (np.arange(40) % 10 == 0)
    model = credo.Model(MLP(hidden=()), Laplacian(), credo.priors.NormalPrior(10.0))
    method = credo.MAP(num_steps=1500, learning_rate=0.02, batch_size=40)
    posterior = credo.fit(model, (X, spoilt), method)
    rest = np.arange(40) % 10 != 0
    predicted = credo.predict(posterior, X)
    assert np.abs(predicted.mean - Y)[rest].mean() < 0.5
    normal = credo.fit(
        dataclasses.replace(MODEL, likelihood=credo.likelihoods.Normal()), (X, spoilt), method
    )
    assert np.abs(credo.predict(normal, X).mean - Y)[rest].mean() > 1  # the control
    low, high = predicted.interval(0.9)
    assert np.mean((low <= Y) & (high >= Y)) > 0.9
    assert np.isfinite(credo.evaluate(predicted, spoilt)["nll"].value)
    again = comes_back(posterior, tmp_path / "laplacian")
    assert again.model.likelihood == Laplacian()
    np.testing.assert_array_equal(credo.predict(again, X).mean, predicted.mean)
    units = credo.data.Units.standardizing(X, Y)
    scaled = credo.fit(model, (X, Y), credo.MAP(num_steps=300, learning_rate=0.05), units=units)
    assert np.abs(credo.predict(scaled, X).mean - Y).mean() < 0.2


# A saveable model: something that is learned and is no posterior.


@dataclass(frozen=True)
class Recalibration(credo.Saveable):
    """Probabilities of a quantile as they are, by those that a model promised (Kuleshov 2018)."""

    promised: np.ndarray
    found: np.ndarray
    name: str = "isotonic"
    inner: Any = None
    """A posterior that it belongs to."""

    def __post_init__(self):
        if np.shape(self.promised) != np.shape(self.found) or np.ndim(self.found) != 1:
            raise credo.CredoError("Recalibration needs one found level for each promised one")
        if np.any(np.diff(self.found) < 0):
            raise credo.CredoError("Recalibration: found levels must not fall")

    def level(self, promised):
        return np.interp(promised, self.promised, self.found)


def test_a_saveable_model_is_a_file(tmp_path):
    posterior = credo.fit(MODEL, (X, Y), credo.Exact())
    predicted = credo.predict(posterior, X)
    promised = np.linspace(0, 1, 11)
    reached = np.sort(predicted.cdf(Y))
    found = np.array([np.mean(reached <= level) for level in promised])
    model = Recalibration(promised, found, inner=posterior)
    again = comes_back(model, tmp_path / "recalibration")
    assert isinstance(again, Recalibration) and again.name == "isotonic"
    np.testing.assert_array_equal(again.level([0.05, 0.5]), model.level([0.05, 0.5]))
    np.testing.assert_array_equal(credo.predict(again.inner, X).mean, predicted.mean)
    with pytest.raises(credo.CredoError, match="must not fall"):
        Recalibration(promised, found[::-1])


# A source: rows that are made when they are needed.


@dataclass(frozen=True)
class Simulator:
    """Blocks of 64 fresh rows of y = x₀ − 2 x₁ + noise, each for eight steps, without end."""

    num_rows: int = 4096
    seed: int = 0
    num_made: list = dataclasses.field(default_factory=list)

    def fingerprint(self):
        return hashlib.sha256(f"simulator {self.seed} {self.num_rows}".encode()).hexdigest()

    def segment(self, step, batch_size):
        number = step // 8
        self.num_made.append(number)
        random = np.random.default_rng([self.seed, number])
        x = random.normal(size=(64, 2)).astype(np.float32)
        y = x @ np.array([[1.0], [-2.0]]) + 0.1 * random.normal(size=(64, 1))
        batch = Batch(jnp.asarray(x), jnp.asarray(y, jnp.float32))
        rows = Rows(batch, jnp.asarray(64, jnp.int32), jnp.asarray(number, jnp.int32))
        return Segment(rows, 8 * number, 8 * number + 8)


class Killed(BaseException):
    """As sudden as a kill."""


def test_a_source_is_a_file(tmp_path, monkeypatch):
    method = credo.MAP(num_steps=400, learning_rate=0.05, batch_size=16)
    whole = credo.fit(MODEL, Simulator(), method, key=3)
    truth = X @ np.array([1.0, -2.0])
    np.testing.assert_allclose(credo.predict(whole, X).mean, truth, atol=0.1)
    again = comes_back(whole, tmp_path / "simulated")
    np.testing.assert_array_equal(credo.predict(again, X).mean, credo.predict(whole, X).mean)

    save, saves = Checkpoint.save, []

    def save_then_die(self, chains, step, now):
        save(self, chains, step, now=True)
        saves.append(step)
        if len(saves) == 3:
            raise Killed

    run = {"key": 3, "checkpoint": tmp_path / "run"}
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save_then_die)
        with pytest.raises(Killed):
            credo.fit(MODEL, Simulator(), method, **run)
    assert 0 < saves[-1] < 400
    source = Simulator()
    resumed = credo.fit(MODEL, source, method, **run)
    for a, b in zip(*map(jax.tree.leaves, (resumed.draws, whole.draws)), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)
    assert max(source.num_made) == 49 and 1 not in source.num_made[2:]  # it went on, not anew
    other = credo.fit(MODEL, Simulator(seed=1), method, key=3)
    assert not np.array_equal(credo.predict(other, X).mean, credo.predict(whole, X).mean)


def test_another_source_is_not_resumed(tmp_path, monkeypatch):
    method = credo.MAP(num_steps=40, learning_rate=0.05, batch_size=16)
    run = {"key": 3, "checkpoint": tmp_path / "run", "keep_checkpoint": True}
    credo.fit(MODEL, Simulator(), method, checkpoint_seconds=0.0, **run)
    with pytest.raises(credo.CredoError, match="another run"):
        credo.fit(MODEL, Simulator(seed=1), method, **run)
