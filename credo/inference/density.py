"""A bare log density as an objective, beside the `Target` of a model and its data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from credo.engine import climb
from credo.model import Target
from credo.posterior import Draws, Samples
from credo.struct import Struct


@dataclass(frozen=True)
class Density(Struct):
    """A log density of the user's own: what a sampler needs of an objective.

    Parameters are `{"position": …}`, whatever pytree the density takes.
    """

    log_density: Callable[..., Array]
    num_data: float = 1.0
    takes_batch: bool = False
    temperature: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_data", float(self.num_data))

    def init(self, key: Array, example: Any) -> Any:
        raise NotImplementedError("a density says nothing of where chains start: give starts")

    def loss(self, key: Array, params: Any, batch: Any) -> tuple[Array, dict[str, Array]]:
        return -self.log_joint(params, batch) / self.num_data, {}

    def log_joint(self, params: Any, batch: Any) -> Array:
        position = params["position"]
        value = (
            self.log_density(position, batch) if self.takes_batch else self.log_density(position)
        )
        return value / self.temperature

    def log_likelihoods(self, params: Any, batch: Any) -> None:
        """A bare density does not tell the terms of its data."""
        return None

    def default_rate(self, classes: float, others: float) -> float:
        return others


def near_mode(objective: Any, params: Any, batch: Any, num_steps: int) -> Any:
    """Where a network's chain starts well; the chain of a bare density starts where it was told."""
    return climb(objective, params, batch, num_steps) if isinstance(objective, Target) else params


def drawn(objective: Any, draws: Any, weights: Array | None = None) -> Samples | Draws:
    """The posterior that chains have drawn."""
    if weights is not None:
        weights = weights / jnp.sum(weights)
    if isinstance(objective, Density):
        return Draws(draws["position"], weights=weights)
    return Samples(objective.model, draws, weights=weights)
