"""UCI regression with the standard splits: MC and concrete dropout, one hidden layer of 50 units.

In every split, a fifth of the training part is set aside to choose by: the drop probability of MC
dropout (concrete dropout learns it), the scale of the prior, and a factor on the learned noise
scale (noise learned with the weights is too small for new data). The choice is then fitted to the
training part with that fifth. The test part is used once, at the end.

The anchors are tuned MC dropout trained to convergence (Mukhoti, Stenetorp & Gal, On the Importance
of Strong Baselines in Bayesian Deep Learning, 2018), the splits those of Hernandez-Lobato & Adams
(2015) as published by Gal & Ghahramani (2016).
"""

import itertools
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from credo.data import Units, load
from credo.data.dataset import Split
from credo.evaluation import Estimate, mean_estimate
from credo.experiments.page import Page, Pattern
from credo.experiments.parallel import in_parallel
from credo.inference import ConcreteDropout, Dropout, Method, fit
from credo.model import FanInPrior, Model, Normal
from credo.networks import MLP
from credo.posterior import NoisyNetwork
from credo.predictive import NormalPredictive, predict

ANCHORS = {  # test log-likelihood, RMSE
    "bostonHousing": (-2.40, 2.90),
    "concrete": (-2.94, 4.83),
    "power-plant": (-2.81, 4.01),
    "wine-quality-red": (-0.93, 0.62),
    "yacht": (-1.25, 0.67),
}
NETWORK = MLP(hidden=(50,))
VALIDATION_SHARE = 0.2
VALIDATION_DRAWS = 100


class Candidate(NamedTuple):
    """One setting of a method."""

    method: Method
    model: Model


class Scores(NamedTuple):
    """What a method reached on one split, and the drop probability it used."""

    log_likelihood: float
    rmse: float
    rate: float


