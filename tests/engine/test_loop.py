"""The loop: chunks, thinning, batches, keys, chains, precision, progress."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.data.source import resident
from credo.engine import Descent, Plan, descend, loop
from credo.engine import run as engine_run
from credo.engine.placement import Threads
from credo.likelihoods import Normal
from credo.model import Batch, Target
from credo.networks import MLP
from credo.posterior import Samples
from credo.struct import Struct

pytestmark = [
    pytest.mark.usefixtures("quick_compilation"),
    pytest.mark.filterwarnings("ignore::credo.CredoWarning"),
]

X = np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32)
Y = X[:, 0] * 2 - 1
MODEL = credo.Model(MLP(hidden=()), Normal(0.5))
INDEX = np.arange(10.0)[:, None]


@dataclass(frozen=True)
class Count(credo.Method):
    """A method that samples nothing: its state is the number of steps done, and a random number."""

    num_warmup: int = 0
    thin: int = 1
    num_kept: int = 4
    num_chains: int = 1
    batch_size: int | None = None
    broken_at: int = -1

    def plan(self, num_rows):
        steps = self.num_warmup + self.thin * self.num_kept
        return Plan(steps, self.num_warmup, self.thin, self.num_chains, self.batch_size)

    def init(self, key, target, params, batch):
        return {"count": jnp.zeros(()), "noise": jax.random.normal(key)}

    def step(self, key, target, state, batch):
        state = {"count": state["count"] + 1, "noise": jax.random.normal(key)}
        loss = jnp.where(state["count"] == self.broken_at + 1, jnp.nan, 0.0)
        return state, {"loss": loss, "noise": state["noise"], "rows": batch.x[:, 0]}

    def keep(self, state):
        return state

    def posterior(self, target, states, kept):
        return Samples(target.model, kept)

    def divergence_hint(self):
        return "change broken_at"


def run(method, key=0):
    return credo.fit(MODEL, (INDEX, INDEX), method, key=key)


@pytest.mark.parametrize(("num_warmup", "thin"), [(0, 1), (5, 3), (7, 1), (0, 4)])
def test_what_is_kept(num_warmup, thin):
    """Draw d is the state after warmup + (d + 1) thin steps, however the run is cut."""
    posterior = run(Count(num_warmup, thin))
    expected = num_warmup + thin * np.arange(1, 5)
    np.testing.assert_array_equal(posterior.draws["count"], [expected])
    noise = posterior.record.history["noise"][0]
    np.testing.assert_array_equal(posterior.draws["noise"][0], noise[expected - 1])


@pytest.mark.parametrize(
    "method",
    [
        Count(num_warmup=5, thin=3, num_kept=9),
        credo.MAP(num_steps=30, batch_size=4),
        credo.HMC(num_samples=7, num_warmup=5, num_chains=2, num_leapfrog=3, thin=3),
    ],
    ids=lambda method: type(method).__name__,
)
def test_chunks_do_not_change_bits(method, monkeypatch):
    results, sizes = [], []
    advance = Threads.advance

    def watched(lanes, program):
        sizes[-1].append(program.args[-1] - program.args[-2])  # stop − start
        return advance(lanes, program)

    monkeypatch.setattr(Threads, "advance", watched)
    for seconds in (1e-12, 1e12):
        monkeypatch.setattr(loop, "CHUNK_SECONDS", seconds)
        sizes.append([])
        posterior = credo.fit(MODEL, (X, Y), method)
        results.append(jax.tree.leaves((posterior.draws, posterior.record.history)))
    assert sizes[0] != sizes[1] and sum(sizes[0]) == sum(sizes[1])
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)


def test_batches_walk_through_the_data():
    rows = run(Count(num_kept=10, batch_size=5)).record.history["rows"][0]
    epochs = rows.reshape(5, 10)  # two batches of five are an epoch
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(10), (5, 1)))
    assert len(np.unique(epochs, axis=0)) == 5
    np.testing.assert_array_equal(run(Count()).record.history["rows"][0][0], np.arange(10))


def test_keys_and_chains():
    def noise(key):
        return run(Count(num_chains=3), key).record.history["noise"]

    first = noise(0)
    assert len(np.unique(first)) == first.size  # no step and no chain repeats another's noise
    np.testing.assert_array_equal(first, noise(np.int64(0)))
    np.testing.assert_array_equal(first, noise(jax.random.key(0)))
    assert not np.intersect1d(first, noise(1)).size
    for wrong in ("0", 0.5, None, jnp.zeros(2), 2**70):
        with pytest.raises(credo.CredoError, match="key must be"):
            noise(wrong)


def test_one_program_for_all_chains_gives_the_same_chains(monkeypatch):
    """The way chains run on an accelerator."""
    method = credo.HMC(num_samples=5, num_warmup=5, num_chains=2, num_leapfrog=3)
    threads = credo.fit(MODEL, (X, Y), method)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    together = credo.fit(MODEL, (X, Y), method)
    for a, b in zip(*map(jax.tree.leaves, (threads.draws, together.draws)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_a_local_choice_of_precision_reaches_every_chain():
    method = credo.HMC(num_samples=5, num_warmup=5, num_chains=2, num_leapfrog=3)
    with jax.enable_x64(True):
        posterior = credo.fit(MODEL, (X, Y), method)
    assert {leaf.dtype for leaf in jax.tree.leaves(posterior.draws)} == {np.dtype("float64")}


@pytest.mark.parametrize("broken_at", [0, 11])
def test_not_a_number_is_located(broken_at):
    message = f"loss became nan at step {broken_at} of chain 0; change broken_at"
    with pytest.raises(credo.DivergedError, match=message):
        run(Count(num_kept=20, broken_at=broken_at))


def test_progress_is_shown_when_asked_for(capsys, monkeypatch):
    run(Count())
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes the captured stream for a terminal
    credo.fit(MODEL, (INDEX, INDEX), Count(), progress=True)
    assert re.search("Count.*4/4", capsys.readouterr().err, re.DOTALL)


def test_a_mesh_of_devices_gives_the_same_chains():
    """Chains divided over two devices, as a process of its own sees them."""
    code = """
