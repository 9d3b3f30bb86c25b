"""The loop: chunks, thinning, batches, keys, chains, precision, progress."""

import re
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.inference import Plan, engine
from credo.networks import MLP
from credo.posterior import Samples

pytestmark = [
    pytest.mark.usefixtures("quick_compilation"),
    pytest.mark.filterwarnings("ignore::credo.CredoWarning"),
]

X = np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32)
Y = X[:, 0] * 2 - 1
MODEL = credo.Model(MLP(hidden=()), credo.Normal(0.5))
INDEX = np.arange(10.0)[:, None]


@dataclass(frozen=True)
class Count:
    """A method that samples nothing: its state is the number of steps done, and a random number."""

    num_warmup: int = 0
    thin: int = 1
    num_kept: int = 4
    num_chains: int = 1
    batch_size: int | None = None
    broken_at: int = -1

    def plan(self, num_data):
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

    def remedy(self):
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
    advance_all = engine._advance_all

    def watched(*arguments):
        sizes[-1].append(arguments[-1] - arguments[-2])
        return advance_all(*arguments)

    monkeypatch.setattr(engine, "_advance_all", watched)
    for seconds in (1e-12, 1e12):
        monkeypatch.setattr(engine, "CHUNK_SECONDS", seconds)
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
    noise = lambda key: run(Count(num_chains=3), key).record.history["noise"]  # noqa: E731
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
