"""Quantities with outliers: noise of Student's t, whose tails are heavier than the normal's."""

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, polygamma
from jaxtyping import Array, Float

from credo.errors import CredoError
from credo.model.likelihoods.likelihood import (
    Likelihood,
    Summary,
    check_choice,
    check_targets,
    checked_values,
    own_shape,
    rows_of,
    sum_targets,
    target_shape,
)
from credo.model.likelihoods.normal import (
    INITIAL_LOG_SCALE,
    SCALES,
    location_and_scale,
    scale_fisher,
    scaled_fisher_root,
    scaled_shape,
)
from credo.model.mixtures import MixturePredictive

LEAST_DEGREES = 2.0  # below, a prediction would have no variance
INITIAL_DEGREES = 4.0


@dataclass(frozen=True)
class StudentT(Likelihood):
    """p(y | f) = t_ν((y − f) / σ) / σ, for quantities of which some are far off.

    An error of z standard deviations costs (ν + 1)/2 · log(1 + z²/ν) instead of z²/2, so that a few
    wrong rows do not bend the function. σ is known, learned or given by the network as that of
    `Normal`; it is the scale, and the standard deviation is σ √(ν/(ν − 2)). The degrees of freedom
    ν are a number above 2, or "learned", with log(ν − 2) ~ N(0, 1).

    Reference: Lange, Little & Taylor, Robust Statistical Modeling Using the t Distribution,
    Journal of the American Statistical Association, 1989.

    Example:
        >>> import credo, numpy as np
        >>> x = np.linspace(-1, 1, 40)[:, None]
        >>> y = x[:, 0].copy()
        >>> y[::10] += 20.0
        >>> model = credo.Model(credo.networks.MLP(hidden=()), credo.likelihoods.StudentT())
        >>> posterior = credo.fit(model, (x, y), credo.MAP(num_steps=300, learning_rate=0.03))
        >>> bool(abs(credo.predict(posterior, x).mean - x[:, 0]).max() < 0.3)
        True
    """

    scale: float | str = "learned"
    """A known scale σ, "learned", or "by_input"."""
    degrees: float | str = INITIAL_DEGREES
    """Degrees of freedom ν, above 2, or "learned"."""
    num_targets: int | tuple[int, ...] = 1
    """Targets of a row, or the shape of an array of them."""

    def __post_init__(self) -> None:
        check_targets(self)
        check_choice(self, "scale", SCALES)
        check_choice(self, "degrees", ("learned",))
        if not isinstance(self.degrees, str) and self.degrees <= LEAST_DEGREES:
            raise CredoError(
                "StudentT: degrees must be greater than 2, or predictions have no variance, got "
                f"{self.degrees}"
            )

    @property
    def output_shape(self) -> tuple[int, ...]:
        return scaled_shape(self.num_targets, self.scale)

    def init(self) -> dict[str, Array]:
        shape = own_shape(self.num_targets)
        params = {}
        if isinstance(self.scale, str) and self.scale == "learned":
            params["log_scale"] = jnp.full(shape, INITIAL_LOG_SCALE)
        if isinstance(self.degrees, str):
            excess = np.log(INITIAL_DEGREES - LEAST_DEGREES)
            params["log_excess_degrees"] = jnp.full(shape, float(excess))
        return params

    def law(self, params: dict, outputs: Array) -> tuple[Array, Array, Array]:
        """Location, scale and degrees of freedom, (n, *targets) or broadcastable to it."""
        location, scale = location_and_scale(self.scale, params, outputs)
        return location, scale, self._degrees(params, outputs)

    def _degrees(self, params: dict, outputs: Array) -> Array:
        if isinstance(self.degrees, str):
            return LEAST_DEGREES + jnp.exp(params["log_excess_degrees"])
        return jnp.asarray(self.degrees, outputs.dtype)

    def log_prob(self, params: dict, outputs: Float[Array, "n ..."], y: Float[Array, "n ..."]):
        location, scale, degrees = self.law(params, outputs)
        standardized = (y.reshape(location.shape) - location) / scale
        constant = gammaln((degrees + 1) / 2) - gammaln(degrees / 2)
        constant = constant - 0.5 * jnp.log(jnp.pi * degrees) - jnp.log(scale)
        tails = -0.5 * (degrees + 1) * jnp.log1p(standardized**2 / degrees)
        return sum_targets(constant + tails)

    def fisher_root(self, params: dict, outputs: Float[Array, "n ..."]) -> Float[Array, "n d d"]:
        degrees = self._degrees(params, outputs)
        of_location = (degrees + 1) / (degrees + 3)
        of_log_scale = 2 * degrees / (degrees + 3)
        return scaled_fisher_root(self.scale, params, outputs, of_location, of_log_scale)

    def parameter_fisher(self, params: dict, outputs: Array) -> dict[str, Array]:
        degrees = self._degrees(params, outputs)
        found = {}
        if "log_scale" in params:
            of_log_scale = 2 * degrees / (degrees + 3)
            found["log_scale"] = scale_fisher(params["log_scale"], outputs, of_log_scale)
        if "log_excess_degrees" in params:
            of_degrees = 0.25 * (polygamma(1, degrees / 2) - polygamma(1, (degrees + 1) / 2))
            of_degrees -= (degrees + 5) / (2 * degrees * (degrees + 1) * (degrees + 3))
            of_log_excess = of_degrees * (degrees - LEAST_DEGREES) ** 2
            log_excess = params["log_excess_degrees"]
            found["log_excess_degrees"] = scale_fisher(log_excess, outputs, of_log_excess)
        return found

    def check(self, y: Any) -> np.ndarray:
        return checked_values(y, target_shape(self.num_targets))

    def gradient_scale(self) -> Any:
        return 1.0 if isinstance(self.scale, str) else jnp.minimum(1.0, jnp.square(self.scale))

    def summarize(self, params: dict, outputs: Array) -> Summary:
        location, scale, degrees = self.law(params, outputs)
        kept = {"locations": location, "scales": scale, "degrees": degrees}
        return {}, {name: rows_of(part, location) for name, part in kept.items()}

    def predictive(self, averaged: dict, kept: dict) -> "StudentTPredictive":
        return StudentTPredictive(**kept)


