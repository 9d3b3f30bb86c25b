"""What a comparison found: plain arrays and numbers, one `Run` for each method and seed."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from credo.data import Dataset
from credo.errors import CredoError
from credo.evaluation import Estimate, mean_estimate
from credo.evaluation.classification import ReliabilityCurve
from credo.inference import Method
from credo.networks import Network
from credo.predictive import Predictive


class Trace(NamedTuple):
    """One quantity along a run, averaged over blocks of steps."""

    name: str
    steps: np.ndarray
    """(point,), the middle of each block."""
    values: np.ndarray
    """(chain, point)."""
    num_warmup: int
    """Steps before the first kept draw; all of them for an optimizer."""


class OutOfDistribution(NamedTuple):
    """Inputs of a kind that no training row has."""

    x: np.ndarray
    names: tuple[str, ...]
    """What each one is."""
    source: str
    """Where they come from, as the end of a sentence."""
    reason: str = ""
    """Why these."""


@dataclass(frozen=True, eq=False)
class Run:
    """One method fitted with one seed, and how it did on the test part."""

    seed: int
    metrics: dict[str, Estimate]
    """What `credo.evaluate` says; errors are those of the finite test part."""
    reliability: ReliabilityCurve
    """Classes: confidence, accuracy, count. Quantities: interval level, coverage, count."""
    predicted: Predictive
    ood_predicted: Predictive | None
    training: Trace | None
    fit_seconds: float
    predict_seconds: float
    num_parameters: int | None
    """Of one network; None: a baseline, which is none."""
    num_stored: int | None
    """Numbers that the posterior keeps: all draws of a chain, one network for dropout."""
    num_draws: int
    """Functions averaged in each prediction."""
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What the method has chosen."""

    @property
    def seconds(self) -> float:
        return self.fit_seconds + self.predict_seconds


@dataclass(frozen=True, eq=False)
class Comparison:
    """Several methods on one data set, judged on the same rows."""

    data: Dataset
    """As it was used: without held-out classes."""
    ood: OutOfDistribution | None
    """Unfamiliar inputs that the methods were shown too; None: there are none."""
    network: Network
    num_draws: int
    methods: dict[str, Method]
    runs: dict[str, tuple[Run, ...]]
    """One for each seed, of methods and then of baselines."""
    baselines: dict[str, str] = field(default_factory=dict)
    """What the runs are that have no method: by label, in words."""

    @property
    def regression(self) -> bool:
        return self.data.task == "regression"

    @property
    def num_seeds(self) -> int:
        """Of the method with the most: dear ones may have fewer."""
        return max(map(len, self.runs.values()))

    @property
    def error_meaning(self) -> str:
        """What stands behind the ± of `summary`."""
        rows = f"standard error over {len(self.data.test.y):,} test rows"
        if self.num_seeds == 1:
            return f"{rows}, of one seed"
        fewer = [name for name, runs in self.runs.items() if len(runs) < self.num_seeds]
        text = f"{rows} and {self.num_seeds} seeds"
        if fewer:
            text += f" ({', '.join(fewer)}: {min(map(len, self.runs.values()))})"
        return text

    def summary(self, method: str, metric: str) -> Estimate:
        """Mean over seeds, and its standard error over test rows and seeds.

        `metric` is one of a run's metrics, or "seconds".
        """
        runs = self.runs[method]
        if metric == "seconds":
            return over_seeds([Estimate(run.seconds, math.nan) for run in runs])
        if metric not in runs[0].metrics:
            known = ", ".join([*runs[0].metrics, "seconds"])
            raise CredoError(f"no metric {metric!r} in this comparison; there are: {known}")
        return over_seeds([run.metrics[metric] for run in runs])


def over_seeds(estimates: list[Estimate]) -> Estimate:
    """The mean of one number per seed, with the error of the test rows and that of the seeds.

    All seeds are judged on the same rows, so the first does not shrink with more of them.

    Example:
        >>> print(over_seeds([Estimate(1.0, 0.2), Estimate(1.4, 0.4)]))
        1.20 ± 0.36
    """
    if len(estimates) == 1:
        return estimates[0]
    value, of_seeds = mean_estimate([estimate.value for estimate in estimates])
    of_rows = sum(estimate.error for estimate in estimates) / len(estimates)
    return Estimate(value, math.hypot(of_rows, of_seeds))
