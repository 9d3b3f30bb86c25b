"""Weights that are distributions, and the layers that know what to do with them.

A network calls `linear` and `conv` with whatever its parameters hold. Where a weight is a plain
array, that is a matrix product. Where it is a `NormalWeight`, the layer samples its *outputs*
instead of its weights (local reparametrization, Kingma, Salimans & Welling 2015):

    b ~ N(x M + m_b,  x² S² + s_b²),

independently for each row of x. This has the same marginals as sampling W ~ N(M, S²), and a
gradient of far smaller variance.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key


class NormalWeight(NamedTuple):
    """A weight array distributed as N(mean, std²), with the key its noise comes from."""

    mean: Float[Array, "..."]
    std: Float[Array, "..."]
    key: Key[Array, ""]


class FlipoutWeight(NamedTuple):
    """A weight array N(mean, std²) whose layer decorrelates the rows of a batch by random signs.

    One perturbation ΔW = std ∘ ε serves the batch; row n sees r_n s_nᵀ ∘ ΔW with random signs r, s:

        y_n = x_n M + ((x_n ∘ s_n) ΔW) ∘ r_n

    Every row has the marginal of N(M, S²), and two rows are uncorrelated (Wen et al. 2018).
    """

    mean: Float[Array, "..."]
    std: Float[Array, "..."]
    key: Key[Array, ""]


Weight = Float[Array, "..."] | NormalWeight | FlipoutWeight


def linear(x: Float[Array, "rows inputs"], weight: Weight, bias: Weight) -> Array:
    """x W + b, with W of shape (inputs, outputs); stochastic where a weight is a NormalWeight."""
    return _affine(jnp.matmul, x, weight, bias)


def conv(x: Float[Array, "rows h w c"], weight: Weight, bias: Weight) -> Array:
    """Valid convolution of channels-last images with a (height, width, in, out) kernel.

    Written as patches times a matrix: on the CPU this is an order of magnitude faster than XLA's
    own convolution (16 times for a LeNet training step).
    """
    kernel = weight.mean if isinstance(weight, NormalWeight | FlipoutWeight) else weight
    patches = _patches(x, kernel.shape[0], kernel.shape[1])
    return _affine(lambda p, w: p @ w.reshape(-1, w.shape[-1]), patches, weight, bias)


def _affine(product, x: Array, weight: Weight, bias: Weight) -> Array:
    if isinstance(weight, FlipoutWeight):
        return _flipout(product, x, weight, bias)
    bias_mean, bias_variance = _moments(bias)
    if not isinstance(weight, NormalWeight):
        mean, variance = product(x, weight) + bias_mean, bias_variance
        key = bias.key if isinstance(bias, NormalWeight) else None
    else:
        mean = product(x, weight.mean) + bias_mean
        variance = product(jnp.square(x), jnp.square(weight.std)) + bias_variance
        key = weight.key
    if key is None:
        return mean
    # The gradient of a square root is infinite at 0, where a row of x is all zeros.
    deviation = jnp.sqrt(variance + jnp.finfo(mean.dtype).tiny)
    return mean + deviation * jax.random.normal(key, mean.shape, mean.dtype)


def _moments(weight: Weight) -> tuple[Any, Any]:
    if isinstance(weight, NormalWeight):
        return weight.mean, jnp.square(weight.std)
    return weight, 0.0


def _flipout(product, x: Array, weight: FlipoutWeight, bias: Weight) -> Array:
    noise_key, in_key, out_key = jax.random.split(weight.key, 3)
    perturbation = weight.std * jax.random.normal(noise_key, weight.mean.shape, weight.mean.dtype)
    # Signs are shared by the positions of an image, so that they commute with the convolution.
    ones = (1,) * (x.ndim - 2)
    rows, channels, outputs = x.shape[0], weight.mean.shape[-2], weight.mean.shape[-1]
    signs_in = jax.random.rademacher(in_key, (rows, *ones, channels), x.dtype)
    signs_out = jax.random.rademacher(out_key, (rows, *ones, outputs), x.dtype)
    signs_in = jnp.tile(signs_in, x.shape[-1] // channels)
    shift: Any = bias
    if isinstance(bias, FlipoutWeight):
        noise = jax.random.normal(bias.key, (rows, *ones, outputs), x.dtype)
        shift = bias.mean + bias.std * noise
    return product(x, weight.mean) + product(x * signs_in, perturbation) * signs_out + shift


def _patches(x: Array, height: int, width: int) -> Array:
    rows, columns = x.shape[1] - height + 1, x.shape[2] - width + 1
    shifted = [x[:, i : i + rows, j : j + columns] for i in range(height) for j in range(width)]
    return jnp.concatenate(shifted, axis=-1)


def max_pool(x: Float[Array, "rows h w c"], size: int = 2) -> Array:
    """Non-overlapping max pooling by reshape: one pass, and a cheap gradient."""
    rows, height, width, channels = x.shape
    blocks = x.reshape(rows, height // size, size, width // size, size, channels)
    return blocks.max(axis=(2, 4))
