"""Stochastic weight averaging, and the normal that its iterates trace out.

Descent goes on at a constant rate after it has converged. Of the networks θ_1 … θ_T that are
collected there, with θ̄_i the mean of the first i,

    θ ~ N(θ̄,  ½ diag(σ²) + D Dᵀ / (2 (K − 1))),     σ² = (1/T) Σ_i (θ_i − θ̄)²

where the K columns of D are the last deviations θ_i − θ̄_i. The mean alone is SWA; without D (rank
0) the normal is N(θ̄, diag(σ²)), SWAG-diagonal.

References: Izmailov et al., Averaging Weights Leads to Wider Optima and Better Generalization, UAI
2018; Maddox et al., A Simple Baseline for Bayesian Uncertainty in Deep Learning, NeurIPS 2019.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from credo.errors import CredoError
from credo.inference import optimize
from credo.inference.method import COUNT, NOT_NEGATIVE, POSITIVE, Info, Plan, check_fields
from credo.inference.optimize import Descent, Optimizer, Schedule
from credo.model import Batch, Target
from credo.networks import Params, no_noise
from credo.posterior import LowRankNormal, NormalWeights

FEWEST = 2  # networks that have a spread


class SWAGState(NamedTuple):
    """The descent, and what has been collected along it, all weights in one vector."""

    descent: Descent
    mean: Float[Array, " d"]
    variance: Float[Array, " d"]
    deviations: Float[Array, "k d"]
    """The last ones, in a ring; zero where there is none yet."""
    num_steps: Array
    num_collected: Array


@dataclass(frozen=True)
class SWAG:
    """A normal around the average of the networks that descent at a constant rate passes through.

    `posterior.mean_network()` is the average itself (SWA).

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.Model(credo.networks.MLP(hidden=(16,)), credo.Categorical(3))
        >>> method = credo.SWAG(num_steps=400, collect_every=5)
        >>> posterior = credo.fit(model, data.train, method)
        >>> averaged = posterior.mean_network()
    """

    learning_rate: float = 1e-3
    """Step size of the optimiser at the start."""
    num_steps: int = 4000
    """Gradient steps, those that collect included."""
    num_epochs: float | None = None
    """Passes over the data; where given, replaces num_steps."""
    batch_size: int = 128
    """Rows per step."""
    optimizer: Optimizer = "adam"
    """adam, sgd or momentum."""
    schedule: Schedule = "cosine"
    """How the learning rate goes until collecting starts: constant, or by a cosine to swa_rate."""
    start: float = 0.75
    """Share of the run after which networks are collected."""
    swa_rate: float = 1e-3
    """The constant learning rate while they are."""
    collect_every: int = 25
    """Steps between two of them."""
    rank: int = 20
    """How many of the last deviations are kept, at least 2; 0: only a spread for each weight."""

    def __post_init__(self) -> None:
        optimize.check_descent(self)
        check_fields(
            self, start=(NOT_NEGATIVE[0], 0.999), swa_rate=POSITIVE, collect_every=COUNT,
            rank=NOT_NEGATIVE,
        )  # fmt: skip
        if self.rank == 1:
            raise CredoError("SWAG: rank must be 0 or at least 2: one deviation has no covariance")

    def plan(self, num_data: int) -> Plan:
        plan = optimize.plan_descent(self, num_data)
        count = self._num_collected(plan.num_steps)
        if count < FEWEST:
            raise CredoError(
                f"SWAG would collect {count} networks in {plan.num_steps} steps, and needs "
                f"{FEWEST}; raise num_steps, or lower collect_every (got {self.collect_every}) or "
                f"start (got {self.start:g})"
            )
        return plan

    def rates(self, num_data: int) -> Any:
        """The learning rate of every step."""
        import optax

        start = max(1, self._start(optimize.plan_descent(self, num_data).num_steps))
        first = optax.constant_schedule(self.learning_rate)
        if self.schedule == "cosine":
            end = self.swa_rate / self.learning_rate
            first = optax.cosine_decay_schedule(self.learning_rate, start, end)
        return optax.join_schedules([first, optax.constant_schedule(self.swa_rate)], [start])

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> SWAGState:
        flat, _ = ravel_pytree(params)
        nothing = jnp.zeros_like(flat)
        ring = jnp.zeros((self.rank, flat.size), flat.dtype)
        descent = optimize.start(self, target.num_data, params)
        zero = jnp.zeros((), int)
        return SWAGState(descent, nothing, nothing, ring, zero, zero)

    def step(
        self, key: Array, target: Target, state: SWAGState, batch: Batch
    ) -> tuple[SWAGState, Info]:
        descent, info = optimize.descend(self, target, state.descent, batch, no_noise)
        done = state.num_steps + 1
        past = done - self._start(optimize.plan_descent(self, target.num_data).num_steps)
        collects = (past > 0) & (past % self.collect_every == 0)
        state = self._collected(state._replace(descent=descent, num_steps=done), collects)
        return state, info

    def keep(self, state: SWAGState) -> None:
        return None

    def posterior(
        self, target: Target, states: list[SWAGState], kept: None
    ) -> LowRankNormal | NormalWeights:
        state = states[0]
        unravel = ravel_pytree(state.descent.params)[1]
        mean, std = unravel(state.mean), jnp.sqrt(state.variance)
        if self.rank == 0:
            return NormalWeights(target.model, mean, unravel(std))
        columns = jnp.minimum(state.num_collected, self.rank)
        factor = state.deviations.T / jnp.sqrt(2.0 * (columns - 1)).astype(state.mean.dtype)
        return LowRankNormal(target.model, mean, unravel(std / np.sqrt(2.0)), factor)

    def remedy(self) -> str:
        return optimize.remedy(self) + f", or lower swa_rate (got {self.swa_rate:g})"

    def warnings(
        self, target: Target, posterior: Any, batch: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        count = self._num_collected(info["loss"].shape[1])
        if count >= self.rank:
            return []
        return [
            f"swag: {count} networks were collected, too few for rank {self.rank}; raise "
            "num_steps, or lower collect_every"
        ]

    def _start(self, num_steps: int) -> int:
        return int(self.start * num_steps)

    def _num_collected(self, num_steps: int) -> int:
        return (num_steps - self._start(num_steps)) // self.collect_every

    def _collected(self, state: SWAGState, collects: Array) -> SWAGState:
        """Add the network of this step to the moments (Welford's way: squares would cancel)."""
        flat, _ = ravel_pytree(state.descent.params)
        count = state.num_collected + collects
        weight = jnp.where(collects, 1.0 / jnp.maximum(count, 1), 0.0).astype(flat.dtype)
        before = flat - state.mean
        mean = state.mean + weight * before
        variance = state.variance + weight * (before * (flat - mean) - state.variance)
        ring = state.deviations
        if self.rank > 0:
            # One row is written at every step, though often with what it holds: a branch would
            # make XLA copy the whole ring.
            slot = (count - 1) % self.rank
            ring = ring.at[slot].set(jnp.where(collects, flat - mean, ring[slot]))
        return state._replace(mean=mean, variance=variance, deviations=ring, num_collected=count)
