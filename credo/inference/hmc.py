"""Hamiltonian Monte Carlo: exact in the limit, at the price of full-data gradients.

With U(θ) = −log p(θ, D) and momenta p ~ N(0, I), a trajectory of L leapfrog steps

    p ← p − (ε/2) ∇U(θ),   θ ← θ + ε p,   p ← p − (ε/2) ∇U(θ)

is accepted with probability min(1, exp(−ΔH)), H = U + ‖p‖²/2. The step size ε is adapted during
warm-up only, by dual averaging towards a target acceptance.

References: Neal, MCMC Using Hamiltonian Dynamics, 2011; Hoffman & Gelman, The No-U-Turn Sampler,
JMLR 2014 (dual averaging, section 3.2).
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.inference.convergence import function_space_warnings
from credo.inference.method import COUNT, NOT_NEGATIVE, POSITIVE, Info, Plan, check_fields
from credo.model import Batch, Target
from credo.networks import Params
from credo.posterior import Samples

DIVERGENCE = 1000.0  # energy error above which a trajectory has left the level set (Stan's value)


class DualAveraging(NamedTuple):
    """Nesterov's averaging of log ε (Hoffman & Gelman 2014, eq. 6)."""

    step: Array
    log_step: Array
    log_average: Array
    shortfall: Array


class HMCState(NamedTuple):
    """Position, its log density and gradient (so that none is computed twice), the step size."""

    params: Params
    log_joint: Array
    gradient: Params
    adaptation: DualAveraging


