"""How well a score separates data from elsewhere: out-of-distribution is the positive class.

Scores are (n,), higher = more foreign: entropy, mutual information, minus the largest probability.
Data with equal scores are ordered by a fair coin.
"""

import math

import numpy as np

from credo.evaluation.checks import as_array
from credo.evaluation.estimate import Estimate, bootstrap_error, mean_estimate


def auroc(scores_in: np.ndarray, scores_out: np.ndarray) -> Estimate:
    """P(score out > score in) + ½ P(equal): 0.5 for guessing, 1 for perfect separation.

    The error is DeLong's, from the spread of each datum's placement among the other group.

    Reference: DeLong, DeLong & Clarke-Pearson, "Comparing the areas under two or more correlated
    receiver operating characteristic curves", Biometrics 1988.

    Example:
        >>> auroc([0.1, 0.4], [0.4, 0.9]).value
        0.875
    """
    of_in, of_out = map(mean_estimate, placements(scores_in, scores_out))
    return Estimate(of_out.value, math.hypot(of_out.error, of_in.error))


def placements(scores_in: np.ndarray, scores_out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each datum the share of the other group that it is told apart from, equal scores half.

    The mean of either group is the AUROC. Differences of two scores' placements, datum by datum,
    give the error of the difference of their AUROCs.
    """
    scores_in, scores_out = _read(scores_in, scores_out)
    return 1 - _share_below(scores_out, scores_in), _share_below(scores_in, scores_out)


def aupr(scores_in: np.ndarray, scores_out: np.ndarray) -> Estimate:
    """Average precision Σ_t (recall_t − recall_{t−1}) precision_t over the distinct thresholds t.

    Guessing gives the share of out-of-distribution data, so it depends on the group sizes. The
    error is a bootstrap of both groups.

    Reference: Davis & Goadrich, "The relationship between precision-recall and ROC curves", 2006.

    Example:
        >>> aupr([0.1, 0.2], [0.8, 0.9]).value
        1.0
    """
    return _from_counts(_average_precision, scores_in, scores_out)


def fpr95(scores_in: np.ndarray, scores_out: np.ndarray) -> Estimate:
    """Share of in-distribution data flagged by the threshold that flags 95 % of the others.

    Between two thresholds, linear: ties are flagged by a coin. Authors for whom in-distribution is
    the positive class report `fpr95(-scores_out, -scores_in)`. The error is a bootstrap.

    Reference: Liang et al., "Enhancing the reliability of out-of-distribution image detection",
    ICLR 2018.

    Example:
        >>> fpr95([0.1, 0.2], [0.8, 0.9]).value
        0.0
    """
    return _from_counts(_false_positive_rate, scores_in, scores_out)


def _average_precision(flagged_in, flagged_out):
    precision = flagged_out / np.maximum(flagged_in + flagged_out, 1)
    gained = np.diff(flagged_out, axis=-1, prepend=0)
    return (gained * precision).sum(axis=-1) / flagged_out[:, -1]


def _false_positive_rate(flagged_in, flagged_out, detected=0.95):
    false_rate = np.pad(flagged_in / flagged_in[:, -1:], [(0, 0), (1, 0)])
    true_rate = np.pad(flagged_out / flagged_out[:, -1:], [(0, 0), (1, 0)])
    reached = np.argmax(true_rate >= detected, axis=-1)
    rows = np.arange(len(reached))
    low, high = true_rate[rows, reached - 1], true_rate[rows, reached]
    share = (detected - low) / (high - low)
    return (1 - share) * false_rate[rows, reached - 1] + share * false_rate[rows, reached]


def _from_counts(statistic, scores_in, scores_out):
    """Estimate of a statistic of how many are flagged in and out, per falling threshold."""
    scores_in, scores_out = _read(scores_in, scores_out)
    thresholds = np.unique(np.concatenate([scores_in, scores_out]))[::-1]
    count_in, count_out = _counter(scores_in, thresholds), _counter(scores_out, thresholds)

    def weighted(weights_in, weights_out):
        return statistic(count_in(weights_in), count_out(weights_out))

    sizes = len(scores_in), len(scores_out)
    value = weighted(*(np.ones((1, size), dtype=int) for size in sizes)).item()
    return Estimate(value, bootstrap_error(weighted, *sizes))


def _counter(scores, thresholds):
    """Function of weights (rows, n): the weight of the scores ≥ each threshold."""
    order = np.argsort(-scores)
    reached = np.searchsorted(-scores[order], -thresholds, side="right")

    def count(weights):
        return np.pad(np.cumsum(weights[:, order], axis=1), [(0, 0), (1, 0)])[:, reached]

    return count


def _read(scores_in, scores_out):
    return as_array(scores_in, "scores_in"), as_array(scores_out, "scores_out")


def _share_below(others, scores):
    """Share of the others below each score, equal ones counted half, in O(n log n)."""
    ordered = np.sort(others)
    below = np.searchsorted(ordered, scores, side="left")
    return (below + np.searchsorted(ordered, scores, side="right")) / (2 * len(others))
