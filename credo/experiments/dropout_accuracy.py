"""Test accuracy of dropout methods on MNIST with 1,000 training images.

The source's table compares the naive prediction (mean weights) with Monte-Carlo prediction (100
draws) for a plain network, MC dropout, concrete dropout and variational dropout.

Source: Lee, Implementation Tutorial: Bayesian Deep Learning, KAIST, 2019.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from credo.experiments.mnist import images, slide_model
from credo.experiments.page import Page, Pattern, mean_and_spread
from credo.inference import MAP, ConcreteDropout, Dropout, Method, VariationalDropout, fit
from credo.posterior import NoisyNetwork, NormalWeights, Posterior, Samples
from credo.predictive import predict

SOURCE = {
    "base": ("89.37 ± 0.32", "–"),
    "MC dropout": ("90.07 ± 0.44", "90.17 ± 0.23"),
    "concrete dropout": ("90.23 ± 0.21", "90.20 ± 0.32"),
    "variational dropout": ("88.77 ± 0.53", "89.60 ± 0.56"),
}


@dataclass(frozen=True)
class DropoutAccuracy:
    """Accuracy table of dropout methods, MNIST with 1,000 images."""

    seeds: int = 10
    """Runs of each method, on the same images with other initial weights, batches and noise."""
    epochs: int = 100
    """Passes over the training images."""
    per_class: int = 100
    """Training images of each class."""
    rate: float = 0.5
    """Drop probability of MC dropout (the source does not print its own)."""
    num_draws: int = 100
    """Draws of the Monte-Carlo prediction."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        train, test = images(self.per_class, data_dir)
        model = slide_model(len(train.y))
        common: dict[str, Any] = {
            "num_epochs": self.epochs, "batch_size": 100, "schedule": "constant"
        }  # fmt: skip
        methods: dict[str, Method] = {
            "base": MAP(**common),
            "MC dropout": Dropout(rate=self.rate, **common),
            "concrete dropout": ConcreteDropout(**common),
            "variational dropout": VariationalDropout(**common),
        }
        naive, sampled = {}, {}
        for name, method in methods.items():
            posteriors = [fit(model, train, method, key=seed) for seed in range(self.seeds)]
            naive[name] = np.array([self._accuracy(mean_network(p), test) for p in posteriors])
            sampled[name] = np.array([self._accuracy(p, test) for p in posteriors])
        return self._page(naive, sampled, len(train.y), time.perf_counter() - began)

    def _accuracy(self, posterior: Posterior, test) -> float:
        predicted = predict(posterior, test.x, num_draws=self.num_draws)
        return 100 * float(np.mean(predicted.labels == test.y))  # type: ignore[attr-defined]

    def _page(self, naive: dict, sampled: dict, num_data: int, seconds: float) -> Page:
        rows = [["method", "naive, source", "naive, ours", "MC, source", "MC, ours"]]
        for name in naive:
            source_naive, source_sampled = SOURCE[name]
            ours = "–" if name == "base" else mean_and_spread(sampled[name])
            rows.append([name, source_naive, mean_and_spread(naive[name]), source_sampled, ours])
        by_mean = {name: float(np.mean(naive[name])) for name in naive}
        by_draws = {name: float(np.mean(sampled[name])) for name in sampled}
        gain = {name: by_draws[name] - by_mean["base"] for name in naive}
        gap = {name: by_draws[name] - by_mean[name] for name in naive}
        apart = by_draws["concrete dropout"] - by_draws["MC dropout"]
        patterns = [
            Pattern(
                f"{name} is above base by 0.3 to 1.5 points",
                0.3 <= gain[name] <= 1.5,
                f"{gain[name]:+.2f} points",
            )
            for name in ("MC dropout", "concrete dropout")
        ] + [
            Pattern(
                f"naive and MC agree within 0.5 for {name}",
                abs(gap[name]) < 0.5,
                f"{gap[name]:+.2f}",
            )
            for name in ("MC dropout", "concrete dropout")
        ]
        patterns += [
            Pattern(
                "concrete dropout is within 0.5 of MC dropout without tuning",
                abs(apart) < 0.5,
                f"{apart:+.2f} points",
            ),
            Pattern(
                "MC is above naive for variational dropout",
                gap["variational dropout"] > 0,
                f"{gap['variational dropout']:+.2f} points",
            ),
        ]
        return Page(
            "dropout-accuracy",
            "Dropout on 1,000 MNIST images",
            f"MLP 784-500-500-10, {num_data:,} training images, {self.epochs} epochs of Adam at "
            f"1e-3 with batches of 100, weight decay 1e-4, {self.num_draws} draws, {self.seeds} "
            f"seeds, {seconds:.0f} s. Percent accuracy on all 10,000 test images, mean ± standard "
            "deviation over seeds. The source tests on an unnamed set (probably 1,000 images) and "
            f"does not print its dropout rate; ours is {self.rate}.",
            (("Test accuracy", rows),),
            tuple(patterns),
        )


def mean_network(posterior: Posterior) -> Samples:
    """The network of mean weights or mean units: the naive prediction."""
    if isinstance(posterior, NoisyNetwork):
        return posterior.weight_scaled()
    if isinstance(posterior, NormalWeights):
        return posterior.mean_network()
    assert isinstance(posterior, Samples)
    return posterior
