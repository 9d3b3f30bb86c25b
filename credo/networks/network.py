"""What credo asks of a network, and the noise sites through which methods enter it.

A network names the places where unit noise may enter, one per weight layer: the site has the name
of the layer it feeds. There the network calls `noise(site, activations)`. Bernoulli dropout,
Gaussian noise, concrete dropout are noise functions; no method edits a network.
"""

from collections.abc import Callable
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import Array

Params = Any
Noise = Callable[[str, Array], Array]


def no_noise(site: str, activations: Array) -> Array:
    """The noise function of a deterministic network."""
    return activations


class Network(Protocol):
    """Pure functions over a pytree of parameters; data axis first, images channels-last."""

    def init(self, key: Array, input_shape: tuple[int, ...], num_outputs: int) -> Params:
        """Draw initial parameters for inputs of `input_shape` (without the data axis)."""
        ...

    def apply(self, params: Params, x: Array, noise: Noise = no_noise) -> Array:
        """Map (rows, *input_shape) to (rows, num_outputs)."""
        ...

    def fan_in(self, shape: tuple[int, ...]) -> int:
        """How many inputs feed one output of a weight array of this shape."""
        ...


def site_shapes(network: Network, params: Params, input_shape: tuple[int, ...]) -> dict[str, tuple]:
    """The noise sites of a network in order, with the shape of one row of activations at each.

    Found by tracing `apply` without running it.
    """
    shapes: dict[str, tuple] = {}

    def record(site: str, activations: Array) -> Array:
        shapes[site] = activations.shape[1:]
        return activations

    row = jax.ShapeDtypeStruct((1, *input_shape), np.float32)
    jax.eval_shape(lambda p, x: network.apply(p, x, record), params, row)
    return shapes


def default_fan_in(shape: tuple[int, ...]) -> int:
    """Fan-in of an (inputs..., outputs) weight; a bias (one axis) counts as fed by one input."""
    return int(np.prod(shape[:-1])) if len(shape) > 1 else 1
