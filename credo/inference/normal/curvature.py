"""Curvature of the log likelihood at given weights, summed over all data in compiled chunks.

Both kinds are sums of outer products of vectors Jᵀr, with J the Jacobian of the network's outputs:

    generalised Gauss–Newton   Σ_n J_nᵀ R_n R_nᵀ J_n,   R Rᵀ = E_y[∇log p ∇log pᵀ], over all y
    empirical Fisher           Σ_n J_nᵀ r_n r_nᵀ J_n,   r_n = ∇_f log p(y_n | f_n), at the y seen

Only a chunk of the data has its vectors in memory at a time.

References: Martens, New Insights and Perspectives on the Natural Gradient Method, JMLR 2020;
Martens & Grosse, Optimizing Neural Networks with Kronecker-factored Approximate Curvature, ICML
2015; for convolutions Grosse & Martens, ICML 2016.
"""

from collections.abc import Callable
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from credo.model import Batch, Model
from credo.networks import Params
from credo.networks.layers import (
    CHUNK_NUMBERS,
    Factors,
    Root,
    gradients,
    has_layers,
    layer_factors,
    outer,
    split,
)

Curvature = Literal["ggn", "fisher"]
NOISE_POWERS = {"ggn": 1, "fisher": 2}  # r, where c times the noise divides the curvature by c^2r
LAYER_ROWS = 128  # of a chunk where layers are held as factors: enough for the matrix products
STRIP_WIDTH = 64  # narrower matrix products would cost more than what symmetry saves


Found = TypeVar("Found")


class Summed(NamedTuple, Generic[Found]):
    """What a pass over the data gives."""

    curvature: Found
    log_likelihood: Array


class KroneckerFactors(NamedTuple):
    """The curvature of a layer is close to A ⊗ G."""

    inputs: Float[Array, "features features"]
    """A = mean of a aᵀ over data and positions."""
    outputs: Float[Array, "outputs outputs"]
    """G = sum of g gᵀ over data, positions and columns."""


class KroneckerStrips(NamedTuple):
    """The factors while they are summed: what their symmetry leaves to know."""

    inputs: list[Array]
    outputs: list[Array]


def kronecker(
    model: Model, params: Params, data: Batch, kind: Curvature, names: tuple[str, ...]
) -> Summed[dict[str, KroneckerFactors]]:
    """The two factors of every named layer; exact for one layer with normal noise."""

    def of_layer(factors: Factors, seen: Array) -> KroneckerStrips:
        share = jnp.sqrt(seen / factors.inputs.shape[1] / len(data.x))
        entering = factors.inputs * share[:, None, None]
        leaving = factors.gradients.swapaxes(0, 1)  # as they were pulled back, or they are copied
        return KroneckerStrips(_gram_strips(entering), _gram_strips(leaving))

    def of_chunk(batch: Batch, seen: Array) -> dict[str, KroneckerStrips]:
        root = _root(model, params, batch, seen, kind)
        layers = layer_factors(model.network, params["network"], batch.x, root, names)
        return {name: of_layer(factors, seen) for name, factors in layers.items()}

    strips, log_likelihood = _with_likelihood(model, params, data, of_chunk, _layer_rows(params))
    factors = {name: KroneckerFactors(*map(_from_strips, found)) for name, found in strips.items()}
    return Summed(factors, log_likelihood)


