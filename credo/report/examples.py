"""Inputs worth looking at: the most and least certain ones, and the most confident mistakes."""

from typing import NamedTuple

import numpy as np

from credo.predictive import CategoricalPredictive, NormalPredictive
from credo.report.results import Comparison, Run

PICTURES, ROWS = 10, 5  # shown of each kind: rows of a table take more room
NO_BREAK = "\N{NO-BREAK SPACE}"


class Example(NamedTuple):
    """One input, what it is, and what a method predicted."""

    row: int
    """Its place in the test part, or among the unfamiliar inputs."""
    is_ood: bool
    """Whether it is one of the unfamiliar inputs."""
    truth: str
    predicted: str
    certainty: str
    uncertainty: float
    """Entropy in nats, or the standard deviation of the prediction."""
    right: bool


def examples(comparison: Comparison, method: str) -> dict[str, list[Example]]:
    """Inputs by what is remarkable about them, as the method's first seed saw them.

    There is no most and least certain one where all are equally certain.
    """
    run = comparison.runs[method][0]
    count = PICTURES if comparison.data.image_shape else ROWS
    if isinstance(run.predicted, NormalPredictive):
        return _of_quantities(comparison, run.predicted, count)
    assert isinstance(run.predicted, CategoricalPredictive)
    return _of_classes(comparison, run, run.predicted, count)


def _of_classes(
    comparison: Comparison, run: Run, predicted: CategoricalPredictive, count: int
) -> dict[str, list[Example]]:
    classes, labels = comparison.data.classes or (), comparison.data.test.y
    truths = [classes[label] for label in labels]
    order = np.argsort(predicted.entropy, kind="stable")
    wrong = np.flatnonzero(predicted.codes != labels)
    mistakes = wrong[np.argsort(-predicted.probs.max(axis=1)[wrong], kind="stable")]

    def described(rows, predicted, truths, is_ood=False):
        return [_class_example(predicted, row, truths[row], classes, is_ood) for row in rows]

    groups = {
        "Most certain": described(order[:count], predicted, truths),
        "Least certain": described(order[::-1][:count], predicted, truths),
        "Most confident mistakes": described(mistakes[:count], predicted, truths),
    }
    if comparison.ood is not None and isinstance(run.ood_predicted, CategoricalPredictive):
        trusted = np.argsort(run.ood_predicted.entropy, kind="stable")[:count]
        names = comparison.ood.names
        groups["Unfamiliar, yet most certain"] = described(
            trusted, run.ood_predicted, names, is_ood=True
        )
    return groups


def _class_example(predicted, row, truth, classes, is_ood) -> Example:
    label, confidence = classes[predicted.codes[row]], float(predicted.probs[row].max())
    entropy = float(predicted.entropy[row])
    return Example(int(row), is_ood, truth, label, percent(confidence), entropy, label == truth)


def _of_quantities(
    comparison: Comparison, predicted: NormalPredictive, count: int
) -> dict[str, list[Example]]:
    y, mean, std = comparison.data.test.y, predicted.mean, predicted.std
    lower, upper = predicted.interval(0.95)
    order = np.argsort(std, kind="stable")
    surprising = np.argsort(-np.abs(y - mean) / std, kind="stable")

    def described(rows):
        return [
            Example(
                int(row), False, f"{y[row]:.4g}", f"{mean[row]:.4g}", f"±{NO_BREAK}{std[row]:.3g}",
                float(std[row]), bool(lower[row] <= y[row] <= upper[row]),
            )
            for row in rows
        ]  # fmt: skip

    equal = np.ptp(std) < 1e-5 * std.mean()
    return {
        "Most certain": [] if equal else described(order[:count]),
        "Least certain": [] if equal else described(order[::-1][:count]),
        "Biggest surprises": described(surprising[:count]),
    }


def percent(share: float) -> str:
    """`97.3 %`, without a line break in it; what only rounds to 100 % stays below it.

    Example:
        >>> [percent(share).replace("\\N{NO-BREAK SPACE}", " ") for share in (0.9731, 0.99999, 1.0)]
        ['97.3 %', '> 99.9 %', '100 %']
    """
    if 0.9995 <= share < 1:
        return "> 99.9 %".replace(" ", NO_BREAK)
    return f"{100 * share:.3g}{NO_BREAK}%"
