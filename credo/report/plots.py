"""What the figures draw, each on axes that the caller brings."""

from typing import TYPE_CHECKING

import numpy as np

from credo.report.numbers import REJECTED, Histogram
from credo.report.results import Run
from credo.report.svg import FIRST, SECOND, TEXT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRACE_LABELS = {"nll": "training NLL", "loss": "training loss", "log_joint": "log joint density"}
SETTLING = 0.1  # share of a run, at its start, that may leave the picture


def draw_reliability(axes: "Axes", runs: tuple[Run, ...]) -> None:
    """What was promised against what came true over all seeds, with 95 % intervals.

    All seeds are judged on the same test rows, so they add no data to an interval.
    """
    total = np.sum([run.reliability.count for run in runs], axis=0)
    filled = total > 0
    promised, happened = (_pooled(runs, index)[filled] for index in (0, 1))
    low, high = wilson(happened, total[filled] / len(runs))
    axes.plot([0, 1], [0, 1], color=TEXT, linewidth=0.8, linestyle="--")
    bars = np.maximum([happened - low, high - happened], 0)
    axes.errorbar(
        promised, happened, bars,
        color=FIRST, linestyle="", marker="o", markersize=5, elinewidth=1.2,
    )  # fmt: skip
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02))


def draw_counts(axes: "Axes", runs: tuple[Run, ...]) -> None:
    """How many test rows have a confidence in each bin, on a logarithmic scale."""
    counts = np.mean([run.reliability.count for run in runs], axis=0)
    edges = np.linspace(0, 1, len(counts) + 1)
    axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color=FIRST, alpha=0.6)
    axes.set_yscale("symlog", linthresh=1)
    powers = 10 ** np.arange(0, max(2, np.ceil(np.log10(counts.max() + 1)) + 1)).astype(int)
    axes.set_yticks(powers[::2], [f"{power:,}" for power in powers[::2]])
    axes.set(ylim=(0, None), ylabel="rows")


def draw_entropy(axes: "Axes", histogram: Histogram, top: float) -> None:
    """Shares of each group by predictive entropy; `top` is the largest share to make room for."""
    for (name, shares), color in zip(histogram.shares.items(), (FIRST, SECOND)):
        axes.stairs(shares, histogram.edges, fill=True, color=color, alpha=0.35)
        axes.stairs(shares, histogram.edges, color=color, linewidth=1.5, label=name)
    axes.set(xlim=(0, histogram.edges[-1]), ylim=(0, 1.05 * top))
    axes.set(xlabel="entropy in nats", ylabel="share")
    axes.legend(loc="upper right")


def draw_predictions(
    axes: "Axes", columns: dict[str, np.ndarray], limits: tuple[float, float]
) -> None:
    """Predicted against true values, with 95 % intervals; `limits` of the vertical axis."""
    truth, mean = columns["truth"], columns["mean"]
    bars = np.maximum([mean - columns["lower"], columns["upper"] - mean], 0)
    ends = [truth.min(), truth.max()]
    axes.plot(ends, ends, color=TEXT, linewidth=0.8, linestyle="--")
    axes.errorbar(
        truth, mean, bars, color=FIRST, linestyle="", marker="o", markersize=3, elinewidth=0.5
    )
    axes.set(xlabel="true value", ylabel="predicted", ylim=limits)


def draw_rejection(axes: "Axes", own: np.ndarray, others: list[np.ndarray], title: str) -> None:
    """What is left at each share of rejected rows; the other methods faint, on the same scale."""
    for curve in others:
        axes.plot(REJECTED, curve, color=TEXT, linewidth=0.9, alpha=0.25)
    axes.plot(REJECTED, own, color=FIRST, linewidth=2)
    values = np.concatenate([own, *others])
    margin = 0.05 * max(np.ptp(values), 1e-3)
    axes.set(xlim=(0, REJECTED[-1]), ylim=(values.min() - margin, values.max() + margin))
    axes.set(xlabel="share rejected", ylabel=f"{title} of the rest")


def draw_training(axes: "Axes", runs: tuple[Run, ...]) -> None:
    """The training curve of every chain and seed; a dotted line where warm-up ends."""
    traces = [run.training for run in runs if run.training is not None]
    for trace in traces:
        for chain in trace.values:
            axes.plot(trace.steps, chain, color=FIRST, linewidth=1, alpha=0.6)
    values = np.concatenate([trace.values[:, settled(trace.steps)].ravel() for trace in traces])
    values = values[np.isfinite(values)]
    if len(values) and np.ptp(values) > 0:
        margin = 0.05 * np.ptp(values)
        axes.set_ylim(values.min() - margin, values.max() + margin)
    if traces[0].num_warmup < traces[0].steps[-1]:
        axes.axvline(traces[0].num_warmup, color=SECOND, linestyle=":", linewidth=1.5)
    axes.set(xlabel="step", ylabel=TRACE_LABELS.get(traces[0].name, traces[0].name))


def settled(steps: np.ndarray) -> np.ndarray:
    """Points after the first moments of a run, whose extremes would flatten all that follows."""
    late = steps >= SETTLING * steps[-1]
    return late if late.sum() > 1 else np.ones_like(late)


def wilson(share: np.ndarray, count: np.ndarray, z: float = 1.96) -> tuple[np.ndarray, np.ndarray]:
    """The interval of a share seen in `count` trials; not empty at shares of 0 and 1.

    Reference: Wilson, "Probable inference, the law of succession, and statistical inference",
    JASA 1927.
    """
    center = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    spread = share * (1 - share) / count + z**2 / (4 * count**2)
    half = z / (1 + z**2 / count) * np.sqrt(spread)
    return center - half, center + half


def _pooled(runs: tuple[Run, ...], index: int) -> np.ndarray:
    """Mean over all seeds of a column of the reliability curves, weighted by counts."""
    counts = np.array([run.reliability.count for run in runs])
    values = np.nan_to_num(np.array([run.reliability[index] for run in runs]))
    return (counts * values).sum(axis=0) / np.maximum(counts.sum(axis=0), 1)
