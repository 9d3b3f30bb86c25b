"""A posterior held as parameter draws: one for a point estimate, many for a Markov chain."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.model import Model
from credo.networks import Noise, Params, no_noise
from credo.posterior.record import Record


@dataclass(frozen=True)
class Samples:
    """Equally weighted parameter draws, every leaf of shape (chain, draw, *parameter)."""

    model: Model
    draws: Params
    record: Record = Record(())  # noqa: RUF009

    @property
    def num_chains(self) -> int:
        return jax.tree.leaves(self.draws)[0].shape[0]

    @property
    def num_draws(self) -> int:
        """How many distinct draws there are, over all chains."""
        chains, draws = jax.tree.leaves(self.draws)[0].shape[:2]
        return chains * draws

    def sample(self, key: Array, num_draws: int) -> Params:
        """`num_draws` draws, stacked: all of them once, a random part, or with repetition."""
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.draws)
        if num_draws == self.num_draws:
            return flat
        repeat = num_draws > self.num_draws
        chosen = jax.random.choice(key, self.num_draws, (num_draws,), replace=repeat)
        return jax.tree.map(lambda leaf: leaf[jnp.sort(chosen)], flat)

    def realize(self, draw: Params) -> tuple[Params, Noise]:
        """The parameters and the noise function that make one draw a function of x."""
        return draw, no_noise


def _flatten(posterior: Samples):
    return (posterior.draws,), posterior.model


def _unflatten(model: Model, children) -> Samples:
    return Samples(model, *children)


jax.tree_util.register_pytree_node(Samples, _flatten, _unflatten)
