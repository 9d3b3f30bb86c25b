"""A posterior held as one normal per layer, whose covariance is nearly a Kronecker product."""

from dataclasses import dataclass, replace

import jax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from credo.keys import bulk_normal
from credo.model import Model
from credo.networks import Noise, Params, no_noise
from credo.networks.layers import join, split
from credo.posterior.record import Record, in_short


@dataclass(frozen=True, repr=False)
class KroneckerNormal:
    """[W; b] = mean + A (S ∘ E) Gᵀ for each layer, with E of independent N(0, 1).

    A and G are the eigenvectors of the layer's two Kronecker factors, A in units of the prior, and
    S the standard deviations in their basis. A layer that is not named is certain.
    """

    model: Model
    mean: Params
    inputs: dict[str, Float[Array, "features features"]]
    """A of each layer, its last row for the bias."""
    outputs: dict[str, Float[Array, "outputs outputs"]]
    """G of each layer."""
    spread: dict[str, Float[Array, "features outputs"]]
    """S of each layer."""
    likelihood_std: Float[Array, " d"]
    """Of the likelihood's own parameters, flattened."""
    linearized: bool = False
    """A draw is f(x; mean) + J(x) (θ − mean), the network's tangent, instead of f(x; θ)."""
    record: Record = Record(())  # noqa: RUF009

    def __repr__(self) -> str:
        return in_short(self, layers=tuple(self.spread))

    @property
    def num_draws(self) -> None:
        """Draws are made anew each time: there is no fixed number of them."""
        return None

    def sample(self, key: Array, num_draws: int) -> Array:
        """Keys, one per draw: the weights of a draw are made when it is used, not all at once."""
        return jax.random.split(key, num_draws)

    def realize(self, draw: Array) -> tuple[Params, Noise]:
        keys = jax.random.split(draw, len(self.spread) + 1)
        network = dict(self.mean["network"])
        for key, (name, spread) in zip(keys[1:], sorted(self.spread.items()), strict=True):
            noise = spread * bulk_normal(key, spread.shape, spread.dtype)
            moved = join(network[name]) + self.inputs[name] @ noise @ self.outputs[name].T
            network[name] = split(moved, network[name])
        flat, unravel = ravel_pytree(self.mean["likelihood"])
        shift = self.likelihood_std * jax.random.normal(keys[0], flat.shape, flat.dtype)
        return {"network": network, "likelihood": unravel(flat + shift)}, no_noise


def _flatten(posterior: KroneckerNormal):
    factors = (posterior.inputs, posterior.outputs, posterior.spread, posterior.likelihood_std)
    return (posterior.mean, *factors), (posterior.model, posterior.linearized)


def _unflatten(static, children) -> KroneckerNormal:
    model, linearized = static
    return replace(KroneckerNormal(model, *children), linearized=linearized)


jax.tree_util.register_pytree_node(KroneckerNormal, _flatten, _unflatten)
