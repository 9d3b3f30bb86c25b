"""Turn what the user passed into float64 arrays, or say what is wrong with it."""

import numpy as np
from numpy.typing import ArrayLike

from credo.errors import CredoError

SUM_TOLERANCE = 1e-3  # float16 softmax rows miss 1 by up to ~5e-4; anything worse is not a softmax


def as_array(values: ArrayLike, name: str, dims: tuple[int, ...] | None = (1,)) -> np.ndarray:
    """A float64 array without NaN, not empty, with one of the allowed numbers of dimensions.

    None allows any number from 1.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise CredoError(
            f"{name} is not an array of numbers ({error}); "
            "expected equally long rows of numbers: convert it first."
        ) from error
    if array.ndim == 0 or (dims is not None and array.ndim not in dims):
        expected = " or ".join(str(dim) for dim in dims) if dims else "at least 1"
        raise CredoError(
            f"{name} has shape {array.shape}; expected {expected} dimension(s): reshape it."
        )
    if array.size == 0:
        raise CredoError(f"{name} is empty, shape {array.shape}; pass at least one datum.")
    if np.isnan(array).any():
        raise CredoError(
            f"{name} has {np.isnan(array).sum()} NaN among {array.size} values; expected none: "
            "find what produced them, or drop those data."
        )
    return array


def as_probabilities(values: ArrayLike) -> np.ndarray:
    """Probabilities of shape (n, K): within [0, 1], rows that sum to one."""
    probs = as_array(values, "probs", dims=(2,))
    low, high = probs.min(), probs.max()
    if low < 0 or high > 1 + SUM_TOLERANCE:
        raise CredoError(
            f"probs ranges from {low:.4g} to {high:.4g}; expected probabilities within [0, 1]: "
            "pass the softmax of the logits."
        )
    sums = probs.sum(axis=1)
    row = np.abs(sums - 1).argmax()
    if abs(sums[row] - 1) > SUM_TOLERANCE:
        raise CredoError(
            f"probs[{row}] sums to {sums[row]:.4g} over {probs.shape[1]} classes; expected 1: "
            "normalize the rows (for two classes pass both columns, 1 - p and p)."
        )
    return probs


def as_labels(values: ArrayLike, probs: np.ndarray) -> np.ndarray:
    """Class numbers of shape (n,), each one of the K columns of `probs`."""
    num_data, num_classes = probs.shape
    labels = as_array(values, "y")
    if len(labels) != num_data:
        raise CredoError(
            f"y has {len(labels)} labels, probs has {num_data} rows; expected one label per row."
        )
    known = (labels >= 0) & (labels < num_classes) & (labels == np.floor(labels))
    if not known.all():
        raise CredoError(
            f"y has the label {labels[~known][0]:g}; expected class numbers 0 to "
            f"{num_classes - 1}: encode the labels as the columns of probs."
        )
    return labels.astype(np.int64)


def require_same_shape(**arrays: np.ndarray) -> None:
    """Refuse arrays that NumPy would otherwise broadcast, as (n, 1) with (n,) to (n, n)."""
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise CredoError(f"shapes differ: {listed}; expected the same shape: reshape them.")


def require_bins(bins: int) -> None:
    """At least one bin, a whole number."""
    if int(bins) != bins or bins < 1:
        raise CredoError(f"bins is {bins}; expected a whole number of at least 1, such as 15.")
