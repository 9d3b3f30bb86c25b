"""A model is a network, a likelihood and a prior; a target is its log joint density with the data.

`Target` owns all scaling, so that no user and no method can weigh the prior against the data
wrongly:

    log_joint(θ, batch) = [ (N/B) Σ_{j in batch} w_j log p(y_j | x_j, θ)  +  log p(θ) ] / T
"""

from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from credo.data.source import Batch
from credo.errors import CredoError
from credo.model.likelihoods.likelihood import Likelihood
from credo.model.priors import NormalPrior, Prior, normal_log_prob, sample_normal
from credo.networks.adapters import Equinox
from credo.networks.network import Network, Noise, Params, no_noise
from credo.saving import Saveable
from credo.struct import Struct

LIKELIHOOD_PARAMETER_SCALE = 1.0  # prior standard deviation of a likelihood's own parameters


@dataclass(frozen=True)
class Model(Saveable):
    """Network + likelihood + prior. Parameters are `{"network": …, "likelihood": …}`.

    Example:
        >>> import credo
        >>> model = credo.Model(credo.networks.MLP(hidden=(50,)), credo.likelihoods.Categorical(10))
    """

    network: Network
    likelihood: Likelihood
    prior: Prior = field(default_factory=NormalPrior)

    def __post_init__(self) -> None:
        if isinstance(self.network, eqx.Module):
            object.__setattr__(self, "network", Equinox(self.network))
        if not callable(getattr(self.network, "apply", None)):
            raise CredoError(
                "network must be one of credo.networks, an Equinox module, or "
                f"credo.networks.Functions(init, apply), got {self.network!r}"
            )
        for part, kind, example in (
            ("likelihood", Likelihood, "credo.likelihoods.Normal()"),
            ("prior", Prior, "credo.priors.NormalPrior(1.0)"),
        ):
            if not isinstance(getattr(self, part), kind):
                raise CredoError(
                    f"{part} must be an instance such as {example}, got {getattr(self, part)!r}"
                )

    def init(self, key: Array, input_shape: tuple[int, ...]) -> Params:
        network = self.network.init(key, input_shape, self.likelihood.num_outputs)
        return {"network": network, "likelihood": self.likelihood.init()}

    def outputs(self, params: Params, x: Array, noise: Noise = no_noise) -> Array:
        outputs = self.network.apply(params["network"], x, noise)
        expected = (x.shape[0], *self.likelihood.output_shape)
        if outputs.shape == expected:
            return outputs
        if outputs.shape == (x.shape[0], self.likelihood.num_outputs):  # an image, say, of an MLP
            return outputs.reshape(expected)
        raise CredoError(
            f"the network gave outputs of shape {outputs.shape}, the likelihood expects {expected}"
        )

    def log_likelihood(self, params: Params, batch: Batch, noise: Noise = no_noise) -> Array:
        """log p(y_j | x_j, θ) for each datum of the batch."""
        outputs = self.outputs(params, batch.x, noise)
        return self.likelihood.log_prob(params["likelihood"], outputs, batch.y)

    def training_terms(self, params: Params, batch: Batch, noise: Noise = no_noise) -> Array:
        """log p(y_j | x_j, θ), weighted where the likelihood asks methods that optimise for it."""
        outputs = self.outputs(params, batch.x, noise)
        return self.likelihood.training_terms(params["likelihood"], outputs, batch.y, batch.is_real)

    def prior_scales(self, params: Params) -> Params:
        """The prior's standard deviation of every parameter."""
        network = self.prior.scales(self.network, params["network"])
        likelihood = {name: LIKELIHOOD_PARAMETER_SCALE for name in params["likelihood"]}
        return {"network": network, "likelihood": likelihood}

    def prior_means(self, params: Params) -> Params:
        """The prior's mean of every parameter."""
        network = self.prior.means(self.network, params["network"])
        return {"network": network, "likelihood": dict.fromkeys(params["likelihood"], 0.0)}

    def sample_prior(self, key: Array, params: Params) -> Params:
        """Draw parameters (shaped like `params`) from the prior."""
        return sample_normal(key, params, self.prior_scales(params), self.prior_means(params))


@dataclass(frozen=True)
class Target(Struct):
    """The log joint density of a model and `num_data` data, at a temperature: what is inferred.

    temperature 1 is the Bayesian posterior; below 1 is a cold one.
    """

    model: Model
    num_data: float
    """N: a number like any other, not part of a compiled program."""
    input_shape: tuple[int, ...] = ()
    temperature: float = 1.0
    center: Params | None = None
    """Means that replace the prior's, of all parameters: the anchor of a member."""
    held_out: Batch | None = None
    """Rows to stop early on, which no step learns from."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_data", float(self.num_data))
        if not self.temperature > 0:
            raise CredoError(f"the temperature must be positive, got {self.temperature}")
        object.__setattr__(self, "temperature", float(self.temperature))

    def init(self, key: Array, example: Any) -> Params:
        return self.model.init(key, self.input_shape)

    def loss(self, key: Array, params: Params, batch: Batch) -> tuple[Array, dict[str, Array]]:
        """−log_joint / N, and the mean negative log-likelihood."""
        return self.training_loss(params, batch)

    def training_loss(
        self, params: Params, batch: Batch, noise: Noise = no_noise, penalty: Any = 0.0
    ) -> tuple[Array, dict[str, Array]]:
        """The loss with noise in the network, and a penalty that a method adds to −log p(θ)."""
        log_likelihood = self.training_likelihood(params, batch, noise)
        log_joint = (log_likelihood + self.log_prior(params) - penalty) / self.temperature
        return -log_joint / self.num_data, {"nll": -log_likelihood / self.num_data}

    def log_joint(self, params: Params, batch: Batch, noise: Noise = no_noise) -> Array:
        """Unbiased for the full-data log joint when the batch is drawn uniformly."""
        return (
            self.log_likelihood(params, batch, noise) + self.log_prior(params)
        ) / self.temperature

    def log_likelihood(self, params: Params, batch: Batch, noise: Noise = no_noise) -> Array:
        """(N/B) Σ w_j log p(y_j | x_j, θ)."""
        return self.num_data * batch.mean(self.model.log_likelihood(params, batch, noise))

    def log_likelihoods(self, params: Params, batch: Batch) -> Array | None:
        """w_j log p(y_j | x_j, θ) of every row, 0 for rows that only fill up."""
        terms = self.model.log_likelihood(params, batch)
        terms = terms if batch.weight is None else batch.weight * terms
        return terms if batch.is_real is None else jnp.where(batch.is_real, terms, 0.0)

    def training_likelihood(self, params: Params, batch: Batch, noise: Noise = no_noise) -> Array:
        """(N/B) Σ of the model's training terms."""
        return self.num_data * batch.mean(self.model.training_terms(params, batch, noise))

    def held_out_loss(self, params: Params) -> Array:
        """The mean negative log-likelihood of the held-out rows."""
        assert self.held_out is not None
        return -self.held_out.mean(self.model.log_likelihood(params, self.held_out))

    def prior_means(self, params: Params) -> Params:
        return self.model.prior_means(params) if self.center is None else self.center

    def log_prior(self, params: Params) -> Array:
        """log p(θ)."""
        return normal_log_prob(params, self.model.prior_scales(params), self.prior_means(params))

    def default_rate(self, classes: float, others: float) -> Any:
        """A sampler's step size: smaller for quantities, whose gradients grow as noise shrinks."""
        likelihood = self.model.likelihood
        rate = others if likelihood.num_classes is None else classes
        return rate * likelihood.gradient_scale()
