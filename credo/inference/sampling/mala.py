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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.engine import Info, Plan
from credo.fields import COUNT, at_least
from credo.inference.density import Density, drawn, near_mode
from credo.inference.method import Method
from credo.inference.sampling import adaptation
from credo.inference.sampling.adaptation import Warmup
from credo.inference.sampling.chains import check_chains, plan_chains
from credo.inference.sampling.convergence import sampler_warnings
from credo.inference.sampling.metropolis import acceptance_probability
from credo.inference.sampling.trees import add, normal_like, squared_norm, where
from credo.model import Batch, Target
from credo.networks import Params


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
class MALA(Method):
    """Metropolis-adjusted Langevin, exact or with minibatches.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(8,)))
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
        check_chains(self, climb_steps=at_least(0), batch_size=COUNT)

    def plan(self, num_rows: int) -> Plan:
        sync_steps = adaptation.sync_steps(self.num_warmup, "unit")
        return plan_chains(self, sync_steps=sync_steps, batch_size=self.batch_size)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> MALAState:
        params = near_mode(target, params, batch, self.climb_steps)
        warmup = adaptation.start(params, self.step_size, "unit")
        return MALAState(self._point(target, params, batch), warmup)

    def synchronize(self, states: MALAState) -> MALAState:
        return adaptation.synchronize(states, self.num_warmup)

    def step(
        self, key: Array, target: Target, state: MALAState, batch: Batch
    ) -> tuple[MALAState, Info]:
        noise_key, accept_key = jax.random.split(key)
        old, size = state.point, adaptation.current_step_size(state.warmup, self.num_warmup)
        if self._estimates:
            old = self._point(target, old.params, batch)  # the same minibatch for both points
        noise = normal_like(noise_key, old.params)
        drifted = add(old.params, old.gradient, size)
        new = self._point(target, add(drifted, noise, jnp.sqrt(2 * size)), batch)
        log_ratio = log_acceptance(old, new, size) - self._penalty(target, old, new, batch)
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

    def posterior(self, target: Target, states: MALAState, kept: Params) -> Any:
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
        found = sampler_warnings("mala", self, target, posterior, data, info)
        if self.penalty and self._estimates and isinstance(target, Density):
            found.append(
                "mala: a bare log density does not tell the terms of a batch, so their noise is "
                "not corrected for and the draws are too spread out; leave batch_size out, or use "
                "credo.fit"
            )
        return found

    @property
    def _estimates(self) -> bool:
        """Whether a batch stands for the data."""
        return self.batch_size is not None

    def _point(self, target: Target, params: Params, batch: Batch) -> Point:
        log_joint, gradient = jax.value_and_grad(target.log_joint)(params, batch)
        each = None
        if self.penalty and self._estimates:
            each = target.log_likelihoods(params, batch)
        return Point(params, log_joint, gradient, each)

    def _penalty(self, target: Target, old: Point, new: Point, batch: Batch) -> Array | float:
        """s²/2 with s² the variance of N/B Σ [log p(y_j | θ') − log p(y_j | θ)] over batches."""
        if old.log_likelihoods is None or new.log_likelihoods is None:
            return 0.0
        differences = (new.log_likelihoods - old.log_likelihoods) / target.temperature
        count, num_data = batch.count(), target.num_data
        variance = jnp.var(differences, ddof=1, where=batch.is_real)
        return 0.5 * variance * num_data * (num_data / count - 1)


def log_acceptance(old: Point, new: Point, size: Array) -> Array:
    """Log of the Metropolis–Hastings ratio of the step from `old` to `new`."""
    move = add(new.params, old.params, -1.0)
    forward = squared_norm(add(move, old.gradient, -size))
    backward = squared_norm(add(move, new.gradient, size))
    return new.log_joint - old.log_joint + (forward - backward) / (4 * size)
