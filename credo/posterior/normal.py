"""A posterior held as independent normals, one for every weight: mean-field inference."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.errors import CredoError
from credo.keys import bulk_normal
from credo.model import Model
from credo.networks import Noise, Params, no_noise
from credo.posterior.record import Record, in_short
from credo.posterior.samples import Samples, one_network


@dataclass(frozen=True, repr=False)
class NormalWeights:
    """θ ~ N(mean, std²), every weight on its own; a std of 0 is a weight that is certain."""

    model: Model
    mean: Params
    std: Params
    linearized: bool = False
    """A draw is f(x; mean) + J(x) (θ − mean), the network's tangent, instead of f(x; θ)."""
    record: Record = Record(())  # noqa: RUF009

    def __repr__(self) -> str:
        return in_short(self)

    @property
    def num_draws(self) -> None:
        """Draws are made anew each time: there is no fixed number of them."""
        return None

    def sample(self, key: Array, num_draws: int) -> Array:
        """Keys, one per draw: the weights of a draw are made when it is used, not all at once."""
        return jax.random.split(key, num_draws)

    def realize(self, draw: Array) -> tuple[Params, Noise]:
        return sample_weights(draw, self.mean, self.std), no_noise

    def mean_network(self) -> Samples:
        """The deterministic network of mean weights."""
        return one_network(self.model, self.mean, self.record)

    def pruned(self, log_alpha: float = 3.0) -> "NormalWeights":
        """Set to zero the weights whose noise drowns them: log(std² / mean²) > log_alpha.

        At log α = 3 a weight's noise has 20 times its power (Molchanov et al. 2017). Use
        `sparsity` for the share that was removed.
        """
        keep = jax.tree.map(
            lambda mean, std: jnp.square(std) <= jnp.exp(log_alpha) * jnp.square(mean),
            self.mean,
            self.std,
        )
        drop = lambda tree: jax.tree.map(jnp.multiply, tree, keep)  # noqa: E731
        return replace(self, mean=drop(self.mean), std=drop(self.std))

    def sparsity(self) -> float:
        """The share of network weights (arrays of two or more axes) that are exactly zero."""
        matrices = [a for a in jax.tree.leaves(self.mean["network"]) if a.ndim > 1]
        if not matrices:
            raise CredoError(
                "sparsity is the share of zeros in arrays of two or more axes, and this network "
                "has none; give its weights as matrices"
            )
        zeros = sum(int(jnp.sum(a == 0)) for a in matrices)
        return zeros / sum(a.size for a in matrices)


def sample_weights(key: Array, mean: Params, std: Params) -> Params:
    """mean + std ∘ ε with ε ~ N(0, 1)."""
    means, structure = jax.tree.flatten(mean)
    keys = jax.tree.unflatten(structure, list(jax.random.split(key, len(means))))
    draw = lambda k, m, s: m + s * bulk_normal(k, m.shape, m.dtype)  # noqa: E731
    return jax.tree.map(draw, keys, mean, std)


def _flatten(posterior: NormalWeights):
    return (posterior.mean, posterior.std), (posterior.model, posterior.linearized)


def _unflatten(static, children) -> NormalWeights:
    model, linearized = static
    return replace(NormalWeights(model, *children), linearized=linearized)


jax.tree_util.register_pytree_node(NormalWeights, _flatten, _unflatten)
