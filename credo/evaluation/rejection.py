"""What is left when the least certain answers are rejected: a person decides those instead."""

import numpy as np
from numpy.typing import ArrayLike

from credo.errors import CredoError
from credo.evaluation.checks import as_array, require_same_shape


def rejection_curve(
    uncertainty: ArrayLike, values: ArrayLike, shares: ArrayLike = (0.0, 0.1, 0.2, 0.5)
) -> np.ndarray:
    """Mean of `values` over the rows kept where a share of the most uncertain is rejected.

    With 1 for a right and 0 for a wrong answer, it is accuracy against rejected share: one minus
    the risk-coverage curve. Rows of equal uncertainty are rejected in random order, of which this
    is the mean: it is flat where all are equally certain. At least one row is kept.

    Reference: Geifman & El-Yaniv, "Selective classification for deep neural networks", NeurIPS
    2017.

    Args:
        uncertainty: (n,), such as `predicted.entropy` or `predicted.std`.
        values: (n,), such as right or wrong, or squared errors.
        shares: from 0 to below 1.

    Example:
        >>> rejection_curve([0.1, 0.9, 0.2, 0.8], [1, 0, 1, 1], [0.0, 0.25, 0.5])
        array([0.75, 1.  , 1.  ])
    """
    uncertainty, values = as_array(uncertainty, "uncertainty"), as_array(values, "values")
    require_same_shape(uncertainty=uncertainty, values=values)
    shares = as_array(shares, "shares")
    if shares.min() < 0 or shares.max() >= 1:
        raise CredoError(
            f"shares ranges from {shares.min():g} to {shares.max():g}; expected shares of rows "
            "from 0 to below 1."
        )
    _, group, sizes = np.unique(uncertainty, return_inverse=True, return_counts=True)
    expected = (np.bincount(group, values) / sizes)[group]
    order = np.argsort(uncertainty, kind="stable")
    means = np.cumsum(expected[order]) / np.arange(1, len(order) + 1)
    kept = np.maximum(np.round((1 - shares) * len(order)).astype(int), 1)
    return means[kept - 1]
