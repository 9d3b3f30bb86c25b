"""A stream of labels: the deep ensemble filter against fitting again, SGLD and MC dropout.

Labels come in small batches. After each, every method has a model of all labels so far: the filter
by an update of the last one, the others by a new fit. What does a label cost, and what is it worth?
"""

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from credo.data import load
from credo.data.dataset import Split
from credo.errors import CredoWarning
from credo.evaluation import mean_estimate
from credo.evaluation.evaluate import evaluate
from credo.experiments.mnist import flattened
from credo.experiments.page import Page, Pattern, new_figure
from credo.inference import MAP, SGLD, DEnFi, Dropout, Ensemble, Method, fit, update
from credo.model import Categorical, Model
from credo.networks import MLP
from credo.predictive import predict

FILTER = "denfi"


class Curve(NamedTuple):
    """Along the stream: error and NLL on the test part, and the seconds of each update."""

    error: np.ndarray
    nll: np.ndarray
    seconds: np.ndarray


@dataclass(frozen=True)
class Stream:
    """Error and cost per new label: the deep ensemble filter against fitting again."""

    first: int = 20
    """Labels of the initial fit."""
    batch: int = 20
    """Labels that come at a time."""
    labels: int = 300
    """Labels at the end."""
    size: int = 10
    """Members of the filter and of the ensemble."""
    num_steps: int = 2500
    """Gradient steps of a fit."""
    update_steps: int = 300
    """Gradient steps of an update of the filter."""
    hidden: int = 50
    """Hidden units."""
    seeds: int = 3
    """Orders of the labels."""

    def run(self, data_dir: str | Path | None = None) -> Page:
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CredoWarning)  # one chain of SGLD has no R̂ to show
            curves = {name: self._curves(name, data_dir) for name in (FILTER, *self._methods())}
        return self._page(curves, time.perf_counter() - began)

    def _filter(self) -> DEnFi:
        return DEnFi(self.size, num_steps=self.num_steps, update_steps=self.update_steps)

    def _methods(self) -> dict[str, Method]:
        thin = max(1, self.num_steps // 250)
        warmup = max(0, self.num_steps - 50 * thin)
        sgld = SGLD(num_samples=50, thin=thin, num_warmup=warmup, num_chains=1)
        return {
            "ensemble, refitted": Ensemble(MAP(num_steps=self.num_steps), self.size),
            "dropout, refitted": Dropout(num_steps=self.num_steps),
            "sgld, refitted": sgld,
            "map, refitted": MAP(num_steps=self.num_steps),
        }

    def _curves(self, name: str, data_dir) -> list[Curve]:
        return [self._curve(name, seed, data_dir) for seed in range(self.seeds)]

    def _curve(self, name: str, seed: int, data_dir) -> Curve:
        data = load("digits", data_dir=data_dir)
        order = np.random.default_rng(seed).permutation(len(data.train.y))
        train = Split(flattened(data.train.x)[order], data.train.y[order])
        test = flattened(data.test.x)
        model = Model(MLP(hidden=(self.hidden,)), Categorical(10))
        posterior: Any = None
        points = []
        for count in self.counts():
            seen = Split(train.x[:count], train.y[:count])
            began = time.perf_counter()
            if name != FILTER:
                posterior = fit(model, seen, self._methods()[name], key=count)
            elif posterior is None:
                posterior = fit(model, seen, self._filter(), key=count)
            else:
                posterior = update(posterior, seen, key=count)
            seconds = time.perf_counter() - began
            scores = evaluate(predict(posterior, test), data.test.y)
            points.append((1 - scores["accuracy"].value, scores["nll"].value, seconds))
        return Curve(*np.array(points).T)

    def counts(self) -> range:
        return range(self.first, self.labels + 1, self.batch)

    def _steps(self, name: str) -> int:
        """Gradient steps of one update, all members together."""
        members = self.size if name in (FILTER, "ensemble, refitted") else 1
        return members * (self.update_steps if name == FILTER else self.num_steps)

    def _page(self, curves: dict[str, list[Curve]], seconds: float) -> Page:
        rows = [["method", "error along the stream", "error at the end", "NLL at the end",
                 "gradient steps per label", "seconds per update"]]  # fmt: skip
        along, cost = {}, {}
        for name, found in curves.items():
            along[name] = mean_estimate([curve.error.mean() for curve in found])
            # The last order finds every program compiled.
            cost[name] = float(np.median(found[-1].seconds[1:]))
            ends = [mean_estimate([c[i][-1] for c in found]) for i in (0, 1)]
            steps = self._steps(name) / self.batch
            rows.append(
                [name, str(along[name]), *map(str, ends), f"{steps:.0f}", f"{cost[name]:.2f}"]
            )
        figure, axes = new_figure(2, width=4)
        for name, found in curves.items():
            for axis, part, label in zip(axes[0], (0, 1), ("test error", "test NLL")):
                mean = np.mean([curve[part] for curve in found], axis=0)
                axis.semilogy(self.counts(), mean, label=name)
                axis.set(xlabel="labels", ylabel=label)
        axes[0, 0].legend()
        refitted = "ensemble, refitted"
        gap = along[FILTER].value - along[refitted].value
        single = min(along[name].value for name in ("dropout, refitted", "sgld, refitted"))
        patterns = (
            Pattern(
                "the filter is as good as an ensemble fitted again, within half a point of error",
                bool(gap < 0.005),
                f"error along the stream {along[FILTER]} against {along[refitted]}",
            ),
            Pattern(
                "an update costs less than half of fitting again",
                bool(cost[FILTER] < 0.5 * cost[refitted]),
                f"{cost[FILTER]:.2f} s against {cost[refitted]:.2f} s",
            ),
            Pattern(
                "the filter beats MC dropout and SGLD along the stream",
                bool(along[FILTER].value < single),
                f"error {along[FILTER]} against {single:.4f}",
            ),
        )
        return Page(
            "stream",
            "A stream of labels",
            f"scikit-learn's digits, MLP 64-{self.hidden}-10, {self.first} labels at first, then "
            f"{self.batch} at a time up to {self.labels}; {self.seeds} orders, mean ± standard "
            f"error. A fit has {self.num_steps:,} gradient steps, an update of the filter "
            f"{self.update_steps} for each of {self.size} members. Seconds are those of the last "
            f"order, when all programs are compiled. {seconds:.0f} s.",
            (("What a label costs and gives", rows),),
            patterns,
            {"Error and NLL along the stream": figure},
        )
