"""A model is a network, a likelihood and a prior; a target is its log joint density with the data.

`Target` owns all scaling, so that no user and no method can weigh the prior against the data
wrongly:

    log_joint(θ, batch) = [ (N/B) Σ_{j in batch} log p(y_j | x_j, θ)  +  log p(θ) ] / T
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from credo.errors import CredoError
from credo.model.likelihoods import Likelihood
from credo.model.priors import NormalPrior, Prior, normal_log_prob, sample_normal
from credo.networks.adapters import Equinox
from credo.networks.network import Network, Noise, Params, no_noise

LIKELIHOOD_PARAMETER_SCALE = 1.0  # prior standard deviation of log σ


class Batch(NamedTuple):
    """Inputs and targets, data axis first."""

    x: Array
    y: Array
    row: Array | None = None
    """Where in the data each row stands, for methods that treat every datum in its own way."""


@dataclass(frozen=True)
class Model:
    """Network + likelihood + prior. Parameters are `{"network": …, "likelihood": …}`.

    Example:
        >>> import credo
        >>> model = credo.Model(credo.networks.MLP(hidden=(50,)), credo.Categorical(10))
    """

    network: Network
    likelihood: Likelihood
    prior: Prior = NormalPrior(1.0)  # noqa: RUF009

    def __post_init__(self) -> None:
        if isinstance(self.network, eqx.Module):
            object.__setattr__(self, "network", Equinox(self.network))
        if not callable(getattr(self.network, "apply", None)):
            raise CredoError(
                "network must be one of credo.networks, an Equinox module, or "
                f"credo.networks.Functions(init, apply), got {self.network!r}"
            )

    def init(self, key: Array, input_shape: tuple[int, ...]) -> Params:
        network = self.network.init(key, input_shape, self.likelihood.num_outputs)
        return {"network": network, "likelihood": self.likelihood.init()}

    def outputs(self, params: Params, x: Array, noise: Noise = no_noise) -> Array:
        outputs = self.network.apply(params["network"], x, noise)
        expected = (x.shape[0], self.likelihood.num_outputs)
        if outputs.shape != expected:
            raise CredoError(
                f"the network gave outputs of shape {outputs.shape}, "
                f"the likelihood expects {expected}"
            )
        return outputs

    def log_likelihood(self, params: Params, batch: Batch, noise: Noise = no_noise) -> Array:
        """log p(y_j | x_j, θ) for each datum of the batch."""
        outputs = self.outputs(params, batch.x, noise)
        return self.likelihood.log_prob(params["likelihood"], outputs, batch.y)

    def training_terms(self, params: Params, batch: Batch, noise: Noise = no_noise) -> Array:
        """log p(y_j | x_j, θ), weighted where the likelihood asks methods that optimise for it."""
        likelihood = self.likelihood
        terms = getattr(likelihood, "training_terms", likelihood.log_prob)
        return terms(params["likelihood"], self.outputs(params, batch.x, noise), batch.y)

    def prior_scales(self, params: Params) -> Params:
        """The prior's standard deviation of every parameter."""
        network = self.prior.scales(self.network, params["network"])
        likelihood = {name: LIKELIHOOD_PARAMETER_SCALE for name in params["likelihood"]}
        return {"network": network, "likelihood": likelihood}

    def sample_prior(self, key: Array, params: Params) -> Params:
        """Draw parameters (shaped like `params`) from the prior."""
        return sample_normal(key, params, self.prior_scales(params))


@dataclass(frozen=True)
class Target:
    """The log joint density of a model and `num_data` data, at a temperature.

    temperature 1 is the Bayesian posterior; below 1 is a cold one.
    """

    model: Model
    num_data: int
    input_shape: tuple[int, ...] = ()
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise CredoError(f"the temperature must be positive, got {self.temperature}")

    def log_joint(self, params: Params, batch: Batch, noise: Noise = no_noise) -> Array:
        """Unbiased for the full-data log joint when the batch is drawn uniformly."""
        return (
            self.log_likelihood(params, batch, noise) + self.log_prior(params)
        ) / self.temperature

    def log_likelihood(self, params: Params, batch: Batch, noise: Noise = no_noise) -> Array:
        """(N/B) Σ log p(y_j | x_j, θ)."""
        return self.num_data * jnp.mean(self.model.log_likelihood(params, batch, noise))

    def training_likelihood(self, params: Params, batch: Batch, noise: Noise = no_noise) -> Array:
        """(N/B) Σ of the model's training terms."""
        return self.num_data * jnp.mean(self.model.training_terms(params, batch, noise))

    def log_prior(self, params: Params, scales: Any = None) -> Array:
        """log p(θ); a method whose posterior changes the penalty passes its own scales."""
        return normal_log_prob(
            params, self.model.prior_scales(params) if scales is None else scales
        )
