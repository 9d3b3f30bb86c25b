"""How the blocks of a stream are read: parts of arrays, or passes of an iterator."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from credo.data.source import digest
from credo.errors import CredoError

NUM_SAMPLED = 256  # rows by which the arrays of a resumed run are recognised


class Block(NamedTuple):
    """Rows in the memory of the host."""

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None = None


Restart = Callable[[int], tuple[int, Iterator[Block]]]
"""From a row: the iterator that gives it, and the row at which that one starts."""


class Reader:
    """Reads rows in a thread of its own, one block at a time."""

    is_seekable = True

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "credo-stream")

    def submit(self, first: int, stop: int, capacity: int) -> "Future[Block]":
        return self._thread.submit(self._padded, first, stop, capacity)

    def _padded(self, first: int, stop: int, capacity: int) -> Block:
        """The rows, with copies of the first ones up to `capacity`."""
        block = self.read(first, stop)
        if stop - first == capacity:
            return block
        chosen = np.arange(capacity) % (stop - first)
        return Block(*(None if part is None else part[chosen] for part in block))  # type: ignore[arg-type]

    def read(self, first: int, stop: int) -> Block:
        raise NotImplementedError

    def identity(self) -> str:
        """What is known of the rows without reading them all."""
        raise NotImplementedError


class Slices(Reader):
    """Rows of arrays, of which any part can be read."""

    def __init__(self, columns: list[Any]) -> None:
        super().__init__()
        self.columns = columns

    def read(self, first: int, stop: int) -> Block:
        # A copy: a part of a memory map would stay on the disk.
        return Block(*(np.array(column[first:stop]) for column in self.columns))

    def identity(self) -> str:
        count = len(self.columns[0])
        rows = [k * (count - 1) // NUM_SAMPLED for k in range(NUM_SAMPLED + 1)]
        sampled = [np.stack([column[row] for row in rows]) for column in self.columns]
        return digest(sampled) + repr([column.shape for column in self.columns])


class Passes(Reader):
    """Rows of an iterator: read on from where it stands, or restarted."""

    def __init__(self, restart: Restart, num_rows: int, is_seekable: bool, identity: str) -> None:
        super().__init__()
        self.restart, self.num_rows, self.is_seekable = restart, num_rows, is_seekable
        self._identity = identity
        self._blocks: Iterator[Block] = iter(())
        self._rest: list[Block] = []
        self._position = -1  # of the first row of the rest

    def identity(self) -> str:
        return self._identity

    def read(self, first: int, stop: int) -> Block:
        try:
            return self._read(first, stop)
        except BaseException:
            self._position = -1  # an iterator that failed is of no use any more
            raise

    def _read(self, first: int, stop: int) -> Block:
        if not 0 <= self._position <= first or (self.is_seekable and self._position != first):
            self._position, self._blocks = self.restart(first)
            self._rest = []
        self._take(first - self._position, keep=False)
        taken = self._take(stop - first, keep=True)
        if stop == self.num_rows and (self._rest or next(self._blocks, None) is not None):
            raise CredoError(
                f"the iterator of the stream gave more than num_rows={self.num_rows} rows; give "
                "their true number"
            )
        return Block(*(None if p[0] is None else np.concatenate(p) for p in zip(*taken)))  # type: ignore[arg-type]

    def _take(self, count: int, keep: bool) -> list[Block]:
        """The next rows of the iterator, in parts."""
        taken: list[Block] = []
        while count > 0:
            part = self._rest.pop() if self._rest else next(self._blocks, None)
            if part is None:
                raise CredoError(
                    f"the iterator of the stream ended after {self._position} of "
                    f"num_rows={self.num_rows} rows; give their true number, and a function that "
                    "starts the iterator anew"
                )
            used = min(count, len(part.x))
            if keep:
                taken.append(_part(part, 0, used))
            if used < len(part.x):
                self._rest = [_part(part, used, len(part.x))]
            count -= used
            self._position += used
        return taken


def as_block(given: Any) -> Block:
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        raise CredoError(
            f"blocks must be pairs (x, y) or triples (x, y, weights), got {type(given).__name__}"
        )
    block = Block(*(np.asarray(part) for part in given))
    lengths = [part.shape[:1] for part in block if part is not None]
    if len(set(lengths)) > 1 or not lengths[0]:
        shapes = ", ".join(str(part.shape) for part in block if part is not None)
        raise CredoError(f"the parts of a block must have equally many rows, got shapes {shapes}")
    return block


def _part(block: Block, first: int, stop: int) -> Block:
    return Block(*(None if part is None else part[first:stop] for part in block))  # type: ignore[arg-type]
