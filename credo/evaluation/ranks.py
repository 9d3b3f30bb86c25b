"""Ranks and normal scores, many rows at a time."""

import numpy as np


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks 1 to n along the last axis of (rows, n); equal values share their mean rank.

    Example:
        >>> ranks(np.array([[3.0, 1.0, 3.0, 2.0]])).tolist()
        [[3.5, 1.0, 3.5, 2.0]]
    """
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    places = np.arange(values.shape[-1])
    new = np.diff(ordered, axis=-1, prepend=-np.inf) != 0
    last = np.roll(new, -1, axis=-1)  # where the next value is new; the first always is
    first_place = np.maximum.accumulate(np.where(new, places, 0), axis=-1)
    last_place = np.where(last, places, places[-1])[:, ::-1]
    last_place = np.minimum.accumulate(last_place, axis=-1)[:, ::-1]
    result = np.empty(values.shape)
    np.put_along_axis(result, order, (first_place + last_place) / 2 + 1, axis=-1)
    return result


def normal_scores(chains: np.ndarray) -> np.ndarray:
    """Φ⁻¹((rank − 3/8) / (S + 1/4)) over all S draws of (quantity, chain, draw).

    Reference: Blom, "Statistical estimates and transformed beta-variables", 1958.
    """
    from scipy.special import ndtri

    pooled = chains.reshape(len(chains), -1)
    return ndtri((ranks(pooled) - 0.375) / (pooled.shape[-1] + 0.25)).reshape(chains.shape)
