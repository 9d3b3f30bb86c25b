import math

import numpy as np
import pytest

from credo.errors import CredoError
from credo.evaluation import estimate
from credo.evaluation.estimate import Estimate, bootstrap, bootstrap_error, mean_estimate


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.95312, 0.0112, "0.953 ± 0.011"),
        (0.5, 0.0996, "0.50 ± 0.10"),
        (153.4, 12.3, "153 ± 12"),
        (98765.4, 1234.5, "98765 ± 1234"),
        (-2.3, 0.51, "-2.30 ± 0.51"),
        (1.0, 0.0, "1 ± 0"),
        (math.inf, math.nan, "inf ± nan"),
        (1.5e-9, 2e-10, "1.5e-09 ± 2e-10"),
    ],
)
def test_text(value, error, text):
    assert str(Estimate(value, error)) == text
    assert f"{Estimate(value, error)}" == text


def test_mean_and_its_error():
    value, error = mean_estimate([1.0, 2.0, 3.0, 6.0])
    assert value == 3.0
    assert error == pytest.approx(math.sqrt((4 + 1 + 0 + 9) / 3) / 2, rel=1e-12)
    assert type(value) is float and type(error) is float


def test_error_is_nan_where_the_data_cannot_tell():
    assert math.isnan(mean_estimate([1.0]).error)
    value, error = mean_estimate([1.0, math.inf])
    assert value == math.inf and math.isnan(error)
    assert math.isnan(bootstrap_error(np.sum, 1))


def test_error_of_a_mean_matches_the_spread(error_ratio):
    def estimate_of(rng):
        return mean_estimate(rng.exponential(size=100))

    def without_root(rng):
        value, error = estimate_of(rng)
        return value, error / math.sqrt(100)

    assert abs(error_ratio(estimate_of, runs=2000) - 1) < 0.1
    assert abs(error_ratio(without_root) - 1) > 0.5


def test_bootstrap_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(0).normal(size=300)
    exact = values.std() / math.sqrt(300)
    error = bootstrap_error(lambda weights: weights @ values / 300, 300, resamples=2000)
    assert error == pytest.approx(exact, rel=4 / math.sqrt(2 * 2000))


def test_bootstrap_groups_are_independent_and_keep_their_sizes():
    totals = bootstrap(lambda *groups: np.stack([g.sum(axis=1) for g in groups], axis=1), 7, 3)
    assert totals.shape == (200, 2) and (totals == [7, 3]).all()
    firsts = bootstrap(lambda a, b: np.stack([a[:, 0], b[:, 0]], axis=1), 7, 7, resamples=2000)
    assert abs(np.corrcoef(firsts.T)[0, 1]) < 4 / math.sqrt(2000)


def test_bootstrap_repeats_itself_in_blocks_too(monkeypatch):
    values = np.arange(10.0)
    first, second = (bootstrap(lambda weights: weights @ values, 10) for _ in range(2))
    assert (first == second).all()
    monkeypatch.setattr(estimate, "BLOCK", 70)
    assert (bootstrap(lambda weights: weights @ values, 10) == first).all()


@pytest.mark.parametrize("values", [[], [math.nan], [[1.0, 2.0]]])
def test_wrong_values(values):
    with pytest.raises(CredoError, match="values"):
        mean_estimate(values)
