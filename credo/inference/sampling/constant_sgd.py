"""Constant SGD as inference: the noise of minibatches, at the right step size, is a sampler.

Near a mode, SGD with a constant rate hovers like an Ornstein–Uhlenbeck process. With the mean loss
L, minibatches of S, C the covariance of single gradients and D parameters, the rate whose
stationary law is closest to the posterior (in KL) is

    ε* = 2 S D / (N tr C),      H* = (2 S / N) C⁻¹ (full),      H*_kk = 2 S / (N C_kk) (diagonal)

times 1 − m with momentum m. C is estimated in the second half of the warm-up from pairs of
gradients, C ≈ mean of (g₁ − g_S)(g₁ − g_S)ᵀ · S/(S − 1), and then held fixed.

The formulas assume a posterior that is normal around one mode, and a gradient noise of full rank.
For a network that fits its data the noise nearly vanishes and ε* would be unstable: it is then cut
at `max_rate`, with a warning. Batches are drawn with replacement, as the theory has it: passes
through shuffled data have far less noise.

Reference: Mandt, Hoffman & Blei, Stochastic Gradient Descent as Approximate Bayesian Inference,
JMLR 2017.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from credo.engine import Info, Plan
from credo.errors import CredoError
from credo.fields import POSITIVE, at_least, between
from credo.inference.density import drawn
from credo.inference.method import Method
from credo.inference.sampling.chains import check_chains, plan_chains
from credo.inference.sampling.convergence import chain_warnings
from credo.inference.sampling.sgld import mean_loss
from credo.model import Batch, Target
from credo.networks import Params


class ConstantSGDState(NamedTuple):
    """Position, velocity, and the gradient-noise covariance as far as it is known."""

    params: Params
    velocity: Params
    covariance: Array
    """tr C / D, the diagonal of C, or C, by preconditioner."""
    rates: Array
    """What gradients are multiplied by: a number, one each, or a matrix."""
    largest: Array
    """The largest rate, or eigenvalue of the matrix."""
    num_steps: Array


@dataclass(frozen=True)
class ConstantSGD(Method):
    """SGD at the constant rate that makes it sample the posterior, as far as it can.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=()))
        >>> method = credo.ConstantSGD(num_samples=20, num_warmup=1000, batch_size=16)
        >>> posterior = credo.fit(model, data.train, method)
    """

    preconditioner: Literal["none", "diagonal", "full"] = "none"
    """One rate for all parameters, one each, or a matrix (for few parameters)."""
    learning_rate: float = 0.05
    """Rate of the warm-up."""
    max_rate: float = 0.1
    """The optimal rate, or an entry or eigenvalue of the preconditioner, is cut here."""
    damping: float = 1e-3
    """Added to C, as a share of its mean diagonal."""
    momentum: float = 0.0
    """What a step keeps of the velocity."""
    num_samples: int = 100
    """Draws kept per chain."""
    num_warmup: int = 4000
    """Steps before the first draw; C is estimated in their second half."""
    num_chains: int = 4
    """Independent chains, each from its own initialisation."""
    thin: int = 100
    """Steps per kept draw."""
    batch_size: int = 32
    """Rows per step, at least 2."""

    def __post_init__(self) -> None:
        check_chains(
            self, learning_rate=POSITIVE, max_rate=POSITIVE, damping=at_least(0),
            momentum=between(0, 1, high_included=False), num_warmup=at_least(2),
            batch_size=at_least(2),
        )  # fmt: skip

    def plan(self, num_rows: int) -> Plan:
        if num_rows < 2:
            raise CredoError(
                f"constant-sgd lives on the noise of minibatches and needs data of at least 2 "
                f"rows, got {num_rows}; with credo.sample pass data=, or use another sampler"
            )
        return plan_chains(self, batch_size=self.batch_size, with_replacement=True)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> ConstantSGDState:
        flat, _ = ravel_pytree(params)
        one = {"none": 1.0, "diagonal": jnp.ones_like(flat), "full": jnp.eye(flat.size)}
        rates = self.learning_rate * jnp.asarray(one[self.preconditioner], flat.dtype)
        velocity = jax.tree.map(jnp.zeros_like, params)
        warm = jnp.asarray(self.learning_rate, flat.dtype)
        return ConstantSGDState(
            params, velocity, jnp.zeros_like(rates), rates, warm, jnp.zeros((), int)
        )

    def step(
        self, key: Array, target: Target, state: ConstantSGDState, batch: Batch
    ) -> tuple[ConstantSGDState, Info]:
        loss, gradient = jax.value_and_grad(mean_loss(target, batch))(state.params)
        count, warm = state.num_steps, self.num_warmup
        covariance = jax.lax.cond(
            (count >= warm // 2) & (count < warm),
            lambda: self._observe(target, state, batch, gradient),
            lambda: state.covariance,
        )
        rates, largest = jax.lax.cond(
            count == warm,  # once, for the rates stay as they are from here on
            lambda: self._optimal(covariance, target.num_data),
            lambda: (state.rates, state.largest),
        )
        flat, unravel = ravel_pytree(gradient)
        move = unravel(rates @ flat if rates.ndim == 2 else rates * flat)
        velocity = jax.tree.map(lambda v, m: self.momentum * v - m, state.velocity, move)
        params = jax.tree.map(jnp.add, state.params, velocity)
        state = ConstantSGDState(params, velocity, covariance, rates, largest, count + 1)
        return state, {"loss": loss, "step_size": largest}

    def keep(self, state: ConstantSGDState) -> Params:
        return state.params

    def posterior(self, target: Target, states: ConstantSGDState, kept: Params) -> Any:
        return drawn(target, kept)

    @property
    def gives_draws(self) -> bool:
        return True

    def divergence_hint(self) -> str:
        return (
            f"lower max_rate (got {self.max_rate:g}) and learning_rate (got "
            f"{self.learning_rate:g}), or standardise the inputs"
        )

    def warnings(
        self, target: Target, posterior: Any, data: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        found = []
        if np.any(info["step_size"][:, self.num_warmup :] >= self.max_rate * (1 - 1e-6)):
            found.append(
                "constant-sgd: the optimal rate was above max_rate and has been cut: the chain "
                "is colder than the posterior; the gradients have too little noise for this method"
            )
        return found + chain_warnings("constant-sgd", target, posterior, data)

    def _observe(self, target: Target, state: ConstantSGDState, batch: Batch, gradient: Any):
        """Add one pair of gradients to the running mean of C."""
        one = jax.tree.map(lambda column: column[:1], batch)
        single, _ = ravel_pytree(jax.grad(mean_loss(target, one))(state.params))
        difference = single - ravel_pytree(gradient)[0]
        size = self.batch_size
        square = self._square(difference) * size / (size - 1)
        weight = 1.0 / (state.num_steps - self.num_warmup // 2 + 1)
        return (1 - weight) * state.covariance + weight * square

    def _square(self, difference: Array) -> Array:
        if self.preconditioner == "none":
            return jnp.mean(jnp.square(difference))
        if self.preconditioner == "diagonal":
            return jnp.square(difference)
        return jnp.outer(difference, difference)

    def _optimal(self, covariance: Array, num_data: Any) -> tuple[Array, Array]:
        """H*, damped and cut, and the largest rate in it."""
        factor = 2 * (1 - self.momentum) * self.batch_size / num_data

        def cut(noise: Array) -> Array:
            return jnp.minimum(factor / jnp.maximum(noise, 1e-30), self.max_rate)

        if self.preconditioner != "full":
            rates = cut(covariance + self.damping * jnp.mean(covariance))
            return rates, jnp.max(rates)
        values, vectors = jnp.linalg.eigh(covariance)
        rates = cut(values + self.damping * jnp.mean(values))
        return (vectors * rates) @ vectors.T, jnp.max(rates)
