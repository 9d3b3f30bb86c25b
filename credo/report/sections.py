"""The figures' and pictures' sections of the page, each a function from comparison to HTML."""

import functools
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from credo.report import plots
from credo.report.guides import (
    COVERAGE_GUIDE,
    ENTROPY_GUIDE,
    ENTROPY_GUIDE_RIGHT,
    NO_UNFAMILIAR,
    PREDICTION_GUIDE,
    REJECTION_GUIDE,
    REJECTION_GUIDE_QUANTITIES,
    RELIABILITY_GUIDE,
    TRAINING_GUIDE,
)
from credo.report.numbers import REJECTED, entropy_histogram, rejection, shown_predictions
from credo.report.results import Comparison, Run
from credo.report.svg import svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANEL = (3.6, 2.6)  # inches: fits a phone, and three stand side by side on a desk
TALL = (3.6, 3.5)


def section(name: str, title: str, *parts: str) -> str:
    return f'<section id="{name}"><h2>{escape(title)}</h2>{"".join(parts)}</section>'


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def panels(drawings: dict[str, str], captions: dict[str, str], wide: bool = False) -> str:
    """Figures side by side where there is room (one per method), or each over the full width."""
    figures = "".join(
        f"<figure><figcaption>{escape(name)} <small>{escape(captions.get(name, ''))}</small>"
        f"</figcaption>{drawing}</figure>"
        for name, drawing in drawings.items()
    )
    classes = "panels wide" if wide else "panels"
    return f'<div class="{classes}">{figures}</div>'


def one_panel(draw: Callable) -> Callable[["Figure"], None]:
    return lambda figure: draw(figure.add_subplot())


def reliability_section(comparison: Comparison) -> str:
    """Reliability diagrams, or the coverage of intervals."""
    metric, title = ("coverage_95", "95 % coverage") if comparison.regression else ("ece", "ECE")
    drawings, captions = {}, {}
    for name, runs in comparison.runs.items():
        captions[name] = f"{title} {comparison.summary(name, metric).value:.3f}"
        label = f"Reliability diagram of {name}: {captions[name]}"
        draw = functools.partial(_draw_reliability, runs, comparison.regression)
        drawings[name] = svg(draw, label, PANEL if comparison.regression else TALL)
    return section(
        "reliability",
        "Can the confidence be believed?",
        paragraph(COVERAGE_GUIDE if comparison.regression else RELIABILITY_GUIDE),
        panels(drawings, captions),
    )


def _draw_reliability(runs: tuple[Run, ...], regression: bool, figure: "Figure") -> None:
    if regression:
        axes = figure.add_subplot()
        plots.draw_reliability(axes, runs)
        axes.set(xlabel="level of the interval", ylabel="true values inside")
        return
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    plots.draw_reliability(above, runs)
    above.set_ylabel("accuracy")
    plots.draw_counts(below, runs)
    below.set_xlabel("confidence")


def uncertainty_section(comparison: Comparison) -> str:
    """Entropies in and out of distribution; for quantities, predictions with their intervals."""
    if comparison.regression:
        return prediction_section(comparison)
    drawings, captions = {}, {}
    histograms = {name: entropy_histogram(comparison, name) for name in comparison.runs}
    # One scale for all methods, so that their pictures can be compared.
    top = max(shares.max() for found in histograms.values() for shares in found.shares.values())
    for name, histogram in histograms.items():
        if comparison.ood is not None:
            captions[name] = f"OOD AUROC {comparison.summary(name, 'ood_auroc').value:.3f}"
        drawings[name] = svg(
            one_panel(lambda axes, shown=histogram: plots.draw_entropy(axes, shown, top)),
            f"Histogram of predictive entropies of {name}. {captions.get(name, '')}",
            PANEL,
        )
    ood = comparison.ood
    origin = f"Unfamiliar: {ood.source}. {ood.reason}" if ood else NO_UNFAMILIAR
    guide = ENTROPY_GUIDE if ood else ENTROPY_GUIDE_RIGHT
    return section(
        "uncertainty", "Does it know what it does not know?",
        paragraph(guide), paragraph(origin), panels(drawings, captions),
    )  # fmt: skip


def prediction_section(comparison: Comparison) -> str:
    """Predictions of a quantity with their intervals."""
    shown = {name: shown_predictions(comparison, name) for name in comparison.runs}
    # One scale for all methods, so that their pictures can be compared.
    limits = (
        min(columns["lower"].min() for columns in shown.values()),
        max(columns["upper"].max() for columns in shown.values()),
    )
    drawings = {
        name: svg(
            one_panel(lambda axes, shown=columns: plots.draw_predictions(axes, shown, limits)),
            f"Predicted against true values of {name}",
            PANEL,
        )
        for name, columns in shown.items()
    }
    title = "What was predicted, and how surely?"
    return section("uncertainty", title, paragraph(PREDICTION_GUIDE), panels(drawings, {}))


def rejection_section(comparison: Comparison) -> str:
    """Accuracy, or RMSE, of what is left when the least certain rows are rejected."""
    curves = {name: rejection(comparison, name) for name in comparison.runs}
    title = "RMSE" if comparison.regression else "accuracy"
    tenth = int(np.argmin(np.abs(REJECTED - 0.1)))
    drawings, captions = {}, {}
    for name, own in curves.items():
        shown = f"{own[tenth]:.3g}" if comparison.regression else f"{own[tenth]:.3f}"
        captions[name] = f"{shown} without the least certain tenth"
        others = [curve for other, curve in curves.items() if other != name]
        drawings[name] = svg(
            one_panel(lambda axes, o=own, rest=others: plots.draw_rejection(axes, o, rest, title)),
            f"{title} of {name} against the share of rejected inputs: {captions[name]}",
            PANEL,
        )
    return section(
        "rejection",
        "What if it may say “I do not know”?",
        paragraph(REJECTION_GUIDE_QUANTITIES if comparison.regression else REJECTION_GUIDE),
        panels(drawings, captions),
    )


def training_section(comparison: Comparison) -> str:
    """Training curves."""
    drawings = {
        name: svg(
            one_panel(lambda axes, runs=runs: plots.draw_training(axes, runs)),
            f"Training curve of {name}",
            PANEL,
        )
        for name, runs in comparison.runs.items()
        if runs[0].training is not None
    }
    if not drawings:
        return section("training", "Training curves", paragraph("None were recorded."))
    return section("training", "Training curves", paragraph(TRAINING_GUIDE), panels(drawings, {}))
