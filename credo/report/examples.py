"""Inputs worth looking at: those about which the methods disagree, or mistakes of a single one."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from credo.model.summaries import entropy_of
from credo.predictive import CategoricalPredictive, MixturePredictive
from credo.report.results import Comparison

PICTURES, ROWS = 8, 8  # shown of each kind
LEAST = 0.05  # nats (or shares of a standard deviation): less is no disagreement
NO_BREAK = "\N{NO-BREAK SPACE}"

TEST, UNFAMILIAR, QUANTITIES = "Test inputs", "Unfamiliar inputs", "Test rows"
MISTAKES, SURPRISES = "Most confident mistakes", "Biggest surprises"


class Answer(NamedTuple):
    """What a method said of an input."""

    predicted: str
    certainty: str
    right: bool


class Example(NamedTuple):
    """One input, what it is, and what every method said."""

    row: int
    """Its place in the test part, or among the unfamiliar inputs."""
    is_ood: bool
    """Whether it is one of the unfamiliar inputs."""
    truth: str
    score: float
    """By which it was chosen: what the methods disagree about; of a single one, its surprise."""
    answers: dict[str, Answer]


def examples(comparison: Comparison) -> dict[str, list[Example]]:
    """Inputs by what is remarkable about them, as the first seed of each method saw them."""
    count = PICTURES if comparison.data.image_shape else ROWS
    if comparison.regression:
        return _of_quantities(comparison, count)
    return _of_classes(comparison, count)


def _of_classes(comparison: Comparison, count: int) -> dict[str, list[Example]]:
    classes, labels = comparison.data.classes or (), comparison.data.test.y
    runs = {name: runs[0] for name, runs in comparison.runs.items()}
    seen = {name: _classes(run.predicted) for name, run in runs.items()}
    truths = [classes[label] for label in labels]
    if len(runs) == 1:
        (predicted,) = seen.values()
        surprise = np.where(predicted.codes != labels, predicted.probs.max(axis=1), 0.0)
        chosen = _largest(surprise, count, least=0.0)
        return {MISTAKES: _described(chosen, surprise, seen, truths, classes, is_ood=False)}
    scores = disagreement([predicted.probs for predicted in seen.values()])
    answers = np.stack([predicted.codes for predicted in seen.values()])
    # Where all give the same answer, that they are not equally sure of it is no picture's worth.
    chosen = _largest(np.where((answers == answers[0]).all(axis=0), 0.0, scores), count)
    groups = {TEST: _described(chosen, scores, seen, truths, classes, is_ood=False)}
    if comparison.ood is not None:
        seen = {name: _classes(run.ood_predicted) for name, run in runs.items()}
        scores = disagreement([predicted.probs for predicted in seen.values()])
        chosen, names = _largest(scores, count), list(comparison.ood.names)
        groups[UNFAMILIAR] = _described(chosen, scores, seen, names, classes, is_ood=True)
    return groups


def disagreement(probs: Iterable[np.ndarray]) -> np.ndarray:
    """H of the methods' mean minus their mean H, in nats: 0 where all say the same.

    Example:
        >>> disagreement([np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])])
        array([0.69314718])
    """
    stacked = np.stack(list(probs))
    return entropy_of(stacked.mean(axis=0)) - entropy_of(stacked).mean(axis=0)


def _classes(predicted: object) -> CategoricalPredictive:
    assert isinstance(predicted, CategoricalPredictive)
    return predicted


def _largest(scores: np.ndarray, count: int, least: float = LEAST) -> np.ndarray:
    order = np.argsort(-scores, kind="stable")[:count]
    return order[scores[order] > least]


def _described(
    rows: np.ndarray,
    scores: np.ndarray,
    seen: dict[str, CategoricalPredictive],
    truths: list[str],
    classes: tuple[str, ...],
    is_ood: bool,
) -> list[Example]:
    def answer(predicted: CategoricalPredictive, row: int) -> Answer:
        label, confidence = classes[predicted.codes[row]], float(predicted.probs[row].max())
        return Answer(label, percent(confidence), label == truths[row])

    return [
        Example(
            int(row), is_ood, truths[row], float(scores[row]),
            {name: answer(predicted, row) for name, predicted in seen.items()},
        )
        for row in rows
    ]  # fmt: skip


def _of_quantities(comparison: Comparison, count: int) -> dict[str, list[Example]]:
    y = comparison.data.test.y
    seen = {name: _spread(runs[0].predicted) for name, runs in comparison.runs.items()}
    means = np.stack([mean for mean, *_ in seen.values()])
    stds = np.stack([std for _, std, *_ in seen.values()])
    if len(seen) == 1:
        title, scores = SURPRISES, np.abs(y - means[0]) / stds[0]
    else:
        title, scores = QUANTITIES, means.std(axis=0) / stds.mean(axis=0)

    def answer(name: str, row: int) -> Answer:
        mean, std, lower, upper = (column[row] for column in seen[name])
        return Answer(f"{mean:.4g}", f"±{NO_BREAK}{std:.3g}", bool(lower <= y[row] <= upper))

    chosen = _largest(scores, count)
    return {
        title: [
            Example(
                int(row), False, f"{y[row]:.4g}", float(scores[row]),
                {name: answer(name, row) for name in seen},
            )
            for row in chosen
        ]
    }  # fmt: skip


def _spread(predicted: object) -> tuple[np.ndarray, ...]:
    """Mean, standard deviation and 95 % interval."""
    assert isinstance(predicted, MixturePredictive)
    return predicted.mean, predicted.std, *predicted.interval(0.95)


def percent(share: float) -> str:
    """`97.3 %`, without a line break in it; what only rounds to 100 % stays below it.

    Example:
        >>> [percent(share).replace("\\N{NO-BREAK SPACE}", " ") for share in (0.9731, 0.99999, 1.0)]
        ['97.3 %', '> 99.9 %', '100 %']
    """
    if 0.9995 <= share < 1:
        return "> 99.9 %".replace(" ", NO_BREAK)
    return f"{100 * share:.3g}{NO_BREAK}%"
