"""A disk that fills up, and a reader that goes away: said in one line, nothing left behind.

The size limit of a process stands in for the disk: writing beyond it fails in the same places.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.conftest import QUICK, snapshot

LIMITED = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
from credo.app.main import main
codes = []
for arguments in json.loads(sys.argv[1]):
    codes.append(main(arguments))
print(codes)
"""


def python(*arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *map(str, arguments)], stderr=subprocess.PIPE, text=True, **options
    )


def test_a_full_disk_leaves_nothing_behind(fitted, table, tmp_path):
    fit = ["fit", table, "--target", "kind", "--method", "map", *QUICK]
    predict = ["predict", fitted, table, "--out"]
    commands = [
        [*fit, "--out", tmp_path / "model"],
        [*fit, "--out", tmp_path / "model", "--checkpoint-seconds", "0"],
        [*predict, tmp_path / "p.csv"],
        [*predict, tmp_path / "p.parquet"],
    ]
    # A cache of its own: what cannot be written there must not spoil the one of other tests.
    (tmp_path / "cache").mkdir()
    environment = os.environ | {"CREDO_CACHE": str(tmp_path / "cache"), "MPLCONFIGDIR": "/nowhere"}
    (tmp_path / "p.csv").write_text("the old content\n")
    before = snapshot(tmp_path)
    done = python(
        *("-c", LIMITED, json.dumps([list(map(str, command)) for command in commands])),
        stdout=subprocess.PIPE,
        env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.stdout.splitlines()[-1] == "[2, 2, 2, 2]", done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("warning: map")]
    assert len(lines) == 4 and all(line.startswith("error: cannot write ") for line in lines)
    names = ["model:", "model.checkpoint:", "p.csv:", "p.parquet:"]
    assert all(name in line for name, line in zip(names, lines)), lines
    after = {name: content for name, content in snapshot(tmp_path).items() if "cache/" not in name}
    assert after == before


def credo_process(*arguments, **options) -> subprocess.CompletedProcess:
    return python("-m", "credo.app.main", *arguments, **options)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_standard_output_on_a_full_disk():
    with open("/dev/full", "w") as full:
        done = credo_process("methods", stdout=full)
    assert done.returncode == 2
    assert done.stderr == ("error: cannot read or write standard output: No space left on device\n")


def test_a_reader_that_goes_away_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    done = credo_process("methods", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_bad_input_in_a_process_of_its_own(tmp_path):
    fit = ["fit", tmp_path / "no.csv", "--target", "y", "--method", "map"]
    done = credo_process(*fit, "--out", tmp_path / "model", stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: there is no file '{tmp_path / 'no.csv'}'\n"
    assert not list(tmp_path.iterdir())
