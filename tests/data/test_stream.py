"""Streams: every row once an epoch, the same bits after a kill, two blocks in memory."""

import os
import signal
import subprocess
import sys
import weakref
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import credo
from credo.data import Batch, Rows, Segment, Units, stream_arrays, stream_blocks, stream_parquet
from credo.data.readers import Slices
from credo.engine import Algorithm, Plan, loop, run
from credo.likelihoods import Categorical, Normal
from credo.networks import MLP
from credo.struct import Struct

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 2)).astype(np.float32)
Y = (X @ [1.0, -2.0] + 0.5 + 0.5 * RNG.normal(size=600)).astype(np.float32)
MODEL = credo.Model(MLP(hidden=()), Normal(0.5))


@dataclass(frozen=True)
class Watch(Algorithm):
    """An algorithm that learns nothing: it records the rows it sees, and what they hold."""

    num_steps: int
    batch_size: int | None = 10
    num_chains: int = 1

    def plan(self, num_rows):
        return Plan(self.num_steps, batch_size=self.batch_size, num_chains=self.num_chains)

    def init(self, key, objective, params, batch):
        return jnp.zeros(())

    def step(self, key, objective, state, batch):
        total = batch.total(jnp.sum(batch.x, axis=1) + batch.y)
        return state + total, {"row": batch.row, "x": batch.x[:, 0], "loss": total}


@dataclass(frozen=True)
class Nothing(Struct):
    def init(self, key, example):
        return jnp.zeros(())


def watch(source, num_steps, batch_size=10, **options):
    return run(Watch(num_steps, batch_size), Nothing(), source, 3, **options).history


def arrays(x=X, y=Y, **options):
    return stream_arrays(x, y, **options)


def blocks(x=X, y=Y, given=70, **options):
    """Blocks of an iterator that have another size than those of the stream."""

    def make_blocks():
        for start in range(0, len(x), given):
            yield x[start : start + given], y[start : start + given]

    return stream_blocks(make_blocks, len(x), **options)


def table(folder, x=X, y=Y, row_group_size=40):
    path = folder / f"rows-{row_group_size}.parquet"
    frame = pd.DataFrame({"a": x[:, 0], "y": y, "b": x[:, 1]})
    frame.to_parquet(path, row_group_size=row_group_size)
    return path


@pytest.fixture(scope="module", params=["arrays", "files", "small-groups", "one-group", "iterator"])
def make(request, tmp_path_factory):
    """Each kind of stream, of the same rows."""
    folder = tmp_path_factory.mktemp("rows")
    if request.param == "arrays":
        return arrays
    if request.param == "iterator":
        return blocks
    if request.param == "files":
        np.save(folder / "x.npy", X)
        np.save(folder / "y.npy", Y)
        return lambda **options: stream_arrays(
            str(folder / "x.npy"), np.load(folder / "y.npy", mmap_mode="r"), **options
        )
    path = table(folder, row_group_size=40 if request.param == "small-groups" else 600)
    return lambda **options: stream_parquet(path, target="y", **options)


def test_every_row_once_an_epoch(make):
    source = make(block_rows=120)
    seen = watch(source, 3 * 60)
    epochs = seen["row"][0].reshape(3, 600)
    for epoch in epochs:
        np.testing.assert_array_equal(np.sort(epoch), np.arange(600))
    visited = epochs.reshape(3, 5, 120) // 120
    assert (visited == visited[:, :, :1]).all()  # one block after the other
    followers = np.diff(epochs, axis=1) == 1
    assert followers.sum() < 3 * 12  # shuffled within: about Poisson(1) for every block
    np.testing.assert_array_equal(seen["x"][0], X[:, 0][seen["row"][0]])
    assert (epochs[0] != epochs[1]).mean() > 0.9


def test_blocks_come_in_another_order_every_epoch_where_they_can_be_sought():
    def orders(source):
        return watch(source, 180)["row"][0].reshape(3, 5, 120)[:, :, 0] // 120

    found = orders(arrays(block_rows=120))
    assert len({tuple(order) for order in found}) > 1
    np.testing.assert_array_equal(found, orders(arrays(block_rows=120)))
    assert not np.array_equal(found, orders(arrays(block_rows=120, seed=1)))
    np.testing.assert_array_equal(orders(blocks(block_rows=120)), [range(5)] * 3)


