"""Uncertainty about real and synthetic digits, with 1,000 draws.

Source: Lee, Implementation Tutorial: Bayesian Deep Learning, KAIST, 2019.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from credo.data.dataset import Split
from credo.evaluation import Estimate, mean_estimate
from credo.experiments.mnist import images, slide_model
from credo.experiments.page import Page, Pattern, new_figure
from credo.inference import ConcreteDropout, Dropout, Method, fit
from credo.posterior import Posterior
from credo.predictive import CategoricalPredictive, predict

SHOWN = 2  # examples of each group in the picture


@dataclass(frozen=True)
class UncertaintyHistograms:
    """Uncertainty about real test digits and synthetic ones: rotated, blended, noise."""

    num_images: int = 500
    """Images of each group."""
    num_draws: int = 1000
    """Draws of the Monte-Carlo prediction."""
    epochs: int = 100
    """Passes over the 1,000 training images."""
    rate: float = 0.5
    """Drop probability of MC dropout."""
    seed: int = 0
    """Fixes initial weights, masks and the synthetic images."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        train, test = images(100, data_dir)
        groups = synthetic(Split(*(part[: self.num_images] for part in test)), self.seed)
        model = slide_model(len(train.y))
        methods: dict[str, Method] = {
            "MC dropout": Dropout(
                self.rate, num_epochs=self.epochs, batch_size=100, schedule="constant"
            ),
            "concrete dropout": ConcreteDropout(
                num_epochs=self.epochs, batch_size=100, schedule="constant"
            ),
        }
        posteriors = {n: fit(model, train, m, key=self.seed) for n, m in methods.items()}
        predicted = {
            name: {group: self._predict(posterior, x) for group, x in groups.items()}
            for name, posterior in posteriors.items()
        }
        figures = {
            f"Probability of each class over {self.num_draws:,} draws of MC dropout (the darker, "
            "the more draws)": self._examples(posteriors["MC dropout"], groups),
            "Predictive entropy of each group": entropies(predicted),
        }
        return self._page(predicted, figures, time.perf_counter() - began)

    def _predict(self, posterior: Posterior, x: np.ndarray, keep_draws: bool = False):
        predicted = predict(posterior, x, self.num_draws, keep_draws=keep_draws)
        assert isinstance(predicted, CategoricalPredictive)
        return predicted

    def _examples(self, posterior: Posterior, groups: dict):
        chosen = [(name, x[i]) for name, x in groups.items() for i in range(SHOWN)]
        predicted = self._predict(posterior, np.stack([x for _, x in chosen]), keep_draws=True)
        figure, axes = new_figure(columns=len(chosen), rows=2, width=1.6, height=1.8)
        for column, (name, x) in enumerate(chosen):
            axes[0, column].imshow(x[..., 0], cmap="gray_r", vmin=0, vmax=1)
            axes[0, column].set(title=name, xticks=[], yticks=[])
            assert predicted.draw_probs is not None
            by_class = predicted.draw_probs[:, column].T
            counts = [np.histogram(values, bins=20, range=(0, 1))[0] for values in by_class]
            # A square root keeps rare draws visible.
            shade = np.sqrt(np.stack(counts, axis=1) / self.num_draws)
            axes[1, column].imshow(
                shade, origin="lower", extent=(-0.5, 9.5, 0, 1), aspect="auto", cmap="Blues"
            )
            axes[1, column].set(xticks=range(0, 10, 3), yticks=[0, 0.5, 1], xlabel="class")
            if column:
                axes[1, column].set_yticklabels([])
        axes[1, 0].set_ylabel("probability")
        return figure

    def _page(self, predicted: dict, figures: dict, seconds: float) -> Page:
        rows = [["method", "digits", "entropy", "mutual information"]]
        patterns = []
        for name, groups in predicted.items():
            measured = {group: measures(found) for group, found in groups.items()}
            rows += [[name, group, *map(str, pair)] for group, pair in measured.items()]
            for group, (entropy, information) in list(measured.items())[1:]:
                real = measured["real"]
                patterns.append(
                    Pattern(
                        f"{name}: more uncertain about {group} images than about real ones",
                        entropy.value > real[0].value and information.value > real[1].value,
                        f"entropy {entropy.value:.2f} against {real[0].value:.2f}, mutual "
                        f"information {information.value:.2f} against {real[1].value:.2f}",
                    )
                )
        return Page(
            "uncertainty-histograms",
            "Uncertainty about real and synthetic digits",
            f"MLP 784-500-500-10 trained on 1,000 MNIST images for {self.epochs} epochs, "
            f"{self.num_draws:,} draws, {self.num_images} images of each group, seed {self.seed}, "
            f"{seconds:.0f} s. Real: the first images of the test set. Rotated: the same by 90°. "
            "Blended: the mean of two of different classes. Noise: uniform pixels. The source "
            "shows a few examples without numbers.",
            (("Nats, mean ± standard error over images", rows),),
            tuple(patterns),
            figures,
        )


def synthetic(real: Split, seed: int) -> dict[str, np.ndarray]:
    """The real images, and three groups made from them or from nothing."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(real.y))
    partner = [next(i for i in np.roll(order, -k) if real.y[i] != y) for k, y in enumerate(real.y)]
    return {
        "real": real.x,
        "rotated": np.rot90(real.x, axes=(1, 2)).copy(),
        "blended": (real.x + real.x[partner]) / 2,
        "noise": generator.random(real.x.shape, np.float32),
    }


def measures(predicted: CategoricalPredictive) -> tuple[Estimate, Estimate]:
    return mean_estimate(predicted.entropy), mean_estimate(predicted.mutual_information)


def entropies(predicted: dict):
    """A histogram of predictive entropies for each method, one line for each group."""
    figure, axes = new_figure(columns=len(predicted), width=5)
    edges = np.linspace(0, np.log(10), 31)
    for axis, (name, groups) in zip(axes[0], predicted.items(), strict=True):
        for group, found in groups.items():
            counts, _ = np.histogram(found.entropy, bins=edges)
            axis.stairs(counts / len(found.entropy), edges, label=group, linewidth=1.5)
        axis.set(title=name, xlabel="entropy in nats", ylabel="share of images")
    axes[0, 0].legend()
    return figure
