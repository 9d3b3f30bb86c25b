"""How well a score separates data from elsewhere: out-of-distribution is the positive class.

Scores are (n,), higher = more foreign: entropy, mutual information, minus the largest probability.
Data with equal scores are ordered by a fair coin.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from credo.evaluation.checks import as_array
from credo.evaluation.estimate import Estimate, bootstrap_error


def auroc(scores_in: ArrayLike, scores_out: ArrayLike) -> Estimate:
    """P(score out > score in) + ½ P(equal): 0.5 for guessing, 1 for perfect separation.

    The error is DeLong's, from the spread of each datum's placement among the other group.

    Reference: DeLong, DeLong & Clarke-Pearson, "Comparing the areas under two or more correlated
    ROC curves", Biometrics 1988; by ranks, in O(n log n), Sun & Xu, IEEE SPL 2014.

    Example:
        >>> auroc([0.1, 0.4], [0.4, 0.9]).value
        0.875
    """
    from scipy.stats import rankdata

    scores_in, scores_out = _read(scores_in, scores_out)
    ranks = rankdata(np.concatenate([scores_in, scores_out]))
    num_in, num_out = len(scores_in), len(scores_out)
    # Rank among all minus rank within one's own group = number of others below, ties ½.
    below_out = (ranks[num_in:] - rankdata(scores_out)) / num_in
    below_in = (ranks[:num_in] - rankdata(scores_in)) / num_out
    return Estimate(float(below_out.mean()), math.hypot(_error(below_out), _error(below_in)))


def aupr(scores_in: ArrayLike, scores_out: ArrayLike) -> Estimate:
    """Average precision Σ_t (recall_t − recall_{t−1}) precision_t over the distinct thresholds t.

    Guessing gives the share of out-of-distribution data, so it depends on the group sizes. The
    error is a bootstrap of both groups.

    Reference: Davis & Goadrich, "The relationship between precision-recall and ROC curves", 2006.

    Example:
        >>> aupr([0.1, 0.2], [0.8, 0.9]).value
        1.0
    """
    return _from_counts(_average_precision, scores_in, scores_out)


def fpr95(scores_in: ArrayLike, scores_out: ArrayLike) -> Estimate:
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
    return np.diff(flagged_out, prepend=0) @ precision / flagged_out[-1]


def _false_positive_rate(flagged_in, flagged_out, detected=0.95):
    true_rate = np.concatenate([[0], flagged_out / flagged_out[-1]])
    false_rate = np.concatenate([[0], flagged_in / flagged_in[-1]])
    reached = np.argmax(true_rate >= detected)
    segment = slice(reached - 1, reached + 1)
    return np.interp(detected, true_rate[segment], false_rate[segment])


def _from_counts(statistic, scores_in, scores_out):
    """Estimate of statistic(number flagged in, number flagged out), both per falling threshold."""
    scores_in, scores_out = _read(scores_in, scores_out)
    levels, places = np.unique(-np.concatenate([scores_in, scores_out]), return_inverse=True)
    place_in, place_out = np.split(places, [len(scores_in)])

    def weighted(weights_in, weights_out):
        counts_in = np.bincount(place_in, weights_in, minlength=len(levels))
        counts_out = np.bincount(place_out, weights_out, minlength=len(levels))
        return statistic(np.cumsum(counts_in), np.cumsum(counts_out))

    value = weighted(np.ones(len(scores_in)), np.ones(len(scores_out)))
    return Estimate(float(value), bootstrap_error(weighted, len(scores_in), len(scores_out)))


def _read(scores_in, scores_out):
    return as_array(scores_in, "scores_in"), as_array(scores_out, "scores_out")


def _error(placements):
    if len(placements) < 2:
        return math.nan
    return float(placements.std(ddof=1) / math.sqrt(len(placements)))
