"""A posterior held as one normal per layer, whose covariance is nearly a Kronecker product."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from credo.keys import bulk_normal
from credo.model import Model
from credo.networks import Noise, Params, no_noise
from credo.networks.layers import join, split
from credo.posterior.posterior import Posterior, not_negative, require
from credo.posterior.record import Record


@dataclass(frozen=True, repr=False)
class KroneckerNormal(Posterior):
    """[W; b] = mean + A (S ∘ E) Gᵀ for each layer, with E of independent N(0, 1).

    A and G are the eigenvectors of the layer's two Kronecker factors, A in units of the prior, and
    S the standard deviations in their basis. A layer that is not named is certain.
    """

    model: Model
    mean: Params
    inputs: dict[str, Float[Array, "*m features features"]]
    """A of each layer, its last row for the bias."""
    outputs: dict[str, Float[Array, "*m outputs outputs"]]
    """G of each layer."""
    spread: dict[str, Float[Array, "*m features outputs"]]
    """S of each layer."""
    likelihood_std: Float[Array, "*m d"]
    """Of the likelihood's own parameters, flattened."""
    linearized: bool = False
    """A draw is f(x; mean) + J(x) (θ − mean), the network's tangent, instead of f(x; θ)."""
    record: Record = field(default_factory=Record)

    like_params: ClassVar = ("mean",)

    def facts(self) -> dict[str, Any]:
        return {"layers": tuple(self.spread)}

    def validate(self, template: Params) -> None:
        network = template["network"]
        require(isinstance(network, dict), "its network shows no layers")
        require(set(self.inputs) == set(self.outputs) == set(self.spread), "its layers differ")
        for name, spread in self.spread.items():
            require(name in network, f"its network has no layer {name!r}")
            shape = jax.eval_shape(join, network[name]).shape
            require(spread.shape == shape, f"the spread of {name!r} is not {shape}")
            for factor, size in ((self.inputs[name], shape[0]), (self.outputs[name], shape[1])):
                require(factor.shape == (size, size), f"a factor of {name!r} is not {size} square")
        own = sum(leaf.size for leaf in jax.tree.leaves(template["likelihood"]))
        require(self.likelihood_std.shape == (own,), "likelihood_std has another length")
        not_negative((self.spread, self.likelihood_std), "spread")

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
