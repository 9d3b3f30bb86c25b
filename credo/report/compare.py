"""Fit several methods on one data set with several seeds, and judge them all alike."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from credo.data import Dataset
from credo.evaluation.classification import ReliabilityCurve, reliability_curve
from credo.evaluation.evaluate import evaluate
from credo.experiments.baselines import Baseline, baselines_for, flat, predictive
from credo.inference import CredoWarning, Method, fit
from credo.model import Model, NormalPrior, default_model, standardized_noise
from credo.networks import Network
from credo.posterior import Posterior, Record
from credo.predictive import CategoricalPredictive, MixturePredictive, Predictive, predict
from credo.report.prepare import SEEDS, choose_methods, prepare, seeds_of, target_units
from credo.report.results import Comparison, Run, Trace

METHODS = ("map", "dropout", "ensemble", "laplace", "hmc", "auto")
TRACE_POINTS = 200
MANY_ROWS = 10_000  # from which on a baseline is worth several threads
# The first of these that a run recorded becomes its training curve.
TRACED = ("nll", "loss", "log_joint")
LEVELS = np.linspace(0.05, 0.95, 19)  # of central intervals


def compare(
    data: Dataset,
    methods: Mapping[str, Method] | Sequence[str] = METHODS,
    seeds: int | None = None,
    network: Network | None = None,
    ood: Any = None,
    num_draws: int = 100,
    progress: bool | None = None,
    held_out: Sequence[int] | None = None,
    noise: float | None = None,
    seed: int = 0,
    prior_scale: float = 1.0,
    baselines: bool = False,
) -> Comparison:
    """Fit every method with several seeds on the training part; judge on the test part.

    Classifiers are also shown inputs of a kind they were not trained on: `ood`, else classes held
    out of training. Regression targets are standardized for the fit; figures are in their units.

    Args:
        methods: methods by label, or registered names, which have their own defaults.
        seeds: runs of each method; by default three, and one of those that take long.
        network: by default the one of `credo.default_model`.
        ood: unfamiliar inputs: a data set (its test part), a split or an array.
        num_draws: posterior draws averaged in a prediction.
        progress: a progress bar for each fit; by default only on a terminal.
        held_out: numbers of the classes to hold out; by default every fifth.
        noise: known standard deviation of a quantity around the function, in its units; by default
            it is learned.
        seed: the first of the seeds.
        prior_scale: standard deviation of the normal prior over weights.
        baselines: whether scikit-learn's are judged too: a linear model, a forest, boosted trees.

    Example:
        >>> import credo
        >>> methods = {"map": credo.MAP(num_steps=50)}
        >>> found = compare(credo.data.load("iris"), methods, seeds=2)
        >>> found.summary("map", "accuracy").value > 0.5
        True
    """
    chosen = choose_methods(methods)
    numbers = {name: seeds_of(method, seed, seeds) for name, method in chosen.items()}
    data, unfamiliar = prepare(data, ood, held_out)
    classes = None if data.task == "regression" else len(data.classes or ())
    known = standardized_noise(noise, target_units(data).factor)  # type: ignore[arg-type]
    model = default_model(classes, network, NormalPrior(prior_scale), noise=known)
    inputs = None if unfamiliar is None else unfamiliar.x
    runs = {
        name: tuple(
            run_once(model, data, method, number, inputs, num_draws, progress)
            for number in numbers[name]
        )
        for name, method in chosen.items()
    }
    others = {n: b for n, b in baselines_for(data).items() if n not in runs} if baselines else {}
    for name, baseline in others.items():
        # One seed gives the same answer as another where nothing is random.
        tried = range(seed, seed + (seeds or SEEDS)) if baseline.is_random else [seed]
        runs[name] = tuple(
            run_baseline(baseline, data, number, inputs, reliability) for number in tried
        )
    described = {name: baseline.description for name, baseline in others.items()}
    return Comparison(data, unfamiliar, model.network, num_draws, chosen, runs, described)


def run_once(
    model: Model,
    data: Dataset,
    method: Method,
    seed: int,
    ood_inputs: np.ndarray | None = None,
    num_draws: int = 100,
    progress: bool | None = None,
) -> Run:
    """One fit, its predictions on the test part and elsewhere, and how good they are."""
    began = time.perf_counter()
    posterior, messages = fit_noting_warnings(model, data, method, seed, progress)
    fitted = time.perf_counter()
    predicted = predict(posterior, data.test.x, num_draws, key=seed)
    predict_seconds = time.perf_counter() - fitted
    elsewhere = None if ood_inputs is None else predict(posterior, ood_inputs, num_draws, key=seed)
    return Run(
        seed=seed,
        metrics=evaluate(predicted, data.test.y, elsewhere),
        reliability=reliability(predicted, data.test.y),
        predicted=predicted,
        ood_predicted=elsewhere,
        training=trace(posterior.record, method.plan(len(data.train.x)).num_warmup),
        fit_seconds=fitted - began,
        predict_seconds=predict_seconds,
        num_parameters=num_parameters(model, posterior),
        num_stored=num_stored(posterior),
        num_draws=min(num_draws, posterior.num_draws or num_draws),
        warnings=messages,
        notes=posterior.record.notes,
    )


def num_stored(posterior: Posterior) -> int:
    """How many numbers the posterior keeps, besides those of its model."""
    learned = replace(posterior, model=None)  # type: ignore[type-var]
    return sum(np.size(leaf) for leaf in jax.tree.leaves(learned))


def fit_noting_warnings(
    model: Model, data: Dataset, method: Method, seed: int, progress: bool | None
) -> tuple[Posterior, tuple[str, ...]]:
    """Fit, and collect what credo warned of; other warnings are passed on."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CredoWarning)
        posterior = fit(
            model, data.train, method, key=seed, units=target_units(data), progress=progress
        )
    for other in caught:
        if not issubclass(other.category, CredoWarning):
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    messages = [str(w.message) for w in caught if issubclass(w.category, CredoWarning)]
    return posterior, tuple(dict.fromkeys(messages))


