"""Random keys: an integer seed or a JAX key, everywhere; and noise in bulk, from a cheap hash.

JAX's generator is a cipher (threefry), whose cost dominates a training step with a number for every
unit or weight. Bulk noise needs no cipher: here it is a keyed hash of the position (bits in a fifth
of the time, normal numbers in two thirds), and like a cipher a pure function of key and position.
Keys themselves, and every number that decides something (an acceptance, a batch), still come from
JAX.
"""

import math
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.errors import CredoError


def as_key(key: int | Array) -> Array:
    """Accept a seed where a key is wanted."""
    if isinstance(key, Integral) and -(2**63) <= key < 2**63:
        return jax.random.key(int(key))
    if not jax.dtypes.issubdtype(getattr(key, "dtype", None), jax.dtypes.prng_key):
        raise CredoError(f"key must be an integer seed or jax.random.key(seed), got {key!r}")
    return key  # type: ignore[return-value]


def bulk_bits(key: Array, shape: tuple[int, ...]) -> Array:
    """32 random bits for every entry: its position and half of the key mixed, then the other half.

    Reference: the multiplications and shifts of a mixing are those of `triple32` (Christopher
    Wellons, hash prospector, public domain), whose bias is near that of a random function.
    """
    words = jax.random.key_data(key).astype(jnp.uint32).ravel()
    count = jax.lax.iota(jnp.uint32, math.prod(shape))
    value = _mixed(count + words[0]) ^ words[-1]
    return _mixed(value).reshape(shape)


def _mixed(value: Array) -> Array:
    value = (value ^ (value >> 17)) * jnp.uint32(0xED5AD4BB)
    value = (value ^ (value >> 11)) * jnp.uint32(0xAC4C1B51)
    value = (value ^ (value >> 15)) * jnp.uint32(0x31848BAB)
    return value ^ (value >> 14)


def bulk_uniform(key: Array, shape: tuple[int, ...], dtype: Any = None) -> Array:
    """Numbers in the open interval (0, 1), on a grid of 2²³: a finer one would round up to 1."""
    dtype = jnp.result_type(float) if dtype is None else dtype
    return ((bulk_bits(key, shape) >> 9).astype(dtype) + 0.5) * 2.0**-23


def bulk_normal(key: Array, shape: tuple[int, ...], dtype: Any = None) -> Array:
    """Standard normal numbers, up to 5.3 standard deviations (`jax.random.normal`: 5.4)."""
    uniform = bulk_uniform(key, shape, dtype)
    return math.sqrt(2) * jax.lax.erf_inv(2 * uniform - 1)