@dataclass(frozen=True)
class UciDropout:
    """UCI regression with the 20 standard splits against tuned MC dropout."""

    sets: tuple[str, ...] = tuple(ANCHORS)
    """Data sets."""
    splits: int = 20
    """How many of the 20 standard splits."""
    num_steps: int = 10000
    """Gradient steps of every fit, on batches of 64."""
    rates: tuple[float, ...] = (0.01, 0.03, 0.1, 0.2)
    """Drop probabilities that MC dropout chooses from."""
    prior_scales: tuple[float, ...] = (1.4, 2.0, 4.0)
    """Scales of the fan-in prior that every method chooses from."""
    num_draws: int = 1000
    """Draws of the predictions on the test part."""
    num_workers: int = 2
    """Fits at the same time."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        found = {name: self._one_set(name, data_dir) for name in self.sets}
        return self._page(found, time.perf_counter() - began)

    def candidates(self) -> dict[str, list[Candidate]]:
        """For each row of the table, what its validation part chooses from."""
        common: dict[str, Any] = {"num_steps": self.num_steps, "batch_size": 64}
        common |= {"learning_rate": 1e-2}
        # The logits of the rates move by 5e-4 a step, so that the weights are there before them.
        concrete = ConcreteDropout(initial_rate=0.05, rate_speed=0.05, **common)
        one_scale, by_input = Normal(), Normal("by_input", beta=0.5)
        drop = [Dropout(rate, **common) for rate in self.rates]

        def grid(methods: list, likelihood: Any) -> list[Candidate]:
            priors = [FanInPrior(scale) for scale in self.prior_scales]
            pairs = itertools.product(methods, priors)
            return [Candidate(each, Model(NETWORK, likelihood, prior)) for each, prior in pairs]

        return {
            "MC dropout": grid(drop, by_input),
            "concrete dropout": grid([concrete], by_input),
            "concrete dropout, one noise scale": grid([concrete], one_scale),
        }

    def _one_set(self, name: str, data_dir) -> dict[str, list[Scores]]:
        data = [load(f"uci/{name}", split=i, data_dir=data_dir) for i in range(self.splits)]
        candidates = self.candidates()
        tasks = list(itertools.product(range(self.splits), candidates))

        def one(task: tuple[int, str]) -> Scores:
            split, row = task
            return self._one_split(data[split].train, data[split].test, candidates[row], split)

        scores = in_parallel(one, tasks, self.num_workers, name)
        return {row: scores[i :: len(candidates)] for i, row in enumerate(candidates)}

    def _one_split(
        self, train: Split, test: Split, candidates: list[Candidate], key: int
    ) -> Scores:
        rest, held_out = set_aside(train, seed=key)
        choices = []
        for candidate in candidates:
            predicted, _ = fit_and_predict(candidate, rest, held_out.x, key, VALIDATION_DRAWS)
            choices.append((*best_noise(predicted, held_out.y), candidate))
        _, factor, best = max(choices, key=lambda choice: choice[0])
        predicted, rate = fit_and_predict(best, train, test.x, key, self.num_draws)
        log_likelihood = with_noise(predicted, factor).log_prob(test.y).mean()
        rmse = np.sqrt(np.mean((predicted.mean - test.y) ** 2))
        return Scores(float(log_likelihood), float(rmse), rate)

    def _page(self, found: dict[str, dict[str, list[Scores]]], seconds: float) -> Page:
        rows = [["data", "method", "test log-likelihood", "RMSE", "drop probability"]]
        patterns = []
        for name, by_method in found.items():
            anchor = ANCHORS[name]
            rows.append([name, "anchor", *(f"{number:.2f}" for number in anchor), "–"])
            for method, scores in by_method.items():
                likelihood, rmse, rate = (mean_estimate(column) for column in zip(*scores))
                rows.append([name, method, str(likelihood), str(rmse), f"{rate.value:.3f}"])
                if "one noise" not in method:
                    patterns.append(reaches(anchor, name, method, likelihood, rmse))
        return Page(
            "uci-dropout",
            "UCI regression with dropout",
            f"MLP with one hidden layer of 50 units, {self.splits} standard splits, "
            f"{self.num_steps:,} steps of Adam at 1e-2 with a cosine schedule on batches of 64, "
            f"{self.num_draws:,} draws, {seconds / 60:.0f} minutes with {self.num_workers} fits "
            "at a time. Inputs and targets are standardized by the training part; figures are in "
            "the targets' own units, mean ± standard error over splits. MC dropout chooses its "
            f"drop probability ({listed(self.rates)}) on a fifth of the training part, concrete "
            "dropout learns it; both choose the scale of their fan-in prior "
            f"({listed(self.prior_scales)}) there. The network also outputs the noise (β = 0.5), "
            "times a factor from the same fifth. Batch size, and the first value and the speed of "
            "the learned rates, were settled once for all sets on such fifths, never on the test "
            "part of the same split; but the splits overlap, so a row tested in one is in the "
            "training part of others. At or better: not worse by more than one standard error.",
            (("Test log-likelihood and RMSE", rows),),
            tuple(patterns),
        )


def set_aside(train: Split, seed: int) -> tuple[Split, Split]:
    """The training part without its validation part, and that part."""
    order = np.random.default_rng(seed).permutation(len(train.y))
    count = int(VALIDATION_SHARE * len(order))
    rest, held_out = (Split(train.x[i], train.y[i]) for i in (order[count:], order[:count]))
    return rest, held_out


def fit_and_predict(
    candidate: Candidate, train: Split, x: np.ndarray, key: int, num_draws: int
) -> tuple[NormalPredictive, float]:
    """Fit to standardized targets; predict in their own units. Also the drop probability."""
    units = Units.standardizing(y=train.y)
    posterior = fit(candidate.model, train, candidate.method, key=key, units=units, progress=False)
    predicted = predict(posterior, x, num_draws, key=key)
    assert isinstance(posterior, NoisyNetwork) and isinstance(predicted, NormalPredictive)
    return predicted, float(posterior.rates["dense1"])


def with_noise(predicted: NormalPredictive, factor: float) -> NormalPredictive:
    return replace(predicted, scales=factor * predicted.scales)


def best_noise(predicted: NormalPredictive, y: np.ndarray) -> tuple[float, float]:
    """The highest mean log-likelihood that a factor on the noise scale gives, and that factor."""
    from scipy.optimize import minimize_scalar

    def loss(log_factor: float) -> float:
        return -float(with_noise(predicted, np.exp(log_factor)).log_prob(y).mean())

    found = minimize_scalar(loss, bounds=(-1.5, 3.0), method="bounded", options={"xatol": 0.01})
    return -found.fun, float(np.exp(found.x))


def reaches(
    anchor: tuple[float, float], name: str, method: str, likelihood: Estimate, rmse: Estimate
) -> Pattern:
    return Pattern(
        f"{name}: {method} is at or better than the anchor",
        likelihood.value + likelihood.error >= anchor[0] and rmse.value - rmse.error <= anchor[1],
        f"log-likelihood {likelihood.value:.2f} ({anchor[0]:.2f}), RMSE {rmse.value:.2f} "
        f"({anchor[1]:.2f})",
    )


def listed(numbers: tuple[float, ...]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)
