"""Samples around one solution: directions, dropout, and normals fitted along its training.

Each is a posterior like any other, so `predict` and `evaluate` take it; `scale` says how far from
the solution it reaches.

Reference: Fort, Hu & Lakshminarayanan, Deep Ensembles: A Loss Landscape Perspective, 2019, section
4.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from credo.caching import jit
from credo.engine import pick
from credo.keys import as_key, bulk_normal
from credo.model import Model
from credo.networks import Params, site_shapes
from credo.posterior import LowRankNormal, NoisyNetwork, NormalWeights, Record, Samples


def random_directions(
    key: int | Array, model: Model, params: Params, record: Record, scale: float, num_draws: int
) -> Samples:
    """θ + scale · ‖θ‖ v, with directions v uniform on the unit sphere."""
    return Samples(model, _scattered(as_key(key), params, scale, num_draws), record)


@jit(static_argnames="num_draws")
def _scattered(key: Array, params: Params, scale: float, num_draws: int) -> Params:
    flat, unravel = ravel_pytree(params)

    def one(draw_key: Array) -> Params:
        direction = bulk_normal(draw_key, flat.shape, flat.dtype)
        length = scale * jnp.linalg.norm(flat) / jnp.linalg.norm(direction)
        return unravel(flat + length * direction)

    draws = jax.vmap(one)(jax.random.split(key, num_draws))
    return jax.tree.map(lambda leaf: leaf[None], draws)


def dropout(model: Model, params: Params, record: Record, scale: float) -> NoisyNetwork:
    """Units of every hidden layer dropped with probability `scale`."""
    sites = list(site_shapes(model.network, params["network"], record.input_shape))
    rates = {site: jnp.asarray(scale, float) for site in sites[1:]}
    return NoisyNetwork(model, params, rates, channelwise=True, record=record)


def diagonal_normal(
    model: Model, params: Params, trajectory: Params, record: Record, scale: float
) -> NormalWeights:
    """N(θ, scale² diag(σ²)), with σ the spread of each weight along the (stacked) trajectory."""
    std = jax.tree.map(lambda leaf: scale * np.std(leaf, axis=0), trajectory)
    return NormalWeights(model, params, std, record=record)


def low_rank_normal(
    model: Model, params: Params, trajectory: Params, record: Record, scale: float, rank: int = 5
) -> LowRankNormal:
    """N(θ, scale² Σ_k), with Σ_k the first `rank` principal components of the trajectory."""
    count = len(jax.tree.leaves(trajectory)[0])
    flat = np.stack([np.asarray(ravel_pytree(pick(trajectory, i))[0]) for i in range(count)])
    centered = flat - flat.mean(axis=0)
    # The small matrix of inner products has the same spectrum as the covariance of all weights.
    vectors = np.linalg.eigh(centered.astype(np.float64) @ centered.T).eigenvectors
    factor = centered.T @ vectors[:, ::-1][:, : min(rank, count - 1)] / np.sqrt(count - 1)
    nothing = jax.tree.map(np.zeros_like, params)
    scaled = jnp.asarray(scale * factor, flat.dtype)
    return LowRankNormal(model, params, nothing, scaled, record)