def reliability(predicted: Predictive, y: np.ndarray) -> ReliabilityCurve:
    """What was promised and what came true: confidence and accuracy, or level and coverage."""
    if isinstance(predicted, CategoricalPredictive):
        return reliability_curve(predicted.probs, y, num_bins(len(y)))
    assert isinstance(predicted, MixturePredictive)
    # y lies in the central interval of level c exactly where |2 P(Y ≤ y | x) − 1| ≤ c.
    distance = np.abs(2 * predicted.cdf(y) - 1)
    coverage = (distance <= LEVELS[:, None]).mean(axis=1)
    return ReliabilityCurve(LEVELS, coverage, np.full(len(LEVELS), len(y)))


def num_bins(num_rows: int) -> int:
    """Bins of confidence: few where few rows would leave most of them to chance."""
    return int(np.clip(num_rows // 40, 5, 15))


def trace(record: Record, num_warmup: int) -> Trace | None:
    """The training curve of a run: means over blocks of steps, at most 200 points."""
    names = [name for name in (*TRACED, *record.history) if name in record.history]
    if not names:
        return None
    values = np.asarray(record.history[names[0]], np.float64)
    num_steps = values.shape[1]
    starts = np.arange(0, num_steps, -(-num_steps // TRACE_POINTS))
    sizes = np.diff(starts, append=num_steps)
    means = np.add.reduceat(values, starts, axis=1) / sizes
    return Trace(names[0], starts + (sizes - 1) / 2, means, num_warmup)


def num_parameters(model: Model, posterior: Posterior) -> int:
    """How many numbers one network of this model has."""
    shape = posterior.record.input_shape
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), shape))
    return sum(np.size(leaf) for leaf in jax.tree.leaves(params))


def run_baseline(
    baseline: Baseline, data: Dataset, seed: int, ood_inputs: np.ndarray | None, judge: Callable
) -> Run:
    """One fit of a baseline; `judge` gives the curve of what was promised and what came true."""
    from threadpoolctl import threadpool_limits

    # Threads of boosted trees wait for each other in circles, which costs more than few rows do.
    num_threads = 1 if len(data.train.x) < MANY_ROWS else None
    began = time.perf_counter()
    with threadpool_limits(num_threads):
        fitted = baseline.fit(flat(data.train.x), data.train.y, seed)
    after_fit = time.perf_counter()
    predicted = predictive(fitted, data, data.test.x)
    predict_seconds = time.perf_counter() - after_fit
    elsewhere = None if ood_inputs is None else predictive(fitted, data, ood_inputs)
    return Run(
        seed=seed,
        metrics=evaluate(predicted, data.test.y, elsewhere),
        reliability=judge(predicted, data.test.y),
        predicted=predicted,
        ood_predicted=elsewhere,
        training=None,
        fit_seconds=after_fit - began,
        predict_seconds=predict_seconds,
        num_parameters=None,
        num_stored=None,
        num_draws=1,
        warnings=(),
    )
