"""Likelihoods: how network outputs become distributions over targets.

Each says how many outputs it needs per datum, may own parameters (a learnt noise scale), gives the
log density of targets, and turns the outputs of many posterior draws into a predictive summary.

`fisher_root` is R of shape (rows, outputs, columns) with R Rᵀ = E_y[∇ log p(y | f) ∇ log p(y | f)ᵀ]
for every row, the gradient being that with respect to f. Where the outputs are natural parameters
this is also the Hessian of −log p, so that Jᵀ R Rᵀ J is the generalised Gauss–Newton matrix.
`parameter_fisher` is the same, for one datum, of the likelihood's own parameters.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from credo.errors import CredoError

LOG_2PI = float(np.log(2 * np.pi))
MINIMUM_SCALE = 1e-3  # an input-dependent noise scale may not collapse onto a training point


@dataclass(frozen=True)
class Categorical:
    """p(y | f) = softmax(f)_y, for integer labels 0 … num_classes − 1."""

    num_classes: int

    def __post_init__(self) -> None:
        if self.num_classes < 2:
            raise CredoError(f"a classifier needs 2 classes, got num_classes={self.num_classes}")

    @property
    def num_outputs(self) -> int:
        return self.num_classes

    def init(self) -> dict:
        return {}

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

    def parameter_fisher(self, params: dict) -> dict:
        return {}

    def check(self, y: np.ndarray) -> np.ndarray:
        return _checked_labels(y, self.num_classes)


@dataclass(frozen=True)
class Bernoulli:
    """p(y = 1 | f) = sigmoid(f), for labels 0 and 1, with one network output."""

    num_outputs: int = 1
    num_classes: int = 2

    def init(self) -> dict:
        return {}

    def log_prob(self, params: dict, outputs: Float[Array, "n 1"], y: Int[Array, " n"]) -> Array:
        return jax.nn.log_sigmoid(jnp.where(y > 0, outputs[:, 0], -outputs[:, 0]))

    def fisher_root(self, params: dict, outputs: Float[Array, "n 1"]) -> Float[Array, "n 1 1"]:
        return jnp.sqrt(jax.nn.sigmoid(outputs) * jax.nn.sigmoid(-outputs))[:, :, None]

    def parameter_fisher(self, params: dict) -> dict:
        return {}

    def check(self, y: np.ndarray) -> np.ndarray:
        return _checked_labels(y, 2)


@dataclass(frozen=True)
class Normal:
    """p(y | f) = N(f, scale²) with known noise."""

    scale: float = 1.0
    num_outputs: int = 1

    def __post_init__(self) -> None:
        if not self.scale > 0:
            raise CredoError(f"the noise scale must be positive, got scale={self.scale}")

    def init(self) -> dict:
        return {}

    def moments(self, params: dict, outputs: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of y, each (n, targets) or broadcastable to it."""
        return outputs, jnp.asarray(self.scale, outputs.dtype)

    def log_prob(self, params: dict, outputs: Float[Array, "n d"], y: Float[Array, "n ..."]):
        return _normal_log_probs(*self.moments(params, outputs), y).sum(axis=-1)

    def fisher_root(self, params: dict, outputs: Float[Array, "n d"]) -> Float[Array, "n d d"]:
        return _diagonal(jnp.broadcast_to(1 / self.moments(params, outputs)[1], outputs.shape))

    def parameter_fisher(self, params: dict) -> dict:
        return {}

    def check(self, y: np.ndarray) -> np.ndarray:
        return _checked_values(y, self.num_outputs)


@dataclass(frozen=True)
class NormalLearntScale:
    """p(y | f) = N(f, σ²) with one σ per target, learnt with the weights: a priori log σ ~ N(0, 1).

    The prior suits standardised targets, which is what credo trains on by default.
    """

    num_outputs: int = 1

    def init(self) -> dict:
        return {"log_scale": jnp.full(self.num_outputs, -1.0)}

    def moments(self, params: dict, outputs: Array) -> tuple[Array, Array]:
        return outputs, jnp.exp(params["log_scale"])

    def log_prob(self, params: dict, outputs: Float[Array, "n d"], y: Float[Array, "n ..."]):
        return _normal_log_probs(*self.moments(params, outputs), y).sum(axis=-1)

    def fisher_root(self, params: dict, outputs: Float[Array, "n d"]) -> Float[Array, "n d d"]:
        return _diagonal(jnp.broadcast_to(1 / self.moments(params, outputs)[1], outputs.shape))

    def parameter_fisher(self, params: dict) -> dict:
        return {"log_scale": jnp.full_like(params["log_scale"], 2.0)}

    def check(self, y: np.ndarray) -> np.ndarray:
        return _checked_values(y, self.num_outputs)


