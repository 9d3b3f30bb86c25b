"""T7: the training log of MC dropout, epoch by epoch (seed document 004)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from credo.experiments.mnist import SLIDE_DECAY, images, slide_model
from credo.experiments.page import Page, Pattern, mean_and_spread, new_figure
from credo.inference import Dropout, fit
from credo.predictive import predict

SOURCE_CROSS_ENTROPY = (
    *(1.979612, 1.094547, 0.715212, 0.523885, 0.433346),
    *(0.366523, 0.276434, 0.225711, 0.204144, 0.164487),
)
SOURCE_ACCURACY = 0.950  # after 10 epochs


@dataclass(frozen=True)
class TrainingLog:
    """Training log of MC dropout on 1,000 MNIST images (T7)."""

    seeds: int = 5
    """Runs, each with other initial weights, batches and masks."""
    rate: float = 0.5
    """Drop probability (the source does not print its own)."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        train, _ = images(100, data_dir)
        model = slide_model(len(train.y), SLIDE_DECAY)
        losses, accuracies = [], []
        for seed in range(self.seeds):
            method = Dropout(rate=self.rate, num_epochs=10, batch_size=100, schedule="constant")
            posterior = fit(model, train, method, key=seed)
            losses.append(posterior.record.history["nll"][0].reshape(10, -1).mean(axis=1))
            drawn = predict(posterior, train.x, num_draws=1, key=seed)
            accuracies.append(float(np.mean(drawn.labels == train.y)))  # type: ignore[union-attr]
        return self._page(np.stack(losses), np.array(accuracies))

    def _page(self, losses: np.ndarray, accuracy: np.ndarray) -> Page:
        ours = losses.mean(axis=0)
        rows = [["epoch", "cross-entropy, source", "cross-entropy, ours"]]
        rows += [
            [str(e + 1), f"{s:.3f}", mean_and_spread(losses[:, e], 3)]
            for e, s in enumerate(SOURCE_CROSS_ENTROPY)
        ]
        figure, axes = new_figure(width=6)
        epochs = range(1, 11)
        axes[0, 0].plot(epochs, SOURCE_CROSS_ENTROPY, "o--", label="source")
        axes[0, 0].plot(epochs, ours, "o-", label="credo")
        axes[0, 0].set(xlabel="epoch", ylabel="training cross-entropy")
        axes[0, 0].legend()
        falling = bool(np.all(np.diff(ours) < 0))
        return Page(
            "training-log",
            "Training log of MC dropout (T7)",
            "MLP 784-500-500-10, 1,000 MNIST images, Adam at 1e-3, batches of 100, dropout "
            f"{self.rate}, {self.seeds} seeds (mean ± standard deviation). Depends on the "
            "initialisation, which the source does not state: the shape is to agree, not the "
            "digits.",
            (("Cross-entropy of the training batches, averaged over each epoch", rows),),
            (
                Pattern(
                    "the loss falls in every epoch", falling, f"{ours[0]:.2f} → {ours[-1]:.2f}"
                ),
                Pattern(
                    f"after 10 epochs, training accuracy is ≥ 0.93 (source {SOURCE_ACCURACY})",
                    float(accuracy.mean()) >= 0.93,
                    f"{accuracy.mean():.3f} with one draw of masks",
                ),
            ),
            {"Training cross-entropy by epoch": figure},
        )
