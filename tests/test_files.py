"""Files are whole or absent, exact, and never take the place of something else."""

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