@dataclass(frozen=True)
class NormalInputScale:
    """p(y | f) = N(f₁, softplus(f₂)²): the network also outputs the noise at each input.

    With β above 0, methods that optimise weigh each row's term by σ(x)^{2β} over its mean in the
    batch, held fixed in the gradient: rows that the network thinks noisy are then not given up, and
    means come out better. 0.5 is a good value. Samplers, Laplace and evaluation need a density, and
    do without.

    Reference: Seitzer, Tavakoli, Antic & Martius, On the Pitfalls of Heteroscedastic Uncertainty
    Estimation with Probabilistic Neural Networks, ICLR 2022.
    """

    num_targets: int = 1
    beta: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.beta <= 1:
            raise CredoError(f"NormalInputScale: beta must lie between 0 and 1, got {self.beta!r}")

    @property
    def num_outputs(self) -> int:
        return 2 * self.num_targets

    def init(self) -> dict:
        return {}

    def moments(self, params: dict, outputs: Array) -> tuple[Array, Array]:
        mean, raw = jnp.split(outputs, 2, axis=-1)
        return mean, jax.nn.softplus(raw) + MINIMUM_SCALE

    def log_prob(self, params: dict, outputs: Float[Array, "n d"], y: Float[Array, "n ..."]):
        return _normal_log_probs(*self.moments(params, outputs), y).sum(axis=-1)

    def training_terms(self, params: dict, outputs: Array, y: Array) -> Float[Array, " n"]:
        """What a method that optimises puts in place of `log_prob`: weighted by β."""
        mean, scale = self.moments(params, outputs)
        weights = jax.lax.stop_gradient(scale ** (2 * self.beta))
        weights /= jnp.mean(weights, axis=0)  # or the prior would weigh more
        return (weights * _normal_log_probs(mean, scale, y)).sum(axis=-1)

    def fisher_root(self, params: dict, outputs: Float[Array, "n d"]) -> Float[Array, "n d d"]:
        _, scale = self.moments(params, outputs)
        slope = jax.nn.sigmoid(jnp.split(outputs, 2, axis=-1)[1])
        return _diagonal(jnp.concatenate([1 / scale, 2**0.5 * slope / scale], axis=-1))

    def parameter_fisher(self, params: dict) -> dict:
        return {}

    def check(self, y: np.ndarray) -> np.ndarray:
        return _checked_values(y, self.num_targets)


Likelihood = Categorical | Bernoulli | Normal | NormalLearntScale | NormalInputScale


def _diagonal(values: Float[Array, "n d"]) -> Float[Array, "n d d"]:
    return values[:, :, None] * jnp.eye(values.shape[1], dtype=values.dtype)


def _normal_log_probs(mean: Array, scale: Array, y: Array) -> Array:
    standardized = (y.reshape(mean.shape) - mean) / scale
    return -0.5 * standardized**2 - jnp.log(scale) - 0.5 * LOG_2PI


def _checked_labels(y: np.ndarray, num_classes: int) -> np.ndarray:
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


def all_finite(values: np.ndarray | Array) -> bool:
    """Whether an array holds real numbers, none NaN, infinite or beyond the working precision."""
    if not (values.dtype.kind in "biuf" or jnp.issubdtype(values.dtype, jnp.floating)):
        return False
    limit = float(jnp.finfo(jnp.result_type(float)).max)
    # Not isfinite, which makes an array as long; a NaN passes no comparison.
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    return -limit <= low and high <= limit


def _checked_values(y: np.ndarray, num_targets: int) -> np.ndarray:
    y = np.asarray(y)
    if not all_finite(y):
        raise CredoError("targets must be finite numbers; remove or mend NaN and infinite values")
    y = y.reshape(len(y), -1)
    if y.shape[1] != num_targets:
        raise CredoError(f"the likelihood expects {num_targets} target(s) a row, got {y.shape[1]}")
    return y.astype(float)  # whole numbers beyond 32 bits would wrap around on the device
