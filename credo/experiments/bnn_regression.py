"""What are posteriors of networks like, for a regression? HMC against everything else on UCI yacht.

The companion of `bnn-posteriors`, after Izmailov et al. 2021 (section on UCI): how close are the
predictive means and widths of cheaper methods to those of long HMC chains?
"""

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from credo.data import Units, load
from credo.data.dataset import Split
from credo.errors import CredoWarning
from credo.evaluation.evaluate import evaluate
from credo.experiments.page import Page, Pattern, new_figure
from credo.inference import HMC, MAP, SGHMC, SGLD, BayesByBackprop, Dropout, Ensemble, Method, fit
from credo.inference.sampling.convergence import function_space_rhat
from credo.model import Model, Normal
from credo.networks import MLP
from credo.posterior import Samples
from credo.predictive import NormalPredictive, predict

REFERENCE = "HMC"


@dataclass(frozen=True)
class BnnRegression:
    """Predictive means and widths of cheap methods against long HMC chains on UCI yacht."""

    split: int = 0
    """Which of the standard splits."""
    hidden: int = 20
    """Hidden units."""
    noise: float = 0.1
    """Known noise, in units of the standardized target."""
    num_samples: int = 400
    """HMC draws per chain, after as many of warm-up."""
    num_leapfrog: int = 200
    """Leapfrog steps of a trajectory."""
    num_steps: int = 5000
    """Gradient steps of the methods that optimise, and warm-up of the others."""
    seed: int = 0
    """Fixes the chains."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        data = load("uci/yacht", split=self.split, data_dir=data_dir)
        units = Units.standardizing(y=data.train.y)
        train, test = (Split(p.x, units.targets_of(p.y)) for p in (data.train, data.test))
        model = Model(MLP(hidden=(self.hidden,), activation="tanh"), Normal(self.noise))
        predicted = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CredoWarning)  # the page shows R̂ itself
            for name, method in self._methods().items():
                posterior = fit(model, train, method, self.seed + (name != REFERENCE))
                if name == REFERENCE:
                    assert isinstance(posterior, Samples)
                    rhat = function_space_rhat(posterior, jnp.asarray(test.x))
                found = predict(posterior, test.x, num_draws=2000)
                assert isinstance(found, NormalPredictive)
                predicted[name] = found
        return self._page(rhat, predicted, test, len(train.y), time.perf_counter() - began)

    def _methods(self) -> dict[str, Method]:
        common: dict[str, Any] = {"num_steps": self.num_steps, "batch_size": 64}
        common |= {"learning_rate": 1e-2}
        # 100 draws along twice as many steps as the warm-up has.
        chains: dict[str, Any] = {
            "num_warmup": self.num_steps, "thin": max(1, self.num_steps // 50), "batch_size": 64
        }  # fmt: skip
        hmc = HMC(
            num_samples=self.num_samples, num_warmup=self.num_samples, num_chains=4,
            num_leapfrog=self.num_leapfrog, mass="diagonal",
        )  # fmt: skip
        return {
            REFERENCE: hmc,
            "HMC, other seed": hmc,
            "MAP": MAP(**common),
            "ensemble of 10": Ensemble(MAP(**common), 10),
            "MC dropout": Dropout(0.05, **common),
            "mean-field VI": BayesByBackprop(**common),
            # Gradients grow with 1/noise²: the rate must shrink with it.
            "SGLD": SGLD(learning_rate=0.05 * self.noise**2, **chains),
            "SGHMC": SGHMC(learning_rate=0.05 * self.noise**2, momentum=0.9, **chains),
        }

    def _page(self, rhat, predicted, test: Split, rows_seen: int, seconds: float) -> Page:
        reference = predicted[REFERENCE]
        width = np.sqrt(reference.epistemic_variance)
        rows = [["method", "distance of means", "width / HMC's", "RMSE", "NLL"]]
        distances, widths = {}, {}
        for name, found in predicted.items():
            scores = evaluate(found, test.y)
            gap = np.abs(found.mean - reference.mean) / np.sqrt(reference.variance)
            distances[name] = float(gap.mean())
            widths[name] = float(np.median(np.sqrt(found.epistemic_variance) / width))
            rows.append(
                [name, f"{distances[name]:.2f}", f"{widths[name]:.2f}"]
                + [str(scores[key]) for key in ("rmse", "nll")]
            )
        figure, axes = new_figure(2, width=4)
        axes[0, 0].hist(np.clip(rhat.ravel(), 1, 2), np.linspace(1, 2, 41))
        axes[0, 0].set(xlabel="R̂ of the outputs (clipped at 2)", ylabel="test rows")
        for name in ("ensemble of 10", "mean-field VI", "SGLD"):
            own = np.sqrt(predicted[name].epistemic_variance)
            axes[0, 1].loglog(width, own, ".", label=name)
        axes[0, 1].loglog(width, width, color="gray", lw=1)
        axes[0, 1].set(xlabel="epistemic width, HMC", ylabel="of the method")
        axes[0, 1].legend()
        cheap = [n for n in widths if not n.startswith("HMC")]
        patterns = (
            Pattern(
                "chains agree about most predictions: R̂ below 1.1 for 90 % of the rows",
                bool(np.mean(rhat < 1.1) > 0.9),
                f"{np.mean(rhat < 1.1):.0%} below 1.1, median {np.median(rhat):.3f}",
            ),
            Pattern(
                "the ensemble is closer to HMC than one network",
                distances["ensemble of 10"] < distances["MAP"],
                f"distance of means {distances['ensemble of 10']:.2f} against "
                f"{distances['MAP']:.2f}",
            ),
            Pattern(
                "mean-field VI is narrower than HMC",
                widths["mean-field VI"] < 1,
                ", ".join(f"{name} {widths[name]:.2f}" for name in cheap),
            ),
        )
        return Page(
            "bnn-regression",
            "What posteriors of networks are like: UCI yacht",
            f"{rows_seen} rows, MLP 6-{self.hidden}-1 with tanh, noise {self.noise} of the "
            f"standardized target known, prior N(0, 1), split {self.split}. Reference: HMC, 4 "
            f"chains, {self.num_samples} draws after {self.num_samples} of warm-up, "
            f"{self.num_leapfrog} leapfrog steps each, scales learned. Distance of means in units "
            "of HMC's predictive standard deviation; width: median of the ratios of epistemic "
            f"standard deviations. {seconds:.0f} s.",
            (("Agreement with HMC", rows),),
            patterns,
            {"R̂ in function space; widths against HMC's": figure},
        )
