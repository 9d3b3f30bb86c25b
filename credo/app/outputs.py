"""What a command leaves behind: checked before the work, whole or absent afterwards."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from credo.errors import CredoError, DivergedError
from credo.files import check_writable


def check_output(path: Path, inputs: Iterable[str | Path] = ()) -> None:
    """Raise now if `path` could not be written later, or is one of the files to be read."""
    check_writable(path)
    for source in map(Path, inputs):
        if source.exists() and path.exists() and source.samefile(path):
            raise CredoError(
                f"--out would overwrite '{source}', which is an input; name another file"
            )


def remove_leftovers(path: Path) -> None:
    """Remove the unfinished files that killed runs of the same command left beside `path`."""
    for leftover in path.parent.glob(f".{path.name}.*.part"):
        leftover.unlink(missing_ok=True)


def checkpoint_of(path: Path) -> Path:
    """Where a run that writes `path` is saved while it goes on."""
    return path.with_name(path.name + ".checkpoint")


@contextmanager
def resumable(checkpoint: Path | None) -> Iterator[None]:
    """Tell how to go on with a run that was interrupted; a run that diverged starts afresh."""
    try:
        yield
    except DivergedError:
        # The same command would only diverge again, and a better one start afresh.
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
        raise
    except KeyboardInterrupt:
        how = "nothing was written"
        if checkpoint is not None and checkpoint.exists():
            how = f"give the same command again to go on from {checkpoint}"
        raise KeyboardInterrupt(f"interrupted; {how}") from None


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Refuse to begin while another process works on the same output.

    The file `path.lock` names the process. The system forgets the lock of one that was killed,
    whose file is taken over.
    """
    lock = path.with_name(path.name + ".lock")
    handle = _locked(lock)
    if handle is None:
        pid = ""
        with suppress(OSError):
            pid = lock.read_text().strip()
        raise CredoError(
            f"another run is writing {path} (process {pid or 'unknown'}); wait for it, or name "
            "another file for --out"
        )
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _locked(lock: Path) -> int | None:
    """An open file that this process alone has locked; None if another one has."""
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        if not _lock(handle):
            os.close(handle)
            return None
        if _is_still(lock, handle):
            break
        os.close(handle)  # its owner removed it between the two lines above
    with suppress(OSError):  # on a full disk the lock holds, without a name
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
    return handle


def _lock(handle: int) -> bool:
    """Whether the lock was free; where the system has none, it always is."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False
