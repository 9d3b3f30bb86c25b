"""Metrics of predicted means, intervals and densities.

`y` is (n,), or (n, d) for d outputs, or (n, *shape) for arrays; outputs of one datum are averaged
first, since they are not independent.
"""

import math

import numpy as np

from credo.errors import CredoError
from credo.evaluation.checks import as_array, require_same_shape
from credo.evaluation.estimate import Estimate, mean_estimate


def rmse(mean: np.ndarray, y: np.ndarray) -> Estimate:
    """Root mean squared error; its error by the delta method, se(MSE) / (2 RMSE).

    Example:
        >>> rmse([0.0, 0.0], [3.0, -3.0]).value
        3.0
    """
    mean, y = as_array(mean, "mean", dims=None), as_array(y, "y", dims=None)
    require_same_shape(mean=mean, y=y)
    mse, error = mean_estimate(_per_datum((mean - y) ** 2))
    root = math.sqrt(mse)
    return Estimate(root, error / (2 * root) if root > 0 else error)


def nll(log_prob: np.ndarray) -> Estimate:
    """Mean of minus the log density of each datum, in nats; infinite where a density was zero.

    Args:
        log_prob: (n,), log of the density averaged over posterior draws: log of the mean.

    Example:
        >>> nll([-1.0, -3.0]).value
        2.0
    """
    return mean_estimate(-as_array(log_prob, "log_prob"))


def interval_coverage(lower: np.ndarray, upper: np.ndarray, y: np.ndarray) -> Estimate:
    """Share of targets within [lower, upper]; compare it with the level of the interval.

    Example:
        >>> interval_coverage([0.0, 0.0], [1.0, 1.0], [0.5, 2.0]).value
        0.5
    """
    lower, upper = _interval(lower, upper)
    y = as_array(y, "y", dims=None)
    require_same_shape(lower=lower, y=y)
    return mean_estimate(_per_datum((lower <= y) & (y <= upper)))


def interval_width(lower: np.ndarray, upper: np.ndarray) -> Estimate:
    """Mean of upper − lower: of two intervals with the same coverage, the narrower knows more."""
    lower, upper = _interval(lower, upper)
    return mean_estimate(_per_datum(upper - lower))


def _interval(lower, upper):
    lower, upper = as_array(lower, "lower", dims=None), as_array(upper, "upper", dims=None)
    require_same_shape(lower=lower, upper=upper)
    if (lower > upper).any():
        raise CredoError(
            f"lower is above upper for {(lower > upper).sum()} of {lower.size} intervals; "
            "expected lower <= upper: swap them."
        )
    return lower, upper


def _per_datum(values):
    return values.reshape(len(values), -1).mean(axis=1)
