"""MALA: a Langevin step as the proposal of Metropolis–Hastings, exact at any step size.

    θ' ~ N(θ + η ∇log p(θ, D), 2η),
    log a = log p(θ', D) − log p(θ, D) + [ ‖θ' − θ − η∇(θ)‖² − ‖θ − θ' − η∇(θ')‖² ] / 4η

With `batch_size` both densities and gradients are estimated from one and the same minibatch. The
noise s² of the log ratio then makes the chain accept too often; the penalty s²/2 corrects for it,
exactly if the noise is normal and s² known, which here is estimated from the batch.

References: Roberts & Tweedie 1996; Roberts & Rosenthal 1998 (acceptance 0.574); Ceperley & Dewing,
The penalty method for random walks with uncertain energies, 1999.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.inference import adaptation, optimize
from credo.inference.adaptation import Warmup
from credo.inference.chains import check_chains, plan_chains
from credo.inference.convergence import sampler_warnings
from credo.inference.method import COUNT, NOT_NEGATIVE, Info, Plan
from credo.inference.metropolis import acceptance_probability
from credo.inference.trees import add, normal_like, squared_norm, where
from credo.model import Batch, Target
from credo.networks import Params
from credo.posterior import Samples


class Point(NamedTuple):
    """A position with what its batch says about it."""

    params: Params
    log_joint: Array
    gradient: Params
    log_likelihoods: Array | None
    """Of every datum of the batch, where the penalty needs them."""


class MALAState(NamedTuple):
    """Where the chain is, and the step size."""

    point: Point
    warmup: Warmup


@dataclass(frozen=True)
class MALA:
    """Metropolis-adjusted Langevin, exact or with minibatches.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.Model(credo.networks.MLP(hidden=(8,)), credo.Categorical(3))
        >>> method = credo.MALA(num_samples=50, num_warmup=200, thin=5)
        >>> posterior = credo.fit(model, data.train, method)
    """

    num_samples: int = 200
    """Draws kept per chain."""
    num_warmup: int = 2000
    """Steps before the first draw, in which the step size is adapted."""
    num_chains: int = 4
    """Independent chains, each from its own initialisation."""
    thin: int = 20
    """Steps per kept draw."""
    step_size: float = 1e-4
    """η at the start of the warm-up."""
    target_acceptance: float = 0.574
    """Mean acceptance that the warm-up aims for."""
    batch_size: int | None = None
    """Rows per step; by default all, which alone is exact."""
    penalty: bool = True
    """Correct the acceptance for the noise of minibatches."""
    climb_steps: int = 1000
    """Steps of Adam towards the mode before a network's chain starts."""

    def __post_init__(self) -> None:
        check_chains(self, climb_steps=NOT_NEGATIVE, batch_size=COUNT)

    def plan(self, num_data: int) -> Plan:
        meetings = adaptation.meetings(self.num_warmup, "unit")
        return plan_chains(self, meetings=meetings, batch_size=self.batch_size)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> MALAState:
        if target.model is not None:
            params = optimize.climb(target, params, batch, self.climb_steps)
        warmup = adaptation.start(params, self.step_size, "unit")
        return MALAState(self._point(target, params, batch), warmup)

    def meet(self, states: list[MALAState]) -> list[MALAState]:
        return adaptation.meet(states, self.num_warmup)

    def step(
        self, key: Array, target: Target, state: MALAState, batch: Batch
    ) -> tuple[MALAState, Info]:
        noise_key, accept_key = jax.random.split(key)
        old, size = state.point, adaptation.current_step_size(state.warmup, self.num_warmup)
        if self._estimates(target):
            old = self._point(target, old.params, batch)  # the same minibatch for both points
        noise = normal_like(noise_key, old.params)
        drifted = add(old.params, old.gradient, size)
        new = self._point(target, add(drifted, noise, jnp.sqrt(2 * size)), batch)
        log_ratio = log_acceptance(old, new, size) - self._penalty(target, old, new)
        acceptance = acceptance_probability(log_ratio)
        accepted = jax.random.uniform(accept_key) < acceptance
        point = where(accepted, new, old)
        warmup = adaptation.advance(
            state.warmup, point.params, acceptance, self.target_acceptance, self.num_warmup
        )
        info = {"acceptance": acceptance, "step_size": size, "log_joint": point.log_joint}
        return MALAState(point, warmup), info

    def keep(self, state: MALAState) -> Params:
        return state.point.params

    def posterior(self, target: Target, states: list[MALAState], kept: Params) -> Samples:
        return Samples(target.model, kept)

    def remedy(self) -> str:
        return f"lower step_size (got {self.step_size:g})"

    def warnings(
        self, target: Target, posterior: Samples, batch: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        found = sampler_warnings("mala", self, target, posterior, batch, info)
        if self.penalty and self._estimates(target) and target.model is None:
            found.append(
                "mala: a bare log density does not tell the terms of a batch, so their noise is "
                "not corrected for and the draws are too spread out; leave batch_size out, or use "
                "credo.fit"
            )
        return found

    def _estimates(self, target: Target) -> bool:
        return self.batch_size is not None and self.batch_size < target.num_data

    def _point(self, target: Target, params: Params, batch: Batch) -> Point:
        log_joint, gradient = jax.value_and_grad(target.log_joint)(params, batch)
        each = None
        if self.penalty and self._estimates(target) and target.model is not None:
            each = target.model.log_likelihood(params, batch)
        return Point(params, log_joint, gradient, each)

    def _penalty(self, target: Target, old: Point, new: Point) -> Array | float:
        """s²/2 with s² the variance of N/B Σ [log p(y_j | θ') − log p(y_j | θ)] over batches."""
        if old.log_likelihoods is None or new.log_likelihoods is None:
            return 0.0
        differences = (new.log_likelihoods - old.log_likelihoods) / target.temperature
        batch_size, num_data = len(differences), target.num_data
        variance = jnp.var(differences, ddof=1) * num_data * (num_data / batch_size - 1)
        return 0.5 * variance


def log_acceptance(old: Point, new: Point, size: Array) -> Array:
    """Log of the Metropolis–Hastings ratio of the step from `old` to `new`."""
    move = add(new.params, old.params, -1.0)
    forward = squared_norm(add(move, old.gradient, -size))
    backward = squared_norm(add(move, new.gradient, size))
    return new.log_joint - old.log_joint + (forward - backward) / (4 * size)
