"""Classes: one logit each (`Categorical`), or one logit for two (`Bernoulli`)."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from credo.errors import CredoError
from credo.fields import at_least, check_fields
from credo.model.likelihoods.likelihood import Likelihood, Summary, checked_labels, over_draws
from credo.model.summaries import CategoricalPredictive


class Classes(Likelihood):
    """What classifiers share: a prediction is the probabilities and their entropy."""

    def check(self, y: Any) -> np.ndarray:
        return checked_labels(y, self.num_classes)  # type: ignore[arg-type]

    def log_probs(self, params: dict, outputs: Array) -> Float[Array, "n k"]:
        """log p(y = k | f) of all classes."""
        return jax.nn.log_softmax(self.logits(outputs))

    def summarize(self, params: dict, outputs: Array) -> Summary:
        log_probs = self.log_probs(params, outputs)
        probs = jnp.exp(log_probs)
        return {"probs": probs, "entropy": -jnp.sum(probs * log_probs, axis=1)}, {}

    def average(self, drawn: dict[str, Array], weights: Array | None = None) -> dict[str, Array]:
        averaged = super().average(drawn, weights)
        probs = drawn["probs"]
        tiny = jnp.finfo(probs.dtype).tiny
        # The log of a ratio: that of equal draws is 1 and its log 0, to the bit.
        surprise = jnp.log((probs + tiny) / (averaged["probs"] + tiny))
        return averaged | {"information": over_draws(jnp.sum(probs * surprise, axis=2), weights)}

    def predictive(self, averaged: dict, kept: dict) -> CategoricalPredictive:
        information = np.maximum(averaged["information"], 0.0)  # rounding may leave it below
        return CategoricalPredictive(
            averaged["probs"], averaged["entropy"], information, kept.get("probs")
        )


@dataclass(frozen=True)
class Categorical(Classes):
    """p(y | f) = softmax(f)_y, for integer labels 0 … num_classes − 1."""

    num_classes: int  # type: ignore[misc]

    def __post_init__(self) -> None:
        if isinstance(self.num_classes, int | np.integer) and self.num_classes < 2:
            raise CredoError(f"a classifier needs 2 classes, got num_classes={self.num_classes}")
        check_fields(self, num_classes=at_least(2))

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (self.num_classes,)

    def logits(self, outputs: Array) -> Array:
        return outputs

    def log_prob(self, params: dict, outputs: Float[Array, "n k"], y: Int[Array, " n"]) -> Array:
        log_probs = jax.nn.log_softmax(outputs)
        return jnp.take_along_axis(log_probs, y[:, None], axis=1)[:, 0]

    def fisher_root(self, params: dict, outputs: Float[Array, "n k"]) -> Float[Array, "n k k-1"]:
        """The root R of diag(p) − p pᵀ with columns √p_c (e_c − p), turned to have one fewer.

        R √p = 0, so the reflection that takes √p to −e_k empties the last column.
        """
        probs = jax.nn.softmax(outputs)
        roots = jnp.sqrt(probs)
        columns = (jnp.eye(self.num_classes) - probs[:, :, None]) * roots[:, None, :]
        share = roots[:, :-1] / (1 + roots[:, -1:])
        return columns[:, :, :-1] - columns[:, :, -1:] * share[:, None, :]


@dataclass(frozen=True)
class Bernoulli(Classes):
    """p(y = 1 | f) = sigmoid(f), for labels 0 and 1, with one network output."""

    num_classes = 2

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (1,)

    def logits(self, outputs: Array) -> Array:
        return jnp.concatenate([jnp.zeros_like(outputs), outputs], axis=-1)

    def log_prob(self, params: dict, outputs: Float[Array, "n 1"], y: Int[Array, " n"]) -> Array:
        return jax.nn.log_sigmoid(jnp.where(y > 0, outputs[:, 0], -outputs[:, 0]))

    def fisher_root(self, params: dict, outputs: Float[Array, "n 1"]) -> Float[Array, "n 1 1"]:
        return jnp.sqrt(jax.nn.sigmoid(outputs) * jax.nn.sigmoid(-outputs))[:, :, None]
