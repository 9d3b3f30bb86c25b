import math

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import average_precision_score, roc_auc_score

from credo.evaluation.ood import aupr, auroc, fpr95


def normal_scores(rng, num_in, num_out, shift):
    return rng.normal(size=num_in), shift + rng.normal(size=num_out)


@pytest.mark.parametrize("shift", [0.0, 1.0, 2.5])
def test_auroc_of_shifted_normals(shift):
    scores_in, scores_out = normal_scores(np.random.default_rng(0), 20_000, 10_000, shift)
    value, error = auroc(scores_in, scores_out)
    assert abs(value - norm.cdf(shift / math.sqrt(2))) < 4 * error
    # the check sees a formula that forgets one of the two unit variances
    assert shift == 0 or abs(value - norm.cdf(shift)) > 4 * error


@pytest.mark.parametrize("shift", [1.0, 3.0])
def test_fpr95_of_shifted_normals(shift):
    scores_in, scores_out = normal_scores(np.random.default_rng(1), 4000, 4000, shift)
    value, error = fpr95(scores_in, scores_out)
    exact = norm.sf(shift + norm.ppf(0.05))
    assert abs(value - exact) < 4 * error
    swapped = norm.cdf(norm.ppf(0.05) - shift)  # share of out among the top 5 % of in: other axis
    assert abs(value - swapped) > 4 * error


def test_aupr_of_shifted_normals():
    scores_in, scores_out = normal_scores(np.random.default_rng(2), 6000, 3000, 1.5)
    thresholds = np.linspace(-6, 8, 20_001)
    recall = norm.sf(thresholds - 1.5)
    precision = recall / (recall + 2 * norm.sf(thresholds))
    exact = np.trapezoid(precision[::-1], recall[::-1])
    value, error = aupr(scores_in, scores_out)
    assert abs(value - exact) < 4 * error
    assert abs(aupr(-scores_out, -scores_in).value - exact) > 4 * error


@pytest.mark.parametrize("metric", [auroc, aupr])
@pytest.mark.parametrize("levels", [3, 1000])
def test_agreement_with_sklearn_under_ties(metric, levels):
    rng = np.random.default_rng(3)
    scores_in, scores_out = rng.integers(levels, size=80), rng.integers(levels, size=50) + 1
    reference = {auroc: roc_auc_score, aupr: average_precision_score}[metric]
    expected = reference([0] * 80 + [1] * 50, np.concatenate([scores_in, scores_out]))
    assert metric(scores_in, scores_out).value == pytest.approx(expected, rel=1e-12)


def test_ties_are_a_coin():
    same = np.zeros(30)
    assert auroc(same, same) == (0.5, 0.0)
    assert fpr95(same, same).value == pytest.approx(0.95, rel=1e-12)
    assert aupr(same, same).value == 0.5


def test_separated_scores():
    low, high = np.arange(20.0), np.arange(20.0) + 50
    assert auroc(low, high).value == 1.0 and auroc(high, low).value == 0.0
    assert aupr(low, high).value == 1.0
    assert fpr95(low, high).value == 0.0 and fpr95(high, low).value == 1.0


def test_fpr95_by_hand():
    # 19 of 20 are flagged from 1 upward, and so are 2 of the 4 others.
    assert fpr95([0.5, 0.7, 1.0, 3.0], np.arange(20.0)).value == 0.5
    # 9 of 10 at 1, 10 of 10 at 0: half-way, so the 0 of the others counts half.
    assert fpr95([-1.0, 0.0], np.arange(10.0)).value == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize("metric", [auroc, aupr, fpr95])
def test_only_the_order_counts(metric):
    scores_in, scores_out = normal_scores(np.random.default_rng(4), 60, 40, 1.0)
    assert metric(scores_in, scores_out) == metric(np.exp(scores_in), np.exp(scores_out))


def test_infinite_scores_are_scores():
    assert auroc([0.0, -math.inf], [math.inf, 1.0]).value == 1.0


@pytest.mark.parametrize("metric", [auroc, aupr, fpr95])
def test_one_datum_has_no_error(metric):
    assert math.isnan(metric([0.0], [1.0, 2.0]).error)


@pytest.mark.parametrize(("metric", "runs"), [(auroc, 1000), (aupr, 200), (fpr95, 200)])
@pytest.mark.parametrize(("num_in", "num_out", "shift"), [(200, 80, 1.0), (300, 300, 2.0)])
def test_errors_match_the_spread(metric, runs, num_in, num_out, shift, error_ratio):
    def estimate_of(rng):
        return metric(*normal_scores(rng, num_in, num_out, shift))

    assert abs(error_ratio(estimate_of, runs) - 1) < 0.15 + 0.5 / math.sqrt(2 * runs)


def test_an_error_from_one_group_only_is_caught(error_ratio):
    def estimate_of(rng):
        scores_in, scores_out = normal_scores(rng, 200, 80, 1.0)
        value = auroc(scores_in, scores_out).value
        many = auroc(np.repeat(scores_in, 100), scores_out)  # as if the first group were exact
        return value, many.error

    assert abs(error_ratio(estimate_of, runs=300) - 1) > 0.1
