"""Files are whole or absent, exact, and never take the place of something else."""

import contextlib
import os

import numpy as np
import pytest

from credo import files
from credo.errors import CredoError


def test_arrays_come_back_as_they_were(tmp_path):
    """Scalars too: a restored state with other shapes would be another program to compile."""
    arrays = {
        "scalar": np.float32(1.5),
        "count": np.array(3, np.int32),
        "empty": np.zeros((0, 4)),
        "flags": np.array([True, False]),
        "turned": np.arange(6.0).reshape(2, 3).T,
    }
    files.save_arrays(tmp_path / "file", arrays, {"step": 3})
    found, metadata = files.load_arrays(tmp_path / "file")
    assert metadata == {"step": 3} and set(found) == set(arrays)
    for name, array in arrays.items():
        assert found[name].shape == np.shape(array) and found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_a_failure_leaves_the_old_content(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), files.atomic_path(path) as temporary:
        temporary.write_text("new")
        assert os.path.basename(temporary).endswith(".part")
        raise ZeroDivisionError
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    with pytest.raises(CredoError, match="No space left"), files.atomic_path(path):
        raise OSError(28, "No space left on device")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    with files.atomic_path(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "check", [files.check_writable, lambda path: files.save_arrays(path, {}, {})]
)
def test_what_cannot_be_written_is_refused(tmp_path, check):
    (tmp_path / "plain").touch()
    os.mkfifo(tmp_path / "pipe")  # stands for a device, which a rename would replace
    for path, words in [
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "file", "no folder"),
        (tmp_path / "plain" / "file", "no folder"),
        (tmp_path / "pipe", "not an ordinary file"),
    ]:
        with pytest.raises(CredoError, match=words):
            check(path)
    check(tmp_path / "plain")


def test_a_name_that_is_too_long_is_refused(tmp_path):
    with pytest.raises(CredoError, match="cannot write"):
        files.save_arrays(tmp_path / ("x" * 300), {}, {})
    with pytest.raises(CredoError, match="no file"):
        files.load_arrays(tmp_path / ("x" * 300))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(CredoError, match="permission denied"):
        files.check_writable(tmp_path / "file")
    tmp_path.chmod(0o000)
    with pytest.raises(CredoError, match="cannot write"):
        files.check_writable(tmp_path / "file")
    tmp_path.chmod(0o700)


def test_a_failed_write_leaves_the_old_content(tmp_path, monkeypatch):
    """As a disk that fills up in the middle of it."""
    path = tmp_path / "file"
    files.save_arrays(path, {"a": np.arange(3)}, {"step": 1})
    content = path.read_bytes()

    def full(temporary, content):
        with temporary.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(CredoError, match="No space left"):
        files.save_arrays(path, {"a": np.arange(4)}, {"step": 2})
    assert path.read_bytes() == content and list(tmp_path.iterdir()) == [path]


def test_no_file_but_ours_is_made_on_the_way(tmp_path, monkeypatch):
    """A kill at any instant leaves at most the one that `remove_leftovers` knows."""
    seen = []
    replace = os.replace
    monkeypatch.setattr(
        os, "replace", lambda *p: (seen.extend(f.name for f in tmp_path.iterdir()), replace(*p))
    )
    files.save_arrays(tmp_path / "file", {"a": np.arange(3)}, {})
    assert len(seen) == 1 and seen[0].startswith(".file.") and seen[0].endswith(".part")


def test_new_files_have_the_usual_permissions(tmp_path):
    files.save_arrays(tmp_path / "file", {}, {})
    (tmp_path / "other").touch()
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_every_byte_counts(tmp_path):
    """One wrong bit at any place is refused with our own error, but for blanks after the header."""
    path, blanks = tmp_path / "file", 0
    kinds = [np.float64, np.float32, np.int64, np.int32, np.uint16, np.uint8, bool]
    arrays = {f"array {i}": np.arange(2).astype(kind) for i, kind in enumerate(kinds)}
    files.save_arrays(path, arrays | {"scalar": np.float64(3)}, {"step": 3, "name": "ä"})
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    for position, byte in enumerate(content):
        altered = bytes([byte ^ (1 << position % 8)])
        path.write_bytes(content[:position] + altered + content[position + 1 :])
        with contextlib.ExitStack() as stack:
            if position < end and byte == ord(" ") and altered.isspace():
                blanks += 1
            else:
                stack.enter_context(pytest.raises(CredoError))
            files.load_arrays(path)
        path.write_bytes(content[:position])
        with pytest.raises(CredoError):
            files.load_arrays(path)
    assert blanks < 8


def test_trees_and_names():
    tree = {"b": [np.zeros(2), (np.ones(1), None)], "a": {"w": np.ones((2, 2))}}
    arrays = files.flatten(tree)
    assert set(arrays) == {"a/w", "b/0", "b/1/0"}
    again = files.unflatten(tree, {f"x/{name}": array for name, array in arrays.items()}, "x/")
    np.testing.assert_array_equal(again["b"][0], tree["b"][0])
    with pytest.raises(CredoError, match="'a/v'"):
        files.unflatten({"a": {"v": 0}}, arrays)
