"""Quantities with normal noise, whose scale is known, learned, or given by the network."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.fields import between, check_fields
from credo.model.likelihoods.likelihood import (
    Likelihood,
    Summary,
    check_choice,
    check_targets,
    checked_values,
    diagonal,
    own_shape,
    rows_of,
    sum_targets,
    target_shape,
)
from credo.model.mixtures import LOG_2PI_E, MixturePredictive

LOG_2PI = float(np.log(2 * np.pi))
INITIAL_LOG_SCALE = -1.0
MINIMUM_SCALE = 1e-3  # a noise scale that depends on the input may not collapse onto a row
SCALES = ("learned", "by_input")


@dataclass(frozen=True)
class Normal(Likelihood):
    """p(y | f) = N(f, σ²), for one or several targets a row, or an array of them.

    σ is a number where the noise is known; "learned", one for each target (or for a whole array)
    with log σ ~ N(0, 1), which suits standardized targets; or "by_input": the network has a second
    output for each target, σ(x) = softplus(f₂). Given a shape (28, 28, 1), the targets are images,
    and with a scale by input the last axis of the outputs holds means first, then scales.

    With β above 0 and a scale by input, methods that optimise weigh each row's term by σ(x)^{2β}
    over its mean in the batch, held fixed in the gradient: rows that the network thinks noisy are
    then not given up, and means come out better. 0.5 is a good value. Samplers, Laplace and
    evaluation need a density, and do without.

    Reference: Seitzer, Tavakoli, Antic & Martius, On the Pitfalls of Heteroscedastic Uncertainty
    Estimation with Probabilistic Neural Networks, ICLR 2022.

    Example:
        >>> from credo.likelihoods import Normal
        >>> Normal(scale=0.1), Normal("by_input").num_outputs
        (Normal(scale=0.1, num_targets=1, beta=0.0), 2)
        >>> Normal()
        Normal(scale='learned', num_targets=1, beta=0.0)
    """

    scale: float | str = "learned"
    """A known standard deviation, "learned", or "by_input"."""
    num_targets: int | tuple[int, ...] = 1
    """Targets of a row, or the shape of an array of them."""
    beta: float = 0.0
    """β of the weights of training with a scale by input."""

    def __post_init__(self) -> None:
        check_fields(self, beta=between(0, 1))
        check_targets(self)
        check_choice(self, "scale", SCALES)

    @property
    def is_known(self) -> bool:
        """Whether the noise is known."""
        return not isinstance(self.scale, str)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return scaled_shape(self.num_targets, self.scale)

    def init(self) -> dict[str, Array]:
        if self.scale != "learned":
            return {}
        return {"log_scale": jnp.full(own_shape(self.num_targets), INITIAL_LOG_SCALE)}

    def moments(self, params: dict, outputs: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of y, each (n, targets) or broadcastable to it."""
        return location_and_scale(self.scale, params, outputs)

    def log_prob(self, params: dict, outputs: Float[Array, "n ..."], y: Float[Array, "n ..."]):
        return sum_targets(normal_log_probs(*self.moments(params, outputs), y))

    def training_terms(
        self, params: dict, outputs: Array, y: Array, is_real: Array | None
    ) -> Float[Array, " n"]:
        if self.scale != "by_input":
            return self.log_prob(params, outputs, y)
        mean, scale = self.moments(params, outputs)
        weights = jax.lax.stop_gradient(scale ** (2 * self.beta))
        # Over their mean, or the prior would weigh more.
        where = None if is_real is None else is_real.reshape(-1, *[1] * (mean.ndim - 1))
        weights /= jnp.mean(weights, axis=0, where=where)
        return sum_targets(weights * normal_log_probs(mean, scale, y))

    def fisher_root(self, params: dict, outputs: Float[Array, "n ..."]) -> Float[Array, "n d d"]:
        return scaled_fisher_root(self.scale, params, outputs, 1.0, 2.0)

    def parameter_fisher(self, params: dict, outputs: Array) -> dict[str, Array]:
        return {name: scale_fisher(value, outputs, 2.0) for name, value in params.items()}

    def check(self, y: Any) -> np.ndarray:
        return checked_values(y, target_shape(self.num_targets))

    def gradient_scale(self) -> Any:
        if isinstance(self.scale, str):
            return 1.0
        return jnp.minimum(1.0, jnp.square(self.scale))  # the curvature is that of σ = 1 over σ²

    def summarize(self, params: dict, outputs: Array) -> Summary:
        mean, scale = self.moments(params, outputs)
        return {}, {"means": mean, "scales": rows_of(scale, mean)}

    def predictive(self, averaged: dict, kept: dict) -> "NormalPredictive":
        return NormalPredictive(kept["means"], kept["scales"])


