import math

import numpy as np
import pytest
from scipy.stats import norm

from credo.evaluation import diagnostics
from credo.evaluation.autocorrelation import autocovariance
from credo.evaluation.diagnostics import ebfmi, ess_bulk, ess_tail, mcse_mean, rhat
from credo.evaluation.ranks import normal_scores


def autoregression(rng, shape, phi):
    """Stationary x_t = φ x_{t−1} + sqrt(1 − φ²) e_t along axis 1, unit variance."""
    noise = rng.normal(size=shape)
    chains = noise.copy()
    for t in range(1, shape[1]):
        chains[:, t] = phi * chains[:, t - 1] + math.sqrt(1 - phi**2) * noise[:, t]
    return chains


def test_autocovariance_by_its_definition():
    chains = np.random.default_rng(0).normal(size=(2, 3, 11)) + 1e6
    centered = chains - chains.mean(axis=-1, keepdims=True)
    for lag in range(11):
        expected = (centered[..., : 11 - lag] * centered[..., lag:]).sum(axis=-1) / 11
        assert autocovariance(chains)[..., lag] == pytest.approx(expected, abs=1e-9)


def test_equal_draws_share_their_mean_rank():
    chains = np.array([[[0.0, 1.0], [1.0, 2.0]], [[5.0, 5.0], [5.0, 5.0]]])
    expected = [[[1.0, 2.5], [2.5, 4.0]], [[2.5, 2.5], [2.5, 2.5]]]
    assert norm.cdf(normal_scores(chains)) * 4.25 + 0.375 == pytest.approx(np.array(expected))


def size_for_the_mean(draws):
    return draws.var(axis=(0, 1), ddof=1) / mcse_mean(draws) ** 2


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, -0.3])
@pytest.mark.parametrize("size_of", [ess_bulk, size_for_the_mean])
def test_effective_sample_size_of_an_autoregression(phi, size_of):
    # Forty replicates give the Monte-Carlo error of the estimator itself.
    draws = autoregression(np.random.default_rng(1), (4, 2000, 40), phi)
    sizes = size_of(draws)
    exact = 8000 * (1 - phi) / (1 + phi)
    error = sizes.std(ddof=1) / math.sqrt(40)
    # Cutting the sequence of autocorrelations leaves a bias of a few per cent.
    assert abs(sizes.mean() - exact) < 4 * error + 0.03 * exact
    inverted = 8000 * (1 + phi) / (1 - phi)
    assert phi == 0 or abs(sizes.mean() - inverted) > 4 * error + 0.03 * inverted


def test_monte_carlo_error_matches_the_spread_of_means():
    draws = autoregression(np.random.default_rng(2), (4, 500, 400), 0.8)
    spread = draws.mean(axis=(0, 1)).std(ddof=1)
    reported = np.sqrt(np.mean(mcse_mean(draws) ** 2))
    assert reported == pytest.approx(spread, rel=0.15)
    as_if_independent = draws.std() / math.sqrt(2000)
    assert as_if_independent != pytest.approx(spread, rel=0.15)


def test_chains_that_agree_and_chains_that_do_not():
    draws = np.random.default_rng(3).normal(size=(4, 500, 50))
    assert (rhat(draws) < 1.02).all() and (rhat(draws) > 0.99).all()
    shifted, scaled = draws.copy(), draws.copy()
    shifted[0] += 1.0
    scaled[0] *= 3.0
    assert (rhat(shifted) > 1.05).all()
    assert (rhat(scaled) > 1.05).all()
    assert (rhat(draws + np.linspace(0, 2, 500)[:, None]) > 1.05).all()  # a common trend
    assert (ess_bulk(shifted) < 0.1 * ess_bulk(draws)).all()
    assert (ess_tail(scaled) < 0.5 * ess_tail(draws)).all()


def test_the_median_hides_a_scale_that_folding_shows():
    scaled = np.random.default_rng(4).normal(size=(4, 500, 20))
    scaled[0] *= 3.0
    chains = diagnostics._split(scaled)
    assert (diagnostics._plain_rhat(normal_scores(chains)) < 1.05).all()
    assert (rhat(scaled) > 1.05).all()


