"""The Laplace approximation of the log evidence, and the scales that maximise it.

With the weights t in units of their prior scales, Λ the curvature's eigenvalues in the same units,
a common multiplier m of the prior scales, and (for a learnt noise) a common multiplier c of σ:

    log p(D) ≈ log p(D | θ*, c) − ‖t*‖² / 2m² − ½ Σ_i log(1 + m² c^−2r Λ_i)

plus the same for the likelihood's own parameters, whose prior is not scaled. The power r is 1 for
Gauss–Newton, a sum of JᵀJ / σ², and 2 for the empirical Fisher, of gradients Jᵀ(y − f) / σ².

The weights θ* stay where they are (Immer et al. 2021). In (log m², log c²) this is a concave
function, so Newton's method finds its only maximum. For that the curvature of log σ is here always
the expected one, which no c changes.

References: MacKay, A Practical Bayesian Framework for Backpropagation Networks, 1992; Immer et al.,
Scalable Marginal Likelihood Estimation for Model Selection in Deep Learning, ICML 2021.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

NEWTON_STEPS = 60
LARGEST_STEP = 2.0  # in log m² and log c²
LIMIT = 25.0  # of |log m²| and |log c²|: reached where data say nothing of a scale


class Evidence(NamedTuple):
    """What the log evidence depends on."""

    log_likelihood: Array
    squared_norm: Array
    """‖t*‖² of the uncertain weights."""
    eigenvalues: Float[Array, " d"]
    """Λ: of the curvature, in units of the prior scales."""
    log_scale: Float[Array, " k"]
    """log σ of a learned normal noise, or other parameters of the likelihood, or empty."""
    log_scale_curvature: Float[Array, " k"]
    num_targets: Array | float
    """How many numbers were observed: data × targets; 0 where no normal noise is learned."""
    noise_power: int
    """r: the curvature of the weights goes with c^−2r."""
    learns_noise: bool = True
    """Whether `log_scale` is that of normal noise, whose multiplier c is tuned."""

    def at(self, logs: Float[Array, "2"]) -> Array:
        """The log evidence at (log m², log c²)."""
        prior, noise = logs
        stretched = jnp.exp(prior - self.noise_power * noise) * self.eigenvalues
        own = self.log_scale + 0.5 * noise
        return (
            self.log_likelihood
            + 0.5 * self._squared_residuals() * -jnp.expm1(-noise)
            - 0.5 * self.num_targets * noise
            - 0.5 * self.squared_norm * jnp.exp(-prior)
            - 0.5 * jnp.sum(jnp.log1p(stretched))
            - 0.5 * jnp.sum(jnp.square(own) + jnp.log1p(self.log_scale_curvature))
        )

    def _squared_residuals(self) -> Array:
        """Σ ((y − f) / σ)², from the log likelihood; without a learnt noise it is not needed."""
        if self.log_scale.size == 0 or not self.learns_noise:
            return jnp.zeros(())
        log_scales = jnp.mean(self.log_scale) + 0.5 * math.log(2 * math.pi)
        return -2 * (self.log_likelihood + self.num_targets * log_scales)


def maximize(evidence: Evidence, least_noise: float = -LIMIT) -> Float[Array, "2"]:
    """(log m², log c²) of the largest evidence; log c² stays 0 where the noise is known.

    `least_noise` bounds log c² from below.
    """
    learns_noise = evidence.learns_noise and evidence.log_scale.size > 0
    gradient, hessian = jax.grad(evidence.at), jax.hessian(evidence.at)
    lowest = jnp.array([-LIMIT, least_noise])

    def improve(_: int, logs: Array) -> Array:
        held = (logs <= lowest) & (gradient(logs) < 0)  # at its bound, and pulled across it
        active = jnp.array([1.0, float(learns_noise)]) * ~held
        curved = hessian(logs) * jnp.outer(active, active) - jnp.diag(1 - active)
        step = -jnp.linalg.solve(curved - 1e-9 * jnp.eye(2), gradient(logs) * active)
        return jnp.clip(logs + jnp.clip(step, -LARGEST_STEP, LARGEST_STEP), lowest, LIMIT)

    return jax.lax.fori_loop(0, NEWTON_STEPS, improve, jnp.zeros(2))
