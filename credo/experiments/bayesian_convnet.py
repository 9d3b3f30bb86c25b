"""Dropout in convnets: none, inner-product only, everywhere × weight scaling, MC.

Dropout after convolutions has a bad name because its weights are scaled for prediction; averaging
the predictions of many masks instead is approximate inference in a Bayesian convnet.

Reference: Gal & Ghahramani, Bayesian Convolutional Neural Networks with Bernoulli Approximate
Variational Inference, 2015 (weight decay 5e-4 and dropout 0.5 are theirs).
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from credo.data import load
from credo.data.dataset import Split
from credo.evaluation import Estimate, classification, mean_estimate
from credo.experiments.dropout_accuracy import mean_network
from credo.experiments.page import Page, Pattern
from credo.inference import MAP, Dropout, Method, fit
from credo.model import Categorical, Model, NormalPrior
from credo.networks import LeNet
from credo.posterior import Posterior
from credo.predictive import CategoricalPredictive, predict

DECAY = 5e-4


@dataclass(frozen=True)
class BayesianConvnet:
    """LeNet on MNIST: dropout none, inner-product only, everywhere × weight scaling, MC."""

    num_images: int = 60000
    """Training images."""
    num_steps: int = 10000
    """Gradient steps on batches of 64, about 11 passes over all images."""
    rate: float = 0.5
    """Drop probability."""
    num_draws: int = 50
    """Draws of the Monte-Carlo prediction."""
    seed: int = 0
    """Fixes initial weights, batches and masks."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        mnist = load("mnist", data_dir=data_dir)
        train = Split(*(part[: self.num_images] for part in mnist.train))
        # A mean loss plus λ‖W‖²/2 is the mean negative log joint under N(0, s²), s² = 1/(λN).
        prior = NormalPrior((DECAY * len(train.y)) ** -0.5)
        model = Model(LeNet(), Categorical(10), prior)
        common: dict[str, Any] = {"num_steps": self.num_steps, "batch_size": 64}
        methods: dict[str, Method] = {
            "none": MAP(**common),
            "inner product only": Dropout(self.rate, where="dense", **common),
            "everywhere": Dropout(self.rate, where="all", **common),
        }
        scaled, sampled = {}, {}
        for name, method in methods.items():
            posterior = fit(model, train, method, key=self.seed)
            scaled[name] = self._scores(mean_network(posterior), mnist.test)
            sampled[name] = self._scores(posterior, mnist.test)
        return self._page(scaled, sampled, time.perf_counter() - began)

    def _scores(self, posterior: Posterior, test: Split) -> tuple[Estimate, Estimate]:
        """Percent of test images that are wrong, and NLL."""
        predicted = predict(posterior, test.x, self.num_draws)
        assert isinstance(predicted, CategoricalPredictive)
        share, error = classification.accuracy(predicted.probs, test.y)
        nll = mean_estimate(-predicted.log_prob(test.y))
        return Estimate(100 * (1 - share), 100 * error), nll

    def _page(self, scaled: dict, sampled: dict, seconds: float) -> Page:
        header = ["dropout", "error %, weight scaling", "error %, MC"]
        rows = [[*header, "NLL, weight scaling", "NLL, MC"]]
        for name in scaled:
            pairs = zip(scaled[name], sampled[name], strict=True)
            cells = [[str(one), "–" if name == "none" else str(other)] for one, other in pairs]
            rows.append([name, *cells[0], *cells[1]])
        everywhere, plain = sampled["everywhere"][0].value, scaled["none"][0].value
        by_scaling = scaled["everywhere"][0].value
        return Page(
            "bayesian-convnet",
            "Dropout in convnets",
            f"LeNet (20 and 50 channels, 500 units), {self.num_images:,} MNIST images, "
            f"{self.num_steps:,} steps of Adam on batches of 64 with a cosine schedule, weight "
            f"decay {DECAY:g}, dropout {self.rate}, {self.num_draws} draws, seed {self.seed}, "
            f"{seconds:.0f} s. Test error on 10,000 images ± standard error. The source trains "
            "with SGD for 100,000 steps and shows error curves without numbers.",
            (("Test error and negative log-likelihood", rows),),
            (
                Pattern(
                    "dropout everywhere: MC beats weight scaling",
                    everywhere < by_scaling,
                    f"{everywhere:.2f} % against {by_scaling:.2f} %",
                ),
                Pattern(
                    "dropout everywhere with MC beats no dropout",
                    everywhere < plain,
                    f"{everywhere:.2f} % against {plain:.2f} %",
                ),
            ),
        )
