"""Arrays of zeros and ones: pixels of a decoder, several labels of a row."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.errors import CredoError
from credo.model.likelihoods.likelihood import (
    Likelihood,
    Summary,
    check_targets,
    checked_values,
    diagonal,
    sum_targets,
    target_shape,
)
from credo.model.mixtures import CountPredictive


@dataclass(frozen=True)
class BernoulliArray(Likelihood):
    """p(y | f) = Π_i sigmoid(f_i)^{y_i} (1 − sigmoid(f_i))^{1 − y_i}, for y of any shape.

    For the pixels of black-and-white images, (28, 28, 1), and for rows that may have several labels
    at once. One label a row, which predictions name, is `Bernoulli`.

    Reference: Kingma & Welling, Auto-Encoding Variational Bayes, ICLR 2014, appendix C.1.

    Example:
        >>> import credo, numpy as np
        >>> x = np.eye(2).repeat(30, axis=0)
        >>> images = np.stack([np.eye(3), 1 - np.eye(3)]).repeat(30, axis=0)
        >>> likelihood = credo.likelihoods.BernoulliArray((3, 3))
        >>> model = credo.Model(credo.networks.MLP(hidden=(8,)), likelihood)
        >>> method = credo.MAP(num_steps=300, learning_rate=0.03)
        >>> posterior = credo.fit(model, (x, images), method)
        >>> bool(np.array_equal(credo.predict(posterior, x).mean > 0.5, images == 1))
        True
    """

    num_targets: int | tuple[int, ...]
    """Zeros and ones of a row, or the shape of an array of them."""

    def __post_init__(self) -> None:
        check_targets(self)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return target_shape(self.num_targets)

    def log_prob(self, params: dict, outputs: Float[Array, "n ..."], y: Float[Array, "n ..."]):
        signed = jnp.where(y.reshape(outputs.shape) > 0.5, outputs, -outputs)
        return sum_targets(jax.nn.log_sigmoid(signed))

    def fisher_root(self, params: dict, outputs: Float[Array, "n ..."]) -> Float[Array, "n d d"]:
        return diagonal(jnp.sqrt(jax.nn.sigmoid(outputs) * jax.nn.sigmoid(-outputs)))

    def check(self, y: Any) -> np.ndarray:
        y = checked_values(y, target_shape(self.num_targets))
        wrong = (y != 0) & (y != 1)
        if wrong.any():
            raise CredoError(
                f"BernoulliArray: targets must be 0 or 1, got {y[wrong].flat[0]:g}; set a "
                "threshold, such as y > 0.5, or use Normal for gray values"
            )
        return y

    def summarize(self, params: dict, outputs: Array) -> Summary:
        return {}, {"logits": outputs}

    def predictive(self, averaged: dict, kept: dict) -> "BernoulliArrayPredictive":
        return BernoulliArrayPredictive(kept["logits"])


@dataclass(frozen=True, repr=False)
class BernoulliArrayPredictive(CountPredictive):
    """An equal mixture of arrays of independent zeros and ones, one for each draw.

    Entropies and information are sums over the entries, each on its own.
    """

    logits: Float[np.ndarray, "s n ..."]
    """log p/(1 − p) of P(y = 1 | x, θ_s): near 1, a probability has lost what it was."""

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return (self.logits,)

    def _moments(self, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from scipy.special import expit

        (logits,) = arrays
        return expit(logits), expit(logits) * expit(-logits)

    def _log_probs(self, y: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        from scipy.special import log_expit

        (logits,) = arrays
        of_zero = np.where(y == 0, log_expit(-logits), -np.inf)
        return np.where(y == 1, log_expit(logits), of_zero)

    def _cdfs(self, y: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        from scipy.special import expit

        (logits,) = arrays
        return np.where(y < 0, 0.0, np.where(y < 1, expit(-logits), 1.0))

    def _draws(self, random: np.random.Generator, *arrays: np.ndarray) -> np.ndarray:
        from scipy.special import expit

        (logits,) = arrays
        return (random.random(logits.shape) < expit(logits)).astype(int)
