"""Closed-form predictives of a normal posterior, by linearising the network around its mean.

    f(x) ~ N(f(x; θ*), J(x) Σ J(x)ᵀ),     θ ~ N(θ*, Σ)

row by row: no weights are drawn. `credo.predict` draws functions instead, which costs more and is
what one needs where several inputs are asked about together.

References: MacKay, The Evidence Framework Applied to Classification Networks, 1992; Immer, Korzepa
& Bauer, Improving Predictions of Bayesian Neural Nets via Local Linearization, AISTATS 2021.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from credo.caching import enable_compilation_cache, jit
from credo.errors import CredoError
from credo.keys import as_key
from credo.model.summaries import CategoricalPredictive, Predictive
from credo.networks.layers import (
    CHUNK_NUMBERS,
    Factors,
    gradients,
    has_layers,
    join,
    layer_factors,
    outer,
)
from credo.posterior import DenseNormal, KroneckerNormal, Mixture, NormalWeights, Posterior
from credo.predictive.predict import (
    as_predictive,
    by_batches,
    cast_like,
    check_inputs,
    check_num_draws,
)


def linearized_predict(
    posterior: Posterior, x: np.ndarray | Array, num_draws: int = 100, key: int | Array = 0
) -> Predictive:
    """The predictive of the linearised network at `x`.

    Each row's outputs are drawn from their normal, with the same `num_draws` standard normal
    vectors for all rows, shifted and rotated to mean 0 and covariance I: the mean and the epistemic
    variance of a regression are exact. A learnt noise scale is held at its mode.

    Example:
        >>> data = credo.data.load("diabetes")
        >>> model = credo.default_model(None, credo.networks.MLP(hidden=(16,)))
        >>> method = credo.Laplace("full", num_steps=200)
        >>> units = credo.data.Units.standardizing(y=data.train.y)
        >>> posterior = credo.fit(model, data.train, method, units=units)
        >>> credo.linearized_predict(posterior, data.test.x).epistemic_variance.min() > 0
        np.True_
    """
    x = _checked(posterior, x)
    check_num_draws(num_draws)
    outputs = posterior.model.likelihood.num_outputs
    normals = _standard_normals(as_key(key), num_draws, outputs)
    return as_predictive(posterior, *by_batches(lambda x: _summary(posterior, normals, x), x))


def probit_predict(posterior: Posterior, x: np.ndarray | Array) -> CategoricalPredictive:
    """Class probabilities of the linearised network by MacKay's approximation, with no draws.

        p(y = 1) ≈ σ(m / √(1 + πv/8)),     p(y = k) ≈ softmax(m_k / √(1 + πv_k/8))

    for logits N(m, v). Several logits are taken relative to their mean, for a shift of all of them
    changes no class, however uncertain it is. There is no expected entropy in this approximation
    (NaN): `linearized_predict` has one.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.Model(credo.networks.MLP(hidden=(16,)), credo.likelihoods.Categorical(3))
        >>> posterior = credo.fit(model, data.train, credo.Laplace(num_steps=200))
        >>> credo.probit_predict(posterior, data.test.x).labels.shape == data.test.y.shape
        True
    """
    x = _checked(posterior, x)
    if posterior.model.likelihood.num_classes is None:
        raise CredoError(
            f"probit_predict is for classes, the model has {posterior.model.likelihood}; "
            "use linearized_predict"
        )
    averaged, _ = by_batches(lambda batch: ({"probs": _probit(posterior, batch)}, {}), x)
    probs = averaged["probs"]
    predicted = CategoricalPredictive(probs, np.full(len(probs), np.nan, probs.dtype))
    return predicted.in_units(posterior.record.units)


def output_moments(
    posterior: Posterior, x: Array
) -> tuple[Float[Array, "n k"], Float[Array, "n k k"]]:
    """f(x; θ*) and J(x) Σ J(x)ᵀ of every row."""
    mean = cast_like(posterior.mean, x)  # type: ignore[attr-defined]
    outputs = posterior.model.outputs(mean, x).reshape(len(x), -1)
    by_layers = isinstance(posterior, KroneckerNormal | NormalWeights)
    layered = by_layers and has_layers(posterior.model.network)
    covariance = _layered_covariance if layered else _flat_covariance
    size = outputs.shape[1] * (1 if layered else ravel_pytree(mean["network"])[0].size)
    rows = max(1, min(128, CHUNK_NUMBERS // size))

    def of_row(row: Array) -> Array:
        return covariance(posterior, mean["network"], row[None])[0]

    return outputs, jax.lax.map(of_row, x, batch_size=rows)


def _checked(posterior: Any, x: np.ndarray | Array) -> np.ndarray | Array:
    enable_compilation_cache()
    if not isinstance(posterior, DenseNormal | KroneckerNormal | NormalWeights):
        members = (
            "posterior.member(i) for each member, or " if isinstance(posterior, Mixture) else ""
        )
        raise CredoError(
            f"a linearised prediction needs a normal posterior, as credo.Laplace gives, got "
            f"{type(posterior).__name__}; use {members}credo.predict"
        )
    return check_inputs(posterior, x)


def _flat_covariance(posterior: Any, network: Any, x: Array) -> Array:
    """From the whole Jacobian of few rows."""
    jacobian = gradients(posterior.model.network, network, x, _each_output)
    if isinstance(posterior, NormalWeights):
        parts = jax.tree.map(jnp.multiply, jacobian, posterior.std["network"])
        spread = _flattened(parts)
    else:
        # No output depends on the likelihood's own parameters, which come first.
        own = ravel_pytree(posterior.mean["likelihood"])[0].size
        flat = jnp.pad(_flattened(jacobian), [(0, 0), (0, 0), (own, 0)])
        rows = slice(None) if posterior.chosen is None else posterior.chosen
        spread = flat[..., rows] @ posterior.factor
    return jnp.einsum("nki,nli->nkl", spread, spread)


def _layered_covariance(posterior: Any, network: Any, x: Array) -> Array:
    """From the factors of each layer: with u = a A and h = g G, Σ_ij (Σ_t u_i h_j)² S_ij²."""
    kronecker = isinstance(posterior, KroneckerNormal)
    names = tuple(posterior.spread if kronecker else network)
    layers = layer_factors(posterior.model.network, network, x, _each_output, names)
    parts = []
    for name, factors in layers.items():
        if kronecker:
            inputs, gradients = posterior.inputs[name], posterior.outputs[name]
            factors = Factors(factors.inputs @ inputs, factors.gradients @ gradients)
            spread = posterior.spread[name]
        else:
            spread = join(posterior.std["network"][name])
        parts.append(_layer_covariance(factors, spread))
    return sum(parts, jnp.zeros(()))


def _layer_covariance(factors: Factors, spread: Array) -> Array:
    if factors.inputs.shape[1] == 1:
        h = factors.gradients[:, :, 0]
        by_output = jnp.square(factors.inputs[:, 0]) @ jnp.square(spread)
        return jnp.einsum("nkj,nlj,nj->nkl", h, h, by_output)
    whole = spread * outer(factors)
    return jnp.einsum("nkij,nlij->nkl", whole, whole)


def _each_output(outputs: Array) -> Array:
    rows, size = outputs.shape[0], outputs[0].size
    return jnp.broadcast_to(jnp.eye(size, dtype=outputs.dtype), (rows, size, size))


def _flattened(tree: Any) -> Array:
    return jax.vmap(jax.vmap(lambda one: ravel_pytree(one)[0]))(tree)


def _standard_normals(key: Array, num_draws: int, size: int) -> Float[Array, "s k"]:
    """Standard normal vectors whose mean is 0 and whose covariance is I, if there are enough."""
    drawn = jax.random.normal(key, (num_draws, size))
    if num_draws <= size + 1:
        return drawn
    drawn = drawn - drawn.mean(axis=0)
    lower = jnp.linalg.cholesky(drawn.T @ drawn / num_draws)
    return jax.scipy.linalg.solve_triangular(lower, drawn.T, lower=True).T


def _drawn_outputs(posterior: Posterior, normals: Array, x: Array) -> Float[Array, "s n k"]:
    mean, covariance = output_moments(posterior, x)
    # A symmetric root exists for a singular covariance too, such as that of certain outputs.
    values, vectors = jnp.linalg.eigh(covariance)
    root = vectors * jnp.sqrt(jnp.maximum(values, 0))[:, None, :]
    return mean + jnp.einsum("nki,si->snk", root, normals)


@jit
def _summary(posterior: Any, normals: Array, x: Array) -> tuple[dict, dict]:
    likelihood = posterior.model.likelihood
    own = cast_like(posterior.mean["likelihood"], x)

    def one(outputs: Array) -> tuple[dict, dict]:
        return likelihood.summarize(own, outputs.reshape(-1, *likelihood.output_shape))

    drawn, kept = jax.lax.map(one, _drawn_outputs(posterior, normals, x))
    return likelihood.average(drawn), kept


@jit
def _probit(posterior: Posterior, x: Array) -> Array:
    mean, covariance = output_moments(posterior, x)
    if mean.shape[1] > 1:
        center = jnp.eye(mean.shape[1]) - 1 / mean.shape[1]
        mean, covariance = mean @ center, center @ covariance @ center
    variance = jnp.diagonal(covariance, axis1=1, axis2=2)
    scaled = mean / jnp.sqrt(1 + jnp.pi / 8 * variance)
    return jax.nn.softmax(posterior.model.likelihood.logits(scaled))
