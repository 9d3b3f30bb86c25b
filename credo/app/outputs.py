"""What a command leaves behind: checked before the work, whole or absent afterwards."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
