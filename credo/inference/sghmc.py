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
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.inference.chains import check_chains, plan_chains
from credo.inference.convergence import chain_warnings
from credo.inference.method import COUNT, NOT_NEGATIVE, POSITIVE, Info, Plan
from credo.inference.sgld import default_rate, mean_loss, remedy
from credo.inference.trees import normal_like
from credo.model import Batch, Target
from credo.networks import Params
from credo.posterior import Samples


class SGHMCState(NamedTuple):
    """Position and the displacement u that momentum carries on."""

    params: Params
    velocity: Params


@dataclass(frozen=True)
class SGHMC:
    """Hamiltonian dynamics with friction on minibatches.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.Model(credo.networks.MLP(hidden=(8,)), credo.Categorical(3))
        >>> posterior = credo.fit(model, data.train, credo.SGHMC(num_samples=20, num_warmup=500))
    """

    learning_rate: float | None = None
    """Step size η on the mean loss; by default 0.02 for classes, 0.01 for quantities (times σ²
    where a noise σ below 1 is known) and bare densities."""
    momentum: float = 0.9
    """μ: what a step keeps of the velocity; 1 − μ is the friction."""
    num_samples: int = 100
    """Draws kept per chain."""
    num_warmup: int = 4000
    """Steps before the first draw."""
    num_chains: int = 4
    """Independent chains, each from its own initialisation."""
    thin: int = 100
    """Steps per kept draw."""
    batch_size: int = 128
    """Rows per step."""
    noise: float = 1.0
    """Multiplies the noise: 1 samples the posterior, 0 is momentum SGD."""

    def __post_init__(self) -> None:
        check_chains(
            self, learning_rate=POSITIVE, momentum=(NOT_NEGATIVE[0], 0.99999), batch_size=COUNT,
            noise=NOT_NEGATIVE,
        )  # fmt: skip

    def plan(self, num_data: int) -> Plan:
        return plan_chains(self, batch_size=min(self.batch_size, num_data))

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> SGHMCState:
        return SGHMCState(params, jax.tree.map(jnp.zeros_like, params))

    def step(
        self, key: Array, target: Target, state: SGHMCState, batch: Batch
    ) -> tuple[SGHMCState, Info]:
        loss, gradient = jax.value_and_grad(mean_loss(target, batch))(state.params)
        rate = self.learning_rate or default_rate(target, 0.02, 0.01)
        heat = self.noise * (2 * (1 - self.momentum) * rate / target.num_data) ** 0.5
        velocity = jax.tree.map(
            lambda u, g, xi: self.momentum * u - rate * g + heat * xi,
            state.velocity, gradient, normal_like(key, state.params),
        )  # fmt: skip
        params = jax.tree.map(jnp.add, state.params, velocity)
        return SGHMCState(params, velocity), {"loss": loss}

    def keep(self, state: SGHMCState) -> Params:
        return state.params

    def posterior(self, target: Target, states: list[SGHMCState], kept: Params) -> Samples:
        return Samples(target.model, kept)

    def remedy(self) -> str:
        return remedy(self.learning_rate)

    def warnings(
        self, target: Target, posterior: Samples, batch: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        return chain_warnings("sghmc", target, posterior, batch)
