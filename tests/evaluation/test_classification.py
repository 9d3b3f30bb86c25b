import math

import numpy as np
import pytest

from credo.evaluation import binning
from credo.evaluation.classification import accuracy, adaptive_ece, brier, ece, reliability_curve

CALIBRATION = (ece, adaptive_ece)


def random_probs(rng, num_data, num_classes, scale=1.5):
    weights = np.exp(scale * rng.normal(size=(num_data, num_classes)))
    return weights / weights.sum(axis=1, keepdims=True)


def random_labels(rng, probs):
    return (probs.cumsum(axis=1)[:, :-1] < rng.random((len(probs), 1))).sum(axis=1)


def sharpen(probs, power):
    return probs**power / (probs**power).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("num_classes", [2, 10])
def test_uniform_predictor(num_classes):
    probs = np.full((20, num_classes), 1 / num_classes)
    y = np.arange(20) % num_classes
    assert brier(probs, y).value == pytest.approx(1 - 1 / num_classes, rel=1e-12)
    assert accuracy(probs, y).value == pytest.approx(1 / num_classes, rel=1e-12)


def test_brier_by_its_definition():
    rng = np.random.default_rng(2)
    probs, y = random_probs(rng, 40, 4), rng.integers(4, size=40)
    expected = ((probs - np.eye(4)[y]) ** 2).sum(axis=1).mean()
    assert brier(probs, y).value == pytest.approx(expected, rel=1e-12)


def test_brier_is_reliability_minus_resolution_plus_uncertainty():
    # Murphy 1973, exact when grouped by unique forecasts.
    rng = np.random.default_rng(3)
    forecasts, group = random_probs(rng, 6, 3), rng.integers(6, size=200)
    y = rng.integers(3, size=200)
    onehot, base = np.eye(3)[y], np.eye(3)[y].mean(axis=0)
    share = np.bincount(group, minlength=6) / 200
    rate = np.stack([onehot[group == g].mean(axis=0) for g in range(6)])
    reliability = share @ ((forecasts - rate) ** 2).sum(axis=1)
    resolution = share @ ((rate - base) ** 2).sum(axis=1)
    uncertainty = (base * (1 - base)).sum()
    score = brier(forecasts[group], y).value
    assert score == pytest.approx(reliability - resolution + uncertainty, rel=1e-12)
    assert score / 2 != pytest.approx(reliability - resolution + uncertainty, rel=1e-2)


@pytest.mark.parametrize("metric", CALIBRATION)
@pytest.mark.parametrize("hits", [90, 37])
def test_constant_confidence(metric, hits):
    # Ties must share a bin: the hits come first, so splitting them would change the sum.
    probs, y = np.tile([0.7, 0.3], (100, 1)), np.repeat([0, 1], [hits, 100 - hits])
    assert metric(probs, y).value == pytest.approx(abs(0.7 - hits / 100), rel=1e-9)


@pytest.mark.parametrize("metric", CALIBRATION)
def test_calibrated_labels_bring_the_error_to_zero(metric):
    rng = np.random.default_rng(4)
    probs = random_probs(rng, 100_000, 3)
    y = random_labels(rng, probs)
    # Each of 15 gaps has mean size ≤ sqrt(2/π · ¼ · n_b) / n; Cauchy–Schwarz over the bins.
    bound = math.sqrt(2 / math.pi * 15 / (4 * 100_000))
    assert metric(probs, y).value < bound + 4 * metric(probs, y).error
    overconfident = metric(sharpen(probs, 1.3), y)
    assert overconfident.value > bound + 4 * overconfident.error


def test_bins_by_hand():
    probs = np.array([[0.55, 0.45], [0.65, 0.35], [0.65, 0.35], [1.0, 0.0]])
    y = [1, 0, 1, 0]
    # bins (0.5, 0.6], (0.6, 0.7], (0.9, 1]: gaps 0.55, 0.65 − 0.5, 0
    assert ece(probs, y, bins=10).value == pytest.approx((0.55 + 2 * 0.15) / 4, rel=1e-9)
    # two equal masses: {0.55, 0.65, 0.65} since ties stay together, {1}
    assert adaptive_ece(probs, y, bins=2).value == pytest.approx((1.85 - 1) / 4, rel=1e-9)
    curve = reliability_curve(probs, y, bins=10)
    assert curve.count.tolist() == [0, 0, 0, 0, 0, 1, 2, 0, 0, 1]
    assert curve.confidence[6] == pytest.approx(0.65) and curve.accuracy[6] == 0.5
    assert np.isnan(curve.confidence[0]) and np.isnan(curve.accuracy[0])


def test_edges_belong_to_the_lower_bin():
    assert binning.equal_width(np.array([0.0, 0.2, 0.21, 1.0, 1.0001]), 5).tolist() == [
        0,
        0,
        1,
        4,
        4,
    ]
    masses = np.bincount(binning.equal_mass(np.random.default_rng(0).random(100), 7))
    assert len(masses) == 7 and set(masses) <= {14, 15}


def test_ece_is_the_sum_over_the_reliability_curve():
    rng = np.random.default_rng(5)
    probs = random_probs(rng, 300, 4)
    y = rng.integers(4, size=300)
    curve = reliability_curve(probs, y, bins=8)
    gaps = np.nan_to_num(np.abs(curve.accuracy - curve.confidence))
    assert ece(probs, y, bins=8).value == pytest.approx(gaps @ curve.count / 300, rel=1e-9)


@pytest.mark.parametrize("metric", [accuracy, brier, *CALIBRATION])
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_errors_match_the_spread(metric, power, error_ratio):
    def estimate_of(rng):
        probs = random_probs(rng, 300, 3)
        return metric(sharpen(probs, power), random_labels(rng, probs))

    assert abs(error_ratio(estimate_of, runs=200) - 1) < 0.2


def test_a_plain_bootstrap_of_calibrated_gaps_is_caught(error_ratio, monkeypatch):
    # Without the shrinking (as if the gaps had no noise) the error comes out far too large.
    def estimate_of(rng):
        probs = random_probs(rng, 300, 3)
        return ece(probs, random_labels(rng, probs))

    monkeypatch.setattr(binning, "_without_noise", lambda gaps, deviations: gaps)
    assert error_ratio(estimate_of, runs=200) - 1 > 0.2


def test_pooling_data_leaves_the_error(monkeypatch):
    rng = np.random.default_rng(7)
    probs = random_probs(rng, 4000, 3)
    y = random_labels(rng, probs**2)
    pooled = ece(probs, y)
    monkeypatch.setattr(binning, "GROUPS", 4000)
    single = ece(probs, y)
    assert pooled.value == pytest.approx(single.value, rel=1e-12)
    # two bootstraps of 200, and 1000 groups: 5 %, 5 % and 2 %
    assert pooled.error == pytest.approx(single.error, rel=4 * math.hypot(0.05, 0.05, 0.022))
