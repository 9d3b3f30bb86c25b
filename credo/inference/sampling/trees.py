"""Arithmetic on pytrees that the samplers share."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.keys import bulk_normal


def normal_like(key: Array, params: Any) -> Any:
    """Standard normal numbers shaped like `params`."""
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    drawn = [bulk_normal(k, a.shape, a.dtype) for k, a in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, drawn)


def where(condition: Array, new: Any, old: Any) -> Any:
    """Leaf-wise choice between two pytrees."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def add(a: Any, b: Any, factor: Array | float = 1.0) -> Any:
    """a + factor · b."""
    return jax.tree.map(lambda x, y: x + factor * y, a, b)


def squared_norm(tree: Any) -> Array:
    return sum((jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree)), jnp.zeros(()))


def size(tree: Any) -> int:
    """How many numbers a pytree holds."""
    return sum(leaf.size for leaf in jax.tree.leaves(tree))
