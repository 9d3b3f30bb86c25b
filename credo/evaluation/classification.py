"""Metrics of predicted class probabilities.

Everywhere `probs` is (n, K), the probabilities averaged over posterior draws (average
probabilities, never logits), and `y` is (n,), class numbers from 0 to K − 1. Log is natural.
"""

from typing import NamedTuple

import numpy as np

from credo.evaluation import binning
from credo.evaluation.checks import as_labels, as_probabilities, require_bins, require_same_shape
from credo.evaluation.estimate import Estimate, mean_estimate


def accuracy(probs: np.ndarray, y: np.ndarray) -> Estimate:
    """Share of data whose most probable class is the label (the first of equally probable ones).

    Example:
        >>> accuracy([[0.9, 0.1], [0.2, 0.8]], [0, 1]).value
        1.0
    """
    probs, y = _read(probs, y)
    return mean_estimate(probs.argmax(axis=1) == y)


def nll(probs: np.ndarray, y: np.ndarray) -> Estimate:
    """Negative log-likelihood per datum, −log p̄(y): log of the mean, not mean of the log.

    A label that was given probability 0 makes it infinite, with an error of NaN. Clipping would
    turn the worst possible forecast into a finite penalty that depends on the float format. Where
    zeros come from float32 underflow, use `mean_estimate(-log_prob)` with log-probabilities.

    Example:
        >>> round(nll([[0.5, 0.5]], [1]).value, 4)
        0.6931
    """
    probs, y = _read(probs, y)
    with np.errstate(divide="ignore"):
        return mean_estimate(-np.log(_of_label(probs, y)))


def brier(probs: np.ndarray, y: np.ndarray) -> Estimate:
    """Brier score Σ_k (p_k − 1[y = k])² per datum, over all classes, so within [0, 2].

    The convention for two classes that counts one of them only gives half of it.

    Reference: Brier, "Verification of forecasts expressed in terms of probability", 1950.

    Example:
        >>> brier([[0.5, 0.5]], [1]).value
        0.5
    """
    probs, y = _read(probs, y)
    return mean_estimate((probs**2).sum(axis=1) - 2 * _of_label(probs, y) + 1)


def ece(probs: np.ndarray, y: np.ndarray, bins: int = 15) -> Estimate:
    """Expected calibration error Σ_b (n_b / n) |accuracy_b − confidence_b|, equal-width bins.

    Biased upward: a calibrated forecast still scores about sqrt(bins / n), so compare values only
    between data sets of one size.

    Reference: Guo et al., "On calibration of modern neural networks", ICML 2017.

    Example:
        >>> round(ece([[0.8, 0.2]] * 4, [0, 0, 1, 1]).value, 3)
        0.3
    """
    confidence, hits = _confidence_and_hits(probs, y, bins)
    return _calibration_error(binning.equal_width(confidence, bins), hits - confidence, bins)


def adaptive_ece(probs: np.ndarray, y: np.ndarray, bins: int = 15) -> Estimate:
    """`ece` with bins of equal mass; data of the same confidence share a bin.

    Reference: Nixon et al., "Measuring calibration in deep learning", 2019.
    """
    confidence, hits = _confidence_and_hits(probs, y, bins)
    return _calibration_error(binning.equal_mass(confidence, bins), hits - confidence, bins)


def classwise_ece(probs: np.ndarray, y: np.ndarray, bins: int = 15) -> Estimate:
    """Mean over classes k of the calibration error of p_k as a forecast of 1[y = k].

    Reference: Kull et al., "Beyond temperature scaling", NeurIPS 2019.
    """
    probs, y = _read(probs, y)
    require_bins(bins)
    classes = np.arange(probs.shape[1])
    cells = binning.equal_width(probs, bins) + bins * classes
    surplus = ((y[:, None] == classes) - probs) / len(classes)
    return binning.calibration_error(cells, surplus, bins * len(classes))


class ReliabilityCurve(NamedTuple):
    """What a reliability diagram shows, one entry per bin; NaN in bins without data."""

    confidence: np.ndarray
    accuracy: np.ndarray
    count: np.ndarray  # type: ignore[assignment]  # tuple.count, which nobody calls here


def reliability_curve(probs: np.ndarray, y: np.ndarray, bins: int = 15) -> ReliabilityCurve:
    """Mean confidence, accuracy and number of data in each equal-width bin of confidence."""
    confidence, hits = _confidence_and_hits(probs, y, bins)
    cells = binning.equal_width(confidence, bins)
    count = np.bincount(cells, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean_confidence = np.bincount(cells, confidence, minlength=bins) / count
        mean_accuracy = np.bincount(cells, hits, minlength=bins) / count
    return ReliabilityCurve(mean_confidence, mean_accuracy, count)


def agreement(probs: np.ndarray, reference: np.ndarray) -> Estimate:
    """Share of data on which two predictives have the same most probable class.

    Reference: Izmailov et al., "What are Bayesian neural network posteriors really like?", 2021.
    """
    probs, reference = as_probabilities(probs), as_probabilities(reference, "reference")
    require_same_shape(probs=probs, reference=reference)
    return mean_estimate(probs.argmax(axis=1) == reference.argmax(axis=1))


def total_variation(probs: np.ndarray, reference: np.ndarray) -> Estimate:
    """Mean distance ½ Σ_k |p_k − q_k| to another predictive, within [0, 1]."""
    probs, reference = as_probabilities(probs), as_probabilities(reference, "reference")
    require_same_shape(probs=probs, reference=reference)
    return mean_estimate(np.abs(probs - reference).sum(axis=1) / 2)


def _read(probs, y):
    probs = as_probabilities(probs)
    return probs, as_labels(y, probs)


def _of_label(probs, y):
    return probs[np.arange(len(y)), y]


def _confidence_and_hits(probs, y, bins):
    probs, y = _read(probs, y)
    require_bins(bins)
    return probs.max(axis=1), probs.argmax(axis=1) == y


def _calibration_error(cells, surplus, bins):
    return binning.calibration_error(cells[:, None], surplus[:, None], bins)
