"""Minibatches chosen on the device: a fresh pseudo-random permutation every epoch, never stored."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, UInt

from credo.errors import CredoError

# Half-rounds of the Feistel network. With 12, the joint law of two positions was uniform to
# what 400,000 keys can see for every small num_data; with 8 it was visibly not.
NUM_ROUNDS = 12


def batch_indices(
    key: PRNGKeyArray, step: Int[Array, ""] | int, num_data: Int[Array, ""] | int, batch_size: int
) -> tuple[Int[Array, " batch_size"], Int[Array, " batch_size"]]:
    """Positions of a step's minibatch in its epoch, and the rows that stand there.

    An epoch has `num_data // batch_size` steps and walks through one permutation of
    `range(num_data)`; the remainder is left out of that epoch. A batch larger than the data is all
    rows, then rows again: at positions from `num_data` on. The result is a pure function of its
    arguments, so a resumed run needs the step number and nothing else.

    Args:
        key: fixes all permutations of a run; the epoch number is folded into it.
        step: number of the step from 0; may be traced.
        num_data: rows in the data; may be traced, so that more rows are no new program.
        batch_size: rows in a batch, at least 1.

    Example:
        >>> import jax
        >>> epoch = [batch_indices(jax.random.key(0), step, 6, 2)[1] for step in range(3)]
        >>> sorted(int(index) for batch in epoch for index in batch)
        [0, 1, 2, 3, 4, 5]
    """
    if batch_size < 1:
        raise CredoError(f"batch_size must be at least 1, got {batch_size}")
    num_data = jnp.asarray(num_data, jnp.int32)
    epoch, step_in_epoch = jnp.divmod(step, jnp.maximum(num_data // batch_size, 1))
    positions = step_in_epoch * batch_size + jnp.arange(batch_size)
    rows = permute(jax.random.fold_in(key, epoch), positions % num_data, num_data)
    return positions, rows


def permute(
    key: PRNGKeyArray, positions: Int[Array, " batch"], num_data: Int[Array, ""] | int
) -> Int[Array, " batch"]:
    """Entries of a pseudo-random permutation of `range(num_data)` at the given positions.

    A position is written as `left * columns + right` on a near-square grid of at least
    `num_data` cells, and each half-round adds a keyed hash of one coordinate to the other
    (modulo rows or columns), which is a bijection of the grid. Cells beyond `num_data` are
    sent through again until they land inside ("cycle walking"), which keeps the bijection;
    the grid has fewer than `sqrt(num_data)` such cells, so this is rare.

    Reference: Black & Rogaway, Ciphers with Arbitrary Finite Domains, CT-RSA 2002.
    """
    num_data = jnp.asarray(num_data, jnp.uint32)
    # The root in single precision may be off by one, which only makes the grid less square.
    rows = jnp.ceil(jnp.sqrt(num_data.astype(jnp.float32))).astype(jnp.uint32)
    columns = (num_data + rows - 1) // rows
    round_keys = jax.random.bits(key, (NUM_ROUNDS,), jnp.uint32)

    def shuffle(cells: UInt[Array, " batch"]) -> UInt[Array, " batch"]:
        left, right = jnp.divmod(cells, columns)
        for even_key, odd_key in round_keys.reshape(-1, 2):
            left = (left + hash_bits(right ^ even_key) % rows) % rows
            right = (right + hash_bits(left ^ odd_key) % columns) % columns
        return left * columns + right

    def walk(cells: UInt[Array, " batch"]) -> UInt[Array, " batch"]:
        return jnp.where(cells < num_data, cells, shuffle(cells))

    inside = jax.lax.while_loop(
        lambda cells: jnp.any(cells >= num_data), walk, shuffle(positions.astype(jnp.uint32))
    )
    return inside.astype(jnp.int32)


def hash_bits(value: UInt[Array, " batch"]) -> UInt[Array, " batch"]:
    """Mixes 32 bits so that each input bit moves each output bit about half of the time.

    Reference: the finalizer of MurmurHash3 (Austin Appleby, public domain).
    """
    value = (value ^ (value >> 16)) * jnp.uint32(0x85EBCA6B)
    value = (value ^ (value >> 13)) * jnp.uint32(0xC2B2AE35)
    return value ^ (value >> 16)
