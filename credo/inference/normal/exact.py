"""Bayesian linear regression: the exact posterior of a network that is linear in its parameters.

With f(x) = f₀(x) + J(x) θ, noise σ and prior θ ~ N(0, diag(s²)):

    Λ = JᵀJ/σ² + diag(1/s²),     p(θ | D) = N(Λ⁻¹ Jᵀ(y − f₀)/σ², Λ⁻¹)

and the evidence log p(y) = log N(y | f₀, σ² I + J diag(s²) Jᵀ). The network may be `MLP(hidden=())`
or any function of your own that is linear in its parameters (basis functions, splines).

Reference: Bishop, Pattern Recognition and Machine Learning, 2006, section 3.3.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from credo.caching import jit
from credo.engine import Info, Plan, pick
from credo.errors import CredoError
from credo.inference.method import Method
from credo.model import Batch, Model, Normal, Target
from credo.model.priors import fill
from credo.networks import Params
from credo.posterior.dense import DenseNormal

LARGEST = 400_000_000  # numbers held at once: 1.6 GB in single precision, 10,000 parameters
PROBED_ROWS = 64  # enough to see that a network is not linear


class LinearPosterior(NamedTuple):
    """θ ~ N(mean, precision⁻¹), to be updated with data a batch at a time or all at once."""

    mean: Float[Array, " d"]
    precision: Float[Array, "d d"]

    @staticmethod
    def prior(scales: Float[Array, " d"]) -> "LinearPosterior":
        """N(0, diag(scales²))."""
        scales = jnp.asarray(scales)
        return LinearPosterior(jnp.zeros_like(scales), jnp.diag(scales**-2.0))

    def update(self, design: Array, y: Array, noise: float) -> "LinearPosterior":
        """The posterior after y = design θ + noise · ξ; the order of updates does not matter."""
        precision = self.precision + design.T @ design / noise**2
        shift = self.precision @ self.mean + design.T @ y / noise**2
        return LinearPosterior(_solve(precision, shift), precision)

    def predict(self, design: Array, noise: float) -> tuple[Array, Array]:
        """Mean and variance of y at the rows of `design`."""
        root = jnp.linalg.cholesky(self.precision)
        spread = solve_triangular(root, design.T, lower=True)
        return design @ self.mean, noise**2 + jnp.sum(spread**2, axis=0)

    def log_evidence(self, design: Array, y: Array, noise: float) -> Array:
        """log p(y), before the update with y: over batches in sequence these add up."""
        after = self.update(design, y, noise)
        residual = (y - design @ self.mean) / noise
        root = jnp.linalg.cholesky(after.precision)
        explained = solve_triangular(root, design.T @ residual / noise, lower=True)
        log_determinant = _log_determinant(after.precision) - _log_determinant(self.precision)
        constant = len(y) * math.log(2 * math.pi * noise**2)
        return -0.5 * (constant + log_determinant + jnp.sum(residual**2) - jnp.sum(explained**2))


class ExactState(NamedTuple):
    """The posterior N(mean, F Fᵀ)."""

    mean: Params
    factor: Array


@dataclass(frozen=True)
class Exact(Method):
    """The exact posterior of a linear model with normal noise of known scale.

    `credo.update` takes further rows into it: the posterior so far is their prior.

    Example:
        >>> import numpy as np
        >>> x = np.linspace(-1, 1, 20)[:, None]
        >>> y = 2 * x[:, 0] + 1
        >>> model = credo.Model(credo.networks.MLP(hidden=()), credo.likelihoods.Normal(0.1))
        >>> posterior = credo.fit(model, (x[:15], y[:15]), credo.Exact())
        >>> posterior = credo.update(posterior, (x[15:], y[15:]))
        >>> round(float(posterior.mean["network"]["dense0"]["w"][0, 0]), 1)
        2.0
    """

    def plan(self, num_data: int) -> Plan:
        return Plan(num_steps=1, num_warmup=1)

    def check(self, key: Array, target: Target, params: Params, batch: Batch) -> None:
        """Refuse before the work what cannot work: other noise, too large, not linear."""
        check_noise(target)
        gap = float(nonlinearity(key, target.model, params, batch.x[:PROBED_ROWS]))
        if gap > 1e-3:
            raise CredoError(
                f"exact needs a network that is linear in its parameters; this one is off by "
                f"{gap:.2g} of its outputs; use MLP(hidden=()), or hmc"
            )
        check_size(target, params, len(batch.x))

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> ExactState:
        size = ravel_pytree(params)[0].size
        return ExactState(params, jnp.zeros((size, size)))

    def step(
        self, key: Array, target: Target, state: ExactState, batch: Batch
    ) -> tuple[ExactState, Info]:
        scales, unravel = ravel_pytree(fill(target.model.prior_scales(state.mean), state.mean))
        center, _ = ravel_pytree(fill(target.prior_means(state.mean), state.mean))
        mean, factor, evidence = condition(
            target, unravel, center, lambda whitened: scales * whitened, batch
        )
        return ExactState(unravel(mean), factor), {"log_evidence": evidence}

    def posterior(self, target: Target, states: ExactState, kept: None) -> DenseNormal:
        state = pick(states, 0)
        return DenseNormal(target.model, state.mean, state.factor)


def condition(
    target: Target, unravel: Callable, center: Array, spread: Callable, batch: Batch
) -> tuple[Array, Array, Array]:
    """Mean, factor and log evidence for θ = center + spread(u) with u ~ N(0, I) a priori.

    In units of the prior and of the noise the precision of u is I + JᵀJ, well conditioned.
    """
    noise = target.model.likelihood.scale  # type: ignore[attr-defined]
    counted = jnp.ones(len(batch.x)) if batch.weight is None else batch.weight
    counted = counted if batch.is_real is None else counted * batch.is_real
    unit = jnp.repeat(jnp.sqrt(counted), target.model.likelihood.num_outputs) / noise

    def outputs(whitened: Array) -> Array:
        return target.model.outputs(unravel(center + spread(whitened)), batch.x).ravel() * unit

    origin = jnp.zeros_like(center)
    at_zero = outputs(origin)
    design = jax.jacfwd(outputs)(origin)
    y = batch.y.reshape(at_zero.shape).astype(center.dtype) * unit - at_zero
    prior = LinearPosterior.prior(jnp.ones_like(center))
    after = prior.update(design, y, 1.0)
    # Rows that fill up are zeros here: the density of a zero is taken out again.
    num_targets = jnp.sum(counted) * target.model.likelihood.num_outputs
    constant = 0.5 * (len(y) - num_targets) * math.log(2 * math.pi)
    evidence = prior.log_evidence(design, y, 1.0) + constant - num_targets * jnp.log(noise)
    root = jnp.linalg.cholesky(after.precision)
    inverse = solve_triangular(root, jnp.eye(center.size), lower=True, trans=1)
    factor = jax.vmap(spread, 1, 1)(inverse) * target.temperature**0.5
    return center + spread(after.mean), factor, evidence


@jit
def updated(target: Target, posterior: DenseNormal, batch: Batch) -> tuple[Params, Array, Array]:
    """Mean, factor and log evidence after new rows, with the posterior so far as their prior."""
    center, unravel = ravel_pytree(posterior.mean)
    root = posterior.factor / target.temperature**0.5
    mean, factor, evidence = condition(target, unravel, center, lambda u: root @ u, batch)
    return unravel(mean), factor, evidence


@jit
def nonlinearity(key: Array, model: Model, params: Params, x: Array) -> Array:
    """How far f(θ) is from f(0) + J θ at one random θ, relative to it: needs no matrix."""
    flat, unravel = ravel_pytree(params)

    def outputs(theta: Array) -> Array:
        return model.outputs(unravel(theta), x)

    probe = jax.random.normal(key, flat.shape, flat.dtype)
    at_zero, slope = jax.jvp(outputs, (jnp.zeros_like(flat),), (probe,))
    expected = at_zero + slope
    return jnp.max(jnp.abs(outputs(probe) - expected)) / (1 + jnp.max(jnp.abs(expected)))


def check_noise(target: Target) -> None:
    likelihood = target.model.likelihood
    if not (isinstance(likelihood, Normal) and likelihood.is_known):
        raise CredoError(
            f"exact needs the likelihood Normal(scale) with a known scale, got {likelihood}; give "
            "credo.likelihoods.Normal(scale=…), --target-noise on the command line or noise=… to "
            "BayesianRegressor, or use hmc or nuts"
        )


def check_size(target: Target, params: Params, num_rows: int) -> None:
    """Refuse what would not fit in memory: four matrices, and the design with its copy."""
    size = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))
    rows = num_rows * target.model.likelihood.num_outputs
    if 4 * size**2 > LARGEST:
        raise CredoError(
            f"exact holds matrices of {size:,} × {size:,} numbers, one row for each parameter, and "
            f"takes at most {math.isqrt(LARGEST // 4):,} parameters; use "
            "bayes-by-backprop, sgld, or laplace with another structure"
        )
    if 4 * size**2 + 2 * rows * size > LARGEST:
        raise CredoError(
            f"exact holds {rows:,} targets × {size:,} parameters at once, which is too much; fit "
            "the first part of the rows, then take in the others with credo.update"
        )


def _solve(matrix: Array, vector: Array) -> Array:
    return cho_solve((jnp.linalg.cholesky(matrix), True), vector)


def _log_determinant(matrix: Array) -> Array:
    return 2 * jnp.sum(jnp.log(jnp.diag(jnp.linalg.cholesky(matrix))))
