"""Effective sample size from autocorrelations, many quantities at a time."""

import numpy as np


def autocovariance(chains: np.ndarray) -> np.ndarray:
    """Biased autocovariance (1/n) Σ_i x_i x_{i+t} of centered draws along the last axis, by FFT."""
    num_draws = chains.shape[-1]
    centered = chains - chains.mean(axis=-1, keepdims=True)
    # Twice the length keeps the end of a chain from meeting its beginning.
    length = 1 << (2 * num_draws - 1).bit_length()
    power = np.abs(np.fft.rfft(centered, length)) ** 2
    return np.fft.irfft(power, length)[..., :num_draws] / num_draws


def effective_sample_size(chains: np.ndarray) -> np.ndarray:
    """Effective sample size m n / τ of (quantity, chain, draw); NaN for a constant quantity.

    τ = −1 + 2 Σ_t P_t with pairs P_t = ρ_{2t} + ρ_{2t+1}, cut before the first P_t ≤ 0 and made
    non-increasing (Geyer's initial monotone sequence); plus the even ρ where the cut fell, if
    positive, which matters for antithetic chains; and τ ≥ 1 / log10(m n), as in Stan.

    Reference: Geyer, "Practical Markov chain Monte Carlo", Stat. Sci. 1992; Vehtari et al. 2021,
    section 3.2.
    """
    _, num_chains, num_draws = chains.shape
    rho = _autocorrelation(chains)
    num_pairs = max((num_draws - 3) // 2, 0)  # the last lags average 1 to 3 products: left out
    pairs = rho[:, 0 : 2 * num_pairs : 2] + rho[:, 1 : 2 * num_pairs : 2]
    kept = np.logical_and.accumulate(pairs > 0, axis=-1)
    monotone = np.minimum.accumulate(pairs, axis=-1)
    even_at_cut = rho[np.arange(len(rho)), 2 * kept.sum(axis=-1)]
    tau = -1 + 2 * np.where(kept, monotone, 0.0).sum(axis=-1) + np.maximum(even_at_cut, 0.0)
    size = num_chains * num_draws
    constant = np.ptp(chains, axis=(1, 2)) == 0
    return np.where(constant, np.nan, size / np.maximum(tau, 1 / np.log10(size)))


def _autocorrelation(chains):
    """ρ_t = 1 − (W − mean autocovariance_t) / var⁺: near 1 for all t where chains disagree."""
    num_draws = chains.shape[-1]
    covariance = autocovariance(chains).mean(axis=1)
    within = covariance[:, :1] * num_draws / (num_draws - 1)
    total = covariance[:, :1] + chains.mean(axis=-1).var(axis=-1, ddof=1)[:, None]
    rho = 1 - (within - covariance) / np.where(total > 0, total, 1.0)
    rho[:, 0] = 1.0
    return rho
