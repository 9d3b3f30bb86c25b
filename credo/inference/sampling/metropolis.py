"""Random-walk Metropolis: the simplest sampler, for a few dimensions and as a reference.

    θ' = θ + s ξ,   accepted with probability min(1, p(θ', D) / p(θ, D))

The step size s is adapted during warm-up towards the acceptance that is best in many dimensions.
The walk needs a number of steps in proportion to the dimension: for networks it mostly shows how
much gradients are worth.

References: Metropolis et al. 1953; Roberts, Gelman & Gilks, Weak convergence and optimal scaling of
random walk Metropolis algorithms, 1997 (acceptance 0.234).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.engine import Info, Plan
from credo.fields import at_least
from credo.inference.density import drawn, near_mode
from credo.inference.method import Method
from credo.inference.sampling import adaptation
from credo.inference.sampling.adaptation import Warmup
from credo.inference.sampling.chains import check_chains, plan_chains
from credo.inference.sampling.convergence import sampler_warnings
from credo.inference.sampling.trees import add, normal_like, where
from credo.model import Batch, Target
from credo.networks import Params


class MetropolisState(NamedTuple):
    """Position, its log density, and the step size."""

    params: Params
    log_joint: Array
    warmup: Warmup


@dataclass(frozen=True)
class Metropolis(Method):
    """Random-walk Metropolis with an adapted step size.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=()))
        >>> method = credo.Metropolis(num_samples=50, num_warmup=200, thin=5)
        >>> posterior = credo.fit(model, data.train, method)
    """

    num_samples: int = 200
    """Draws kept per chain."""
    num_warmup: int = 5000
    """Steps before the first draw, in which the step size is adapted."""
    num_chains: int = 4
    """Independent chains, each from its own initialisation."""
    thin: int = 100
    """Steps per kept draw."""
    step_size: float = 0.01
    """Standard deviation of a proposal at the start of the warm-up."""
    target_acceptance: float = 0.234
    """Mean acceptance that the warm-up aims for."""
    climb_steps: int = 1000
    """Steps of Adam towards the mode before a network's chain starts."""

    def __post_init__(self) -> None:
        check_chains(self, climb_steps=at_least(0))

    def plan(self, num_rows: int) -> Plan:
        sync_steps = adaptation.sync_steps(self.num_warmup, "unit")
        return plan_chains(self, sync_steps=sync_steps)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> MetropolisState:
        params = near_mode(target, params, batch, self.climb_steps)
        warmup = adaptation.start(params, self.step_size, "unit")
        return MetropolisState(params, target.log_joint(params, batch), warmup)

    def synchronize(self, states: MetropolisState) -> MetropolisState:
        return adaptation.synchronize(states, self.num_warmup)

    def step(
        self, key: Array, target: Target, state: MetropolisState, batch: Batch
    ) -> tuple[MetropolisState, Info]:
        walk_key, accept_key = jax.random.split(key)
        step_size = adaptation.current_step_size(state.warmup, self.num_warmup)
        proposal = add(state.params, normal_like(walk_key, state.params), step_size)
        log_joint = target.log_joint(proposal, batch)
        acceptance = acceptance_probability(log_joint - state.log_joint)
        accepted = jax.random.uniform(accept_key) < acceptance
        params, log_joint = where(accepted, (proposal, log_joint), (state.params, state.log_joint))
        warmup = adaptation.advance(
            state.warmup, params, acceptance, self.target_acceptance, self.num_warmup
        )
        info = {"acceptance": acceptance, "step_size": step_size, "log_joint": log_joint}
        return MetropolisState(params, log_joint, warmup), info

    def keep(self, state: MetropolisState) -> Params:
        return state.params

    def posterior(self, target: Target, states: MetropolisState, kept: Params) -> Any:
        return drawn(target, kept)

    @property
    def has_acceptance(self) -> bool:
        return True

    @property
    def gives_draws(self) -> bool:
        return True

    def divergence_hint(self) -> str:
        return f"lower step_size (got {self.step_size:g})"

    def warnings(
        self, target: Target, posterior: Any, data: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        return sampler_warnings("metropolis", self, target, posterior, data, info)


def acceptance_probability(log_ratio: Array) -> Array:
    """min(1, exp(log ratio)); where the ratio is NaN, as for a density that overflowed, 0."""
    return jnp.where(jnp.isnan(log_ratio), 0.0, jnp.exp(jnp.minimum(log_ratio, 0.0)))
