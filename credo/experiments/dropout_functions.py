"""Functions drawn by dropout on 1-d regression.

Source: Lee, Implementation Tutorial: Bayesian Deep Learning, KAIST, 2019.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from credo.experiments.page import Page, Pattern, new_figure
from credo.experiments.toy import GRID, draw_functions, toy_data
from credo.inference import ConcreteDropout, Dropout, Method, fit
from credo.model import Model, Normal, NormalPrior
from credo.networks import MLP
from credo.posterior import NoisyNetwork
from credo.predictive import NormalPredictive, predict

NOISE = 0.1


@dataclass(frozen=True)
class DropoutFunctions:
    """Functions drawn by dropout on 1-d regression, with mean ± 2σ."""

    rate: float = 0.2
    """Drop probability of MC dropout."""
    num_data: int = 20
    """Training points."""
    num_steps: int = 8000
    """Gradient steps."""
    num_draws: int = 1000
    """Functions drawn from each posterior."""
    seed: int = 0
    """Fixes initial weights and masks."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        data, fresh = toy_data(self.num_data, NOISE), toy_data(1000, NOISE, seed=1)
        model = Model(MLP(hidden=(50,)), Normal(NOISE), NormalPrior(1.0))
        methods: dict[str, Method] = {
            "MC dropout": Dropout(self.rate, num_steps=self.num_steps, learning_rate=1e-2),
            "concrete dropout": ConcreteDropout(num_steps=self.num_steps, learning_rate=1e-2),
        }
        figure, axes = new_figure(columns=2, width=5, height=4)
        rows = [["method", "drop probability", "σ at data", "σ outside ± 1.25", "fresh in ± 2σ"]]
        patterns = []
        for axis, (name, method) in zip(axes[0], methods.items(), strict=True):
            posterior = fit(model, data, method, key=self.seed, progress=False)
            assert isinstance(posterior, NoisyNetwork)
            curve, at_data, test = (self._predict(posterior, x) for x in (GRID, data.x, fresh.x))
            rate = float(posterior.rates["dense1"])
            draw_functions(axis, curve, data, f"{name}, p = {rate:.2g}")
            away = spread_between_draws(curve)[np.abs(GRID[:, 0]) > 1.25].mean()
            near = spread_between_draws(at_data).mean()
            inside = np.mean(np.abs(fresh.y - test.mean) < 2 * test.std)
            rows.append(
                [name, f"{rate:.2g}", f"{near:.3f}", f"{away:.3f}", f"{100 * inside:.0f} %"]
            )
            patterns.append(
                Pattern(
                    f"{name}: draws agree at the data and part away from it",
                    bool(away > 2 * near),
                    f"standard deviation {near:.3f} and {away:.3f}",
                )
            )
        axes[0, 0].legend(loc="upper left")
        return Page(
            "dropout-functions",
            "Functions drawn by dropout",
            f"{self.num_data} points of a 1-d regression with known noise {NOISE}, MLP 1-50-1, "
            f"{self.num_steps:,} steps of Adam, {self.num_draws} draws, seed {self.seed}, "
            f"{time.perf_counter() - began:.0f} s. A draw is one set of masks, so each black line "
            "is one function. The source shows a picture without numbers.",
            (("Standard deviation σ between draws, without the noise", rows),),
            tuple(patterns),
            {"Twenty draws (black), their mean ± 2σ (noise included)": figure},
        )

    def _predict(self, posterior: NoisyNetwork, x: np.ndarray) -> NormalPredictive:
        predicted = predict(posterior, x, num_draws=self.num_draws)
        assert isinstance(predicted, NormalPredictive)
        return predicted


def spread_between_draws(predicted: NormalPredictive) -> np.ndarray:
    """Standard deviation between draws."""
    return np.sqrt(predicted.epistemic_variance)
