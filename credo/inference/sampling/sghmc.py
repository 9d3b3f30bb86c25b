"""Stochastic gradient Hamiltonian Monte Carlo: momentum SGD with the noise that makes it a sampler.

With L = −log p(θ, D) / N estimated from a minibatch, learning rate η and momentum μ:

    v ← μ v − √(η/N) N ∇L(θ) + √(2 (1 − μ)) ξ,     θ ← θ + √(η/N) v

Friction 1 − μ balances the noise; without it the noise of the gradients would heat the chain for
ever. Written for u = √(η/N) v this is momentum SGD u ← μ u − η ∇L with noise √(2 (1 − μ) η/N):
`noise=0` is exactly that.

References: Chen, Fox & Guestrin, Stochastic Gradient Hamiltonian Monte Carlo, ICML 2014;
Betancourt, The Fundamental Incompatibility of Scalable HMC and Naive Data Subsampling, ICML 2015.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.engine import Info, Plan
from credo.fields import COUNT, POSITIVE, at_least, between
from credo.inference.density import drawn
from credo.inference.method import Method
from credo.inference.sampling.chains import check_chains, plan_chains
from credo.inference.sampling.convergence import chain_warnings
from credo.inference.sampling.sgld import mean_loss, rate_hint, step_size
from credo.inference.sampling.trees import normal_like
from credo.model import Batch, Target
from credo.networks import Params


class SGHMCState(NamedTuple):
    """Position and the displacement u that momentum carries on."""

    params: Params
    velocity: Params


@dataclass(frozen=True)
class SGHMC(Method):
    """Hamiltonian dynamics with friction on minibatches.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(8,)))
        >>> posterior = credo.fit(model, data.train, credo.SGHMC(num_samples=20, num_warmup=500))
    """

    learning_rate: float | None = None
    """Step size η on the mean loss; by default 0.05 for classes, 0.003 for quantities (times σ²
    where a noise σ below 1 is known) and bare densities."""
    momentum: float = 0.99
    """μ: what a step keeps of the velocity; 1 − μ is the friction."""
    num_samples: int = 100
    """Draws kept per chain."""
    num_warmup: int = 4000
    """Steps before the first draw."""
    num_chains: int = 4
    """Independent chains, each from its own initialisation."""
    thin: int = 200
    """Steps per kept draw."""
    batch_size: int = 128
    """Rows per step."""
    noise: float = 1.0
    """Multiplies the noise: 1 samples the posterior, 0 is momentum SGD."""

    def __post_init__(self) -> None:
        check_chains(
            self, learning_rate=POSITIVE, momentum=between(0, 1, high_included=False),
            batch_size=COUNT, noise=at_least(0),
        )  # fmt: skip

    def plan(self, num_rows: int) -> Plan:
        return plan_chains(self, batch_size=self.batch_size)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> SGHMCState:
        return SGHMCState(params, jax.tree.map(jnp.zeros_like, params))

    def step(
        self, key: Array, target: Target, state: SGHMCState, batch: Batch
    ) -> tuple[SGHMCState, Info]:
        loss, gradient = jax.value_and_grad(mean_loss(target, batch))(state.params)
        rate = step_size(self, target, 0.05, 0.003)
        spread = self.noise * jnp.sqrt(2 * (1 - self.momentum) * rate / target.num_data)
        velocity = jax.tree.map(
            lambda u, g, xi: self.momentum * u - rate * g + spread * xi,
            state.velocity, gradient, normal_like(key, state.params),
        )  # fmt: skip
        params = jax.tree.map(jnp.add, state.params, velocity)
        return SGHMCState(params, velocity), {"loss": loss}

    def keep(self, state: SGHMCState) -> Params:
        return state.params

    def posterior(self, target: Target, states: SGHMCState, kept: Params) -> Any:
        return drawn(target, kept)

    @property
    def gives_draws(self) -> bool:
        return True

    def divergence_hint(self) -> str:
        return rate_hint(self.learning_rate)

    def warnings(
        self, target: Target, posterior: Any, data: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        return chain_warnings("sghmc", target, posterior, data)
