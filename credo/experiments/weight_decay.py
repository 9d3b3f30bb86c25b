"""The role of weight decay: too small, good, too large.

Weight decay λ of a mean loss is a normal prior of scale s with λ = 1 / (2 s² N): the weaker the
decay, the wider the prior, and the further apart the functions that dropout draws.

Source: Lee, Implementation Tutorial: Bayesian Deep Learning, KAIST, 2019.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from credo.experiments.page import Page, Pattern, mean_and_spread, new_figure
from credo.experiments.toy import GRID, draw_functions, toy_data
from credo.inference import Dropout, fit
from credo.model import Model, Normal, NormalPrior
from credo.networks import MLP
from credo.predictive import NormalPredictive, predict

NOISE = 0.2
SCALES = (0.2, 0.5, 1.0, 2.0, 5.0, 20.0)
PANELS = {0.2: "λ too large", 2.0: "λ good", 20.0: "λ too small"}


@dataclass(frozen=True)
class WeightDecay:
    """Weight decay too small, good, too large: functions drawn by dropout on 1-d regression."""

    seeds: int = 3
    """Runs of each weight decay, with other initial weights and masks."""
    num_steps: int = 8000
    """Gradient steps of a run."""
    num_data: int = 12
    """Training points."""
    rate: float = 0.02
    """Drop probability."""
    num_draws: int = 500
    """Functions drawn from each posterior."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        data, fresh = toy_data(self.num_data, NOISE), toy_data(1000, NOISE, seed=1)
        drawn, variance, test_loss = {}, {}, {}
        for scale in SCALES:
            runs = [self._fit(scale, data, seed) for seed in range(self.seeds)]
            curves = [self._predict(run, GRID) for run in runs]
            tests = [self._predict(run, fresh.x) for run in runs]
            drawn[scale] = curves[0]
            variance[scale] = np.array([curve.epistemic_variance.mean() for curve in curves])
            test_loss[scale] = np.array([-test.log_prob(fresh.y).mean() for test in tests])
        return self._page(data, drawn, variance, test_loss, time.perf_counter() - began)

    def _fit(self, scale: float, data, seed: int):
        model = Model(MLP(hidden=(100,)), Normal(NOISE), NormalPrior(scale))
        method = Dropout(self.rate, num_steps=self.num_steps, learning_rate=1e-2)
        return fit(model, data, method, key=seed, progress=False)

    def _predict(self, posterior, x: np.ndarray) -> NormalPredictive:
        predicted = predict(posterior, x, num_draws=self.num_draws)
        assert isinstance(predicted, NormalPredictive)
        return predicted

    def _page(self, data, drawn: dict, variance: dict, test_loss: dict, seconds: float) -> Page:
        rows = [["weight decay λ", "prior scale s", "variance between draws", "test NLL"]]
        for scale in SCALES:
            decay = f"{1 / (2 * scale**2 * self.num_data):.2g}"
            cells = [mean_and_spread(found[scale], 4) for found in (variance, test_loss)]
            rows.append([decay, f"{scale:g}", *cells])
        figure, axes = new_figure(columns=3)
        for axis, (scale, title) in zip(axes[0], PANELS.items(), strict=True):
            draw_functions(axis, drawn[scale], data, f"{title} (s = {scale:g})")
        axes[0, 0].legend(loc="upper left", fontsize="small")
        means = [float(variance[scale].mean()) for scale in SCALES]
        strong, good, weak = (float(test_loss[scale].mean()) for scale in PANELS)
        return Page(
            "weight-decay",
            "The role of weight decay",
            f"{self.num_data} points of a 1-d regression with noise {NOISE}, MLP 1-100-1, MC "
            f"dropout at {self.rate}, {self.num_steps:,} steps of Adam, {self.num_draws} draws, "
            f"{self.seeds} seeds (mean ± standard deviation), {seconds:.0f} s. The variance is the "
            "epistemic part, averaged over x in [−2, 2]; the test loss is on fresh data. The "
            "source shows pictures without numbers.",
            (("From strong to weak decay", rows),),
            (
                Pattern(
                    "the variance between draws grows with the prior scale",
                    bool(np.all(np.diff(means) > 0)),
                    " < ".join(f"{mean:.2g}" for mean in means),
                ),
                Pattern(
                    "too much decay cannot fit the data",
                    strong > good,
                    f"test NLL {strong:.2f} against {good:.2f}",
                ),
                Pattern(
                    "too little decay predicts worse on new data",
                    weak > good,
                    f"test NLL {weak:.2f} against {good:.2f}: the functions wander, and here their "
                    "spread covers what the narrower ones miss",
                ),
            ),
            {"Functions drawn by dropout under three weight decays": figure},
        )
