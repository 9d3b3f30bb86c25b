"""Variational dropout: Gaussian noise on the weights, its strength learned.

    q(w) = N(θ, α θ²),   p(log |w|) ∝ 1 (log-uniform),
    −ELBO = −E_q log p(D | w) + Σ KL(α)

With one α per layer this is Kingma et al. (2015), whose polynomial for the KL holds for α ≤ 1. With
one α per weight it is sparse variational dropout (Molchanov et al. 2017): weights that the data do
not need get a large α and can be removed, see `posterior.pruned()`. The outputs of layers are
sampled, not the weights (local reparametrization).

The log-uniform prior is improper, so the posterior may be (Hron et al. 2018): read the KL as a
regulariser, which a temperature T leaves as it is: log p(D | w) is divided by T. Biases have no
noise and the model's normal prior.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.engine import Info
from credo.errors import CredoError
from credo.fields import at_least, between, check_fields
from credo.files import path_name
from credo.inference.method import DescentMethod
from credo.inference.variational import weight_noise
from credo.model import Batch, Target
from credo.model.priors import normal_log_prob
from credo.networks import Params
from credo.posterior.normal import NormalWeights
from credo.struct import is_off

LARGEST = {"layer": 0.0, "weight": 8.0}  # log α: Kingma's polynomial holds for α ≤ 1


class NoisyWeights(NamedTuple):
    """Weights θ, and by the path of every weight array log α (one) or log σ² (one per weight)."""

    mean: Params
    log_noise: dict[str, Array]


@dataclass(frozen=True)
class VariationalDropout(DescentMethod):
    """Gaussian dropout on weights with learned strength; `per="weight"` makes it sparse.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(16,)))
        >>> posterior = credo.fit(model, data.train, credo.VariationalDropout(num_steps=200))
    """

    per: Literal["layer", "weight"] = "layer"
    """One noise strength α per layer, or one per weight (sparse)."""
    initial_log_alpha: float = -2.0
    """log α at the start, at most 0 for a layer; -4 or less where a good network is the start."""
    kl_weight: float = 1.0
    """Weight of the KL: 1 is the ELBO."""
    kl_warmup: float = 0.3
    """Share of the steps over which the KL's weight grows from 0 to its value."""
    num_steps: int = field(default=8000, kw_only=True)
    """Gradient steps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(
            self, kl_weight=at_least(0), kl_warmup=between(0, 1),
            initial_log_alpha=between(-16.0, LARGEST.get(self.per, 0.0), low_included=False),
        )  # fmt: skip

    def start(self, key: Array, target: Target, params: Params) -> NoisyWeights:
        def noise(leaf: Array) -> Array:
            if self.per == "layer":
                return jnp.asarray(self.initial_log_alpha, leaf.dtype)
            return self.initial_log_alpha + jnp.log(jnp.square(leaf) + 1e-8)

        matrices = {name: leaf for name, leaf in named_leaves(params).items() if leaf.ndim > 1}
        if not matrices:
            raise CredoError(
                "variational-dropout puts noise on arrays of two or more axes, got a network with "
                f"the shapes {[leaf.shape for leaf in jax.tree.leaves(params)]}; give its weights "
                "as matrices, or use bayes-by-backprop, whose noise is on every array"
            )
        return NoisyWeights(params, {name: noise(leaf) for name, leaf in matrices.items()})

    def loss(
        self, key: Array, target: Target, learned: NoisyWeights, batch: Batch, progress: Array
    ) -> tuple[Array, Info]:
        weight = self.kl_weight * weight_noise.warmed_up(progress, self.kl_warmup)
        std = self._std(learned)
        params = weight_noise.noisy_params(key, target, learned.mean, std, "local")
        log_likelihood = target.training_likelihood(params, batch)
        kl = self._kl(learned)
        log_joint = (log_likelihood + bias_log_prior(target, learned)) / target.temperature
        info = {"nll": -log_likelihood / target.num_data, "kl": kl}
        return (weight * kl - log_joint) / target.num_data, info

    def point(self, learned: NoisyWeights) -> Params:
        return learned.mean

    def posterior_of(self, target: Target, learned: NoisyWeights) -> NormalWeights:
        return NormalWeights(target.model, learned.mean, self._std(learned))

    def project(self, learned: NoisyWeights) -> NoisyWeights:
        """Return to α ≤ 1 after a step: a clip in the loss would have no gradient there."""
        if self.per == "weight":
            return learned
        bounded = {name: jnp.minimum(a, LARGEST["layer"]) for name, a in learned.log_noise.items()}
        return learned._replace(log_noise=bounded)

    @property
    def anneals(self) -> bool:
        return not is_off(self.kl_warmup)

    def _log_alpha(self, mean: Array, log_noise: Array) -> Array:
        if self.per == "layer":
            return log_noise
        return log_noise - jnp.log(jnp.square(mean) + 1e-8)

    def _std(self, learned: NoisyWeights) -> Params:
        def leaf(path: Any, mean: Array) -> Array:
            log_noise = learned.log_noise.get(path_name(path))
            if log_noise is None:
                return jnp.zeros_like(mean)
            if self.per == "weight":
                return jnp.exp(0.5 * log_noise)
            return jnp.abs(mean) * jnp.exp(0.5 * self._log_alpha(mean, log_noise))

        return jax.tree_util.tree_map_with_path(leaf, learned.mean)

    def _kl(self, learned: NoisyWeights) -> Array:
        formula = kingma_negative_kl if self.per == "layer" else molchanov_negative_kl
        means = named_leaves(learned.mean)
        total = jnp.zeros(())
        for name, log_noise in learned.log_noise.items():
            values = formula(self._log_alpha(means[name], log_noise))
            total -= jnp.sum(jnp.broadcast_to(values, means[name].shape))
        return total


def named_leaves(tree: Params) -> dict[str, Array]:
    """The arrays of a pytree by their path."""
    return {path_name(path): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]}


def kingma_negative_kl(log_alpha: Array) -> Array:
    """−KL(α) up to a constant, for α ≤ 1 (Kingma, Salimans & Welling 2015, eq. 14)."""
    alpha = jnp.exp(log_alpha)
    return 0.5 * log_alpha + 1.16145124 * alpha - 1.50204118 * alpha**2 + 0.58629921 * alpha**3


def molchanov_negative_kl(log_alpha: Array) -> Array:
    """−KL(α), 0 as α → ∞, for all α (Molchanov, Ashukha & Vetrov 2017, eq. 14)."""
    k1, k2, k3 = 0.63576, 1.87320, 1.48695
    return k1 * jax.nn.sigmoid(k2 + k3 * log_alpha) - 0.5 * jax.nn.softplus(-log_alpha) - k1


def bias_log_prior(target: Target, learned: NoisyWeights) -> Array:
    """log p of the parameters that have no noise."""
    named = (
        learned.mean,
        target.model.prior_scales(learned.mean),
        target.prior_means(learned.mean),
    )
    values, scales, means = (named_leaves(tree) for tree in named)
    silent = [name for name in values if name not in learned.log_noise]
    return sum((normal_log_prob(values[n], scales[n], means[n]) for n in silent), jnp.zeros(()))
