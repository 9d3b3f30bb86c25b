"""Who is best, by how much, and whether that is more than chance: differences row by row."""

import math

import numpy as np

from credo.evaluation import Estimate, mean_estimate
from credo.evaluation.ood import placements
from credo.report.results import Comparison, Run

ERRORS = 2.0  # a difference of fewer standard errors is none


def best_in(comparison: Comparison, metric: str, highest: bool = False) -> str | None:
    """The method with the best mean of a metric; None where no value is finite."""
    values = {name: comparison.summary(name, metric).value for name in comparison.runs}
    finite = {name: value for name, value in values.items() if math.isfinite(value)}
    if not finite:
        return None
    return (max if highest else min)(finite, key=finite.__getitem__)


def nll_differences(comparison: Comparison, best: str) -> dict[str, Estimate]:
    """NLL of every other method minus that of the best, on the same test rows.

    Rows that are hard for all do not count: the error is that of the differences, row by row, and
    of the seeds where a method has several.
    """
    rows = {
        name: np.mean([-run.predicted.log_prob(comparison.data.test.y) for run in runs], axis=0)
        for name, runs in comparison.runs.items()
    }
    return {
        name: _with_seeds(
            comparison, "nll", name, best, mean_estimate(_minus(rows[name], rows[best]))
        )
        for name in rows
        if name != best
    }


def auroc_differences(comparison: Comparison, best: str) -> dict[str, Estimate]:
    """OOD AUROC of the best minus that of every other method, on the same inputs.

    Reference: DeLong, DeLong & Clarke-Pearson, Biometrics 1988.
    """
    placed = {name: _mean_placements(runs) for name, runs in comparison.runs.items()}
    found = {}
    for name in placed:
        if name != best:
            of_in, of_out = (mean_estimate(b - o) for b, o in zip(placed[best], placed[name]))
            paired = Estimate(of_out.value, math.hypot(of_in.error, of_out.error))
            found[name] = _with_seeds(comparison, "ood_auroc", name, best, paired)
    return found


def tied_with(differences: dict[str, Estimate]) -> list[str]:
    """Methods whose difference to the best is within its error, by how small it is."""
    close = [name for name, each in differences.items() if each.value <= ERRORS * each.error]
    return sorted(close, key=lambda name: differences[name].value)


def _minus(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Differences; 0 where both are the same infinity."""
    with np.errstate(invalid="ignore"):
        return np.where(values == others, 0.0, values - others)


def _mean_placements(runs: tuple[Run, ...]) -> tuple[np.ndarray, np.ndarray]:
    found = [
        placements(run.predicted.entropy, run.ood_predicted.entropy)
        for run in runs
        if run.ood_predicted is not None
    ]
    of_in, of_out = (np.mean(part, axis=0) for part in zip(*found))
    return of_in, of_out


def _with_seeds(
    comparison: Comparison, metric: str, name: str, best: str, paired: Estimate
) -> Estimate:
    """The error of the rows and that of the seeds, of either method."""
    errors = [paired.error]
    for each in (name, best):
        values = [run.metrics[metric].value for run in comparison.runs[each]]
        if len(values) > 1:
            errors.append(mean_estimate(values).error)
    return Estimate(paired.value, math.hypot(*errors))
