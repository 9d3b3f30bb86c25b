"""Random keys: an integer seed or a JAX key, everywhere."""

from numbers import Integral

import jax
from jaxtyping import Array

from credo.errors import CredoError


def as_key(key: int | Array) -> Array:
    """Accept a seed where a key is wanted."""
    if isinstance(key, Integral) and -(2**63) <= key < 2**63:
        return jax.random.key(int(key))
    if not jax.dtypes.issubdtype(getattr(key, "dtype", None), jax.dtypes.prng_key):
        raise CredoError(f"key must be an integer seed or jax.random.key(seed), got {key!r}")
    return key  # type: ignore[return-value]
