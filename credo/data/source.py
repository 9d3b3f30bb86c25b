"""Where batches come from: rows that stay on the device, or a stream of blocks.

A source gives the engine segments: data on the device, and the steps for which they serve. Which
rows a step sees is a pure function of the run's key and the step's number, so that a run that was
killed goes on with the same bits.
"""

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.data.batches import batch_indices
from credo.struct import Struct

LARGEST_PADDED = 1 << 17  # rows; more are not copied: their run is long beside its compilation


class Batch(NamedTuple):
    """Inputs and targets, data axis first."""

    x: Any
    y: Any = None
    row: Array | None = None
    """Where in the data each row stands; -1 marks a copy that only fills up the shape."""
    weight: Array | None = None
    """How much each row counts; None: all alike."""

    @property
    def is_real(self) -> Array | None:
        """Which rows are data; None: all."""
        return None if self.row is None else self.row >= 0

    def total(self, terms: Array) -> Array:
        """Σ_j w_j t_j over the rows that are data."""
        if self.weight is not None:
            terms = self.weight * terms
        return jnp.sum(terms if self.row is None else jnp.where(self.row >= 0, terms, 0.0))

    def count(self) -> Array | int:  # type: ignore[override]
        """How many rows are data."""
        return len(jax.tree.leaves(self.x)[0]) if self.row is None else jnp.sum(self.row >= 0)

    def mean(self, terms: Array) -> Array:
        """(1/B) Σ_j w_j t_j over the B rows that are data."""
        return self.total(terms) / self.count()


class Segment(NamedTuple):
    """Rows on the device, and the steps for which they serve."""

    rows: "Rows"
    first_step: int
    stop: int | None
    """The first step that needs other rows; None: never."""

    def serves(self, step: int) -> bool:
        """Whether these are the rows of a step."""
        return self.first_step <= step and (self.stop is None or step < self.stop)


class Source(Protocol):
    """What the engine asks of data. Adding one is writing these three."""

    @property
    def num_rows(self) -> int: ...

    def fingerprint(self) -> str:
        """Recognises the data of a run that is resumed."""
        ...

    def segment(self, step: int, batch_size: int | None) -> Segment:
        """The rows for `step` and those after it."""
        ...


@dataclass(frozen=True)
class Rows(Struct):
    """Rows on the device as a compiled program sees them; how many there are is data."""

    data: Any
    """A pytree whose leaves have the rows first: a `Batch`, or anything else that is not padded."""
    num_rows: Array
    salt: Array
    """Distinguishes the shuffles of different segments."""

    def batch(self, key: Array, step: Array, size: int | None, with_replacement: bool) -> Any:
        """The batch of a step, counted from the start of the segment."""
        capacity = len(jax.tree.leaves(self.data)[0]) if jax.tree.leaves(self.data) else 0
        if size is None or (size >= capacity and not with_replacement):
            return self.data
        key = jax.random.fold_in(key, self.salt)
        if with_replacement:
            drawn = jax.random.fold_in(key, step)
            return self._rows(jax.random.randint(drawn, (size,), 0, self.num_rows))
        positions, rows = batch_indices(key, step, self.num_rows, size)
        batch = self._rows(rows)
        if isinstance(batch, Batch) and batch.row is not None:
            batch = batch._replace(row=jnp.where(positions < self.num_rows, batch.row, -1))
        return batch

    def _rows(self, rows: Array) -> Any:
        return jax.tree.map(lambda column: column[rows], self.data)


@dataclass(frozen=True)
class Resident:
    """All rows on the device for the whole run."""

    rows: Rows
    num_rows: int

    def fingerprint(self) -> str:
        return digest(self.rows.data)

    def segment(self, step: int, batch_size: int | None) -> Segment:
        return Segment(self.rows, 0, None)


def resident(data: Any, padded: bool = False) -> Resident:
    """A source of rows that are on the device; `padded` to a power of two where that is cheap.

    A padded batch has copies of its rows, without a number, up to the next power of two: data of
    every size in between then run one program.
    """
    leaves = jax.tree.leaves(data)
    count = len(leaves[0]) if leaves else 1
    capacity = count
    if padded and count <= LARGEST_PADDED:
        capacity = 1 << (count - 1).bit_length()
    if isinstance(data, Batch):
        data = with_capacity(data, capacity)
    number = jnp.asarray(count, jnp.int32)
    return Resident(Rows(data, number, jnp.zeros((), jnp.int32)), count)


def with_capacity(batch: Batch, capacity: int) -> Batch:
    """The batch with numbered rows, and copies without a number up to `capacity` rows."""
    count = len(jax.tree.leaves(batch.x)[0])
    chosen = np.arange(capacity) % count
    # On the host, where a new number of rows is no new program.
    numbers = np.arange(count) if batch.row is None else np.asarray(batch.row)
    row = jnp.asarray(np.where(np.arange(capacity) < count, numbers[chosen], -1).astype(np.int32))
    if capacity == count:
        return batch._replace(row=row)
    filled = jax.tree.map(lambda column: _taken(column, chosen), batch._replace(row=None))
    return filled._replace(row=row)


def _taken(column: Any, chosen: np.ndarray) -> Array:
    """Rows of a column, on the host where that is where they are."""
    if isinstance(column, jax.Array) and any(d.platform != "cpu" for d in column.devices()):
        return column[chosen]
    return jnp.asarray(np.asarray(column)[chosen])


def digest(data: Any) -> str:
    """Recognises a pytree of arrays by its content."""
    found = hashlib.sha256()
    for leaf in jax.tree.leaves(data):
        array = np.asarray(leaf)
        found.update(f"{array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
