"""Multiplicative unit noise: a kind is a function (key, rate, shape) -> multipliers.

Every kind has mean 1, so the network without noise is the network of mean units; `concrete` has it
only in the limit t → 0.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.keys import bulk_bits, bulk_normal, bulk_uniform


def bernoulli(key: Array, rate: Array | float, shape: tuple[int, ...]) -> Array:
    """Inverted dropout: z / (1 − p) with z ~ Bernoulli(1 − p), p the *drop* probability."""
    # 16 of the random bits resolve the rate to 1/65536, which compares exactly in 32.
    keep = (bulk_bits(key, shape) >> 16) >= jnp.round(rate * 65536).astype(jnp.uint32)
    return keep / (1.0 - jnp.asarray(rate, float))


def gaussian(key: Array, alpha: Array | float, shape: tuple[int, ...]) -> Array:
    """N(1, α): the first two moments of `bernoulli` at α = p / (1 − p)."""
    scale = jnp.sqrt(alpha)
    # A stored rate's own precision, so that the draws do not depend on that of the inputs.
    return 1.0 + scale * bulk_normal(key, shape, scale.dtype)


def concrete(key: Array, logit: Array, temperature: float, shape: tuple[int, ...]) -> Array:
    """The concrete relaxation of `bernoulli`, differentiable in the logit of the drop probability.

    z̃ = 1 − sigmoid((logit p + logit u) / t) with u ~ U(0, 1), returned divided by 1 − p. For every
    t, P(z̃ > ½) = 1 − p exactly; as t → 0, z̃ becomes Bernoulli(1 − p).
    """
    uniform = bulk_uniform(key, shape)
    logistic = jnp.log(uniform) - jnp.log1p(-uniform)
    return jax.nn.sigmoid(-(logit + logistic) / temperature) / jax.nn.sigmoid(-logit)


KINDS = {"bernoulli": bernoulli, "gaussian": gaussian}
