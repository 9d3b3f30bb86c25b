"""Networks written elsewhere: Equinox modules, and pairs of functions."""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
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
    module holds them; `dropout0.1` where a layer is called a second time): silent for most methods,
    used with their own rate by `credo.Dropout`. Which weights a site feeds, whose penalty its noise
    then changes, is found by following the units to the first weights they meet.

    Example:
        >>> import equinox as eqx, jax
        >>> from credo.networks import Equinox
        >>> network = Equinox(lambda key: eqx.nn.MLP(4, 3, 32, 2, key=key))
        >>> params = network.init(jax.random.key(0), (4,), 3)
        >>> network.apply(params, jax.numpy.ones((5, 4))).shape
        (5, 3)
    """

    module: eqx.Module | Callable[[Array], Any]

    @property
    def always_starts_alike(self) -> bool:
        """Whether every initialisation is the same: that of the module given."""
        return isinstance(self.module, eqx.Module)

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
        dropouts = range(len(_dropouts(module)))

        def one_row(row: Array, number: Array) -> Array:
            sites = [_Site(f"dropout{i}", noise, itertools.count(), number) for i in dropouts]
            noisy = eqx.tree_at(_dropouts, module, sites) if sites else module
            return _with_key(noisy)(row)

        return jax.vmap(one_row)(x, jnp.arange(len(x)))

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


def _with_key(module: Any) -> Callable[[Array], Array]:
    key = inspect.signature(module).parameters.get("key")
    if key is None or key.default is not inspect.Parameter.empty:
        return module
    # Its dropout layers, which would read the key, ask credo for their noise instead.
    return functools.partial(module, key=jax.random.key(0))


class _Site(eqx.Module):
    """Stands where a dropout layer stood, and asks credo for the noise of all rows at once."""

    name: str = eqx.field(static=True)
    noise: Noise = eqx.field(static=True)
    calls: Iterator[int] = eqx.field(static=True)
    row_number: Array

    def __call__(self, units: Array, *, key: Any = None, inference: Any = None) -> Array:
        # A layer may be called more than once: each call is a site, with masks of its own.
        call = next(self.calls)
        name = f"{self.name}.{call}" if call else self.name
        noise = lambda rows: _channels_last(self.noise, name, rows)  # noqa: E731
        return _noise_of_all_rows(noise, units, self.row_number)


def _noise_of_all_rows(noise: Callable[[Array], Array], units: Array, row_number: Array) -> Array:
    """Call `noise` once, with the rows first, whatever axes the module itself maps over."""

    @jax.custom_batching.custom_vmap
    def one_row(units: Array, row_number: Array) -> Array:
        return noise(units[None])[0]

    @one_row.def_vmap
    def mapped(size: int, in_batched: Any, units: Array, row_number: Array) -> tuple[Array, bool]:
        units = units if in_batched[0] else jnp.broadcast_to(units, (size, *units.shape))
        # Only the axis of the rows has row numbers; a map inside the module has none.
        rows = in_batched[1]
        return noise(units) if rows else _noise_of_all_rows(noise, units, row_number), True

    return one_row(units, row_number)


def _channels_last(noise: Noise, site: str, rows: Array) -> Array:
    """Equinox's images have their channels first, those of noise functions last."""
    if rows.ndim < 4:
        return noise(site, rows)
    return jnp.moveaxis(noise(site, jnp.moveaxis(rows, 1, -1)), -1, 1)
