"""The numbers behind the page, as JSON: whatever a figure or table shows is here."""

import math
import os
import platform
from typing import Any, NamedTuple

import jax
import numpy as np

from credo import __version__
from credo.evaluation import Estimate
from credo.evaluation.rejection import rejection_curve
from credo.predictive import CategoricalPredictive, MixturePredictive
from credo.report.conclusion import conclusion
from credo.report.differences import best_in, nll_differences
from credo.report.examples import Example, examples
from credo.report.notes import data_note, ood_note, settings
from credo.report.results import Comparison, Run

FORMAT = 2
ENTROPY_BINS = 24
POINTS = 300  # predictions shown of a regression
REJECTED = np.linspace(0, 0.5, 26)  # shares of test rows


class Histogram(NamedTuple):
    """Counts of several groups in the same bins, over all seeds."""

    edges: np.ndarray
    counts: dict[str, np.ndarray]

    @property
    def shares(self) -> dict[str, np.ndarray]:
        """Each group's counts as shares of the group."""
        return {name: counts / max(counts.sum(), 1) for name, counts in self.counts.items()}


def entropy_histogram(comparison: Comparison, method: str) -> Histogram:
    """Entropies of test and unfamiliar inputs; without the latter, of right and wrong answers."""
    groups: dict[str, list[np.ndarray]] = {}
    for run in comparison.runs[method]:
        entropy = run.predicted.entropy
        if run.ood_predicted is not None:
            parts = {"test set": entropy, "unfamiliar": run.ood_predicted.entropy}
        elif isinstance(run.predicted, CategoricalPredictive):
            right = run.predicted.codes == comparison.data.test.y
            parts = {"right": entropy[right], "wrong": entropy[~right]}
        for name, values in parts.items():
            groups.setdefault(name, []).append(values)
    edges = np.linspace(0, math.log(len(comparison.data.classes or ())), ENTROPY_BINS + 1)
    clipped = {name: np.clip(np.concatenate(g), 0, edges[-1]) for name, g in groups.items()}
    return Histogram(edges, {name: np.histogram(v, edges)[0] for name, v in clipped.items()})


def shown_predictions(comparison: Comparison, method: str) -> dict[str, np.ndarray]:
    """Truth, mean and 95 % interval of the first test rows, as the first seed predicted them."""
    predicted = comparison.runs[method][0].predicted
    assert isinstance(predicted, MixturePredictive)
    lower, upper = predicted.interval(0.95)
    columns = {"truth": comparison.data.test.y, "mean": predicted.mean, "lower": lower}
    return {name: values[:POINTS] for name, values in (columns | {"upper": upper}).items()}


def rejection(comparison: Comparison, method: str) -> np.ndarray:
    """Accuracy (or RMSE) of the test rows kept for each share in `REJECTED`, mean over seeds."""
    y, curves = comparison.data.test.y, []
    for run in comparison.runs[method]:
        predicted = run.predicted
        if isinstance(predicted, CategoricalPredictive):
            curves.append(rejection_curve(predicted.entropy, predicted.codes == y, REJECTED))
        else:
            assert isinstance(predicted, MixturePredictive)
            squares = (predicted.mean - y) ** 2
            curves.append(np.sqrt(rejection_curve(predicted.std, squares, REJECTED)))
    return np.mean(curves, axis=0)


def as_numbers(comparison: Comparison) -> dict[str, Any]:
    """Everything as JSON-able values: NaN is null, infinity the string "inf"."""
    data, best = comparison.data, best_in(comparison, "nll")
    content = {
        "format": FORMAT,
        "conclusion": conclusion(comparison),
        "data": {
            "name": data.name,
            "task": data.task,
            "train_rows": len(data.train.x),
            "test_rows": len(data.test.x),
            "input_shape": data.train.x.shape[1:],
            "classes": data.classes,
            "description": data_note(comparison),
            "out_of_distribution": ood_note(comparison),
            "ood_rows": 0 if comparison.ood is None else len(comparison.ood.x),
        },
        "network": repr(comparison.network),
        "num_draws": comparison.num_draws,
        "num_seeds": comparison.num_seeds,
        "error": comparison.error_meaning,
        "versions": versions(),
        "machine": machine(),
        "best_nll": best,
        "nll_above_best": {} if best is None else nll_differences(comparison, best),
        "rejected_shares": REJECTED,
        "examples": {
            title: [_example(each) for each in group]
            for title, group in examples(comparison).items()
        },
        "methods": {name: _method(comparison, name) for name in comparison.runs},
    }
    return plain(content)


def versions() -> dict[str, str]:
    import equinox
    import optax

    return {
        "credo": __version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "equinox": equinox.__version__,
        "optax": optax.__version__,
        "numpy": np.__version__,
    }


def machine() -> str:
    device = jax.devices()[0]
    return f"{os.cpu_count()} CPU cores ({platform.machine()}), JAX on {device.device_kind}"


def _method(comparison: Comparison, name: str) -> dict[str, Any]:
    runs = comparison.runs[name]
    metrics = [*runs[0].metrics, "seconds"]
    method = comparison.methods.get(name)
    content = {
        "method": comparison.baselines[name] if method is None else type(method).__name__,
        "settings": {} if method is None else settings(method),
        "summary": {metric: comparison.summary(name, metric) for metric in metrics},
        "runs": [_run(run) for run in runs],
        "kept_after_rejection": rejection(comparison, name),
    }
    if comparison.regression:
        return content | {"predictions": shown_predictions(comparison, name)}
    histogram = entropy_histogram(comparison, name)
    return content | {"entropy": {"edges": histogram.edges, **histogram.counts}}


def _run(run: Run) -> dict[str, Any]:
    return {
        "seed": run.seed,
        "metrics": run.metrics,
        "reliability": run.reliability._asdict(),
        "training": None if run.training is None else run.training._asdict(),
        "fit_seconds": run.fit_seconds,
        "predict_seconds": run.predict_seconds,
        "num_parameters": run.num_parameters,
        "num_stored": run.num_stored,
        "num_draws": run.num_draws,
        "warnings": run.warnings,
        "notes": run.notes,
    }


def _example(example: Example) -> dict[str, Any]:
    answers = {name: answer._asdict() for name, answer in example.answers.items()}
    return example._asdict() | {"answers": answers}


def plain(value: Any) -> Any:
    """Arrays as lists, estimates as {value, error}, and only numbers that JSON knows."""
    if isinstance(value, Estimate):
        return {"value": plain(value.value), "error": plain(value.error)}
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value if isinstance(value, str | int | float | bool | None) else str(value)
