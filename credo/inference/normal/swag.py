"""Stochastic weight averaging, and the normal that its iterates trace out.

Descent goes on at a constant rate after it has converged. Of the networks θ_1 … θ_T that are
collected there, with θ̄_i the mean of the first i,

    θ ~ N(θ̄,  ½ diag(σ²) + D Dᵀ / (2 (K − 1))),     σ² = (1/T) Σ_i (θ_i − θ̄)²

where the K columns of D are the last deviations θ_i − θ̄_i. The mean alone is SWA; without D (rank
0) the normal is N(θ̄, diag(σ²)), SWAG-diagonal.

References: Izmailov et al., Averaging Weights Leads to Wider Optima and Better Generalization, UAI
2018; Maddox et al., A Simple Baseline for Bayesian Uncertainty in Deep Learning, NeurIPS 2019.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from credo.engine import DescentState, Info, Plan, pick
from credo.errors import CredoError
from credo.fields import COUNT, POSITIVE, at_least, between, check_fields
from credo.inference.method import DescentMethod
from credo.model import Batch, Target
from credo.networks import Params
from credo.posterior import LowRankNormal, NormalWeights

FEWEST = 2  # networks that have a spread


class SWAGState(NamedTuple):
    """The descent, and what has been collected along it, all weights in one vector."""

    descent: DescentState
    mean: Float[Array, " d"]
    variance: Float[Array, " d"]
    deviations: Float[Array, "k d"]
    """The last ones, in a ring; zero where there is none yet."""
    num_collected: Array


@dataclass(frozen=True)
class SWAG(DescentMethod):
    """A normal around the average of the networks that descent at a constant rate passes through.

    `posterior.mean_network()` is the average itself (SWA).

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(16,)))
        >>> method = credo.SWAG(num_steps=400, collect_every=5)
        >>> posterior = credo.fit(model, data.train, method)
        >>> averaged = posterior.mean_network()
    """

    collect_from: float = 0.75
    """Share of the run after which networks are collected."""
    swa_rate: float = 2e-4
    """The constant learning rate while they are; until then the schedule leads to it."""
    collect_every: int = 25
    """Steps between two of them."""
    rank: int = 20
    """How many of the last deviations are kept, at least 2; 0: only a spread for each weight."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(
            self, collect_from=between(0, 1, high_included=False), swa_rate=POSITIVE,
            collect_every=COUNT, rank=at_least(0),
        )  # fmt: skip
        if self.rank == 1:
            raise CredoError("SWAG: rank must be 0 or at least 2: one deviation has no covariance")
        if self.validation_fraction:
            raise CredoError(
                "SWAG averages the networks after descent has converged, so it cannot stop early; "
                "leave validation_fraction out"
            )

    def plan(self, num_rows: int) -> Plan:
        plan = super().plan(num_rows)
        count = self._num_collected(plan.num_steps)
        if count < FEWEST:
            raise CredoError(
                f"SWAG would collect {count} networks in {plan.num_steps} steps, and needs "
                f"{FEWEST}; raise num_steps, or lower collect_every (got {self.collect_every}) or "
                f"collect_from (got {self.collect_from:g})"
            )
        return plan

    def rate_schedule(self, total: Any) -> Callable[[Array], Array]:
        first = jnp.maximum(1, self._first(total))

        def at(step: Array) -> Array:
            rate = jnp.asarray(self.learning_rate)
            if self.schedule == "cosine":
                share = 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(step / first, 1.0)))
                rate = self.swa_rate + (self.learning_rate - self.swa_rate) * share
            return jnp.where(step < first, rate, self.swa_rate)

        return at

    def init(  # type: ignore[override]
        self, key: Array, target: Target, params: Params, batch: Batch
    ) -> SWAGState:
        flat, _ = ravel_pytree(params)
        nothing = jnp.zeros_like(flat)
        ring = jnp.zeros((self.rank, flat.size), flat.dtype)
        descent = super().init(key, target, params, batch)
        return SWAGState(descent, nothing, nothing, ring, jnp.zeros((), jnp.int32))

    def step(  # type: ignore[override]
        self, key: Array, target: Target, state: SWAGState, batch: Batch
    ) -> tuple[SWAGState, Info]:
        descent, info = super().step(key, target, state.descent, batch)
        past = descent.step - self._first(self.total_steps(target.num_data))
        collects = (past > 0) & (past % self.collect_every == 0)
        return self._collected(state._replace(descent=descent), collects), info

    def is_finished(self, state: Any) -> Array:
        return jnp.zeros((), bool)

    def posterior(  # type: ignore[override]
        self, target: Target, states: SWAGState, kept: None
    ) -> LowRankNormal | NormalWeights:
        state = pick(states, 0)
        unravel = ravel_pytree(state.descent.learned)[1]
        mean, std = unravel(state.mean), jnp.sqrt(state.variance)
        if self.rank == 0:
            return NormalWeights(target.model, mean, unravel(std))
        columns = jnp.minimum(state.num_collected, self.rank)
        factor = state.deviations.T / jnp.sqrt(2.0 * (columns - 1)).astype(state.mean.dtype)
        return LowRankNormal(target.model, mean, unravel(std / np.sqrt(2.0)), factor)

    def divergence_hint(self) -> str:
        return super().divergence_hint() + f", or lower swa_rate (got {self.swa_rate:g})"

    def warnings(
        self, target: Target, posterior: Any, data: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        count = self._num_collected(info["loss"].shape[1])
        found = super().warnings(target, posterior, data, info)
        if count >= self.rank:
            return found
        return [
            *found,
            f"swag: {count} networks were collected, too few for rank {self.rank}; raise "
            "num_steps, or lower collect_every",
        ]

    def _first(self, total: Any) -> Any:
        """The step after which networks are collected."""
        return jnp.floor(self.collect_from * total).astype(int)

    def _num_collected(self, total: int) -> int:
        return (total - int(self._first(total))) // self.collect_every

    def _collected(self, state: SWAGState, collects: Array) -> SWAGState:
        """Add the network of this step to the moments (Welford's way: squares would cancel)."""
        flat, _ = ravel_pytree(state.descent.learned)
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
