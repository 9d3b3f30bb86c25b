"""Simulations that several tests share."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def error_ratio():
    """Standard error as reported (root mean square) / spread of the value over data sets.

    Right is 1, known to 1 / sqrt(2 runs).
    """

    def ratio(estimate_of, runs=300):
        estimates = np.array([estimate_of(np.random.default_rng(seed)) for seed in range(runs)])
        return np.sqrt(np.mean(estimates[:, 1] ** 2)) / estimates[:, 0].std(ddof=1)

    return ratio