@dataclass(frozen=True)
class HMC:
    """Hamiltonian Monte Carlo with dual-averaging step size and several chains.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.Model(credo.networks.MLP(hidden=(8,)), credo.Categorical(3))
        >>> method = credo.HMC(num_samples=20, num_warmup=20, num_chains=2)
        >>> posterior = credo.fit(model, data.train, method)
    """

    num_samples: int = 100
    """Draws kept per chain."""
    num_warmup: int = 100
    """Trajectories before the first draw, in which the step size is adapted."""
    num_chains: int = 4
    """Independent chains, each from its own initialisation."""
    num_leapfrog: int = 100
    """Leapfrog steps per trajectory."""
    step_size: float = 0.01
    """Step size at the start of the warm-up."""
    target_acceptance: float = 0.8
    """Mean acceptance that the warm-up aims for."""
    jitter: float = 0.2
    """Each trajectory's step size is drawn from ε · U(1 − jitter, 1 + jitter)."""
    thin: int = 1
    """Trajectories per kept draw."""

    def __post_init__(self) -> None:
        check_fields(
            self, num_samples=COUNT, num_chains=COUNT, num_leapfrog=COUNT, step_size=POSITIVE,
            target_acceptance=(0.0, 0.999), thin=COUNT, num_warmup=NOT_NEGATIVE,
            jitter=(NOT_NEGATIVE[0], 0.999),
        )  # fmt: skip

    def plan(self, num_data: int) -> Plan:
        steps = self.num_warmup + self.num_samples * self.thin
        return Plan(steps, self.num_warmup, self.thin, self.num_chains)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> HMCState:
        log_joint, gradient = jax.value_and_grad(target.log_joint)(params, batch)
        log_step = jnp.log(jnp.asarray(self.step_size, float))
        start = DualAveraging(jnp.zeros((), int), log_step, log_step, jnp.zeros((), float))
        return HMCState(params, log_joint, gradient, start)

    def step(
        self, key: Array, target: Target, state: HMCState, batch: Batch
    ) -> tuple[HMCState, Info]:
        momentum_key, jitter_key, accept_key = jax.random.split(key, 3)
        adapting = state.adaptation.step < self.num_warmup
        log_step = jnp.where(adapting, state.adaptation.log_step, state.adaptation.log_average)
        spread = jax.random.uniform(jitter_key, minval=1 - self.jitter, maxval=1 + self.jitter)
        step_size = jnp.exp(log_step) * spread
        momentum = normal_like(momentum_key, state.params)
        density = jax.value_and_grad(lambda params: target.log_joint(params, batch))
        start = Phase(state.params, momentum, state.log_joint, state.gradient)
        end = leapfrog(density, start, step_size, self.num_leapfrog)
        energy_error = hamiltonian(end) - hamiltonian(start)
        energy_error = jnp.where(jnp.isnan(energy_error), jnp.inf, energy_error)  # NaN must reject
        acceptance = jnp.minimum(1.0, jnp.exp(-energy_error))
        accepted = jax.random.uniform(accept_key) < acceptance
        moved = where(accepted, end, start)
        adapted = dual_averaging(
            state.adaptation, acceptance, self.step_size, self.target_acceptance
        )
        adaptation = where(adapting, adapted, state.adaptation)
        state = HMCState(moved.position, moved.log_density, moved.gradient, adaptation)
        return state, {
            "acceptance": acceptance,
            "energy_error": energy_error,
            "divergent": energy_error > DIVERGENCE,
            "step_size": step_size,
            "log_joint": state.log_joint,
        }

    def keep(self, state: HMCState) -> Params:
        return state.params

    def posterior(self, target: Target, states: list[HMCState], kept: Params) -> Samples:
        return Samples(target.model, kept)

    def remedy(self) -> str:
        return f"lower step_size (got {self.step_size:g})"

    def warnings(
        self, target: Target, posterior: Samples, batch: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        sampling = {name: values[:, self.num_warmup :] for name, values in info.items()}
        found = []
        diverged = int(sampling["divergent"].sum())
        if diverged:
            total = sampling["divergent"].size
            found.append(
                f"hmc: {diverged} of {total} trajectories diverged; "
                f"raise target_acceptance (got {self.target_acceptance}) or num_warmup"
            )
        for chain, acceptance in enumerate(sampling["acceptance"].mean(axis=1)):
            if not 0.2 < acceptance < 0.999:
                found.append(
                    f"hmc: chain {chain} accepted {acceptance:.1%} of its trajectories; "
                    f"raise num_warmup (got {self.num_warmup}) so that the step size can adapt"
                )
        return found + function_space_warnings("hmc", posterior, batch.x)


class Phase(NamedTuple):
    """A point of phase space, with the log density and its gradient there."""

    position: Params
    momentum: Params
    log_density: Array
    gradient: Params


def leapfrog(density, start: Phase, step_size: Array, num_steps: int) -> Phase:
    """`num_steps` leapfrog steps, with one gradient each: a step's last is the next one's first."""
    add = lambda a, b, size: jax.tree.map(lambda x, y: x + size * y, a, b)  # noqa: E731

    def one(_, phase: Phase) -> Phase:
        momentum = add(phase.momentum, phase.gradient, 0.5 * step_size)
        position = add(phase.position, momentum, step_size)
        log_density, gradient = density(position)
        return Phase(position, add(momentum, gradient, 0.5 * step_size), log_density, gradient)

    return jax.lax.fori_loop(0, num_steps, one, start)


def hamiltonian(phase: Phase) -> Array:
    """H = ‖p‖²/2 − log density."""
    kinetic = sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(phase.momentum))
    return 0.5 * kinetic - phase.log_density


def normal_like(key: Array, params: Params) -> Params:
    """Standard normal numbers shaped like `params`."""
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    drawn = [jax.random.normal(k, a.shape, a.dtype) for k, a in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, drawn)


def dual_averaging(
    state: DualAveraging, acceptance: Array, first: float, target: float
) -> DualAveraging:
    """One update with the constants of Hoffman & Gelman: γ = 0.05, t₀ = 10, κ = 0.75."""
    count = state.step + 1
    rate = 1.0 / (count + 10.0)
    shortfall = (1 - rate) * state.shortfall + rate * (target - acceptance)
    log_step = jnp.log(10 * first) - jnp.sqrt(count) / 0.05 * shortfall
    weight = count**-0.75
    average = weight * log_step + (1 - weight) * state.log_average
    return DualAveraging(count, log_step, average, shortfall)


def where(condition: Array, new, old):
    """Leaf-wise choice between two pytrees."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)
