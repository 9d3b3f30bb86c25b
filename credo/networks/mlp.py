"""Multilayer perceptron."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.errors import CredoError
from credo.networks.network import Noise, Params, default_fan_in, no_noise
from credo.networks.weights import linear
from credo.saving import Saveable

ACTIVATIONS = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
}


@dataclass(frozen=True)
class MLP(Saveable):
    """h_{l+1} = act(h_l W_l + b_l), with a noise site `dense{l}` at the input of every layer.

    Inputs of any shape are flattened. `hidden=()` is a linear model.

    Example:
        >>> import jax
        >>> from credo.networks import MLP
        >>> network = MLP(hidden=(32,))
        >>> params = network.init(jax.random.key(0), (4,), 3)
        >>> network.apply(params, jax.numpy.ones((5, 4))).shape
        (5, 3)
    """

    hidden: tuple[int, ...] = (128, 128)
    """Units of each hidden layer."""
    activation: str = "relu"
    """relu, tanh, sigmoid, gelu, silu or softplus."""

    takes_distributions: ClassVar[bool] = True  # its layers accept weights that are distributions
    input_site: ClassVar[str] = "dense0"

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(int(width) for width in self.hidden))
        if any(width < 1 for width in self.hidden):
            raise CredoError(f"hidden layers need at least 1 unit, got hidden={self.hidden}")
        if self.activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise CredoError(f"unknown activation {self.activation!r}; choose one of {known}")

    def init(self, key: Array, input_shape: tuple[int, ...], num_outputs: int) -> Params:
        inputs = 1
        for size in input_shape:
            inputs *= size
        widths = (inputs, *self.hidden, num_outputs)
        return dense_layers(key, widths, gain=2.0 if self.activation == "relu" else 1.0)

    def apply(self, params: Params, x: Array, noise: Noise = no_noise) -> Array:
        return dense_stack(params, x.reshape(x.shape[0], -1), noise, ACTIVATIONS[self.activation])

    def fan_in(self, shape: tuple[int, ...]) -> int:
        return default_fan_in(shape)


def dense_layers(key: Array, widths: tuple[int, ...], gain: float) -> Params:
    """Weights N(0, gain / fan-in) (He et al. 2015 for gain 2), biases 0; the last layer gain 1."""
    layers = {}
    for index, (fan_in, fan_out) in enumerate(itertools.pairwise(widths)):
        layer_gain = gain if index < len(widths) - 2 else 1.0
        weight = jax.random.normal(jax.random.fold_in(key, index), (fan_in, fan_out))
        scaled = weight * (layer_gain / fan_in) ** 0.5
        layers[f"dense{index}"] = {"w": scaled, "b": jnp.zeros(fan_out)}
    return layers


def dense_stack(params: Params, h: Array, noise: Noise, activation) -> Array:
    """Apply the `dense…` layers in order, the activation between them."""
    depth = sum(name.startswith("dense") for name in params)
    for index in range(depth):
        name = f"dense{index}"
        h = linear(noise(name, h), params[name]["w"], params[name]["b"])
        h = h if index == depth - 1 else activation(h)
    return h
