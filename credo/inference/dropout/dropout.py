"""Monte-Carlo dropout: Bernoulli dropout at training *and* prediction, read as a posterior.

Training minimises, with fresh masks z for every row,

    −(1/N) [ (N/B) Σ_j log p(y_j | x_j, W ∘ z_j / (1 − p)) − Σ_l ‖W_l‖² / (2 s² (1 − p_l)) ],

where p_l is the drop probability at the input of layer l. The second term is the KL divergence of
the dropout posterior to N(0, s²) up to a constant: with inverted dropout the stored weight is
W = (1 − p) M, which turns (1 − p) ‖M‖² / 2s² into ‖W‖² / (2 s² (1 − p)).

Reference: Gal & Ghahramani, Dropout as a Bayesian Approximation, ICML 2016.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from credo.engine import Info
from credo.fields import between, check_fields
from credo.inference.dropout import unit_noise
from credo.inference.method import DescentMethod
from credo.model import Batch, Target
from credo.networks import Params
from credo.networks.noise import bernoulli
from credo.posterior import NoisyNetwork, Posterior
from credo.struct import is_off


@dataclass(frozen=True)
class Dropout(DescentMethod):
    """Monte-Carlo dropout with Bernoulli masks.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(16,)))
        >>> posterior = credo.fit(model, data.train, credo.Dropout(rate=0.1, num_steps=200))
    """

    rate: float = 0.2
    """Drop probability of hidden units."""
    input_rate: float = 0.0
    """Drop probability of the inputs."""
    where: unit_noise.Where = "all"
    """After every layer, or only after inner-product layers (dense)."""
    channelwise: bool = False
    """Drop whole channels of a convolution instead of single units."""

    def __post_init__(self) -> None:
        super().__post_init__()
        below_one = between(0, 1, high_included=False)
        check_fields(self, rate=below_one, input_rate=below_one)

    def loss(
        self, key: Array, target: Target, learned: Params, batch: Batch, progress: Array
    ) -> tuple[Array, Info]:
        rates = self._rates(target, learned)
        draw = {site: lambda k, s, p=p: bernoulli(k, p, s) for site, p in rates.items()}
        noise = unit_noise.row_noise(key, draw, self.channelwise)
        second_moment = {site: 1.0 / (1.0 - rate) for site, rate in rates.items()}
        penalty = unit_noise.penalty(target, learned, second_moment)
        return target.training_loss(learned, batch, noise, penalty)

    def posterior_of(self, target: Target, learned: Params) -> Posterior:
        rates = {site: jnp.asarray(rate) for site, rate in self._rates(target, learned).items()}
        noisy = NoisyNetwork(target.model, learned, rates, "bernoulli", self.channelwise)
        return noisy if rates else noisy.weight_scaled()

    def _rates(self, target: Target, params: Params) -> dict[str, Any]:
        """The drop probability at every site that has one."""
        sites = unit_noise.noise_sites(target, params, self.where, not is_off(self.input_rate))
        first = unit_noise.input_site(target)
        own = getattr(target.model.network, "own_rates", {})
        rates = {s: own.get(s.partition(".")[0], self.rate) for s in sites}
        rates |= {first: self.input_rate} if first in sites else {}
        return {site: rate for site, rate in rates.items() if not is_off(rate)}
