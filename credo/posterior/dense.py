"""A posterior held as one normal over all weights, with their correlations."""

from dataclasses import dataclass

import jax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from credo.model import Model
from credo.networks import Noise, Params, no_noise
from credo.posterior.record import Record, in_short


@dataclass(frozen=True, repr=False)
class DenseNormal:
    """θ ~ N(mean, F Fᵀ), with a factor F of shape (parameters, rank)."""

    model: Model
    mean: Params
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
        flat, unravel = ravel_pytree(self.mean)
        noise = jax.random.normal(draw, self.factor.shape[1:], self.factor.dtype)
        return unravel(flat + self.factor @ noise), no_noise


def _flatten(posterior: DenseNormal):
    return (posterior.mean, posterior.factor), posterior.model


def _unflatten(model: Model, children) -> DenseNormal:
    return DenseNormal(model, *children)


jax.tree_util.register_pytree_node(DenseNormal, _flatten, _unflatten)
