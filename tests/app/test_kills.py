"""A run killed at random instants and started again ends with the bits of one left in peace.

CREDO_KILLS=20 kills each run that often instead of three times.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import credo

KILLS = int(os.environ.get("CREDO_KILLS", 3))
RUNS = {
    "dropout": ("--num-steps", "12000", "--batch-size", "32"),
    "hmc": (
        "--num-samples",
        "100",
        "--num-warmup",
        "100",
        "--num-chains",
        "2",
        "--num-leapfrog",
        "50",
    ),
}


def arguments(method: str, table: Path, out: Path) -> list[str]:
    flags = ("--target", "kind", "--test-fraction", "0", "--hidden", "8", *RUNS[method])
    saving = ("--checkpoint-seconds", "0.02", "--out", out)
    return [str(each) for each in ("fit", table, "--method", method, *flags, *saving)]


def start(method: str, table: Path, out: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "credo.app.main", *arguments(method, table, out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen) -> None:
    _, complaint = process.communicate()
    assert process.returncode == 0, complaint


def bits(path: Path) -> dict[str, bytes]:
    """Everything in a model file but the time it took."""
    posterior = credo.load(path)
    record = posterior.record
    told = {"options": record.options, "notes": record.notes, "method": record.method}
    arrays = {**credo.files.flatten({"weights": posterior, "history": record.history})}
    return {"told": repr(told).encode()} | {
        name: repr((array.dtype, array.shape)).encode() + array.tobytes()
        for name, array in arrays.items()
    }


@pytest.mark.parametrize("method", RUNS)
def test_killed_runs_end_with_the_same_bits(method, command, table, tmp_path):
    assert command(*arguments(method, table, tmp_path / "whole")).code == 0
    expected = bits(tmp_path / "whole")
    assert any(name.startswith("history") for name in expected)

    out, checkpoint = tmp_path / "model", tmp_path / "model.checkpoint"
    generator = np.random.default_rng()
    before = kills = resumable = 0
    while kills < KILLS:
        process = start(method, table, out)
        if kills % 2 == 0:  # some instant between two checkpoints
            before = max(before, seconds_until_saved(checkpoint, process))
            wait = generator.uniform(0, 0.3)
        else:  # any instant from the start of Python to the end of the run, or a little later
            wait = generator.uniform(0, 1.6 * before)
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            assert not out.exists() or bits(out) == expected  # whole or absent
            kills, resumable = kills + 1, resumable + checkpoint.exists()
        else:
            finish(process)
            assert bits(out) == expected
            out.unlink()
    finish(start(method, table, out))
    assert bits(out) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == [table.name, "model", "whole"]
    print(f"{method}: {kills} kills, {resumable} of them with a checkpoint to go on from")


def seconds_until_saved(checkpoint: Path, process: subprocess.Popen) -> float:
    """Wait until the run has written a new checkpoint, or is over."""
    began, first = time.monotonic(), stamp(checkpoint)
    while stamp(checkpoint) in (None, first) and process.poll() is None:
        time.sleep(0.01)
    return time.monotonic() - began


def stamp(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def test_one_bit_would_be_noticed(fitted, tmp_path):
    """The negative control of the comparison."""
    posterior = credo.load(fitted)
    expected = bits(fitted)
    credo.save(posterior, tmp_path / "same")
    assert bits(tmp_path / "same") == expected
    leaf = np.asarray(posterior.params["network"]["dense0"]["w"]).copy()
    leaf.view(np.uint32)[0, 0] ^= 1
    posterior.params["network"]["dense0"]["w"] = jax.numpy.asarray(leaf)
    credo.save(posterior, tmp_path / "other")
    assert bits(tmp_path / "other") != expected