@dataclass(frozen=True, repr=False)
class StudentTPredictive(MixturePredictive):
    """An equal mixture of one Student-t law per draw."""

    locations: Float[np.ndarray, "s n ..."]
    scales: Float[np.ndarray, "s rows ..."]
    degrees: Float[np.ndarray, "s rows ..."]

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.locations, self.scales, self.degrees

    def _moments(self, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        locations, scales, degrees = arrays
        variances = scales**2 * degrees / (degrees - 2)
        return locations, np.broadcast_to(variances, locations.shape)

    def _log_probs(self, y: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        from scipy.special import gammaln

        locations, scales, degrees = arrays
        constant = gammaln((degrees + 1) / 2) - gammaln(degrees / 2)
        constant = constant - 0.5 * np.log(np.pi * degrees) - np.log(scales)
        standardized = (y - locations) / scales
        return constant - 0.5 * (degrees + 1) * np.log1p(standardized**2 / degrees)

    def _cdfs(self, y: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        from scipy.special import stdtr

        locations, scales, degrees = arrays
        return stdtr(degrees, (y - locations) / scales)

    def _draws(self, random: np.random.Generator, *arrays: np.ndarray) -> np.ndarray:
        locations, scales, degrees = arrays
        drawn = random.standard_t(np.broadcast_to(degrees, locations.shape))
        return locations + scales * drawn

    def _entropies(self, *arrays: np.ndarray) -> np.ndarray:
        from scipy.special import betaln, digamma

        locations, scales, degrees = arrays
        half = (degrees + 1) / 2
        entropies = half * (digamma(half) - digamma(degrees / 2)) + 0.5 * np.log(degrees)
        entropies = entropies + betaln(degrees / 2, 0.5) + np.log(scales)
        return np.broadcast_to(entropies, locations.shape)

    def rescaled(self, shift: Any, factor: Any) -> "StudentTPredictive":
        """The predictive of shift + factor · y."""
        return replace(self, locations=shift + factor * self.locations, scales=factor * self.scales)
