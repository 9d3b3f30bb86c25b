"""What a likelihood is: how network outputs become a distribution over targets.

    log_prob(params, outputs, y)      log p(y_j | f_j) of every row
    check(y)                          targets as they come from outside, refused or as arrays
    summarize(params, outputs)        of one draw: what prediction averages, and what it keeps
    predictive(averaged, kept)        what a prediction says

It says how many outputs it needs per datum (`output_shape`), and may own parameters (`init`), such
as a learned noise scale; their prior is N(0, 1).

`fisher_root` is R of shape (rows, outputs, columns) with R Rᵀ = E_y[∇ log p(y | f) ∇ log p(y | f)ᵀ]
for every row, the gradient being that with respect to f. Where the outputs are natural parameters
this is also the Hessian of −log p, so that Jᵀ R Rᵀ J is the generalised Gauss–Newton matrix.
Outputs of any shape are flattened. `parameter_fisher` is the diagonal of the same matrix for the
likelihood's own parameters, for every row, or in one row for all where it depends on none.
"""

import math
from numbers import Real
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.errors import CredoError
from credo.fields import COUNT
from credo.model.summaries import Predictive
from credo.saving import Saveable

LARGEST_LOG_MEAN = 60.0  # of counts; sums of rows must stay within e^88, where floats end

Summary = tuple[dict[str, Array], dict[str, Array]]


class Likelihood(Saveable):
    """Base of all likelihoods: see the top of this module."""

    num_classes: ClassVar[int | None] = None
    """Of a classifier; None for quantities."""

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the network's outputs for one row."""
        raise NotImplementedError

    @property
    def num_outputs(self) -> int:
        return math.prod(self.output_shape)

    def init(self) -> dict[str, Array]:
        """The likelihood's own parameters at the start."""
        return {}

    def log_prob(self, params: dict, outputs: Array, y: Array) -> Float[Array, " n"]:
        """log p(y_j | f_j) of every row."""
        raise NotImplementedError

    def training_terms(
        self, params: dict, outputs: Array, y: Array, is_real: Array | None
    ) -> Float[Array, " n"]:
        """What methods that optimise put in place of `log_prob`; by default the same."""
        return self.log_prob(params, outputs, y)

    def check(self, y: Any) -> np.ndarray:
        """Targets as an array that `log_prob` takes; raise where they cannot be."""
        raise NotImplementedError

    def summarize(self, params: dict, outputs: Array) -> Summary:
        """Of one draw: what prediction averages over draws, and what it keeps of every draw.

        Leaves have the rows first; one row stands for all where they are alike.
        """
        raise NotImplementedError

    def average(self, drawn: dict[str, Array], weights: Array | None = None) -> dict[str, Array]:
        """What is left of the parts that are averaged; leaves come with the draws first.

        `weights`, with sum 1, say how much each draw counts; None: all alike.
        """
        return {name: over_draws(values, weights) for name, values in drawn.items()}

    def predictive(
        self, averaged: dict[str, np.ndarray], kept: dict[str, np.ndarray]
    ) -> Predictive:
        """What is said about the targets; `kept` has the draws first."""
        raise NotImplementedError

    def fisher_root(self, params: dict, outputs: Array) -> Float[Array, "n k c"]:
        raise CredoError(
            f"{type(self).__name__} has no Fisher information of its outputs, which Laplace and "
            "exact inference need; use another method"
        )

    def parameter_fisher(self, params: dict, outputs: Array) -> dict[str, Array]:
        if not self.init():
            return {}
        raise CredoError(
            f"{type(self).__name__} has no Fisher information of its own parameters "
            f"({', '.join(self.init())}), which Laplace needs; use another method"
        )

    def gradient_scale(self) -> Any:
        """By what the steps of a sampler are multiplied: gradients grow as known noise shrinks."""
        return 1.0

    def logits(self, outputs: Array) -> Array:
        """Logits of all classes, of a classifier."""
        raise CredoError(
            f"{type(self).__name__} has no logits of classes; use credo.linearized_predict or "
            "credo.predict"
        )


def over_draws(values: Array, weights: Array | None) -> Array:
    """The average over the first axis; from the first draw on: that of equal draws is exact."""
    if weights is None:
        return values[0] + jnp.mean(values - values[0], axis=0)
    return values[0] + jnp.tensordot(weights, values - values[0], 1)


