"""A network for the features of tables, whose parts can be switched off."""

import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.errors import CredoError
from credo.networks.network import Noise, Params, default_fan_in, no_noise
from credo.saving import Saveable

GAIN = 1.5  # of hidden weights: SiLU halves the variance of small units, and less of large ones


@dataclass(frozen=True)
class TabularNetwork(Saveable):
    """f(x) = gain · (d · MLP(s m x) + (1 − d) · s m x V) + offset, with the SiLU in the MLP.

    s is a learned scale of each feature. The numbers in `switches` are no weights: m chooses
    features, d = 1 is a network with hidden layers and d = 0 a linear model, gain and offset
    correct the outputs. They are data, so that networks of several kinds run one program.

    Example:
        >>> import jax
        >>> from credo.networks import TabularNetwork
        >>> network = TabularNetwork(hidden=(16, 16))
        >>> params = network.init(jax.random.key(0), (4,), 3)
        >>> network.apply(params, jax.numpy.ones((5, 4))).shape
        (5, 3)
    """

    hidden: tuple[int, ...] = (128, 128)
    """Units of each hidden layer."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(int(width) for width in self.hidden))
        if not self.hidden or any(width < 1 for width in self.hidden):
            raise CredoError(
                f"a TabularNetwork needs hidden layers of at least 1 unit, got {self.hidden}; "
                "credo.networks.MLP(hidden=()) is a linear model"
            )

    def init(self, key: Array, input_shape: tuple[int, ...], num_outputs: int) -> Params:
        if len(input_shape) != 1:
            raise CredoError(f"a TabularNetwork takes rows of numbers, got rows of {input_shape}")
        inputs = input_shape[0]
        switches = {
            "inputs": jnp.ones(inputs),
            "depth": jnp.ones(()),
            "gain": jnp.ones(num_outputs),
            "offset": jnp.zeros(num_outputs),
        }
        weights = self.draw(key, inputs, num_outputs, jnp.asarray(float(inputs)))
        return {**weights, "switches": switches}

    def draw(self, key: Array, inputs: int, num_outputs: int, num_used: Array) -> Params:
        """Weights for inputs of which `num_used` are not switched off."""
        widths = (inputs, *self.hidden)
        layers = {}
        for index, (fan_in, width) in enumerate(itertools.pairwise(widths)):
            weight = jax.random.normal(jax.random.fold_in(key, index), (fan_in, width))
            used = num_used if index == 0 else fan_in
            scaled = weight * jnp.sqrt(GAIN / jnp.maximum(used, 1.0))
            layers[f"dense{index}"] = {"w": scaled, "b": jnp.zeros(width)}
        last = jax.random.normal(
            jax.random.fold_in(key, len(self.hidden)), (widths[-1], num_outputs)
        )
        # Small: a network starts close to the same answer for every row.
        layers[f"dense{len(self.hidden)}"] = {
            "w": 0.1 * last * (GAIN / widths[-1]) ** 0.5,
            "b": jnp.zeros(num_outputs),
        }
        return {
            **layers, "linear": {"w": jnp.zeros((inputs, num_outputs))}, "scale": jnp.ones(inputs),
        }  # fmt: skip

    def apply(self, params: Params, x: Array, noise: Noise = no_noise) -> Array:
        switches = jax.lax.stop_gradient(params["switches"])
        x = x * (switches["inputs"] * params["scale"])
        units, last = x, f"dense{len(self.hidden)}"
        for index in range(len(self.hidden)):
            layer = params[f"dense{index}"]
            units = jax.nn.silu(noise(f"dense{index}", units) @ layer["w"] + layer["b"])
        deep = noise(last, units) @ params[last]["w"]
        straight = x @ params["linear"]["w"]
        depth = switches["depth"]
        mixed = depth * deep + (1 - depth) * straight + params[last]["b"]
        return switches["gain"] * mixed + switches["offset"]

    def fan_in(self, shape: tuple[int, ...]) -> int:
        return default_fan_in(shape)


def is_switch(path: tuple) -> bool:
    """Whether a leaf of the parameters is a switch, which nothing learns."""
    return any(getattr(part, "key", None) == "switches" for part in path)


def decays(path: tuple, leaf: Array) -> bool:
    """Whether a leaf is a matrix of weights."""
    return not is_switch(path) and np.ndim(leaf) == 2
