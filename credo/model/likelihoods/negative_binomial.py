"""Counts that vary more than those of a Poisson law."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln
from jaxtyping import Array, Float

from credo.errors import CredoError
from credo.model.likelihoods.likelihood import (
    Likelihood,
    Summary,
    check_choice,
    check_targets,
    checked_counts,
    diagonal,
    own_shape,
    positive_mean,
    rows_of,
    sum_targets,
    target_shape,
)
from credo.model.mixtures import CountPredictive


@dataclass(frozen=True)
class NegativeBinomial(Likelihood):
    """p(y | f) = Γ(y + r)/(Γ(r) y!) · (r/(r + m))^r (m/(r + m))^y,  m = e^f: overdispersed counts.

    The mean is m and the variance m + m²/r: a Poisson law whose rate varies by a gamma law from row
    to row. The network gives the log of the mean. The dispersion r is a number, or "learned", one
    for each target (or for a whole array) with log r ~ N(0, 1); large r is the Poisson law.

    Reference: Hilbe, Negative Binomial Regression, 2011.

    Example:
        >>> import credo, numpy as np
        >>> x = np.linspace(-1, 1, 200)[:, None]
        >>> random = np.random.default_rng(0)
        >>> y = random.poisson(np.exp(1 + x[:, 0]) * random.gamma(2.0, 0.5, 200))
        >>> likelihood = credo.likelihoods.NegativeBinomial()
        >>> model = credo.Model(credo.networks.MLP(hidden=()), likelihood)
        >>> posterior = credo.fit(model, (x, y), credo.MAP(num_steps=300, learning_rate=0.03))
        >>> predicted = credo.predict(posterior, x)
        >>> bool((predicted.variance > 1.2 * predicted.mean).all())
        True
    """

    dispersion: float | str = "learned"
    """A known r of the variance m + m²/r, or "learned"."""
    num_targets: int | tuple[int, ...] = 1
    """Counts of a row, or the shape of an array of them."""

    def __post_init__(self) -> None:
        check_targets(self)
        check_choice(self, "dispersion", ("learned",))

    @property
    def output_shape(self) -> tuple[int, ...]:
        return target_shape(self.num_targets)

    def init(self) -> dict[str, Array]:
        if not isinstance(self.dispersion, str):
            return {}
        return {"log_dispersion": jnp.zeros(own_shape(self.num_targets))}

    def log_dispersion(self, params: dict, outputs: Array) -> Array:
        """log r, (n, *targets) or broadcastable to it."""
        if isinstance(self.dispersion, str):
            return params["log_dispersion"]
        return jnp.log(jnp.asarray(self.dispersion, outputs.dtype))

    def log_prob(self, params: dict, outputs: Float[Array, "n ..."], y: Float[Array, "n ..."]):
        y = y.reshape(outputs.shape)
        log_r = self.log_dispersion(params, outputs)
        r = jnp.exp(log_r)
        # Γ(y + r)/(Γ(r) y!) by the beta function, which does not cancel where r is large.
        ways = -jnp.log(y + r) - betaln(jnp.broadcast_to(r, y.shape), y + 1)
        none, each = jax.nn.log_sigmoid(log_r - outputs), jax.nn.log_sigmoid(outputs - log_r)
        return sum_targets(ways + r * none + y * each)

    def fisher_root(self, params: dict, outputs: Float[Array, "n ..."]) -> Float[Array, "n d d"]:
        # m / (1 + m/r)
        log_r = self.log_dispersion(params, outputs)
        return diagonal(jnp.exp(0.5 * (outputs + jax.nn.log_sigmoid(log_r - outputs))))

    def parameter_fisher(self, params: dict, outputs: Array) -> dict[str, Array]:
        if not params:
            return {}
        raise CredoError(
            "NegativeBinomial has no closed form of the Fisher information of a learned "
            "dispersion, which Laplace needs; give a known one, such as "
            "NegativeBinomial(dispersion=2.0), or use another method"
        )

    def check(self, y: Any) -> np.ndarray:
        return checked_counts(y, target_shape(self.num_targets))

    def summarize(self, params: dict, outputs: Array) -> Summary:
        dispersion = jnp.exp(self.log_dispersion(params, outputs))
        return {}, {"means": positive_mean(outputs), "dispersions": rows_of(dispersion, outputs)}

    def predictive(self, averaged: dict, kept: dict) -> "NegativeBinomialPredictive":
        return NegativeBinomialPredictive(**kept)


@dataclass(frozen=True, repr=False)
class NegativeBinomialPredictive(CountPredictive):
    """An equal mixture of one negative binomial law per draw."""

    means: Float[np.ndarray, "s n ..."]
    dispersions: Float[np.ndarray, "s rows ..."]

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.means, self.dispersions

    def _moments(self, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        means, dispersions = arrays
        return means, means + means**2 / dispersions

    def _log_probs(self, y: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        from scipy.special import betaln, xlogy

        means, dispersions = arrays
        ways = -np.log(y + dispersions) - betaln(dispersions, y + 1)
        none = -dispersions * np.log1p(means / dispersions)
        return ways + none + xlogy(y, means / (means + dispersions))

    def _cdfs(self, y: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        from scipy.special import betainc

        means, dispersions = arrays
        count = np.maximum(np.floor(y), 0)
        below = betainc(dispersions, count + 1, dispersions / (dispersions + means))
        return np.where(y < 0, 0.0, below)

    def _draws(self, random: np.random.Generator, *arrays: np.ndarray) -> np.ndarray:
        means, dispersions = arrays
        return random.poisson(random.gamma(dispersions, means / dispersions))
