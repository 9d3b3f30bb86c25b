"""Bayes by backprop: variational inference with an independent normal for every weight.

    −ELBO = κ KL(q ‖ p) − E_q log p(D | w),     q(w) = Π N(w | μ, σ²)

For the normal prior KL = Σ [ log(s/σ) + (σ² + μ²) / 2s² − ½ ] is exact. For the scale mixture
π N(0, σ₁²) + (1 − π) N(0, σ₂²) it is estimated with one draw of the weights. At a temperature T
the posterior is ∝ [p(D | w) p(w)]^(1/T), so log p(D | w) and log p(w) are divided by T. What is
learnt is log σ: for small σ the same as Blundell's softplus, at a third of its cost.

The expectation is estimated by local reparametrization (default), by Flipout, or by one draw of
the weights for the whole batch, in this order of gradient variance.

References: Blundell et al., Weight Uncertainty in Neural Networks, ICML 2015; Kingma, Salimans &
Welling, Variational Dropout and the Local Reparameterization Trick, NeurIPS 2015; Wen et al.,
Flipout, ICLR 2018.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.inference import optimize, weight_noise
from credo.inference.method import NOT_NEGATIVE, POSITIVE, Info, Plan, check_fields
from credo.inference.optimize import Descent, Optimizer, Schedule
from credo.model import Batch, Target
from credo.networks import Params
from credo.posterior.normal import NormalWeights, sample_weights


class MeanField(NamedTuple):
    """Means and logarithms of the standard deviations."""

    mean: Params
    log_std: Params


class Variational(NamedTuple):
    """The optimisation, and how many steps it has made (for the warm-up of the KL)."""

    descent: Descent
    step: Array


@dataclass(frozen=True)
class BayesByBackprop:
    """Mean-field variational inference.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.Model(credo.networks.MLP(hidden=(16,)), credo.Categorical(3))
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
    learning_rate: float = 1e-3
    """Step size of the optimiser."""
    num_steps: int = 8000
    """Gradient steps."""
    num_epochs: float | None = None
    """Passes over the data; where given, replaces num_steps."""
    batch_size: int = 128
    """Rows per step."""
    optimizer: Optimizer = "adam"
    """adam, sgd or momentum."""
    schedule: Schedule = "cosine"
    """How the learning rate changes: constant, or cosine decay to zero."""

    def __post_init__(self) -> None:
        optimize.check_descent(self)
        check_fields(
            self, mixture_weight=(0.0, 1.0), mixture_wide=POSITIVE, mixture_narrow=POSITIVE,
            initial_std=POSITIVE, kl_weight=NOT_NEGATIVE, kl_warmup=(NOT_NEGATIVE[0], 1.0),
        )  # fmt: skip

    def plan(self, num_data: int) -> Plan:
        return optimize.plan_descent(self, num_data)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> Variational:
        log_std = math.log(self.initial_std)
        learnt = MeanField(params, jax.tree.map(lambda leaf: jnp.full_like(leaf, log_std), params))
        return Variational(optimize.start(self, target.num_data, learnt), jnp.zeros((), int))

    def step(
        self, key: Array, target: Target, state: Variational, batch: Batch
    ) -> tuple[Variational, Info]:
        noise_key, kl_key = jax.random.split(key)
        num_steps = self.plan(target.num_data).num_steps
        weight = self.kl_weight * weight_noise.warmed_up(state.step, num_steps, self.kl_warmup)

        def objective(learnt: MeanField) -> tuple[Array, Info]:
            std = jax.tree.map(jnp.exp, learnt.log_std)
            params = weight_noise.noisy_params(noise_key, target, learnt.mean, std, self.estimator)
            log_likelihood = target.training_likelihood(params, batch)
            kl = self._kl(kl_key, target, learnt.mean, learnt.log_std)
            loss = (weight * kl - log_likelihood / target.temperature) / target.num_data
            return loss, {"nll": -log_likelihood / target.num_data, "kl": kl}

        descent, info = optimize.descend_on(self, target.num_data, state.descent, objective)
        return Variational(descent, state.step + 1), info

    def keep(self, state: Variational) -> None:
        return None

    def posterior(self, target: Target, states: list[Variational], kept: None) -> NormalWeights:
        learnt = states[0].descent.params
        return NormalWeights(target.model, learnt.mean, jax.tree.map(jnp.exp, learnt.log_std))

    def remedy(self) -> str:
        return optimize.remedy(self)

    def _kl(self, key: Array, target: Target, mean: Params, log_std: Params) -> Array:
        # N(0, s²) to the power 1/T is N(0, T s²) up to a constant.
        temper = lambda scale: scale * target.temperature**0.5  # noqa: E731
        scales = jax.tree.map(temper, target.model.prior_scales(mean))
        if self.prior == "model":
            return normal_kl(mean, log_std, scales)
        likelihood_kl = normal_kl(mean["likelihood"], log_std["likelihood"], scales["likelihood"])
        network = mean["network"], jax.tree.map(jnp.exp, log_std["network"])
        return likelihood_kl + self._mixture_kl(key, *network, target.temperature)

    def _mixture_kl(self, key: Array, mean: Params, std: Params, temperature: float) -> Array:
        """log q(w) − log p(w) / T at one draw w ~ q."""
        weights = sample_weights(key, mean, std)

        def leaf(w: Array, m: Array, s: Array) -> Array:
            wide = math.log(self.mixture_weight) + log_normal(w, 0.0, self.mixture_wide)
            rest = math.log1p(-self.mixture_weight) if self.mixture_weight < 1 else -math.inf
            narrow = rest + log_normal(w, 0.0, self.mixture_narrow)
            return jnp.sum(log_normal(w, m, s) - jnp.logaddexp(wide, narrow) / temperature)

        return sum_leaves(jax.tree.map(leaf, weights, mean, std))


def normal_kl(mean: Params, log_std: Params, scales: Any) -> Array:
    """KL(N(μ, σ²) ‖ N(0, s²)) = Σ [ log(s/σ) + (σ² + μ²) / 2s² − ½ ]."""

    def leaf(m: Array, log_s: Array, prior: Any) -> Array:
        ratio, log_ratio = jnp.exp(log_s) / prior, log_s - jnp.log(prior)
        return jnp.sum(0.5 * (jnp.square(ratio) + jnp.square(m / prior) - 1) - log_ratio)

    return sum_leaves(jax.tree.map(leaf, mean, log_std, scales))


def log_normal(value: Array, mean: Array | float, std: Array | float) -> Array:
    return -0.5 * jnp.square((value - mean) / std) - jnp.log(std) - 0.5 * math.log(2 * math.pi)


def sum_leaves(tree: Any) -> Array:
    return sum(jax.tree.leaves(tree), jnp.zeros(()))
