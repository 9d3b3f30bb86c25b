import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from credo.errors import CredoError
from credo.evaluation import classification, diagnostics, ood, regression

PROBS, LABELS = [[0.9, 0.1], [0.4, 0.6]], [0, 1]
METRICS = (
    *(classification.accuracy, classification.brier, classification.ece),
    *(classification.adaptive_ece, classification.reliability_curve),
)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("probs", "y", "message"),
    [
        ([0.9, 0.1], [0], r"probs has shape \(2,\); expected 2"),
        (np.zeros((0, 2)), [], "probs is empty"),
        ([[np.nan, 1.0], [0.5, 0.5]], LABELS, "1 NaN among 4"),
        ([[0.9, 0.2], [0.5, 0.5]], LABELS, r"probs\[0\] sums to 1.1 over 2 classes; expected 1"),
        ([[0.9], [0.4]], [0, 0], "pass both columns"),
        ([[2.0, -1.0], [0.5, 0.5]], LABELS, "ranges from -1 to 2.*softmax"),
        (PROBS, [0], "y has 1 labels, probs has 2 rows"),
        (PROBS, [[0], [1]], r"y has shape \(2, 1\)"),
        (PROBS, [0, 2], "label 2; expected class numbers 0 to 1"),
        (PROBS, [0, -1], "label -1"),
        (PROBS, [0, 0.5], "label 0.5"),
        (PROBS, ["cat", "dog"], "y is not an array of numbers"),
    ],
)
def test_classification_refuses(metric, probs, y, message):
    with pytest.raises(CredoError, match=message):
        metric(np.array(probs) if isinstance(probs, list) else probs, np.array(y))


def test_rows_may_sum_to_one_within_the_tolerance():
    assert classification.accuracy(np.array([[0.6005, 0.4]]), [0]).value == 1.0
    with pytest.raises(CredoError, match=r"sums to 1\.002"):
        classification.accuracy(np.array([[0.602, 0.4]]), [0])


@given(st.lists(st.integers(-3, 5), min_size=1, max_size=6))
def test_labels_are_taken_exactly_when_they_are_columns(labels):
    probs = np.full((len(labels), 3), 1 / 3)
    if all(0 <= label < 3 for label in labels):
        assert np.isfinite(classification.brier(probs, labels).value)
    else:
        with pytest.raises(CredoError, match="class numbers 0 to 2"):
            classification.brier(probs, labels)


@pytest.mark.parametrize("metric", [classification.ece, classification.adaptive_ece])
def test_bins(metric):
    with pytest.raises(CredoError, match="bins is 0"):
        metric(PROBS, LABELS, bins=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: regression.rmse(np.zeros((3, 1)), np.zeros(3)), r"mean \(3, 1\), y \(3,\)"),
        (lambda: regression.rmse([], []), "mean is empty"),
        (lambda: regression.nll([np.nan]), "log_prob has 1 NaN"),
        (lambda: regression.interval_coverage([1.0], [0.0], [0.5]), "lower is above upper for 1"),
        (lambda: regression.interval_coverage([0.0], [1.0], [0.5, 1.0]), "shapes differ"),
        (lambda: ood.auroc([], [1.0]), "scores_in is empty"),
        (lambda: ood.aupr([1.0], [np.nan]), "scores_out has 1 NaN"),
        (lambda: ood.fpr95([[1.0]], [1.0]), "scores_in has shape"),
        (lambda: diagnostics.rhat(np.zeros(100)), "add the chain axis"),
        (lambda: diagnostics.rhat(np.zeros((4, 3))), "at least 4 draws"),
        (lambda: diagnostics.ess_bulk(np.full((4, 9), np.inf)), "36 NaN or infinite"),
        (lambda: diagnostics.ebfmi(np.zeros((4, 9, 2))), r"expected \(chain, draw\)"),
    ],
)
def test_other_metrics_refuse(call, message):
    with pytest.raises(CredoError, match=message):
        call()
