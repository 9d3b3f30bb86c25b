"""Normal scores, many quantities at a time."""

import numpy as np


def normal_scores(chains: np.ndarray) -> np.ndarray:
    """Φ⁻¹((rank − 3/8) / (S + 1/4)) over all S draws of (quantity, chain, draw).

    Equal draws share their mean rank.

    Reference: Blom, "Statistical estimates and transformed beta-variables", 1958.

    Example:
        >>> normal_scores(np.array([[[3.0, 1.0, 2.0]]])).round(3).tolist()
        [[[0.869, -0.869, 0.0]]]
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    pooled = chains.reshape(len(chains), -1)
    ranks = rankdata(pooled, axis=-1)
    return ndtri((ranks - 0.375) / (pooled.shape[-1] + 0.25)).reshape(chains.shape)
