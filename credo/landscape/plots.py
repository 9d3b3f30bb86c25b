"""The pictures of a landscape study, each drawn on axes that the caller brings."""

from typing import TYPE_CHECKING

import numpy as np

from credo.landscape.findings import MEMBERS, Findings
from credo.landscape.functions import independent_disagreement, normalized

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colors that can be told apart on white and on black.
COLORS = ("#3182bd", "#e6550d", "#31a354", "#8f6bc4", "#c9a227", "#d62728")
MARKS = {
    "random directions": ("x", "#7f8c8d"),
    "dropout": ("^", "#d6619e"),
    "diagonal normal": ("s", "#17a2b8"),
    "low-rank normal": ("v", "#9c6b4f"),
    MEMBERS: ("*", "#e6550d"),
}
ROUTE_STYLES = {
    "straight line": ("-", "#e6550d"),
    "tunnel": ("-", "#3182bd"),
    "line after alignment": ("--", "#31a354"),
}


def member_color(index: int) -> str:
    return COLORS[index % len(COLORS)]


def draw_matrix(axes: "Axes", matrix: np.ndarray, highest: float) -> None:
    """Numbers of all pairs of members; the diagonal, the same for all, keeps its color."""
    count = len(matrix)
    axes.grid(False)
    axes.pcolormesh(matrix, cmap="Blues", vmin=0, vmax=highest, edgecolors="white", linewidth=1)
    axes.set(aspect="equal", xlabel="member", ylabel="member")
    ticks = np.arange(count) + 0.5
    axes.set_xticks(ticks, [str(i) for i in range(count)])
    axes.set_yticks(ticks, [str(i) for i in range(count)])
    axes.invert_yaxis()
    if count > 8:
        return
    for row, column in np.ndindex(count, count):
        value = matrix[row, column]
        color = "#ffffff" if value > 0.55 * highest else "#111111"
        shown = f"{value:.3f}" if highest < 0.1 else f"{value:.2f}".replace("-0.00", "0.00")
        axes.text(column + 0.5, row + 0.5, shown, ha="center", va="center", color=color, fontsize=8)


def draw_map(axes: "Axes", findings: Findings) -> None:
    """Trainings as paths in function space, with the samples around member 0."""
    for index, path in enumerate(findings.places):
        color = member_color(index)
        axes.plot(*path.T, color=color, linewidth=0.8, alpha=0.7)
        axes.scatter(path[:, 0], path[:, 1], s=8, color=color)
        axes.scatter(
            path[-1, 0],
            path[-1, 1],
            s=110,
            marker="*",
            color=color,
            label=f"member {index}",
            zorder=3,
        )
    for name, cloud in findings.clouds.items():
        marker, color = MARKS[name]
        axes.scatter(
            cloud[:, 0], cloud[:, 1], s=16, marker=marker, color=color, linewidth=0.8, label=name
        )
    axes.set(xticks=[], yticks=[], xlabel="t-SNE of the predictions")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))


def draw_plane(axes: "Axes", findings: Findings) -> None:
    """Accuracy against normalised disagreement with member 0; the line is chance."""
    base = findings.accuracy[0]
    lowest = max(0.0, 2 * findings.accuracy.min() - 1)  # twice the mistakes: still of use
    reach = np.linspace(lowest, max(findings.accuracy.max(), base), 50)
    reach = reach[reach < 1]
    limit = normalized(independent_disagreement(reach, base, findings.num_classes), reach)
    axes.plot(reach, limit, color="#7f8c8d", linewidth=1, linestyle="--", label="independent")
    for name, plane in findings.planes.items():
        marker, color = MARKS[name]
        size = 90 if name == MEMBERS else 18
        shown = plane.accuracy >= lowest
        axes.scatter(
            plane.accuracy[shown], plane.normalized[shown], s=size, marker=marker, color=color,
            linewidth=0.8, label=name, zorder=3 if name == MEMBERS else 2,
        )  # fmt: skip
    axes.set(xlabel="accuracy", ylabel="disagreement / (1 − accuracy)", ylim=(0, None))
    axes.legend(fontsize=7)


def draw_losses(axes: "Axes", findings: Findings) -> None:
    """The training loss on the way from member 0 to member 1."""
    for name, route in findings.routes.items():
        style, color = ROUTE_STYLES[name]
        axes.plot(findings.times, route.loss, style, color=color, label=name)
    axes.set(xlabel="t", ylabel="training loss", ylim=(0, None))
    axes.legend(fontsize=8)


def draw_change(axes: "Axes", findings: Findings) -> None:
    """Disagreement with member 0 on the same ways."""
    for name, route in findings.routes.items():
        style, color = ROUTE_STYLES[name]
        axes.plot(findings.times, route.change, style, color=color, label=name)
    axes.set(xlabel="t", ylabel="disagreement with member 0", ylim=(0, None))
    axes.legend(fontsize=8)


def draw_slice(axes: "Axes", findings: Findings) -> None:
    """The training loss on the plane through the first three members, on a logarithmic scale."""
    found = findings.slice
    axes.grid(False)
    logs = np.log10(np.maximum(found.loss, 1e-6))
    # What lies far outside would use up the colors.
    levels = np.linspace(logs.min(), np.quantile(logs, 0.95), 15)
    if np.ptp(levels) == 0:
        levels = levels[0] + np.linspace(0, 1, 15)
    drawn = axes.contourf(found.x, found.y, logs, levels, cmap="viridis_r", extend="max")
    for index, corner in enumerate(found.corners):
        axes.plot(*corner, marker="*", markersize=11, color=member_color(index),
                  markeredgecolor="#ffffff", markeredgewidth=0.7)  # fmt: skip
        axes.annotate(f"{index}", corner, (6, 6), textcoords="offset points", color="#ffffff")
    beside = axes.inset_axes((1.04, 0.0, 0.045, 1.0))
    ticks = np.linspace(levels[0], levels[-1], 5)
    bar = axes.figure.colorbar(drawn, cax=beside, ticks=ticks, label="loss")
    bar.set_ticklabels([f"{10**tick:.2g}" for tick in ticks])
    axes.set(aspect="equal", xlabel="distance in weights")


def draw_training(axes: "Axes", findings: Findings) -> None:
    """Snapshots of member 0 against its end: cosine of weights, and disagreement."""
    steps = np.arange(1, len(findings.own_cosine) + 1) / len(findings.own_cosine)
    axes.plot(steps, findings.own_cosine, color="#3182bd", marker=".", label="cosine of weights")
    axes.plot(steps, findings.own_disagreement, color="#e6550d", marker=".", label="disagreement")
    axes.set(xlabel="share of the training", ylabel="with its end", ylim=(0, 1.02))
    axes.legend(fontsize=8, loc="center right")
