"""A posterior held as one normal with a spread for each weight and a few directions they share."""

from dataclasses import dataclass

import jax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from credo.keys import bulk_normal
from credo.model import Model
from credo.networks import Noise, Params, no_noise
from credo.posterior.record import Record, in_short
from credo.posterior.samples import Samples, one_network


@dataclass(frozen=True, repr=False)
class LowRankNormal:
    """θ ~ N(mean, diag(std²) + F Fᵀ), with a factor F of shape (parameters, rank)."""

    model: Model
    mean: Params
    std: Params
    factor: Float[Array, "d r"]
    record: Record = Record(())  # noqa: RUF009

    def __repr__(self) -> str:
        return in_short(self, rank=self.factor.shape[1])

    @property
    def num_draws(self) -> None:
        """Draws are made anew each time: there is no fixed number of them."""
        return None

    def sample(self, key: Array, num_draws: int) -> Array:
        """Keys, one per draw: the weights of a draw are made when it is used, not all at once."""
        return jax.random.split(key, num_draws)

    def realize(self, draw: Array) -> tuple[Params, Noise]:
        own_key, shared_key = jax.random.split(draw)
        mean, unravel = ravel_pytree(self.mean)
        own = ravel_pytree(self.std)[0] * bulk_normal(own_key, mean.shape, mean.dtype)
        shared = jax.random.normal(shared_key, self.factor.shape[1:], self.factor.dtype)
        return unravel(mean + own + self.factor @ shared), no_noise

    def mean_network(self) -> Samples:
        """The deterministic network of mean weights."""
        return one_network(self.model, self.mean, self.record)


def _flatten(posterior: LowRankNormal):
    return (posterior.mean, posterior.std, posterior.factor), posterior.model


def _unflatten(model: Model, children) -> LowRankNormal:
    return LowRankNormal(model, *children)


jax.tree_util.register_pytree_node(LowRankNormal, _flatten, _unflatten)
