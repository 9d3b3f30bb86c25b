import math

import numpy as np
import pytest
from scipy.stats import norm

from credo.evaluation.regression import interval_coverage, interval_width, nll, rmse


def test_values_by_hand():
    assert rmse([1.0, 2.0], [4.0, 6.0]).value == pytest.approx(math.sqrt(12.5), rel=1e-12)
    assert rmse([1.0, 2.0], [1.0, 2.0]) == (0.0, 0.0)
    assert nll([-1.0, 0.5]).value == 0.25
    assert nll([-math.inf, 0.0]).value == math.inf
    assert interval_coverage([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0, 0.0, 1.1]).value == 2 / 3
    assert interval_coverage([-math.inf], [math.inf], [3.0]).value == 1.0
    assert interval_width([0.0, 1.0], [1.0, 4.0]).value == 2.0


def test_outputs_of_one_datum_are_averaged_first():
    # Ten copies of one output carry no more information: same value, same error.
    rng = np.random.default_rng(0)
    mean, y = rng.normal(size=(2, 50))
    copies = (np.tile(mean[:, None], 10), np.tile(y[:, None], 10))
    assert rmse(*copies) == pytest.approx(rmse(mean, y), rel=1e-12)
    inside = interval_coverage(mean - 1, mean + 1, y)
    assert interval_coverage(copies[0] - 1, copies[0] + 1, copies[1]) == pytest.approx(inside)


def test_coverage_of_the_true_interval():
    y = np.random.default_rng(1).normal(size=20_000)
    bound = np.full(20_000, norm.ppf(0.95))
    value, error = interval_coverage(-bound, bound, y)
    assert abs(value - 0.9) < 4 * error
    assert error == pytest.approx(math.sqrt(0.9 * 0.1 / 20_000), rel=0.05)
    narrow, error = interval_coverage(-0.95 * bound, 0.95 * bound, y)
    assert abs(narrow - 0.9) > 4 * error


def test_nll_of_the_true_density():
    y = np.random.default_rng(2).normal(size=20_000)
    value, error = nll(norm.logpdf(y))
    entropy = 0.5 * math.log(2 * math.pi * math.e)
    assert abs(value - entropy) < 4 * error
    value, error = nll(norm.logpdf(y, scale=1.2))
    assert value - entropy > 4 * error


def test_errors_match_the_spread(error_ratio):
    def of_rmse(rng):
        return rmse(np.zeros(100), rng.normal(size=100))

    def of_coverage(rng):
        return interval_coverage(np.full(100, -1.0), np.full(100, 1.0), rng.normal(size=100))

    def error_of_the_square(rng):
        value, error = of_rmse(rng)
        return value, 2 * value * error

    assert abs(error_ratio(of_rmse, runs=2000) - 1) < 0.1
    assert abs(error_ratio(of_coverage, runs=2000) - 1) < 0.1
    assert abs(error_ratio(error_of_the_square, runs=2000) - 1) > 0.5
