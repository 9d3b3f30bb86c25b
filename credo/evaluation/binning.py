"""Sort confidences into bins and sum up the gaps between hits and confidence."""

import math

import numpy as np

from credo.evaluation.estimate import Estimate, bootstrap

GROUPS = 1000  # the spread of 1000 sums is known to 1 / sqrt(2 * 1000) = 2 %


def equal_width(confidence: np.ndarray, bins: int) -> np.ndarray:
    """Bin numbers for the bins (b / bins, (b + 1) / bins], as in Guo et al. 2017."""
    inner_edges = np.linspace(0, 1, bins + 1)[1:-1]
    return np.searchsorted(inner_edges, confidence, side="left")


def equal_mass(confidence: np.ndarray, bins: int) -> np.ndarray:
    """Bin numbers such that bins hold equally many data; equal confidences stay together."""
    ranks = np.searchsorted(np.sort(confidence), confidence, side="left")
    return ranks * bins // len(confidence)


def calibration_error(bin_numbers: np.ndarray, residuals: np.ndarray, bins: int) -> Estimate:
    """Sum over bins of |G|, G = (1/n) Σ residuals of the data in the bin.

    The error is a bootstrap of the gaps G. The observed gaps hold noise already, and scattering
    them once more would make |G| of a calibrated forecast seem to vary too much; so they are shrunk
    first, until Σ G² is what it would be without noise. In simulations the error is then right
    within some 15 %; at the kink of |G| a bootstrap is never exact.

    Args:
        bin_numbers: (n,), the bin of each datum.
        residuals: (n,), hit − confidence.
    """
    num_data = len(bin_numbers)
    sums = _grouped_sums(bin_numbers, residuals, bins) / num_data
    gaps = sums.sum(axis=0)
    value = float(np.abs(gaps).sum())
    if num_data < 2:
        return Estimate(value, math.nan)
    deviations = bootstrap(lambda weights: weights @ sums, len(sums)) - gaps
    resampled = _without_noise(gaps, deviations) + deviations
    return Estimate(value, float(np.abs(resampled).sum(axis=1).std(ddof=1)))


def _without_noise(gaps, deviations):
    """Gaps shrunk by one factor, such that Σ G² loses the part that noise added to it."""
    power = (gaps**2).sum()
    signal = max(power - deviations.var(axis=0).sum(), 0.0)
    return gaps * math.sqrt(signal / power) if power > 0 else gaps


def _grouped_sums(bin_numbers, residuals, bins):
    """Sums per (group, bin): pooled at random, so that resampling costs the same for any n."""
    num_groups = min(len(bin_numbers), GROUPS)
    groups = np.random.default_rng(0).permutation(len(bin_numbers)) % num_groups
    sums = np.bincount(groups * bins + bin_numbers, residuals, minlength=num_groups * bins)
    return sums.reshape(num_groups, bins)
