"""What are posteriors of networks really like? HMC against everything else, at a small scale.

After Izmailov et al., What Are Bayesian Neural Network Posteriors Really Like?, ICML 2021: how well
do cheaper methods agree with the predictions of long HMC chains, and does a cold posterior help?
"""

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from credo.data import load
from credo.data.dataset import Split
from credo.errors import CredoWarning
from credo.evaluation.evaluate import evaluate
from credo.experiments.mnist import balanced, flattened
from credo.experiments.page import Page, Pattern, new_figure
from credo.inference import HMC, MAP, SGHMC, SGLD, BayesByBackprop, Dropout, Ensemble, Method, fit
from credo.inference.sampling.convergence import function_space_rhat
from credo.model import Categorical, Model, NormalPrior
from credo.networks import MLP
from credo.posterior import Samples
from credo.predictive import CategoricalPredictive, predict

NUM_CLASSES = 10


@dataclass(frozen=True)
class BnnPosteriors:
    """Agreement of cheap methods with long HMC chains, and cold posteriors, on 160 digits."""

    num_images: int = 160
    """Training images of MNIST, the same number of every class."""
    num_test: int = 2000
    """Test images."""
    hidden: int = 20
    """Hidden units."""
    num_samples: int = 150
    """HMC draws per chain, after as many of warm-up."""
    num_leapfrog: int = 300
    """Leapfrog steps of a trajectory."""
    ensemble_size: int = 10
    """Networks of the deep ensemble."""
    num_steps: int = 3000
    """Gradient steps of the methods that optimise."""
    temperatures: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0)
    """Temperatures of the sweep."""
    seed: int = 0
    """Fixes the images and the chains."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        train, test = self._data(data_dir)
        model = Model(MLP(hidden=(self.hidden,)), Categorical(NUM_CLASSES), NormalPrior(1.0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CredoWarning)  # the page shows R̂ itself
            chains = fit(model, train, self._hmc(), self.seed)
            assert isinstance(chains, Samples)
            rhat = function_space_rhat(chains, jnp.asarray(test.x[:200]))
            reference = _classes(predict(chains, test.x, num_draws=10**6))
            predicted = {
                name: _classes(self._predict(name, model, train, test)) for name in METHODS
            }
            tempered = {t: self._tempered(t, model, train, test) for t in self.temperatures}
        return self._page(rhat, reference, predicted, tempered, test, time.perf_counter() - began)

    def _data(self, data_dir: Any) -> tuple[Split, Split]:
        data = load("mnist", data_dir=data_dir)
        train = balanced(data.train, self.num_images // NUM_CLASSES)
        test = Split(*(part[: self.num_test] for part in data.test))
        return Split(flattened(train.x), train.y), Split(flattened(test.x), test.y)

    def _hmc(self) -> HMC:
        return HMC(
            num_samples=self.num_samples, num_warmup=self.num_samples, num_chains=4,
            num_leapfrog=self.num_leapfrog,
        )  # fmt: skip

    def _predict(self, name: str, model: Model, train: Split, test: Split) -> Any:
        common: dict[str, Any] = {"num_steps": self.num_steps, "batch_size": 64}
        # 100 draws along 3⅓ times as many steps as the warm-up has.
        chains: dict[str, Any] = {
            "num_warmup": self.num_steps, "thin": max(1, self.num_steps // 30), "batch_size": 64
        }  # fmt: skip
        methods: dict[str, Method] = {
            "MAP": MAP(**common),
            "ensemble": Ensemble(MAP(**common), self.ensemble_size),
            "MC dropout": Dropout(0.2, **common),
            "mean-field VI": BayesByBackprop(**common),
            "SGLD": SGLD(**chains),
            "SGHMC": SGHMC(**chains),
            "HMC, other seed": self._hmc(),
        }
        return predict(fit(model, train, methods[name], self.seed + 1), test.x, num_draws=400)

    def _tempered(self, temperature: float, model: Model, train: Split, test: Split) -> Any:
        posterior = fit(model, train, self._hmc(), self.seed, temperature=temperature)
        return evaluate(_classes(predict(posterior, test.x, num_draws=10**6)), test.y)

    def _page(self, rhat, reference, predicted, tempered, test, seconds: float) -> Page:
        rows = [["method", "agreement with HMC", "total variation", "accuracy", "NLL", "ECE"]]
        distances = {}
        for name, found in {"HMC": reference, **predicted}.items():
            scores = evaluate(found, test.y)
            agreement = np.mean(found.labels == reference.labels)
            distances[name] = 0.5 * np.abs(found.probs - reference.probs).sum(axis=1).mean()
            rows.append(
                [name, f"{agreement:.3f}", f"{distances[name]:.3f}"]
                + [str(scores[key]) for key in ("accuracy", "nll", "ece")]
            )
        cold_rows = [["temperature", "accuracy", "NLL", "ECE"]]
        cold_rows += [
            [f"{t:g}", *(str(scores[key]) for key in ("accuracy", "nll", "ece"))]
            for t, scores in tempered.items()
        ]
        figure, axes = new_figure(2, width=4)
        axes[0, 0].hist(np.clip(rhat.ravel(), 1, 2), np.linspace(1, 2, 41))
        axes[0, 0].set(xlabel="R̂ of the outputs (clipped at 2)", ylabel="outputs")
        values = [scores["nll"].value for scores in tempered.values()]
        axes[0, 1].semilogx(list(tempered), values, "o-")
        axes[0, 1].set(xlabel="temperature", ylabel="test NLL")
        patterns = [
            Pattern(
                "chains agree about most predictions: R̂ below 1.1 for 90 % of the outputs",
                bool(np.mean(rhat < 1.1) > 0.9),
                f"{np.mean(rhat < 1.1):.0%} below 1.1, median {np.median(rhat):.3f}",
            ),
            Pattern(
                "the ensemble is closer to HMC than one network",
                bool(distances["ensemble"] < distances["MAP"]),
                f"total variation {distances['ensemble']:.3f} against {distances['MAP']:.3f}",
            ),
            Pattern(
                "sampling is closer to HMC than mean-field VI and dropout",
                bool(
                    min(distances["SGLD"], distances["SGHMC"])
                    < min(distances["mean-field VI"], distances["MC dropout"])
                ),
                ", ".join(f"{n} {distances[n]:.3f}" for n in METHODS[1:]),
            ),
            Pattern(
                "no cold-posterior effect: temperature 1 is not worse than 0.1 in NLL",
                bool(tempered[1.0]["nll"].value <= tempered[min(tempered)]["nll"].value)
                if 1.0 in tempered
                else False,
                ", ".join(f"T = {t:g}: {v:.3f}" for t, v in zip(tempered, values, strict=True)),
            ),
        ]
        return Page(
            "bnn-posteriors",
            "What posteriors of networks are like",
            f"{self.num_images} MNIST images, MLP 784-{self.hidden}-10, prior N(0, 1), "
            f"{self.num_test:,} test images. Reference: HMC, 4 chains, {self.num_samples} draws "
            f"after {self.num_samples} of warm-up, {self.num_leapfrog} leapfrog steps each. "
            f"{seconds:.0f} s. After Izmailov et al. 2021, who use ResNets and CIFAR-10; their "
            "findings are the patterns.",
            (("Agreement with HMC", rows), ("Temperature of HMC", cold_rows)),
            tuple(patterns),
            {"R̂ in function space; test NLL by temperature": figure},
        )


METHODS = ("MAP", "ensemble", "MC dropout", "mean-field VI", "SGLD", "SGHMC", "HMC, other seed")


def _classes(predicted: Any) -> CategoricalPredictive:
    assert isinstance(predicted, CategoricalPredictive)
    return predicted
