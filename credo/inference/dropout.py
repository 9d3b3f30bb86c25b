"""Monte-Carlo dropout: Bernoulli dropout at training *and* prediction, read as a posterior.

Training minimises, with fresh masks z for every row,

    −(1/N) [ (N/B) Σ_j log p(y_j | x_j, W ∘ z_j / (1 − p)) − Σ_l ‖W_l‖² / (2 s² (1 − p_l)) ],

where p_l is the drop probability at the input of layer l. The second term is the KL divergence of
the dropout posterior to N(0, s²) up to a constant: with inverted dropout the stored weight is
W = (1 − p) M, which turns (1 − p) ‖M‖² / 2s² into ‖W‖² / (2 s² (1 − p)).

Reference: Gal & Ghahramani, Dropout as a Bayesian Approximation, ICML 2016.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.errors import CredoError
from credo.inference import optimize
from credo.inference.method import NOT_NEGATIVE, Info, Plan, check_fields
from credo.inference.optimize import Descent, Optimizer, Schedule
from credo.model import Batch, Target
from credo.networks import Noise, Params, site_shapes
from credo.networks.noise import bernoulli
from credo.posterior import NoisyNetwork
from credo.posterior.noisy import multiplier_shape


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
        self._rates(target, params)  # refuse a network without noise sites before any work
        return optimize.start(self, target.num_data, params)

    def step(
        self, key: Array, target: Target, state: Descent, batch: Batch
    ) -> tuple[Descent, Info]:
        rates = self._rates(target, state.params)
        noise = dropout_noise(key, rates, self.channelwise)
        scales = penalty_scales(target, state.params, rates)
        return optimize.descend(self, target, state, batch, noise, scales)

    def keep(self, state: Descent) -> None:
        return None

    def posterior(self, target: Target, states: list[Descent], kept: None) -> NoisyNetwork:
        params = states[0].params
        rates = {site: jnp.asarray(rate) for site, rate in self._rates(target, params).items()}
        return NoisyNetwork(target.model, params, rates, channelwise=self.channelwise)

    def remedy(self) -> str:
        return optimize.remedy(self)

    def _rates(self, target: Target, params: Params) -> dict[str, float]:
        """The drop probability at every site that has one."""
        sites = site_shapes(target.model.network, params["network"], target.input_shape)
        if not sites:
            raise CredoError(
                f"{type(target.model.network).__name__} names no noise sites, so dropout has "
                "nowhere to act; call noise(site, units) in it, or choose another method"
            )
        rates = {site: self.rate if index else self.input_rate for index, site in enumerate(sites)}
        return {site: rate for site, rate in rates.items() if rate > 0}


def dropout_noise(key: Array, rates: dict[str, float], channelwise: bool) -> Noise:
    """Fresh Bernoulli multipliers for every row at every site."""
    order = {site: index for index, site in enumerate(rates)}

    def noise(site: str, units: Array) -> Array:
        if site not in rates:
            return units
        shape = (units.shape[0], *multiplier_shape(units.shape[1:], channelwise))
        site_key = jax.random.fold_in(key, order[site])
        return units * bernoulli(site_key, rates[site], shape).astype(units.dtype)

    return noise


def penalty_scales(target: Target, params: Params, rates: dict[str, float]) -> Params:
    """Prior scales, s √(1 − p) for the weights that a dropped site feeds."""
    scales = target.model.prior_scales(params)
    network = dict(scales["network"])
    for layer, rate in rates.items():
        network[layer] = network[layer] | {"w": network[layer]["w"] * (1.0 - rate) ** 0.5}
    return {"network": network, "likelihood": scales["likelihood"]}
