"""The comparison as a table on the terminal, or as plain text in a file or pipe."""

from typing import TYPE_CHECKING

from credo.report.columns import headline_columns, headline_rows
from credo.report.conclusion import conclusion, difference_note
from credo.report.notes import (
    baseline_notes,
    data_note,
    ood_note,
    settings_notes,
    warning_notes,
)
from credo.report.results import Comparison

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def comparison_table(comparison: Comparison, mark: str = "") -> "Table":
    """One row per method, the best value of each column in bold and followed by `mark`."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column("method", overflow="fold")
    for column in headline_columns(comparison):
        # A mark takes a place in every cell, so that the digits stay below each other.
        title = column.title + " " * len(mark)
        table.add_column(Text(title), justify="right", no_wrap=True)
    for name, cells in headline_rows(comparison).items():
        texts = [
            Text(cell.text + (mark if cell.best else " " * len(mark)), "bold" if cell.best else "")
            for cell in cells
        ]
        table.add_row(Text(name), *texts)
    return table


def print_table(comparison: Comparison, console: "Console | None" = None) -> None:
    """Print the conclusion, the table and, below it, what its figures mean.

    Without a terminal there is no width to keep to: no column is ever cut, and the best values
    carry a star, since bold would be lost.
    """
    from rich.console import Console
    from rich.measure import Measurement

    console = console or Console()
    plain = not console.is_terminal
    table = comparison_table(comparison, mark="*" if plain else "")
    console.print(conclusion(comparison), highlight=False, markup=False, style="bold")
    console.print()
    if plain:
        needed = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
        Console(file=console.file, width=max(needed, console.width)).print(table)
    else:
        console.print(table)
    console.print()
    for note in notes_below(comparison, "*" if plain else "bold"):
        console.print(note, highlight=False, markup=False)


def notes_below(comparison: Comparison, mark: str) -> list[str]:
    """The sentences below the table."""
    best = f"{mark}: best value of its column; " if len(comparison.runs) > 1 else ""
    notes = [
        f"{best}±: {comparison.error_meaning}.",
        difference_note(comparison),
        data_note(comparison),
        ood_note(comparison),
        *settings_notes(comparison),
        *baseline_notes(comparison),
        *(f"warning: {note}" for note in warning_notes(comparison)),
    ]
    return [note for note in notes if note]