def _gram_strips(vectors: Float[Array, "*rows d"]) -> list[Array]:
    """Σ v vᵀ without its lower triangle, in strips of rows: three fifths of the products."""
    size = vectors.shape[-1]
    vectors = vectors.reshape(-1, size)
    width = max(STRIP_WIDTH, -(-size // 4))
    return [vectors[:, i : i + width].T @ vectors[:, i:] for i in range(0, size, width)]


def _from_strips(strips: list[Array]) -> Float[Array, "d d"]:
    """The whole symmetric matrix."""
    size = strips[0].shape[1]
    upper = jnp.concatenate([jnp.pad(s, ((0, 0), (size - s.shape[1], 0))) for s in strips])
    return jnp.triu(upper) + jnp.triu(upper, 1).T


def diagonal(
    model: Model, params: Params, data: Batch, kind: Curvature, names: tuple[str, ...] | None = None
) -> Summed[Params]:
    """The diagonal of the curvature of the network, or of named layers, shaped like their weights.

    For a dense layer the square of a gradient is the product of squares: one matrix product.
    """
    network = params["network"]

    def of_layer(factors: Factors, layer: Params) -> Params:
        if factors.inputs.shape[1] > 1:
            return split(jnp.sum(jnp.square(outer(factors)), axis=(0, 1)), layer)
        entering = jnp.square(factors.inputs[:, 0])
        leaving = jnp.sum(jnp.square(factors.gradients[:, :, 0]), axis=1)
        return split(entering.T @ leaving, layer)

    def of_chunk(batch: Batch, seen: Array) -> Params:
        root = _root(model, params, batch, seen, kind)
        if has_layers(model.network):
            layers = layer_factors(model.network, network, batch.x, root, names)
            return {name: of_layer(found, network[name]) for name, found in layers.items()}
        vectors = gradients(model.network, network, batch.x, root)
        return jax.tree.map(lambda leaf: jnp.sum(jnp.square(leaf), axis=(0, 1)), vectors)

    layered = has_layers(model.network)
    rows = _layer_rows(params) if layered else _vector_rows(model, network, kind)
    return _with_likelihood(model, params, data, of_chunk, rows)


def dense(
    model: Model,
    params: Params,
    data: Batch,
    kind: Curvature,
    chosen: Any,
    names: tuple[str, ...] | None = None,
) -> Summed[Float[Array, "d d"]]:
    """The curvature of chosen entries of the flattened weights of the network, or of layers."""
    network = params["network"]
    if names is not None and len(names) == 1 and network[names[0]]["w"].ndim == 2:
        whole, log_likelihood = _dense_layer(model, params, data, kind, names[0])
        return Summed(whole[jnp.ix_(chosen, chosen)], log_likelihood)

    def of_chunk(batch: Batch, seen: Array) -> Array:
        root = _root(model, params, batch, seen, kind)
        vectors = gradients(model.network, network, batch.x, root, names)
        flat = jax.vmap(jax.vmap(lambda tree: ravel_pytree(tree)[0]))(vectors)[..., chosen]
        return jnp.einsum("nci,ncj->ij", flat, flat)

    held = network if names is None else {name: network[name] for name in names}
    return _with_likelihood(model, params, data, of_chunk, _vector_rows(model, held, kind))


def _dense_layer(
    model: Model, params: Params, data: Batch, kind: Curvature, name: str
) -> Summed[Float[Array, "d d"]]:
    """Σ_n a aᵀ ⊗ Σ_c g gᵀ of one dense layer: a small product for each pair of its outputs.

    Against the outer products of whole gradients this saves a factor of the number of columns.
    """
    outputs = params["network"][name]["w"].shape[1]
    first, second = np.triu_indices(outputs)

    def of_chunk(batch: Batch, seen: Array) -> Float[Array, "pairs features features"]:
        root = _root(model, params, batch, seen, kind)
        found = layer_factors(model.network, params["network"], batch.x, root, (name,))[name]
        entering, leaving = found.inputs[:, 0], found.gradients[:, :, 0]
        products = jnp.einsum("nck,ncl->kln", leaving, leaving)[first, second]
        return jax.lax.map(lambda weight: (entering * weight[:, None]).T @ entering, products)

    pairs, log_likelihood = _with_likelihood(model, params, data, of_chunk, 4 * LAYER_ROWS)
    number = np.zeros((outputs, outputs), int)
    number[first, second] = number[second, first] = np.arange(len(first))
    size = outputs * pairs.shape[1]
    whole = pairs[number].transpose(2, 0, 3, 1).reshape(size, size)
    # The bias is last among the inputs and first in the tree.
    return Summed(jnp.roll(whole, outputs, (0, 1)), log_likelihood)


def of_likelihood(model: Model, params: Params, data: Batch, kind: Curvature) -> Params:
    """The diagonal of the curvature of the likelihood's own parameters."""
    own = params["likelihood"]

    def of_chunk(batch: Batch, seen: Array) -> Params:
        outputs = model.outputs(params, batch.x)
        if kind == "ggn":
            fisher = model.likelihood.parameter_fisher(own, outputs)
            return jax.tree.map(lambda leaf: jnp.tensordot(seen, _all_rows(leaf, seen), 1), fisher)

        def of_row(output: Array, y: Array) -> Params:
            return jax.grad(lambda p: model.likelihood.log_prob(p, output[None], y[None])[0])(own)

        rows = jax.vmap(of_row)(outputs, batch.y)
        return jax.tree.map(lambda leaf: jnp.einsum("n...,n->...", jnp.square(leaf), seen), rows)

    return sum_over(data, of_chunk, LAYER_ROWS)


def _all_rows(leaf: Array, seen: Array) -> Array:
    """One row stands for all where they are alike."""
    return jnp.broadcast_to(leaf, (len(seen), *leaf.shape[1:]))


def _with_likelihood(
    model: Model, params: Params, data: Batch, of_chunk: Callable[[Batch, Array], Any], rows: int
) -> Summed:
    """The sum of a curvature, and of Σ_n log p(y_n | x_n, θ) from the same pass over the data."""

    def both(batch: Batch, seen: Array) -> Summed:
        # The compiler sees that the outputs are those of the curvature, and has them once.
        terms = model.log_likelihood(params, batch) * seen
        return Summed(of_chunk(batch, seen), jnp.sum(terms))

    return sum_over(data, both, rows)


def sum_over(data: Batch, of_chunk: Callable[[Batch, Array], Any], rows: int) -> Any:
    """Sum a function of chunks of the data; `seen` is what a row counts, 0 for one that does not.

    The last chunk reaches back over rows that were counted already: no padded copy of the data.
    """
    num_data = len(data.x)
    rows = min(rows, num_data)

    def chunk(index: Any) -> tuple[Batch, Array]:
        start = jnp.minimum(index * rows, num_data - rows)
        part = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, start, rows), data)
        seen = (start + jnp.arange(rows) >= index * rows).astype(data.x.dtype)
        if part.weight is not None:
            seen = seen * part.weight
        return part, seen if part.is_real is None else seen * part.is_real

    empty = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(lambda: of_chunk(*chunk(0)))
    )

    def add(index: Array, total: Any) -> Any:
        return jax.tree.map(jnp.add, total, of_chunk(*chunk(index)))

    return jax.lax.fori_loop(0, -(-num_data // rows), add, empty)


def _root(model: Model, params: Params, batch: Batch, seen: Array, kind: Curvature) -> Root:
    likelihood, own = model.likelihood, params["likelihood"]
    share = jnp.sqrt(seen)

    def root(outputs: Array) -> Array:
        outputs = outputs.reshape(-1, *likelihood.output_shape)
        if kind == "ggn":
            return likelihood.fisher_root(own, outputs) * share[:, None, None]
        score = jax.grad(lambda f: jnp.sum(likelihood.log_prob(own, f, batch.y)))(outputs)
        return (score.reshape(len(share), -1) * share[:, None])[:, :, None]

    return root


def _layer_rows(params: Params) -> int:
    """Convolutions have inputs and gradients at many positions: fewer rows at a time."""
    dense_only = all(layer["w"].ndim == 2 for layer in params["network"].values())
    return LAYER_ROWS if dense_only else LAYER_ROWS // 8


def _vector_rows(model: Model, network: Params, kind: Curvature) -> int:
    columns = model.likelihood.num_outputs if kind == "ggn" else 1
    numbers = columns * sum(leaf.size for leaf in jax.tree.leaves(network))
    return max(1, min(4 * LAYER_ROWS, CHUNK_NUMBERS // numbers))
