"""Priors over network weights. A prior is a standard deviation for every weight."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.errors import CredoError
from credo.networks.network import Network, Params

LOG_2PI = 1.8378770664093453


@dataclass(frozen=True)
class NormalPrior:
    """w ~ N(0, scale²) for every weight and bias; the weight decay of a mean loss is 1/(2 s² N)."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        _check_positive(self.scale)

    def scales(self, network: Network, params: Params) -> Params:
        return jax.tree.map(lambda leaf: self.scale, params)


@dataclass(frozen=True)
class LayerPrior:
    """A scale for each top-level entry of the parameters, e.g. (("dense0", 0.5), ("dense1", 1.0)).

    A mapping is accepted too. Every layer must be named.
    """

    scale: tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        if isinstance(self.scale, Mapping):
            object.__setattr__(self, "scale", tuple(self.scale.items()))
        object.__setattr__(self, "scale", tuple((str(n), float(s)) for n, s in self.scale))
        for _, scale in self.scale:
            _check_positive(scale)

    def scales(self, network: Network, params: Params) -> Params:
        by_layer = dict(self.scale)
        if set(by_layer) != set(params):
            raise CredoError(
                f"LayerPrior names the layers {sorted(by_layer)}, the network has {sorted(params)}"
            )
        return {n: jax.tree.map(lambda leaf, s=by_layer[n]: s, p) for n, p in params.items()}


@dataclass(frozen=True)
class FanInPrior:
    """w ~ N(0, scale² / fan-in), so that activations keep their size at any width and depth.

    Biases, which have no fan-in, get N(0, scale²).
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        _check_positive(self.scale)

    def scales(self, network: Network, params: Params) -> Params:
        return jax.tree.map(lambda leaf: self.scale / network.fan_in(leaf.shape) ** 0.5, params)


Prior = NormalPrior | LayerPrior | FanInPrior


def normal_log_prob(params: Params, scales: Params) -> Array:
    """Σ log N(w | 0, s²) over all leaves; `scales` has a number (or an array) for each leaf."""

    def leaf_log_prob(weight: Array, scale: Any) -> Array:
        constant = weight.size * (0.5 * LOG_2PI) + jnp.sum(
            jnp.broadcast_to(jnp.log(jnp.asarray(scale, weight.dtype)), weight.shape)
        )
        return -0.5 * jnp.sum(jnp.square(weight / scale)) - constant

    return sum(jax.tree.leaves(jax.tree.map(leaf_log_prob, params, scales)), jnp.zeros(()))


def sample_normal(key: Array, params: Params, scales: Params) -> Params:
    """Draw weights shaped like `params` from N(0, s²)."""
    leaves, structure = jax.tree.flatten(params)
    keys = jax.tree.unflatten(structure, list(jax.random.split(key, len(leaves))))
    draw = lambda k, leaf, s: s * jax.random.normal(k, leaf.shape, leaf.dtype)  # noqa: E731
    return jax.tree.map(draw, keys, params, scales)


def fill(scales: Params, params: Params) -> Params:
    """A scale for every weight, from one for each leaf."""
    spread = lambda scale, leaf: jnp.broadcast_to(jnp.asarray(scale, leaf.dtype), leaf.shape)  # noqa: E731
    return jax.tree.map(spread, scales, params)


def _check_positive(scale: float) -> None:
    if not scale > 0:
        raise CredoError(f"a prior scale must be positive, got {scale}")
