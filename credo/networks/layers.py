"""Jacobians of networks, kept as factors where the network is made of layers.

A row's gradient with respect to the weights of a layer is a sum of outer products over the
positions at which the weights are used (one for a dense layer, many for a convolution):

    ∂(rᵀf)/∂[W; b] = Σ_t [a_t; 1] g_tᵀ,     a_t: the layer's input,   g_t = ∂(rᵀf)/∂(its output)

Everything that needs curvature layer by layer works on a and g, and never holds their product.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from credo.networks.network import Network, Params
from credo.networks.weights import TappedWeight

Root = Callable[[Float[Array, "n k"]], Float[Array, "n k c"]]
"""From the outputs of n rows, the columns r to be pulled back to the weights."""
CHUNK_NUMBERS = 2**23  # of whole Jacobians that are in memory at a time: 32 MB


class Factors(NamedTuple):
    """What enters a layer, with a 1 for its bias, and the gradients of what leaves it."""

    inputs: Float[Array, "n positions features"]
    gradients: Float[Array, "n columns positions outputs"]


def outer(factors: Factors) -> Float[Array, "n columns features outputs"]:
    """Σ_t a_t g_tᵀ."""
    return jnp.einsum("nti,nctj->ncij", *factors)


def has_layers(network: Network) -> bool:
    """Whether the network is a dictionary of layers {"w", "b"} that can be tapped."""
    return getattr(network, "takes_distributions", False)


def last_layer(params: Params) -> str:
    """The name of the layer that gives the outputs."""
    return max(params, key=lambda name: (name.startswith("dense"), len(name), name))


def layer_factors(
    network: Network, params: Params, x: Array, root: Root, names: tuple[str, ...] | None = None
) -> dict[str, Factors]:
    """The factors of all layers, or of those named."""
    names = tuple(params) if names is None else names
    zeros = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype),
        jax.eval_shape(lambda: _tapped(network, params, x, dict.fromkeys(names, 0.0))[1][1]),
    )
    outputs, pull, (inputs, _) = jax.vjp(
        lambda shifts: _tapped(network, params, x, shifts), zeros, has_aux=True
    )

    def pull_column(column: Array) -> dict:
        return pull(column.reshape(outputs.shape))[0]

    pulled = jax.vmap(pull_column, in_axes=2, out_axes=1)(root(outputs))
    return {name: Factors(_with_one(inputs[name]), _by_position(pulled[name])) for name in names}


def _tapped(network: Network, params: Params, x: Array, shifts: dict) -> tuple[Array, Any]:
    """The outputs of a network whose layers' outputs are shifted, and what the taps saw."""
    inputs, units = {}, {}

    def tap(name: str) -> Callable[[Array, Array], Array]:
        def see(entering: Array, leaving: Array) -> Array:
            inputs[name], units[name] = entering, leaving
            return leaving + shifts[name]

        return see

    tapped = {
        name: {**params[name], "w": TappedWeight(params[name]["w"], tap(name))} for name in shifts
    }
    return network.apply({**params, **tapped}, x), (inputs, units)


def _with_one(inputs: Array) -> Array:
    return jnp.concatenate([inputs, jnp.ones_like(inputs[..., :1])], axis=-1)


def _by_position(pulled: Array) -> Array:
    rows, columns, *_, outputs = pulled.shape
    return pulled.reshape(rows, columns, -1, outputs)


def join(layer: Params) -> Float[Array, "features outputs"]:
    """The weights of a layer as one matrix, its bias the last row."""
    return jnp.concatenate([layer["w"].reshape(-1, layer["w"].shape[-1]), layer["b"][None]])


def split(matrix: Float[Array, "*lead features outputs"], layer: Params) -> Params:
    """The reverse of `join`, with any leading axes."""
    shape = (*matrix.shape[:-2], *layer["w"].shape)
    return {"w": matrix[..., :-1, :].reshape(shape), "b": matrix[..., -1, :]}


def gradients(
    network: Network, params: Params, x: Array, root: Root, names: tuple[str, ...] | None = None
) -> Params:
    """∂(rᵀf)/∂θ of every row and column: leaves of shape (rows, columns, *weight).

    A network that shows its layers may be asked for those of some only.
    """
    if has_layers(network):
        factors = layer_factors(network, params, x, root, names)
        return {name: split(outer(found), params[name]) for name, found in factors.items()}
    columns = root(network.apply(params, x))

    def of_row(row: Array, r: Float[Array, "k c"]) -> Params:
        pull = jax.vjp(lambda p: network.apply(p, row[None])[0].ravel(), params)[1]
        return jax.vmap(lambda column: pull(column)[0], in_axes=1)(r)

    return jax.vmap(of_row)(x, columns)
