"""A posterior held as one network whose units are noisy: the dropout family.

One draw is one set of noise multipliers *shared by all inputs*, so a draw is a function of x.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Array

from credo.model import Model
from credo.networks import Noise, Params, site_shapes
from credo.networks.noise import KINDS
from credo.posterior.posterior import Posterior, require
from credo.posterior.record import Record
from credo.posterior.samples import Samples, one_network


@dataclass(frozen=True, repr=False)
class NoisyNetwork(Posterior):
    """f(x; ẑ) with multipliers ẑ of mean 1 at the noise sites of a trained network."""

    model: Model
    params: Params
    rates: dict[str, Array]
    """Noise rate at each site that has noise."""
    kind: str = "bernoulli"
    """Which noise: a name in `credo.networks.noise.KINDS`."""
    channelwise: bool = False
    """Share a multiplier over the height and width of a channel."""
    record: Record = field(default_factory=Record)

    like_params: ClassVar = ("params",)

    def facts(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def validate(self, template: Params) -> None:
        require(self.kind in KINDS, f"its noise {self.kind!r} is not known here")
        sites = site_shapes(self.model.network, self.params["network"], self.record.input_shape)
        require(self.rates, "it has no noise rates")
        for site, rate in self.rates.items():
            require(site in sites, f"its network has no noise site {site!r}")
            value = np.asarray(rate)
            require(value.shape == () and value.dtype.kind == "f", f"rate {site!r} is no number")
            largest = 1.0 if self.kind == "bernoulli" else np.inf
            require(0 <= value < largest, f"the noise rate {float(value):g} of {site!r} is none")

    def sample(self, key: Array, num_draws: int) -> dict[str, Array]:
        """Multipliers for each site, stacked: `num_draws` functions."""
        shapes = site_shapes(self.model.network, self.params["network"], self.record.input_shape)
        draws = {}
        for index, (site, rate) in enumerate(sorted(self.rates.items())):
            shape = multiplier_shape(shapes[site], self.channelwise)
            site_key = jax.random.fold_in(key, index)
            draws[site] = KINDS[self.kind](site_key, rate, (num_draws, *shape))
        return draws

    def realize(self, draw: dict[str, Array]) -> tuple[Params, Noise]:
        def multiply(site: str, units: Array) -> Array:
            return units * draw[site] if site in draw else units

        return self.params, multiply

    def weight_scaled(self) -> Samples:
        """The deterministic network of mean multipliers: the usual way to predict after dropout."""
        return one_network(self.model, self.params, self.record)


def multiplier_shape(units: tuple[int, ...], channelwise: bool) -> tuple[int, ...]:
    """Shape of the noise of one row: a multiplier for each unit, or for each channel."""
    return (1,) * (len(units) - 1) + units[-1:] if channelwise else units
