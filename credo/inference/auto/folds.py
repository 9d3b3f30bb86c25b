"""Rows in folds: what every member learns from, and what it is judged by."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from credo.data.batches import batch_indices
from credo.data.source import Batch, with_capacity
from credo.model import Target
from credo.struct import Struct


@dataclass(frozen=True)
class Folds(Struct):
    """A target whose rows stand in order of folds: row j belongs to fold j mod F.

    Each fold then is a strided part of the arrays, and the rows outside of it are numbered by a
    formula: nothing depends on the number of rows but the data.
    """

    target: Target
    rows: Batch
    num_rows: Array
    num_folds: int

    @property
    def num_data(self) -> Any:
        return self.target.num_data

    @property
    def temperature(self) -> Any:
        return self.target.temperature

    @property
    def capacity(self) -> int:
        return len(self.rows.x)

    def batch(self, key: Array, step: Array, fold: Array, size: int) -> Batch:
        """Rows of a step that do not belong to the fold."""
        own = (self.num_rows - fold + self.num_folds - 1) // self.num_folds
        others = self.num_rows - own
        if size >= self.capacity:
            assert self.rows.row is not None
            is_own = jnp.arange(self.capacity) % self.num_folds == fold
            return self.rows._replace(row=jnp.where(is_own, -1, self.rows.row))
        positions, chosen = batch_indices(key, step, others, size)
        turn, place = chosen // (self.num_folds - 1), chosen % (self.num_folds - 1)
        rows = turn * self.num_folds + place + (place >= fold)
        batch = jax.tree.map(lambda column: column[rows], self.rows)
        return batch._replace(row=jnp.where(positions < others, batch.row, -1))

    def of_fold(self, fold: Array) -> Batch:
        """The rows of a fold."""

        def part(column: Array) -> Array:
            by_fold = column.reshape(-1, self.num_folds, *column.shape[1:])
            return jnp.take(by_fold, fold, axis=1)

        return jax.tree.map(part, self.rows)


def in_folds(target: Target, rows: Batch, num_folds: int, seed: int) -> Folds:
    """The rows of a target in folds that resemble each other: by class, or by quantity."""
    y = np.asarray(rows.y)
    order = fold_order(y, target.model.likelihood.num_classes is not None, num_folds, seed)
    arranged = jax.tree.map(lambda column: np.asarray(column)[order], rows)
    capacity = max(1 << (len(y) - 1).bit_length(), num_folds)
    capacity = -(-capacity // num_folds) * num_folds
    filled = with_capacity(arranged._replace(row=None), capacity)
    on_device = jax.tree.map(jnp.asarray, filled)
    return Folds(target, on_device, jnp.asarray(len(y), jnp.int32), num_folds)


def fold_order(
    y: np.ndarray, is_classes: bool, num_folds: int, seed: int
) -> Int[np.ndarray, " rows"]:
    """An order of rows in which those at j, j + F, j + 2F … are spread over all targets.

    Classes follow one another, quantities come sorted and shuffled among F neighbors.
    """
    random = np.random.default_rng(seed)
    shuffled = random.permutation(len(y))
    values = y.reshape(len(y), -1)[shuffled, 0]
    order = shuffled[np.argsort(values, kind="stable")]
    if is_classes:
        return order
    blocks = [order[i : i + num_folds] for i in range(0, len(order), num_folds)]
    return np.concatenate([random.permutation(block) for block in blocks])
