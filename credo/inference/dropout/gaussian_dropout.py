"""Gaussian dropout: units multiplied by N(1, α) at training and at prediction.

    h ← h ∘ ξ,  ξ ~ N(1, α)

The first two moments are those of Bernoulli dropout with p = α / (1 + α); α = 1 is the N(1, 1)
noise of Srivastava et al. The penalty is the prior's expected one, (1 + α) ‖W‖² / 2s².

Reference: Srivastava et al., Dropout: A Simple Way to Prevent Neural Networks from Overfitting,
JMLR 2014, section 10.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from credo.engine import Info
from credo.fields import at_least, check_fields
from credo.inference.dropout import unit_noise
from credo.inference.method import DescentMethod
from credo.model import Batch, Target
from credo.networks import Params
from credo.networks.noise import gaussian
from credo.posterior import NoisyNetwork, Posterior
from credo.struct import is_off


@dataclass(frozen=True)
class GaussianDropout(DescentMethod):
    """Multiplicative Gaussian noise on the units.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(16,)))
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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, alpha=at_least(0), input_alpha=at_least(0))

    def loss(
        self, key: Array, target: Target, learned: Params, batch: Batch, progress: Array
    ) -> tuple[Array, Info]:
        alphas = self._alphas(target, learned)
        draw = {site: lambda k, s, a=a: gaussian(k, a, s) for site, a in alphas.items()}
        noise = unit_noise.row_noise(key, draw, self.channelwise)
        second_moment = {site: 1.0 + alpha for site, alpha in alphas.items()}
        penalty = unit_noise.penalty(target, learned, second_moment)
        return target.training_loss(learned, batch, noise, penalty)

    def posterior_of(self, target: Target, learned: Params) -> Posterior:
        alphas = {site: jnp.asarray(a) for site, a in self._alphas(target, learned).items()}
        noisy = NoisyNetwork(target.model, learned, alphas, "gaussian", self.channelwise)
        return noisy if alphas else noisy.weight_scaled()

    def _alphas(self, target: Target, params: Params) -> dict[str, Any]:
        sites = unit_noise.noise_sites(target, params, self.where, not is_off(self.input_alpha))
        first = unit_noise.input_site(target)
        alphas = {site: self.input_alpha if site == first else self.alpha for site in sites}
        return {site: alpha for site, alpha in alphas.items() if not is_off(alpha)}
