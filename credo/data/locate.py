"""Where files come from: the user's data folder, else the publisher, checked by hash."""

import os
import textwrap
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from credo.caching import cache_folder
from credo.errors import CredoError

if TYPE_CHECKING:
    from pooch import Pooch

DataDir = str | os.PathLike[str] | None


def data_folder(data_dir: DataDir = None) -> Path | None:
    """The folder the user named (the argument, else CREDO_DATA), or None."""
    chosen = data_dir or os.environ.get("CREDO_DATA")
    if not chosen:
        return None
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        origin = "data_dir" if data_dir else "CREDO_DATA"
        raise CredoError(f"{origin} names '{folder}', which is not a folder; create or correct it")
    return folder


def locate(path: str, data_dir: DataDir = None, *, archive: str | None = None) -> Path:
    """A readable file: from the data folder, from the cache, or freshly downloaded.

    A file in the data folder is trusted as it is; a download must have the sha256 on record.

    Args:
        path: relative path below the data folder, with forward slashes.
        data_dir: the data folder; CREDO_DATA where None.
        archive: the publisher's zip file that holds the file, where it is not offered alone.
    """
    folder = data_folder(data_dir)
    if folder and (folder / path).is_file():
        return folder / path
    source = archive or path
    if source not in publisher().registry:
        raise CredoError(f"{path} is needed and cannot be downloaded; {_where_to_put(path)}")
    return _download(path, source)


def known_files(prefix: str, data_dir: DataDir = None) -> list[str]:
    """Relative paths below a folder: those in the data folder and those that can be downloaded."""
    found = {path for path in publisher().registry if path.startswith(prefix)}
    folder = data_folder(data_dir)
    if folder:
        found |= {path.relative_to(folder).as_posix() for path in (folder / prefix).rglob("*")}
    return sorted(found)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns whatever a damaged file provokes into one clear error."""
    try:
        yield
    except CredoError:
        raise
    except (OSError, EOFError, ValueError, LookupError, zlib.error, zipfile.BadZipFile) as error:
        raise CredoError(
            f"cannot read '{path}' ({error}); the file seems damaged: delete it and fetch it again"
        ) from error


@cache
def publisher() -> "Pooch":
    """All files that may be downloaded, with their addresses and hashes (registry.txt)."""
    import pooch

    fetcher = pooch.create(path=cache_folder() / "data", base_url="", registry=None)
    with resources.files("credo.data").joinpath("registry.txt").open("rb") as lines:
        fetcher.load_registry(lines)
    return fetcher


def _download(path: str, source: str) -> Path:
    import pooch

    member = None if source == path else pooch.Unzip(members=[Path(path).name])
    try:
        fetched = publisher().fetch(source, processor=member)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        reason = textwrap.shorten(str(error), 300)  # and on one line
        address = publisher().get_url(source)
        raise CredoError(
            f"could not download {address} ({reason}); {_where_to_put(path)}"
        ) from error
    return Path(fetched if member is None else fetched[0])


def _where_to_put(path: str) -> str:
    return (
        f"put it at {path} below a data folder, and name that folder with --data-dir, data_dir= "
        "or the environment variable CREDO_DATA"
    )
