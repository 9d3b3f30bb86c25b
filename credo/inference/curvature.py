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
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from credo.model import Batch, Model
from credo.networks import Params
from credo.networks.layers import Factors, Root, gradients, has_layers, layer_factors

Curvature = Literal["ggn", "fisher"]
CHUNK_NUMBERS = 2**23  # of the vectors that are in memory at a time: 32 MB
LAYER_ROWS = 256  # of a chunk where layers are held as factors: enough for the matrix products


class KroneckerFactors(NamedTuple):
    """The curvature of a layer is close to A ⊗ G."""

    inputs: Float[Array, "features features"]
    """A = mean of a aᵀ over data and positions."""
    outputs: Float[Array, "outputs outputs"]
    """G = sum of g gᵀ over data, positions and columns."""


def kronecker(
    model: Model, params: Params, data: Batch, kind: Curvature, names: tuple[str, ...]
) -> dict[str, KroneckerFactors]:
    """The two factors of every named layer; exact for one layer with normal noise."""

    def of_layer(factors: Factors, seen: Array) -> KroneckerFactors:
        inputs = factors.inputs * (seen / factors.inputs.shape[1] / len(data.x))[:, None, None]
        return KroneckerFactors(
            jnp.einsum("nti,ntj->ij", inputs, factors.inputs),
            jnp.einsum("ncti,nctj->ij", factors.gradients, factors.gradients),
        )

    def of_chunk(batch: Batch, seen: Array) -> dict[str, KroneckerFactors]:
        root = _root(model, params, batch, seen, kind)
        layers = layer_factors(model.network, params["network"], batch.x, root, names)
        return {name: of_layer(factors, seen) for name, factors in layers.items()}

    return sum_over(data, of_chunk, LAYER_ROWS)


def diagonal(model: Model, params: Params, data: Batch, kind: Curvature) -> Params:
    """The diagonal of the network's curvature, shaped like its weights."""

    def of_chunk(batch: Batch, seen: Array) -> Params:
        root = _root(model, params, batch, seen, kind)
        vectors = gradients(model.network, params["network"], batch.x, root)
        return jax.tree.map(lambda leaf: jnp.sum(jnp.square(leaf), axis=(0, 1)), vectors)

    return sum_over(data, of_chunk, _chunk_rows(model, params, kind))


def dense(
    model: Model, params: Params, data: Batch, kind: Curvature, chosen: Array
) -> Float[Array, "d d"]:
    """The curvature of the chosen entries of the network's flattened weights."""

    def of_chunk(batch: Batch, seen: Array) -> Array:
        root = _root(model, params, batch, seen, kind)
        vectors = gradients(model.network, params["network"], batch.x, root)
        flat = jax.vmap(jax.vmap(lambda tree: ravel_pytree(tree)[0]))(vectors)[..., chosen]
        return jnp.einsum("nci,ncj->ij", flat, flat)

    return sum_over(data, of_chunk, _chunk_rows(model, params, kind))


def of_likelihood(model: Model, params: Params, data: Batch, kind: Curvature) -> Params:
    """The diagonal of the curvature of the likelihood's own parameters."""
    own = params["likelihood"]
    if kind == "ggn":
        fisher = model.likelihood.parameter_fisher(own)
        return jax.tree.map(lambda leaf: len(data.x) * leaf, fisher)

    def of_chunk(batch: Batch, seen: Array) -> Params:
        outputs = model.outputs(params, batch.x)

        def of_row(output: Array, y: Array) -> Params:
            score = lambda p: model.likelihood.log_prob(p, output[None], y[None])[0]  # noqa: E731
            return jax.grad(score)(own)

        rows = jax.vmap(of_row)(outputs, batch.y)
        return jax.tree.map(lambda leaf: jnp.einsum("n...,n->...", jnp.square(leaf), seen), rows)

    return sum_over(data, of_chunk, LAYER_ROWS)


def log_likelihood(model: Model, params: Params, data: Batch) -> Array:
    """Σ_n log p(y_n | x_n, θ)."""
    of_chunk = lambda batch, seen: jnp.sum(model.log_likelihood(params, batch) * seen)  # noqa: E731
    return sum_over(data, of_chunk, 4 * LAYER_ROWS)


def sum_over(data: Batch, of_chunk: Callable[[Batch, Array], Any], rows: int) -> Any:
    """Sum a function of chunks of the data; `seen` is 1 for rows that count, and 0 otherwise.

    The last chunk reaches back over rows that were counted already: no padded copy of the data.
    """
    num_data = len(data.x)
    rows = min(rows, num_data)

    def chunk(index: Any) -> tuple[Batch, Array]:
        start = jnp.minimum(index * rows, num_data - rows)
        cut = lambda column: jax.lax.dynamic_slice_in_dim(column, start, rows)  # noqa: E731
        fresh = start + jnp.arange(rows) >= index * rows
        return jax.tree.map(cut, data), fresh.astype(data.x.dtype)

    empty = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(lambda: of_chunk(*chunk(0)))
    )
    add = lambda index, total: jax.tree.map(jnp.add, total, of_chunk(*chunk(index)))  # noqa: E731
    return jax.lax.fori_loop(0, -(-num_data // rows), add, empty)


def _root(model: Model, params: Params, batch: Batch, seen: Array, kind: Curvature) -> Root:
    likelihood, own = model.likelihood, params["likelihood"]

    def root(outputs: Array) -> Array:
        if kind == "ggn":
            return likelihood.fisher_root(own, outputs) * seen[:, None, None]
        score = lambda f: jnp.sum(likelihood.log_prob(own, f, batch.y))  # noqa: E731
        return (jax.grad(score)(outputs) * seen[:, None])[:, :, None]

    return root


def _chunk_rows(model: Model, params: Params, kind: Curvature) -> int:
    columns = model.likelihood.num_outputs if kind == "ggn" else 1
    numbers = columns * sum(leaf.size for leaf in jax.tree.leaves(params["network"]))
    most = LAYER_ROWS if has_layers(model.network) else 4 * LAYER_ROWS
    return max(1, min(most, CHUNK_NUMBERS // numbers))
