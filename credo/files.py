"""Files that are whole or absent, and that cannot run code: safetensors with JSON metadata."""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from credo.errors import CredoError

DTYPES = ("F64", "F32", "F16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL")
LONGEST_HEADER = 100_000_000  # bytes, the format's own limit


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` on success, remove it on failure.

    Whatever happens (error, full disk, kill), `path` holds either its old content or the new one.
    """
    check_writable(path)
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise CredoError(f"cannot write {path}: {error.strerror}; choose another path") from error
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        raise CredoError(f"cannot write {path}: {error.strerror}; nothing was written") from error
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def check_writable(path: str | os.PathLike) -> None:
    """Raise now, before an hour of work, if `path` could not be written at the end of it."""
    # os.path, unlike Path, answers no where it may not look or the name is too long.
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise CredoError(f"cannot write {path}: it is a folder; name a file")
    if os.path.exists(path) and not os.path.isfile(path):  # a rename would replace a device
        raise CredoError(f"cannot write {path}: it is not an ordinary file; name another")
    if not os.path.isdir(folder):
        raise CredoError(f"cannot write {path}: no folder {folder}; create it first")
    if not os.access(folder, os.W_OK) or (os.path.exists(path) and not os.access(path, os.W_OK)):
        raise CredoError(f"cannot write {path}: permission denied; choose another path")


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """Name every leaf of a pytree by its path, e.g. `network/dense0/w`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {path_name(path): np.asarray(leaf) for path, leaf in leaves}


def unflatten(template: Any, arrays: dict[str, np.ndarray], prefix: str = "") -> Any:
    """Fill a pytree shaped like `template` with the arrays that `flatten` named."""

    def fill(path: Any, leaf: Any) -> np.ndarray:
        name = prefix + path_name(path)
        if name not in arrays:
            raise CredoError(f"the file has no array {name!r}; it was saved from another network")
        return arrays[name]

    return jax.tree_util.tree_map_with_path(fill, template)


def path_name(path: Any) -> str:
    """`(DictKey('dense0'), DictKey('w'))` becomes `dense0/w`."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def save_arrays(path: str | os.PathLike, arrays: dict[str, np.ndarray], metadata: dict) -> None:
    """Write arrays and JSON-able metadata as one safetensors file, atomically, with a digest."""
    from safetensors.numpy import save

    # Not ascontiguousarray, which would give scalars an axis.
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    text = json.dumps(metadata)
    header = {"credo": text, "sha256": _digest(arrays, text)}
    with atomic_path(path) as temporary:
        # Not save_file, whose own temporary file would stay behind when the process is killed.
        temporary.write_bytes(save(arrays, metadata=header))


def load_arrays(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], Any]:
    """Read what `save_arrays` wrote; refuse a file that was truncated or altered.

    No more memory is taken than the file is long.
    """
    from safetensors import SafetensorError, safe_open

    if not os.path.isfile(path):
        raise CredoError(f"no file {path}; check the path")
    try:
        _check_header(path)
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError,
            RecursionError, MemoryError) as error:  # fmt: skip
        reason = " ".join(str(error).split())[:200]
        raise CredoError(
            f"{path} is no model that credo wrote, or not a whole one ({reason}); give a file of "
            "credo.save or credo fit, or save it anew"
        ) from error
    if "credo" not in header:
        raise CredoError(f"{path} was not written by credo: it has no credo metadata")
    if header.get("sha256") != _digest(arrays, header["credo"]):
        raise CredoError(
            f"{path} was altered after it was saved (its digest differs); save it anew"
        )
    try:
        metadata = json.loads(
            header["credo"], parse_constant=_refuse_constant, object_pairs_hook=_distinct
        )
    except (ValueError, RecursionError, MemoryError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CredoError(f"{path} holds metadata that cannot be read ({reason})") from error
    return arrays, metadata


def _check_header(path: str | os.PathLike) -> None:
    """Refuse kinds of numbers that credo never writes, before any of them is read."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(LONGEST_HEADER, os.path.getsize(path)):
            raise ValueError("its header is longer than the file")
        header = json.loads(file.read(length), object_pairs_hook=_distinct)
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] not in DTYPES:
            raise ValueError(f"array {name!r} has numbers of kind {entry['dtype']!r}")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, none of whose names stands twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it has one name twice")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"it has the number {name}")


def _digest(arrays: dict[str, np.ndarray], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