import numpy as np, jax, credo
from credo.data.source import resident
from credo.engine import run
from credo.model import Batch, Target
x = np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32)
model = credo.Model(credo.networks.MLP(hidden=()), credo.likelihoods.Normal(0.5))
rows = Batch(jax.numpy.asarray(x), jax.numpy.asarray(x[:, :1]))
method = credo.HMC(num_samples=4, num_warmup=4, num_chains=4, num_leapfrog=3)
target, source = Target(model, 10, (2,)), resident(rows)
runs = [run(method, target, source, placement=kind) for kind in ("threads", "program")]
kept = [jax.tree.leaves(each.kept) for each in runs]
assert len(jax.devices()) == 2 and len(kept[1][0].sharding.device_set) == 2
for a, b in zip(*kept):
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
print("same")
"""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == "same", done.stderr


@dataclass(frozen=True)
class Saddle(Struct):
    """min over a, max over b of a b + (a² − b²) / 2 around a point: one equilibrium."""

    center: float = 3.0

    def init(self, key, example):
        return {"a": jnp.zeros(()), "b": jnp.zeros(())}

    def value(self, a, b):
        a, b = a - self.center, b + self.center
        return a * b + 0.5 * (jnp.square(a) - jnp.square(b))


@dataclass(frozen=True, kw_only=True)
class Pair(Descent):
    """Two optimizers, each with its own memory, as an adversarial pair has them."""

    def init(self, key, objective, params, batch):
        rule = self.transformation(objective, params)
        return {"params": params, "memory": {name: rule.init(params[name]) for name in "ab"}}

    def step(self, key, objective, state, batch):
        params, memory = state["params"], state["memory"]
        rule = self.transformation(objective, params)
        a, memory_a, info = descend(
            rule, params["a"], memory["a"], lambda a: (objective.value(a, params["b"]), {})
        )
        b, memory_b, _ = descend(
            rule, params["b"], memory["b"], lambda b: (-objective.value(a, b), {})
        )
        return {"params": {"a": a, "b": b}, "memory": {"a": memory_a, "b": memory_b}}, info

    def is_finished(self, state):
        return jnp.zeros((), bool)


def test_an_adversarial_pair_reaches_its_equilibrium():
    done = engine_run(
        Pair(num_steps=1000, learning_rate=0.05), Saddle(), resident(jnp.zeros((4, 1)))
    )
    params = done.state()["params"]
    assert float(params["a"]) == pytest.approx(3.0, abs=1e-3)
    assert float(params["b"]) == pytest.approx(-3.0, abs=1e-3)


@dataclass(frozen=True)
class NoisyQuadratic(Struct):
    """E over the key of (w − center − noise)² / 2: a loss that is random."""

    center: float

    def init(self, key, example):
        return jnp.zeros(2)

    def loss(self, key, params, batch):
        shifted = params - self.center - jax.random.normal(key, (2,))
        return 0.5 * jnp.sum(jnp.square(shifted)), {}


def test_a_random_objective_is_minimized_and_a_new_number_is_no_new_program():
    source = resident(jnp.zeros((4, 1)))
    before = loop._advance._cache_size()
    for center in (1.0, 2.0, 5.0):
        method = Descent(num_steps=2000, learning_rate=0.05 / center)
        found = engine_run(method, NoisyQuadratic(center), source).state().learned
        # The noise of the mean of some 40 gradients that Adam averages over, four times.
        np.testing.assert_allclose(found, center, atol=4 / 40**0.5)
    assert loop._advance._cache_size() - before == 1


def test_what_an_observer_sees_is_the_run():
    seen = {}
    method = Count(num_kept=12)
    posterior = credo.fit(
        MODEL, (INDEX, INDEX), method, observe_every=5,
        observe=lambda step, so_far: seen.update({step: so_far}),
    )  # fmt: skip
    assert list(seen) == [5, 10]
    for step, so_far in seen.items():
        noise = posterior.record.history["noise"][:, :step]
        np.testing.assert_array_equal(so_far.record.history["noise"], noise)
        np.testing.assert_array_equal(
            so_far.draws["noise"][:, :step], posterior.draws["noise"][:, :step]
        )


def test_padding_changes_nothing_beyond_rounding():
    """N = 10 in a capacity of 16: the same chain, batch by batch and with all rows."""
    for method in (
        credo.HMC(num_samples=5, num_warmup=5, num_chains=1, num_leapfrog=3),
        credo.MALA(num_samples=5, num_warmup=5, num_chains=1, thin=2, climb_steps=5),
    ):
        plain = credo.fit(MODEL, (X, Y), method)
        padded = credo.fit(MODEL, (X, Y), method, padded=True)
        for a, b in zip(*map(jax.tree.leaves, (plain.draws, padded.draws)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_rows_that_fill_up_are_seen_by_nobody():
    """Their targets are replaced by NaN: what reads them ends in NaN."""
    source = resident(Batch(jnp.asarray(X), jnp.asarray(Y[:, None])), padded=True)
    rows = source.rows.data
    poisoned = rows._replace(y=jnp.where(rows.row[:, None] >= 0, rows.y, 1e30))
    target = Target(MODEL, 10, (2,))
    params = MODEL.init(jax.random.key(0), (2,))
    assert len(rows.x) == 16
    for which in (target.log_joint, target.training_likelihood):
        np.testing.assert_array_equal(which(params, poisoned), which(params, rows))
    planted = jnp.mean(MODEL.log_likelihood(params, poisoned))  # a mean over all 16
    assert not np.isclose(planted, target.log_likelihood(params, rows) / 10)
