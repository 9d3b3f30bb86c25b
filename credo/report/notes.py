"""What a reader must know beside the figures: settings, data, warnings."""

import dataclasses
import math
import re
from typing import Any

from credo.inference import Method
from credo.report.columns import figure, headline_columns, shared_decimals
from credo.report.results import Comparison


def settings(method: Method) -> dict[str, Any]:
    """A method's hyper-parameters by name."""
    return {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}  # type: ignore[arg-type]


def changed_settings(method: Method) -> dict[str, tuple[Any, Any]]:
    """Hyper-parameters that differ from the method's own defaults: name → (used, default)."""
    defaults = {field.name: field.default for field in dataclasses.fields(method)}  # type: ignore[arg-type]
    return {
        name: (value, defaults[name])
        for name, value in settings(method).items()
        if defaults[name] is not dataclasses.MISSING and value != defaults[name]
    }


def settings_notes(comparison: Comparison) -> list[str]:
    """One sentence for each method that was not run with its own defaults."""
    notes = []
    for name, method in comparison.methods.items():
        changed = changed_settings(method)
        if changed:
            listed = ", ".join(f"{k}={used} (default {own})" for k, (used, own) in changed.items())
            notes.append(f"{name} was run with {listed}.")
    return notes


def data_note(comparison: Comparison) -> str:
    """What was fitted and judged, in one sentence."""
    data = comparison.data
    kind = "one number" if comparison.regression else f"{len(data.classes or ())} classes"
    return (
        f"{data.name}: {len(data.train.x):,} rows to fit, {len(data.test.x):,} to test, "
        f"{_input_kind(comparison)}, {kind} to predict."
    )


def _input_kind(comparison: Comparison) -> str:
    shape = comparison.data.train.x.shape[1:]
    if comparison.data.image_shape:
        return f"images of {shape[0]} × {shape[1]} pixels"
    size = math.prod(shape)
    return "1 feature" if size == 1 else f"{size} features"


def ood_note(comparison: Comparison) -> str:
    """Where the unfamiliar inputs come from, or why there are none."""
    if comparison.ood is not None:
        return f"Out of distribution: {comparison.ood.source}."
    if comparison.regression:
        return "Out of distribution: not measured for regression."
    return (
        "Out of distribution: not measured; with so few classes, holding one out would leave "
        "another problem."
    )


def sampling_note(comparison: Comparison) -> str:
    """How far the headline figures could move on another test set: errors over seeds are blind
    to it."""
    if comparison.num_seeds == 1:
        return ""
    parts = []
    for column in headline_columns(comparison)[:-1]:
        runs = [run for runs in comparison.runs.values() for run in runs]
        errors = [run.metrics[column.metric] for run in runs]
        finite = [e for e in errors if math.isfinite(e.error)]
        if finite:
            typical = sorted(finite, key=lambda e: e.error)[len(finite) // 2]
            text = figure(typical, shared_decimals([typical])).partition("±")[2]
            parts.append(f"{column.title} by ±{text}")
    return f"Another test set of this size could well move {', '.join(parts)}." if parts else ""


def warning_notes(comparison: Comparison) -> list[str]:
    """Everything the fits warned of, once per method where seeds differ in figures only."""
    alike: dict[tuple[str, str], list[int]] = {}
    worst: dict[tuple[str, str], str] = {}
    for name, runs in comparison.runs.items():
        for run in runs:
            for text in run.warnings:
                group = (name, re.sub(r"\d+", "#", text))
                alike.setdefault(group, []).append(run.seed)
                shorter = text.removeprefix(f"{name}: ")
                worst[group] = max(worst.get(group, shorter), shorter, key=_figures)
    return [f"{group[0]}, {_seeds(alike[group])}: {text}" for group, text in worst.items()]


def _figures(text: str) -> list[float]:
    """The numbers in a text: of several alike the warning with the largest is shown."""
    return [float(figure) for figure in re.findall(r"\d+(?:\.\d+)?", text)]


def _seeds(seeds: list[int]) -> str:
    rest = list(dict.fromkeys(seeds))[1:]
    return f"seed {seeds[0]}" + (f" (and {', '.join(map(str, rest))} alike)" if rest else "")
