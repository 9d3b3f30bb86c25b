"""Stochastic gradient Langevin dynamics: SGD with the noise that makes it a sampler.

With L = −log p(θ, D) / N estimated from a minibatch, learning rate η and preconditioner G:

    θ ← θ − η [ G ∇L(θ) − Γ(θ) / N ] + √(2η/N) G^½ ξ,     Γ_i = Σ_j ∂G_ij / ∂θ_j

which in the usual notation is a step ε = 2η/N on the summed loss (Welling & Teh 2011). The chain
samples the posterior in the limit of small steps; at a constant step it samples near it. With a
decreasing step, draws are weighted by their step sizes.

References: Welling & Teh, Bayesian Learning via Stochastic Gradient Langevin Dynamics, ICML 2011;
Li et al., Preconditioned SGLD, AAAI 2016; Zhang et al., Cyclical Stochastic Gradient MCMC, ICLR
2020.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.engine import Info, Plan
from credo.errors import CredoError
from credo.fields import COUNT, POSITIVE, at_least, between
from credo.inference.density import drawn
from credo.inference.method import Method
from credo.inference.sampling.chains import check_chains, plan_chains
from credo.inference.sampling.convergence import chain_warnings
from credo.inference.sampling.trees import normal_like
from credo.model import Batch, Target
from credo.networks import Params

StepSchedule = Literal["constant", "polynomial", "cyclical"]


class SGLDState(NamedTuple):
    """Position, the running square of its gradient (None without preconditioner), the step."""

    params: Params
    square: Any
    num_steps: Array


class Weighted(NamedTuple):
    """A draw and its weight."""

    params: Params
    weight: Array


@dataclass(frozen=True)
class SGLD(Method):
    """Langevin dynamics with minibatches; constant, decreasing or cyclical steps.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(8,)))
        >>> posterior = credo.fit(model, data.train, credo.SGLD(num_samples=20, num_warmup=500))
    """

    learning_rate: float | None = None
    """Step size η on the mean loss (the first of a decreasing schedule, the highest of a cycle).
    By default 0.2 for classes, 0.05 for quantities (times σ² where a noise σ below 1 is known) and
    bare densities."""
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
    schedule: StepSchedule = "constant"
    """constant; polynomial: η (1 + t/delay)^−power; cyclical: num_cycles cosines to zero."""
    delay: float = 1000.0
    """Steps before a polynomial schedule falls."""
    power: float = 0.55
    """Power of the polynomial schedule, above 1/2 and at most 1."""
    num_cycles: int = 4
    """Cycles of the cyclical schedule, over all steps."""
    exploration: float = 0.5
    """Share of a cycle in which nothing is kept and no noise is added."""
    preconditioner: Literal["none", "rmsprop"] = "none"
    """none, or G = 1 / (damping + √v) with v the running mean of the squared gradient."""
    decay: float = 0.99
    """How slowly v forgets."""
    damping: float = 1e-2
    """Added to √v."""
    correction: bool = True
    """Include Γ, from one Hessian–vector product a step; without it the chain is biased."""
    noise: float = 1.0
    """Multiplies the noise: 1 samples the posterior, 0 is SGD."""

    def __post_init__(self) -> None:
        check_chains(
            self, learning_rate=POSITIVE, batch_size=COUNT, delay=POSITIVE,
            power=between(0.5, 1, low_included=False),
            num_cycles=COUNT, exploration=between(0, 1, high_included=False), damping=POSITIVE,
            decay=between(0, 1, high_included=False), noise=at_least(0),
        )  # fmt: skip
        if self.schedule == "cyclical":
            self._check_cycles()

    def plan(self, num_rows: int) -> Plan:
        return plan_chains(self, batch_size=self.batch_size)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> SGLDState:
        square = None
        if self.preconditioner == "rmsprop":
            square = jax.tree.map(jnp.square, jax.grad(mean_loss(target, batch))(params))
        return SGLDState(params, square, jnp.zeros((), int))

    def step(
        self, key: Array, target: Target, state: SGLDState, batch: Batch
    ) -> tuple[SGLDState, Info]:
        noise_key, probe_key = jax.random.split(key)
        share, exploring = self._share(state.num_steps)
        rate = share * step_size(self, target, 0.2, 0.05)
        spread = jnp.where(exploring, 0.0, self.noise * jnp.sqrt(2 * rate / target.num_data))
        loss = mean_loss(target, batch)
        value, gradient = jax.value_and_grad(loss)(state.params)
        info = {"loss": value, "step_size": rate}
        if self.schedule == "cyclical":
            info["exploring"] = exploring
        noise = normal_like(noise_key, state.params)
        if state.square is None:
            params = jax.tree.map(
                lambda p, g, xi: p - rate * g + spread * xi, state.params, gradient, noise
            )
            return SGLDState(params, None, state.num_steps + 1), info
        square = jax.tree.map(
            lambda v, g: self.decay * v + (1 - self.decay) * g**2, state.square, gradient
        )
        scale = jax.tree.map(lambda v: 1 / (self.damping + jnp.sqrt(v)), square)
        drift = jax.tree.map(jnp.multiply, scale, gradient)
        if self.correction:
            curvature = hessian_diagonal(probe_key, loss, state.params)
            divergence = jax.tree.map(self._divergence, scale, square, gradient, curvature)
            drift = jax.tree.map(lambda d, c: d - c / target.num_data, drift, divergence)
        params = jax.tree.map(
            lambda p, d, g, xi: p - rate * d + spread * jnp.sqrt(g) * xi,
            state.params, drift, scale, noise,
        )  # fmt: skip
        return SGLDState(params, square, state.num_steps + 1), info

    def keep(self, state: SGLDState) -> Weighted:
        # The count is already that of the next step.
        share, exploring = self._share(state.num_steps - 1)
        return Weighted(state.params, jnp.where(exploring, 0.0, share))

    def posterior(self, target: Target, states: SGLDState, kept: Weighted) -> Any:
        if self.schedule == "constant":
            return drawn(target, kept.params)
        # All chains have one schedule, so exploration leaves out the same draws of each.
        chosen = np.flatnonzero(np.asarray(kept.weight[0]) > 0)
        draws, weights = jax.tree.map(lambda leaf: leaf[:, chosen], kept)
        return drawn(target, draws, weights)

    @property
    def gives_draws(self) -> bool:
        return True

    def divergence_hint(self) -> str:
        return rate_hint(self.learning_rate)

    def warnings(
        self, target: Target, posterior: Any, data: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        return chain_warnings("sgld", target, posterior, data)

    def _share(self, index: Array) -> tuple[Array, Array]:
        """A step's share of the highest step size, and whether the step only explores."""
        never = jnp.zeros((), bool)
        if self.schedule == "constant":
            return jnp.ones((), float), never
        if self.schedule == "polynomial":
            return (1 + index / self.delay) ** -self.power, never
        # Cycles tile the whole run, the warm-up included.
        length = self.plan(1).num_steps / self.num_cycles
        share = (index / length) % 1.0
        return jnp.square(jnp.cos(0.5 * jnp.pi * share)), share < self.exploration

    def _check_cycles(self) -> None:
        """Raise where no draw would be kept, before the run."""
        ends = self.num_warmup + self.thin * np.arange(1, self.num_samples + 1) - 1
        length = self.plan(1).num_steps / self.num_cycles
        if np.all((ends / length) % 1.0 < self.exploration):
            raise CredoError(
                f"SGLD: all {self.num_samples} draws fall into the exploration of their cycles, so "
                f"none would be kept; lower exploration (got {self.exploration:g}), thin (got "
                f"{self.thin}) or num_cycles (got {self.num_cycles}), or raise num_samples"
            )

    def _divergence(self, scale: Array, square: Array, gradient: Array, curvature: Array) -> Array:
        """∂G/∂θ = −G² / (2√v) · 2 (1 − decay) g h, with h the second derivative of the loss."""
        root = jnp.sqrt(square + jnp.finfo(square.dtype).tiny)
        return -jnp.square(scale) / root * (1 - self.decay) * gradient * curvature


def step_size(method: Any, target: Any, classes: float, others: float) -> Any:
    """The method's learning rate, or one that suits the likelihood."""
    if method.learning_rate is not None:
        return method.learning_rate
    return target.default_rate(classes, others)


def rate_hint(rate: float | None) -> str:
    got = "" if rate is None else f" (got {rate:g})"
    return f"lower learning_rate{got} or standardize the inputs"


def mean_loss(target: Target, batch: Batch):
    """θ → −log p(θ, D) / N, estimated from the batch."""
    return lambda params: -target.log_joint(params, batch) / target.num_data


def hessian_diagonal(key: Array, loss: Any, params: Params) -> Params:
    """An unbiased estimate of the Hessian's diagonal: s ∘ (H s) with random signs s."""
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    signs = [jax.random.rademacher(k, a.shape, a.dtype) for k, a in zip(keys, leaves, strict=True)]
    probe = jax.tree.unflatten(structure, signs)
    product = jax.jvp(jax.grad(loss), (params,), (probe,))[1]
    return jax.tree.map(jnp.multiply, probe, product)
