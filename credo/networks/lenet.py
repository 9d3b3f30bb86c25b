"""LeNet, the convolutional network of the Bayesian convnet experiments."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.errors import CredoError
from credo.networks.mlp import dense_layers, dense_stack
from credo.networks.network import Noise, Params, default_fan_in, no_noise
from credo.networks.weights import conv, max_pool
from credo.saving import Saveable


@dataclass(frozen=True)
class LeNet(Saveable):
    """conv – pool – conv – pool – dense – dense (LeCun et al. 1998, in Caffe's widths).

    Noise sites: `conv0` at the input; `conv1` and `dense0` after each convolution, *before* its
    pooling, as in Gal & Ghahramani (2015); `dense1` after the inner-product layer.

    Example:
        >>> import jax
        >>> from credo.networks import LeNet
        >>> network = LeNet()
        >>> params = network.init(jax.random.key(0), (28, 28, 1), 10)
        >>> network.apply(params, jax.numpy.ones((2, 28, 28, 1))).shape
        (2, 10)
    """

    channels: tuple[int, int] = (20, 50)
    """Output channels of the two convolutions."""
    hidden: tuple[int, ...] = (500,)
    """Units of the inner-product layers before the output."""
    kernel: int = 5
    """Height and width of the convolution kernels."""

    takes_distributions: ClassVar[bool] = True  # its layers accept weights that are distributions
    input_site: ClassVar[str] = "conv0"

    def init(self, key: Array, input_shape: tuple[int, ...], num_outputs: int) -> Params:
        if len(input_shape) != 3:
            raise CredoError(
                f"LeNet needs images (height, width, channels), got rows of shape {input_shape}; "
                "use MLP, or reshape x"
            )
        params: dict = {}
        height, width, inputs = input_shape
        for index, outputs in enumerate(self.channels):
            height, width = self._after_block(height), self._after_block(width)
            shape = (self.kernel, self.kernel, inputs, outputs)
            weight = jax.random.normal(jax.random.fold_in(key, index), shape)
            scaled = weight * (2.0 / default_fan_in(shape)) ** 0.5
            params[f"conv{index}"] = {"w": scaled, "b": jnp.zeros(outputs)}
            inputs = outputs
        widths = (height * width * inputs, *self.hidden, num_outputs)
        return params | dense_layers(jax.random.fold_in(key, len(self.channels)), widths, gain=2.0)

    def _after_block(self, size: int) -> int:
        convolved = size - self.kernel + 1
        if convolved < 2 or convolved % 2:
            raise CredoError(
                f"an image side of {size} leaves {convolved} after a {self.kernel}×{self.kernel} "
                "convolution, which cannot be pooled by 2; choose another kernel or use MLP"
            )
        return convolved // 2

    def apply(self, params: Params, x: Array, noise: Noise = no_noise) -> Array:
        h = noise("conv0", x)
        for index in range(len(self.channels)):
            layer = params[f"conv{index}"]
            h = conv(h, layer["w"], layer["b"])
            last = index == len(self.channels) - 1
            h = noise("dense0" if last else f"conv{index + 1}", h)
            # Pooling commutes with ReLU; pooling first leaves a quarter of the units to rectify.
            h = jax.nn.relu(max_pool(h))
        flat = h.reshape(h.shape[0], -1)
        # The noise of dense0 has entered above, before the pooling.
        rest = lambda site, units: units if site == "dense0" else noise(site, units)  # noqa: E731
        return dense_stack(params, flat, rest, jax.nn.relu)

    def fan_in(self, shape: tuple[int, ...]) -> int:
        return default_fan_in(shape)
