"""Two runs with one output, and Ctrl-C before there is anything to interrupt."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import credo
from credo.app.outputs import only_writer

ROOT = Path(credo.__file__).parent.parent


@pytest.fixture
def holder(tmp_path):
    """A process that works on `model` until its input is closed."""
    code = (
        "import sys; from pathlib import Path; from credo.app.outputs import only_writer\n"
        f"with only_writer(Path({str(tmp_path / 'model')!r})):\n"
        "    print('at work', flush=True)\n    sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "at work\n"
    yield process
    process.kill()
    process.communicate()


def fit(table, out):
    return ("fit", table, "--target", "kind", "--method", "map", "--num-steps", "3", "--out", out)


def test_the_second_run_is_refused(refused, command, holder, table, tmp_path):
    words = [f"process {holder.pid}", "another run is writing", "--out"]
    refused(*fit(table, tmp_path / "model"), words=words)
    holder.communicate()  # ends in peace
    assert not (tmp_path / "model.lock").exists()
    assert command(*fit(table, tmp_path / "model")).code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [table.name, "model"]


def test_the_lock_of_a_killed_run_is_taken_over(command, holder, table, tmp_path):
    holder.kill()
    holder.wait()
    assert (tmp_path / "model.lock").read_text() == f"{holder.pid}\n"
    assert command(*fit(table, tmp_path / "model")).code == 0
    assert not (tmp_path / "model.lock").exists()


def test_an_interrupt_removes_the_lock(tmp_path):
    with pytest.raises(KeyboardInterrupt), only_writer(tmp_path / "model"):
        assert (tmp_path / "model.lock").exists()
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_libraries_load_is_one_line():
    """At several instants of the imports, of which the first are before any of credo's own code."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    start = "import sys, credo_start; print('go', flush=True); sys.exit(credo_start.main())"
    for wait in (0.05, 0.4):
        process = subprocess.Popen(
            [sys.executable, "-c", start, "methods"], env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout.readline() == "go\n"
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate()
        assert (process.returncode, complaint) == (130, "interrupted\n")


def test_the_command_begins_outside_of_the_package():
    """Importing the entry must not import credo, which takes seconds."""
    code = "import sys, credo_start; print('credo' in sys.modules, 'jax' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False False\n"
    assert 'credo = "credo_start:main"' in (ROOT / "pyproject.toml").read_text("utf-8")
