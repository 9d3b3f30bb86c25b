"""Rows that do not fit into memory: a source that reads them from disk in blocks.

N rows make K = ⌈N / block_rows⌉ blocks of equal size, up to one row: block k holds the rows from
⌊kN/K⌋ to ⌊(k+1)N/K⌋ − 1. An epoch visits every block once; a visit shuffles the rows of the block
and walks through them in batches. Which block a step sees, and in which order its rows come, is a
pure function of the seed, the run's key and the step's number, so that a run that was killed goes
on with the same bits. Blocks of equal size give every row the same weight; a block that is one row
shorter is filled up with a copy that does not count, so that all blocks run one program.

The block of the next visit is read in a thread while the present one is in use: two are in memory.
"""

import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from credo.data.parquet import parquet_reader
from credo.data.readers import Block, Passes, Reader, Slices, as_block
from credo.data.source import Batch, Rows, Segment, digest
from credo.errors import CredoError

BLOCK_ROWS = 1 << 16


class Visit(NamedTuple):
    """Which rows some steps see: those of a block, in an epoch."""

    epoch: int
    block: int
    first_step: int
    stop: int | None


Prepare = Callable[[np.ndarray, np.ndarray], Batch]


def stream_arrays(
    x: Any, y: Any, *, weights: Any = None, block_rows: int = BLOCK_ROWS, seed: int = 0
) -> "Stream":
    """A source of rows that arrays on disk hold.

    Args:
        x: inputs: a NumPy memory map, the path of a .npy file, or anything with a `shape` of which
            rows can be taken by a slice, such as a data set of an HDF5 file.
        y: targets, likewise.
        weights: how much each row counts, likewise; by default all alike.
        block_rows: most rows in memory at a time; two blocks are. Rows are shuffled within a block
            and not between blocks, so those of a sorted file need shuffling beforehand.
        seed: of the order in which an epoch visits the blocks.

    Example:
        >>> import numpy as np
        >>> x, y = np.zeros((10, 3)), np.zeros(10)
        >>> source = stream_arrays(x, y, block_rows=5)
        >>> source.num_rows, source.num_blocks
        (10, 2)
    """
    columns = [_opened(part) for part in (x, y, weights) if part is not None]
    for name, column in zip(("x", "y", "weights"), columns):
        if not getattr(column, "shape", ()):
            raise CredoError(f"{name} must be an array with rows, got {type(column).__name__}")
        if len(column) != len(columns[0]):
            raise CredoError(f"x has {len(columns[0])} rows, {name} has {len(column)}")
    return Stream(Slices(columns), len(columns[0]), block_rows, seed)


def stream_parquet(
    path: str | os.PathLike[str],
    *,
    target: str,
    columns: Sequence[str] | None = None,
    weights: str | None = None,
    block_rows: int = BLOCK_ROWS,
    seed: int = 0,
) -> "Stream":
    """A source of rows that a Parquet file holds; all its columns must be numbers.

    Blocks are visited in a random order where the file's row groups are no longer than a block.
    Otherwise they are visited as they stand in the file, for a row group can only be read from its
    beginning: shuffle the rows of a sorted file beforehand.

    Args:
        target: the column to predict; its whole numbers are classes for a classifier.
        columns: the inputs, in this order; by default all other columns.
        weights: a column that says how much each row counts.
        block_rows: most rows in memory at a time; two blocks are.
        seed: of the order in which an epoch visits the blocks.
    """
    reader = parquet_reader(Path(path), target, columns, weights, block_rows)
    return Stream(reader, reader.num_rows, block_rows, seed)


def stream_blocks(
    make_blocks: Callable[[], Iterable[tuple[Any, ...]]],
    num_rows: int,
    *,
    block_rows: int = BLOCK_ROWS,
) -> "Stream":
    """A source of rows that an iterator gives, in its order, which a function can restart.

    Args:
        make_blocks: starts the iterator: pairs (x, y), or (x, y, weights), of any number of rows
            each, which must be the same rows every time.
        num_rows: how many rows a pass of the iterator gives.
        block_rows: most rows in memory at a time; two blocks are, and one of the iterator's.

    Example:
        >>> import numpy as np
        >>> def make_blocks():
        ...     for start in range(0, 10, 4):
        ...         x = np.arange(start, min(start + 4, 10))[:, None]
        ...         yield x, x[:, 0]
        >>> source = stream_blocks(make_blocks, num_rows=10, block_rows=5)
    """

    def restart(row: int) -> tuple[int, Iterator[Block]]:
        return 0, map(as_block, make_blocks())

    return Stream(Passes(restart, num_rows, False, ""), num_rows, block_rows, 0)