@dataclass(frozen=True, repr=False)
class NormalPredictive(MixturePredictive):
    """The posterior predictive of a regression: an equal mixture of one normal per draw."""

    means: Float[np.ndarray, "s n ..."]
    scales: Float[np.ndarray, "s rows ..."]
    """One row where the noise does not depend on x."""

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.means, self.scales

    def _moments(self, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        means, scales = arrays
        return means, np.broadcast_to(scales**2, means.shape)

    def _log_probs(self, y: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        means, scales = arrays
        return -0.5 * ((y - means) / scales) ** 2 - np.log(scales) - 0.5 * LOG_2PI

    def _cdfs(self, y: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        from scipy.special import ndtr

        means, scales = arrays
        return ndtr((y - means) / scales)

    def _draws(self, random: np.random.Generator, *arrays: np.ndarray) -> np.ndarray:
        return random.normal(*arrays)

    def _entropies(self, *arrays: np.ndarray) -> np.ndarray:
        means, scales = arrays
        return np.broadcast_to(np.log(scales) + 0.5 * LOG_2PI_E, means.shape)

    def _quantiles(self, q: float, *arrays: np.ndarray) -> np.ndarray:
        means, scales = arrays
        # Single precision is enough once a target's large mean is out of the way.
        center, unit = means.mean(axis=0), scales.max(axis=0) + np.ptp(means, axis=0)
        weights = self._weights(len(means))
        standard = mixture_quantile((means - center) / unit, scales / unit, q, weights)
        return center + unit * np.asarray(standard)

    def rescaled(self, shift: Any, factor: Any) -> "NormalPredictive":
        """The predictive of shift + factor · y: back from standardized targets to their units."""
        precision = np.result_type(shift, factor, self.means)
        means = np.multiply(factor, self.means, dtype=precision)
        means += shift
        return replace(self, means=means, scales=factor * self.scales)


def scaled_shape(num_targets: int | tuple[int, ...], scale: Any) -> tuple[int, ...]:
    """Shape of the outputs of a law with location and scale."""
    shape = target_shape(num_targets)
    return (*shape[:-1], 2 * shape[-1]) if isinstance(scale, str) and scale == "by_input" else shape


def location_and_scale(scale: Any, params: dict, outputs: Array) -> tuple[Array, Array]:
    """Both of such a law, each (n, *targets) or broadcastable to it."""
    if not isinstance(scale, str):
        return outputs, jnp.asarray(scale, outputs.dtype)
    if scale == "learned":
        return outputs, jnp.exp(params["log_scale"])
    location, raw = jnp.split(outputs, 2, axis=-1)
    return location, jax.nn.softplus(raw) + MINIMUM_SCALE


def scaled_fisher_root(
    scale: Any, params: dict, outputs: Array, of_location: Any, of_log_scale: Any
) -> Float[Array, "n k k"]:
    """From the Fisher information of unit noise about the location and about log σ."""
    location, noise = location_and_scale(scale, params, outputs)
    roots = jnp.broadcast_to(jnp.sqrt(of_location) / noise, location.shape)
    if isinstance(scale, str) and scale == "by_input":
        slope = jax.nn.sigmoid(jnp.split(outputs, 2, axis=-1)[1])
        of_raw = jnp.broadcast_to(jnp.sqrt(of_log_scale) * slope / noise, location.shape)
        roots = jnp.concatenate([roots, of_raw], axis=-1)
    return diagonal(roots)


def scale_fisher(log_scale: Array, outputs: Array, of_log_scale: Any) -> Float[Array, "1 ..."]:
    """Of log σ, one for each target or one that all share."""
    shared = outputs[0].size // log_scale.size
    return jnp.broadcast_to(shared * of_log_scale, log_scale.shape)[None]


@jax.jit
def mixture_quantile(means: Array, scales: Array, q: float, weights: Array) -> Array:
    """Newton's steps on F(x) = q, or a halving of the bracket where a step would leave it."""

    def improve(carry):
        low, high, x, _, count = carry
        z = (x - means) / scales
        excess = jnp.tensordot(weights, jax.scipy.stats.norm.cdf(z), 1) - q
        density = jnp.tensordot(weights, jax.scipy.stats.norm.pdf(z) / scales, 1)
        low, high = jnp.where(excess < 0, x, low), jnp.where(excess < 0, high, x)
        newton = x - excess / density
        inside = (newton > low) & (newton < high)
        # Where F(x) is q up to rounding, the next step would only follow the rounding.
        new = jnp.where(inside, newton, 0.5 * (low + high))
        settled = jnp.abs(excess) < rounding
        return low, high, jnp.where(settled, x, new), jnp.all(settled), count + 1

    rounding = 20 * jnp.finfo(means.dtype).eps
    spread = jnp.sqrt(jnp.mean(jnp.square(scales), axis=0) + jnp.var(means, axis=0))
    low, high = jnp.min(means - 10 * scales, axis=0), jnp.max(means + 10 * scales, axis=0)
    guess = jnp.mean(means, axis=0) + jax.scipy.stats.norm.ppf(q) * spread
    carry = (low, high, jnp.clip(guess, low, high), jnp.asarray(False), 0)
    return jax.lax.while_loop(lambda c: ~c[3] & (c[4] < 60), improve, carry)[2]


def normal_log_probs(mean: Array, scale: Array, y: Array) -> Array:
    standardized = (y.reshape(mean.shape) - mean) / scale
    return -0.5 * standardized**2 - jnp.log(scale) - 0.5 * LOG_2PI
