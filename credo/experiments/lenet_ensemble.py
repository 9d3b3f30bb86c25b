"""An ensemble of ten LeNets on MNIST and Fashion-MNIST against published deep ensembles."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from credo.data import load
from credo.data.dataset import Split
from credo.evaluation import Estimate
from credo.evaluation.evaluate import evaluate
from credo.experiments.lenet_anchors import DECAY, Scores
from credo.experiments.page import Page, Pattern
from credo.inference import MAP, Dropout, Ensemble, Method, fit
from credo.inference.ensembles.ensemble import split
from credo.model import Categorical, Model, NormalPrior
from credo.networks import LeNet
from credo.predictive import CategoricalPredictive, predict

ANCHORS = {
    "mnist": Scores(0.016, 99.4, 0.005),
    "fashion-mnist": Scores(0.200, 93.2, 0.010),
}
MIRRORED = ("fashion-mnist",)  # a shirt in a mirror is a shirt, a digit is none
COPIES = 3  # of each image, moved by up to a pixel
BATCH = 64


@dataclass(frozen=True)
class LeNetEnsemble:
    """Ten LeNets on full MNIST and Fashion-MNIST against published deep ensembles."""

    sets: tuple[str, ...] = tuple(ANCHORS)
    """Data sets: mnist, fashion-mnist."""
    num_images: int = 60000
    """Training images."""
    size: int = 10
    """Members."""
    num_epochs: tuple[float, ...] = (8.0, 20.0)
    """Passes over the images, for each data set; variants of them are not counted."""
    rates: tuple[float, ...] = (0.1, 0.1)
    """Drop probability of the members, for each data set; 0 makes them plain networks."""
    num_draws: int = 50
    """Draws of the prediction, shared by the members."""
    seed: int = 0
    """Fixes initial weights, batches and noise."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        settings = zip(self.sets, self.num_epochs, self.rates)
        found = {
            name: self._one_set(name, epochs, rate, data_dir) for name, epochs, rate in settings
        }
        return self._page(found, time.perf_counter() - began)

    def _one_set(self, name: str, epochs: float, rate: float, data_dir) -> dict[str, Scores]:
        data = load(name, data_dir=data_dir)
        images, labels = (part[: self.num_images] for part in data.train)
        decay = NormalPrior((DECAY * len(labels)) ** -0.5)
        steps = max(1, int(epochs * len(labels) / BATCH))
        images = with_variants(images, name in MIRRORED, self.seed)
        labels = np.tile(labels, len(images) // len(labels))
        common: dict[str, Any] = {"num_steps": steps, "batch_size": BATCH}
        member: Method = Dropout(rate, **common) if rate else MAP(**common)
        model = Model(LeNet(), Categorical(10), decay)
        method = Ensemble(member, self.size)
        posterior = fit(model, Split(images, labels), method, key=self.seed)
        together = predict(posterior, data.test.x, self.num_draws)
        members = [replace(one, record=posterior.record) for one in split(posterior, self.size)]
        alone = [predict(member, data.test.x, self.num_draws // 5) for member in members]
        return {
            f"ensemble of {self.size}": scores_of(together, data.test.y),
            "its members, mean": mean_scores([scores_of(one, data.test.y) for one in alone]),
        }

    def _page(self, found: dict[str, dict[str, Scores]], seconds: float) -> Page:
        tables, patterns = [], []
        for name, scores in found.items():
            anchor = ANCHORS[name]
            rows = [["", "NLL", "accuracy %", "ECE"], ["published ensemble", *map(str, anchor)]]
            rows += [[label, *map(str, score)] for label, score in scores.items()]
            tables.append((f"{name}, ± standard error over the test images", rows))
            ours, members = scores.values()
            evidence = ", ".join(
                f"{field} {getattr(ours, field)} ({getattr(anchor, field)})"
                for field in Scores._fields
            )
            claim = f"{name}: the ensemble reaches the anchor in NLL, accuracy and ECE"
            patterns.append(Pattern(claim, reaches(ours, anchor), evidence))
            better = ours.nll.value < members.nll and ours.accuracy.value > members.accuracy
            evidence = f"NLL {ours.nll} ({members.nll:.4f}), accuracy {ours.accuracy}"
            claim = f"{name}: the ensemble is better than its members"
            patterns.append(Pattern(claim, better, f"{evidence} ({members.accuracy:.2f})"))
        return Page(
            "lenet-ensemble",
            "An ensemble of LeNets against published deep ensembles",
            f"{self.size} LeNets (20 and 50 channels, 500 units) with dropout of "
            f"{listed(self.rates)}, {self.num_images:,} training images, Adam at 1e-3 with a "
            f"cosine schedule on batches of {BATCH}, {listed(self.num_epochs)} passes, each of "
            f"as many steps as the images fill, on them and {COPIES} copies of each moved by up to "
            f"a pixel, for Fashion also mirrored. The prior is that of weight decay {DECAY:g} on "
            "the images without copies; copies count as data and weaken it by their number. "
            f"{self.num_draws} draws in all, seed {self.seed}, {seconds / 60:.0f} minutes. Passes, "
            "dropout and copies were chosen with one network, on 10,000 of the training images "
            "that it did not see; nothing was tuned on the test set. Reached: not worse by more "
            "than one standard error.",
            tuple(tables),
            tuple(patterns),
        )


def with_variants(images: np.ndarray, mirrored: bool, seed: int) -> np.ndarray:
    """The images, perhaps mirrored too, and copies moved at random by up to a pixel each way."""
    if mirrored:
        images = np.concatenate([images, images[:, :, ::-1]])
    random = np.random.default_rng(seed)
    return np.concatenate([images, *(moved(images, random) for _ in range(COPIES))])


def moved(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    count, height, width, _ = images.shape
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    down, right = random.integers(0, 3, (2, count, 1))
    rows, columns = down + np.arange(height), right + np.arange(width)
    return padded[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def scores_of(predicted: Any, y: np.ndarray) -> Scores:
    assert isinstance(predicted, CategoricalPredictive)
    measured = evaluate(predicted, y)
    percent = Estimate(*(100 * number for number in measured["accuracy"]))
    return Scores(measured["nll"], percent, measured["ece"])


def mean_scores(scores: list[Scores]) -> Scores:
    return Scores(*(round(float(np.mean([s.value for s in column])), 4) for column in zip(*scores)))


def reaches(ours: Scores, anchor: Scores) -> bool:
    """Each figure at least as good as the anchor's, give or take a standard error."""
    return (
        ours.nll.value - ours.nll.error <= anchor.nll
        and ours.accuracy.value + ours.accuracy.error >= anchor.accuracy
        and ours.ece.value - ours.ece.error <= anchor.ece
    )


def listed(numbers: tuple[float, ...]) -> str:
    return " and ".join(f"{number:g}" for number in numbers)
