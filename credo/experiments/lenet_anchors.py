"""LeNet on full MNIST and Fashion-MNIST against published results of variational inference.

The anchors are those of LeNet-5 with mean-field variational inference: NLL, accuracy, ECE.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from credo.data import load
from credo.data.dataset import Split
from credo.evaluation import Estimate
from credo.evaluation.evaluate import evaluate
from credo.experiments.page import Page, Pattern
from credo.inference import BayesByBackprop, ConcreteDropout, Dropout, Method, fit
from credo.model import Categorical, FanInPrior, Model, NormalPrior, Prior
from credo.networks import LeNet
from credo.predictive import predict


class Scores(NamedTuple):
    """What the anchors report, accuracy in percent."""

    nll: Any
    accuracy: Any
    ece: Any


ANCHORS = {
    "mnist": Scores(0.048, 98.5, 0.010),
    "fashion-mnist": Scores(0.292, 89.5, 0.011),
}
DECAY = 1e-4


@dataclass(frozen=True)
class LeNetAnchors:
    """LeNet on full MNIST and Fashion-MNIST against published variational inference."""

    sets: tuple[str, ...] = tuple(ANCHORS)
    """Data sets: mnist, fashion-mnist."""
    num_images: int = 60000
    """Training images."""
    num_steps: int = 12000
    """Gradient steps of the dropout methods on batches of 64, about 13 passes over all images."""
    variational_steps: int = 8000
    """Gradient steps of Bayes by backprop, whose step costs about twice as much."""
    rate: float = 0.2
    """Drop probability of MC dropout."""
    num_draws: int = 50
    """Draws of the Monte-Carlo prediction."""
    seed: int = 0
    """Fixes initial weights, batches and noise."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        found = {name: self._one_set(name, data_dir) for name in self.sets}
        return self._page(found, time.perf_counter() - began)

    def _one_set(self, name: str, data_dir) -> dict[str, Scores]:
        data = load(name, data_dir=data_dir)
        train = Split(*(part[: self.num_images] for part in data.train))
        # A mean loss plus λ‖W‖²/2 is the mean negative log joint under N(0, s²), s² = 1/(λN).
        decay = NormalPrior((DECAY * len(train.y)) ** -0.5)
        common: dict[str, Any] = {"num_steps": self.num_steps, "batch_size": 64}
        variational = BayesByBackprop(num_steps=self.variational_steps, batch_size=64)
        methods: dict[str, tuple[Method, Prior]] = {
            "dropout": (Dropout(self.rate, **common), decay),
            "concrete-dropout": (ConcreteDropout(**common), decay),
            "bayes-by-backprop": (variational, FanInPrior(2**0.5)),
        }
        scores = {}
        for label, (method, prior) in methods.items():
            posterior = fit(Model(LeNet(), Categorical(10), prior), train, method, key=self.seed)
            measured = evaluate(predict(posterior, data.test.x, self.num_draws), data.test.y)
            percent = Estimate(*(100 * number for number in measured["accuracy"]))
            scores[label] = Scores(measured["nll"], percent, measured["ece"])
        return scores

    def _page(self, found: dict[str, dict[str, Scores]], seconds: float) -> Page:
        tables, patterns = [], []
        for name, scores in found.items():
            anchor = ANCHORS[name]
            rows = [["method", "NLL", "accuracy %", "ECE"]]
            rows.append(["published VI", *map(str, anchor)])
            rows += [[label, *map(str, score)] for label, score in scores.items()]
            tables.append((f"{name}, ± standard error over the test images", rows))
            winners = [label for label, score in scores.items() if beats(score, anchor)]
            best = min(scores, key=lambda label: scores[label].nll.value)
            evidence = f"{', '.join(winners) or 'none'}; best NLL {best} {scores[best].nll}"
            claim = f"{name}: a method beats the anchor in NLL, accuracy and ECE"
            patterns.append(Pattern(claim, bool(winners), evidence))
        return Page(
            "lenet-anchors",
            "LeNet against published variational inference",
            f"LeNet (20 and 50 channels, 500 units), {self.num_images:,} training images, Adam at "
            f"1e-3 with a cosine schedule on batches of 64, {self.num_steps:,} steps for the "
            f"dropout methods (drop probability {self.rate} where it is not learned) and "
            f"{self.variational_steps:,} for Bayes by backprop, {self.num_draws} draws, seed "
            f"{self.seed}, {seconds:.0f} s. No augmentation, nothing tuned on the test set.",
            tuple(tables),
            tuple(patterns),
        )


def beats(ours: Scores, anchor: Scores) -> bool:
    return (
        ours.nll.value < anchor.nll
        and ours.accuracy.value > anchor.accuracy
        and ours.ece.value < anchor.ece
    )
