"""Several quantities of a row whose noise goes together."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.fields import COUNT, check_fields
from credo.model.likelihoods.likelihood import Likelihood, Summary, checked_values
from credo.model.likelihoods.normal import INITIAL_LOG_SCALE, LOG_2PI, NormalPredictive
from credo.model.mixtures import LOG_2PI_E, MixturePredictive


@dataclass(frozen=True)
class MultivariateNormal(Likelihood):
    """p(y | f) = N(f, L Lᵀ): several targets whose noise has a full covariance.

    L is lower triangular and learned: the logs of its diagonal and the entries below are N(0, 1) a
    priori, which suits standardized targets. A prediction keeps the covariance of each draw, so
    that draws from it go together as the targets of a row do.

    Reference: Williams, Modelling uncertainty with conditional normal densities, 1996 (there L of
    the inverse, given by the network).

    Example:
        >>> import credo, numpy as np
        >>> random = np.random.default_rng(0)
        >>> x = random.normal(size=(300, 1))
        >>> y = x + random.multivariate_normal([0, 0], [[1.0, 0.8], [0.8, 1.0]], 300)
        >>> likelihood = credo.likelihoods.MultivariateNormal(2)
        >>> model = credo.Model(credo.networks.MLP(hidden=()), likelihood)
        >>> posterior = credo.fit(model, (x, y), credo.MAP(num_steps=300, learning_rate=0.03))
        >>> covariance = credo.predict(posterior, x).covariance[0]
        >>> bool(0.5 < covariance[0, 1] < 1.1)
        True
    """

    num_targets: int
    """Targets of a row."""

    def __post_init__(self) -> None:
        check_fields(self, num_targets=COUNT)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (self.num_targets,)

    def init(self) -> dict[str, Array]:
        params = {"log_diagonal": jnp.full(self.num_targets, INITIAL_LOG_SCALE)}
        below = self.num_targets * (self.num_targets - 1) // 2
        return params | {"below": jnp.zeros(below)} if below else params

    def factor(self, params: dict) -> Float[Array, "d d"]:
        """L."""
        factor = jnp.diag(jnp.exp(params["log_diagonal"]))
        if self.num_targets == 1:
            return factor
        return factor.at[jnp.tril_indices(self.num_targets, -1)].set(params["below"])

    def log_prob(self, params: dict, outputs: Float[Array, "n d"], y: Float[Array, "n ..."]):
        residuals = y.reshape(outputs.shape) - outputs
        factor = self.factor(params)
        whitened = jax.scipy.linalg.solve_triangular(factor, residuals.T, lower=True)
        log_volume = jnp.sum(params["log_diagonal"]) + 0.5 * self.num_targets * LOG_2PI
        return -0.5 * jnp.sum(whitened**2, axis=0) - log_volume

    def fisher_root(self, params: dict, outputs: Float[Array, "n d"]) -> Float[Array, "n d d"]:
        """L⁻ᵀ."""
        root = self._inverse(params).T
        return jnp.broadcast_to(root, (len(outputs), *root.shape))

    def parameter_fisher(self, params: dict, outputs: Array) -> dict[str, Array]:
        """1 + L_ii² (Σ⁻¹)_ii of log L_ii, and (Σ⁻¹)_ii of L_ij below the diagonal."""
        precision = jnp.sum(self._inverse(params) ** 2, axis=0)
        found = {"log_diagonal": (1 + jnp.exp(2 * params["log_diagonal"]) * precision)[None]}
        if self.num_targets == 1:
            return found
        return found | {"below": precision[jnp.tril_indices(self.num_targets, -1)[0]][None]}

    def _inverse(self, params: dict) -> Float[Array, "d d"]:
        factor = self.factor(params)
        unit = jnp.eye(self.num_targets, dtype=factor.dtype)
        return jax.scipy.linalg.solve_triangular(factor, unit, lower=True)

    def check(self, y: Any) -> np.ndarray:
        return checked_values(y, (self.num_targets,))

    def summarize(self, params: dict, outputs: Array) -> Summary:
        return {}, {"means": outputs, "factors": self.factor(params)[None]}

    def predictive(self, averaged: dict, kept: dict) -> "MultivariateNormalPredictive":
        return MultivariateNormalPredictive(**kept)


@dataclass(frozen=True, repr=False)
class MultivariateNormalPredictive(MixturePredictive):
    """An equal mixture of one multivariate normal per draw.

    Moments, cdf, quantiles and intervals are of each target on its own; the density, draws,
    entropies and information are of all targets of a row together.
    """

    means: Float[np.ndarray, "s n d"]
    factors: Float[np.ndarray, "s 1 d d"]
    """L of the noise of each draw, Σ = L Lᵀ."""

    @cached_property
    def scales(self) -> Float[np.ndarray, "s 1 d"]:
        """Standard deviation of the noise of each target."""
        return np.sqrt(np.sum(self.factors.astype(float) ** 2, axis=-1))

    @property
    def marginals(self) -> NormalPredictive:
        """Each target on its own."""
        return NormalPredictive(self.means, self.scales).weighted(self.draw_weights)

    @property
    def covariance(self) -> Float[np.ndarray, "n d d"]:
        """Cov[y | x] of the targets: that of the noise and that of the means over draws."""

        def of_block(means: np.ndarray, factors: np.ndarray, scales: np.ndarray) -> np.ndarray:
            return self._over_draws(_product(factors)) + self._covariance(means)

        return self._by_rows(of_block)

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.means, self.factors, self.scales

    def _moments(self, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        means, _, scales = arrays
        return means, np.broadcast_to(scales**2, means.shape)

    def _log_probs(self, y: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        means, factors, _ = arrays
        inverses = np.linalg.inv(factors[:, 0])
        whitened = np.einsum("sij,snj->sni", inverses, y - means)
        log_volumes = _log_volume(factors) + 0.5 * means.shape[-1] * LOG_2PI
        return (-0.5 * np.sum(whitened**2, axis=-1) - log_volumes)[..., None]

    def _cdfs(self, y: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        means, _, scales = arrays
        return self.marginals._cdfs(y, means, scales)

    def _draws(self, random: np.random.Generator, *arrays: np.ndarray) -> np.ndarray:
        means, factors, _ = arrays
        return means + np.einsum("nij,nj->ni", factors, random.normal(size=means.shape))

    def _entropies(self, *arrays: np.ndarray) -> np.ndarray:
        means, factors, _ = arrays
        entropies = _log_volume(factors) + 0.5 * means.shape[-1] * LOG_2PI_E
        return np.broadcast_to(entropies, means.shape[:2])[..., None]

    def _quantiles(self, q: float, *arrays: np.ndarray) -> np.ndarray:
        means, _, scales = arrays
        return self.marginals._quantiles(q, means, scales)

    @property
    def mutual_information(self) -> np.ndarray:
        """½ log |Cov(y)| − E_s ½ log |Cov(y | θ_s)|: an upper bound of I(y; θ)."""

        def of_block(means: np.ndarray, factors: np.ndarray, scales: np.ndarray) -> np.ndarray:
            noises = _product(factors)
            noise = self._over_draws(noises)
            unit = np.eye(means.shape[-1])
            growth = np.linalg.slogdet(unit + np.linalg.solve(noise, self._covariance(means)))[1]
            logs = np.linalg.slogdet(noises)[1] - np.linalg.slogdet(noise)[1]
            return 0.5 * (growth - self._over_draws(logs))

        return self._by_rows(of_block)

    def _covariance(self, means: Float[np.ndarray, "s n d"]) -> Float[np.ndarray, "n d d"]:
        """Of the means over draws; exactly 0 where they are equal."""
        shifted = means - means[0]
        centered = shifted - self._over_draws(shifted)
        return np.einsum("s,sni,snj->nij", self._weights(len(means)), centered, centered)

    def rescaled(self, shift: Any, factor: Any) -> "MultivariateNormalPredictive":
        """The predictive of shift + factor · y, target by target."""
        columns = np.broadcast_to(factor, self.means.shape[-1:])[:, None]
        means = shift + factor * self.means
        return MultivariateNormalPredictive(means, columns * self.factors)


def _product(factors: np.ndarray) -> np.ndarray:
    return factors @ np.swapaxes(factors, -1, -2)


def _log_volume(factors: Float[np.ndarray, "s 1 d d"]) -> Float[np.ndarray, "s 1"]:
    return np.log(np.diagonal(factors, axis1=-2, axis2=-1)).sum(axis=-1)
