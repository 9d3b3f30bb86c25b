"""A posterior held as one normal over all weights, with their correlations."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from credo.model import Model
from credo.networks import Noise, Params, no_noise
from credo.posterior.posterior import Posterior, num_params, require
from credo.posterior.record import Record


@dataclass(frozen=True, repr=False)
class DenseNormal(Posterior):
    """θ ~ N(mean, F Fᵀ), with a factor F of shape (parameters, rank)."""

    model: Model
    mean: Params
    factor: Float[Array, "*m d r"]
    chosen: Int[Array, "*m d"] | None = None
    """Which of the flattened parameters the rows of F belong to; the others are certain."""
    linearized: bool = False
    """A draw is f(x; mean) + J(x) (θ − mean), the network's tangent, instead of f(x; θ)."""
    record: Record = field(default_factory=Record)

    like_params: ClassVar = ("mean",)

    def facts(self) -> dict[str, Any]:
        return {"rank": self.factor.shape[-1]}

    def validate(self, template: Params) -> None:
        size = num_params(template)
        require(self.factor.ndim == 2, f"its factor has shape {self.factor.shape}, not a matrix's")
        if self.chosen is None:
            require(len(self.factor) == size, f"its factor is not that of {size} weights")
            return
        chosen = np.asarray(self.chosen)
        require(chosen.shape == self.factor.shape[:1], "its chosen weights are not its factor's")
        require(chosen.min(initial=0) >= 0 and chosen.max(initial=0) < size, "it chooses no weight")
        require(len(np.unique(chosen)) == len(chosen), "it chooses a weight twice")

    def realize(self, draw: Array) -> tuple[Params, Noise]:
        flat, unravel = ravel_pytree(self.mean)
        noise = jax.random.normal(draw, self.factor.shape[1:], self.factor.dtype)
        rows = slice(None) if self.chosen is None else self.chosen
        return unravel(flat.at[rows].add(self.factor @ noise)), no_noise
