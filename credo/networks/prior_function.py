"""A network plus a fixed random one: f(x; θ) + β f(x; θ⁰), a prior over functions by example.

Where data say nothing, θ is free to leave the sum at the random function; members of an ensemble
with different θ⁰ then disagree there.

Reference: Osband, Aslanides & Cassirer, Randomized Prior Functions for Deep Reinforcement Learning,
NeurIPS 2018.
"""

from dataclasses import dataclass
from typing import Any

import jax
from jaxtyping import Array

from credo.networks.network import Network, Noise, Params, no_noise
from credo.saving import Saveable


@dataclass(frozen=True)
class PriorFunction(Saveable):
    """f(x; free) + scale · f(x; fixed), as a network whose parameters hold both.

    `credo.Ensemble(prior_function=…)` makes and trains it; only `free` is learnt.
    """

    network: Network
    scale: float = 1.0

    def init(self, key: Array, input_shape: tuple[int, ...], num_outputs: int) -> Params:
        names = ("free", "fixed")
        keys = jax.random.split(key)
        return {n: self.network.init(k, input_shape, num_outputs) for n, k in zip(names, keys)}

    def apply(self, params: Params, x: Array, noise: Noise = no_noise) -> Array:
        fixed = self.network.apply(params["fixed"], x)
        return self.network.apply(params["free"], x, noise) + self.scale * fixed

    def fan_in(self, shape: tuple[int, ...]) -> int:
        return self.network.fan_in(shape)


class Free:
    """A `PriorFunction` while it is learnt: its parameters are the free ones alone."""

    def __init__(self, whole: PriorFunction, fixed: Params) -> None:
        self.whole, self.fixed = whole, fixed

    def init(self, key: Array, input_shape: tuple[int, ...], num_outputs: int) -> Params:
        return self.whole.network.init(key, input_shape, num_outputs)

    def apply(self, params: Params, x: Array, noise: Noise = no_noise) -> Array:
        return self.whole.apply({"free": params, "fixed": self.fixed}, x, noise)

    def __getattr__(self, name: str) -> Any:  # what methods ask of a network, such as its sites
        return getattr(self.whole.network, name)
