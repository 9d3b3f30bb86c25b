"""The No-U-Turn sampler: HMC that finds out for itself how long a trajectory should be.

A trajectory doubles, forwards or backwards in time, until it turns back on itself; the next draw is
one of its points, chosen by its weight exp(−H). Step size and scales are adapted during the warm-up
by all chains together. The kernel is BlackJAX's.

References: Hoffman & Gelman, The No-U-Turn Sampler, JMLR 2014; Betancourt, A Conceptual
Introduction to Hamiltonian Monte Carlo, 2017 (multinomial choice); Cabezas et al., BlackJAX, 2024.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from credo.engine import Info, Plan
from credo.fields import at_least, between
from credo.inference.density import drawn, near_mode
from credo.inference.method import Method
from credo.inference.sampling import adaptation
from credo.inference.sampling.adaptation import Mass, Warmup
from credo.inference.sampling.chains import check_chains, plan_chains
from credo.inference.sampling.convergence import sampler_warnings
from credo.model import Batch, Target
from credo.networks import Params


class NUTSState(NamedTuple):
    """Position, its log density and gradient, the adaptation."""

    params: Params
    log_joint: Array
    gradient: Params
    warmup: Warmup


@dataclass(frozen=True)
class NUTS(Method):
    """HMC with trajectories that end when they turn back.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=()))
        >>> posterior = credo.fit(model, data.train, credo.NUTS(num_samples=50, num_warmup=50))
    """

    num_samples: int = 100
    """Draws kept per chain."""
    num_warmup: int = 100
    """Trajectories before the first draw, in which step size and scales are adapted."""
    num_chains: int = 4
    """Independent chains, each from its own initialisation."""
    max_doublings: int = 10
    """A trajectory has at most 2 to this power leapfrog steps."""
    mass: Mass | None = None
    """Scales of the posterior that the warm-up learns: unit (none), diagonal (one per parameter) or
    dense (a matrix). By default one each; for densities up to 100 dimensions a matrix."""
    step_size: float = 0.01
    """Step size at the start of the warm-up."""
    target_acceptance: float = 0.8
    """Mean acceptance that the warm-up aims for."""
    thin: int = 1
    """Trajectories per kept draw."""
    climb_steps: int = 1000
    """Steps of Adam towards the mode before a network's chain starts."""

    def __post_init__(self) -> None:
        check_chains(self, max_doublings=between(1, 20), climb_steps=at_least(0))

    def for_density(self, num_dimensions: int) -> "NUTS":
        mass = self.mass or adaptation.default_mass(num_dimensions, self.num_warmup)
        return replace(self, mass=mass)

    def plan(self, num_rows: int) -> Plan:
        sync_steps = adaptation.sync_steps(self.num_warmup, self._mass)
        return plan_chains(self, sync_steps=sync_steps)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> NUTSState:
        params = near_mode(target, params, batch, self.climb_steps)
        log_joint, gradient = jax.value_and_grad(target.log_joint)(params, batch)
        warmup = adaptation.start(params, self.step_size, self._mass)
        return NUTSState(params, log_joint, gradient, warmup)

    def synchronize(self, states: NUTSState) -> NUTSState:
        return adaptation.synchronize(states, self.num_warmup)

    def step(
        self, key: Array, target: Target, state: NUTSState, batch: Batch
    ) -> tuple[NUTSState, Info]:
        from blackjax.mcmc import hmc, nuts  # here, so that `import credo` does not wait for it

        step_size = adaptation.current_step_size(state.warmup, self.num_warmup)
        start = hmc.HMCState(state.params, state.log_joint, state.gradient)
        end, info = nuts.build_kernel()(
            key, start, lambda params: target.log_joint(params, batch), step_size,
            self._variances(state), self.max_doublings,
        )  # fmt: skip
        acceptance = jnp.where(jnp.isnan(info.acceptance_rate), 0.0, info.acceptance_rate)
        warmup = adaptation.advance(
            state.warmup, end.position, acceptance, self.target_acceptance, self.num_warmup
        )
        state = NUTSState(end.position, end.logdensity, end.logdensity_grad, warmup)
        return state, {
            "acceptance": acceptance,
            "energy": info.energy,
            "divergent": info.is_divergent,
            "num_leapfrog": info.num_integration_steps,
            "step_size": step_size,
            "log_joint": end.logdensity,
        }

    def keep(self, state: NUTSState) -> Params:
        return state.params

    def posterior(self, target: Target, states: NUTSState, kept: Params) -> Any:
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
        found = sampler_warnings("nuts", self, target, posterior, data, info)
        longest = 2**self.max_doublings - 1
        share = (info["num_leapfrog"][:, self.num_warmup :] >= longest).mean()
        if share > 0.1:
            found.append(
                f"nuts: {share:.0%} of the trajectories were cut at {longest} leapfrog steps; "
                f"raise max_doublings (got {self.max_doublings}) or num_warmup"
            )
        return found

    @property
    def _mass(self) -> Mass:
        return self.mass or "diagonal"

    def _variances(self, state: NUTSState) -> Array:
        """What BlackJAX calls the inverse mass matrix: a vector, or a matrix."""
        scales = state.warmup.scales
        if scales is None:
            return jnp.ones_like(ravel_pytree(state.params)[0])
        if adaptation.is_dense(scales):
            return scales @ scales.T
        return jnp.square(ravel_pytree(scales)[0])
