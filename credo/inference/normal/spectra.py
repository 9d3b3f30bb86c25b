"""The structures that a Laplace approximation may give to the curvature, one function each.

In units of the prior scales s the precision is s H s + I: it has the eigenvectors of s H s, and its
eigenvalues tell the evidence at any multiple of the scales.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import block_diag, solve_triangular
from jaxtyping import Array

from credo.inference.normal import curvature
from credo.model import Batch, Target
from credo.model.priors import fill
from credo.networks import Params
from credo.networks.layers import last_layer
from credo.posterior import DenseNormal, KroneckerNormal, NormalWeights, Posterior

Stretch = Callable[[Array], Array]
"""From eigenvalues of the curvature to standard deviations, both in units of the prior scales."""


class Spectrum(NamedTuple):
    """A structure's curvature, and how it becomes a posterior."""

    log_likelihood: Array
    """Of all data, at the mode."""
    eigenvalues: Array
    squared_norm: Array
    """Of the uncertain weights at their mode. Both in units of the prior scales."""
    build: Callable[[Params, Array, Stretch], Posterior]
    """From the mean, the standard deviations of the likelihood's parameters, and a stretch."""


def _kron(method: Any, target: Target, params: Params, data: Batch) -> Spectrum:
    model, network, scales = target.model, params["network"], _scales(target, params)
    names = _uncertain_layers(method, network) or tuple(network)
    factors, log_likelihood = curvature.kronecker(model, params, data, method.curvature, names)
    inputs, outputs, eigenvalues = {}, {}, {}
    for name in names:
        weight, bias = scales[name]["w"], scales[name]["b"]
        # In units of the prior scales the precision is A ⊗ G + I, which has the same eigenvectors.
        units = jnp.append(jnp.full(factors[name].inputs.shape[0] - 1, weight.ravel()[0]), bias[0])
        first, vectors = _eigen(units[:, None] * factors[name].inputs * units)
        second, outputs[name] = _eigen(factors[name].outputs)
        inputs[name], eigenvalues[name] = units[:, None] * vectors, jnp.outer(first, second)

    def build(mean: Params, own_std: Array, stretch: Stretch) -> Posterior:
        spread = {name: stretch(values) for name, values in eigenvalues.items()}
        return KroneckerNormal(model, mean, inputs, outputs, spread, own_std)

    moved = _from_mean(target, params)
    norms = [_squared_norm(moved[name], scales[name]) for name in names]
    return Spectrum(log_likelihood, ravel_pytree(eigenvalues)[0], sum(norms, jnp.zeros(())), build)


def _diagonal(method: Any, target: Target, params: Params, data: Batch) -> Spectrum:
    model, network, scales = target.model, params["network"], _scales(target, params)
    names = _uncertain_layers(method, network)
    found, log_likelihood = curvature.diagonal(model, params, data, method.curvature, names)
    units, weights = _part(scales, names), _part(_from_mean(target, params), names)
    eigenvalues = jax.tree.map(lambda c, s: c * s**2, found, units)

    def build(mean: Params, own_std: Array, stretch: Stretch) -> Posterior:
        std = jax.tree.map(lambda e, s: stretch(e) * s, eigenvalues, units)
        if names is not None:
            std = {**jax.tree.map(jnp.zeros_like, network), **std}
        likelihood = ravel_pytree(mean["likelihood"])[1](own_std)
        return NormalWeights(model, mean, {"network": std, "likelihood": likelihood})

    norm = _squared_norm(weights, units)
    return Spectrum(log_likelihood, ravel_pytree(eigenvalues)[0], norm, build)


def _full(method: Any, target: Target, params: Params, data: Batch) -> Spectrum:
    names = _uncertain_layers(method, params["network"])
    size = ravel_pytree(_part(params["network"], names))[0].size
    return _dense(method, target, params, data, jnp.arange(size))


def _subnetwork(method: Any, target: Target, params: Params, data: Batch) -> Spectrum:
    names = _uncertain_layers(method, params["network"])
    found, _ = curvature.diagonal(target.model, params, data, method.curvature, names)
    units = _part(_scales(target, params), names)
    variances, _ = ravel_pytree(jax.tree.map(lambda c, s: 1 / (c + s**-2), found, units))
    largest = jax.lax.top_k(variances, min(method.num_weights, variances.size))[1]
    return _dense(method, target, params, data, jnp.sort(largest))


