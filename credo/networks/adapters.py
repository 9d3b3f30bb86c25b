"""Networks written elsewhere: Equinox modules, and pairs of functions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from credo.errors import CredoError
from credo.networks.network import Noise, Params, default_fan_in, no_noise


@dataclass(frozen=True, eq=False)
class Functions:
    """A network given as `init(key) -> params` and `apply(params, x) -> outputs` on batches.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from credo.networks import Functions
        >>> network = Functions(lambda key: {"w": jax.random.normal(key, (3, 1))},
        ...                     lambda params, x: jnp.sin(x @ params["w"]))
    """

    init_function: Callable[[Array], Params]
    apply_function: Callable[[Params, Array], Array]

    def init(self, key: Array, input_shape: tuple[int, ...], num_outputs: int) -> Params:
        return self.init_function(key)

    def apply(self, params: Params, x: Array, noise: Noise = no_noise) -> Array:
        return self.apply_function(params, x)

    def fan_in(self, shape: tuple[int, ...]) -> int:
        return default_fan_in(shape)


@dataclass(frozen=True, eq=False)
class Equinox:
    """An Equinox module, or a function `key -> module` so that every chain starts elsewhere.

    The module maps one row to its outputs, as Equinox modules do; credo adds the data axis.
    Parameters are the module's floating-point arrays; everything else in it stays fixed.

    Example:
        >>> import equinox as eqx, jax
        >>> from credo.networks import Equinox
        >>> network = Equinox(lambda key: eqx.nn.MLP(4, 3, 32, 2, key=key))
        >>> params = network.init(jax.random.key(0), (4,), 3)
        >>> network.apply(params, jax.numpy.ones((5, 4))).shape
        (5, 3)
    """

    module: eqx.Module | Callable[[Array], Any]

    def _build(self, key: Array) -> Any:
        # A module may be callable on data; only a plain function is a factory.
        return self.module if isinstance(self.module, eqx.Module) else self.module(key)

    def init(self, key: Array, input_shape: tuple[int, ...], num_outputs: int) -> Params:
        params = eqx.filter(self._build(key), eqx.is_inexact_array)
        if not jax.tree.leaves(params):
            raise CredoError(f"{self.module!r} has no floating-point arrays to learn")
        return params

    def apply(self, params: Params, x: Array, noise: Noise = no_noise) -> Array:
        # Under jit the arrays built here are replaced by `params`, so nothing is computed.
        fixed = eqx.filter(self._build(jax.random.key(0)), eqx.is_inexact_array, inverse=True)
        return jax.vmap(eqx.combine(params, fixed))(x)

    def fan_in(self, shape: tuple[int, ...]) -> int:
        """Equinox weights are (outputs, inputs...)."""
        return int(np.prod(shape[1:])) if len(shape) > 1 else 1
