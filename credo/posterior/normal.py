"""A posterior held as independent normals, one for every weight: mean-field inference."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.errors import CredoError
from credo.keys import bulk_normal
from credo.model import Model
from credo.networks import Noise, Params, no_noise
from credo.posterior.posterior import Posterior, not_negative
from credo.posterior.record import Record
from credo.posterior.samples import Samples, one_network


@dataclass(frozen=True, repr=False)
class NormalWeights(Posterior):
    """θ ~ N(mean, std²), every weight on its own; a std of 0 is a weight that is certain."""

    model: Model
    mean: Params
    std: Params
    linearized: bool = False
    """A draw is f(x; mean) + J(x) (θ − mean), the network's tangent, instead of f(x; θ)."""
    record: Record = field(default_factory=Record)

    like_params: ClassVar = ("mean", "std")

    def validate(self, template: Params) -> None:
        not_negative(self.std, "std")

    def realize(self, draw: Array) -> tuple[Params, Noise]:
        return sample_weights(draw, self.mean, self.std), no_noise

    def weight_moments(self, num_draws: int, key: Array) -> tuple[Params, Params]:
        return self.mean["network"], self.std["network"]

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
        mean, std = (jax.tree.map(jnp.multiply, tree, keep) for tree in (self.mean, self.std))
        return replace(self, mean=mean, std=std)

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

    def draw(key: Array, mean: Array, std: Array) -> Array:
        return mean + std * bulk_normal(key, mean.shape, mean.dtype)

    return jax.tree.map(draw, keys, mean, std)
