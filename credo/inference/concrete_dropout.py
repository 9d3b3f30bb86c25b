"""Concrete dropout: the drop probability of every site is learnt with the weights.

    −ELBO/N = −(1/B) Σ_j log p(y_j | x_j, W ∘ z̃_j / (1 − p))
              + (1/N) Σ_l [ ‖W_l‖² / (2 s² (1 − p_l)) − D_l H(p_l) ],

with z̃ the concrete relaxation of the mask (temperature t), D_l the number of units (or channels)
at site l, and H(p) = −p log p − (1 − p) log(1 − p). The entropy pushes p towards ½, the data pull
it down: more data, less noise. A temperature T divides all but the entropy. Prediction uses hard
Bernoulli masks with the learnt p.

Reference: Gal, Hron & Kendall, Concrete Dropout, NeurIPS 2017.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.inference import optimize, unit_noise
from credo.inference.method import POSITIVE, Info, Plan, check_fields
from credo.inference.optimize import Descent, Optimizer, Schedule
from credo.model import Batch, Target
from credo.networks import Params
from credo.networks.noise import concrete
from credo.posterior import NoisyNetwork, Posterior
from credo.posterior.noisy import multiplier_shape


class Learnt(NamedTuple):
    """Weights, and the logit of the drop probability at every site, divided by `rate_speed`."""

    params: Params
    slow_logits: dict[str, Array]


@dataclass(frozen=True)
class ConcreteDropout:
    """Dropout whose rates are learnt, one per site.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.Model(credo.networks.MLP(hidden=(16,)), credo.Categorical(3))
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
        check_fields(
            self, initial_rate=(0.0, 1.0 - 1e-6), temperature=POSITIVE, rate_speed=POSITIVE
        )

    def plan(self, num_data: int) -> Plan:
        return optimize.plan_descent(self, num_data)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> Descent:
        logit = jnp.log(self.initial_rate) - jnp.log1p(-self.initial_rate)
        sites = self._sites(target, params)
        learnt = Learnt(params, {site: logit / self.rate_speed for site in sites})
        return optimize.start(self, target.num_data, learnt)

    def step(
        self, key: Array, target: Target, state: Descent, batch: Batch
    ) -> tuple[Descent, Info]:
        units = self._sites(target, state.params.params)

        def objective(learnt: Learnt) -> tuple[Array, Info]:
            logits = self._logits(learnt)
            draw = {
                site: lambda k, s, a=logit: concrete(k, a, self.temperature, s)
                for site, logit in logits.items()
            }
            noise = unit_noise.row_noise(key, draw, self.channelwise)
            log_likelihood = target.training_likelihood(learnt.params, batch, noise)
            log_joint = log_likelihood + self._penalty(target, learnt)
            elbo = log_joint / target.temperature + self._entropy(learnt, units)
            info = {"nll": -log_likelihood / target.num_data}
            info |= {f"rate_{site}": jax.nn.sigmoid(logit) for site, logit in logits.items()}
            return -elbo / target.num_data, info

        return optimize.descend_on(self, target.num_data, state, objective)

    def keep(self, state: Descent) -> None:
        return None

    def posterior(self, target: Target, states: list[Descent], kept: None) -> Posterior:
        learnt = states[0].params
        rates = self._rates(learnt)
        noisy = NoisyNetwork(target.model, learnt.params, rates, "bernoulli", self.channelwise)
        return noisy if rates else noisy.weight_scaled()

    def remedy(self) -> str:
        return optimize.remedy(self)

    def _penalty(self, target: Target, learnt: Learnt) -> Array:
        """−Σ_l ‖W_l‖² / (2 s² (1 − p_l)), and the log prior of the other parameters."""
        second_moment = {site: 1.0 / (1.0 - rate) for site, rate in self._rates(learnt).items()}
        scales = unit_noise.penalty_scales(target, learnt.params, second_moment)
        # The scales shrink with p, but the KL has no log-scale term: take out the normalizer.
        constant = target.log_prior(jax.tree.map(jnp.zeros_like, learnt.params), scales)
        return target.log_prior(learnt.params, scales) - constant

    def _entropy(self, learnt: Learnt, units: dict[str, int]) -> Array:
        """Σ_l D_l H(p_l)."""
        rates = self._rates(learnt)
        return sum((units[site] * bernoulli_entropy(p) for site, p in rates.items()), jnp.zeros(()))

    def _sites(self, target: Target, params: Params) -> dict[str, int]:
        """How many multipliers each learnt site draws for a row."""
        sites = unit_noise.noise_sites(target, params, self.where, self.input_noise)
        shapes = {s: multiplier_shape(shape, self.channelwise) for s, shape in sites.items()}
        return {site: math.prod(shape) for site, shape in shapes.items()}

    def _logits(self, learnt: Learnt) -> dict[str, Array]:
        # Adam moves every number by about the learning rate; scaling makes these move faster.
        return {site: self.rate_speed * slow for site, slow in learnt.slow_logits.items()}

    def _rates(self, learnt: Learnt) -> dict[str, Array]:
        return {site: jax.nn.sigmoid(logit) for site, logit in self._logits(learnt).items()}


def bernoulli_entropy(p: Array) -> Array:
    """H(p) in nats."""
    return -(p * jnp.log(p) + (1 - p) * jnp.log1p(-p))
