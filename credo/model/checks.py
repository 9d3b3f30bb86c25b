"""Data as they come from outside: checked, and moved to the device."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from credo.errors import CredoError
from credo.model.likelihoods import all_finite
from credo.model.model import Batch, Model


def check_pair(data: Any) -> tuple[Any, Any]:
    """The two parts of what should be inputs and targets."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise CredoError(
            f"data must be a pair (x, y), such as data.train, got {type(data).__name__}"
        )
    return data[0], data[1]


def check_data(model: Model, data: Any, whole: bool = True) -> Batch:
    """Validate a pair of inputs and targets, all data or a part, and move it to the device."""
    given = check_pair(data)
    x, y = (np.asarray(part) for part in given)
    if len(x) != len(y):
        raise CredoError(f"x has {len(x)} rows, y has {len(y)}; they must match")
    if len(x) == 0:
        raise CredoError("there are no data to fit: x has no rows")
    if not all_finite(x):
        raise CredoError("x must hold finite numbers; fill or remove NaN and infinite entries")
    y = model.likelihood.check(y)
    if whole and hasattr(model.likelihood, "num_classes") and len(np.unique(y)) < 2:
        raise CredoError(f"all {len(y)} labels are {y[0]}: one class only; a classifier needs two")
    dtype = jnp.int32 if np.issubdtype(y.dtype, np.integer) else float
    inputs = given[0] if isinstance(given[0], jax.Array) else x  # or what is there is copied again
    return Batch(jnp.asarray(inputs, float), jnp.asarray(y, dtype), jnp.arange(len(x)))
