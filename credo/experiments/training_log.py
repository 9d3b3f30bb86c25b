"""The training log of MC dropout, epoch by epoch.

Source: Lee, Implementation Tutorial: Bayesian Deep Learning, KAIST, 2019.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from credo.data.dataset import Split
from credo.experiments.mnist import SLIDE_DECAY, images, slide_model
from credo.experiments.page import Page, Pattern, mean_and_spread, new_figure
from credo.inference import Dropout, fit
from credo.posterior import NoisyNetwork, Posterior
from credo.predictive import predict

BATCH_SIZE = 100


class Epoch(NamedTuple):
    """A line of the log."""

    cross_entropy: float
    decay: float
    accuracy: float


SOURCE = (
    Epoch(1.979612, 0.054315, 0.336), Epoch(1.094547, 0.051379, 0.686),
    Epoch(0.715212, 0.049918, 0.760), Epoch(0.523885, 0.049172, 0.831),
    Epoch(0.433346, 0.048822, 0.862), Epoch(0.366523, 0.048710, 0.891),
    Epoch(0.276434, 0.048749, 0.926), Epoch(0.225711, 0.048887, 0.936),
    Epoch(0.204144, 0.049059, 0.945), Epoch(0.164487, 0.049250, 0.950),
)  # fmt: skip


@dataclass(frozen=True)
class TrainingLog:
    """Training log of MC dropout on 1,000 MNIST images."""

    seeds: int = 5
    """Runs, each with other initial weights, batches and masks."""
    epochs: int = 10
    """Epochs, up to the 10 of the source."""
    rate: float = 0.5
    """Drop probability (the source does not print its own)."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        train, _ = images(100, data_dir)
        return self._page(np.array([self._log(train, seed) for seed in range(self.seeds)]))

    def _log(self, train: Split, seed: int) -> list[Epoch]:
        """One training, looked at after every epoch."""
        model = slide_model(len(train.y), SLIDE_DECAY)
        method = Dropout(
            self.rate, num_epochs=self.epochs, batch_size=BATCH_SIZE, schedule="constant"
        )
        epoch_steps = len(train.y) // BATCH_SIZE
        log = []

        def add_line(step: int, posterior: Posterior) -> None:
            assert isinstance(posterior, NoisyNetwork)
            nll = posterior.record.history["nll"][0, step - epoch_steps : step].mean()
            squares = sum(np.sum(np.square(w)) for w in jax.tree.leaves(posterior.params))
            drawn = predict(posterior, train.x, num_draws=1, key=seed)
            right = np.mean(drawn.labels == train.y)  # type: ignore[attr-defined]
            log.append(Epoch(float(nll), float(SLIDE_DECAY * squares / 2), float(right)))

        fit(
            model, train, method, key=seed, progress=False, observe_every=epoch_steps,
            observe=add_line,
        )  # fmt: skip
        return log

    def _page(self, logs: Float[np.ndarray, "seeds epochs 3"]) -> Page:
        ours, source = logs.mean(axis=0), np.array(SOURCE[: self.epochs])
        names = ("cross-entropy", "weight decay", "accuracy")
        rows = [["epoch", *(f"{name}, {whose}" for name in names for whose in ("source", "ours"))]]
        for epoch in range(self.epochs):
            cells = [str(epoch + 1)]
            for column in range(3):
                cells.append(f"{source[epoch, column]:.3f}")
                cells.append(mean_and_spread(logs[:, epoch, column], 3))
            rows.append(cells)
        figure, axes = new_figure(columns=3, width=4)
        for axis, name, theirs, mine in zip(axes[0], names, source.T, ours.T):
            axis.plot(range(1, self.epochs + 1), theirs, "o--", label="source")
            axis.plot(range(1, self.epochs + 1), mine, "o-", label="credo")
            axis.set(xlabel="epoch", ylabel=f"training {name}" if name != names[1] else name)
        axes[0, 0].legend()
        losses, accuracy = ours[:, 0], ours[-1, 2]
        return Page(
            "training-log",
            "Training log of MC dropout",
            f"MLP 784-500-500-10, 1,000 MNIST images, Adam at 1e-3, batches of {BATCH_SIZE}, "
            f"dropout {self.rate}, {self.seeds} seeds (mean ± standard deviation). Cross-entropy "
            f"is averaged over the steps of an epoch; our weight decay, {SLIDE_DECAY:g} ‖W‖² / 2, "
            "and our accuracy, on all training images with one draw of masks, are those after it. "
            "Depends on the initialisation, which the source does not state: the shape is to "
            "agree, not the digits.",
            (("The log, epoch by epoch", rows),),
            (
                Pattern(
                    "the loss falls in every epoch",
                    bool(np.all(np.diff(losses) < 0)),
                    f"{losses[0]:.2f} → {losses[-1]:.2f}",
                ),
                Pattern(
                    f"after 10 epochs, training accuracy is ≥ 0.93 (source {SOURCE[-1].accuracy})",
                    float(accuracy) >= 0.93,
                    f"{accuracy:.3f} with one draw of masks",
                ),
            ),
            {"Cross-entropy, weight decay and accuracy by epoch": figure},
        )
