"""Counts whose variance is their mean."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from credo.model.likelihoods.likelihood import (
    Likelihood,
    Summary,
    check_targets,
    checked_counts,
    diagonal,
    positive_mean,
    sum_targets,
    target_shape,
)
from credo.model.mixtures import CountPredictive


@dataclass(frozen=True)
class Poisson(Likelihood):
    """p(y | f) = λ^y e^{−λ} / y!,  λ = e^f: counts of events, whose mean and variance are λ.

    The network gives the log of the rate. Counts that vary more than that around their mean, as
    most do, ask for `NegativeBinomial`.

    Reference: McCullagh & Nelder, Generalized Linear Models, 1989, chapter 6.

    Example:
        >>> import credo, numpy as np
        >>> x = np.linspace(-1, 1, 200)[:, None]
        >>> y = np.random.default_rng(0).poisson(np.exp(1 + x[:, 0]))
        >>> model = credo.Model(credo.networks.MLP(hidden=()), credo.likelihoods.Poisson())
        >>> method = credo.Laplace("full", num_steps=300, learning_rate=0.03)
        >>> posterior = credo.fit(model, (x, y), method)
        >>> low, high = credo.predict(posterior, x).interval(0.9)
        >>> bool(np.mean((low <= y) & (y <= high)) > 0.85)
        True
    """

    num_targets: int | tuple[int, ...] = 1
    """Counts of a row, or the shape of an array of them."""

    def __post_init__(self) -> None:
        check_targets(self)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return target_shape(self.num_targets)

    def log_prob(self, params: dict, outputs: Float[Array, "n ..."], y: Float[Array, "n ..."]):
        y = y.reshape(outputs.shape)
        return sum_targets(y * outputs - positive_mean(outputs) - gammaln(y + 1))

    def fisher_root(self, params: dict, outputs: Float[Array, "n ..."]) -> Float[Array, "n d d"]:
        return diagonal(jnp.sqrt(positive_mean(outputs)))

    def check(self, y: Any) -> np.ndarray:
        return checked_counts(y, target_shape(self.num_targets))

    def summarize(self, params: dict, outputs: Array) -> Summary:
        return {}, {"rates": positive_mean(outputs)}

    def predictive(self, averaged: dict, kept: dict) -> "PoissonPredictive":
        return PoissonPredictive(kept["rates"])


@dataclass(frozen=True, repr=False)
class PoissonPredictive(CountPredictive):
    """An equal mixture of one Poisson law per draw."""

    rates: Float[np.ndarray, "s n ..."]

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return (self.rates,)

    def _moments(self, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        (rates,) = arrays
        return rates, rates

    def _log_probs(self, y: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        from scipy.special import gammaln, xlogy

        (rates,) = arrays
        return xlogy(y, rates) - rates - gammaln(y + 1)

    def _cdfs(self, y: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        from scipy.special import pdtr

        (rates,) = arrays
        return np.where(y < 0, 0.0, pdtr(np.maximum(np.floor(y), 0), rates))

    def _draws(self, random: np.random.Generator, *arrays: np.ndarray) -> np.ndarray:
        return random.poisson(*arrays)
