"""What a reader must know beside the figures: settings, data, warnings."""

import dataclasses
import math
import re
from typing import Any

from credo.inference import METHODS, Method
from credo.report.results import Comparison

MEMBERS = r" \(one of \d+ members with warnings\)$"


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


def baseline_notes(comparison: Comparison) -> list[str]:
    """What the baselines are."""
    if not comparison.baselines:
        return []
    listed = "; ".join(f"{name}: {text}" for name, text in comparison.baselines.items())
    return [f"From scikit-learn: {listed}."]


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


def warning_notes(comparison: Comparison) -> list[str]:
    """Everything the fits warned of, once where methods and seeds differ in figures only.

    An ensemble repeats what its members warn of, and how many of them do.
    """
    alike: dict[str, dict[str, None]] = {}
    worst: dict[str, str] = {}
    for name, runs in comparison.runs.items():
        for run in runs:
            for text in run.warnings:
                shorter = _without_name(name, text)
                group = re.sub(r"\d+(?:\.\d+)?", "#", re.sub(MEMBERS, "", shorter))
                alike.setdefault(group, {})[name] = None
                worst[group] = max(worst.get(group, shorter), shorter, key=_figures)
    return [f"{', '.join(alike[group])}: {text}" for group, text in worst.items()]


def _without_name(name: str, text: str) -> str:
    """A warning without the method's name before it, and an ensemble's members' names."""
    text = text.removeprefix(f"{name}: ")
    names = "|".join(METHODS)
    return re.sub(f"^(?:(?:{names}): )+", "", text)


def _figures(text: str) -> list[float]:
    """The numbers in a text: of several alike the warning with the largest is shown."""
    return [float(figure) for figure in re.findall(r"\d+(?:\.\d+)?", text)]
