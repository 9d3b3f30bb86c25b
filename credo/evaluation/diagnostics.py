"""Have the chains converged, and how many independent draws are they worth?

Draws are (chain, draw, ...), at least 4 draws per chain; results have the shape `...`. Every chain
is split in two, so that one chain is enough and a trend shows. A quantity that never moved gets
R̂ = inf, effective sample size 0 and Monte-Carlo error inf, never NaN: comparing with a threshold
always raises the alarm.

Reference: Vehtari, Gelman, Simpson, Carpenter & Bürkner, "Rank-normalization, folding, and
localization: an improved R̂", Bayesian Analysis 2021.
"""

import numpy as np
from numpy.typing import ArrayLike

from credo.errors import CredoError
from credo.evaluation.autocorrelation import effective_sample_size
from credo.evaluation.ranks import normal_scores

BLOCK = 1 << 21  # draws handled at once: 16 MB in float64, for any number of quantities


def rhat(draws: ArrayLike) -> np.ndarray:
    """Rank-normalized split R̂, the larger of bulk and folded; ≈ 1 when chains agree, alarm > 1.01.

    R̂² = ((n − 1) / n W + B / n) / W on normal scores of the ranks (location) and of the ranks of
    |x − median| (scale).

    Example:
        >>> draws = np.random.default_rng(0).normal(size=(4, 500))
        >>> bool(rhat(draws) < 1.01), bool(rhat(draws + np.arange(4)[:, None]) > 1.05)
        (True, True)
    """
    return _per_quantity(_rhat, draws)


def ess_bulk(draws: ArrayLike) -> np.ndarray:
    """Effective sample size of the normal scores, for the center; want > 100 per chain."""
    return _per_quantity(
        lambda chains: _or_zero(effective_sample_size(normal_scores(chains))), draws
    )


def ess_tail(draws: ArrayLike) -> np.ndarray:
    """Smaller effective sample size of 1[x ≤ q] for the 5 % and 95 % quantiles q: the tails."""
    return _per_quantity(_ess_tail, draws)


def mcse_mean(draws: ArrayLike) -> np.ndarray:
    """Monte-Carlo standard error of the mean of all draws: sd / sqrt(effective sample size)."""
    return _per_quantity(_mcse_mean, draws)


def ebfmi(energy: ArrayLike) -> np.ndarray:
    """Energy-based fraction of missing information per chain: Σ (E_i − E_{i−1})² / Σ (E_i − Ē)².

    2 for independent energies; below 0.3 momentum refreshes explore the energies too slowly.

    Args:
        energy: (chain, draw), the Hamiltonian at each draw.

    Reference: Betancourt, "Diagnosing suboptimal cotangent disintegrations in Hamiltonian Monte
    Carlo", 2016.
    """
    energy = np.asarray(energy, dtype=np.float64)
    _require_draws(energy, "energy")
    if energy.ndim != 2:
        raise CredoError(f"energy has shape {energy.shape}; expected (chain, draw).")
    steps = (np.diff(energy, axis=1) ** 2).sum(axis=1)
    spread = ((energy - energy.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    return np.where(steps > 0, steps / np.where(steps > 0, spread, 1.0), 0.0)


def _rhat(chains):
    folded = np.abs(chains - np.median(chains, axis=(1, 2), keepdims=True))
    # fmax passes over a NaN: two values folded at their middle are constant, which is no alarm.
    larger = np.fmax(_plain_rhat(normal_scores(chains)), _plain_rhat(normal_scores(folded)))
    return np.where(_constant(chains), np.inf, larger)


def _plain_rhat(chains):
    num_draws = chains.shape[-1]
    within = chains.var(axis=-1, ddof=1).mean(axis=-1)
    between = num_draws * chains.mean(axis=-1).var(axis=-1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt((between / within + num_draws - 1) / num_draws)
    return np.where(_constant(chains), np.nan, ratio)


def _ess_tail(chains):
    quantiles = np.quantile(chains, [0.05, 0.95], axis=(1, 2), keepdims=True)
    low, high = (effective_sample_size((chains <= q).astype(np.float64)) for q in quantiles)
    return _or_zero(np.fmin(low, high))


def _mcse_mean(chains):
    deviation = chains.std(axis=(1, 2), ddof=1)
    size = effective_sample_size(chains)
    return np.where(_constant(chains), np.inf, deviation / np.sqrt(size))


def _constant(chains):
    return np.ptp(chains, axis=(1, 2)) == 0


def _or_zero(size):
    return np.where(np.isnan(size), 0.0, size)


def _per_quantity(function, draws):
    """Apply a function of split chains (quantity, 2 chain, draw / 2) block by block."""
    draws = np.asarray(draws)
    _require_draws(draws, "draws")
    num_chains, num_draws = draws.shape[:2]
    flat = draws.reshape(num_chains, num_draws, -1)
    block = max(1, BLOCK // (num_chains * num_draws))
    starts = range(0, flat.shape[-1], block)
    results = [function(_split(flat[:, :, start : start + block])) for start in starts]
    return np.concatenate(results).reshape(draws.shape[2:])


def _split(draws):
    """(chain, draw, quantity) to (quantity, 2 chain, draw / 2), without the middle draw if odd."""
    half = draws.shape[1] // 2
    halves = np.concatenate([draws[:, :half], draws[:, -half:]])
    return np.ascontiguousarray(np.moveaxis(halves, 2, 0), dtype=np.float64)


def _require_draws(draws, name):
    if draws.ndim < 2 or draws.size == 0 or draws.shape[1] < 4:
        raise CredoError(
            f"{name} has shape {draws.shape}; expected (chain, draw, ...) with at least 4 draws: "
            "add the chain axis or draw more."
        )
    if not np.isfinite(draws).all():
        raise CredoError(
            f"{name} has {(~np.isfinite(draws)).sum()} NaN or infinite values; expected none: "
            "the chain diverged, use a smaller step size."
        )
