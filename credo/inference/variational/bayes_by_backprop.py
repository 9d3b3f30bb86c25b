"""Bayes by backprop: variational inference with an independent normal for every weight.

    −ELBO = κ KL(q ‖ p) − E_q log p(D | w),     q(w) = Π N(w | μ, σ²)

For the normal prior KL = Σ [ log(s/σ) + (σ² + μ²) / 2s² − ½ ] is exact. For the scale mixture
π N(0, σ₁²) + (1 − π) N(0, σ₂²) it is estimated with one draw of the weights. At a temperature T
the posterior is ∝ [p(D | w) p(w)]^(1/T), so log p(D | w) and log p(w) are divided by T. What is
learned is log σ: for small σ the same as Blundell's softplus, at a third of its cost.

The expectation is estimated by local reparametrization (default), by Flipout, or by one draw of
the weights for the whole batch, in this order of gradient variance.

References: Blundell et al., Weight Uncertainty in Neural Networks, ICML 2015; Kingma, Salimans &
Welling, Variational Dropout and the Local Reparameterization Trick, NeurIPS 2015; Wen et al.,
Flipout, ICLR 2018.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.engine import Info
from credo.fields import POSITIVE, at_least, between, check_fields
from credo.inference.method import DescentMethod
from credo.inference.variational import weight_noise
from credo.model import Batch, Target
from credo.networks import Params
from credo.posterior.normal import NormalWeights, sample_weights
from credo.struct import is_off


class MeanField(NamedTuple):
    """Means and logarithms of the standard deviations."""

    mean: Params
    log_std: Params


@dataclass(frozen=True)
class BayesByBackprop(DescentMethod):
    """Mean-field variational inference.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(16,)))
        >>> posterior = credo.fit(model, data.train, credo.BayesByBackprop(num_steps=200))
    """

    estimator: weight_noise.Estimator = "local"
    """local (reparametrization), flipout, or weights (one draw per batch)."""
    prior: Literal["model", "mixture"] = "model"
    """The model's normal prior, or Blundell's scale mixture."""
    mixture_weight: float = 0.5
    """π, the weight of the wide component of the mixture."""
    mixture_wide: float = 1.0
    """σ₁, the scale of the wide component."""
    mixture_narrow: float = 0.0025
    """σ₂, the scale of the narrow component."""
    initial_std: float = 0.05
    """σ of every weight at the start."""
    kl_weight: float = 1.0
    """κ: 1 is the ELBO, 0 leaves the KL out."""
    kl_warmup: float = 0.0
    """Share of the steps over which κ grows from 0 to its value."""
    num_steps: int = field(default=8000, kw_only=True)
    """Gradient steps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(
            self, mixture_weight=between(0, 1, low_included=False), mixture_wide=POSITIVE,
            mixture_narrow=POSITIVE, initial_std=POSITIVE, kl_weight=at_least(0),
            kl_warmup=between(0, 1),
        )  # fmt: skip

    def start(self, key: Array, target: Target, params: Params) -> MeanField:
        log_std = jnp.log(self.initial_std)
        return MeanField(params, jax.tree.map(lambda leaf: jnp.full_like(leaf, log_std), params))

    def loss(
        self, key: Array, target: Target, learned: MeanField, batch: Batch, progress: Array
    ) -> tuple[Array, Info]:
        noise_key, kl_key = jax.random.split(key)
        weight = self.kl_weight * weight_noise.warmed_up(progress, self.kl_warmup)
        std = jax.tree.map(jnp.exp, learned.log_std)
        params = weight_noise.noisy_params(noise_key, target, learned.mean, std, self.estimator)
        log_likelihood = target.training_likelihood(params, batch)
        kl = self._kl(kl_key, target, learned.mean, learned.log_std)
        loss = (weight * kl - log_likelihood / target.temperature) / target.num_data
        return loss, {"nll": -log_likelihood / target.num_data, "kl": kl}

    def point(self, learned: MeanField) -> Params:
        return learned.mean

    def posterior_of(self, target: Target, learned: MeanField) -> NormalWeights:
        return NormalWeights(target.model, learned.mean, jax.tree.map(jnp.exp, learned.log_std))

    @property
    def anneals(self) -> bool:
        return not is_off(self.kl_warmup)

    def _kl(self, key: Array, target: Target, mean: Params, log_std: Params) -> Array:
        # N(m, s²) to the power 1/T is N(m, T s²) up to a constant.
        root = jnp.sqrt(target.temperature)
        scales = jax.tree.map(lambda scale: scale * root, target.model.prior_scales(mean))
        centers = target.prior_means(mean)
        if self.prior == "model":
            return normal_kl(mean, log_std, scales, centers)
        likelihood_kl = normal_kl(
            *(part["likelihood"] for part in (mean, log_std, scales, centers))
        )
        network = mean["network"], jax.tree.map(jnp.exp, log_std["network"])
        return likelihood_kl + self._mixture_kl(key, *network, target.temperature)

    def _mixture_kl(self, key: Array, mean: Params, std: Params, temperature: float) -> Array:
        """log q(w) − log p(w) / T at one draw w ~ q."""
        weights = sample_weights(key, mean, std)

        def leaf(w: Array, m: Array, s: Array) -> Array:
            wide = jnp.log(self.mixture_weight) + log_normal(w, 0.0, self.mixture_wide)
            narrow = jnp.log1p(-self.mixture_weight) + log_normal(w, 0.0, self.mixture_narrow)
            return jnp.sum(log_normal(w, m, s) - jnp.logaddexp(wide, narrow) / temperature)

        return sum_leaves(jax.tree.map(leaf, weights, mean, std))


def normal_kl(mean: Params, log_std: Params, scales: Any, centers: Any = None) -> Array:
    """KL(N(μ, σ²) ‖ N(m, s²)) = Σ [ log(s/σ) + (σ² + (μ − m)²) / 2s² − ½ ]."""

    def leaf(m: Array, log_s: Array, prior: Any, center: Any) -> Array:
        ratio, log_ratio = jnp.exp(log_s) / prior, log_s - jnp.log(prior)
        distance = (m - center) / prior
        return jnp.sum(0.5 * (jnp.square(ratio) + jnp.square(distance) - 1) - log_ratio)

    if centers is None:
        centers = jax.tree.map(lambda _: 0.0, mean)
    return sum_leaves(jax.tree.map(leaf, mean, log_std, scales, centers))


def log_normal(value: Array, mean: Array | float, std: Array | float) -> Array:
    return -0.5 * jnp.square((value - mean) / std) - jnp.log(std) - 0.5 * math.log(2 * math.pi)


def sum_leaves(tree: Any) -> Array:
    return sum(jax.tree.leaves(tree), jnp.zeros(()))
