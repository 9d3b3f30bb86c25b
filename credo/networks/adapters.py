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
    Parameters are the module's floating-point arrays; everything else in it stays fixed. Its own
    `eqx.nn.Dropout` layers become noise sites (`dropout0`, `dropout1`, … in the order in which the
    module holds them): silent for most methods, used with their own rate by `credo.Dropout`.

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
        module = eqx.combine(params, fixed)
        sites = [_Site(f"dropout{i}", noise) for i in range(len(_dropouts(module)))]
        return jax.vmap(eqx.tree_at(_dropouts, module, sites) if sites else module)(x)

    @property
    def own_rates(self) -> dict[str, float]:
        """The rate of each of the module's own dropout layers."""
        layers = _dropouts(self._build(jax.random.key(0)))
        return {f"dropout{index}": float(layer.p) for index, layer in enumerate(layers)}

    def fan_in(self, shape: tuple[int, ...]) -> int:
        """Equinox weights are (outputs, inputs...)."""
        return int(np.prod(shape[1:])) if len(shape) > 1 else 1


def _dropouts(module: Any) -> list[eqx.nn.Dropout]:
    is_dropout = lambda node: isinstance(node, eqx.nn.Dropout)  # noqa: E731
    return [node for node in jax.tree.leaves(module, is_leaf=is_dropout) if is_dropout(node)]


class _Site(eqx.Module):
    """Stands where a dropout layer stood, and asks credo for the noise of all rows at once."""

    name: str = eqx.field(static=True)
    noise: Noise = eqx.field(static=True)

    def __call__(self, units: Array, *, key: Any = None, inference: Any = None) -> Array:
        @jax.custom_batching.custom_vmap
        def one_row(row: Array) -> Array:
            return self.noise(self.name, row[None])[0]

        @one_row.def_vmap
        def all_rows(axis_size: int, in_batched: Any, rows: Array) -> tuple[Array, bool]:
            return self.noise(self.name, rows), True

        return one_row(units)
