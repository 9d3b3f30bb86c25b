"""Concrete dropout: the drop probability of every site is learned with the weights.

    −ELBO/N = −(1/B) Σ_j log p(y_j | x_j, W ∘ z̃_j / (1 − p))
              + (1/N) Σ_l [ ‖W_l‖² / (2 s² (1 − p_l)) − D_l H(p_l) ],

with z̃ the concrete relaxation of the mask (temperature t), D_l the number of units (or channels)
at site l, and H(p) = −p log p − (1 − p) log(1 − p). The entropy pushes p towards ½, the data pull
it down: more data, less noise. A temperature T divides all but the entropy. Prediction uses hard
Bernoulli masks with the learned p.

Reference: Gal, Hron & Kendall, Concrete Dropout, NeurIPS 2017.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.engine import Info
from credo.fields import POSITIVE, between, check_fields
from credo.inference.dropout import unit_noise
from credo.inference.method import DescentMethod
from credo.model import Batch, Target
from credo.networks import Params
from credo.networks.noise import concrete
from credo.posterior import NoisyNetwork, Posterior
from credo.posterior.noisy import multiplier_shape


class WeightsAndRates(NamedTuple):
    """Weights, and the logit of the drop probability at every site."""

    params: Params
    logits: dict[str, Array]


@dataclass(frozen=True)
class ConcreteDropout(DescentMethod):
    """Dropout whose rates are learned, one per site.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(16,)))
        >>> posterior = credo.fit(model, data.train, credo.ConcreteDropout(num_steps=200))
        >>> sorted(posterior.rates)
        ['dense1']
    """

    initial_rate: float = 0.1
    """Drop probability at the start."""
    temperature: float = 0.1
    """Temperature t of the relaxation."""
    input_noise: bool = False
    """Learn a rate for the inputs too."""
    where: unit_noise.Where = "all"
    """After every layer, or only after inner-product layers (dense)."""
    channelwise: bool = True
    """Drop whole channels of a convolution (spatial concrete dropout)."""
    rate_speed: float = 10.0
    """Learning rate of the logits, relative to that of the weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        inside = between(0, 1, low_included=False, high_included=False)
        check_fields(self, initial_rate=inside, temperature=POSITIVE, rate_speed=POSITIVE)

    def start(self, key: Array, target: Target, params: Params) -> WeightsAndRates:
        logit = jnp.log(self.initial_rate) - jnp.log1p(-self.initial_rate)
        return WeightsAndRates(params, dict.fromkeys(self._sites(target, params), logit))

    def groups(self, learned: WeightsAndRates) -> tuple[Any, dict[str, Any]]:
        of_logits: dict[str, Any] = dict.fromkeys(learned.logits, "rates")
        return WeightsAndRates("weights", of_logits), {"weights": 1.0, "rates": self.rate_speed}

    def loss(
        self, key: Array, target: Target, learned: WeightsAndRates, batch: Batch, progress: Array
    ) -> tuple[Array, Info]:
        rates = self._rates(learned)
        draw = {
            site: lambda k, s, a=logit: concrete(k, a, self.temperature, s)
            for site, logit in learned.logits.items()
        }
        noise = unit_noise.row_noise(key, draw, self.channelwise)
        second_moment = {site: 1.0 / (1.0 - rate) for site, rate in rates.items()}
        penalty = unit_noise.penalty(target, learned.params, second_moment)
        loss, info = target.training_loss(learned.params, batch, noise, penalty)
        units = self._sites(target, learned.params)
        entropy = sum(
            (units[site] * bernoulli_entropy(rate) for site, rate in rates.items()), jnp.zeros(())
        )
        info |= {f"rate_{site}": rate for site, rate in rates.items()}
        return loss - entropy / target.num_data, info

    def point(self, learned: WeightsAndRates) -> Params:
        return learned.params

    def posterior_of(self, target: Target, learned: WeightsAndRates) -> Posterior:
        rates = self._rates(learned)
        noisy = NoisyNetwork(target.model, learned.params, rates, "bernoulli", self.channelwise)
        return noisy if rates else noisy.weight_scaled()

    def _sites(self, target: Target, params: Params) -> dict[str, int]:
        """How many multipliers each site with a rate draws for a row."""
        sites = unit_noise.noise_sites(target, params, self.where, self.input_noise)
        shapes = {s: multiplier_shape(shape, self.channelwise) for s, shape in sites.items()}
        return {site: math.prod(shape) for site, shape in shapes.items()}

    def _rates(self, learned: WeightsAndRates) -> dict[str, Array]:
        return {site: jax.nn.sigmoid(logit) for site, logit in learned.logits.items()}


def bernoulli_entropy(p: Array) -> Array:
    """H(p) in nats."""
    return -(p * jnp.log(p) + (1 - p) * jnp.log1p(-p))
