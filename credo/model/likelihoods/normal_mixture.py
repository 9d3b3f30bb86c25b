"""Quantities whose noise is a mixture of normals, each part by the input."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.fields import COUNT, POSITIVE, check_fields
from credo.model.likelihoods.likelihood import Likelihood, Summary, checked_values
from credo.model.likelihoods.normal import LOG_2PI
from credo.model.mixtures import MixturePredictive

MIN_SCALE = 0.0025  # of standardized targets
MAX_LOG_SCALE = 3.0
NUM_NODES = 24  # of a quadrature over one normal


@dataclass(frozen=True)
class NormalMixture(Likelihood):
    """p(y | f) = Σ_k w_k N(y | m_k, s_k²), for one target a row, which should be standardized.

    Of the 3 K outputs the first K are the logits of w, then come m and log s. Noise of any shape
    that depends on the input: skewed, heavy-tailed, with two peaks.

    Reference: Bishop, Mixture Density Networks, 1994.

    Example:
        >>> from credo.likelihoods import NormalMixture
        >>> NormalMixture(num_parts=3).num_outputs
        9
    """

    num_parts: int = 3
    """K, normals of the mixture."""
    min_scale: float = MIN_SCALE
    """Smallest s, in units of the targets: a part may not collapse onto a row. Where targets are
    rounded to steps of r, r / √12 keeps parts from spiking at the values that occur."""

    def __post_init__(self) -> None:
        check_fields(self, num_parts=COUNT, min_scale=POSITIVE)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (3 * self.num_parts,)

    def parts(self, outputs: Array) -> tuple[Array, Array, Array]:
        """Log weights, means and scales, each (n, K)."""
        logits, means, log_scales = jnp.split(outputs, 3, axis=-1)
        scales = jnp.maximum(jnp.exp(jnp.minimum(log_scales, MAX_LOG_SCALE)), self.min_scale)
        return jax.nn.log_softmax(logits), means, scales

    def log_prob(self, params: dict, outputs: Float[Array, "n k"], y: Array) -> Float[Array, " n"]:
        log_weights, means, scales = self.parts(outputs)
        z = (y.reshape(-1, 1) - means) / scales
        return jax.nn.logsumexp(log_weights - 0.5 * z**2 - jnp.log(scales) - 0.5 * LOG_2PI, axis=-1)

    def check(self, y: Any) -> np.ndarray:
        return checked_values(y, (1,))

    def summarize(self, params: dict, outputs: Array) -> Summary:
        names = ("log_weights", "means", "scales")
        return {}, {n: part[:, None] for n, part in zip(names, self.parts(outputs))}

    def predictive(self, averaged: dict, kept: dict) -> "NormalMixturePredictive":
        return NormalMixturePredictive(kept["means"], kept["scales"], kept["log_weights"])


@dataclass(frozen=True, repr=False)
class NormalMixturePredictive(MixturePredictive):
    """A mixture over draws of mixtures of normals."""

    means: Float[np.ndarray, "s n 1 k"]
    scales: Float[np.ndarray, "s n 1 k"]
    log_weights: Float[np.ndarray, "s n 1 k"]

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.means, self.scales, self.log_weights

    @property
    def target_shape(self) -> tuple[int, ...]:
        return (1,)

    def _moments(self, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        means, scales, log_weights = arrays
        weights = np.exp(log_weights)
        mean = (weights * means).sum(axis=-1)
        return mean, (weights * (scales**2 + (means - mean[..., None]) ** 2)).sum(axis=-1)

    def _log_probs(self, y: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        means, scales, log_weights = arrays
        z = (y[..., None] - means) / scales
        terms = log_weights - 0.5 * z**2 - np.log(scales) - 0.5 * LOG_2PI
        top = terms.max(axis=-1)
        return top + np.log(np.exp(terms - top[..., None]).sum(axis=-1))

    def _cdfs(self, y: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        from scipy.special import ndtr

        means, scales, log_weights = arrays
        return (np.exp(log_weights) * ndtr((y[..., None] - means) / scales)).sum(axis=-1)

    def _draws(self, random: np.random.Generator, *arrays: np.ndarray) -> np.ndarray:
        means, scales, log_weights = arrays
        ends = np.cumsum(np.exp(log_weights), axis=-1)
        chosen = (random.random(ends.shape[:-1])[..., None] > ends[..., :-1]).sum(axis=-1)
        picked = [np.take_along_axis(a, chosen[..., None], -1)[..., 0] for a in (means, scales)]
        return random.normal(*picked)

    @property
    def expected_entropy(self) -> np.ndarray:
        return self._entropy_and_information[0]

    @property
    def mutual_information(self) -> np.ndarray:
        """I(y; θ) = E_s KL(p_s ‖ p̄), by quadrature over every normal."""
        return self._entropy_and_information[1]

    @cached_property
    def _entropy_and_information(self) -> tuple[np.ndarray, np.ndarray]:
        both = self._by_rows(lambda *a: np.stack(self._sums(*a), axis=1))
        return both[:, 0, 0], both[:, 1, 0]

    def _sums(self, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """E_s H[p_s] and I(y; θ) of every row."""
        means, scales, log_weights = arrays
        nodes, masses = np.polynomial.hermite_e.hermegauss(NUM_NODES)
        masses = masses / masses.sum()
        entropies, divergences = np.zeros(means.shape[:-1]), np.zeros(means.shape[:-1])
        for part in range(means.shape[-1]):
            weight = np.exp(log_weights[..., part])
            for node, mass in zip(nodes, masses):
                y = means[..., part] + node * scales[..., part]  # (draw, row, 1)
                own = self._log_probs(y, *arrays)
                # Relative to the own law, so that equal draws give exactly 0.
                others = [self._log_probs(point, *arrays) - log for point, log in zip(y, own)]
                mixed = np.stack([np.log(self._over_draws(np.exp(each))) for each in others])
                entropies -= mass * weight * own
                divergences -= mass * weight * mixed
        entropy, information = self._over_draws(entropies), self._over_draws(divergences)
        return entropy, np.maximum(information, 0.0)

    def rescaled(self, shift: Any, factor: Any) -> "NormalMixturePredictive":
        """The predictive of shift + factor · y."""
        shift, factor = (np.asarray(part, np.float64).reshape(-1)[0] for part in (shift, factor))
        return replace(self, means=shift + factor * self.means, scales=factor * self.scales)
