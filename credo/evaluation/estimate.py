"""A number and its standard error."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from credo.evaluation.checks import as_array

RESAMPLES = 200  # relative error of a standard error from R resamples: 1 / sqrt(2 R) = 5 %
BLOCK = 1 << 20  # weights held at once: 8 MB, for any number of data


class Estimate(NamedTuple):
    """A value with its standard error, the spread expected over other test sets of this size.

    The error is NaN where the data cannot tell it: one datum, or an infinite value.

    Example:
        >>> print(Estimate(0.95312, 0.0112))
        0.953 ± 0.011
    """

    value: float
    error: float

    def __str__(self) -> str:
        # Two significant digits of the error, and the value to the same decimal place.
        if not math.isfinite(self.error) or self.error == 0:
            return f"{self.value:.4g} ± {self.error:g}"
        decimals = 1 - int(f"{self.error:.1e}".split("e")[1])
        if decimals > 6:
            return f"{self.value:.4g} ± {self.error:.2g}"
        return f"{self.value:.{max(decimals, 0)}f} ± {self.error:.{max(decimals, 0)}f}"


def mean_estimate(values: ArrayLike) -> Estimate:
    """Mean of independent per-datum values; error = s / sqrt(n), s² with n − 1.

    Args:
        values: (n,), one value per datum; may be infinite, may not be NaN.

    Example:
        >>> print(mean_estimate([1.0, 0.0, 1.0, 1.0]))
        0.75 ± 0.25
    """
    values = as_array(values, "values")
    if not np.isfinite(values).all():
        with np.errstate(invalid="ignore"):
            return Estimate(float(values.mean()), math.nan)
    if len(values) < 2:
        return Estimate(float(values.mean()), math.nan)
    return Estimate(float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values))))


def bootstrap(statistic: Callable, *sizes: int, resamples: int = RESAMPLES) -> np.ndarray:
    """Values of a statistic over data sets drawn again with replacement, one row per resample.

    Args:
        statistic: a function of one weight array (resamples, size) per group of data: how often
            each datum occurs. Weights instead of copies let it sort or bin the data once, outside.
        sizes: number of data in each group; groups are resampled separately.

    Reference: Efron, "Bootstrap methods: another look at the jackknife", Ann. Stat. 1979.

    Example:
        >>> values = np.array([1.0, 2.0, 3.0])
        >>> bootstrap(lambda weights: weights @ values / 3, 3, resamples=5).shape
        (5,)
    """
    rng = np.random.default_rng(0)
    rows = max(1, BLOCK // sum(sizes))
    blocks = [min(rows, resamples - start) for start in range(0, resamples, rows)]
    return np.concatenate([statistic(*(_weights(rng, n, size) for size in sizes)) for n in blocks])


def bootstrap_error(statistic: Callable, *sizes: int, resamples: int = RESAMPLES) -> float:
    """Standard deviation of `bootstrap`; NaN where a group has a single datum."""
    if min(sizes) < 2:
        return math.nan
    return float(bootstrap(statistic, *sizes, resamples=resamples).std(ddof=1))


def _weights(rng, rows, size):
    drawn = rng.integers(size, size=(rows, size)) + size * np.arange(rows)[:, None]
    return np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size)
