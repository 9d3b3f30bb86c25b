"""What a prediction says: the summary that every likelihood gives of many posterior draws.

All share one set of names (`Predictive`): mean, log_prob, entropy, expected_entropy,
mutual_information, and where the target is a quantity variance (aleatoric + epistemic), interval,
quantile, cdf, sample. Values are in the user's units.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from credo.data.units import Units, class_codes
from credo.errors import CredoError


@runtime_checkable
class Predictive(Protocol):
    """What evaluation and decisions may ask of any prediction."""

    @property
    def num_classes(self) -> int | None:
        """How many classes the target has; None: it is a quantity."""
        ...

    @property
    def mean(self) -> np.ndarray: ...

    @property
    def entropy(self) -> np.ndarray: ...

    @property
    def expected_entropy(self) -> np.ndarray: ...

    @property
    def mutual_information(self) -> np.ndarray: ...

    def log_prob(self, y: np.ndarray) -> np.ndarray: ...

    def sample(self, seed: int = 0, num_samples: int = 1) -> np.ndarray: ...

    def in_units(self, units: Units) -> "Predictive": ...

    def weighted(self, draw_weights: np.ndarray | None) -> "Predictive": ...


@dataclass(frozen=True, repr=False)
class CategoricalPredictive:
    """The posterior predictive over classes: probabilities averaged over draws."""

    probs: Float[np.ndarray, "n k"]
    """p̄(y | x) = (1/S) Σ_s p(y | x, θ_s)."""
    expected_entropy: Float[np.ndarray, " n"]
    """(1/S) Σ_s H[p(y | x, θ_s)]: the uncertainty that more data would not remove."""
    information: Float[np.ndarray, " n"] | None = None
    """(1/S) Σ_s KL(p_s ‖ p̄), without the rounding of a difference; None: from the entropies."""
    draw_probs: Float[np.ndarray, "s n k"] | None = None
    """Probabilities of every draw, when asked for with `keep_draws=True`."""
    classes: tuple[str, ...] | None = None
    """Names of the classes, where the model knows them."""
    draw_weights: Float[np.ndarray, " s"] | None = None
    """How much each draw counts, with sum 1; None: all alike."""

    def weighted(self, draw_weights: np.ndarray | None) -> "CategoricalPredictive":
        """The same, and how much each draw counted."""
        return replace(self, draw_weights=draw_weights)

    def __repr__(self) -> str:
        return f"CategoricalPredictive({len(self.probs)} rows, {self.probs.shape[1]} classes)"

    @property
    def num_classes(self) -> int:
        return self.probs.shape[1]

    @property
    def mean(self) -> np.ndarray:
        return self.probs

    @property
    def codes(self) -> Int[np.ndarray, " n"]:
        """The number of the most probable class of each row."""
        return self.probs.argmax(axis=1)

    @property
    def labels(self) -> np.ndarray:
        """The most probable class of each row: its name where the model knows it, or its number."""
        return self.codes if self.classes is None else np.asarray(self.classes)[self.codes]

    @cached_property
    def entropy(self) -> Float[np.ndarray, " n"]:
        """H[p̄], the whole uncertainty, in nats."""
        return entropy_of(self.probs)

    @property
    def mutual_information(self) -> Float[np.ndarray, " n"]:
        """I(y; θ) = H[p̄] − E H[p_s]: what the draws disagree about (BALD)."""
        if self.information is not None:
            return self.information
        information = self.entropy - self.expected_entropy
        # Rounding may leave a zero slightly negative; anything larger is an error worth seeing.
        return np.where(information > -1e-5, np.maximum(information, 0.0), information)

    def class_codes(self, y: Any) -> Int[np.ndarray, " n"]:
        """Numbers of the classes in y, given by name where the model knows names, or by number."""
        if self.classes is not None:
            return class_codes(self.classes, y)
        y = np.asarray(y)
        if not np.issubdtype(y.dtype, np.number) or np.any(y != np.floor(y)):
            raise CredoError(
                f"y must hold class numbers 0, 1, …, got {y.dtype} such as {y.flat[0]!r}"
            )
        if y.size and not (y.min() >= 0 and y.max() < self.probs.shape[1]):
            raise CredoError(
                f"y must hold class numbers 0 … {self.probs.shape[1] - 1}, got {y.min():g} … "
                f"{y.max():g}"
            )
        return y.astype(int)

    def log_prob(self, y: Any) -> Float[np.ndarray, " n"]:
        """log p̄(y | x) of the given classes."""
        codes = self.class_codes(y)
        return np.log(np.maximum(self.probs[np.arange(len(codes)), codes], 1e-38))

    def sample(self, seed: int = 0, num_samples: int = 1) -> Int[np.ndarray, "m n"]:
        """Class numbers drawn from p̄."""
        uniform = np.random.default_rng(seed).random((num_samples, len(self.probs), 1))
        return np.minimum(
            (np.cumsum(self.probs, axis=1) < uniform).sum(axis=2), self.probs.shape[1] - 1
        )

    def in_units(self, units: Units) -> "CategoricalPredictive":
        return replace(self, classes=units.classes)


def entropy_of(probs: np.ndarray) -> np.ndarray:
    """−Σ p log p over the last axis, in nats."""
    return -np.sum(probs * np.log(np.maximum(probs, 1e-38)), axis=-1)
