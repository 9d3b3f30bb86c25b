"""The page of `credo landscape`: what lies between and around several trained networks."""

import os
from collections.abc import Callable
from html import escape
from pathlib import Path

import numpy as np

from credo.files import atomic_path
from credo.landscape import plots
from credo.landscape.findings import MEMBERS, Findings, between, comparable
from credo.report.page import document
from credo.report.sections import one_panel, panels, paragraph, section
from credo.report.svg import svg

WIDE = (5.6, 3.7)
PANEL = (4.4, 3.7)
CONTENTS = {
    "distances": "Distances",
    "functions": "Functions",
    "plane": "Diversity",
    "together": "Together",
    "ways": "Ways",
    "slice": "A slice",
}


def write_landscape(findings: Findings, title: str, setting: str, path: str | os.PathLike) -> None:
    """Write the page to `path`; a failure leaves what was there."""
    page = landscape_page(findings, title, setting)
    with atomic_path(Path(path)) as temporary:
        temporary.write_text(page, "utf-8")


def landscape_page(findings: Findings, title: str, setting: str) -> str:
    """The page as text."""
    makers = (
        distance_section, function_section, plane_section, together_section, ways_section,
        slice_section,
    )  # fmt: skip
    body = "\n".join(make(findings) for make in makers)
    heading = f"{title}: what lies between the solutions?"
    return document(f"{title}: loss landscape", heading, escape(setting), CONTENTS, body)


def figure(name: str, caption: str, draw: Callable, size: tuple[float, float] = WIDE) -> str:
    """One wide drawing with its caption."""
    drawing = svg(one_panel(draw), f"{name}. {caption}", size)
    return panels({name: drawing}, {name: caption}, wide=True)


def distance_section(findings: Findings) -> str:
    apart = between(findings.disagreement)
    drawings = {
        "Cosine of weights": lambda axes: plots.draw_matrix(axes, findings.cosine, 1.0),
        "Disagreement": lambda axes: plots.draw_matrix(
            axes, findings.disagreement, max(apart.max(), 1e-9)
        ),
        "Member 0 on its way": lambda axes: plots.draw_training(axes, findings),
    }
    captions = {
        "Cosine of weights": f"between members {between(findings.cosine).mean():.3f} on average",
        "Disagreement": f"share of test rows, {apart.mean():.3f} on average",
        "Member 0 on its way": "snapshots of one training against its end",
    }
    shown = {
        name: svg(one_panel(draw), f"{name}: {captions[name]}", PANEL)
        for name, draw in drawings.items()
    }
    guide = (
        "Members differ only in their initial weights and batches. Fort et al. (2019) find that "
        "the weights of independent members are nearly orthogonal and that they disagree about "
        "some inputs, while late networks of one training are all but the same."
    )
    return section(
        "distances", "How far apart are they?", paragraph(guide), panels(shown, captions)
    )


def function_section(findings: Findings) -> str:
    caption = f"nearest function is of the same member for {findings.stays:.0%} of late snapshots"
    guide = (
        "Every point is a network, placed by what it predicts on the test rows (t-SNE: neighbours "
        "mean something, far distances and the axes do not). Lines are trainings, stars their "
        "ends; the other marks are samples around member 0 that are about as accurate as a member."
    )
    drawn = figure(
        "Trainings in function space", caption, lambda a: plots.draw_map(a, findings), WIDE
    )
    return section("functions", "Which functions does training find?", paragraph(guide), drawn)


def plane_section(findings: Findings) -> str:
    least = findings.planes[MEMBERS].normalized.min()
    parts = []
    for name in findings.clouds:
        kept = findings.planes[name].normalized[comparable(findings.planes, name)]
        if len(kept):
            parts.append(f"{name} {np.nanmax(kept):.2f}")
    caption = f"members at least {least:.2f}; samples as accurate, at most: {', '.join(parts)}"
    guide = (
        "Disagreement with member 0, as a share of a network's own mistakes, against accuracy. "
        "Samples around one solution that move to the left as they rise buy diversity with "
        "accuracy. The dashed line is where mistakes would be independent. Each value rests on the "
        "test rows alone: with few of them, or few mistakes, the points scatter."
    )
    drawn = figure("Diversity and accuracy", caption, lambda a: plots.draw_plane(a, findings))
    return section("plane", "Is diversity paid for with accuracy?", paragraph(guide), drawn)


def together_section(findings: Findings) -> str:
    """Averaged predictions, as a table."""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{score.accuracy}</td><td>{score.nll}</td>'
        f"<td>{escape(score.note)}</td></tr>"
        for name, score in findings.together.items()
    )
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("", "accuracy", "NLL", ""))
    count = len(findings.accuracy)
    guide = (
        f"Averaged probabilities of {count} networks, ± standard error over the test rows. The "
        "scale of every kind of sample is the one with the best NLL on these very rows, which "
        "flatters the samples."
    )
    table = f'<div class="scroll" tabindex="0"><table><thead><tr>{heads}</tr></thead>'
    table += f"<tbody>{rows}</tbody></table></div>"
    return section("together", "What are they worth together?", paragraph(guide), table)


def ways_section(findings: Findings) -> str:
    barriers = ", ".join(f"{name} {way.barrier:.3f}" for name, way in findings.routes.items())
    drawings = {
        "Loss": svg(
            one_panel(lambda axes: plots.draw_losses(axes, findings)),
            f"Training loss from member 0 to member 1. Barriers: {barriers}", PANEL,
        ),
        "Predictions": svg(
            one_panel(lambda axes: plots.draw_change(axes, findings)),
            "Disagreement with member 0 on the way to member 1", PANEL,
        ),
    }  # fmt: skip
    guide = (
        "From member 0 to member 1: straight; through a tunnel, a quadratic curve whose control "
        "point was trained; and straight after the hidden units of member 1 were put in the order "
        "that matches member 0, which leaves its function as it is. Where the loss stays low and "
        "the predictions change, one valley holds different functions."
    )
    captions = {"Loss": f"barriers: {barriers}", "Predictions": "on test rows"}
    return section("ways", "Is there a way?", paragraph(guide), panels(drawings, captions))


def slice_section(findings: Findings) -> str:
    guide = (
        "The training loss on the plane through members 0, 1 and 2 (stars), colors on a "
        "logarithmic scale; distances are those of weight space."
    )
    caption = f"from {findings.slice.loss.min():.3g} to {findings.slice.loss.max():.3g}"
    drawn = figure("Loss on a plane", caption, lambda a: plots.draw_slice(a, findings))
    return section("slice", "A slice through three solutions", paragraph(guide), drawn)
