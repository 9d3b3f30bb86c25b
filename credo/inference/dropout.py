"""Monte-Carlo dropout: Bernoulli dropout at training *and* prediction, read as a posterior.

Training minimises, with fresh masks z for every row,

    −(1/N) [ (N/B) Σ_j log p(y_j | x_j, W ∘ z_j / (1 − p)) − Σ_l ‖W_l‖² / (2 s² (1 − p_l)) ],

where p_l is the drop probability at the input of layer l. The second term is the KL divergence of
the dropout posterior to N(0, s²) up to a constant: with inverted dropout the stored weight is
W = (1 − p) M, which turns (1 − p) ‖M‖² / 2s² into ‖W‖² / (2 s² (1 − p)).

Reference: Gal & Ghahramani, Dropout as a Bayesian Approximation, ICML 2016.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array

from credo.inference import optimize, unit_noise
from credo.inference.method import NOT_NEGATIVE, Info, Plan, check_fields
from credo.inference.optimize import Descent, Optimizer, Schedule
from credo.model import Batch, Target
from credo.networks import Params
from credo.networks.noise import bernoulli
from credo.posterior import NoisyNetwork, Posterior


@dataclass(frozen=True)
class Dropout:
    """Monte-Carlo dropout with Bernoulli masks.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.Model(credo.networks.MLP(hidden=(16,)), credo.Categorical(3))
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
        below_one = (NOT_NEGATIVE[0], 1.0 - 1e-6)
        check_fields(self, rate=below_one, input_rate=below_one)

    def plan(self, num_data: int) -> Plan:
        return optimize.plan_descent(self, num_data)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> Descent:
        return optimize.start(self, target.num_data, params)

    def step(
        self, key: Array, target: Target, state: Descent, batch: Batch
    ) -> tuple[Descent, Info]:
        rates = self._rates(target, state.params)
        draw = {site: lambda k, s, p=p: bernoulli(k, p, s) for site, p in rates.items()}
        noise = unit_noise.row_noise(key, draw, self.channelwise)
        second_moment = {site: 1.0 / (1.0 - rate) for site, rate in rates.items()}
        scales = unit_noise.penalty_scales(target, state.params, second_moment)
        return optimize.descend(self, target, state, batch, noise, scales)

    def keep(self, state: Descent) -> None:
        return None

    def posterior(self, target: Target, states: list[Descent], kept: None) -> Posterior:
        params = states[0].params
        rates = {site: jnp.asarray(rate) for site, rate in self._rates(target, params).items()}
        noisy = NoisyNetwork(target.model, params, rates, "bernoulli", self.channelwise)
        return noisy if rates else noisy.weight_scaled()

    def remedy(self) -> str:
        return optimize.remedy(self)

    def _rates(self, target: Target, params: Params) -> dict[str, float]:
        """The drop probability at every site that has one."""
        sites = unit_noise.noise_sites(target, params, self.where, self.input_rate > 0)
        first = unit_noise.input_site(target)
        own = getattr(target.model.network, "own_rates", {})
        rates = {s: own.get(s.partition(".")[0], self.rate) for s in sites}
        rates |= {first: self.input_rate} if first in sites else {}
        return {site: rate for site, rate in rates.items() if rate > 0}
