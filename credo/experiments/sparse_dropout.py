"""Sparse variational dropout: how many weights can go, and what accuracy is kept.

After Molchanov, Ashukha & Vetrov, Variational Dropout Sparsifies Deep Neural Networks, ICML 2017,
who remove 98.5 % of the weights of LeNet-300-100 on MNIST at an error of 1.92 % (1.64 % dense).
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from credo.data import load
from credo.evaluation import Estimate
from credo.evaluation.evaluate import evaluate
from credo.experiments.mnist import flattened
from credo.experiments.page import Page, Pattern
from credo.inference import MAP, VariationalDropout, fit
from credo.model import Categorical, Model
from credo.networks import MLP
from credo.posterior import NormalWeights, Posterior
from credo.predictive import predict


@dataclass(frozen=True)
class SparseDropout:
    """Weights removed and accuracy kept by sparse variational dropout on MNIST."""

    num_images: int = 60000
    """Training images."""
    num_steps: int = 10000
    """Gradient steps on batches of 128."""
    hidden: tuple[int, ...] = (300, 100)
    """Hidden units, as in the source."""
    seed: int = 0
    """Fixes initial weights, batches and noise."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        data = load("mnist", data_dir=data_dir)
        train = (flattened(data.train.x[: self.num_images]), data.train.y[: self.num_images])
        model = Model(MLP(hidden=self.hidden), Categorical(10))
        common: dict[str, Any] = {"num_steps": self.num_steps, "batch_size": 128}
        dense = fit(model, train, MAP(**common), self.seed)
        method = VariationalDropout("weight", kl_warmup=0.5, initial_log_alpha=-8.0, **common)
        sparse = fit(model, train, method, self.seed)
        assert isinstance(sparse, NormalWeights)
        pruned = sparse.pruned()
        networks: dict[str, Posterior] = {
            "dense, MAP": dense,
            "sparse, all weights": sparse.mean_network(),
            "sparse, pruned": pruned.mean_network(),
            "sparse, pruned, 50 draws": pruned,
        }
        scores = {
            name: evaluate(predict(network, flattened(data.test.x), 50), data.test.y)
            for name, network in networks.items()
        }
        return self._page(scores, pruned.sparsity(), time.perf_counter() - began)

    def _page(self, scores: dict[str, Any], removed: float, seconds: float) -> Page:
        rows = [["network", "error %", "NLL", "weights removed"]]
        rows += [
            [
                name, percent_wrong(score["accuracy"]), str(score["nll"]),
                f"{removed:.1%}" if "pruned" in name else "0 %",
            ]
            for name, score in scores.items()
        ]  # fmt: skip
        kept, full = (scores[n]["accuracy"] for n in ("sparse, pruned", "sparse, all weights"))
        loss = 100 * (scores["dense, MAP"]["accuracy"].value - kept.value)
        return Page(
            "sparse-dropout",
            "Sparse variational dropout",
            f"MLP 784-{'-'.join(map(str, self.hidden))}-10, {self.num_images:,} MNIST images, "
            f"{self.num_steps:,} steps of Adam at 1e-3 on batches of 128 from a fresh start, "
            f"weights with log α > 3 removed, seed {self.seed}, {seconds:.0f} s. The "
            "source starts from a trained network: 98.5 % removed, error 1.92 % (dense 1.64 %).",
            (("Test error on 10,000 images ± standard error", rows),),
            (
                Pattern("nine weights in ten can be removed", removed > 0.9, f"{removed:.1%}"),
                Pattern(
                    "pruning itself changes nothing: within 0.1 points of all weights",
                    abs(kept.value - full.value) < 1e-3,
                    f"{100 * (kept.value - full.value):+.2f} points",
                ),
                Pattern(
                    "the pruned network is within half a point of the dense one",
                    loss < 0.5,
                    f"{loss:.2f} points lost",
                ),
            ),
        )


def percent_wrong(accuracy: Estimate) -> str:
    return str(Estimate(100 * (1 - accuracy.value), 100 * accuracy.error))
