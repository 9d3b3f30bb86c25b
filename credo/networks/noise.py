"""Multiplicative unit noise: a kind is a function (key, rate, shape) -> multipliers of mean 1."""

import jax
import jax.numpy as jnp
from jaxtyping import Array


def bernoulli(key: Array, rate: Array | float, shape: tuple[int, ...]) -> Array:
    """Inverted dropout: z / (1 − p) with z ~ Bernoulli(1 − p), p the *drop* probability."""
    # 16 random bits resolve the rate to 1/65536 at half the generator's cost of 32.
    keep = jax.random.bits(key, shape, jnp.uint16) >= jnp.round(rate * 65536).astype(jnp.uint32)
    return keep / (1.0 - jnp.asarray(rate, float))


KINDS = {"bernoulli": bernoulli}