def _dense(method: Any, target: Target, params: Params, data: Batch, chosen: Array) -> Spectrum:
    """All correlations of chosen entries of the uncertain layers' flattened weights."""
    model, network = target.model, params["network"]
    names = _uncertain_layers(method, network)
    units = ravel_pytree(_part(_scales(target, params), names))[0][chosen]
    weights = ravel_pytree(_part(_from_mean(target, params), names))[0][chosen]
    found, log_likelihood = curvature.dense(model, params, data, method.curvature, chosen, names)
    whitened = units[:, None] * found * units
    if method.tune_prior:
        eigenvalues, vectors = _eigen(whitened)
    else:
        eigenvalues, vectors = _inverse_root(whitened)

    def root(stretch: Stretch) -> Array:
        return vectors * stretch(eigenvalues if method.tune_prior else jnp.zeros(()))

    def build(mean: Params, own_std: Array, stretch: Stretch) -> Posterior:
        factor = block_diag(jnp.diag(own_std), units[:, None] * root(stretch))
        own, positions = own_std.size, _positions(network, names)
        every = jnp.concatenate([jnp.arange(own), own + jnp.asarray(positions)[chosen]])
        return DenseNormal(model, mean, factor, every)

    return Spectrum(log_likelihood, eigenvalues, jnp.sum(jnp.square(weights / units)), build)


STRUCTURES = {"kron": _kron, "full": _full, "diagonal": _diagonal, "subnetwork": _subnetwork}


def _eigen(matrix: Array) -> tuple[Array, Array]:
    values, vectors = jnp.linalg.eigh(matrix)
    return jnp.maximum(values, 0), vectors  # rounding may leave a zero slightly negative


def _inverse_root(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues, or numbers with the same product of 1 + Λ, and a root of (matrix + I)⁻¹."""

    def by_eigenvectors() -> tuple[Array, Array]:
        eigenvalues, vectors = _eigen(matrix)
        return eigenvalues, vectors * (1 + eigenvalues) ** -0.5

    # Many times cheaper than eigenvectors; but beside large entries the I is lost to rounding.
    lower = jnp.linalg.cholesky(matrix + jnp.eye(len(matrix)))

    def by_pivots() -> tuple[Array, Array]:
        inverse = solve_triangular(lower, jnp.eye(len(matrix)), lower=True, trans=1)
        return jnp.square(jnp.diag(lower)) - 1, inverse

    return jax.lax.cond(jnp.isfinite(lower).all(), by_pivots, by_eigenvectors)


def _scales(target: Target, params: Params) -> Params:
    """The prior's scales of the network, one for every weight."""
    return fill(target.model.prior_scales(params)["network"], params["network"])


def _from_mean(target: Target, params: Params) -> Params:
    """How far the weights are from the prior's mean."""
    means = target.prior_means(params)["network"]
    return jax.tree.map(jnp.subtract, params["network"], means)


def _squared_norm(weights: Params, scales: Params) -> Array:
    parts = jax.tree.map(lambda w, s: jnp.sum(jnp.square(w / s)), weights, scales)
    return sum(jax.tree.leaves(parts), jnp.zeros(()))


def _uncertain_layers(method: Any, network: Params) -> tuple[str, ...] | None:
    """The names of the layers that are uncertain; None for all there is."""
    return None if method.layers == "all" else (last_layer(network),)


def _part(tree: Params, names: tuple[str, ...] | None) -> Params:
    return tree if names is None else {name: tree[name] for name in names}


def _positions(network: Params, names: tuple[str, ...] | None) -> np.ndarray:
    """Where the flattened weights of the named layers stand among those of the network."""
    sizes = [leaf.size for leaf in jax.tree.leaves(network)]
    numbers = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    tree = jax.tree.unflatten(jax.tree.structure(network), numbers)
    return np.concatenate(jax.tree.leaves(_part(tree, names)))
