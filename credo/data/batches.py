"""Minibatches chosen on the device: a fresh pseudo-random permutation every epoch, never stored."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, UInt

from credo.errors import CredoError

# Half-rounds of the Feistel network. With 12, the joint law of two positions was uniform to
# what 400,000 keys can see for every small num_data; with 8 it was visibly not.
NUM_ROUNDS = 12


def batch_indices(
    key: PRNGKeyArray, step: Int[Array, ""] | int, num_data: int, batch_size: int
) -> Int[Array, " batch_size"]:
    """Indices of the minibatch of a step, without replacement within an epoch.

    An epoch has `num_data // batch_size` steps and walks through one permutation of
    `range(num_data)`; the remainder is left out of that epoch. The result is a pure function
    of its arguments, so a resumed run needs the step number and nothing else.

    Args:
        key: fixes all permutations of a run; the epoch number is folded into it.
        step: number of the step from 0; may be traced.
        num_data: rows in the data.
        batch_size: rows in a batch, from 1 to `num_data`.

    Example:
        >>> import jax
        >>> epoch = [batch_indices(jax.random.key(0), step, 6, 2) for step in range(3)]
        >>> sorted(int(index) for batch in epoch for index in batch)
        [0, 1, 2, 3, 4, 5]
    """
    if not 1 <= batch_size <= num_data:
        raise CredoError(
            f"batch_size must lie between 1 and the number of rows ({num_data}), got {batch_size}"
        )
    epoch, step_in_epoch = jnp.divmod(step, num_data // batch_size)
    positions = step_in_epoch * batch_size + jnp.arange(batch_size)
    return permute(jax.random.fold_in(key, epoch), positions, num_data)


def permute(
    key: PRNGKeyArray, positions: Int[Array, " batch"], num_data: int
) -> Int[Array, " batch"]:
    """Entries of a pseudo-random permutation of `range(num_data)` at the given positions.

    A position is written as `left * columns + right` on a near-square grid of at least
    `num_data` cells, and each half-round adds a keyed hash of one coordinate to the other
    (modulo rows or columns), which is a bijection of the grid. Cells beyond `num_data` are
    sent through again until they land inside ("cycle walking"), which keeps the bijection;
    the grid has fewer than `sqrt(num_data)` such cells, so this is rare.

    Reference: Black & Rogaway, Ciphers with Arbitrary Finite Domains, CT-RSA 2002.
    """
    rows = math.isqrt(num_data - 1) + 1
    columns = -(-num_data // rows)
    round_keys = jax.random.bits(key, (NUM_ROUNDS,), jnp.uint32)

    def shuffle(cells: UInt[Array, " batch"]) -> UInt[Array, " batch"]:
        left, right = jnp.divmod(cells, jnp.uint32(columns))
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