def target_shape(num_targets: int | tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a row's targets, given as their number or as a shape."""
    return num_targets if isinstance(num_targets, tuple) else (num_targets,)


def check_targets(likelihood: Any) -> None:
    """Raise unless `num_targets` is a number of targets or the shape of an array of them."""
    given = likelihood.num_targets
    sizes = tuple(given) if isinstance(given, tuple | list) else (given,)
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size not in COUNT:
            sizes = ()
    if not sizes:
        raise CredoError(
            f"{type(likelihood).__name__}: num_targets must be a whole number at least 1, or the "
            f"shape of an array of targets such as (28, 28), got {given!r}"
        )
    sizes = tuple(int(size) for size in sizes)
    shape = sizes if isinstance(given, tuple | list) else sizes[0]
    object.__setattr__(likelihood, "num_targets", shape)


def check_choice(likelihood: Any, name: str, words: tuple[str, ...]) -> None:
    """Raise unless a field is a positive number or one of some words."""
    value = getattr(likelihood, name)
    if isinstance(value, str):
        if value not in words:
            raise CredoError(
                f"{type(likelihood).__name__}: {name} must be a positive number, "
                f"{' or '.join(map(repr, words))}, got {value!r}"
            )
        return
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:
        raise CredoError(f"{type(likelihood).__name__}: {name} must be positive, got {value!r}")
    object.__setattr__(likelihood, name, float(value))


def own_shape(num_targets: int | tuple[int, ...]) -> tuple[int, ...]:
    """Of a learned parameter: one for each target, or one for a whole array of them."""
    return (1,) * len(num_targets) if isinstance(num_targets, tuple) else (num_targets,)


def rows_of(values: Array, mean: Array) -> Array:
    """Values of all rows, or one row that stands for all, with the targets of `mean`."""
    rows = values.shape[0] if values.ndim == mean.ndim else 1
    return jnp.broadcast_to(values, (rows, *mean.shape[1:]))


def sum_targets(terms: Float[Array, "n ..."]) -> Float[Array, " n"]:
    return terms.reshape(len(terms), -1).sum(axis=1)


def positive_mean(outputs: Array) -> Array:
    """e^f, the mean of counts; from e^60 on it grows by a straight line of the same slope.

    No count is as large, and a step that went too far meets a large number instead of an infinite
    one, from which there is no way back.
    """
    low = jnp.minimum(outputs, LARGEST_LOG_MEAN)
    return jnp.exp(low) * (1 + jnp.maximum(outputs - LARGEST_LOG_MEAN, 0.0))


def diagonal(values: Float[Array, "n ..."]) -> Float[Array, "n d d"]:
    """A diagonal matrix for every row, of its values one after the other."""
    values = values.reshape(len(values), -1)
    return values[:, :, None] * jnp.eye(values.shape[1], dtype=values.dtype)


def checked_labels(y: Any, num_classes: int) -> np.ndarray:
    """Class numbers 0 … num_classes − 1."""
    y = np.asarray(y)
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        raise CredoError(
            f"labels must be a vector of integers 0 … {num_classes - 1}, "
            f"got {y.dtype} of shape {y.shape}"
        )
    if y.size and (y.min() < 0 or y.max() >= num_classes):
        raise CredoError(
            f"labels must lie in 0 … {num_classes - 1}, got {y.min()} … {y.max()}; "
            "set the number of classes of the likelihood to match"
        )
    return y.astype(np.int32)


def checked_values(y: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Finite numbers, `shape` of them a row."""
    y = np.asarray(y)
    if not all_finite(y):
        raise CredoError("targets must be finite numbers; remove or mend NaN and infinite values")
    if y.shape[1:] != shape:
        y = y.reshape(len(y), -1)
        if y.shape[1] != math.prod(shape):
            raise CredoError(
                f"the likelihood expects {math.prod(shape)} target(s) a row, got {y.shape[1]}"
            )
    return y.reshape(len(y), *shape).astype(float)  # integers beyond 32 bits would wrap around


def checked_counts(y: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Whole numbers from 0."""
    y = checked_values(y, shape)
    if y.size and (y.min() < 0 or np.any(y != np.floor(y))):
        wrong = y[(y < 0) | (y != np.floor(y))].flat[0]
        raise CredoError(
            f"counts must be whole numbers from 0, got {wrong:g}; give them as they are, neither "
            "shifted nor scaled"
        )
    return y


def all_finite(values: np.ndarray | Array) -> bool:
    """Whether an array holds real numbers, none NaN, infinite or beyond the working precision."""
    if not (values.dtype.kind in "biuf" or jnp.issubdtype(values.dtype, jnp.floating)):
        return False
    limit = float(jnp.finfo(jnp.result_type(float)).max)
    # Not isfinite, which makes an array as long; a NaN passes no comparison.
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    return -limit <= low and high <= limit
