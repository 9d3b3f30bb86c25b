"""Entropies of predictions per datum, in nats: total = aleatoric + epistemic.

H[p̄] (`entropy`) = E H[p_t] (`expected_entropy`) + mutual information of label and parameters.

Reference: Houlsby et al., "Bayesian active learning for classification and preference learning",
2011.
"""

import numpy as np

from credo.errors import CredoError
from credo.evaluation.checks import as_probabilities

ROUNDING = 1e-7


def entropy(probs: np.ndarray) -> np.ndarray:
    """Predictive entropy −Σ_k p_k log p_k of (n, K) probabilities, shape (n,), 0 log 0 = 0.

    Example:
        >>> entropy([[0.5, 0.5], [1.0, 0.0]]).round(4).tolist()
        [0.6931, 0.0]
    """
    return _entropy(as_probabilities(probs))


def expected_entropy(draw_probs: np.ndarray) -> np.ndarray:
    """Mean over draws of the entropy of each draw, E_t H[p_t]: (S, n, K) to (n,).

    Example:
        >>> expected_entropy([[[1.0, 0.0]], [[0.0, 1.0]]]).tolist()
        [0.0]
    """
    return _entropies(draw_probs)[1]


def mutual_information(draw_probs: np.ndarray) -> np.ndarray:
    """Mutual information H[p̄] − E_t H[p_t] ≥ 0 of label and parameters: (S, n, K) to (n,).

    Values between −1e-7 and 0 are rounding and become 0; below that something is wrong with the
    entropies, and it is said instead of hidden.

    Example:
        >>> mutual_information([[[1.0, 0.0]], [[0.0, 1.0]]]).round(4).tolist()
        [0.6931]
    """
    of_mean, expected = _entropies(draw_probs)
    return drop_rounding(of_mean - expected)


def drop_rounding(information: np.ndarray) -> np.ndarray:
    """Zero where within 1e-7 below zero; an error where further below."""
    if information.min() < -ROUNDING:
        raise CredoError(
            f"mutual information of {information.min():.3g}; expected at least 0 up to rounding "
            f"({-ROUNDING:g}): compute both entropies from the same draws, in float32 or wider."
        )
    return np.maximum(information, 0.0)


def _entropy(probs):
    # The guard keeps 0 log 0 at 0; the result is not below 0 although a row may sum to 1 + 1e-7.
    logs = np.log(probs, where=probs > 0, out=np.zeros_like(probs))
    return -(probs * logs).sum(axis=-1) + 0.0


def _entropies(draw_probs):
    """(H of the mean, mean of H), one draw at a time: memory of one draw in float64."""
    draw_probs = np.asarray(draw_probs)
    if draw_probs.ndim != 3 or len(draw_probs) == 0:
        raise CredoError(
            f"draw_probs has shape {draw_probs.shape}; expected (draws, data, classes): "
            "keep the draws on the first axis instead of averaging them."
        )
    total, expected = np.zeros(()), np.zeros(())
    for index, draw in enumerate(draw_probs):
        probs = as_probabilities(draw, f"draw_probs[{index}]")
        total, expected = total + probs, expected + _entropy(probs)
    return _entropy(total / len(draw_probs)), expected / len(draw_probs)
