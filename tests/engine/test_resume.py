"""Checkpoints: a run that was stopped goes on to the same bits, and only that run does."""

import os
import signal
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo import files
from credo.engine import loop
from credo.engine.checkpoint import Checkpoint
from credo.engine.placement import Threads
from credo.likelihoods import Normal
from credo.networks import MLP, Functions

pytestmark = pytest.mark.filterwarnings("ignore::credo.CredoWarning")

X = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
Y = np.sin(X[:, 0])
MODEL = credo.Model(MLP(hidden=(4,)), Normal())
METHOD = credo.HMC(num_samples=6, num_warmup=8, num_chains=2, num_leapfrog=3, thin=2)


class Killed(BaseException):
    pass


def leaves(posterior):
    return jax.tree.leaves((posterior.draws, posterior.record.history))


def stopped_after(saves, path, monkeypatch, **options):
    """Run until the given number of saves, then die as suddenly as by a kill."""
    done = []

    def save_then_die(self, stacked, step, now):
        save(self, stacked, step, now=True)
        done.append(step)
        if len(done) == saves:
            raise Killed

    save = Checkpoint.save
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save_then_die)
        patch.setattr(loop, "CHUNK_SECONDS", 1e-12)  # many small chunks
        with pytest.raises(Killed):
            run(path, **options)
    return done[-1]


def run(path=None, model=MODEL, method=METHOD, x=X, y=Y, key=3, **options):
    return credo.fit(model, (x, y), method, key=key, checkpoint=path, **options)


@pytest.fixture(scope="module")
def uninterrupted():
    return leaves(run())


def assert_same(posterior, expected):
    for a, b in zip(leaves(posterior), expected, strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


@pytest.mark.parametrize("saves", [1, 2, 3])  # in the warm-up, where the chains synchronize, after
def test_resumed_is_uninterrupted(saves, uninterrupted, tmp_path, monkeypatch):
    path = tmp_path / "run"
    assert stopped_after(saves, path, monkeypatch) == {1: 1, 2: 8, 3: 9}[saves]
    assert_same(run(path), uninterrupted)
    assert not path.exists()


def test_stopped_twice(uninterrupted, tmp_path, monkeypatch):
    path = tmp_path / "run"
    stopped_after(1, path, monkeypatch)
    stopped_after(1, path, monkeypatch)
    assert_same(run(path), uninterrupted)


def test_interrupt_saves_the_run(uninterrupted, tmp_path, monkeypatch):
    """Ctrl-C ends the chunk, saves although nothing was due, and stops."""
    advance = Threads.advance

    def interrupted(lanes, program):
        os.kill(os.getpid(), signal.SIGINT)
        return advance(lanes, program)

    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        patch.setattr(Threads, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run")
    assert signal.getsignal(signal.SIGINT) is before
    assert files.load_arrays(tmp_path / "run")[1]["step"] == 1
    assert_same(run(tmp_path / "run"), uninterrupted)


def test_a_kept_checkpoint_is_a_finished_run(uninterrupted, tmp_path):
    run(tmp_path / "run", keep_checkpoint=True, checkpoint_seconds=0)
    assert_same(run(tmp_path / "run"), uninterrupted)


@pytest.mark.parametrize(
    "other",
    [
        {"key": 4},
        {"x": X + 1},
        {"y": Y + 1},
        {"temperature": 0.5},
        {"method": credo.HMC(num_samples=6, num_warmup=8, num_chains=2, num_leapfrog=4, thin=2)},
        {"model": credo.Model(MLP(hidden=(4,)), Normal(), credo.priors.NormalPrior(2))},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_checkpoint_of_another_run_is_refused(other, tmp_path, monkeypatch):
    path = tmp_path / "run"
    stopped_after(1, path, monkeypatch)
    content = path.read_bytes()
    with pytest.raises(credo.CredoError, match="belongs to another run"):
        run(path, **other)
    assert path.read_bytes() == content


SPOILERS = [lambda b: b[:-1], lambda b: b[:-9] + b"x" + b[-8:], lambda b: b""]


@pytest.mark.parametrize("spoil", SPOILERS)
def test_a_spoilt_checkpoint_is_refused(spoil, tmp_path, monkeypatch):
    path = tmp_path / "run"
    stopped_after(1, path, monkeypatch)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(credo.CredoError, match="save it anew"):
        run(path)


def own_network(width):
    """A new pair of functions, as another process would make it."""

    def init(key):
        return jax.random.normal(key, (2, width))

    def apply(params, x):
        return jnp.tanh(x @ params).sum(axis=1, keepdims=True)

    return credo.Model(Functions(init, apply), Normal(0.3))


def test_a_network_of_ones_own_resumes_in_another_process(tmp_path, monkeypatch):
    path = tmp_path / "run"
    stopped_after(2, path, monkeypatch, model=own_network(4))
    with pytest.raises(credo.CredoError, match="belongs to another run"):
        run(path, model=own_network(5))
    assert_same(run(path, model=own_network(4)), leaves(run(model=own_network(4))))


@pytest.mark.parametrize("path", ["no/such/folder/run", "."])
def test_a_path_that_cannot_be_written_is_refused_first(path, monkeypatch):
    monkeypatch.setattr(Threads, "advance", None)
    with pytest.raises(credo.CredoError, match="cannot write"):
        run(Path(path))
