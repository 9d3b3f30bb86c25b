"""A result page: our numbers beside the source's, which patterns hold, and the plots."""

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from credo.files import atomic_path


@dataclass(frozen=True)
class Pattern:
    """A claim of the source, and whether our run shows it."""

    claim: str
    holds: bool
    evidence: str


@dataclass(frozen=True)
class Page:
    """What an experiment found. Write it with `write`, print it with `text`."""

    name: str
    title: str
    setting: str
    """What was run: data, network, seeds, time, and where the source is silent."""
    tables: tuple[tuple[str, list[list[str]]], ...] = ()
    """Captions and rows; the first row is the header."""
    patterns: tuple[Pattern, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)
    """matplotlib figures by caption."""
    remarks: str = ""

    def text(self) -> str:
        """The page as Markdown, without its pictures' files."""
        parts = [f"# {self.title}", self.setting.strip()]
        for caption, rows in self.tables:
            parts += [f"**{caption}**", markdown_table(rows)]
        if self.patterns:
            header = [["pattern", "holds", "evidence"]]
            rows = [[p.claim, "yes" if p.holds else "**no**", p.evidence] for p in self.patterns]
            parts += ["## Patterns", markdown_table(header + rows)]
        for index, caption in enumerate(self.figures):
            parts.append(f"![{caption}]({self.name}-{index}.png)\n\n*{caption}*")
        if self.remarks:
            parts += ["## Remarks", self.remarks.strip()]
        parts.append(f"Made by `credo reproduce {self.name}`.")
        return "\n\n".join(parts) + "\n"

    def write(self, folder: Path) -> Path:
        """Write NAME.md and its pictures to `folder`, each complete or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        for index, figure in enumerate(self.figures.values()):
            buffer = io.BytesIO()
            figure.savefig(
                buffer, format="png", dpi=110, bbox_inches="tight", metadata={"Software": ""}
            )
            with atomic_path(folder / f"{self.name}-{index}.png") as temporary:
                temporary.write_bytes(buffer.getvalue())
        path = folder / f"{self.name}.md"
        with atomic_path(path) as temporary:
            temporary.write_text(self.text(), encoding="utf-8")
        return path


def mean_and_spread(values: np.ndarray, digits: int = 2) -> str:
    """Mean ± standard deviation over runs; a single run has a spread of 0."""
    spread = np.std(values, ddof=1) if len(values) > 1 else 0.0
    return f"{np.mean(values):.{digits}f} ± {spread:.{digits}f}"


def markdown_table(rows: list[list[str]]) -> str:
    """Rows of cells as a Markdown table; the first row is the header."""
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def new_figure(columns: int = 1, rows: int = 1, width: float = 4.0, height: float = 3.0) -> Any:
    """A figure and its axes (always a two-dimensional array), drawn off screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)
