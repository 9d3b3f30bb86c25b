"""Gaussian dropout: units multiplied by N(1, α) at training and at prediction.

    h ← h ∘ ξ,  ξ ~ N(1, α)

The first two moments are those of Bernoulli dropout with p = α / (1 + α); α = 1 is the N(1, 1)
noise of Srivastava et al. The penalty is the prior's expected one, (1 + α) ‖W‖² / 2s².

Reference: Srivastava et al., Dropout: A Simple Way to Prevent Neural Networks from Overfitting,
JMLR 2014, section 10.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array

from credo.inference import optimize, unit_noise
from credo.inference.method import NOT_NEGATIVE, Info, Plan, check_fields
from credo.inference.optimize import Descent, Optimizer, Schedule
from credo.model import Batch, Target
from credo.networks import Params
from credo.networks.noise import gaussian
from credo.posterior import NoisyNetwork, Posterior


@dataclass(frozen=True)
class GaussianDropout:
    """Multiplicative Gaussian noise on the units.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.Model(credo.networks.MLP(hidden=(16,)), credo.Categorical(3))
        >>> posterior = credo.fit(model, data.train, credo.GaussianDropout(num_steps=200))
    """

    alpha: float = 0.25
    """Variance of the noise at hidden units; 1 is the N(1, 1) of the original proposal."""
    input_alpha: float = 0.0
    """Variance of the noise at the inputs."""
    where: unit_noise.Where = "all"
    """After every layer, or only after inner-product layers (dense)."""
    channelwise: bool = False
    """Share the noise over the height and width of a channel."""
    learning_rate: float = 1e-3
    """Step size of the optimiser."""
    num_steps: int = 4000
    """Gradient steps."""
    num_epochs: float | None = None
    """Passes over the data; where given, replaces num_steps."""
    batch_size: int = 128
    """Rows per step."""
    optimizer: Optimizer = "adam"
    """adam, sgd or momentum."""
    schedule: Schedule = "cosine"
    """How the learning rate changes: constant, or cosine decay to zero."""

    def __post_init__(self) -> None:
        optimize.check_descent(self)
        check_fields(self, alpha=NOT_NEGATIVE, input_alpha=NOT_NEGATIVE)

    def plan(self, num_data: int) -> Plan:
        return optimize.plan_descent(self, num_data)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> Descent:
        return optimize.start(self, target.num_data, params)

    def step(
        self, key: Array, target: Target, state: Descent, batch: Batch
    ) -> tuple[Descent, Info]:
        alphas = self._alphas(target, state.params)
        draw = {site: lambda k, s, a=a: gaussian(k, a, s) for site, a in alphas.items()}
        noise = unit_noise.row_noise(key, draw, self.channelwise)
        second_moment = {site: 1.0 + alpha for site, alpha in alphas.items()}
        scales = unit_noise.penalty_scales(target, state.params, second_moment)
        return optimize.descend(self, target, state, batch, noise, scales)

    def keep(self, state: Descent) -> None:
        return None

    def posterior(self, target: Target, states: list[Descent], kept: None) -> Posterior:
        params = states[0].params
        alphas = {site: jnp.asarray(a) for site, a in self._alphas(target, params).items()}
        noisy = NoisyNetwork(target.model, params, alphas, "gaussian", self.channelwise)
        return noisy if alphas else noisy.weight_scaled()

    def remedy(self) -> str:
        return optimize.remedy(self)

    def _alphas(self, target: Target, params: Params) -> dict[str, float]:
        sites = unit_noise.noise_sites(target, params, self.where, self.input_alpha > 0)
        first = unit_noise.input_site(target)
        alphas = {site: self.input_alpha if site == first else self.alpha for site in sites}
        return {site: alpha for site, alpha in alphas.items() if alpha > 0}
