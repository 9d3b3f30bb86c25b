"""The checker of shapes checks: an array that is not as a signature says is found."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, TypeCheckError

from credo.data.batches import permute
from credo.errors import CredoError
from tests.shapes import checked


def test_functions_of_credo_are_checked():
    assert permute(jax.random.key(0), jnp.arange(4), 9).shape == (4,)
    with pytest.raises(TypeCheckError, match="positions"):
        permute(jax.random.key(0), jnp.zeros((2, 2), int), 9)


def planted(x: Float[Array, "n k"], y: Float[Array, "n k"], name: str) -> Float[Array, " n"]:
    return (x * y).sum(axis=int(name == "wrong"))


def test_shapes_are_checked_and_types_are_not():
    x = np.ones((3, 2))
    with pytest.raises(TypeCheckError, match="y"):
        checked(planted)(x, np.ones((2, 3)), "wrong")
    with pytest.raises(TypeCheckError, match="return"):
        checked(planted)(x, x, "right")  # a sum over the wrong axis
    np.testing.assert_array_equal(checked(planted)(x, x, "wrong"), 2 * np.ones(3))
    with pytest.raises(TypeCheckError, match="return"):
        checked(planted)(x, x, 3)  # not a text: only its result is wrong


def refused(x: Float[Array, "n k"]) -> None:
    if np.ndim(x) != 2:
        raise CredoError(f"x must be a matrix, got {np.shape(x)}")


def test_what_credo_refuses_by_itself_is_refused_in_its_words():
    with pytest.raises(CredoError, match="must be a matrix"):
        checked(refused)(np.ones(3))