class Stream:
    """Rows read in blocks of at most `block_rows`: a `Source`. See the top of this module."""

    def __init__(
        self,
        reader: Reader,
        num_rows: int,
        block_rows: int,
        seed: int,
        prepare: Prepare | None = None,
    ) -> None:
        for name, value, least in (("num_rows", num_rows, 1), ("block_rows", block_rows, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise CredoError(f"{name} must be a whole number of at least {least}, got {value}")
        self.num_rows, self.block_rows, self.seed = num_rows, block_rows, seed
        self.num_blocks = -(-num_rows // block_rows)
        self.capacity = -(-num_rows // self.num_blocks)
        self._reader, self._prepare = reader, prepare or _as_batch
        self._ahead: tuple[int, Future[Block]] | None = None

    def prepared_by(self, prepare: Prepare) -> "Stream":
        """The same rows, made batches by a function that checks them or changes their units."""
        return Stream(self._reader, self.num_rows, self.block_rows, self.seed, prepare)

    def fingerprint(self) -> str:
        """Of the first block, the division into blocks, and what the reader knows of the rest."""
        first = digest(self._on_device(0, self._loaded(0)))
        facts = self.num_rows, self.block_rows, self.seed, self._reader.identity(), first
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    def segment(self, step: int, batch_size: int | None) -> Segment:
        visit = self._visit(step, batch_size)
        batch = self._on_device(visit.block, self._loaded(visit.block))
        first, stop = self._bounds(visit.block)
        # Salts of different visits differ, and one block has the shuffles of resident rows.
        salt = (visit.epoch * self.num_blocks + visit.block) % 2**31
        rows = Rows(batch, jnp.asarray(stop - first, jnp.int32), jnp.asarray(salt, jnp.int32))
        if visit.stop is not None:
            block = self._visit(visit.stop, batch_size).block
            self._ahead = block, self._reader.submit(*self._bounds(block), self.capacity)
        return Segment(rows, visit.first_step, visit.stop)

    def _visit(self, step: int, batch_size: int | None) -> Visit:
        if batch_size is None:
            raise CredoError(
                "the algorithm sees all rows at every step, and a stream has only some of them in "
                "memory; give it a batch_size, or load the rows"
            )
        if self.num_blocks == 1:
            return Visit(0, 0, 0, None)
        if batch_size > self.block_rows:
            raise CredoError(
                f"a batch of {batch_size} rows is larger than a block of {self.block_rows}; raise "
                "block_rows or lower batch_size"
            )
        # As many for a block that is a row shorter: its rows must not count for less.
        num_steps = max(self.capacity // batch_size, 1)
        visit = step // num_steps
        epoch, position = divmod(visit, self.num_blocks)
        return Visit(
            epoch, self._order(epoch)[position], visit * num_steps, (visit + 1) * num_steps
        )

    def _order(self, epoch: int) -> Sequence[int]:
        if not self._reader.is_seekable:
            return range(self.num_blocks)
        return _shuffled(self.seed, epoch, self.num_blocks)

    def _bounds(self, block: int) -> tuple[int, int]:
        count = self.num_blocks
        return block * self.num_rows // count, (block + 1) * self.num_rows // count

    def _loaded(self, block: int) -> Block:
        """The block from the disk, or as it was read ahead."""
        ahead, self._ahead = self._ahead, None
        if ahead is None or ahead[0] != block:
            return self._reader.submit(*self._bounds(block), self.capacity).result()
        return ahead[1].result()

    def _on_device(self, block: int, loaded: Block) -> Batch:
        first, stop = self._bounds(block)
        try:
            batch = self._prepare(loaded.x, loaded.y)
            weight = None if loaded.weights is None else _checked_weights(loaded.weights)
        except CredoError as error:
            raise CredoError(f"rows {first} … {stop - 1} of the stream: {error}") from error
        numbers = np.arange(first, first + self.capacity, dtype=np.int32)
        row = jnp.asarray(np.where(numbers < stop, numbers, -1))
        return batch._replace(row=row, weight=weight)


@functools.lru_cache(maxsize=4)
def _shuffled(seed: int, epoch: int, count: int) -> list[int]:
    """A permutation that is the same for every version of every library."""

    def place(block: int) -> bytes:
        return hashlib.sha256(f"{seed} {epoch} {block}".encode()).digest()

    return sorted(range(count), key=place)


def _as_batch(x: np.ndarray, y: np.ndarray) -> Batch:
    dtype = jnp.int32 if np.issubdtype(y.dtype, np.integer) else float
    return Batch(jnp.asarray(x, float), jnp.asarray(y, dtype))


def _checked_weights(weights: np.ndarray) -> Any:
    if weights.ndim != 1 or not np.isfinite(weights).all() or weights.min() < 0:
        raise CredoError("weights must be finite numbers, one a row, none negative")
    return jnp.asarray(weights, float)


def _opened(array: Any) -> Any:
    if not isinstance(array, str | os.PathLike):
        return array
    try:
        return np.load(array, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise CredoError(f"cannot read '{os.fspath(array)}' as a .npy file: {reason}") from error
