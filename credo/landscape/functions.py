"""How far apart are two solutions: in their weights, and in what they predict?

Two networks may share no direction in weight space and agree about every input (permute the hidden
units of one), or lie close together and disagree. Independent solutions differ in both; samples
around one solution differ little in what they predict.

Members are parameters stacked along the first axis of every leaf (`credo.engine.stack`);
their predictions are probabilities (member, row, class), as `predict(..., keep_draws=True)` keeps.

Reference: Fort, Hu & Lakshminarayanan, Deep Ensembles: A Loss Landscape Perspective, 2019.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from credo.errors import CredoError
from credo.evaluation.estimate import Estimate, mean_estimate
from credo.networks import Params


class Plane(NamedTuple):
    """Where functions stand by how good they are, and by how they differ from a base function."""

    accuracy: Float[np.ndarray, " s"]
    disagreement: Float[np.ndarray, " s"]
    normalized: Float[np.ndarray, " s"]
    """disagreement / (1 − accuracy): 1 where every mistake, and only mistakes, differ."""


def cosine_matrix(members: Params) -> Float[np.ndarray, "m m"]:
    """⟨θ_i, θ_j⟩ / (‖θ_i‖ ‖θ_j‖) of all pairs of members.

    Example:
        >>> cosine_matrix({"w": np.array([[3.0, 0.0], [0.0, 2.0], [1.0, 1.0]])}).round(3).tolist()
        [[1.0, 0.0, 0.707], [0.0, 1.0, 0.707], [0.707, 0.707, 1.0]]
    """
    leaves = jax.tree.leaves(members)
    flat = np.concatenate([np.asarray(leaf).reshape(len(leaf), -1) for leaf in leaves], axis=1)
    unit = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T, np.float64)


def disagreement(first: Int[np.ndarray, " n"], second: Int[np.ndarray, " n"]) -> Estimate:
    """d = (1/n) Σ 1[f₁(x) ≠ f₂(x)] of two columns of labels.

    Example:
        >>> disagreement(np.array([0, 1, 2, 3]), np.array([0, 1, 2, 2])).value
        0.25
    """
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape or first.ndim != 1:
        raise CredoError(
            f"labels have shapes {first.shape} and {second.shape}; expected one label per row of "
            "the same inputs: take argmax over the classes"
        )
    return mean_estimate((first != second).astype(float))


def disagreement_matrix(labels: Int[np.ndarray, "m n"]) -> Float[np.ndarray, "m m"]:
    """The share of rows on which each pair of members disagrees.

    Example:
        >>> disagreement_matrix(np.array([[0, 1], [0, 2]])).tolist()
        [[0.0, 0.5], [0.5, 0.0]]
    """
    return np.array([[np.mean(one != other) for other in labels] for one in labels])


def normalized(
    disagreement: np.ndarray | float, accuracy: np.ndarray | float
) -> Float[np.ndarray, "..."]:
    """d / (1 − accuracy): a better network can differ less, and should not be blamed for it.

    Not a number where there are no mistakes.

    Example:
        >>> float(normalized(0.25, 0.5))
        0.5
    """
    mistakes = 1.0 - np.asarray(accuracy, float)
    possible = np.where(mistakes > 0, mistakes, np.nan)
    return np.asarray(np.asarray(disagreement, float) / possible)


def independent_disagreement(first: Any, second: Any, num_classes: int) -> Any:
    """Expected disagreement of functions of given accuracies whose mistakes are independent.

    1 − a b − (1 − a)(1 − b) / (K − 1): no more is to be had from chance at these accuracies. Two
    uniform guessers disagree with probability (K − 1) / K.

    Example:
        >>> round(independent_disagreement(0.1, 0.1, 10), 6)
        0.9
    """
    return 1 - first * second - (1 - first) * (1 - second) / (num_classes - 1)


def diversity_accuracy(
    base: Int[np.ndarray, " n"], probs: Float[np.ndarray, "s n k"], y: Int[np.ndarray, " n"]
) -> Plane:
    """Where functions with these probabilities stand in the plane, seen from the `base` labels."""
    labels = np.asarray(probs).argmax(axis=2)
    accuracy = (labels == np.asarray(y)).mean(axis=1)
    differs = (labels != np.asarray(base)).mean(axis=1)
    return Plane(accuracy, differs, normalized(differs, accuracy))


def prediction_map(
    probs: Float[np.ndarray, "s n k"], seed: int = 0, perplexity: float = 20.0
) -> Float[np.ndarray, "s 2"]:
    """Functions as points of the plane that keep their neighbours, by t-SNE of what they predict.

    Distances between far points, and the axes, mean nothing.

    Reference: van der Maaten & Hinton, Visualizing Data using t-SNE, JMLR 2008.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    flat = np.asarray(probs, np.float32).reshape(len(probs), -1)
    if len(flat) < 4:
        raise CredoError(f"a map needs at least 4 functions, got {len(flat)}")
    perplexity = min(perplexity, (len(flat) - 1) / 3)
    placed = TSNE(2, perplexity=perplexity, init="pca", random_state=seed)
    with threadpool_limits(1):  # more threads mostly wait for each other: ten times the work
        return np.asarray(placed.fit_transform(flat), np.float64)
