"""What the methods with normal weights share: how a network is run with random weights."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.model import Target
from credo.networks import FlipoutWeight, NormalWeight, Params
from credo.posterior.normal import sample_weights
from credo.struct import is_off

Estimator = Literal["local", "flipout", "weights"]


def noisy_params(
    key: Array, target: Target, mean: Params, std: Params, estimator: Estimator
) -> Params:
    """Parameters whose noise the layers add themselves, or (weights) one draw of all weights.

    A network that nobody here wrote takes plain arrays only: it gets a draw of its weights.
    """
    network_key, likelihood_key = jax.random.split(key)
    likelihood = sample_weights(likelihood_key, mean["likelihood"], std["likelihood"])
    takes_distributions = getattr(target.model.network, "takes_distributions", False)
    if estimator == "weights" or not takes_distributions:
        network = sample_weights(network_key, mean["network"], std["network"])
        return {"network": network, "likelihood": likelihood}
    wrap: Any = NormalWeight if estimator == "local" else FlipoutWeight
    means, structure = jax.tree.flatten(mean["network"])
    stds = jax.tree.leaves(std["network"])
    keys = jax.random.split(network_key, len(means))
    wrapped = [wrap(*parts) for parts in zip(means, stds, keys, strict=True)]
    return {"network": jax.tree.unflatten(structure, wrapped), "likelihood": likelihood}


def warmed_up(progress: Array, share: Any) -> Array | float:
    """A weight that grows linearly from 0 to 1 over the first `share` of the run."""
    return 1.0 if is_off(share) else jnp.minimum(1.0, progress / share)
