"""UCI regression with the standard splits: an ensemble of ten, and Laplace, 50 hidden units.

The ensemble chooses the scale of its prior and a factor on its noise on a fifth of the training
part, and is then fitted to all of it; Laplace sets both by its evidence and sets nothing aside.

The anchors of the ensemble are those of the paper that introduced it (Lakshminarayanan, Pritzel &
Blundell, NeurIPS 2017: five members, 40 passes), on splits of the same kind; tuned MC dropout
(Mukhoti, Stenetorp & Gal 2018), on these splits, stands beside them.
"""

import itertools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from credo.data import Units, load
from credo.data.dataset import Split
from credo.evaluation import mean_estimate
from credo.experiments.page import Page, Pattern
from credo.experiments.parallel import in_parallel
from credo.experiments.uci_dropout import ANCHORS as DROPOUT_ANCHORS
from credo.experiments.uci_dropout import NETWORK, best_noise, listed, set_aside, with_noise
from credo.inference import MAP, Ensemble, Laplace, Method, fit
from credo.model import FanInPrior, Model, Normal
from credo.predictive import NormalPredictive, predict

ANCHORS = {  # test log-likelihood, RMSE
    "bostonHousing": (-2.41, 3.28),
    "concrete": (-3.06, 6.03),
    "power-plant": (-2.79, 4.11),
    "wine-quality-red": (-0.94, 0.64),
    "yacht": (-1.18, 1.58),
}
ROWS = ("ensemble", "laplace")
VALIDATION_DRAWS = 100


@dataclass(frozen=True)
class UciEnsemble:
    """UCI regression with the 20 standard splits: an ensemble of ten, and Laplace."""

    sets: tuple[str, ...] = tuple(ANCHORS)
    """Data sets."""
    splits: int = 20
    """How many of the 20 standard splits."""
    size: int = 10
    """Members of the ensemble."""
    num_steps: int = 4000
    """Gradient steps of every fit, on batches of 32."""
    prior_scales: tuple[float, ...] = (1.0, 2.0, 4.0)
    """Scales of the fan-in prior that the ensemble chooses from; Laplace starts at 2."""
    num_draws: int = 1000
    """Draws of Laplace's predictions on the test part."""
    num_workers: int = 2
    """Fits at the same time."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        found = {name: self._one_set(name, data_dir) for name in self.sets}
        return self._page(found, time.perf_counter() - began)

    def _one_set(self, name: str, data_dir) -> dict[str, list[tuple[float, float]]]:
        data = [load(f"uci/{name}", split=i, data_dir=data_dir) for i in range(self.splits)]

        def one(task: tuple[int, str]) -> tuple[float, float]:
            split, row = task
            method = self._ensemble if row == "ensemble" else self._laplace
            predicted = method(data[split].train, data[split].test.x, split)
            y = data[split].test.y
            rmse = np.sqrt(np.mean((predicted.mean - y) ** 2))
            return float(predicted.log_prob(y).mean()), float(rmse)

        tasks = list(itertools.product(range(self.splits), ROWS))
        scores = in_parallel(one, tasks, self.num_workers, name)
        return {row: scores[i :: len(ROWS)] for i, row in enumerate(ROWS)}

    def _common(self) -> dict[str, Any]:
        return {"num_steps": self.num_steps, "batch_size": 32, "learning_rate": 1e-2}

    def _ensemble(self, train: Split, x: np.ndarray, key: int) -> NormalPredictive:
        method = Ensemble(MAP(**self._common()), self.size)
        rest, held_out = set_aside(train, seed=key)
        choices = []
        for scale in self.prior_scales:
            model = Model(NETWORK, Normal("by_input", beta=0.5), FanInPrior(scale))
            predicted = fit_and_predict(model, method, rest, held_out.x, key, self.size)
            choices.append((*best_noise(predicted, held_out.y), model))
        _, factor, best = max(choices, key=lambda choice: choice[0])
        return with_noise(fit_and_predict(best, method, train, x, key, self.size), factor)

    def _laplace(self, train: Split, x: np.ndarray, key: int) -> NormalPredictive:
        model = Model(NETWORK, Normal(), FanInPrior(2.0))
        method = Laplace("full", "all", **self._common())
        return fit_and_predict(model, method, train, x, key, self.num_draws)

    def _page(self, found: dict[str, dict[str, list[tuple[float, float]]]], seconds: float) -> Page:
        rows = [["data", "method", "test log-likelihood", "RMSE"]]
        patterns = []
        for name, by_method in found.items():
            anchor = ANCHORS[name]
            rows.append([name, "published ensemble", *(f"{number:.2f}" for number in anchor)])
            tuned = DROPOUT_ANCHORS[name]
            rows.append([name, "published MC dropout", *(f"{number:.2f}" for number in tuned)])
            for method, scores in by_method.items():
                likelihood, rmse = (mean_estimate(column) for column in zip(*scores))
                rows.append([name, method, str(likelihood), str(rmse)])
                if method == "ensemble":
                    reached = likelihood.value + likelihood.error >= anchor[0]
                    reached &= rmse.value - rmse.error <= anchor[1]
                    evidence = (
                        f"log-likelihood {likelihood.value:.2f} ({anchor[0]:.2f}), RMSE "
                        f"{rmse.value:.2f} ({anchor[1]:.2f})"
                    )
                    claim = f"{name}: the ensemble reaches the published one"
                    patterns.append(Pattern(claim, bool(reached), evidence))
        return Page(
            "uci-ensemble",
            "UCI regression with ensembles and Laplace",
            f"MLP with one hidden layer of 50 units, {self.splits} standard splits, "
            f"{self.num_steps:,} steps of Adam at 1e-2 with a cosine schedule on batches of 32, "
            f"{seconds / 60:.0f} minutes with {self.num_workers} fits at a time. The ensemble: "
            f"{self.size} members, noise by input (β = 0.5), the scale of its fan-in prior "
            f"({listed(self.prior_scales)}) and a factor on its noise chosen on a fifth of the "
            "training part. Laplace: full, Gauss–Newton, one noise scale, prior and noise by the "
            f"evidence, {self.num_draws:,} draws of the linearised network. Mean ± standard error "
            "over splits, in the targets' own units. Reached: not worse by more than one standard "
            "error.",
            (("Test log-likelihood and RMSE", rows),),
            tuple(patterns),
        )


def fit_and_predict(
    model: Model, method: Method, train: Split, x: np.ndarray, key: int, num_draws: int
) -> NormalPredictive:
    """Fit to standardized targets; predict in their own units."""
    units = Units.standardizing(y=train.y)
    posterior = fit(model, train, method, key=key, units=units, progress=False)
    predicted = predict(posterior, x, num_draws, key=key)
    assert isinstance(predicted, NormalPredictive)
    return predicted
