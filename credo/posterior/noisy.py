"""A posterior held as one network whose units are noisy: the dropout family.

One draw is one set of noise multipliers *shared by all inputs*, so a draw is a function of x.
"""

from dataclasses import dataclass

import jax
from jaxtyping import Array

from credo.model import Model
from credo.networks import Noise, Params, site_shapes
from credo.networks.noise import KINDS
from credo.posterior.record import Record, in_short
from credo.posterior.samples import Samples, one_network


@dataclass(frozen=True, repr=False)
class NoisyNetwork:
    """f(x; ẑ) with multipliers ẑ of mean 1 at the noise sites of a trained network."""

    model: Model
    params: Params
    rates: dict[str, Array]
    """Noise rate at each site that has noise."""
    kind: str = "bernoulli"
    """Which noise: a name in `credo.networks.noise.KINDS`."""
    channelwise: bool = False
    """Share a multiplier over the height and width of a channel."""
    record: Record = Record(())  # noqa: RUF009

    def __repr__(self) -> str:
        return in_short(self, kind=self.kind)

    @property
    def num_draws(self) -> None:
        """Draws are made anew each time: there is no fixed number of them."""
        return None

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
        multiply = lambda site, units: units * draw[site] if site in draw else units  # noqa: E731
        return self.params, multiply

    def weight_scaled(self) -> Samples:
        """The deterministic network of mean multipliers: the usual way to predict after dropout."""
        return one_network(self.model, self.params, self.record)


def multiplier_shape(units: tuple[int, ...], channelwise: bool) -> tuple[int, ...]:
    """Shape of the noise of one row: a multiplier for each unit, or for each channel."""
    return (1,) * (len(units) - 1) + units[-1:] if channelwise else units


def _flatten(posterior: NoisyNetwork):
    static = (posterior.model, posterior.kind, posterior.channelwise, posterior.record.input_shape)
    return (posterior.params, posterior.rates), static


def _unflatten(static, children) -> NoisyNetwork:
    model, kind, channelwise, input_shape = static
    params, rates = children
    return NoisyNetwork(model, params, rates, kind, channelwise, Record(input_shape))


jax.tree_util.register_pytree_node(NoisyNetwork, _flatten, _unflatten)