def test_only_ranks_count_in_the_bulk():
    draws = np.random.default_rng(5).standard_cauchy(size=(2, 300))
    assert ess_bulk(draws) == pytest.approx(ess_bulk(np.arctan(draws)), rel=1e-12)
    assert ess_tail(draws) == pytest.approx(ess_tail(np.arctan(draws)), rel=1e-12)


def reference_draws():
    rng = np.random.default_rng(7)
    noise = rng.standard_normal((4, 400))
    sticky, antithetic = noise.copy(), noise.copy()
    for t in range(1, 400):
        sticky[:, t] += 0.7 * sticky[:, t - 1]
        antithetic[:, t] -= 0.5 * antithetic[:, t - 1]
    shifted = rng.standard_normal((4, 101)) + np.array([[0.0], [0.0], [0.0], [1.0]])
    scaled = rng.standard_normal((4, 100)) * np.array([[1.0], [1.0], [1.0], [3.0]])
    cauchy = rng.standard_cauchy((2, 250))
    return sticky, antithetic, shifted, scaled, cauchy


# rhat, ess (bulk), ess (tail, 5 % and 95 %), mcse (mean) of arviz-stats 0.8.0 on reference_draws.
REFERENCE = [
    (1.02233052, 261.46253240, 525.03839460, 0.08914306),
    (0.99935998, 4365.63111220, 1409.70620471, 0.01695559),
    (1.12814864, 22.73808998, 283.37143677, 0.22789639),
    (1.12644299, 345.38455213, 42.64901545, 0.09870957),
    (1.00174216, 521.53256189, 469.22027718, 0.40433931),
]


def test_agreement_with_arviz():
    for draws, expected in zip(reference_draws(), REFERENCE):
        found = [function(draws) for function in (rhat, ess_bulk, ess_tail, mcse_mean)]
        # 101 draws: ArviZ's deviation keeps the middle draw that splitting leaves out.
        assert found == pytest.approx(expected, rel=1e-4 if draws.shape[1] == 101 else 1e-7)


def test_energies():
    # bfmi of arviz-stats 0.8.0
    expected = (0.59879054, 0.52868526, 0.48650418, 0.59571317)
    assert ebfmi(reference_draws()[0]) == pytest.approx(expected, rel=1e-7)
    for phi in (0.0, 0.9):
        values = ebfmi(autoregression(np.random.default_rng(8), (50, 2000), phi))
        error = values.std(ddof=1) / math.sqrt(50)
        # Σ (E − Ē)² loses the variance of the mean: a share (1 + φ) / (1 − φ) / n.
        exact = 2 * (1 - phi) * (1 + (1 + phi) / (1 - phi) / 2000)
        assert abs(values.mean() - exact) < 4 * error
        assert abs(values.mean() - (1 - phi)) > 4 * error


def test_a_quantity_that_never_moved_raises_every_alarm():
    draws = np.full((4, 10), 0.1)
    assert rhat(draws) == math.inf and mcse_mean(draws) == math.inf
    assert ess_bulk(draws) == 0 and ess_tail(draws) == 0
    assert (ebfmi(draws) == 0).all()
    stuck = np.repeat(np.arange(4.0)[:, None], 100, axis=1)
    assert rhat(stuck) > 100 and ess_bulk(stuck) < 8


def test_two_values_are_no_alarm():
    draws = np.tile([0.0, 1.0, 1.0, 0.0], (4, 50))
    assert rhat(draws) == pytest.approx(1, abs=0.01)
    assert ess_tail(draws) > 100


@pytest.mark.parametrize("function", [rhat, ess_bulk, ess_tail, mcse_mean])
def test_trailing_dimensions_and_blocks(function, monkeypatch):
    draws = np.random.default_rng(9).normal(size=(2, 21, 3, 5)).astype(np.float32)
    together = function(draws)
    assert together.shape == (3, 5)
    each = [[function(draws[:, :, i, j]) for j in range(5)] for i in range(3)]
    assert together == pytest.approx(np.array(each), rel=1e-12)
    monkeypatch.setattr(diagnostics, "BLOCK", 100)
    assert function(draws) == pytest.approx(together, rel=1e-12)


@pytest.mark.parametrize("num_draws", [4, 5, 6, 7])
def test_few_draws(num_draws):
    draws = np.random.default_rng(10).normal(size=(1, num_draws))
    for function in (rhat, ess_bulk, ess_tail, mcse_mean):
        assert np.isfinite(function(draws)) and function(draws) > 0