@pytest.mark.parametrize(("block_rows", "batch_size"), [(100, 10), (97, 16), (211, 211), (7, 7)])
def test_rows_count_alike_where_sizes_do_not_divide(block_rows, batch_size):
    x, y = X[:593], Y[:593]
    source = arrays(x, y, block_rows=block_rows)
    epoch = source.num_blocks * max(source.capacity // batch_size, 1)
    rows = watch(source, 40 * epoch, batch_size)["row"][0]
    counts = np.bincount(rows[rows >= 0], minlength=593) / 40
    assert len(counts) == 593
    expected = min(1.0, counts.mean() * 1.001)
    # A row of a block of R rows is in a share B⌊R/B⌋/R of the epochs, up to one row of R.
    error = np.sqrt(np.maximum(expected * (1 - expected), 0) / 40) + 1 / source.capacity
    assert np.all(np.abs(counts - expected) < 5 * error)
    sizes = {stop - first for first, stop in map(source._bounds, range(source.num_blocks))}
    assert max(sizes) - min(sizes) <= 1 and max(sizes) <= block_rows


def test_a_short_block_is_filled_up_with_rows_that_do_not_count():
    x, y = X[:11], Y[:11]
    seen = watch(arrays(x, y, block_rows=6), 40, batch_size=6)
    rows, totals = seen["row"][0], seen["loss"][0]
    assert ((rows >= 0).sum(axis=1) == np.where(rows.max(axis=1) < 5, 5, 6)).all()
    low, high = (x[:5].sum() + y[:5].sum()), (x[5:].sum() + y[5:].sum())
    np.testing.assert_allclose(totals, np.where(rows.max(axis=1) < 5, low, high), rtol=1e-4)


def test_random_access_gives_the_bits_of_a_walk(make):
    walk = make(block_rows=120)
    for step in (0, 5, 11, 12, 59, 60, 131, 240, 30):  # 12 steps a block; back in the end
        expected, found = walk.segment(step, 10), make(block_rows=120).segment(step, 10)
        assert found.serves(step) and (found.first_step, found.stop) == expected[1:]
        for a, b in zip(jax.tree.leaves(found.rows), jax.tree.leaves(expected.rows), strict=True):
            np.testing.assert_array_equal(a, b, strict=True)


def method(**options):
    return credo.MAP(num_steps=240, batch_size=10, learning_rate=0.02, **options)


def leaves(posterior):
    return jax.tree.leaves((posterior.draws, posterior.record.history))


def assert_same(first, second):
    for a, b in zip(leaves(first), leaves(second), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


def test_one_block_is_resident_to_the_bit(make):
    assert_same(credo.fit(MODEL, make(), method()), credo.fit(MODEL, (X, Y), method()))


def test_all_kinds_of_streams_agree_to_the_bit(tmp_path):
    """In the given order: a row group of all rows cannot be sought."""
    path = table(tmp_path, row_group_size=600)
    first = credo.fit(MODEL, blocks(block_rows=120), method())
    assert_same(first, credo.fit(MODEL, blocks(given=1000, block_rows=120), method()))
    parquet = stream_parquet(path, target="y", block_rows=120)
    assert_same(first, credo.fit(MODEL, parquet, method()))


def stop_at(step):
    def observe(at, posterior):
        if at >= step:
            raise KeyboardInterrupt

    return observe


@pytest.mark.parametrize("step", [12, 130, 200])  # 12 steps a block, 60 an epoch
def test_resumed_is_uninterrupted(make, step, tmp_path):
    expected = credo.fit(MODEL, make(block_rows=120), method(), key=5)
    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        credo.fit(
            MODEL, make(block_rows=120), method(), key=5, checkpoint=path, checkpoint_seconds=0,
            observe_every=10, observe=stop_at(step),
        )  # fmt: skip
    assert path.exists()
    assert_same(credo.fit(MODEL, make(block_rows=120), method(), key=5, checkpoint=path), expected)


@pytest.mark.parametrize(
    "other",
    [{"y": Y + 1}, {"x": np.append(X[:-1], X[-1:] + 1, axis=0)}, {"block_rows": 119}, {"seed": 1}],
    ids=lambda other: next(iter(other)),
)
def test_a_checkpoint_of_other_rows_is_refused(other, tmp_path):
    def fit(observe=None, **options):
        source = arrays(**({"block_rows": 120} | options))
        return credo.fit(
            MODEL, source, method(), checkpoint=tmp_path / "run", checkpoint_seconds=0,
            observe_every=10, observe=observe,
        )  # fmt: skip

    with pytest.raises(KeyboardInterrupt):
        fit(stop_at(100))
    with pytest.raises(credo.CredoError, match="belongs to another run"):
        fit(**other)


KILLED = """
import os, signal, sys
import numpy as np
import credo

folder = sys.argv[1]
x, y = (np.load(f"{folder}/{name}.npy", mmap_mode="r") for name in "xy")
model = credo.Model(credo.networks.MLP(hidden=()), credo.likelihoods.Normal(0.5))

def observe(step, posterior):
    if step >= 150:
        os.kill(os.getpid(), signal.SIGKILL)

credo.fit(
    model, credo.data.stream_arrays(x, y, block_rows=120), credo.MAP(num_steps=240, batch_size=10,
    learning_rate=0.02), checkpoint=f"{folder}/run", checkpoint_seconds=0, observe_every=7,
    observe=observe)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
def test_killed_in_a_later_epoch_it_goes_on_to_the_same_bits(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    folder = Path(credo.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL and (tmp_path / "run").exists()
    resumed = credo.fit(MODEL, arrays(block_rows=120), method(), checkpoint=tmp_path / "run")
    assert_same(resumed, credo.fit(MODEL, arrays(block_rows=120), method()))


def test_two_blocks_are_in_memory(monkeypatch):
    """When a block is read, one other is on the device and at most one waits on the host."""
    host, most = [], {"host": 0, "device": 0}
    read = Slices.read

    def counted(self, first, stop):
        on_device = [a for a in jax.live_arrays() if a.shape == (120, 2)]
        most["device"] = max(most["device"], len(on_device))
        most["host"] = max(most["host"], sum(ref() is not None for ref in host))
        block = read(self, first, stop)
        host.append(weakref.ref(block.x))
        return block

    monkeypatch.setattr(Slices, "read", counted)
    monkeypatch.setattr(loop, "CHUNK_SECONDS", 1e-12)
    credo.fit(MODEL, arrays(block_rows=120), method())
    assert len(host) > 20 and most["device"] == 1 and most["host"] <= 1


def test_more_blocks_are_no_new_program():
    def compiled(num_rows):
        before = loop._advance._cache_size()
        credo.fit(MODEL, arrays(X[:num_rows], Y[:num_rows], block_rows=60), method())
        return loop._advance._cache_size() - before

    compiled(120)
    assert [compiled(rows) for rows in (180, 239, 355, 600)] == [0, 0, 0, 0]  # all of 60, or 59
    assert compiled(290) == 1  # planted: blocks of 58 rows are another shape


def linear_posterior(x, y, noise=0.5):
    """Mean and standard deviation of (weights, bias) with a standard normal prior."""
    design = np.concatenate([x, np.ones((len(x), 1))], axis=1).astype(float)
    covariance = np.linalg.inv(design.T @ design / noise**2 + np.eye(3))
    return covariance @ design.T @ y / noise**2, np.sqrt(np.diag(covariance))


def test_sgld_on_a_stream_samples_the_posterior():
    sampler = credo.SGLD(
        learning_rate=2e-3, num_samples=200, num_warmup=1500, thin=50, num_chains=8, batch_size=20
    )
    posterior = credo.fit(MODEL, arrays(block_rows=200), sampler)
    layer = posterior.draws["network"]["dense0"]
    w, b = (np.asarray(layer[name]).reshape(8, 200, -1) for name in "wb")
    draws = np.concatenate([w, b], axis=2)

    def agrees(x, y):
        """Mean and variance within 4 Monte Carlo standard errors, by independent chains."""
        mean, std = linear_posterior(x, y)
        for values, exact in ((draws, mean), ((draws - mean) ** 2, std**2)):
            # 16 nearly independent halves: each is 40 times as long as the memory of a chain.
            chains = values.reshape(16, 100, 3).mean(axis=1)
            error = chains.std(axis=0, ddof=1) / np.sqrt(16)
            if not np.all(np.abs(chains.mean(axis=0) - exact) < 4 * error):
                return False
        return True

    assert agrees(X, Y)
    assert not agrees(X[:400], Y[:400])  # planted: one block of three never seen
    assert not agrees(np.tile(X, (2, 1)), np.tile(Y, 2))  # planted: every row counted twice


def test_weights_of_rows():
    """A row of weight 2 is two rows; the weights travel with the rows of a stream."""
    weights = np.where(np.arange(600) % 3 == 0, 2.0, 1.0)
    weighted = credo.fit(MODEL, arrays(weights=weights), method())
    assert_same(weighted, credo.fit(MODEL, (X, Y), method(), row_weights=weights))
    several = arrays(weights=weights, block_rows=120).segment(13, 10).rows.data
    np.testing.assert_array_equal(several.weight, weights[several.row])
    for wrong in (-weights, np.nan * weights):
        with pytest.raises(credo.CredoError, match="weights must be finite numbers"):
            credo.fit(MODEL, arrays(weights=wrong), method())
    with pytest.raises(credo.CredoError, match="weights of rows belong into the stream"):
        credo.fit(MODEL, arrays(), method(), row_weights=weights)


def test_units_apply_to_a_stream():
    x, y = X * 3 + 5, Y * 100 + 7
    units = Units.standardizing(x, y)
    streamed = credo.fit(MODEL, arrays(x, y), method(), units=units)
    assert_same(streamed, credo.fit(MODEL, (x, y), method(), units=units))
    assert abs(credo.predict(streamed, x).mean.mean() - y.mean()) < 30


def test_classes_and_ensembles_and_images():
    labels = (Y > 0).astype(np.int64)
    model = credo.Model(MLP(hidden=(4,)), Categorical(2))
    ensemble = credo.Ensemble(method(), size=2)
    posterior = credo.fit(model, arrays(y=labels, block_rows=120), ensemble)
    assert posterior.num_draws == 2
    assert (credo.predict(posterior, X).codes == labels).mean() > 0.8
    images = stream_arrays(
        RNG.integers(0, 255, (50, 4, 4, 1), np.uint8), labels[:50], block_rows=20
    )
    assert images.segment(0, 5).rows.data.x.dtype == jnp.float32
    credo.fit(model, images, credo.MAP(num_steps=5, batch_size=5, learning_rate=1e-5))


@pytest.mark.parametrize(
    "all_rows",
    [
        "hmc", "nuts", "mala", "exact", "laplace", credo.Ensemble("laplace"),
        credo.Ensemble("hmc"), credo.MAP(validation_fraction=0.1),
        credo.Ensemble(credo.MAP(validation_fraction=0.1)),
    ],
    ids=repr,
)  # fmt: skip
def test_methods_that_need_all_rows_say_so_in_one_line(all_rows):
    with pytest.raises(credo.CredoError, match=r"rows.*memory") as caught:
        credo.fit(MODEL, arrays(block_rows=120), all_rows)
    assert "\n" not in str(caught.value)
    with pytest.raises(credo.CredoError, match=r"all rows at every step"):
        watch(arrays(block_rows=120), 5, batch_size=None)


def test_a_wrong_row_is_named_when_it_is_read():
    x, labels = X.copy(), (Y > 0).astype(int)
    x[333, 1] = np.nan
    with pytest.raises(credo.CredoError, match=r"^rows 240 … 359 of the stream: x must"):
        credo.fit(MODEL, arrays(x, block_rows=120), method())
    labels[7] = 2
    model = credo.Model(MLP(hidden=()), Categorical(2))
    with pytest.raises(credo.CredoError, match=r"^rows 0 … 119 of the stream: labels must lie"):
        credo.fit(model, arrays(y=labels, block_rows=120), method())


def test_impossible_streams(tmp_path):
    def refused(words, function, *arguments, **options):
        with pytest.raises(credo.CredoError, match=words) as caught:
            function(*arguments, **options)
        assert "\n" not in str(caught.value)

    refused("x has 600 rows, y has 599", stream_arrays, X, Y[:-1])
    refused("y must be an array with rows", stream_arrays, X, 3.0)
    refused("cannot read .*nowhere.npy", stream_arrays, tmp_path / "nowhere.npy", Y)
    refused("block_rows must be a whole number", stream_arrays, X, Y, block_rows=0)
    refused("num_rows must be a whole number", stream_arrays, X[:0], Y[:0])
    refused("larger than a block of 120; raise block_rows", watch, arrays(block_rows=120), 5, 121)

    def fit(source):
        return credo.fit(MODEL, source, method())

    def pairs():
        return [(X, Y)]

    short, long = stream_blocks(pairs, 601), stream_blocks(pairs, 599)
    refused("ended after 600 of num_rows=601", fit, short)
    refused("gave more than num_rows=599", fit, long)
    refused("must be pairs", fit, stream_blocks(lambda: [X], 600))
    refused("equally many rows", fit, stream_blocks(lambda: [(X, Y[:5])], 600))
    once = iter(pairs())  # planted: an iterator that cannot be started anew
    refused("starts the iterator anew", fit, stream_blocks(lambda: once, 600))


def test_columns_of_a_parquet_file(tmp_path):
    path = table(tmp_path)
    batch = stream_parquet(path, target="y").segment(0, 10).rows.data
    np.testing.assert_array_equal(batch.x, X)
    np.testing.assert_array_equal(batch.y, Y)
    assert batch.x.dtype == batch.y.dtype == jnp.float32
    batch = stream_parquet(path, target="a", columns=["b"]).segment(0, 9).rows.data
    np.testing.assert_array_equal(batch.x, X[:, 1:])

    odd = tmp_path / "odd.parquet"
    frame = pd.DataFrame({"x": [1, 2, 3], "text": list("abc"), "gap": [1.0, None, 2.0]})
    frame.assign(label=[True, False, True], y=[1, 0, 2], w=[1.0, 2.0, 0.5]).to_parquet(odd)
    taken = stream_parquet(odd, target="y", columns=["x"], weights="w").segment(0, 3).rows.data
    assert taken.y.dtype == jnp.int32 and taken.y.tolist() == [1, 0, 2]
    assert taken.weight.tolist() == [1, 2, 0.5]
    labels = stream_parquet(odd, target="label", columns=["x", "y"]).segment(0, 3).rows.data.y
    assert labels.dtype == jnp.int32 and labels.tolist() == [1, 0, 1]
    for words, options in {
        r"did you mean 'text'": {"target": "texd"},
        r"column 'text' .* numbers only": {"target": "y"},
        r"column 'gap' has missing values": {"target": "y", "columns": ["x", "gap"]},
        r"no columns beside": {"target": "y", "columns": []},
    }.items():
        with pytest.raises(credo.CredoError, match=words):
            stream_parquet(odd, **options).segment(0, 3)
    odd.write_bytes(b"no Parquet")
    for wrong in (odd, tmp_path / "nowhere.parquet"):
        with pytest.raises(credo.CredoError, match=wrong.name):
            stream_parquet(wrong, target="y")


@dataclass(frozen=True)
class Simulated:
    """A source of one's own: one class. Rows come from a formula, afresh every ten steps."""

    num_rows: int = 10_000

    def fingerprint(self):
        return "simulated 1"

    def segment(self, step, batch_size):
        number = step // 10
        rng = np.random.default_rng(number)
        x = rng.normal(size=(1000, 2))
        y = x @ [1.0, -2.0] + 0.5 + 0.5 * rng.normal(size=1000)
        batch = Batch(jnp.asarray(x, float), jnp.asarray(y[:, None], float), jnp.arange(1000))
        rows = Rows(batch, jnp.asarray(1000), jnp.asarray(number))
        return Segment(rows, 10 * number, 10 * number + 10)


def test_a_source_of_ones_own(tmp_path):
    descent = credo.MAP(num_steps=240, batch_size=50, learning_rate=0.1)
    expected = credo.fit(MODEL, Simulated(), descent)
    weights = expected.draws["network"]["dense0"]
    np.testing.assert_allclose(np.ravel(weights["w"]), [1, -2], atol=0.1)
    with pytest.raises(KeyboardInterrupt):
        credo.fit(
            MODEL, Simulated(), descent, checkpoint=tmp_path / "run", checkpoint_seconds=0,
            observe_every=9, observe=stop_at(100),
        )  # fmt: skip
    assert_same(credo.fit(MODEL, Simulated(), descent, checkpoint=tmp_path / "run"), expected)
    with pytest.raises(credo.CredoError, match="leave units out"):
        credo.fit(MODEL, Simulated(), descent, units=Units(shift=1.0))
