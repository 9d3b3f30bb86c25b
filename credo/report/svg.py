"""Matplotlib figures as SVG inside a page, in colors that the page's style sheet decides."""

import io
import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Stand-ins that nobody would choose: once drawn, they become variables of the style sheet, so
# that one drawing serves light and dark.
TEXT, GRID, FIRST, SECOND = "#010101", "#020202", "#030303", "#040404"
VARIABLES = {TEXT: "--ink", GRID: "--line", FIRST: "--first", SECOND: "--second"}
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and selected
    "font.size": 10,
    "text.color": TEXT,
    "axes.edgecolor": GRID,
    "axes.labelcolor": TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": TEXT,
    "ytick.labelcolor": TEXT,
    "legend.frameon": False,
    "legend.fontsize": 9,
}


def svg(draw: Callable[["Figure"], None], label: str, size: tuple[float, float]) -> str:
    """The figure that `draw` fills, as an SVG element without ids, prolog or fixed size.

    Args:
        label: what the figure shows, for readers who cannot see it.
        size: width and height in inches of 72 pixels.
    """
    import matplotlib
    from matplotlib.figure import Figure

    # The salt makes names inside the drawing unique on the page and the same every time.
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": label}):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    return embedded(buffer.getvalue(), label)


def embedded(drawing: str, label: str) -> str:
    """A drawing made fit to stand inside a page."""
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r"<style.*?</style>", "", drawing, flags=re.DOTALL)  # would style the page
    drawing = re.sub(r' (width|height)="[^"]*pt"', "", drawing, count=2)
    drawing = re.sub(r' xmlns(:\w+)?="[^"]*"', "", drawing)  # needed in files, not in pages
    drawing = re.sub(r"font: ([^;'\"]*px) [^;\"]*", r"font: \1 system-ui, sans-serif", drawing)
    for color, variable in VARIABLES.items():
        drawing = drawing.replace(color, f"var({variable})")
    used = set(re.findall(r"#([\w.-]+)", drawing))
    drawing = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", drawing)
    return drawing.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)
