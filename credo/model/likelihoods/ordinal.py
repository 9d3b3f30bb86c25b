"""Classes in an order: grades, stages, ratings."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from credo.fields import at_least, check_fields
from credo.model.likelihoods.categorical import Classes


@dataclass(frozen=True)
class Ordinal(Classes):
    """P(y ≤ k | f) = sigmoid(c_k − f),  c_0 < … < c_{K−2}: classes 0 … K − 1 in an order.

    The network has one output, and a larger one makes every higher class more probable. The
    cutpoints c are learned: log(c_k − c_{k−1}) ~ N(0, 1). Their mean is 0, for the network's bias
    shifts them all; with two classes this is `Bernoulli`.

    Reference: McCullagh, Regression Models for Ordinal Data, Journal of the Royal Statistical
    Society B, 1980.

    Example:
        >>> import credo, numpy as np
        >>> x = np.linspace(-3, 3, 90)[:, None]
        >>> grades = np.repeat([0, 1, 2], 30)
        >>> model = credo.Model(credo.networks.MLP(hidden=()), credo.likelihoods.Ordinal(3))
        >>> method = credo.MAP(num_steps=300, learning_rate=0.03)
        >>> posterior = credo.fit(model, (x, grades), method)
        >>> bool((credo.predict(posterior, x).codes == grades).mean() > 0.9)
        True
    """

    num_classes: int  # type: ignore[misc]

    def __post_init__(self) -> None:
        check_fields(self, num_classes=at_least(2))

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (1,)

    def init(self) -> dict[str, Array]:
        return {"log_gaps": jnp.zeros(self.num_classes - 2)} if self.num_classes > 2 else {}

    def cutpoints(self, params: dict) -> Float[Array, " cuts"]:
        """c, in increasing order, around 0."""
        gaps = jnp.exp(params["log_gaps"]) if self.num_classes > 2 else jnp.zeros(0)
        cuts = jnp.concatenate([jnp.zeros(1, gaps.dtype), jnp.cumsum(gaps)])
        return cuts - jnp.mean(cuts)

    def log_probs(self, params: dict, outputs: Float[Array, "n 1"]) -> Float[Array, "n k"]:
        distances = self.cutpoints(params) - outputs
        up_to, beyond = jax.nn.log_sigmoid(distances), jax.nn.log_sigmoid(-distances)
        if self.num_classes == 2:
            return jnp.concatenate([up_to, beyond], axis=1)
        # sigmoid(b) − sigmoid(a) = sigmoid(b) sigmoid(−a) (1 − e^{a−b}), which does not cancel.
        log_shares = jnp.log(-jnp.expm1(-jnp.exp(params["log_gaps"])))
        between = up_to[:, 1:] + beyond[:, :-1] + log_shares
        return jnp.concatenate([up_to[:, :1], between, beyond[:, -1:]], axis=1)

    def log_prob(self, params: dict, outputs: Float[Array, "n 1"], y: Int[Array, " n"]) -> Array:
        return jnp.take_along_axis(self.log_probs(params, outputs), y[:, None], axis=1)[:, 0]

    def fisher_root(self, params: dict, outputs: Float[Array, "n 1"]) -> Float[Array, "n 1 1"]:
        """√Σ_k p_k s_k² with the score s_k = sigmoid(c_{k−1} − f) + sigmoid(c_k − f) − 1."""
        inner = jax.nn.sigmoid(self.cutpoints(params) - outputs)
        steps = jnp.pad(jnp.pad(inner, [(0, 0), (1, 0)]), [(0, 0), (0, 1)], constant_values=1.0)
        scores = steps[:, :-1] + steps[:, 1:] - 1
        probs = jnp.exp(self.log_probs(params, outputs))
        return jnp.sqrt(jnp.sum(probs * scores**2, axis=1))[:, None, None]

    def parameter_fisher(self, params: dict, outputs: Array) -> dict[str, Array]:
        """Σ_k p_k (∂ log p_k)² of every gap."""
        probs = jnp.exp(self.log_probs(params, outputs))
        slopes = jax.jacfwd(lambda own: self.log_probs(own, outputs))(params)
        return jax.tree.map(lambda leaf: jnp.einsum("nk,nkg->ng", probs, leaf**2), slopes)
