"""Data as they come from outside: checked, and moved to the device."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from credo.data.source import Batch
from credo.errors import CredoError
from credo.model.likelihoods.likelihood import all_finite
from credo.model.model import Model


def check_pair(data: Any) -> tuple[Any, Any]:
    """The two parts of what should be inputs and targets."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise CredoError(
            f"data must be a pair (x, y), such as data.train, got {type(data).__name__}"
        )
    return data[0], data[1]


def check_data(
    model: Model,
    data: Any,
    require_all_classes: bool = True,
    row_weights: Any = None,
    class_weights: Mapping[int, float] | None = None,
) -> Batch:
    """Validate a pair of inputs and targets, all data or a part, and move it to the device.

    `require_all_classes` refuses labels that are all of one class, as a part of a stream may be.
    """
    given = check_pair(data)
    x, y = (np.asarray(part) for part in given)
    if x.ndim == 0 or y.ndim == 0:
        raise CredoError(f"x and y must have rows, got shapes {x.shape} and {y.shape}")
    if len(x) != len(y):
        raise CredoError(f"x has {len(x)} rows, y has {len(y)}; they must match")
    if len(x) == 0:
        raise CredoError("there are no data to fit: x has no rows")
    if not all_finite(x):
        raise CredoError("x must hold finite numbers; fill or remove NaN and infinite entries")
    y = model.likelihood.check(y)
    if require_all_classes and model.likelihood.num_classes is not None and len(np.unique(y)) < 2:
        raise CredoError(f"all {len(y)} labels are {y[0]}: one class only; a classifier needs two")
    dtype = jnp.int32 if np.issubdtype(y.dtype, np.integer) else float
    inputs = given[0] if isinstance(given[0], jax.Array) else x  # or what is there is copied again
    weight = _weights(model, y, row_weights, class_weights)
    return Batch(_on_device(inputs, float), _on_device(y, dtype), weight=weight)


def _on_device(values: Any, dtype: Any) -> jax.Array:
    """The values as an array of JAX; those of NumPy are converted before they are moved, for a
    conversion on the device is a program for every number of rows."""
    if not isinstance(values, jax.Array):
        values = np.asarray(values, jax.dtypes.canonicalize_dtype(dtype))
    return jnp.asarray(values, dtype)


def _weights(model: Model, y: np.ndarray, row_weights: Any, class_weights: Any) -> Any:
    """What each row counts: its own weight times that of its class."""
    if row_weights is None and class_weights is None:
        return None
    weights = np.ones(len(y))
    if row_weights is not None:
        weights = np.asarray(row_weights, float)
        if weights.shape != (len(y),) or not all_finite(weights) or weights.min() < 0:
            raise CredoError(
                f"row_weights must be {len(y)} finite numbers, none negative, got shape "
                f"{weights.shape}"
            )
        if not weights.any():
            raise CredoError("row_weights are all 0: no row would count")
    if class_weights is not None:
        count = model.likelihood.num_classes
        if count is None or not isinstance(class_weights, Mapping):
            raise CredoError(
                "class_weights map class numbers to weights, {0: 1.0, 1: 5.0}, and need a "
                f"classifier; got {class_weights!r}"
            )
        known = set(range(count))
        if not set(class_weights) <= known or any(
            not 0 <= w < math.inf for w in class_weights.values()
        ):
            raise CredoError(
                f"class_weights must give numbers from 0 on to classes 0 … {count - 1}, got "
                f"{dict(class_weights)!r}"
            )
        weights = weights * np.array([class_weights.get(c, 1.0) for c in range(count)])[y]
    return _on_device(weights, float)
