"""Random keys: an integer seed or a JAX key, everywhere; and noise in bulk, from a cheap hash.

JAX's generator is a cipher (threefry), whose cost dominates a training step with a number for every
unit or weight. Bulk noise needs no cipher: here it is a keyed hash of the position (bits in a fifth
of the time, normal numbers in a quarter), and like a cipher a pure function of key and position.
Keys themselves, and every number that decides something (an acceptance, a batch), still come from
JAX.
"""

import functools
import math
from collections.abc import Callable
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
    return _drawn(_bits, key, shape)


def _drawn(make: Callable[[Array, Array], Array], key: Array, shape: tuple[int, ...]) -> Array:
    """`make` of the key's words and of every entry's position.

    The units of convolutions are drawn channel by channel, in a loop: the compiler does not fuse a
    loop into those who use its result. Pooling and its gradient would each draw all anew.
    """
    words = jax.random.key_data(key).astype(jnp.uint32).ravel()
    in_turns = len(shape) > 2
    count = math.prod(shape[1:] if in_turns else shape)
    positions = jax.lax.iota(jnp.uint32, count)
    if not in_turns:
        return make(words, positions).reshape(shape)
    starts = count * jax.lax.iota(jnp.uint32, shape[0])
    return jax.lax.map(lambda start: make(words, start + positions), starts).reshape(shape)


def _bits(words: Array, positions: Array) -> Array:
    return _mixed(_mixed(positions + words[0]) ^ words[-1])


def _mixed(value: Array) -> Array:
    value = (value ^ (value >> 17)) * jnp.uint32(0xED5AD4BB)
    value = (value ^ (value >> 11)) * jnp.uint32(0xAC4C1B51)
    value = (value ^ (value >> 15)) * jnp.uint32(0x31848BAB)
    return value ^ (value >> 14)


def bulk_uniform(key: Array, shape: tuple[int, ...], dtype: Any = None) -> Array:
    """Numbers in the open interval (0, 1), on a grid of 2²³: a finer one would round up to 1."""
    dtype = jnp.result_type(float) if dtype is None else dtype
    return _drawn(functools.partial(_uniform, dtype), key, shape)


def _uniform(dtype: Any, words: Array, positions: Array) -> Array:
    return ((_bits(words, positions) >> 9).astype(dtype) + 0.5) * 2.0**-23


def bulk_normal(key: Array, shape: tuple[int, ...], dtype: Any = None) -> Array:
    """Standard normal numbers, up to 5.3 standard deviations (`jax.random.normal`: 5.4).

    The quantile of u is (2u − 1) P(w)/Q(w) with w = −log 4u(1−u): a rational function without
    branches, two thirds of the time of the library's inverse error function. Its relative error is
    at most 7.5e-6, that of the variance 1.6e-7.
    """
    dtype = jnp.result_type(float) if dtype is None else dtype
    return _drawn(functools.partial(_normal, dtype), key, shape)


def _normal(dtype: Any, words: Array, positions: Array) -> Array:
    uniform = _uniform(dtype, words, positions)
    w = -jnp.log(4 * uniform * (1 - uniform))
    return (2 * uniform - 1) * _polynomial(QUANTILE_ABOVE, w) / _polynomial(QUANTILE_BELOW, w)


# Minimax in the relative error on the grid of `bulk_uniform`, by Lawson's reweighting; constant
# terms first.
QUANTILE_ABOVE = (1.2533093, 0.42196995, 0.075635993, 0.0080345272)
QUANTILE_BELOW = (1.0, 0.07477515, 0.028053029, 0.00042054621)


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    """Horner's rule."""
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value
