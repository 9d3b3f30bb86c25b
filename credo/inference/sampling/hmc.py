"""Hamiltonian Monte Carlo: exact in the limit, at the price of full-data gradients.

With U(θ) = −log p(θ, D), scales Σ = L Lᵀ and momenta p ~ N(0, I), a trajectory of leapfrog steps

    p ← p − (ε/2) Lᵀ ∇U(θ),   θ ← θ + ε L p,   p ← p − (ε/2) Lᵀ ∇U(θ)

is accepted with probability min(1, exp(−ΔH)), H = U + ‖p‖²/2. This is HMC with mass matrix Σ⁻¹.
The step size ε, and L if asked for, are adapted during warm-up only, by all chains together.

References: Neal, MCMC Using Hamiltonian Dynamics, 2011; Hoffman & Gelman, The No-U-Turn Sampler,
JMLR 2014 (dual averaging, section 3.2).
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.engine import Info, Plan
from credo.fields import COUNT, POSITIVE, at_least, between
from credo.inference.density import drawn, near_mode
from credo.inference.method import Method
from credo.inference.sampling import adaptation
from credo.inference.sampling.adaptation import Mass, Warmup
from credo.inference.sampling.chains import check_chains, plan_chains
from credo.inference.sampling.convergence import sampler_warnings
from credo.inference.sampling.trees import add, normal_like, squared_norm, where
from credo.model import Batch, Target
from credo.networks import Params

NUM_LEAPFROG = 100
WHITENED = 2.0  # length of a trajectory where scales fit: a little over the quarter period π/2
LONGEST = 1000  # leapfrog steps of a trajectory whose length is fixed
DIVERGENCE = 1000.0  # energy error above which a trajectory has left the level set (Stan's value)


class HMCState(NamedTuple):
    """Position, its log density and gradient (so that none is computed twice), the adaptation."""

    params: Params
    log_joint: Array
    gradient: Params
    warmup: Warmup


@dataclass(frozen=True)
class HMC(Method):
    """Hamiltonian Monte Carlo whose chains share step size and scales during the warm-up.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(8,)))
        >>> method = credo.HMC(num_samples=20, num_warmup=20, num_chains=2)
        >>> posterior = credo.fit(model, data.train, method)
    """

    num_samples: int = 100
    """Draws kept per chain."""
    num_warmup: int = 100
    """Trajectories before the first draw, in which the step size is adapted."""
    num_chains: int = 4
    """Independent chains, each from its own initialisation."""
    num_leapfrog: int | None = None
    """Leapfrog steps per trajectory; by default 100."""
    trajectory: float | None = None
    """Length ε L of a trajectory; where given, replaces num_leapfrog. By default 2 for densities
    with dense scales."""
    mass: Mass | None = None
    """Scales of the posterior that the warm-up learns: unit (none), diagonal (one per parameter) or
    dense (a matrix). By default none for networks; for densities a matrix up to 100 dimensions, and
    one each above."""
    step_size: float = 0.01
    """Step size at the start of the warm-up."""
    target_acceptance: float = 0.8
    """Mean acceptance that the warm-up aims for."""
    jitter: float = 0.2
    """Each trajectory's step size is drawn from ε · U(1 − jitter, 1 + jitter)."""
    thin: int = 1
    """Trajectories per kept draw."""
    climb_steps: int = 1000
    """Steps of Adam towards the mode before a network's chain starts."""

    def __post_init__(self) -> None:
        check_chains(
            self, num_leapfrog=COUNT, trajectory=POSITIVE, climb_steps=at_least(0),
            jitter=between(0, 1, high_included=False),
        )  # fmt: skip

    def for_density(self, num_dimensions: int) -> "HMC":
        mass = self.mass or adaptation.default_mass(num_dimensions, self.num_warmup)
        is_open = self.mass is None and self.num_leapfrog is None and self.trajectory is None
        trajectory = WHITENED if is_open and mass == "dense" else self.trajectory
        return replace(self, mass=mass, trajectory=trajectory)

    def plan(self, num_rows: int) -> Plan:
        sync_steps = adaptation.sync_steps(self.num_warmup, self._mass)
        return plan_chains(self, sync_steps=sync_steps)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> HMCState:
        params = near_mode(target, params, batch, self.climb_steps)
        log_joint, gradient = jax.value_and_grad(target.log_joint)(params, batch)
        warmup = adaptation.start(params, self.step_size, self._mass)
        return HMCState(params, log_joint, gradient, warmup)

    def synchronize(self, states: HMCState) -> HMCState:
        return adaptation.synchronize(states, self.num_warmup)

    def step(
        self, key: Array, target: Target, state: HMCState, batch: Batch
    ) -> tuple[HMCState, Info]:
        momentum_key, jitter_key, accept_key = jax.random.split(key, 3)
        usual_size = adaptation.current_step_size(state.warmup, self.num_warmup)
        spread = jax.random.uniform(jitter_key, minval=1 - self.jitter, maxval=1 + self.jitter)
        step_size = usual_size * spread
        count: Any = self.num_leapfrog or NUM_LEAPFROG
        if self.trajectory is not None:
            count = jnp.clip(jnp.round(self.trajectory / usual_size), 1, LONGEST).astype(int)
        momentum = normal_like(momentum_key, state.params)
        density = jax.value_and_grad(lambda params: target.log_joint(params, batch))
        start = Phase(state.params, momentum, state.log_joint, state.gradient)
        end = leapfrog(density, start, step_size, count, state.warmup.scales)
        energy_error = hamiltonian(end) - hamiltonian(start)
        energy_error = jnp.where(jnp.isnan(energy_error), jnp.inf, energy_error)  # NaN must reject
        acceptance = jnp.minimum(1.0, jnp.exp(-energy_error))
        accepted = jax.random.uniform(accept_key) < acceptance
        moved = where(accepted, end, start)
        warmup = adaptation.advance(
            state.warmup, moved.position, acceptance, self.target_acceptance, self.num_warmup
        )
        state = HMCState(moved.position, moved.log_density, moved.gradient, warmup)
        info = {
            "acceptance": acceptance,
            "energy": hamiltonian(moved),
            "energy_error": energy_error,
            "divergent": energy_error > DIVERGENCE,
            "step_size": step_size,
            "log_joint": state.log_joint,
        }
        return state, info if self.trajectory is None else {**info, "num_leapfrog": count}

    def keep(self, state: HMCState) -> Params:
        return state.params

    def posterior(self, target: Target, states: HMCState, kept: Params) -> Any:
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
        found = sampler_warnings("hmc", self, target, posterior, data, info)
        if self.trajectory is not None and self._cut(info):
            found.append(
                f"hmc: trajectories were cut at {LONGEST} leapfrog steps, short of the length "
                f"{self.trajectory:g}; lower trajectory, set mass='diagonal' (got {self._mass!r}) "
                f"or raise num_warmup (got {self.num_warmup})"
            )
        return found

    @property
    def _mass(self) -> Mass:
        return self.mass or "unit"

    def _cut(self, info: dict[str, np.ndarray]) -> bool:
        return bool(np.any(info["num_leapfrog"][:, self.num_warmup :] >= LONGEST))


class Phase(NamedTuple):
    """A point of phase space, with the log density and its gradient there."""

    position: Params
    momentum: Params
    log_density: Array
    gradient: Params


def leapfrog(
    density, start: Phase, step_size: float | Array, num_steps: int | Array, scales: Any = None
) -> Phase:
    """`num_steps` leapfrog steps, with one gradient each: a step's last is the next one's first."""
    kick = lambda p, gradient: add(p, adaptation.pull(scales, gradient), 0.5 * step_size)  # noqa: E731

    def one(_, phase: Phase) -> Phase:
        momentum = kick(phase.momentum, phase.gradient)
        position = add(phase.position, adaptation.push(scales, momentum), step_size)
        log_density, gradient = density(position)
        return Phase(position, kick(momentum, gradient), log_density, gradient)

    return jax.lax.fori_loop(0, num_steps, one, start)


def hamiltonian(phase: Phase) -> Array:
    """H = ‖p‖²/2 − log density."""
    return 0.5 * squared_norm(phase.momentum) - phase.log_density
