"""Keep probabilities that concrete dropout learns, with 1,000 and 10,000 images.

Source: Lee, Implementation Tutorial: Bayesian Deep Learning, KAIST, 2019.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from credo.experiments.mnist import images, slide_model
from credo.experiments.page import Page, Pattern, mean_and_spread, new_figure
from credo.inference import ConcreteDropout, fit
from credo.posterior import NoisyNetwork, Posterior

LAYERS = {"dense0": "input", "dense1": "hidden 1", "dense2": "hidden 2"}


@dataclass(frozen=True)
class KeepProbabilities:
    """Learned keep probabilities per layer at 1,000 and 10,000 images."""

    seeds: int = 3
    """Runs of each size."""
    epochs: int = 100
    """Passes over 1,000 images; 10,000 images get a third of them, which is 3.3 times the steps."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        keep, paths = {}, {}
        for per_class, epochs in ((100, self.epochs), (1000, max(1, self.epochs // 3))):
            train, _ = images(per_class, data_dir)
            method = ConcreteDropout(
                input_noise=True, num_epochs=epochs, batch_size=100, schedule="constant"
            )
            # The prior stays that of 1,000 images, so that only the data change.
            model = slide_model(1000)
            runs = [fit(model, train, method, key=seed) for seed in range(self.seeds)]
            keep[len(train.y)] = np.array([keep_probabilities(run) for run in runs])
            paths[len(train.y)] = runs[0].record.history
        return self._page(keep, paths, time.perf_counter() - began)

    def _page(self, keep: dict, paths: dict, seconds: float) -> Page:
        few, many = sorted(keep)
        rows = [["layer", f"{few:,} images", f"{many:,} images"]]
        for index, name in enumerate(LAYERS.values()):
            rows.append([name, *(mean_and_spread(keep[n][:, index], 3) for n in (few, many))])
        figure, axes = new_figure(columns=2)
        for axis, count in zip(axes[0], (few, many), strict=True):
            for site, name in LAYERS.items():
                path = 1 - paths[count][f"rate_{site}"][0]
                axis.plot(np.arange(len(path)), path, label=name)
            axis.set(
                title=f"{count:,} images", xlabel="step", ylabel="keep probability", ylim=(0.4, 1)
            )
        axes[0, 0].legend()
        grown = [
            (name, keep[many][:, i].mean() - keep[few][:, i].mean())
            for i, name in enumerate(LAYERS.values())
        ]
        return Page(
            "keep-probabilities",
            "Learned keep probabilities",
            "Concrete dropout at the input and after both hidden layers of 784-500-500-10 on "
            f"MNIST, Adam at 1e-3, the same prior at both sizes, {self.seeds} seeds, "
            f"{seconds:.0f} s. The source shows this as bar charts without numbers.",
            (("Keep probability 1 − p, mean ± standard deviation over seeds", rows),),
            tuple(
                Pattern(
                    f"{name}: keep probability grows with the data", change > 0, f"{change:+.3f}"
                )
                for name, change in grown
            ),
            {"Keep probabilities along the training": figure},
        )


def keep_probabilities(posterior: Posterior) -> list[float]:
    """1 − p at every layer."""
    assert isinstance(posterior, NoisyNetwork)
    return [1 - float(posterior.rates[site]) for site in LAYERS]
