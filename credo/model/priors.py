"""Priors over network weights: a mean and a standard deviation for every weight.

The mean is 0, or the weights of a trained network, from which a fit then departs only as far as the
data ask for: fine-tuning, anchors, priors that were learned from other data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.errors import CredoError
from credo.fields import POSITIVE, check_fields
from credo.networks.network import Network, Params
from credo.saving import Leaves, Saveable

LOG_2PI = 1.8378770664093453


class Prior(Saveable):
    """Base of priors: `scales` gives a standard deviation (number or array) for every leaf."""

    mean: Any

    def scales(self, network: Network, params: Params) -> Params:
        raise NotImplementedError

    def means(self, network: Network, params: Params) -> Params:
        """The mean of every leaf, a number or an array."""
        if self.mean is None:
            return jax.tree.map(lambda leaf: 0.0, params)
        check_like(params, self.mean, "mean")
        return self.mean

    def filled(self, template: Params) -> Any:
        """The prior with trees of the network's containers, which its file does not hold."""
        found = {
            name: jax.tree.unflatten(jax.tree.structure(template), list(value.arrays))
            for name, value in vars(self).items()
            if isinstance(value, Leaves) and len(value.arrays) == len(jax.tree.leaves(template))
        }
        return replace(self, **found) if found else self  # type: ignore[type-var]


@dataclass(frozen=True)
class NormalPrior(Prior):
    """w ~ N(mean, scale²) for every weight and bias.

    The weight decay of a mean loss is 1/(2 scale² N).
    """

    scale: float = 1.0
    mean: Any = None
    """Means shaped like the network's parameters, such as those of a trained one; None: 0."""

    def __post_init__(self) -> None:
        check_fields(self, scale=POSITIVE)

    def scales(self, network: Network, params: Params) -> Params:
        return jax.tree.map(lambda leaf: self.scale, params)


@dataclass(frozen=True)
class LayerPrior(Prior):
    """A scale for each top-level entry of the parameters, {"dense0": 0.5, "dense1": 1.0}.

    Every layer must be named.
    """

    scale: dict[str, float]
    mean: Any = None
    """Means shaped like the network's parameters, such as those of a trained one; None: 0."""

    def __post_init__(self) -> None:
        if not isinstance(self.scale, Mapping) or not self.scale:
            raise CredoError(
                f"LayerPrior: scale must map layers to numbers, such as {{'dense0': 0.5}}, got "
                f"{self.scale!r}"
            )
        object.__setattr__(self, "scale", {str(n): float(s) for n, s in self.scale.items()})
        for name, scale in self.scale.items():
            if not 0 < scale < float("inf"):
                raise CredoError(f"LayerPrior: the scale of {name!r} must be positive, got {scale}")

    def scales(self, network: Network, params: Params) -> Params:
        if set(self.scale) != set(params):
            raise CredoError(
                f"LayerPrior names the layers {sorted(self.scale)}, the network has "
                f"{sorted(params)}"
            )
        return {n: jax.tree.map(lambda leaf, s=self.scale[n]: s, p) for n, p in params.items()}


@dataclass(frozen=True)
class FanInPrior(Prior):
    """w ~ N(mean, scale² / fan-in), so that activations keep their size at any width and depth.

    Biases, which have no fan-in, get N(mean, scale²).
    """

    scale: float = 1.0
    mean: Any = None
    """Means shaped like the network's parameters, such as those of a trained one; None: 0."""

    def __post_init__(self) -> None:
        check_fields(self, scale=POSITIVE)

    def scales(self, network: Network, params: Params) -> Params:
        return jax.tree.map(lambda leaf: self.scale / network.fan_in(leaf.shape) ** 0.5, params)


@dataclass(frozen=True)
class WeightPrior(Prior):
    """w ~ N(mean, scale²) with a mean and a scale of its own for every weight.

    What other data have taught: `posterior.as_prior()` makes one of the mean and the standard
    deviation of each weight.
    """

    scale: Any
    """Standard deviations shaped like the network's parameters; a number stands for an array."""
    mean: Any = None
    """Means shaped like the network's parameters, such as those of a trained one; None: 0."""

    def __post_init__(self) -> None:
        scale = self.scale.arrays if isinstance(self.scale, Leaves) else self.scale
        for leaf in jax.tree.leaves(scale):
            if isinstance(leaf, float | np.ndarray) and not (np.asarray(leaf) > 0).all():
                raise CredoError("WeightPrior: every scale must be positive")

    def scales(self, network: Network, params: Params) -> Params:
        check_like(params, self.scale, "scale")
        return self.scale


def check_like(params: Params, tree: Any, name: str) -> None:
    """Raise unless a part of a prior is shaped like the network's parameters."""
    if jax.tree.structure(tree) != jax.tree.structure(params):  # type: ignore[operator]
        raise CredoError(
            f"the prior's {name} must have the structure of the network's parameters, "
            f"{jax.tree.structure(params)}, got {jax.tree.structure(tree)}"
        )
    for part, leaf in zip(jax.tree.leaves(tree), jax.tree.leaves(params), strict=True):
        if jnp.shape(part) not in ((), jnp.shape(leaf)):
            raise CredoError(
                f"the prior's {name} has an array of shape {jnp.shape(part)} where the network "
                f"has {jnp.shape(leaf)}; give the parameters of the same network"
            )


def normal_log_prob(params: Params, scales: Params, means: Params | None = None) -> Array:
    """Σ log N(w | m, s²) over all leaves; scales and means have a number or an array for each."""

    def leaf_log_prob(weight: Array, scale: Any, mean: Any) -> Array:
        constant = weight.size * (0.5 * LOG_2PI) + jnp.sum(
            jnp.broadcast_to(jnp.log(jnp.asarray(scale, weight.dtype)), weight.shape)
        )
        return -0.5 * jnp.sum(jnp.square((weight - mean) / scale)) - constant

    if means is None:
        means = jax.tree.map(lambda leaf: 0.0, params)
    return sum(jax.tree.leaves(jax.tree.map(leaf_log_prob, params, scales, means)), jnp.zeros(()))


def sample_normal(key: Array, params: Params, scales: Params, means: Params) -> Params:
    """Draw weights shaped like `params` from N(m, s²)."""
    leaves, structure = jax.tree.flatten(params)
    keys = jax.tree.unflatten(structure, list(jax.random.split(key, len(leaves))))

    def draw(key: Array, leaf: Array, scale: Any, mean: Any) -> Array:
        return mean + scale * jax.random.normal(key, leaf.shape, leaf.dtype)

    return jax.tree.map(draw, keys, params, scales, means)


def fill(numbers: Params, params: Params) -> Params:
    """A number for every weight, from one for each leaf."""

    def spread(number: Any, leaf: Array) -> Array:
        return jnp.broadcast_to(jnp.asarray(number, leaf.dtype), leaf.shape)

    return jax.tree.map(spread, numbers, params)
