"""A posterior held as one normal with a spread for each weight and a few directions they share."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from credo.keys import bulk_normal
from credo.model import Model
from credo.networks import Noise, Params, no_noise
from credo.posterior.posterior import Posterior, not_negative, num_params, require
from credo.posterior.record import Record
from credo.posterior.samples import Samples, one_network


@dataclass(frozen=True, repr=False)
class LowRankNormal(Posterior):
    """θ ~ N(mean, diag(std²) + F Fᵀ), with a factor F of shape (parameters, rank)."""

    model: Model
    mean: Params
    std: Params
    factor: Float[Array, "*m d r"]
    record: Record = field(default_factory=Record)

    like_params: ClassVar = ("mean", "std")

    def facts(self) -> dict[str, Any]:
        return {"rank": self.factor.shape[-1]}

    def validate(self, template: Params) -> None:
        not_negative(self.std, "std")
        size = num_params(template)
        fits = self.factor.ndim == 2 and len(self.factor) == size
        require(fits, f"its factor has shape {self.factor.shape} for {size} weights")

    def realize(self, draw: Array) -> tuple[Params, Noise]:
        own_key, shared_key = jax.random.split(draw)
        mean, unravel = ravel_pytree(self.mean)
        own = ravel_pytree(self.std)[0] * bulk_normal(own_key, mean.shape, mean.dtype)
        shared = jax.random.normal(shared_key, self.factor.shape[1:], self.factor.dtype)
        return unravel(mean + own + self.factor @ shared), no_noise

    def mean_network(self) -> Samples:
        """The deterministic network of mean weights."""
        return one_network(self.model, self.mean, self.record)
