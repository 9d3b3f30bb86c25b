"""Bayesian linear regression: the exact posterior of a network that is linear in its parameters.

With f(x) = f₀(x) + J(x) θ, noise σ and prior θ ~ N(0, diag(s²)):

    Λ = JᵀJ/σ² + diag(1/s²),     p(θ | D) = N(Λ⁻¹ Jᵀ(y − f₀)/σ², Λ⁻¹)

and the evidence log p(y) = log N(y | f₀, σ² I + J diag(s²) Jᵀ). The network may be `MLP(hidden=())`
or any function of your own that is linear in its parameters (basis functions, splines).

Reference: Bishop, Pattern Recognition and Machine Learning, 2006, section 3.3.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from credo.errors import CredoError
from credo.inference.method import Info, Plan
from credo.model import Batch, Normal, Target
from credo.model.priors import fill
from credo.networks import Params
from credo.posterior.dense import DenseNormal


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
    """The posterior, and how far the network is from linear."""

    mean: Params
    factor: Array
    nonlinearity: Array


@dataclass(frozen=True)
class Exact:
    """The exact posterior of a linear model with normal noise of known scale.

    Example:
        >>> import numpy as np
        >>> x = np.linspace(-1, 1, 20)[:, None]
        >>> model = credo.Model(credo.networks.MLP(hidden=()), credo.Normal(0.1))
        >>> posterior = credo.fit(model, (x, 2 * x[:, 0] + 1), credo.Exact())
        >>> round(float(posterior.mean["network"]["dense0"]["w"][0, 0]), 1)
        2.0
    """

    def plan(self, num_data: int) -> Plan:
        return Plan(num_steps=1, num_warmup=1)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> ExactState:
        if not isinstance(getattr(target.model, "likelihood", None), Normal):
            got = type(getattr(target.model, "likelihood", None)).__name__
            raise CredoError(
                f"exact needs the likelihood Normal(scale), whose noise is known, got {got}; give "
                "credo.Normal(scale), --target-noise on the command line or noise=… to "
                "BayesianRegressor, or use hmc or nuts"
            )
        size = ravel_pytree(params)[0].size
        return ExactState(params, jnp.zeros((size, size)), jnp.zeros(()))

    def step(
        self, key: Array, target: Target, state: ExactState, batch: Batch
    ) -> tuple[ExactState, Info]:
        model, noise = target.model, target.model.likelihood.scale  # type: ignore[union-attr]
        flat, unravel = ravel_pytree(state.mean)
        scales, _ = ravel_pytree(fill(model.prior_scales(state.mean), state.mean))

        def outputs(whitened: Array) -> Array:
            return model.outputs(unravel(scales * whitened), batch.x).ravel() / noise

        origin = jnp.zeros_like(flat)
        at_zero = outputs(origin)
        design = jax.jacobian(outputs)(origin)
        y = batch.y.reshape(at_zero.shape).astype(flat.dtype) / noise - at_zero
        # In units of prior scales and noise the precision is I + JᵀJ, well conditioned.
        prior = LinearPosterior.prior(jnp.ones_like(flat))
        after = prior.update(design, y, 1.0)
        evidence = prior.log_evidence(design, y, 1.0) - len(y) * math.log(noise)
        root = jnp.linalg.cholesky(after.precision)
        inverse = solve_triangular(root, jnp.eye(flat.size), lower=True, trans=1)
        factor = scales[:, None] * inverse * target.temperature**0.5
        probe = jax.random.normal(key, flat.shape, flat.dtype)
        expected = at_zero + design @ probe
        gap = jnp.max(jnp.abs(outputs(probe) - expected)) / (1 + jnp.max(jnp.abs(expected)))
        state = ExactState(unravel(scales * after.mean), factor, gap)
        return state, {"log_evidence": evidence}

    def keep(self, state: ExactState) -> None:
        return None

    def posterior(self, target: Target, states: list[ExactState], kept: None) -> DenseNormal:
        state = states[0]
        if state.nonlinearity > 1e-3:
            raise CredoError(
                f"exact needs a network that is linear in its parameters; this one is off by "
                f"{float(state.nonlinearity):.2g} of its outputs; use MLP(hidden=()), or hmc"
            )
        return DenseNormal(target.model, state.mean, state.factor)


def _solve(matrix: Array, vector: Array) -> Array:
    return cho_solve((jnp.linalg.cholesky(matrix), True), vector)


def _log_determinant(matrix: Array) -> Array:
    return 2 * jnp.sum(jnp.log(jnp.diag(jnp.linalg.cholesky(matrix))))
