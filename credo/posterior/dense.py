"""A posterior held as one normal over all weights, with their correlations."""

from dataclasses import dataclass, replace

import jax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from credo.model import Model
from credo.networks import Noise, Params, no_noise
from credo.posterior.record import Record, in_short


@dataclass(frozen=True, repr=False)
class DenseNormal:
    """θ ~ N(mean, F Fᵀ), with a factor F of shape (parameters, rank)."""

    model: Model
    mean: Params
    factor: Float[Array, "d r"]
    chosen: Int[Array, " d"] | None = None
    """Which of the flattened parameters the rows of F belong to; the others are certain."""
    linearized: bool = False
    """A draw is f(x; mean) + J(x) (θ − mean), the network's tangent, instead of f(x; θ)."""
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
        rows = slice(None) if self.chosen is None else self.chosen
        return unravel(flat.at[rows].add(self.factor @ noise)), no_noise


def _flatten(posterior: DenseNormal):
    children = (posterior.mean, posterior.factor, posterior.chosen)
    return children, (posterior.model, posterior.linearized)


def _unflatten(static, children) -> DenseNormal:
    model, linearized = static
    return replace(DenseNormal(model, *children), linearized=linearized)


jax.tree_util.register_pytree_node(DenseNormal, _flatten, _unflatten)
